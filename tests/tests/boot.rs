//! What an ordinary program sees of its machine, and what the machine's owner sees of it.

use std::time::Duration;

use rstest::rstest;
use trireme_tests::guest::Guest;
use trireme_tests::images::image;
use trireme_tests::network::isolate;
use trireme_tools::arch::Arch;
use trireme_tools::qemu::{Machine, Nic};

const LIMIT: Duration = Duration::from_secs(20);

fn machine(program: &str, arch: Arch) -> Machine {
    isolate();
    Machine::new(arch, &image(program, arch).boot)
}

#[rstest]
#[case::x86_64_q35(Arch::X86_64, "q35")]
#[case::x86_64_pc(Arch::X86_64, "pc")]
#[case::x86_64_microvm(Arch::X86_64, "microvm")]
#[case::aarch64_gicv2(Arch::Aarch64, "virt,gic-version=2")]
#[case::aarch64_gicv3(Arch::Aarch64, "virt,gic-version=3")]
#[case::aarch64_el2(Arch::Aarch64, "virt,virtualization=on")]
fn program_says_hello_and_its_status_arrives(#[case] arch: Arch, #[case] kind: &str) {
    let mut machine = machine("hello", arch);
    machine.machine = Some(kind.to_owned());
    machine.append = "env.GREETING=ahoy -- 42 two".to_owned();
    let mut guest = Guest::boot(&machine);
    assert_eq!(guest.exit_status(LIMIT), 42);
    let console = guest.console();
    for line in
        ["hello from std", "argument 0: \"42\"", "argument 1: \"two\"", "GREETING is \"ahoy\""]
    {
        assert!(console.contains(line), "no {line:?} in:\n{console}");
    }
}

#[rstest]
fn status_zero_is_zero(#[values(Arch::X86_64, Arch::Aarch64)] arch: Arch) {
    assert_eq!(Guest::boot(&machine("hello", arch)).exit_status(LIMIT), 0);
}

#[rstest]
fn unknown_boot_arguments_are_named_and_ignored(#[values(Arch::X86_64, Arch::Aarch64)] arch: Arch) {
    let mut machine = machine("hello", arch);
    machine.append = "frobnicate=7 quiet -- 3".to_owned();
    let mut guest = Guest::boot(&machine);
    assert_eq!(guest.exit_status(LIMIT), 3);
    assert!(guest.console().contains("frobnicate"), "{}", guest.console());
}

#[rstest]
fn machine_without_a_card_still_runs_the_program(
    #[values(Arch::X86_64, Arch::Aarch64)] arch: Arch,
) {
    let mut machine = machine("hello", arch);
    machine.nic = Nic::None;
    let mut guest = Guest::boot(&machine);
    assert_eq!(guest.exit_status(LIMIT), 0);
    assert!(guest.console().contains("hello from std"));
}

#[rstest]
fn memory_functions_are_right(#[values(Arch::X86_64, Arch::Aarch64, Arch::Armv4)] arch: Arch) {
    let mut guest = Guest::boot(&machine("copies", arch));
    assert_eq!(guest.exit_status(LIMIT), 0, "{}", guest.console());
    assert!(guest.console().contains("all copies right"));
}

#[test]
fn image_larger_than_memory_says_so() {
    let mut machine = machine("httpd", Arch::X86_64);
    machine.memory = 2;
    let mut guest = Guest::boot(&machine);
    assert_eq!(guest.exit_status(LIMIT), 101);
    assert!(guest.console().contains("too little memory"), "{}", guest.console());
}

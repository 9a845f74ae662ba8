//! A program's faults end the machine with a reason, not in silence and not as if nothing had been.

use std::time::Duration;

use rstest::rstest;
use trireme_tests::guest::Guest;
use trireme_tests::images::image;
use trireme_tests::network::isolate;
use trireme_tools::arch::Arch;
use trireme_tools::qemu::Machine;

#[rstest]
fn fault_is_told_with_a_backtrace(
    #[values("panic", "null", "stack", "thread-stack", "data", "code", "abort")] what: &str,
    #[values(Arch::X86_64, Arch::Aarch64)] arch: Arch,
) {
    told_with_a_backtrace(what, arch);
}

/// All but "data": ARMv4 has no execute-never.
#[rstest]
fn fault_is_told_on_armv4_too(
    #[values("panic", "null", "stack", "thread-stack", "code", "abort")] what: &str,
) {
    told_with_a_backtrace(what, Arch::Armv4);
}

fn told_with_a_backtrace(what: &str, arch: Arch) {
    isolate();
    let mut machine = Machine::new(arch, &image("faults", arch).boot);
    machine.append = format!("-- {what}");
    let mut guest = Guest::boot(&machine);
    let status = guest.exit_status(Duration::from_secs(20));
    let console = guest.console();
    assert_ne!(status, 0, "a fault is no success:\n{console}");
    assert!(console.contains(&format!("about to do {what}")), "{console}");
    assert!(!console.contains("survived"), "{console}");
    let telling = match what {
        "panic" => "wanted by the test",
        "stack" | "thread-stack" => "stack overflow",
        "abort" => "abort",
        _ => "fault",
    };
    assert!(console.to_lowercase().contains(telling), "no {telling:?} in:\n{console}");
    if what != "abort" {
        assert!(console.to_lowercase().contains("backtrace"), "{console}");
    }
}

#[rstest]
fn memory_that_runs_out_is_told(#[values(Arch::X86_64, Arch::Aarch64)] arch: Arch) {
    isolate();
    let mut machine = Machine::new(arch, &image("faults", arch).boot);
    machine.memory = 16;
    machine.append = "-- memory".to_owned();
    let mut guest = Guest::boot(&machine);
    assert_ne!(guest.exit_status(Duration::from_secs(20)), 0);
    let console = guest.console();
    assert!(console.contains("memory allocation of"), "{console}");
    assert!(!console.contains("survived"), "{console}");
}

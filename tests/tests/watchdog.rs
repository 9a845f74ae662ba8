//! The watchdog: it resets a machine that hangs, and leaves one alone that works.

use std::thread::sleep;
use std::time::Duration;

use rstest::rstest;
use trireme_tests::board::{EnvironmentFlash, LIMIT, OnBoard, answers, make, put_on_card};
use trireme_tests::guest::Guest;
use trireme_tests::images::image;
use trireme_tests::network::isolate;
use trireme_tests::web::{machine_on_user_network, serve};
use trireme_tools::arch::Arch;
use trireme_tools::qemu::{Machine, Nic};

fn insert_watchdog(machine: &mut Machine) {
    machine.extra.extend(["-device".into(), "i6300esb".into()]);
}

#[rstest]
fn hung_machine_is_reset(#[values(Arch::X86_64, Arch::Aarch64)] arch: Arch) {
    isolate();
    let mut machine = Machine::new(arch, &image("faults", arch).boot);
    machine.nic = Nic::None;
    machine.append = "watchdog=1 -- hang".to_owned();
    insert_watchdog(&mut machine);
    let mut guest = Guest::boot(&machine);
    // A reset ends this QEMU; nothing else could.
    guest.exit_status(LIMIT);
    let console = guest.console();
    assert!(console.contains("about to do hang") && !console.contains("survived"), "{console}");
}

#[rstest]
fn working_machine_is_kept_alive(#[values(Arch::X86_64, Arch::Aarch64)] arch: Arch) {
    let mut machine = machine_on_user_network(arch);
    machine.append = "watchdog=2".to_owned();
    insert_watchdog(&mut machine);
    let mut guest = serve(&machine);
    sleep(Duration::from_secs(5));
    guest.type_line("wdctl");
    guest.wait_for("Intel 6300ESB: resets after", LIMIT);
    assert!(guest.is_running(), "it was reset");
}

#[test]
fn watchdog_asked_for_in_vain_is_an_error_on_the_console() {
    isolate();
    let mut machine = Machine::new(Arch::X86_64, &image("hello", Arch::X86_64).boot);
    machine.append = "watchdog=1".to_owned();
    let mut guest = Guest::boot(&machine);
    assert_eq!(guest.exit_status(LIMIT), 0);
    assert!(guest.console().contains("this machine has none"), "{}", guest.console());
}

#[test]
fn image_that_hangs_on_trial_gives_way_to_the_other() {
    let append = "watchdog=2 env.FAULT=hang";
    let board = OnBoard::new("qemu-arm64", "httpd", append, None);
    let bad = make(&board.board, "faults", "", None, &board.scratch.file("bad"));
    put_on_card(&board.package.card, &bad.fit, "trireme-b.itb");
    let flash = EnvironmentFlash::new(&board.scratch);
    let mut machine = board.machine();
    flash.insert(&mut machine);
    insert_watchdog(&mut machine);
    let mut guest = Guest::boot(&machine);
    guest.begin_trial(LIMIT);
    answers(&mut guest);
    assert_eq!(guest.console().matches("about to do hang").count(), 2, "{}", guest.console());
    assert_eq!(flash.get("slot").as_deref(), Some("a"));
}

//! The standard library's programs, judged by what Linux answers them.

use std::time::Duration;

use rstest::rstest;
use trireme_tests::guest::Guest;
use trireme_tests::images::{image, native};
use trireme_tests::network::{TAP, ip, isolate, isolate_with_tap, static_address};
use trireme_tests::{program, services};
use trireme_tools::arch::Arch;
use trireme_tools::net::{GUEST_V4, HOST_V4};
use trireme_tools::qemu::{Machine, Network};

/// An address of the test network that nobody has.
const NOBODY: &str = "10.77.0.99";

/// Every answer of `std::net` is the one Linux gives, except where `different` says why not.
#[rstest]
fn socket_answers_are_those_of_linux(#[values(Arch::X86_64, Arch::Aarch64)] arch: Arch) {
    isolate_with_tap();
    ip(&format!("route add default dev {TAP}"));
    services::echo(HOST_V4, 7);
    let mut machine = Machine::new(arch, &image("sockets", arch).boot);
    machine.network = Network::Tap(TAP.to_owned());
    machine.append = format!("{} -- {GUEST_V4} {HOST_V4} {NOBODY}", static_address());
    let mut guest = Guest::boot(&machine);
    guest.wait_for("end of answers", Duration::from_secs(60));
    assert_eq!(guest.exit_status(Duration::from_secs(10)), 0);
    let console = guest.console().replace('\r', "");
    let ours: Vec<&str> = console.lines().collect();
    let sockets = native("sockets");
    // Asked while the guest is gone: the TAP without a carrier makes no difference to these answers.
    let linux = program::succeed(
        sockets.to_str().expect("a UTF-8 path"),
        &[HOST_V4, HOST_V4, NOBODY],
        Duration::from_secs(60),
    );
    let mut wrong = Vec::new();
    let mut at = 0;
    for line in linux.lines() {
        match ours[at..].iter().position(|l| *l == line) {
            Some(found) => at += found + 1,
            None => {
                let what = line.split(": ").next().unwrap_or(line);
                let answer = ours[at..].iter().position(|l| l.split(": ").next() == Some(what));
                wrong.push(format!(
                    "Linux: {line}\n   we: {}",
                    answer.map_or("nothing", |i| ours[at + i])
                ));
                at += answer.map_or(0, |i| i + 1);
            }
        }
    }
    assert!(wrong.is_empty(), "{} answers differ:\n{}", wrong.len(), wrong.join("\n"));
}

#[rstest]
fn threads_locks_and_clocks_behave(#[values(Arch::X86_64, Arch::Aarch64, Arch::Armv4)] arch: Arch) {
    isolate();
    let mut guest = Guest::boot(&Machine::new(arch, &image("threads", arch).boot));
    guest.wait_for("all threads checks passed", Duration::from_secs(120));
    assert_eq!(guest.exit_status(Duration::from_secs(10)), 0);
}

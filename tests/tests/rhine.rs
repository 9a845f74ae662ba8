//! Images on the models of VIA Rhine cards: every chip, checksums by card and by software, faults.

use std::net::TcpStream;
use std::thread;
use std::time::Duration;

use rstest::rstest;
use trireme_tests::capture::{Capture, Frames};
use trireme_tests::console;
use trireme_tests::echo::echo;
use trireme_tests::files::Scratch;
use trireme_tests::guest::Guest;
use trireme_tests::images::image;
use trireme_tests::iperf3::{client, guest_report, octets};
use trireme_tests::network::{TAP, isolate_with_tap, static_address};
use trireme_tests::web::{address, machine_on_tap, machine_on_user_network, serve};
use trireme_tools::arch::Arch;
use trireme_tools::model::Model;
use trireme_tools::net::GUEST_V4;
use trireme_tools::qemu::{Machine, Network, Nic};

/// Bytes echoed.
const SIZE: usize = 2 << 20;
const FROM_GUEST: &str = "tcp and src host 10.77.0.2";

fn machine(chip: &str, faults: &str, append: &str) -> Machine {
    machine_with("echo", chip, faults, append)
}

fn machine_with(program: &str, chip: &str, faults: &str, append: &str) -> Machine {
    isolate_with_tap();
    let mut machine = Machine::new(Arch::X86_64, &image(program, Arch::X86_64).boot);
    machine.network = Network::Tap(TAP.to_owned());
    machine.append = format!("{} {append}", static_address());
    machine.nic = Nic::Model(Model::rhine(chip).with_faults(faults));
    machine
}

fn echo_recorded(machine: &Machine, scratch: &Scratch) -> Frames {
    let _guest = Guest::boot(machine);
    let capture = Capture::start(&scratch.file("frames"));
    echo(SIZE, Duration::from_secs(10));
    capture.stop()
}

#[rstest]
fn every_chip_serves_the_web(
    #[values("vt86c100a", "vt6102", "vt8235", "vt6105", "vt6105m")] chip: &str,
) {
    let mut machine = machine_on_tap(Arch::X86_64);
    machine.nic = Nic::Model(Model::rhine(chip));
    let _guest = serve(&machine);
    let url = format!("{}/64k.bin", address(&machine));
    let got = trireme_tests::program::curl(
        &["-o", "/dev/null", "-w", "%{http_code} %{size_download}", &url],
        Duration::from_secs(20),
    );
    assert_eq!(got, "200 65536");
}

#[test]
fn user_networking_works_behind_the_model() {
    let mut machine = machine_on_user_network(Arch::X86_64);
    machine.nic = Nic::Model(Model::rhine(""));
    let _guest = serve(&machine);
}

#[rstest]
fn checksums_are_right_whoever_makes_them(
    #[values("off", "on", "auto")] checksums: &str,
    #[values("", "seeded-checksum")] reading: &str,
) {
    let append = format!("rhine.tx-checksumming={checksums}");
    let scratch = Scratch::new();
    let frames = echo_recorded(&machine("vt6105m", reading, &append), &scratch);
    assert!(frames.count(FROM_GUEST) > 1000);
    assert_eq!(frames.wrong_checksums(FROM_GUEST), 0);
}

/// iperf3 both ways, every sum on the wire right; `faults` cost nothing but time.
#[rstest]
fn iperf3_runs_both_ways(
    #[values("off", "on", "auto")] checksums: &str,
    #[values("", "tx-underrun=50,tx-abort=500,rx-overflow=500")] faults: &str,
) {
    let append = format!("rhine.tx-checksumming={checksums} -- -s -J");
    let scratch = Scratch::new();
    let guest = Guest::boot(&machine_with("iperf3", "vt6105m", faults, &append));
    for _ in 0..200 {
        if TcpStream::connect((GUEST_V4, 5201)).is_ok() {
            break;
        }
        thread::sleep(Duration::from_millis(100));
    }
    // The kernel's last word, or it might come in the middle of a report.
    guest.wait_for("eth0: fe80", Duration::from_secs(30));
    let capture = Capture::start(&scratch.file("frames"));
    for (number, mode) in ["-n 3M", "-n 3M -R", "-u -n 200K -b 20M"].into_iter().enumerate() {
        let theirs = client(GUEST_V4, mode);
        let ours = guest_report(&guest, number + 1);
        assert_eq!(octets(&ours, "sum_received"), octets(&theirs, "sum_received"), "{mode}");
        assert!(octets(&theirs, "sum_received") > 0, "{mode}");
    }
    let frames = capture.stop();
    let from_guest = "src host 10.77.0.2 and (tcp or udp)";
    assert!(frames.count(from_guest) > 2000);
    assert_eq!(frames.wrong_checksums(from_guest), 0);
}

/// A counter of the card, as the guest's console tells it.
fn counter(guest: &mut Guest, name: &str) -> u64 {
    console::counter(&console::ask(guest, "ethtool -S eth0"), name)
}

/// `proof`: the driver's counter that says the fault has struck; empty where it keeps none.
#[rstest]
#[case("vt6102", "tx-race=300", "tx_writeback_races")]
#[case("vt6105", "tx-underrun=50", "tx_fifo_errors")]
#[case("vt6105m", "tx-abort=300", "tx_aborted_errors")]
#[case("vt6105m", "tx-bad-link=300,tx-unexplained=300", "tx_restarts")]
#[case("vt6105m", "pci-error=300", "resets")]
#[case("vt6105m", "rx-crc=500,rx-runt=500,rx-overflow=200", "rx_stops")]
#[case("vt6105m", "rx-wedge=300", "rx_wedged")]
#[case("vt86c100a", "tx-extra-interrupt,spurious=20", "")]
#[case("vt6105m", "posted-writes,reset=20,slow-eeprom=5", "")]
#[case("vt6102", "asleep,reset=until-forced,eeprom-arms-wake", "")]
fn faults_cost_time_and_nothing_else(
    #[case] chip: &str,
    #[case] faults: &str,
    #[case] proof: &str,
) {
    let mut guest = Guest::boot(&machine(chip, faults, ""));
    echo(SIZE, Duration::from_secs(20));
    if !proof.is_empty() {
        assert!(counter(&mut guest, proof) > 0, "no {proof}: the fault never struck");
    }
}

#[rstest]
fn ports_serve_on_aarch64_too(#[values("vt86c100a", "vt6105m")] chip: &str) {
    let mut machine = machine_on_tap(Arch::Aarch64);
    machine.nic = Nic::Model(Model::rhine(chip));
    let _guest = serve(&machine);
}

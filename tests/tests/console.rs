//! The commands of the console: what they say is true, what they change works.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::thread;
use std::time::Duration;

use rstest::rstest;
use trireme_tests::capture::Capture;
use trireme_tests::console::{ask, counter};
use trireme_tests::files::{Scratch, noise};
use trireme_tests::guest::Guest;
use trireme_tests::images::image;
use trireme_tests::network::{TAP, isolate_with_tap, static_address};
use trireme_tools::arch::Arch;
use trireme_tools::net::GUEST_V4;
use trireme_tools::qemu::{Machine, Network};

const LIMIT: Duration = Duration::from_secs(10);

fn boot(arch: Arch) -> Guest {
    isolate_with_tap();
    let mut machine = Machine::new(arch, &image("echo", arch).boot);
    machine.network = Network::Tap(TAP.to_owned());
    machine.append = static_address();
    let guest = Guest::boot(&machine);
    guest.wait_for("listening, echo on udp", Duration::from_secs(30));
    guest
}

fn echo(seed: u64) {
    let mut stream = TcpStream::connect((GUEST_V4, 7)).unwrap();
    stream.set_read_timeout(Some(LIMIT)).unwrap();
    let sent = noise(seed, 2 << 20);
    let mut writer = stream.try_clone().unwrap();
    let writing = {
        let sent = sent.clone();
        thread::spawn(move || writer.write_all(&sent).unwrap())
    };
    let mut got = vec![0; sent.len()];
    stream.read_exact(&mut got).unwrap();
    writing.join().unwrap();
    assert!(got == sent, "the echo differs");
}

#[rstest]
fn counters_show_that_the_card_did_the_work(
    #[values(Arch::X86_64, Arch::Aarch64, Arch::Armv4)] arch: Arch,
) {
    let mut guest = boot(arch);
    echo(1);
    let statistics = ask(&mut guest, "ethtool -S eth0");
    // Of 2 MiB each way; the headers of a few segments that the stack makes by itself may be among it.
    for name in ["tx_csum_sw_bytes", "rx_csum_sw_bytes"] {
        assert!(counter(&statistics, name) < 200, "payload was summed in software:\n{statistics}");
    }
    assert!(counter(&statistics, "tx_csum_hw") > 0);
    assert!(counter(&statistics, "tx_tso_frames") > 0);
    assert_eq!(counter(&statistics, "tx_gso_frames"), 0);
}

#[rstest]
fn features_are_switched_at_run_time(
    #[values(Arch::X86_64, Arch::Aarch64, Arch::Armv4)] arch: Arch,
) {
    let mut guest = boot(arch);
    echo(1);
    let changed = ask(&mut guest, "ethtool -K eth0 tx off");
    assert!(!changed.contains("error"), "{changed}");
    let features = ask(&mut guest, "ethtool -k eth0");
    assert!(features.contains("tx-checksumming: off"), "{features}");
    let scratch = Scratch::new();
    let capture = Capture::start(&scratch.file("frames"));
    echo(2);
    let frames = capture.stop();
    assert_eq!(frames.wrong_checksums("tcp and src host 10.77.0.2"), 0, "the stack was to sum");
    ask(&mut guest, "ethtool -K eth0 tx on");
    ask(&mut guest, "ethtool -K eth0 tso on");
    ask(&mut guest, "ethtool -K eth0 rx off");
    let before = counter(&ask(&mut guest, "ethtool -S eth0"), "tx_tso_frames");
    echo(3);
    let after = counter(&ask(&mut guest, "ethtool -S eth0"), "tx_tso_frames");
    assert!(after > before, "segmentation came back");
    // While data flows.
    let flow = thread::spawn(|| (4..12).for_each(echo));
    for feature in ["tso", "tx", "rx", "lro", "tso", "rx"] {
        ask(&mut guest, &format!("ethtool -K eth0 {feature} off"));
        ask(&mut guest, &format!("ethtool -K eth0 {feature} on"));
    }
    flow.join().unwrap();
}

#[rstest]
fn console_shows_the_network_and_survives_nonsense(
    #[values(Arch::X86_64, Arch::Aarch64, Arch::Armv4)] arch: Arch,
) {
    let mut guest = boot(arch);
    let addresses = ask(&mut guest, "ip addr");
    for wanted in ["eth0", "52:54:00:12:34:56", "10.77.0.2/24"] {
        assert!(addresses.contains(wanted), "no {wanted} in:\n{addresses}");
    }
    assert!(ask(&mut guest, "ss -tuln").contains("[::]:7"));
    assert!(ask(&mut guest, "dmesg").contains("eth0"));
    for nonsense in [
        "ethtool",
        "ethtool -K",
        "ethtool -K eth9 tx off",
        "ethtool -K eth0 sail on",
        "ip",
        "ip addr addr",
        "\x01\x7f\t",
    ] {
        guest.type_line(nonsense);
    }
    guest.type_line(&"x".repeat(5000));
    guest.type_line("");
    ask(&mut guest, "help");
    echo(1);
    guest.type_line("poweroff");
    assert_eq!(guest.exit_status(LIMIT), 0);
}

//! Images on the models of RAVB cards: R-Car Gen2 and Gen3, and RZ/G2L's GbEth with its checksum engine.

use std::thread;
use std::time::Duration;

use rstest::rstest;
use trireme_tests::capture::Capture;
use trireme_tests::console;
use trireme_tests::echo::echo;
use trireme_tests::files::Scratch;
use trireme_tests::guest::Guest;
use trireme_tests::images::image;
use trireme_tests::network::{TAP, isolate_with_tap, static_address};
use trireme_tests::program::{curl, succeed};
use trireme_tests::web::{address, machine_on_tap, serve};
use trireme_tools::arch::Arch;
use trireme_tools::model::Model;
use trireme_tools::net::GUEST_V4;
use trireme_tools::qemu::{Machine, Network, Nic};

/// Bytes echoed.
const SIZE: usize = 2 << 20;
const FROM_GUEST: &str = "tcp and src host 10.77.0.2";
const LIMIT: Duration = Duration::from_secs(30);

fn machine(app: &str, model: Model, append: &str) -> Machine {
    isolate_with_tap();
    let mut machine = Machine::new(Arch::Aarch64, &image(app, Arch::Aarch64).boot);
    machine.network = Network::Tap(TAP.to_owned());
    machine.append = format!("{} {append}", static_address());
    machine.nic = Nic::Model(model);
    machine
}

/// A counter of the card, as the guest's console tells it.
fn counter(guest: &mut Guest, name: &str) -> u64 {
    console::counter(&console::ask(guest, "ethtool -S eth0"), name)
}

#[rstest]
fn every_variant_serves_the_web(#[values("gen2", "gen3", "gbeth")] variant: &str) {
    let mut machine = machine_on_tap(Arch::Aarch64);
    machine.nic = Nic::Model(Model::ravb(variant));
    let _guest = serve(&machine);
    let url = format!("{}/64k.bin", address(&machine));
    let got = curl(&["-o", "/dev/null", "-w", "%{http_code} %{size_download}", &url], LIMIT);
    assert_eq!(got, "200 65536");
}

#[rstest]
fn the_card_sums_what_it_can(#[values("gen2", "gen3", "gbeth")] variant: &str) {
    let mut guest = Guest::boot(&machine("echo", Model::ravb(variant), ""));
    echo(SIZE, LIMIT);
    // Of 2 MiB; a few headers the stack checks by itself may be among it.
    assert!(counter(&mut guest, "rx_csum_sw_bytes") < 200);
    if variant == "gbeth" {
        assert!(counter(&mut guest, "tx_csum_sw_bytes") < 200);
        assert!(counter(&mut guest, "tx_csum_hw") > 1000);
    } else {
        assert!(counter(&mut guest, "rx_csum_complete") > 1000);
        assert_eq!(counter(&mut guest, "tx_csum_hw"), 0, "R-Car sums received frames only");
    }
}

#[rstest]
fn checksums_on_the_wire_are_right(
    #[values("gen3", "gbeth")] variant: &str,
    #[values("on", "off")] sums: &str,
    #[values("", "seeded-checksum")] reading: &str,
) {
    let append =
        if variant == "gbeth" { format!("eth0.tx-checksumming={sums}") } else { String::new() };
    let scratch = Scratch::new();
    let model = Model::ravb(variant).with_faults(reading);
    let guest = Guest::boot(&machine("echo", model, &append));
    let capture = Capture::start(&scratch.file("frames"));
    echo(SIZE, LIMIT);
    let frames = capture.stop();
    assert!(frames.count(FROM_GUEST) > 1000);
    assert_eq!(frames.wrong_checksums(FROM_GUEST), 0);
    assert!(!guest.console().contains("not understood"));
}

/// Bits changed on the way to the guest: found by the card or by software, counted, and never echoed.
#[rstest]
fn corruption_on_the_wire_reaches_no_program(
    #[values("gen2", "gen3", "gbeth")] variant: &str,
    #[values("on", "off")] sums: &str,
) {
    let append = format!("eth0.rx-checksumming={sums}");
    let mut guest = Guest::boot(&machine("echo", Model::ravb(variant), &append));
    echo(SIZE, LIMIT);
    // Datagrams of many lengths, a bit of each payload flipped after the sum was made.
    let script = "from scapy.all import *\n\
        m = getmacbyip('10.77.0.2')\n\
        for n in range(40):\n\
        \x20   f = bytearray(bytes(Ether(dst=m)/IP(dst='10.77.0.2')/UDP(sport=4000+n, dport=7)/(b'x'*(1+n*36))))\n\
        \x20   f[42 + n*17 % (1+n*36)] ^= 1 << n % 8\n\
        \x20   sendp(Raw(bytes(f)), iface='tap0', verbose=0)\n";
    let scratch = Scratch::new();
    let capture = Capture::start(&scratch.file("frames"));
    succeed("/usr/bin/python3", &["-c", script], LIMIT);
    for _ in 0..50 {
        if counter(&mut guest, "rx_csum_bad_udp") >= 40 {
            break;
        }
        thread::sleep(Duration::from_millis(100));
    }
    assert_eq!(counter(&mut guest, "rx_csum_bad_udp"), 40);
    // tcpdump reads what it has taken in large pieces.
    thread::sleep(Duration::from_millis(500));
    let frames = capture.stop();
    assert!(frames.count("udp and dst host 10.77.0.2 and dst port 7") > 0);
    assert_eq!(frames.count("udp and src host 10.77.0.2"), 0, "none was echoed");
    assert_eq!(counter(&mut guest, "rx_csum_bad_tcp"), 0);
    echo(SIZE, LIMIT);
}

#[rstest]
fn iperf3_both_ways(#[values("gen2", "gen3", "gbeth")] variant: &str) {
    let guest = Guest::boot(&machine("iperf3", Model::ravb(variant), "-- -s"));
    guest.wait_for("Server listening on 5201", LIMIT);
    for direction in ["", "-R"] {
        let mut words = vec!["-c", GUEST_V4, "-n", "4M"];
        words.extend((!direction.is_empty()).then_some(direction));
        let said = succeed("iperf3", &words, LIMIT);
        assert!(said.contains("receiver"), "{said}");
    }
}

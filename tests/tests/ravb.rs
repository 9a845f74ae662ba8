//! Images on the models of RAVB cards: R-Car Gen2 and Gen3, and RZ/G2L's GbEth with its checksum engine.

use std::io::{Read, Write};
use std::net::{IpAddr, TcpStream, UdpSocket};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use rstest::rstest;
use trireme_tests::capture::Capture;
use trireme_tests::console::{self, ask};
use trireme_tests::echo::{echo, echo_at};
use trireme_tests::files::{Scratch, noise};
use trireme_tests::guest::Guest;
use trireme_tests::images::image;
use trireme_tests::iperf3::{client, guest_report, octets};
use trireme_tests::network::{TAP, ip, isolate_with_tap, static_address};
use trireme_tests::program::{curl, succeed};
use trireme_tests::web::{address, machine_on_tap, serve};
use trireme_tools::arch::Arch;
use trireme_tools::model::Model;
use trireme_tools::net::{GUEST_V4, HOST_V4};
use trireme_tools::qemu::{Machine, Network, Nic};

/// Bytes echoed.
const SIZE: usize = 2 << 20;
const FROM_GUEST: &str = "(src host 10.77.0.2 or src host fd77::2) and (tcp or udp)";
const GUEST_V6: &str = "fd77::2";
const LIMIT: Duration = Duration::from_secs(30);

fn machine(app: &str, model: Model, append: &str) -> Machine {
    isolate_with_tap();
    let mut machine = Machine::new(Arch::Aarch64, &image(app, Arch::Aarch64).boot);
    machine.network = Network::Tap(TAP.to_owned());
    machine.append = format!("{} ip=[{GUEST_V6}]/64:::::eth0:off {append}", static_address());
    machine.nic = Nic::Model(model);
    machine
}

/// A counter of the card, as the guest's console tells it.
fn counter(guest: &mut Guest, name: &str) -> u64 {
    console::counter(&ask(guest, "ethtool -S eth0"), name)
}

/// A datagram of noise to the guest and back; `None` if none came.
fn echo_datagram(socket: &UdpSocket, seed: u64, size: usize) -> Option<()> {
    let sent = noise(seed, size);
    socket.send(&sent).unwrap();
    let mut got = vec![0; size + 1];
    let length = socket.recv(&mut got).ok()?;
    assert!(got[..length] == sent, "a datagram of {size} bytes came back as another");
    Some(())
}

/// A socket for datagrams to the guest's echo.
fn datagrams(guest: &str, patience: Duration) -> UdpSocket {
    let any = if guest.contains(':') { "[::]:0" } else { "0.0.0.0:0" };
    let socket = UdpSocket::bind(any).unwrap();
    socket.connect((guest, 7)).unwrap();
    socket.set_read_timeout(Some(patience)).unwrap();
    socket
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

/// TCP and UDP by IPv4 and IPv6. `reading`: of what is not known of the engine, the other possibility.
#[rstest]
#[case("gen2", "on", "")]
#[case("gen3", "on", "")]
#[case("gen3", "off", "")]
#[case("gbeth", "on", "")]
#[case("gbeth", "on", "seeded-checksum")]
#[case("gbeth", "off", "")]
fn sums_on_the_wire_are_right_whoever_makes_them(
    #[case] variant: &str,
    #[case] sums: &str,
    #[case] reading: &str,
) {
    let mut append = format!("eth0.rx-checksumming={sums}");
    let transmits = variant == "gbeth";
    if transmits {
        append += &format!(" eth0.tx-checksumming={sums}");
    }
    let scratch = Scratch::new();
    let mut guest =
        Guest::boot(&machine("echo", Model::ravb(variant).with_faults(reading), &append));
    let capture = Capture::start(&scratch.file("frames"));
    for guest in [GUEST_V4, GUEST_V6] {
        echo_at(guest.parse::<IpAddr>().unwrap(), SIZE / 2, LIMIT);
        let socket = datagrams(guest, Duration::from_secs(5));
        for size in [1, 2, 17, 18, 19, 1000, 1452] {
            echo_datagram(&socket, 7, size).expect("an answer");
        }
    }
    let frames = capture.stop();
    assert!(frames.count(&format!("ip and {FROM_GUEST}")) > 500);
    assert!(frames.count(&format!("ip6 and {FROM_GUEST}")) > 500);
    assert_eq!(frames.wrong_checksums(FROM_GUEST), 0);
    assert!(!guest.console().contains("not understood"));

    let shown = ask(&mut guest, "ethtool -S eth0");
    let count = |name: &str| console::counter(&shown, name);
    let (size, little) = (SIZE as u64, 200);
    // With the card's help nothing is summed but a few of the stack's own small packets; without, each byte is.
    if sums == "on" {
        assert!(count("rx_csum_sw_bytes") < little, "{shown}");
        let by_card = if transmits { "rx_csum_hw" } else { "rx_csum_complete" };
        assert!(count(by_card) > 1000, "{shown}");
    } else {
        assert!(count("rx_csum_sw_bytes") > size, "{shown}");
        assert_eq!(count("rx_csum_hw") + count("rx_csum_complete"), 0, "{shown}");
    }
    if transmits && sums == "on" {
        // UDP over IPv6 is not left to the engine.
        assert!(count("tx_csum_sw_bytes") < little + 7 * 1460, "{shown}");
        assert!(count("tx_csum_hw") > 1000, "{shown}");
    } else {
        assert!(count("tx_csum_sw_bytes") > size, "{shown}");
        assert_eq!(count("tx_csum_hw"), 0, "R-Car sums received frames only");
    }
}

/// Bits change on the way to the guest, behind the FCS: found by the card or by software, counted, never echoed.
#[rstest]
fn corruption_on_the_wire_reaches_no_program(
    #[values("gen2", "gen3", "gbeth")] variant: &str,
    #[values("on", "off")] sums: &str,
) {
    let mut model = Model::ravb(variant);
    model.rx_wire_faults = "corruption=5".to_owned();
    let mut guest = Guest::boot(&machine("echo", model, &format!("eth0.rx-checksumming={sums}")));
    // ARP has no checksum: what it says is not what is tried here.
    ip(&format!("neigh replace {GUEST_V4} lladdr 2e:09:0a:00:00:01 dev {TAP} nud permanent"));
    echo(SIZE / 2, LIMIT);
    let socket = datagrams(GUEST_V4, Duration::from_millis(50));
    // Of many lengths. One that was late would be taken for the next one's answer: a socket each for what follows a loss.
    let mut lost = 0;
    let mut current = socket;
    for n in 0..400 {
        if echo_datagram(&current, n, 1 + n as usize * 3).is_none() {
            lost += 1;
            current = datagrams(GUEST_V4, Duration::from_millis(50));
        }
    }
    let shown = ask(&mut guest, "ethtool -S eth0");
    let bad = |what: &str| console::counter(&shown, &format!("rx_csum_bad_{what}"));
    assert!(bad("tcp") > 10, "{shown}");
    // The others had it in the Ethernet header, or in IPv4's.
    assert!(lost >= 10 && bad("udp") >= 8 && bad("udp") <= lost, "{lost} lost\n{shown}");
    assert_eq!(console::counter(&shown, "rx_csum_card_wrong"), 0);
}

#[rstest]
fn iperf3_runs_both_ways(#[values("gen2", "gen3", "gbeth")] variant: &str) {
    let scratch = Scratch::new();
    let guest = Guest::boot(&machine("iperf3", Model::ravb(variant), "-- -s -J"));
    // The kernel's last word, or it might come in the middle of a report.
    guest.wait_for("eth0: fe80", LIMIT);
    let capture = Capture::start(&scratch.file("frames"));
    for (number, mode) in ["-n 4M", "-n 4M -R", "-u -n 200K -b 20M"].into_iter().enumerate() {
        let theirs = client(GUEST_V4, mode);
        let ours = guest_report(&guest, number + 1);
        assert_eq!(octets(&ours, "sum_received"), octets(&theirs, "sum_received"), "{mode}");
        assert!(octets(&theirs, "sum_received") > 0, "{mode}");
    }
    let frames = capture.stop();
    assert!(frames.count(FROM_GUEST) > 2000);
    assert_eq!(frames.wrong_checksums(FROM_GUEST), 0);
}

/// `most`: the MTU; `arrives`: bytes of the longest packet that is received whole, which need not follow the MTU.
#[rstest]
#[case("gen2", 2025, 2025)]
#[case("gen3", 2025, 2025)]
#[case("gbeth", 1500, 7000)]
fn the_longest_frames_pass(#[case] variant: &str, #[case] most: u16, #[case] arrives: u16) {
    let mut machine = machine("echo", Model::ravb(variant), "");
    let address =
        |mtu: u16| format!("ip={GUEST_V4}::{HOST_V4}:255.255.255.0:trireme:eth0:off:{mtu}");
    machine.append = address(most);
    ip(&format!("link set {TAP} mtu {arrives}"));
    let scratch = Scratch::new();
    let mut guest = Guest::boot(&machine);
    echo(1, LIMIT);
    assert!(
        ask(&mut guest, "ip addr")
            .contains(&format!("eth0: <BROADCAST,MULTICAST,UP,LOWER_UP> mtu {most} "))
    );
    let capture = Capture::start(&scratch.file("frames"));
    echo(SIZE, LIMIT);
    for size in [most, arrives] {
        let payload = (size - 28).to_string();
        succeed("ping", &["-M", "do", "-c", "3", "-i", "0.2", "-s", &payload, GUEST_V4], LIMIT);
    }
    let frames = capture.stop();
    let full = format!("{FROM_GUEST} and greater {} and less {}", most + 14 - 8, most + 14);
    assert!(frames.count(&full) > 500, "full frames");
    assert_eq!(frames.count(&format!("src host {GUEST_V4} and greater {}", most + 15)), 0);
    assert_eq!(frames.wrong_checksums(&format!("src host {GUEST_V4}")), 0);
    assert_eq!(counter(&mut guest, "rx_chained") > 0, arrives > most);
    drop(guest);
    // One more is refused, and the card serves with what it has.
    machine.append = address(most + 1);
    let guest = Guest::boot(&machine);
    guest.wait_for(&format!("no MTU of {}; it can be {most} at most", most + 1), LIMIT);
    echo(SIZE / 8, LIMIT);
}

/// On boards devices do not see the caches: rings are uncached there, and every buffer is cleaned or invalidated.
#[rstest]
fn dma_may_go_past_the_caches(#[values("gen3", "gbeth")] variant: &str) {
    let scratch = Scratch::new();
    let mut machine = machine("echo", Model::ravb(variant), "");
    machine.without_coherence(&scratch.file("tree")).unwrap();
    let mut guest = Guest::boot(&machine);
    echo(SIZE, LIMIT);
    assert!(counter(&mut guest, "rx_csum_sw_bytes") < 200);
}

/// Features are switched from the console while data flows both ways: it stays right, and who sums changes each time.
#[rstest]
fn features_are_switched_under_traffic(#[values("gen2", "gen3", "gbeth")] variant: &str) {
    let mut guest = Guest::boot(&machine("echo", Model::ravb(variant), ""));
    echo(1, LIMIT);
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        let traffic = scope.spawn(|| {
            while !stop.load(Ordering::Relaxed) {
                echo(SIZE / 4, LIMIT);
            }
        });
        // Also when the rest fails.
        let switching = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            let receive = if variant == "gbeth" { "rx_csum_hw" } else { "rx_csum_complete" };
            for round in 0..10 {
                let to = if round % 2 == 0 { "off" } else { "on" };
                let mut sides = vec![(receive, "rx_csum_sw")];
                ask(&mut guest, &format!("ethtool -K eth0 rx {to}"));
                if variant == "gbeth" {
                    ask(&mut guest, &format!("ethtool -K eth0 tx {to}"));
                    sides.push(("tx_csum_hw", "tx_csum_sw"));
                }
                for (card, software) in sides {
                    let busy = if to == "on" { card } else { software };
                    let before = counter(&mut guest, busy);
                    let deadline = Instant::now() + LIMIT;
                    while counter(&mut guest, busy) < before + 50 {
                        assert!(Instant::now() < deadline, "{busy} stands still");
                    }
                }
            }
            let shown = ask(&mut guest, "ethtool -S eth0");
            assert!(console::counter(&shown, "checksum_switches") >= 10, "{shown}");
            for bad in ["rx_csum_bad_tcp", "rx_csum_card_wrong", "tx_timeouts", "queue_errors"] {
                assert_eq!(console::counter(&shown, bad), 0, "{bad}");
            }
        }));
        stop.store(true, Ordering::Relaxed);
        traffic.join().expect("the data stays right");
        if let Err(panic) = switching {
            std::panic::resume_unwind(panic);
        }
    });
}

/// The cable is pulled and put back under a client: its connection goes on. Gen3 has the link's pin, GbEth asks its PHY.
#[rstest]
fn a_connection_outlives_the_link(#[values("gen3", "gbeth")] variant: &str) {
    let model = Model::ravb(variant).with_faults("link-flap=2000");
    let mut guest = Guest::boot(&machine("echo", model, ""));
    echo(1, LIMIT);
    let mut stream = TcpStream::connect((GUEST_V4, 7)).unwrap();
    stream.set_read_timeout(Some(LIMIT)).unwrap();
    let mut longest = Duration::ZERO;
    let start = Instant::now();
    for seed in 0.. {
        let (before, sent) = (Instant::now(), noise(seed, 20_000));
        stream.write_all(&sent).unwrap();
        let mut got = vec![0; sent.len()];
        stream.read_exact(&mut got).expect("the connection outlives the link");
        assert!(got == sent, "the echo differs");
        longest = longest.max(before.elapsed());
        if longest > Duration::from_secs(1) && start.elapsed() > Duration::from_secs(4) {
            break;
        }
        assert!(start.elapsed() < LIMIT, "the link never went");
        thread::sleep(Duration::from_millis(5));
    }
    assert!(counter(&mut guest, "link_changes") >= 2);
    assert_eq!(counter(&mut guest, "reset_failures"), 0);
}

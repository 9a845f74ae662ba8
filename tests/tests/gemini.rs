//! Images on the model of the Gemini's Ethernet ports: a large write is cut by the card, on and off. On ARMv4, the
//! Gemini's own kind of processor, where a test does not say otherwise.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use rstest::rstest;
use trireme_tests::capture::{Capture, Frames};
use trireme_tests::console;
use trireme_tests::echo::{echo, echo_at};
use trireme_tests::files::Scratch;
use trireme_tests::guest::Guest;
use trireme_tests::images::image;
use trireme_tests::network::{TAP, ip, isolate_with_tap, static_address, tap};
use trireme_tests::program::{curl, succeed};
use trireme_tests::vlan;
use trireme_tests::web::{address, machine_on_tap, serve};
use trireme_tools::arch::Arch;
use trireme_tools::model::Model;
use trireme_tools::net::GUEST_V4;
use trireme_tools::qemu::{Machine, Network, Nic};

/// Bytes echoed.
const SIZE: usize = 1 << 20;
const FROM_GUEST: &str = "tcp and src host 10.77.0.2";
const LIMIT: Duration = Duration::from_secs(30);

fn model() -> Model {
    Model::gemini("fixed")
}

/// A machine on the TAP, whose namespace is there already.
fn machine_there(arch: Arch, app: &str, append: &str) -> Machine {
    let mut machine = Machine::new(arch, &image(app, arch).boot);
    machine.network = Network::Tap(TAP.to_owned());
    machine.append = append.to_owned();
    machine.nic = Nic::Model(model());
    machine
}

fn machine_of(arch: Arch, app: &str, append: &str) -> Machine {
    isolate_with_tap();
    machine_there(arch, app, &format!("{} {append}", static_address()))
}

fn machine(app: &str, append: &str) -> Machine {
    machine_of(Arch::Armv4, app, append)
}

/// A counter of the card, as the guest's console tells it.
fn counter(guest: &mut Guest, name: &str) -> u64 {
    console::counter(&console::ask(guest, "ethtool -S eth0"), name)
}

/// Sequence numbers of the segments tcpdump shows, first and behind the last each.
fn segments(text: &str) -> Vec<(u32, u32)> {
    let number = |text: &str| text.trim_end_matches(',').parse::<u32>().ok();
    text.split("seq ")
        .skip(1)
        .filter_map(|rest| {
            let (first, end) = rest.split_whitespace().next()?.split_once(':')?;
            Some((number(first)?, number(end)?))
        })
        .collect()
}

/// What any transfer of ours must look like on the wire.
fn is_right(frames: &Frames, filter: &str, longest: u32) {
    assert_eq!(frames.wrong_checksums(filter), 0);
    assert_eq!(frames.count(&format!("{filter} and greater {}", longest + 1)), 0, "too long");
}

#[rstest]
fn it_serves_the_web(#[values(Arch::Aarch64, Arch::X86_64, Arch::Armv4)] arch: Arch) {
    let mut machine = machine_on_tap(arch);
    machine.nic = Nic::Model(model());
    let _guest = serve(&machine);
    let url = format!("{}/64k.bin", address(&machine));
    let got = curl(&["-o", "/dev/null", "-w", "%{http_code} %{size_download}", &url], LIMIT);
    assert_eq!(got, "200 65536");
}

/// On a processor of the card's own kind, too.
#[rstest]
fn a_large_write_is_one_chain_and_many_full_segments(
    #[values(Arch::Aarch64, Arch::Armv4)] arch: Arch,
) {
    let scratch = Scratch::new();
    let mut guest = Guest::boot(&machine_of(arch, "echo", ""));
    let capture = Capture::start(&scratch.file("frames"));
    echo(SIZE, LIMIT);
    let (chains, cut) = (counter(&mut guest, "tx_packets"), counter(&mut guest, "tx_tso"));
    let frames = capture.stop();
    is_right(&frames, FROM_GUEST, 1514);
    let full = frames.count(&format!("{FROM_GUEST} and greater 1514"));
    assert!(full > SIZE / 1460 / 2, "{full} full-size segments");
    assert!(cut > 5 && chains < full as u64 / 2, "{chains} chains, {cut} cut, {full} full frames");
    // Every byte once and in order: a new segment begins where the last ended.
    let seen = segments(&frames.matching(FROM_GUEST));
    assert!(seen.windows(2).all(|pair| pair[1].0 == pair[0].1), "a gap or an overlap");
    assert_eq!(seen.last().map(|last| last.1), Some(SIZE as u32 + 1));
    // Software sums a header here and there.
    assert!(counter(&mut guest, "tx_csum_sw_bytes") < 200);
    assert!(counter(&mut guest, "rx_csum_sw_bytes") < 200);
}

#[test]
fn segmentation_goes_off_and_on_under_traffic() {
    let scratch = Scratch::new();
    let mut guest = Guest::boot(&machine("echo", ""));
    echo(1000, LIMIT);
    let capture = Capture::start(&scratch.file("frames"));
    let done = AtomicBool::new(false);
    thread::scope(|scope| {
        let traffic = scope.spawn(|| {
            let mut rounds = 0;
            while !done.load(Ordering::Relaxed) {
                echo(SIZE, LIMIT);
                rounds += 1;
            }
            rounds
        });
        for _ in 0..3 {
            for features in ["tso off", "tx off", "rx off", "tx on rx on tso on"] {
                console::ask(&mut guest, &format!("ethtool -K eth0 {features}"));
                thread::sleep(Duration::from_millis(100));
            }
        }
        done.store(true, Ordering::Relaxed);
        assert!(traffic.join().unwrap() > 0);
    });
    let frames = capture.stop();
    is_right(&frames, FROM_GUEST, 1514);
    // Off, nothing is cut by the card; on, it is.
    console::ask(&mut guest, "ethtool -K eth0 tso off");
    let before = counter(&mut guest, "tx_tso");
    echo(SIZE, LIMIT);
    assert_eq!(counter(&mut guest, "tx_tso"), before);
    console::ask(&mut guest, "ethtool -K eth0 tso on");
    echo(SIZE, LIMIT);
    assert!(counter(&mut guest, "tx_tso") > before);
    assert_eq!(counter(&mut guest, "resets"), 0);
}

#[test]
fn a_lossy_wire_and_a_card_that_hangs_lose_no_byte() {
    let mut machine = machine("echo", "");
    let mut faulty = model().with_faults("tx-hang=12,tx-error=60,rx-crc=300");
    faulty.wire_faults = "loss=1".to_owned();
    machine.nic = Nic::Model(faulty);
    let mut guest = Guest::boot(&machine);
    // A large write is one request to the card, so there are few, and when it hangs is drawn.
    let hung = (0..20).any(|_| {
        echo(SIZE / 8, LIMIT);
        counter(&mut guest, "tx_hangs") > 0
    });
    assert!(hung && counter(&mut guest, "resets") > 0);
}

/// [docs/hardware/gemini.md 8.7]: what the card can send in one piece.
#[test]
fn the_largest_mtu_is_used_and_its_datagrams_bypass_the_engine() {
    let scratch = Scratch::new();
    isolate_with_tap();
    ip(&format!("link set {TAP} mtu 2029"));
    let append = format!("{}:2029", static_address());
    let mut guest = Guest::boot(&machine_there(Arch::Armv4, "echo", &append));
    echo(1000, LIMIT);
    let capture = Capture::start(&scratch.file("frames"));
    echo(SIZE, LIMIT);
    for size in ["1472", "1474", "1800", "2001"] {
        succeed("ping", &["-c", "2", "-i", "0.2", "-M", "do", "-s", size, GUEST_V4], LIMIT);
    }
    let frames = capture.stop();
    is_right(&frames, "src host 10.77.0.2", 2043);
    assert!(frames.count(&format!("{FROM_GUEST} and greater 2043")) > SIZE / 2000 / 2);
    assert!(counter(&mut guest, "tx_bypass") >= 6);
    assert!(counter(&mut guest, "tx_tso") > 5);
}

#[test]
fn frames_with_a_tag_are_cut_too() {
    let scratch = Scratch::new();
    let append = vlan::isolate_with_vlan();
    let mut guest = Guest::boot(&machine_there(Arch::Armv4, "echo", &append));
    echo_at(vlan::GUEST, 1000, LIMIT);
    let capture = Capture::start(&scratch.file("frames"));
    echo_at(vlan::GUEST, SIZE, LIMIT);
    let frames = capture.stop();
    let tagged = "vlan 5 and tcp and src host 10.85.0.2";
    is_right(&frames, tagged, 1518);
    assert!(frames.count(&format!("{tagged} and greater 1518")) > SIZE / 1460 / 2);
    assert!(counter(&mut guest, "tx_tso") > 5);
}

#[test]
fn both_ports_carry_traffic_at_once() {
    isolate_with_tap();
    tap("tap1");
    ip("addr add 10.78.0.1/24 dev tap1");
    ip("link set tap1 up");
    let append = format!("{} ip=10.78.0.2:::255.255.255.0::eth1:off", static_address());
    let mut machine = machine_there(Arch::Armv4, "echo", &append);
    let mut both = model();
    both.more_taps = vec!["tap1".to_owned()];
    machine.nic = Nic::Model(both);
    let mut guest = Guest::boot(&machine);
    thread::scope(|scope| {
        scope.spawn(|| echo_at("10.78.0.2", SIZE, LIMIT));
        echo(SIZE, LIMIT);
    });
    for card in ["eth0", "eth1"] {
        let said = console::ask(&mut guest, &format!("ethtool -S {card}"));
        assert!(console::counter(&said, "tx_tso") > 5, "{card}: {said}");
    }
}

/// A board whose ports have PHYs: found over two GPIO lines, negotiated, asked.
#[test]
fn links_of_a_wbd222_are_its_phys() {
    let mut machine = machine("echo", "");
    machine.nic = Nic::Model(Model::gemini("wbd222"));
    let mut guest = Guest::boot(&machine);
    echo(SIZE, LIMIT);
    let said = console::ask(&mut guest, "ethtool eth0");
    assert!(said.contains("1000Mb/s") && said.contains("Link detected: yes"), "{said}");
    // Nothing is plugged into the other.
    assert!(console::ask(&mut guest, "ethtool eth1").contains("Link detected: no"));
}

/// A DIR-685: what leaves is cut behind the switch's tag, which nobody outside sees.
#[test]
fn a_dir_685_answers_through_its_switch() {
    let scratch = Scratch::new();
    let mut machine = machine("echo", "");
    machine.nic = Nic::Model(Model::gemini("dir685"));
    let mut guest = Guest::boot(&machine);
    echo(1000, LIMIT);
    let capture = Capture::start(&scratch.file("frames"));
    echo(SIZE, LIMIT);
    let frames = capture.stop();
    is_right(&frames, FROM_GUEST, 1514);
    assert!(frames.count(&format!("{FROM_GUEST} and greater 1514")) > SIZE / 1460 / 2);
    assert_eq!(frames.count("ether proto 0x8899"), 0);
    assert!(counter(&mut guest, "tx_tso") > 5);
    assert_eq!(counter(&mut guest, "rx_untagged"), 0);
}

#[test]
fn iperf3_both_ways() {
    let guest = Guest::boot(&machine("iperf3", "-- -s"));
    guest.wait_for("Server listening on 5201", LIMIT);
    for direction in ["", "-R"] {
        let mut words = vec!["-c", GUEST_V4, "-n", "4M"];
        words.extend((!direction.is_empty()).then_some(direction));
        let said = succeed("iperf3", &words, LIMIT);
        assert!(said.contains("receiver"), "{said}");
    }
}

#[test]
fn large_writes_over_ipv6_are_cut() {
    let scratch = Scratch::new();
    let mut guest = Guest::boot(&machine("echo", ""));
    // By RFC 4291, appendix A, from the address the boot loader leaves in the model.
    let own = "fe80::250:c2ff:fe00:10";
    let scoped = format!("{own}%{TAP}");
    echo_at(scoped.as_str(), 1000, LIMIT);
    let capture = Capture::start(&scratch.file("frames"));
    echo_at(scoped.as_str(), SIZE, LIMIT);
    let frames = capture.stop();
    let filter = format!("ip6 and tcp and src host {own}");
    is_right(&frames, &filter, 1514);
    assert!(frames.count(&format!("{filter} and greater 1514")) > SIZE / 1440 / 2);
    assert!(counter(&mut guest, "tx_tso") > 5);
}

//! VLAN interfaces: the guest in a VLAN with the host's TCP, tags put on by the card or by the stack, and everything else
//! the card does done for tagged frames too.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::thread;
use std::time::Duration;

use rstest::rstest;
use trireme_tests::capture::{Capture, Frames};
use trireme_tests::console::{self, ask};
use trireme_tests::files::{Scratch, noise};
use trireme_tests::guest::Guest;
use trireme_tests::images::image;
use trireme_tests::network::TAP;
use trireme_tests::program::{curl, succeed};
use trireme_tests::vlan::{GUEST, HOST, isolate_with_vlan};
use trireme_tools::arch::Arch;
use trireme_tools::model::Model;
use trireme_tools::qemu::{Machine, Network, Nic};

/// Bytes echoed.
const SIZE: usize = 2 << 20;
/// From the guest, in its VLAN. tcpdump shows offsets behind the tag from `vlan` on.
const FROM_GUEST: &str = "vlan 5 and tcp and src host 10.85.0.2";
const TO_GUEST: &str = "vlan 5 and tcp and dst host 10.85.0.2";
/// Longer than the MTU, Ethernet header and tag.
const LARGE: &str = "greater 1519 and";

fn connect(address: &str) -> TcpStream {
    for _ in 0..200 {
        match TcpStream::connect((address, 7)) {
            Ok(stream) => {
                stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
                return stream;
            }
            Err(_) => thread::sleep(Duration::from_millis(100)),
        }
    }
    panic!("nobody answers at {address}");
}

/// Sends noise through the guest's echo and compares it.
fn echo(address: &str) {
    let mut stream = connect(address);
    let sent = noise(3, SIZE);
    let mut writer = stream.try_clone().unwrap();
    let writing = {
        let sent = sent.clone();
        thread::spawn(move || writer.write_all(&sent).unwrap())
    };
    let mut got = vec![0; SIZE];
    stream.read_exact(&mut got).expect("no stall");
    writing.join().unwrap();
    assert!(got == sent, "the echo differs");
}

fn machine(arch: Arch, program: &str) -> Machine {
    let append = isolate_with_vlan();
    let mut machine = Machine::new(arch, &image(program, arch).boot);
    machine.network = Network::Tap(TAP.to_owned());
    machine.append = append;
    machine
}

fn rhine(chip: &str) -> Machine {
    let mut machine = machine(Arch::X86_64, "echo");
    machine.nic = Nic::Model(Model::rhine(chip));
    machine
}

/// Both ways through the VLAN, then without a tag; what was on the TAP.
fn echo_recorded(guest: &mut Guest, scratch: &Scratch) -> Frames {
    drop(connect(GUEST));
    let capture = Capture::start(&scratch.file("frames"));
    echo(GUEST);
    // The card's own interface is there as well.
    let untagged = trireme_tools::net::GUEST_V4;
    succeed("ping", &["-c", "3", "-i", "0.2", "-s", "1400", untagged], Duration::from_secs(10));
    assert!(guest.is_running());
    capture.stop()
}

fn counter(guest: &mut Guest, interface: &str, name: &str) -> u64 {
    console::counter(&ask(guest, &format!("ethtool -S {interface}")), name)
}

#[rstest]
fn offloads_are_in_use_behind_a_tag(#[values(Arch::X86_64, Arch::Aarch64)] arch: Arch) {
    let scratch = Scratch::new();
    let mut guest = Guest::boot(&machine(arch, "echo"));
    let frames = echo_recorded(&mut guest, &scratch);
    assert!(frames.count(&format!("{LARGE} {FROM_GUEST}")) > 10, "no large frame left the guest");
    assert!(frames.count(&format!("{LARGE} {TO_GUEST}")) > 10, "the guest took no large frame");
    // What the card is to sum is not summed yet where a TAP shows it.
    assert!(frames.wrong_checksums(FROM_GUEST) > 10, "the CPU summed what the card could");
    let shown = ask(&mut guest, "ip addr");
    for part in [
        "eth0.5@eth0: <BROADCAST,MULTICAST,UP,LOWER_UP> mtu 1500 state UP",
        "vlan protocol 802.1Q id 5",
        "inet 10.85.0.2/24",
    ] {
        assert!(shown.contains(part), "{part:?} in {shown}");
    }
    // virtio's device knows no tags.
    assert!(counter(&mut guest, "eth0.5", "tx_vlan_sw") > 20);
    assert!(counter(&mut guest, "eth0", "rx_vlan_sw") > 20);
    // Another VLAN is none of the guest's business.
    let unknown = counter(&mut guest, "eth0", "rx_vlan_unknown");
    let other = "from scapy.all import *; sendp([Ether(dst='ff:ff:ff:ff:ff:ff')/Dot1Q(vlan=6)/\
                 ARP(pdst='10.85.0.2')]*3, iface='tap0', verbose=0)";
    succeed("/usr/bin/python3", &["-c", other], Duration::from_secs(20));
    for _ in 0..50 {
        if counter(&mut guest, "eth0", "rx_vlan_unknown") == unknown + 3 {
            return;
        }
        thread::sleep(Duration::from_millis(100));
    }
    panic!("frames of another VLAN were not counted");
}

#[test]
fn without_offloads_software_does_it_all() {
    let mut machine = machine(Arch::X86_64, "echo");
    let off = ["csum=off", "guest_csum=off", "gso=off", "mrg_rxbuf=off", "ctrl_vq=off"];
    machine.nic_properties = off.iter().map(|p| (*p).to_owned()).collect();
    let scratch = Scratch::new();
    let frames = echo_recorded(&mut Guest::boot(&machine), &scratch);
    assert!(frames.count(FROM_GUEST) > 1000);
    assert_eq!(frames.wrong_checksums(FROM_GUEST), 0);
    assert_eq!(frames.count(&format!("{LARGE} {FROM_GUEST}")), 0);
    assert!(frames.count(&format!("greater 1518 and {FROM_GUEST}")) > 100, "full frames");
}

/// `tags`: the card puts tags on and takes them off.
#[rstest]
#[case::by_the_card("vt6105m", "off", "", true)]
#[case::sums_by_the_card_too("vt6105m", "on", "", true)]
#[case::switched_off("vt6105m", "on", "ethtool -K eth0 rxvlan off rx-vlan-filter off", false)]
#[case::a_card_that_cannot("vt6102", "off", "", false)]
fn a_rhine_serves_a_vlan(
    #[case] chip: &str,
    #[case] checksums: &str,
    #[case] switch: &str,
    #[case] tags: bool,
) {
    let mut machine = rhine(chip);
    machine.append += &format!(" rhine.tx-checksumming={checksums}");
    let scratch = Scratch::new();
    let mut guest = Guest::boot(&machine);
    drop(connect(GUEST));
    if !switch.is_empty() {
        ask(&mut guest, switch);
    }
    let before = counter(&mut guest, "eth0.5", "tx_vlan_hw");
    let frames = echo_recorded(&mut guest, &scratch);
    // Nothing is left to do for this TAP: what it shows is what was on the wire.
    assert!(frames.count(FROM_GUEST) > 1000);
    assert_eq!(frames.wrong_checksums(FROM_GUEST), 0);
    assert!(frames.count(&format!("greater 1518 and {FROM_GUEST}")) > 100, "full frames");
    assert_eq!(frames.count("tcp and net 10.85.0.0/24 and not vlan"), 0, "a tag is missing");
    let by_card = counter(&mut guest, "eth0.5", "tx_vlan_hw") - before;
    assert_eq!(by_card > 1000, tags, "{by_card} tags by the card");
    let taken = if tags { "rx_vlan_hw" } else { "rx_vlan_sw" };
    assert!(counter(&mut guest, "eth0", taken) > 1000);
    if checksums == "on" && tags {
        assert!(counter(&mut guest, "eth0.5", "tx_csum_hw") > 1000);
        assert!(counter(&mut guest, "eth0.5", "rx_csum_hw") > 1000);
    }
}

/// R-Car's sum covers the tag, GbEth's engine knows one: either way the CPU sums nothing that the card has summed.
#[rstest]
fn a_ravb_serves_a_vlan(#[values("gen2", "gen3", "gbeth")] chip: &str) {
    let mut machine = machine(Arch::Aarch64, "echo");
    machine.nic = Nic::Model(Model::ravb(chip));
    let scratch = Scratch::new();
    let mut guest = Guest::boot(&machine);
    let frames = echo_recorded(&mut guest, &scratch);
    assert!(frames.count(FROM_GUEST) > 1000);
    assert_eq!(frames.wrong_checksums(FROM_GUEST), 0);
    assert!(frames.count(&format!("greater 1518 and {FROM_GUEST}")) > 100, "full frames");
    assert_eq!(frames.count("tcp and net 10.85.0.0/24 and not vlan"), 0, "a tag is missing");
    let shown = ask(&mut guest, "ethtool -S eth0.5");
    let count = |name: &str| console::counter(&shown, name);
    let received = if chip == "gbeth" { "rx_csum_hw" } else { "rx_csum_complete" };
    assert!(count(received) > 1000 && count("rx_csum_sw_bytes") < 200, "{shown}");
    assert_eq!(count("tx_csum_hw") > 1000, chip == "gbeth", "{shown}");
    assert_eq!(count("tx_csum_sw_bytes") < 200, chip == "gbeth", "{shown}");
    assert_eq!(count("rx_csum_card_wrong"), 0);
}

#[rstest]
fn the_web_through_a_vlan(#[values("virtio", "rhine")] card: &str) {
    let mut machine = machine(Arch::X86_64, "httpd");
    machine.memory = 512;
    machine.initrd = Some(trireme_tests::files::web_archive());
    if card == "rhine" {
        machine.nic = Nic::Model(Model::rhine("vt6105m"));
    }
    let _guest = Guest::boot(&machine);
    let limit = Duration::from_secs(60);
    let url = format!("http://{GUEST}/64k.bin");
    let count =
        ["--retry", "100", "--retry-connrefused", "--retry-delay", "1", "--retry-max-time", "60"];
    let show = ["-o", "/dev/null", "-w", "%{http_code} %{size_download} %{local_ip}", &url];
    let got = curl(&[&count[..], &show].concat(), limit);
    assert_eq!(got, format!("200 65536 {HOST}"));
    // Twenty connections, and the other interface meanwhile.
    let plain = format!("http://{}/64k.bin", trireme_tools::net::GUEST_V4);
    let range = format!("http://{GUEST}/64k.bin?[1-20]");
    let got = curl(
        &["-Z", "-o", "/dev/null", "-o", "/dev/null", "-w", "%{http_code} ", &range, &plain],
        limit,
    );
    assert_eq!(got.split_whitespace().filter(|code| *code == "200").count(), 21, "{got}");
}

#[test]
fn a_card_stops_when_the_machine_does() {
    let mut machine = rhine("vt6105m");
    machine.append += " rhine.wol=g";
    let mut guest = Guest::boot(&machine);
    drop(connect(GUEST));
    let told = ask(&mut guest, "ethtool eth0");
    assert!(told.contains("Wake-on: g"), "{told}");
    let told = ask(&mut guest, "ethtool -a eth0");
    assert!(told.contains("RX:\t\ton") && told.contains("TX:\t\ton"), "{told}");
    guest.type_line("poweroff");
    assert_eq!(guest.exit_status(Duration::from_secs(10)), 0);
}

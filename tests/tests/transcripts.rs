//! Sessions at the console: keys and nonsense typed at it, ping, and features by boot argument and under traffic.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use rstest::rstest;
use trireme_tests::console::{answer, ask, counter};
use trireme_tests::files::noise;
use trireme_tests::guest::Guest;
use trireme_tests::images::image;
use trireme_tests::network::{TAP, ip, isolate_with_tap, static_address};
use trireme_tools::arch::Arch;
use trireme_tools::model::Model;
use trireme_tools::net::{GUEST_V4, HOST_V4};
use trireme_tools::qemu::{Machine, Network, Nic};

const LIMIT: Duration = Duration::from_secs(20);

fn machine(arch: Arch, append: &str) -> Machine {
    isolate_with_tap();
    let mut machine = Machine::new(arch, &image("echo", arch).boot);
    machine.network = Network::Tap(TAP.to_owned());
    machine.append = format!("{} {append}", static_address());
    machine
}

fn boot(machine: &Machine) -> Guest {
    let guest = Guest::boot(machine);
    guest.wait_for("listening, echo on udp", Duration::from_secs(30));
    guest
}

/// Sends noise through the guest's echo, on one connection, until told to stop; how many bytes.
fn flow(stop: &Arc<AtomicBool>) -> thread::JoinHandle<usize> {
    let mut stream = TcpStream::connect((GUEST_V4, 7)).expect("the guest answers");
    stream.set_read_timeout(Some(LIMIT)).unwrap();
    let stop = stop.clone();
    thread::spawn(move || {
        let sent = noise(9, 256 << 10);
        let mut total = 0;
        while !stop.load(Ordering::Relaxed) {
            let mut writer = stream.try_clone().unwrap();
            let piece = sent.clone();
            let writing = thread::spawn(move || writer.write_all(&piece).unwrap());
            let mut got = vec![0; sent.len()];
            stream.read_exact(&mut got).expect("the connection lives");
            writing.join().unwrap();
            assert!(got == sent, "the echo differs");
            total += got.len();
        }
        total
    })
}

#[rstest]
fn lines_are_edited_and_nonsense_is_survived(#[values(Arch::X86_64, Arch::Aarch64)] arch: Arch) {
    let mut guest = boot(&machine(arch, ""));
    let dates = |text: &str| text.matches(" UTC 20").count();
    assert_eq!(dates(&answer(&mut guest, b"daxx\x7f\x7fte\n")), 1, "rubbed out");
    assert_eq!(dates(&answer(&mut guest, b"te\x1b[D\x1b[Dda\n")), 1, "put in with the arrows");
    assert_eq!(dates(&answer(&mut guest, b"\x1b[A\x1b[A\n")), 1, "fetched back");
    let killed = answer(&mut guest, b"reboot now\x15date\n");
    assert_eq!(dates(&killed), 1, "{killed}");
    let given_up = answer(&mut guest, b"poweroff\x03");
    assert!(given_up.contains("poweroff^C"), "{given_up}");
    // Every byte there is, sequences that never end, characters cut off, and noise.
    let every: Vec<u8> = (0..=255).collect();
    for bytes in [&every[..], b"\x1b[", b"\x1b[999999999999999999", b"\xe2\x86", &noise(3, 4096)] {
        answer(&mut guest, &[bytes, b"\n"].concat());
        assert_eq!(dates(&ask(&mut guest, "date")), 1);
    }
    let long = answer(&mut guest, &[&[b'y'; 20_000][..], b"\n"].concat());
    assert!(long.contains("yyy: command not found"), "{long}");
    for (line, error) in [
        ("sail", "sail: command not found"),
        ("ip sail", "Object \"sail\" is unknown, try \"ip help\"."),
        ("ip addr add 10.0.0.1/8 dev eth0", "Command \"add\" is unknown"),
        ("ip link show eth9", "Device \"eth9\" does not exist."),
        ("ethtool", "ethtool: bad command line argument(s)"),
        ("ethtool eth9", "netlink error: No such device"),
        ("ethtool -K eth0 sail on", "ethtool: bad command line argument(s)"),
        ("ethtool -K eth0 tx", "ethtool: bad command line argument(s)"),
        ("ss -Z", "ss: invalid option -- 'Z'"),
        ("free --sail", "free: unrecognized option '--sail'"),
        ("ping", "ping: usage error: Destination address required"),
        ("ping -c 0 ::1", "out of range: 1 <= value"),
        ("ping -s 65508 ::1", "out of range: 0 <= value <= 65507"),
        ("ping -i 0 ::1", "ping: cannot flood"),
    ] {
        let said = ask(&mut guest, line);
        assert!(said.contains(error), "{line}: {said}");
    }
    let said = ask(&mut guest, "ps");
    assert!(said.contains(" main") && said.contains(" console"), "{said}");
    assert!(ask(&mut guest, "ip r").contains(&format!("default via {HOST_V4} dev eth0")));
    assert!(guest.is_running());
}

#[rstest]
fn ping_of_both_families_with_and_without_traffic(
    #[values(Arch::X86_64, Arch::Aarch64)] arch: Arch,
) {
    let mut guest = boot(&machine(arch, ""));
    for own in ["127.0.0.1", "::1", "10.77.0.2"] {
        let said = ask(&mut guest, &format!("ping -c 2 -i 0.1 {own}"));
        assert!(said.contains("2 packets transmitted, 2 received, 0% packet loss"), "{said}");
    }
    let stop = Arc::new(AtomicBool::new(false));
    let flowing = flow(&stop);
    let said = ask(&mut guest, &format!("ping -c 20 -i 0.05 {HOST_V4}"));
    assert!(said.contains("PING 10.77.0.1 (10.77.0.1) 56(84) bytes of data."), "{said}");
    assert!(said.contains("64 bytes from 10.77.0.1: icmp_seq=20 ttl=64 time="), "{said}");
    assert!(said.contains("20 packets transmitted, 20 received, 0% packet loss"), "{said}");
    stop.store(true, Ordering::Relaxed);
    assert!(flowing.join().unwrap() > 0);
    let said = ask(&mut guest, &format!("ping -c 2 -i 0.1 -s 4000 {HOST_V4}"));
    assert!(said.contains("4008 bytes from 10.77.0.1: icmp_seq=2"), "{said}");
    // The host's link-local address, once it has one.
    let link_local = (0..100)
        .find_map(|_| {
            thread::sleep(Duration::from_millis(100));
            let all = ip(&format!("-6 -o addr show dev {TAP} scope link -tentative"));
            let address = all.split_once("inet6 ")?.1;
            Some(address.split('/').next()?.to_owned())
        })
        .expect("Linux gives its end an address");
    let said = ask(&mut guest, &format!("ping -6 -c 3 -i 0.1 {link_local}%eth0"));
    let heading = format!("PING {link_local}({link_local}) 56 data bytes");
    assert!(said.contains(&heading), "{said}");
    assert!(said.contains("3 packets transmitted, 3 received, 0% packet loss"), "{said}");
    let said = ask(&mut guest, "ping -c 1 -w 6 10.77.0.99");
    assert!(said.contains("From 10.77.0.2 icmp_seq=1 Destination Host Unreachable"), "{said}");
    assert!(said.contains("+1 errors, 100% packet loss"), "{said}");
    assert!(ask(&mut guest, "ping 203.0.113.x").contains("ping: 203.0.113.x: "));
    // Without end, until Ctrl-C.
    guest.type_line(&format!("ping -i 0.2 {HOST_V4}"));
    guest.wait_for("icmp_seq=4 ttl=64", LIMIT);
    let said = answer(&mut guest, b"\x03");
    assert!(said.contains("--- 10.77.0.1 ping statistics ---"), "{said}");
    assert!(said.contains("0% packet loss"), "{said}");
}

#[test]
fn boot_arguments_switch_features_of_the_card_they_name() {
    let append = "eth0.tx-checksumming=off eth0.lro=off eth1.tx=on eth0.sail=on eth0.rx=maybe eth0.sg=on eth7.rx=off";
    let mut machine = machine(Arch::X86_64, append);
    for word in ["-netdev", "user,id=second", "-device", "virtio-net-pci,netdev=second"] {
        machine.extra.push(word.into());
    }
    let mut guest = boot(&machine);
    let console = guest.console();
    for told in [
        "eth0.sail=on: no such feature",
        "eth0.rx=maybe: neither on nor off",
        "eth0.sg=on: fixed on this card",
        // Behind user networking there is nobody to fill in checksums.
        "eth1.tx=on: fixed on this card",
        "eth7.rx=off: no such card",
    ] {
        assert!(console.contains(told), "no {told:?} in:\n{console}");
    }
    let [first, second] =
        ["eth0", "eth1"].map(|card| ask(&mut guest, &format!("ethtool -k {card}")));
    assert!(first.contains("Features for eth0:\n"), "{first}");
    assert!(first.contains("tx-checksumming: off\n"), "{first}");
    assert!(first.contains("rx-checksumming: on\n"), "{first}");
    assert!(first.contains("scatter-gather: off [fixed]\n"), "{first}");
    assert!(first.contains("large-receive-offload: off\n"), "{first}");
    assert!(second.contains("tx-checksumming: off [fixed]\n"), "{second}");
}

#[test]
fn without_the_shell_nothing_typed_is_a_command() {
    let mut guest = boot(&machine(Arch::Aarch64, "console.shell=off"));
    guest.type_line("poweroff");
    let stop = Arc::new(AtomicBool::new(false));
    let flowing = flow(&stop);
    thread::sleep(Duration::from_millis(300));
    stop.store(true, Ordering::Relaxed);
    assert!(flowing.join().unwrap() > 0);
    assert!(guest.is_running());
    assert!(!guest.console().contains("poweroff"), "nothing is echoed");
}

/// Each feature is switched over and over while a connection carries data; the work moves from card to software.
#[rstest]
#[case::virtio(Arch::Aarch64, false)]
#[case::rhine(Arch::X86_64, true)]
fn switching_loses_no_connection(#[case] arch: Arch, #[case] rhine: bool) {
    let mut machine = machine(arch, "");
    if rhine {
        machine.nic = Nic::Model(Model::rhine("vt6105m"));
    }
    let mut guest = boot(&machine);
    ask(&mut guest, &format!("ping -c 1 -w 10 {HOST_V4}"));
    let stop = Arc::new(AtomicBool::new(false));
    let flowing = flow(&stop);
    let mut counted = Vec::new();
    for _ in 0..2 {
        for feature in ["rx", "tx", "tso", "tx-tcp6-segmentation", "lro", "sg"] {
            for state in ["off", "on"] {
                ask(&mut guest, &format!("ethtool -K eth0 {feature} {state}"));
                if feature == "tx" {
                    counted.push(ask(&mut guest, "ethtool -S eth0"));
                    thread::sleep(Duration::from_millis(200));
                    counted.push(ask(&mut guest, "ethtool -S eth0"));
                }
            }
        }
        // Segmentation went with the checksums it needs.
        ask(&mut guest, "ethtool -K eth0 tso on tx-tcp6-segmentation on");
    }
    stop.store(true, Ordering::Relaxed);
    let carried = flowing.join().unwrap();
    assert!(carried > 0);
    for (n, pair) in counted.chunks(2).enumerate() {
        let name = if n % 2 == 0 { "tx_csum_sw" } else { "tx_csum_hw" };
        let [before, after] = [0, 1].map(|at| counter(&pair[at], name));
        assert!(after > before, "{name} stood still");
    }
}

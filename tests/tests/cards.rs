//! The virtio card wherever a machine may have it: each bus, each kind of interrupt, behind bridges, twice.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::thread;
use std::time::{Duration, Instant};

use rstest::rstest;
use trireme_tests::console::ask;
use trireme_tests::files::noise;
use trireme_tests::guest::Guest;
use trireme_tests::images::image;
use trireme_tests::network::{ip, isolate, tap};
use trireme_tools::arch::Arch;
use trireme_tools::qemu::{Machine, Nic};

const SIZE: usize = 1 << 20;
/// Boot under emulation, on a machine that does other things too.
const BOOT: Duration = Duration::from_secs(30);
const NETDEV: &str = "user,id=net0,hostfwd=tcp:127.0.0.1:7007-:7,hostfwd=udp:127.0.0.1:7007-:7";

/// Boots echo with these devices instead of the usual card; `net0` is what a card plugs into.
fn boot(arch: Arch, kind: &str, devices: &[&str]) -> Guest {
    isolate();
    Guest::boot(&machine(arch, kind, devices))
}

fn machine(arch: Arch, kind: &str, devices: &[&str]) -> Machine {
    let mut machine = Machine::new(arch, &image("echo", arch).boot);
    machine.machine = Some(kind.to_owned());
    machine.nic = Nic::None;
    machine.append = "loglevel=7 ip=10.0.2.15::10.0.2.2:255.255.255.0::eth0:off".to_owned();
    machine.extra =
        ["-global", "virtio-mmio.force-legacy=false", "-netdev", NETDEV].map(Into::into).to_vec();
    for device in devices {
        machine.extra.extend(["-device".into(), (*device).into()]);
    }
    machine
}

/// Bytes both ways at once by TCP, then datagrams.
fn echoes() {
    let deadline = Instant::now() + BOOT;
    let mut hello = [0; 5];
    let mut stream = loop {
        // QEMU accepts for the guest before the guest listens.
        if let Ok(mut stream) = TcpStream::connect("127.0.0.1:7007") {
            stream.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
            if stream.write_all(b"hello").is_ok() && stream.read_exact(&mut hello).is_ok() {
                break stream;
            }
        }
        assert!(Instant::now() < deadline, "nobody answers");
        thread::sleep(Duration::from_millis(100));
    };
    assert_eq!(&hello, b"hello");
    let sent = noise(5, SIZE);
    let mut writer = stream.try_clone().unwrap();
    let writing = {
        let sent = sent.clone();
        thread::spawn(move || writer.write_all(&sent).unwrap())
    };
    let mut got = vec![0; SIZE];
    stream.read_exact(&mut got).expect("no stall above 10 s");
    writing.join().unwrap();
    assert!(got == sent, "the echo differs");

    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    socket.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
    socket.connect("127.0.0.1:7007").unwrap();
    for length in [1, 100, 1472] {
        socket.send(&sent[..length]).unwrap();
        assert_eq!(socket.recv(&mut got).unwrap(), length);
        assert_eq!(got[..length], sent[..length]);
    }
}

#[rstest]
#[case::q35_msi_x(Arch::X86_64, "q35", "", "MSI-X")]
#[case::q35_intx(Arch::X86_64, "q35", ",vectors=0", "INTx")]
#[case::pc_msi_x(Arch::X86_64, "pc", "", "MSI-X")]
#[case::pc_intx(Arch::X86_64, "pc", ",vectors=0", "INTx")]
#[case::pc_one_vector(Arch::X86_64, "pc", ",vectors=1", "INTx")]
#[case::gicv2_msi_x(Arch::Aarch64, "virt,gic-version=2", "", "MSI-X")]
#[case::gicv2_intx(Arch::Aarch64, "virt,gic-version=2", ",vectors=0", "INTx")]
#[case::gicv3_intx(Arch::Aarch64, "virt,gic-version=3", ",vectors=0", "INTx")]
#[case::low_ecam(Arch::Aarch64, "virt,highmem-ecam=off", "", "MSI-X")]
fn card_on_pci(
    #[case] arch: Arch,
    #[case] kind: &str,
    #[case] properties: &str,
    #[case] interrupts: &str,
) {
    let card = format!("virtio-net-pci,romfile=,netdev=net0{properties}");
    let guest = boot(arch, kind, &[&card]);
    guest.wait_for(&format!("virtio network card (PCI, {interrupts})"), BOOT);
    echoes();
}

#[rstest]
#[case::microvm(Arch::X86_64, "microvm")]
#[case::virt(Arch::Aarch64, "virt")]
fn card_in_memory(#[case] arch: Arch, #[case] kind: &str) {
    let guest = boot(arch, kind, &["virtio-net-device,netdev=net0"]);
    guest.wait_for("virtio network card (MMIO)", BOOT);
    echoes();
}

/// On aarch64 nobody has numbered the buses or placed the BARs before us.
#[rstest]
fn card_behind_bridges(
    #[values((Arch::X86_64, "q35"), (Arch::Aarch64, "virt,gic-version=2"))] machine: (Arch, &str),
    #[values("", ",vectors=0")] properties: &str,
) {
    let card = format!("virtio-net-pci,romfile=,netdev=net0,bus=inner,addr=3{properties}");
    let devices = [
        "pcie-root-port,id=empty,chassis=1",
        "pcie-root-port,id=above,chassis=2",
        "pcie-pci-bridge,id=bridge,bus=above",
        "pci-bridge,id=inner,bus=bridge,addr=2,chassis_nr=3",
        &card,
    ];
    let guest = boot(machine.0, machine.1, &devices);
    guest.wait_for("virtio network card (PCI", BOOT);
    echoes();
}

/// Two cards that share an INTx line; the first is `eth0`.
#[rstest]
#[case(Arch::X86_64, "pc")]
#[case(Arch::Aarch64, "virt,gic-version=2")]
fn cards_share_a_line(#[case] arch: Arch, #[case] kind: &str) {
    let devices = [
        "virtio-net-pci,romfile=,netdev=net0,vectors=0,addr=4",
        "virtio-net-pci,romfile=,vectors=0,addr=8",
    ];
    let guest = boot(arch, kind, &devices);
    guest.wait_for("eth1: virtio_net", BOOT);
    echoes();
}

#[rstest]
#[case::pci(Arch::Aarch64, "virt", &["virtio-net-pci,romfile=,netdev=net0", "virtio-rng-pci"])]
#[case::memory(Arch::Aarch64, "virt", &["virtio-net-device,netdev=net0", "virtio-rng-device"])]
#[case::microvm(Arch::X86_64, "microvm", &["virtio-net-device,netdev=net0", "virtio-rng-device"])]
fn entropy_source_is_used(#[case] arch: Arch, #[case] kind: &str, #[case] devices: &[&str]) {
    let guest = boot(arch, kind, devices);
    echoes();
    let console = guest.console();
    assert!(console.contains("virtio entropy source: 32 bytes"), "{console}");
    assert!(!console.contains("timing jitter"), "{console}");
}

/// A cable pulled and put back: silence meanwhile, then all goes on.
#[rstest]
#[case::messages(Arch::X86_64, "q35", "virtio-net-pci,romfile=,netdev=net0,id=card")]
#[case::line(Arch::Aarch64, "virt", "virtio-net-device,netdev=net0,id=card")]
fn link_goes_and_comes(#[case] arch: Arch, #[case] kind: &str, #[case] card: &str) {
    let mut guest = boot_with_monitor(arch, kind, card);
    echoes();
    let ping = |guest: &UdpSocket| {
        let mut got = [0; 16];
        guest.send(b"there?").unwrap();
        guest.recv(&mut got).is_ok()
    };
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    socket.set_read_timeout(Some(Duration::from_millis(700))).unwrap();
    socket.connect("127.0.0.1:7007").unwrap();
    assert!(ping(&socket));
    for round in 0..3 {
        monitor("set_link card off");
        if round == 0 {
            guest.type_line("ethtool eth0");
            guest.wait_for("Link detected: no", Duration::from_secs(5));
        }
        assert!(!ping(&socket), "the card is cut off");
        monitor("set_link card on");
        let back = (0..10).any(|_| ping(&socket));
        assert!(back, "the link came back, the guest did not");
    }
    echoes();
    assert!(guest.is_running());
}

/// The usual card's machine with QEMU's monitor on a port of the namespace.
fn boot_with_monitor(arch: Arch, kind: &str, card: &str) -> Guest {
    isolate();
    let mut machine = machine(arch, kind, &[card]);
    machine.extra.extend(["-monitor".into(), format!("tcp:{MONITOR},server=on,wait=off").into()]);
    Guest::boot(&machine)
}

const MONITOR: &str = "127.0.0.1:4444";

/// Has QEMU's monitor execute a line.
fn monitor(line: &str) {
    let mut stream = TcpStream::connect(MONITOR).expect("QEMU listens");
    stream.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
    stream.write_all(format!("{line}\n").as_bytes()).unwrap();
    // The prompt comes back, once in greeting and once when the line is done.
    let mut said = Vec::new();
    let mut byte = [0];
    while said.windows(7).filter(|w| w == b"(qemu) ").count() < 2 {
        stream.read_exact(&mut byte).expect("the monitor answers");
        said.push(byte[0]);
    }
}

/// What cannot be driven is named, and the rest goes on.
#[rstest]
#[case::legacy_pci(
    Arch::X86_64,
    "pc",
    "virtio-net-pci,romfile=,disable-modern=on,disable-legacy=off"
)]
#[case::other_device(Arch::X86_64, "pc", "virtio-balloon-pci")]
#[case::other_card(Arch::X86_64, "pc", "e1000,romfile=")]
fn devices_without_a_driver_disturb_nothing(
    #[case] arch: Arch,
    #[case] kind: &str,
    #[case] other: &str,
) {
    let guest = boot(arch, kind, &[other, "virtio-net-pci,romfile=,netdev=net0"]);
    echoes();
    if other.contains("disable-modern") {
        assert!(guest.console().contains("virtio Network: "), "{}", guest.console());
    }
}

/// Two cards, each with its own `ip=` by name, the second's network within the first's: the longest prefix decides,
/// whichever card comes first, and a socket bound to one card's address answers there only.
#[rstest]
#[case(Arch::X86_64, "q35")]
#[case(Arch::Aarch64, "virt")]
fn each_card_has_its_address_and_the_longest_prefix_decides(
    #[case] arch: Arch,
    #[case] kind: &str,
) {
    isolate();
    for (name, address) in [("tap0", "10.0.0.1/8"), ("tap1", "10.78.0.1/24")] {
        tap(name);
        ip(&format!("addr add {address} dev {name}"));
        ip(&format!("link set {name} up"));
    }
    let server = TcpListener::bind("10.78.0.1:9000").unwrap();
    let mut machine = Machine::new(arch, &image("tcp-proxy", arch).boot);
    machine.machine = Some(kind.to_owned());
    machine.nic = Nic::None;
    machine.append =
        "ip=10.78.0.2:::255.255.255.0::eth1:off ip=10.0.0.2::10.0.0.1:255.0.0.0::eth0:off \
                      -- --listen 10.0.0.2:8080 --to 10.78.0.1:9000"
            .to_owned();
    for (n, name) in ["tap0", "tap1"].into_iter().enumerate() {
        let netdev = format!("tap,id=net{n},ifname={name},script=no,downscript=no");
        let card =
            format!("virtio-net-pci,romfile=,netdev=net{n},mac=52:54:00:12:34:5{n},addr=0x1{n}");
        machine.extra.extend(["-netdev".into(), netdev.into(), "-device".into(), card.into()]);
    }
    let mut guest = Guest::boot(&machine);
    guest.wait_for("listening on 10.0.0.2:8080", BOOT);
    let addresses = ask(&mut guest, "ip addr");
    let (_, cards) = addresses.split_once("eth0").expect("a card");
    let (first, second) = cards.split_once("eth1").expect("two cards");
    assert!(first.contains("10.0.0.2/8") && !first.contains("10.78."), "{addresses}");
    assert!(second.contains("10.78.0.2/24") && !second.contains("10.0.0.2"), "{addresses}");

    let mut client = TcpStream::connect("10.0.0.2:8080").unwrap();
    client.write_all(b"hello").unwrap();
    let (mut served, from) = server.accept().unwrap();
    assert_eq!(from.ip().to_string(), "10.78.0.2", "the address of the card it leaves by");
    let mut got = [0; 5];
    served.read_exact(&mut got).unwrap();
    assert_eq!(&got, b"hello");
    // By which card, its neighbours tell: 10.78.0.1 is within the first's network, too.
    let neighbours = ask(&mut guest, "ip neigh");
    let line = neighbours.lines().find(|line| line.contains("10.78.0.1 "));
    assert!(line.is_some_and(|line| line.contains("eth1")), "{neighbours}");
    // The second card's address has no listener: it says so at once.
    let refused = TcpStream::connect("10.78.0.2:8080").unwrap_err();
    assert_eq!(refused.kind(), std::io::ErrorKind::ConnectionRefused);
}

//! The card does the work when it may, the stack when it may not; either way the bytes and the wire are right.

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
use trireme_tests::network::{TAP, isolate_with_tap, static_address};
use trireme_tests::program::succeed;
use trireme_tools::arch::Arch;
use trireme_tools::net::GUEST_V4;
use trireme_tools::qemu::{Machine, Network};

/// Bytes echoed: enough for windows to open and buffers to wrap.
const SIZE: usize = 4 << 20;
const FROM_GUEST: &str = "tcp and src host 10.77.0.2";
/// Longer than the MTU and the Ethernet header: a frame that only a segmenting card can take.
const LARGE: &str = "and greater 1515";

fn boot(arch: Arch, properties: &[&str]) -> Guest {
    isolate_with_tap();
    let mut machine = Machine::new(arch, &image("echo", arch).boot);
    machine.network = Network::Tap(TAP.to_owned());
    machine.append = static_address();
    machine.nic_properties = properties.iter().map(|p| (*p).to_owned()).collect();
    Guest::boot(&machine)
}

/// Connects as soon as the guest's server is there.
fn connect(address: &str) -> TcpStream {
    for _ in 0..200 {
        match TcpStream::connect((address, 7)) {
            Ok(stream) => {
                stream.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
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
    stream.read_exact(&mut got).expect("no stall above 10 s");
    writing.join().unwrap();
    assert!(got == sent, "the echo differs");
}

fn echo_recorded(arch: Arch, properties: &[&str], scratch: &Scratch) -> Frames {
    let _guest = boot(arch, properties);
    drop(connect(GUEST_V4));
    let capture = Capture::start(&scratch.file("frames"));
    echo(GUEST_V4);
    capture.stop()
}

#[rstest]
fn segmentation_and_merged_buffers_are_in_use(
    #[values(Arch::X86_64, Arch::Aarch64, Arch::Armv4)] arch: Arch,
) {
    let scratch = Scratch::new();
    let frames = echo_recorded(arch, &[], &scratch);
    assert!(
        frames.count(&format!("{FROM_GUEST} {LARGE}")) > 10,
        "no frame above the MTU left the guest"
    );
    assert!(
        frames.count(&format!("tcp and dst host 10.77.0.2 {LARGE}")) > 10,
        "the guest took no merged frame"
    );
    // What the card is to sum is not summed yet where a TAP shows it.
    assert!(frames.wrong_checksums(FROM_GUEST) > 10, "the CPU summed what the card could");
}

#[rstest]
#[case::transmit_checksums(&["csum=off"])]
#[case::receive_checksums(&["guest_csum=off"])]
#[case::both(&["csum=off", "guest_csum=off"])]
#[case::transmit_segmentation(&["host_tso4=off", "host_tso6=off"])]
#[case::receive_segmentation(&["guest_tso4=off", "guest_tso6=off"])]
#[case::merged_buffers(&["mrg_rxbuf=off"])]
#[case::event_index(&["event_idx=off"])]
#[case::indirect_descriptors(&["indirect_desc=off"])]
#[case::control_queue(&["ctrl_vq=off"])]
#[case::status(&["status=off"])]
#[case::everything(&["csum=off", "guest_csum=off", "gso=off", "mrg_rxbuf=off", "event_idx=off", "indirect_desc=off", "ctrl_vq=off"])]
#[case::packed_rings(&["packed=on"])]
#[case::small_queues(&["rx_queue_size=256", "tx_queue_size=256"])]
fn refused_offload_is_done_in_software(
    #[case] properties: &[&str],
    #[values(Arch::X86_64, Arch::Aarch64)] arch: Arch,
) {
    let scratch = Scratch::new();
    let frames = echo_recorded(arch, properties, &scratch);
    let refused = |property: &str| properties.contains(&property);
    if refused("csum=off") {
        assert_eq!(frames.wrong_checksums(FROM_GUEST), 0, "checksums are the guest's to make");
    }
    if refused("csum=off") || refused("gso=off") || refused("host_tso4=off") {
        assert_eq!(
            frames.count(&format!("{FROM_GUEST} {LARGE}")),
            0,
            "a frame left that nobody segments"
        );
    }
    if refused("guest_csum=off") || refused("guest_tso4=off") {
        let merged = frames.count(&format!("tcp and dst host 10.77.0.2 {LARGE}"));
        // The TAP shows what the host's stack handed over; the device must have been told to cut it.
        assert_eq!(merged, 0, "the host merged frames for a guest that takes none");
    }
}

#[rstest]
fn offloads_are_switched_at_run_time(#[values(Arch::X86_64, Arch::Aarch64)] arch: Arch) {
    let scratch = Scratch::new();
    let mut guest = boot(arch, &[]);
    drop(connect(GUEST_V4));
    let record = |name: &str| {
        let capture = Capture::start(&scratch.file(name));
        echo(GUEST_V4);
        capture.stop()
    };
    let large_from_guest = format!("{FROM_GUEST} {LARGE}");
    let large_to_guest = format!("tcp and dst host 10.77.0.2 {LARGE}");

    ask(&mut guest, "ethtool -K eth0 tso off");
    assert!(ask(&mut guest, "ethtool -k eth0").contains("tcp-segmentation-offload: off"));
    let frames = record("tso-off");
    assert_eq!(frames.count(&large_from_guest), 0);
    assert!(frames.wrong_checksums(FROM_GUEST) > 10, "the card still sums");

    ask(&mut guest, "ethtool -K eth0 tx off");
    assert_eq!(record("tx-off").wrong_checksums(FROM_GUEST), 0);

    ask(&mut guest, "ethtool -K eth0 lro off");
    assert!(ask(&mut guest, "ethtool -k eth0").contains("large-receive-offload: off"));
    assert_eq!(record("lro-off").count(&large_to_guest), 0, "the host still merges");

    ask(&mut guest, "ethtool -K eth0 rx off");
    assert!(ask(&mut guest, "ethtool -k eth0").contains("rx-checksumming: off"));
    record("rx-off");

    ask(&mut guest, "ethtool -K eth0 rx on lro on tx on tso on");
    let features = ask(&mut guest, "ethtool -k eth0");
    assert!(!features.contains(": off\n"), "{features}");
    let frames = record("on-again");
    assert!(frames.count(&large_from_guest) > 10 && frames.count(&large_to_guest) > 10);
}

/// The card's own counters say the same as the wire.
#[rstest]
fn counters_show_the_cards_work(#[values(Arch::X86_64, Arch::Aarch64)] arch: Arch) {
    let mut guest = boot(arch, &[]);
    echo(GUEST_V4);
    let text = ask(&mut guest, "ethtool -S eth0");
    let counter = |name: &str| console::counter(&text, name);
    assert!(counter("tx_bytes") as usize > SIZE && counter("rx_bytes") as usize > SIZE);
    assert!(counter("tx_tso") > 10 && counter("tx_csum") >= counter("tx_tso"));
    assert!(counter("rx_gso_packets") > 10 && counter("rx_csum_partial") > 10);
    assert!(counter("rx_merged_buffers") > 10);
    // Only frames over the arena's end are copied together.
    assert!(counter("rx_linearised") * 4 < counter("rx_merged_buffers"));
    assert!(counter("tx_kicks") <= counter("tx_packets"));
    for error in
        ["rx_dropped", "rx_length_errors", "rx_merge_errors", "tx_errors", "bad_ids", "resets"]
    {
        assert_eq!(counter(error), 0, "{error}");
    }
}

#[rstest]
fn segmentation_serves_ipv6_too(#[values(Arch::X86_64, Arch::Aarch64, Arch::Armv4)] arch: Arch) {
    let _guest = boot(arch, &[]);
    let scratch = Scratch::new();
    drop(connect(GUEST_V4));
    let capture = Capture::start(&scratch.file("frames"));
    let output = succeed("/usr/bin/python3", &["-c", ECHO_V6, TAP], Duration::from_secs(60));
    assert_eq!(output.trim(), "same");
    let frames = capture.stop();
    assert!(frames.count("ip6 and tcp and src host fe80::5054:ff:fe12:3456 and greater 1515") > 10);
}

/// Rust's `std` resolves no scope names, Python does.
const ECHO_V6: &str = r#"
import os, socket, sys, threading
s = socket.create_connection(("fe80::5054:ff:fe12:3456%" + sys.argv[1], 7), 10)
data = os.urandom(4 << 20)
t = threading.Thread(target=s.sendall, args=(data,))
t.start()
got = bytearray()
while len(got) < len(data):
    got += s.recv(1 << 20)
t.join()
print("same" if got == data else "different")
"#;

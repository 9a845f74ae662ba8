//! Programs and event loops from crates.io, unmodified, that never heard of Trireme.

use std::fs;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpStream, UdpSocket};
use std::time::Duration;

use rstest::rstest;
use trireme_tests::files::{Scratch, web_archive, web_files};
use trireme_tests::guest::Guest;
use trireme_tests::images::{image, image_from_registry};
use trireme_tests::network::{TAP, isolate_with_tap, static_address};
use trireme_tests::program::succeed;
use trireme_tools::app::THIRD_PARTY;
use trireme_tools::arch::Arch;
use trireme_tools::qemu::{Machine, Network};

#[rstest]
fn tftp_server_of_others_serves_files(#[values(Arch::X86_64, Arch::Aarch64)] arch: Arch) {
    isolate_with_tap();
    let mut machine = Machine::new(arch, &image_from_registry(THIRD_PARTY, arch).boot);
    machine.memory = 512;
    machine.network = Network::Tap(TAP.to_owned());
    machine.initrd = Some(web_archive());
    machine.append = format!("{} -- -i 0.0.0.0 -p 69 -d / -r", static_address());
    let guest = Guest::boot(&machine);
    guest.wait_for("Running TFTP Server", Duration::from_secs(30));
    let scratch = Scratch::new();
    let got = scratch.file("got");
    for name in ["one.bin", "1k.bin", "64k.bin"] {
        let url = format!("tftp://10.77.0.2/{name}");
        succeed("curl", &["-s", "-S", "-o", got.to_str().unwrap(), &url], Duration::from_secs(30));
        assert!(
            fs::read(&got).unwrap() == fs::read(web_files().join(name)).unwrap(),
            "{name} differs"
        );
    }
}

/// mio needs more of the ABI than `std` does: `poll`, `eventfd` and `fcntl`, by way of the `libc` crate.
#[rstest]
fn an_event_loop_of_others_turns(#[values(Arch::X86_64, Arch::Aarch64)] arch: Arch) {
    isolate_with_tap();
    let mut machine = Machine::new(arch, &image("event_loop", arch).boot);
    machine.network = Network::Tap(TAP.to_owned());
    machine.append = static_address();
    let guest = Guest::boot(&machine);
    guest.wait_for("listening", Duration::from_secs(30));
    guest.wait_for("woken", Duration::from_secs(10));
    let server = (Ipv4Addr::new(10, 77, 0, 2), 7);
    let limit = Some(Duration::from_secs(20));
    let sent: Vec<u8> =
        (0..50_000u32).map(|i| (i.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
    let mut streams: Vec<TcpStream> =
        (0..40).map(|_| TcpStream::connect(server).unwrap()).collect();
    for round in 0..2 {
        for stream in &mut streams {
            stream.set_read_timeout(limit).unwrap();
            stream.write_all(&sent[round..]).unwrap();
        }
        for stream in &mut streams {
            let mut received = vec![0; sent.len() - round];
            stream.read_exact(&mut received).unwrap();
            assert!(received == sent[round..], "what came back differs");
        }
    }
    let socket = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0)).unwrap();
    socket.set_read_timeout(limit).unwrap();
    socket.send_to(b"datagram", server).unwrap();
    let mut buffer = [0; 100];
    let n = socket.recv(&mut buffer).unwrap();
    assert_eq!(&buffer[..n], b"datagram");
}

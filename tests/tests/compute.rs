//! A program that computes without pause in one thread does not keep the network from another.

use std::io::{Read, Write};
use std::net::{TcpStream, UdpSocket};
use std::time::{Duration, Instant};

use rstest::rstest;
use trireme_tests::guest::Guest;
use trireme_tests::images::image;
use trireme_tests::network::{TAP, isolate_with_tap, static_address};
use trireme_tools::arch::Arch;
use trireme_tools::net::GUEST_V4;
use trireme_tools::qemu::{Machine, Network};

#[rstest]
fn computing_thread_does_not_stall_the_network(#[values(Arch::X86_64, Arch::Aarch64)] arch: Arch) {
    isolate_with_tap();
    let mut machine = Machine::new(arch, &image("compute", arch).boot);
    machine.network = Network::Tap(TAP.to_owned());
    machine.append = static_address();
    let guest = Guest::boot(&machine);
    guest.wait_for("computing and listening", Duration::from_secs(30));

    let socket = UdpSocket::bind("0.0.0.0:0").unwrap();
    socket.connect((GUEST_V4, 7)).unwrap();
    socket.set_read_timeout(Some(Duration::from_secs(2))).unwrap();
    let mut times: Vec<Duration> = (0..200_u32)
        .map(|i| {
            let start = Instant::now();
            socket.send(&i.to_be_bytes()).unwrap();
            let mut buffer = [0; 16];
            assert_eq!(socket.recv(&mut buffer).expect("an echo within 2 s"), 4);
            assert_eq!(buffer[..4], i.to_be_bytes());
            start.elapsed()
        })
        .collect();
    times.sort();
    // Under emulation on a busy machine; a network that waits for the computing thread's time slice each time, or
    // for ever, is far from it.
    assert!(
        times[100] < Duration::from_millis(50),
        "median {:?}, worst {:?}",
        times[100],
        times[199]
    );

    let mut stream = TcpStream::connect((GUEST_V4, 7)).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
    let sent = trireme_tests::files::noise(1, 1 << 20);
    let mut got = vec![0; sent.len()];
    let mut writer = stream.try_clone().unwrap();
    let writing = {
        let sent = sent.clone();
        std::thread::spawn(move || writer.write_all(&sent).unwrap())
    };
    stream.read_exact(&mut got).unwrap();
    writing.join().unwrap();
    assert!(got == sent, "the echo differs");
}

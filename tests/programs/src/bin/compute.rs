//! One thread computes without ever yielding; another answers UDP and TCP on port 7. The network must not stall.

use std::hint::black_box;
use std::io::{Read, Write};
use std::net::{TcpListener, UdpSocket};
use std::thread;

use trireme_test_programs as _;

fn main() -> std::io::Result<()> {
    let udp = UdpSocket::bind("0.0.0.0:7")?;
    let tcp = TcpListener::bind("0.0.0.0:7")?;
    thread::spawn(|| {
        let mut state = 1_u64;
        loop {
            state = black_box(state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1));
        }
    });
    thread::spawn(move || {
        let mut buffer = [0; 2048];
        while let Ok((length, from)) = udp.recv_from(&mut buffer) {
            // A lost answer is the client's to notice.
            let _ = udp.send_to(&buffer[..length], from);
        }
    });
    println!("computing and listening");
    loop {
        let (mut stream, _) = tcp.accept()?;
        let mut buffer = [0; 4096];
        while let Ok(length @ 1..) = stream.read(&mut buffer) {
            if stream.write_all(&buffer[..length]).is_err() {
                break;
            }
        }
    }
}

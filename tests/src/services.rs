//! Services on the host's side of a test's network, for guests that are clients.

use std::io::{Read, Write};
use std::net::{TcpListener, UdpSocket};
use std::thread;

/// Echoes TCP and UDP on a port of `address`, until the test process ends.
pub fn echo(address: &str, port: u16) {
    let udp = UdpSocket::bind((address, port)).expect("the address is this namespace's");
    thread::spawn(move || {
        let mut buffer = vec![0; 65_536];
        while let Ok((length, from)) = udp.recv_from(&mut buffer) {
            // The client notices a lost answer.
            let _ = udp.send_to(&buffer[..length], from);
        }
    });
    let tcp = TcpListener::bind((address, port)).expect("the address is this namespace's");
    thread::spawn(move || {
        for mut stream in tcp.incoming().flatten() {
            thread::spawn(move || {
                let mut buffer = vec![0; 65_536];
                while let Ok(length @ 1..) = stream.read(&mut buffer) {
                    if stream.write_all(&buffer[..length]).is_err() {
                        return;
                    }
                }
            });
        }
    });
}

//! What benches load: TCP sink on 5001, TCP source on 5002 (reads an 8-byte big-endian length, then sends as many
//! bytes, 64 KiB a write), UDP echo on 7. Plain blocking sockets, one thread per service.

use std::io::{self, Read, Write};
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::thread;

use trireme_test_programs as _;

/// Bytes per read and write, as the Linux guest's load program has it.
const BLOCK: usize = 65_536;

fn main() -> io::Result<()> {
    serve(5001, sink)?;
    serve(5002, source)?;
    let udp = UdpSocket::bind("0.0.0.0:7")?;
    println!("listening");
    let mut buffer = vec![0; BLOCK];
    loop {
        let (length, from) = udp.recv_from(&mut buffer)?;
        // A datagram that cannot be answered is the client's to notice.
        let _ = udp.send_to(&buffer[..length], from);
    }
}

/// Serves connections to a port one after the other, in a thread of its own.
fn serve(port: u16, work: fn(&mut TcpStream, &mut [u8]) -> io::Result<()>) -> io::Result<()> {
    let listener = TcpListener::bind(("0.0.0.0", port))?;
    thread::spawn(move || {
        let mut buffer = vec![0; BLOCK];
        loop {
            let served =
                listener.accept().and_then(|(mut stream, _)| work(&mut stream, &mut buffer));
            if let Err(error) = served {
                println!("port {port}: {error}");
            }
        }
    });
    Ok(())
}

fn sink(stream: &mut TcpStream, buffer: &mut [u8]) -> io::Result<()> {
    while stream.read(buffer)? > 0 {}
    Ok(())
}

fn source(stream: &mut TcpStream, buffer: &mut [u8]) -> io::Result<()> {
    let mut length = [0; 8];
    stream.read_exact(&mut length)?;
    let mut left = u64::from_be_bytes(length);
    while left > 0 {
        let most = usize::try_from(left).unwrap_or(usize::MAX).min(buffer.len());
        left -= stream.write(&buffer[..most])? as u64;
    }
    Ok(())
}

//! Client and server in one program, over 127.0.0.1 and ::1.

use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::thread;
use std::time::{Duration, Instant};

use trireme_test_programs as _;

fn main() {
    for address in ["127.0.0.1:0", "[::1]:0"] {
        stream(address);
        datagrams(address);
        timeouts(address);
    }
    refused();
    println!("loopback works");
}

/// A megabyte there and back, checked byte by byte.
fn stream(address: &str) {
    let listener = TcpListener::bind(address).expect("bind");
    let to = listener.local_addr().expect("bound");
    let server = thread::spawn(move || {
        let (mut stream, from) = listener.accept().expect("accept");
        assert_eq!(from.ip(), to.ip());
        let mut buffer = [0; 5000];
        let mut total = 0;
        loop {
            let n = stream.read(&mut buffer).expect("read");
            if n == 0 {
                break total;
            }
            stream.write_all(&buffer[..n]).expect("write");
            total += n;
        }
    });
    let mut stream = TcpStream::connect(to).expect("connect");
    let mut other = stream.try_clone().expect("clone");
    let bytes: Vec<u8> = (0..1_000_000u32).map(|i| (i * 7 + (i >> 8)) as u8).collect();
    let copy = bytes.clone();
    let writer = thread::spawn(move || {
        other.write_all(&copy).expect("write");
        other.shutdown(Shutdown::Write).expect("shutdown");
    });
    let mut back = Vec::new();
    stream.read_to_end(&mut back).expect("read");
    assert!(back == bytes, "{} bytes came back", back.len());
    writer.join().expect("writer");
    assert_eq!(server.join().expect("server"), bytes.len());
    println!("{address}: a megabyte there and back");
}

fn datagrams(address: &str) {
    let one = UdpSocket::bind(address).expect("bind");
    let two = UdpSocket::bind(address).expect("bind");
    let (a, b) = (one.local_addr().expect("bound"), two.local_addr().expect("bound"));
    one.send_to(b"hello", b).expect("send");
    let mut buffer = [0; 100];
    assert_eq!(two.peek_from(&mut buffer).expect("peek"), (5, a));
    assert_eq!(two.recv_from(&mut buffer).expect("receive"), (5, a));
    assert_eq!(&buffer[..5], b"hello");
    two.connect(a).expect("connect");
    two.send(b"back").expect("send");
    assert_eq!(one.recv(&mut buffer).expect("receive"), 4);
    println!("{address}: datagrams");
}

fn timeouts(address: &str) {
    let listener = TcpListener::bind(address).expect("bind");
    let stream = TcpStream::connect(listener.local_addr().expect("bound")).expect("connect");
    let mut peer = listener.accept().expect("accept").0;
    stream.set_read_timeout(Some(Duration::from_millis(100))).expect("timeout");
    let began = Instant::now();
    let error = (&stream).read(&mut [0; 4]).expect_err("there is nothing");
    assert_eq!(error.kind(), ErrorKind::WouldBlock);
    assert!((100..1000).contains(&began.elapsed().as_millis()), "{:?}", began.elapsed());
    listener.set_nonblocking(true).expect("nonblocking");
    assert_eq!(listener.accept().expect_err("nobody").kind(), ErrorKind::WouldBlock);
    peer.write_all(b"late").expect("write");
    let mut four = [0; 4];
    (&stream).read_exact(&mut four).expect("read");
    assert_eq!(&four, b"late");
    drop(peer);
    assert_eq!((&stream).read(&mut four).expect("end"), 0);
    println!("{address}: timeouts");
}

fn refused() {
    let nobody: SocketAddr = "127.0.0.1:1".parse().expect("an address");
    let error = TcpStream::connect(nobody).expect_err("nobody listens");
    assert_eq!(error.kind(), ErrorKind::ConnectionRefused);
    let error = TcpStream::connect_timeout(&nobody, Duration::from_secs(1)).expect_err("nobody");
    assert_eq!(error.kind(), ErrorKind::ConnectionRefused);
    println!("refused as it should be");
}

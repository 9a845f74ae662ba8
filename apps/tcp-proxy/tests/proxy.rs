//! The proxy on loopback: what both sides see of each other.

use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::thread;
use std::time::{Duration, Instant};

use tcp_proxy::Server;
use tcp_proxy::options::{Command, parse};

const LIMIT: Duration = Duration::from_secs(20);

/// Starts a proxy to `targets`; where it listens.
fn proxy(targets: &[SocketAddr], options: &str) -> SocketAddr {
    let targets: Vec<String> = targets.iter().map(|target| format!("--to {target}")).collect();
    let line = format!("--listen 127.0.0.1:0 {} {options}", targets.join(" "));
    let command = parse(line.split_whitespace().map(Into::into)).unwrap();
    let Command::Serve(options) = command else { panic!("{line} serves") };
    let server = Server::bind(&options).unwrap();
    let address = server.addresses().next().unwrap();
    thread::spawn(move || server.run());
    address
}

fn listener() -> (TcpListener, SocketAddr) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    (listener, address)
}

/// Nobody listens there.
fn nobody() -> SocketAddr {
    listener().1
}

fn limited(stream: TcpStream) -> TcpStream {
    stream.set_read_timeout(Some(LIMIT)).unwrap();
    stream.set_write_timeout(Some(LIMIT)).unwrap();
    stream
}

/// A client and its server, through a proxy.
fn pair(options: &str) -> (TcpStream, TcpStream) {
    let (listener, target) = listener();
    let client = limited(TcpStream::connect(proxy(&[target], options)).unwrap());
    (client, limited(listener.accept().unwrap().0))
}

fn noise(length: usize) -> Vec<u8> {
    (0..length as u32).map(|i| (i.wrapping_mul(2_654_435_761) >> 24) as u8).collect()
}

#[test]
fn a_half_that_ends_ends_behind_all_it_sent() {
    for by_client in [true, false] {
        let (client, server) = pair("");
        let (mut first, mut second) = if by_client { (client, server) } else { (server, client) };
        let (question, answer) = (noise(3_000_000), noise(2_000_001));
        let sending = {
            let (mut stream, question) = (first.try_clone().unwrap(), question.clone());
            thread::spawn(move || {
                stream.write_all(&question).unwrap();
                stream.shutdown(Shutdown::Write).unwrap();
            })
        };
        let mut got = Vec::new();
        second.read_to_end(&mut got).unwrap();
        sending.join().unwrap();
        assert!(got == question, "{} of {} octets", got.len(), question.len());
        // The other half is open still.
        let sending = {
            let answer = answer.clone();
            thread::spawn(move || second.write_all(&answer).unwrap())
        };
        let mut got = Vec::new();
        first.read_to_end(&mut got).unwrap();
        sending.join().unwrap();
        assert!(got == answer, "{} of {} octets", got.len(), answer.len());
    }
}

#[test]
fn a_reset_on_one_side_resets_the_other() {
    for by_client in [true, false] {
        let (mut client, mut server) = pair("");
        client.write_all(b"x").unwrap();
        server.read_exact(&mut [0]).unwrap();
        let (killed, mut other) = if by_client { (client, server) } else { (server, client) };
        // What a killed program's system sends if there is something unread.
        other.write_all(b"unread").unwrap();
        thread::sleep(Duration::from_millis(100));
        drop(killed);
        let mut rest = Vec::new();
        let error = other.read_to_end(&mut rest).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::ConnectionReset);
    }
}

#[test]
fn a_slow_reader_stops_its_sender() {
    let (mut client, mut server) = pair("");
    client.set_write_timeout(Some(Duration::from_millis(500))).unwrap();
    let piece = noise(1 << 20);
    let mut sent = 0;
    loop {
        match client.write(&piece[sent % piece.len()..]) {
            Ok(length) => sent += length,
            Err(error) => {
                assert_eq!(error.kind(), ErrorKind::WouldBlock);
                break;
            }
        }
        assert!(sent < 100 << 20, "nothing stops the sender");
    }
    client.shutdown(Shutdown::Write).unwrap();
    let mut got = Vec::new();
    server.read_to_end(&mut got).unwrap();
    assert_eq!(got.len(), sent);
    assert!(got.chunks(piece.len()).all(|chunk| *chunk == piece[..chunk.len()]));
}

#[test]
fn who_is_too_many_waits() {
    let (listener, target) = listener();
    let proxy = proxy(&[target], "--connections 2");
    let clients: Vec<TcpStream> =
        (0..3).map(|_| limited(TcpStream::connect(proxy).unwrap())).collect();
    let mut servers: Vec<TcpStream> = (0..2).map(|_| listener.accept().unwrap().0).collect();
    listener.set_nonblocking(true).unwrap();
    thread::sleep(Duration::from_millis(300));
    assert_eq!(listener.accept().unwrap_err().kind(), ErrorKind::WouldBlock);
    (&clients[2]).write_all(b"third").unwrap();
    drop(servers.pop());
    for client in &clients[..2] {
        let _ = client.shutdown(Shutdown::Both);
    }
    listener.set_nonblocking(false).unwrap();
    let mut third = limited(listener.accept().unwrap().0);
    let mut got = [0; 5];
    third.read_exact(&mut got).unwrap();
    assert_eq!(&got, b"third");
}

#[test]
fn targets_are_tried_in_order() {
    let (listener, target) = listener();
    let mut client = TcpStream::connect(proxy(&[nobody(), target], "")).unwrap();
    client.write_all(b"hello").unwrap();
    let mut got = [0; 5];
    limited(listener.accept().unwrap().0).read_exact(&mut got).unwrap();
    assert_eq!(&got, b"hello");
    let mut client = limited(TcpStream::connect(proxy(&[nobody(), nobody()], "")).unwrap());
    assert_eq!(client.read(&mut [0]).unwrap_err().kind(), ErrorKind::ConnectionReset);
}

#[test]
fn silence_has_an_end() {
    let (mut client, mut server) = pair("--idle-timeout 1");
    client.write_all(b"x").unwrap();
    server.read_exact(&mut [0]).unwrap();
    let start = Instant::now();
    for mut stream in [client, server] {
        assert_eq!(stream.read(&mut [0]).unwrap_err().kind(), ErrorKind::ConnectionReset);
    }
    assert!(start.elapsed() >= Duration::from_millis(900));
}

/// Thousands of connections, however they end, leave no descriptor behind.
#[test]
fn nothing_is_left_of_connections() {
    let open = || std::fs::read_dir("/proc/self/fd").unwrap().count();
    let (listener, target) = listener();
    thread::spawn(move || {
        for (number, stream) in listener.incoming().flatten().enumerate() {
            let mut stream = limited(stream);
            // Some read, some answer, some go at once.
            match number % 3 {
                0 => drop(stream.read(&mut [0; 16])),
                1 => drop(stream.write_all(b"answer")),
                _ => {}
            }
        }
    });
    let proxy = proxy(&[target], "");
    let connect = |number: usize| {
        let mut stream = limited(TcpStream::connect(proxy).unwrap());
        drop(stream.write_all(b"question"));
        match number % 3 {
            0 => drop(stream.shutdown(Shutdown::Write)),
            1 => drop(stream.read(&mut [0; 16])),
            _ => return,
        }
        // The end of either kind.
        while matches!(stream.read(&mut [0; 64]), Ok(1..)) {}
    };
    (0..20).for_each(connect);
    // Other tests in this process come and go: wait for a quiet moment.
    let settled = |most: usize| {
        let end = Instant::now() + LIMIT;
        while open() > most && Instant::now() < end {
            thread::sleep(Duration::from_millis(20));
        }
        open() <= most
    };
    let before = open();
    (0..2000).for_each(connect);
    assert!(settled(before + 20), "{} descriptors, {before} before", open());
}

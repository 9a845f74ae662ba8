//! The services, spoken to over loopback.

use std::io::{ErrorKind, Read, Write};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::time::Duration;

use echo::Server;
use echo::options::Options;

/// Free ports. Another process could take one before the server does; then the test fails and says so.
fn ports<const N: usize>() -> [u16; N] {
    let listeners = [(); N].map(|()| TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap());
    listeners.map(|listener| listener.local_addr().unwrap().port())
}

fn start(change: impl FnOnce(&mut Options)) -> (SocketAddr, SocketAddr, SocketAddr) {
    let [port, sink, source] = ports();
    let mut options =
        Options { port, sink: Some(sink), source: Some(source), ..Options::default() };
    change(&mut options);
    let (bound, is_bound) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        let server = Server::bind(&options).unwrap();
        bound.send(()).unwrap();
        panic!("{}", server.run());
    });
    is_bound.recv().unwrap();
    let at = |port| SocketAddr::from((Ipv4Addr::LOCALHOST, port));
    (at(port), at(sink), at(source))
}

fn connect(address: SocketAddr) -> TcpStream {
    let stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
    stream
}

#[test]
fn tcp_comes_back_and_ends_when_the_peer_ends() {
    let (echo, ..) = start(|_| {});
    let mut stream = connect(echo);
    let sent: Vec<u8> =
        (0..10_000_000u32).map(|index| (index.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
    let mut writer = stream.try_clone().unwrap();
    let copy = sent.clone();
    let thread = std::thread::spawn(move || {
        writer.write_all(&copy).unwrap();
        writer.shutdown(Shutdown::Write).unwrap();
    });
    let mut received = Vec::new();
    stream.read_to_end(&mut received).unwrap();
    thread.join().unwrap();
    assert!(received == sent);
}

#[test]
fn a_peer_that_does_not_read_loses_nothing() {
    let (echo, ..) = start(|_| {});
    let mut stream = connect(echo);
    stream.set_write_timeout(Some(Duration::from_millis(300))).unwrap();
    let block: Vec<u8> = (0..65_536u32).map(|index| (index * 7) as u8).collect();
    let mut sent = 0;
    let error = loop {
        match stream.write(&block[sent % block.len()..]) {
            Ok(n) => sent += n,
            Err(error) => break error,
        }
    };
    assert_eq!(error.kind(), ErrorKind::WouldBlock, "everything was taken: where is it?");
    stream.shutdown(Shutdown::Write).unwrap();
    let mut received = Vec::new();
    stream.read_to_end(&mut received).unwrap();
    assert_eq!(received.len(), sent);
    assert!(received.chunks(block.len()).all(|chunk| block.starts_with(chunk)));
}

#[test]
fn many_connections_at_once() {
    let (echo, ..) = start(|_| {});
    let mut streams: Vec<TcpStream> = (0..200).map(|_| connect(echo)).collect();
    for (index, stream) in streams.iter_mut().enumerate() {
        write!(stream, "this is {index}").unwrap();
    }
    for (index, stream) in streams.iter_mut().enumerate().rev() {
        let expected = format!("this is {index}");
        let mut received = vec![0; expected.len()];
        stream.read_exact(&mut received).unwrap();
        assert_eq!(received, expected.as_bytes());
    }
}

#[test]
fn beyond_the_limit_connections_end_at_once() {
    let (echo, ..) = start(|options| options.connections = 2);
    let mut kept = [connect(echo), connect(echo)];
    for stream in &mut kept {
        stream.write_all(b"a").unwrap();
        stream.read_exact(&mut [0]).unwrap();
    }
    let mut refused = connect(echo);
    assert_eq!(refused.read(&mut [0]).unwrap_or(0), 0);
    drop(kept);
    std::thread::sleep(Duration::from_millis(100));
    let mut stream = connect(echo);
    stream.write_all(b"b").unwrap();
    stream.read_exact(&mut [0]).unwrap();
}

#[test]
fn idle_connections_are_closed() {
    let (echo, ..) = start(|options| options.idle_timeout = Duration::from_millis(200));
    let (mut idle, mut busy) = (connect(echo), connect(echo));
    for _ in 0..6 {
        busy.write_all(b"a").unwrap();
        busy.read_exact(&mut [0]).unwrap();
        std::thread::sleep(Duration::from_millis(60));
    }
    assert_eq!(idle.read(&mut [0]).unwrap(), 0);
    busy.write_all(b"a").unwrap();
    busy.read_exact(&mut [0]).unwrap();
}

#[test]
fn the_sink_takes_everything_and_closes() {
    let (_, sink, _) = start(|_| {});
    let mut stream = connect(sink);
    stream.write_all(&vec![1; 5_000_000]).unwrap();
    stream.shutdown(Shutdown::Write).unwrap();
    assert_eq!(stream.read(&mut [0]).unwrap(), 0);
}

#[test]
fn the_source_sends_what_is_asked_for() {
    let (.., source) = start(|_| {});
    for length in [0u64, 1, 65_521, 3_000_000] {
        let mut stream = connect(source);
        let request = length.to_be_bytes();
        stream.write_all(&request[..3]).unwrap();
        std::thread::sleep(Duration::from_millis(20));
        stream.write_all(&request[3..]).unwrap();
        let mut received = Vec::new();
        stream.read_to_end(&mut received).unwrap();
        assert_eq!(received.len() as u64, length);
        let expected = |index: usize| ((index as u64 % 65_521 * 2_654_435_761) >> 24) as u8;
        assert!(received.iter().enumerate().all(|(index, &octet)| octet == expected(index)));
    }
    // Half a request, and a peer that goes away in the middle of an answer.
    drop(connect(source).write(b"abc"));
    let mut stream = connect(source);
    stream.write_all(&u64::MAX.to_be_bytes()).unwrap();
    stream.read_exact(&mut [0; 1000]).unwrap();
    drop(stream);
    let mut stream = connect(source);
    stream.write_all(&1u64.to_be_bytes()).unwrap();
    stream.read_exact(&mut [0]).unwrap();
}

#[test]
fn datagrams_come_back() {
    let (echo, ..) = start(|_| {});
    let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    socket.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
    for length in [0, 1, 1472, 9000, 65_507] {
        let sent: Vec<u8> = (0..length).map(|index| (index % 251) as u8).collect();
        socket.send_to(&sent, echo).unwrap();
        let mut buffer = vec![0; 65_536];
        let (n, peer) = socket.recv_from(&mut buffer).unwrap();
        assert_eq!((&buffer[..n], peer), (&sent[..], echo));
    }
}

//! Sockets of one stack talking to each other over 127.0.0.1 and ::1.

use std::net::SocketAddr;
use trireme_netstack::{
    Config, Duration, Error, Event, Family, Instant, Kind, Readiness, Shutdown, SocketId,
    SocketOption, Stack,
};

struct Host {
    stack: Stack,
    now: Instant,
}

impl Host {
    fn new() -> Host {
        let config =
            Config { seed: [42; 32], buffer_budget: 64 << 20, hostname: "test".to_string() };
        let now = Instant::from_secs(1);
        Host { stack: Stack::new(config, now), now }
    }

    /// Polls until nothing is left to do at this time.
    fn settle(&mut self) {
        for _ in 0..10_000 {
            self.now += Duration::from_micros(10);
            let poll = self.stack.poll(self.now);
            if !poll.again && poll.wake_at.is_none_or(|at| at > self.now) {
                return;
            }
        }
        panic!("does not come to rest");
    }

    fn listen(&mut self, address: &str) -> SocketId {
        let address: SocketAddr = address.parse().unwrap();
        let family = if address.is_ipv4() { Family::V4 } else { Family::V6 };
        let id = self.stack.socket(family, Kind::Stream).unwrap();
        self.stack.bind(id, address).unwrap();
        self.stack.listen(id, 128, self.now).unwrap();
        id
    }

    fn connect(&mut self, address: &str) -> SocketId {
        let address: SocketAddr = address.parse().unwrap();
        let family = if address.is_ipv4() { Family::V4 } else { Family::V6 };
        let id = self.stack.socket(family, Kind::Stream).unwrap();
        assert_eq!(self.stack.connect(id, address, self.now), Err(Error::InProgress));
        self.settle();
        id
    }

    fn pair(&mut self, address: &str) -> (SocketId, SocketId) {
        let listener = self.listen(address);
        let client = self.connect(address);
        let (server, peer) = self.stack.accept(listener, self.now).unwrap();
        assert_eq!(peer, self.stack.local_address(client).unwrap());
        self.stack.close(listener, self.now).unwrap();
        (client, server)
    }

    fn read_all(&mut self, id: SocketId) -> Vec<u8> {
        let mut all = Vec::new();
        let mut buffer = [0; 4096];
        while let Ok(read) = self.stack.recv(id, &mut buffer, false, self.now) {
            if read == 0 {
                break;
            }
            all.extend_from_slice(&buffer[..read]);
        }
        all
    }
}

#[test]
fn bulk_both_ways_v4_and_v6() {
    for address in ["127.0.0.1:80", "[::1]:80"] {
        let mut host = Host::new();
        let (client, server) = host.pair(address);
        let data: Vec<u8> =
            (0..3_000_000u32).map(|i| (i.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
        for (from, to) in [(client, server), (server, client)] {
            let (mut sent, mut received) = (0, Vec::new());
            for _ in 0..100_000 {
                if received.len() == data.len() {
                    break;
                }
                match host.stack.send(from, &data[sent..], host.now) {
                    Ok(n) => sent += n,
                    Err(Error::WouldBlock) => {}
                    Err(error) => panic!("{error}"),
                }
                host.settle();
                received.extend(host.read_all(to));
            }
            assert!(received == data, "{} of {}", received.len(), data.len());
        }
    }
}

#[test]
fn half_close_and_end_of_stream() {
    let mut host = Host::new();
    let (client, server) = host.pair("127.0.0.1:80");
    host.stack.send(client, b"request", host.now).unwrap();
    host.stack.shutdown(client, Shutdown::Write, host.now).unwrap();
    host.settle();
    assert_eq!(host.stack.send(client, b"more", host.now), Err(Error::BrokenPipe));
    let mut buffer = [0; 100];
    while host.stack.next_event().is_some() {}
    assert_eq!(host.stack.recv(server, &mut buffer, false, host.now), Ok(7));
    // A short read says "empty for now": that it was the last has to be told, whatever the ring's size.
    assert_eq!(host.stack.next_event(), Some(Event::Socket(server)));
    assert_eq!(host.stack.recv(server, &mut buffer, false, host.now), Ok(0));
    assert!(host.stack.readiness(server).contains(Readiness::READ_CLOSED | Readiness::WRITABLE));
    host.stack.send(server, b"answer", host.now).unwrap();
    host.stack.close(server, host.now).unwrap();
    assert_eq!(host.stack.send(server, b"x", host.now), Err(Error::BadDescriptor));
    host.settle();
    assert_eq!(host.read_all(client), b"answer");
    assert!(host.stack.readiness(client).contains(Readiness::HANGUP));
    // Read long after: nothing may be lost to a timer.
    host.now += Duration::from_secs(100);
    host.settle();
    assert_eq!(host.stack.recv(client, &mut buffer, false, host.now), Ok(0));
    host.stack.close(client, host.now).unwrap();
    host.now += Duration::from_secs(100);
    host.settle();
    assert_eq!(host.stack.sockets(), [], "all is forgotten");
    assert_eq!(host.stack.usage().1, 0, "all memory is back");
}

#[test]
fn unread_bytes_at_close_reset_the_peer() {
    let mut host = Host::new();
    let (client, server) = host.pair("127.0.0.1:80");
    host.stack.send(client, b"never read", host.now).unwrap();
    host.settle();
    host.stack.close(server, host.now).unwrap();
    host.settle();
    assert!(host.stack.readiness(client).contains(Readiness::ERROR));
    assert_eq!(host.stack.take_error(client), Some(Error::ConnectionReset));
    assert_eq!(host.stack.take_error(client), None);
}

#[test]
fn nobody_listens() {
    let mut host = Host::new();
    let id = host.connect("127.0.0.1:81");
    assert_eq!(host.stack.next_event(), Some(Event::Socket(id)));
    assert_eq!(host.stack.take_error(id), Some(Error::ConnectionRefused));
    assert_eq!(host.stack.peer_address(id), Err(Error::NotConnected));
}

#[test]
fn dual_stack_listener_shows_mapped_addresses() {
    let mut host = Host::new();
    let listener = host.listen("[::]:80");
    let client = host.connect("127.0.0.1:80");
    let (server, peer) = host.stack.accept(listener, host.now).unwrap();
    let port = host.stack.local_address(client).unwrap().port();
    assert_eq!(peer, format!("[::ffff:127.0.0.1]:{port}").parse().unwrap());
    assert_eq!(host.stack.local_address(server).unwrap(), "[::ffff:127.0.0.1]:80".parse().unwrap());

    let only = host.stack.socket(Family::V6, Kind::Stream).unwrap();
    host.stack.set_option(only, SocketOption::OnlyV6(true), host.now).unwrap();
    host.stack.bind(only, "[::]:81".parse().unwrap()).unwrap();
    host.stack.listen(only, 1, host.now).unwrap();
    let refused = host.connect("127.0.0.1:81");
    assert_eq!(host.stack.take_error(refused), Some(Error::ConnectionRefused));
}

#[test]
fn five_hundred_connects_at_once() {
    let mut host = Host::new();
    let listener = host.listen("127.0.0.1:80");
    let clients: Vec<SocketId> = (0..512)
        .map(|_| {
            let id = host.stack.socket(Family::V4, Kind::Stream).unwrap();
            let to = "127.0.0.1:80".parse().unwrap();
            assert_eq!(host.stack.connect(id, to, host.now), Err(Error::InProgress));
            id
        })
        .collect();
    host.settle();
    for _ in 0..20 {
        // Loopback's ring is small: some SYNs wait for it.
        host.settle();
    }
    let mut accepted = 0;
    while host.stack.accept(listener, host.now).is_ok() {
        accepted += 1;
    }
    assert_eq!(accepted, 512);
    for id in clients {
        assert_eq!(host.stack.readiness(id), Readiness::WRITABLE);
    }
}

#[test]
fn datagrams_keep_their_boundaries_and_senders() {
    let mut host = Host::new();
    let server = host.stack.socket(Family::V6, Kind::Datagram).unwrap();
    host.stack.bind(server, "[::]:53".parse().unwrap()).unwrap();
    let client = host.stack.socket(Family::V4, Kind::Datagram).unwrap();
    host.stack.connect(client, "127.0.0.1:53".parse().unwrap(), host.now).unwrap();
    let large = vec![7; 60_000];
    for data in [&b"one"[..], b"", &large] {
        assert_eq!(host.stack.send(client, data, host.now), Ok(data.len()));
    }
    host.settle();
    assert_eq!(host.stack.next_event(), Some(Event::Socket(server)));
    assert_eq!(host.stack.available(server), 3);
    let mut buffer = vec![0; 65_536];
    let from = host.stack.local_address(client).unwrap().port();
    let from: SocketAddr = format!("[::ffff:127.0.0.1]:{from}").parse().unwrap();
    assert_eq!(host.stack.recv_from(server, &mut buffer[..2], true, host.now), Ok((2, from)));
    assert_eq!(host.stack.recv_from(server, &mut buffer, false, host.now), Ok((3, from)));
    assert_eq!(host.stack.recv_from(server, &mut buffer, false, host.now), Ok((0, from)));
    assert_eq!(host.stack.recv_from(server, &mut buffer, false, host.now), Ok((60_000, from)));
    assert!(buffer[..60_000] == large);
    assert_eq!(host.stack.recv_from(server, &mut buffer, false, host.now), Err(Error::WouldBlock));
    assert_eq!(host.stack.send_to(server, b"back", from, host.now), Ok(4));
    host.settle();
    assert_eq!(host.stack.recv(client, &mut buffer, false, host.now), Ok(4));

    // And to a port without a socket.
    let lonely = host.stack.socket(Family::V4, Kind::Datagram).unwrap();
    host.stack.connect(lonely, "127.0.0.1:9".parse().unwrap(), host.now).unwrap();
    host.stack.send(lonely, b"?", host.now).unwrap();
    host.settle();
    assert_eq!(
        host.stack.recv(lonely, &mut buffer, false, host.now),
        Err(Error::ConnectionRefused)
    );
}

#[test]
fn a_datagram_socket_s_buffer_is_as_large_as_asked() {
    let mut host = Host::new();
    let server = host.stack.socket(Family::V4, Kind::Datagram).unwrap();
    host.stack.bind(server, "127.0.0.1:53".parse().unwrap()).unwrap();
    let client = host.stack.socket(Family::V4, Kind::Datagram).unwrap();
    host.stack.connect(client, "127.0.0.1:53".parse().unwrap(), host.now).unwrap();
    host.stack.set_option(server, SocketOption::ReceiveBuffer(4096), host.now).unwrap();
    for _ in 0..10 {
        host.stack.send(client, &[1; 1000], host.now).unwrap();
        host.settle();
    }
    let mut buffer = [0; 1500];
    let mut received = 0;
    while host.stack.recv(server, &mut buffer, false, host.now).is_ok() {
        received += 1;
    }
    assert_eq!(received, 3, "three with their bookkeeping fit 4096 bytes");
    assert_eq!(host.stack.statistics().udp_queue_full, 7);
    host.stack.close(server, host.now).unwrap();
    host.stack.close(client, host.now).unwrap();
    assert_eq!(host.stack.usage().1, 0);
}

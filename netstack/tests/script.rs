//! The stack against a scripted peer: frame by frame, with time standing still between.

mod common;

use common::{Abilities, Card, Ends, MAC, fill};
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex};
use trireme_netstack::{
    Addressing, Config, Duration, Error, Event, Family, Instant, Ipv4Addressing, Ipv6Addressing,
    Kind, Readiness, SocketId, SocketOption, SocketOptionName, SocketState, Stack,
};
use trireme_nic::ReceiveChecksum;

const PEER_MAC: [u8; 6] = [2, 0, 0, 0, 0, 1];
const OURS: [u8; 4] = [10, 0, 0, 2];
const PEER: [u8; 4] = [10, 0, 0, 1];
const SYN: u8 = 2;
const RST: u8 = 4;
const PSH: u8 = 8;
const ACK: u8 = 16;
const FIN: u8 = 1;

/// What the tests look at of a segment.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Segment {
    source: u16,
    destination: u16,
    sequence: u32,
    acknowledgement: u32,
    flags: u8,
    window: u16,
    payload: Vec<u8>,
}

struct Host {
    stack: Stack,
    ends: Arc<Mutex<Ends>>,
    now: Instant,
}

fn ipv4(protocol: u8, source: [u8; 4], destination: [u8; 4], payload: &[u8]) -> Vec<u8> {
    let [hi, lo] = ((20 + payload.len()) as u16).to_be_bytes();
    let mut frame = [&MAC[..], &PEER_MAC, &[8, 0]].concat();
    frame.extend_from_slice(&[0x45, 0, hi, lo, 0, 1, 0x40, 0, 64, protocol, 0, 0]);
    frame.extend_from_slice(&source);
    frame.extend_from_slice(&destination);
    frame.extend_from_slice(payload);
    let sum = !common::sum(&[&frame[14..34]]);
    frame[24..26].copy_from_slice(&sum.to_be_bytes());
    frame
}

fn icmp(kind: u8, code: u8, rest: [u8; 4], data: &[u8]) -> Vec<u8> {
    let mut message = [&[kind, code, 0, 0][..], &rest, data].concat();
    let sum = !common::sum(&[&message]);
    message[2..4].copy_from_slice(&sum.to_be_bytes());
    ipv4(1, PEER, OURS, &message)
}

impl Host {
    fn new() -> Host {
        Host::with(Abilities::default(), 64 << 20)
    }

    fn with(abilities: Abilities, buffer_budget: usize) -> Host {
        let (card, ends) = Card::new(abilities);
        let now = Instant::from_secs(1);
        let config = Config { seed: [5; 32], buffer_budget, hostname: String::new() };
        let mut stack = Stack::new(config, now);
        let gateway = Some(Ipv4Addr::from(PEER));
        let addressing = Addressing {
            ipv4: Ipv4Addressing::Static { address: OURS.into(), prefix: 24, gateway },
            ipv6: Ipv6Addressing::LinkLocal,
            ..Addressing::default()
        };
        stack.add_interface(card, addressing, now);
        let mut host = Host { stack, ends, now };
        let arp = [&[0, 1, 8, 0, 6, 4, 0, 1][..], &PEER_MAC, &PEER, &[0; 6], &OURS].concat();
        host.deliver([&[0xff; 6][..], &PEER_MAC, &[8, 6], &arp].concat());
        host.pass(Duration::from_secs(3));
        host.sent();
        host
    }

    fn deliver(&mut self, frame: Vec<u8>) {
        self.ends.lock().unwrap().towards.push_back((frame, ReceiveChecksum::Unverified));
    }

    fn poll(&mut self) {
        while self.stack.poll(self.now).again {}
    }

    /// Lets time pass, polling when the stack wants to be.
    fn pass(&mut self, time: Duration) {
        let end = self.now + time;
        loop {
            self.poll();
            match self.stack.wake_at() {
                Some(at) if at <= end => self.now = at.max(self.now + Duration::from_micros(1)),
                _ => break,
            }
        }
        self.now = end;
        self.poll();
    }

    fn sent(&mut self) -> Vec<Vec<u8>> {
        self.ends.lock().unwrap().sent.drain(..).collect()
    }

    /// TCP segments sent, all sums checked.
    fn segments(&mut self) -> Vec<Segment> {
        let read = |frame: &Vec<u8>| {
            let packet = etherparse::SlicedPacket::from_ethernet(frame).unwrap();
            let etherparse::TransportSlice::Tcp(tcp) = packet.transport? else { return None };
            let mut summed = frame.clone();
            fill(&mut summed);
            assert_eq!(summed, *frame, "sums");
            let flags = frame[47];
            Some(Segment {
                source: tcp.source_port(),
                destination: tcp.destination_port(),
                sequence: tcp.sequence_number(),
                acknowledgement: tcp.acknowledgment_number(),
                flags,
                window: tcp.window_size(),
                payload: tcp.payload().to_vec(),
            })
        };
        self.sent().iter().filter_map(read).collect()
    }

    fn segment(&mut self, port: u16, sequence: u32, acknowledgement: u32, flags: u8, data: &[u8]) {
        self.segment_from(PEER, port, sequence, acknowledgement, flags, data);
    }

    fn segment_from(
        &mut self,
        from: [u8; 4],
        port: u16,
        sequence: u32,
        acknowledgement: u32,
        flags: u8,
        data: &[u8],
    ) {
        self.queue_segment(from, port, sequence, acknowledgement, flags, data);
        self.poll();
    }

    /// A segment for the next turn.
    fn queue_segment(
        &mut self,
        from: [u8; 4],
        port: u16,
        sequence: u32,
        acknowledgement: u32,
        flags: u8,
        data: &[u8],
    ) {
        let mut tcp = [port.to_be_bytes(), 80u16.to_be_bytes()].concat();
        tcp.extend_from_slice(&sequence.to_be_bytes());
        tcp.extend_from_slice(&acknowledgement.to_be_bytes());
        let options: &[u8] = if flags & SYN != 0 { &[2, 4, 0x05, 0xb4, 1, 3, 3, 7] } else { &[] };
        let offset = (5 + options.len() as u8 / 4) << 4;
        tcp.extend_from_slice(&[offset, flags, 0xff, 0xff, 0, 0, 0, 0]);
        tcp.extend_from_slice(options);
        tcp.extend_from_slice(data);
        let mut frame = ipv4(6, from, OURS, &tcp);
        fill(&mut frame);
        self.deliver(frame);
    }

    /// A counter of the offload layer.
    fn counter(&self, name: &str) -> u64 {
        let mut found = None;
        self.stack.offload_statistics(0, &mut |of, value| {
            if of == name {
                found = Some(value);
            }
        });
        found.unwrap()
    }

    fn listen(&mut self) -> SocketId {
        let id = self.stack.socket(Family::V4, Kind::Stream).unwrap();
        self.stack.bind(id, "0.0.0.0:80".parse().unwrap()).unwrap();
        self.stack.listen(id, 128, self.now).unwrap();
        id
    }

    /// An accepted connection from the peer's port, whose first byte is 1001. Returns our first
    /// sequence number too.
    fn open(&mut self, listener: SocketId, port: u16) -> (SocketId, u32) {
        self.segment(port, 1000, 0, SYN, &[]);
        let answer = self.segments().pop().unwrap();
        assert_eq!(answer.flags, SYN | ACK);
        let ours = answer.sequence.wrapping_add(1);
        self.segment(port, 1001, ours, ACK, &[]);
        let (id, peer) = self.stack.accept(listener, self.now).unwrap();
        assert_eq!(peer, SocketAddr::from((PEER, port)));
        self.segments();
        (id, ours)
    }
}

#[test]
fn a_small_request_is_acknowledged_by_its_answer() {
    let mut host = Host::new();
    let listener = host.listen();
    let (id, ours) = host.open(listener, 5000);
    host.segment(5000, 1001, ours, ACK | PSH, b"GET /");
    assert_eq!(host.segments(), [], "not at once");
    let doorbells = host.ends.lock().unwrap().doorbells;
    host.stack.recv(id, &mut [0; 99], false, host.now).unwrap();
    host.stack.send_vectored(id, &[b"200", b" OK"], host.now).unwrap();
    let sent = host.segments();
    assert_eq!(sent.len(), 1);
    assert_eq!((sent[0].acknowledgement, &sent[0].payload[..]), (1006, &b"200 OK"[..]));
    assert_eq!(host.ends.lock().unwrap().doorbells, doorbells + 1);
    // Without an answer: 10 ms later.
    host.segment(5000, 1006, ours.wrapping_add(6), ACK | PSH, b"GET /");
    host.pass(Duration::from_millis(9));
    assert_eq!(host.segments(), []);
    host.pass(Duration::from_millis(2));
    assert_eq!(host.segments()[0].acknowledgement, 1011);
    // Two full segments: at once. And a merged one too.
    host.segment(5000, 1011, ours.wrapping_add(6), ACK, &[0; 1460]);
    host.segment(5000, 2471, ours.wrapping_add(6), ACK, &[0; 1460]);
    assert_eq!(host.segments().last().unwrap().acknowledgement, 3931);
    host.segment(5000, 3931, ours.wrapping_add(6), ACK, &[0; 14_600]);
    assert_eq!(host.segments().last().unwrap().acknowledgement, 18_531);
}

#[test]
fn lost_data_is_sent_again_and_a_silent_peer_times_out() {
    let mut host = Host::new();
    let listener = host.listen();
    let (id, ours) = host.open(listener, 5000);
    host.stack.send(id, b"hello", host.now).unwrap();
    assert_eq!(host.segments().len(), 1);
    host.pass(Duration::from_millis(2500));
    let again = host.segments();
    assert!(!again.is_empty() && again.iter().all(|s| s.sequence == ours && s.payload == b"hello"));
    assert_eq!(host.counter("tx_tcp_retransmits"), again.len() as u64);
    host.pass(Duration::from_secs(140));
    assert!(host.stack.readiness(id).contains(Readiness::ERROR | Readiness::HANGUP));
    assert_eq!(host.stack.take_error(id), Some(Error::TimedOut));
}

/// A TCP segment that repeats: by sequence numbers alone, as an observer on the wire would count (Linux's
/// `TcpRetransSegs` counts the same at the sender). Cards that cut, and software that does.
#[test]
fn segments_sent_again_are_counted_one_by_one() {
    for card_cuts in [false, true] {
        let mut host = Host::with(
            Abilities { checksums: card_cuts, segmentation: card_cuts, ..Abilities::default() },
            64 << 20,
        );
        let listener = host.listen();
        let (id, ours) = host.open(listener, 5000);
        let (mut sent_to, mut heard, mut again) = (ours, ours, 0);
        host.stack.send(id, &[7; 200_000], host.now).unwrap();
        for round in 0..20 {
            // From the fourth round on everything is lost, but for one segment a round.
            host.pass(Duration::from_millis(if round < 4 { 10 } else { 2500 }));
            for segment in host.segments() {
                let end = segment.sequence.wrapping_add(segment.payload.len() as u32);
                if segment.payload.is_empty() {
                    continue;
                }
                if (segment.sequence.wrapping_sub(sent_to) as i32) < 0 {
                    again += 1;
                }
                if (end.wrapping_sub(sent_to) as i32) > 0 {
                    sent_to = end;
                }
            }
            heard = if round < 4 { sent_to } else { heard.wrapping_add(1460) };
            host.segment(5000, 1001, heard, ACK, &[]);
        }
        assert!(again > 10, "{again}");
        assert_eq!(host.counter("tx_tcp_retransmits"), again, "card cuts: {card_cuts}");
    }
}

#[test]
fn connecting_to_a_silent_host_gives_up_after_two_minutes() {
    let mut host = Host::new();
    let id = host.stack.socket(Family::V4, Kind::Stream).unwrap();
    let to = SocketAddr::from((PEER, 9));
    assert_eq!(host.stack.connect(id, to, host.now), Err(Error::InProgress));
    assert_eq!(host.stack.connect(id, to, host.now), Err(Error::InProgress));
    assert_eq!(host.stack.send(id, b"early", host.now), Err(Error::WouldBlock));
    host.pass(Duration::from_secs(120));
    let syns = host.segments();
    assert!((5..10).contains(&syns.len()), "{}", syns.len());
    assert!(syns.iter().all(|s| s.flags == SYN && s.sequence == syns[0].sequence));
    assert_eq!(host.counter("tx_tcp_retransmits"), syns.len() as u64 - 1);
    assert_eq!(host.stack.readiness(id), Readiness::empty());
    host.pass(Duration::from_secs(10));
    assert!(host.stack.readiness(id).contains(Readiness::ERROR));
    assert_eq!(host.stack.take_error(id), Some(Error::TimedOut));
}

#[test]
fn an_idle_connection_stays_without_keepalive_and_goes_with_it() {
    let mut host = Host::new();
    let listener = host.listen();
    let (idle, _) = host.open(listener, 5000);
    let (probed, ours) = host.open(listener, 5001);
    for option in [
        SocketOption::KeepAlive(true),
        SocketOption::KeepIdle(Duration::from_secs(60)),
        SocketOption::KeepInterval(Duration::from_secs(10)),
        SocketOption::KeepCount(3),
    ] {
        host.stack.set_option(probed, option, host.now).unwrap();
    }
    host.pass(Duration::from_secs(61));
    let probes = host.segments();
    assert_eq!(probes.len(), 1, "{probes:?}");
    assert_eq!(probes[0].sequence, ours.wrapping_sub(1));
    assert_eq!(host.counter("tx_tcp_retransmits"), 0, "a probe repeats nothing that is missing");
    // Answered: another minute of peace.
    host.segment(5001, 1001, ours, ACK, &[]);
    host.pass(Duration::from_secs(58));
    assert_eq!(host.segments(), []);
    host.pass(Duration::from_secs(40));
    assert!(host.segments().iter().filter(|s| s.destination == 5001).count() >= 3);
    assert_eq!(host.stack.take_error(probed), Some(Error::TimedOut));
    assert_eq!(host.stack.readiness(idle), Readiness::WRITABLE);
    host.pass(Duration::from_secs(100_000));
    assert_eq!(host.stack.readiness(idle), Readiness::WRITABLE);
}

#[test]
fn a_flood_of_syns_leaves_room_for_honest_clients() {
    let mut host = Host::with(Abilities::default(), 16 << 20);
    let listener = host.listen();
    for n in 0..3000u32 {
        let from = [10, 0, 1 + (n >> 8) as u8, n as u8];
        host.segment_from(from, 1000, n, 0, SYN, &[]);
        host.sent();
    }
    let statistics = host.stack.statistics();
    assert_eq!(statistics.cookies_sent, 3000 - 256);
    let (id, ours) = host.open(listener, 5000);
    host.segment(5000, 1001, ours, ACK | PSH, b"through");
    let mut buffer = [0; 99];
    assert_eq!(host.stack.recv(id, &mut buffer, false, host.now), Ok(7));
    host.stack.send(id, b"welcome", host.now).unwrap();
    let answer = host.segments().pop().unwrap();
    assert_eq!((answer.sequence, &answer.payload[..]), (ours, &b"welcome"[..]));
    // A guess is answered by a reset.
    host.segment(5001, 1001, 0x1234_5678, ACK, &[]);
    assert_eq!(host.segments().pop().unwrap().flags, RST);
    assert_eq!(host.stack.accept(listener, host.now), Err(Error::WouldBlock));
    host.pass(Duration::from_secs(20));
    assert_eq!(host.stack.statistics().half_open_expired, 256);
}

/// A connection that a cookie brings back has a SYN-ACK of smoltcp's behind it that is not sent: it needs no room in
/// the card's ring. It used to wait for some, and the ACK that came meanwhile was reset.
#[test]
fn a_cookie_is_good_while_the_ring_is_full() {
    let mut host = Host::with(Abilities { ring: 8, ..Abilities::default() }, 16 << 20);
    let listener = host.listen();
    let from = |n: u32| [10, 0, 1 + (n >> 8) as u8, n as u8];
    for n in 0..300 {
        host.segment_from(from(n), 1000, n, 0, SYN, &[]);
        host.sent();
    }
    host.segment(5000, 1000, 0, SYN, &[]);
    let ours = host.segments().pop().unwrap().sequence.wrapping_add(1);
    // In one batch: so many answers that the ring is full, the ACK, and the request behind it.
    for n in 300..320 {
        host.queue_segment(from(n), 1000, n, 0, SYN, &[]);
    }
    host.queue_segment(PEER, 5000, 1001, ours, ACK, &[]);
    host.queue_segment(PEER, 5000, 1001, ours, ACK | PSH, b"through");
    host.poll();
    host.pass(Duration::from_millis(100));
    assert!(host.segments().iter().all(|segment| segment.flags & RST == 0));
    let (id, _) = host.stack.accept(listener, host.now).unwrap();
    assert_eq!(host.stack.recv(id, &mut [0; 99], false, host.now), Ok(7));
    assert_eq!(host.stack.statistics().cookies_accepted, 1, "once, not for each segment");
}

/// The first ACK and the request were lost: what the peer sends behind them is no reason to reset it, neither while
/// there is nothing of it but the cookie nor beside the connection that its repeated SYN began.
#[test]
fn a_segment_behind_a_lost_first_one_is_no_reason_for_a_reset() {
    for repeated in [false, true] {
        let mut host = Host::new();
        let listener = host.listen();
        for n in 0..256u32 {
            host.segment_from([10, 0, 1, n as u8], 1000, n, 0, SYN, &[]);
        }
        host.segment(5000, 1000, 0, SYN, &[]);
        let ours = host.segments().pop().unwrap().sequence.wrapping_add(1);
        assert_eq!(host.stack.statistics().cookies_sent, 1);
        if repeated {
            host.pass(Duration::from_secs(11));
            host.segment(5000, 1000, 0, SYN, &[]);
            let other = host.segments().pop().unwrap().sequence.wrapping_add(1);
            assert_ne!(other, ours, "room for a connection");
        }
        host.segment(5000, 1006, ours, ACK, &[]);
        assert!(host.segments().iter().all(|segment| segment.flags & RST == 0));
        assert_eq!(host.stack.statistics().cookies_early, 1);
        host.segment(5000, 1001, ours, ACK | PSH, b"first");
        let (id, _) = host.stack.accept(listener, host.now).unwrap();
        assert_eq!(host.stack.recv(id, &mut [0; 99], false, host.now), Ok(5));
        // A number that is not a cookie's is answered as ever.
        host.segment(5001, 1006, ours, ACK, &[]);
        assert!(host.segments().iter().any(|segment| segment.flags & RST != 0));
    }
}

/// Three repeated acknowledgements while only the FIN is in flight ask for nothing, and must not keep the FIN from
/// being sent again.
#[test]
fn a_lost_fin_is_sent_again_however_often_the_data_is_acknowledged() {
    let mut host = Host::new();
    let listener = host.listen();
    let (id, first) = host.open(listener, 5000);
    host.stack.send(id, b"answer", host.now).unwrap();
    host.poll();
    host.stack.close(id, host.now).unwrap();
    host.poll();
    let end = first.wrapping_add(6);
    assert!(host.segments().iter().any(|s| s.flags & FIN != 0 && s.sequence == end));
    for _ in 0..5 {
        host.segment(5000, 1001, end, ACK, &[]);
    }
    host.pass(Duration::from_secs(2));
    let again = host.segments().pop().unwrap();
    assert_eq!((again.flags & FIN, again.sequence), (FIN, end));
    // A probe of the peer's is answered all the same.
    host.segment(5000, 1000, end, ACK, &[]);
    assert_eq!(host.segments().pop().unwrap().acknowledgement, 1001);
}

#[test]
fn a_flood_holds_no_large_rings() {
    let mut host = Host::with(Abilities::default(), 256 << 20);
    let listener = host.listen();
    for n in 0..256u32 {
        host.segment_from([10, 0, 1, n as u8], 1000, n, 0, SYN, &[]);
    }
    let (_, used, budget) = host.stack.usage();
    assert!(used < budget / 4, "{used} of {budget}");
    // Once it is over, a connection gets what a lone one gets.
    host.pass(Duration::from_secs(11));
    host.segments();
    let (id, _) = host.open(listener, 5000);
    let ring = host.stack.option(id, SocketOptionName::ReceiveBuffer);
    assert_eq!(ring, Ok(SocketOption::ReceiveBuffer(512 << 10)));
}

#[test]
fn a_handshake_with_data_on_the_cookie_s_ack() {
    let mut host = Host::new();
    let listener = host.listen();
    for n in 0..256u32 {
        host.segment_from([10, 0, 1, n as u8], 1000, n, 0, SYN, &[]);
    }
    host.segments();
    host.segment(5000, 1000, 0, SYN, &[]);
    let cookie = host.segments().pop().unwrap();
    // The bare ACK was lost; the first data comes in its place.
    host.segment(5000, 1001, cookie.sequence.wrapping_add(1), ACK | PSH, b"first");
    let (id, _) = host.stack.accept(listener, host.now).unwrap();
    assert_eq!(host.stack.recv(id, &mut [0; 9], false, host.now), Ok(5));
}

#[test]
fn a_syn_repeated_after_its_cookie_does_not_spoil_it() {
    let mut host = Host::new();
    let listener = host.listen();
    for n in 0..256u32 {
        host.segment_from([10, 0, 1, n as u8], 1000, n, 0, SYN, &[]);
    }
    host.segments();
    host.segment(5000, 1000, 0, SYN, &[]);
    let cookie = host.segments().pop().unwrap();
    assert_eq!(host.stack.statistics().cookies_sent, 1);
    // One of the others gives up, and there is room for the SYN that was on its way again.
    host.segment_from([10, 0, 1, 7], 1000, 8, 0, RST, &[]);
    host.segment(5000, 1000, 0, SYN, &[]);
    let other = host.segments().pop().unwrap();
    assert_ne!(other.sequence, cookie.sequence);
    // The peer took the first answer.
    host.segment(5000, 1001, cookie.sequence.wrapping_add(1), ACK, &[]);
    host.segment(5000, 1001, cookie.sequence.wrapping_add(1), ACK | PSH, b"first");
    assert!(host.segments().iter().all(|segment| segment.flags & RST == 0));
    let (id, _) = host.stack.accept(listener, host.now).unwrap();
    assert_eq!(host.stack.recv(id, &mut [0; 9], false, host.now), Ok(5));
    assert_eq!(host.stack.accept(listener, host.now), Err(Error::WouldBlock));
}

#[test]
fn a_listener_says_when_a_peer_was_left_outside() {
    // Room for twenty connections or so.
    let mut host = Host::with(Abilities::default(), 128 << 10);
    let listener = host.listen();
    let mut accepted = Vec::new();
    let cookie = loop {
        let port = 5000 + accepted.len() as u16;
        host.segment(port, 1000, 0, SYN, &[]);
        let answer = host.segments().pop().unwrap();
        host.segment(port, 1001, answer.sequence.wrapping_add(1), ACK, &[]);
        match host.stack.accept(listener, host.now) {
            Ok((id, _)) => accepted.push(id),
            Err(_) => break answer.sequence,
        }
        assert!(accepted.len() < 100);
    };
    let port = 5000 + accepted.len() as u16;
    assert_eq!(host.stack.statistics().no_memory, 1);
    // The accept that came away empty-handed took note of it.
    assert_eq!(host.stack.readiness(listener), Readiness::empty());
    while host.stack.next_event().is_some() {}
    host.segment(port, 1001, cookie.wrapping_add(1), ACK | PSH, b"GET");
    assert_eq!(host.stack.readiness(listener), Readiness::CROWDED);
    assert_eq!(host.stack.next_event(), Some(Event::Socket(listener)));
    // Room is made, and the peer tries once more.
    let gone = accepted.pop().unwrap();
    host.stack.set_option(gone, SocketOption::Linger(Some(Duration::ZERO)), host.now).unwrap();
    host.stack.close(gone, host.now).unwrap();
    host.segment(port, 1001, cookie.wrapping_add(1), ACK | PSH, b"GET");
    let (id, _) = host.stack.accept(listener, host.now).unwrap();
    assert_eq!(host.stack.recv(id, &mut [0; 9], false, host.now), Ok(3));
    assert_eq!(host.stack.readiness(listener), Readiness::empty());
}

#[test]
fn time_wait_answers_for_a_connection_that_is_gone() {
    let mut host = Host::new();
    let listener = host.listen();
    let (id, ours) = host.open(listener, 5000);
    host.stack.close(id, host.now).unwrap();
    assert_eq!(host.segments()[0].flags, FIN | ACK);
    host.segment(5000, 1001, ours.wrapping_add(1), FIN | ACK, &[]);
    let last = host.segments().pop().unwrap();
    assert_eq!((last.flags, last.acknowledgement), (ACK, 1002));
    let states: Vec<SocketState> = host.stack.sockets().iter().map(|s| s.state).collect();
    assert_eq!(states, [SocketState::Listen(0), SocketState::TimeWait]);
    // Its FIN again: the acknowledgement was lost.
    host.segment(5000, 1001, ours.wrapping_add(1), FIN | ACK, &[]);
    let again = host.segments().pop().unwrap();
    assert_eq!((again.flags, again.sequence), (ACK, last.sequence));
    assert_eq!(again.acknowledgement, last.acknowledgement);
    // A new connection with the same ports begins beyond the old sequence numbers.
    host.segment(5000, 70_000, 0, SYN, &[]);
    let answer = host.segments().pop().unwrap();
    assert_eq!((answer.flags, answer.acknowledgement), (SYN | ACK, 70_001));
    host.pass(Duration::from_secs(61));
    assert!(host.stack.sockets().iter().all(|s| s.state != SocketState::TimeWait));
}

#[test]
fn sequence_numbers_and_ports_cannot_be_guessed() {
    let mut host = Host::new();
    host.listen();
    let mut seen = std::collections::BTreeSet::new();
    for port in 6000..6100 {
        host.segment(port, 1000, 0, SYN, &[]);
        seen.insert(host.segments().pop().unwrap().sequence >> 24);
    }
    assert!(seen.len() > 60, "initial sequence numbers differ: {}", seen.len());
    let mut ports = std::collections::BTreeSet::new();
    for _ in 0..100 {
        let id = host.stack.socket(Family::V4, Kind::Stream).unwrap();
        let to = SocketAddr::from((PEER, 9));
        assert_eq!(host.stack.connect(id, to, host.now), Err(Error::InProgress));
        ports.insert(host.segments().pop().unwrap().source / 512);
    }
    assert!(ports.len() > 30, "ports differ: {}", ports.len());
}

#[test]
fn a_path_with_a_smaller_mtu_gets_smaller_segments() {
    let mut host = Host::new();
    let listener = host.listen();
    let (id, ours) = host.open(listener, 5000);
    host.stack.send(id, &[7; 1460], host.now).unwrap();
    let sent = host.sent().pop().unwrap();
    assert_eq!(sent.len(), 1514);
    host.deliver(icmp(
        3,
        4,
        [0, 0, 1400u16.to_be_bytes()[0], 1400u16.to_be_bytes()[1]],
        &sent[14..42],
    ));
    host.pass(Duration::from_secs(3));
    let again = host.segments();
    assert!(again.iter().all(|s| s.payload.len() <= 1360), "{:?}", again.len());
    assert_eq!(again[0].sequence, ours);
    // And the next connection begins with it.
    host.segment(5001, 1000, 0, SYN, &[]);
    let ours = host.segments().pop().unwrap().sequence.wrapping_add(1);
    host.segment(5001, 1001, ours, ACK, &[]);
    let (id, _) = host.stack.accept(listener, host.now).unwrap();
    host.stack.send(id, &[7; 3000], host.now).unwrap();
    assert!(host.segments().iter().all(|s| s.payload.len() <= 1360));
    // A message about bytes that were never sent changes nothing.
    let mut forged = sent[14..42].to_vec();
    forged[24] ^= 0x80;
    host.deliver(icmp(3, 4, [0, 0, 2, 0], &forged));
    host.poll();
    assert_eq!(host.stack.statistics().icmp_out_of_window, 1);
}

#[test]
fn icmp_errors_reach_those_they_are_about() {
    let mut host = Host::new();
    let stream = host.stack.socket(Family::V4, Kind::Stream).unwrap();
    let far = SocketAddr::from(([192, 0, 2, 1], 80));
    assert_eq!(host.stack.connect(stream, far, host.now), Err(Error::InProgress));
    let syn = host.sent().pop().unwrap();
    host.deliver(icmp(3, 1, [0; 4], &syn[14..42]));
    host.poll();
    assert_eq!(host.stack.next_event(), Some(Event::Socket(stream)));
    assert_eq!(host.stack.take_error(stream), Some(Error::HostUnreachable));

    let datagram = host.stack.socket(Family::V4, Kind::Datagram).unwrap();
    host.stack.connect(datagram, far, host.now).unwrap();
    host.stack.send(datagram, b"?", host.now).unwrap();
    let question = host.sent().pop().unwrap();
    host.deliver(icmp(3, 3, [0; 4], &question[14..42]));
    host.poll();
    assert_eq!(
        host.stack.recv(datagram, &mut [0; 9], false, host.now),
        Err(Error::ConnectionRefused)
    );

    // An established connection is not ended by one.
    let listener = host.listen();
    let (id, _) = host.open(listener, 5000);
    host.stack.send(id, b"x", host.now).unwrap();
    let data = host.sent().pop().unwrap();
    host.deliver(icmp(3, 1, [0; 4], &data[14..42]));
    host.poll();
    assert_eq!(host.stack.take_error(id), None);
}

#[test]
fn datagrams_wait_for_the_neighbour_and_nobody_waits_for_another_s() {
    let mut host = Host::new();
    let id = host.stack.socket(Family::V4, Kind::Datagram).unwrap();
    let to = |host: u8| SocketAddr::from(([10, 0, 0, host], 9));
    for n in 0..3 {
        assert_eq!(host.stack.send_to(id, &[n], to(50), host.now), Ok(1));
        assert_eq!(host.stack.send_to(id, &[n], to(51), host.now), Ok(1));
    }
    host.poll();
    let asked: Vec<u8> = host.sent().iter().map(|frame| frame[41]).collect();
    assert_eq!(asked, [50, 51]);
    // 51 answers; 50 never does.
    let mac = [2, 0, 0, 0, 0, 51];
    let arp = [&[0, 1, 8, 0, 6, 4, 0, 2][..], &mac, &[10, 0, 0, 51], &MAC, &OURS].concat();
    host.deliver([&MAC[..], &mac, &[8, 6], &arp].concat());
    host.poll();
    let sent = host.sent();
    assert_eq!(sent.iter().map(|frame| frame[42]).collect::<Vec<_>>(), [0, 1, 2]);
    assert!(sent.iter().all(|frame| frame[..6] == mac));
    host.pass(Duration::from_secs(4));
    assert_eq!(host.sent().len(), 2, "asked twice more");
    assert_eq!(host.stack.send_to(id, b"next", to(51), host.now), Ok(4));
    assert_eq!(host.sent().len(), 1);
}

#[test]
fn multicast_reaches_every_member_and_is_reported() {
    let mut host = Host::new();
    let group = Ipv4Addr::new(239, 1, 2, 3);
    let members: Vec<SocketId> = (0..2)
        .map(|_| {
            let id = host.stack.socket(Family::V4, Kind::Datagram).unwrap();
            host.stack.set_option(id, SocketOption::ReuseAddress(true), host.now).unwrap();
            host.stack.bind(id, "0.0.0.0:7000".parse().unwrap()).unwrap();
            let join = SocketOption::JoinMulticastV4(group, Ipv4Addr::UNSPECIFIED);
            host.stack.set_option(id, join, host.now).unwrap();
            id
        })
        .collect();
    let report = host.sent().pop().unwrap();
    assert_eq!(report[..6], [0x01, 0x00, 0x5e, 1, 2, 3]);
    let packet = etherparse::SlicedPacket::from_ethernet(&report).unwrap();
    let etherparse::NetSlice::Ipv4(ip) = packet.net.unwrap() else { panic!() };
    assert_eq!(
        (ip.header().protocol().0, ip.header().ttl(), ip.header().options()),
        (2, 1, &[0x94, 4, 0, 0][..])
    );
    assert_eq!(ip.header().to_header().calc_header_checksum(), ip.header().header_checksum());
    // Type, no time, sum, group (RFC 2236, 2).
    assert_eq!(ip.payload().payload, [0x16, 0, 0xf8, 0xfa, 239, 1, 2, 3]);
    assert!(host.ends.lock().unwrap().filter.contains(&[0x01, 0x00, 0x5e, 1, 2, 3]));

    let mut frame =
        ipv4(17, PEER, group.octets(), &[0x1b, 0x58, 0x1b, 0x58, 0, 10, 0, 0, b'h', b'i']);
    frame[..6].copy_from_slice(&[0x01, 0x00, 0x5e, 1, 2, 3]);
    fill(&mut frame);
    host.deliver(frame.clone());
    host.poll();
    let mut buffer = [0; 9];
    for &id in &members {
        assert_eq!(host.stack.recv_from(id, &mut buffer, false, host.now).unwrap().0, 2);
    }
    // Our own is heard too, unless switched off.
    let to = SocketAddr::from((group, 7000));
    host.stack.send_to(members[0], b"self", to, host.now).unwrap();
    assert_eq!(host.stack.recv_from(members[1], &mut buffer, false, host.now).unwrap().0, 4);
    host.stack.set_option(members[0], SocketOption::MulticastLoop(false), host.now).unwrap();
    host.stack.send_to(members[0], b"others", to, host.now).unwrap();
    assert_eq!(
        host.stack.recv_from(members[1], &mut buffer, false, host.now).map(|r| r.0),
        Err(Error::WouldBlock)
    );
    let sent = host.sent();
    assert!(sent.iter().all(|f| f[..6] == [0x01, 0x00, 0x5e, 1, 2, 3] && f[22] == 1));

    host.stack.close(members[0], host.now).unwrap();
    assert_eq!(host.sent(), Vec::<Vec<u8>>::new());
    host.stack.close(members[1], host.now).unwrap();
    assert_eq!(host.sent().pop().unwrap()[38], 0x17, "leave");
    host.deliver(frame);
    host.poll();
    assert_eq!(host.sent(), Vec::<Vec<u8>>::new(), "no error for multicast");
}

#[test]
fn broadcast_needs_the_option() {
    let mut host = Host::new();
    let id = host.stack.socket(Family::V4, Kind::Datagram).unwrap();
    let all = "10.0.0.255:9".parse().unwrap();
    assert_eq!(host.stack.send_to(id, b"x", all, host.now), Err(Error::PermissionDenied));
    host.stack.set_option(id, SocketOption::Broadcast(true), host.now).unwrap();
    assert_eq!(host.stack.send_to(id, b"x", all, host.now), Ok(1));
    assert_eq!(host.sent().pop().unwrap()[..6], [0xff; 6]);
}

#[test]
fn resets_and_errors_for_strangers_are_rationed() {
    let mut host = Host::new();
    for n in 0..1000u16 {
        host.segment(1000 + n, 1, 1, ACK, &[]);
    }
    assert_eq!(host.segments().len(), 200);
    for _ in 0..1000 {
        let mut frame = ipv4(17, PEER, OURS, &[0, 9, 0, 9, 0, 8, 0, 0]);
        fill(&mut frame);
        host.deliver(frame);
    }
    host.poll();
    assert_eq!(host.sent().len(), 50);
    assert_eq!(host.stack.statistics().icmp_limited, 950);
}

#[test]
fn recovery_sends_all_the_window_allows_at_once() {
    // A ring too small for frames to be cut: one segment a frame.
    let small = Abilities { segmentation: false, ring: 16, ..Abilities::default() };
    let mut host = Host::with(small, 64 << 20);
    let listener = host.listen();
    let (id, ours) = host.open(listener, 5000);
    let mut acknowledged = ours;
    for _ in 0..4 {
        host.stack.send(id, &[1; 1460], host.now).unwrap();
        acknowledged = acknowledged.wrapping_add(1460);
        host.segment(5000, 1001, acknowledged, ACK, &[]);
    }
    host.segments();
    // All of these are lost, and there is nothing more to send.
    host.stack.send(id, &[1; 4 * 1460], host.now).unwrap();
    assert_eq!(host.segments().len(), 4);
    host.pass(Duration::from_millis(1100));
    let again = host.segments();
    assert_eq!(again.len(), 1);
    assert_eq!((again[0].sequence, again[0].payload.len()), (acknowledged, 1460));
    host.segment(5000, 1001, acknowledged.wrapping_add(1460), ACK, &[]);
    assert_eq!(host.segments().len(), 2, "slow start: two for one");
}

#[test]
fn slow_start_doubles_although_whole_frames_are_acknowledged() {
    // Sixteen round trips of slow start would be 16 segments without splitting acknowledgements.
    let mut host = Host::new();
    let listener = host.listen();
    let (id, ours) = host.open(listener, 5000);
    let mut acknowledged = ours;
    let mut flights = Vec::new();
    for _ in 0..8 {
        while host.stack.send(id, &[1; 65_536], host.now).is_ok() {}
        let sent = host.segments();
        let bytes: usize = sent.iter().map(|s| s.payload.len()).sum();
        flights.push(bytes);
        acknowledged = acknowledged.wrapping_add(bytes as u32);
        host.now += Duration::from_millis(10);
        host.segment(5000, 1001, acknowledged, ACK, &[]);
        host.segment(5000, 1001, acknowledged, ACK, &[]);
    }
    assert!(flights[7] > 60 * 1460, "{flights:?}");
}

#[test]
fn an_idle_connection_lets_the_stack_sleep() {
    let mut host = Host::new();
    let listener = host.listen();
    host.open(listener, 5000);
    assert_eq!(host.stack.poll(host.now).wake_at, None);
}

#[test]
fn data_with_the_last_handshake_segment_is_acknowledged_in_time() {
    let mut host = Host::new();
    host.listen();
    host.segment(5000, 1000, 0, SYN, &[]);
    let ours = host.segments()[0].sequence.wrapping_add(1);
    host.segment(5000, 1001, ours, ACK | PSH, b"early");
    // Nobody reads it. RFC 9293, 3.8.6.3: within half a second.
    host.pass(Duration::from_millis(500));
    assert_eq!(host.segments().pop().unwrap().acknowledgement, 1006);
}

/// Nothing comes from the wire, so nothing but the stack itself can see to it that the card tells of room.
#[test]
fn a_datagram_stopped_by_a_full_ring_makes_a_turn_due() {
    let mut host = Host::with(Abilities { ring: 8, ..Abilities::default() }, 64 << 20);
    let socket = host.stack.socket(Family::V4, Kind::Datagram).unwrap();
    let peer = SocketAddr::from((PEER, 9));
    let idle = host.stack.wake_at();
    let send = |host: &mut Host| host.stack.send_to(socket, &[0; 1000], peer, host.now);
    let mut sent = 0;
    while send(&mut host) != Err(Error::WouldBlock) {
        sent += 1;
        assert!(sent < 1000, "the ring is never full");
    }
    assert!(host.stack.wake_at().is_some_and(|at| at <= host.now), "no turn is due");
    host.poll();
    assert_eq!(host.stack.wake_at(), idle, "the turn has been had");
    assert!(host.stack.readiness(socket).contains(Readiness::WRITABLE));
    assert_eq!(send(&mut host), Ok(1000));
}

#[test]
fn segments_are_no_larger_than_asked_for() {
    let mut host = Host::with(Abilities { segmentation: false, ..Abilities::default() }, 64 << 20);
    let listener = host.listen();
    let set = |host: &mut Host, id, octets| {
        host.stack.set_option(id, SocketOption::MaxSegment(octets), host.now)
    };
    // Linux's bounds [tcp(7), `TCP_MAXSEG`].
    for refused in [1, 87, 32_768] {
        assert_eq!(set(&mut host, listener, refused), Err(Error::InvalidArgument));
    }
    set(&mut host, listener, 1000).unwrap();
    let (id, ours) = host.open(listener, 5000);
    let longest = |host: &mut Host| {
        host.stack.send(id, &[0; 4000], host.now).unwrap();
        host.segments().iter().map(|segment| segment.payload.len()).max()
    };
    assert_eq!(longest(&mut host), Some(1000));
    let size = SocketOption::MaxSegment(1000);
    assert_eq!(host.stack.option(id, SocketOptionName::MaxSegment), Ok(size));
    // While it is open, too.
    host.segment(5000, 1001, ours.wrapping_add(4000), ACK, b"");
    set(&mut host, id, 500).unwrap();
    assert_eq!(longest(&mut host), Some(500));
}

/// What smoltcp has decided to send again and can't, it forgets: so it is not asked while the ring is full.
#[test]
fn a_fast_retransmission_waits_for_a_full_ring() {
    // One frame at a time, as some room is kept for answers.
    let abilities = Abilities { segmentation: false, ring: 3, ..Abilities::default() };
    let mut host = Host::with(abilities, 64 << 20);
    let listener = host.listen();
    let (busy, _) = host.open(listener, 5000);
    let (id, ours) = host.open(listener, 5001);
    host.stack.send(id, &[1; 1000], host.now).unwrap();
    host.poll();
    host.stack.send(busy, &[2; 60_000], host.now).unwrap();
    host.pass(Duration::from_millis(50));
    let out = host.segments();
    let busy_to = out.iter().filter(|s| s.destination == 5000);
    let busy_to = busy_to.map(|s| s.sequence.wrapping_add(s.payload.len() as u32)).max().unwrap();
    assert!(out.iter().any(|s| s.destination == 5001 && s.sequence == ours));
    // In one batch: one flow may send and fills the ring, the other has lost its first segment.
    host.queue_segment(PEER, 5000, 1001, busy_to, ACK, b"");
    for _ in 0..3 {
        host.queue_segment(PEER, 5001, 1001, ours, ACK, b"");
    }
    host.pass(Duration::from_secs(5));
    let again = host.segments();
    assert!(again.iter().any(|s| s.destination == 5001 && s.sequence == ours), "lost for good");
    assert!(again.iter().any(|s| s.destination == 5000 && s.sequence == busy_to));
}

/// A connection whose peer has filled the window, while 1460 bytes of ours are on their way to it.
struct Full {
    host: Host,
    id: SocketId,
    ours: u32,
    /// Where the window last announced ends, and the furthest that one ended.
    edge: u32,
    promised: u32,
}

impl Full {
    /// `hole`: the first segment was lost.
    fn new(hole: bool) -> Full {
        let mut host = Host::new();
        let listener = host.listen();
        host.segment(5000, 1000, 0, SYN, &[]);
        let frame = host.sent().pop().unwrap();
        // Among the SYN's options: kind 3, three bytes long (RFC 7323, 2.2).
        let scale = frame[54..].windows(3).find(|option| option[..2] == [3, 3]).unwrap()[2];
        let ours = u32::from_be_bytes(frame[38..42].try_into().unwrap()).wrapping_add(1);
        host.segment(5000, 1001, ours, ACK, &[]);
        let (id, _) = host.stack.accept(listener, host.now).unwrap();
        host.stack.send(id, &[1; 1460], host.now).unwrap();
        let first = host.segments().pop().unwrap();
        let edge_of = |segment: &Segment| {
            segment.acknowledgement.wrapping_add(u32::from(segment.window) << scale)
        };
        let mut edge = edge_of(&first);
        let (mut next, mut promised) = (1001, edge);
        if hole {
            next += 1448;
        }
        while next != promised {
            // As GRO would leave it: acknowledged at once, so that little time passes.
            let len = 14_598.min(promised - next);
            host.segment(5000, next, ours, ACK, &vec![2; len as usize]);
            next += len;
            host.pass(Duration::from_millis(1));
            if let Some(last) = host.segments().last() {
                edge = edge_of(last);
                promised = promised.max(edge);
            }
        }
        assert_eq!(host.counter("tx_tcp_retransmits"), 0);
        Full { host, id, ours, edge, promised }
    }

    /// Was the first segment sent again? Not more than once, as its acknowledgement then comes.
    fn sends_again(&mut self) -> bool {
        self.host.pass(Duration::from_secs(2));
        self.host.segments().iter().any(|segment| segment.sequence == self.ours)
    }

    fn acknowledge(&mut self, sequence: u32, payload: &[u8]) {
        self.host.segment(5000, sequence, self.ours.wrapping_add(1460), ACK, payload);
    }
}

/// "If the RCV.WND is zero, no segments will be acceptable, but special allowance should be made to accept valid ACKs"
/// (RFC 9293, 3.10.7.4). smoltcp makes none, and announces a window in steps of its scale, so that a peer may have
/// sent a few octets behind it. An application that echoes reads nothing until it can write: for ever.
#[test]
fn a_peer_that_filled_the_window_is_still_heard() {
    for hole in [false, true] {
        let mut full = Full::new(hole);
        if !hole {
            assert!(full.edge < full.promised, "a window that ends where it did says nothing here");
        }
        full.acknowledge(full.promised, b"");
        assert!(!full.sends_again());
        assert_eq!(full.host.stack.send(full.id, &[3; 10], full.host.now), Ok(10));
        let more = full.host.segments();
        assert_eq!((more[0].sequence, &more[0].payload[..]), (full.ours + 1460, &[3; 10][..]));
    }
}

/// The same from a probe of the closed window, which is answered besides (RFC 9293, 3.8.6.1).
#[test]
fn a_probe_of_the_window_is_heard_and_answered() {
    let mut full = Full::new(false);
    full.acknowledge(full.edge, &[2; 8]);
    let answer = full.host.segments();
    assert_eq!(answer.len(), 1);
    assert_eq!((answer[0].acknowledgement, answer[0].window), (full.edge, 0));
    assert!(!full.sends_again());
    // Nothing of it was taken.
    let mut buffer = vec![0; 1 << 20];
    let count = full.host.stack.recv(full.id, &mut buffer, false, full.host.now).unwrap();
    assert_eq!(count as u32, full.edge - 1001);
}

/// The allowance goes as far as the peer was ever told it may send, and no further (RFC 5961, 5).
#[test]
fn an_acknowledgement_from_elsewhere_is_not_heard() {
    for sequence in [1, 1000, 1 << 20] {
        let mut full = Full::new(false);
        full.acknowledge(full.promised + sequence, b"");
        assert!(full.sends_again(), "{sequence}");
    }
}

/// A SYN in the middle of a connection may be anybody's (RFC 5961, 4): its terms are not taken.
#[test]
fn a_stranger_s_syn_changes_no_terms() {
    let mut host = Host::with(Abilities { segmentation: false, ..Abilities::default() }, 64 << 20);
    let listener = host.listen();
    let (id, ours) = host.open(listener, 5000);
    let mut frame = ipv4(6, PEER, OURS, &{
        let mut tcp = [5000u16.to_be_bytes(), 80u16.to_be_bytes()].concat();
        tcp.extend_from_slice(&77_777u32.to_be_bytes());
        tcp.extend_from_slice(&[0, 0, 0, 0, 6 << 4, SYN, 0xff, 0xff, 0, 0, 0, 0, 2, 4, 0, 48]);
        tcp
    });
    fill(&mut frame);
    host.deliver(frame);
    host.poll();
    host.segments();
    host.segment(5000, 1001, ours, ACK, &[]);
    host.stack.send(id, &[1; 1460], host.now).unwrap();
    assert_eq!(host.segments()[0].payload.len(), 1460);
}

/// Every link has its fe80::/10: which one is meant, the scope says (RFC 4007), as in `fe80::1%eth1`.
#[test]
fn link_local_addresses_have_a_scope() {
    let mut now = Instant::from_secs(1);
    let config = Config { seed: [5; 32], buffer_budget: 64 << 20, hostname: String::new() };
    let mut stack = Stack::new(config, now);
    let ends = [(); 2].map(|()| {
        let (card, ends) = Card::new(Abilities::default());
        stack.add_interface(card, Addressing::default(), now);
        ends
    });
    for _ in 0..30 {
        now += Duration::from_millis(100);
        while stack.poll(now).again {}
    }
    // Of the cards, how many frames went to fe80::1 or asked for it.
    let peer: [u8; 16] = "fe80::1".parse::<std::net::Ipv6Addr>().unwrap().octets();
    let asked = || {
        ends.each_ref().map(|ends| {
            let sent: Vec<Vec<u8>> = ends.lock().unwrap().sent.drain(..).collect();
            sent.iter().filter(|frame| frame.windows(16).any(|w| *w == peer)).count()
        })
    };
    asked();
    let to = |scope| SocketAddr::from(std::net::SocketAddrV6::new(peer.into(), 9, 0, scope));
    // The loopback is 1, as `if_nametoindex` counts.
    for (scope, wanted) in [(2, [1, 0]), (3, [0, 1])] {
        let socket = stack.socket(Family::V6, Kind::Datagram).unwrap();
        stack.send_to(socket, b"x", to(scope), now).unwrap();
        while stack.poll(now).again {}
        assert_eq!(asked(), wanted, "a datagram to scope {scope}");
        let socket = stack.socket(Family::V6, Kind::Stream).unwrap();
        // The neighbour is asked for already, by the datagram.
        assert_eq!(stack.connect(socket, to(scope), now), Err(Error::InProgress));
        assert_eq!(
            stack.local_address(socket).unwrap().ip().to_string().split(':').next(),
            Some("fe80")
        );
    }
    let socket = stack.socket(Family::V6, Kind::Datagram).unwrap();
    assert_eq!(stack.send_to(socket, b"x", to(9), now), Err(Error::AddressNotAvailable));

    // Who has sent a datagram is told with the link it came by, so that an answer finds back.
    stack.bind(socket, "[::]:7".parse().unwrap()).unwrap();
    let [a, b, c, d, e, f] = MAC;
    let ours = [0xfe, 0x80, 0, 0, 0, 0, 0, 0, a ^ 2, b, c, 0xff, 0xfe, d, e, f];
    let udp = [0, 9, 0, 7, 0, 9, 0, 0, b'x'];
    let ip = [&[0x60, 0, 0, 0, 0, 9, 17, 255][..], &peer, &ours].concat();
    let mut frame = [&MAC[..], &PEER_MAC, &[0x86, 0xdd], &ip, &udp].concat();
    fill(&mut frame);
    ends[1].lock().unwrap().towards.push_back((frame, ReceiveChecksum::Unverified));
    while stack.poll(now).again {}
    let (length, from) = stack.recv_from(socket, &mut [0; 9], false, now).unwrap();
    assert_eq!((length, from), (1, to(3)));
}

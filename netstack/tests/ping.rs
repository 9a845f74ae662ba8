//! Echo requests and what comes back, against etherparse.

mod card;

use card::{Card, Peer};
use etherparse::{
    IcmpEchoHeader, Icmpv4Slice, Icmpv4Type, Icmpv6Type, NetSlice, PacketBuilder, SlicedPacket,
    TransportSlice,
};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use trireme_netstack::ipconfig::Plan;
use trireme_netstack::{
    Answer, AnswerKind, Config, Duration, Error, Event, Instant, MAX_PING_PAYLOAD, Stack,
};

const OURS: [u8; 6] = [2, 0, 0, 0, 0, 1];
const THEIRS: [u8; 6] = [2, 0, 0, 0, 0, 0x99];
const V4: [u8; 4] = [192, 0, 2, 2];
const PEER: [u8; 4] = [192, 0, 2, 1];

struct Host {
    stack: Stack,
    peer: Peer,
    now: Instant,
}

impl Host {
    fn new() -> Host {
        let config = Config { seed: [7; 32], buffer_budget: 1 << 20, hostname: "oar".into() };
        let now = Instant::from_secs(100);
        let mut stack = Stack::new(config, now);
        let mut card = Card::able(32);
        let peer = card.attach();
        let mut plan = Plan::new();
        plan.add("192.0.2.2::192.0.2.1:255.255.255.0::eth0:off").unwrap();
        stack.add_interface(Box::new(card), plan.addressing("eth0"), now);
        let mut host = Host { stack, peer, now };
        host.pass(Duration::from_secs(5));
        host.sent();
        host
    }

    fn pass(&mut self, time: Duration) {
        let end = self.now + time;
        for _ in 0..1000 {
            let poll = self.stack.poll(self.now);
            match poll.wake_at {
                _ if poll.again => {}
                Some(at) if at <= end => self.now = self.now.max(at),
                _ => {
                    self.now = end;
                    return;
                }
            }
        }
        panic!("does not come to rest");
    }

    fn sent(&mut self) -> Vec<Vec<u8>> {
        self.pass(Duration::from_millis(1));
        self.peer.incoming.try_iter().collect()
    }

    fn hears(&mut self, frame: Vec<u8>) {
        self.peer.outgoing.send(frame).unwrap();
        self.pass(Duration::from_millis(1));
    }

    /// Answers the ARP request for the peer.
    fn know_peer(&mut self) {
        let asked = self.sent();
        let request = asked.iter().find(|frame| frame[12..14] == [8, 6]).expect("an ARP request");
        let mut reply = request.clone();
        reply[..6].copy_from_slice(&OURS);
        reply[6..12].copy_from_slice(&THEIRS);
        reply[20..22].copy_from_slice(&[0, 2]);
        reply[22..28].copy_from_slice(&THEIRS);
        reply[28..32].copy_from_slice(&PEER);
        reply[32..38].copy_from_slice(&OURS);
        reply[38..42].copy_from_slice(&V4);
        self.hears(reply);
    }

    /// The echo request that was sent: its header and payload.
    fn request(&mut self) -> (IcmpEchoHeader, Vec<u8>) {
        let frames = self.sent();
        let [frame] = &frames[..] else { panic!("{frames:?}") };
        let packet = SlicedPacket::from_ethernet(frame).unwrap();
        let Some(TransportSlice::Icmpv4(icmp)) = packet.transport else { panic!("not ICMP") };
        let Icmpv4Type::EchoRequest(header) = icmp.icmp_type() else { panic!("not an echo") };
        let sum = Icmpv4Type::EchoRequest(header).calc_checksum(icmp.payload());
        assert_eq!(icmp.checksum(), sum);
        (header, icmp.payload().to_vec())
    }
}

fn reply(from: [u8; 4], echo: IcmpEchoHeader, payload: &[u8]) -> Vec<u8> {
    let builder = PacketBuilder::ethernet2(THEIRS, OURS)
        .ipv4(from, V4, 61)
        .icmpv4(Icmpv4Type::EchoReply(echo));
    let mut frame = Vec::new();
    builder.write(&mut frame, payload).unwrap();
    frame
}

#[test]
fn an_echo_comes_back_to_who_asked() {
    let mut host = Host::new();
    let id = host.stack.ping_open(PEER.into(), None).unwrap();
    assert_eq!(host.stack.ping_source(id), Ok(IpAddr::from(V4)));
    host.stack.ping(id, 7, 56, 64, host.now).unwrap();
    host.know_peer();
    let (echo, payload) = host.request();
    assert_eq!((echo.seq, payload.len()), (7, 56));
    // Somebody else's identifier, and somebody else's address.
    host.hears(reply(PEER, IcmpEchoHeader { id: echo.id ^ 1, ..echo }, &payload));
    host.hears(reply([192, 0, 2, 77], echo, &payload));
    assert_eq!(host.stack.ping_answer(id), None);
    host.hears(reply(PEER, echo, &payload));
    assert_eq!(host.stack.next_event(), Some(Event::Ping(id)));
    let answer = host.stack.ping_answer(id).unwrap();
    let kind = AnswerKind::Reply { bytes: 64, hops: 61, damaged: false };
    assert_eq!((answer.sequence, answer.from, answer.kind), (7, IpAddr::from(PEER), kind));
    // A bit fell over on the way and the sum was made anew.
    let mut damaged = payload.clone();
    damaged[9] ^= 4;
    host.hears(reply(PEER, echo, &damaged));
    let answer = host.stack.ping_answer(id).unwrap();
    assert_eq!(answer.kind, AnswerKind::Reply { bytes: 64, hops: 61, damaged: true });
    host.stack.ping_close(id);
    host.hears(reply(PEER, echo, &payload));
    assert_eq!(host.stack.ping_answer(id), None);
}

#[test]
fn errors_about_a_request_are_told() {
    let mut host = Host::new();
    let id = host.stack.ping_open(PEER.into(), None).unwrap();
    host.stack.ping(id, 1, 0, 64, host.now).unwrap();
    host.know_peer();
    let (echo, _) = host.request();
    host.stack.ping(id, 2, 0, 1, host.now).unwrap();
    let request = host.sent().remove(0);
    // Time exceeded (RFC 792), quoting the second.
    let builder = PacketBuilder::ethernet2(THEIRS, OURS)
        .ipv4([198, 51, 100, 9], V4, 60)
        .icmpv4_raw(11, 0, [0; 4]);
    let mut frame = Vec::new();
    builder.write(&mut frame, &request[14..42]).unwrap();
    host.hears(frame.clone());
    let answer = host.stack.ping_answer(id).unwrap();
    let from = IpAddr::from([198, 51, 100, 9]);
    assert_eq!(
        (answer.sequence, answer.from, answer.kind),
        (2, from, AnswerKind::Error { kind: 11, code: 0 })
    );
    // The same about a request nobody made.
    let mut foreign = request[14..42].to_vec();
    foreign[24] = !(echo.id >> 8) as u8;
    let builder = PacketBuilder::ethernet2(THEIRS, OURS)
        .ipv4([198, 51, 100, 9], V4, 60)
        .icmpv4_raw(11, 0, [0; 4]);
    frame.clear();
    builder.write(&mut frame, &foreign).unwrap();
    host.hears(frame);
    assert_eq!(host.stack.ping_answer(id), None);
}

#[test]
fn a_silent_neighbour_is_told_of() {
    let mut host = Host::new();
    let id = host.stack.ping_open([192, 0, 2, 200].into(), None).unwrap();
    host.stack.ping(id, 1, 56, 64, host.now).unwrap();
    host.pass(Duration::from_secs(10));
    let answer = host.stack.ping_answer(id).unwrap();
    assert_eq!(
        (answer.sequence, answer.from, answer.kind),
        (1, IpAddr::from(V4), AnswerKind::NoNeighbour)
    );
}

#[test]
fn what_comes_back_too_fast_is_dropped_and_counted() {
    let mut host = Host::new();
    let id = host.stack.ping_open(PEER.into(), None).unwrap();
    host.stack.ping(id, 0, 8, 64, host.now).unwrap();
    host.know_peer();
    let (echo, payload) = host.request();
    for seq in 0..40 {
        host.hears(reply(PEER, IcmpEchoHeader { seq, ..echo }, &payload));
    }
    let kept: Vec<Answer> = std::iter::from_fn(|| host.stack.ping_answer(id)).collect();
    assert_eq!(kept.len(), 32);
    assert_eq!(host.stack.statistics().ping_queue_full, 8);
}

#[test]
fn requesters_and_sizes_are_bounded() {
    let mut host = Host::new();
    let open: Vec<_> = (0..8).map(|_| host.stack.ping_open(PEER.into(), None).unwrap()).collect();
    assert_eq!(host.stack.ping_open(PEER.into(), None), Err(Error::NoBufferSpace));
    let now = host.now;
    let too_long = MAX_PING_PAYLOAD + 1;
    assert_eq!(host.stack.ping(open[0], 1, too_long, 64, now), Err(Error::MessageTooLong));
    assert_eq!(host.stack.ping_open([203, 0, 113, 1].into(), Some(4)), Err(Error::NoBufferSpace));
    host.stack.ping_close(open[0]);
    assert_eq!(
        host.stack.ping_open([203, 0, 113, 1].into(), Some(4)),
        Err(Error::NetworkUnreachable)
    );
    assert_eq!(host.stack.ping(open[0], 1, 1, 64, now), Err(Error::BadDescriptor));
    let broadcast = host.stack.ping_open(Ipv4Addr::new(192, 0, 2, 255).into(), None).unwrap();
    assert_eq!(host.stack.ping(broadcast, 1, 1, 64, now), Err(Error::PermissionDenied));
}

#[test]
fn ourselves_answer_in_both_families() {
    let mut host = Host::new();
    for (address, len) in [
        (IpAddr::V4(Ipv4Addr::LOCALHOST), 56),
        (IpAddr::V6(Ipv6Addr::LOCALHOST), 56),
        (IpAddr::V4(V4.into()), MAX_PING_PAYLOAD),
    ] {
        let id = host.stack.ping_open(address, None).unwrap();
        host.stack.ping(id, 3, len, 64, host.now).unwrap();
        host.pass(Duration::from_millis(10));
        let answer = host.stack.ping_answer(id).unwrap();
        let kind = AnswerKind::Reply { bytes: len + 8, hops: 64, damaged: false };
        assert_eq!((answer.sequence, answer.from, answer.kind), (3, address, kind));
    }
}

#[test]
fn what_exceeds_the_mtu_goes_in_fragments() {
    let mut host = Host::new();
    let id = host.stack.ping_open(PEER.into(), None).unwrap();
    host.stack.ping(id, 5, 3000, 64, host.now).unwrap();
    host.know_peer();
    let mut message = Vec::new();
    for frame in host.sent() {
        let packet = SlicedPacket::from_ethernet(&frame).unwrap();
        let Some(NetSlice::Ipv4(ip)) = packet.net else { panic!("not IPv4") };
        let header = ip.header();
        assert_eq!(usize::from(header.fragments_offset().value()) * 8, message.len());
        message.extend_from_slice(ip.payload().payload);
        assert_eq!(header.more_fragments(), message.len() < 3008);
    }
    let icmp = Icmpv4Slice::from_slice(&message).unwrap();
    let Icmpv4Type::EchoRequest(echo) = icmp.icmp_type() else { panic!("not an echo") };
    assert_eq!((echo.seq, icmp.payload().len()), (5, 3000));
    assert_eq!(icmp.checksum(), icmp.icmp_type().calc_checksum(icmp.payload()));
}

#[test]
fn an_ipv6_request_is_what_rfc_4443_says() {
    let mut host = Host::new();
    let peer: Ipv6Addr = "ff02::1".parse().unwrap();
    let id = host.stack.ping_open(peer.into(), Some(0)).unwrap();
    host.stack.ping(id, 9, 56, 64, host.now).unwrap();
    let frames = host.sent();
    let [frame] = &frames[..] else { panic!("{frames:?}") };
    let packet = SlicedPacket::from_ethernet(frame).unwrap();
    let Some(NetSlice::Ipv6(ip)) = packet.net else { panic!("not IPv6") };
    let Some(TransportSlice::Icmpv6(icmp)) = packet.transport else { panic!("not ICMPv6") };
    let Icmpv6Type::EchoRequest(echo) = icmp.icmp_type() else { panic!("not an echo") };
    assert_eq!((echo.seq, icmp.payload().len()), (9, 56));
    let (source, destination) = (ip.header().source(), ip.header().destination());
    assert!(icmp.is_checksum_valid(source, destination));
    // Everybody may answer to a group.
    let them: Ipv6Addr = "fe80::99".parse().unwrap();
    let builder = PacketBuilder::ethernet2(THEIRS, OURS)
        .ipv6(them.octets(), source, 64)
        .icmpv6(Icmpv6Type::EchoReply(echo));
    let mut frame = Vec::new();
    builder.write(&mut frame, icmp.payload()).unwrap();
    host.hears(frame);
    assert_eq!(host.stack.ping_answer(id).unwrap().from, IpAddr::from(them));
}

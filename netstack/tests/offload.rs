//! Checksums and segments against scapy's bytes and `etherparse`'s sums, for cards
//! of every ability.

mod card;

use card::{Card, by_definition, transport_sum};
use proptest::prelude::*;
use std::num::NonZeroU16;
use trireme_netstack::counters::Counters;
use trireme_netstack::egress::Egress;
use trireme_netstack::frame::{self, Headers};
use trireme_netstack::offload::{self, BadChecksum};
use trireme_nic::{FrameShape, Network, Nic, ReceiveChecksum, TransmitAbility, Transport};

fn hex(text: &str) -> Vec<u8> {
    (0..text.len()).step_by(2).map(|i| u8::from_str_radix(&text[i..i + 2], 16).unwrap()).collect()
}

struct Vector {
    name: &'static str,
    network_len: usize,
    transport: &'static str,
    wire: Vec<u8>,
    bare: Vec<u8>,
}

fn vectors() -> Vec<Vector> {
    let text = include_str!("vectors/frames.txt");
    let one = |line: &'static str| {
        let words: Vec<_> = line.split(' ').collect();
        let [name, network_len, transport, wire, bare] = words[..] else { panic!("{line}") };
        let network_len = network_len.parse().unwrap();
        Vector { name, network_len, transport, wire: hex(wire), bare: hex(bare) }
    };
    text.lines().map(one).collect()
}

/// Every combination of what a card can do with a frame.
fn abilities() -> impl Iterator<Item = TransmitAbility> {
    (0..4).map(|bits| TransmitAbility {
        network_checksum: bits & 1 != 0,
        transport_checksum: bits & 2 != 0,
        ..Default::default()
    })
}

fn card_with(ability: TransmitAbility) -> Card {
    Card::new(64, None, Box::new(move |_| ability))
}

/// Sends a frame as smoltcp would, through `finish`.
fn finish(card: &mut Card, bare: &[u8], segment: Option<u16>, counters: &mut Counters) {
    let mut buffer = card.transmit_buffer(bare.len()).unwrap();
    buffer.copy_from_slice(bare);
    let segment = segment.and_then(NonZeroU16::new);
    assert!(offload::finish(card, buffer, segment, counters).is_none());
}

#[test]
fn headers_of_scapy_frames() {
    for vector in vectors() {
        let headers = frame::parse(&vector.wire).unwrap_or_else(|e| panic!("{}: {e}", vector.name));
        assert_eq!(headers.shape.len, vector.wire.len(), "{}", vector.name);
        if vector.transport == "other" {
            continue;
        }
        let link_len = match vector.name.split('-').next().unwrap() {
            "plain" => 14,
            "vlan" => 18,
            "qinq" => 22,
            other => panic!("{other}"),
        };
        let start = link_len + vector.network_len;
        assert_eq!(usize::from(headers.shape.link_len), link_len, "{}", vector.name);
        assert_eq!(headers.transport_offset(), start, "{}", vector.name);
        assert_eq!(headers.transport_len, vector.wire.len() - start, "{}", vector.name);
        let transport = match vector.transport {
            "tcp" => Transport::Tcp { header_len: 20 },
            "tcpts" => Transport::Tcp { header_len: 32 },
            "tcpsyn" => Transport::Tcp { header_len: 32 },
            "udp" => Transport::Udp,
            "icmp" => Transport::Icmp,
            other => panic!("{other}"),
        };
        // scapy pads the options of tcpsyn to four bytes: 4 + 2 + 3, so 12.
        assert_eq!(headers.shape.transport, transport, "{}", vector.name);
        let (source, destination) = match vector.transport {
            "tcp" => (49152, 80),
            "tcpts" => (1, 65535),
            "tcpsyn" => (5, 6),
            "udp" if vector.name.contains("udpzero") => (1, 2),
            "udp" => (68, 67),
            _ => (0, 0),
        };
        assert_eq!((headers.source_port, headers.destination_port), (source, destination));
    }
}

fn other(name: &str) -> Headers {
    let vector = vectors().into_iter().find(|v| v.name == name).unwrap();
    frame::parse(&vector.wire).unwrap()
}

#[test]
fn headers_smoltcp_does_not_walk() {
    assert_eq!(other("arp").shape.network, Network::Other);
    let headers = other("ip6dest-tcp");
    assert_eq!(headers.shape.transport, Transport::Other);
    assert_eq!(
        headers.shape.network,
        Network::Ipv6 { header_len: 40, extension_headers: true, fragment: false }
    );
    let headers = other("ip6frag-udp");
    assert_eq!(headers.shape.transport, Transport::Other);
    assert!(headers.is_fragment());
    let headers = other("ip4frag-first");
    assert_eq!(headers.shape.transport, Transport::Udp);
    let fragment = headers.fragment.unwrap();
    assert_eq!((fragment.id, fragment.offset, fragment.more), (5, 0, true));
    let headers = other("ip4frag-last");
    assert_eq!(headers.shape.transport, Transport::Other);
    let fragment = headers.fragment.unwrap();
    assert_eq!((fragment.id, fragment.offset, fragment.more), (5, 72, false));
}

#[test]
fn every_card_puts_scapys_bytes_on_the_wire() {
    for vector in vectors() {
        for ability in abilities() {
            for missing_ip_sum in [false, true] {
                let mut card = card_with(ability);
                let mut counters = Counters::default();
                let mut bare = vector.bare.clone();
                let headers = frame::parse(&bare).unwrap();
                let is_v4 = matches!(headers.shape.network, Network::Ipv4 { .. });
                if missing_ip_sum && is_v4 {
                    let at = usize::from(headers.shape.link_len) + 10;
                    bare[at..at + 2].fill(0);
                }
                finish(&mut card, &bare, None, &mut counters);
                let (_, request) = card.taken[0];
                let summed =
                    matches!(headers.shape.transport, Transport::Tcp { .. } | Transport::Udp)
                        && !headers.is_fragment();
                assert_eq!(request.transport_checksum, summed && ability.transport_checksum);
                assert_eq!(counters.tx_csum_hw, u64::from(request.transport_checksum));
                assert_eq!(counters.tx_csum_sw, u64::from(summed && !ability.transport_checksum));
                assert_eq!(counters.tx_csum_none, u64::from(!summed));
                assert_eq!(card.drain(), [&vector.wire[..]], "{} {ability:?}", vector.name);
            }
        }
    }
}

#[test]
fn sum_field_with_rubbish_is_made_right() {
    let vector = &vectors()[0];
    for ability in abilities() {
        let mut card = card_with(ability);
        let mut bare = vector.wire.clone();
        let field = frame::parse(&bare).unwrap().shape.checksum_offset().unwrap();
        bare[field] ^= 0x55;
        finish(&mut card, &bare, None, &mut Counters::default());
        assert_eq!(card.drain(), [&vector.wire[..]]);
    }
}

#[test]
fn received_frames_pass_whatever_the_card_said() {
    for vector in vectors() {
        for padding in [0usize, 1, 2, 7, 18] {
            let mut frame = vector.wire.clone();
            frame.extend((0..padding).map(|i| i as u8 ^ 0x5a));
            let headers = frame::parse(&frame).unwrap();
            if headers.shape.network != Network::Other {
                assert_eq!(headers.shape.len, vector.wire.len(), "padding is trimmed");
            }
            let complete = !by_definition(&frame[14..]);
            for said in [
                ReceiveChecksum::Unverified,
                ReceiveChecksum::Verified { ip: true, transport: true },
                ReceiveChecksum::Verified { ip: false, transport: true },
                ReceiveChecksum::Verified { ip: true, transport: false },
                ReceiveChecksum::Bad,
                ReceiveChecksum::Complete(complete),
                ReceiveChecksum::Complete(complete ^ 1),
                ReceiveChecksum::Partial,
            ] {
                let mut counters = Counters::default();
                let verdict = offload::verify(&frame, &headers, said, &mut counters);
                assert_eq!(verdict, Ok(()), "{} {padding} {said:?}", vector.name);
                let summed = vector.transport.starts_with("tcp") || vector.transport == "udp";
                if !summed {
                    assert_eq!(counters.rx_csum_none, 1);
                    continue;
                }
                let by_card = match said {
                    ReceiveChecksum::Verified { transport, .. } => transport,
                    ReceiveChecksum::Complete(sum) => sum == complete,
                    ReceiveChecksum::Partial => true,
                    _ => false,
                };
                assert_eq!(counters.rx_csum_sw, u64::from(!by_card), "{} {said:?}", vector.name);
                let wrong = matches!(said, ReceiveChecksum::Bad)
                    || said == ReceiveChecksum::Complete(complete ^ 1);
                assert_eq!(counters.rx_csum_card_wrong, u64::from(wrong));
            }
        }
    }
}

#[test]
fn one_flipped_bit_is_found_unless_the_card_vouches() {
    for vector in vectors().iter().filter(|v| v.wire.len() < 200) {
        let headers = frame::parse(&vector.wire).unwrap();
        let start = headers.transport_offset();
        let bad = match headers.shape.transport {
            Transport::Tcp { .. } => BadChecksum::Tcp,
            Transport::Udp => BadChecksum::Udp,
            _ => continue,
        };
        if headers.is_fragment() {
            continue;
        }
        for at in start + 16..vector.wire.len() {
            let mut frame = vector.wire.clone();
            frame[at] ^= 0x10;
            let Ok(headers) = frame::parse(&frame) else { continue };
            let complete = !by_definition(&frame[14..]);
            for said in [
                ReceiveChecksum::Unverified,
                ReceiveChecksum::Bad,
                ReceiveChecksum::Verified { ip: true, transport: false },
                ReceiveChecksum::Complete(complete),
            ] {
                let mut counters = Counters::default();
                let verdict = offload::verify(&frame, &headers, said, &mut counters);
                assert_eq!(verdict, Err(bad), "{} byte {at} {said:?}", vector.name);
                assert_eq!(counters.rx_csum_bad_tcp + counters.rx_csum_bad_udp, 1);
            }
            let said = ReceiveChecksum::Verified { ip: true, transport: true };
            assert!(offload::verify(&frame, &headers, said, &mut Counters::default()).is_ok());
        }
    }
}

#[test]
fn wrong_ipv4_header_sum_is_found() {
    let vector = &vectors()[0];
    let mut frame = vector.wire.clone();
    frame[14 + 8] ^= 1;
    let headers = frame::parse(&frame).unwrap();
    let mut counters = Counters::default();
    for said in
        [ReceiveChecksum::Unverified, ReceiveChecksum::Verified { ip: false, transport: true }]
    {
        let verdict = offload::verify(&frame, &headers, said, &mut counters);
        assert_eq!(verdict, Err(BadChecksum::Ipv4Header));
    }
    assert_eq!(counters.rx_csum_bad_ip, 2);
}

#[test]
fn udp_without_a_sum_is_legal_in_ipv4_only() {
    for vector in vectors().iter().filter(|v| v.transport == "udp") {
        let headers = frame::parse(&vector.bare).unwrap();
        let said = ReceiveChecksum::Unverified;
        let mut counters = Counters::default();
        let verdict = offload::verify(&vector.bare, &headers, said, &mut counters);
        match headers.shape.network {
            Network::Ipv4 { .. } => {
                assert_eq!((verdict, counters.rx_csum_absent), (Ok(()), 1));
            }
            _ => assert_eq!((verdict, counters.rx_csum_missing), (Err(BadChecksum::UdpMissing), 1)),
        }
    }
}

struct Large {
    name: &'static str,
    size: u16,
    bare: Vec<u8>,
    pieces: Vec<Vec<u8>>,
}

fn large_frames() -> Vec<Large> {
    let mut all: Vec<Large> = Vec::new();
    for line in include_str!("vectors/segments.txt").lines() {
        match line.split(' ').collect::<Vec<_>>()[..] {
            ["large", name, size, bare] => all.push(Large {
                name,
                size: size.parse().unwrap(),
                bare: hex(bare),
                pieces: Vec::new(),
            }),
            ["piece", bytes] => all.last_mut().unwrap().pieces.push(hex(bytes)),
            _ => panic!("{line}"),
        }
    }
    all
}

/// Waits for the ring as the stack does, until everything of a cut is out.
fn send_and_drain(card: &mut Card, egress: &mut Egress, large: &Large) -> Vec<Vec<u8>> {
    assert!(egress.ready(card, 0));
    let segment = NonZeroU16::new(large.size);
    egress.send(card, None, large.bare.len(), segment, |frame| {
        frame.copy_from_slice(&large.bare);
    });
    let mut wire = card.drain();
    for _ in 0..200 {
        if egress.ready(card, 0) {
            wire.extend(card.drain());
            return wire;
        }
        wire.extend(card.drain());
    }
    panic!("cut does not end");
}

#[test]
fn software_cuts_as_scapy_does_for_any_ring_and_card() {
    for large in large_frames() {
        for ring in [2, 3, 64] {
            for ability in abilities() {
                let mut card = Card::new(ring, None, Box::new(move |_| ability));
                let mut egress = Egress::new();
                let wire = send_and_drain(&mut card, &mut egress, &large);
                assert_eq!(wire, large.pieces, "{} ring {ring}", large.name);
                let count = large.pieces.len() as u64;
                assert_eq!(egress.counters.tx_gso_segments, count);
                assert_eq!(egress.counters.tx_gso_frames, 1);
                let expected = if ability.transport_checksum { (count, 0) } else { (0, count) };
                assert_eq!((egress.counters.tx_csum_hw, egress.counters.tx_csum_sw), expected);
                assert_eq!(card.buffers(), ring);
            }
        }
    }
}

#[test]
fn card_that_segments_is_asked_to() {
    for large in large_frames() {
        let mut card = Card::able(4);
        let mut egress = Egress::new();
        let wire = send_and_drain(&mut card, &mut egress, &large);
        assert_eq!(wire, large.pieces, "{}", large.name);
        assert_eq!(egress.counters.tx_tso_frames, 1);
        assert_eq!(egress.counters.tx_tso_segments, large.pieces.len() as u64);
        assert_eq!((egress.counters.tx_csum_sw, egress.counters.tx_gso_frames), (0, 0));
    }
}

#[test]
fn frame_the_card_declines_after_lending_is_cut_in_software() {
    for large in large_frames() {
        for ring in [2, 64] {
            let declines = |_: &FrameShape| TransmitAbility::default();
            let mut card = Card::new(ring, Some(65600), Box::new(declines));
            let mut egress = Egress::new();
            let wire = send_and_drain(&mut card, &mut egress, &large);
            assert_eq!(wire, large.pieces, "{}", large.name);
            assert_eq!(egress.counters.tx_gso_frames, 1);
            assert_eq!(card.cancelled, 1, "the large buffer goes back");
        }
    }
}

#[test]
fn feature_off_means_software() {
    let large = &large_frames()[0];
    let mut card = Card::able(64);
    card.features.clear();
    let mut egress = Egress::new();
    let wire = send_and_drain(&mut card, &mut egress, large);
    assert_eq!(wire, large.pieces);
    assert_eq!((egress.counters.tx_tso_frames, egress.counters.tx_gso_frames), (0, 1));
}

#[test]
fn large_buffers_are_waited_for_and_nothing_is_cut_in_software() {
    let large = &large_frames()[1];
    let mut card = Card::able(64);
    let mut egress = Egress::new();
    let (mut wire, mut waits) = (Vec::new(), 0);
    for _ in 0..20 {
        if !egress.ready_large(&mut card, 2) {
            waits += 1;
            assert!(egress.ready(&mut card, 2), "small frames still go");
            wire.extend(card.drain());
            assert!(egress.ready_large(&mut card, 2));
        }
        let segment = NonZeroU16::new(large.size);
        let len = large.bare.len();
        egress.send(&mut card, None, len, segment, |frame| frame.copy_from_slice(&large.bare));
    }
    wire.extend(card.drain());
    assert_eq!(wire.len(), 20 * large.pieces.len());
    assert!(wire.chunks(large.pieces.len()).all(|pieces| pieces == large.pieces));
    // The card has four large buffers.
    assert_eq!((waits, egress.counters.tx_gso_frames), (4, 0));
    // A window of less than a segment's worth goes out of a buffer borrowed for more.
    assert!(egress.ready_large(&mut card, 2));
    let segment = NonZeroU16::new(1460);
    let vector = vectors().into_iter().find(|v| v.name == "plain-ip4-tcp-63").unwrap();
    let len = vector.bare.len();
    egress.send(&mut card, None, len, segment, |frame| frame.copy_from_slice(&vector.bare));
    assert_eq!(card.drain(), [&vector.wire[..]]);
}

#[test]
fn card_that_sums_short_frames_only_gets_those() {
    // As a Rhine does with `tx-checksumming` on auto.
    let short = |shape: &FrameShape| TransmitAbility {
        transport_checksum: shape.len <= 1000,
        ..Default::default()
    };
    for large in large_frames().iter().filter(|l| l.size >= 1440) {
        let mut card = Card::new(64, None, Box::new(short));
        let mut egress = Egress::new();
        let wire = send_and_drain(&mut card, &mut egress, large);
        assert_eq!(wire, large.pieces, "{}", large.name);
        let hardware = wire.iter().filter(|piece| piece.len() <= 1000).count() as u64;
        assert_eq!(egress.counters.tx_csum_hw, hardware);
        assert_eq!(egress.counters.tx_csum_sw, wire.len() as u64 - hardware);
    }
}

#[test]
fn frames_that_cannot_be_cut_are_counted() {
    let mut large = large_frames().remove(0);
    let headers = frame::parse(&large.bare).unwrap();
    large.bare[headers.transport_offset() + 13] |= frame::tcp_flags::SYN;
    let mut card = Card::plain(64);
    let mut egress = Egress::new();
    assert!(send_and_drain(&mut card, &mut egress, &large).is_empty());
    assert_eq!(egress.counters.tx_dropped_malformed, 1);
    assert!(egress.ready(&mut card, 0));
}

#[test]
fn without_a_buffer_the_frame_is_lost_and_counted() {
    let vector = &vectors()[0];
    let mut card = Card::plain(0);
    let mut egress = Egress::new();
    assert!(!egress.ready(&mut card, 0));
    let written = egress.send(&mut card, None, vector.bare.len(), None, |frame| {
        frame.copy_from_slice(&vector.bare);
        7
    });
    assert_eq!((written, egress.counters.tx_dropped_no_buffer), (7, 1));
}

proptest! {
    #[test]
    fn random_bytes_never_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200),
                                ip in 0..4usize, said in 0..6u16) {
        let mut frame = bytes;
        if frame.len() >= 16 {
            let kinds = [[8, 0, 0x45], [0x86, 0xdd, 0x60], [0x81, 0, 0], [8, 6, 0]];
            frame[12..15].copy_from_slice(&kinds[ip]);
        }
        if let Ok(headers) = frame::parse(&frame) {
            prop_assert!(headers.shape.len <= frame.len());
            prop_assert!(headers.transport_offset() + headers.transport_len <= frame.len());
            let said = match said {
                0 => ReceiveChecksum::Unverified,
                1 => ReceiveChecksum::Bad,
                2 => ReceiveChecksum::Partial,
                3 => ReceiveChecksum::Verified { ip: true, transport: false },
                4 => ReceiveChecksum::Verified { ip: false, transport: true },
                sum => ReceiveChecksum::Complete(sum),
            };
            let _ = offload::verify(&frame, &headers, said, &mut Counters::default());
            let mut card = Card::plain(8);
            let mut egress = Egress::new();
            for segment in [None, NonZeroU16::new(7)] {
                egress.send(&mut card, None, frame.len(), segment, |f| f.copy_from_slice(&frame));
            }
        }
    }

    /// smoltcp must not find in a frame what `parse` did not.
    #[test]
    fn smoltcp_agrees_on_lengths(mut bytes in proptest::collection::vec(any::<u8>(), 54..120),
                                 total in 0..120u16, ihl in 0..16u8, offset in 0..16u8) {
        use smoltcp::wire::{Ipv4Packet, TcpPacket};
        bytes[12..15].copy_from_slice(&[8, 0, 0x40 | ihl]);
        bytes[16..18].copy_from_slice(&total.to_be_bytes());
        bytes[20..22].fill(0);
        bytes[23] = 6;
        let tcp = 14 + usize::from(ihl) * 4;
        if let Some(byte) = bytes.get_mut(tcp + 12) {
            *byte = offset << 4;
        }
        let theirs = Ipv4Packet::new_checked(&bytes[14..])
            .ok()
            .and_then(|ip| TcpPacket::new_checked(ip.payload()).ok().map(|t| t.payload().len()));
        let ours = frame::parse(&bytes);
        match ours {
            Ok(headers) => prop_assert_eq!(Some(headers.tcp_payload_len()), theirs),
            Err(frame::Malformed::TcpPort) => {}
            Err(_) => prop_assert_eq!(None, theirs),
        }
    }

    /// Nor in IPv6, where it walks a hop-by-hop header and nothing else.
    #[test]
    fn smoltcp_agrees_on_extension_headers(mut bytes in proptest::collection::vec(any::<u8>(), 54..140),
                                           payload in 0..100u16, first in 0..6usize, then in 0..6usize,
                                           len in 0..4u8, udp_len in 0..100u16) {
        use smoltcp::wire::{Ipv6ExtHeader, Ipv6ExtHeaderRepr, Ipv6Packet, TcpPacket, UdpPacket};
        let kinds = [0u8, 6, 17, 58, 60, 44];
        bytes[12..15].copy_from_slice(&[0x86, 0xdd, 0x60]);
        bytes[18..20].copy_from_slice(&payload.to_be_bytes());
        bytes[20] = kinds[first];
        if kinds[first] == 0 && bytes.len() > 56 {
            bytes[54..56].copy_from_slice(&[kinds[then], len]);
        }
        let udp = 14 + 40 + if kinds[first] == 0 { (usize::from(len) + 1) * 8 } else { 0 };
        if let Some(field) = bytes.get_mut(udp + 4..udp + 6) {
            field.copy_from_slice(&udp_len.to_be_bytes());
        }
        // As `process_ipv6` of smoltcp 0.14: protocol and transport payload, if it takes it apart.
        let theirs = Ipv6Packet::new_checked(&bytes[14..]).ok().and_then(|ip| {
            let packet = ip.payload();
            let (next, rest) = match u8::from(ip.next_header()) {
                0 => {
                    let header = Ipv6ExtHeader::new_checked(packet).ok()?;
                    let header = Ipv6ExtHeaderRepr::parse(&header).ok()?;
                    let len = header.header_len() + header.data.len();
                    (u8::from(header.next_header), &packet[len..])
                }
                next => (next, packet),
            };
            match next {
                6 => TcpPacket::new_checked(rest).ok().map(|tcp| (6, tcp.payload().len())),
                17 => UdpPacket::new_checked(rest).ok().map(|udp| (17, udp.payload().len())),
                next => Some((next, rest.len())),
            }
        });
        match frame::parse(&bytes) {
            Ok(headers) => {
                let len = match headers.protocol {
                    6 => headers.tcp_payload_len(),
                    17 => headers.transport_len - 8,
                    _ => headers.transport_len,
                };
                prop_assert_eq!(Some((headers.protocol, len)), theirs);
            }
            // Ports are not looked at here; a fragment header cut short is answered by smoltcp.
            Err(frame::Malformed::TcpPort | frame::Malformed::UdpPort) => {}
            Err(frame::Malformed::Ipv6Extension) if theirs.is_some_and(|(next, _)| next == 44) => {}
            Err(_) => prop_assert_eq!(None, theirs),
        }
    }

    /// Any TCP frame, any segment size, any card: the wire carries the same bytes with right sums.
    #[test]
    fn cut_frames_carry_the_payload(v6 in any::<bool>(), tags in 0..3usize, options in 0..11usize,
                                    ip_options in 0..11usize, flags in 0..=255u8,
                                    sequence in any::<u32>(), id in any::<u16>(),
                                    size in 1..1448u16, len in 1..9000usize, seed in any::<u64>(),
                                    hardware in any::<bool>(), ring in 2..40usize) {
        let flags = flags & !(frame::tcp_flags::SYN | frame::tcp_flags::RST);
        let payload: Vec<u8> = (0..len as u64)
            .map(|i| (i.wrapping_mul(seed | 1) >> 23) as u8).collect();
        let len = len.min(usize::from(size) * 60);
        let bare = tcp_frame(v6, tags, options, ip_options, flags, sequence, id, &payload[..len]);
        let ability = TransmitAbility { transport_checksum: hardware, ..Default::default() };
        let mut card = Card::new(ring, None, Box::new(move |_| ability));
        let mut egress = Egress::new();
        let large = Large { name: "", size, bare: bare.clone(), pieces: vec![] };
        let wire = send_and_drain(&mut card, &mut egress, &large);
        let mut received = Vec::new();
        for (index, piece) in wire.iter().enumerate() {
            let headers = frame::parse(piece).unwrap();
            let field = headers.shape.checksum_offset().unwrap();
            let sum = u16::from_be_bytes([piece[field], piece[field + 1]]);
            prop_assert_eq!(transport_sum(piece), sum);
            let tcp = headers.tcp.unwrap();
            prop_assert_eq!(tcp.sequence, sequence.wrapping_add(received.len() as u32));
            let last = index + 1 == wire.len();
            let mut expected = flags;
            if !last { expected &= !0x09; }
            if index > 0 { expected &= !0x80; }
            prop_assert_eq!(tcp.flags, expected);
            if let Network::Ipv4 { header_len, .. } = headers.shape.network {
                let at = usize::from(headers.shape.link_len);
                prop_assert_eq!(by_definition(&piece[at..at + usize::from(header_len)]), 0);
            }
            let payload = headers.shape.tcp_payload_offset().unwrap();
            prop_assert!(last || piece.len() - payload == usize::from(size));
            received.extend_from_slice(&piece[payload..]);
        }
        prop_assert_eq!(&received, &payload[..len]);
    }
}

#[allow(clippy::too_many_arguments, reason = "one per field of the header")]
fn tcp_frame(
    v6: bool,
    tags: usize,
    options: usize,
    ip_options: usize,
    flags: u8,
    sequence: u32,
    id: u16,
    payload: &[u8],
) -> Vec<u8> {
    let mut frame = vec![2, 0, 0, 0, 0, 9, 2, 0, 0, 0, 0, 8];
    (0..tags).for_each(|i| frame.extend([0x81, 0, 0, i as u8]));
    let tcp_len = 20 + 4 * options + payload.len();
    if v6 {
        frame.extend([0x86, 0xdd, 0x60, 1, 2, 3]);
        frame.extend((tcp_len as u16).to_be_bytes());
        frame.extend([6, 64]);
        frame.extend((0..32).map(|i| i * 7 + 1));
    } else {
        let header_len = 20 + 4 * ip_options;
        frame.extend([8, 0]);
        let mut ip = vec![0x40 | (header_len / 4) as u8, 0];
        ip.extend(((header_len + tcp_len) as u16).to_be_bytes());
        ip.extend(id.to_be_bytes());
        ip.extend([0x40, 0, 64, 6, 0, 0, 10, 1, 2, 3, 172, 16, 200, 9]);
        ip.extend(vec![1; 4 * ip_options]);
        let sum = by_definition(&ip);
        ip[10..12].copy_from_slice(&sum.to_be_bytes());
        frame.extend(ip);
    }
    frame.extend([0x12, 0x34, 0, 80]);
    frame.extend(sequence.to_be_bytes());
    frame.extend([9, 8, 7, 6, ((5 + options) << 4) as u8, flags, 0x20, 0, 0, 0, 0, 0]);
    frame.extend(vec![1; 4 * options]);
    frame.extend(payload);
    frame
}

#[test]
fn udp_shorter_than_what_ip_carries_is_summed_by_its_own_length() {
    for name in ["plain-ip4-udp-63", "plain-ip6-udp-63"] {
        let vector = vectors().into_iter().find(|v| v.name == name).unwrap();
        let mut frame = vector.wire.clone();
        frame.extend([0xee; 5]);
        let at = if name.contains("ip4") { 14 + 2 } else { 14 + 4 };
        let len = u16::from_be_bytes([frame[at], frame[at + 1]]) + 5;
        frame[at..at + 2].copy_from_slice(&len.to_be_bytes());
        if name.contains("ip4") {
            frame[24..26].fill(0);
            let sum = by_definition(&frame[14..34]);
            frame[24..26].copy_from_slice(&sum.to_be_bytes());
        }
        let headers = frame::parse(&frame).unwrap();
        assert_eq!((headers.shape.len, headers.transport_len), (frame.len(), 71));
        let complete = ReceiveChecksum::Complete(!by_definition(&frame[14..]));
        for said in [ReceiveChecksum::Unverified, complete] {
            let mut counters = Counters::default();
            assert_eq!(offload::verify(&frame, &headers, said, &mut counters), Ok(()));
            assert_eq!(counters.rx_csum_complete, u64::from(said == complete));
        }
    }
}

/// Each check of `parse` by a frame that fails it, and the counter that shows.
#[test]
fn lying_lengths_are_named() {
    use frame::Malformed as M;
    let find = |name: &str| vectors().into_iter().find(|v| v.name == name).unwrap().wire;
    let (tcp4, tcp6) = (find("plain-ip4-tcp-63"), find("plain-ip6-tcp-63"));
    let (udp4, udp6) = (find("plain-ip4-udp-63"), find("plain-ip6-udp-63"));
    let (hop, fragment) = (find("plain-ip6hbh-udp-63"), find("ip4frag-last"));
    type Patch<'a> = (usize, &'a [u8]);
    let cases: [(M, &[u8], &[Patch<'_>]); 21] = [
        (M::Ipv4Version, &tcp4, &[(14, &[0x55])]),
        (M::Ipv4HeaderLength, &tcp4, &[(14, &[0x44])]),
        (M::Ipv4HeaderLength, &tcp4, &[(16, &[0, 19])]),
        (M::Ipv4HeaderLength, &tcp4, &[(14, &[0x4f]), (16, &[0, 59])]),
        (M::Ipv4TotalLength, &tcp4, &[(16, &[0, 104])]),
        (M::Ipv4TotalLength, &tcp4, &[(16, &[0xff, 0xff])]),
        (M::Ipv4Fragment, &fragment, &[(20, &[0x1f, 0xff])]),
        (M::Ipv4Fragment, &fragment, &[(16, &[0, 20])]),
        (M::Ipv6Version, &tcp6, &[(14, &[0x45])]),
        (M::Ipv6PayloadLength, &tcp6, &[(18, &[0, 84])]),
        (M::Ipv6Extension, &hop, &[(55, &[9])]),
        (M::Ipv6Extension, &hop, &[(18, &[0, 1])]),
        (M::TcpShort, &tcp4, &[(16, &[0, 39])]),
        (M::TcpShort, &tcp6, &[(18, &[0, 0])]),
        (M::TcpHeaderLength, &tcp4, &[(46, &[0x40])]),
        (M::TcpHeaderLength, &tcp4, &[(16, &[0, 43]), (46, &[0x60])]),
        (M::TcpPort, &tcp4, &[(34, &[0, 0])]),
        (M::UdpShort, &udp6, &[(18, &[0, 7])]),
        (M::UdpLength, &udp4, &[(38, &[0, 7])]),
        (M::UdpLength, &udp6, &[(58, &[0, 72])]),
        (M::UdpPort, &udp4, &[(36, &[0, 0])]),
    ];
    let mut counters = Counters::default();
    for (cause, frame, patches) in cases {
        let mut frame = frame.to_vec();
        for (at, bytes) in patches {
            frame[*at..*at + bytes.len()].copy_from_slice(bytes);
        }
        assert_eq!(frame::parse(&frame), Err(cause), "{patches:?}");
        counters.malformed(cause);
    }
    assert_eq!(frame::parse(&tcp4[..13]), Err(M::Link));
    assert_eq!(frame::parse(&find("vlan-ip4-tcp-0")[..17]), Err(M::Link));
    assert_eq!(frame::parse(&tcp4[..33]), Err(M::Ipv4Short));
    assert_eq!(frame::parse(&tcp6[..53]), Err(M::Ipv6Short));
    let mut seen = Vec::new();
    counters.visit(&mut |name, value| {
        if value != 0 {
            seen.push((name, value));
        }
    });
    assert!(seen.contains(&("rx_malformed_tcp_header_length", 2)), "{seen:?}");
    // Every cut of every vector is refused, or says no more than is there.
    for vector in vectors() {
        for len in 0..vector.wire.len() {
            if let Ok(headers) = frame::parse(&vector.wire[..len]) {
                assert!(headers.transport_offset() + headers.transport_len <= len);
            }
        }
    }
}

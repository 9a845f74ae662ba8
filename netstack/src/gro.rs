//! Generic receive offload: merges consecutive segments of one connection before smoltcp sees them,
//! for cards that do not.
//!
//! smoltcp spends about a thousand instructions on a segment whatever its length, and the way to it
//! nearly as many; a merged segment costs that once and is acknowledged once. The price is one more copy
//! of the payload, a tenth of that. So a segment is copied only if another frame waits
//! behind it in the card, and never held beyond the batch: an idle connection's latency is what it
//! was.
//!
//! A segment continues another if every byte of the headers is the same but for lengths, IPv4 id, sequence
//! number, sums and PSH, the sequence number is the next, and nothing but ACK and PSH is set.
//! Anything else for the connection is preceded by what was merged, so order is kept. A short
//! segment or PSH ends a merge.
//!
//! Bare acknowledgements are merged too: one that acknowledges more takes the place of the one before.
//! Those that acknowledge nothing new, or carry options (SACK), all reach smoltcp: it counts them.

use crate::flow::FlowKey;
use crate::frame::{Headers, tcp_flags};
use crate::line::before;
use alloc::vec::Vec;
use trireme_nic::{Network, Transport};

/// Connections merged for at a time; more than these taking turns in one batch is rare.
const SLOTS: usize = 4;
/// Bytes merged at most, IP header included: what remains of smoltcp's cost is lost in the copy.
const CAPACITY: usize = 16 * 1460 + 100;
/// Shorter segments are not worth a copy.
const LEAST_PAYLOAD: usize = 512;

/// A merge under way.
#[derive(Debug)]
pub(crate) struct Merge {
    /// Place of the connection in the socket table.
    pub(crate) index: u32,
    /// Its name: the place may be another's by the time of delivery.
    pub(crate) key: FlowKey,
    pub(crate) interface: usize,
    /// The packet, from the IP header on.
    pub(crate) packet: Vec<u8>,
    /// Offset of the TCP header in it.
    pub(crate) tcp: usize,
    pub(crate) segments: u64,
    payload: usize,
    /// Payload bytes of the first segment. 0: bare acknowledgements.
    size: usize,
    next: u32,
}

/// What became of a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Added {
    /// Merged; more may come.
    Merged,
    /// Merged, and the merge is complete.
    Complete,
    /// Not merged. What there is of the connection goes first.
    Refused,
    /// Nothing is held of the connection.
    Unknown,
}

/// The merges of one batch of received frames.
#[derive(Debug, Default)]
pub(crate) struct Gro {
    merges: Vec<Merge>,
    /// Buffers of earlier merges, to be used again.
    spare: Vec<Vec<u8>>,
}

impl Gro {
    /// Nothing held.
    pub(crate) fn new() -> Gro {
        Gro::default()
    }

    /// Is anything held?
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.merges.is_empty()
    }

    /// Tries to append a segment to what is held of its connection. `packet` starts with the IP header.
    #[inline]
    pub(crate) fn add(&mut self, key: &FlowKey, packet: &[u8], headers: &Headers) -> Added {
        let Some(merge) = self.merges.iter_mut().find(|merge| merge.key == *key) else {
            return Added::Unknown;
        };
        merge.add(packet, headers)
    }

    /// Takes what is held of a connection, to be delivered.
    pub(crate) fn take(&mut self, key: &FlowKey) -> Option<Merge> {
        let place = self.merges.iter().position(|merge| merge.key == *key)?;
        Some(self.merges.swap_remove(place))
    }

    /// Takes whatever was held first.
    pub(crate) fn take_any(&mut self) -> Option<Merge> {
        if self.merges.is_empty() { None } else { Some(self.merges.remove(0)) }
    }

    /// Gives a delivered merge's buffer back.
    pub(crate) fn give_back(&mut self, merge: Merge) {
        if self.spare.len() < SLOTS {
            self.spare.push(merge.packet);
        }
    }

    /// Could a segment be the first of a merge, and is there a place for it?
    #[inline]
    pub(crate) fn wants(&self, headers: &Headers) -> bool {
        let payload = headers.tcp_payload_len();
        let plain = match headers.shape.network {
            Network::Ipv4 { header_len, .. } => header_len == 20,
            Network::Ipv6 { header_len, .. } => header_len == 40,
            Network::Other => false,
        };
        let bare = headers.shape.transport == Transport::Tcp { header_len: 20 };
        ((LEAST_PAYLOAD..CAPACITY / 2).contains(&payload) || payload == 0 && bare)
            && plain
            && headers.tcp.is_some_and(|tcp| tcp.flags == tcp_flags::ACK)
            && self.merges.len() < SLOTS
    }

    /// Holds a segment that [`wants`](Self::wants) is true for, of a connection nothing is held of.
    pub(crate) fn hold(
        &mut self,
        index: u32,
        key: FlowKey,
        interface: usize,
        packet: &[u8],
        headers: &Headers,
    ) {
        let mut copy = self.spare.pop().unwrap_or_else(|| Vec::with_capacity(CAPACITY));
        copy.clear();
        copy.extend_from_slice(packet);
        let size = headers.tcp_payload_len();
        let sequence = headers.tcp.map_or(0, |tcp| tcp.sequence);
        self.merges.push(Merge {
            index,
            key,
            interface,
            tcp: headers.transport_offset() - usize::from(headers.shape.link_len),
            segments: 1,
            payload: packet.len() - size,
            size,
            next: sequence.wrapping_add(size as u32),
            packet: copy,
        });
    }
}

impl Merge {
    fn add(&mut self, packet: &[u8], headers: &Headers) -> Added {
        let (Some(tcp), size) = (headers.tcp, headers.tcp_payload_len()) else {
            return Added::Refused;
        };
        if self.size == 0 {
            return self.acknowledge(packet, headers);
        }
        let room = CAPACITY - self.packet.len();
        if tcp.sequence != self.next
            || tcp.flags & !tcp_flags::PSH != tcp_flags::ACK
            || !(1..=self.size.min(room)).contains(&size)
            || packet.len() != self.payload + size
            || !self.same_headers(packet)
        {
            return Added::Refused;
        }
        self.packet.extend_from_slice(&packet[self.payload..]);
        self.packet[self.tcp + 13] |= tcp.flags;
        self.next = self.next.wrapping_add(size as u32);
        self.segments += 1;
        let ends = size < self.size
            || tcp.flags & tcp_flags::PSH != 0
            || CAPACITY - self.packet.len() < self.size;
        if ends { Added::Complete } else { Added::Merged }
    }

    /// An acknowledgement behind an acknowledgement.
    fn acknowledge(&mut self, packet: &[u8], headers: &Headers) -> Added {
        let (Some(tcp), 0) = (headers.tcp, headers.tcp_payload_len()) else {
            return Added::Refused;
        };
        let acknowledged =
            self.packet[self.tcp + 8..].first_chunk().map(|b| u32::from_be_bytes(*b));
        let newer = acknowledged.is_some_and(|held| before(held, tcp.acknowledgement));
        // Of the same length: without options, as the first.
        if !newer
            || tcp.flags != tcp_flags::ACK
            || tcp.sequence != self.next
            || packet.len() != self.packet.len()
            || headers.transport_offset() - usize::from(headers.shape.link_len) != self.tcp
        {
            return Added::Refused;
        }
        self.packet.copy_from_slice(packet);
        self.segments += 1;
        Added::Merged
    }

    /// Is everything else the same?
    fn same_headers(&self, packet: &[u8]) -> bool {
        let at = self.tcp;
        let (Some(first), Some(next)) =
            (self.packet.get(..self.payload), packet.get(..self.payload))
        else {
            return false;
        };
        // The IP header's length field, IPv4's id and sum may differ.
        let ip = match at {
            20 => {
                first[..2] == next[..2]
                    && first[6..10] == next[6..10]
                    && first[12..20] == next[12..20]
            }
            _ => first[..4] == next[..4] && first[6..40] == next[6..40],
        };
        // Ports, acknowledgement, header length; window; urgent pointer and options.
        ip && first[at..at + 4] == next[at..at + 4]
            && first[at + 8..at + 13] == next[at + 8..at + 13]
            && first[at + 14..at + 16] == next[at + 14..at + 16]
            && first[at + 18..] == next[at + 18..]
    }

    /// Makes the headers right for what was merged; sums are not.
    pub(crate) fn finish(&mut self) {
        let len = self.packet.len();
        match self.tcp {
            20 => self.packet[2..4].copy_from_slice(&(len as u16).to_be_bytes()),
            _ => self.packet[4..6].copy_from_slice(&((len - 40) as u16).to_be_bytes()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::frame;
    use crate::hash::Key;

    const SIZE: usize = 1000;

    /// A segment with no sums, parsed.
    fn segment(v6: bool, sequence: u32, flags: u8, payload: &[u8]) -> (Vec<u8>, Headers) {
        let mut bytes = vec![2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2];
        let tcp_len = (20 + payload.len()) as u16;
        if v6 {
            bytes.extend([0x86, 0xdd, 0x60, 0, 0, 0]);
            bytes.extend(tcp_len.to_be_bytes());
            bytes.extend([6, 64]);
            bytes.extend([0xfd; 32]);
        } else {
            bytes.extend([8, 0, 0x45, 0]);
            bytes.extend((20 + tcp_len).to_be_bytes());
            // The id and the sum are as they come.
            bytes.extend([sequence as u8, 7, 0x40, 0, 64, 6, sequence as u8, 9]);
            bytes.extend([10, 0, 0, 1, 10, 0, 0, 2]);
        }
        bytes.extend([0x10, 0, 0, 80]);
        bytes.extend(sequence.to_be_bytes());
        bytes.extend([0, 0, 0, 9, 0x50, flags, 1, 0, sequence as u8, 3, 0, 0]);
        bytes.extend(payload);
        let headers = frame::parse(&bytes).unwrap();
        (bytes[14..].to_vec(), headers)
    }

    fn key(headers: &Headers) -> FlowKey {
        FlowKey::new(
            &Key::new([0; 16]),
            (headers.destination, headers.destination_port),
            (headers.source, headers.source_port),
        )
    }

    /// A merge of one segment of `SIZE` bytes with sequence number `sequence`.
    fn begun(v6: bool, sequence: u32) -> (Gro, FlowKey) {
        let mut gro = Gro::new();
        let (packet, headers) = segment(v6, sequence, 0x10, &[1; SIZE]);
        assert!(gro.wants(&headers));
        gro.hold(7, key(&headers), 1, &packet, &headers);
        (gro, key(&headers))
    }

    fn add(gro: &mut Gro, (packet, headers): &(Vec<u8>, Headers)) -> Added {
        gro.add(&key(headers), packet, headers)
    }

    #[test]
    fn payload_is_joined_and_headers_say_so() {
        for v6 in [false, true] {
            // Across the wrap of the sequence number.
            let start = u32::MAX - 1500;
            let (mut gro, key) = begun(v6, start);
            let second = segment(v6, start.wrapping_add(1000), 0x10, &[2; SIZE]);
            assert_eq!(add(&mut gro, &second), Added::Merged);
            let third = segment(v6, start.wrapping_add(2000), 0x18, &[3; 500]);
            assert_eq!(add(&mut gro, &third), Added::Complete);
            let mut merge = gro.take(&key).unwrap();
            merge.finish();
            assert_eq!((merge.index, merge.interface, merge.segments), (7, 1, 3));
            let ethertype = if v6 { [0x86, 0xdd] } else { [8, 0] };
            let whole = [&[0; 12][..], &ethertype, &merge.packet].concat();
            let headers = frame::parse(&whole).unwrap();
            assert_eq!(headers.tcp_payload_len(), 2500);
            let tcp = headers.tcp.unwrap();
            assert_eq!((tcp.sequence, tcp.flags), (start, 0x18));
            let payload = &whole[whole.len() - 2500..];
            assert_eq!(payload, [&[1; 1000][..], &[2; 1000], &[3; 500]].concat());
            assert!(gro.is_empty());
        }
    }

    #[test]
    fn what_does_not_continue_is_refused() {
        for v6 in [false, true] {
            let next = 5000 + SIZE as u32;
            let tcp = if v6 { 40 } else { 20 };
            for (what, at, bits) in [
                ("type of service", 1, 0x10),
                ("hop limit", if v6 { 7 } else { 8 }, 1),
                ("acknowledgement", tcp + 11, 1),
                ("window", tcp + 15, 1),
                ("urgent pointer", tcp + 19, 1),
            ] {
                let (mut gro, _) = begun(v6, 5000);
                let (mut packet, headers) = segment(v6, next, 0x10, &[2; SIZE]);
                packet[at] ^= bits;
                assert_eq!(add(&mut gro, &(packet, headers)), Added::Refused, "{what}");
            }
            for (what, other) in [
                ("a gap", segment(v6, next + 1, 0x10, &[2; SIZE])),
                ("a repetition", segment(v6, 5000, 0x10, &[2; SIZE])),
                ("no payload", segment(v6, next, 0x10, &[])),
                ("a longer one", segment(v6, next, 0x10, &[2; SIZE + 1])),
                ("FIN", segment(v6, next, 0x11, &[2; SIZE])),
                ("RST", segment(v6, next, 0x14, &[2; SIZE])),
                ("SYN", segment(v6, next, 0x12, &[2; SIZE])),
                ("URG", segment(v6, next, 0x30, &[2; SIZE])),
                ("ECE", segment(v6, next, 0x50, &[2; SIZE])),
                ("no ACK", segment(v6, next, 0x00, &[2; SIZE])),
            ] {
                let (mut gro, _) = begun(v6, 5000);
                assert_eq!(add(&mut gro, &other), Added::Refused, "{what}");
            }
        }
        let (mut gro, _) = begun(false, 5000);
        assert_eq!(add(&mut gro, &segment(true, 6000, 0x10, &[2; SIZE])), Added::Unknown);
    }

    #[test]
    fn only_plain_data_is_held() {
        let gro = Gro::new();
        for (flags, len, wanted) in [
            (0x10, 1460, true),
            (0x10, 511, false),
            (0x18, 1460, false),
            (0x11, 1460, false),
            (0x10, 64_000, false),
            (0x10, 0, true),
            (0x50, 0, false),
            (0x11, 0, false),
            (0x14, 0, false),
        ] {
            assert_eq!(gro.wants(&segment(false, 1, flags, &vec![0; len]).1), wanted);
        }
    }

    /// A bare acknowledgement.
    fn acknowledgement(number: u32, flags: u8, options: &[u8]) -> (Vec<u8>, Headers) {
        let (mut packet, _) = segment(false, 5000, flags, options);
        packet[28..32].copy_from_slice(&number.to_be_bytes());
        packet[32] += (options.len() as u8 / 4) << 4;
        let frame = [&[0; 12][..], &[8, 0], &packet].concat();
        let headers = frame::parse(&frame).unwrap();
        (packet, headers)
    }

    #[test]
    fn a_later_acknowledgement_takes_the_place_of_an_earlier_one() {
        let first = acknowledgement(u32::MAX - 10, 0x10, &[]);
        let held = || {
            let mut gro = Gro::new();
            assert!(gro.wants(&first.1));
            gro.hold(7, key(&first.1), 1, &first.0, &first.1);
            gro
        };
        let mut gro = held();
        assert_eq!(add(&mut gro, &acknowledgement(u32::MAX, 0x10, &[])), Added::Merged);
        let last = acknowledgement(20, 0x10, &[]);
        assert_eq!(add(&mut gro, &last), Added::Merged);
        let mut merge = gro.take(&key(&first.1)).unwrap();
        merge.finish();
        assert_eq!(merge.segments, 3);
        assert_eq!(merge.packet, last.0);
        // Each of these says something of its own. (RFC 5681, 2: a duplicate; RFC 2018: SACK; RFC 3168.)
        for (what, other) in [
            ("a duplicate", acknowledgement(u32::MAX - 10, 0x10, &[])),
            ("an older one", acknowledgement(u32::MAX - 11, 0x10, &[])),
            ("SACK", acknowledgement(20, 0x10, &[1, 1, 5, 10, 0, 0, 0, 1, 0, 0, 0, 2])),
            ("FIN", acknowledgement(20, 0x11, &[])),
            ("RST", acknowledgement(20, 0x14, &[])),
            ("ECE", acknowledgement(20, 0x50, &[])),
            ("data", segment(false, 5000, 0x10, &[1; SIZE])),
            ("a keepalive", {
                let mut probe = acknowledgement(20, 0x10, &[]);
                probe.1.tcp.as_mut().unwrap().sequence -= 1;
                probe
            }),
        ] {
            assert_eq!(add(&mut held(), &other), Added::Refused, "{what}");
        }
        assert!(!Gro::new().wants(&acknowledgement(20, 0x10, &[1, 1, 1, 1]).1), "options");
    }

    #[test]
    fn merges_and_their_buffers_are_bounded() {
        let (mut gro, key) = begun(false, 0);
        let mut sequence = SIZE as u32;
        while add(&mut gro, &segment(false, sequence, 0x10, &[2; SIZE])) == Added::Merged {
            sequence += SIZE as u32;
        }
        let merge = gro.take(&key).unwrap();
        assert!(merge.packet.len() <= CAPACITY && merge.packet.len() > CAPACITY - SIZE);
        let place = merge.packet.as_ptr();
        gro.give_back(merge);
        for port in 0..SLOTS as u16 {
            let (packet, headers) = segment(false, 0, 0x10, &[1; SIZE]);
            assert!(gro.wants(&headers));
            let local = (key.local, port);
            let key = FlowKey::new(&Key::new([0; 16]), local, (key.remote, key.remote_port));
            gro.hold(0, key, 1, &packet, &headers);
        }
        assert_eq!(gro.merges[0].packet.as_ptr(), place, "used again");
        assert!(!gro.wants(&segment(false, 0, 0x10, &[1; SIZE]).1));
        for port in 0..SLOTS as u16 {
            assert_eq!(gro.take_any().unwrap().key.local_port, port);
        }
    }
}

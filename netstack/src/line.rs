//! smoltcp's device for one connection: what its frames pass through on their way to and from the
//! card.
//!
//! Three things are put right here, each because the flow is known at this place:
//!
//! - **Sequence numbers.** smoltcp draws initial sequence numbers from a small generator. Each flow
//!   has an offset, chosen when its SYN passes so that the wire sees the number wanted
//!   (RFC 6528, or a SYN cookie); it is added to what is sent and taken from what is acknowledged.
//!   SACK edges from the peer are not translated: smoltcp 0.14 reads and ignores them.
//! - **Segment size.** smoltcp believes in an MTU of 64 KiB, so it neither fragments nor drops
//!   large IPv6 segments (0.14.0 loses all of them otherwise), and the segment size is the
//!   flow's: announced in our SYN, clamped in the peer's, and given to whoever cuts the frame. It can
//!   change with the path MTU at any time.
//! - **The Ethernet header** is the flow's, so nothing is looked up per packet.

use crate::egress::Egress;
use crate::frame::tcp_flags;
use core::num::NonZeroU16;
use smoltcp::phy::{Device, DeviceCapabilities, Medium, PacketMeta, RxToken, TxToken};
use smoltcp::time::Instant;
use trireme_nic::Nic;

/// The MTU smoltcp is told, IP header included.
pub(crate) const ENGINE_MTU: usize = 65_535;

/// What the adapter keeps for each flow.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Wire {
    /// Destination, source, EtherType.
    pub(crate) ethernet: [u8; 14],
    /// Bytes of IP header: 20 or 40.
    pub(crate) ip_len: u8,
    /// Largest segment sent, in payload bytes: from our MTU, the path's and the peer's.
    pub(crate) segment: u16,
    /// Largest segment we announce.
    pub(crate) announce: u16,
    /// Wire sequence number less smoltcp's.
    pub(crate) offset: u32,
    /// Wanted initial sequence number, until the offset is chosen.
    pub(crate) isn: Option<u32>,
    /// The next frame is the answer to a replayed SYN: it is not sent.
    pub(crate) swallow: bool,
    /// Wire sequence number after the last byte sent.
    pub(crate) sent_to: u32,
    /// Wire sequence number after the last frame sent: less than `sent_to` while smoltcp sends again.
    pub(crate) last_to: u32,
    /// Wire acknowledgement number last sent.
    pub(crate) acknowledged: u32,
    /// Wire acknowledgement number last received.
    pub(crate) heard_to: u32,
    /// Wire sequence number the peer's window ended before, as of its last acknowledgement.
    pub(crate) window_end: u32,
    /// The peer's window scale: what it announces is shifted left by so much (RFC 7323, 2.2).
    pub(crate) window_scale: u8,
    /// The next octet expected from the peer.
    pub(crate) expected: u32,
    /// Where the window last announced to the peer ends.
    pub(crate) edge: u32,
    /// The furthest it ever ended. Announced in steps of our scale, it moves back by less than a step when
    /// octets come (RFC 7323, 2.4).
    pub(crate) promised: u32,
    /// Our window scale.
    pub(crate) scale: u8,
}

/// `a` comes before `b` in sequence space.
#[inline]
pub(crate) fn before(a: u32, b: u32) -> bool {
    (a.wrapping_sub(b) as i32) < 0
}

#[inline]
fn be16(bytes: &[u8], at: usize) -> u16 {
    match bytes[at..].first_chunk() {
        Some(chunk) => u16::from_be_bytes(*chunk),
        None => 0,
    }
}

#[inline]
fn be32(bytes: &[u8], at: usize) -> u32 {
    match bytes[at..].first_chunk() {
        Some(chunk) => u32::from_be_bytes(*chunk),
        None => 0,
    }
}

impl Wire {
    /// Translates a packet smoltcp wrote, from the IP header on, to the wire's terms. Returns how many of the
    /// segments it will be cut into repeat something that is still unacknowledged: smoltcp tells nobody.
    ///
    /// Probes repeat nothing that was lost: a keepalive's byte is acknowledged already, and a zero-window probe's is one
    /// byte that the peer had no room for. So one byte alone does not count, though it may have been lost.
    #[inline]
    fn outgoing(&mut self, packet: &mut [u8]) -> u32 {
        let at = usize::from(self.ip_len);
        let payload = packet.len() - at;
        let tcp = &mut packet[at..];
        let flags = tcp[13];
        let ours = be32(tcp, 4);
        if flags & tcp_flags::SYN != 0 {
            if let Some(isn) = self.isn.take() {
                self.offset = isn.wrapping_sub(ours);
                self.sent_to = isn;
                self.heard_to = isn;
            }
            // smoltcp writes the maximum segment size as the first option of a SYN.
            if tcp.len() >= 24 && tcp[20..22] == [2, 4] {
                tcp[22..24].copy_from_slice(&self.announce.to_be_bytes());
            }
            let header = (usize::from(tcp[12] >> 4) * 4).min(tcp.len());
            let scale = tcp.get_mut(20..header).and_then(|options| option::<1>(options, 3));
            self.scale = scale.map_or(0, |scale| scale[0].min(14));
        }
        let sequence = ours.wrapping_add(self.offset);
        tcp[4..8].copy_from_slice(&sequence.to_be_bytes());
        let header = usize::from(tcp[12] >> 4) * 4;
        let control =
            u32::from(flags & tcp_flags::SYN != 0) + u32::from(flags & tcp_flags::FIN != 0);
        let end = sequence.wrapping_add((payload - header) as u32 + control);
        self.last_to = end;
        let repeated = match before(sequence, self.sent_to) {
            true => self.repeated(sequence, end, control),
            false => 0,
        };
        if before(self.sent_to, end) {
            self.sent_to = end;
        }
        if flags & tcp_flags::ACK != 0 {
            self.acknowledged = be32(tcp, 8);
            self.expected = self.acknowledged;
            // A SYN's window is not scaled (RFC 7323, 2.2).
            let scale = if flags & tcp_flags::SYN != 0 { 0 } else { self.scale };
            self.edge = self.acknowledged.wrapping_add(u32::from(be16(tcp, 14)) << scale);
            if before(self.promised, self.edge) {
                self.promised = self.edge;
            }
        }
        repeated
    }

    /// Segments in the part of `sequence..end` that is out already and not acknowledged.
    fn repeated(&self, sequence: u32, end: u32, control: u32) -> u32 {
        let from = if before(sequence, self.heard_to) { self.heard_to } else { sequence };
        let to = if before(self.sent_to, end) { self.sent_to } else { end };
        match before(from, to) {
            true if to.wrapping_sub(from) == 1 && control == 0 => 0,
            true => to.wrapping_sub(from).div_ceil(u32::from(self.segment.max(1))),
            false => 0,
        }
    }

    /// No segment is to have more than `octets` of payload; 0: no such wish.
    pub(crate) fn limit(&mut self, octets: u16) {
        if octets != 0 {
            self.segment = self.segment.min(octets);
            self.announce = self.announce.min(octets);
        }
    }

    /// Notes what a received segment acknowledges, before it is translated. True if it is news: more is
    /// acknowledged, or the peer's window ends elsewhere.
    #[inline]
    pub(crate) fn hear(&mut self, tcp: &[u8]) -> bool {
        let acknowledgement = be32(tcp, 8);
        if before(acknowledgement, self.heard_to) || before(self.sent_to, acknowledgement) {
            return false;
        }
        let window = u32::from(be16(tcp, 14));
        let window_end = acknowledgement.wrapping_add(window << self.window_scale);
        let news = (acknowledgement, window_end) != (self.heard_to, self.window_end);
        (self.heard_to, self.window_end) = (acknowledgement, window_end);
        news
    }

    /// Does a received segment acknowledge all that was sent?
    pub(crate) fn answers(&self, tcp: &[u8]) -> bool {
        be32(tcp, 8) == self.sent_to
    }

    /// Does a received segment acknowledge what the one before it did, and come where it is expected? A probe of the
    /// peer's, one octet before that, wants an answer.
    pub(crate) fn has_heard(&self, tcp: &[u8]) -> bool {
        be32(tcp, 8) == self.heard_to && be32(tcp, 4) == self.acknowledged
    }

    /// Does a received segment begin behind the window, but not behind all windows there were? smoltcp drops those
    /// with what they acknowledge. A peer that has filled the window sends nothing else, so if something of
    /// ours was lost and the application reads no more before it can write, neither side would ever go on:
    /// "special allowance should be made to accept valid ACKs" (RFC 9293, 3.10.7.4).
    #[inline]
    pub(crate) fn is_behind_window(&self, tcp: &[u8]) -> bool {
        let sequence = be32(tcp, 4);
        !before(sequence, self.edge) && !before(self.promised, sequence)
    }

    /// The peer's octets before `next` are here. What is announced may be ahead.
    #[inline]
    pub(crate) fn expect(&mut self, next: u32) {
        if before(self.expected, next) {
            self.expected = next;
        }
    }

    /// Translates a received TCP segment, from the TCP header on, to smoltcp's terms.
    #[inline]
    pub(crate) fn incoming(&mut self, tcp: &mut [u8]) {
        let flags = tcp[13];
        if flags & tcp_flags::ACK != 0 {
            let acknowledgement = be32(tcp, 8);
            tcp[8..12].copy_from_slice(&acknowledgement.wrapping_sub(self.offset).to_be_bytes());
        }
    }

    /// Takes note of a received SYN's terms, from the TCP header on, and translates its segment size. Only of the one
    /// that opens the connection: others anybody can send.
    pub(crate) fn synchronize(&mut self, tcp: &mut [u8]) {
        self.expected = be32(tcp, 4).wrapping_add(1);
        (self.edge, self.promised) = (self.expected, self.expected);
        let header = (usize::from(tcp[12] >> 4) * 4).min(tcp.len());
        if let Some(size) = tcp.get_mut(20..header).and_then(maximum_segment_size) {
            // Linux's floor (`TCP_MIN_SND_MSS`), which smoltcp applies too.
            let peer = u16::from_be_bytes(*size);
            if peer != 0 {
                self.segment = self.segment.min(peer.max(48));
                *size = self.segment.to_be_bytes();
            } else {
                self.segment = self.segment.min(536);
            }
        } else {
            self.segment = self.segment.min(536);
        }
        let scale = tcp.get_mut(20..header).and_then(|options| option::<1>(options, 3));
        if scale.is_none() {
            self.scale = 0;
        }
        // More than 14 counts as 14 (RFC 7323, 2.3).
        self.window_scale = scale.map_or(0, |scale| scale[0].min(14));
    }
}

/// The value of the maximum segment size option among TCP options.
pub(crate) fn maximum_segment_size(options: &mut [u8]) -> Option<&mut [u8; 2]> {
    option(options, 2)
}

/// The value, `N` bytes of it, of the first TCP option of this kind.
fn option<const N: usize>(mut options: &mut [u8], kind: u8) -> Option<&mut [u8; N]> {
    loop {
        match *options.first()? {
            0 => return None,
            1 => options = options.get_mut(1..)?,
            found if found == kind && usize::from(*options.get(1)?) == 2 + N => {
                return options.get_mut(2..)?.first_chunk_mut();
            }
            _ => {
                let len = usize::from(*options.get(1)?).max(2);
                options = options.get_mut(len..)?;
            }
        }
    }
}

/// The device itself, made for one call of smoltcp.
pub(crate) struct Line<'a> {
    pub(crate) received: Option<&'a [u8]>,
    pub(crate) nic: &'a mut dyn Nic,
    pub(crate) egress: &'a mut Egress,
    pub(crate) wire: &'a mut Wire,
    /// What smoltcp sends may be a frame for the card to cut.
    pub(crate) large: bool,
    /// smoltcp wanted to send and could not: the ring is full.
    pub(crate) refused: bool,
    /// Frames sent.
    pub(crate) sent: u32,
}

/// Frames of the ring kept free for replies to received ones.
const RESERVE: usize = 2;

impl Line<'_> {
    /// Whether a frame may be sent now; if not, the line has refused one.
    #[inline]
    pub(crate) fn is_ready(&mut self) -> bool {
        let ready = match self.large {
            // What is swallowed needs no room. It must not wait, or the ACK behind it finds a connection without its
            // sequence numbers, and is answered by a reset.
            _ if self.wire.swallow => true,
            true => self.egress.ready_large(&mut *self.nic, RESERVE),
            false => self.egress.ready(&mut *self.nic, RESERVE),
        };
        self.refused |= !ready;
        ready
    }
}

impl Device for Line<'_> {
    type RxToken<'t>
        = Received<'t>
    where
        Self: 't;
    type TxToken<'t>
        = Transmit<'t>
    where
        Self: 't;

    #[inline]
    fn receive(&mut self, _: Instant) -> Option<(Received<'_>, Transmit<'_>)> {
        let packet = self.received.take()?;
        let Line { nic, egress, wire, sent, .. } = self;
        Some((Received(packet), Transmit { nic: &mut **nic, egress, wire, sent }))
    }

    #[inline]
    fn transmit(&mut self, _: Instant) -> Option<Transmit<'_>> {
        if !self.is_ready() {
            return None;
        }
        let Line { nic, egress, wire, sent, .. } = self;
        Some(Transmit { nic: &mut **nic, egress, wire, sent })
    }

    fn capabilities(&self) -> DeviceCapabilities {
        // smoltcp looks at these when an interface is made, and that is done with `Capabilities`.
        DeviceCapabilities::default()
    }
}

pub(crate) struct Received<'t>(&'t [u8]);

impl RxToken for Received<'_> {
    #[inline]
    fn consume<R, F: FnOnce(&[u8]) -> R>(self, f: F) -> R {
        f(self.0)
    }
}

pub(crate) struct Transmit<'t> {
    nic: &'t mut dyn Nic,
    egress: &'t mut Egress,
    wire: &'t mut Wire,
    sent: &'t mut u32,
}

impl TxToken for Transmit<'_> {
    #[inline]
    fn consume<R, F: FnOnce(&mut [u8]) -> R>(self, len: usize, f: F) -> R {
        *self.sent += 1;
        let wire = self.wire;
        if wire.swallow {
            wire.swallow = false;
            // Longest SYN-ACK: 40 bytes of IPv6, 60 of TCP.
            let mut unseen = [0; 100];
            let packet = &mut unseen[..len.min(100)];
            let result = f(packet);
            wire.outgoing(packet);
            return result;
        }
        let room = usize::from(wire.ip_len) + 20 + usize::from(wire.segment);
        let segment = if len > room { NonZeroU16::new(wire.segment) } else { None };
        let ethernet = wire.ethernet;
        let mut repeated = 0;
        let write = |packet: &mut [u8]| {
            let result = f(packet);
            repeated = wire.outgoing(packet);
            result
        };
        let result = match segment {
            None => self.egress.send_plain(self.nic, &ethernet, len, true, write),
            segment => self.egress.send(self.nic, Some(&ethernet), len, segment, write),
        };
        self.egress.counters.tx_tcp_retransmits += u64::from(repeated);
        result
    }

    /// Not asked: smoltcp sets it for IPv4 only, and the flow knows better.
    fn set_meta(&mut self, _: PacketMeta) {}
}

/// A device that exists to tell a new smoltcp interface what it is on.
pub(crate) struct Capabilities(pub(crate) DeviceCapabilities);

impl Capabilities {
    /// Of a device that takes TCP frames of up to `limit` bytes from the IP header on. `None`: the
    /// flow's segment size, one frame a segment.
    pub(crate) fn new(limit: Option<usize>) -> Capabilities {
        use smoltcp::phy::Checksum;
        let mut told = DeviceCapabilities::default();
        told.medium = Medium::Ip;
        told.max_transmission_unit = ENGINE_MTU;
        // Sums were verified before and are filled in after.
        told.checksum.ipv4 = Checksum::Tx;
        told.checksum.tcp = Checksum::None;
        told.checksum.udp = Checksum::None;
        let limit = limit.and_then(core::num::NonZeroUsize::new);
        told.segmentation.tcpv4 = limit;
        told.segmentation.tcpv6 = limit;
        Capabilities(told)
    }
}

impl Device for Capabilities {
    type RxToken<'t> = Received<'t>;
    type TxToken<'t> = Transmit<'t>;

    fn receive(&mut self, _: Instant) -> Option<(Received<'_>, Transmit<'_>)> {
        None
    }

    fn transmit(&mut self, _: Instant) -> Option<Transmit<'_>> {
        None
    }

    fn capabilities(&self) -> DeviceCapabilities {
        self.0.clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wire() -> Wire {
        Wire {
            ethernet: [0; 14],
            ip_len: 20,
            segment: 1460,
            announce: 1460,
            offset: 0,
            isn: Some(0xffff_fff0),
            swallow: false,
            sent_to: 0,
            last_to: 0,
            acknowledged: 0,
            heard_to: 0,
            window_end: 0,
            window_scale: 0,
            expected: 0,
            edge: 0,
            promised: 0,
            scale: 0,
        }
    }

    #[test]
    fn the_wire_sees_the_wanted_initial_sequence_number() {
        let mut wire = wire();
        let mut syn = [0u8; 44];
        syn[24..28].copy_from_slice(&1000u32.to_be_bytes());
        syn[32] = 6 << 4;
        syn[33] = tcp_flags::SYN;
        syn[40..44].copy_from_slice(&[2, 4, 0xff, 0xd7]);
        wire.outgoing(&mut syn);
        assert_eq!(syn[24..28], 0xffff_fff0u32.to_be_bytes());
        assert_eq!(syn[40..44], [2, 4, 0x05, 0xb4], "announced: 1460");
        assert_eq!(wire.sent_to, 0xffff_fff1);

        let mut answer = [0u8; 24];
        answer[8..12].copy_from_slice(&0xffff_fff1u32.to_be_bytes());
        answer[12] = 6 << 4;
        answer[13] = tcp_flags::SYN | tcp_flags::ACK;
        answer[20..24].copy_from_slice(&[2, 4, 0x23, 0]);
        wire.synchronize(&mut answer);
        wire.incoming(&mut answer);
        assert_eq!(answer[8..12], 1001u32.to_be_bytes());
        assert_eq!(answer[20..24], [2, 4, 0x05, 0xb4], "8960 clamped to our link");
    }

    #[test]
    fn options_of_every_shape_are_walked_without_a_panic() {
        for first in 0..=255u8 {
            for second in 0..=255u8 {
                let _ = maximum_segment_size(&mut [first, second, 4, 2, 4]);
            }
        }
        assert_eq!(maximum_segment_size(&mut [1, 3, 3, 7, 2, 4, 1, 2]), Some(&mut [1, 2]));
        assert_eq!(maximum_segment_size(&mut [0, 2, 4, 1, 2]), None);
        assert_eq!(maximum_segment_size(&mut [2, 4, 1]), None);
    }
}

//! Writing IP, UDP, ICMP and bare TCP headers into a card's buffer.
//!
//! Every function gets room for the packet from the IP header on. TCP and UDP sums stay zero:
//! the offload layer fills them in; what it does not fill (fragments, ICMP) is summed here.

use crate::frame::protocol;
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use trireme_nic::checksum;

/// Source and destination of one packet, of one family.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Pair {
    V4(Ipv4Addr, Ipv4Addr),
    V6(Ipv6Addr, Ipv6Addr),
}

impl Pair {
    /// `None` if the families differ.
    pub(crate) fn new(source: IpAddr, destination: IpAddr) -> Option<Pair> {
        match (source, destination) {
            (IpAddr::V4(source), IpAddr::V4(destination)) => Some(Pair::V4(source, destination)),
            (IpAddr::V6(source), IpAddr::V6(destination)) => Some(Pair::V6(source, destination)),
            _ => None,
        }
    }

    /// Bytes of IP header.
    pub(crate) fn header_len(&self) -> usize {
        match self {
            Pair::V4(..) => 20,
            Pair::V6(..) => 40,
        }
    }

    pub(crate) fn ethertype(&self) -> u16 {
        match self {
            Pair::V4(..) => crate::frame::ethertype::IPV4,
            Pair::V6(..) => crate::frame::ethertype::IPV6,
        }
    }

    /// Sum of the pseudo-header (RFC 9293, 3.1; RFC 8200, 8.1).
    pub(crate) fn pseudo_sum(&self, protocol: u8, len: usize) -> u16 {
        let addresses = match self {
            Pair::V4(source, destination) => checksum::add(
                checksum::sum_fixed(&source.octets()),
                checksum::sum_fixed(&destination.octets()),
            ),
            Pair::V6(source, destination) => checksum::add(
                checksum::sum_fixed(&source.octets()),
                checksum::sum_fixed(&destination.octets()),
            ),
        };
        checksum::fold(u64::from(addresses) + u64::from(protocol) + len as u64)
    }
}

/// Which part of an IPv4 datagram a packet is.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Part {
    pub(crate) id: u16,
    /// In bytes, a multiple of eight.
    pub(crate) offset: usize,
    pub(crate) more: bool,
}

/// Writes an IP header for `payload` bytes of `protocol`.
#[inline]
pub(crate) fn ip_header(packet: &mut [u8], pair: &Pair, protocol: u8, hops: u8, payload: usize) {
    match pair {
        Pair::V4(source, destination) => {
            // Don't fragment, id 0: an atomic datagram (RFC 6864).
            ipv4_header(packet, *source, *destination, protocol, hops, payload, 0, 0x4000);
        }
        Pair::V6(source, destination) => {
            ipv6_header(packet, *source, *destination, protocol, hops, payload);
        }
    }
}

/// Writes the header of an IPv4 fragment.
pub(crate) fn ipv4_part(
    packet: &mut [u8],
    addresses: (Ipv4Addr, Ipv4Addr),
    protocol: u8,
    hops: u8,
    payload: usize,
    part: Part,
) {
    let flags = (part.offset / 8) as u16 | if part.more { 0x2000 } else { 0 };
    ipv4_header(packet, addresses.0, addresses.1, protocol, hops, payload, part.id, flags);
}

#[inline]
#[expect(clippy::too_many_arguments)]
fn ipv4_header(
    packet: &mut [u8],
    source: Ipv4Addr,
    destination: Ipv4Addr,
    protocol: u8,
    hops: u8,
    payload: usize,
    id: u16,
    flags_offset: u16,
) {
    let Some(header) = packet.first_chunk_mut::<20>() else { return };
    let [total_hi, total_lo] = ((20 + payload) as u16).to_be_bytes();
    let [id_hi, id_lo] = id.to_be_bytes();
    let [flags_hi, flags_lo] = flags_offset.to_be_bytes();
    let [s0, s1, s2, s3] = source.octets();
    let [d0, d1, d2, d3] = destination.octets();
    *header = [
        0x45, 0, total_hi, total_lo, id_hi, id_lo, flags_hi, flags_lo, hops, protocol, 0, 0, s0,
        s1, s2, s3, d0, d1, d2, d3,
    ];
    let sum = !checksum::sum_fixed(header);
    header[10..12].copy_from_slice(&sum.to_be_bytes());
}

#[inline]
pub(crate) fn ipv6_header(
    packet: &mut [u8],
    source: Ipv6Addr,
    destination: Ipv6Addr,
    next: u8,
    hops: u8,
    payload: usize,
) {
    let Some(header) = packet.first_chunk_mut::<40>() else { return };
    header[..4].copy_from_slice(&[0x60, 0, 0, 0]);
    header[4..6].copy_from_slice(&(payload as u16).to_be_bytes());
    header[6] = next;
    header[7] = hops;
    header[8..24].copy_from_slice(&source.octets());
    header[24..40].copy_from_slice(&destination.octets());
}

/// Writes a UDP header with a zero sum. `len` counts the header.
#[inline]
pub(crate) fn udp_header(packet: &mut [u8], source: u16, destination: u16, len: usize) {
    let Some(header) = packet.first_chunk_mut::<8>() else { return };
    let ([a, b], [c, d], [e, f]) =
        (source.to_be_bytes(), destination.to_be_bytes(), (len as u16).to_be_bytes());
    *header = [a, b, c, d, e, f, 0, 0];
}

/// Fills in the sum of an ICMP message for IPv4 or IPv6 whose sum field holds zero.
pub(crate) fn icmp_sum(message: &mut [u8], pair: &Pair) {
    let mut sum = checksum::sum(message);
    if let Pair::V6(..) = pair {
        sum = checksum::add(sum, pair.pseudo_sum(protocol::ICMPV6, message.len()));
    }
    if let Some(field) = message.get_mut(2..4) {
        field.copy_from_slice(&(!sum).to_be_bytes());
    }
}

/// Is an ICMP message's sum right?
pub(crate) fn icmp_sum_is_right(message: &[u8], pair: &Pair) -> bool {
    let sum = checksum::sum(message);
    match pair {
        Pair::V4(..) => sum == 0xffff,
        Pair::V6(..) => {
            checksum::add(sum, pair.pseudo_sum(protocol::ICMPV6, message.len())) == 0xffff
        }
    }
}

/// A TCP segment without payload, made outside smoltcp: resets, TIME-WAIT acknowledgements, SYN
/// cookies.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bare {
    pub(crate) source_port: u16,
    pub(crate) destination_port: u16,
    pub(crate) sequence: u32,
    pub(crate) acknowledgement: u32,
    pub(crate) flags: u8,
    pub(crate) window: u16,
    /// Announced, if it is a SYN.
    pub(crate) segment: Option<u16>,
}

impl Bare {
    /// Bytes of TCP header.
    pub(crate) fn len(&self) -> usize {
        if self.segment.is_some() { 24 } else { 20 }
    }

    /// Writes the TCP header, sum zero.
    pub(crate) fn write(&self, tcp: &mut [u8]) {
        tcp[..2].copy_from_slice(&self.source_port.to_be_bytes());
        tcp[2..4].copy_from_slice(&self.destination_port.to_be_bytes());
        tcp[4..8].copy_from_slice(&self.sequence.to_be_bytes());
        tcp[8..12].copy_from_slice(&self.acknowledgement.to_be_bytes());
        tcp[12] = (self.len() as u8 / 4) << 4;
        tcp[13] = self.flags;
        tcp[14..16].copy_from_slice(&self.window.to_be_bytes());
        tcp[16..20].fill(0);
        if let Some(segment) = self.segment {
            tcp[20..22].copy_from_slice(&[2, 4]);
            tcp[22..24].copy_from_slice(&segment.to_be_bytes());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use smoltcp::phy::ChecksumCapabilities;
    use smoltcp::wire::{Icmpv6Packet, Ipv4Packet, Ipv4Repr, Ipv6Packet, Ipv6Repr, TcpPacket};

    #[test]
    fn smoltcp_reads_our_ip_headers() {
        let mut packet = [0xa5; 48];
        let (source, destination) = (Ipv4Addr::new(10, 0, 0, 1), Ipv4Addr::new(10, 0, 0, 2));
        ip_header(&mut packet, &Pair::V4(source, destination), 17, 63, 28);
        let read = Ipv4Packet::new_checked(&packet[..]).unwrap();
        assert!(read.verify_checksum() && read.dont_frag());
        let repr = Ipv4Repr::parse(&read, &ChecksumCapabilities::default()).unwrap();
        assert_eq!((repr.src_addr, repr.dst_addr), (source, destination));
        assert_eq!((repr.hop_limit, repr.payload_len), (63, 28));

        let mut packet = [0xa5; 44];
        let (source, destination) = ("fe80::1".parse().unwrap(), "ff02::2".parse().unwrap());
        ip_header(&mut packet, &Pair::V6(source, destination), 58, 255, 4);
        let repr = Ipv6Repr::parse(&Ipv6Packet::new_checked(&packet[..]).unwrap()).unwrap();
        assert_eq!((repr.src_addr, repr.dst_addr), (source, destination));
        assert_eq!((repr.hop_limit, repr.payload_len), (255, 4));
    }

    #[test]
    fn smoltcp_agrees_with_our_icmp_sums() {
        let pair = Pair::V6("fe80::1".parse().unwrap(), "fe80::2".parse().unwrap());
        let mut message = [128, 0, 0, 0, 1, 2, 3, 4, 5];
        icmp_sum(&mut message, &pair);
        let Pair::V6(source, destination) = pair else { unreachable!() };
        assert!(
            Icmpv6Packet::new_checked(&message[..]).unwrap().verify_checksum(&source, &destination)
        );
        assert!(icmp_sum_is_right(&message, &pair));
        message[8] ^= 1;
        assert!(!icmp_sum_is_right(&message, &pair));
    }

    #[test]
    fn smoltcp_reads_our_bare_segments() {
        let bare = Bare {
            source_port: 80,
            destination_port: 1234,
            sequence: 7,
            acknowledgement: 9,
            flags: 0x12,
            window: 512,
            segment: Some(1460),
        };
        let mut bytes = [0xa5; 24];
        bare.write(&mut bytes);
        let read = TcpPacket::new_checked(&bytes[..]).unwrap();
        assert!(read.syn() && read.ack() && !read.rst());
        assert_eq!((read.src_port(), read.dst_port(), read.window_len()), (80, 1234, 512));
        assert_eq!((read.seq_number().0, read.ack_number().0), (7, 9));
        assert_eq!(read.options(), [2, 4, 0x05, 0xb4]);
    }
}

//! Where the headers are, and the sums over them (RFC 1071, 8200). Written for the model alone, so that
//! a driver's arithmetic is checked by another's.

use std::ops::Range;

/// TCP.
pub(crate) const TCP: u8 = 6;
/// UDP.
pub(crate) const UDP: u8 = 17;

const IPV4: u16 = 0x0800;
const IPV6: u16 = 0x86dd;
const VLAN: u16 = 0x8100;
const PPPOE: u16 = 0x8864;
/// Realtek's tag of a switch port: four bytes as a VLAN tag has. \[2.1\]
const REALTEK: u16 = 0x8899;
/// Tags looked behind at most.
const MAX_TAGS: usize = 4;
/// IPv6 extension headers looked behind at most.
const MAX_EXTENSIONS: usize = 8;

/// An IP packet in a frame. Every offset lies within the frame the packet was found in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Packet {
    /// 4 or 6.
    pub(crate) version: u8,
    /// Offset of the IP header.
    pub(crate) l3: usize,
    /// Offset of what follows it, extension headers included.
    pub(crate) l4: usize,
    /// End of the packet as its length field says; `None` if the frame is shorter, or the field less
    /// than the headers.
    pub(crate) end: Option<usize>,
    /// Protocol of what is at `l4`.
    pub(crate) protocol: u8,
    /// A fragment of a datagram, or with a header that hides the transport.
    pub(crate) fragment: bool,
    /// A fragment that does not begin the datagram.
    pub(crate) later_fragment: bool,
    /// IPv4 options or IPv6 extension headers.
    pub(crate) options: bool,
}

/// What a frame carries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Found {
    /// Not IP, as far as the engine can see.
    Other,
    /// An EtherType of IP and headers that cannot be.
    Malformed,
    /// IP.
    Ip(Packet),
}

fn be16(frame: &[u8], at: usize) -> Option<u16> {
    frame.get(at..at + 2).map(|b| u16::from_be_bytes([b[0], b[1]]))
}

/// Looks behind 802.1Q, Realtek and PPPoE tags, which the unit is known to understand. \[8.1\]
pub(crate) fn find(frame: &[u8]) -> Found {
    let mut at = 12;
    for _ in 0..=MAX_TAGS {
        match be16(frame, at) {
            Some(VLAN | REALTEK) => at += 4,
            Some(PPPOE) => {
                // Version, code, session, length, then PPP's own protocol number (RFC 2516, 1661).
                return match be16(frame, at + 8) {
                    Some(0x0021) => ipv4(frame, at + 10),
                    Some(0x0057) => ipv6(frame, at + 10),
                    _ => Found::Other,
                };
            }
            Some(IPV4) => return ipv4(frame, at + 2),
            Some(IPV6) => return ipv6(frame, at + 2),
            _ => return Found::Other,
        }
    }
    Found::Other
}

fn ipv4(frame: &[u8], l3: usize) -> Found {
    let Some(header) = frame.get(l3..l3 + 20) else { return Found::Malformed };
    let header_len = usize::from(header[0] & 15) * 4;
    let l4 = l3 + header_len;
    if header[0] >> 4 != 4 || header_len < 20 || l4 > frame.len() {
        return Found::Malformed;
    }
    let end = l3 + usize::from(u16::from_be_bytes([header[2], header[3]]));
    let fragment = u16::from_be_bytes([header[6], header[7]]);
    Found::Ip(Packet {
        version: 4,
        l3,
        l4,
        end: (l4..=frame.len()).contains(&end).then_some(end),
        protocol: header[9],
        fragment: fragment & 0x3fff != 0,
        later_fragment: fragment & 0x1fff != 0,
        options: header_len > 20,
    })
}

fn ipv6(frame: &[u8], l3: usize) -> Found {
    let Some(header) = frame.get(l3..l3 + 40) else { return Found::Malformed };
    if header[0] >> 4 != 6 {
        return Found::Malformed;
    }
    let end = l3 + 40 + usize::from(u16::from_be_bytes([header[4], header[5]]));
    let (mut next, mut l4) = (header[6], l3 + 40);
    let mut packet = Packet {
        version: 6,
        l3,
        l4,
        end: None,
        protocol: next,
        fragment: false,
        later_fragment: false,
        options: false,
    };
    // Hop-by-hop, routing and destination options; a fragment header ends the search. That the unit
    // walks them is not established (section 12, 16).
    for _ in 0..MAX_EXTENSIONS {
        if !matches!(next, 0 | 43 | 44 | 60) {
            break;
        }
        packet.options = true;
        let Some(&[following, len, high, low]) = frame.get(l4..).and_then(|f| f.first_chunk())
        else {
            return Found::Malformed;
        };
        if next == 44 {
            packet.fragment = true;
            packet.later_fragment = u16::from_be_bytes([high, low]) & 0xfff8 != 0;
            break;
        }
        next = following;
        l4 += 8 + 8 * usize::from(len);
    }
    if l4 > frame.len() {
        return Found::Malformed;
    }
    packet.l4 = l4;
    packet.protocol = next;
    packet.end = (l4..=frame.len()).contains(&end).then_some(end);
    Found::Ip(packet)
}

/// Adds big-endian 16-bit words; an odd last byte is a high one.
fn add(sum: u64, bytes: &[u8]) -> u64 {
    bytes.chunks(2).fold(sum, |sum, pair| {
        sum + (u64::from(pair[0]) << 8 | u64::from(pair.get(1).copied().unwrap_or(0)))
    })
}

fn fold(mut sum: u64) -> u16 {
    while sum >> 16 != 0 {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    sum as u16
}

impl Packet {
    /// The IPv4 header sums to all ones. Always true for IPv6, which has no sum.
    pub(crate) fn header_ok(&self, frame: &[u8]) -> bool {
        self.version != 4 || fold(add(0, &frame[self.l3..self.l4])) == 0xffff
    }

    /// Fills in the IPv4 header checksum.
    pub(crate) fn fill_header(&self, frame: &mut [u8]) {
        if self.version == 4 {
            let header = &mut frame[self.l3..self.l4];
            header[10..12].fill(0);
            let sum = !fold(add(0, header));
            header[10..12].copy_from_slice(&sum.to_be_bytes());
        }
    }

    /// Where the transport checksum is, if the packet is long enough to have one.
    pub(crate) fn checksum_field(&self) -> Option<usize> {
        let (offset, least) = match self.protocol {
            TCP => (16, 20),
            UDP => (6, 8),
            _ => return None,
        };
        (self.end? - self.l4 >= least).then_some(self.l4 + offset)
    }

    /// Sum over pseudo-header (RFC 9293 3.1, RFC 8200 8.1) and `range`, checksum field included.
    fn transport_sum(&self, frame: &[u8], range: Range<usize>) -> u16 {
        let addresses = match self.version {
            4 => &frame[self.l3 + 12..self.l3 + 20],
            _ => &frame[self.l3 + 8..self.l3 + 40],
        };
        let sum = range.len() as u64 + u64::from(self.protocol);
        fold(add(add(sum, addresses), &frame[range]))
    }

    /// The transport sums to all ones; `None`: there is no sum to check.
    pub(crate) fn transport_ok(&self, frame: &[u8]) -> Option<bool> {
        let (field, end) = (self.checksum_field()?, self.end?);
        if self.version == 4 && self.protocol == UDP && frame[field..field + 2] == [0, 0] {
            return None;
        }
        Some(self.transport_sum(frame, self.l4..end) == 0xffff)
    }

    /// Fills in the transport checksum; whatever the field held is ignored. False: nowhere to put it.
    pub(crate) fn fill_transport(&self, frame: &mut [u8]) -> bool {
        let (Some(field), Some(end)) = (self.checksum_field(), self.end) else { return false };
        frame[field..field + 2].fill(0);
        let sum = !self.transport_sum(frame, self.l4..end);
        // RFC 768: a sum of zero is sent as all ones. That the unit does is not established (21).
        let sum = if self.protocol == UDP && sum == 0 { 0xffff } else { sum };
        frame[field..field + 2].copy_from_slice(&sum.to_be_bytes());
        true
    }

    /// Sets the length field for a packet that ends at `end`.
    pub(crate) fn set_end(&mut self, frame: &mut [u8], end: usize) {
        let (field, from) = match self.version {
            4 => (self.l3 + 2, self.l3),
            _ => (self.l3 + 4, self.l3 + 40),
        };
        let len = u16::try_from(end - from).unwrap_or(0);
        frame[field..field + 2].copy_from_slice(&len.to_be_bytes());
        self.end = Some(end);
    }
}

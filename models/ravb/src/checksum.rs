//! The sums of both blocks: R-Car's over everything behind the L2 header, and the parser of the TOE.
//! (sheet 5)

use crate::Faults;

/// RFC 1071 sum over big-endian words, an odd last byte being padded with a zero; not inverted.
pub(crate) fn sum(bytes: &[u8]) -> u16 {
    let mut sum: u64 = 0;
    for pair in bytes.chunks(2) {
        sum += u64::from(pair[0]) << 8 | u64::from(pair.get(1).copied().unwrap_or(0));
    }
    fold(sum)
}

fn fold(mut sum: u64) -> u16 {
    while sum > 0xffff {
        sum = (sum >> 16) + (sum & 0xffff);
    }
    sum as u16
}

/// What R-Car appends to a received frame. (sheet 5.1)
pub(crate) fn rcar_trailer(frame: &[u8], as_ones: bool) -> [u8; 2] {
    match sum(frame.get(14..).unwrap_or(&[])) {
        0 if as_ones => [0xff, 0xff],
        value => value.to_be_bytes(),
    }
}

/// A protocol of CSR1 and CSR2, with its enable over IPv4 and IPv6.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Transport {
    Tcp,
    Udp,
    Icmp,
}

/// A frame the TOE understands.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Parsed {
    /// First byte of the IPv4 header, if it is IPv4.
    pub(crate) ipv4: Option<usize>,
    transport: Option<(Transport, usize)>,
    /// End of the IP packet.
    end: usize,
    /// Addresses, and the protocol number: what the pseudo header takes.
    addresses: (usize, usize),
    number: u8,
    /// Bits 24 to 27 of the extension headers passed.
    extensions: u32,
}

/// Bits 22:20: while all are 0, bits 27:24 mean nothing. (sheet 2.9)
const ANY_IPV6: u32 = 7 << 20;

impl Parsed {
    /// Finds out what a frame is. `None`: no IP, or its header is not supported.
    pub(crate) fn find(frame: &[u8], faults: &Faults) -> Option<Parsed> {
        let mut at = 14;
        let mut kind = word(frame, 12)?;
        if kind == 0x8100 {
            kind = word(frame, 16)?;
            at = 18;
        }
        match kind {
            0x0800 => Parsed::ipv4(frame, at, faults),
            0x86dd => Parsed::ipv6(frame, at),
            _ => None,
        }
    }

    fn ipv4(frame: &[u8], at: usize, faults: &Faults) -> Option<Parsed> {
        let first = *frame.get(at)?;
        let header = usize::from(first & 15) * 4;
        let end = at + usize::from(word(frame, at + 2)?);
        let options = header != 20 && !faults.takes_options;
        if first >> 4 != 4 || header < 20 || end < at + header || end > frame.len() || options {
            return None;
        }
        let fragment = word(frame, at + 6)? & 0x3fff != 0;
        let number = frame[at + 9];
        let transport = match number {
            6 => Some(Transport::Tcp),
            17 => Some(Transport::Udp),
            1 => Some(Transport::Icmp),
            _ => None,
        };
        let transport = transport.filter(|_| !fragment).map(|t| (t, at + header));
        Some(Parsed {
            ipv4: Some(at),
            transport,
            end,
            addresses: (at + 12, at + 20),
            number,
            extensions: 0,
        })
    }

    fn ipv6(frame: &[u8], at: usize) -> Option<Parsed> {
        let end = at + 40 + usize::from(word(frame, at + 4)?);
        if frame.get(at)? >> 4 != 6 || end > frame.len() {
            return None;
        }
        let (mut number, mut here, mut extensions) = (frame[at + 6], at + 40, 0);
        let transport = loop {
            let (bit, unit) = match number {
                0 => (24, 8),
                43 => (25, 8),
                51 => (26, 4),
                60 => (27, 8),
                6 => break Some(Transport::Tcp),
                17 => break Some(Transport::Udp),
                58 => break Some(Transport::Icmp),
                _ => break None,
            };
            let (Some(&next), Some(&len)) = (frame.get(here), frame.get(here + 1)) else {
                break None;
            };
            // A routing header still under way would put another destination in the pseudo header.
            if number == 43 && frame.get(here + 3).is_none_or(|&left| left != 0) {
                break None;
            }
            extensions |= 1 << bit;
            number = next;
            // RFC 8200 4.2 counts eights behind the first, RFC 4302 2.2 fours behind the second.
            here += (usize::from(len) + if unit == 8 { 1 } else { 2 }) * unit;
            if here >= end {
                break None;
            }
        };
        let transport = transport.map(|t| (t, here));
        Some(Parsed {
            ipv4: None,
            transport,
            end,
            addresses: (at + 8, at + 40),
            number,
            extensions,
        })
    }

    /// The transport checksum, if CSR1 or CSR2 `enables` this kind: where its field is.
    fn enabled(&self, enables: u32) -> Option<(Transport, usize, usize)> {
        let (transport, at) = self.transport?;
        let (bit, field) = match transport {
            Transport::Tcp => (4, 16),
            Transport::Udp => (5, 6),
            Transport::Icmp => (6, 2),
        };
        let bit = if self.ipv4.is_some() { bit } else { bit + 16 };
        let passed = if enables & ANY_IPV6 == 0 { 0 } else { enables };
        let understood = self.extensions & !passed == 0;
        let fits = at + field + 2 <= self.end;
        (enables >> bit & 1 != 0 && understood && fits).then_some((transport, at, at + field))
    }

    /// Sum over pseudo header and transport, the field included as it is.
    fn transport_sum(&self, frame: &[u8], transport: Transport, at: usize) -> u16 {
        fold(u64::from(self.pseudo(frame, transport, at)) + u64::from(sum(&frame[at..self.end])))
    }

    fn pseudo(&self, frame: &[u8], transport: Transport, at: usize) -> u16 {
        if transport == Transport::Icmp && self.ipv4.is_some() {
            return 0;
        }
        let addresses = &frame[self.addresses.0..self.addresses.1];
        let len = (self.end - at) as u64;
        fold(u64::from(sum(addresses)) + u64::from(self.number) + len)
    }
}

fn word(frame: &[u8], at: usize) -> Option<u16> {
    let bytes = frame.get(at..at + 2)?;
    Some(u16::from_be_bytes([bytes[0], bytes[1]]))
}

/// What the TOE appends to a received frame: results for the IPv4 header and for the transport; 0 is
/// right, ffff is "not supported". (sheet 5.2)
pub(crate) fn toe_trailer(frame: &[u8], enables: u32, faults: &Faults) -> [u16; 2] {
    let mut results = [0xffff; 2];
    let Some(parsed) = Parsed::find(frame, faults) else { return results };
    if faults.padding_unsupported && parsed.end != frame.len() {
        return results;
    }
    // Any value but the two with a meaning is "wrong"; which one real hardware gives is not public.
    let verdict = |sum: u16| match !sum {
        0xffff => 0xfffe,
        residue => residue,
    };
    if let Some(at) = parsed.ipv4
        && enables & 1 != 0
    {
        let header = usize::from(frame[at] & 15) * 4;
        results[0] = verdict(sum(&frame[at..at + header]));
    }
    if let Some((transport, at, field)) = parsed.enabled(enables) {
        let none = transport == Transport::Udp && frame[field..field + 2] == [0, 0];
        results[1] = match none && parsed.ipv4.is_some() {
            true if faults.zero_udp_is_right => 0,
            true => 0xffff,
            false => verdict(parsed.transport_sum(frame, transport, at)),
        };
    }
    results
}

/// What the transmit engine did to a frame.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Filled {
    pub(crate) transport: bool,
    /// The field held neither the pseudo-header sum nor the right checksum.
    pub(crate) odd_seed: bool,
}

/// The transmit engine: writes checksums where CSR1 `enables` them. (sheet 5.3)
pub(crate) fn toe_fill(frame: &mut [u8], enables: u32, faults: &Faults) -> Filled {
    let Some(parsed) = Parsed::find(frame, faults) else { return Filled::default() };
    if let Some(at) = parsed.ipv4
        && enables & 1 != 0
    {
        let header = at..at + usize::from(frame[at] & 15) * 4;
        frame[at + 10..at + 12].fill(0);
        let value = !sum(&frame[header]);
        frame[at + 10..at + 12].copy_from_slice(&value.to_be_bytes());
    }
    let Some((transport, at, field)) = parsed.enabled(enables) else { return Filled::default() };
    let held = u16::from_be_bytes([frame[field], frame[field + 1]]);
    if transport == Transport::Udp && parsed.ipv4.is_some() && held == 0 {
        return Filled::default();
    }
    let pseudo = parsed.pseudo(frame, transport, at);
    frame[field..field + 2].fill(0);
    let right = !parsed.transport_sum(frame, transport, at);
    let right = match transport == Transport::Udp && right == 0 && !faults.udp_zero_sent {
        true => 0xffff,
        false => right,
    };
    let value = match faults.seeded_checksum {
        true => !fold(u64::from(held) + u64::from(sum(&frame[at..parsed.end]))),
        false => right,
    };
    frame[field..field + 2].copy_from_slice(&value.to_be_bytes());
    Filled { transport: true, odd_seed: held != pseudo && held != right }
}

/// CSR2 enables at least one result.
pub(crate) fn enables_any(csr2: u32) -> bool {
    csr2 & (1 | 7 << 4 | ANY_IPV6) != 0
}

/// The four bytes as they lie behind the frame.
pub(crate) fn toe_bytes(results: [u16; 2]) -> [u8; 4] {
    let [a, b] = results.map(u16::to_le_bytes);
    [a[0], a[1], b[0], b[1]]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_trailer_of_a_zero_sum_has_two_spellings() {
        assert_eq!(rcar_trailer(&[0; 60], false), [0, 0]);
        assert_eq!(rcar_trailer(&[0; 60], true), [0xff, 0xff]);
        assert_eq!(rcar_trailer(&[1; 13], false), [0, 0]);
    }

    #[test]
    fn extension_bits_alone_enable_nothing() {
        assert!(!enables_any(0x0f00_0000));
        assert!(enables_any(1 << 20) && enables_any(1));
    }
}

//! The Internet checksum (RFC 1071), as cards and stack need it: sums are ones' complement, folded
//! to 16 bits and *not* inverted unless the name says so.

use crate::{FrameShape, Network, Transport};

/// Folds a wide sum of 16-bit words to 16 bits.
pub const fn fold(mut sum: u64) -> u16 {
    sum = (sum & 0xffff_ffff) + (sum >> 32);
    sum = (sum & 0xffff) + (sum >> 16);
    sum = (sum & 0xffff) + (sum >> 16);
    sum = (sum & 0xffff) + (sum >> 16);
    sum as u16
}

/// Adds two folded sums.
pub const fn add(a: u16, b: u16) -> u16 {
    let (sum, carry) = a.overflowing_add(b);
    sum + carry as u16
}

/// Takes `b` out of the folded sum `a`.
pub const fn subtract(a: u16, b: u16) -> u16 {
    add(a, !b)
}

/// Sums bytes as big-endian 16-bit words, an odd last byte being a high one. Eight bytes a step:
/// this is the software path of every card without checksums, so it counts.
pub fn sum(bytes: &[u8]) -> u16 {
    // The sum of byte-swapped words is the byte-swapped sum (RFC 1071, 2 B), so add native words.
    let (words, rest) = bytes.as_chunks::<8>();
    let (mut low, mut high) = (0u64, 0u64);
    for word in words {
        let word = u64::from_ne_bytes(*word);
        low += word & 0xffff_ffff;
        high += word >> 32;
    }
    let mut total = (low & 0xffff_ffff) + (low >> 32) + (high & 0xffff_ffff) + (high >> 32);
    let (pairs, odd) = rest.as_chunks::<2>();
    for pair in pairs {
        total += u64::from(u16::from_ne_bytes(*pair));
    }
    if let [last] = odd {
        total += u64::from(u16::from_ne_bytes([*last, 0]));
    }
    u16::from_be(fold(total))
}

/// Sum of the pseudo-header of a TCP or UDP packet whose frame has this shape, with
/// `transport_len` as length (some segmentation engines want 0 there). `None` if it is neither, or if
/// the shape does not fit the frame.
pub fn pseudo_header(frame: &[u8], shape: &FrameShape, transport_len: usize) -> Option<u16> {
    let protocol = match shape.transport {
        Transport::Tcp { .. } => 6u64,
        Transport::Udp => 17,
        Transport::Icmp | Transport::Other => return None,
    };
    let network = usize::from(shape.link_len);
    let addresses = match shape.network {
        Network::Ipv4 { .. } => frame.get(network + 12..network + 20)?,
        Network::Ipv6 { .. } => frame.get(network + 8..network + 40)?,
        Network::Other => return None,
    };
    Some(fold(u64::from(sum(addresses)) + protocol + transport_len as u64))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The definition, word by word.
    fn by_definition(bytes: &[u8]) -> u16 {
        let mut sum = 0u32;
        for pair in bytes.chunks(2) {
            sum += u32::from(pair[0]) << 8 | u32::from(*pair.get(1).unwrap_or(&0));
            sum = (sum & 0xffff) + (sum >> 16);
        }
        sum as u16
    }

    #[test]
    fn rfc_1071_example() {
        // RFC 1071, section 3: 00 01 f2 03 f4 f5 f6 f7 sums to ddf2.
        assert_eq!(sum(&[0x00, 0x01, 0xf2, 0x03, 0xf4, 0xf5, 0xf6, 0xf7]), 0xddf2);
    }

    #[test]
    fn agrees_with_the_definition_for_every_length_and_alignment() {
        let bytes: Vec<u8> =
            (0..300u32).map(|i| (i.wrapping_mul(2_654_435_761) >> 13) as u8).collect();
        for start in 0..9 {
            for end in start..bytes.len() {
                assert_eq!(sum(&bytes[start..end]), by_definition(&bytes[start..end]));
            }
        }
        assert_eq!(sum(&[0xff; 65536]), 0xffff);
    }

    #[test]
    fn subtract_undoes_add() {
        for (a, b) in [(1u16, 2u16), (0xffff, 1), (0x8000, 0x8000), (0x1234, 0xfedc)] {
            assert_eq!(subtract(add(a, b), b) % 0xffff, a % 0xffff);
        }
    }
}

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

/// Adds words with the carry coming in again at the other end.
#[inline]
const fn add_words(a: u64, b: u64) -> u64 {
    let (sum, carry) = a.overflowing_add(b);
    sum + carry as u64
}

/// Sums bytes as big-endian 16-bit words, an odd last byte being a high one. This is the software path
/// of every card without checksums, so it counts.
pub fn sum(bytes: &[u8]) -> u16 {
    // Where a word must lie at a multiple of its size, one that may not is loaded by the byte.
    #[cfg(target_arch = "arm")]
    let sum = sum_of_aligned_words(bytes);
    #[cfg(not(target_arch = "arm"))]
    let sum = sum_of_words(bytes);
    sum
}

/// By aligned words of 32 bits, each an addition and one of its carry. An odd number of bytes before the first
/// puts the rest into the other half of the 16-bit words, and its sum is swapped (RFC 1071, 2 B).
#[cfg(any(target_arch = "arm", test))]
fn sum_of_aligned_words(bytes: &[u8]) -> u16 {
    let (before, words, behind) = bytemuck::pod_align_to::<u8, u32>(bytes);
    let (blocks, rest) = words.as_chunks::<8>();
    let mut total = 0u64;
    for block in blocks {
        for word in block {
            total += u64::from(*word);
        }
    }
    for word in rest {
        total += u64::from(*word);
    }
    let rest = add(u16::from_be(fold(total)), sum_of_words(behind));
    let rest = if before.len().is_multiple_of(2) { rest } else { rest.swap_bytes() };
    add(sum_of_words(before), rest)
}

/// By words of 64 bits wherever they lie, 64 bytes a step, each word an addition and one of its carry.
fn sum_of_words(bytes: &[u8]) -> u16 {
    // The sum of byte-swapped words is the byte-swapped sum (RFC 1071, 2 B), so add native words.
    let (blocks, rest) = bytes.as_chunks::<64>();
    // Four sums, so that no addition waits for the one before.
    let mut sums = [0u64; 4];
    for block in blocks {
        let (words, _) = block.as_chunks::<8>();
        for (n, word) in words.iter().enumerate() {
            sums[n % 4] = add_words(sums[n % 4], u64::from_ne_bytes(*word));
        }
    }
    let mut total = add_words(add_words(sums[0], sums[1]), add_words(sums[2], sums[3]));
    let (words, rest) = rest.as_chunks::<8>();
    for word in words {
        total = add_words(total, u64::from_ne_bytes(*word));
    }
    let (words, rest) = rest.as_chunks::<4>();
    if let [word] = words {
        total = add_words(total, u64::from(u32::from_ne_bytes(*word)));
    }
    let (words, rest) = rest.as_chunks::<2>();
    if let [word] = words {
        total = add_words(total, u64::from(u16::from_ne_bytes(*word)));
    }
    if let [last] = rest {
        total = add_words(total, u64::from(u16::from_ne_bytes([*last, 0])));
    }
    u16::from_be(fold(total))
}

/// The same for a header or address of a length known when compiling, a multiple of four and 64 KiB
/// at most: a handful of additions.
#[inline(always)]
pub fn sum_fixed<const N: usize>(bytes: &[u8; N]) -> u16 {
    const { assert!(N.is_multiple_of(4) && N <= 65536) }
    let (words, _) = bytes.as_chunks::<4>();
    let total = words.iter().map(|word| u64::from(u32::from_ne_bytes(*word))).sum();
    u16::from_be(fold(total))
}

/// Big-endian 32-bit words added up: the same as their halves, once folded.
#[inline(always)]
fn words<const N: usize>(bytes: &[u8; N]) -> u64 {
    let (words, _) = bytes.as_chunks::<4>();
    words.iter().map(|word| u64::from(u32::from_be_bytes(*word))).sum()
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
        Network::Ipv4 { .. } => words(frame.get(network + 12..)?.first_chunk::<8>()?),
        Network::Ipv6 { .. } => words(frame.get(network + 8..)?.first_chunk::<32>()?),
        Network::Other => return None,
    };
    Some(fold(addresses + protocol + transport_len as u64))
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
                let bytes = &bytes[start..end];
                assert_eq!(sum_of_words(bytes), by_definition(bytes));
                assert_eq!(sum_of_aligned_words(bytes), by_definition(bytes));
            }
        }
        assert_eq!(sum_of_words(&[0xff; 65536]), 0xffff);
        assert_eq!(sum_of_aligned_words(&[0xff; 65536]), 0xffff);
        assert_eq!(sum_fixed(&[0xff; 65536]), 0xffff);
        for start in 0..100 {
            let header: &[u8; 20] = bytes[start..].first_chunk().unwrap();
            assert_eq!(sum_fixed(header), by_definition(header));
            let addresses: &[u8; 32] = bytes[start..].first_chunk().unwrap();
            assert_eq!(sum_fixed(addresses), by_definition(addresses));
        }
    }

    #[test]
    fn subtract_undoes_add() {
        for (a, b) in [(1u16, 2u16), (0xffff, 1), (0x8000, 0x8000), (0x1234, 0xfedc)] {
            assert_eq!(subtract(add(a, b), b) % 0xffff, a % 0xffff);
        }
    }
}

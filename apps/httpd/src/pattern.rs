//! The resource `/bytes/N`: N octets that a client can check without having them.
//!
//! Octet `i` is the top octet of the 32-bit product `(i mod 65521) * 2654435761`. The period is a prime: a piece that is
//! lost, doubled or moved by any multiple of a segment size shows. In Python, `n` octets are
//! `(bytes((i * 2654435761 >> 24) & 255 for i in range(65521)) * (n // 65521 + 1))[:n]`.

use std::rc::Rc;

/// Length of the repeated block, in octets.
pub const PERIOD: u64 = 65_521;
/// Largest N.
pub const LIMIT: u64 = 1 << 30;

const FACTOR: u32 = 2_654_435_761;

/// One period.
pub(crate) fn block() -> Rc<[u8]> {
    (0..PERIOD as u32).map(|index| (index.wrapping_mul(FACTOR) >> 24) as u8).collect()
}

/// N, if the path is one of ours and N is written as it should be and within bounds.
pub(crate) fn length(path: &str) -> Option<u64> {
    let digits = path.strip_prefix("/bytes/")?;
    let canonical = digits == "0"
        || (digits.bytes().all(|digit| digit.is_ascii_digit()) && !digits.starts_with('0'));
    digits.parse().ok().filter(|&length| canonical && length <= LIMIT)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn block_follows_the_definition() {
        let block = block();
        assert_eq!(block.len(), 65_521);
        // By hand: 2654435761 = 0x9e3779b1; twice that, less 2^32, is 0x3c6ef362.
        assert_eq!(&block[..3], [0, 0x9e, 0x3c]);
        for index in 0..65_521u64 {
            assert_eq!(u64::from(block[index as usize]), ((index * 2_654_435_761) >> 24) & 0xff);
        }
    }

    #[test]
    fn lengths() {
        assert_eq!(length("/bytes/0"), Some(0));
        assert_eq!(length("/bytes/1073741824"), Some(1 << 30));
        for path in [
            "/bytes/",
            "/bytes/1073741825",
            "/bytes/01",
            "/bytes/-1",
            "/bytes/+1",
            "/bytes/1/",
            "/bytes",
            "/bytes/1e3",
        ] {
            assert_eq!(length(path), None, "{path}");
        }
    }
}

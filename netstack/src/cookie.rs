//! SYN cookies: a SYN answered without remembering it (Bernstein 1996; RFC 4987, 3.6).
//!
//! The initial sequence number of the SYN-ACK says, under a key, all that must be known when the
//! ACK comes back: when it was made (5 bits, of 64 s each) and the peer's segment size (3 bits). The other 24
//! bits prove that we made it: half of them for whom, the other half for which SYN of his. Window scale and SACK are
//! lost, which only bulk transfers feel.
//!
//! The peer's sequence number is that of its SYN in the first segment that acknowledges a cookie alone. When this one is
//! lost, those behind it still show for whom the cookie was, and need not be answered by a reset.

use crate::flow::FlowKey;
use crate::hash::Key;
use smoltcp::time::Instant;

/// Segment sizes a cookie can name: those that are common, rounded down to.
const SIZES: [u16; 8] = [48, 536, 1220, 1380, 1400, 1440, 1460, 8960];

/// A cookie is good in the period it was made in and the next: 64 to 128 seconds.
const PERIOD_SECONDS: i64 = 64;

fn period(now: Instant) -> u32 {
    (now.secs() / PERIOD_SECONDS) as u32
}

/// 12 bits that only this peer's cookies have.
fn proof(key: &Key, flow: u64, period: u32, size: u32) -> u32 {
    (key.hash([flow, u64::from(period) << 3 | u64::from(size)]) & 0xfff) as u32
}

/// 12 bits more, which only the answer to this SYN of it has.
fn answer(key: &Key, flow: u64, peer_isn: u32, period: u32, size: u32) -> u32 {
    let rest = u64::from(peer_isn) << 32 | u64::from(period) << 3 | u64::from(size);
    // The top bit keeps what is hashed here from ever being what is hashed there: periods do not get that far.
    (key.hash([flow, rest ^ 1 << 31]) & 0xfff) as u32
}

/// What a segment that acknowledges a cookie of ours is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Acknowledged {
    /// The first after the SYN, of a peer with this segment size.
    First(u16),
    /// One behind a first that did not arrive; the peer will send that again.
    Later,
}

/// The sequence number to answer a SYN with.
pub(crate) fn make(key: &Key, flow: &FlowKey, peer_isn: u32, segment: u16, now: Instant) -> u32 {
    let size = SIZES.iter().rposition(|&size| size <= segment).unwrap_or(0) as u32;
    let period = period(now);
    let flow = flow.digest(key);
    let parts = (proof(key, flow, period, size), answer(key, flow, peer_isn, period, size));
    (period & 31) << 27 | size << 24 | parts.0 << 12 | parts.1
}

/// What a cookie says, if it is one of ours and not too old. `peer_isn`: the one of the segment that
/// acknowledges it, if it is the first.
pub(crate) fn check(
    key: &Key,
    flow: &FlowKey,
    peer_isn: u32,
    cookie: u32,
    now: Instant,
) -> Option<Acknowledged> {
    let current = period(now);
    let age = current.wrapping_sub(cookie >> 27) & 31;
    if age > 1 {
        return None;
    }
    let flow = flow.digest(key);
    let size = cookie >> 24 & 7;
    let made = current.wrapping_sub(age);
    if cookie >> 12 & 0xfff != proof(key, flow, made, size) {
        return None;
    }
    Some(match cookie & 0xfff == answer(key, flow, peer_isn, made, size) {
        true => Acknowledged::First(SIZES[size as usize]),
        false => Acknowledged::Later,
    })
}

#[cfg(test)]
mod tests {
    use super::Acknowledged::{First, Later};
    use super::*;

    fn flow(port: u16) -> FlowKey {
        let (local, remote) = ("10.0.0.1".parse().unwrap(), "10.0.0.2".parse().unwrap());
        FlowKey::new(&Key::new([0; 16]), (local, 80), (remote, port))
    }

    #[test]
    fn good_for_its_flow_and_time_only() {
        let key = Key::new([9; 16]);
        for start in [0, 1000, 64 * 31 + 5] {
            let now = Instant::from_secs(start);
            let cookie = make(&key, &flow(5), 77, 1460, now);
            let later = |s| Instant::from_secs(start + s);
            assert_eq!(check(&key, &flow(5), 77, cookie, now), Some(First(1460)));
            assert_eq!(check(&key, &flow(5), 77, cookie, later(63)), Some(First(1460)));
            assert_eq!(check(&key, &flow(5), 77, cookie, later(128)), None);
            assert_eq!(check(&key, &flow(6), 77, cookie, now), None);
            assert_eq!(check(&key, &flow(5), 78, cookie, now), Some(Later));
            assert_eq!(check(&key, &flow(5), 77, cookie ^ 0x0100_0000, now), None);
            assert_eq!(check(&Key::new([8; 16]), &flow(5), 77, cookie, now), None);
        }
    }

    #[test]
    fn sizes_round_down() {
        let key = Key::new([9; 16]);
        let now = Instant::from_secs(0);
        for (offered, kept) in [(48, 48), (535, 48), (1459, 1440), (1460, 1460), (9000, 8960)] {
            let cookie = make(&key, &flow(5), 0, offered, now);
            assert_eq!(check(&key, &flow(5), 0, cookie, now), Some(First(kept)));
        }
    }
}

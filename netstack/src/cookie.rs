//! SYN cookies: a SYN answered without remembering it (Bernstein 1996; RFC 4987, 3.6).
//!
//! The initial sequence number of the SYN-ACK says, under a key, all that must be known when the
//! ACK comes back: when it was made (5 bits, of 64 s each) and the peer's segment size (3 bits). The other 24
//! bits prove that we made it. Window scale and SACK are lost, which only bulk transfers feel.

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

fn proof(key: &Key, flow: &FlowKey, peer_isn: u32, period: u32, size: u32) -> u32 {
    let hash = flow.digest(key);
    let rest = u64::from(peer_isn) << 32 | u64::from(period) << 3 | u64::from(size);
    (key.hash([hash, rest]) & 0x00ff_ffff) as u32
}

/// The sequence number to answer a SYN with.
pub(crate) fn make(key: &Key, flow: &FlowKey, peer_isn: u32, segment: u16, now: Instant) -> u32 {
    let size = SIZES.iter().rposition(|&size| size <= segment).unwrap_or(0) as u32;
    let period = period(now);
    (period & 31) << 27 | size << 24 | proof(key, flow, peer_isn, period, size)
}

/// The segment size in a cookie of ours, if it is one and not too old.
pub(crate) fn check(
    key: &Key,
    flow: &FlowKey,
    peer_isn: u32,
    cookie: u32,
    now: Instant,
) -> Option<u16> {
    let current = period(now);
    let age = current.wrapping_sub(cookie >> 27) & 31;
    if age > 1 {
        return None;
    }
    let size = cookie >> 24 & 7;
    let made = current.wrapping_sub(age);
    (cookie & 0x00ff_ffff == proof(key, flow, peer_isn, made, size)).then(|| SIZES[size as usize])
}

#[cfg(test)]
mod tests {
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
            assert_eq!(check(&key, &flow(5), 77, cookie, now), Some(1460));
            assert_eq!(check(&key, &flow(5), 77, cookie, later(63)), Some(1460));
            assert_eq!(check(&key, &flow(5), 77, cookie, later(128)), None);
            assert_eq!(check(&key, &flow(6), 77, cookie, now), None);
            assert_eq!(check(&key, &flow(5), 78, cookie, now), None);
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
            assert_eq!(check(&key, &flow(5), 0, cookie, now), Some(kept));
        }
    }
}

//! Putting fragments together again, before anything else looks at them.
//!
//! smoltcp's reassembly lives in the interface and holds one datagram; here there are several,
//! bounded in number and bytes, and overlaps are refused altogether (RFC 5722 demands it for IPv6, and
//! no honest sender overlaps in IPv4).

use alloc::vec::Vec;
use core::net::IpAddr;
use smoltcp::time::{Duration, Instant};

/// Datagrams in the making at most.
const CAPACITY: usize = 16;
/// Bytes of all of them at most.
const MAX_BYTES: usize = 256 << 10;
/// Linux's `ipfrag_time`.
const LIFETIME: Duration = Duration::from_secs(30);
/// Pieces of one datagram at most: of 64 KiB in the smallest IPv6 packets.
const MAX_PIECES: usize = 64;

/// What belongs together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Datagram {
    pub(crate) source: IpAddr,
    pub(crate) destination: IpAddr,
    pub(crate) id: u32,
    pub(crate) protocol: u8,
}

struct Unfinished {
    datagram: Datagram,
    ends: Instant,
    bytes: Vec<u8>,
    /// Ranges that are there, sorted, not overlapping.
    pieces: Vec<(usize, usize)>,
    total: Option<usize>,
    /// It had an overlap or a contradiction: later pieces are dropped too.
    spoiled: bool,
}

#[derive(Default)]
pub(crate) struct Reassembly {
    unfinished: Vec<Unfinished>,
}

impl Reassembly {
    /// Adds a piece that lies at `offset`; `more`: it is not the last. Gives the payload
    /// when that was the last one missing.
    pub(crate) fn add(
        &mut self,
        datagram: Datagram,
        offset: usize,
        more: bool,
        data: &[u8],
        now: Instant,
    ) -> Option<Vec<u8>> {
        let end = offset + data.len();
        if data.is_empty() || end > 0xffff || (more && !data.len().is_multiple_of(8)) {
            return None;
        }
        let at = match self.unfinished.iter().position(|other| other.datagram == datagram) {
            Some(at) => at,
            None => {
                if self.unfinished.len() >= CAPACITY {
                    // The oldest is the likeliest to have lost a piece.
                    self.unfinished.remove(0);
                }
                self.unfinished.push(Unfinished {
                    datagram,
                    ends: now + LIFETIME,
                    bytes: Vec::new(),
                    pieces: Vec::new(),
                    total: None,
                    spoiled: false,
                });
                self.unfinished.len() - 1
            }
        };
        let held: usize = self.unfinished.iter().map(|other| other.bytes.len()).sum();
        let entry = &mut self.unfinished[at];
        if entry.spoiled {
            return None;
        }
        if entry.pieces.contains(&(offset, end)) {
            // A duplicate is no overlap.
            return None;
        }
        let grown = end.saturating_sub(entry.bytes.len());
        let overlaps = entry.pieces.iter().any(|&(from, to)| offset < to && from < end);
        let contradicts = match entry.total {
            Some(total) => end > total || (!more && end != total),
            None => !more && entry.pieces.iter().any(|&(_, to)| to > end),
        };
        if overlaps || contradicts || entry.pieces.len() >= MAX_PIECES || held + grown > MAX_BYTES {
            entry.spoiled = true;
            entry.bytes = Vec::new();
            entry.pieces = Vec::new();
            return None;
        }
        if !more {
            entry.total = Some(end);
        }
        if entry.bytes.len() < end {
            entry.bytes.resize(end, 0);
        }
        entry.bytes[offset..end].copy_from_slice(data);
        entry.pieces.push((offset, end));
        let there: usize = entry.pieces.iter().map(|(from, to)| to - from).sum();
        (entry.total == Some(there)).then(|| self.unfinished.remove(at).bytes)
    }

    pub(crate) fn due(&self) -> Option<Instant> {
        self.unfinished.first().map(|entry| entry.ends)
    }

    /// Gives up on what is too old; returns how many.
    pub(crate) fn expire(&mut self, now: Instant) -> usize {
        let before = self.unfinished.len();
        self.unfinished.retain(|entry| entry.ends > now);
        before - self.unfinished.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn datagram(id: u32) -> Datagram {
        let (source, destination) = ("10.0.0.1".parse().unwrap(), "10.0.0.2".parse().unwrap());
        Datagram { source, destination, id, protocol: 17 }
    }

    const NOW: Instant = Instant::ZERO;

    #[test]
    fn any_order_and_mixed() {
        let whole: Vec<u8> = (0..100).collect();
        let pieces = [(0, 40), (40, 80), (80, 100)];
        for order in [[0, 1, 2], [2, 1, 0], [1, 2, 0], [0, 2, 1]] {
            let mut reassembly = Reassembly::default();
            let mut done = 0;
            for n in order {
                for id in [1, 2] {
                    let (from, to) = pieces[n];
                    let piece = &whole[from..to];
                    if let Some(bytes) = reassembly.add(datagram(id), from, to < 100, piece, NOW) {
                        assert_eq!(bytes, whole);
                        done += 1;
                    }
                }
            }
            assert_eq!(done, 2);
            assert_eq!(reassembly.due(), None);
        }
    }

    #[test]
    fn overlaps_and_contradictions_spoil_the_datagram() {
        let hostile: [&[(usize, usize, bool)]; 4] = [
            &[(0, 16, true), (8, 16, true), (16, 8, false)],
            &[(0, 16, true), (24, 8, false), (32, 8, true), (16, 8, true)],
            &[(16, 8, true), (8, 8, false), (0, 8, true)],
            &[(8, 8, false), (0, 24, true)],
        ];
        for pieces in hostile {
            let mut reassembly = Reassembly::default();
            for &(offset, len, more) in pieces {
                assert_eq!(reassembly.add(datagram(1), offset, more, &[0; 64][..len], NOW), None);
            }
        }
    }

    #[test]
    fn bounded_in_number_bytes_and_time() {
        let mut reassembly = Reassembly::default();
        for id in 0..100 {
            assert_eq!(reassembly.add(datagram(id), 65_528 - 8, true, &[1; 8], NOW), None);
        }
        assert!(reassembly.unfinished.len() <= CAPACITY);
        let held: usize = reassembly.unfinished.iter().map(|entry| entry.bytes.len()).sum();
        assert!(held <= MAX_BYTES, "{held}");
        assert_eq!(reassembly.expire(NOW + LIFETIME), CAPACITY);
        assert_eq!(reassembly.add(datagram(1), 65_528, false, &[0; 64], NOW), None, "beyond 65535");
        assert_eq!(reassembly.add(datagram(1), 0, true, &[0; 9], NOW), None, "not a multiple of 8");
    }
}

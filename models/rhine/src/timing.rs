//! How long transmission takes, and why checksums cost throughput on the VT6105M.
//!
//! Measured on a PC Engines ALIX 3C2 (W. Tarreau, 2007): a saturated 100 Mbit/s line carries about 99
//! Mbit/s at MTU 1500 without checksum bits, about 91 with any of them, and about 98 at MTU 1000 with
//! them. His explanation: a 2 KiB transmit buffer, the sum made inside it, no pipelining. As a model:
//!
//! - without checksums the next frame is fetched while the last one leaves;
//! - a frame to be summed must lie in the buffer whole, and its fetch starts only when it fits
//!   beside the frames that have not left yet. Two frames of 1014 bytes fit in 2048, two of 1514 do
//!   not: then fetch and line take turns, and 1514 bytes over 32-bit, 33 MHz PCI take 11.5 µs.
//!
//! Unverified on silicon beyond these three figures.

/// Bytes of transmit buffer.
const BUFFER: usize = 2048;
/// Picoseconds a byte takes over 32-bit, 33 MHz PCI, without wait states.
const PCI_PS: u64 = 30_303 / 4;
/// Preamble and start delimiter, bytes.
const PREAMBLE: u64 = 8;
/// FCS and inter-frame gap, bytes.
const AFTER: u64 = 4 + 12;

/// The transmitter's clockwork; times in picoseconds since some origin.
#[derive(Clone, Debug, Default)]
pub struct Timing {
    /// When the line is free for the next preamble.
    line_free: u64,
    /// When the PCI fetch of the last frame ended.
    fetched: u64,
    /// Frames in the buffer, the oldest first: when each has left it, and bytes.
    inside: std::collections::VecDeque<(u64, usize)>,
}

/// When things happen to one frame, in picoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FrameTiming {
    /// Its fetch begins.
    pub fetch: u64,
    /// Its last bit is on the line, FCS and gap not counted.
    pub left: u64,
    /// The line may carry the next preamble.
    pub line_free: u64,
}

impl Timing {
    /// Sends a frame of `len` bytes (FCS not counted) that is ready at `now`. `checksum`: it has to
    /// be summed. `fast`: 100 rather than 10 Mbit/s. `threshold`: bytes fetched before it may start.
    pub fn frame(
        &mut self,
        now: u64,
        len: usize,
        checksum: bool,
        fast: bool,
        threshold: usize,
    ) -> FrameTiming {
        let line_ps: u64 = if fast { 80_000 } else { 800_000 };
        let mut fetch = now.max(self.fetched);
        while self.inside.front().is_some_and(|&(left, _)| left <= fetch) {
            self.inside.pop_front();
        }
        // Summed frames wait for room for all of them; others stream through as room appears, which
        // the line outruns only if it is slower than PCI, so one frame in flight is room enough.
        let room = |inside: &std::collections::VecDeque<(u64, usize)>| match checksum {
            true => inside.iter().map(|&(_, len)| len).sum::<usize>() + len <= BUFFER,
            false => inside.len() <= 1,
        };
        while !room(&self.inside) {
            match self.inside.pop_front() {
                Some((left, _)) => fetch = fetch.max(left),
                None => break,
            }
        }
        self.fetched = fetch + len as u64 * PCI_PS;
        let before_start = if checksum { len } else { len.min(threshold) };
        let start = self.line_free.max(fetch + before_start as u64 * PCI_PS);
        let left = start + (PREAMBLE + len as u64) * line_ps;
        self.line_free = left + AFTER * line_ps;
        self.inside.push_back((left, len));
        FrameTiming { fetch, left, line_free: self.line_free }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Rate of frames with their FCS on a saturated line, in Mbit/s.
    fn rate(mtu: usize, checksum: bool) -> f64 {
        let len = mtu + 14;
        let mut timing = Timing::default();
        for _ in 0..100 {
            timing.frame(0, len, checksum, true, 256);
        }
        let start = timing.line_free;
        for _ in 0..1000 {
            timing.frame(0, len, checksum, true, 256);
        }
        let seconds = (timing.line_free - start) as f64 * 1e-12;
        1000.0 * (len + 4) as f64 * 8.0 / seconds / 1e6
    }

    #[test]
    fn published_rates_are_reproduced() {
        assert!((rate(1500, false) - 99.0).abs() < 0.5, "{}", rate(1500, false));
        assert!((rate(1500, true) - 91.0).abs() < 0.5, "{}", rate(1500, true));
        assert!((rate(1000, true) - 98.0).abs() < 0.5, "{}", rate(1000, true));
    }

    #[test]
    fn the_readme_s_table_is_what_comes_out() {
        // MTU; checksums off, on, and for frames up to MTU 1000.
        for (mtu, off, on, auto) in
            [(576, 96.7, 96.7, 96.7), (1000, 98.1, 98.1, 98.1), (1500, 98.7, 91.2, 98.7)]
        {
            let rates = [rate(mtu, false), rate(mtu, true), rate(mtu, mtu <= 1000)];
            for (rate, wanted) in rates.into_iter().zip([off, on, auto]) {
                assert!((rate - wanted).abs() < 0.05, "MTU {mtu}: {rate}, not {wanted}");
            }
        }
    }

    #[test]
    fn below_a_thousand_bytes_checksums_are_free() {
        for mtu in (100..=1000).step_by(50) {
            assert!((rate(mtu, true) - rate(mtu, false)).abs() < 0.01, "{mtu}");
        }
        assert!(rate(1100, false) - rate(1100, true) > 5.0);
    }
}

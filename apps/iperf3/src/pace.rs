//! A sender's rate.

use std::time::{Duration, Instant};

/// Says when the next block may leave so that the average since the beginning keeps to a rate.
pub(crate) struct Pace {
    /// Bits a second; 0: no limit.
    rate: u64,
    /// Blocks that leave together.
    burst: u32,
    /// Blocks of the burst still to leave.
    left: u32,
    /// Waits are no shorter than this: many short ones would cost more than they smooth.
    quantum: Duration,
    start: Instant,
    octets: u64,
}

impl Pace {
    pub(crate) fn new(rate: u64, burst: u32, quantum: Duration, start: Instant) -> Pace {
        Pace { rate, burst, left: 0, quantum, start, octets: 0 }
    }

    /// Begins anew.
    pub(crate) fn restart(&mut self, now: Instant) {
        (self.start, self.octets, self.left) = (now, 0, 0);
    }

    /// How long to wait from `now` on before the next block; `None`: it may go.
    pub(crate) fn wait(&mut self, now: Instant) -> Option<Duration> {
        if self.rate == 0 || self.left > 0 {
            return None;
        }
        let due_us = u128::from(self.octets) * 8 * 1_000_000 / u128::from(self.rate);
        let passed_us = now.saturating_duration_since(self.start).as_micros();
        if due_us <= passed_us {
            self.left = self.burst;
            return None;
        }
        let wait = Duration::from_micros(u64::try_from(due_us - passed_us).unwrap_or(u64::MAX));
        Some(wait.max(self.quantum))
    }

    /// So much has left, and it completed a block or didn't.
    #[inline]
    pub(crate) fn sent(&mut self, octets: usize, is_block: bool) {
        self.octets += octets as u64;
        if is_block {
            self.left = self.left.saturating_sub(1);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    #[test]
    fn the_average_keeps_to_the_rate() {
        let start = Instant::now();
        let mut pace = Pace::new(8_000_000, 0, MS, start);
        let mut sent = 0;
        for ms in 0..1000 {
            while pace.wait(start + ms * MS).is_none() {
                pace.sent(100, true);
                sent += 100;
            }
        }
        // A megaoctet a second, and a block for the beginning.
        assert_eq!(sent, 999_100);
        assert_eq!(pace.wait(start + 999 * MS), Some(MS));
    }

    #[test]
    fn bursts_leave_together() {
        let start = Instant::now();
        let mut pace = Pace::new(8_000, 10, MS, start);
        let mut burst = 0;
        while pace.wait(start).is_none() {
            pace.sent(100, true);
            burst += 1;
        }
        assert_eq!(burst, 10);
        assert_eq!(pace.wait(start), Some(1000 * MS));
    }
}

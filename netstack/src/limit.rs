use smoltcp::time::Instant;

/// A token bucket: how often something may be done for strangers.
pub(crate) struct Limit {
    per_second: u32,
    burst: u32,
    tokens: u32,
    last: Instant,
}

impl Limit {
    /// `per_second` on average and `burst` at once.
    pub(crate) fn new(per_second: u32, burst: u32, now: Instant) -> Limit {
        Limit { per_second, burst, tokens: burst, last: now }
    }

    /// Takes a token, if there is one.
    pub(crate) fn allow(&mut self, now: Instant) -> bool {
        if self.tokens == 0 {
            let elapsed = now.total_micros().saturating_sub(self.last.total_micros()).max(0) as u64;
            let earned = elapsed.saturating_mul(u64::from(self.per_second)) / 1_000_000;
            if earned == 0 {
                return false;
            }
            self.tokens = earned.min(u64::from(self.burst)) as u32;
        }
        if self.tokens == self.burst {
            self.last = now;
        }
        self.tokens -= 1;
        if self.tokens == 0 {
            self.last = now;
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_burst_and_then_the_rate() {
        let mut limit = Limit::new(10, 5, Instant::from_secs(0));
        let mut allowed = |ms| limit.allow(Instant::from_millis(ms));
        assert_eq!((0..9).filter(|_| allowed(0)).count(), 5);
        assert!(!allowed(99));
        assert!(allowed(100));
        assert!(!allowed(150));
        assert!(allowed(200));
        assert_eq!((0..9).filter(|_| allowed(60_000)).count(), 5);
    }
}

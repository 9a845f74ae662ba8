//! Deadlines of many slots, at a cost that does not grow with them.
//!
//! A deadline is an ordinary number that its owner moves as it likes; the wheel only promises to name each slot once its
//! deadline may have passed. So keeping a busy connection's deadline ahead costs a store, not a queue operation.

/// Number of ticks that the wheel looks ahead. A later deadline is looked at on the way.
const SPAN: u64 = 64;

/// Slots to look at, by tick.
pub(crate) struct Wheel {
    buckets: [Vec<u32>; SPAN as usize],
    /// A bit for each bucket that isn't empty.
    occupied: u64,
    /// All earlier ticks have been looked at.
    now: u64,
}

impl Wheel {
    pub(crate) fn new() -> Self {
        Self { buckets: [const { Vec::new() }; SPAN as usize], occupied: 0, now: 0 }
    }

    /// Will name `slot` at `deadline`, or on the way to it. Returns the tick at which.
    pub(crate) fn schedule(&mut self, slot: u32, deadline: u64) -> u64 {
        let tick = deadline.clamp(self.now + 1, self.now + SPAN - 1);
        let bucket = (tick % SPAN) as usize;
        self.buckets[bucket].push(slot);
        self.occupied |= 1 << bucket;
        tick
    }

    /// The tick at which a slot has to be looked at next.
    pub(crate) fn next(&self) -> Option<u64> {
        if self.occupied == 0 {
            return None;
        }
        let ahead = self.occupied.rotate_right(((self.now + 1) % SPAN) as u32).trailing_zeros();
        Some(self.now + 1 + u64::from(ahead))
    }

    /// Moves on to `now` and appends the slots scheduled up to it, with the tick they were scheduled for.
    pub(crate) fn advance(&mut self, now: u64, due: &mut Vec<(u32, u64)>) {
        while let Some(tick) = self.next().filter(|&tick| tick <= now) {
            let bucket = (tick % SPAN) as usize;
            due.extend(self.buckets[bucket].drain(..).map(|slot| (slot, tick)));
            self.occupied &= !(1 << bucket);
            self.now = tick;
        }
        self.now = self.now.max(now);
    }

    /// The slots in the order in which they will be named.
    pub(crate) fn upcoming(&self) -> impl Iterator<Item = u32> + '_ {
        (1..SPAN)
            .flat_map(|ahead| self.buckets[((self.now + ahead) % SPAN) as usize].iter().copied())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_are_named_in_time() {
        let mut wheel = Wheel::new();
        assert_eq!(wheel.next(), None);
        assert_eq!(wheel.schedule(1, 10), 10);
        assert_eq!(wheel.schedule(2, 5), 5);
        assert_eq!(wheel.schedule(3, 1000), 63);
        assert_eq!(wheel.upcoming().collect::<Vec<_>>(), [2, 1, 3]);
        assert_eq!(wheel.next(), Some(5));
        let mut due = Vec::new();
        wheel.advance(4, &mut due);
        assert_eq!(due, []);
        wheel.advance(10, &mut due);
        assert_eq!(due, [(2, 5), (1, 10)]);
        assert_eq!(wheel.next(), Some(63));
        // The past is named at once.
        assert_eq!(wheel.schedule(4, 3), 11);
        due.clear();
        wheel.advance(500, &mut due);
        assert_eq!(due, [(4, 11), (3, 63)]);
        assert_eq!(wheel.schedule(3, 1000), 563);
        assert_eq!(wheel.next(), Some(563));
    }
}

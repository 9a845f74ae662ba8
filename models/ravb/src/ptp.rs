//! The gPTP timer, its capture and compare, and the FIFO of transmit timestamps. (sheet 2.6, 3.8)

use std::collections::VecDeque;
use std::time::Duration;

/// Entries of the timestamp FIFO: what TSR.TFFL's three bits can count; the true depth is not known.
const DEPTH: usize = 7;
/// Seconds have 48 bits.
const WRAP: u128 = (1 << 48) * 1_000_000_000;
/// Presentation time has 32 bits of nanoseconds.
const WRAP_32: u128 = 1 << 32;

/// A transmitted frame's tag and time.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Stamp {
    pub(crate) tag: u16,
    pub(crate) at: Time,
}

/// A time as registers and descriptors hold it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Time {
    pub(crate) nanoseconds: u32,
    /// 48 bits.
    pub(crate) seconds: u64,
}

impl Time {
    fn from_total(total: u128) -> Time {
        let seconds = (total / 1_000_000_000) as u64 & ((1 << 48) - 1);
        Time { nanoseconds: (total % 1_000_000_000) as u32, seconds }
    }

    /// The 32-bit words: nanoseconds, seconds low, seconds high.
    pub(crate) fn words(self) -> [u32; 3] {
        [self.nanoseconds, self.seconds as u32, (self.seconds >> 32) as u32]
    }
}

/// The timer.
#[derive(Clone, Debug, Default)]
pub(crate) struct Timer {
    /// What counts: clocks per second, 0 while it stands.
    clock: u64,
    /// Raw time in 2^-20 ns at `since`.
    raw: u128,
    since: Duration,
    /// GTI as loaded, in 2^-20 ns per clock.
    increment: u32,
    /// GTO as loaded, in ns.
    offset: u128,
    /// When the compare value is met.
    meets: Option<Duration>,
    compare: u32,
}

impl Timer {
    pub(crate) fn new() -> Timer {
        Timer { increment: 1, ..Timer::default() }
    }

    pub(crate) fn runs(&self) -> bool {
        self.clock != 0
    }

    fn raw_at(&self, now: Duration) -> u128 {
        let elapsed = now.saturating_sub(self.since).as_nanos();
        let clocks = elapsed * u128::from(self.clock) / 1_000_000_000;
        self.raw + clocks * u128::from(self.increment)
    }

    fn catch_up(&mut self, now: Duration) {
        self.raw = self.raw_at(now) % (WRAP << 20);
        self.since = now;
    }

    /// What it counts from here on; 0 stops it.
    pub(crate) fn set_clock(&mut self, clock: u64, now: Duration) {
        if clock != self.clock {
            self.catch_up(now);
            self.clock = clock;
            self.meets = None;
        }
    }

    /// GCCR.TCR = 1.
    pub(crate) fn reset(&mut self, now: Duration) {
        (self.raw, self.since, self.offset) = (0, now, 0);
        self.schedule(now);
    }

    /// GCCR.LTI.
    pub(crate) fn load_increment(&mut self, increment: u32, now: Duration) {
        self.catch_up(now);
        self.increment = increment;
        self.schedule(now);
    }

    /// GCCR.LTO, from GTO0 to GTO2.
    pub(crate) fn load_offset(&mut self, words: [u32; 3], now: Duration) {
        let seconds = u128::from(words[1]) | u128::from(words[2] & 0xffff) << 32;
        self.offset = seconds * 1_000_000_000 + u128::from(words[0]);
        self.schedule(now);
    }

    fn corrected(&self, now: Duration) -> u128 {
        ((self.raw_at(now) >> 20) + self.offset) % WRAP
    }

    /// The time frames are stamped with.
    pub(crate) fn time(&self, now: Duration) -> Time {
        Time::from_total(self.corrected(now))
    }

    /// What a capture gives, by GCCR.TCSS: raw, corrected, or presentation time.
    pub(crate) fn capture(&self, source: u32, now: Duration) -> Time {
        match source {
            0 => Time::from_total((self.raw_at(now) >> 20) % WRAP),
            1 => self.time(now),
            _ => Time { nanoseconds: (self.corrected(now) % WRAP_32) as u32, seconds: 0 },
        }
    }

    /// Presentation time, as GCPT captures it.
    pub(crate) fn presentation(&self, now: Duration) -> u32 {
        (self.corrected(now) % WRAP_32) as u32
    }

    /// GCCR.LPTC.
    pub(crate) fn load_compare(&mut self, compare: u32, now: Duration) {
        self.compare = compare;
        self.meets = Some(now);
        self.schedule(now);
    }

    /// Finds out when the compare value is met, if one is loaded.
    fn schedule(&mut self, now: Duration) {
        if self.meets.take().is_none() || self.clock == 0 {
            return;
        }
        // Near the wrap a match may be missed: it is. (sheet 6.6, 51)
        let guard = (self.increment >> 20) + 1;
        if self.compare < guard || self.compare > u32::MAX - guard {
            return;
        }
        let ahead = u128::from(self.compare.wrapping_sub(self.presentation(now)));
        let ahead = if ahead == 0 { WRAP_32 } else { ahead };
        let per_second = u128::from(self.increment.max(1)) * u128::from(self.clock);
        let nanoseconds = (ahead << 20) * 1_000_000_000 / per_second + 1;
        self.meets =
            u64::try_from(nanoseconds).ok().and_then(|n| now.checked_add(Duration::from_nanos(n)));
    }

    /// When to look at the compare value.
    pub(crate) fn next_match(&self) -> Option<Duration> {
        self.meets
    }

    /// True if the compare value was met; the next is one wrap later.
    pub(crate) fn matched(&mut self, now: Duration) -> bool {
        let met = self.meets.is_some_and(|at| at <= now);
        if met {
            self.schedule(now);
        }
        met
    }
}

/// The FIFO of transmit timestamps.
#[derive(Clone, Debug, Default)]
pub(crate) struct Stamps(VecDeque<Stamp>);

impl Stamps {
    /// False if it was full: then the oldest is lost. (sheet 3.6)
    pub(crate) fn push(&mut self, stamp: Stamp) -> bool {
        let fits = self.0.len() < DEPTH;
        if !fits {
            self.0.pop_front();
        }
        self.0.push_back(stamp);
        fits
    }

    pub(crate) fn release(&mut self) {
        self.0.pop_front();
    }

    pub(crate) fn clear(&mut self) {
        self.0.clear();
    }

    pub(crate) fn level(&self) -> u32 {
        self.0.len() as u32
    }

    /// TFA0 to TFA2 of the oldest.
    pub(crate) fn oldest(&self) -> [u32; 3] {
        let Some(stamp) = self.0.front() else { return [0; 3] };
        let [nanoseconds, low, high] = stamp.at.words();
        [nanoseconds, low, high & 0xffff | u32::from(stamp.tag) << 16]
    }
}

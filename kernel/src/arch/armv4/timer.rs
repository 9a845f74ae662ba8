//! The timer: one counter that runs free and is the clock, and a deadline.
//!
//! The counters have 32 bits. Here they get 64, by noticing that they wrapped, so the clock has to be read at least once
//! each time round: the timer is always armed, for half of a round at most. Both are reached from interrupts, so they are
//! plain words, changed with interrupts masked.
//!
//! Sources: [SP804] Arm DDI 0271D, 3; [FTTMR010] docs/hardware/gemini.md 1.8; [GEMINI] the same, 1.6. FTTMR010 on a host
//! model only, unverified on silicon.

use core::fmt;
use core::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering};

use super::mmio::{read32, write32};
use super::{interrupts, mmu};
use crate::arch::MapError;
use crate::fdt::armv4::{Rate, Timer, TimerKind};

/// Two counters, which count down: the first is the deadline's, the second the clock. [SP804 3.2]
mod sp804 {
    pub(super) const LOAD: usize = 0x00;
    pub(super) const CONTROL: usize = 0x08;
    pub(super) const CLEAR: usize = 0x0c;
    pub(super) const CLOCK_LOAD: usize = 0x20;
    pub(super) const CLOCK_VALUE: usize = 0x24;
    pub(super) const CLOCK_CONTROL: usize = 0x28;
    /// 32 bits, free-running.
    pub(super) const FREE: u32 = ENABLE | 1 << 1;
    /// 32 bits, once, with an interrupt.
    pub(super) const ONCE: u32 = ENABLE | 1 << 5 | 1 << 1 | 1 << 0;
    const ENABLE: u32 = 1 << 7;
}

/// The first counter, counting up, is the clock; what it is compared with is the deadline. That is how Linux uses it, on
/// silicon. [FTTMR010]
mod fttmr010 {
    pub(super) const COUNT: usize = 0x00;
    pub(super) const LOAD: usize = 0x04;
    pub(super) const MATCH1: usize = 0x08;
    pub(super) const MATCH2: usize = 0x0c;
    pub(super) const CONTROL: usize = 0x30;
    pub(super) const STATE: usize = 0x34;
    pub(super) const MASK: usize = 0x38;
    /// Timer 1: enabled, clocked by the bus, counting up; overflow does not interrupt.
    pub(super) const UP: u32 = 1 << 0 | 1 << 9;
    /// What Linux leaves in the mask, whose polarity the sources disagree about.
    pub(super) const ONLY_MATCH1: u32 = 0x1f9;
}

/// STATUS of the global block: the speed of the bus. [GEMINI]
mod gemini {
    pub(super) const STATUS: usize = 0x04;
    /// The timer's clock in hertz, by STATUS: a sixth of the AHB's.
    pub(super) fn rate(status: u32) -> u32 {
        (130 + 10 * (status >> 15 & 7)) * 1_000_000 / 6
    }
}

static BASE: AtomicUsize = AtomicUsize::new(0);
static FARADAY: AtomicBool = AtomicBool::new(false);
static LINE: AtomicU32 = AtomicU32::new(u32::MAX);
/// Counts per second.
static RATE: AtomicU32 = AtomicU32::new(1);
/// The counter when it was last read, and how often it had wrapped until then.
static LAST: AtomicU32 = AtomicU32::new(0);
static WRAPS: AtomicU32 = AtomicU32::new(0);

/// The longest that is waited for at a time, in counts.
const LONGEST: u64 = 1 << 31;
/// The shortest: the counter must not have passed before the deadline is written.
const SHORTEST: u64 = 16;

/// Why the timer cannot be used.
#[derive(Clone, Copy, Debug)]
pub(super) enum TimerError {
    /// Its registers cannot be mapped.
    Map(MapError),
    /// It has an interrupt that does not exist.
    NoLine,
}

impl fmt::Display for TimerError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            TimerError::Map(why) => write!(f, "registers cannot be mapped: {why}"),
            TimerError::NoLine => f.write_str("no such interrupt line"),
        }
    }
}

impl From<MapError> for TimerError {
    fn from(why: MapError) -> TimerError {
        TimerError::Map(why)
    }
}

/// Starts the clock and enables the timer's interrupt.
pub(super) fn init(timer: &Timer) -> Result<(), TimerError> {
    let line = timer.interrupt.line;
    if line as usize >= interrupts::LINES {
        return Err(TimerError::NoLine);
    }
    let base = timer.registers.start as usize;
    mmu::map_device(timer.registers.start, (timer.registers.end - timer.registers.start) as usize)?;
    let rate = match &timer.rate {
        Rate::Hertz(rate) => *rate,
        Rate::Gemini(system) => {
            mmu::map_device(system.start, (system.end - system.start) as usize)?;
            gemini::rate(read32(system.start as usize, gemini::STATUS))
        }
    };
    match timer.kind {
        TimerKind::Sp804 => {
            write32(base, sp804::CONTROL, 0);
            write32(base, sp804::CLEAR, 1);
            write32(base, sp804::CLOCK_CONTROL, 0);
            write32(base, sp804::CLOCK_LOAD, !0);
            write32(base, sp804::CLOCK_CONTROL, sp804::FREE);
        }
        TimerKind::Fttmr010 => {
            write32(base, fttmr010::CONTROL, 0);
            write32(base, fttmr010::STATE, 0);
            write32(base, fttmr010::MASK, fttmr010::ONLY_MATCH1);
            write32(base, fttmr010::LOAD, 0);
            write32(base, fttmr010::COUNT, 0);
            write32(base, fttmr010::MATCH1, LONGEST as u32);
            write32(base, fttmr010::MATCH2, !0);
            write32(base, fttmr010::CONTROL, fttmr010::UP);
        }
    }
    RATE.store(rate.max(1), Ordering::Relaxed);
    BASE.store(base, Ordering::Relaxed);
    FARADAY.store(timer.kind == TimerKind::Fttmr010, Ordering::Relaxed);
    LAST.store(0, Ordering::Relaxed);
    WRAPS.store(0, Ordering::Relaxed);
    LINE.store(line, Ordering::Relaxed);
    interrupts::irq_enable(line, timer.interrupt.sense.into());
    set_timer(None);
    Ok(())
}

/// The clock's counts so far. Call with interrupts masked.
fn counts() -> u64 {
    let base = BASE.load(Ordering::Relaxed);
    if base == 0 {
        return 0; // before there is a timer
    }
    let now = if FARADAY.load(Ordering::Relaxed) {
        read32(base, fttmr010::COUNT)
    } else {
        !read32(base, sp804::CLOCK_VALUE)
    };
    let mut wraps = WRAPS.load(Ordering::Relaxed);
    if now < LAST.load(Ordering::Relaxed) {
        wraps = wraps.wrapping_add(1);
        WRAPS.store(wraps, Ordering::Relaxed);
    }
    LAST.store(now, Ordering::Relaxed);
    u64::from(wraps) << 32 | u64::from(now)
}

fn counts_masked() -> u64 {
    let enabled = super::interrupts_disable();
    let counts = counts();
    super::interrupts_restore(enabled);
    counts
}

/// Nanoseconds since the clock was started.
pub fn monotonic_ns() -> u64 {
    let rate = u64::from(RATE.load(Ordering::Relaxed));
    let counts = counts_masked();
    if rate == 1_000_000 {
        return counts * 1000; // QEMU's, for which there is no need to divide
    }
    counts / rate * 1_000_000_000 + counts % rate * 1_000_000_000 / rate
}

/// The first count that is not before a time.
fn count_at(ns: u64) -> u64 {
    let rate = u64::from(RATE.load(Ordering::Relaxed));
    let (seconds, rest) = (ns / 1_000_000_000, ns % 1_000_000_000);
    seconds.saturating_mul(rate).saturating_add((rest * rate).div_ceil(1_000_000_000))
}

/// Arms the one-shot timer for a [`monotonic_ns`] time, or as late as it can be. It may fire early.
pub fn set_timer(deadline_ns: Option<u64>) {
    let deadline = deadline_ns.map_or(u64::MAX, count_at);
    let base = BASE.load(Ordering::Relaxed);
    let enabled = super::interrupts_disable();
    let now = counts();
    let wait = deadline.saturating_sub(now).clamp(SHORTEST, LONGEST);
    if FARADAY.load(Ordering::Relaxed) {
        write32(base, fttmr010::MATCH1, now.wrapping_add(wait) as u32);
    } else {
        write32(base, sp804::CONTROL, 0);
        write32(base, sp804::LOAD, wait as u32);
        write32(base, sp804::CONTROL, sp804::ONCE);
    }
    super::interrupts_restore(enabled);
}

/// If `line` is the timer's: silences it.
pub(super) fn handle(line: u32) -> bool {
    if line != LINE.load(Ordering::Relaxed) {
        return false;
    }
    let base = BASE.load(Ordering::Relaxed);
    if FARADAY.load(Ordering::Relaxed) {
        write32(base, fttmr010::STATE, 0);
    } else {
        write32(base, sp804::CLEAR, 1);
    }
    // Until the kernel asks for something sooner: the clock must not wrap unseen.
    set_timer(None);
    true
}

#[cfg(test)]
mod tests;

//! Clocks: the monotonic one is the architecture's, the wall clock an offset to it.

use core::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use crate::arch;

/// Wall clock minus monotonic clock, in nanoseconds. Nanoseconds since 1970 fit until 2262.
static WALL_OFFSET: Offset = Offset([AtomicU32::new(0), AtomicU32::new(0)]);

/// A number in two halves, as there are processors that have no larger atomic ones. Reached from interrupts, so with these
/// masked.
struct Offset([AtomicU32; 2]);

impl Offset {
    fn load(&self) -> i64 {
        let enabled = arch::interrupts_disable();
        let [low, high] = [&self.0[0], &self.0[1]].map(|half| half.load(Ordering::Relaxed));
        arch::interrupts_restore(enabled);
        i64::from(high.cast_signed()) << 32 | i64::from(low)
    }

    fn store(&self, offset: i64) {
        let enabled = arch::interrupts_disable();
        self.0[0].store(offset as u32, Ordering::Relaxed);
        self.0[1].store((offset >> 32) as u32, Ordering::Relaxed);
        arch::interrupts_restore(enabled);
    }
}

/// Somebody has told the time: the battery clock or an NTP server.
static WALL_KNOWN: AtomicBool = AtomicBool::new(false);

/// Nanoseconds since boot.
#[inline]
pub fn monotonic_ns() -> u64 {
    arch::monotonic_ns()
}

/// Nanoseconds since 1970-01-01 UTC. Counts from there at boot if the machine has no clock.
pub fn wall_ns() -> u64 {
    (monotonic_ns() as i64).saturating_add(WALL_OFFSET.load()).max(0) as u64
}

/// Sets the wall clock, in nanoseconds since 1970-01-01 UTC.
pub fn set_wall_ns(now: u64) {
    let offset = (now as i64).saturating_sub(monotonic_ns() as i64);
    WALL_OFFSET.store(offset);
    WALL_KNOWN.store(true, Ordering::Relaxed);
}

/// What the wall clock showed at a monotonic time; `None` if nobody has told the time so far.
pub fn wall_at(monotonic_ns: u64) -> Option<u64> {
    let offset = WALL_OFFSET.load();
    let then = (monotonic_ns as i64).saturating_add(offset).max(0) as u64;
    WALL_KNOWN.load(Ordering::Relaxed).then_some(then)
}

/// Takes the time from the machine's battery clock, if it has one.
pub fn initialize() {
    match arch::wall_clock_ns() {
        Some(now) => set_wall_ns(now),
        None => log::info!("clock: no battery clock: counting from 1970 until NTP answers"),
    }
}

/// The monotonic time a relative wait of `duration_ns` ends.
pub fn deadline_after(duration_ns: u64) -> u64 {
    monotonic_ns().saturating_add(duration_ns)
}

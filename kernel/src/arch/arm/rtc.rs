//! The battery clock: a PL031, read once. [PL031] Arm DDI 0224C: RTCDR at 0 counts UNIX seconds.

use core::ops::Range;
use core::sync::atomic::{AtomicU32, Ordering};

use super::mmio::read32;
use super::{mmu, timer};

/// UNIX time in seconds when [`timer::monotonic_ns`] was 0; 0: no clock.
static BOOTED: AtomicU32 = AtomicU32::new(0);

/// Reads the clock. One that says 1970 has lost its battery and is not believed.
pub(super) fn init(registers: &Range<u64>) {
    let Ok(base) = mmu::map_device(registers.start, (registers.end - registers.start) as usize)
    else {
        return;
    };
    let seconds = read32(base.as_ptr() as usize, 0);
    if seconds > 365 * 86_400 {
        // The clock knows no more than seconds, and this one has just begun.
        BOOTED.store(seconds, Ordering::Relaxed);
    }
}

/// UNIX time in nanoseconds, to the second.
pub fn wall_clock_ns() -> Option<u64> {
    match BOOTED.load(Ordering::Relaxed) {
        0 => None,
        booted => Some(u64::from(booted) * 1_000_000_000 + timer::monotonic_ns()),
    }
}

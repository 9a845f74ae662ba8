//! The battery clock: a PL031, read once. [PL031] Arm DDI 0224C: RTCDR at 0 counts UNIX seconds.

use core::ops::Range;
use core::sync::atomic::{AtomicU64, Ordering};

use super::mmio::read32;
use super::{mmu, timer};

/// UNIX time in nanoseconds when [`timer::monotonic_ns`] was 0; 0: no clock.
static BOOTED: AtomicU64 = AtomicU64::new(0);

/// Reads the clock. One that says 1970 has lost its battery and is not believed.
pub(super) fn init(registers: &Range<u64>) {
    let Ok(base) = mmu::map_device(registers.start, (registers.end - registers.start) as usize)
    else {
        return;
    };
    let seconds = u64::from(read32(base.as_ptr() as usize, 0));
    if seconds > 365 * 86_400 {
        BOOTED.store(seconds * 1_000_000_000 - timer::monotonic_ns(), Ordering::Relaxed);
    }
}

/// UNIX time in nanoseconds, to the second.
pub fn wall_clock_ns() -> Option<u64> {
    match BOOTED.load(Ordering::Relaxed) {
        0 => None,
        booted => Some(booted + timer::monotonic_ns()),
    }
}

//! Data cache maintenance, for devices whose DMA does not see the caches.

use core::arch::asm;
use core::sync::atomic::{AtomicUsize, Ordering};

/// The smallest data cache line of this machine, in bytes.
static LINE: AtomicUsize = AtomicUsize::new(CACHE_LINE);

/// What DMA buffers are aligned to: the largest line of the cores this runs on (all have 64), so
/// that no line holds a buffer and something else.
pub const CACHE_LINE: usize = 64;

/// Asks the processor for its line.
pub(super) fn init() {
    let ctr: usize;
    // SAFETY: a read of CTR_EL0. Its DminLine, bits 19:16, is a power of four-byte words.
    unsafe { asm!("mrs {}, ctr_el0", out(reg) ctr, options(nomem, nostack)) };
    LINE.store(4 << (ctr >> 16 & 15), Ordering::Relaxed);
}

/// Writes dirty lines of a range back, so that a device sees what the CPU wrote.
pub fn clean_cache(start: *const u8, len: usize) {
    // SAFETY: has no effect on what the CPU sees.
    each_line(start, len, |line| unsafe { asm!("dc cvac, {}", in(reg) line, options(nostack)) });
}

/// Drops the lines of a range, so that the CPU sees what a device wrote. Lines that the range shares
/// with something else are written back first.
pub fn invalidate_cache(start: *const u8, len: usize) {
    // SAFETY: "clean and invalidate" loses nothing the CPU wrote; a device's data is not overwritten
    // by it as long as nothing in the range is dirty, which the caller's hand-over guarantees.
    each_line(start, len, |line| unsafe { asm!("dc civac, {}", in(reg) line, options(nostack)) });
}

fn each_line(start: *const u8, len: usize, operation: impl Fn(usize)) {
    let line = LINE.load(Ordering::Relaxed);
    let start = start as usize;
    let mut at = start / line * line;
    while at < start + len {
        operation(at);
        at += line;
    }
    // SAFETY: a barrier: the maintenance is complete before anything after it, a doorbell for one.
    unsafe { asm!("dsb sy", options(nostack)) };
}

//! The generic timer: the virtual one, which every hypervisor and every boot loader leaves to EL1.
//!
//! [ARM] D12: CNTVCT counts at CNTFRQ, a fixed rate; CNTV_CVAL raises the interrupt once it is passed.

use core::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use aarch64_cpu::asm::barrier;
use aarch64_cpu::registers::{
    CNTFRQ_EL0, CNTV_CTL_EL0, CNTV_CVAL_EL0, CNTVCT_EL0, Readable, Writeable,
};

/// The counter at the entry point.
static START: AtomicU64 = AtomicU64::new(0);
/// Nanoseconds per tick, and ticks per nanosecond, both in units of 2^-32.
static NS_PER_TICK: AtomicU64 = AtomicU64::new(0);
static TICKS_PER_NS: AtomicU64 = AtomicU64::new(0);
/// The timer's INTID.
static LINE: AtomicU32 = AtomicU32::new(27);

/// The private interrupt that Arm gives the virtual timer in its system guidelines (BSA), for a tree
/// without a timer node.
const USUAL_LINE: u32 = 27;

/// Prepares the clock; `start` is the counter at entry. From then on [`monotonic_ns`] counts.
pub(super) fn init_clock(start: u64) {
    // Firmware that forgot to set the rate leaves 0; QEMU's and most chips' range from 1 MHz to 1 GHz.
    let rate = match CNTFRQ_EL0.get() {
        0 => 62_500_000,
        rate => rate,
    };
    START.store(start, Ordering::Relaxed);
    NS_PER_TICK.store((1_000_000_000u64 << 32) / rate, Ordering::Relaxed);
    TICKS_PER_NS.store(((u128::from(rate) << 32) / 1_000_000_000) as u64, Ordering::Relaxed);
}

/// Enables the timer's interrupt at the GIC.
pub(super) fn init_interrupt(line: Option<u32>) {
    CNTV_CTL_EL0.set(0);
    let line = line.unwrap_or(USUAL_LINE);
    LINE.store(line, Ordering::Relaxed);
    super::irq_enable(line, crate::arch::Trigger::Level);
}

/// Nanoseconds since the entry point.
#[inline]
pub fn monotonic_ns() -> u64 {
    // The counter must not be read early. [ARM D12.2.2]
    barrier::isb(barrier::SY);
    let ticks = CNTVCT_EL0.get().wrapping_sub(START.load(Ordering::Relaxed));
    scale(ticks, NS_PER_TICK.load(Ordering::Relaxed))
}

#[inline]
fn scale(value: u64, factor: u64) -> u64 {
    ((u128::from(value) * u128::from(factor)) >> 32) as u64
}

/// Arms the one-shot timer for a [`monotonic_ns`] time, or stops it.
pub fn set_timer(deadline_ns: Option<u64>) {
    let Some(deadline) = deadline_ns else {
        CNTV_CTL_EL0.set(0);
        return;
    };
    // One tick more than the quotient: rounding down would fire before the deadline.
    let ticks = scale(deadline, TICKS_PER_NS.load(Ordering::Relaxed)).saturating_add(1);
    CNTV_CVAL_EL0.set(ticks.saturating_add(START.load(Ordering::Relaxed)));
    CNTV_CTL_EL0.set(1);
}

/// If `line` is the timer's: silences it and tells the kernel.
pub(super) fn handle(line: u32) -> bool {
    if line != LINE.load(Ordering::Relaxed) {
        return false;
    }
    CNTV_CTL_EL0.set(0);
    crate::interrupt::timer_fired();
    true
}

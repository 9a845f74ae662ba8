//! Preemption control: a count, and a mark.
//!
//! While the count is above zero the running thread keeps the CPU. Interrupts set the mark; the mark
//! is acted on when the count falls to zero ([`Guard`]'s drop) or, if it is zero already, at the end of
//! the interrupt. Both are plain loads and stores: the only other party is an interrupt handler on
//! this CPU, which leaves the count as it found it.

use core::marker::PhantomData;
use core::sync::atomic::{AtomicBool, AtomicU32, Ordering, compiler_fence};

/// Starts at one: boot code is not preemptible. [`crate::start`] releases it.
static COUNT: AtomicU32 = AtomicU32::new(1);
static MARK: AtomicBool = AtomicBool::new(false);

/// Keeps preemption off while it lives. Not `Send`: it belongs to this thread.
pub struct Guard(PhantomData<*const ()>);

/// Turns preemption off.
#[inline(always)]
pub fn disable() -> Guard {
    COUNT.store(COUNT.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
    compiler_fence(Ordering::Acquire);
    Guard(PhantomData)
}

impl Drop for Guard {
    #[inline(always)]
    fn drop(&mut self) {
        compiler_fence(Ordering::Release);
        let count = COUNT.load(Ordering::Relaxed) - 1;
        COUNT.store(count, Ordering::Relaxed);
        if count == 0 && MARK.load(Ordering::Relaxed) {
            crate::thread::preempt();
        }
    }
}

/// Asks for a look at deferred work and the run queue as soon as preemption is possible.
#[inline]
pub fn mark() {
    MARK.store(true, Ordering::Relaxed);
}

/// Takes the mark.
#[inline]
pub fn take_mark() -> bool {
    let marked = MARK.load(Ordering::Relaxed);
    MARK.store(false, Ordering::Relaxed);
    marked
}

/// Whether an interrupt that is about to return must go through [`crate::thread::preempt`].
#[inline]
pub fn wanted() -> bool {
    MARK.load(Ordering::Relaxed) && COUNT.load(Ordering::Relaxed) == 0
}

/// Whether the mark is set.
#[inline]
pub fn is_marked() -> bool {
    MARK.load(Ordering::Relaxed)
}

/// The count. It belongs to the running thread: the scheduler carries it over a switch.
#[inline]
pub fn get() -> u32 {
    COUNT.load(Ordering::Relaxed)
}

/// Sets the count, for the scheduler.
#[inline]
pub fn set(count: u32) {
    compiler_fence(Ordering::SeqCst);
    COUNT.store(count, Ordering::Relaxed);
    compiler_fence(Ordering::SeqCst);
}

/// Whether preemption is off.
pub fn is_disabled() -> bool {
    COUNT.load(Ordering::Relaxed) != 0
}

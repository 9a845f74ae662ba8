//! [`Kernel`]: state of the kernel, reached by one caller at a time.

use core::cell::{Cell, UnsafeCell};

use crate::preempt;

/// A global that only non-preemptible code reaches.
///
/// There is one CPU and interrupts touch none of these, so holding preemption off is all the
/// exclusion there is to have. What is left to go wrong is a call back into the same state further
/// down the stack: that is checked.
pub struct Kernel<T> {
    borrowed: Cell<bool>,
    value: UnsafeCell<T>,
}

// SAFETY: `with` runs with preemption off on the only CPU, and never from an interrupt, so no two
// contexts are inside at once; `borrowed` turns recursion into a panic.
unsafe impl<T: Send> Sync for Kernel<T> {}

impl<T> Kernel<T> {
    /// Wraps the initial value.
    pub const fn new(value: T) -> Kernel<T> {
        Kernel { borrowed: Cell::new(false), value: UnsafeCell::new(value) }
    }

    /// Runs `f` on the value.
    ///
    /// # Panics
    /// If called from inside another `with` of the same cell.
    #[inline]
    pub fn with<R>(&self, f: impl FnOnce(&mut T) -> R) -> R {
        self.try_with(f).expect("kernel state entered twice")
    }

    /// Like [`with`](Kernel::with), but `None` instead of a panic: for the way out of a panic.
    #[inline]
    pub fn try_with<R>(&self, f: impl FnOnce(&mut T) -> R) -> Option<R> {
        let _guard = preempt::disable();
        if self.borrowed.replace(true) {
            return None;
        }
        // SAFETY: `borrowed` was false and is true now, so this is the only reference until it is
        // reset below. A panic in `f` aborts, so it cannot stay set by unwinding.
        let result = f(unsafe { &mut *self.value.get() });
        self.borrowed.set(false);
        Some(result)
    }
}

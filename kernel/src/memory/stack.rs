//! Stacks with a guard page below.

use core::alloc::Layout;
use core::ops::Range;
use core::ptr::NonNull;

use crate::arch::{self, Protection};
use crate::memory::{self, PAGE};

/// What kernel code may need on a thread's stack beyond what the thread asked for: a system call runs
/// on the caller's stack, and so does deferred work (a turn of the network stack).
const KERNEL_SHARE: usize = 48 * 1024;

/// Smallest stack given out, kernel share included.
const MINIMUM: usize = 64 * 1024;

/// A thread's stack. The page below it is unmapped.
pub struct Stack {
    base: NonNull<u8>,
    layout: Layout,
}

// SAFETY: it owns its memory like a Box.
unsafe impl Send for Stack {}

impl Stack {
    /// Allocates a stack for a thread that asked for `wanted` bytes. `None`: no memory.
    pub fn new(wanted: usize) -> Option<Stack> {
        let size = wanted
            .checked_add(KERNEL_SHARE)?
            .max(MINIMUM)
            .checked_next_multiple_of(PAGE)?
            .checked_add(PAGE)?;
        let layout = Layout::from_size_align(size, PAGE).ok()?;
        let base = memory::allocate(layout)?;
        let guard = base.as_ptr() as usize;
        if arch::protect(guard..guard + PAGE, Protection::None).is_err() {
            // SAFETY: just allocated with this layout.
            unsafe { memory::free(base, layout) };
            return None;
        }
        Some(Stack { base, layout })
    }

    /// One past the highest byte, page-aligned.
    pub fn top(&self) -> usize {
        self.base.as_ptr() as usize + self.layout.size()
    }

    /// The unmapped page.
    pub fn guard(&self) -> Range<usize> {
        let start = self.base.as_ptr() as usize;
        start..start + PAGE
    }
}

impl Drop for Stack {
    fn drop(&mut self) {
        if arch::protect(self.guard(), Protection::ReadWrite).is_ok() {
            // SAFETY: allocated in `new` with this layout, whole again, and no thread runs on it.
            unsafe { memory::free(self.base, self.layout) };
        }
        // Else the memory is lost, which is better than handing out an unmapped page.
    }
}

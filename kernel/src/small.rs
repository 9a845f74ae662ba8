//! Free lists of small blocks, in front of the allocator.
//!
//! Programs allocate and free the same few small sizes over and over; a list for each size answers that in a handful
//! of instructions. Blocks on a list are still allocated as far as the allocator behind is concerned; they go back to
//! it when it runs out.

use core::alloc::Layout;
use core::ptr::NonNull;

/// Sizes are multiples of this, in bytes, which is the alignment of every block too.
const GRAIN: usize = 16;
/// Number of sizes: up to 1 KiB.
const CLASSES: usize = 64;
/// Blocks a list holds at most, so that a burst does not keep memory from other sizes for long.
const LONGEST: u16 = 256;

/// A size, as the index of its list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Class(usize);

impl Class {
    /// The class a layout falls into; `None` if it is empty, large, or aligned to more than the grain.
    #[inline]
    pub fn of(layout: Layout) -> Option<Class> {
        let index = layout.size().wrapping_sub(1) / GRAIN;
        (index < CLASSES && layout.align() <= GRAIN).then_some(Class(index))
    }

    /// What is allocated for every layout of the class.
    #[inline]
    pub fn layout(self) -> Layout {
        // The size is a multiple of a power of two, and small.
        Layout::from_size_align((self.0 + 1) * GRAIN, GRAIN).expect("a small size")
    }
}

/// First words of a block on a list.
struct Free {
    next: Option<NonNull<Free>>,
}

/// The lists.
pub struct SmallBlocks {
    /// Invariant: each list is of blocks of its class's layout that nobody else has.
    heads: [Option<NonNull<Free>>; CLASSES],
    lengths: [u16; CLASSES],
}

impl Default for SmallBlocks {
    fn default() -> Self {
        Self::new()
    }
}

impl SmallBlocks {
    /// Empty lists.
    pub const fn new() -> SmallBlocks {
        SmallBlocks { heads: [None; CLASSES], lengths: [0; CLASSES] }
    }

    /// A block of a class, if there is one.
    #[inline]
    pub fn take(&mut self, class: Class) -> Option<NonNull<u8>> {
        let block = self.heads[class.0]?;
        // SAFETY: on the list, so ours, and `give` wrote the link.
        self.heads[class.0] = unsafe { block.read() }.next;
        self.lengths[class.0] -= 1;
        Some(block.cast())
    }

    /// Keeps a block for later. False: the list is long enough.
    ///
    /// # Safety
    /// The block must be allocated with the class's layout, and the caller gives it up if the answer is true.
    #[inline]
    pub unsafe fn give(&mut self, class: Class, block: NonNull<u8>) -> bool {
        if self.lengths[class.0] >= LONGEST {
            return false;
        }
        let block: NonNull<Free> = block.cast();
        // SAFETY: the block is at least a grain long and aligned to one, and the caller gives it up.
        unsafe { block.write(Free { next: self.heads[class.0] }) };
        self.heads[class.0] = Some(block);
        self.lengths[class.0] += 1;
        true
    }

    /// Takes everything off the lists.
    pub fn drain(&mut self, mut each: impl FnMut(NonNull<u8>, Layout)) {
        for index in 0..CLASSES {
            while let Some(block) = self.take(Class(index)) {
                each(block, Class(index).layout());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::alloc::{alloc, dealloc};

    use super::*;

    fn layout(size: usize, align: usize) -> Layout {
        Layout::from_size_align(size, align).unwrap()
    }

    #[test]
    fn classes_hold_what_falls_into_them() {
        assert_eq!(Class::of(layout(0, 1)), None);
        assert_eq!(Class::of(layout(1025, 1)), None);
        assert_eq!(Class::of(layout(64, 32)), None);
        for size in 1..=1024 {
            let class = Class::of(layout(size, 8)).unwrap().layout();
            assert!(class.size() >= size && class.size() < size + GRAIN && class.align() == GRAIN);
        }
    }

    #[test]
    fn blocks_come_back_last_in_first_out_and_drain_gives_all() {
        let mut small = SmallBlocks::new();
        let class = Class::of(layout(40, 8)).unwrap();
        let other = Class::of(layout(1000, 8)).unwrap();
        // SAFETY: the layouts are not empty.
        let blocks: Vec<_> =
            (0..3).map(|_| NonNull::new(unsafe { alloc(class.layout()) }).unwrap()).collect();
        assert_eq!(small.take(class), None);
        for block in &blocks {
            // SAFETY: allocated with that layout and not used meanwhile.
            assert!(unsafe { small.give(class, *block) });
        }
        assert_eq!(small.take(other), None);
        assert_eq!(small.take(class), Some(blocks[2]));
        // SAFETY: as above.
        assert!(unsafe { small.give(class, blocks[2]) });
        let mut drained = 0;
        small.drain(|block, layout| {
            drained += 1;
            // SAFETY: allocated with that layout above.
            unsafe { dealloc(block.as_ptr(), layout) };
        });
        assert_eq!(drained, 3);
        assert_eq!(small.take(class), None);
    }

    #[test]
    fn a_long_list_takes_no_more() {
        let mut small = SmallBlocks::new();
        let class = Class::of(layout(16, 8)).unwrap();
        let mut given = 0;
        loop {
            // SAFETY: the layout is not empty.
            let block = NonNull::new(unsafe { alloc(class.layout()) }).unwrap();
            // SAFETY: just allocated with that layout.
            if !unsafe { small.give(class, block) } {
                // SAFETY: as above; it was not taken.
                unsafe { dealloc(block.as_ptr(), class.layout()) };
                break;
            }
            given += 1;
        }
        assert_eq!(given, LONGEST);
        // SAFETY: allocated with that layout above.
        small.drain(|block, layout| unsafe { dealloc(block.as_ptr(), layout) });
    }
}

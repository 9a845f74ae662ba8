//! Memory: one heap over all of RAM, and what is cut from it.
//!
//! RAM is mapped one to one, so an address is a physical address. The allocator is Talc: it keeps its
//! bookkeeping in the free memory itself, so giving it a gigabyte touches two words. Small blocks go through
//! [`small`](crate::small).

use core::alloc::Layout;
use core::ops::Range;
use core::ptr::NonNull;

use talc::base::Talc;
use talc::base::binning::DefaultBinning;
use talc::source::Manual;

use crate::cell::Kernel;
use crate::small::{Class, SmallBlocks};

mod dma;
mod stack;

pub use dma::KernelDma;
pub use stack::Stack;

/// Size in bytes of a page, the grain of [`arch::protect`](crate::arch).
pub const PAGE: usize = 4096;

struct Heap {
    talc: Talc<Manual, DefaultBinning>,
    small: SmallBlocks,
    bytes: usize,
    used: usize,
}

// SAFETY: both parts hold raw pointers into memory that only they manage; nothing is tied to a thread.
unsafe impl Send for Heap {}

static HEAP: Kernel<Heap> =
    Kernel::new(Heap { talc: Talc::new(Manual), small: SmallBlocks::new(), bytes: 0, used: 0 });

/// Gives a range of RAM to the heap. May be called several times, by `arch` before
/// [`start`](crate::start::start).
///
/// # Safety
/// The range must be RAM that is mapped for reading and writing, and that nothing else uses.
pub unsafe fn donate(range: Range<usize>) {
    if range.len() < 2 * PAGE {
        return;
    }
    HEAP.with(|heap| {
        // SAFETY: the caller hands the range over.
        if unsafe { heap.talc.claim(range.start as *mut u8, range.len()) }.is_some() {
            heap.bytes += range.len();
        }
    });
}

/// Bytes given to the heap so far.
pub fn total() -> usize {
    HEAP.with(|heap| heap.bytes)
}

/// Bytes in use, rounding and bookkeeping left out.
pub fn used() -> usize {
    HEAP.with(|heap| heap.used)
}

impl Heap {
    #[inline]
    fn allocate(&mut self, layout: Layout) -> Option<NonNull<u8>> {
        let block = match Class::of(layout) {
            Some(class) => match self.small.take(class) {
                Some(block) => block,
                None => self.allocate_from_talc(class.layout())?,
            },
            None => self.allocate_from_talc(layout)?,
        };
        self.used += layout.size();
        Some(block)
    }

    #[inline(never)]
    fn allocate_from_talc(&mut self, layout: Layout) -> Option<NonNull<u8>> {
        // SAFETY: no caller asks for nothing.
        if let Some(block) = unsafe { self.talc.allocate(layout) } {
            return Some(block);
        }
        let talc = &mut self.talc;
        // SAFETY: blocks on the lists came from here with the class's layout, and nobody has them.
        self.small.drain(|block, layout| unsafe { talc.deallocate(block.as_ptr(), layout) });
        // SAFETY: as above.
        unsafe { self.talc.allocate(layout) }
    }

    /// # Safety
    /// The block came from `allocate` with this layout and is not used again.
    #[inline]
    unsafe fn free(&mut self, block: NonNull<u8>, layout: Layout) {
        self.used -= layout.size();
        let layout = match Class::of(layout) {
            // SAFETY: allocated with the class's layout.
            Some(class) if unsafe { self.small.give(class, block) } => return,
            Some(class) => class.layout(),
            None => layout,
        };
        // SAFETY: the caller's duty.
        unsafe { self.talc.deallocate(block.as_ptr(), layout) };
    }

    /// Whether the block could be resized where it is.
    ///
    /// # Safety
    /// As `free`, but that the block is still used if the answer is false; `new` is not empty and aligned alike.
    unsafe fn resize(&mut self, block: NonNull<u8>, old: Layout, new: Layout) -> bool {
        let resized = match (Class::of(old), Class::of(new)) {
            (Some(before), Some(after)) => before == after,
            // SAFETY: the caller's duty.
            (None, None) => unsafe {
                self.talc.try_realloc_in_place(block.as_ptr(), old, new.size())
            },
            _ => false,
        };
        if resized {
            self.used = self.used - old.size() + new.size();
        }
        resized
    }
}

/// Allocates; `None` when there is no such block free.
///
/// Not inlined: the image has hundreds of calls, and none is made for a packet.
#[inline(never)]
pub fn allocate(layout: Layout) -> Option<NonNull<u8>> {
    if layout.size() == 0 {
        return NonNull::new(core::ptr::without_provenance_mut(layout.align()));
    }
    HEAP.with(|heap| heap.allocate(layout))
}

/// Frees what [`allocate`] gave.
///
/// # Safety
/// `pointer` must come from [`allocate`] (or [`reallocate`]) with this layout, and not be used again.
#[inline]
pub unsafe fn free(pointer: NonNull<u8>, layout: Layout) {
    if layout.size() == 0 {
        return;
    }
    // SAFETY: the caller's duty.
    HEAP.with(|heap| unsafe { heap.free(pointer, layout) });
}

/// Resizes in place where possible, else moves; `None`, nothing changed, if there is no room.
///
/// # Safety
/// As for [`free`], unless `None` is returned.
pub unsafe fn reallocate(
    pointer: NonNull<u8>,
    old: Layout,
    new_size: usize,
) -> Option<NonNull<u8>> {
    let new = Layout::from_size_align(new_size, old.align()).ok()?;
    if old.size() != 0 && new_size != 0 {
        // SAFETY: the caller's duty; neither is empty.
        if HEAP.with(|heap| unsafe { heap.resize(pointer, old, new) }) {
            return Some(pointer);
        }
    }
    let moved = allocate(new)?;
    // SAFETY: both blocks hold that many bytes and are distinct; then the old one is given up, as the caller does.
    unsafe {
        moved.copy_from_nonoverlapping(pointer, old.size().min(new_size));
        free(pointer, old);
    }
    Some(moved)
}

/// A zeroed page that is never given back: for page tables.
#[cfg(target_arch = "x86_64")]
pub fn page() -> Option<NonNull<[u8; PAGE]>> {
    let layout = Layout::from_size_align(PAGE, PAGE).ok()?;
    let page = allocate(layout)?;
    // SAFETY: PAGE bytes just allocated.
    unsafe { page.as_ptr().write_bytes(0, PAGE) };
    Some(page.cast())
}

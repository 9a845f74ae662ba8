//! Memory: one heap over all of RAM, and what is cut from it.
//!
//! RAM is mapped one to one, so an address is a physical address. The allocator is Talc: it keeps its
//! bookkeeping in the free memory itself, so giving it a gigabyte touches two words.

use core::alloc::Layout;
use core::ops::Range;
use core::ptr::NonNull;

use talc::base::Talc;
use talc::base::binning::DefaultBinning;
use talc::source::Manual;

use crate::cell::Kernel;

mod dma;
mod stack;

pub use dma::KernelDma;
pub use stack::Stack;

/// Size in bytes of a page, the grain of [`arch::protect`](crate::arch).
pub const PAGE: usize = 4096;

struct Heap {
    talc: Talc<Manual, DefaultBinning>,
    bytes: usize,
    used: usize,
}

// SAFETY: Talc holds raw pointers into memory that only it manages; nothing is tied to a thread.
unsafe impl Send for Heap {}

static HEAP: Kernel<Heap> = Kernel::new(Heap { talc: Talc::new(Manual), bytes: 0, used: 0 });

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

/// Allocates; `None` when there is no such block free.
#[inline]
pub fn allocate(layout: Layout) -> Option<NonNull<u8>> {
    if layout.size() == 0 {
        return NonNull::new(core::ptr::without_provenance_mut(layout.align()));
    }
    HEAP.with(|heap| {
        // SAFETY: the size is not zero.
        let block = unsafe { heap.talc.allocate(layout) };
        if block.is_some() {
            heap.used += layout.size();
        }
        block
    })
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
    HEAP.with(|heap| {
        // SAFETY: the caller's duty.
        unsafe { heap.talc.deallocate(pointer.as_ptr(), layout) };
        heap.used -= layout.size();
    });
}

/// Resizes in place where possible, else moves; `None`, nothing changed, if there is no room.
///
/// # Safety
/// As for [`free`], unless `None` is returned. `new_size` rounded up to the alignment must not
/// overflow `isize`.
pub unsafe fn reallocate(
    pointer: NonNull<u8>,
    old: Layout,
    new_size: usize,
) -> Option<NonNull<u8>> {
    let new = Layout::from_size_align(new_size, old.align()).ok()?;
    if old.size() != 0 && new_size != 0 {
        let in_place = HEAP.with(|heap| {
            // SAFETY: the caller's duty; the new size is not zero.
            let done = unsafe { heap.talc.try_realloc_in_place(pointer.as_ptr(), old, new_size) };
            if done {
                heap.used = heap.used - old.size() + new_size;
            }
            done
        });
        if in_place {
            return Some(pointer);
        }
    }
    let moved = allocate(new)?;
    // SAFETY: both blocks hold that many bytes and are distinct.
    unsafe {
        core::ptr::copy_nonoverlapping(pointer.as_ptr(), moved.as_ptr(), old.size().min(new_size));
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

//! Memory shared with devices, on machines where RAM is mapped one to one and bus addresses are
//! physical ones.

use core::alloc::Layout;
use core::ptr::NonNull;

use trireme_nic::{Allocation, Direction, Dma, DmaError};

use crate::arch::{self, Protection};
use crate::memory::{self, PAGE};

/// The kernel's [`Dma`] for one device. Pass it by value.
#[derive(Clone, Copy, Debug)]
pub struct KernelDma {
    coherent: bool,
}

impl KernelDma {
    /// For a device that sees the CPU's caches: a PC's, a hypervisor's, one whose node or bus says `dma-coherent`.
    pub const COHERENT: KernelDma = KernelDma { coherent: true };

    /// For a device whose node says whether it sees the CPU's caches.
    #[cfg(not(target_arch = "x86_64"))]
    pub const fn new(coherent: bool) -> KernelDma {
        KernelDma { coherent }
    }
}

fn allocate_zeroed(len: usize, align: usize) -> Result<Allocation, DmaError> {
    let error = DmaError { len };
    let layout = Layout::from_size_align(len, align).map_err(|_| error)?;
    let pointer = memory::allocate(layout).ok_or(error)?;
    // SAFETY: `len` bytes just allocated.
    unsafe { pointer.as_ptr().write_bytes(0, len) };
    Ok(Allocation { pointer, bus: pointer.as_ptr() as u64, len })
}

// SAFETY: allocations come from the heap and are never freed, so they stay valid and unshared; RAM is
// mapped one to one, so the address is what devices use; cache maintenance is by whole lines, which
// allocations do not share (aligned to a line, length rounded up to one).
unsafe impl Dma for KernelDma {
    fn allocate(&self, len: usize, align: usize) -> Result<Allocation, DmaError> {
        let line = arch::CACHE_LINE;
        let whole = len.checked_next_multiple_of(line).ok_or(DmaError { len })?;
        let mut allocation = allocate_zeroed(whole, align.max(line))?;
        if !self.coherent {
            // The zeroes must not be written back over what a device puts there.
            arch::clean_cache(allocation.pointer.as_ptr(), whole);
        }
        allocation.len = len;
        Ok(allocation)
    }

    fn allocate_coherent(&self, len: usize, align: usize) -> Result<Allocation, DmaError> {
        if self.coherent {
            return allocate_zeroed(len, align.max(arch::CACHE_LINE));
        }
        let error = DmaError { len };
        let whole = len.checked_next_multiple_of(PAGE).ok_or(error)?;
        let mut allocation = allocate_zeroed(whole, align.max(PAGE))?;
        let start = allocation.pointer.as_ptr() as usize;
        arch::clean_cache(allocation.pointer.as_ptr(), whole);
        arch::invalidate_cache(allocation.pointer.as_ptr(), whole);
        arch::protect(start..start + whole, Protection::Uncached).map_err(|_| error)?;
        allocation.len = len;
        Ok(allocation)
    }

    fn to_device(&self, pointer: NonNull<u8>, _bus: u64, len: usize, direction: Direction) {
        if self.coherent {
            return;
        }
        match direction {
            Direction::ToDevice => arch::clean_cache(pointer.as_ptr(), len),
            // A dirty line evicted later would land on what the device wrote.
            Direction::FromDevice => arch::invalidate_cache(pointer.as_ptr(), len),
        }
    }

    fn to_cpu(&self, pointer: NonNull<u8>, _bus: u64, len: usize, direction: Direction) {
        if direction == Direction::FromDevice && !self.coherent {
            // Lines the CPU fetched ahead of time while the device was writing.
            arch::invalidate_cache(pointer.as_ptr(), len);
        }
    }

    fn cache_line(&self) -> usize {
        arch::CACHE_LINE
    }
}

//! What the crate `virtio_drivers` wants from a kernel. RAM is mapped one to one and virtio devices are
//! coherent with the CPU (they are other threads of the host), so an address is all there is to share.

use core::alloc::Layout;
use core::ptr::NonNull;

use trireme_virtio_net::RingMemory;
use virtio_drivers::{BufferDirection, Hal, PAGE_SIZE, PhysAddr};

use crate::{arch, memory};

/// The kernel's [`Hal`].
pub struct KernelHal;

fn layout(pages: usize) -> Option<Layout> {
    Layout::from_size_align(pages.checked_mul(PAGE_SIZE)?, PAGE_SIZE).ok()
}

// SAFETY: memory comes zeroed from the heap, aligned to a page, and is nobody else's until it is given
// back; devices reach it at the same address.
unsafe impl Hal for KernelHal {
    fn dma_alloc(pages: usize, _: BufferDirection) -> (PhysAddr, NonNull<u8>) {
        // Address 0 is how the crate wants to be told that there is no memory.
        let nothing = (0, NonNull::dangling());
        let Some(layout) = layout(pages) else { return nothing };
        let Some(pointer) = memory::allocate(layout) else { return nothing };
        // SAFETY: so many bytes were just allocated.
        unsafe { pointer.as_ptr().write_bytes(0, layout.size()) };
        (pointer.as_ptr() as PhysAddr, pointer)
    }

    unsafe fn dma_dealloc(_: PhysAddr, pointer: NonNull<u8>, pages: usize) -> i32 {
        match layout(pages) {
            // SAFETY: allocated by `dma_alloc` with this layout; the caller is done with it.
            Some(layout) => unsafe { memory::free(pointer, layout) },
            None => return -1,
        }
        0
    }

    unsafe fn mmio_phys_to_virt(address: PhysAddr, size: usize) -> NonNull<u8> {
        // `virtio::pci` has mapped the whole BAR before, so this maps nothing new and cannot fail.
        arch::map_device(address, size).expect("a BAR that has been mapped")
    }

    unsafe fn share(buffer: NonNull<[u8]>, _: BufferDirection) -> PhysAddr {
        buffer.as_ptr().cast::<u8>() as PhysAddr
    }

    unsafe fn unshare(_: PhysAddr, _: NonNull<[u8]>, _: BufferDirection) {}
}

// SAFETY: memory is mapped one to one, and `dma_alloc` exposed the pointer.
unsafe impl RingMemory for KernelHal {
    fn ring_pointer(address: PhysAddr) -> NonNull<u8> {
        let pointer = core::ptr::with_exposed_provenance_mut(address as usize);
        NonNull::new(pointer).expect("ring memory is not at address 0")
    }
}

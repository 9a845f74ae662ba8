//! Thread-local storage: a copy of the image's TLS segment for each thread.

use core::alloc::Layout;
use core::ptr::NonNull;

use crate::memory;

/// Where the thread pointer points, by the ABI of the architecture (Drepper, "ELF Handling For
/// Thread-Local Storage", section 3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(target_arch = "x86_64", expect(dead_code, reason = "it has the second"))]
pub enum Tls {
    /// At a control block of `tcb` bytes; the segment follows at the next multiple of its alignment. (Its start
    /// must be aligned: the linker script sees to that.)
    One {
        /// Size in bytes of the control block.
        tcb: usize,
    },
    /// At a control block whose first word is its own address; the segment lies directly below.
    Two,
}

unsafe extern "C" {
    // The linker scripts in `targets/` define these: the TLS segment's template.
    static __tls_start: u8;
    static __tls_file_end: u8;
    static __tls_end: u8;
    static __tls_align: u8;
}

struct Template {
    start: *const u8,
    file_len: usize,
    len: usize,
    align: usize,
}

fn template() -> Template {
    // Only addresses are taken; `__tls_align` is a number in the shape of an address.
    let start = &raw const __tls_start;
    Template {
        start,
        file_len: &raw const __tls_file_end as usize - start as usize,
        len: &raw const __tls_end as usize - start as usize,
        align: (&raw const __tls_align as usize).max(1),
    }
}

/// One thread's block.
pub struct Block {
    base: NonNull<u8>,
    layout: Layout,
    pointer: usize,
}

// SAFETY: it owns its memory like a Box.
unsafe impl Send for Block {}

impl Block {
    /// Makes a fresh copy of the template. `None`: no memory.
    pub fn new() -> Option<Block> {
        let template = template();
        let align = template.align;
        let (size, data, pointer) = match crate::arch::TLS_VARIANT {
            Tls::One { tcb } => {
                let data = tcb.next_multiple_of(align);
                (data + template.len, data, 0)
            }
            Tls::Two => {
                // Where linkers put it: the segment's start keeps its address modulo the alignment.
                let start = template.start as usize;
                let gap = start.wrapping_add(template.len).wrapping_neg() & (align - 1);
                let below = template.len + gap;
                let pointer = below.next_multiple_of(align.max(16));
                (pointer + 16, pointer - below, pointer)
            }
        };
        let layout = Layout::from_size_align(size, align.max(16)).ok()?;
        let base = memory::allocate(layout)?;
        // SAFETY: all offsets are within the `size` bytes just allocated; the template is as long as
        // the linker said.
        unsafe {
            let at = base.as_ptr();
            at.write_bytes(0, size);
            at.add(data).copy_from_nonoverlapping(template.start, template.file_len);
            let tp = at.add(pointer) as usize;
            if crate::arch::TLS_VARIANT == Tls::Two {
                at.add(pointer).cast::<usize>().write(tp);
            }
            Some(Block { base, layout, pointer: tp })
        }
    }

    /// What the thread pointer register is to hold.
    pub fn pointer(&self) -> usize {
        self.pointer
    }
}

impl Drop for Block {
    fn drop(&mut self) {
        // SAFETY: allocated in `new` with this layout.
        unsafe { memory::free(self.base, self.layout) };
    }
}

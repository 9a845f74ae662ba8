//! What the architecture's entry code knows when the common code starts.

use core::ops::Range;

use crate::arch;

/// Facts from the loader, gathered by `arch` before [`start`](crate::start::start).
///
/// Everything referred to stays where it is for the life of the machine: entry code has already
/// kept those ranges out of the heap.
pub struct BootInformation {
    /// The boot arguments as the loader passed them; empty if none.
    pub command_line: &'static str,
    /// The flattened device tree, if the machine has one.
    #[cfg_attr(target_arch = "x86_64", expect(dead_code, reason = "PCs have none"))]
    pub fdt: Option<*const u8>,
    /// A second read-only archive of files, from the loader.
    pub initrd: Option<&'static [u8]>,
    /// All RAM the machine reported, in bytes; not all of it is usable.
    pub memory_bytes: u64,
}

/// No device tree is larger than this.
#[cfg(any(target_arch = "aarch64", target_arch = "arm"))]
const LARGEST_TREE: usize = 2 << 20;

#[cfg(any(target_arch = "aarch64", target_arch = "arm"))]
impl BootInformation {
    /// The device tree.
    pub fn tree(&self) -> Option<dtoolkit::fdt::Fdt<'static>> {
        // SAFETY: entry code opened it before and kept it out of the heap.
        unsafe { crate::fdt::open(self.fdt?, LARGEST_TREE) }
    }
}

/// Where the linker put the parts of the image. Names are from the scripts in `targets/`; each part
/// starts on a page of its own.
pub struct Image;

unsafe extern "C" {
    static __text_start: u8;
    static __text_end: u8;
    static __rodata_start: u8;
    static __rodata_end: u8;
    static __data_start: u8;
    static __image_end: u8;
}

fn address(symbol: &'static u8) -> usize {
    core::ptr::from_ref(symbol) as usize
}

impl Image {
    /// Executable code.
    pub fn text() -> Range<usize> {
        // SAFETY: only the addresses are taken.
        unsafe { address(&__text_start)..address(&__text_end) }
    }

    /// Constants, the TLS template among them.
    pub fn rodata() -> Range<usize> {
        // SAFETY: only the addresses are taken.
        unsafe { address(&__rodata_start)..address(&__rodata_end) }
    }

    /// Variables: initialised, zeroed, boot stack.
    pub fn data() -> Range<usize> {
        // SAFETY: only the addresses are taken.
        unsafe { address(&__data_start)..address(&__image_end) }
    }

    /// All of it.
    pub fn whole() -> Range<usize> {
        Image::text().start..Image::data().end
    }
}

/// Ends the machine because it cannot be brought up, saying why.
pub fn give_up(why: core::fmt::Arguments<'_>) -> ! {
    crate::console::print(format_args!("trireme: {why}\n"));
    arch::shutdown(1)
}

//! x86_64: PCs and what QEMU has instead (q35, pc, microvm), entered through PVH or the Linux/x86 boot
//! protocol.

mod apic;
mod boot;
mod clock;
mod console;
mod context;
mod descriptors;
mod entry;
mod linux;
mod memory_copy;
mod paging;
mod power;
mod random;

pub use apic::{LINES, irq_enable, irq_mask, irq_unmask, msi_allocate, set_timer};
pub use clock::{monotonic_ns, wall_clock_ns};
pub use console::{console_interrupt, console_read, console_write};
pub use context::{Context, backtrace, frame_pointer, link_address, new_context, switch};
pub use paging::{map_device, protect};
pub use power::{reboot, shutdown};
pub use random::hardware_random;

use x86_64::VirtAddr;
use x86_64::instructions::interrupts;
use x86_64::registers::model_specific::FsBase;

use crate::tls::Tls;

/// Below the thread pointer, as on every x86_64 System V system.
pub const TLS_VARIANT: Tls = Tls::Two;
/// Bytes; what DMA buffers are aligned to.
pub const CACHE_LINE: usize = 64;

/// Masks interrupts; whether they were enabled.
#[inline]
pub fn interrupts_disable() -> bool {
    let enabled = interrupts::are_enabled();
    interrupts::disable();
    enabled
}

/// Undoes [`interrupts_disable`].
#[inline]
pub fn interrupts_restore(enabled: bool) {
    if enabled {
        interrupts::enable();
    }
}

/// Halts with interrupts enabled; `sti` takes effect after the next instruction, so none comes between.
#[inline]
pub fn wait_for_interrupt() {
    interrupts::enable_and_hlt();
    interrupts::disable();
}

/// Stops the CPU; interrupts are masked, so for good.
pub fn halt() {
    x86_64::instructions::hlt();
}

/// Sets the FS base.
#[inline]
pub fn set_thread_pointer(pointer: usize) {
    FsBase::write(VirtAddr::new(pointer as u64));
}

/// Nothing to do: PCs snoop.
pub fn clean_cache(_pointer: *const u8, _len: usize) {}

/// Nothing to do: PCs snoop.
pub fn invalidate_cache(_pointer: *const u8, _len: usize) {}

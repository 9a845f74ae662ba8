//! 64-bit ARM: whatever machine a device tree describes.
//!
//! Needed: Armv8-A at EL1 or EL2, a GIC of version 2 or 3, the generic timer. Everything else (PSCI,
//! clock, UART) is used if it is there. Run on QEMU `virt`; unverified on silicon.

mod boot;
mod cache;
#[path = "../arm/console.rs"]
mod console;
mod context;
mod exceptions;
mod gic;
mod memory;
mod mmio;
mod mmu;
#[path = "../arm/ns16550.rs"]
mod ns16550;
mod paging;
mod power;
#[path = "../arm/ram.rs"]
mod ram;
mod random;
mod relocate;
#[path = "../arm/rtc.rs"]
mod rtc;
#[path = "../arm/scif.rs"]
mod scif;
mod semihosting;
mod timer;

use core::arch::asm;

pub use cache::{CACHE_LINE, clean_cache, invalidate_cache};
pub use console::{console_interrupt, console_read, console_write};
pub use context::{Context, new_context, switch};
pub use gic::{LINES, irq_enable, irq_mask, irq_unmask, msi_allocate};
pub use mmu::{map_device, protect};
pub use power::{reboot, shutdown};
pub use random::hardware_random;
pub use rtc::wall_clock_ns;
pub use timer::{monotonic_ns, set_timer};

use crate::boot::Image;
use crate::tls::Tls;

/// Thread-local storage lies above a two-word block that TPIDR_EL0 points to. [AAELF64 5.6]
pub const TLS_VARIANT: Tls = Tls::One { tcb: 16 };

/// Masks interrupts; whether they were enabled.
#[inline(always)]
pub fn interrupts_disable() -> bool {
    let daif: u64;
    // SAFETY: masking IRQs. No `nomem`: memory accesses must not move across.
    unsafe { asm!("mrs {}, daif", "msr daifset, #2", out(reg) daif, options(nostack)) };
    daif & 1 << 7 == 0
}

/// Undoes [`interrupts_disable`].
#[inline(always)]
pub fn interrupts_restore(enabled: bool) {
    if enabled {
        // SAFETY: unmasking IRQs, as they were.
        unsafe { asm!("msr daifclr, #2", options(nostack)) };
    }
}

/// Called with interrupts masked: waits for one, lets it in, and returns with them masked again.
#[inline]
pub fn wait_for_interrupt() {
    // SAFETY: WFI ends on a pending interrupt even though it is masked, so none is lost.
    unsafe { asm!("dsb sy", "wfi", "msr daifclr, #2", "isb", "msr daifset, #2", options(nostack)) };
}

/// Waits for an interrupt without letting it in.
pub fn halt() {
    // SAFETY: no effect but on time.
    unsafe { asm!("wfi", options(nostack)) };
}

/// Sets the running thread's TLS pointer.
#[inline]
pub fn set_thread_pointer(pointer: usize) {
    // SAFETY: the kernel passes the block of the thread about to run.
    unsafe { asm!("msr tpidr_el0, {}", in(reg) pointer, options(nostack)) };
}

/// The caller's frame pointer.
#[inline(always)]
pub fn frame_pointer() -> usize {
    let frame: usize;
    // SAFETY: a register read.
    unsafe { asm!("mov {}, x29", out(reg) frame, options(nomem, nostack)) };
    frame
}

/// What the linker called an address of the code: the image is linked at zero.
pub fn link_address(pc: usize) -> usize {
    let text = Image::text();
    if text.contains(&pc) { pc - text.start } else { pc }
}

/// Calls `found` with return addresses, innermost first, along the frame records from `frame` on.
/// [AAPCS64 6.4.6]: a record is the caller's x29 and the return address.
pub fn backtrace(mut frame: usize, found: &mut dyn FnMut(usize)) {
    const DEEPEST: usize = 64;
    for _ in 0..DEEPEST {
        if frame == 0
            || !frame.is_multiple_of(8)
            || !mmu::is_readable(frame)
            || !mmu::is_readable(frame + 8)
        {
            return;
        }
        // SAFETY: aligned, and mapped as the CPU itself says; stacks are not device memory.
        let (next, address) =
            unsafe { ((frame as *const usize).read(), (frame as *const usize).add(1).read()) };
        if address == 0 {
            return;
        }
        found(address);
        if next <= frame {
            return; // stacks grow down: anything else is a loop or garbage
        }
        frame = next;
    }
}

//! 32-bit ARM of version 4, without Thumb: the Faraday FA526 of Gemini chips, and QEMU's StrongARM.
//!
//! What the architecture lacks shapes this: no atomic operations but SWP (`atomics.rs` masks interrupts), no thread
//! pointer register, no execute-never (data can be executed, though code cannot be written), no unaligned accesses
//! (they fault), no CLZ, BLX or BX. The tools refuse an image with an instruction beyond ARMv4.
//!
//! Needed: RAM at 0 and a device tree, appended to the image or in r2. Run on QEMU's `versatilepb`; unverified on
//! silicon.

mod atomics;
mod boot;
mod cache;
#[path = "../arm/console.rs"]
mod console;
mod context;
mod copy;
mod exceptions;
mod interrupts;
mod mmio;
mod mmu;
#[path = "../arm/ns16550.rs"]
mod ns16550;
mod paging;
mod power;
#[path = "../arm/ram.rs"]
mod ram;
#[path = "../arm/rtc.rs"]
mod rtc;
#[path = "../arm/scif.rs"]
mod scif;
mod semihosting;
mod timer;

use core::arch::asm;

pub use atomics::set_thread_pointer;
pub use cache::{CACHE_LINE, clean_cache, invalidate_cache, wait_for_interrupt};
pub use console::{console_interrupt, console_read, console_write};
pub use context::{Context, new_context, switch};
pub use interrupts::{LINES, irq_enable, irq_mask, irq_unmask};
pub use mmu::{map_device, protect};
pub use power::{reboot, shutdown};
pub use rtc::wall_clock_ns;
pub use timer::{monotonic_ns, set_timer};

use crate::arch::Msi;
use crate::tls::Tls;

/// Thread-local storage lies above a two-word block that the thread pointer names. [ABI: "Addenda to, and Errata in,
/// the ABI for the Arm Architecture", 3.1]
pub const TLS_VARIANT: Tls = Tls::One { tcb: 8 };

/// CPSR: interrupts masked. [ARM DDI 0100I A2.5]
const MASKED: u32 = 1 << 7;

/// Masks interrupts; whether they were enabled.
#[inline(always)]
pub fn interrupts_disable() -> bool {
    let status: u32;
    // SAFETY: masking IRQs. No `nomem`: memory accesses must not move across.
    unsafe {
        asm!("mrs {0}, cpsr", "orr {1}, {0}, #0x80", "msr cpsr_c, {1}", out(reg) status, out(reg) _,
            options(nostack, preserves_flags));
    }
    status & MASKED == 0
}

/// Undoes [`interrupts_disable`].
#[inline(always)]
pub fn interrupts_restore(enabled: bool) {
    if enabled {
        // SAFETY: unmasking IRQs, as they were.
        unsafe {
            asm!("mrs {0}, cpsr", "bic {0}, {0}, #0x80", "msr cpsr_c, {0}", out(reg) _,
                options(nostack, preserves_flags));
        }
    }
}

/// Stops for a moment. Cores whose wait for an interrupt cannot be trusted go on at once.
pub fn halt() {
    cache::idle();
}

/// No controller here takes messages.
pub fn msi_allocate() -> Option<Msi> {
    None
}

/// No core here makes random numbers.
pub fn hardware_random() -> Option<u64> {
    None
}

/// The caller's frame pointer.
#[inline(always)]
pub fn frame_pointer() -> usize {
    let frame: usize;
    // SAFETY: a register read.
    unsafe { asm!("mov {}, r11", out(reg) frame, options(nomem, nostack, preserves_flags)) };
    frame
}

/// What the linker called an address of the code: it runs where it is linked.
pub fn link_address(pc: usize) -> usize {
    pc
}

/// Calls `found` with return addresses, innermost first, along the frame records from `frame` on: a record is the
/// caller's r11 and the return address, as LLVM lays them out.
pub fn backtrace(mut frame: usize, found: &mut dyn FnMut(usize)) {
    const DEEPEST: usize = 64;
    for _ in 0..DEEPEST {
        if frame == 0
            || !frame.is_multiple_of(4)
            || !mmu::is_readable(frame)
            || !mmu::is_readable(frame + 4)
        {
            return;
        }
        // SAFETY: aligned, and mapped as memory.
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

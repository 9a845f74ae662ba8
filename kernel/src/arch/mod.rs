//! The architecture: one of the modules below, all with the same items.
//!
//! What each must give (signatures are those of `x86_64`, the documentation is here):
//!
//! | item | meaning |
//! |---|---|
//! | `interrupts_disable() -> bool` | masks interrupts, says whether they were enabled |
//! | `interrupts_restore(bool)` | undoes it |
//! | `wait_for_interrupt()` | called with interrupts disabled: enables them and halts without losing a wake-up; returns with them disabled |
//! | `monotonic_ns() -> u64` | nanoseconds since the entry point; callable from interrupts |
//! | `wall_clock_ns() -> Option<u64>` | the battery clock, UNIX time |
//! | `set_timer(Option<u64>)` | one-shot, at a [`monotonic_ns`] time (past: at once); then [`crate::interrupt::timer_fired`]. May fire early if the hardware cannot count that far |
//! | `Context`, `new_context`, `switch` | a switched-out thread: callee-saved registers on its stack. A new context enters `entry(argument)` with interrupts enabled |
//! | `set_thread_pointer(usize)`, `TLS_VARIANT` | see [`crate::tls`] |
//! | `protect(Range, Protection)` | changes a page range of mapped memory; splits blocks, flushes the TLB; takes page tables from [`crate::memory::page`] |
//! | `map_device(physical, len)` | uncached mapping of device registers |
//! | `clean_cache`, `invalidate_cache`, `CACHE_LINE` | for [`crate::memory::dma`] |
//! | `irq_enable(line, Trigger)`, `irq_mask`, `irq_unmask` | x86_64: an IOAPIC input (GSI); aarch64: a GIC INTID; ARMv4: an input of its one controller |
//! | `msi_allocate() -> Option<Msi>` | a line of its own plus the address and data a device writes to raise it |
//! | `console_write(&[u8])`, `console_read() -> Option<u8>` | the serial port, polled; works from the first Rust instruction on |
//! | `console_interrupt() -> Option<(u32, Trigger)>` | lets the port interrupt on input; the line, which the caller enables |
//! | `hardware_random() -> Option<u64>` | the CPU's own generator |
//! | `halt()` | stops the CPU until an interrupt that may never come (interrupts are masked) |
//! | `shutdown(i32) -> !`, `reboot() -> !` | ends the machine; the status reaches QEMU's caller |
//! | `backtrace(usize, &mut dyn FnMut(usize))` | return addresses from a frame pointer on, bounded, never faulting |
//! | `frame_pointer() -> usize` | the caller's |
//! | `link_address(usize) -> usize` | what the linker called an address of the code: differs where the image relocates itself |
//! | `LINES: usize` | interrupt lines are below this |
//!
//! Before it calls [`crate::start::start`] the entry code has set up the final page tables, exception
//! handlers, and given all usable RAM to [`crate::memory::donate`]. Interrupts are still masked.
//! It calls back: [`crate::interrupt::dispatch`] and [`crate::interrupt::timer_fired`] from interrupts;
//! at their end, if [`crate::preempt::wanted`], it returns into the interrupted code *through* a call of
//! [`crate::thread::preempt`] on the interrupted stack, like a signal delivery: below the red zone,
//! all caller-saved registers (vector state included) kept; [`crate::panic::fault`] from exceptions.

use core::fmt;

#[cfg(all(target_os = "hermit", target_arch = "aarch64"))]
mod aarch64;
#[cfg(all(target_os = "hermit", target_arch = "arm"))]
mod armv4;
#[cfg(all(target_os = "hermit", target_arch = "x86_64"))]
mod x86_64;

#[cfg(all(target_os = "hermit", target_arch = "aarch64"))]
pub use aarch64::*;
#[cfg(all(target_os = "hermit", target_arch = "arm"))]
pub use armv4::*;
#[cfg(all(target_os = "hermit", target_arch = "x86_64"))]
pub use x86_64::*;

/// In place of the machine, for tests.
#[cfg(not(target_os = "hermit"))]
mod host {
    pub(super) mod mmio;
    pub(super) mod mmu;
}

/// What of aarch64 touches no machine, or a model in place of it, for its tests.
#[cfg(not(target_os = "hermit"))]
mod aarch64 {
    use super::host::{mmio, mmu};

    mod gic;
    #[path = "../arm/ns16550.rs"]
    mod ns16550;
    mod paging;
    mod relocate;
    #[path = "../arm/scif.rs"]
    mod scif;
}

/// What of ARMv4 touches no machine, or a model in place of it, for its tests.
#[cfg(not(target_os = "hermit"))]
mod armv4 {
    use super::host::{mmio, mmu};

    mod interrupts;
    mod paging;
    mod timer;

    fn interrupts_disable() -> bool {
        false
    }

    fn interrupts_restore(_: bool) {}
}

/// What of x86_64 touches no machine, for its tests.
#[cfg(not(target_os = "hermit"))]
mod x86_64 {
    mod linux;
}

/// How an interrupt line signals.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trigger {
    /// A change to active is an interrupt; nothing to mask. Message-signalled ones are these.
    Edge,
    /// Active until the device is satisfied: masked by [`crate::interrupt`] until its work is done.
    Level,
    /// Level, active low (PCI INTx on real x86 boards).
    #[cfg_attr(not(target_arch = "x86_64"), allow(dead_code, reason = "lines are active high"))]
    LevelLow,
    /// Edge, from high to low (Gemini's timer).
    #[cfg_attr(
        not(target_arch = "arm"),
        allow(dead_code, reason = "others tell by the rising edge")
    )]
    FallingEdge,
}

/// What a page range may be used for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Protection {
    /// Nothing: a guard.
    None,
    /// Constants.
    ReadOnly,
    /// Ordinary memory.
    ReadWrite,
    /// Code.
    ReadExecute,
    /// Device registers: uncached, no speculation.
    Device,
    /// Normal memory that must not be cached: descriptor rings where DMA is not coherent.
    Uncached,
}

/// A mapping could not be changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MapError {
    /// No memory for page tables.
    NoMemory,
    /// Not page-aligned, or not an address this machine can map.
    BadRange,
}

impl fmt::Display for MapError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            MapError::NoMemory => "no memory for page tables",
            MapError::BadRange => "not a range of pages that can be mapped",
        })
    }
}

/// A message-signalled interrupt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Msi {
    /// What [`crate::interrupt::attach`] takes.
    pub line: u32,
    /// Where the device writes.
    pub address: u64,
    /// What the device writes.
    pub data: u32,
}

//! Caches and what else differs from core to core, by a table for each.
//!
//! The operations are single register writes to coprocessor 15, so a core's are a set of functions. The caches are
//! looked up by virtual address; everything is mapped at its own, so no line is ever known by two names.
//!
//! Sources: [FA] docs/hardware/gemini.md 1.2 to 1.4; [SA] Intel SA-1110 Developer's Manual, 278240, 5.2; [ARM] DDI 0100I
//! B6.

use core::arch::asm;
use core::ptr::addr_of;
use core::sync::atomic::{AtomicPtr, Ordering};

/// What DMA buffers are aligned to: the longest line of the cores this runs on.
pub const CACHE_LINE: usize = 32;

/// What a core can.
struct Core {
    /// Writes the lines of a range back.
    clean: unsafe fn(usize, usize),
    /// Writes them back, and forgets them.
    flush: unsafe fn(usize, usize),
    /// Forgets what is translated at an address.
    forget_translation: unsafe fn(usize),
    /// Stops until an interrupt; a core that cannot goes on.
    idle: unsafe fn(),
    /// What it wants before MMU and caches are turned on.
    prepare: unsafe fn(),
    /// Control register bits beyond those all have.
    control: u32,
}

/// Makes a function of an operation on coprocessor 15 that takes an address.
macro_rules! operation {
    ($name:ident, $($instruction:literal),+) => {
        /// # Safety
        /// As the operation: nothing may rely on what it drops.
        unsafe fn $name(address: usize) {
            // SAFETY: the caller's duty.
            unsafe { asm!($($instruction),+, in(reg) address, options(nostack, preserves_flags)) };
        }
    };
}

/// Makes a function of an operation on a data cache line, for all lines between two addresses.
macro_rules! lines {
    ($name:ident, $line:literal, $($instruction:literal),+) => {
        /// # Safety
        /// As the operation: nothing may rely on what it drops.
        unsafe fn $name(start: usize, end: usize) {
            let first = start / $line * $line;
            if first >= end {
                return;
            }
            // SAFETY: the caller's duty.
            unsafe {
                asm!(
                    "2:",
                    $($instruction,)+
                    "add {0}, {0}, #{line}",
                    "cmp {0}, {1}",
                    "blo 2b",
                    inout(reg) first => _,
                    in(reg) end,
                    line = const $line,
                    options(nostack),
                );
            }
        }
    };
}

lines!(clean_16, 16, "mcr p15, 0, {0}, c7, c10, 1");
lines!(clean_32, 32, "mcr p15, 0, {0}, c7, c10, 1");
lines!(flush_16, 16, "mcr p15, 0, {0}, c7, c14, 1");
// The SA-1110 cannot do both at once. [SA 5.2.3]
lines!(flush_32, 32, "mcr p15, 0, {0}, c7, c10, 1", "mcr p15, 0, {0}, c7, c6, 1");
operation!(forget_unified_translation, "mcr p15, 0, {0}, c8, c7, 1");
// Instructions: all of them, it has no other way. [SA 5.2.4]
operation!(forget_split_translation, "mcr p15, 0, {0}, c8, c6, 1", "mcr p15, 0, {0}, c8, c5, 0");

/// # Safety
/// None needed: an interrupt ends it even where it is masked.
unsafe fn wait() {
    // SAFETY: no effect but on time.
    unsafe { asm!("mcr p15, 0, {}, c7, c0, 4", in(reg) 0, options(nostack, preserves_flags)) };
}

/// # Safety
/// None needed.
unsafe fn go_on() {}

/// In the order in which Linux does it: instruction scratchpad invalidated, extended control register on, branch target
/// buffer invalidated, write buffer drained, prefetched instructions dropped. [FA 1.3]
///
/// # Safety
/// MMU and caches are off.
unsafe fn prepare_fa526() {
    // SAFETY: nothing of this is in use yet.
    unsafe {
        asm!(
            "mcr p15, 0, {zero}, c7, c5, 5",
            "mcr p15, 0, {one}, c1, c1, 0",
            "mcr p15, 0, {zero}, c7, c5, 6",
            "mcr p15, 0, {zero}, c7, c10, 4",
            "mcr p15, 0, {zero}, c7, c5, 4",
            zero = in(reg) 0,
            one = in(reg) 1,
            options(nostack, preserves_flags),
        );
    }
}

/// Faraday FA526. Its wait for an interrupt is not to be trusted, so it polls. [FA 1.3]
static FA526: Core = Core {
    clean: clean_16,
    flush: flush_16,
    forget_translation: forget_unified_translation,
    idle: go_on,
    prepare: prepare_fa526,
    control: 1 << 11, // branch target buffer
};

/// StrongARM as QEMU has it: the operations are the chip's, but that it waits by the operation QEMU has for cores of its
/// age, not by the SA-1110's own, which QEMU ignores.
static STRONGARM: Core = Core {
    clean: clean_32,
    flush: flush_32,
    forget_translation: forget_split_translation,
    idle: wait,
    prepare: go_on,
    control: 0,
};

/// Main identification register, and the bits of it that name an FA526. [FA 1.2]
const FA526_ID: (u32, u32) = (0x6601_5261, 0xff01_fff1);

static CORE: AtomicPtr<Core> = AtomicPtr::new(addr_of!(STRONGARM).cast_mut());

/// Looks which core this is.
pub(super) fn init() {
    let id: u32;
    // SAFETY: a read of the main identification register.
    unsafe { asm!("mrc p15, 0, {}, c0, c0, 0", out(reg) id, options(nomem, nostack)) };
    if id & FA526_ID.1 == FA526_ID.0 {
        CORE.store(addr_of!(FA526).cast_mut(), Ordering::Relaxed);
    }
}

/// Gets the core ready for MMU and caches, and says which bits of its control register are its own.
///
/// # Safety
/// They are off.
pub(super) unsafe fn prepare() -> u32 {
    // SAFETY: the caller's duty.
    unsafe { (core().prepare)() };
    core().control
}

/// This core's table.
fn core() -> &'static Core {
    // SAFETY: only ever one of the tables above.
    unsafe { &*CORE.load(Ordering::Relaxed) }
}

/// Writes dirty lines of a range back, so that a device sees what the CPU wrote.
pub fn clean_cache(start: *const u8, len: usize) {
    // SAFETY: loses nothing.
    unsafe { (core().clean)(start as usize, start as usize + len) };
    drain();
}

/// Drops the lines of a range, so that the CPU sees what a device wrote. Lines that the range shares with something else
/// are written back first; nothing in the range is dirty otherwise, which the caller's hand-over guarantees.
pub fn invalidate_cache(start: *const u8, len: usize) {
    // SAFETY: loses nothing that the CPU wrote.
    unsafe { (core().flush)(start as usize, start as usize + len) };
    drain();
}

/// Everything written so far is in memory before anything after this.
#[inline(always)]
pub(super) fn drain() {
    // SAFETY: a barrier.
    unsafe {
        asm!("mcr p15, 0, {}, c7, c10, 4", in(reg) 0, options(nostack, preserves_flags));
    }
}

/// A changed entry of the translation tables takes effect: the tables are read from memory, past the cache.
pub(super) fn translation_changed(entry: usize, address: usize) {
    // SAFETY: neither loses anything.
    unsafe {
        (core().clean)(entry, entry + 4);
        drain();
        (core().forget_translation)(address);
    }
}

/// Stops for a moment, interrupts masked.
pub(super) fn idle() {
    drain();
    // SAFETY: no effect but on time.
    unsafe { (core().idle)() };
}

/// Called with interrupts masked: waits for one, lets it in, and returns with them masked again.
#[inline]
pub fn wait_for_interrupt() {
    // The wait ends on a pending interrupt even though it is masked, so none is lost.
    idle();
    super::interrupts_restore(true);
    super::interrupts_disable();
}

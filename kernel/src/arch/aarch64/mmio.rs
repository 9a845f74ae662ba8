//! Device registers at fixed addresses.
//!
//! Written as single load and store instructions without write-back: a hypervisor must be able to
//! decode the access from the syndrome, and a compiler's volatile access promises less.

use core::arch::asm;

/// Reads a register. `base` is a mapped block, `offset` within it and aligned.
#[inline(always)]
pub(super) fn read32(base: usize, offset: usize) -> u32 {
    let value: u32;
    // SAFETY: this module's callers map their blocks first and name registers of these.
    unsafe { asm!("ldr {:w}, [{}]", out(reg) value, in(reg) base + offset, options(nostack)) };
    value
}

/// Writes a register, likewise.
#[inline(always)]
pub(super) fn write32(base: usize, offset: usize, value: u32) {
    // SAFETY: as above.
    unsafe { asm!("str {:w}, [{}]", in(reg) value, in(reg) base + offset, options(nostack)) };
}

/// Reads a 16-bit register, likewise.
#[inline(always)]
pub(super) fn read16(base: usize, offset: usize) -> u16 {
    let value: u32;
    // SAFETY: as above.
    unsafe { asm!("ldrh {:w}, [{}]", out(reg) value, in(reg) base + offset, options(nostack)) };
    value as u16
}

/// Writes a 16-bit register, likewise.
#[inline(always)]
pub(super) fn write16(base: usize, offset: usize, value: u16) {
    let value = u32::from(value);
    // SAFETY: as above.
    unsafe { asm!("strh {:w}, [{}]", in(reg) value, in(reg) base + offset, options(nostack)) };
}

/// Reads an 8-bit register, likewise.
#[inline(always)]
pub(super) fn read8(base: usize, offset: usize) -> u8 {
    let value: u32;
    // SAFETY: as above.
    unsafe { asm!("ldrb {:w}, [{}]", out(reg) value, in(reg) base + offset, options(nostack)) };
    value as u8
}

/// Writes an 8-bit register, likewise.
#[inline(always)]
pub(super) fn write8(base: usize, offset: usize, value: u8) {
    let value = u32::from(value);
    // SAFETY: as above.
    unsafe { asm!("strb {:w}, [{}]", in(reg) value, in(reg) base + offset, options(nostack)) };
}

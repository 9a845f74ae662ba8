//! Device registers at fixed addresses.
//!
//! They are mapped uncached and unbuffered, so accesses happen in the order written.

/// Reads a register. `base` is a mapped block, `offset` within it and aligned.
#[inline(always)]
pub(super) fn read32(base: usize, offset: usize) -> u32 {
    // SAFETY: this module's callers map their blocks first and name registers of these.
    unsafe { ((base + offset) as *const u32).read_volatile() }
}

/// Writes a register, likewise.
#[inline(always)]
pub(super) fn write32(base: usize, offset: usize, value: u32) {
    // SAFETY: as above.
    unsafe { ((base + offset) as *mut u32).write_volatile(value) };
}

/// Reads a 16-bit register, likewise.
#[inline(always)]
pub(super) fn read16(base: usize, offset: usize) -> u16 {
    // SAFETY: as above.
    unsafe { ((base + offset) as *const u16).read_volatile() }
}

/// Writes a 16-bit register, likewise.
#[inline(always)]
pub(super) fn write16(base: usize, offset: usize, value: u16) {
    // SAFETY: as above.
    unsafe { ((base + offset) as *mut u16).write_volatile(value) };
}

/// Reads an 8-bit register, likewise.
#[inline(always)]
pub(super) fn read8(base: usize, offset: usize) -> u8 {
    // SAFETY: as above.
    unsafe { ((base + offset) as *const u8).read_volatile() }
}

/// Writes an 8-bit register, likewise.
#[inline(always)]
pub(super) fn write8(base: usize, offset: usize, value: u8) {
    // SAFETY: as above.
    unsafe { ((base + offset) as *mut u8).write_volatile(value) };
}

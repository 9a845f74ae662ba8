//! The live translation tables.

use core::arch::asm;
use core::ops::Range;
use core::ptr::NonNull;

use super::paging::{FIRST, PAGE, SECOND, Tables};
use super::{cache, exceptions};
use crate::arch::{MapError, Protection};
use crate::boot::Image;
use crate::cell::Kernel;

static TABLES: Kernel<Option<Tables>> = Kernel::new(None);

/// Where the vectors are, so that page 0 needs none. [ARM DDI 0100I A2.6.9]
const HIGH_VECTORS: usize = 0xffff_0000;

/// Control register: MMU, alignment faults, caches, write buffer, what always is one, S (so that code can be read only),
/// instruction cache, high vectors. [docs/hardware/gemini.md 1.3; ARM B3.4.1]
const CONTROL: u32 = 0x317f;

/// Bytes of tables that can be needed for `memory` bytes of RAM in `ranges` pieces: a table for each section, so that
/// giving any page its own protection cannot fail, the first table with room to align it, and some for devices.
pub(super) fn pool_size(memory: u64, ranges: usize) -> usize {
    let sections = memory.div_ceil(1 << 20) as usize + 2 * ranges;
    (2 * FIRST + (sections + 32) * SECOND).next_multiple_of(PAGE)
}

/// Builds the final tables and makes them live: RAM read-write, the image by its parts, nothing else.
///
/// # Safety
/// Called once, by the boot code, with the MMU off. `pool` is unused RAM; `memory` is RAM, the image among it.
pub(super) unsafe fn init(memory: &[Range<usize>], pool: Range<usize>) -> Result<(), MapError> {
    let first = pool.start.next_multiple_of(FIRST);
    let words = pool.end.saturating_sub(first) / 4;
    // SAFETY: the caller vouches for the pool.
    let mut tables = unsafe { Tables::new(first as *mut u32, first as u32, words) }?;
    for range in memory {
        // The null page stays unmapped even though RAM begins there.
        tables.set(range.start.max(PAGE)..range.end, Protection::ReadWrite, false)?;
    }
    tables.set(Image::text(), Protection::ReadExecute, true)?;
    tables.set(Image::rodata(), Protection::ReadOnly, true)?;
    tables.set(Image::data(), Protection::ReadWrite, true)?;
    for guard in super::boot::stack_guards() {
        tables.set(guard, Protection::None, true)?;
    }
    tables.set_elsewhere(HIGH_VECTORS, &raw const exceptions::vectors as usize)?;
    // SAFETY: they are off.
    let control = CONTROL | unsafe { cache::prepare() };
    // SAFETY: the tables map the running code, the stack and all data in use at their own addresses. All of memory is in
    // domain 0, whose permissions are checked. Caches are empty: boot code invalidated them, and they were off since.
    unsafe {
        asm!(
            "mcr p15, 0, {zero}, c7, c10, 4",
            "mcr p15, 0, {zero}, c8, c7, 0",
            "mcr p15, 0, {root}, c2, c0, 0",
            "mcr p15, 0, {domains}, c3, c0, 0",
            "mcr p15, 0, {control}, c1, c0, 0",
            "mov r0, r0",
            "mov r0, r0",
            zero = in(reg) 0,
            root = in(reg) tables.root(),
            domains = in(reg) 1,
            control = in(reg) control,
            options(nostack, preserves_flags),
        );
    }
    tables.tell(cache::translation_changed);
    TABLES.with(|slot| *slot = Some(tables));
    Ok(())
}

/// Changes the protection of a range of pages.
pub fn protect(range: Range<usize>, protection: Protection) -> Result<(), MapError> {
    if matches!(protection, Protection::None | Protection::Uncached) {
        // What is dirty must get to memory while the cache still can be asked for it.
        cache::invalidate_cache(range.start as *const u8, range.len());
    }
    with(|tables| tables.set(range, protection, false))
}

/// Maps device registers, at their own address, and returns where they are.
pub fn map_device(physical: u64, len: usize) -> Result<NonNull<u8>, MapError> {
    let start = usize::try_from(physical).map_err(|_| MapError::BadRange)?;
    let end = start.checked_add(len).ok_or(MapError::BadRange)?;
    let end = end.checked_next_multiple_of(PAGE).ok_or(MapError::BadRange)?;
    let pages = start / PAGE * PAGE..end;
    with(|tables| tables.set(pages, Protection::Device, false))?;
    NonNull::new(start as *mut u8).ok_or(MapError::BadRange)
}

fn with(change: impl FnOnce(&mut Tables) -> Result<(), MapError>) -> Result<(), MapError> {
    TABLES.with(|tables| change(tables.as_mut().ok_or(MapError::BadRange)?))
}

/// Whether a read of the word at `address` would not fault.
pub(super) fn is_readable(address: usize) -> bool {
    TABLES
        .try_with(|tables| tables.as_ref().is_some_and(|tables| tables.lookup(address) != 0))
        .unwrap_or(false)
}

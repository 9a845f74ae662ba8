//! The live translation tables.

use core::arch::{asm, naked_asm};
use core::ops::Range;
use core::ptr::NonNull;

use super::paging::{PAGE, Tables};
use crate::arch::{MapError, Protection};
use crate::boot::Image;
use crate::cell::Kernel;

static TABLES: Kernel<Option<Tables>> = Kernel::new(None);

/// Bytes of tables that can be needed for `memory` bytes of RAM in `ranges` pieces: a last-level
/// table for each 2 MiB, so that giving any page its own protection cannot fail, the levels above,
/// and room for device mappings.
pub(super) fn pool_size(memory: u64, ranges: usize) -> usize {
    let last = memory.div_ceil(2 << 20) as usize + 2 * ranges;
    let middle = memory.div_ceil(1 << 30) as usize + 2 * ranges;
    (last + middle + 12) * PAGE
}

/// Builds the final tables and makes them live: RAM read-write, the image by its parts, nothing else.
///
/// # Safety
/// Called once, by the boot code. `pool` is unused RAM; `memory` is RAM, the image among it.
pub(super) unsafe fn init(memory: &[Range<usize>], pool: Range<usize>) -> Result<(), MapError> {
    let build = || {
        // SAFETY: the caller vouches for the pool.
        let mut tables = unsafe { Tables::new(pool.clone(), write) }?;
        for range in memory {
            // The null page stays unmapped even where RAM begins at zero.
            let range = range.start.max(PAGE)..range.end;
            tables.set(range, Protection::ReadWrite, usize::MAX)?;
        }
        // By pages: `replace` writes to the tables while a larger block is unmapped, so no block
        // that may be split can hold them.
        tables.set(pool.clone(), Protection::ReadWrite, PAGE)?;
        tables.set(Image::text(), Protection::ReadExecute, PAGE)?;
        tables.set(Image::rodata(), Protection::ReadOnly, PAGE)?;
        tables.set(Image::data(), Protection::ReadWrite, PAGE)?;
        for guard in super::boot::stack_guards() {
            tables.set(guard, Protection::None, PAGE)?;
        }
        Ok(tables)
    };
    let mut tables: Tables = build()?;
    tables.commit_with(replace);
    // SAFETY: the tables map the running code, the stack and all data in use at their own addresses.
    unsafe { switch_tables(tables.root()) };
    TABLES.with(|slot| *slot = Some(tables));
    Ok(())
}

/// Changes an entry of tables that are not in use.
unsafe fn write(entry: *mut u64, value: u64, _address: usize) {
    // SAFETY: the caller passes an entry of its tables.
    unsafe { entry.write_volatile(value) };
}

/// Changes an entry of the live tables: break, flush, make. [ARM D8.16.1]
///
/// Between break and make the range is not mapped, and it may hold the running stack: so no memory
/// is touched but the entry itself, which lies in a page of its own (see [`init`]).
#[unsafe(naked)]
unsafe extern "C" fn replace_entry(entry: *mut u64, value: u64, page: usize) {
    naked_asm!(
        "mrs x3, daif",
        "msr daifset, #15",
        "str xzr, [x0]",
        "dsb ish",
        "tlbi vaae1is, x2",
        "dsb ish",
        "str x1, [x0]",
        "dsb ish",
        "isb",
        "msr daif, x3",
        "ret",
    )
}

unsafe fn replace(entry: *mut u64, value: u64, address: usize) {
    // SAFETY: the caller passes an entry of the live tables and an address it translates; TLBI takes
    // bits 55:12 of that. A block's stale entry is found by any address within it.
    unsafe { replace_entry(entry, value, address >> 12) };
}

/// Loads `TTBR0_EL1` with the MMU off in between: the old and the new tables map the same addresses
/// with different block sizes, which must not meet in a TLB. [ARM D8.16.1]
#[unsafe(naked)]
unsafe extern "C" fn switch_tables(root: usize) {
    naked_asm!(
        "dsb ish",
        "mrs x1, sctlr_el1",
        "bic x2, x1, #1",
        "msr sctlr_el1, x2",
        "isb",
        "msr ttbr0_el1, x0",
        "isb",
        "tlbi vmalle1",
        "dsb nsh",
        "isb",
        "orr x1, x1, #1",
        // From here on nothing writable can be executed, whatever the tables say (SCTLR_EL1.WXN).
        "orr x1, x1, #(1 << 19)",
        "msr sctlr_el1, x1",
        "isb",
        "ret",
    )
}

/// Changes the protection of a range of pages.
pub fn protect(range: Range<usize>, protection: Protection) -> Result<(), MapError> {
    with(|tables| tables.set(range, protection, usize::MAX))
}

/// Maps device registers, at their own address, and returns where they are.
pub fn map_device(physical: u64, len: usize) -> Result<NonNull<u8>, MapError> {
    let start = usize::try_from(physical).map_err(|_| MapError::BadRange)?;
    let end = start.checked_add(len).ok_or(MapError::BadRange)?;
    let end = end.checked_next_multiple_of(PAGE).ok_or(MapError::BadRange)?;
    let pages = start / PAGE * PAGE..end;
    with(|tables| tables.set(pages, Protection::Device, usize::MAX))?;
    NonNull::new(start as *mut u8).ok_or(MapError::BadRange)
}

fn with(change: impl FnOnce(&mut Tables) -> Result<(), MapError>) -> Result<(), MapError> {
    TABLES.with(|tables| change(tables.as_mut().ok_or(MapError::BadRange)?))
}

/// Whether a read of the 8 bytes at `address` would fault: asked of the CPU, so it is safe anywhere.
pub(super) fn is_readable(address: usize) -> bool {
    let result: u64;
    // SAFETY: an address translation has no effect but on PAR_EL1. [ARM C5.5]
    unsafe {
        asm!("at s1e1r, {}", "isb", "mrs {}, par_el1", in(reg) address, lateout(reg) result,
            options(nostack, preserves_flags));
    }
    result & 1 == 0
}

//! Page tables: one to one, writable or executable but never both, the null page and the guard pages
//! absent. Blocks of 1 GiB (if the CPU has them) and 2 MiB where a range allows, 4 KiB elsewhere.

use core::arch::x86_64::__cpuid;
use core::ops::Range;
use core::ptr::NonNull;
use core::sync::atomic::{AtomicPtr, Ordering};

use x86_64::VirtAddr;
use x86_64::instructions::tlb;

use crate::arch::{MapError, Protection};
use crate::boot::Image;
use crate::memory::{self, PAGE};

const PRESENT: u64 = 1;
const WRITABLE: u64 = 1 << 1;
const WRITE_THROUGH: u64 = 1 << 3;
const CACHE_DISABLE: u64 = 1 << 4;
const BLOCK: u64 = 1 << 7;
const NO_EXECUTE: u64 = 1 << 63;
const ADDRESS: u64 = 0x000f_ffff_ffff_f000;
/// What four levels reach in the lower half.
const LIMIT: usize = 1 << 47;

/// The top table; null until [`initialize`].
static ROOT: AtomicPtr<u64> = AtomicPtr::new(core::ptr::null_mut());

fn bits(protection: Protection) -> u64 {
    match protection {
        Protection::None => 0,
        Protection::ReadOnly => PRESENT | NO_EXECUTE,
        Protection::ReadWrite => PRESENT | WRITABLE | NO_EXECUTE,
        Protection::ReadExecute => PRESENT,
        Protection::Device | Protection::Uncached => {
            PRESENT | WRITABLE | CACHE_DISABLE | WRITE_THROUGH | NO_EXECUTE
        }
    }
}

/// CPUID 8000_0001h, EDX bit 26: 1 GiB pages.
fn has_gigabyte_blocks() -> bool {
    __cpuid(0x8000_0000).eax >= 0x8000_0001 && __cpuid(0x8000_0001).edx & 1 << 26 != 0
}

/// Builds the final tables over these ranges of memory and switches to them.
pub fn initialize(ranges: impl Iterator<Item = Range<usize>>) -> Result<(), MapError> {
    let root = memory::page().ok_or(MapError::NoMemory)?;
    ROOT.store(root.as_ptr().cast(), Ordering::Relaxed);
    let text = Image::text();
    let rodata = Image::rodata();
    // Firmware's leavings, ACPI's root pointer among them; less the null page.
    set(PAGE..1 << 20, bits(Protection::ReadWrite))?;
    for range in ranges {
        let start = range.start.max(1 << 20) & !(PAGE - 1);
        let end = range.end.min(LIMIT).next_multiple_of(PAGE);
        if start < end {
            set(start..end, bits(Protection::ReadWrite))?;
        }
    }
    set(text.start..text.end.next_multiple_of(PAGE), bits(Protection::ReadExecute))?;
    set(rodata.start..rodata.end.next_multiple_of(PAGE), bits(Protection::ReadOnly))?;
    // SAFETY: the new tables map the running code executable and everything in use, one to one as before.
    unsafe {
        core::arch::asm!("mov cr3, {}", in(reg) root.as_ptr(), options(nostack, preserves_flags));
    }
    Ok(())
}

/// Changes what a range of pages may be used for.
pub fn protect(range: Range<usize>, protection: Protection) -> Result<(), MapError> {
    let aligned = range.start.is_multiple_of(PAGE) && range.end.is_multiple_of(PAGE);
    if !aligned || range.end > LIMIT || range.start == 0 {
        return Err(MapError::BadRange);
    }
    set(range.clone(), bits(protection))?;
    if range.len() > 64 * PAGE {
        tlb::flush_all();
    } else {
        for page in range.step_by(PAGE) {
            tlb::flush(VirtAddr::new(page as u64));
        }
    }
    Ok(())
}

/// Maps device registers at their physical address.
pub fn map_device(physical: u64, len: usize) -> Result<NonNull<u8>, MapError> {
    let start = usize::try_from(physical).map_err(|_| MapError::BadRange)?;
    let end = start.checked_add(len).ok_or(MapError::BadRange)?;
    protect(start & !(PAGE - 1)..end.next_multiple_of(PAGE), Protection::Device)?;
    NonNull::new(core::ptr::with_exposed_provenance_mut(start)).ok_or(MapError::BadRange)
}

fn set(range: Range<usize>, bits: u64) -> Result<(), MapError> {
    let root = NonNull::new(ROOT.load(Ordering::Relaxed)).ok_or(MapError::BadRange)?;
    set_in(root, 4, range, bits)
}

/// Sets a range in a table of some level (4 is the top; an entry of level 1 is a page).
fn set_in(table: NonNull<u64>, level: u32, range: Range<usize>, bits: u64) -> Result<(), MapError> {
    let span = PAGE << (9 * (level - 1));
    let mut start = range.start;
    while start < range.end {
        let end = range.end.min((start | (span - 1)) + 1);
        let index = start / span % 512;
        // SAFETY: a table has 512 entries.
        let entry = unsafe { table.add(index) };
        let whole = end - start == span;
        if whole && (level <= 2 || level == 3 && has_gigabyte_blocks()) {
            let block = if level > 1 && bits != 0 { BLOCK } else { 0 };
            // A table that hung here would be lost; nobody changes ranges that large twice.
            // SAFETY: an entry of a live table; interrupts do not read tables, the CPU reads whole words.
            unsafe {
                entry.write_volatile(if bits == 0 { 0 } else { start as u64 | bits | block })
            };
        } else {
            set_in(child(entry, level, span)?, level - 1, start..end, bits)?;
        }
        start = end;
    }
    Ok(())
}

/// The table an entry of level 2 to 4 points to; made, or made of a block, if there is none.
fn child(entry: NonNull<u64>, level: u32, span: usize) -> Result<NonNull<u64>, MapError> {
    // SAFETY: an entry of a live table.
    let old = unsafe { entry.read_volatile() };
    if old & PRESENT != 0 && old & BLOCK == 0 {
        return NonNull::new((old & ADDRESS) as *mut u64).ok_or(MapError::BadRange);
    }
    let table: NonNull<u64> = memory::page().ok_or(MapError::NoMemory)?.cast();
    if old & PRESENT != 0 {
        let step = (span / 512) as u64;
        let keep = if level - 1 > 1 { old } else { old & !BLOCK };
        for index in 0..512u64 {
            // SAFETY: a fresh page holds 512 entries.
            unsafe { table.add(index as usize).write(keep + index * step) };
        }
    }
    // SAFETY: as above; the table is complete before it is hung in.
    unsafe { entry.write_volatile(table.as_ptr() as u64 | PRESENT | WRITABLE) };
    Ok(table)
}

//! Translation tables, 4 KiB granule, 48-bit addresses: arithmetic and table walking.
//!
//! Everything is mapped at its own address. Nothing in this file touches the CPU, so the host tests
//! it; what must happen to the CPU when an entry changes is the `commit` function given at the start.
//!
//! Source: [ARM] Arm Architecture Reference Manual DDI 0487, section D8.3 (descriptors) and D8.14
//! (attributes); issue K.a.

use core::ops::Range;

use crate::arch::{MapError, Protection};

/// Bytes of the smallest mapping, and of a table.
pub(crate) const PAGE: usize = 4096;
const ENTRIES: usize = 512;

/// Descriptor bits. [ARM D8.3.2]
const VALID: u64 = 1;
/// In levels 0 to 2 a table, in level 3 a page (a block has it clear).
const TABLE_OR_PAGE: u64 = 1 << 1;
const READ_ONLY: u64 = 1 << 7;
const INNER_SHAREABLE: u64 = 3 << 8;
const ACCESSED: u64 = 1 << 10;
const PRIVILEGED_NO_EXECUTE: u64 = 1 << 53;
const USER_NO_EXECUTE: u64 = 1 << 54;
const ADDRESS: u64 = 0x0000_ffff_ffff_f000;

/// `MAIR_EL1`: Device-nGnRE, Normal write-back, Normal non-cacheable. [ARM D24.2.109]
pub(crate) const MEMORY_ATTRIBUTES: u64 = 0x04 | 0xff << 8 | 0x44 << 16;
const DEVICE: u64 = 0 << 2;
const CACHED: u64 = 1 << 2;
const UNCACHED: u64 = 2 << 2;

/// Bytes an entry of a level covers.
const fn span(level: usize) -> usize {
    PAGE << (9 * (3 - level))
}

/// The attributes of a block or page; 0 is no mapping.
pub(crate) const fn attributes(protection: Protection) -> u64 {
    let data = VALID | ACCESSED | USER_NO_EXECUTE;
    match protection {
        Protection::None => 0,
        Protection::ReadOnly => data | CACHED | INNER_SHAREABLE | READ_ONLY | PRIVILEGED_NO_EXECUTE,
        Protection::ReadWrite => data | CACHED | INNER_SHAREABLE | PRIVILEGED_NO_EXECUTE,
        Protection::ReadExecute => data | CACHED | INNER_SHAREABLE | READ_ONLY,
        Protection::Device => data | DEVICE | PRIVILEGED_NO_EXECUTE,
        Protection::Uncached => data | UNCACHED | INNER_SHAREABLE | PRIVILEGED_NO_EXECUTE,
    }
}

/// Replaces the entry at the address by the value; the last argument is an address it translates.
///
/// # Safety
/// The entry is one of the live table's or of a table not yet in use.
pub(crate) type Commit = unsafe fn(entry: *mut u64, value: u64, address: usize);

/// A tree of tables.
pub(crate) struct Tables {
    root: *mut u64,
    /// Memory for further tables.
    pool: Range<usize>,
    commit: Commit,
}

// SAFETY: the pointer is to memory that only this value uses.
unsafe impl Send for Tables {}

impl Tables {
    /// Starts an empty tree, whose tables are made in `pool` (whole pages).
    ///
    /// # Safety
    /// `pool` is writable memory that nothing else uses, now or later.
    pub(crate) unsafe fn new(pool: Range<usize>, commit: Commit) -> Result<Tables, MapError> {
        let mut tables = Tables { root: core::ptr::null_mut(), pool, commit };
        tables.root = tables.allocate()?;
        Ok(tables)
    }

    /// From here on changes are made by `commit`.
    pub(crate) fn commit_with(&mut self, commit: Commit) {
        self.commit = commit;
    }

    /// Address of the root table.
    pub(crate) fn root(&self) -> usize {
        self.root as usize
    }

    /// Maps a range of pages at their own addresses, or takes the mapping away (`Protection::None`),
    /// whatever was there before. `largest` limits the size of blocks, in bytes.
    ///
    /// On an error part of the range may have changed.
    pub(crate) fn set(
        &mut self,
        range: Range<usize>,
        protection: Protection,
        largest: usize,
    ) -> Result<(), MapError> {
        let aligned = range.start.is_multiple_of(PAGE) && range.end.is_multiple_of(PAGE);
        if !aligned || range.end > 1 << 48 || range.start > range.end {
            return Err(MapError::BadRange);
        }
        self.set_in(self.root, 0, range, attributes(protection), largest)
    }

    fn set_in(
        &mut self,
        table: *mut u64,
        level: usize,
        range: Range<usize>,
        attributes: u64,
        largest: usize,
    ) -> Result<(), MapError> {
        let span = span(level);
        let mut at = range.start;
        while at < range.end {
            let next = (at / span + 1) * span;
            let end = next.min(range.end);
            // SAFETY: the index is below 512, and a table has so many entries.
            let entry = unsafe { table.add(at / span % ENTRIES) };
            // SAFETY: as above; the memory is ours.
            let old = unsafe { entry.read_volatile() };
            let whole = at.is_multiple_of(span) && end == next;
            // A leaf at this level. Level 0 has none; a table that is already there stays, as its
            // memory could not be used again (and it would be split again soon: stacks).
            let leaf = level == 3
                || level != 0 && whole && span <= largest && !is_table(old)
                || attributes == 0 && old == 0;
            if leaf {
                let kind = if level == 3 { TABLE_OR_PAGE } else { 0 };
                let new = match attributes {
                    0 => 0,
                    _ => at as u64 | attributes | kind,
                };
                if new != old {
                    // SAFETY: an entry of our tables.
                    unsafe { (self.commit)(entry, new, at) };
                }
            } else {
                let lower = if is_table(old) {
                    (old & ADDRESS) as *mut u64
                } else {
                    self.split(entry, old, level, at)?
                };
                self.set_in(lower, level + 1, at..end, attributes, largest)?;
            }
            at = end;
        }
        Ok(())
    }

    /// Puts a table in place of an empty entry or a block, translating what the block did.
    fn split(
        &mut self,
        entry: *mut u64,
        old: u64,
        level: usize,
        address: usize,
    ) -> Result<*mut u64, MapError> {
        let table = self.allocate()?;
        if old != 0 {
            let kind = if level + 1 == 3 { TABLE_OR_PAGE } else { 0 };
            for index in 0..ENTRIES {
                let part = old + (index * span(level + 1)) as u64;
                // SAFETY: within the new table, which nobody else sees yet.
                unsafe { table.add(index).write_volatile(part | kind) };
            }
        }
        // SAFETY: an entry of our tables.
        unsafe { (self.commit)(entry, table as u64 | VALID | TABLE_OR_PAGE, address) };
        Ok(table)
    }

    fn allocate(&mut self) -> Result<*mut u64, MapError> {
        if self.pool.len() < PAGE {
            return Err(MapError::NoMemory);
        }
        let table = self.pool.start as *mut u64;
        self.pool.start += PAGE;
        // SAFETY: a page of the pool, which is ours by the contract of `new`.
        unsafe { table.write_bytes(0, ENTRIES) };
        Ok(table)
    }
}

#[cfg(test)]
impl Tables {
    /// The descriptor that translates `address` and the level it was found at.
    pub(crate) fn lookup(&self, address: usize) -> Option<(u64, usize)> {
        let mut table = self.root;
        for level in 0..4 {
            // SAFETY: the index is below 512, and the table is one of ours.
            let entry = unsafe { table.add(address / span(level) % ENTRIES).read_volatile() };
            if entry & VALID == 0 {
                return None;
            }
            if level == 3 || !is_table(entry) {
                return Some((entry, level));
            }
            table = (entry & ADDRESS) as *mut u64;
        }
        None
    }

    /// Whether `address` is mapped.
    pub(crate) fn is_mapped(&self, address: usize) -> bool {
        address < 1 << 48 && self.lookup(address).is_some()
    }
}

/// Only asked of levels 0 to 2, where both bits mean a table.
fn is_table(entry: u64) -> bool {
    entry & (VALID | TABLE_OR_PAGE) == VALID | TABLE_OR_PAGE
}

#[cfg(test)]
mod tests;

//! Translation tables: arithmetic and table walking.
//!
//! Nothing in this file touches the CPU, so the host tests it; what must happen to the CPU when an entry changes is the
//! `changed` function given at the start.
//!
//! A section of 1 MiB is mapped as a whole where its pages are alike, else through a table of its 256 pages. There is no
//! execute-never: [`Protection::ReadOnly`] is the same as [`Protection::ReadExecute`], and data can be executed.
//!
//! Source: [ARM] Arm Architecture Reference Manual DDI 0100I, B4.7 (tables), B4.3 (access permissions, with S set in the
//! control register), B4.4.1 (C and B); [FA] docs/hardware/gemini.md 1.2: bit 4 of a section must be set.

use core::ops::Range;

use crate::arch::{MapError, Protection};

/// Bytes of the smallest mapping.
pub(crate) const PAGE: usize = 4096;
const SECTION: usize = 1 << 20;
/// The first table: an entry for each section of 4 GiB.
const SECTIONS: usize = 4096;
/// A second table: an entry for each page of a section.
const PAGES: usize = SECTION / PAGE;
/// Bytes of the first table, and what it is aligned to; bytes of a second.
pub(crate) const FIRST: usize = 4 * SECTIONS;
pub(crate) const SECOND: usize = 4 * PAGES;

/// Descriptors. [ARM B4.7.4, B4.7.7]
const KIND: u32 = 0b11;
const TABLE: u32 = 0b01;
const WHOLE_SECTION: u32 = 0b10;
const SMALL_PAGE: u32 = 0b10;
const MUST_BE_ONE: u32 = 1 << 4;
const BUFFERED: u32 = 1 << 2;
const CACHED: u32 = 1 << 3;
/// Access permissions of a section; a page has four fields, one for each quarter.
const SECTION_ACCESS: u32 = 10;
const PAGE_ACCESS: [u32; 4] = [4, 6, 8, 10];
/// 01: privileged code reads and writes. 00: it reads, as S is set.
const READ_WRITE: u32 = 0b01;
const READ_ONLY: u32 = 0b00;

/// Access permissions and memory type; `None` is no mapping.
fn attributes(protection: Protection) -> Option<(u32, u32)> {
    match protection {
        Protection::None => None,
        Protection::ReadOnly | Protection::ReadExecute => Some((READ_ONLY, CACHED | BUFFERED)),
        Protection::ReadWrite => Some((READ_WRITE, CACHED | BUFFERED)),
        Protection::Device => Some((READ_WRITE, 0)),
        // Writes wait in the write buffer until a barrier drains it.
        Protection::Uncached => Some((READ_WRITE, BUFFERED)),
    }
}

fn section(address: usize, protection: Protection) -> u32 {
    attributes(protection).map_or(0, |(access, kind)| {
        address as u32 | access << SECTION_ACCESS | kind | MUST_BE_ONE | WHOLE_SECTION
    })
}

fn page(address: usize, protection: Protection) -> u32 {
    attributes(protection).map_or(0, |(access, kind)| {
        let access = PAGE_ACCESS.iter().fold(0, |all, shift| all | access << shift);
        address as u32 | access | kind | SMALL_PAGE
    })
}

/// Called after the entry at the first address has changed; the second is one that it translates.
pub(crate) type Changed = fn(entry: usize, address: usize);

/// The tables.
pub(crate) struct Tables {
    /// The memory they are in, by words; the first table is its beginning.
    memory: *mut u32,
    /// The address of that memory, as the CPU reads it.
    address: u32,
    /// Words in use, and words there are.
    used: usize,
    words: usize,
    changed: Changed,
}

// SAFETY: the pointer is to memory that only this value uses.
unsafe impl Send for Tables {}

impl Tables {
    /// Starts tables that map nothing, in `words` words of memory at `address` (aligned to [`FIRST`]).
    ///
    /// # Safety
    /// `memory` is writable, and nothing else uses it, now or later.
    pub(crate) unsafe fn new(
        memory: *mut u32,
        address: u32,
        words: usize,
    ) -> Result<Tables, MapError> {
        if !(address as usize).is_multiple_of(FIRST) || words < SECTIONS {
            return Err(MapError::BadRange);
        }
        // SAFETY: the caller vouches for so many words.
        unsafe { memory.write_bytes(0, SECTIONS) };
        Ok(Tables { memory, address, used: SECTIONS, words, changed: |_, _| () })
    }

    /// From here on `changed` is told of every change.
    pub(crate) fn tell(&mut self, changed: Changed) {
        self.changed = changed;
    }

    /// Address of the first table.
    pub(crate) fn root(&self) -> u32 {
        self.address
    }

    /// Maps a range of pages at their own addresses, or takes the mapping away ([`Protection::None`]), whatever was there
    /// before. With `by_pages` it is never mapped by whole sections.
    ///
    /// On an error part of the range may have changed.
    pub(crate) fn set(
        &mut self,
        range: Range<usize>,
        protection: Protection,
        by_pages: bool,
    ) -> Result<(), MapError> {
        let aligned = range.start.is_multiple_of(PAGE) && range.end.is_multiple_of(PAGE);
        if !aligned || range.start > range.end || range.end > u32::MAX as usize {
            return Err(MapError::BadRange);
        }
        let mut at = range.start;
        while at < range.end {
            let next = at - at % SECTION + SECTION;
            let old = self.read(at / SECTION);
            // A table that is there stays: its memory could not be used again, and it would be split again soon (stacks).
            if at.is_multiple_of(SECTION) && next <= range.end && !by_pages && old & KIND != TABLE {
                self.write(at / SECTION, section(at, protection), at);
                at = next;
                continue;
            }
            let table = self.table(at)?;
            let end = next.min(range.end);
            while at < end {
                self.write(table + at % SECTION / PAGE, page(at, protection), at);
                at += PAGE;
            }
        }
        Ok(())
    }

    /// Maps the page at `physical` at another address, read-only.
    pub(crate) fn set_elsewhere(
        &mut self,
        address: usize,
        physical: usize,
    ) -> Result<(), MapError> {
        if !address.is_multiple_of(PAGE) || !physical.is_multiple_of(PAGE) {
            return Err(MapError::BadRange);
        }
        let table = self.table(address)?;
        let entry = page(physical, Protection::ReadExecute);
        self.write(table + address % SECTION / PAGE, entry, address);
        Ok(())
    }

    /// The second table for the section of an address, made if need be: its first word.
    fn table(&mut self, address: usize) -> Result<usize, MapError> {
        let old = self.read(address / SECTION);
        if old & KIND == TABLE {
            return Ok(((old & !0x3ff) - self.address) as usize / 4);
        }
        let table = self.used;
        if table + PAGES > self.words {
            return Err(MapError::NoMemory);
        }
        self.used += PAGES;
        // A section's pages are what it was: the fields of a section say the same as those of a page.
        let access = PAGE_ACCESS.iter().fold(0, |all, at| all | (old >> SECTION_ACCESS & 3) << at);
        let alike = access | old & (CACHED | BUFFERED) | SMALL_PAGE;
        let base = address - address % SECTION;
        for index in 0..PAGES {
            let entry = if old & KIND == 0 { 0 } else { (base + index * PAGE) as u32 | alike };
            self.write(table + index, entry, base + index * PAGE);
        }
        let entry = (self.address + 4 * table as u32) | MUST_BE_ONE | TABLE;
        self.write(address / SECTION, entry, address);
        Ok(table)
    }

    /// The descriptor that translates an address; 0: it is not mapped.
    pub(crate) fn lookup(&self, address: usize) -> u32 {
        let first = self.read(address / SECTION);
        if first & KIND != TABLE {
            return first;
        }
        let table = ((first & !0x3ff) - self.address) as usize / 4;
        self.read(table + address % SECTION / PAGE)
    }

    fn read(&self, word: usize) -> u32 {
        assert!(word < self.words);
        // SAFETY: within the memory, which is ours.
        unsafe { self.memory.add(word).read_volatile() }
    }

    fn write(&mut self, word: usize, value: u32, address: usize) {
        assert!(word < self.words);
        // SAFETY: within the memory, which is ours.
        unsafe { self.memory.add(word).write_volatile(value) };
        (self.changed)(self.address as usize + 4 * word, address);
    }
}

#[cfg(test)]
mod tests;

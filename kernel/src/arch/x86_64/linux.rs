//! `struct boot_params`, which loaders of the Linux/x86 boot protocol hand over: one page, read by offsets.
//!
//! Touches no machine. Sources: [BOOT] Linux `Documentation/arch/x86/boot.rst`; [ZERO] `zero-page.rst` beside it; the
//! E820 table's entries: ACPI specification 6.5, table 15.3.

use core::ops::Range;

/// One entry of the memory map.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Region {
    /// Its first byte.
    pub address: u64,
    /// In bytes.
    pub size: u64,
    /// As E820 has it: 1 is RAM, 3 ACPI tables, 4 ACPI's own.
    pub kind: u32,
}

/// The size of the structure, in bytes.
pub(super) const SIZE: usize = 4096;
/// Bytes of an entry of the map.
const ENTRY: usize = 20;
/// Entries the structure has room for.
const ENTRIES: usize = 128;

/// What was handed over.
pub(super) struct BootParameters<'a>(pub &'a [u8; SIZE]);

impl BootParameters<'_> {
    fn word(&self, at: usize) -> u32 {
        u32::from_le_bytes([self.0[at], self.0[at + 1], self.0[at + 2], self.0[at + 3]])
    }

    fn long(&self, at: usize) -> u64 {
        u64::from(self.word(at)) | u64::from(self.word(at + 4)) << 32
    }

    /// Whether this is the structure: the header's magic number is copied along with it. [BOOT]
    pub(super) fn is_valid(&self) -> bool {
        &self.0[0x202..0x206] == b"HdrS"
    }

    /// The memory map. [ZERO: e820_entries, e820_table]
    pub(super) fn map(&self) -> impl Iterator<Item = Region> {
        let count = usize::from(self.0[0x1e8]).min(ENTRIES);
        (0..count).map(|index| {
            let at = 0x2d0 + ENTRY * index;
            Region { address: self.long(at), size: self.long(at + 8), kind: self.word(at + 16) }
        })
    }

    /// Where the boot arguments are; 0 if there are none. [BOOT: cmd_line_ptr; ZERO: ext_cmd_line_ptr]
    pub(super) fn command_line(&self) -> u64 {
        u64::from(self.word(0x228)) | u64::from(self.word(0xc8)) << 32
    }

    /// The initial RAM disk. [BOOT: ramdisk_image, ramdisk_size; ZERO: ext_ramdisk_image, ext_ramdisk_size]
    pub(super) fn initrd(&self) -> Option<Range<usize>> {
        let start = u64::from(self.word(0x218)) | u64::from(self.word(0xc0)) << 32;
        let size = u64::from(self.word(0x21c)) | u64::from(self.word(0xc4)) << 32;
        let end = start.checked_add(size)?;
        (start != 0 && size != 0).then_some(start as usize..end as usize)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn put(page: &mut [u8; SIZE], at: usize, bytes: &[u8]) {
        page[at..at + bytes.len()].copy_from_slice(bytes);
    }

    #[test]
    fn fields_are_where_the_protocol_has_them() {
        let mut page = [0; SIZE];
        assert!(!BootParameters(&page).is_valid());
        assert_eq!(BootParameters(&page).initrd(), None);
        put(&mut page, 0x202, b"HdrS");
        page[0x1e8] = 2;
        put(&mut page, 0x2d0, &0u64.to_le_bytes());
        put(&mut page, 0x2d8, &0x9_fc00u64.to_le_bytes());
        put(&mut page, 0x2e0, &1u32.to_le_bytes());
        put(&mut page, 0x2e4, &0x1_0000_0000u64.to_le_bytes());
        put(&mut page, 0x2ec, &0x8000_0000u64.to_le_bytes());
        put(&mut page, 0x2f4, &1u32.to_le_bytes());
        put(&mut page, 0x228, &0x9_8000u32.to_le_bytes());
        put(&mut page, 0x218, &0x7000_0000u32.to_le_bytes());
        put(&mut page, 0x21c, &0x1234u32.to_le_bytes());
        put(&mut page, 0xc0, &1u32.to_le_bytes());
        let parameters = BootParameters(&page);
        assert!(parameters.is_valid());
        assert!(parameters.map().eq([
            Region { address: 0, size: 0x9_fc00, kind: 1 },
            Region { address: 0x1_0000_0000, size: 0x8000_0000, kind: 1 },
        ]));
        assert_eq!(parameters.command_line(), 0x9_8000);
        assert_eq!(parameters.initrd(), Some(0x1_7000_0000..0x1_7000_1234));
    }

    #[test]
    fn nonsense_does_no_harm() {
        let parameters = BootParameters(&[0xff; SIZE]);
        assert_eq!(parameters.map().count(), ENTRIES);
        assert_eq!(parameters.initrd(), None, "it would end beyond the address space");
    }
}

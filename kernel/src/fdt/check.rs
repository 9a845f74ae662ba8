//! Whether a blob is a device tree all the way through, so that nothing that reads it runs into what it cannot read.
//!
//! `dtoolkit` has such a check, which also refuses names of more than 31 characters and other names than [DT 2.2.1] and
//! [DT 2.2.4] allow. Compilers and Linux take them: trees compiled with `-@` have a property in `__symbols__` named by each
//! label, whatever its length. A board must not stay dark for that.

use dtoolkit::fdt::Fdt;

use super::cell_at;

/// Tokens of the structure. [DT 5.4.1]
const BEGIN_NODE: u32 = 1;
const END_NODE: u32 = 2;
const PROP: u32 = 3;
const NOP: u32 = 4;
const END: u32 = 9;

/// Bytes of the header, and the version this is. [DT 5.2]
const HEADER: usize = 40;
const VERSION: u32 = 17;

/// The tree in `blob`, if it is one in every part.
pub(super) fn checked(blob: &[u8]) -> Option<Fdt<'_>> {
    let field = |index| Some(cell_at(blob, index)? as usize);
    let (structure, strings, reservations) = (field(2)?, field(3)?, field(4)?);
    let versions = cell_at(blob, 6)?..=cell_at(blob, 5)?;
    if field(1)? != blob.len() || !versions.contains(&VERSION) {
        return None;
    }
    if reservations < HEADER || !reservations.is_multiple_of(8) || !structure.is_multiple_of(4) {
        return None;
    }
    let names = blob.get(strings..strings.checked_add(field(8)?)?)?;
    let end = structure.checked_add(field(9)?)?;
    if end > strings || !end_is_marked(blob.get(reservations..structure)?) {
        return None;
    }
    // From the blob's start, since what is aligned is so to that.
    check_structure(blob.get(..end)?, structure, names)?;
    Some(Fdt::new_unchecked(blob))
}

/// Reservations end with one of nothing at address zero. [DT 5.3]
fn end_is_marked(reservations: &[u8]) -> bool {
    reservations.chunks_exact(16).any(|entry| entry == [0; 16])
}

/// Goes through the structure, which begins at `at`. [DT 5.4]
fn check_structure(blob: &[u8], mut at: usize, names: &[u8]) -> Option<()> {
    let mut depth = 0usize;
    // Properties come before all children.
    let mut properties = false;
    loop {
        let token = cell_at(blob, at / 4)?;
        at += 4;
        match token {
            BEGIN_NODE => {
                let name = text_at(blob, at)?;
                // The root has no name, and it is the only one.
                if name.is_empty() != (depth == 0) {
                    return None;
                }
                at = (at + name.len() + 1).next_multiple_of(4);
                (depth, properties) = (depth + 1, true);
            }
            END_NODE => {
                (depth, properties) = (depth.checked_sub(1)?, false);
                if depth == 0 {
                    // `dtoolkit` reads no further.
                    return (cell_at(blob, at / 4)? == END).then_some(());
                }
            }
            PROP if properties => {
                let (length, name) = (cell_at(blob, at / 4)?, cell_at(blob, at / 4 + 1)?);
                text_at(names, name as usize)?;
                let end = at.checked_add(8)?.checked_add(length as usize)?;
                blob.get(..end)?;
                at = end.checked_next_multiple_of(4)?;
            }
            NOP => {}
            _ => return None,
        }
    }
}

/// The string at an offset. It ends in a zero byte.
fn text_at(bytes: &[u8], at: usize) -> Option<&str> {
    let bytes = bytes.get(at..)?;
    let length = bytes.iter().position(|&byte| byte == 0)?;
    core::str::from_utf8(&bytes[..length]).ok()
}

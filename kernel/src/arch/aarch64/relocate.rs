//! Applying the image's own relocations.
//!
//! The linker script asks for RELR, the compact form of relative relocations, and for nothing else.
//! [RELR] "Proposal for a new section type SHT_RELR", generic-abi, 2017; ELF gABI 4.3.
//!
//! An even entry is the address of a word to relocate and starts a run; an odd one is a bitmap: bit
//! `n` (from 1) stands for the `n`th word after the last one covered, 63 words in all.

/// Calls `word` with the (link) address of each word to relocate.
fn each_word(table: impl Iterator<Item = u64>, mut word: impl FnMut(u64)) {
    let mut next = 0u64;
    for entry in table {
        if entry & 1 == 0 {
            word(entry);
            next = entry.wrapping_add(8);
        } else {
            let mut bits = entry >> 1;
            let mut at = next;
            while bits != 0 {
                let skip = bits.trailing_zeros();
                at = at.wrapping_add(8 * u64::from(skip));
                word(at);
                at = at.wrapping_add(8);
                bits = bits >> skip >> 1;
            }
            next = next.wrapping_add(63 * 8);
        }
    }
}

/// Relocates the image, linked at zero and loaded at `base`, by the table from `start` to `end`.
///
/// Runs before anything is relocated: it may use no table of pointers, and does not. (The addresses of
/// the table come from its caller in assembly: the compiler would look them up in such a table.)
#[cfg(target_os = "hermit")]
pub(super) extern "C" fn relocate_image(base: u64, start: *const u64, end: *const u64) {
    let count = (end as usize - start as usize) / 8;
    // SAFETY: the linker put the table there.
    let table = (0..count).map(|index| unsafe { start.add(index).read() });
    each_word(table, |address| {
        let word = (base + address) as *mut u64;
        // SAFETY: the linker says that a pointer relative to the image is there, and the early map
        // has it writable.
        unsafe { word.write(word.read().wrapping_add(base)) };
    });
}

#[cfg(test)]
mod tests {
    use super::each_word;

    fn words(table: &[u64]) -> Vec<u64> {
        let mut all = Vec::new();
        each_word(table.iter().copied(), |word| all.push(word));
        all
    }

    #[test]
    fn addresses_stand_for_themselves() {
        assert_eq!(words(&[0x1000, 0x2008]), [0x1000, 0x2008]);
    }

    #[test]
    fn bitmap_follows_the_last_address() {
        // Bits 1 and 3: the first and third word after 0x1000's own.
        assert_eq!(words(&[0x1000, 0b1011]), [0x1000, 0x1008, 0x1018]);
    }

    #[test]
    fn bitmaps_chain_63_words_apart() {
        assert_eq!(words(&[0x1000, 1 << 63 | 1, 0b11]), [0x1000, 0x1008 + 62 * 8, 0x1008 + 63 * 8]);
    }

    #[test]
    fn empty_bitmap_skips() {
        assert_eq!(words(&[0x1000, 1, 0b11]), [0x1000, 0x1008 + 63 * 8]);
        assert_eq!(words(&[]), []);
    }
}

//! GPIO 0 as far as the bit-banged management bus needs it (docs/hardware/gemini.md 1.9, 1.10): on the
//! carrier, BAR 2.

use crate::board::Board;

const OUT: u16 = 0x00;
const IN: u16 = 0x04;
const DIRECTION: u16 = 0x08;
const SET: u16 = 0x10;
const CLEAR: u16 = 0x14;
/// Bytes of registers.
const SIZE: u16 = 0x48;

/// The block.
#[derive(Clone, Debug, Default)]
pub(crate) struct Gpio {
    file: [u32; SIZE as usize / 4],
}

impl Gpio {
    fn word(&self, offset: u16) -> u32 {
        self.file[usize::from(offset / 4)]
    }

    pub(crate) fn read(&self, offset: u16, board: &Board) -> Option<u32> {
        match offset {
            IN => {
                let (out, driven) = (self.word(OUT), self.word(DIRECTION));
                // A line nobody drives is pulled up.
                Some(out & driven | board.pins() & !driven)
            }
            SET | CLEAR => Some(0),
            _ => self.file.get(usize::from(offset / 4)).copied(),
        }
    }

    /// Writes a word. False: there is no such register.
    pub(crate) fn write(&mut self, offset: u16, value: u32, mask: u32, board: &mut Board) -> bool {
        let Some(word) = self.file.get_mut(usize::from(offset / 4)) else { return false };
        let bits = value & mask;
        match offset {
            IN => {}
            SET => self.file[usize::from(OUT / 4)] |= bits,
            CLEAR => self.file[usize::from(OUT / 4)] &= !bits,
            _ => *word = *word & !mask | bits,
        }
        if matches!(offset, OUT | DIRECTION | SET | CLEAR) {
            board.drive(self.word(OUT), self.word(DIRECTION));
        }
        true
    }
}

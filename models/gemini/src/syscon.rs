//! What the Ethernet block needs of the SoC's global block at 0x40000000 (docs/hardware/gemini.md 1.6): on
//! the carrier, BAR 1. Straps, resets, clock gates; pads are storage.

const WORD_ID: u16 = 0x00;
const STATUS: u16 = 0x04;
const SOFT_RESET: u16 = 0x0c;
const CLOCK_CONTROL: u16 = 0x34;

/// SL3516, a revision that appears in drivers. \[1.1\]
const ID: u32 = 0x0035_16c3;
/// AHB 150 MHz (17:15 = 2), CPU twice that (19:18 = 3), parallel flash, 30 MHz crystal. \[1.6\]
const STRAPS: u32 = 1 << 30 | 1 << 24 | 3 << 18 | 2 << 15;

/// Bytes of the block that have registers.
pub(crate) const SIZE: u16 = 0x48;

/// The block.
#[derive(Clone, Debug, Default)]
pub(crate) struct Syscon {
    file: [u32; SIZE as usize / 4],
}

impl Syscon {
    pub(crate) fn read(&self, offset: u16) -> Option<u32> {
        match offset {
            WORD_ID => Some(ID),
            STATUS => Some(STRAPS),
            // Self-clearing; how long a reset takes is not known (section 12, 2).
            SOFT_RESET => Some(0),
            _ => self.file.get(usize::from(offset / 4)).copied(),
        }
    }

    /// Writes a word. Returns which ports it resets.
    pub(crate) fn write(&mut self, offset: u16, value: u32, mask: u32) -> [bool; 2] {
        if offset == SOFT_RESET {
            let bits = value & mask;
            let all = bits >> 31 & 1 != 0;
            return [all || bits >> 5 & 1 != 0, all || bits >> 6 & 1 != 0];
        }
        if let Some(word) = self.file.get_mut(usize::from(offset / 4)) {
            *word = *word & !mask | value & mask;
        }
        [false; 2]
    }

    /// The port's clock is not gated.
    pub(crate) fn clocked(&self, port: usize) -> bool {
        self.file[usize::from(CLOCK_CONTROL / 4)] >> (2 + port) & 1 == 0
    }
}

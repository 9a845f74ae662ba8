//! Renesas SCIF, as far as a console needs it: set up by the boot loader, polled here.
//!
//! Offsets are RZ/G2L's; R-Car's are twice as large. Registers have 16 bits, but those for data 8.
//! Source: docs/hardware/ravb.md 7.4. Host model only, unverified on silicon.

/// The block's registers, at offsets in bytes, each access as wide as the register.
pub(super) trait Block {
    fn read8(&self, offset: usize) -> u8;
    fn read16(&self, offset: usize) -> u16;
    fn write8(&self, offset: usize, value: u8);
    fn write16(&self, offset: usize, value: u16);
}

const SCSCR: usize = 0x04;
const SCFTDR: usize = 0x06;
const SCFSR: usize = 0x08;
const SCFRDR: usize = 0x0a;
const SCFDR: usize = 0x0e;
const SCLSR: usize = 0x12;

/// SCSCR: receive interrupt enable.
const RIE: u16 = 1 << 6;
/// SCFSR: transmit FIFO below its trigger level, everything sent.
const TDFE: u16 = 1 << 5;
const TEND: u16 = 1 << 6;
/// SCFSR: data (little, enough for the trigger), parity, framing, break, error. They stop reception until written 0.
const RECEIVED: u16 = 1 << 0 | 1 << 1 | 1 << 2 | 1 << 3 | 1 << 4 | 1 << 7;
/// SCLSR: overrun, which stops reception too.
const ORER: u16 = 1 << 0;

/// One of them.
pub(super) struct Scif<B> {
    pub(super) block: B,
    /// Registers are this much further apart than RZ/G2L's, as a power of two.
    pub(super) shift: u8,
}

impl<B: Block> Scif<B> {
    fn at(&self, register: usize) -> usize {
        register << self.shift
    }

    /// Whether a byte can be written.
    pub(super) fn has_room(&self) -> bool {
        self.block.read16(self.at(SCFSR)) & TDFE != 0
    }

    /// Writes a byte, for which there is room.
    pub(super) fn put(&self, byte: u8) {
        self.block.write8(self.at(SCFTDR), byte);
        let status = self.block.read16(self.at(SCFSR));
        self.block.write16(self.at(SCFSR), status & !(TDFE | TEND));
    }

    /// A received byte, if there is one; errors are cleared, so that reception goes on.
    pub(super) fn take(&self) -> Option<u8> {
        let byte = match self.block.read16(self.at(SCFDR)) & 0x1f {
            0 => None,
            _ => Some(self.block.read8(self.at(SCFRDR))),
        };
        let status = self.block.read16(self.at(SCFSR));
        if status & RECEIVED != 0 {
            self.block.write16(self.at(SCFSR), status & !RECEIVED);
        }
        if self.block.read16(self.at(SCLSR)) & ORER != 0 {
            self.block.write16(self.at(SCLSR), 0);
        }
        byte
    }

    /// Lets it interrupt when something was received.
    pub(super) fn listen(&self) {
        let control = self.block.read16(self.at(SCSCR));
        self.block.write16(self.at(SCSCR), control | RIE);
    }
}

#[cfg(test)]
#[path = "scif/tests.rs"]
mod tests;

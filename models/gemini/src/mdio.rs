//! The PHYs' end of bit-banged MDIO (IEEE 802.3, 22.2.4.5). The PHY takes and gives bits at rising edges
//! of MDC; the frame a host sends is in docs/hardware/gemini.md 1.10.

use crate::phy::Phy;

/// Ones before a frame.
const PREAMBLE: u32 = 32;

/// Edges of a frame, turnaround and data included.
const FRAME: u32 = 32;

/// What has been seen of the frame under way.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Mdio {
    ones: u32,
    /// Edges since the frame began; 0: none under way.
    edges: u32,
    shift: u32,
    /// Reading: the register's content.
    reading: Option<u16>,
    clock: bool,
    output: Option<bool>,
}

impl Mdio {
    /// What a PHY drives on the data line.
    pub(crate) fn output(&self) -> Option<bool> {
        self.output
    }

    /// The host's lines change. `phy` finds the PHY at an address.
    pub(crate) fn drive<'a>(
        &mut self,
        clock: bool,
        data: bool,
        phy: impl FnOnce(u8) -> Option<&'a mut Phy>,
    ) {
        let was = std::mem::replace(&mut self.clock, clock);
        if clock && !was {
            self.edge(data, phy);
        }
    }

    fn edge<'a>(&mut self, data: bool, phy: impl FnOnce(u8) -> Option<&'a mut Phy>) {
        if self.edges == 0 {
            self.output = None;
            if data {
                self.ones = (self.ones + 1).min(PREAMBLE);
            } else if std::mem::take(&mut self.ones) >= PREAMBLE {
                (self.edges, self.shift) = (1, 0);
            }
            return;
        }
        self.edges += 1;
        self.shift = self.shift << 1 | u32::from(data);
        let (address, register) = ((self.shift >> 5 & 31) as u8, (self.shift & 31) as u8);
        match self.edges {
            // The start is 01; anything else is no frame.
            2 if !data => *self = Mdio { clock: true, ..Mdio::default() },
            14 => {
                let read = self.shift >> 10 & 3 == 0b10;
                self.reading = if read { phy(address).map(|phy| phy.read(register)) } else { None };
                // Nobody there: the pull-up is read.
                if read && self.reading.is_none() {
                    *self = Mdio { clock: true, ..Mdio::default() };
                }
            }
            15 if self.reading.is_some() => self.output = Some(false),
            16..32 if let Some(value) = self.reading => {
                self.output = Some(value >> (31 - self.edges) & 1 != 0);
                if self.edges == FRAME - 1 {
                    // The last bit stays until the next edge, which may begin a preamble.
                    *self = Mdio { clock: true, output: self.output, ..Mdio::default() };
                }
            }
            FRAME => {
                if self.reading.is_none() {
                    // Start's second bit, op, address, register, turnaround, data.
                    let word = self.shift;
                    if word >> 28 & 3 == 0b01
                        && let Some(phy) = phy((word >> 23 & 31) as u8)
                    {
                        phy.write((word >> 18 & 31) as u8, word as u16);
                    }
                }
                *self = Mdio { clock: true, ..Mdio::default() };
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A host as docs/hardware/gemini.md 1.10 has it.
    struct Host(Mdio, Phy);

    impl Host {
        fn lines(&mut self, clock: bool, data: bool) {
            let phy = &mut self.1;
            self.0.drive(clock, data, |address| (address == 1).then_some(phy));
        }
        fn send(&mut self, bits: u32, count: u32) {
            for i in (0..count).rev() {
                let bit = bits >> i & 1 != 0;
                self.lines(false, bit);
                self.lines(true, bit);
                self.lines(false, bit);
            }
        }
        fn get(&mut self) -> bool {
            self.lines(true, true);
            self.lines(false, true);
            self.0.output().unwrap_or(true)
        }
        fn read(&mut self, address: u32, register: u32) -> u32 {
            self.send(u32::MAX, 32);
            self.send(0b0110 << 10 | address << 5 | register, 14);
            let turnaround = u32::from(self.get());
            (0..16).fold(turnaround, |value, _| value << 1 | u32::from(self.get()))
        }
        fn write(&mut self, address: u32, register: u32, value: u32) {
            self.send(u32::MAX, 32);
            self.send(0b0101 << 10 | address << 5 | register, 14);
            self.send(0b10 << 16 | value, 18);
            self.send(0, 2);
        }
    }

    #[test]
    fn registers_are_read_and_written_as_the_vendor_does() {
        let mut host = Host(Mdio::default(), Phy::rtl8211b());
        assert_eq!(host.read(1, 2), 0x001c);
        assert_eq!(host.read(1, 3), 0xc912);
        host.write(1, 9, 0);
        assert_eq!(host.read(1, 9), 0);
        assert_eq!(host.1.mode(), Some((100, true)));
        host.write(2, 9, 0x0200);
        assert_eq!(host.read(1, 9), 0, "another PHY's");
        assert_eq!(host.read(2, 2), 0x1_ffff, "nobody there");
        assert_eq!(host.read(1, 2), 0x001c, "and the bus is alive");
    }

    #[test]
    fn link_loss_latches_until_status_is_read() {
        let mut host = Host(Mdio::default(), Phy::rtl8211b());
        assert_eq!(host.read(1, 1) & 0x24, 0x24);
        host.1.set_cable(false);
        host.1.set_cable(true);
        assert_eq!(host.read(1, 1) & 4, 0);
        assert_eq!(host.read(1, 1) & 4, 4);
    }
}

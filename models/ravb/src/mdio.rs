//! PIR: MDC and MDIO, moved by software bit by bit. (sheet 4.1)
//!
//! The PHY samples MDIO on a rising MDC and changes it after one, holding it until the next; so a
//! driver may look while MDC is high, as U-Boot does, or after it fell, as Linux does.

use crate::phy::{Phy, Written};

const MDC: u32 = 1 << 0;
const MMD: u32 = 1 << 1;
const MDO: u32 = 1 << 2;
const MDI: u32 = 1 << 3;

/// The pins and the frame on them.
#[derive(Clone, Debug, Default)]
pub(crate) struct Mdio {
    pins: u32,
    /// Ones in a row before a frame.
    ones: u8,
    /// Bits since the preamble; 0: in it.
    count: u8,
    bits: u32,
    data: u16,
    /// What the PHY drives, if it does.
    drives: Option<bool>,
}

impl Mdio {
    pub(crate) fn read(&self) -> u32 {
        // Nobody driving leaves the pull-up. With MMD set the pin is our own output.
        let line = match self.drives {
            Some(level) => level,
            None => self.pins & MMD == 0 || self.pins & MDO != 0,
        };
        self.pins | if line { MDI } else { 0 }
    }

    /// Moves the pins. `phy`: who answers at all.
    pub(crate) fn write(&mut self, pins: u32, phy: Option<&mut Phy>) -> Written {
        let rising = pins & !self.pins & MDC != 0;
        self.pins = pins & (MDC | MMD | MDO);
        if rising { self.clock(phy) } else { Written::Nothing }
    }

    fn restart(&mut self) {
        let pins = self.pins;
        *self = Mdio { pins, ..Mdio::default() };
    }

    fn clock(&mut self, phy: Option<&mut Phy>) -> Written {
        let bit = self.pins & MMD == 0 || self.pins & MDO != 0;
        if self.count == 0 {
            match bit {
                true => self.ones = self.ones.saturating_add(1),
                // The first start bit; without a preamble nobody listens.
                false if self.ones >= 32 => self.count = 1,
                false => self.ones = 0,
            }
            return Written::Nothing;
        }
        self.bits = self.bits << 1 | u32::from(bit);
        self.count += 1;
        let count = self.count;
        if count == 2 && !bit {
            // Start 00 is clause 45.
            self.restart();
            return Written::Nothing;
        }
        let header = self.bits >> count.saturating_sub(14);
        let (operation, address, register) =
            (header >> 10 & 3, (header >> 5 & 31) as u8, (header & 31) as u8);
        let phy = phy.filter(|phy| count >= 14 && phy.address == address);
        if count == 14 && operation == 0b10 {
            self.data = phy.map_or(0xffff, |phy| phy.read(register));
            return Written::Nothing;
        }
        if operation == 0b10 && count > 14 {
            // Edge 47 brings the turnaround's zero, 48 to 63 the data, 64 lets go.
            self.drives = phy.is_some().then_some(match count {
                15 => false,
                16..=31 => self.data >> (31 - count) & 1 != 0,
                _ => true,
            });
        }
        if count < 32 {
            return Written::Nothing;
        }
        let written = self.bits as u16;
        self.restart();
        match phy {
            Some(phy) if operation == 0b01 => phy.write(register, written),
            _ => Written::Nothing,
        }
    }
}

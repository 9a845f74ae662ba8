//! The gigabit PHY: Micrel's KSZ9031 as on Salvator-X, KSZ9131 as on RZ/G2L SMARC. (sheet 4.2)
//!
//! Clause 22 registers with negotiation, and MMD registers as plain storage, which is all that the
//! pad skews drivers write there mean to a model.

use crate::Variant;
use std::collections::HashMap;

/// Registers 4 and 9 of a partner that offers everything: acknowledged, pause, 10/100 both duplexes.
const PARTNER: u16 = 0xc5e1;
/// Bits 11 and 10 of register 10: 1000 Mbit/s full and half.
const PARTNER_GIGABIT: u16 = 0x0c00;
/// MMD registers kept at most; a driver writes about twenty.
const MAX_MMD: usize = 4096;

const BMCR_RESET: u16 = 1 << 15;
const BMCR_LOOPBACK: u16 = 1 << 14;
const BMCR_AN: u16 = 1 << 12;
const BMCR_POWER_DOWN: u16 = 1 << 11;
const BMCR_ISOLATE: u16 = 1 << 10;
const BMCR_RESTART: u16 = 1 << 9;

/// What the link runs at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Mode {
    /// In Mbit/s.
    pub(crate) speed: u16,
    pub(crate) full: bool,
}

/// What came of a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Written {
    /// No register was written.
    Nothing,
    Stored,
    /// Negotiation is to start over.
    Restarts,
}

/// One PHY.
#[derive(Clone, Debug)]
pub(crate) struct Phy {
    pub(crate) address: u8,
    id: u16,
    registers: [u16; 32],
    mmd: HashMap<(u8, u16), u16>,
    mmd_pointer: u16,
    partner: u16,
    partner_gigabit: u16,
    cable: bool,
    /// Registers 4 and 9 as they were when negotiation began.
    offered: (u16, u16),
    /// Negotiation is not over yet.
    negotiating: bool,
    /// BMSR shows a lost link once.
    lost: bool,
    was_up: bool,
}

impl Phy {
    pub(crate) fn new(variant: Variant, address: u8) -> Phy {
        let mut phy = Phy {
            address,
            id: if variant.is_avb() { 0x1622 } else { 0x1640 },
            registers: [0; 32],
            mmd: HashMap::new(),
            mmd_pointer: 0,
            partner: PARTNER,
            partner_gigabit: PARTNER_GIGABIT,
            cable: true,
            offered: (0, 0),
            negotiating: false,
            lost: false,
            was_up: true,
        };
        phy.reset();
        phy.negotiate(false);
        phy
    }

    fn reset(&mut self) {
        self.registers = [0; 32];
        self.registers[0] = BMCR_AN | 1 << 6 | 1 << 8;
        self.registers[4] = 0x01e1;
        self.registers[9] = 0x0300;
        self.mmd_pointer = 0;
    }

    fn capable(&self) -> bool {
        self.cable && self.registers[0] & BMCR_POWER_DOWN == 0
    }

    fn negotiates(&self) -> bool {
        self.registers[0] & BMCR_AN != 0
    }

    /// What the link runs at, if there is one.
    pub(crate) fn mode(&self) -> Option<Mode> {
        if !self.capable() || self.negotiating {
            return None;
        }
        if !self.negotiates() {
            let speed = match (self.registers[0] >> 6 & 1, self.registers[0] >> 13 & 1) {
                (1, 0) => 1000,
                (0, 1) => 100,
                (0, 0) => 10,
                _ => return None,
            };
            return Some(Mode { speed, full: self.registers[0] >> 8 & 1 != 0 });
        }
        // IEEE 802.3 annex 28B.3: the best both offer.
        let gigabit = self.offered.1 << 2 & self.partner_gigabit;
        let common = self.offered.0 & self.partner;
        let offers = [
            (gigabit & 1 << 11, 1000, true),
            (gigabit & 1 << 10, 1000, false),
            (common & 1 << 8, 100, true),
            (common & 1 << 7, 100, false),
            (common & 1 << 6, 10, true),
            (common & 1 << 5, 10, false),
        ];
        let best = offers.into_iter().find(|(bit, ..)| *bit != 0);
        best.map(|(_, speed, full)| Mode { speed, full })
    }

    /// Level of the link pin.
    pub(crate) fn link(&self) -> bool {
        self.mode().is_some()
    }

    /// Frames pass between MAC and cable.
    pub(crate) fn passes(&self) -> bool {
        self.link() && self.registers[0] & (BMCR_ISOLATE | BMCR_LOOPBACK) == 0
    }

    /// Frames come back to the MAC.
    pub(crate) fn loops_back(&self) -> bool {
        self.registers[0] & (BMCR_LOOPBACK | BMCR_ISOLATE | BMCR_POWER_DOWN) == BMCR_LOOPBACK
    }

    /// Level of the interrupt pin, true being asserted: register 0x1b, enables over status.
    pub(crate) fn interrupt(&self) -> bool {
        self.registers[0x1b] >> 8 & self.registers[0x1b] & 0xff != 0
    }

    /// Notes what became of the link. True if it changed.
    pub(crate) fn settle(&mut self) -> bool {
        let up = self.link();
        let changed = up != self.was_up;
        self.was_up = up;
        if changed {
            self.lost |= !up;
            self.registers[0x1b] |= if up { 1 << 0 } else { 1 << 2 };
        }
        changed
    }

    pub(crate) fn set_cable(&mut self, plugged: bool) -> bool {
        self.cable = plugged;
        self.settle()
    }

    pub(crate) fn set_partner(&mut self, advertisement: u16, gigabit: u16) -> bool {
        self.partner = advertisement;
        self.partner_gigabit = gigabit & PARTNER_GIGABIT;
        self.settle()
    }

    /// Negotiation begins or ends. True if the link changed.
    pub(crate) fn negotiate(&mut self, under_way: bool) -> bool {
        self.negotiating = under_way && self.negotiates();
        self.offered = (self.registers[4], self.registers[9]);
        self.settle()
    }

    pub(crate) fn read(&mut self, register: u8) -> u16 {
        let stored = self.registers[usize::from(register & 31)];
        let link = self.link();
        match register {
            1 => {
                let shown = link && !self.lost;
                self.lost = false;
                // 10 and 100 Mbit/s both duplexes, extended status, preamble needed not, able.
                let done = if link && self.negotiates() { 1 << 5 } else { 0 };
                0x7949 | done | if shown { 1 << 2 } else { 0 }
            }
            2 => 0x0022,
            3 => self.id,
            5 if link && self.negotiates() => self.partner,
            6 => 0x000f,
            10 if link && self.negotiates() => 0x7000 | self.partner_gigabit,
            14 => self.mmd_data(None),
            15 => 0x3000,
            0x1b => {
                self.registers[0x1b] &= 0xff00;
                stored
            }
            _ => stored,
        }
    }

    pub(crate) fn write(&mut self, register: u8, value: u16) -> Written {
        match register {
            0 if value & BMCR_RESET != 0 => {
                self.reset();
                return Written::Restarts;
            }
            0 => {
                let before = self.registers[0];
                self.registers[0] = value & !(BMCR_RESET | BMCR_RESTART);
                let woken = before & BMCR_POWER_DOWN & !value != 0;
                let switched_on = !before & BMCR_AN & value != 0;
                if value & BMCR_RESTART != 0 || woken || switched_on {
                    return Written::Restarts;
                }
            }
            1..=3 | 5 | 6 | 10 | 15 => {}
            14 => drop(self.mmd_data(Some(value))),
            0x1b => self.registers[0x1b] = value & 0xff00 | self.registers[0x1b] & 0xff,
            _ => self.registers[usize::from(register & 31)] = value,
        }
        Written::Stored
    }

    /// Register 14, as register 13 says: the address, or data with or without moving on.
    fn mmd_data(&mut self, value: Option<u16>) -> u16 {
        let control = self.registers[13];
        let device = (control & 31) as u8;
        if control >> 14 == 0 {
            self.mmd_pointer = value.unwrap_or(self.mmd_pointer);
            return self.mmd_pointer;
        }
        let key = (device, self.mmd_pointer);
        if let Some(value) = value
            && (self.mmd.len() < MAX_MMD || self.mmd.contains_key(&key))
        {
            self.mmd.insert(key, value);
        }
        // Function 2 moves on after both, 3 after writes. (IEEE 802.3, 22.2.4.3.11)
        if control >> 14 == 2 || control >> 14 == 3 && value.is_some() {
            self.mmd_pointer = self.mmd_pointer.wrapping_add(1);
        }
        self.mmd.get(&key).copied().unwrap_or(0)
    }
}

//! The PHY, and the three ways to it: commands, bit-banging, automatic polling.
//! PHY registers are IEEE 802.3 clause 22.

use crate::chip::Chip;
use crate::faults::Faults;
use crate::regs::{MiiAddress, MiiControl, MiiStatus};

const BMCR: u8 = 0;
const BMSR: u8 = 1;
const ANAR: u8 = 4;
const ANLPAR: u8 = 5;

const BMCR_RESET: u16 = 1 << 15;
const BMCR_LOOPBACK: u16 = 1 << 14;
const BMCR_SPEED: u16 = 1 << 13;
const BMCR_AUTONEG: u16 = 1 << 12;
const BMCR_POWER_DOWN: u16 = 1 << 11;
const BMCR_ISOLATE: u16 = 1 << 10;
const BMCR_RESTART: u16 = 1 << 9;
const BMCR_DUPLEX: u16 = 1 << 8;

const BMSR_LINK: u16 = 1 << 2;
const BMSR_NEGOTIATED: u16 = 1 << 5;

/// A 10/100 PHY and the partner at the other end of its cable.
#[derive(Clone, Debug)]
pub(crate) struct Phy {
    address: u8,
    id: [u16; 2],
    /// BMSR without link and negotiation bits.
    status: u16,
    bmcr: u16,
    anar: u16,
    /// What the partner advertises.
    partner: u16,
    cable: bool,
    /// The link was down since BMSR was last read.
    link_dropped: bool,
}

impl Phy {
    pub(crate) fn new(chip: Chip, faults: &Faults) -> Phy {
        // Identities and idle BMSR as seen on cards: internal PHY of the Rhine-III; an unnamed one
        // (0016:f880) on a VT6102; Davicom DM9101 on a VT86C100A.
        let (address, id, status) = if chip.has_internal_phy() {
            (1, [0x0101, 0x8f43], 0x7849)
        } else if chip.is_rhine_i() {
            (8, [0x0181, 0xb800], 0x7809)
        } else if chip.revision >= 0x50 {
            (1, [0x0101, 0x8f20], 0x7809) // VT6103 beside a south bridge
        } else {
            (8, [0x0016, 0xf880], 0x7809)
        };
        let isolate = if faults.isolated_phy { BMCR_ISOLATE } else { 0 };
        Phy {
            address,
            id,
            status,
            bmcr: 0x3000 | isolate,
            anar: 0x05e1,
            partner: 0x45e1,
            cable: true,
            link_dropped: false,
        }
    }

    fn powered(&self) -> bool {
        self.bmcr & BMCR_POWER_DOWN == 0
    }

    pub(crate) fn link(&self) -> bool {
        self.cable && self.powered()
    }

    /// Frames pass between MII and cable.
    pub(crate) fn passes(&self) -> bool {
        self.link() && self.bmcr & (BMCR_ISOLATE | BMCR_LOOPBACK) == 0
    }

    pub(crate) fn loops_back(&self) -> bool {
        self.bmcr & BMCR_LOOPBACK != 0 && self.powered()
    }

    /// Speed is 100 Mbit/s, and duplex is full, as negotiated or forced.
    pub(crate) fn mode(&self) -> (bool, bool) {
        if self.bmcr & BMCR_AUTONEG == 0 {
            return (self.bmcr & BMCR_SPEED != 0, self.bmcr & BMCR_DUPLEX != 0);
        }
        // Priority of 802.3 annex 28B.3: 100 full, (T4,) 100 half, 10 full, 10 half.
        match self.anar & self.partner {
            both if both & 0x0100 != 0 => (true, true),
            both if both & 0x0080 != 0 => (true, false),
            both if both & 0x0040 != 0 => (false, true),
            _ => (false, false),
        }
    }

    /// Plugs or pulls the cable. True if the link changed.
    pub(crate) fn set_cable(&mut self, cable: bool) -> bool {
        let before = self.link();
        self.cable = cable;
        self.link_dropped |= !self.link();
        before != self.link()
    }

    pub(crate) fn set_partner(&mut self, advertisement: u16) {
        self.partner = advertisement;
    }

    fn read(&mut self, register: u8) -> u16 {
        match register {
            BMCR => self.bmcr,
            BMSR => {
                let mut value = self.status;
                if self.link() {
                    if self.bmcr & BMCR_AUTONEG != 0 {
                        value |= BMSR_NEGOTIATED;
                    }
                    // Latches low: the first read after a drop says so even if it is over.
                    if !self.link_dropped {
                        value |= BMSR_LINK;
                    }
                }
                self.link_dropped = !self.link();
                value
            }
            2 | 3 => self.id[usize::from(register - 2)],
            ANAR => self.anar,
            ANLPAR if self.link() && self.bmcr & BMCR_AUTONEG != 0 => self.partner | 0x4000,
            _ => 0,
        }
    }

    /// True if the link changed.
    fn write(&mut self, register: u8, value: u16) -> bool {
        let before = self.link();
        match register {
            BMCR if value & BMCR_RESET != 0 => {
                // Clears itself at once; so does everything else.
                self.bmcr = 0x3000;
                self.anar = 0x05e1;
            }
            BMCR => self.bmcr = value & !(BMCR_RESTART | 0x007f),
            ANAR => self.anar = value & !0x5000,
            _ => {}
        }
        self.link_dropped |= !self.link();
        before != self.link()
    }
}

/// A clause 22 frame being clocked through MDC and MDIO by hand.
#[derive(Clone, Copy, Debug, Default)]
struct BitBang {
    clock: bool,
    ones: u8,
    /// Bits of the frame so far, from the start bits on; 0: in the preamble.
    count: u8,
    bits: u32,
    out: bool,
}

/// MIICR, MIIAD, MIIDATA and what hangs on them.
#[derive(Clone, Debug)]
pub(crate) struct Mii {
    pub(crate) phy: Phy,
    pub(crate) control: MiiControl,
    address: u8,
    source_enable: bool,
    pub(crate) data: u16,
    pub(crate) phy_address: u8,
    /// Reads of MIIAD until MDONE shows, counted from the start of polling.
    until_done: u8,
    bang: BitBang,
    has_idle: bool,
}

impl Mii {
    pub(crate) fn new(chip: Chip, faults: &Faults) -> Mii {
        let phy = Phy::new(chip, faults);
        Mii {
            phy_address: phy.address,
            phy,
            control: MiiControl::empty(),
            address: 0,
            source_enable: false,
            data: 0,
            until_done: 0,
            bang: BitBang::default(),
            has_idle: !chip.is_rhine_i(),
        }
    }

    /// Software reset: the PHY and its address stay.
    pub(crate) fn reset(&mut self) {
        self.control = MiiControl::empty();
        self.address = 0;
        self.source_enable = false;
        self.data = 0;
        self.bang = BitBang::default();
    }

    /// A link change is to set SRCI.
    pub(crate) fn reports_changes(&self) -> bool {
        self.control.contains(MiiControl::MAUTO) && self.source_enable
    }

    fn answers(&self, address: u8, faults: &Faults) -> bool {
        !faults.absent_phy && (faults.promiscuous_phy || address == self.phy.address)
    }

    pub(crate) fn status(&self, chip: Chip, faults: &Faults) -> u8 {
        let mut status = MiiStatus::empty();
        let there = self.answers(self.phy_address & 0x1f, faults);
        let (fast, full) = self.phy.mode();
        status.set(MiiStatus::SPEED10, !fast || !there);
        status.set(MiiStatus::LNKFL, !self.phy.link() || !there);
        // Rhine-II shows PHYOPT with and without a PHY; Rhine-III "link after negotiation is fine".
        status.set(MiiStatus::PHYOPT, !chip.has_internal_phy() || self.phy.link());
        if chip.has_internal_phy() {
            status.set(MiiStatus::N_FDX, full);
        }
        if chip.has_management() && self.phy.link() {
            status.set(MiiStatus::LP_PAUSE, self.phy.partner & 0x0400 != 0);
            status.set(MiiStatus::LP_ASYM, self.phy.partner & 0x0800 != 0);
        }
        status.bits()
    }

    pub(crate) fn read_address(&mut self, faults: &Faults) -> u8 {
        let polling = self.control.contains(MiiControl::MAUTO);
        let mut value = MiiAddress::from_bits_retain(self.address);
        value.set(MiiAddress::MSRCEN, self.source_enable);
        value.set(MiiAddress::MIDLE, self.has_idle && !polling && !faults.dead_midle);
        if polling {
            // iPXE waits to see it at 0, Linux to see it at 1.
            value.set(MiiAddress::MDONE, self.until_done == 0);
            self.until_done = self.until_done.saturating_sub(1);
        }
        value.bits()
    }

    pub(crate) fn write_address(&mut self, value: u8) {
        self.address = value & MiiAddress::REGISTER.bits();
        self.source_enable = value & MiiAddress::MSRCEN.bits() != 0;
    }

    pub(crate) fn read_control(&self) -> u8 {
        let mut value = self.control;
        value.set(MiiControl::MDI, self.bang.out && value.contains(MiiControl::MDPM));
        value.bits()
    }

    /// True if the link changed.
    pub(crate) fn write_control(&mut self, value: u8, faults: &Faults) -> bool {
        let value = MiiControl::from_bits_retain(value);
        let commands = MiiControl::WCMD | MiiControl::RCMD | MiiControl::MDI;
        let started =
            value.contains(MiiControl::MAUTO) && !self.control.contains(MiiControl::MAUTO);
        self.control = value.difference(commands);
        if started {
            self.until_done = 1;
        }
        if value.contains(MiiControl::MDPM) {
            return self.bang(value, faults);
        }
        let there = self.answers(self.phy_address & 0x1f, faults);
        if value.contains(MiiControl::RCMD) {
            self.data = if there { self.phy.read(self.address) } else { 0xffff };
        } else if value.contains(MiiControl::WCMD) && there {
            return self.phy.write(self.address, self.data);
        }
        false
    }

    /// One look at the pins. The PHY samples and shifts on a rising MDC.
    fn bang(&mut self, pins: MiiControl, faults: &Faults) -> bool {
        let clock = pins.contains(MiiControl::MDC);
        let rising = clock && !self.bang.clock;
        self.bang.clock = clock;
        if !rising {
            return false;
        }
        let bit = !pins.contains(MiiControl::MOUT) || pins.contains(MiiControl::MDO);
        if self.bang.count == 0 {
            match bit {
                true => self.bang.ones = self.bang.ones.saturating_add(1),
                false if self.bang.ones >= 32 => {
                    self.bang = BitBang { clock, count: 1, out: true, ..BitBang::default() };
                }
                false => self.bang.ones = 0,
            }
            return false;
        }
        self.bang.bits = self.bang.bits << 1 | u32::from(bit);
        self.bang.count += 1;
        // Start 01, operation, five bits each of PHY and register, turnaround, 16 of data.
        let count = self.bang.count;
        let header = if count >= 14 { self.bang.bits >> (count - 14) } else { 0 };
        let (operation, phy, register) =
            (header >> 10 & 3, (header >> 5 & 31) as u8, (header & 31) as u8);
        let there = self.answers(phy, faults);
        if count == 14 && operation == 0b10 {
            self.data = if there { self.phy.read(register) } else { 0xffff };
        }
        if operation == 0b10 && count >= 15 && there {
            // The turnaround's second bit is driven low, then the data, high bit first.
            self.bang.out = match count {
                15 => false,
                16..=31 => self.data >> (31 - count) & 1 != 0,
                _ => true,
            };
        }
        if count < 32 {
            return false;
        }
        let written = self.bang.bits as u16;
        self.bang = BitBang { clock, out: true, ..BitBang::default() };
        operation == 0b01 && there && self.phy.write(register, written)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mii(chip: Chip) -> Mii {
        Mii::new(chip, &Faults::default())
    }

    fn command_read(mii: &mut Mii, register: u8) -> u16 {
        mii.write_address(register);
        mii.write_control(0x40, &Faults::default());
        mii.data
    }

    fn command_write(mii: &mut Mii, register: u8, value: u16) {
        mii.write_address(register);
        mii.data = value;
        mii.write_control(0x20, &Faults::default());
    }

    #[test]
    fn commands_reach_the_internal_phy() {
        let mut mii = mii(Chip::VT6105M);
        assert_eq!(mii.phy_address, 1);
        assert_eq!(command_read(&mut mii, 1), 0x786d);
        assert_eq!(command_read(&mut mii, 2), 0x0101);
        assert_eq!(command_read(&mut mii, 3), 0x8f43);
        assert_eq!(command_read(&mut mii, 5), 0x45e1);
        command_write(&mut mii, 4, 0x0181);
        assert_eq!(command_read(&mut mii, 4), 0x0181);
        command_write(&mut mii, 0, 0x8000);
        assert_eq!(command_read(&mut mii, 0), 0x3000);
        mii.phy_address = 2;
        assert_eq!(command_read(&mut mii, 1), 0xffff);
    }

    #[test]
    fn bmsr_latches_a_lost_link() {
        let mut mii = mii(Chip::VT6105);
        assert!(mii.phy.set_cable(false));
        assert_eq!(command_read(&mut mii, 1), 0x7849);
        assert!(mii.phy.set_cable(true));
        assert_eq!(command_read(&mut mii, 1), 0x7869);
        assert_eq!(command_read(&mut mii, 1), 0x786d);
    }

    #[test]
    fn polling_shows_done_low_once_and_then_high() {
        let faults = Faults::default();
        let mut mii = mii(Chip::VT6102);
        assert_eq!(mii.read_address(&faults), 0x80);
        mii.write_address(1);
        mii.write_control(0x80, &faults);
        assert_eq!(mii.read_address(&faults), 0x01);
        assert_eq!(mii.read_address(&faults), 0x21);
        mii.write_address(0x41);
        assert_eq!(mii.read_address(&faults), 0x61);
        assert!(mii.reports_changes());
        mii.write_control(0, &faults);
        assert_eq!(mii.read_address(&faults), 0xc1);
    }

    #[test]
    fn rhine_i_has_no_idle_bit() {
        assert_eq!(mii(Chip::VT86C100A).read_address(&Faults::default()), 0);
    }

    #[test]
    fn status_register_matches_images_of_real_chips() {
        let faults = Faults::default();
        let absent = Faults { absent_phy: true, ..faults };
        assert_eq!(mii(Chip::VT86C100A).status(Chip::VT86C100A, &faults), 0x10);
        assert_eq!(mii(Chip::VT6102).status(Chip::VT6102, &absent), 0x13);
        let mut slow = mii(Chip::VT6102);
        slow.phy.set_partner(0x0021);
        assert_eq!(slow.status(Chip::VT6102, &faults), 0x11);
    }

    /// Clocks one clause 22 frame as NetBSD does: data changes while MDC is low.
    fn bit_bang(mii: &mut Mii, header: u32, data: Option<u16>) -> u16 {
        let faults = Faults::default();
        let mut clock = |bit: Option<bool>| {
            let pins = 0x10 | bit.map_or(0, |bit| 0x08 | if bit { 0x04 } else { 0 });
            mii.write_control(pins, &faults);
            mii.write_control(pins | 1, &faults);
            mii.read_control() & 2 != 0
        };
        for _ in 0..32 {
            clock(Some(true));
        }
        for i in (0..14).rev() {
            clock(Some(header >> i & 1 != 0));
        }
        match data {
            Some(data) => {
                clock(Some(true));
                clock(Some(false));
                for i in (0..16).rev() {
                    clock(Some(data >> i & 1 != 0));
                }
                0
            }
            None => {
                // The PHY answers from the turnaround on; each bit is valid after its edge.
                assert!(!clock(None), "turnaround");
                (0..16).fold(0, |value, _| value << 1 | u16::from(clock(None)))
            }
        }
    }

    #[test]
    fn bit_banging_reads_and_writes() {
        let mut mii = mii(Chip::VT6105M);
        assert_eq!(bit_bang(&mut mii, 0b01_1000_0010_0010, None), 0x0101);
        // The read above takes 31 clocks; one more idle clock ends the frame.
        mii.write_control(0x10, &Faults::default());
        mii.write_control(0x11, &Faults::default());
        bit_bang(&mut mii, 0b01_0100_0010_0100, Some(0x01e1));
        assert_eq!(command_read(&mut mii, 4), 0x01e1);
    }
}

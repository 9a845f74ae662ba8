//! The PHY: finding it, asking it, and having the card watch it. [RH 3.5, 3.6]
//! PHY registers are IEEE 802.3 clause 22.

use crate::Timeout;
use crate::chip::Chip;
use crate::regs::{self, MiiAddress, MiiControl};
use trireme_nic::{Link, Registers};
use trireme_registers::wait_until;

/// Longest MII operation; at its slowest one takes about 60 µs. [RH 3.5]
const MII_US: u32 = 10_000;
/// Longest first round of automatic polling, which takes about 1 ms.
const POLL_US: u32 = 10_000;

const BMCR: u8 = 0;
const BMSR: u8 = 1;
const ID1: u8 = 2;
const ID2: u8 = 3;
const ANAR: u8 = 4;
const ANLPAR: u8 = 5;

const BMCR_SPEED: u16 = 1 << 13;
const BMCR_AUTONEG: u16 = 1 << 12;
const BMCR_ISOLATE: u16 = 1 << 10;
const BMCR_RESTART: u16 = 1 << 9;
const BMCR_DUPLEX: u16 = 1 << 8;
const BMSR_LINK: u16 = 1 << 2;
const PAUSE: u16 = 1 << 10;

/// Davicom DM9101, which on a Rhine-I loses the link until negotiation is restarted. [RH E26]
const DAVICOM: (u16, u16) = (0x0181, 0xb800);

/// The PHY and how to reach it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Phy {
    chip: Chip,
    address: u8,
    needs_restart: bool,
}

/// What the PHY says of the link.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct LinkState {
    pub(crate) link: Link,
    /// Both sides take PAUSE frames.
    pub(crate) pause: bool,
}

/// Register access and time, together.
pub(crate) struct Bus<'a, R> {
    pub(crate) bar: &'a R,
    pub(crate) delay: &'a dyn Fn(u32),
}

impl Phy {
    /// Finds the PHY and makes it negotiate. A silent one is taken to be at its likeliest address:
    /// it may be asleep.
    pub(crate) fn find<R: Registers>(bus: &Bus<'_, R>, chip: Chip) -> Phy {
        let likely = match chip.revision {
            0x80.. => 1,
            // South bridges answer at every address. [RH E24]
            0x50.. => 1,
            _ => regs::MPHY.read(bus.bar) & 0x1f,
        };
        let mut phy = Phy { chip, address: likely, needs_restart: false };
        phy.stop_polling(bus);
        let candidates = [likely, 1, 8].into_iter().chain(0..32);
        let answers = |address: &u8| {
            let phy = Phy { address: *address, ..phy };
            matches!(phy.read(bus, BMSR), Ok(status) if status != 0xffff && status != 0)
        };
        let mut candidates = candidates.take(if chip.revision >= 0x50 { 1 } else { 35 });
        phy.address = candidates.find(answers).unwrap_or(likely);
        if let Err(timeout) = phy.set_up(bus) {
            log::warn!("rhine: PHY: {timeout:?}");
        }
        phy
    }

    fn set_up<R: Registers>(&mut self, bus: &Bus<'_, R>) -> Result<(), Timeout> {
        let id = (self.read(bus, ID1)?, self.read(bus, ID2)?);
        self.needs_restart = self.chip.is_rhine_i() && id == DAVICOM;
        let (control, ours) = (self.read(bus, BMCR)?, self.read(bus, ANAR)?);
        let pause = if self.chip.has_power_management() { PAUSE } else { 0 };
        let wanted = ours & !PAUSE | pause;
        if control != 0xffff && (control & BMCR_ISOLATE != 0 || wanted != ours) {
            self.write(bus, ANAR, wanted)?;
            // Left isolated it passes nothing. [RH E25]
            self.write(bus, BMCR, control & !BMCR_ISOLATE | BMCR_AUTONEG | BMCR_RESTART)?;
        }
        Ok(())
    }

    /// Before any command the card must have stopped polling by itself. A MIDLE that never comes
    /// [RH E23] is waited out, and then ignored, as Linux does.
    fn stop_polling<R: Registers>(&self, bus: &Bus<'_, R>) {
        regs::MIICR.write(bus.bar, MiiControl::empty());
        let stopped = if self.chip.is_rhine_i() {
            // No MIDLE: one round of polling from a known start. [RH 3.5]
            regs::MIIAD.write(bus.bar, MiiAddress::from_bits_retain(BMSR));
            (bus.delay)(1_000);
            regs::MIICR.write(bus.bar, MiiControl::MAUTO);
            let done = wait_until(bus.delay, "MDONE", POLL_US, || {
                regs::MIIAD.read(bus.bar).contains(MiiAddress::MDONE)
            });
            regs::MIICR.write(bus.bar, MiiControl::empty());
            done
        } else {
            wait_until(bus.delay, "MIDLE", MII_US, || {
                regs::MIIAD.read(bus.bar).contains(MiiAddress::MIDLE)
            })
        };
        if let Err(timeout) = stopped {
            log::debug!("rhine: {timeout:?}");
        }
    }

    /// Has the card poll the PHY and interrupt when the link changes.
    fn start_polling<R: Registers>(&self, bus: &Bus<'_, R>) {
        regs::MIICR.write(bus.bar, MiiControl::empty());
        // Register 1 must be the one polled, and MSRCEN set only after the first round. [RH 3.5]
        regs::MIIAD.write(bus.bar, MiiAddress::from_bits_retain(BMSR));
        regs::MIICR.write(bus.bar, MiiControl::MAUTO);
        let done = wait_until(bus.delay, "MDONE", POLL_US, || {
            regs::MIIAD.read(bus.bar).contains(MiiAddress::MDONE)
        });
        if let Err(timeout) = done {
            log::debug!("rhine: {timeout:?}");
        }
        regs::MIIAD.write(bus.bar, MiiAddress::MSRCEN | MiiAddress::from_bits_retain(BMSR));
    }

    fn read<R: Registers>(&self, bus: &Bus<'_, R>, register: u8) -> Result<u16, Timeout> {
        regs::MIICR.write(bus.bar, MiiControl::empty());
        regs::MPHY.write(bus.bar, self.address);
        regs::MIIAD.write(bus.bar, MiiAddress::from_bits_retain(register));
        regs::MIICR.write(bus.bar, MiiControl::RCMD);
        wait_until(bus.delay, "MII read", MII_US, || {
            !regs::MIICR.read(bus.bar).contains(MiiControl::RCMD)
        })?;
        Ok(regs::MIIDATA.read(bus.bar))
    }

    fn write<R: Registers>(
        &self,
        bus: &Bus<'_, R>,
        register: u8,
        value: u16,
    ) -> Result<(), Timeout> {
        regs::MIICR.write(bus.bar, MiiControl::empty());
        regs::MPHY.write(bus.bar, self.address);
        regs::MIIAD.write(bus.bar, MiiAddress::from_bits_retain(register));
        regs::MIIDATA.write(bus.bar, value);
        regs::MIICR.write(bus.bar, MiiControl::WCMD);
        wait_until(bus.delay, "MII write", MII_US, || {
            !regs::MIICR.read(bus.bar).contains(MiiControl::WCMD)
        })
    }

    /// The link as it is now; then the card watches it again.
    pub(crate) fn look<R: Registers>(&self, bus: &Bus<'_, R>) -> LinkState {
        self.stop_polling(bus);
        let state = self.ask(bus).unwrap_or_else(|timeout| {
            log::warn!("rhine: PHY: {timeout:?}");
            LinkState::default()
        });
        self.start_polling(bus);
        state
    }

    fn ask<R: Registers>(&self, bus: &Bus<'_, R>) -> Result<LinkState, Timeout> {
        // Latches low: the second read is the present. [RH 3.5]
        self.read(bus, BMSR)?;
        let status = self.read(bus, BMSR)?;
        if status == 0xffff || status & BMSR_LINK == 0 {
            if self.needs_restart && status != 0xffff {
                self.write(bus, BMCR, BMCR_AUTONEG | BMCR_RESTART)?;
            }
            return Ok(LinkState::default());
        }
        let control = self.read(bus, BMCR)?;
        let (fast, full_duplex, pause) = if control & BMCR_AUTONEG == 0 {
            (control & BMCR_SPEED != 0, control & BMCR_DUPLEX != 0, false)
        } else {
            // Priority of 802.3 annex 28B.3.
            let both = self.read(bus, ANAR)? & self.read(bus, ANLPAR)?;
            let fast = both & 0x0180 != 0;
            let full = if fast { both & 0x0100 != 0 } else { both & 0x0040 != 0 };
            (fast, full, full && both & PAUSE != 0)
        };
        let speed_mbps = if fast { 100 } else { 10 };
        Ok(LinkState { link: Link { up: true, speed_mbps, full_duplex }, pause })
    }
}

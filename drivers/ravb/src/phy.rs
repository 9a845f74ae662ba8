//! The PHY: finding it, setting its delays, making it negotiate, asking it for the link. [RV 1.5, 4.2]
//! Registers are those of IEEE 802.3 clause 22; delays are those of Micrel's KSZ9031 and KSZ9131, which
//! the boards have.

use crate::Timeout;
use crate::mdio::Bus;
use crate::variant::Variant;
use trireme_nic::{Link, Registers};
use trireme_registers::wait_in_steps;

/// Longest reset. [802.3 22.2.4.1.1]
const RESET_US: u32 = 500_000;
/// Between looks at it, each of which takes over 100 µs on MDIO.
const RESET_STEP_US: u32 = 1_000;

const BMCR: u8 = 0;
const BMSR: u8 = 1;
const ID1: u8 = 2;
const ID2: u8 = 3;
const ANAR: u8 = 4;
const ANLPAR: u8 = 5;
const CTRL1000: u8 = 9;
const STAT1000: u8 = 10;
const MMD_CONTROL: u8 = 13;
const MMD_DATA: u8 = 14;

const BMCR_RESET: u16 = 1 << 15;
const BMCR_SPEED_100: u16 = 1 << 13;
const BMCR_AUTONEG: u16 = 1 << 12;
const BMCR_POWER_DOWN: u16 = 1 << 11;
const BMCR_ISOLATE: u16 = 1 << 10;
const BMCR_RESTART: u16 = 1 << 9;
const BMCR_DUPLEX: u16 = 1 << 8;
const BMCR_SPEED_1000: u16 = 1 << 6;
const BMSR_NEGOTIATED: u16 = 1 << 5;
const BMSR_LINK: u16 = 1 << 2;
const ADVERTISE_10_HALF: u16 = 1 << 5;
const ADVERTISE_10_FULL: u16 = 1 << 6;
const ADVERTISE_100_HALF: u16 = 1 << 7;
const ADVERTISE_100_FULL: u16 = 1 << 8;
const ADVERTISE_PAUSE: u16 = 1 << 10;
const ADVERTISE_SELECTOR: u16 = 1;
const ADVERTISE_1000_HALF: u16 = 1 << 8;
const ADVERTISE_1000_FULL: u16 = 1 << 9;
const PARTNER_1000_HALF: u16 = 1 << 10;
const PARTNER_1000_FULL: u16 = 1 << 11;

/// Second halves of the ids, without the revision.
const MICREL: u16 = 0x0022;
const KSZ9031: u16 = 0x1620;
const KSZ9131: u16 = 0x1640;

/// Who delays the clocks of RGMII, and by how much; from the device tree. [RV 1.5]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Delays {
    /// The MAC delays its receive clock (`rx-internal-delay-ps` is not 0). R-Car Gen3.
    pub mac_receive: bool,
    /// The MAC delays its transmit clock (`tx-internal-delay-ps` is not 0). R-Car Gen3.
    pub mac_transmit: bool,
    /// The PHY delays the receive clock (`phy-mode` is `rgmii-id` or `rgmii-rxid`).
    pub phy_receive: bool,
    /// The PHY delays the transmit clock (`rgmii-id` or `rgmii-txid`).
    pub phy_transmit: bool,
    /// The PHY's own trim of the receive clock, in picoseconds (`rxc-skew-ps`, `rxc-skew-psec`).
    pub receive_skew_ps: Option<i32>,
    /// The PHY's own trim of the transmit clock (`txc-skew-ps`, `txc-skew-psec`).
    pub transmit_skew_ps: Option<i32>,
}

/// What the PHY says of the link.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct LinkState {
    pub(crate) link: Link,
    /// Both sides take PAUSE frames.
    pub(crate) pause: bool,
}

/// The PHY, if one was found.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Phy {
    address: Option<u8>,
    variant: Variant,
    delays: Delays,
}

impl Phy {
    /// None yet.
    pub(crate) fn new(variant: Variant, delays: Delays) -> Phy {
        Phy { address: None, variant, delays }
    }

    /// Finds the PHY, first where it is said to be, and makes it negotiate what the MAC can do. False: none
    /// answers.
    pub(crate) fn find<R: Registers>(&mut self, bus: &Bus<'_, R>, likely: Option<u8>) -> bool {
        let mut candidates = likely.into_iter().chain(0..32);
        let found = candidates.find_map(|address| {
            let id = (bus.read(address, ID1)?, bus.read(address, ID2)?);
            (id != (0, 0) && id != (0xffff, 0xffff)).then_some((address, id))
        });
        let Some((address, id)) = found else { return false };
        log::debug!("ravb: PHY {:04x}:{:04x} at {address}", id.0, id.1);
        self.address = Some(address);
        if let Err(timeout) = self.set_up(bus, address, id) {
            log::warn!("ravb: {timeout:?}");
        }
        true
    }

    /// One was found.
    pub(crate) fn is_found(&self) -> bool {
        self.address.is_some()
    }

    fn set_up<R: Registers>(
        &self,
        bus: &Bus<'_, R>,
        address: u8,
        id: (u16, u16),
    ) -> Result<(), Timeout> {
        let control = || bus.read(address, BMCR).unwrap_or(0xffff);
        let before = control();
        let odd = BMCR_RESET | BMCR_POWER_DOWN | BMCR_ISOLATE;
        // One that is at work keeps its link: negotiating takes seconds.
        let mut anew = before & odd != 0 || before & BMCR_AUTONEG == 0;
        if anew {
            bus.write(address, BMCR, BMCR_RESET);
            wait_in_steps(bus.delay, "PHY reset", RESET_STEP_US, RESET_US, || {
                control() & BMCR_RESET == 0
            })?;
        }
        if id.0 == MICREL {
            set_delays(bus, address, id.1 & 0xfff0, &self.delays);
        }
        let (basic, gigabit) = self.advertisement();
        if bus.read(address, ANAR) != Some(basic) || bus.read(address, CTRL1000) != Some(gigabit) {
            bus.write(address, ANAR, basic);
            bus.write(address, CTRL1000, gigabit);
            anew = true;
        }
        if anew {
            bus.write(address, BMCR, BMCR_AUTONEG | BMCR_RESTART);
        }
        Ok(())
    }

    /// What the MAC can do: on R-Car 100 and 1000 Mbit/s, full duplex, no PAUSE. [RV 1.2]
    fn advertisement(&self) -> (u16, u16) {
        if self.variant.is_avb() {
            return (ADVERTISE_SELECTOR | ADVERTISE_100_FULL, ADVERTISE_1000_FULL);
        }
        let all = ADVERTISE_10_HALF | ADVERTISE_10_FULL | ADVERTISE_100_HALF | ADVERTISE_100_FULL;
        (ADVERTISE_SELECTOR | all | ADVERTISE_PAUSE, ADVERTISE_1000_HALF | ADVERTISE_1000_FULL)
    }

    /// The link as it is now. A PHY that does not answer is not found any more: if it comes back, then with
    /// its settings gone.
    pub(crate) fn look<R: Registers>(&mut self, bus: &Bus<'_, R>) -> LinkState {
        let Some(address) = self.address else { return LinkState::default() };
        // Latches low: the second read is the present.
        if bus.read(address, BMSR).is_none() {
            self.address = None;
            return LinkState::default();
        }
        self.ask(bus, address).unwrap_or_default()
    }

    /// `None`: no link, or no answer.
    fn ask<R: Registers>(&self, bus: &Bus<'_, R>, address: u8) -> Option<LinkState> {
        let read = |register| bus.read(address, register);
        let status = read(BMSR)?;
        if status == 0xffff || status & BMSR_LINK == 0 {
            return None;
        }
        let control = read(BMCR)?;
        if control & BMCR_AUTONEG == 0 {
            let speed_mbps = match (control & BMCR_SPEED_1000, control & BMCR_SPEED_100) {
                (0, 0) => 10,
                (0, _) => 100,
                _ => 1000,
            };
            let full_duplex = control & BMCR_DUPLEX != 0;
            return Some(LinkState {
                link: Link { up: true, speed_mbps, full_duplex },
                pause: false,
            });
        }
        if status & BMSR_NEGOTIATED == 0 {
            return None;
        }
        let (ours, theirs) = (read(CTRL1000)?, read(STAT1000)?);
        let common = read(ANAR)? & read(ANLPAR)?;
        let (speed_mbps, full_duplex) = resolve(ours, theirs, common)?;
        let pause = full_duplex && common & ADVERTISE_PAUSE != 0;
        Some(LinkState { link: Link { up: true, speed_mbps, full_duplex }, pause })
    }
}

/// The best both sides can, by the priority of 802.3 annex 28B.3.
fn resolve(ours: u16, theirs: u16, common: u16) -> Option<(u32, bool)> {
    let gigabit = |us, them| ours & us != 0 && theirs & them != 0;
    if gigabit(ADVERTISE_1000_FULL, PARTNER_1000_FULL) {
        return Some((1000, true));
    }
    if gigabit(ADVERTISE_1000_HALF, PARTNER_1000_HALF) {
        return Some((1000, false));
    }
    [
        (ADVERTISE_100_FULL, (100, true)),
        (ADVERTISE_100_HALF, (100, false)),
        (ADVERTISE_10_FULL, (10, true)),
        (ADVERTISE_10_HALF, (10, false)),
    ]
    .into_iter()
    .find_map(|(bit, mode)| (common & bit != 0).then_some(mode))
}

/// Has the next access of `MMD_DATA` go to a register of an MDIO manageable device. [802.3 annex 22D]
fn select_mmd<R: Registers>(bus: &Bus<'_, R>, phy: u8, device: u16, register: u16) {
    bus.write(phy, MMD_CONTROL, device);
    bus.write(phy, MMD_DATA, register);
    bus.write(phy, MMD_CONTROL, 1 << 14 | device);
}

fn write_mmd<R: Registers>(bus: &Bus<'_, R>, phy: u8, device: u16, register: u16, value: u16) {
    select_mmd(bus, phy, device, register);
    bus.write(phy, MMD_DATA, value);
}

/// The delay line of a KSZ9131's clock: bit 12 switches it off.
fn delay_line<R: Registers>(bus: &Bus<'_, R>, phy: u8, register: u16, on: bool) {
    select_mmd(bus, phy, 2, register);
    let before = bus.read(phy, MMD_DATA).unwrap_or(0) & !(1 << 12);
    write_mmd(bus, phy, 2, register, before | u16::from(!on) << 12);
}

/// Delays by the PHY. Register numbers [RV 4.2]; units from Linux's binding `micrel-ksz90x1.txt`: the
/// KSZ9031 counts 60 ps from 0 and 15 is none, the KSZ9131 100 ps from -700.
fn set_delays<R: Registers>(bus: &Bus<'_, R>, phy: u8, model: u16, delays: &Delays) {
    let Delays { receive_skew_ps, transmit_skew_ps, .. } = *delays;
    let skew = |receive: u16, transmit: u16| write_mmd(bus, phy, 2, 8, transmit << 5 | receive);
    match model {
        KSZ9031 => {
            if receive_skew_ps.is_some() || transmit_skew_ps.is_some() {
                let steps = |ps: Option<i32>| ps.map_or(15, |ps| (ps / 60).clamp(0, 31) as u16);
                skew(steps(receive_skew_ps), steps(transmit_skew_ps));
            }
            // Centre of the link pulses, without which some partners are not heard. As Linux does.
            write_mmd(bus, phy, 0, 4, 0x1a80);
            write_mmd(bus, phy, 0, 3, 0x0006);
        }
        KSZ9131 => {
            if receive_skew_ps.is_some() || transmit_skew_ps.is_some() {
                let steps = |ps: Option<i32>| ((ps.unwrap_or(0) + 700) / 100).clamp(0, 31) as u16;
                skew(steps(receive_skew_ps), steps(transmit_skew_ps));
            }
            delay_line(bus, phy, 76, delays.phy_receive);
            delay_line(bus, phy, 77, delays.phy_transmit);
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;

    #[test]
    fn the_best_common_mode_wins() {
        // [RV 4.2]: partner 0xc5e1 is 10 and 100, both duplexes, and PAUSE.
        let partner = 0xc5e1;
        assert_eq!(resolve(0x0300, 0x3c00, 0x01e1 & partner), Some((1000, true)));
        assert_eq!(resolve(0x0300, 0x3400, 0x01e1 & partner), Some((1000, false)));
        assert_eq!(
            resolve(0x0200, 0x3400, 0x0101 & partner),
            Some((100, true)),
            "R-Car: no half duplex"
        );
        assert_eq!(resolve(0, 0, 0x0080), Some((100, false)));
        assert_eq!(resolve(0, 0, 0x0060), Some((10, true)));
        assert_eq!(resolve(0, 0, 0x0020), Some((10, false)));
        assert_eq!(resolve(0, 0, 0x0001), None);
    }

    /// A PHY of which every bit is one, its reset never over.
    struct Stuck {
        edges: Cell<u32>,
        high: Cell<bool>,
    }

    impl Registers for Stuck {
        fn read32(&self, _: usize) -> u32 {
            // Zero in the turnaround: somebody is there. [RV 4.1]
            if self.edges.get() % 64 == 47 { 0 } else { 8 }
        }
        fn write32(&self, _: usize, value: u32) {
            let high = value & 1 != 0;
            self.edges.set(self.edges.get() + u32::from(high && !self.high.replace(high)));
        }
        fn read8(&self, _: usize) -> u8 {
            panic!("words only")
        }
        fn read16(&self, _: usize) -> u16 {
            panic!("words only")
        }
        fn write8(&self, _: usize, _: u8) {
            panic!("words only")
        }
        fn write16(&self, _: usize, _: u16) {
            panic!("words only")
        }
    }

    /// Bits on MDIO take time too.
    #[test]
    fn a_phy_that_stays_in_reset_is_waited_for_half_a_second() {
        let bar = Stuck { edges: Cell::new(0), high: Cell::new(false) };
        let waited = Cell::new(0);
        let delay = |us| waited.set(waited.get() + us);
        let bus = Bus { bar: &bar, delay: &delay };
        let phy = Phy::new(Variant::Gen3, Delays::default());
        let late = Timeout { what: "PHY reset", waited_us: RESET_US };
        assert_eq!(phy.set_up(&bus, 0, (MICREL, KSZ9031)), Err(late));
        assert!((500_000..700_000).contains(&waited.get()), "{} us", waited.get());
    }

    #[test]
    fn each_mac_advertises_what_it_can() {
        let of = |variant| Phy::new(variant, Delays::default()).advertisement();
        assert_eq!(of(Variant::Gen3), (0x0101, 0x0200));
        assert_eq!(of(Variant::Gbeth), (0x05e1, 0x0300));
    }
}

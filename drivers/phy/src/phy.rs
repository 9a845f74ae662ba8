//! The PHY: finding it, making it negotiate, asking it for the link. [802.3 22.2.4, 28, 40.5]

use crate::{Mdio, Pins};
use trireme_nic::Link;
use trireme_registers::{Timeout, wait_in_steps};

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

/// What the PHY says of the link.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LinkState {
    /// What `ethtool` shows of it.
    pub link: Link,
    /// Both sides take PAUSE frames.
    pub pause: bool,
}

/// What a MAC can do, as its PHY is to tell the partner.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Advertisement {
    basic: u16,
    gigabit: u16,
}

impl Advertisement {
    /// Every mode, and PAUSE.
    pub const EVERYTHING: Advertisement = Advertisement {
        basic: ADVERTISE_SELECTOR
            | ADVERTISE_10_HALF
            | ADVERTISE_10_FULL
            | ADVERTISE_100_HALF
            | ADVERTISE_100_FULL
            | ADVERTISE_PAUSE,
        gigabit: ADVERTISE_1000_HALF | ADVERTISE_1000_FULL,
    };
    /// 100 and 1000 Mbit/s, full duplex, no PAUSE.
    pub const FULL_DUPLEX_FROM_100: Advertisement = Advertisement {
        basic: ADVERTISE_SELECTOR | ADVERTISE_100_FULL,
        gigabit: ADVERTISE_1000_FULL,
    };
}

/// The PHY, if one was found.
#[derive(Clone, Copy, Debug)]
pub struct Phy {
    address: Option<u8>,
    advertisement: Advertisement,
}

impl Phy {
    /// None yet.
    pub fn new(advertisement: Advertisement) -> Phy {
        Phy { address: None, advertisement }
    }

    /// Finds the PHY at one of these addresses, and makes it negotiate what the MAC can do. `prepare` is called
    /// with its address and its id's two registers once it is out of reset. False: none answers.
    pub fn find<P: Pins>(
        &mut self,
        bus: &Mdio<'_, P>,
        addresses: impl IntoIterator<Item = u8>,
        prepare: impl FnOnce(&Mdio<'_, P>, u8, (u16, u16)),
    ) -> bool {
        let found = addresses.into_iter().find_map(|address| {
            let id = (bus.read(address, ID1)?, bus.read(address, ID2)?);
            (id != (0, 0) && id != (0xffff, 0xffff)).then_some((address, id))
        });
        let Some((address, id)) = found else { return false };
        log::debug!("PHY {:04x}:{:04x} at {address}", id.0, id.1);
        self.address = Some(address);
        if let Err(timeout) = self.set_up(bus, address, |bus| prepare(bus, address, id)) {
            log::warn!("PHY at {address}: {timeout:?}");
        }
        true
    }

    /// One was found.
    pub fn is_found(&self) -> bool {
        self.address.is_some()
    }

    fn set_up<P: Pins>(
        &self,
        bus: &Mdio<'_, P>,
        address: u8,
        prepare: impl FnOnce(&Mdio<'_, P>),
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
        prepare(bus);
        let Advertisement { basic, gigabit } = self.advertisement;
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

    /// The link as it is now. A PHY that does not answer is not found any more: if it comes back, then with
    /// its settings gone.
    pub fn look<P: Pins>(&mut self, bus: &Mdio<'_, P>) -> LinkState {
        let Some(address) = self.address else { return LinkState::default() };
        // Latches low: the second read is the present.
        if bus.read(address, BMSR).is_none() {
            self.address = None;
            return LinkState::default();
        }
        self.ask(bus, address).unwrap_or_default()
    }

    /// `None`: no link, or no answer.
    fn ask<P: Pins>(&self, bus: &Mdio<'_, P>, address: u8) -> Option<LinkState> {
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

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;

    #[test]
    fn the_best_common_mode_wins() {
        // Partner 0xc5e1 is 10 and 100, both duplexes, and PAUSE.
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

    impl Pins for &Stuck {
        fn sample(&self) -> bool {
            // Zero in the turnaround: somebody is there.
            self.edges.get() % 64 != 47
        }
        fn drive(&self, clock: bool, _: Option<bool>) {
            self.edges.set(self.edges.get() + u32::from(clock && !self.high.replace(clock)));
        }
    }

    /// Bits on MDIO take time too.
    #[test]
    fn a_phy_that_stays_in_reset_is_waited_for_half_a_second() {
        let pins = Stuck { edges: Cell::new(0), high: Cell::new(false) };
        let waited = Cell::new(0);
        let delay = |us| waited.set(waited.get() + us);
        let bus = Mdio::new(&pins, &delay);
        let phy = Phy::new(Advertisement::FULL_DUPLEX_FROM_100);
        let late = Timeout { what: "PHY reset", waited_us: RESET_US };
        assert_eq!(phy.set_up(&bus, 0, |_| ()), Err(late));
        assert!((500_000..700_000).contains(&waited.get()), "{} us", waited.get());
    }

    #[test]
    fn advertisements_are_those_of_the_standard() {
        // [802.3 28.2.4.1.3, 40.5.1.1]
        let all = Advertisement::EVERYTHING;
        assert_eq!((all.basic, all.gigabit), (0x05e1, 0x0300));
        let full = Advertisement::FULL_DUPLEX_FROM_100;
        assert_eq!((full.basic, full.gigabit), (0x0101, 0x0200));
    }
}

//! What the PHY needs to know of MAC and board: which modes there are, and delays of RGMII's clocks.
//! [RV 1.2, 1.5, 4.2] Delays are those of Micrel's KSZ9031 and KSZ9131, which the boards have.

use crate::mdio::Bus;
use crate::variant::Variant;
use trireme_nic::Registers;
use trireme_phy::{Advertisement, LinkState};

const MMD_CONTROL: u8 = 13;
const MMD_DATA: u8 = 14;

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

/// The PHY, if one was found.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Phy {
    phy: trireme_phy::Phy,
    delays: Delays,
}

impl Phy {
    /// None yet.
    pub(crate) fn new(variant: Variant, delays: Delays) -> Phy {
        Phy { phy: trireme_phy::Phy::new(advertisement(variant)), delays }
    }

    /// Finds the PHY, first where it is said to be, and makes it negotiate what the MAC can do. False: none
    /// answers.
    pub(crate) fn find<R: Registers>(&mut self, bus: &Bus<'_, R>, likely: Option<u8>) -> bool {
        let delays = self.delays;
        self.phy.find(bus, likely.into_iter().chain(0..32), |bus, address, id| {
            if id.0 == MICREL {
                set_delays(bus, address, id.1 & 0xfff0, &delays);
            }
        })
    }

    /// One was found.
    pub(crate) fn is_found(&self) -> bool {
        self.phy.is_found()
    }

    /// The link as it is now.
    pub(crate) fn look<R: Registers>(&mut self, bus: &Bus<'_, R>) -> LinkState {
        self.phy.look(bus)
    }
}

/// What the MAC can do: on R-Car 100 and 1000 Mbit/s, full duplex, no PAUSE. [RV 1.2]
fn advertisement(variant: Variant) -> Advertisement {
    match variant.is_avb() {
        true => Advertisement::FULL_DUPLEX_FROM_100,
        false => Advertisement::EVERYTHING,
    }
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

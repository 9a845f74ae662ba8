//! What a port is attached to, and what the MAC is to be told of its link. [GM 7]

use trireme_nic::Link;
use trireme_phy::LinkState;

/// What a port's pins lead to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Attached {
    /// Something that is always there and needs no asking, as a switch's port or another MAC: 1000 Mbit/s,
    /// full duplex.
    Fixed {
        /// It takes PAUSE frames.
        pause: bool,
    },
    /// A PHY, at this address of the management bus.
    Phy {
        /// 0 to 31.
        address: u8,
    },
    /// The CPU's port of an RTL8366RB, which is asked by SMI on the management bus' lines.
    Switch {
        /// The two take PAUSE frames of each other.
        pause: bool,
    },
}

/// What STATUS is to say: the pins are RGMII on every board. [GM 4.4]
pub(crate) fn status(state: &LinkState) -> u32 {
    let Link { up, speed_mbps, full_duplex } = state.link;
    let speed = match speed_mbps {
        1000 => 2,
        100 => 1,
        _ => 0,
    };
    let interface = if up && speed_mbps == 1000 { 3 } else { 2 };
    u32::from(up) | speed << 1 | u32::from(full_duplex) << 3 | interface << 5
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_those_of_the_sheet() {
        // [GM 4.4]
        let up = |speed_mbps| LinkState {
            link: Link { up: true, speed_mbps, full_duplex: true },
            pause: false,
        };
        assert_eq!([1000, 100, 10].map(|speed| status(&up(speed))), [0x6d, 0x4b, 0x49]);
        assert_eq!(status(&LinkState::default()), 0x40);
    }
}

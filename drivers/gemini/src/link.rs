//! What a port is attached to, and what its link is like. [GM 7]

use trireme_nic::Link;

/// What a port's pins lead to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Attached {
    /// Something that is always there and needs no asking, as a switch's port or another MAC: 1000 Mbit/s,
    /// full duplex.
    Fixed {
        /// It takes PAUSE frames.
        pause: bool,
    },
}

/// State of a link.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct LinkState {
    pub(crate) link: Link,
    /// Both sides take PAUSE frames.
    pub(crate) pause: bool,
}

impl LinkState {
    /// What STATUS is to say: the pins are RGMII on every board. [GM 4.4]
    pub(crate) fn status(&self) -> u32 {
        let Link { up, speed_mbps, full_duplex } = self.link;
        let speed = match speed_mbps {
            1000 => 2,
            100 => 1,
            _ => 0,
        };
        let interface = if up && speed_mbps == 1000 { 3 } else { 2 };
        u32::from(up) | speed << 1 | u32::from(full_duplex) << 3 | interface << 5
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn status_is_that_of_the_sheet() {
        // [GM 4.4]
        let up = |speed_mbps| LinkState {
            link: Link { up: true, speed_mbps, full_duplex: true },
            pause: false,
        };
        assert_eq!([1000, 100, 10].map(|speed| up(speed).status()), [0x6d, 0x4b, 0x49]);
        assert_eq!(LinkState::default().status(), 0x40);
    }
}

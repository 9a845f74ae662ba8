//! A gigabit PHY behind clause 22 (IEEE 802.3, 22.2.4 and 40.5), with a partner that can do everything.

const CONTROL: u8 = 0;
const STATUS: u8 = 1;
const ADVERTISE: u8 = 4;
const GIGABIT: u8 = 9;

const RESET: u16 = 1 << 15;
const NEGOTIATE: u16 = 1 << 12;
const POWER_DOWN: u16 = 1 << 11;
const ISOLATE: u16 = 1 << 10;
const RESTART: u16 = 1 << 9;
const FULL_DUPLEX: u16 = 1 << 8;

/// One PHY and its cable.
#[derive(Clone, Debug)]
pub struct Phy {
    id: [u16; 2],
    control: u16,
    advertise: u16,
    gigabit: u16,
    plugged: bool,
    /// Link loss until STATUS is read.
    was_down: bool,
}

impl Phy {
    /// An RTL8211B, as a DNS-313 has. The identifier is Realtek's public one.
    pub(crate) fn rtl8211b() -> Phy {
        Phy::new([0x001c, 0xc912])
    }

    /// A port of the RTL8366RB; that it identifies as the others of its maker is assumed.
    pub(crate) fn switch_port() -> Phy {
        Phy::new([0x001c, 0xc960])
    }

    fn new(id: [u16; 2]) -> Phy {
        let mut phy =
            Phy { id, control: 0, advertise: 0, gigabit: 0, plugged: true, was_down: false };
        phy.reset();
        phy
    }

    fn reset(&mut self) {
        self.control = NEGOTIATE | FULL_DUPLEX | 1 << 6;
        // Pause, 100 and 10 Mbit/s in both duplexes; IEEE 802.3 as selector.
        self.advertise = 0x0de1;
        self.gigabit = 0x0200;
    }

    /// Plugs or pulls the cable.
    pub fn set_cable(&mut self, plugged: bool) {
        self.plugged = plugged;
        self.was_down |= !plugged;
    }

    /// A cable is plugged in.
    pub(crate) fn is_plugged(&self) -> bool {
        self.plugged
    }

    /// Link is up.
    pub fn link(&self) -> bool {
        self.plugged && self.control & (POWER_DOWN | ISOLATE) == 0 && self.mode().is_some()
    }

    /// Speed in Mbit/s and full duplex: negotiated, or forced. `None`: nothing in common.
    pub(crate) fn mode(&self) -> Option<(u32, bool)> {
        if self.control & NEGOTIATE == 0 {
            let speed = match (self.control >> 6 & 1, self.control >> 13 & 1) {
                (1, _) => 1000,
                (0, 1) => 100,
                _ => 10,
            };
            return Some((speed, self.control & FULL_DUPLEX != 0));
        }
        if self.gigabit & 0x0200 != 0 {
            return Some((1000, true));
        }
        [(8, 100, true), (7, 100, false), (6, 10, true), (5, 10, false)]
            .into_iter()
            .find(|(bit, _, _)| self.advertise >> bit & 1 != 0)
            .map(|(_, speed, full)| (speed, full))
    }

    /// Reads a register.
    pub(crate) fn read(&mut self, register: u8) -> u16 {
        let link = self.link();
        match register {
            CONTROL => self.control,
            STATUS => {
                let up = link && !std::mem::take(&mut self.was_down);
                let done = link && self.control & NEGOTIATE != 0;
                0x7949 | u16::from(done) << 5 | u16::from(up) << 2
            }
            2 | 3 => self.id[usize::from(register - 2)],
            ADVERTISE => self.advertise,
            5 if link => 0xcde1,
            6 => u16::from(link),
            GIGABIT => self.gigabit,
            10 if link => 0x3c00,
            15 => 0x2000,
            _ => 0,
        }
    }

    /// Writes a register.
    pub(crate) fn write(&mut self, register: u8, value: u16) {
        match register {
            CONTROL if value & RESET != 0 => self.reset(),
            CONTROL => self.control = value & !RESTART,
            ADVERTISE => self.advertise = value,
            GIGABIT => self.gigabit = value,
            _ => {}
        }
        self.was_down |= !self.link();
    }
}

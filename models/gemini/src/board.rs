//! What a Gemini's two ports are wired to (docs/hardware/gemini.md 1.10, 2): PHYs, a switch, or nothing that
//! can be asked.

use crate::mdio::Mdio;
use crate::phy::Phy;
use crate::smi::Smi;
use crate::switch::{self, Forwarded, Switch};
use std::fmt;
use std::str::FromStr;

/// Boards by name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BoardKind {
    /// Both ports with a fixed 1000 Mbit/s full-duplex link, nothing on the management bus.
    Fixed,
    /// D-Link DNS-313: port 0 with an RTL8211B at address 1, port 1 not connected.
    Dns313,
    /// Wiliboard WBD-222: PHYs at addresses 1 and 3.
    Wbd222,
    /// D-Link DIR-685: port 0 to the CPU port of an RTL8366RB, whose five sockets are the wires.
    Dir685,
}

/// No board of this name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnknownBoard(pub String);

impl fmt::Display for UnknownBoard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "board {:?}: want fixed, dns313, wbd222 or dir685", self.0)
    }
}

impl std::error::Error for UnknownBoard {}

impl FromStr for BoardKind {
    type Err = UnknownBoard;

    fn from_str(text: &str) -> Result<BoardKind, UnknownBoard> {
        match text {
            "fixed" => Ok(BoardKind::Fixed),
            "dns313" => Ok(BoardKind::Dns313),
            "wbd222" => Ok(BoardKind::Wbd222),
            "dir685" => Ok(BoardKind::Dir685),
            _ => Err(UnknownBoard(text.to_owned())),
        }
    }
}

enum Bus {
    Nothing,
    Mdio(Mdio, Vec<(u8, Phy)>),
    Smi(Smi, Box<Switch>),
}

/// A board.
pub struct Board {
    kind: BoardKind,
    bus: Bus,
    /// Cables of a board without PHYs.
    plugged: [bool; 2],
    /// What the switch sends on between its sockets.
    between: Vec<(usize, Vec<u8>)>,
}

impl Board {
    /// The board after power-up, every cable plugged.
    pub fn new(kind: BoardKind) -> Board {
        let bus = match kind {
            BoardKind::Fixed => Bus::Nothing,
            BoardKind::Dns313 => Bus::Mdio(Mdio::default(), vec![(1, Phy::rtl8211b())]),
            BoardKind::Wbd222 => {
                let phys = vec![(1, Phy::rtl8211b()), (3, Phy::rtl8211b())];
                Bus::Mdio(Mdio::default(), phys)
            }
            BoardKind::Dir685 => Bus::Smi(Smi::default(), Box::new(Switch::new())),
        };
        Board { kind, bus, plugged: [true; 2], between: Vec::new() }
    }

    /// Which board it is.
    pub fn kind(&self) -> BoardKind {
        self.kind
    }

    /// PHYs no longer answer.
    pub(crate) fn silence(&mut self) {
        if let Bus::Mdio(_, phys) = &mut self.bus {
            phys.iter_mut().for_each(|(address, _)| *address = u8::MAX);
        }
    }

    /// The same board anew. Cables stay as they are.
    pub(crate) fn reset(&mut self) -> Board {
        let mut board = Board { plugged: self.plugged, ..Board::new(self.kind) };
        for wire in 0..self.wires() {
            if let Some(phy) = self.phy_mut(wire) {
                let plugged = phy.is_plugged();
                board.set_cable(wire, plugged);
            }
        }
        board
    }

    /// Cables: as many as ports, or sockets of the switch.
    pub fn wires(&self) -> usize {
        match self.kind {
            BoardKind::Fixed | BoardKind::Wbd222 => 2,
            BoardKind::Dns313 => 1,
            BoardKind::Dir685 => switch::PORTS,
        }
    }

    fn phy_mut(&mut self, wire: usize) -> Option<&mut Phy> {
        match &mut self.bus {
            Bus::Nothing => None,
            Bus::Mdio(_, phys) => phys.get_mut(wire).map(|(_, phy)| phy),
            Bus::Smi(_, switch) => switch.phys.get_mut(wire),
        }
    }

    /// Plugs or pulls a cable.
    pub fn set_cable(&mut self, wire: usize, plugged: bool) {
        match self.phy_mut(wire) {
            Some(phy) => phy.set_cable(plugged),
            None => {
                if let Some(state) = self.plugged.get_mut(wire) {
                    *state = plugged;
                }
            }
        }
    }

    /// Link of a wire.
    pub fn link(&mut self, wire: usize) -> bool {
        let plugged = self.plugged.get(wire).copied().unwrap_or(false);
        self.phy_mut(wire).map_or(plugged, |phy| phy.link())
    }

    /// The link of every wire turns.
    pub(crate) fn flap(&mut self) {
        for wire in 0..self.wires() {
            let up = self.link(wire);
            self.set_cable(wire, !up);
        }
    }

    /// A MAC that runs at `speed` Mbit/s is understood at the other end of its pins.
    pub(crate) fn carries(&self, port: usize, speed: u32) -> bool {
        match &self.bus {
            Bus::Nothing => self.plugged[port] && speed == 1000,
            Bus::Mdio(_, phys) => {
                let phy = phys.get(port).map(|(_, phy)| phy);
                phy.is_some_and(|phy| phy.link() && phy.mode().is_some_and(|m| m.0 == speed))
            }
            Bus::Smi(..) => port == 0 && speed == 1000,
        }
    }

    /// Link, speed and full duplex as RGMII tells them.
    pub(crate) fn in_band(&self, port: usize) -> Option<(bool, u32, bool)> {
        match &self.bus {
            Bus::Nothing => Some((self.plugged[port], 1000, true)),
            Bus::Mdio(_, phys) => {
                let (_, phy) = phys.get(port)?;
                let (speed, full) = phy.mode()?;
                Some((phy.link(), speed, full))
            }
            Bus::Smi(..) => (port == 0).then_some((true, 1000, true)),
        }
    }

    /// A MAC sends. Returns what goes out on which wire.
    pub(crate) fn transmit(&mut self, port: usize, frame: Vec<u8>) -> Vec<(usize, Vec<u8>)> {
        match &mut self.bus {
            Bus::Smi(_, switch) => switch.take_cpu(frame).ports,
            _ => vec![(port, frame)],
        }
    }

    /// A frame comes in on a wire. Returns what reaches which MAC.
    pub(crate) fn receive(&mut self, wire: usize, frame: &[u8]) -> Option<(usize, Vec<u8>)> {
        if wire >= self.wires() || !self.link(wire) {
            return None;
        }
        match &mut self.bus {
            Bus::Smi(_, switch) => {
                let Forwarded { cpu, ports } = switch.take_port(wire, frame);
                self.between = ports;
                cpu.map(|frame| (0, frame))
            }
            _ => Some((wire, frame.to_vec())),
        }
    }

    /// What the switch sent on from one wire to others.
    pub(crate) fn take_between(&mut self) -> Vec<(usize, Vec<u8>)> {
        std::mem::take(&mut self.between)
    }

    /// GPIO 0 lines of clock and data. \[1.10\]
    fn lines(&self) -> (u32, u32) {
        match self.kind {
            BoardKind::Dir685 => (21, 22),
            _ => (22, 21),
        }
    }

    /// GPIO outputs changed.
    pub(crate) fn drive(&mut self, out: u32, driven: u32) {
        let (clock, data) = self.lines();
        // What the SoC does not drive is pulled up.
        let level = |line: u32| driven >> line & 1 == 0 || out >> line & 1 != 0;
        let (clock, data) = (level(clock), level(data));
        match &mut self.bus {
            Bus::Nothing => {}
            Bus::Mdio(mdio, phys) => mdio.drive(clock, data, |address| {
                phys.iter_mut().find(|(at, _)| *at == address).map(|(_, phy)| phy)
            }),
            Bus::Smi(smi, switch) => {
                let data = data && smi.output() != Some(false);
                smi.drive(clock, data, switch);
            }
        }
    }

    /// Levels the board gives to GPIO inputs.
    pub(crate) fn pins(&self) -> u32 {
        let output = match &self.bus {
            Bus::Nothing => None,
            Bus::Mdio(mdio, _) => mdio.output(),
            Bus::Smi(smi, _) => smi.output(),
        };
        let (_, data) = self.lines();
        if output == Some(false) { !(1 << data) } else { !0 }
    }
}

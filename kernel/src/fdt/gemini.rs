//! Nodes of the Ethernet ports of a Cortina Gemini, and of what they need of the chip. [BND] is the binding
//! `cortina,gemini-ethernet.yaml` of Linux (and `realtek.yaml`, of a switch at one of them), as `docs/hardware/gemini.md` 1.10, 2 and 6.1 give it.

use alloc::vec::Vec;
use core::ops::Range;

use dtoolkit::Node as _;
use dtoolkit::fdt::FdtNode;
use trireme_gemini::{Attached, Lines};

use super::{Interrupt, Place, cell, cell_at, mac_address, value};

/// The windows of a port's DMA within the block. [docs/hardware/gemini.md 3.1]
const PORTS: [u64; 2] = [0x8000, 0xc000];
/// PHYs remembered at most: an address has five bits.
const MAX_PHYS: usize = 32;

/// What a port's pins lead to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Other {
    Fixed {
        pause: bool,
    },
    /// By its phandle.
    Phy(u32),
}

/// A port as its node describes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Port {
    other: Other,
    phandle: Option<u32>,
    /// Its address, if the tree says one.
    pub mac: Option<[u8; 6]>,
}

/// What the tree says of the card, gathered node by node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Gemini {
    /// Where the Ethernet block begins.
    pub ethernet: Option<u64>,
    /// The global block.
    pub global: Option<Range<u64>>,
    /// Ports that have something on their pins.
    pub ports: [Option<Port>; 2],
    /// The lines of both ports, whether they are in use or not. [6.1 P8]
    pub lines: Vec<Interrupt>,
    /// GPIO blocks, by phandle.
    gpios: Vec<(u32, Range<u64>)>,
    /// Management bus: the phandle of its GPIO block, and its lines there.
    bus: Option<(u32, Lines)>,
    /// PHYs: phandle and address.
    phys: Vec<(u32, u8)>,
    /// The port, by phandle, a Realtek switch is at.
    switched: Option<u32>,
}

impl Gemini {
    /// Looks at a node; parents come before children.
    pub(crate) fn look(&mut self, place: &Place<'_, '_>) {
        if place.is("cortina,gemini-syscon") {
            self.global = place.reg(0);
        } else if place.is("cortina,gemini-gpio") {
            self.gpios.extend(cell(&place.node, "phandle").zip(place.reg(0)));
        } else if place.is("virtual,mdio-gpio") {
            let gpios = value(&place.node, "gpios").unwrap_or_default();
            self.bus = self.bus.or_else(|| lines(gpios, gpios.get(12..)?));
            self.look_at_phys(&place.node);
        } else if place.is("realtek,rtl8366rb") && place.enabled() {
            self.look_at_switch(&place.node);
        } else if place.is("cortina,gemini-ethernet") && place.enabled() {
            self.ethernet = place.reg(0).map(|registers| registers.start);
        } else if place.is("cortina,gemini-ethernet-port") {
            self.look_at_port(place);
        }
    }

    fn look_at_phys(&mut self, bus: &FdtNode<'_>) {
        for phy in bus.children().take(MAX_PHYS) {
            let address = cell(&phy, "reg").and_then(|reg| u8::try_from(reg).ok());
            self.phys.extend(cell(&phy, "phandle").zip(address));
        }
    }

    fn look_at_switch(&mut self, switch: &FdtNode<'_>) {
        let clock = value(switch, "mdc-gpios").unwrap_or_default();
        self.bus = self.bus.or_else(|| lines(clock, value(switch, "mdio-gpios")?));
        let mut ports = switch.child("ports").into_iter().flat_map(|ports| ports.children());
        self.switched = ports.find_map(|port| cell(&port, "ethernet"));
    }

    fn look_at_port(&mut self, place: &Place<'_, '_>) {
        let (Some(ethernet), Some(registers)) = (self.ethernet, place.reg(0)) else { return };
        let at = registers.start.checked_sub(ethernet);
        let Some(number) = PORTS.iter().position(|port| at == Some(*port)) else { return };
        self.lines.extend(place.interrupt(0));
        if !place.enabled() {
            return;
        }
        let fixed = place.node.child("fixed-link");
        let other = match (fixed, cell(&place.node, "phy-handle")) {
            (Some(link), _) => Other::Fixed { pause: value(&link, "pause").is_some() },
            (None, Some(phy)) => Other::Phy(phy),
            // Kept for its interrupt alone. [BND]
            (None, None) => return,
        };
        let (phandle, mac) = (cell(&place.node, "phandle"), mac_address(&place.node));
        self.ports[number] = Some(Port { other, phandle, mac });
    }

    /// Registers and lines of the management bus, if there is one.
    pub(crate) fn management(&self) -> Option<(Range<u64>, Lines)> {
        let (phandle, lines) = self.bus?;
        let (_, registers) = self.gpios.iter().find(|(gpio, _)| *gpio == phandle)?;
        Some((registers.clone(), lines))
    }

    /// What a port is attached to. `None`: a PHY the tree does not have.
    pub(crate) fn attached(&self, port: &Port) -> Option<Attached> {
        match port.other {
            Other::Fixed { pause } if self.switched.is_some() && self.switched == port.phandle => {
                Some(Attached::Switch { pause })
            }
            Other::Fixed { pause } => Some(Attached::Fixed { pause }),
            Other::Phy(phandle) => {
                let &(_, address) = self.phys.iter().find(|(phy, _)| *phy == phandle)?;
                Some(Attached::Phy { address })
            }
        }
    }
}

/// Two lines of one block, each as phandle, line and flags.
fn lines(clock: &[u8], data: &[u8]) -> Option<(u32, Lines)> {
    let block = cell_at(clock, 0)?;
    let line = |bytes| u8::try_from(cell_at(bytes, 1)?).ok().filter(|line| *line < 32);
    (cell_at(data, 0)? == block)
        .then_some(Lines { clock: line(clock)?, data: line(data)? })
        .map(|lines| (block, lines))
}

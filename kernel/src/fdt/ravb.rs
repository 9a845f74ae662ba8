//! Nodes of Renesas RAVB network cards and of the clock generators they hang on. [RAVB] is the binding
//! `renesas,etheravb.yaml` of Linux, as `docs/hardware/ravb.md` 1.1 to 1.5 gives it.

use alloc::vec::Vec;
use core::ops::Range;

use dtoolkit::Node as _;
use dtoolkit::fdt::FdtNode;
use trireme_ravb::{Delays, Variant, cpg};

use super::{Interrupt, Place, cell, mac_address, text, value};

/// Lines of a Gen3 block that Linux uses, and we: receive queues 0 and 1, transmit queues 0 and 1, errors
/// and timestamps, E-MAC.
const GEN3_LINES: [&str; 6] = ["ch0", "ch1", "ch18", "ch19", "ch22", "ch24"];

/// A card as its node describes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Card {
    /// Which block.
    pub variant: Variant,
    /// Its registers.
    pub registers: Range<u64>,
    /// The lines it interrupts by.
    pub lines: Vec<Interrupt>,
    /// Its address, if the tree or the boot loader that edited it says one.
    pub mac: Option<[u8; 6]>,
    /// Where its PHY is on MDIO.
    pub phy: Option<u8>,
    /// Delays of the RGMII clocks.
    pub delays: Delays,
    /// The PHY's link pin is wired.
    pub link_pin: bool,
    /// It sees the CPU's caches.
    pub dma_coherent: bool,
}

/// The card at a node, if it is one that is in use and complete.
pub(crate) fn card(place: &Place<'_, '_>) -> Option<Card> {
    let variant = place.compatible().find_map(Variant::by_compatible)?;
    if !place.enabled() {
        return None;
    }
    let phy = phy_node(&place.node);
    Some(Card {
        variant,
        registers: place.reg(0)?,
        lines: lines(place, variant)?,
        mac: mac_address(&place.node),
        phy: phy.and_then(|phy| cell(&phy, "reg")).and_then(|reg| u8::try_from(reg).ok()),
        delays: delays(&place.node, phy.as_ref(), variant),
        link_pin: value(&place.node, "renesas,no-ether-link").is_none(),
        dma_coherent: place.dma_coherent(),
    })
}

/// The clock generator at a node, if its registers are known.
pub(crate) fn generator(place: &Place<'_, '_>) -> Option<(cpg::Kind, Range<u64>)> {
    Some((place.compatible().find_map(cpg::Kind::by_compatible)?, place.reg(0)?))
}

/// By name where there are several, else the first. `None`: there is no interrupt.
fn lines(place: &Place<'_, '_>, variant: Variant) -> Option<Vec<Interrupt>> {
    let names = value(&place.node, "interrupt-names").unwrap_or_default();
    let wanted: &[&str] = if variant == Variant::Gen3 { &GEN3_LINES } else { &["mux"] };
    let named = names.split(|&byte| byte == 0).enumerate();
    let mut lines: Vec<Interrupt> = named
        .filter(|(_, name)| wanted.iter().any(|wanted| wanted.as_bytes() == *name))
        .filter_map(|(index, _)| place.interrupt(index))
        .collect();
    if lines.is_empty() {
        lines.push(place.interrupt(0)?);
    }
    Some(lines)
}

/// The PHY is a child, or a child of `mdio`; the one `phy-handle` names, or the only one.
fn phy_node<'a>(node: &FdtNode<'a>) -> Option<FdtNode<'a>> {
    let handle = cell(node, "phy-handle");
    let on = node.child("mdio").unwrap_or(*node);
    let mut phys = on.children().filter(|child| cell(child, "reg").is_some());
    match handle {
        Some(handle) => phys.find(|phy| cell(phy, "phandle") == Some(handle)),
        None => phys.next(),
    }
}

/// Who delays which clock. Trees without the properties of the MAC's delays mean the MAC where they say
/// the PHY. [RAVB 1.5]
fn delays(node: &FdtNode<'_>, phy: Option<&FdtNode<'_>>, variant: Variant) -> Delays {
    let mode = text(node, "phy-mode").unwrap_or("rgmii");
    let receive = matches!(mode, "rgmii-id" | "rgmii-rxid");
    let transmit = matches!(mode, "rgmii-id" | "rgmii-txid");
    let own = |name| cell(node, name).map(|ps| ps != 0);
    let (mac_receive, mac_transmit) = (own("rx-internal-delay-ps"), own("tx-internal-delay-ps"));
    let old = variant == Variant::Gen3 && mac_receive.is_none() && mac_transmit.is_none();
    let skew = |names: [&str; 2]| {
        let phy = phy?;
        // Signed, in trees for the KSZ9131.
        names.into_iter().find_map(|name| cell(phy, name)).map(u32::cast_signed)
    };
    Delays {
        mac_receive: mac_receive.unwrap_or(old && receive),
        mac_transmit: mac_transmit.unwrap_or(old && transmit),
        phy_receive: receive && !old,
        phy_transmit: transmit && !old,
        receive_skew_ps: skew(["rxc-skew-ps", "rxc-skew-psec"]),
        transmit_skew_ps: skew(["txc-skew-ps", "txc-skew-psec"]),
    }
}

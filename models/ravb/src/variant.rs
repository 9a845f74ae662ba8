//! Which block this is, and as which PCI function it travels.
//!
//! The block has no PCI identity of its own: on a board it sits on the SoC bus. In QEMU it rides a
//! carrier, a PCI function whose BAR 0 is the register block and whose INTA is the interrupt line.
//! QEMU's `docs/specs/pci-ids` leaves 1af4:10f0 to 1af4:10ff to anyone "for experimental usage
//! without registration"; a device that leaves the laboratory needs an id of its own.

use std::fmt;
use std::str::FromStr;

/// Vendor id of all carriers.
pub const CARRIER_VENDOR: u16 = 0x1af4;

/// One of the blocks. (sheet 1.1)
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Variant {
    /// EtherAVB of R-Car Gen2 and RZ/G1, as `renesas,etheravb-rcar-gen2`.
    Gen2,
    /// EtherAVB of R-Car Gen3 and RZ/G2, as `renesas,etheravb-rcar-gen3`.
    Gen3,
    /// GbEth of RZ/G2L and its like, as `renesas,rzg2l-gbeth`.
    GbEth,
}

impl Variant {
    /// The variants by the names the command line takes.
    pub const ALL: [(&'static str, Variant); 3] =
        [("gen2", Variant::Gen2), ("gen3", Variant::Gen3), ("gbeth", Variant::GbEth)];

    /// Device id of the carrier.
    pub fn carrier_device(self) -> u16 {
        match self {
            Variant::Gen2 => 0x10f0,
            Variant::Gen3 => 0x10f1,
            Variant::GbEth => 0x10f2,
        }
    }

    /// An EtherAVB: several queues, gPTP, R-Car's receive checksum.
    pub fn is_avb(self) -> bool {
        self != Variant::GbEth
    }

    /// Transmit queues, DBAT entries 0 on. (sheet 1.2)
    pub fn tx_queues(self) -> usize {
        if self.is_avb() { 4 } else { 1 }
    }

    /// Receive queues, DBAT entries 4 on. (sheet 1.2)
    pub fn rx_queues(self) -> usize {
        if self.is_avb() { 18 } else { 1 }
    }

    /// Transmit buffers must lie on four bytes. (sheet 3.6)
    pub fn needs_aligned_transmit(self) -> bool {
        self != Variant::Gen3
    }

    /// Longest frame sent, FCS included, in bytes. (sheet 6.3, 31 and 33)
    pub fn longest_transmit(self) -> usize {
        if self.is_avb() { 2047 } else { 1522 }
    }
}

/// No such variant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnknownVariant(pub String);

impl fmt::Display for UnknownVariant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "chip {:?}: want one of", self.0)?;
        Variant::ALL.iter().try_for_each(|(name, _)| write!(f, " {name}"))
    }
}

impl std::error::Error for UnknownVariant {}

impl FromStr for Variant {
    type Err = UnknownVariant;

    fn from_str(text: &str) -> Result<Variant, UnknownVariant> {
        let found = Variant::ALL.iter().find(|(name, _)| *name == text);
        found.map(|(_, variant)| *variant).ok_or_else(|| UnknownVariant(text.to_string()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_parse_and_carriers_differ() {
        let mut ids: Vec<u16> = Variant::ALL.map(|(_, v)| v.carrier_device()).to_vec();
        ids.dedup();
        assert_eq!(ids.len(), 3);
        assert!(ids.iter().all(|id| (0x10f0..=0x10ff).contains(id)));
        assert_eq!("gbeth".parse(), Ok(Variant::GbEth));
        assert_eq!("gen5".parse::<Variant>(), Err(UnknownVariant("gen5".to_string())));
    }
}

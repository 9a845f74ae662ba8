//! Which block, and what follows from it. [RV 1.1, 1.2]

use crate::regs::{Rcr, Sums};

/// The variants that differ for a driver.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Variant {
    /// EtherAVB of R-Car Gen2 and RZ/G1.
    Gen2,
    /// EtherAVB of R-Car Gen3 and RZ/G2.
    Gen3,
    /// GbEth of RZ/G2L, RZ/G2UL, RZ/V2L and RZ/G3S.
    Gbeth,
}

impl Variant {
    /// The device tree's names. A node lists its own first and one of these behind it.
    pub const COMPATIBLE: [(&'static str, Variant); 6] = [
        ("renesas,etheravb-rcar-gen2", Variant::Gen2),
        ("renesas,etheravb-r8a7790", Variant::Gen2),
        ("renesas,etheravb-r8a7794", Variant::Gen2),
        ("renesas,etheravb-rcar-gen3", Variant::Gen3),
        ("renesas,etheravb-r8a7795", Variant::Gen3),
        ("renesas,rzg2l-gbeth", Variant::Gbeth),
    ];

    /// The variant of a node with this entry in `compatible`.
    pub fn by_compatible(name: &str) -> Option<Variant> {
        Variant::COMPATIBLE.iter().find(|(known, _)| *known == name).map(|(_, variant)| *variant)
    }

    /// For people.
    pub fn name(self) -> &'static str {
        match self {
            Variant::Gen2 => "R-Car Gen2 EtherAVB",
            Variant::Gen3 => "R-Car Gen3 EtherAVB",
            Variant::Gbeth => "RZ/G2L GbEth",
        }
    }

    /// How many bytes of registers are touched: GbEth has its TOE behind the others'.
    pub fn register_bytes(self) -> usize {
        if self.is_avb() { 0x800 } else { 0x80c }
    }

    /// EtherAVB: a queue for network control, gPTP, extended receive descriptors, a receive sum.
    pub(crate) fn is_avb(self) -> bool {
        self != Variant::Gbeth
    }

    /// Interrupt enables are set and cleared bit by bit, events come by several lines, APSR exists.
    pub(crate) fn is_gen3(self) -> bool {
        self == Variant::Gen3
    }

    /// Queues used in each direction.
    pub(crate) fn queues(self) -> usize {
        if self.is_avb() { 2 } else { 1 }
    }

    /// The card reads frames from 4-byte boundaries only. [RV 3.6]
    pub(crate) fn needs_aligned_transmit(self) -> bool {
        self != Variant::Gen3
    }

    /// Longest frame sent, FCS not counted: 2047 with it on R-Car [RV E33]; 1522 on GbEth, beyond which it
    /// hangs without a word [RV E31].
    pub(crate) fn max_frame(self) -> usize {
        if self.is_avb() { 2043 } else { 1518 }
    }

    /// Largest MTU: the longest frame less header, one tag and FCS. [RV 1.2]
    pub(crate) fn max_mtu(self) -> u16 {
        if self.is_avb() { 2025 } else { 1500 }
    }

    /// RFLR: longest frame received, FCS counted. Does not follow the MTU. [RV E29, E30]
    pub(crate) fn max_receive(self) -> u32 {
        if self.is_avb() { 0x804 } else { 0x2004 }
    }

    pub(crate) fn rcr(self) -> Rcr {
        if self.is_avb() {
            Rcr::RFCL_1800 | Rcr::EFFS | Rcr::ENCF | Rcr::ETS0
        } else {
            Rcr::GBETH_RFCL
        }
    }

    /// What the TOE sums when it is to sum. UDP over IPv6 is not among it: a result of 0 must leave
    /// as 0xffff there or be discarded by the receiver (RFC 8200, 8.1), and whether the engine sees to that is
    /// not known [RV 10, item 15]. A class that is enabled is rewritten in every frame [RV 5.3], so the class is off.
    pub(crate) fn transmit_sums(self) -> Sums {
        if self.is_avb() { Sums::empty() } else { Sums::TCP4 | Sums::UDP4 | Sums::TCP6 }
    }

    /// What the TOE verifies when it is to verify; as Linux has it. [RV 5.2]
    pub(crate) fn receive_sums(self) -> Sums {
        if self.is_avb() { Sums::empty() } else { Sums::all() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nodes_are_told_apart_by_their_last_name() {
        // As in the device trees of Salvator-X and RZ/G2L. [RV 1.1]
        let variant = |names: &[&str]| names.iter().find_map(|name| Variant::by_compatible(name));
        let salvator = ["renesas,etheravb-r8a7796", "renesas,etheravb-rcar-gen3"];
        assert_eq!(variant(&salvator), Some(Variant::Gen3));
        let smarc = ["renesas,r9a07g044-gbeth", "renesas,rzg2l-gbeth"];
        assert_eq!(variant(&smarc), Some(Variant::Gbeth));
        let lager = ["renesas,etheravb-r8a7790", "renesas,etheravb-rcar-gen2"];
        assert_eq!(variant(&lager), Some(Variant::Gen2));
        // RZ/V2H's is a Synopsys core.
        assert_eq!(variant(&["renesas,r9a09g057-gbeth", "renesas,rzv2h-gbeth"]), None);
    }

    #[test]
    fn register_values_are_those_of_the_sheet() {
        // [RV 3.2 B 5, 5.2]; RCR of R-Car is Linux's without the stream queues, 0x1800001f.
        assert_eq!(Variant::Gbeth.rcr().bits(), 0x6000_0000);
        assert_eq!(Variant::Gen3.rcr().bits(), 0x1800_001f & !0x0c);
        assert_eq!(Variant::Gbeth.receive_sums().bits(), 0x0070_0070);
        assert_eq!(Variant::Gbeth.transmit_sums().bits(), 0x0030_0030 & !(1 << 21));
        assert_eq!(Variant::Gen2.max_mtu(), 2047 - 22);
    }
}

//! Which Rhine this is. The PCI revision decides nearly everything (Linux, illumos and VIA's own
//! drivers key on it), the device id only what the revision cannot tell.

use std::fmt;
use std::str::FromStr;

/// One chip of the family.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Chip {
    /// PCI device id; the vendor is 0x1106.
    pub device: u16,
    /// PCI revision id.
    pub revision: u8,
}

impl Chip {
    /// "Rhine-I" as on the D-Link DFE-530TX revision A.
    pub const VT86C100A: Chip = Chip { device: 0x3043, revision: 0x06 };
    /// "Rhine-II" C as on the D-Link DFE-530TX revision B.
    pub const VT6102: Chip = Chip { device: 0x3065, revision: 0x42 };
    /// "Rhine-II" in the VT8235 south bridge.
    pub const VT8235: Chip = Chip { device: 0x3065, revision: 0x74 };
    /// "Rhine-III" as on the D-Link DFE-530TX revision C.
    pub const VT6105: Chip = Chip { device: 0x3106, revision: 0x86 };
    /// "Rhine-III Management" as on the PC Engines ALIX.
    pub const VT6105M: Chip = Chip { device: 0x3053, revision: 0x96 };

    /// The chips by the names the command line takes.
    pub const ALL: [(&'static str, Chip); 5] = [
        ("vt86c100a", Chip::VT86C100A),
        ("vt6102", Chip::VT6102),
        ("vt8235", Chip::VT8235),
        ("vt6105", Chip::VT6105),
        ("vt6105m", Chip::VT6105M),
    ];

    /// Rhine-I: 128 registers, no power management, other register meanings here and there.
    pub fn is_rhine_i(self) -> bool {
        self.revision < 0x20
    }

    /// Bytes of register space in each BAR.
    pub fn bar_size(self) -> u32 {
        if self.is_rhine_i() { 128 } else { 256 }
    }

    /// MISC_CR1 can force a reset; wake-on-LAN and sticky power bits exist.
    pub fn has_power_management(self) -> bool {
        self.revision >= 0x40
    }

    /// The transmit status write-back race is reported in MISR.
    pub fn reports_writeback_race(self) -> bool {
        (0x40..0x80).contains(&self.revision)
    }

    /// PHY inside, at address 1.
    pub fn has_internal_phy(self) -> bool {
        self.revision >= 0x80
    }

    /// FLOWCR0/1 and the PAUSE timer.
    pub fn has_flow_control(self) -> bool {
        self.revision >= 0x80
    }

    /// Six wake patterns instead of four, and PWRCSR1.
    pub fn has_six_patterns(self) -> bool {
        self.revision >= 0x83
    }

    /// VT6105M: checksums, VLAN, CAM, MIB counters, eight transmit queues.
    pub fn has_management(self) -> bool {
        self.revision >= 0x90
    }

    /// Transmit buffers must lie on four bytes: the chip drops the low address bits.
    pub fn needs_aligned_transmit(self) -> bool {
        self.revision < 0x40
    }

    /// TDES3 bit 0 suppresses the completion interrupt (documented for VT6102, VT8235M, VT6105M).
    pub fn has_interrupt_suppression(self) -> bool {
        (0x40..0x80).contains(&self.revision) || self.has_management()
    }

    /// CR1 bit 1 means "do not accept unicast" instead of early transmit.
    pub fn can_disable_unicast(self) -> bool {
        self.revision >= 0x80
    }

    /// Register and bit that switch memory decoding on.
    pub(crate) fn memory_enable(self) -> (u8, u8) {
        if self.is_rhine_i() { (crate::regs::CFGA, 1 << 5) } else { (crate::regs::CFGD, 1 << 7) }
    }
}

/// No such chip.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnknownChip(pub String);

impl fmt::Display for UnknownChip {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "chip {:?}: want one of", self.0)?;
        Chip::ALL.iter().try_for_each(|(name, _)| write!(f, " {name}"))?;
        write!(f, ", perhaps with a revision as in vt6102.78")
    }
}

impl std::error::Error for UnknownChip {}

impl FromStr for Chip {
    type Err = UnknownChip;

    fn from_str(text: &str) -> Result<Chip, UnknownChip> {
        let error = || UnknownChip(text.to_string());
        let (name, revision) = match text.split_once('.') {
            Some((name, revision)) => {
                (name, Some(u8::from_str_radix(revision, 16).map_err(|_| error())?))
            }
            None => (text, None),
        };
        let (_, chip) = Chip::ALL.iter().find(|(known, _)| *known == name).ok_or_else(error)?;
        Ok(Chip { revision: revision.unwrap_or(chip.revision), ..*chip })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_revisions_parse() {
        assert_eq!("vt6105m".parse(), Ok(Chip::VT6105M));
        assert_eq!("vt6102.78".parse(), Ok(Chip { device: 0x3065, revision: 0x78 }));
        assert!("vt6102.xyz".parse::<Chip>().is_err());
        assert!("rtl8139".parse::<Chip>().is_err());
    }
}

//! Which chip, and what follows from it. The PCI revision decides nearly everything. [RH 1.3]

/// PCI ids of a card.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Chip {
    /// Device id.
    pub device: u16,
    /// Revision id.
    pub revision: u8,
}

impl Chip {
    /// Vendor and device ids this driver takes. [RH 1.1]
    pub const PCI_IDS: [(u16, u16); 7] = [
        (0x1106, 0x3043),
        (0x1106, 0x6100),
        (0x1106, 0x3065),
        (0x1106, 0x3106),
        (0x1106, 0x3053),
        (0x1500, 0x1320),
        (0x4033, 0x1320),
    ];

    /// Bits to set in configuration space before the card is brought up: offset and mask. Below
    /// revision 0x40 MODE2.MODE10T; from there MODE2.PCEROPT, without which a bus error is retried
    /// for ever [RH E31], and MODE3.MIION; the VT6105L and VT6107 want MODE10T as well. [RH 1.4]
    pub fn configuration_bits(self) -> &'static [(u8, u8)] {
        const MODE2: u8 = 0x52;
        const MODE3: u8 = 0x53;
        match self.revision {
            0..0x40 => &[(MODE2, 0x02)],
            0x8a..0x90 => &[(MODE2, 0x82), (MODE3, 0x04)],
            _ => &[(MODE2, 0x80), (MODE3, 0x04)],
        }
    }

    /// For people.
    pub fn name(self) -> &'static str {
        match self.revision {
            0..0x20 => "VT86C100A (Rhine)",
            0x20..0x40 => "VT3071 (Rhine)",
            0x40..0x50 => "VT6102 (Rhine II)",
            0x50..0x80 => "VT6102 in a VT823x (Rhine II)",
            0x80..0x90 => "VT6105 (Rhine III)",
            _ => "VT6105M (Rhine III)",
        }
    }

    pub(crate) fn is_rhine_i(self) -> bool {
        self.revision < 0x20
    }

    /// The card sends from the word a buffer begins in. [RH 4.2]
    pub(crate) fn needs_aligned_transmit(self) -> bool {
        self.revision < 0x40
    }

    /// MISC_CR1 can force a reset; wake-up block and sticky power bits exist.
    pub(crate) fn has_power_management(self) -> bool {
        self.revision >= 0x40
    }

    /// MISR reports a race of descriptor write-back. [RH E4]
    pub(crate) fn has_writeback_race(self) -> bool {
        (0x40..0x80).contains(&self.revision)
    }

    pub(crate) fn has_six_patterns(self) -> bool {
        self.revision >= 0x83
    }

    /// Rhine-III: PHY inside at address 1, FLOWCR1.
    pub(crate) fn is_rhine_iii(self) -> bool {
        self.revision >= 0x80
    }

    /// VT6105M: checksum engines, VLAN, CAM.
    pub(crate) fn has_checksums(self) -> bool {
        self.revision >= 0x90
    }

    /// VLAN tags and their filter. [RH 1.3]
    pub(crate) fn has_vlans(self) -> bool {
        self.has_checksums()
    }

    /// TDES3 bit 0 suppresses the completion interrupt. [RH 4.2]
    pub(crate) fn has_interrupt_suppression(self) -> bool {
        self.has_writeback_race() || self.has_checksums()
    }
}

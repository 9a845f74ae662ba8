//! Descriptors: 8 bytes, or 20 with a timestamp behind them. (sheet 3.5)

/// DT, the descriptor's type.
pub(crate) mod dt {
    pub(crate) const LEMPTY: u32 = 0x2;
    pub(crate) const EEMPTY: u32 = 0x3;
    pub(crate) const FMID: u32 = 0x4;
    pub(crate) const FSTART: u32 = 0x5;
    pub(crate) const FEND: u32 = 0x6;
    pub(crate) const FSINGLE: u32 = 0x7;
    pub(crate) const LINK: u32 = 0x8;
    pub(crate) const LINKFIX: u32 = 0x9;
    pub(crate) const EOS: u32 = 0xa;
    pub(crate) const FEMPTY: u32 = 0xc;
    pub(crate) const FEMPTY_IS: u32 = 0xd;
    pub(crate) const FEMPTY_IC: u32 = 0xe;
    pub(crate) const FEMPTY_ND: u32 = 0xf;
}

/// A descriptor as it was fetched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Descriptor {
    /// Its address.
    pub(crate) at: u32,
    /// DS, control, DIE and DT.
    pub(crate) word: u32,
    /// DPTR.
    pub(crate) pointer: u32,
}

impl Descriptor {
    pub(crate) fn kind(&self) -> u32 {
        self.word >> 28
    }

    /// DIE: which descriptor interrupt, 0 for none.
    pub(crate) fn interrupt(&self) -> u32 {
        self.word >> 24 & 0xf
    }

    /// DS, in bytes.
    pub(crate) fn size(&self) -> usize {
        (self.word & 0xfff) as usize
    }

    /// TAG of a transmit descriptor.
    pub(crate) fn tag(&self) -> u16 {
        (self.word >> 12 & 0x3ff) as u16
    }

    /// TSR of a transmit descriptor: its time is asked for.
    pub(crate) fn wants_timestamp(&self) -> bool {
        self.word >> 22 & 1 != 0
    }

    /// The word with another DT.
    pub(crate) fn retyped(&self, kind: u32) -> u32 {
        self.word & 0x0fff_ffff | kind << 28
    }
}

/// MSC of a receive descriptor: what was wrong with a frame, or that it was a multicast.
pub(crate) mod msc {
    pub(crate) const CRC: u8 = 0x01;
    pub(crate) const RFE: u8 = 0x02;
    pub(crate) const RTSF: u8 = 0x04;
    pub(crate) const RTLF: u8 = 0x08;
    pub(crate) const FRE: u8 = 0x10;
    pub(crate) const CEEF: u8 = 0x40;
    pub(crate) const MC: u8 = 0x80;
}

//! Descriptors: a control word, a pointer, and on R-Car's receive queues a timestamp. [RV 3.5]

use bitflags::bitflags;

/// Bytes of a descriptor.
pub(crate) const SIZE: usize = 8;
/// Bytes of one with a timestamp.
pub(crate) const EXTENDED: usize = 20;
/// Largest value of the length field.
pub(crate) const MAX_LEN: usize = 0xfff;

/// The type, bits 28-31 of the control word.
pub(crate) mod kind {
    pub(crate) const FMID: u32 = 0x4;
    pub(crate) const FSTART: u32 = 0x5;
    pub(crate) const FEND: u32 = 0x6;
    pub(crate) const FSINGLE: u32 = 0x7;
    pub(crate) const LINKFIX: u32 = 0x9;
    pub(crate) const EOS: u32 = 0xa;
    pub(crate) const FEMPTY: u32 = 0xc;
    /// Up to here from FEMPTY: a buffer for the card.
    pub(crate) const FEMPTY_ND: u32 = 0xf;
    pub(crate) const EEMPTY: u32 = 0x3;
}

/// The type in a control word.
pub(crate) const fn kind_of(word: u32) -> u32 {
    word >> 28
}

/// The length in a control word.
pub(crate) const fn len_of(word: u32) -> usize {
    (word & 0xfff) as usize
}

/// A control word without flags.
pub(crate) const fn control(kind: u32, len: usize) -> u32 {
    kind << 28 | len as u32 & 0xfff
}

/// Flags of a transmit descriptor: a timestamp is wanted under this tag (10 bits).
pub(crate) const fn stamped(tag: u16) -> u32 {
    1 << 22 | (tag as u32 & 0x3ff) << 12
}

bitflags! {
    /// What the card writes beside length and type of a received frame.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub(crate) struct Received: u32 {
        /// Truncated.
        const TR = 1 << 12;
        const CRC = 1 << 16;
        /// The PHY flagged an error.
        const RFE = 1 << 17;
        /// Too short.
        const RTSF = 1 << 18;
        /// Too long.
        const RTLF = 1 << 19;
        /// Residual bits.
        const FRE = 1 << 20;
        /// Carrier lost.
        const CRL = 1 << 21;
        /// Carrier extension error.
        const CEEF = 1 << 22;
        /// Multicast.
        const MC = 1 << 23;

        /// Frames with one of these are dropped; FRE and CRL alone are not reason enough. [RV 3.5]
        const ERRORS = 0x4f << 16 | Self::TR.bits();
    }
}

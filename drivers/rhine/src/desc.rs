//! Descriptors: four little-endian words each, linked by the fourth into a closed ring. [RH 4.1, 4.2]

use bitflags::bitflags;

/// Bytes of a descriptor.
pub(crate) const SIZE: usize = 16;
/// Both kinds, first word: the card's.
pub(crate) const OWN: u32 = 1 << 31;

bitflags! {
    /// Receive, first word, as the card writes it. Bits 16-26 are the length with FCS.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub(crate) struct Rdes0: u32 {
        /// FCS error.
        const CRC = 1 << 1;
        /// Frame alignment error.
        const FAE = 1 << 2;
        /// FIFO overflow.
        const FOV = 1 << 3;
        /// Longer than allowed.
        const LONG = 1 << 4;
        /// Shorter than allowed.
        const RUNT = 1 << 5;
        /// IP fragment on the VT6105M, bus error elsewhere.
        const FRAG = 1 << 6;
        /// Last buffer of a frame.
        const EDP = 1 << 8;
        /// First buffer of a frame.
        const STP = 1 << 9;
        /// Frame is good.
        const RXOK = 1 << 15;
    }

    /// Receive, second word, what the VT6105M found.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub(crate) struct Rdes1: u32 {
        /// A VLAN tag was taken out.
        const TAG = 1 << 16;
        const UDPKT = 1 << 17;
        const TCPKT = 1 << 18;
        /// IPv4 recognised.
        const IPKT = 1 << 19;
        /// TCP or UDP checksum is right.
        const TUOK = 1 << 20;
        /// IPv4 header checksum is right.
        const IPOK = 1 << 21;
    }

    /// Transmit, first word, as the card writes it.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub(crate) struct Tdes0: u32 {
        /// Excessive collisions.
        const ABT = 1 << 8;
        /// Late collision.
        const OWC = 1 << 9;
        /// Carrier lost.
        const CRS = 1 << 10;
        /// FIFO underflow.
        const UDF = 1 << 11;
        /// Buffer or link underflow.
        const TBUFF = 1 << 12;
        /// Bus error.
        const SERR = 1 << 13;
        /// Any of them.
        const TERR = 1 << 15;
    }

    /// Transmit, second word. Bits 0-10 are the buffer length.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub(crate) struct Tdes1: u32 {
        /// Set on every descriptor; without it some chips underrun. [RH 4.2]
        const CHN = 1 << 15;
        /// Insert the VLAN tag in the first word.
        const TAG = 1 << 17;
        const IPCK = 1 << 18;
        const UDPCK = 1 << 19;
        const TCPCK = 1 << 20;
        const STP = 1 << 21;
        const EDP = 1 << 22;
        /// Interrupt when done.
        const IC = 1 << 23;
    }
}

/// Receive, second word, towards the card: size, CHN and IC. [RH 10.8]
pub(crate) const fn receive_control(size: u32) -> u32 {
    0x0080_8000 | size
}

/// Length with FCS of a received frame: eleven bits, the card may leave others above. [RH E22]
pub(crate) const fn receive_len(status: u32) -> usize {
    (status >> 16 & 0x7ff) as usize
}

/// Transmit, fourth word: no interrupt when done.
pub(crate) const SUPPRESS: u32 = 1;

//! Registers of the Rhine family, as far as this driver touches them. [RH n] is section n of
//! `docs/hardware/rhine.md`; all names are VIA's. [RH 2.2, 2.3]

use bitflags::bitflags;
use trireme_registers::{Reg, Ro, Rw, W1c, W1s, Wo, value};

/// Station address byte `n` (0..6), in wire order.
pub(crate) const fn par(n: usize) -> Reg<u8, Rw> {
    Reg::at(n)
}
/// Receive configuration.
pub(crate) const RCR: Reg<Rcr, Rw> = Reg::at(0x06);
/// Transmit configuration.
pub(crate) const TCR: Reg<Tcr, Rw> = Reg::at(0x07);
/// Command, low byte.
pub(crate) const CR0: Reg<Cr0, Rw> = Reg::at(0x08);
/// Command, high byte.
pub(crate) const CR1: Reg<Cr1, Rw> = Reg::at(0x09);
/// Interrupt causes.
pub(crate) const ISR: Reg<Cause, W1c> = Reg::at(0x0c);
/// Which of them interrupt.
pub(crate) const IMR: Reg<Cause, Rw> = Reg::at(0x0e);
/// Wakes transmit rings on the VT6105M; bit 7 that of [`CURR_TX_DESC`].
pub(crate) const TQWK: Reg<u8, Rw> = Reg::at(0x0a);
/// Multicast hash, bits 0-31 and 32-63.
pub(crate) const MAR0: Reg<u32, Rw> = Reg::at(0x10);
pub(crate) const MAR1: Reg<u32, Rw> = Reg::at(0x14);
/// VLAN id for an entry of the CAM, while that is reached instead of the hash. [RH 4.11]
pub(crate) const VCAM: Reg<u16, Rw> = Reg::at(0x16);
/// Bus address of the receive descriptor in turn.
pub(crate) const CURR_RX_DESC: Reg<u32, Rw> = Reg::at(0x18);
/// Bus address of the transmit descriptor in turn.
pub(crate) const CURR_TX_DESC: Reg<u32, Rw> = Reg::at(0x1c);
/// PHY address, bits 0-4.
pub(crate) const MPHY: Reg<u8, Rw> = Reg::at(0x6c);
/// DMA burst and receive threshold override.
pub(crate) const BCR0: Reg<u8, Rw> = Reg::at(0x6e);
/// Transmit threshold override and VLAN filter.
pub(crate) const BCR1: Reg<Bcr1, Rw> = Reg::at(0x6f);
/// MII control.
pub(crate) const MIICR: Reg<MiiControl, Rw> = Reg::at(0x70);
/// MII register in bits 0-4, and flags.
pub(crate) const MIIAD: Reg<MiiAddress, Rw> = Reg::at(0x71);
/// MII data.
pub(crate) const MIIDATA: Reg<u16, Rw> = Reg::at(0x72);
/// EEPROM control.
pub(crate) const EECSR: Reg<Eecsr, Rw> = Reg::at(0x74);
/// Bits 0-1 arm wake-up; bit 5 enables memory decoding on Rhine-I.
pub(crate) const CFGA: Reg<u8, Rw> = Reg::at(0x78);
/// Bit 7: no transmit queueing.
pub(crate) const CFGB: Reg<u8, Rw> = Reg::at(0x79);
/// Bit 7 enables memory decoding from Rhine-II on.
pub(crate) const CFGD: Reg<u8, Rw> = Reg::at(0x7b);
/// Missed packets (low half) and FCS errors (high half).
pub(crate) const TALLY: Reg<u32, Rw> = Reg::at(0x7c);
/// Bit 3: obey PAUSE (Rhine-II).
pub(crate) const MISC_CR0: Reg<u8, Rw> = Reg::at(0x80);
/// Bit 6: force the reset.
pub(crate) const MISC_CR1: Reg<u8, Rw> = Reg::at(0x81);
/// Bits 0-1: asleep.
pub(crate) const STICKHW: Reg<u8, Rw> = Reg::at(0x83);
/// More interrupt causes.
pub(crate) const MISR: Reg<Cause2, W1c> = Reg::at(0x84);
/// Which of those interrupt.
pub(crate) const MIMR: Reg<u8, Wo> = Reg::at(0x86);
/// Which entries of the CAM are valid, a bit each.
pub(crate) const CAMMSK: Reg<u32, Rw> = Reg::at(0x88);
/// CAM control.
pub(crate) const CAMC: Reg<Camc, Rw> = Reg::at(0x92);
/// CAM entry, 0 to 31.
pub(crate) const CAMADD: Reg<u8, Rw> = Reg::at(0x93);
/// Free receive buffers: what is written is added, zero clears (Rhine-III). [RH 4.9]
pub(crate) const FLOWCR0: Reg<u8, Wo> = Reg::at(0x98);
/// Flow control (Rhine-III).
pub(crate) const FLOWCR1: Reg<Flow, Rw> = Reg::at(0x99);
/// Time in a PAUSE frame, in units of 512 bit times.
pub(crate) const PAUSE_TIMER: Reg<u16, Rw> = Reg::at(0x9a);
/// Wake-up causes enabled: a one sets.
pub(crate) const WOLCR_SET: Reg<u8, W1s> = Reg::at(0xa0);
/// Wake-up enabled: a one sets.
pub(crate) const PWCFG_SET: Reg<u8, W1s> = Reg::at(0xa1);
/// Wake-up causes enabled: a one clears.
pub(crate) const WOLCR_CLEAR: Reg<u8, W1s> = Reg::at(0xa4);
/// Pattern enables 4 and 5: a one clears.
pub(crate) const TSTREG_CLEAR: Reg<u8, W1s> = Reg::at(0xa6);
/// Wake-up configuration: a one clears.
pub(crate) const WOLCG_CLEAR: Reg<u8, W1s> = Reg::at(0xa7);
/// What woke it.
pub(crate) const PWRCSR: Reg<u8, Ro> = Reg::at(0xa8);
/// What woke it: a one clears.
pub(crate) const PWRCSR_CLEAR: Reg<u8, W1s> = Reg::at(0xac);
pub(crate) const PWRCSR1_CLEAR: Reg<u8, W1s> = Reg::at(0xad);

bitflags! {
    /// Fields of [`RCR`].
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub(crate) struct Rcr: u8 {
        /// Multicast that passes the hash.
        const AM = 1 << 2;
        /// Broadcast.
        const AB = 1 << 3;
        /// Every unicast.
        const PROM = 1 << 4;
        /// Receive FIFO threshold: code 2, 128 bytes.
        const RFT_128 = 2 << 5;
    }

    /// Fields of [`TCR`].
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub(crate) struct Tcr: u8 {
        /// VLAN tags: inserted where a descriptor says so, taken out of what is received.
        const PQEN = 1 << 0;
        /// Internal loopback.
        const LB0 = 1 << 1;
        /// Transmit FIFO threshold, low two bits of three.
        const RTFT = 3 << 5;
        /// Store and forward.
        const RTSF = 1 << 7;
    }

    /// Fields of [`BCR1`].
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub(crate) struct Bcr1: u8 {
        /// Only tagged frames whose VLAN is in the CAM.
        const VIDFR = 1 << 7;
    }

    /// Fields of [`CAMC`].
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub(crate) struct Camc: u8 {
        /// Offsets 0x10 to 0x17 and the mask are the CAM's.
        const CAMEN = 1 << 0;
        /// The VLAN CAM, not the multicast one.
        const VCAMSL = 1 << 1;
        /// Write the entry; clears itself.
        const CAMWR = 1 << 2;
    }

    /// Fields of [`FLOWCR1`].
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub(crate) struct Flow: u8 {
        /// Obey PAUSE.
        const OBEY = 1 << 1;
        /// Send PAUSE when free buffers fall below the low mark.
        const SEND = 1 << 2;
        /// And PAUSE of no time when they are above the high one again.
        const XON = 1 << 3;
        /// Low mark of 8 buffers; the high one's code 0 is 24.
        const LOW_8 = 1 << 6;
    }

    /// Fields of [`CR0`].
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub(crate) struct Cr0: u8 {
        const STRT = 1 << 1;
        const STOP = 1 << 2;
        /// Receiver on; reads the engine's state.
        const RXON = 1 << 3;
        /// Transmitter on; the card clears it on an error.
        const TXON = 1 << 4;
        /// Look at the receive ring.
        const RDMD = 1 << 6;
    }

    /// Fields of [`CR1`].
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub(crate) struct Cr1: u8 {
        const FDX = 1 << 2;
        /// Look at the transmit ring on demand only.
        const DPOLL = 1 << 3;
        /// Look at the transmit ring.
        const TDMD1 = 1 << 5;
        /// Reset; clears itself.
        const SFRST = 1 << 7;
    }

    /// Fields of [`ISR`] and [`IMR`].
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub(crate) struct Cause: u16 {
        /// Frame received.
        const PRX = 1 << 0;
        /// Frame sent.
        const PTX = 1 << 1;
        /// Frame received with an error.
        const RXE = 1 << 2;
        /// Transmission ended with an error.
        const TXE = 1 << 3;
        /// Transmit buffer or link underflow.
        const TU = 1 << 4;
        /// Receive ring empty.
        const RU = 1 << 5;
        /// PCI bus error.
        const BE = 1 << 6;
        /// Tally counter overflow.
        const CNT = 1 << 7;
        /// Transmit FIFO underflow.
        const UDFI = 1 << 9;
        /// Receive FIFO overflow.
        const OVFI = 1 << 10;
        /// Frame dropped between two others.
        const PKTRA = 1 << 11;
        /// No receive buffer.
        const NORBF = 1 << 12;
        /// Excessive collisions.
        const ABTI = 1 << 13;
        /// Link change.
        const SRCI = 1 << 14;

        /// Everything except early receive and the general cause. [RH 10.9]
        const WANTED = 0x7eff;
        const TRANSMIT_ERRORS = Self::TXE.bits() | Self::TU.bits() | Self::UDFI.bits() | Self::ABTI.bits();
        const RECEIVE_STOPS = Self::RU.bits() | Self::OVFI.bits() | Self::PKTRA.bits() | Self::NORBF.bits();
    }

    /// Fields of [`MISR`].
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub(crate) struct Cause2: u8 {
        /// Transmit descriptor write-back race. [RH E4]
        const TDWBRAI = 1 << 3;
    }

    /// Fields of [`MIICR`].
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub(crate) struct MiiControl: u8 {
        /// Start a write; clears itself.
        const WCMD = 1 << 5;
        /// Start a read; clears itself.
        const RCMD = 1 << 6;
        /// Poll by itself.
        const MAUTO = 1 << 7;
    }

    /// Fields of [`MIIAD`].
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub(crate) struct MiiAddress: u8 {
        /// First poll done.
        const MDONE = 1 << 5;
        /// A link change interrupts.
        const MSRCEN = 1 << 6;
        /// Nothing under way; not on Rhine-I.
        const MIDLE = 1 << 7;
    }

    /// Fields of [`EECSR`].
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub(crate) struct Eecsr: u8 {
        /// Reload; clears itself.
        const AUTOLD = 1 << 5;
    }
}

value!(Rcr, Tcr, Bcr1, Camc, Flow, Cr0, Cr1, Cause, Cause2, MiiControl, MiiAddress, Eecsr);

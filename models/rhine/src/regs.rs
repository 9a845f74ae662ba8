//! Register offsets and fields of the Rhine family.
//!
//! No VIA data sheet is public; names are VIA's short ones and facts are gathered from the Linux
//! (`via-rhine`), FreeBSD, OpenBSD, NetBSD (`if_vr`), illumos (`vr`) and iPXE drivers, from VIA's own
//! rhinefet 4.39, and from register images of real cards. (INF) marks a deduction.

#![allow(missing_docs, reason = "names are the chip's own; the fields say what they do")]

use bitflags::bitflags;

/// Station address, six bytes.
pub const PAR: u8 = 0x00;
pub const RCR: u8 = 0x06;
pub const TCR: u8 = 0x07;
pub const CR0: u8 = 0x08;
pub const CR1: u8 = 0x09;
/// Wakes transmit queues (M).
pub const TQWK: u8 = 0x0a;
pub const ISR: u8 = 0x0c;
pub const IMR: u8 = 0x0e;
/// Multicast hash, or CAM data while CAMC.CAMEN.
pub const MAR: u8 = 0x10;
pub const CURR_RX_DESC: u8 = 0x18;
pub const CURR_TX_DESC: u8 = 0x1c;
/// Copies of the descriptors in work.
pub const RDES: u8 = 0x20;
pub const TDES: u8 = 0x40;
/// PHY address.
pub const MPHY: u8 = 0x6c;
pub const MIISR: u8 = 0x6d;
pub const BCR0: u8 = 0x6e;
pub const BCR1: u8 = 0x6f;
pub const MIICR: u8 = 0x70;
pub const MIIAD: u8 = 0x71;
pub const MIIDATA: u8 = 0x72;
pub const EECSR: u8 = 0x74;
pub const CFGA: u8 = 0x78;
pub const CFGB: u8 = 0x79;
pub const CFGC: u8 = 0x7a;
pub const CFGD: u8 = 0x7b;
/// Missed packets, then CRC errors, 16 bits each.
pub const TALLY: u8 = 0x7c;
pub const MISC_CR0: u8 = 0x80;
pub const MISC_CR1: u8 = 0x81;
pub const STICKHW: u8 = 0x83;
pub const MISR: u8 = 0x84;
pub const MIMR: u8 = 0x86;
/// CAM mask, two banks (M).
pub const CAMMSK: u8 = 0x88;
pub const BPCMD: u8 = 0x90;
pub const CAMC: u8 = 0x92;
pub const CAMADD: u8 = 0x93;
pub const MIBCR: u8 = 0x94;
pub const MIBPORT: u8 = 0x96;
pub const FLOWCR0: u8 = 0x98;
pub const FLOWCR1: u8 = 0x99;
pub const PAUSE_TIMER: u8 = 0x9a;
/// WOLCR, PWCFG, TSTREG, WOLCG: write one to set; four bytes on: write one to clear.
pub const WOL_SET: u8 = 0xa0;
pub const WOL_CLEAR: u8 = 0xa4;
/// PWRCSR, PWRCSR1: write one to set; four bytes on: write one to clear.
pub const PWRCSR_SET: u8 = 0xa8;
pub const PWRCSR_CLEAR: u8 = 0xac;
/// Wake pattern CRCs.
pub const PATTERN_CRC: u8 = 0xb0;

bitflags! {
    /// Receive configuration.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct Rcr: u8 {
        /// Accept frames with errors.
        const SEP = 1 << 0;
        /// Accept runts.
        const AR = 1 << 1;
        /// Accept multicast that passes hash or CAM.
        const AM = 1 << 2;
        /// Accept broadcast.
        const AB = 1 << 3;
        /// Accept every unicast address.
        const PROM = 1 << 4;
        const RFT = 7 << 5;
    }

    /// Transmit configuration.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct Tcr: u8 {
        /// 802.1Q tag handling (M).
        const PQEN = 1 << 0;
        /// Internal loopback.
        const LB0 = 1 << 1;
        /// MII loopback.
        const LB1 = 1 << 2;
        const OFSET = 1 << 3;
        const RTGOPT = 1 << 4;
        const RTFT = 3 << 5;
        /// Store and forward, whatever RTFT says.
        const RTSF = 1 << 7;
    }

    /// Command, low byte.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct Cr0: u8 {
        const INIT = 1 << 0;
        const STRT = 1 << 1;
        const STOP = 1 << 2;
        const RXON = 1 << 3;
        const TXON = 1 << 4;
        const TDMD = 1 << 5;
        const RDMD = 1 << 6;
    }

    /// Command, high byte.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct Cr1: u8 {
        /// Early receive.
        const EREN = 1 << 0;
        /// Early transmit; from Rhine-III on: do not accept unicast.
        const ETEN = 1 << 1;
        const FDX = 1 << 2;
        /// No automatic polling of the transmit ring.
        const DPOLL = 1 << 3;
        const TDMD1 = 1 << 5;
        const RDMD1 = 1 << 6;
        const SFRST = 1 << 7;
    }

    /// Interrupt causes, ISR and IMR alike.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct Cause: u16 {
        const PRX = 1 << 0;
        const PTX = 1 << 1;
        const RXE = 1 << 2;
        const TXE = 1 << 3;
        /// Transmit buffer or link underflow.
        const TU = 1 << 4;
        /// Receive ring empty.
        const RU = 1 << 5;
        /// PCI bus error.
        const BE = 1 << 6;
        /// Tally counter half full.
        const CNT = 1 << 7;
        const ERI = 1 << 8;
        /// Transmit FIFO underflow.
        const UDFI = 1 << 9;
        const OVFI = 1 << 10;
        const PKTRA = 1 << 11;
        const NORBF = 1 << 12;
        const ABTI = 1 << 13;
        /// Link change.
        const SRCI = 1 << 14;
        const GENI = 1 << 15;
    }

    /// Causes of the second status register.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct Cause2: u8 {
        const TM0 = 1 << 0;
        const TM1 = 1 << 1;
        const PHYINT = 1 << 2;
        /// Transmit descriptor write-back race.
        const TDWBRAI = 1 << 3;
        const SSRCI = 1 << 4;
        const UDPINT_SET = 1 << 5;
        const UDPINT_CLEAR = 1 << 6;
        const PWEINT = 1 << 7;
    }

    /// MII status.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct MiiStatus: u8 {
        /// 10 Mbit/s.
        const SPEED10 = 1 << 0;
        /// Link down.
        const LNKFL = 1 << 1;
        const N_FDX = 1 << 2;
        const MIIERR = 1 << 3;
        const PHYOPT = 1 << 4;
        const LP_PAUSE = 1 << 5;
        const LP_ASYM = 1 << 6;
    }

    /// MII control.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct MiiControl: u8 {
        const MDC = 1 << 0;
        /// PHY to host.
        const MDI = 1 << 1;
        /// Host to PHY.
        const MDO = 1 << 2;
        /// Host drives MDIO.
        const MOUT = 1 << 3;
        /// Bit-bang mode.
        const MDPM = 1 << 4;
        const WCMD = 1 << 5;
        const RCMD = 1 << 6;
        const MAUTO = 1 << 7;
    }

    /// MII address: register in bits 0-4, and these.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct MiiAddress: u8 {
        const REGISTER = 0x1f;
        const MDONE = 1 << 5;
        /// Link changes interrupt.
        const MSRCEN = 1 << 6;
        const MIDLE = 1 << 7;
    }

    /// EEPROM control.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct Eecsr: u8 {
        const AUTOLD = 1 << 5;
        const EMBP = 1 << 6;
        /// EEPROM is programmed.
        const EEPR = 1 << 7;
    }

    /// CAM control.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct Camc: u8 {
        const CAMEN = 1 << 0;
        const VCAMSL = 1 << 1;
        const CAMWR = 1 << 2;
        const CAMRD = 1 << 3;
    }

    /// Receive descriptor, first word. Bits 16-26 are the length with FCS.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct Rdes0: u32 {
        const RERR = 1 << 0;
        const CRC = 1 << 1;
        const FAE = 1 << 2;
        const FOV = 1 << 3;
        const LONG = 1 << 4;
        const RUNT = 1 << 5;
        /// IP fragment on the M, bus error elsewhere.
        const FRAG = 1 << 6;
        const BUFF = 1 << 7;
        const EDP = 1 << 8;
        const STP = 1 << 9;
        const CHN = 1 << 10;
        const PHY = 1 << 11;
        const BAR = 1 << 12;
        const MAR = 1 << 13;
        const VIDHIT = 1 << 14;
        const RXOK = 1 << 15;
        const OWN = 1 << 31;
    }

    /// Receive descriptor, second word: what the M found. Bits 0-10 are the buffer size.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct Rdes1: u32 {
        const TAG = 1 << 16;
        const UDPKT = 1 << 17;
        const TCPKT = 1 << 18;
        const IPKT = 1 << 19;
        const TUOK = 1 << 20;
        const IPOK = 1 << 21;
        const SNPTAG = 1 << 22;
        const RXLERR = 1 << 23;
    }

    /// Transmit descriptor, first word. Bits 0-3 count collisions, 16-27 and 28-30 are VLAN id and
    /// priority.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct Tdes0: u32 {
        const COLS = 1 << 4;
        const CDH = 1 << 7;
        const ABT = 1 << 8;
        const OWC = 1 << 9;
        const CRS = 1 << 10;
        const UDF = 1 << 11;
        const TBUFF = 1 << 12;
        const SERR = 1 << 13;
        const JAB = 1 << 14;
        const TERR = 1 << 15;
        const OWN = 1 << 31;
    }

    /// Transmit descriptor, second word. Bits 0-10 are the buffer length.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct Tdes1: u32 {
        const CHN = 1 << 15;
        /// Do not append a CRC.
        const NOCRC = 1 << 16;
        /// Insert a VLAN tag (M).
        const TAG = 1 << 17;
        const IPCK = 1 << 18;
        const UDPCK = 1 << 19;
        const TCPCK = 1 << 20;
        const STP = 1 << 21;
        const EDP = 1 << 22;
        /// Interrupt on completion.
        const IC = 1 << 23;
    }
}

/// BCR1: VLAN filter (M).
pub const BCR1_VIDFR: u8 = 1 << 7;
/// BCR1: transmit threshold override; its top bit is store-and-forward.
pub const BCR1_SF: u8 = 1 << 5;
/// MISC_CR1: force software reset.
pub const FORSRST: u8 = 1 << 6;
/// FLOWCR1: send PAUSE, obey PAUSE, send XON.
pub const FLOW_SEND: u8 = 1 << 2;
pub const FLOW_OBEY: u8 = 1 << 1;
pub const FLOW_XON: u8 = 1 << 3;
/// MISC_CR0 before Rhine-III: obey PAUSE.
pub const FDXRFEN: u8 = 1 << 3;
/// MIBCR: counters run; rewind the port.
pub const MIBEN: u8 = 1 << 4;
pub const MIBRTN: u8 = 1 << 7;
/// PCI configuration space, MODE2: report a bus error instead of retrying for ever.
pub const MODE2: u8 = 0x52;
pub const MODE2_PCEROPT: u8 = 1 << 7;

//! Registers of the RAVB family, as far as this driver touches them: 32 bits each, at the same places
//! in all variants. [RV n] is section n of `docs/hardware/ravb.md`. [RV 2.1, 2.7, 2.9]

use bitflags::bitflags;
use trireme_registers::{Reg, Ro, Rw, W1c, W1s, Wo, value};

/// Flags that are cleared by writing zeroes and unchanged by ones; reserved bits are written as
/// zeroes. [RV 2.10]
pub(crate) struct W0c {
    pub(crate) status: Reg<u32, Ro>,
    clear: Reg<u32, Wo>,
    /// Bits that exist.
    valid: u32,
}

impl W0c {
    const fn at(offset: usize, valid: u32) -> W0c {
        W0c { status: Reg::at(offset), clear: Reg::at(offset), valid }
    }

    /// Clears the flags set in `flags`.
    pub(crate) fn ack<R: trireme_nic::Registers + ?Sized>(&self, bar: &R, flags: u32) {
        self.clear.write(bar, !flags & self.valid);
    }
}

/// Operating mode.
pub(crate) const CCC: Reg<Ccc, Rw> = Reg::at(0x000);
/// Bus address of the descriptor base address table.
pub(crate) const DBAT: Reg<u32, Rw> = Reg::at(0x004);
/// State of the DMAC.
pub(crate) const CSR: Reg<Csr, Ro> = Reg::at(0x00c);
/// What went wrong last: bits 0-4 queue, 8-11 kind.
pub(crate) const ESR: Reg<u32, Ro> = Reg::at(0x088);
/// Delays of the RGMII clocks.
pub(crate) const APSR: Reg<Apsr, Rw> = Reg::at(0x08c);
/// Reception.
pub(crate) const RCR: Reg<Rcr, Rw> = Reg::at(0x090);
/// Receive queues, four in each: how descriptors are written back, which limits hold.
pub(crate) const RQC: [Reg<u32, Rw>; 5] =
    [Reg::at(0x094), Reg::at(0x098), Reg::at(0x09c), Reg::at(0x0a0), Reg::at(0x0a4)];
/// Lengths at which received frames are cut off.
pub(crate) const RTC: Reg<u32, Rw> = Reg::at(0x0b4);
/// Levels of unread frames at which a queue stops.
pub(crate) const UFCS: Reg<u32, Rw> = Reg::at(0x0c0);
/// Transmission: FIFO shares and priorities.
pub(crate) const TGC: Reg<u32, Rw> = Reg::at(0x300);
/// Transmission: start requests and timestamp FIFO.
pub(crate) const TCCR: Reg<Tccr, Rw> = Reg::at(0x304);
/// Bits 8-10: transmit timestamps waiting.
pub(crate) const TSR: Reg<u32, Ro> = Reg::at(0x308);
/// Oldest transmit timestamp: nanoseconds; seconds, bits 0-31; seconds, bits 32-47, and the tag in
/// bits 16-25.
pub(crate) const TFA0: Reg<u32, Ro> = Reg::at(0x310);
pub(crate) const TFA1: Reg<u32, Ro> = Reg::at(0x314);
pub(crate) const TFA2: Reg<u32, Ro> = Reg::at(0x318);
/// Which descriptors interrupt by themselves; unused.
pub(crate) const DIC: Reg<u32, Rw> = Reg::at(0x350);
/// Which errors interrupt.
pub(crate) const EIC: Reg<Errors, Rw> = Reg::at(0x358);
/// Errors; bit 16 sums up [`RIS2`].
pub(crate) const EIS: W0c = W0c::at(0x35c, 0x0000_07ff);
/// Which queues interrupt with a frame received, a bit each.
pub(crate) const RIC0: Reg<u32, Rw> = Reg::at(0x360);
/// Frame received.
pub(crate) const RIS0: W0c = W0c::at(0x364, 0x0003_ffff);
/// Receive warnings; unused.
pub(crate) const RIC1: Reg<u32, Rw> = Reg::at(0x368);
/// Which queues interrupt when full; bit 31: FIFO.
pub(crate) const RIC2: Reg<u32, Rw> = Reg::at(0x370);
/// Queue full; bit 31: FIFO full.
pub(crate) const RIS2: W0c = W0c::at(0x374, 0x8003_ffff);
/// Which transmit events interrupt.
pub(crate) const TIC: Reg<u32, Rw> = Reg::at(0x378);
/// Transmit events.
pub(crate) const TIS: W0c = W0c::at(0x37c, 0x000f_0f0f);
/// Which groups of events have one pending.
pub(crate) const ISS: Reg<Iss, Ro> = Reg::at(0x380);
/// Which line an event comes by.
pub(crate) const CIE: Reg<u32, Rw> = Reg::at(0x384);
/// Which queues interrupt with a descriptor done; unused. Not on Gen2.
pub(crate) const RIC3: Reg<u32, Rw> = Reg::at(0x388);
/// gPTP control.
pub(crate) const GCCR: Reg<Gccr, Rw> = Reg::at(0x390);
/// Nanoseconds a clock of the timer, times 2^20.
pub(crate) const GTI: Reg<u32, Rw> = Reg::at(0x39c);
/// Timer offset: nanoseconds; seconds, bits 0-31; bits 32-47.
pub(crate) const GTO0: Reg<u32, Rw> = Reg::at(0x3a0);
pub(crate) const GTO1: Reg<u32, Rw> = Reg::at(0x3a4);
pub(crate) const GTO2: Reg<u32, Rw> = Reg::at(0x3a8);
/// gPTP interrupts; unused.
pub(crate) const GIC: Reg<u32, Rw> = Reg::at(0x3ac);
/// Captured time: nanoseconds; seconds, bits 0-31; bits 32-47.
pub(crate) const GCT0: Reg<u32, Ro> = Reg::at(0x3b8);
pub(crate) const GCT1: Reg<u32, Ro> = Reg::at(0x3bc);
pub(crate) const GCT2: Reg<u32, Ro> = Reg::at(0x3c0);
/// Line of descriptor interrupts.
pub(crate) const DIL: Reg<u32, Rw> = Reg::at(0x440);
/// A one sets or clears the bit of [`RIC0`] or [`TIC`].
pub(crate) const RIE0: Reg<u32, W1s> = Reg::at(0x460);
pub(crate) const RID0: Reg<u32, W1s> = Reg::at(0x464);
pub(crate) const TIE: Reg<u32, W1s> = Reg::at(0x478);
pub(crate) const TID: Reg<u32, W1s> = Reg::at(0x47c);

/// E-MAC mode.
pub(crate) const ECMR: Reg<Ecmr, Rw> = Reg::at(0x500);
/// Longest frame received, FCS included.
pub(crate) const RFLR: Reg<u32, Rw> = Reg::at(0x508);
/// E-MAC events.
pub(crate) const ECSR: Reg<Ecsr, W1c> = Reg::at(0x510);
/// Which of them interrupt.
pub(crate) const ECSIPR: Reg<Ecsr, Rw> = Reg::at(0x518);
/// The MDIO pins.
pub(crate) const PIR: Reg<Pir, Rw> = Reg::at(0x520);
/// Where link state comes from. GbEth.
pub(crate) const CXR31: Reg<u32, Rw> = Reg::at(0x530);
/// Kind of MII. GbEth.
pub(crate) const CXR35: Reg<u32, Rw> = Reg::at(0x540);
/// Speed.
pub(crate) const GECMR: Reg<u32, Rw> = Reg::at(0x5b0);
/// Address, bytes 0-3, the first in the highest bits.
pub(crate) const MAHR: Reg<u32, Rw> = Reg::at(0x5c0);
/// Address, bytes 4-5.
pub(crate) const MALR: Reg<u32, Rw> = Reg::at(0x5c8);

/// Counters of the E-MAC: cleared by writing.
pub(crate) const TROCR: Reg<u32, Rw> = Reg::at(0x700);
pub(crate) const CDCR: Reg<u32, Rw> = Reg::at(0x708);
pub(crate) const LCCR: Reg<u32, Rw> = Reg::at(0x710);
pub(crate) const CEFCR: Reg<u32, Rw> = Reg::at(0x740);
pub(crate) const FRECR: Reg<u32, Rw> = Reg::at(0x748);
pub(crate) const TSFRCR: Reg<u32, Rw> = Reg::at(0x750);
pub(crate) const TLFRCR: Reg<u32, Rw> = Reg::at(0x758);
pub(crate) const RFCR: Reg<u32, Rw> = Reg::at(0x760);
pub(crate) const CERCR: Reg<u32, Rw> = Reg::at(0x768);
pub(crate) const CEECR: Reg<u32, Rw> = Reg::at(0x770);

/// Gates of the TOE. GbEth.
pub(crate) const CSR0: Reg<Csr0, Rw> = Reg::at(0x800);
/// What the TOE sums on transmission. GbEth.
pub(crate) const CSR1: Reg<Sums, Rw> = Reg::at(0x804);
/// What the TOE verifies on reception. GbEth.
pub(crate) const CSR2: Reg<Sums, Rw> = Reg::at(0x808);

bitflags! {
    /// Fields of [`CCC`]. [RV 2.2]
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub(crate) struct Ccc: u32 {
        const CONFIG = 1;
        const OPERATION = 2;
        /// The field these are values of.
        const OPC = 3;
        /// gPTP runs in configuration mode already.
        const GAC = 1 << 7;
        /// No more accesses to the bus, please.
        const DTSR = 1 << 8;
        /// gPTP is clocked by the peripheral bus.
        const CSEL_HPB = 1 << 16;
    }

    /// Fields of [`CSR`]. [RV 2.2]
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub(crate) struct Csr: u32 {
        const RESET = 1 << 0;
        const CONFIG = 1 << 1;
        const OPERATION = 1 << 2;
        /// Accesses to the bus are suspended.
        const DTS = 1 << 8;
        /// A transmit process is under way, a bit for each queue.
        const TPO = 0xf << 16;
        /// A receive process is under way.
        const RPO = 1 << 20;
    }

    /// Fields of [`APSR`]. [RV 1.5, 2.1]
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub(crate) struct Apsr: u32 {
        /// Receive clock delayed.
        const RDM = 1 << 13;
        /// Transmit clock delayed.
        const TDM = 1 << 14;
    }

    /// Fields of [`RCR`]. [RV 2.3]
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub(crate) struct Rcr: u32 {
        /// Frames with errors are stored.
        const EFFS = 1 << 0;
        /// Network control frames go to queue 1.
        const ENCF = 1 << 1;
        /// Timestamps in queue 0.
        const ETS0 = 1 << 4;
        /// FIFO caution level, as recommended.
        const RFCL_1800 = 0x1800 << 16;
        /// The same for GbEth, as Linux sets it.
        const GBETH_RFCL = 0x6000 << 16;
    }

    /// Fields of [`TCCR`]. [RV 2.4]
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub(crate) struct Tccr: u32 {
        /// Start requests, a bit for each queue; reads one while there is something to fetch.
        const TSRQ = 0xf;
        /// Timestamps are stored.
        const TFEN = 1 << 8;
        /// Releases the oldest timestamp; clears itself.
        const TFR = 1 << 9;
    }

    /// Fields of [`EIC`] and [`EIS`]. [RV 2.1]
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub(crate) struct Errors: u32 {
        /// E-MAC, receiving.
        const MRE = 1 << 0;
        /// E-MAC, transmitting.
        const MTE = 1 << 1;
        /// A queue's descriptors make no sense.
        const QE = 1 << 2;
        /// Timestamp FIFO overflowed.
        const TFF = 1 << 8;
        /// Transmit buffer overflowed.
        const TBF = 1 << 10;
        /// Some queue is full: sums up [`RIS2`].
        const QFS = 1 << 16;
    }

    /// Fields of [`ISS`]. [RV 2.5]
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub(crate) struct Iss: u32 {
        /// Errors.
        const ES = 1 << 6;
        /// E-MAC.
        const MS = 1 << 7;
        /// A transmit timestamp is there.
        const TFUS = 1 << 8;
    }

    /// Fields of [`GCCR`]. [RV 2.6]
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub(crate) struct Gccr: u32 {
        const RESET = 1;
        const CAPTURE = 3;
        /// The field these are values of; zero when done.
        const TCR = 3;
        /// Loads the offset; reads one until done.
        const LTO = 1 << 2;
        /// Loads the increment; reads one until done.
        const LTI = 1 << 3;
        /// Captures the corrected time.
        const TCSS_CORRECTED = 1 << 8;
    }

    /// Fields of [`ECMR`]. [RV 2.8]
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub(crate) struct Ecmr: u32 {
        /// Every frame.
        const PRM = 1 << 0;
        /// Full duplex.
        const DM = 1 << 1;
        const TE = 1 << 5;
        const RE = 1 << 6;
        /// Sends PAUSE.
        const TXF = 1 << 16;
        /// Obeys PAUSE.
        const RXF = 1 << 17;
        /// Sends PAUSE of no time.
        const ZPF = 1 << 19;
        /// Sums received frames. R-Car.
        const RCSC = 1 << 23;
        /// Passes the FCS on. GbEth.
        const RCPT = 1 << 25;
    }

    /// Fields of [`ECSR`] and [`ECSIPR`]. [RV 2.7]
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub(crate) struct Ecsr: u32 {
        /// Illegal carrier.
        const ICD = 1 << 0;
        /// Magic packet.
        const MPD = 1 << 1;
        /// Link pin changed.
        const LCHNG = 1 << 2;
        /// PAUSE was sent again too often.
        const PFRI = 1 << 4;
    }

    /// Fields of [`PIR`]. [RV 4.1]
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub(crate) struct Pir: u32 {
        const MDC = 1 << 0;
        /// We drive MDIO.
        const MMD = 1 << 1;
        const MDO = 1 << 2;
        const MDI = 1 << 3;
    }

    /// Fields of [`CSR0`]. [RV 2.9]
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub(crate) struct Csr0: u32 {
        /// The transmit path is open.
        const TPE = 1 << 4;
        /// The receive path is open.
        const RPE = 1 << 5;
    }

    /// Fields of [`CSR1`] and [`CSR2`]. [RV 2.9]
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub(crate) struct Sums: u32 {
        const TCP4 = 1 << 4;
        const UDP4 = 1 << 5;
        const ICMP4 = 1 << 6;
        const TCP6 = 1 << 20;
        const UDP6 = 1 << 21;
        const ICMP6 = 1 << 22;
    }
}

value!(Ccc, Csr, Apsr, Rcr, Tccr, Errors, Iss, Gccr, Ecmr, Ecsr, Pir, Csr0, Sums);

/// Queue-full enables beside a bit for each queue: the receive FIFO is full.
pub(crate) const RIC2_FIFO: u32 = 1 << 31;
/// Transmit timestamp FIFO updated.
pub(crate) const TIS_TFU: u32 = 1 << 8;
/// Receive and transmit events each on the line of their queue, queue-full on the error line. As
/// Linux has it; we attach all of them to one handler. [RV 2.5]
pub(crate) const CIE_LINES: u32 = 0x0002_0101;

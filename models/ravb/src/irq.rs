//! From flags to lines: the summary register, and which line carries what. (sheet 1.3, 2.5)

use crate::Variant;
use crate::device::Ravb;
use crate::regs::{self, cie, eis, tis};

/// Common line A.
const CH22: u32 = 1 << 22;
/// Common line B.
const CH23: u32 = 1 << 23;
/// The E-MAC's.
const CH24: u32 = 1 << 24;
/// The first transmit queue's; those of receive queues begin at 0.
const CH18: u32 = 18;

impl Ravb {
    /// Flags of a status register that their enables let through.
    fn enabled(&self, status: u16, enables: u16) -> u32 {
        self.get(status) & self.get(enables)
    }

    /// EIS: with the summary of the receive queues, which has no enable of its own.
    pub(crate) fn error_status(&self) -> u32 {
        let full = self.enabled(regs::RIS2, regs::RIC2) != 0;
        self.get(regs::EIS) | if full { eis::QFS } else { 0 }
    }

    /// ISS, which remembers nothing.
    pub(crate) fn summary(&self) -> u32 {
        let errors = self.error_status() & (self.get(regs::EIC) | eis::QFS);
        let warnings = self.enabled(regs::RIS1, regs::RIC1);
        let sent = self.enabled(regs::TIS, regs::TIC);
        [
            (0, self.enabled(regs::RIS0, regs::RIC0)),
            (1, warnings & !regs::FIFO),
            (2, sent & tis::FTF),
            (6, errors),
            (7, self.enabled(regs::ECSR, regs::ECSIPR)),
            (8, sent & tis::TFUF),
            (9, sent & 1 << 9),
            (10, sent & 1 << 10),
            (11, sent & 1 << 11),
            (12, warnings & regs::FIFO),
            (13, self.enabled(regs::GIS, regs::GIC)),
        ]
        .into_iter()
        .fold(0, |iss, (bit, flags)| iss | u32::from(flags != 0) << bit)
            | (self.enabled(regs::DIS, regs::DIC) & 0xfffe) << 16
    }

    /// Descriptors done with, which the summary does not show.
    fn descriptors_done(&self) -> (u32, u32) {
        (self.enabled(regs::RIS3, regs::RIC3), self.enabled(regs::TIS, regs::TIC) >> 16 & 0xf)
    }

    /// Interrupt lines asserted: bit n is line ch n on Gen3, bit 0 the only line elsewhere.
    pub fn lines(&self) -> u32 {
        if self.variant() != Variant::Gen3 {
            let (received, sent) = self.descriptors_done();
            return u32::from(self.summary() | received | sent != 0);
        }
        let cie = self.get(regs::CIE);
        let own = cie & cie::CL0M != 0;
        let line_if = |flags: u32, line: u32| if flags == 0 { 0 } else { line };
        // Flags of a group on line B where the select says so, otherwise on A.
        let routed = |flags: u32, select: u32| {
            line_if(flags & select, CH23) | line_if(flags & !select, CH22)
        };
        let (rx_done, tx_done) = self.descriptors_done();
        let received = self.enabled(regs::RIS0, regs::RIC0) | rx_done;
        let sent = self.enabled(regs::TIS, regs::TIC);
        let frames_sent = sent & tis::FTF | tx_done;
        let mut lines = 0;
        if cie & cie::CRIE != 0 {
            lines |= if own { received } else { line_if(received, CH22) };
        }
        if cie & cie::CTIE != 0 {
            lines |= if own { frames_sent << CH18 } else { line_if(frames_sent, CH22) };
        }
        let full = self.enabled(regs::RIS2, regs::RIC2);
        let queues = full & !regs::FIFO;
        lines |= if cie & cie::RQFM != 0 { queues } else { line_if(queues, CH22) };
        let warnings = self.enabled(regs::RIS1, regs::RIC1);
        lines |= line_if(warnings & !regs::FIFO, CH22);
        let fifo = |flags: u32, bit: u32| {
            line_if(flags & regs::FIFO, if cie & bit != 0 { CH23 } else { CH22 })
        };
        lines |= fifo(full, cie::RFFL) | fifo(warnings, cie::RFWL);
        lines |= routed(self.enabled(regs::EIS, regs::EIC), self.get(regs::EIL));
        lines |= routed(self.enabled(regs::DIS, regs::DIC), self.get(regs::DIL));
        lines |= routed(sent & 0xf00, self.get(regs::TIL));
        lines |= routed(self.enabled(regs::GIS, regs::GIC), self.get(regs::GIL));
        lines | line_if(self.enabled(regs::ECSR, regs::ECSIPR), CH24)
    }
}

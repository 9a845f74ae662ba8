//! Operating modes: CCC asks, CSR answers. (sheet 2.2, 3.1)

use crate::device::Ravb;
use crate::ptp::Timer;
use crate::queue::Queue;
use crate::regs::{self, ccc};
use std::time::Duration;
use trireme_vfio::Context;

/// Clocks the gPTP timer may count, in Hz, by CCC.CSEL. 1 is the peripheral bus as on H3 and M3-W
/// (sheet 1.4), the others the 125 MHz of a gigabit link.
const CLOCKS: [u64; 4] = [0, 133_333_333, 125_000_000, 125_000_000];

/// CSR.OPS.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mode {
    Reset,
    Config,
    Operation,
    Standby,
}

impl Mode {
    fn from_opc(opc: u32) -> Mode {
        match opc & ccc::OPC {
            0 => Mode::Reset,
            1 => Mode::Config,
            2 => Mode::Operation,
            _ => Mode::Standby,
        }
    }
}

impl Ravb {
    pub(crate) fn mode_is_operation(&self) -> bool {
        self.mode == Mode::Operation
    }

    /// The DMAC may use the bus.
    pub(crate) fn operates(&self) -> bool {
        self.mode == Mode::Operation && !self.hung && !self.suspended()
    }

    /// CSR.DTS: CCC.DTSR, once nothing is under way.
    fn suspended(&self) -> bool {
        let asked = self.get(regs::CCC) & ccc::DTSR != 0 && !self.faults.dts_never;
        asked && !self.hung && self.late.is_empty()
    }

    pub(crate) fn status(&self) -> u32 {
        let ops = match self.mode {
            Mode::Reset => 1,
            Mode::Config => 2,
            Mode::Operation => 4,
            Mode::Standby => 8,
        };
        ops | u32::from(self.suspended()) << 8
            | self.transmitting() << 16
            | u32::from(self.receiving()) << 20
    }

    pub(crate) fn store_ccc(&mut self, value: u32, context: Context<'_>) {
        let before = self.get(regs::CCC);
        let changed = before ^ value;
        let mut value = value;
        if changed & ccc::GAC != 0 && changed & ccc::OPC == 0 {
            // One access for GAC, CSEL and OPC. (sheet 2.2)
            self.violation(format_args!("GAC changes with OPC only"));
            value ^= ccc::GAC;
        }
        self.set(regs::CCC, value);
        let target = Mode::from_opc(value);
        match (self.mode, target) {
            (Mode::Reset, Mode::Operation) => {
                self.violation(format_args!("no way from RESET to OPERATION"));
            }
            (Mode::Operation, Mode::Reset) if !self.suspended() => {
                self.violation(format_args!("RESET without DTSR and DTS"));
            }
            (Mode::Config, Mode::Operation) if self.suspended() => {
                self.violation(format_args!("OPERATION with DTSR set"));
            }
            _ => {}
        }
        if target != Mode::from_opc(before) {
            self.mode_due = context.now + self.faults.slow_mode;
        }
        self.settle_mode(context);
        self.drain(context);
        self.load_entries(context);
        self.transmit(context);
    }

    /// Goes where CCC.OPC points, as soon as that is possible.
    pub(crate) fn settle_mode(&mut self, context: Context<'_>) {
        let target = Mode::from_opc(self.get(regs::CCC));
        if target != self.mode && context.now >= self.mode_due {
            let idle = self.transmitting() == 0 && (!self.receiving() || self.suspended());
            let possible = match (self.mode, target) {
                (Mode::Reset | Mode::Standby, Mode::Operation) => false,
                // DMA under way is finished first. (sheet 6.1, 4)
                (Mode::Operation, Mode::Config | Mode::Standby) => idle,
                (Mode::Config, Mode::Operation) => !self.suspended(),
                _ => true,
            };
            if possible {
                self.enter(target, context);
            }
        }
        self.clock_timer(context.now);
    }

    /// When a change of mode under way may be over.
    pub(crate) fn mode_deadline(&self) -> Option<Duration> {
        let under_way = Mode::from_opc(self.get(regs::CCC)) != self.mode;
        under_way.then_some(self.mode_due)
    }

    fn enter(&mut self, mode: Mode, context: Context<'_>) {
        log::debug!("{:?} -> {mode:?}", self.mode);
        if self.mode == Mode::Operation {
            self.late.clear();
            self.fifo.clear();
            self.requests = 0;
            self.tx_again = None;
        }
        self.mode = mode;
        match mode {
            Mode::Reset => self.reset_dmac(context.now),
            Mode::Operation => {
                self.loading = 0x3f_ffff;
                self.load_entries(context);
            }
            Mode::Config | Mode::Standby => {}
        }
    }

    /// What RESET mode does to the DMAC. The E-MAC keeps what it has: MAHR and MALR survive.
    fn reset_dmac(&mut self, now: Duration) {
        self.hung = false;
        self.queues = [Queue::default(); crate::queue::QUEUES];
        self.loading = 0x3f_ffff;
        self.unread = [0; 18];
        self.stamps.clear();
        self.timer = Timer::new();
        self.timer_requests = 0x2c;
        self.timer_delay = 0;
        self.clock_timer(now);
        if !self.faults.reset_keeps {
            let ccc = self.get(regs::CCC);
            self.reset_registers(..regs::EMAC);
            self.set(regs::CCC, ccc);
        }
    }

    /// The timer counts in OPERATION, and with GAC in CONFIG.
    fn clock_timer(&mut self, now: Duration) {
        let ccc = self.get(regs::CCC);
        let counts = match self.mode {
            Mode::Operation => true,
            Mode::Config => ccc & ccc::GAC != 0,
            Mode::Reset | Mode::Standby => false,
        };
        let source = ((ccc & ccc::CSEL) >> 16) as usize;
        let clock = if counts && self.variant.is_avb() { CLOCKS[source] } else { 0 };
        self.timer.set_clock(clock, now);
        if self.timer_delay == 0 {
            self.answer_timer(now);
        }
    }
}

//! GCCR: requests to the timer, which it answers by going back to zero. (sheet 2.6)

use crate::device::Ravb;
use crate::regs;
use std::time::Duration;
use trireme_vfio::Context;

const TCR: u32 = 3;
const LTO: u32 = 1 << 2;
const LTI: u32 = 1 << 3;
const LPTC: u32 = 1 << 4;
const LOADS: u32 = 0x3c;
/// GIS: captured, captured once too often, met.
const PTCF: u32 = 1 << 0;
const PTOF: u32 = 1 << 1;
const PTMF: u32 = 1 << 2;

impl Ravb {
    pub(crate) fn timer_loads_increment(&self) -> bool {
        self.timer_requests & LTI != 0
    }

    pub(crate) fn load_gccr(&mut self, context: Context<'_>) -> u32 {
        if self.timer_delay > 0 {
            self.timer_delay -= 1;
        } else {
            self.answer_timer(context.now);
        }
        self.get(regs::GCCR) | self.timer_requests
    }

    pub(crate) fn store_gccr(&mut self, value: u32, context: Context<'_>) {
        self.set(regs::GCCR, value & !(TCR | LOADS));
        self.timer_requests |= value & LOADS;
        if value & TCR != 0 {
            self.timer_requests = self.timer_requests & !TCR | value & TCR;
        }
        self.timer_delay = self.faults.slow_ptp;
        if self.timer_delay == 0 {
            self.answer_timer(context.now);
        }
    }

    /// Does what GCCR asks for, if the timer runs.
    pub(crate) fn answer_timer(&mut self, now: Duration) {
        if !self.timer.runs() || self.timer_requests == 0 {
            return;
        }
        let requests = std::mem::take(&mut self.timer_requests);
        if requests & TCR == 1 {
            self.timer.reset(now);
        }
        if requests & LTI != 0 {
            self.timer.load_increment(self.get(regs::GTI), now);
        }
        if requests & LTO != 0 {
            let words = [0, 4, 8].map(|at| self.get(regs::GTO + at));
            self.timer.load_offset(words, now);
        }
        if requests & LPTC != 0 {
            self.timer.load_compare(self.get(regs::GPTC), now);
        }
        if requests & TCR >= 2 {
            let source = self.get(regs::GCCR) >> 8 & 3;
            let words = self.timer.capture(source, now).words();
            for (at, word) in [0, 4, 8].into_iter().zip(words) {
                self.set(regs::GCT + at, word);
            }
        }
    }

    /// The compare value may have been met.
    pub(crate) fn watch_compare(&mut self, now: Duration) {
        if self.timer.matched(now) {
            self.raise(regs::GIS, PTMF);
        }
    }

    /// The capture pin is pulsed: presentation time goes to GCPT. (sheet 3.8)
    pub fn capture(&mut self, now: Duration) {
        if !self.variant().is_avb() || !self.timer.runs() {
            return;
        }
        if self.get(regs::GIS) & PTCF != 0 {
            self.raise(regs::GIS, PTOF);
        }
        self.set(regs::GCPT, self.timer.presentation(now));
        self.raise(regs::GIS, PTCF);
    }
}

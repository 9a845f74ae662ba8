//! IEEE 802.3x flow control: obeying PAUSE frames, and sending them by the receive ring's fill. [RH 4.9]
//!
//! A Rhine-III sends by itself: it counts the free receive buffers down, and is told of those given back. When
//! that is forgotten the peer stays silent for good [RH E32], so buffers are counted where they are given.

use crate::nic::Rhine;
use crate::regs::{self, Flow};
use trireme_nic::{Dma, Pause, Registers};

/// A Rhine-III asks for all the silence there can be, 335 ms at 100 Mbit/s: it ends it itself when there are buffers.
const SILENCE: u16 = 0xffff;

impl<R: Registers, D: Dma> Rhine<R, D> {
    /// Does what was agreed on with the peer.
    pub(crate) fn follow_pause(&mut self) {
        let pause = self.link.pause;
        self.sends_pause = false;
        if self.chip.is_rhine_iii() {
            regs::FLOWCR1.write(&self.bar, Flow::empty());
            if pause {
                regs::FLOWCR0.write(&self.bar, 0);
                // The count comes before it is looked at, or a peer would be stopped for nothing.
                regs::FLOWCR0.write(&self.bar, self.rx.free());
                regs::PAUSE_TIMER.write(&self.bar, SILENCE);
                regs::FLOWCR1.write(&self.bar, Flow::OBEY | Flow::SEND | Flow::XON | Flow::LOW_8);
                self.sends_pause = true;
            }
            self.given_back = 0;
        } else if self.chip.has_power_management() {
            regs::MISC_CR0.modify(&self.bar, |b| if pause { b | 1 << 3 } else { b & !(1 << 3) });
        }
    }

    /// Tells the card how many receive buffers it was given since the last time.
    pub(crate) fn report_given_back(&mut self) {
        if self.given_back > 0 && self.sends_pause {
            regs::FLOWCR0.write(&self.bar, core::mem::take(&mut self.given_back));
        }
    }

    pub(crate) fn pause_in_use(&self) -> Option<Pause> {
        self.chip.has_power_management().then_some(Pause {
            autonegotiate: true,
            rx: self.link.pause,
            tx: self.sends_pause,
        })
    }
}

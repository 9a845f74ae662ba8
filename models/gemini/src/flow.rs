//! PAUSE both ways (IEEE 802.3 annex 31B; docs/hardware/gemini.md 4.4, 4.5, 7). What the chip puts in its
//! frames, and which of the register 4 bits is which direction, is not established (section 12, 13).

use crate::device::Gemini;
use crate::filter;
use crate::interrupts::Cause;
use crate::regs::{Config0, gmac};
use std::time::Duration;
use trireme_vfio::Context;

const PAUSE: [u8; 6] = [0x01, 0x80, 0xc2, 0, 0, 1];

/// The quanta of a PAUSE frame.
fn parse(frame: &[u8], station: &[u8; 6]) -> Option<u16> {
    let to = frame.get(..6)?;
    if (to != PAUSE && to != station) || frame.get(12..16)? != [0x88, 0x08, 0, 1] {
        return None;
    }
    Some(u16::from_be_bytes([*frame.get(16)?, *frame.get(17)?]))
}

impl Gemini {
    pub(crate) fn stations(&self, port: usize) -> [[u8; 6]; 2] {
        filter::stations([0, 4, 8].map(|at| self.gmac(port, gmac::STA_ADD + at)))
    }

    /// Takes a PAUSE frame. True: it was one, and goes no further.
    pub(crate) fn take_pause(&mut self, port: usize, frame: &[u8], context: Context<'_>) -> bool {
        let Some(quanta) = parse(frame, &self.stations(port)[0]) else { return false };
        self.count(port).rx_pause += 1;
        if self.config0(port).contains(Config0::RX_FLOW) {
            // A quantum is 512 bit times.
            let ns = u64::from(quanta) * 512 * 1000 / u64::from(self.speed(port));
            self.ports[port].paused_until = Some(context.now + Duration::from_nanos(ns));
            self.raise(Cause::RxPauseOn(port));
        }
        true
    }

    /// Asks the peer to pause, or lets it go on, by the number of free buffers.
    pub(crate) fn control_flow(&mut self, port: usize, free: u32) {
        if !self.config0(port).contains(Config0::TX_FLOW) {
            return;
        }
        let thresholds = self.gmac(port, gmac::CONFIG2);
        let quanta = match self.ports[port].pausing {
            false if free < thresholds & 0xffff => 0xffffu16,
            true if free > thresholds >> 16 => 0,
            _ => return,
        };
        let pausing = quanta != 0;
        self.ports[port].pausing = pausing;
        let station = self.stations(port)[0];
        let frame = [&PAUSE[..], &station, &[0x88, 0x08, 0, 1], &quanta.to_be_bytes()].concat();
        self.count(port).tx_pause += 1;
        self.send(port, frame);
        self.raise(if pausing { Cause::TxPauseOn(port) } else { Cause::TxPauseOff(port) });
    }
}

//! The transmit engine: from the rings through the TOE onto the wire. (sheet 3.6)

use crate::checksum;
use crate::desc::{Descriptor, dt};
use crate::device::Ravb;
use crate::faults::strikes;
use crate::ptp::Stamp;
use crate::queue::error;
use crate::regs::{self, ccc, ecmr, eis, tccr, tis};
use std::time::Duration;
use trireme_vfio::Context;

/// Frames sent in one go at most; then the engine waits for its next turn.
const MAX_FRAMES: usize = 256;
/// Descriptors a frame may consist of.
const MAX_PIECES: usize = 64;
/// Frames waiting for their write-back at most.
const MAX_LATE: usize = 64;
/// How long a stalled engine fetches nothing.
const STALL: Duration = Duration::from_millis(20);
/// FCS, in bytes.
const FCS: usize = 4;

/// A frame on its way out, and what is to be written when it is gone.
#[derive(Clone, Debug, Default)]
pub(crate) struct Sent {
    queue: usize,
    pieces: Vec<Descriptor>,
    bytes: Vec<u8>,
}

/// A frame that is gone, whose descriptors are not written back yet.
#[derive(Clone, Debug)]
pub(crate) struct Late {
    pub(crate) at: Duration,
    sent: Sent,
}

/// What became of one look at a ring.
enum Step {
    /// A frame is gone; look for the next.
    Sent,
    /// Nothing to send: TSRQ reads 0.
    Idle,
    /// What is next is still to be written back.
    Busy(Duration),
}

impl Ravb {
    /// The engine takes frames from its rings.
    fn transmits(&self) -> bool {
        self.operates() && self.get(regs::ECMR) & ecmr::TE != 0 && self.toe_passes(regs::TPE)
    }

    /// CSR.TPO: queues with something under way.
    pub(crate) fn transmitting(&self) -> u32 {
        self.late.iter().fold(self.requests, |queues, late| queues | 1 << late.sent.queue)
    }

    /// The requested queue whose turn it is, by TGC.TQP. (sheet 2.4)
    fn next_queue(&self) -> Option<usize> {
        let order = if self.get(regs::TGC) >> 4 & 3 == 3 { [1, 3, 2, 0] } else { [3, 2, 1, 0] };
        order.into_iter().find(|queue| self.requests >> queue & 1 != 0)
    }

    /// Sends what the rings hold, in bounded portions.
    pub(crate) fn transmit(&mut self, context: Context<'_>) {
        self.tx_again = None;
        for _ in 0..MAX_FRAMES {
            if !self.transmits() {
                return;
            }
            let Some(queue) = self.next_queue() else { return };
            if let Some(until) = self.paused_until.filter(|&until| until > context.now) {
                self.tx_again = Some(until);
                return;
            }
            if strikes(&mut self.random, self.faults.tx_stall) {
                self.tx_again = Some(context.now + STALL);
                return;
            }
            match self.transmit_one(queue, context) {
                Ok(Step::Sent) => {}
                Ok(Step::Idle) => self.requests &= !(1 << queue),
                Ok(Step::Busy(until)) => {
                    self.tx_again = Some(until);
                    return;
                }
                Err(kind) => self.queue_error(queue, kind),
            }
        }
        self.tx_again = Some(context.now);
    }

    fn transmit_one(&mut self, queue: usize, context: Context<'_>) -> Result<Step, u32> {
        if self.queues[queue].halted {
            return Ok(Step::Idle);
        }
        if strikes(&mut self.random, self.faults.tx_queue_error) {
            return Err(error::READ_DESCRIPTOR);
        }
        let mut from = self.queues[queue].cursor();
        let mut sent = Sent { queue, ..Sent::default() };
        loop {
            let descriptor = self.fetch(queue, from, context)?;
            if let Some(late) = self.late.iter().find(|late| late.holds(descriptor.at)) {
                return Ok(Step::Busy(late.at));
            }
            let first = sent.pieces.is_empty();
            let last = match (descriptor.kind(), first) {
                (dt::FSINGLE, true) | (dt::FEND, false) => true,
                (dt::FSTART, true) | (dt::FMID, false) => false,
                (0 | dt::LEMPTY | dt::EEMPTY | dt::EOS | dt::FEMPTY, true) => {
                    self.queues[queue].advance(descriptor.at);
                    return Ok(Step::Idle);
                }
                // Also FSTART with nothing behind it. (sheet 6.1, 6)
                _ => return Err(error::INTERPRET),
            };
            if descriptor.size() == 0 {
                // "Appears to terminate DMA." (sheet 3.6)
                return Ok(Step::Idle);
            }
            if sent.pieces.len() == MAX_PIECES {
                return Err(error::INTERPRET);
            }
            self.gather(&descriptor, &mut sent.bytes, context)?;
            sent.pieces.push(descriptor);
            from = Some(descriptor.at.wrapping_add(self.stride(queue)));
            if last {
                break;
            }
        }
        if self.hangs(sent.bytes.len()) {
            // (sheet 6.3, 31): no flag, no write-back, nothing more in either direction.
            log::warn!("a frame of {} bytes hangs the block", sent.bytes.len());
            self.counters.violations += 1;
            self.hung = true;
            return Ok(Step::Busy(context.now + STALL));
        }
        if let Some(at) = from {
            self.queues[queue].advance(at);
        }
        self.send_frame(std::mem::take(&mut sent.bytes), queue, context);
        let delay = self.faults.tx_late;
        if delay.is_zero() || self.late.len() == MAX_LATE {
            self.complete(&sent, context)?;
        } else {
            self.late.push_back(Late { at: context.now + delay, sent });
        }
        Ok(Step::Sent)
    }

    fn hangs(&self, len: usize) -> bool {
        let limit = match self.faults.tx_limit {
            0 => self.variant.longest_transmit(),
            limit => limit as usize,
        };
        !self.variant.is_avb() && len + FCS > limit
    }

    /// Fetches a descriptor's bytes.
    fn gather(
        &mut self,
        descriptor: &Descriptor,
        bytes: &mut Vec<u8>,
        context: Context<'_>,
    ) -> Result<(), u32> {
        let start = bytes.len();
        let mut pointer = descriptor.pointer;
        if self.variant.needs_aligned_transmit() && !pointer.is_multiple_of(4) {
            log::warn!("transmit buffer at {pointer:#x}: must lie on four bytes");
            self.counters.tx_misaligned += 1;
            pointer &= !3;
        }
        bytes.resize(start + descriptor.size(), 0);
        context.memory.read(u64::from(pointer), &mut bytes[start..]).map_err(|_| {
            self.counters.dma_errors += 1;
            error::READ_DATA
        })
    }

    /// Through TOE and E-MAC.
    fn send_frame(&mut self, mut bytes: Vec<u8>, queue: usize, context: Context<'_>) {
        let longest = self.variant.longest_transmit();
        let too_long = self.variant.is_avb() && bytes.len() + FCS > longest;
        if bytes.len() < 14 || too_long {
            // By their names; unverified. (sheet 9, 20)
            self.counters.tx_errors += 1;
            self.report(queue, error::TX_FRAME_SIZE, eis::MTEF);
            return;
        }
        if !self.variant.is_avb() {
            let filled = checksum::toe_fill(&mut bytes, self.get(regs::CSR1), &self.faults);
            self.counters.tx_checksums += u64::from(filled.transport);
            self.counters.tx_odd_seeds += u64::from(filled.odd_seed);
        }
        if self.get(regs::ECMR) & ecmr::DPAD == 0 {
            bytes.resize(bytes.len().max(60), 0);
        }
        if self.get(regs::CCC) & ccc::LBME != 0 || self.phy.loops_back() {
            self.arrive(&bytes, context);
        } else if bytes.len() < 60 {
            self.counters.tx_runts += 1;
        } else if !self.hears() {
            self.counters.unheard += 1;
        } else {
            self.counters.tx_frames += 1;
            self.counters.tx_bytes += bytes.len() as u64;
            self.send(bytes);
        }
    }

    /// Writes a sent frame's descriptors back and tells of it.
    fn complete(&mut self, sent: &Sent, context: Context<'_>) -> Result<(), u32> {
        let keeps = self.get(regs::TGC) >> sent.queue & 1 != 0;
        for piece in &sent.pieces {
            if !keeps {
                self.write_word(piece.at, piece.retyped(dt::FEMPTY), context)?;
            }
            self.processed(piece);
            if piece.interrupt() != 0 {
                self.raise(regs::TIS, 1 << (16 + sent.queue));
            }
        }
        let recording = self.variant.is_avb() && self.get(regs::TCCR) & tccr::TFEN != 0;
        if let Some(piece) = sent.pieces.iter().find(|p| recording && p.wants_timestamp()) {
            let stamp = Stamp { tag: piece.tag(), at: self.timer.time(context.now) };
            let lost = strikes(&mut self.random, self.faults.timestamp_overflow);
            if lost || !self.stamps.push(stamp) {
                self.raise(regs::EIS, eis::TFFF);
            }
            self.raise(regs::TIS, tis::TFUF);
        }
        if !strikes(&mut self.random, self.faults.tx_no_interrupt) {
            self.raise(regs::TIS, 1 << sent.queue);
        }
        Ok(())
    }

    /// Writes back what is due.
    pub(crate) fn complete_late(&mut self, context: Context<'_>) {
        while self.late.front().is_some_and(|late| late.at <= context.now) {
            let Some(late) = self.late.pop_front() else { return };
            if let Err(kind) = self.complete(&late.sent, context) {
                self.queue_error(late.sent.queue, kind);
            }
        }
    }
}

impl Late {
    fn holds(&self, at: u32) -> bool {
        self.sent.pieces.iter().any(|piece| piece.at == at)
    }
}

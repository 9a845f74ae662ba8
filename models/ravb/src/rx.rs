//! The receive engine: from the wire through E-MAC, checksum engine and FIFO into the rings.
//! (sheet 3.6)

use crate::checksum;
use crate::desc::{Descriptor, dt, msc};
use crate::device::Ravb;
use crate::faults::strikes;
use crate::filter;
use crate::ptp::Time;
use crate::queue::{FIRST_RX, error};
use crate::regs::{self, ccc, ecmr, ecsr, rcr};
use std::time::Duration;
use trireme_vfio::Context;

/// FCS, in bytes.
const FCS: usize = 4;
/// RFLR below this means this. (sheet 2.7)
const LEAST_LIMIT: usize = 1518;
/// Bytes of receive FIFO. The real size is not known; RCR's recommended caution level is 6 KiB.
const FIFO: usize = 16 * 1024;
/// Descriptors a frame may span.
const MAX_PIECES: usize = 256;

/// A frame in the FIFO.
#[derive(Clone, Debug)]
pub(crate) struct Arrival {
    /// When the DMAC gets it.
    pub(crate) at: Duration,
    /// As it is stored: without FCS, with what the checksum engine appends.
    bytes: Vec<u8>,
    queue: usize,
    msc: u8,
    truncated: bool,
    time: Time,
}

impl Arrival {
    fn is_bad(&self) -> bool {
        self.msc & !msc::MC != 0
    }
}

impl Ravb {
    fn receives(&self) -> bool {
        self.mode_is_operation()
            && !self.hung
            && self.get(regs::ECMR) & ecmr::RE != 0
            && self.toe_passes(regs::RPE)
    }

    /// CSR.RPO: something waits in the FIFO.
    pub(crate) fn receiving(&self) -> bool {
        !self.fifo.is_empty()
    }

    /// A frame without FCS arrives from the PHY, or from the transmitter in loopback.
    pub(crate) fn arrive(&mut self, frame: &[u8], context: Context<'_>) {
        if self.watches_for_magic() && filter::is_magic(frame, &self.station()) {
            self.raise(regs::ECSR, ecsr::MPD);
        }
        if !self.receives() || frame.len() < 14 {
            return;
        }
        if strikes(&mut self.random, self.faults.illegal_carrier) {
            self.raise(regs::ECSR, ecsr::ICD);
        }
        let mut frame = frame.to_vec();
        // The sender's MAC padded it, or it would not be on the wire.
        frame.resize(frame.len().max(60), 0);
        if self.takes_pause(&frame, context) {
            return;
        }
        let mut found = self.damage(&mut frame);
        if frame[0] & 1 != 0 {
            found |= msc::MC;
            self.count(regs::MAFCR);
        }
        let limit = (self.get(regs::RFLR) as usize).max(LEAST_LIMIT);
        if frame.len() + FCS > limit {
            self.count(regs::TLFRCR);
            found |= msc::RTLF;
        }
        if found & !msc::MC != 0 {
            self.counters.rx_errors += 1;
            if self.get(regs::RCR) & rcr::EFFS == 0 {
                return;
            }
        }
        let queue = self.passes_address(&frame).then(|| self.receive_queue(&frame)).flatten();
        let Some(queue) = queue else {
            self.counters.rx_filtered += 1;
            return;
        };
        let truncated = self.truncate(&mut frame, queue);
        self.append_sums(&mut frame);
        let at = context.now + self.faults.rx_late;
        let time = self.timer.time(context.now);
        let held: usize = self.fifo.iter().map(|arrival| arrival.bytes.len()).sum();
        if held + frame.len() > FIFO || strikes(&mut self.random, self.faults.rx_overflow) {
            self.counters.rx_overflows += 1;
            self.raise(regs::RIS2, regs::FIFO);
            return;
        }
        self.fifo.push_back(Arrival { at, bytes: frame, queue, msc: found, truncated, time });
        self.drain(context);
    }

    fn watches_for_magic(&self) -> bool {
        self.variant.is_avb() && self.get(regs::ECMR) & ecmr::MPDE != 0
    }

    /// MAC control ends here, unless ECMR.PFR passes it on.
    fn takes_pause(&mut self, frame: &[u8], context: Context<'_>) -> bool {
        let Some(quanta) = filter::pause(frame) else { return false };
        self.count(regs::PFRCR);
        let ecmr = self.get(regs::ECMR);
        if ecmr & ecmr::RXF != 0 && (quanta != 0 || ecmr & ecmr::RZPF != 0) {
            // A quantum is 512 bit times. (IEEE 802.3, 31B.2)
            let bit_ns = 1000 / u64::from(self.speed()).max(1);
            let time = Duration::from_nanos(u64::from(quanta) * 512 * bit_ns);
            self.paused_until = (quanta != 0).then(|| context.now + time);
        }
        ecmr & ecmr::PFR == 0
    }

    /// What the wire did to a frame. (sheet 3.5, MSC)
    fn damage(&mut self, frame: &mut Vec<u8>) -> u8 {
        let faults = self.faults;
        let mut found = 0;
        for (rate, bit, counter) in [
            (faults.rx_crc, msc::CRC, regs::CEFCR),
            (faults.rx_phy_error, msc::RFE, regs::FRECR),
            (faults.rx_runt, msc::RTSF, regs::TSFRCR),
            (faults.rx_residual, msc::FRE, regs::RFCR),
            (faults.rx_extension, msc::CEEF, regs::CEECR),
        ] {
            let possible = bit != msc::CEEF || !self.variant.is_avb();
            if possible && strikes(&mut self.random, rate) {
                found |= bit;
                self.count(counter);
            }
        }
        if found & msc::RTSF != 0 {
            frame.truncate(self.random.usize(14..60));
        }
        found
    }

    /// RTC's limit for the queue, and the fault that cuts. True: cut.
    fn truncate(&mut self, frame: &mut Vec<u8>, queue: usize) -> bool {
        let mut limit = usize::MAX;
        // Gen2 documents no such register.
        if self.variant != crate::Variant::Gen2 {
            let which = self.queue_config(queue) >> 2 & 1;
            limit = (self.get(regs::RTC) >> (16 * which) & 0x7fff) as usize;
        }
        if frame.len() > 64 && strikes(&mut self.random, self.faults.rx_truncated) {
            limit = limit.min(64);
        }
        let cut = frame.len() > limit;
        frame.truncate(limit);
        cut
    }

    /// RQC's byte of a receive queue.
    fn queue_config(&self, queue: usize) -> u32 {
        self.get(regs::RQC + 4 * (queue / 4) as u16) >> (8 * (queue % 4)) & 0xff
    }

    /// What the checksum engine puts behind a frame. (sheet 5.1, 5.2)
    fn append_sums(&mut self, frame: &mut Vec<u8>) {
        let ecmr = self.get(regs::ECMR);
        let wrong = strikes(&mut self.random, self.faults.rx_wrong_sum);
        if self.variant.is_avb() {
            if ecmr & ecmr::RCSC != 0 {
                let mut trailer = checksum::rcar_trailer(frame, self.faults.sum_as_ones);
                trailer[0] ^= if wrong { 0x55 } else { 0 };
                frame.extend(trailer);
                self.counters.rx_checksums += 1;
            }
            return;
        }
        let csr2 = self.get(regs::CSR2);
        let idle = self.faults.no_idle_trailer && !checksum::enables_any(csr2);
        if ecmr & ecmr::RCPT == 0 || idle {
            return;
        }
        let mut results = checksum::toe_trailer(frame, csr2, &self.faults);
        if wrong {
            results[1] = if results[1] == 0 { 0x1234 } else { 0 };
        }
        self.counters.rx_checksums += u64::from(results[1] == 0);
        frame.extend(checksum::toe_bytes(results));
    }

    /// Moves what is due from the FIFO into the rings.
    pub(crate) fn drain(&mut self, context: Context<'_>) {
        while self.operates() && self.fifo.front().is_some_and(|first| first.at <= context.now) {
            let Some(arrival) = self.fifo.pop_front() else { return };
            let queue = FIRST_RX + arrival.queue;
            if self.is_stopped(arrival.queue) {
                self.queue_full(arrival.queue);
                continue;
            }
            match self.deliver(&arrival, context) {
                Ok(true) => self.delivered(&arrival),
                Ok(false) => self.queue_full(arrival.queue),
                Err(kind) => {
                    self.queue_error(queue, kind);
                    self.queue_full(arrival.queue);
                }
            }
        }
    }

    /// The queue takes nothing: an error, the stop level of unread frames, or a fault.
    fn is_stopped(&mut self, queue: usize) -> bool {
        let level = self.get(regs::UFCS) >> (8 * (self.queue_config(queue) >> 4 & 3)) & 0x3f;
        let stopped = level != 0 && u32::from(self.unread[queue]) >= level;
        let full = strikes(&mut self.random, self.faults.rx_queue_full);
        self.queues[FIRST_RX + queue].halted || stopped || full
    }

    fn queue_full(&mut self, queue: usize) {
        self.counters.rx_missed += 1;
        self.raise(regs::RIS2, 1 << queue);
    }

    fn delivered(&mut self, arrival: &Arrival) {
        let queue = arrival.queue;
        self.counters.rx_frames += 1;
        self.unread[queue] = (self.unread[queue] + 1).min(63);
        let level = self.get(regs::UFCW) >> (8 * (self.queue_config(queue) >> 4 & 3)) & 0x3f;
        if level != 0 && u32::from(self.unread[queue]) >= level {
            self.raise(regs::RIS1, 1 << queue);
        }
        if !strikes(&mut self.random, self.faults.rx_no_interrupt) {
            self.raise(regs::RIS0, 1 << queue);
        }
    }

    /// Puts a frame into its ring. `Ok(false)`: no descriptors for it.
    fn deliver(&mut self, arrival: &Arrival, context: Context<'_>) -> Result<bool, u32> {
        let queue = FIRST_RX + arrival.queue;
        let mut pieces: Vec<Descriptor> = Vec::new();
        let (mut from, mut room) = (self.queues[queue].cursor(), 0);
        while room < arrival.bytes.len() {
            let piece = self.fetch(queue, from, context)?;
            let ready =
                matches!(piece.kind(), dt::FEMPTY | dt::FEMPTY_IS | dt::FEMPTY_IC | dt::FEMPTY_ND);
            // A ring shorter than the frame would come round to a descriptor already used.
            let used = pieces.iter().any(|other| other.at == piece.at);
            if !ready || used || pieces.len() == MAX_PIECES {
                if pieces.is_empty() {
                    // Looked at again for the next frame.
                    self.queues[queue].advance(piece.at);
                }
                return Ok(false);
            }
            room += piece.size();
            from = Some(piece.at.wrapping_add(self.stride(queue)));
            pieces.push(piece);
            if strikes(&mut self.random, self.faults.rx_cut_chain) && room < arrival.bytes.len() {
                break;
            }
        }
        let mut rest = &arrival.bytes[..];
        let count = pieces.len();
        for (i, piece) in pieces.iter().enumerate() {
            let (here, after) = rest.split_at(rest.len().min(piece.size()));
            rest = after;
            let kind = match (i == 0, i + 1 == count && after.is_empty()) {
                (true, true) => dt::FSINGLE,
                (true, false) => dt::FSTART,
                (false, false) => dt::FMID,
                (false, true) => dt::FEND,
            };
            self.fill(arrival, piece, here, kind, context)?;
        }
        if let Some(at) = from {
            self.queues[queue].advance(at);
        }
        Ok(true)
    }

    /// Fills one descriptor: data, then timestamp, then the word that hands it over.
    fn fill(
        &mut self,
        arrival: &Arrival,
        piece: &Descriptor,
        here: &[u8],
        kind: u32,
        context: Context<'_>,
    ) -> Result<(), u32> {
        let queue = arrival.queue;
        let last = matches!(kind, dt::FSINGLE | dt::FEND);
        let failed = |model: &mut Ravb| {
            model.counters.dma_errors += 1;
            error::WRITE_DATA
        };
        if piece.kind() != dt::FEMPTY_ND && !here.is_empty() {
            let to = self.place(queue, piece, here.len());
            context.memory.write(u64::from(to), here).map_err(|_| failed(self))?;
        }
        let extended = self.stride(FIRST_RX + queue) == 20;
        if extended {
            for (i, word) in (2..).zip(arrival.time.words()) {
                let to = u64::from(piece.at) + 4 * i;
                let written = match i {
                    4 => context.memory.write(to, &word.to_le_bytes()[..2]),
                    _ => context.memory.write32(to, word),
                };
                written.map_err(|_| failed(self))?;
            }
        }
        let mode = self.queue_config(queue) & 3;
        if mode != 2 {
            let mut size = here.len() as u32;
            if strikes(&mut self.random, self.faults.rx_zero_length) {
                size = 0;
            } else if strikes(&mut self.random, self.faults.rx_bad_length) {
                size = (piece.size() as u32 + 1 + self.random.u32(0..512)).min(0xfff);
            }
            let told = last || self.faults.status_everywhere;
            let found = if told { arrival.msc } else { arrival.msc & msc::MC };
            let bits = u32::from(told && arrival.truncated) << 12
                | u32::from(told && arrival.is_bad()) << 13
                | u32::from(found) << 16;
            let kind = if mode == 1 { piece.kind() } else { kind };
            let word = kind << 28 | piece.word & 0x0f00_0000 | bits | size;
            self.write_word(piece.at, word, context)?;
        }
        self.processed(piece);
        if piece.interrupt() != 0 && self.variant != crate::Variant::Gen2 {
            self.raise(regs::RIS3, 1 << queue);
        }
        Ok(())
    }

    /// Where a descriptor's data goes: its buffer, or further along the incremental area.
    fn place(&mut self, queue: usize, piece: &Descriptor, len: usize) -> u32 {
        let (ciar, liar) = (regs::CIAR + 4 * queue as u16, regs::LIAR + 4 * queue as u16);
        let to = match piece.kind() {
            dt::FEMPTY_IC => self.get(ciar),
            _ => piece.pointer,
        };
        if matches!(piece.kind(), dt::FEMPTY_IS | dt::FEMPTY_IC) {
            let packed = self.queue_config(queue) >> 6 & 1 != 0;
            let end = to.wrapping_add(len as u32);
            self.set(ciar, if packed { end } else { end.wrapping_add(3) & !3 });
            self.set(liar, to);
        }
        to
    }

    /// A loopback is closed: what comes from the cable is not heard.
    pub(crate) fn is_looped(&self) -> bool {
        self.get(regs::CCC) & ccc::LBME != 0 || self.phy.loops_back()
    }
}

//! Transmit DMA (docs/hardware/gemini.md 5.1, 5.2): descriptor chains from six software queues per port,
//! through the offload unit, to the MAC.

use crate::access::Ring;
use crate::device::Gemini;
use crate::faults::strikes;
use crate::interrupts::Cause;
use crate::port::InFlight;
use crate::regs::{Config0, DmaCtrl, TxControl, descriptor, dma};
use crate::tss::{self, Request};
use std::time::Duration;
use trireme_vfio::{Context, GuestMemory};

/// Frames sent in one go at most; the rest waits for the next call.
const PORTION: usize = 256;
/// Software queues of a port.
const QUEUES: usize = 6;

/// A frame's descriptors as fetched.
struct Chain {
    queue: usize,
    ring: Ring,
    first: u16,
    words: Vec<[u32; 4]>,
}

impl Chain {
    fn next(&self) -> u16 {
        self.first.wrapping_add(self.words.len() as u16) & self.ring.mask
    }

    fn word0(&self, status: u32) -> u32 {
        let size = self.words.first().map_or(0, |words| words[0] & 0xffff);
        size | (self.words.len() as u32) << descriptor::COUNT_SHIFT | status
    }
}

/// Why there is no frame.
enum Broken {
    /// The descriptors themselves cannot be read.
    Unreadable,
    /// These break the protocol; skip them.
    Protocol(Chain),
}

fn read_descriptor(memory: &dyn GuestMemory, at: u64) -> Option<[u32; 4]> {
    let mut bytes = [0; 16];
    memory.read(at, &mut bytes).ok()?;
    let word = |i: usize| u32::from_le_bytes([0, 1, 2, 3].map(|b| bytes[4 * i + b]));
    Some([0, 1, 2, 3].map(word))
}

impl Gemini {
    /// Lets the transmitter of a port go on as far as it can.
    pub(crate) fn transmit(&mut self, port: usize, context: Context<'_>) {
        self.ports[port].again = None;
        for _ in 0..PORTION {
            if let Some(in_flight) = self.ports[port].in_flight {
                if context.now < in_flight.done_at {
                    self.ports[port].again = Some(in_flight.done_at);
                    return;
                }
                self.ports[port].in_flight = None;
                self.complete(port, in_flight, context);
            }
            if let Some(until) = self.ports[port].paused_until {
                if context.now < until {
                    self.ports[port].again = Some(until);
                    return;
                }
                self.ports[port].paused_until = None;
                self.raise(Cause::RxPauseOff(port));
            }
            if !self.may_transmit(port) {
                return;
            }
            let Some(queue) = self.next_queue(port) else { return };
            self.start(port, queue, context);
        }
        self.ports[port].again = Some(context.now);
    }

    fn may_transmit(&self, port: usize) -> bool {
        let state = &self.ports[port];
        self.dma_ctrl(port).contains(DmaCtrl::TX_ENABLE)
            && !self.config0(port).contains(Config0::DIS_TX)
            && self.syscon.clocked(port)
            && !state.tx_hung
            && !state.tx_halted
    }

    fn tx_ring(&self, port: usize, queue: usize) -> Option<Ring> {
        // The six rings are contiguous and equal. [4.3]
        let ring = Ring::new(self.dma(port, dma::SW_TXQ_BASE))?;
        let base = ring.base + queue as u64 * 16 * (u64::from(ring.mask) + 1);
        Some(Ring { base, ..ring })
    }

    /// Weighted round robin; a weight of zero counts as one (INF).
    fn next_queue(&mut self, port: usize) -> Option<usize> {
        let weights = self.dma(port, dma::TX_WEIGHT_SW);
        for _ in 0..=QUEUES {
            let queue = self.ports[port].turn;
            let (read, write) = self.pointers(Gemini::tx_pointer(port, queue));
            let waits = self.tx_ring(port, queue).is_some_and(|ring| ring.used(read, write) != 0);
            let state = &mut self.ports[port];
            if waits && state.left > 0 {
                state.left -= 1;
                return Some(queue);
            }
            state.turn = (queue + 1) % QUEUES;
            state.left = (weights >> (5 * state.turn) & 31).max(1);
        }
        None
    }

    fn fetch(&self, port: usize, queue: usize, context: Context<'_>) -> Result<Chain, Broken> {
        let (read, write) = self.pointers(Gemini::tx_pointer(port, queue));
        let ring = self.tx_ring(port, queue).ok_or(Broken::Unreadable)?;
        let waiting = usize::from(ring.used(read, write));
        let mut chain = Chain { queue, ring, first: read & ring.mask, words: Vec::new() };
        for i in 0..waiting.min(descriptor::MAX_COUNT) {
            let at = ring.slot(read.wrapping_add(i as u16));
            let words = read_descriptor(context.memory, at).ok_or(Broken::Unreadable)?;
            let first = words[3] & descriptor::SOF != 0;
            if first != (i == 0) {
                // A frame that begins in another stays for the next turn.
                if i == 0 {
                    chain.words.push(words);
                }
                return Err(Broken::Protocol(chain));
            }
            chain.words.push(words);
            if words[3] & descriptor::EOF != 0 {
                return Ok(chain);
            }
        }
        // No end before the write pointer, or more than the count can say.
        Err(Broken::Protocol(chain))
    }

    fn start(&mut self, port: usize, queue: usize, context: Context<'_>) {
        let chain = match self.fetch(port, queue, context) {
            Ok(chain) => chain,
            Err(Broken::Unreadable) => {
                self.count(port).dma_errors += 1;
                self.ports[port].tx_halted = true;
                self.raise(Cause::TxDerr(port));
                return;
            }
            Err(Broken::Protocol(chain)) => {
                self.count(port).tx_protocol_errors += 1;
                self.raise(Cause::TxPerr(port));
                return self.finish(port, &chain, descriptor::PERR, context);
            }
        };
        self.note_progress(port, &chain);
        if strikes(&mut self.random, self.faults.tx_hang) {
            return self.hang(port);
        }
        let count = self.count(port);
        count.tx_requests += 1;
        count.tx_descriptors += chain.words.len() as u64;
        let frame = match self.gather(port, &chain, context) {
            Some(frame) if !strikes(&mut self.random, self.faults.tx_derr) => frame,
            _ => {
                self.count(port).dma_errors += 1;
                self.raise(Cause::TxDerr(port));
                return self.finish(port, &chain, descriptor::DERR, context);
            }
        };
        if strikes(&mut self.random, self.faults.tx_error) {
            self.count(port).tx_errors += 1;
            return self.finish(port, &chain, 0, context);
        }
        // Control and size stand in every descriptor; the first is believed. [5.2]
        let [_, control, _, word3] = chain.words[0];
        if frame.len() != (control & 0xffff) as usize {
            self.count(port).tx_protocol_errors += 1;
            self.raise(Cause::TxPerr(port));
            return self.finish(port, &chain, descriptor::PERR, context);
        }
        let control = TxControl::from_bits_retain(control);
        let request = Request { control, word3, buffers: chain.words.len() };
        let faults = self.faults;
        let output = tss::process(frame, request, &faults, self.count(port));
        let bits: usize = output.frames.iter().map(|frame| (frame.len().max(60) + 24) * 8).sum();
        for frame in output.frames {
            if self.config0(port).contains(Config0::LOOP_BACK) {
                self.receive_frame(port, frame, context);
            } else {
                self.send(port, frame);
            }
        }
        let hangs = output.overlong && self.faults.plain_hang
            || output.tcp_plain && strikes(&mut self.random, self.faults.tcp_hang);
        if hangs {
            return self.hang(port);
        }
        if output.refused {
            self.raise(Cause::TxPerr(port));
            return self.finish(port, &chain, descriptor::PERR, context);
        }
        if self.faults.paced {
            let time = Duration::from_nanos(bits as u64 * 1000 / u64::from(self.speed(port)));
            let in_flight = self.in_flight(&chain, descriptor::TX_OK, context.now + time);
            self.ports[port].in_flight = Some(in_flight);
        } else {
            self.finish(port, &chain, descriptor::TX_OK, context);
        }
    }

    fn hang(&mut self, port: usize) {
        self.ports[port].tx_hung = true;
        self.count(port).tx_hangs += 1;
    }

    fn note_progress(&mut self, port: usize, chain: &Chain) {
        let last = chain.words.len().saturating_sub(1);
        if let Some(&[a, b, c, d]) = chain.words.last() {
            let current = chain.ring.slot(chain.first.wrapping_add(last as u16));
            let first = chain.ring.slot(chain.first);
            self.ports[port].tx_progress = [first as u32, current as u32, a, b, c, d];
        }
    }

    /// The frame's bytes; `None`: a buffer reaches no memory.
    fn gather(&mut self, port: usize, chain: &Chain, context: Context<'_>) -> Option<Vec<u8>> {
        let mut frame = Vec::new();
        for (i, &[word0, _, address, _]) in chain.words.iter().enumerate() {
            let len = (word0 & 0xffff) as usize;
            let start = frame.len();
            // 63 descriptors of 64 KiB are more than byte_count can say: the sum is checked after, so
            // it only has to stay bounded here.
            frame.resize(start + len, 0);
            if len > 0 {
                context.memory.read(address.into(), &mut frame[start..]).ok()?;
            }
            if i > 0 && (1..=2).contains(&len) && address % 4 != 0 {
                self.count(port).tx_tiny_fragments += 1;
                if self.faults.tiny_fragments {
                    // What is fetched instead is not known: the word's first bytes, here.
                    context.memory.read((address & !3).into(), &mut frame[start..]).ok()?;
                }
            }
        }
        Some(frame)
    }

    fn in_flight(&self, chain: &Chain, status: u32, done_at: Duration) -> InFlight {
        let last = chain.words.len().saturating_sub(1) as u16;
        InFlight {
            queue: chain.queue,
            first: chain.ring.slot(chain.first),
            word0: chain.word0(status),
            last: chain.ring.slot(chain.first.wrapping_add(last)),
            next: chain.next(),
            done_at,
        }
    }

    fn finish(&mut self, port: usize, chain: &Chain, status: u32, context: Context<'_>) {
        let in_flight = self.in_flight(chain, status, context.now);
        self.complete(port, in_flight, context);
    }

    /// Writes the status back, moves the read pointer, and says so. \[9, 5\]
    fn complete(&mut self, port: usize, frame: InFlight, context: Context<'_>) {
        if self.faults.late_status {
            self.flush_late(context);
            self.ports[port].late = Some((frame.first, frame.word0));
        } else if context.memory.write32(frame.first, frame.word0).is_err() {
            self.count(port).dma_errors += 1;
            self.raise(Cause::TxDerr(port));
        }
        let pointer = Gemini::tx_pointer(port, frame.queue);
        self.set_read_pointer(pointer, frame.next);
        // EOFIE may have been set after the frame was queued; that it counts only in the last
        // descriptor, and is looked at now, is assumed (section 12, 3).
        let word3 = context.memory.read32(frame.last + 12).unwrap_or(0);
        if word3 & descriptor::EOFIE != 0 {
            self.raise(Cause::TxEof { port, queue: frame.queue });
        }
        let (read, write) = self.pointers(pointer);
        if self.tx_ring(port, frame.queue).is_none_or(|ring| ring.used(read, write) == 0) {
            self.raise(Cause::TxFin { port, queue: frame.queue });
        }
    }

    /// Writes what `late-status` held back.
    pub(crate) fn flush_late(&mut self, context: Context<'_>) {
        for port in 0..2 {
            if let Some((at, word)) = self.ports[port].late.take()
                && context.memory.write32(at, word).is_err()
            {
                self.count(port).dma_errors += 1;
            }
        }
    }
}

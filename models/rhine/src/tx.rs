//! The transmit engine: from the ring through checksum and VLAN engines onto the wire.

use crate::checksum::{self, Ipv4, TCP, UDP};
use crate::device::Rhine;
use crate::faults::strikes;
use crate::regs::{self, Cause, Cause2, Cr1, Tcr, Tdes0, Tdes1};
use std::time::Duration;
use trireme_vfio::{Context, DmaError};

/// Frames sent in one go at most; then the engine waits for its next turn.
const MAX_FRAMES: usize = 256;
/// Buffers a frame may consist of.
const MAX_PIECES: usize = 64;
/// Bytes of transmit buffer, which bounds a frame.
const MAX_FRAME: usize = 2048;
/// How long a stalled engine fetches nothing.
const STALL: Duration = Duration::from_millis(20);

/// What became of one look at the ring.
enum Step {
    /// The descriptor is not the chip's.
    Idle,
    /// A frame is gone; look for the next.
    Sent,
    /// The engine stopped with an error.
    Stopped,
}

/// A frame gathered from its descriptors.
struct Gathered {
    bytes: Vec<u8>,
    /// First word of the first descriptor.
    owner: u32,
    /// Control bits of all its descriptors together.
    control: Tdes1,
    suppress: bool,
    next: u32,
}

impl Rhine {
    /// Sends what the ring holds, in bounded portions.
    pub(crate) fn transmit(&mut self, context: Context<'_>) {
        self.tx_again = None;
        for _ in 0..MAX_FRAMES {
            if !self.transmits() {
                return;
            }
            let busy = self.faults.paced.then_some(self.tx_busy_until).filter(|&t| t > context.now);
            if let Some(until) = self.flow.paused(context.now).or(busy) {
                self.tx_again = Some(until);
                return;
            }
            if strikes(&mut self.random, self.faults.tx_stall) {
                self.tx_again = Some(context.now + STALL);
                return;
            }
            match self.transmit_one(context) {
                Ok(Step::Sent) => {}
                Ok(Step::Idle | Step::Stopped) => return,
                Err(_) => {
                    if self.bus_error() {
                        self.raise(Cause::TXE);
                        self.stop_transmitter();
                    }
                    return;
                }
            }
        }
        self.tx_again = Some(context.now);
    }

    fn transmit_one(&mut self, context: Context<'_>) -> Result<Step, DmaError> {
        let first = self.tx_pointer & !15;
        if context.memory.read32(u64::from(first))? & Tdes0::OWN.bits() == 0 {
            return Ok(Step::Idle);
        }
        let gathered = match self.gather(first, context)? {
            Ok(gathered) => gathered,
            Err(status) => {
                let cause = match status.contains(Tdes0::JAB) {
                    true => Cause::empty(),
                    false => Cause::TU,
                };
                return self.fail(first, first, status, cause, context);
            }
        };
        if let Some((status, cause)) = self.injected() {
            return match status {
                Some(status) => self.fail(first, gathered.next, status, cause, context),
                None => {
                    // The descriptor stays as it was.
                    self.counters.tx_errors += 1;
                    self.raise(cause | Cause::TXE);
                    self.stop_transmitter();
                    Ok(Step::Stopped)
                }
            };
        }
        let status = match self.mii.phy.link() || self.cr1().contains(Cr1::FDX) {
            true => Tdes0::empty(),
            // Nobody to hear it: with half duplex the carrier is missed.
            false => Tdes0::CRS | Tdes0::TERR,
        };
        context.memory.write32(u64::from(first), status.bits())?;
        self.tx_pointer = gathered.next;
        if status.contains(Tdes0::TERR) {
            self.counters.tx_errors += 1;
            self.raise(Cause::TXE);
        }
        let suppress = gathered.suppress && self.chip.has_interrupt_suppression();
        let asked = gathered.control.contains(Tdes1::IC) && !suppress;
        let lost = strikes(&mut self.random, self.faults.tx_no_interrupt);
        if asked && !lost || self.faults.tx_extra_interrupt {
            self.raise(Cause::PTX);
        }
        self.put_on_wire(gathered, context);
        Ok(Step::Sent)
    }

    /// Reads a frame's descriptors and buffers. The inner error is the descriptor status of a frame
    /// that cannot be sent.
    fn gather(
        &mut self,
        first: u32,
        context: Context<'_>,
    ) -> Result<Result<Gathered, Tdes0>, DmaError> {
        let memory = context.memory;
        let mut gathered = Gathered {
            bytes: Vec::new(),
            owner: 0,
            control: Tdes1::empty(),
            suppress: false,
            next: 0,
        };
        let mut at = first;
        for piece in 0..MAX_PIECES {
            let mut words = [0; 4];
            for (word, n) in words.iter_mut().zip(0u64..) {
                *word = memory.read32(u64::from(at) + 4 * n)?;
            }
            let [owner, control, buffer, next] = words;
            if piece == 0 {
                gathered.owner = owner;
                self.show(words);
            }
            let bits = Tdes1::from_bits_truncate(control);
            if (piece == 0) != bits.contains(Tdes1::STP) {
                return Ok(Err(Tdes0::TBUFF | Tdes0::TERR));
            }
            if self.faults.strict_chain && !bits.intersects(Tdes1::CHN | Tdes1::EDP) {
                return Ok(Err(Tdes0::TBUFF | Tdes0::TERR));
            }
            let len = (control & 0x7ff) as usize;
            let start = gathered.bytes.len();
            if start + len > MAX_FRAME {
                return Ok(Err(Tdes0::JAB | Tdes0::TERR));
            }
            // Old revisions have no low address lines: they send from the word before.
            let buffer = if self.chip.needs_aligned_transmit() { buffer & !3 } else { buffer };
            gathered.bytes.resize(start + len, 0);
            memory.read(u64::from(buffer), &mut gathered.bytes[start..])?;
            gathered.control |= bits;
            gathered.suppress |= next & 1 != 0;
            gathered.next = next & !15;
            if bits.contains(Tdes1::EDP) {
                let empty = gathered.bytes.len() < 14;
                return Ok(if empty { Err(Tdes0::TBUFF | Tdes0::TERR) } else { Ok(gathered) });
            }
            at = next & !15;
        }
        Ok(Err(Tdes0::TBUFF | Tdes0::TERR))
    }

    /// Keeps a copy of the descriptor in work where software can see it.
    fn show(&mut self, words: [u32; 4]) {
        if self.chip.has_management() {
            return;
        }
        for (i, word) in words.into_iter().enumerate() {
            let offset = usize::from(regs::TDES) + 4 * i;
            self.file[offset..offset + 4].copy_from_slice(&word.to_le_bytes());
        }
    }

    /// Bytes come from the buffer only once the whole frame is in it.
    fn stores_and_forwards(&self) -> bool {
        let overridden = self.file[usize::from(regs::BCR1)] & regs::BCR1_SF != 0;
        self.tcr().contains(Tcr::RTSF) || overridden
    }

    /// A fault that strikes this frame: status to write back (`None`: nothing is) and causes.
    fn injected(&mut self) -> Option<(Option<Tdes0>, Cause)> {
        let faults = self.faults;
        let random = &mut self.random;
        if strikes(random, faults.tx_underrun) && !self.stores_and_forwards() {
            return Some((Some(Tdes0::UDF | Tdes0::TERR), Cause::UDFI));
        }
        let random = &mut self.random;
        if strikes(random, faults.tx_abort) {
            return Some((Some(Tdes0::ABT | Tdes0::TERR), Cause::ABTI));
        }
        if strikes(random, faults.tx_bad_link) {
            return Some((Some(Tdes0::TBUFF | Tdes0::TERR), Cause::TU));
        }
        if strikes(random, faults.pci_error) {
            return Some((Some(Tdes0::SERR | Tdes0::TERR), Cause::BE));
        }
        if strikes(random, faults.tx_unexplained) {
            return Some((None, Cause::empty()));
        }
        if strikes(random, faults.tx_race) && self.chip.reports_writeback_race() {
            self.raise2(Cause2::TDWBRAI);
            return Some((None, Cause::empty()));
        }
        None
    }

    /// Ends with an error: the engine stops, and its pointer cannot be trusted.
    fn fail(
        &mut self,
        first: u32,
        pointer: u32,
        status: Tdes0,
        cause: Cause,
        context: Context<'_>,
    ) -> Result<Step, DmaError> {
        self.counters.tx_errors += 1;
        context.memory.write32(u64::from(first), status.bits())?;
        self.tx_pointer = pointer;
        self.raise(cause | Cause::TXE);
        self.stop_transmitter();
        Ok(Step::Stopped)
    }

    fn put_on_wire(&mut self, gathered: Gathered, context: Context<'_>) {
        let Gathered { mut bytes, owner, control, .. } = gathered;
        let wants = Tdes1::IPCK | Tdes1::UDPCK | Tdes1::TCPCK;
        let sums = self.chip.has_management() && control.intersects(wants);
        if sums {
            self.fill_checksums(&mut bytes, control);
        }
        if control.contains(Tdes1::NOCRC) && bytes.len() >= 18 {
            // Software brought its own FCS; a peer drops the frame if that is wrong.
            let fcs = bytes.split_off(bytes.len() - 4);
            if fcs != checksum::fcs(&bytes) {
                self.counters.tx_errors += 1;
                return;
            }
        }
        let tags = self.chip.has_management() && self.tcr().contains(Tcr::PQEN);
        if tags && control.contains(Tdes1::TAG) {
            let (id, priority) = (owner >> 16 & 0xfff, owner >> 28 & 7);
            let tci = (priority << 13 | id) as u16;
            let [high, low] = tci.to_be_bytes();
            bytes.splice(12..12, [0x81, 0x00, high, low]);
        }
        self.account(bytes.len(), sums, context.now);
        if self.tcr().intersects(Tcr::LB0 | Tcr::LB1) || self.mii.phy.loops_back() {
            self.receive_frame(&bytes, context);
        } else if bytes.len() < 60 {
            // The chip does not pad, and a runt is dropped by whoever receives it.
            self.counters.tx_runts += 1;
        } else if self.mii.phy.passes() {
            self.counters.tx_frames += 1;
            self.counters.tx_bytes += bytes.len() as u64;
            self.send(bytes);
        }
    }

    fn fill_checksums(&mut self, bytes: &mut [u8], control: Tdes1) {
        self.counters.tx_checksums += 1;
        let Some(ip) = Ipv4::find(bytes) else { return };
        if control.contains(Tdes1::IPCK) {
            ip.fill_header(bytes);
        }
        let asked = match ip.protocol {
            TCP => control.contains(Tdes1::TCPCK),
            UDP => control.contains(Tdes1::UDPCK),
            _ => false,
        };
        if asked && !ip.fragment {
            ip.fill_transport(bytes, self.faults.seeded_checksum);
        }
    }

    fn account(&mut self, len: usize, sums: bool, now: Duration) {
        let threshold = 128usize << (self.tcr().bits() >> 5 & 3);
        let threshold = if self.stores_and_forwards() { usize::MAX } else { threshold };
        let (fast, _) = self.mii.phy.mode();
        // Unpaced, time stands still for the line: then this is the time of a saturated one.
        let now_ps = if self.faults.paced { now.as_nanos() as u64 * 1000 } else { 0 };
        let before = self.line_free;
        let timing = self.timing.frame(now_ps, len, sums, fast, threshold);
        self.line_free = timing.line_free;
        self.counters.line_ns += (timing.line_free - before.min(timing.line_free)) / 1000;
        self.tx_busy_until = Duration::from_nanos(timing.left / 1000);
    }
}

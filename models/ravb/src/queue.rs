//! What transmit and receive queues share: where they are in their ring, and how they get there.

use crate::desc::{Descriptor, dt};
use crate::device::Ravb;
use crate::regs::{self, eis, rcr};
use trireme_vfio::{Context, DmaError};

/// Queues, transmit and receive together: entries of the DBAT. (sheet 3.4)
pub(crate) const QUEUES: usize = 22;
/// The first receive queue's.
pub(crate) const FIRST_RX: usize = 4;
/// Links followed in a row; a ring of links only would never end.
const MAX_LINKS: usize = 32;

/// ESR.ET. (sheet 2.2)
pub(crate) mod error {
    pub(crate) const READ_DESCRIPTOR: u32 = 0;
    pub(crate) const WRITE_DESCRIPTOR: u32 = 1;
    pub(crate) const INTERPRET: u32 = 2;
    pub(crate) const READ_DATA: u32 = 4;
    pub(crate) const WRITE_DATA: u32 = 5;
    pub(crate) const TX_FRAME_SIZE: u32 = 9;
}

/// A queue's place.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Queue {
    /// The DBAT entry as loaded: type word and pointer.
    entry: [u32; 2],
    /// Next descriptor; `None`: the DBAT entry itself.
    at: Option<u32>,
    /// Stopped by an error, until its entry is loaded again.
    pub(crate) halted: bool,
}

impl Queue {
    /// Where the next descriptor is, or the entry.
    pub(crate) fn cursor(&self) -> Option<u32> {
        self.at
    }

    pub(crate) fn advance(&mut self, at: u32) {
        self.at = Some(at);
    }
}

impl Ravb {
    /// Bytes from one descriptor of a queue to the next. (sheet 3.5)
    pub(crate) fn stride(&self, queue: usize) -> u32 {
        let rcr = self.get(regs::RCR);
        let extended = self.variant.is_avb()
            && match queue {
                0..FIRST_RX => false,
                4 => rcr & rcr::ETS0 != 0,
                // Nothing switches it, and Linux relies on it.
                5 => true,
                _ => rcr & rcr::ETS2 != 0,
            };
        if extended { 20 } else { 8 }
    }

    /// CDAR: where a queue is. (sheet 2.1)
    pub(crate) fn current(&self, queue: usize) -> u32 {
        self.queues[queue].at.unwrap_or_else(|| self.entry_address(queue))
    }

    fn entry_address(&self, queue: usize) -> u32 {
        self.get(regs::DBAT).wrapping_add(8 * queue as u32)
    }

    /// The variant has this queue.
    pub(crate) fn has_queue(&self, queue: usize) -> bool {
        match queue.checked_sub(FIRST_RX) {
            None => queue < self.variant.tx_queues(),
            Some(queue) => queue < self.variant.rx_queues(),
        }
    }

    /// Loads a queue's entry of the DBAT.
    pub(crate) fn load_entry(&mut self, queue: usize, context: Context<'_>) {
        self.loading &= !(1 << queue);
        if !self.has_queue(queue) {
            return;
        }
        self.requests &= !(1 << queue);
        let loaded = self.read_descriptor(self.entry_address(queue), context);
        match loaded {
            Ok(entry) => {
                self.queues[queue] =
                    Queue { entry: [entry.word, entry.pointer], at: None, halted: false };
            }
            Err(_) => {
                self.queues[queue] = Queue::default();
                self.queue_error(queue, error::READ_DESCRIPTOR);
            }
        }
    }

    fn read_descriptor(&mut self, at: u32, context: Context<'_>) -> Result<Descriptor, DmaError> {
        let at = at & !3;
        // The type is read first: with it in place, so is the rest.
        let word = context.memory.read32(u64::from(at));
        let pointer = context.memory.read32(u64::from(at) + 4);
        let result = word.and_then(|word| Ok(Descriptor { at, word, pointer: pointer? }));
        self.counters.dma_errors += u64::from(result.is_err());
        result
    }

    /// The descriptor at a place in a queue, links followed. `Err`: a queue error, by ESR.ET.
    pub(crate) fn fetch(
        &mut self,
        queue: usize,
        from: Option<u32>,
        context: Context<'_>,
    ) -> Result<Descriptor, u32> {
        let mut here = match from {
            Some(at) => self.read_descriptor(at, context).map_err(|_| error::READ_DESCRIPTOR)?,
            None => {
                let [word, pointer] = self.queues[queue].entry;
                Descriptor { at: self.entry_address(queue), word, pointer }
            }
        };
        for _ in 0..MAX_LINKS {
            match here.kind() {
                dt::LINK => {
                    let used = here.retyped(dt::LEMPTY);
                    self.write_word(here.at, used, context)?;
                }
                dt::LINKFIX => {}
                _ => return Ok(here),
            }
            self.processed(&here);
            here =
                self.read_descriptor(here.pointer, context).map_err(|_| error::READ_DESCRIPTOR)?;
        }
        Err(error::INTERPRET)
    }

    /// Writes a word of a descriptor.
    pub(crate) fn write_word(
        &mut self,
        at: u32,
        word: u32,
        context: Context<'_>,
    ) -> Result<(), u32> {
        context.memory.write32(u64::from(at), word).map_err(|_| {
            self.counters.dma_errors += 1;
            error::WRITE_DESCRIPTOR
        })
    }

    /// A descriptor is done with: its interrupt, if it asks for one.
    pub(crate) fn processed(&mut self, descriptor: &Descriptor) {
        let interrupt = descriptor.interrupt();
        if interrupt != 0 {
            self.raise(regs::DIS, 1 << interrupt);
        }
    }

    /// A queue met something it cannot go on from. (sheet 2.2, 3.6)
    pub(crate) fn queue_error(&mut self, queue: usize, kind: u32) {
        log::warn!("queue {queue} halts with error {kind}");
        self.counters.tx_errors += u64::from(queue < FIRST_RX);
        self.queues[queue].halted = true;
        self.requests &= !(1 << queue);
        self.report(queue, kind, eis::QEF);
    }

    /// Sets an error flag, and ESR unless it still holds one.
    pub(crate) fn report(&mut self, queue: usize, kind: u32, flag: u32) {
        const LOST: u32 = 1 << 12;
        let unread = self.get(regs::EIS) & (eis::QEF | eis::MTEF) != 0;
        let value = match unread {
            true => self.get(regs::ESR) | LOST,
            false => kind << 8 | queue as u32,
        };
        self.set(regs::ESR, value);
        self.raise(regs::EIS, flag);
    }
}

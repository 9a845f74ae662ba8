//! The default receive queue of a port: from descriptors to frames. [GM 5.3 to 5.7]
//!
//! A buffer holds the longest frame an MTU asks for, so a frame over several is one nobody wants: it is
//! counted once, and its buffers go back.

use crate::counters::Counters;
use crate::desc::{EOF, Ring, SIZE, SOF};
use crate::free::{FreeQueue, INSERT};
use crate::verdict::{FrameError, Verdict};
use trireme_nic::{Buffer, Coherent, Dma, DmaError, ReceiveChecksum, within_32_bits};

/// E8: so many frames in a row that are shorter than any are the work of a confused receiver.
const STORM: u32 = 10;

/// A good frame: the window of `buffer`.
#[derive(Debug)]
pub(crate) struct Frame {
    pub(crate) buffer: Buffer,
    pub(crate) number: u32,
    pub(crate) checksum: ReceiveChecksum,
}

/// A default queue.
pub(crate) struct Receiver {
    ring: Ring,
    /// Next to be read, what the card knows of that, and up to where it has written.
    read: u16,
    published: u16,
    written: u16,
    /// In the middle of a frame over several buffers, which is counted already. Kept between calls, and each
    /// port has its own. [GM 11.2]
    amid: bool,
    /// Short frames in a row.
    short: u32,
    /// Descriptors whose buffer is not known: so many buffers are missing until a reset.
    pub(crate) missing: usize,
}

impl Receiver {
    /// A queue of `1 << order` descriptors.
    pub(crate) fn new<D: Dma>(dma: &D, order: u32) -> Result<Receiver, DmaError> {
        let memory = Coherent::new(dma, SIZE << order, SIZE)?;
        within_32_bits(memory.bus_address(), memory.len())?;
        Ok(Receiver {
            ring: Ring::new(memory, order),
            read: 0,
            published: 0,
            written: 0,
            amid: false,
            short: 0,
            missing: 0,
        })
    }

    pub(crate) fn base_and_order(&self) -> u32 {
        self.ring.base_and_order()
    }

    /// The card has written up to here.
    pub(crate) fn set_written(&mut self, index: u16) {
        self.written = self.ring.wrap(index);
    }

    /// There are descriptors to read.
    pub(crate) fn is_ready(&self) -> bool {
        self.read != self.written
    }

    /// A receiver that is confused, or has mislaid too many buffers.
    pub(crate) fn is_confused(&self, buffers: usize) -> bool {
        self.short >= STORM || self.missing > buffers / 8
    }

    /// The read pointer as the card is to see it now, if it has not seen it yet.
    pub(crate) fn take_unpublished(&mut self) -> Option<u16> {
        if self.read == self.published {
            return None;
        }
        self.published = self.read;
        Some(self.read)
    }

    /// The next good frame up to where the card had written when it was last asked.
    pub(crate) fn next<D: Dma>(
        &mut self,
        dma: &D,
        free: &mut FreeQueue,
        counters: &mut Counters,
    ) -> Option<Frame> {
        while self.is_ready() {
            let words = [0, 1, 2, 3].map(|word| self.ring.read(self.read, word));
            // Should the card's pointer run wild, this one is not believed twice.
            self.ring.write(self.read, 2, 0);
            self.read = self.ring.wrap(self.read.wrapping_add(1));
            if let Some(frame) = self.piece(words, dma, free, counters) {
                return Some(frame);
            }
        }
        None
    }

    fn piece<D: Dma>(
        &mut self,
        [word0, word1, address, word3]: [u32; 4],
        dma: &D,
        free: &mut FreeQueue,
        counters: &mut Counters,
    ) -> Option<Frame> {
        let (first, last) = (word3 & SOF != 0, word3 & EOF != 0);
        let whole = first && last;
        // A frame that begins ends the one before, which had no end. [GM 11.2, 2026]
        if !whole && (first || !self.amid) {
            counters.rx_errors += 1;
            counters.rx_length_errors += u64::from(first);
            counters.rx_missing_pieces += u64::from(!first);
        }
        self.amid = !last;
        let Some((number, mut buffer)) = free.take(dma, address) else {
            // Known to happen. [GM E10] The buffer it meant is found again by a reset.
            counters.rx_unknown_buffers += 1;
            counters.rx_errors += u64::from(whole);
            self.missing += 1;
            return None;
        };
        if !whole {
            free.give(dma, number, buffer);
            return None;
        }
        match Verdict::read(word0, word1) {
            Ok(Verdict { len, checksum }) if usize::from(len) <= free.buffer_size() - INSERT => {
                self.short = 0;
                counters.rx_packets += 1;
                counters.rx_bytes += u64::from(len);
                buffer.set_window(INSERT..INSERT + usize::from(len));
                Some(Frame { buffer, number, checksum })
            }
            verdict => {
                self.short = if verdict == Err(FrameError::Short) { self.short + 1 } else { 0 };
                counters.count_bad(verdict.err().unwrap_or(FrameError::Length));
                free.give(dma, number, buffer);
                None
            }
        }
    }

    /// After a reset: the queue is empty, and begins where the card does.
    pub(crate) fn rewind(&mut self, at: u16) {
        let at = self.ring.wrap(at);
        (self.read, self.published, self.written) = (at, at, at);
        (self.amid, self.short, self.missing) = (false, 0, 0);
    }
}

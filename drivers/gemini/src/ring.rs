//! The transmit ring of a port: memory and ordering, no registers. [GM 5.1, 5.2]
//!
//! What the card says decides when a buffer comes back, and nothing else: addresses, lengths and positions
//! are our own copies, so that unsent frames can be posted again after a reset.

use crate::ability::TransmitWords;
use crate::desc::{EOF, EOFIE, Ring, SIZE, SOF, TX_OK, WRITTEN_BACK};
use alloc::collections::VecDeque;
use trireme_nic::{Buffer, Coherent, DeviceBuffer, Direction, Dma, DmaError, within_32_bits};

/// Software queues, whose rings follow each other; the first is used.
const QUEUES: usize = 6;
/// Longest piece of a frame in one descriptor. Larger ones than Linux' fragments, which have up to 32 KiB,
/// have not been seen on silicon.
const PIECE: usize = 32 * 1024;
/// Descriptors a frame takes at most: headers, and pieces of its payload.
pub(crate) const MAX_DESCRIPTORS: usize = 1 + crate::MAX_SEGMENTED_FRAME.div_ceil(PIECE);
/// Every so many frames one asks for an interrupt; that the queue is empty interrupts besides.
const EOFIE_EVERY: u32 = 16;

/// Bytes of a frame of `len` that the descriptor takes which begins `at` its bytes. `headers`: of a frame to
/// be cut; they have a descriptor of their own, as every frame had that was seen cut on silicon. [GM 5.8, 8.4]
///
/// No descriptor after the first gets less than three bytes: the card fetches those wrongly. [GM E1]
pub(crate) fn piece(at: usize, len: usize, headers: usize) -> usize {
    let rest = len - at;
    let most = if at == 0 && headers != 0 { headers } else { PIECE };
    if rest <= most + 2 { rest } else { most }
}

/// A frame the card is to send.
struct Sending {
    buffer: DeviceBuffer,
    words: TransmitWords,
    headers: usize,
    /// Its first descriptor, and how many it has.
    first: u16,
    count: u16,
}

/// What became of a frame.
#[derive(Debug)]
pub(crate) struct Sent {
    pub(crate) buffer: Buffer,
    pub(crate) ok: bool,
}

/// Transmit ring.
pub(crate) struct TxRing {
    ring: Ring,
    /// Oldest first; never more than allocated for.
    frames: VecDeque<Sending>,
    /// Index behind the last frame.
    tail: u16,
    /// Frames since one asked for an interrupt.
    quiet: u32,
}

impl TxRing {
    /// A ring for `frames` frames and so many descriptors more than one each. All six rings are there,
    /// though one is used: the card may look at the others.
    pub(crate) fn new<D: Dma>(dma: &D, frames: usize, more: usize) -> Result<TxRing, DmaError> {
        // One descriptor always stays unused. [GM 5.1]
        let order = (frames + more + 1).next_power_of_two().trailing_zeros();
        let memory = Coherent::new(dma, QUEUES * (SIZE << order), SIZE)?;
        within_32_bits(memory.bus_address(), memory.len())?;
        Ok(TxRing {
            ring: Ring::new(memory, order),
            frames: VecDeque::with_capacity(frames),
            tail: 0,
            quiet: 0,
        })
    }

    pub(crate) fn base_and_order(&self) -> u32 {
        self.ring.base_and_order()
    }

    /// Frames the card has.
    pub(crate) fn len(&self) -> usize {
        self.frames.len()
    }

    /// Queues a frame, and says how many descriptors it took. There are enough for every buffer there is.
    pub(crate) fn provide<D: Dma>(
        &mut self,
        dma: &D,
        buffer: Buffer,
        words: TransmitWords,
        headers: usize,
    ) -> u16 {
        let buffer = buffer.to_device(dma, Direction::ToDevice);
        let mut frame = Sending { buffer, words, headers, first: 0, count: 0 };
        self.post(&mut frame);
        let count = frame.count;
        self.frames.push_back(frame);
        count
    }

    fn post(&mut self, frame: &mut Sending) {
        self.quiet += 1;
        let noisy = self.quiet == EOFIE_EVERY;
        if noisy {
            self.quiet = 0;
        }
        (frame.first, frame.count) = (self.tail, 0);
        let (len, start) = (frame.buffer.len(), frame.buffer.bus_address() as u32);
        let mut at = 0;
        while at < len {
            let size = piece(at, len, frame.headers);
            let mut word3 = frame.words.size;
            word3 |= if at == 0 { SOF } else { 0 };
            if at + size == len {
                word3 |= if noisy { EOF | EOFIE } else { EOF };
            }
            for (n, word) in
                [size as u32, frame.words.control, start + at as u32, word3].into_iter().enumerate()
            {
                self.ring.write(self.tail, n, word);
            }
            self.tail = self.ring.wrap(self.tail.wrapping_add(1));
            frame.count += 1;
            at += size;
        }
    }

    /// The write pointer for the card: all descriptors before it are written.
    pub(crate) fn settled_tail(&self) -> u16 {
        self.ring.settle();
        self.tail
    }

    /// Whether the card, which has read up to `read`, is past the oldest frame. `Err`: it says it has read
    /// what it was not given.
    pub(crate) fn is_past(&self, read: u16) -> Result<bool, ()> {
        let Some(frame) = self.frames.front() else { return Ok(false) };
        let done = self.ring.wrap(read.wrapping_sub(frame.first));
        if done > self.ring.wrap(self.tail.wrapping_sub(frame.first)) {
            return Err(());
        }
        Ok(done >= frame.count)
    }

    /// The oldest frame's status has been written. The read pointer may move before it is. [GM 5.2]
    pub(crate) fn is_written_back(&self) -> bool {
        self.frames.front().is_some_and(|frame| self.ring.read(frame.first, 0) & WRITTEN_BACK != 0)
    }

    /// Takes the oldest frame home, which the card is done with.
    pub(crate) fn take<D: Dma>(&mut self, dma: &D) -> Option<Sent> {
        let frame = self.frames.pop_front()?;
        let ok = self.ring.read(frame.first, 0) & TX_OK != 0;
        Some(Sent { buffer: frame.buffer.to_cpu(dma), ok })
    }

    /// After a reset: posts every frame not sent yet anew, from index `at` on.
    pub(crate) fn rewind(&mut self, at: u16) {
        self.tail = self.ring.wrap(at);
        for _ in 0..self.frames.len() {
            if let Some(mut frame) = self.frames.pop_front() {
                self.post(&mut frame);
                self.frames.push_back(frame);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use trireme_nic::double::TwoMemories;

    fn pieces(len: usize, headers: usize) -> Vec<usize> {
        let mut pieces = Vec::new();
        let mut at = 0;
        while at < len {
            pieces.push(piece(at, len, headers));
            at += pieces[pieces.len() - 1];
        }
        pieces
    }

    #[test]
    fn single_frames_are_one_piece_and_cut_ones_have_their_headers_apart() {
        assert_eq!(pieces(60, 0), [60]);
        assert_eq!(pieces(2047, 0), [2047]);
        assert_eq!(pieces(7306, 66), [66, 7240]);
        assert_eq!(pieces(65535, 66), [66, 32768, 32701]);
        assert_eq!(pieces(68, 66), [68], "two bytes do not stand alone");
        assert_eq!(pieces(66 + 32770, 66), [66, 32770]);
    }

    #[test]
    fn e1_no_later_piece_is_tiny() {
        for headers in [54, 66, 86, 94] {
            let ends = [headers, headers + PIECE, headers + 2 * PIECE - 96, 65_535];
            for len in ends.into_iter().flat_map(|end| end - 3..end + 4) {
                if len <= headers || len > 65_535 {
                    continue;
                }
                let pieces = pieces(len, headers);
                assert_eq!(pieces.iter().sum::<usize>(), len);
                assert!(pieces.len() <= MAX_DESCRIPTORS);
                assert!(pieces[1..].iter().all(|&piece| piece > 2), "{pieces:?}");
            }
        }
    }

    /// The examples of [GM 5.8] whose words are not tested with `transmit_words`.
    #[test]
    fn descriptors_are_those_of_the_sheet() {
        let dma = TwoMemories::new(16);
        let mut ring = TxRing::new(&dma, 4, 4).unwrap();
        let base = u64::from(ring.base_and_order() & !15);
        let lend = |len: usize| {
            let mut buffer = Buffer::new(dma.allocate(8192, 16).unwrap());
            buffer.set_window(26..26 + len);
            let at = buffer.bus_address() as u32;
            (buffer, at)
        };
        let (arp, arp_at) = lend(60);
        ring.provide(&dma, arp, TransmitWords { control: 60, size: 0 }, 0);
        let (large, large_at) = lend(7306);
        ring.provide(&dma, large, TransmitWords { control: 0x000b_1c8a, size: 0x5ea }, 66);
        let words = |slot: u64| {
            let mut bytes = [0; 16];
            dma.device_read(base + 16 * slot, &mut bytes).unwrap();
            [0, 4, 8, 12].map(|at| u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap()))
        };
        assert_eq!(words(0), [0x3c, 0x3c, arp_at, 0xc000_0000]);
        assert_eq!(words(1), [0x42, 0x000b_1c8a, large_at, 0x8000_05ea]);
        assert_eq!(words(2), [0x1c48, 0x000b_1c8a, large_at + 66, 0x4000_05ea]);
        assert_eq!(ring.settled_tail(), 3);

        // Completion, as the sheet has it: the first descriptor's word 0.
        assert_eq!((ring.is_past(0), ring.is_past(1)), (Ok(false), Ok(true)));
        assert!(!ring.is_written_back(), "the pointer was ahead");
        dma.device_write(base, &0x0041_003c_u32.to_le_bytes()).unwrap();
        assert!(ring.is_written_back());
        assert!(ring.take(&dma).unwrap().ok);
        assert_eq!((ring.is_past(1), ring.is_past(2)), (Ok(false), Ok(false)), "half of it");
        dma.device_write(base + 16, &0x0042_0042_u32.to_le_bytes()).unwrap();
        assert_eq!(ring.is_past(3), Ok(true));
        assert_eq!(ring.is_past(4), Err(()), "more than it was given");
        assert_eq!(ring.take(&dma).unwrap().buffer.len(), 7306);
    }

    #[test]
    fn unsent_frames_are_posted_anew_wherever_the_card_begins() {
        let dma = TwoMemories::new(16);
        let mut ring = TxRing::new(&dma, 4, 0).unwrap();
        let mut addresses = Vec::new();
        for len in [60, 61, 62] {
            let mut buffer = Buffer::new(dma.allocate(128, 16).unwrap());
            buffer.set_window(0..len);
            addresses.push(buffer.bus_address() as u32);
            ring.provide(&dma, buffer, TransmitWords { control: len as u32, size: 0 }, 0);
        }
        ring.take(&dma).unwrap();
        ring.rewind(6);
        assert_eq!(ring.settled_tail(), 0, "a ring of eight");
        assert_eq!([ring.ring.read(6, 2), ring.ring.read(7, 2)], addresses[1..]);
        assert_eq!(ring.is_past(7), Ok(true));
        assert!(!ring.is_written_back(), "statuses of before are gone");
    }
}

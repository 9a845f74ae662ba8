//! From descriptors to frames: pieces are put together, errors counted, trailers read where they lie.

use crate::ability::Trailer;
use crate::counters::Counters;
use crate::desc::{self, Received, kind};
use crate::ring::{Piece, RxRing, SLOT};
use alloc::vec::Vec;
use trireme_nic::{Buffer, Dma, DmaError, ReceiveChecksum, buffers_in_a_row};

/// Shortest frame: a header.
const MIN_FRAME: usize = 14;
/// Buffers for frames that have to be copied together.
pub(crate) const SPARES: usize = 2;

/// Where a received frame's memory belongs, packed into the stack's slot number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Home {
    /// `count` buffers of the ring, from `first`.
    Ring { first: usize, count: usize },
    /// A spare buffer.
    Spare,
}

impl Home {
    pub(crate) fn pack(self) -> u32 {
        match self {
            Home::Ring { first, count } => (count as u32) << 16 | first as u32,
            Home::Spare => 0,
        }
    }

    pub(crate) fn unpack(packed: u32) -> Home {
        match packed >> 16 & 0xff {
            0 => Home::Spare,
            count => Home::Ring { first: (packed & 0xffff) as usize, count: count as usize },
        }
    }
}

/// A good frame: the window of `buffer`, trailer cut off.
#[derive(Debug)]
pub(crate) struct Frame {
    pub(crate) buffer: Buffer,
    pub(crate) home: Home,
    pub(crate) checksum: ReceiveChecksum,
}

/// A receive queue.
pub(crate) struct Receiver {
    pub(crate) ring: RxRing,
    /// The frame under way, first piece first.
    chain: Vec<Piece>,
    max_pieces: usize,
    /// Pieces of a frame that was given up are still to come.
    skipping: bool,
    spares: Vec<Buffer>,
    /// Trailers of frames that were stored before the present kind was set, by slot.
    formats: Vec<Option<Trailer>>,
    trailer: Trailer,
}

impl Receiver {
    /// A queue of `count` buffers (1 to 65536) for frames of up to `longest` bytes, trailer included.
    pub(crate) fn new<D: Dma>(
        dma: &D,
        count: usize,
        extended: bool,
        longest: usize,
    ) -> Result<Receiver, DmaError> {
        let max_pieces = longest.div_ceil(SLOT).min(count);
        Ok(Receiver {
            ring: RxRing::new(dma, count, extended)?,
            chain: Vec::with_capacity(max_pieces),
            max_pieces,
            skipping: false,
            spares: match max_pieces {
                1 => Vec::new(),
                _ => buffers_in_a_row(dma, SPARES, max_pieces * SLOT)?,
            },
            formats: (0..count).map(|_| None).collect(),
            trailer: Trailer::None,
        })
    }

    /// The next good frame. Bounded: looks at no more descriptors than there are.
    pub(crate) fn next<D: Dma>(&mut self, dma: &D, counters: &mut Counters) -> Option<Frame> {
        for _ in 0..self.ring.len() {
            let piece = self.ring.take(dma)?;
            match desc::kind_of(piece.word) {
                kind::FSINGLE | kind::FSTART => {
                    // A frame begins, whatever became of the one before.
                    self.drop_chain(dma, counters);
                    self.skipping = false;
                }
                kind::FMID | kind::FEND if !self.chain.is_empty() => {}
                // The rest of a frame that was given up, or one without a beginning. [RV E24]
                kind::FMID | kind::FEND => {
                    if !core::mem::replace(&mut self.skipping, true) {
                        counters.rx_errors += 1;
                        counters.rx_missing_pieces += 1;
                    }
                    self.give_back(dma, piece);
                    continue;
                }
                // Nothing a card writes. The slot is used all the same. [RV E21]
                _ => {
                    self.drop_chain(dma, counters);
                    counters.rx_errors += 1;
                    self.give_back(dma, piece);
                    continue;
                }
            }
            let last = matches!(desc::kind_of(piece.word), kind::FSINGLE | kind::FEND);
            self.chain.push(piece);
            if last {
                if let Some(frame) = self.finish(dma, counters) {
                    return Some(frame);
                }
            } else if self.chain.len() >= self.max_pieces {
                counters.rx_length_errors += 1;
                self.drop_chain(dma, counters);
                self.skipping = true;
            }
        }
        None
    }

    /// The frame in `chain`, which is complete.
    fn finish<D: Dma>(&mut self, dma: &D, counters: &mut Counters) -> Option<Frame> {
        counters.rx_chained += u64::from(self.chain.len() > 1);
        let flags = self.chain.iter().fold(0, |flags, piece| flags | piece.word);
        let flags = Received::from_bits_truncate(flags);
        if flags.intersects(Received::ERRORS) {
            counters.rx_crc_errors += u64::from(flags.contains(Received::CRC));
            let length = Received::RTSF | Received::RTLF | Received::TR;
            counters.rx_length_errors += u64::from(flags.intersects(length));
            counters.rx_frame_errors += u64::from(flags.intersects(Received::RFE | Received::CEEF));
            return self.refuse(dma, counters);
        }
        let trailer = self.trailer_of_chain();
        let (mut buffer, home) = self.join(dma, counters)?;
        match trailer.read(&buffer).filter(|(len, _)| *len >= MIN_FRAME) {
            Some((len, checksum)) => {
                buffer.set_window(0..len);
                counters.rx_packets += 1;
                counters.rx_bytes += len as u64;
                counters.rx_multicast += u64::from(flags.contains(Received::MC));
                Some(Frame { buffer, home, checksum })
            }
            None => {
                counters.rx_errors += 1;
                counters.rx_length_errors += 1;
                self.recycle(dma, buffer, home);
                None
            }
        }
    }

    fn refuse<D: Dma>(&mut self, dma: &D, counters: &mut Counters) -> Option<Frame> {
        counters.rx_errors += 1;
        while let Some(piece) = self.chain.pop() {
            self.give_back(dma, piece);
        }
        None
    }

    /// The kind of trailer at the end of the frame in `chain`.
    fn trailer_of_chain(&mut self) -> Trailer {
        let last = self.chain.last().map_or(0, |piece| piece.slot);
        let old = self.formats[last].take();
        for piece in &self.chain {
            self.formats[piece.slot] = None;
        }
        old.unwrap_or(self.trailer)
    }

    /// The pieces as one buffer, with what the card stored, trailer and all, as window.
    ///
    /// Neighbours are one piece of memory as it is, so a trailer that lies across two of them is in one
    /// place here. [RV 3.6, hazard]
    fn join<D: Dma>(&mut self, dma: &D, counters: &mut Counters) -> Option<(Buffer, Home)> {
        let count = self.chain.len();
        let first = self.chain.first()?.slot;
        let len = |piece: &Piece| desc::len_of(piece.word);
        // No longer than the buffer it says to be in.
        if self.chain.iter().any(|piece| !(1..=SLOT).contains(&len(piece))) {
            counters.rx_length_errors += 1;
            self.refuse(dma, counters);
            return None;
        }
        let total: usize = self.chain.iter().map(len).sum();
        let full = self.chain.iter().take(count - 1).all(|piece| len(piece) == SLOT);
        let in_a_row = first + count <= self.ring.len();
        if full && in_a_row {
            let mut pieces = self.chain.drain(..);
            let mut whole = pieces.next()?.buffer;
            for piece in pieces {
                // Slots in a row were cut from one allocation.
                whole = whole.join(piece.buffer).ok()?;
            }
            whole.set_window(0..total);
            return Some((whole, Home::Ring { first, count }));
        }
        counters.rx_linearised += 1;
        let Some(mut whole) = self.spares.pop() else {
            self.refuse(dma, counters);
            return None;
        };
        let mut at = 0;
        for piece in &self.chain {
            let len = len(piece);
            whole.whole_mut()[at..at + len].copy_from_slice(&piece.buffer[..len]);
            at += len;
        }
        while let Some(piece) = self.chain.pop() {
            self.give_back(dma, piece);
        }
        whole.set_window(0..total);
        Some((whole, Home::Spare))
    }

    fn give_back<D: Dma>(&mut self, dma: &D, piece: Piece) {
        self.formats[piece.slot] = None;
        self.ring.provide(dma, piece.slot, piece.buffer);
    }

    fn drop_chain<D: Dma>(&mut self, dma: &D, counters: &mut Counters) {
        if !self.chain.is_empty() {
            counters.rx_missing_pieces += 1;
            self.refuse(dma, counters);
        }
    }

    /// Gives a frame's memory back.
    pub(crate) fn recycle<D: Dma>(&mut self, dma: &D, buffer: Buffer, home: Home) {
        match home {
            Home::Spare => self.spares.push(buffer),
            Home::Ring { first, count } => {
                let mut rest = buffer;
                for slot in first..first + count - 1 {
                    let (piece, after) = rest.split_at(SLOT);
                    self.ring.provide(dma, slot, piece);
                    rest = after;
                }
                self.ring.provide(dma, first + count - 1, rest);
            }
        }
    }

    /// From now on the card stores this behind a frame; what is in the ring was stored before. Called with
    /// reception stopped.
    pub(crate) fn set_trailer(&mut self, trailer: Trailer) {
        let (before, formats) = (self.trailer, &mut self.formats);
        self.ring.each_ready(|slot| {
            formats[slot].get_or_insert(before);
        });
        self.trailer = trailer;
    }

    /// After a restart of the card: it begins at the start of the ring, and what it had stored and nobody
    /// has taken is lost.
    pub(crate) fn rewind<D: Dma>(&mut self, dma: &D) {
        while let Some(piece) = self.chain.pop() {
            self.ring.provide(dma, piece.slot, piece.buffer);
        }
        self.skipping = false;
        self.formats.fill(None);
        self.ring.rewind();
    }
}

#[cfg(test)]
mod tests;

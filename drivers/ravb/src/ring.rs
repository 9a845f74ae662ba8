//! The rings: memory and ordering, no registers. [RV 3.4 to 3.6]
//!
//! A ring is an array of descriptors closed by a LINKFIX to its start. What the card writes into a
//! descriptor decides whether a buffer comes back and what it holds, and nothing else: addresses, lengths
//! towards the card and positions are our own copies.

use crate::desc::{self, EXTENDED, MAX_LEN, SIZE, kind};
use alloc::collections::VecDeque;
use alloc::vec::Vec;
use trireme_nic::{Buffer, Coherent, DeviceBuffer, Direction, Dma, DmaError};
use trireme_nic::{buffers_in_a_row, within_32_bits};

/// Bytes of a receive buffer. Buffers of a ring lie side by side, so a frame over several is one piece
/// of memory.
pub(crate) const SLOT: usize = 2048;
const _: () = assert!(SLOT <= MAX_LEN);

/// `count` descriptors of `stride` bytes and the link back.
fn descriptors<D: Dma>(dma: &D, count: usize, stride: usize) -> Result<Coherent, DmaError> {
    let mut memory = Coherent::new(dma, (count + 1) * stride, 64)?;
    within_32_bits(memory.bus_address(), memory.len())?;
    close(&mut memory, count * stride);
    Ok(memory)
}

/// Writes the link back, at `end`.
fn close(memory: &mut Coherent, end: usize) {
    let start = memory.bus_address() as u32;
    memory.write32(end + 4, start);
    memory.write32(end, desc::control(kind::LINKFIX, 0));
}

/// A buffer the card has filled, or failed to fill.
#[derive(Debug)]
pub(crate) struct Piece {
    /// Where in the ring it belongs.
    pub(crate) slot: usize,
    pub(crate) buffer: Buffer,
    /// Control word.
    pub(crate) word: u32,
}

/// Receive ring. Each slot has a buffer of its own, so buffers come home in any order; the card waits at
/// one that has not.
pub(crate) struct RxRing {
    memory: Coherent,
    stride: usize,
    /// Buffers the card has.
    slots: Vec<Option<DeviceBuffer>>,
    /// The slot the card fills next, or has filled. Invariant: below `slots.len()`.
    next: usize,
}

impl RxRing {
    /// A ring of `count` buffers. `extended`: descriptors hold timestamps.
    pub(crate) fn new<D: Dma>(dma: &D, count: usize, extended: bool) -> Result<RxRing, DmaError> {
        let stride = if extended { EXTENDED } else { SIZE };
        let memory = descriptors(dma, count, stride)?;
        let slots = (0..count).map(|_| None).collect();
        let mut ring = RxRing { memory, stride, slots, next: 0 };
        for (slot, buffer) in buffers_in_a_row(dma, count, SLOT)?.into_iter().enumerate() {
            ring.provide(dma, slot, buffer);
        }
        Ok(ring)
    }

    pub(crate) fn bus_address(&self) -> u32 {
        self.memory.bus_address() as u32
    }

    pub(crate) fn len(&self) -> usize {
        self.slots.len()
    }

    /// Gives a buffer to the card.
    pub(crate) fn provide<D: Dma>(&mut self, dma: &D, slot: usize, mut buffer: Buffer) {
        buffer.set_window(0..SLOT);
        self.slots[slot] = Some(buffer.to_device(dma, Direction::FromDevice));
        self.give(slot);
    }

    fn give(&mut self, slot: usize) {
        let Some(buffer) = &self.slots[slot] else { return };
        let address = buffer.bus_address() as u32;
        let at = slot * self.stride;
        self.memory.write32(at + 4, address);
        // The card may use the descriptor as soon as it sees the type. The length is written anew each
        // time: the card has put the frame's there. [RV 3.6]
        self.memory.barrier();
        self.memory.write32(at, desc::control(kind::FEMPTY, SLOT));
    }

    fn word(&self, slot: usize) -> Option<u32> {
        self.slots[slot].as_ref()?;
        let word = self.memory.read32(slot * self.stride);
        let waiting = (kind::FEMPTY..=kind::FEMPTY_ND).contains(&desc::kind_of(word));
        (!waiting).then_some(word)
    }

    /// Whether the card has filled the next buffer.
    pub(crate) fn is_ready(&self) -> bool {
        self.word(self.next).is_some()
    }

    /// The next buffer the card is done with, whatever it made of it.
    pub(crate) fn take<D: Dma>(&mut self, dma: &D) -> Option<Piece> {
        let slot = self.next;
        let word = self.word(slot)?;
        let buffer = self.slots[slot].take()?.to_cpu(dma);
        self.next = (slot + 1) % self.slots.len();
        Some(Piece { slot, buffer, word })
    }

    /// Calls `each` with the slots that are done and not taken yet, in order.
    pub(crate) fn each_ready(&self, mut each: impl FnMut(usize)) {
        let count = self.slots.len();
        (0..count)
            .map(|n| (self.next + n) % count)
            .take_while(|&slot| self.word(slot).is_some())
            .for_each(&mut each);
    }

    /// When the frame in a slot arrived: nanoseconds, seconds. The descriptor is the card's last word
    /// until the slot's buffer is given back.
    pub(crate) fn timestamp(&self, slot: usize) -> Option<(u32, u64)> {
        if self.stride != EXTENDED || slot >= self.slots.len() || self.slots[slot].is_some() {
            return None;
        }
        let at = slot * self.stride;
        let high = self.memory.read32(at + 16) & 0xffff;
        let seconds = u64::from(high) << 32 | u64::from(self.memory.read32(at + 12));
        Some((self.memory.read32(at + 8), seconds))
    }

    /// Gives everything the card had to it anew, from the start of the ring.
    pub(crate) fn rewind(&mut self) {
        self.next = 0;
        // Whatever the card has made of it.
        close(&mut self.memory, self.slots.len() * self.stride);
        (0..self.slots.len()).for_each(|slot| self.give(slot));
    }
}

/// A frame the card is to send.
struct Sending {
    buffer: DeviceBuffer,
    /// Where its descriptors begin.
    first: usize,
    /// How many it has.
    count: usize,
    /// Flags of its descriptors.
    flags: u32,
    /// Its first bytes, if they are to be read from elsewhere.
    head: u32,
}

/// Transmit ring.
///
/// A frame is one descriptor. Where the card wants alignment and a frame has none, its first bytes, up to
/// the next boundary, are copied to a place of four bytes and it is two. [RV 3.6]
pub(crate) struct TxRing {
    memory: Coherent,
    /// Four bytes a descriptor.
    bounce: Option<Coherent>,
    capacity: usize,
    /// Oldest first; never more than allocated for.
    frames: VecDeque<Sending>,
    /// The next descriptor free. Invariant: below `capacity`.
    tail: usize,
}

impl TxRing {
    /// A ring for `frames` frames; `aligned`: the card takes frames at 4-byte boundaries only.
    pub(crate) fn new<D: Dma>(dma: &D, frames: usize, aligned: bool) -> Result<TxRing, DmaError> {
        // One descriptor is always empty and stops the card.
        let capacity = if aligned { 2 * frames + 1 } else { frames + 1 };
        let memory = descriptors(dma, capacity, SIZE)?;
        let bounce = match aligned {
            true => Some(Coherent::new(dma, 4 * capacity, 64)?),
            false => None,
        };
        if let Some(bounce) = &bounce {
            within_32_bits(bounce.bus_address(), bounce.len())?;
        }
        let mut ring =
            TxRing { memory, bounce, capacity, frames: VecDeque::with_capacity(frames), tail: 0 };
        ring.clear();
        Ok(ring)
    }

    fn clear(&mut self) {
        self.tail = 0;
        for slot in 0..self.capacity {
            self.memory.write32(slot * SIZE, desc::control(kind::EEMPTY, 0));
        }
        close(&mut self.memory, self.capacity * SIZE);
    }

    pub(crate) fn bus_address(&self) -> u32 {
        self.memory.bus_address() as u32
    }

    /// Frames the card has.
    pub(crate) fn len(&self) -> usize {
        self.frames.len()
    }

    fn after(&self, slot: usize) -> usize {
        (slot + 1) % self.capacity
    }

    /// Gives a frame to the card. `flags` are those of [`desc::stamped`], or zero. There are fewer buffers
    /// than the ring has room for.
    pub(crate) fn provide<D: Dma>(&mut self, dma: &D, buffer: Buffer, flags: u32) {
        let misplaced = match self.bounce {
            Some(_) => (4 - buffer.bus_address() % 4) as usize % 4,
            None => 0,
        };
        debug_assert!(!buffer.is_empty(), "nothing ends the card's run [RV E8]");
        let first = self.tail;
        let count = if misplaced > 0 && buffer.len() > misplaced { 2 } else { 1 };
        let mut head = [0; 4];
        if count == 2 {
            head[..misplaced].copy_from_slice(&buffer[..misplaced]);
        }
        let head = u32::from_le_bytes(head);
        let buffer = buffer.to_device(dma, Direction::ToDevice);
        self.frames.push_back(Sending { buffer, first, count, flags, head });
        self.write(self.frames.len() - 1);
    }

    /// Writes the descriptors of the frame at this place of `frames`.
    fn write(&mut self, frame: usize) {
        let Sending { ref buffer, first, count, flags, head: bytes } = self.frames[frame];
        let (address, len) = (buffer.bus_address() as u32, buffer.len());
        let last = if count == 2 { self.after(first) } else { first };
        self.tail = self.after(last);
        if count == 1 {
            self.memory.write32(first * SIZE + 4, address);
            self.memory.barrier();
            self.memory.write32(first * SIZE, desc::control(kind::FSINGLE, len) | flags);
            return;
        }
        let head = (4 - address as usize % 4) % 4;
        let Some(bounce) = &mut self.bounce else { return };
        bounce.write32(4 * first, bytes);
        let bounce = bounce.bus_address() as u32 + 4 * first as u32;
        self.memory.write32(last * SIZE + 4, address + head as u32);
        self.memory.write32(last * SIZE, desc::control(kind::FEND, len - head) | flags);
        self.memory.write32(first * SIZE + 4, bounce);
        // A start without its end in sight stalls the card for good. [RV E6]
        self.memory.barrier();
        self.memory.write32(first * SIZE, desc::control(kind::FSTART, head) | flags);
    }

    /// Everything written is where the card sees it: reads the last descriptor back, as the manuals ask.
    /// [RV 3.6]
    pub(crate) fn settle(&self) {
        self.memory.barrier();
        let last = (self.tail + self.capacity - 1) % self.capacity;
        self.memory.read32(last * SIZE);
    }

    /// The buffer of the oldest frame, if the card is done with all of it.
    pub(crate) fn take<D: Dma>(&mut self, dma: &D) -> Option<Buffer> {
        let frame = self.frames.front()?;
        let done = |slot: usize| desc::kind_of(self.memory.read32(slot * SIZE)) == kind::FEMPTY;
        let second = if frame.count == 2 { self.after(frame.first) } else { frame.first };
        if !done(frame.first) || !done(second) {
            return None;
        }
        Some(self.frames.pop_front()?.buffer.to_cpu(dma))
    }

    /// The buffer of the oldest frame, unsent. The card has stopped.
    pub(crate) fn drop_oldest<D: Dma>(&mut self, dma: &D) -> Option<Buffer> {
        Some(self.frames.pop_front()?.buffer.to_cpu(dma))
    }

    /// Gives every frame that was not sent to the card again, from the start of the ring.
    pub(crate) fn rewind(&mut self) {
        self.clear();
        for frame in 0..self.frames.len() {
            self.frames[frame].first = self.tail;
            self.write(frame);
        }
    }
}

#[cfg(test)]
pub(crate) mod tests;

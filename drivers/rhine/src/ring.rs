//! The two rings: memory and ordering, no registers.
//!
//! Indices run freely and are masked at the access; the capacity is a power of two. What the card
//! writes into a descriptor decides whether a buffer comes back and nothing else: addresses, lengths
//! towards the card and positions are our own copies.

use crate::desc::{self, OWN, SIZE, SUPPRESS, Tdes0, Tdes1};
use alloc::vec::Vec;
use trireme_nic::{Buffer, Coherent, DeviceBuffer, Dma, DmaError, within_32_bits};

/// Descriptors and buffers of one direction.
struct Ring {
    memory: Coherent,
    /// Buffers the card has, by slot.
    slots: Vec<Option<DeviceBuffer>>,
    /// Next to come back. Invariant: `tail - head <= slots.len()`.
    head: u32,
    /// Next to be given.
    tail: u32,
}

impl Ring {
    fn new<D: Dma>(dma: &D, capacity: usize) -> Result<Ring, DmaError> {
        assert!(capacity.is_power_of_two());
        // The low four bits of a descriptor's address are not address on some chips.
        let mut memory = Coherent::new(dma, capacity * SIZE, SIZE)?;
        within_32_bits(memory.bus_address(), memory.len())?;
        for slot in 0..capacity {
            let next = memory.bus_address() as u32 + ((slot + 1) % capacity * SIZE) as u32;
            memory.write32(slot * SIZE + 12, next);
        }
        let slots = (0..capacity).map(|_| None).collect();
        Ok(Ring { memory, slots, head: 0, tail: 0 })
    }

    fn slot(&self, index: u32) -> usize {
        index as usize & (self.slots.len() - 1)
    }

    fn len(&self) -> usize {
        self.tail.wrapping_sub(self.head) as usize
    }

    fn bus(&self, index: u32) -> u32 {
        self.memory.bus_address() as u32 + (self.slot(index) * SIZE) as u32
    }

    fn word(&self, index: u32, n: usize) -> u32 {
        self.memory.read32(self.slot(index) * SIZE + 4 * n)
    }

    fn set_word(&mut self, index: u32, n: usize, value: u32) {
        let offset = self.slot(index) * SIZE + 4 * n;
        self.memory.write32(offset, value);
    }

    /// Writes control word and buffer address, then the ownership.
    fn give(&mut self, index: u32, owner: u32, control: u32) {
        let address = match &self.slots[self.slot(index)] {
            Some(buffer) => buffer.bus_address() as u32,
            None => return,
        };
        self.set_word(index, 1, control);
        self.set_word(index, 2, address);
        // The card may read the descriptor as soon as it sees OWN.
        self.memory.barrier();
        self.set_word(index, 0, owner);
        // And must see OWN when the doorbell that follows makes it look.
        self.memory.barrier();
    }

    /// The first word of the oldest descriptor, if the card has given it back.
    fn returned(&self) -> Option<u32> {
        if self.len() == 0 {
            return None;
        }
        Some(self.word(self.head, 0)).filter(|status| status & OWN == 0)
    }

    fn take<D: Dma>(&mut self, dma: &D) -> Option<Buffer> {
        let slot = self.slot(self.head);
        let buffer = self.slots[slot].take()?;
        self.head = self.head.wrapping_add(1);
        Some(buffer.to_cpu(dma))
    }
}

/// A receive buffer that came back.
#[derive(Debug)]
pub(crate) struct Received {
    pub(crate) buffer: Buffer,
    /// First word: status and length.
    pub(crate) status: u32,
    /// Second word: what the card found.
    pub(crate) found: u32,
}

/// Receive ring.
pub(crate) struct RxRing {
    ring: Ring,
    size: u32,
}

impl RxRing {
    /// `size` is that of every buffer, below 2048.
    pub(crate) fn new<D: Dma>(dma: &D, capacity: usize, size: u32) -> Result<RxRing, DmaError> {
        Ok(RxRing { ring: Ring::new(dma, capacity)?, size })
    }

    /// Gives a buffer to the card. The ring holds all buffers there are, so it is never full.
    pub(crate) fn provide(&mut self, buffer: DeviceBuffer) {
        let tail = self.ring.tail;
        debug_assert!(self.ring.len() < self.ring.slots.len());
        let slot = self.ring.slot(tail);
        self.ring.slots[slot] = Some(buffer);
        self.ring.give(tail, OWN, desc::receive_control(self.size));
        self.ring.tail = tail.wrapping_add(1);
    }

    /// The next buffer the card has filled or failed to fill.
    pub(crate) fn returned<D: Dma>(&mut self, dma: &D) -> Option<Received> {
        let status = self.ring.returned()?;
        let found = self.ring.word(self.ring.head, 1);
        let buffer = self.ring.take(dma)?;
        Some(Received { buffer, status, found })
    }

    /// Where the card has to go on after a stop: the oldest descriptor it was given.
    pub(crate) fn position(&self) -> u32 {
        self.ring.bus(self.ring.head)
    }

    /// Buffers the card has and has not filled; no more than a register holds.
    pub(crate) fn free(&self) -> u8 {
        let owned = |n: &u32| self.ring.word(self.ring.head.wrapping_add(*n), 0) & OWN != 0;
        let free = (0..self.ring.len() as u32).filter(owned).count();
        u8::try_from(free).unwrap_or(u8::MAX)
    }

    /// Gives everything the card had to it anew, after a reset.
    pub(crate) fn rewind(&mut self) {
        for index in 0..self.ring.len() as u32 {
            let index = self.ring.head.wrapping_add(index);
            self.ring.give(index, OWN, desc::receive_control(self.size));
        }
    }
}

/// Transmit ring.
pub(crate) struct TxRing {
    ring: Ring,
    /// First two words as given, for sending again.
    given: Vec<(u32, u32)>,
}

impl TxRing {
    pub(crate) fn new<D: Dma>(dma: &D, capacity: usize) -> Result<TxRing, DmaError> {
        Ok(TxRing { ring: Ring::new(dma, capacity)?, given: alloc::vec![(0, 0); capacity] })
    }

    /// Gives a frame to the card. There are fewer buffers than descriptors, so the one after the
    /// last frame is always ours and stops the card. `tag`: for the first word.
    pub(crate) fn provide(
        &mut self,
        buffer: DeviceBuffer,
        tag: u32,
        control: Tdes1,
        suppress: bool,
    ) {
        let tail = self.ring.tail;
        debug_assert!(self.ring.len() + 1 < self.ring.slots.len());
        let slot = self.ring.slot(tail);
        let control = (control | Tdes1::CHN | Tdes1::STP | Tdes1::EDP).bits() | buffer.len() as u32;
        let owner = OWN | tag;
        self.given[slot] = (owner, control);
        self.ring.slots[slot] = Some(buffer);
        let next = self.ring.bus(tail.wrapping_add(1));
        self.ring.set_word(tail, 3, next | if suppress { SUPPRESS } else { 0 });
        self.ring.give(tail, owner, control);
        self.ring.tail = tail.wrapping_add(1);
    }

    /// Status of the oldest frame, if the card is done with it.
    pub(crate) fn done(&self) -> Option<Tdes0> {
        self.ring.returned().map(Tdes0::from_bits_truncate)
    }

    /// The buffer of the oldest frame, which is [`done`](TxRing::done).
    pub(crate) fn returned<D: Dma>(&mut self, dma: &D) -> Option<Buffer> {
        self.done()?;
        self.ring.take(dma)
    }

    /// Frames the card has.
    pub(crate) fn len(&self) -> usize {
        self.ring.len()
    }

    /// Where the card has to go on after a stop: the oldest frame.
    pub(crate) fn position(&self) -> u32 {
        self.ring.bus(self.ring.head)
    }

    /// Gives the oldest frame to the card again.
    pub(crate) fn retry(&mut self) {
        if self.ring.len() > 0 {
            let (owner, control) = self.given[self.ring.slot(self.ring.head)];
            self.ring.give(self.ring.head, owner, control);
        }
    }

    /// Gives every frame that was not sent to the card again, after a reset.
    pub(crate) fn rewind(&mut self) {
        for i in 0..self.ring.len() as u32 {
            let index = self.ring.head.wrapping_add(i);
            let (owner, control) = self.given[self.ring.slot(index)];
            self.ring.give(index, owner, control);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use trireme_nic::Direction;
    use trireme_nic::double::TwoMemories;

    fn buffer(dma: &TwoMemories, direction: Direction) -> DeviceBuffer {
        Buffer::new(dma.allocate(128, 64).unwrap()).to_device(dma, direction)
    }

    fn device_word(dma: &TwoMemories, bus: u32) -> u32 {
        let mut word = [0; 4];
        dma.device_read(bus.into(), &mut word).unwrap();
        u32::from_le_bytes(word)
    }

    fn device_set(dma: &TwoMemories, bus: u32, word: u32) {
        dma.device_write(bus.into(), &word.to_le_bytes()).unwrap();
    }

    #[test]
    fn transmit_descriptor_is_the_documented_one() {
        // The example of [RH 4.2]: a 60-byte frame in slot 0 is 80000000 00e0803c buffer next.
        let dma = TwoMemories::new(64);
        let mut ring = TxRing::new(&dma, 4).unwrap();
        let mut frame = Buffer::new(dma.allocate(128, 64).unwrap());
        frame.set_window(0..60);
        let at = frame.bus_address() as u32;
        ring.provide(frame.to_device(&dma, Direction::ToDevice), 0, Tdes1::IC, false);
        let base = ring.position();
        let words: Vec<u32> = (0..4).map(|i| device_word(&dma, base + 4 * i)).collect();
        assert_eq!(words, [0x8000_0000, 0x00e0_803c, at, base + 16]);
    }

    #[test]
    fn frames_come_back_in_order_and_only_when_given_back() {
        let dma = TwoMemories::new(64);
        let mut ring = TxRing::new(&dma, 4).unwrap();
        let base = ring.position();
        assert_eq!(ring.done(), None, "empty");
        // Twice round, three at a time.
        for _ in 0..3 {
            for _ in 0..3 {
                ring.provide(buffer(&dma, Direction::ToDevice), 0, Tdes1::empty(), true);
            }
            assert_eq!(ring.done(), None);
            for left in (0..3).rev() {
                device_set(&dma, ring.position(), 0);
                assert!(ring.returned(&dma).is_some());
                assert_eq!(ring.len(), left);
            }
        }
        assert_eq!(ring.position(), base + 16, "nine frames in a ring of four");
        assert!(ring.returned(&dma).is_none());
    }

    #[test]
    fn rewinding_gives_the_card_what_it_had() {
        let dma = TwoMemories::new(64);
        let mut ring = RxRing::new(&dma, 4, 128).unwrap();
        for _ in 0..4 {
            ring.provide(buffer(&dma, Direction::FromDevice));
        }
        let base = ring.position();
        device_set(&dma, base, 0x0040_8f00);
        device_set(&dma, base + 16, 0x0040_8f00);
        assert_eq!(ring.returned(&dma).unwrap().status, 0x0040_8f00);
        ring.rewind();
        assert_eq!(ring.position(), base + 16);
        assert_eq!(device_word(&dma, base + 16), OWN);
        assert!(ring.returned(&dma).is_none());
        assert_eq!(device_word(&dma, base) & OWN, 0, "not provided");
    }

    #[test]
    fn one_bad_frame_among_good_ones_costs_one_slot_for_one_turn() {
        let dma = TwoMemories::new(64);
        let mut ring = RxRing::new(&dma, 2, 128).unwrap();
        ring.provide(buffer(&dma, Direction::FromDevice));
        ring.provide(buffer(&dma, Direction::FromDevice));
        for status in [0x0040_8f00, 0x0000_0400, 0x7fff_ffff, 0x0040_8f00] {
            device_set(&dma, ring.position(), status);
            let received = ring.returned(&dma).unwrap();
            assert_eq!(received.status, status);
            ring.provide(received.buffer.to_device(&dma, Direction::FromDevice));
        }
    }
}

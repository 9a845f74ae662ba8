//! The free queue: empty receive buffers, which both ports take from. [GM 5.1, 5.4]
//!
//! Buffers come back by either port, in any order, and are known by their address: what a descriptor says is
//! compared with where our buffers really begin. [GM E10, E11]

use crate::desc::{Ring, SIZE};
use alloc::vec::Vec;
use trireme_nic::{
    Buffer, Coherent, DeviceBuffer, Direction, Dma, DmaError, buffers_in_a_row, within_32_bits,
};

/// Bytes the card puts before a frame.
pub(crate) const INSERT: usize = 2;
/// Bytes a buffer needs: the longest frame any MTU asks for, with a tag, and what is put before it.
const NEEDED: usize = INSERT + crate::MAX_FRAME;

/// Empty buffers, and which of them the card has.
pub(crate) struct FreeQueue {
    ring: Ring,
    /// Bytes of a buffer.
    size: usize,
    /// Where the first begins; the others follow.
    start: u32,
    /// Those the card has, by number.
    lent: Vec<Option<DeviceBuffer>>,
    /// Index behind the last put into the ring, and what of it the card knows.
    write: u16,
    published: u16,
}

impl FreeQueue {
    /// `count` buffers, all with the card.
    pub(crate) fn new<D: Dma>(dma: &D, count: usize) -> Result<FreeQueue, DmaError> {
        // One descriptor always stays unused. [GM 5.1]
        let order = (count + 1).next_power_of_two().trailing_zeros();
        let ring = Coherent::new(dma, SIZE << order, SIZE)?;
        within_32_bits(ring.bus_address(), ring.len())?;
        let buffers = buffers_in_a_row(dma, count, NEEDED)?;
        let size = buffers.first().map_or(NEEDED, Buffer::capacity);
        let start = buffers.first().map_or(0, Buffer::bus_address);
        let mut queue = FreeQueue {
            ring: Ring::new(ring, order),
            size,
            start: start as u32,
            lent: (0..count).map(|_| None).collect(),
            write: 0,
            published: 0,
        };
        for (number, buffer) in buffers.into_iter().enumerate() {
            queue.give(dma, number as u32, buffer);
        }
        Ok(queue)
    }

    /// Order a receive queue must have so that it never overflows: there are more descriptors than buffers.
    pub(crate) fn order(&self) -> u32 {
        self.ring.base_and_order() & 15
    }

    pub(crate) fn base_and_order(&self) -> u32 {
        self.ring.base_and_order()
    }

    /// Bytes of a buffer.
    pub(crate) fn buffer_size(&self) -> usize {
        self.size
    }

    /// Buffers there are.
    pub(crate) fn count(&self) -> usize {
        self.lent.len()
    }

    /// The buffer at an address, if the card has it, and its number.
    pub(crate) fn take<D: Dma>(&mut self, dma: &D, address: u32) -> Option<(u32, Buffer)> {
        let offset = address.checked_sub(self.start)? as usize;
        if !offset.is_multiple_of(self.size) {
            return None;
        }
        let number = offset / self.size;
        let buffer = self.lent.get_mut(number)?.take()?;
        Some((number as u32, buffer.to_cpu(dma)))
    }

    /// Puts a buffer into the queue; the card sees it once it is [published](Self::take_unpublished).
    pub(crate) fn give<D: Dma>(&mut self, dma: &D, number: u32, mut buffer: Buffer) {
        buffer.set_window(0..buffer.capacity());
        let buffer = buffer.to_device(dma, Direction::FromDevice);
        self.post(buffer.bus_address() as u32);
        if let Some(place) = self.lent.get_mut(number as usize) {
            *place = Some(buffer);
        }
    }

    fn post(&mut self, address: u32) {
        self.ring.write(self.write, 2, address);
        self.write = self.ring.wrap(self.write.wrapping_add(1));
    }

    /// Buffers given and not published.
    pub(crate) fn unpublished(&self) -> u16 {
        self.ring.wrap(self.write.wrapping_sub(self.published))
    }

    /// The write pointer as the card is to see it now, if it has not seen it yet.
    pub(crate) fn take_unpublished(&mut self) -> Option<u16> {
        if self.write == self.published {
            return None;
        }
        self.ring.settle();
        self.published = self.write;
        Some(self.write)
    }

    /// After a reset: puts every buffer the card had into the queue anew, from index `at` on.
    pub(crate) fn rewind(&mut self, at: u16) {
        self.write = self.ring.wrap(at);
        self.published = self.write;
        for number in 0..self.lent.len() {
            if let Some(buffer) = &self.lent[number] {
                self.post(buffer.bus_address() as u32);
            }
        }
    }
}

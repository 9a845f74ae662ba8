//! The transmit ring: a bounded pool of buffers in two sizes, and as many descriptors.
//!
//! The header goes into the bytes right before the frame, so header and frame are one descriptor.
//! There are no more buffers than descriptors: a buffer that was lent can always be sent.

use crate::ability::MAX_SEGMENTED_FRAME;
use crate::counters::Counters;
use crate::header::HEADER_LEN;
use crate::queue::{BadId, Queue, RingMemory};
use crate::{Error, TRANSMIT_SIZE};
use alloc::vec::Vec;
use trireme_nic::{Buffer, Direction, Dma};
use virtio_drivers::transport::Transport;

/// Where a lent window starts. The header fits before it, and the payload of a TCP frame without
/// options (14 + 20 + 20 bytes in) falls on a multiple of 16, where copying to it is fastest.
const FRAME_OFFSET: usize = 26;
const _: () = assert!(FRAME_OFFSET >= HEADER_LEN);

/// Longest frame for a small buffer: MTU 1500, Ethernet header, one VLAN tag.
const SMALL_FRAME: usize = 1518;

pub(crate) struct Transmit<H: RingMemory> {
    queue: Queue<H, TRANSMIT_SIZE, false>,
    /// Free buffers. Capacity is reserved for all there are, so giving one back never allocates.
    small: Vec<Buffer>,
    large: Vec<Buffer>,
    /// Bytes in a small buffer, by which the two are told apart.
    small_capacity: usize,
    has_large: bool,
}

impl<H: RingMemory> Transmit<H> {
    /// `bytes` of memory, about; `large`: frames above MTU 1500 will be sent.
    pub(crate) fn new<D: Dma>(
        queue: Queue<H, TRANSMIT_SIZE, false>,
        dma: &D,
        bytes: usize,
        large: bool,
    ) -> Result<Self, Error> {
        let line = dma.cache_line();
        let small_capacity = (FRAME_OFFSET + SMALL_FRAME).next_multiple_of(line);
        let large_capacity = (FRAME_OFFSET + MAX_SEGMENTED_FRAME).next_multiple_of(line);
        let small_count = (bytes / 4 / small_capacity).clamp(32, TRANSMIT_SIZE / 2);
        let large_count =
            if large { (bytes / 4 * 3 / large_capacity).clamp(2, TRANSMIT_SIZE / 2) } else { 0 };
        let pool = |count: usize, capacity: usize| -> Result<Vec<Buffer>, Error> {
            let mut buffers = Vec::with_capacity(count);
            for _ in 0..count {
                buffers.push(Buffer::new(dma.allocate(capacity, line)?));
            }
            Ok(buffers)
        };
        Ok(Transmit {
            queue,
            small: pool(small_count, small_capacity)?,
            large: pool(large_count, large_capacity)?,
            small_capacity,
            has_large: large,
        })
    }

    /// A free buffer with a window of `len` bytes.
    #[inline]
    pub(crate) fn lend(&mut self, len: usize) -> Option<Buffer> {
        let pool = if len <= SMALL_FRAME { &mut self.small } else { &mut self.large };
        let mut buffer = pool.pop()?;
        if FRAME_OFFSET + len > buffer.capacity() {
            pool.push(buffer);
            return None;
        }
        buffer.set_window(FRAME_OFFSET..FRAME_OFFSET + len);
        Some(buffer)
    }

    /// Puts a buffer back into its pool.
    #[inline]
    pub(crate) fn put_back(&mut self, buffer: Buffer) {
        if buffer.capacity() == self.small_capacity {
            self.small.push(buffer);
        } else {
            self.large.push(buffer);
        }
    }

    /// Queues the window of a lent buffer behind `header`. False if it was not possible: the buffer
    /// is back in its pool.
    #[inline]
    pub(crate) fn send<D: Dma>(
        &mut self,
        dma: &D,
        mut buffer: Buffer,
        header: &[u8; HEADER_LEN],
    ) -> bool {
        let window = buffer.window();
        let Some(start) = window.start.checked_sub(HEADER_LEN) else {
            self.put_back(buffer);
            return false;
        };
        buffer.set_window(start..window.end);
        buffer[..HEADER_LEN].copy_from_slice(header);
        match self.queue.add(buffer.to_device(dma, Direction::ToDevice), 0) {
            Ok(()) => true,
            Err(lent) => {
                self.put_back(lent.to_cpu(dma));
                false
            }
        }
    }

    /// Takes sent buffers home.
    #[inline]
    pub(crate) fn reclaim<D: Dma>(&mut self, dma: &D) -> Result<(), BadId> {
        for _ in 0..TRANSMIT_SIZE {
            match self.queue.pop()? {
                Some(used) => {
                    let (buffer, _) = self.queue.take(used)?;
                    self.put_back(buffer.to_cpu(dma));
                }
                None => break,
            }
        }
        Ok(())
    }

    pub(crate) fn hold(&mut self) {
        self.queue.hold();
    }

    /// Asks for an interrupt when a buffer comes back, if either pool has run dry. True if one came
    /// back already.
    pub(crate) fn arm(&mut self) -> bool {
        let dry = self.small.is_empty() || (self.has_large && self.large.is_empty());
        dry && self.queue.arm()
    }

    pub(crate) fn kick<T: Transport>(&mut self, transport: &mut T, counters: &mut Counters) {
        counters.tx_kicks += u64::from(self.queue.kick(transport));
    }

    /// Frames of `len` bytes that could be lent buffers for.
    pub(crate) fn room(&self, len: usize) -> usize {
        if len <= SMALL_FRAME { self.small.len() } else { self.large.len() }
    }

    /// Puts a fresh queue under the ring and takes home what the old one had; returns how many
    /// frames that were. The device must have been reset.
    pub(crate) fn restart<D: Dma>(
        &mut self,
        queue: Queue<H, TRANSMIT_SIZE, false>,
        dma: &D,
    ) -> u64 {
        let old = core::mem::replace(&mut self.queue, queue);
        let mut lost = 0;
        for (buffer, _) in old.into_lent() {
            self.put_back(buffer.to_cpu(dma));
            lost += 1;
        }
        lost
    }
}

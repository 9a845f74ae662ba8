//! The transmit ring: a bounded pool of buffers in two sizes, and as many descriptors.
//!
//! The header goes into the bytes right before the frame, so header and frame are one descriptor.
//! There are no more buffers than descriptors: a buffer that was lent can always be sent.

use crate::ability::MAX_SEGMENTED_FRAME;
use crate::counters::Counters;
use crate::header::HEADER_LEN;
use crate::queue::{BadId, Queue, RingMemory};
use crate::{Error, TRANSMIT_SIZE};
use trireme_nic::{Buffer, Direction, Dma, PoolSize, TransmitBuffers};
use virtio_drivers::transport::Transport;

const _: () = assert!(TransmitBuffers::HEADROOM >= HEADER_LEN);

/// Longest frame for a small buffer: MTU 1500, Ethernet header, one VLAN tag.
const SMALL_FRAME: usize = 1518;

pub(crate) struct Transmit<H: RingMemory> {
    queue: Queue<H, TRANSMIT_SIZE, false>,
    pub(crate) buffers: TransmitBuffers,
}

impl<H: RingMemory> Transmit<H> {
    /// `bytes` of memory, about; `large`: frames above MTU 1500 will be sent.
    pub(crate) fn new<D: Dma>(
        queue: Queue<H, TRANSMIT_SIZE, false>,
        dma: &D,
        bytes: usize,
        large: bool,
    ) -> Result<Self, Error> {
        let capacity = |frame| TransmitBuffers::capacity(dma, frame);
        let small = (bytes / 4 / capacity(SMALL_FRAME)).clamp(32, TRANSMIT_SIZE / 2);
        let many = bytes / 4 * 3 / capacity(MAX_SEGMENTED_FRAME);
        let large = if large { many.clamp(2, TRANSMIT_SIZE / 2) } else { 0 };
        let small = PoolSize { count: small, frame: SMALL_FRAME };
        let large = PoolSize { count: large, frame: MAX_SEGMENTED_FRAME };
        Ok(Transmit { queue, buffers: TransmitBuffers::new(dma, small, large)? })
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
            self.buffers.put_back(buffer);
            return false;
        };
        buffer.set_window(start..window.end);
        buffer[..HEADER_LEN].copy_from_slice(header);
        match self.queue.add(buffer.to_device(dma, Direction::ToDevice), 0) {
            Ok(()) => true,
            Err(lent) => {
                self.buffers.put_back(lent.to_cpu(dma));
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
                    self.buffers.put_back(buffer.to_cpu(dma));
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
        self.buffers.is_dry() && self.queue.arm()
    }

    pub(crate) fn kick<T: Transport>(&mut self, transport: &mut T, counters: &mut Counters) {
        counters.tx_kicks += u64::from(self.queue.kick(transport));
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
            self.buffers.put_back(buffer.to_cpu(dma));
            lost += 1;
        }
        lost
    }
}

use crate::{Buffer, Dma, DmaError};
use alloc::vec::Vec;

/// Buffers to send from, in two sizes: for single frames, and for frames the card is to cut.
pub struct TransmitBuffers {
    /// Free buffers. Capacity is reserved for all there are, so giving one back never allocates.
    small: Vec<Buffer>,
    large: Vec<Buffer>,
    /// Longest frame for a small buffer.
    small_frame: usize,
    /// Bytes in a small buffer, by which the two are told apart.
    small_capacity: usize,
    has_large: bool,
}

/// How many buffers, and for frames of how many bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PoolSize {
    /// Buffers.
    pub count: usize,
    /// Longest frame one holds.
    pub frame: usize,
}

impl TransmitBuffers {
    /// Where a lent window starts. A header of the card's own fits before it, and the payload of a TCP frame
    /// without options (14 + 20 + 20 bytes in) falls on a multiple of 16, where copying to it is fastest.
    pub const HEADROOM: usize = 26;

    /// Bytes a buffer for frames of `frame` bytes takes.
    pub fn capacity<D: Dma + ?Sized>(dma: &D, frame: usize) -> usize {
        (Self::HEADROOM + frame).next_multiple_of(dma.cache_line())
    }

    /// `large` holds longer frames than `small`, or has no buffers.
    pub fn new<D: Dma + ?Sized>(
        dma: &D,
        small: PoolSize,
        large: PoolSize,
    ) -> Result<TransmitBuffers, DmaError> {
        let pool = |size: PoolSize| -> Result<Vec<Buffer>, DmaError> {
            let mut buffers = Vec::with_capacity(size.count);
            for _ in 0..size.count {
                let capacity = Self::capacity(dma, size.frame);
                buffers.push(Buffer::new(dma.allocate(capacity, dma.cache_line())?));
            }
            Ok(buffers)
        };
        Ok(TransmitBuffers {
            small: pool(small)?,
            large: pool(large)?,
            small_frame: small.frame,
            small_capacity: Self::capacity(dma, small.frame),
            has_large: large.count > 0,
        })
    }

    /// A free buffer with a window of `len` bytes.
    #[inline]
    pub fn lend(&mut self, len: usize) -> Option<Buffer> {
        let pool = if len <= self.small_frame { &mut self.small } else { &mut self.large };
        let mut buffer = pool.pop()?;
        if Self::HEADROOM + len > buffer.capacity() {
            pool.push(buffer);
            return None;
        }
        buffer.set_window(Self::HEADROOM..Self::HEADROOM + len);
        Some(buffer)
    }

    /// Puts a buffer back into its pool.
    #[inline]
    pub fn put_back(&mut self, buffer: Buffer) {
        if buffer.capacity() == self.small_capacity {
            self.small.push(buffer);
        } else {
            self.large.push(buffer);
        }
    }

    /// There is nothing left in one of the two.
    #[inline]
    pub fn is_dry(&self) -> bool {
        self.small.is_empty() || (self.has_large && self.large.is_empty())
    }

    /// Frames of `len` bytes that could be lent buffers for.
    #[inline]
    pub fn room(&self, len: usize) -> usize {
        if len <= self.small_frame { self.small.len() } else { self.large.len() }
    }
}

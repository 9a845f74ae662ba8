//! Memory shared with a device.
//!
//! Two kinds. [`Coherent`] memory (descriptor rings) is seen alike by both sides at once, uncached
//! where the machine needs it, and is accessed by volatile words only. [`Buffer`]s (frames) are
//! ordinary cached memory with one owner at a time; [`Buffer::to_device`] and
//! [`DeviceBuffer::to_cpu`] change the owner and do the cache maintenance.
//!
//! DMA memory is allocated while a card is brought up and lives as long as the machine: there is no
//! free. That is why buffers need no reference to what they were allocated from.

#[cfg(any(test, feature = "double"))]
use crate::double::{Access, note};
use alloc::vec::Vec;
use core::fmt;
use core::ops::{Deref, DerefMut, Range};
use core::ptr::NonNull;
use core::sync::atomic::{Ordering, fence};

/// Who is going to write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// The device reads, the CPU wrote.
    ToDevice,
    /// The device writes, the CPU will read.
    FromDevice,
}

/// DMA memory could not be allocated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DmaError {
    /// Bytes asked for.
    pub len: usize,
}

impl fmt::Display for DmaError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "no {} bytes of memory for the card", self.len)
    }
}

/// What [`Dma`] hands out: zeroed memory, contiguous for CPU and device.
#[derive(Debug)]
pub struct Allocation {
    /// Where the CPU sees it.
    pub pointer: NonNull<u8>,
    /// Where the device sees it.
    pub bus: u64,
    /// Length in bytes.
    pub len: usize,
}

/// Allocates memory a device can reach, and moves ownership of parts of it.
///
/// # Safety
///
/// An allocation must be valid for reads and writes of `len` bytes for the rest of the program,
/// aligned as asked, reachable through nothing else, and really what the device reaches at `bus`.
/// `to_device` must make everything the CPU wrote to the range visible to the device, and must keep
/// dirty cache lines from landing on it later; `to_cpu` must make everything the device wrote
/// visible to the CPU. Both must touch no byte outside the cache lines of the range, and callers
/// keep buffers on cache lines of their own (see [`Dma::cache_line`]).
pub unsafe trait Dma {
    /// Allocates cached memory for [`Buffer`]s. `align` is a power of two; alignment is at least
    /// [`cache_line`](Dma::cache_line) in any case.
    fn allocate(&self, len: usize, align: usize) -> Result<Allocation, DmaError>;

    /// Allocates memory both sides see alike without maintenance, for descriptor rings.
    fn allocate_coherent(&self, len: usize, align: usize) -> Result<Allocation, DmaError>;

    /// Hands a range over to the device.
    fn to_device(&self, pointer: NonNull<u8>, bus: u64, len: usize, direction: Direction);

    /// Takes a range back.
    fn to_cpu(&self, pointer: NonNull<u8>, bus: u64, len: usize, direction: Direction);

    /// Size in bytes of the largest cache line that has to be kept to one owner; a power of two.
    fn cache_line(&self) -> usize;
}

/// A piece of DMA memory the CPU owns. It derefs to its *window*, the bytes in use; around them
/// there may be head- and tailroom.
pub struct Buffer {
    /// Start of the capacity. Invariant: `capacity` bytes from here lie in one allocation (the one
    /// that starts at `origin`), were initialised (allocations are zeroed), and no other `Buffer`
    /// or `DeviceBuffer` covers any of them.
    pointer: NonNull<u8>,
    origin: NonNull<u8>,
    bus: u64,
    capacity: u32,
    /// Invariant: `start <= end <= capacity`.
    start: u32,
    end: u32,
}

// SAFETY: a Buffer is the only way to its bytes (invariant above), like a Box<[u8]>.
unsafe impl Send for Buffer {}
// SAFETY: shared access only reads.
unsafe impl Sync for Buffer {}

impl Buffer {
    /// Wraps a whole allocation, the window being all of it.
    ///
    /// # Panics
    /// If it is 4 GiB or more.
    pub fn new(allocation: Allocation) -> Buffer {
        let capacity = u32::try_from(allocation.len).expect("DMA buffer below 4 GiB");
        Buffer {
            pointer: allocation.pointer,
            origin: allocation.pointer,
            bus: allocation.bus,
            capacity,
            start: 0,
            end: capacity,
        }
    }

    /// Bytes in all, window or not.
    pub fn capacity(&self) -> usize {
        self.capacity as usize
    }

    /// The window, as offsets into the capacity.
    pub fn window(&self) -> Range<usize> {
        self.start as usize..self.end as usize
    }

    /// Moves the window.
    ///
    /// # Panics
    /// If the range is not within the capacity: check lengths a device reported first.
    pub fn set_window(&mut self, window: Range<usize>) {
        assert!(window.start <= window.end && window.end <= self.capacity as usize);
        self.start = window.start as u32;
        self.end = window.end as u32;
    }

    /// The device's address of the first byte of the window.
    pub fn bus_address(&self) -> u64 {
        self.bus + u64::from(self.start)
    }

    /// The whole capacity, whatever the window.
    pub fn whole_mut(&mut self) -> &mut [u8] {
        // SAFETY: `capacity` initialised bytes that only this Buffer reaches, borrowed mutably.
        unsafe { core::slice::from_raw_parts_mut(self.pointer.as_ptr(), self.capacity as usize) }
    }

    /// Cuts in two at `at` bytes of the capacity; both windows become whole.
    ///
    /// # Panics
    /// If `at` is beyond the capacity.
    pub fn split_at(self, at: usize) -> (Buffer, Buffer) {
        assert!(at <= self.capacity as usize);
        let rest = self.capacity - at as u32;
        // SAFETY: `at` is within the capacity, so within the allocation.
        let second = unsafe { self.pointer.add(at) };
        let bus = self.bus + at as u64;
        (
            Buffer { capacity: at as u32, start: 0, end: at as u32, ..self },
            Buffer {
                pointer: second,
                origin: self.origin,
                bus,
                capacity: rest,
                start: 0,
                end: rest,
            },
        )
    }

    /// Puts two neighbours together again, windows whole. Gives both back if the second does not
    /// directly follow the first in the same allocation.
    pub fn join(self, next: Buffer) -> Result<Buffer, (Buffer, Buffer)> {
        // SAFETY: one past the end of the capacity is within or one past the allocation.
        let end = unsafe { self.pointer.add(self.capacity as usize) };
        if self.origin != next.origin || end != next.pointer {
            return Err((self, next));
        }
        let capacity = self.capacity + next.capacity;
        Ok(Buffer { capacity, start: 0, end: capacity, ..self })
    }

    /// Hands the window over to the device.
    pub fn to_device<D: Dma + ?Sized>(self, dma: &D, direction: Direction) -> DeviceBuffer {
        let len = (self.end - self.start) as usize;
        // SAFETY: `start` is within the capacity.
        let pointer = unsafe { self.pointer.add(self.start as usize) };
        dma.to_device(pointer, self.bus_address(), len, direction);
        DeviceBuffer { buffer: self, direction }
    }
}

impl Deref for Buffer {
    type Target = [u8];
    fn deref(&self) -> &[u8] {
        // SAFETY: the window lies in the capacity: initialised bytes that only this Buffer reaches.
        unsafe {
            core::slice::from_raw_parts(
                self.pointer.as_ptr().add(self.start as usize),
                (self.end - self.start) as usize,
            )
        }
    }
}

impl DerefMut for Buffer {
    fn deref_mut(&mut self) -> &mut [u8] {
        // SAFETY: as in `deref`, and the borrow is exclusive.
        unsafe {
            core::slice::from_raw_parts_mut(
                self.pointer.as_ptr().add(self.start as usize),
                (self.end - self.start) as usize,
            )
        }
    }
}

impl fmt::Debug for Buffer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Buffer({:#x}+{}, {}..{})", self.bus, self.capacity, self.start, self.end)
    }
}

/// Allocates `count` buffers of `size` bytes, or as much more as cache lines want, side by side, for a card with 32
/// address lines.
pub fn buffers_in_a_row<D: Dma + ?Sized>(
    dma: &D,
    count: usize,
    size: usize,
) -> Result<Vec<Buffer>, DmaError> {
    let size = size.next_multiple_of(dma.cache_line());
    let mut rest = Buffer::new(dma.allocate(count * size, dma.cache_line())?);
    within_32_bits(rest.bus_address(), rest.len())?;
    let mut buffers = Vec::with_capacity(count);
    for _ in 0..count {
        let (buffer, after) = rest.split_at(size);
        buffers.push(buffer);
        rest = after;
    }
    Ok(buffers)
}

/// An error if a card with 32 address lines does not reach all of this.
pub fn within_32_bits(bus: u64, len: usize) -> Result<(), DmaError> {
    match bus.checked_add(len as u64) {
        Some(end) if end <= 1 << 32 => Ok(()),
        _ => Err(DmaError { len }),
    }
}

/// A buffer the device owns: nothing can be read or written until it comes back.
pub struct DeviceBuffer {
    buffer: Buffer,
    direction: Direction,
}

impl DeviceBuffer {
    /// The device's address of the first byte handed over.
    pub fn bus_address(&self) -> u64 {
        self.buffer.bus_address()
    }

    /// Bytes handed over.
    pub fn len(&self) -> usize {
        (self.buffer.end - self.buffer.start) as usize
    }

    /// True if nothing was handed over.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Where the CPU sees the bytes handed over, for queue code that must name them by pointer
    /// (`virtio-drivers`). Not for access.
    pub fn pointer(&self) -> NonNull<[u8]> {
        // SAFETY: `start` is within the capacity.
        let start = unsafe { self.buffer.pointer.add(self.buffer.start as usize) };
        NonNull::slice_from_raw_parts(start, self.len())
    }

    /// Takes the buffer back, with the window that was handed over. The caller has seen the device
    /// give it up (ownership bit, used ring); the read of that comes before any read of the bytes.
    pub fn to_cpu<D: Dma + ?Sized>(self, dma: &D) -> Buffer {
        fence(Ordering::Acquire);
        dma.to_cpu(self.pointer().cast(), self.bus_address(), self.len(), self.direction);
        self.buffer
    }
}

impl fmt::Debug for DeviceBuffer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "DeviceBuffer({:?}, {:?})", self.buffer, self.direction)
    }
}

/// Memory both sides see alike, for descriptors: volatile words, little-endian as every card here
/// wants them, at checked offsets.
pub struct Coherent {
    /// Invariant: `len` bytes valid for the rest of the program, reached by the CPU only through
    /// this value.
    pointer: NonNull<u8>,
    bus: u64,
    len: usize,
}

// SAFETY: the CPU reaches the memory only through this value; accesses are volatile words.
unsafe impl Send for Coherent {}

impl Coherent {
    /// Allocates `len` zeroed bytes.
    pub fn new<D: Dma + ?Sized>(dma: &D, len: usize, align: usize) -> Result<Coherent, DmaError> {
        let allocation = dma.allocate_coherent(len, align)?;
        Ok(Coherent { pointer: allocation.pointer, bus: allocation.bus, len: allocation.len })
    }

    /// The device's address of the first byte.
    pub fn bus_address(&self) -> u64 {
        self.bus
    }

    /// Length in bytes.
    pub fn len(&self) -> usize {
        self.len
    }

    /// True if there is nothing in it.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    fn at<T>(&self, offset: usize) -> *mut T {
        let size = size_of::<T>();
        assert!(offset.is_multiple_of(size) && offset <= self.len && size <= self.len - offset);
        // SAFETY: within `len`, just checked.
        unsafe { self.pointer.as_ptr().add(offset).cast() }
    }

    /// Reads a word. Panics if the offset is outside or not a multiple of the size.
    pub fn read16(&self, offset: usize) -> u16 {
        #[cfg(any(test, feature = "double"))]
        note(Access::Read(self.bus + offset as u64));
        // SAFETY: `at` checked bounds and alignment (allocations are aligned to a cache line).
        u16::from_le(unsafe { self.at::<u16>(offset).read_volatile() })
    }

    /// Reads a word. Panics if the offset is outside or not a multiple of the size.
    pub fn read32(&self, offset: usize) -> u32 {
        #[cfg(any(test, feature = "double"))]
        note(Access::Read(self.bus + offset as u64));
        // SAFETY: as for `read16`.
        u32::from_le(unsafe { self.at::<u32>(offset).read_volatile() })
    }

    /// Writes a word. Panics if the offset is outside or not a multiple of the size.
    pub fn write16(&mut self, offset: usize, value: u16) {
        #[cfg(any(test, feature = "double"))]
        note(Access::Write(self.bus + offset as u64, value.into()));
        // SAFETY: as for `read16`; `&mut self` keeps other CPU writers away.
        unsafe { self.at::<u16>(offset).write_volatile(value.to_le()) }
    }

    /// Writes a word. Panics if the offset is outside or not a multiple of the size.
    pub fn write32(&mut self, offset: usize, value: u32) {
        #[cfg(any(test, feature = "double"))]
        note(Access::Write(self.bus + offset as u64, value));
        // SAFETY: as for `write16`.
        unsafe { self.at::<u32>(offset).write_volatile(value.to_le()) }
    }

    /// Everything written before is visible to the device before anything written after. Between a
    /// descriptor's words and its ownership bit, and between that and the doorbell.
    pub fn barrier(&self) {
        #[cfg(any(test, feature = "double"))]
        note(Access::Barrier);
        device_barrier();
    }
}

impl fmt::Debug for Coherent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Coherent({:#x}+{})", self.bus, self.len)
    }
}

/// Orders memory accesses as a device outside the CPU's coherence domain sees them. On aarch64 the
/// `dmb ish` a fence compiles to does not reach devices, which are in the outer domain.
fn device_barrier() {
    #[cfg(target_arch = "aarch64")]
    // SAFETY: a barrier; no registers, no memory of its own.
    unsafe {
        core::arch::asm!("dmb osh", options(nostack, preserves_flags));
    }
    #[cfg(not(target_arch = "aarch64"))]
    fence(Ordering::SeqCst);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::double::TwoMemories;

    #[test]
    fn split_pieces_join_only_with_their_neighbour() {
        let dma = TwoMemories::new(64);
        let whole = Buffer::new(dma.allocate(300, 64).unwrap());
        let other = Buffer::new(dma.allocate(100, 64).unwrap());
        let bus = whole.bus_address();
        let (first, rest) = whole.split_at(100);
        let (second, third) = rest.split_at(50);
        assert_eq!((second.capacity(), second.bus_address()), (50, bus + 100));
        let (first, third) = first.join(third).unwrap_err();
        let (first, _other) = first.join(other).unwrap_err();
        let both = first.join(second).unwrap();
        let all = both.join(third).unwrap();
        assert_eq!((all.len(), all.bus_address()), (300, bus));
    }

    #[test]
    fn what_a_card_with_32_address_lines_reaches() {
        assert!(within_32_bits(0xffff_f000, 0x1000).is_ok());
        assert!(within_32_bits(0xffff_f000, 0x1001).is_err());
        assert!(within_32_bits(u64::MAX, 2).is_err());
    }

    #[test]
    fn device_sees_only_what_was_handed_over() {
        let dma = TwoMemories::new(64);
        let mut buffer = Buffer::new(dma.allocate(64, 64).unwrap());
        buffer.fill(7);
        let mut seen = [0; 64];
        dma.device_read(buffer.bus_address(), &mut seen).unwrap();
        assert_eq!(seen, [0; 64], "written, but not handed over");
        let bus = buffer.bus_address();
        let lent = buffer.to_device(&dma, Direction::ToDevice);
        dma.device_read(bus, &mut seen).unwrap();
        assert_eq!(seen, [7; 64]);
        let _ = lent.to_cpu(&dma);
    }

    #[test]
    fn cpu_sees_device_writes_only_after_taking_back() {
        let dma = TwoMemories::new(64);
        let buffer = Buffer::new(dma.allocate(64, 64).unwrap());
        let bus = buffer.bus_address();
        let lent = buffer.to_device(&dma, Direction::FromDevice);
        dma.device_write(bus, &[9; 64]).unwrap();
        let buffer = lent.to_cpu(&dma);
        assert_eq!(*buffer, [9; 64]);
    }

    #[test]
    fn coherent_memory_is_seen_by_both_at_once() {
        let dma = TwoMemories::new(64);
        let mut ring = Coherent::new(&dma, 32, 16).unwrap();
        ring.write32(8, 0x1122_3344);
        ring.barrier();
        let mut seen = [0; 4];
        dma.device_read(ring.bus_address() + 8, &mut seen).unwrap();
        assert_eq!(seen, [0x44, 0x33, 0x22, 0x11]);
        dma.device_write(ring.bus_address() + 12, &[1, 2]).unwrap();
        assert_eq!(ring.read16(12), 0x0201);
    }

    #[test]
    fn what_is_done_to_coherent_memory_can_be_watched() {
        use crate::double::watch;
        let dma = TwoMemories::new(64);
        let mut ring = Coherent::new(&dma, 32, 16).unwrap();
        ring.write32(0, 9);
        let (word, done) = watch(|| {
            ring.write16(6, 7);
            ring.barrier();
            ring.read32(4)
        });
        assert_eq!(word, 7 << 16);
        let bus = ring.bus_address();
        assert_eq!(done, [Access::Write(bus + 6, 7), Access::Barrier, Access::Read(bus + 4)]);
    }

    #[test]
    #[should_panic(expected = "assertion failed")]
    fn coherent_access_outside_is_caught() {
        let dma = TwoMemories::new(64);
        let ring = Coherent::new(&dma, 32, 16).unwrap();
        ring.read32(32);
    }
}

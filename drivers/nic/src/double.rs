//! A [`Dma`] for host tests that is stricter than any board.
//!
//! It keeps two memories, the CPU's and the device's, and moves bytes only at a hand-over, so a
//! missing one fails a test. Bus addresses differ from pointers. Bytes of a buffer handed over for
//! the device to write are overwritten with `0xdb` on the CPU's side until they come back.

use crate::{Allocation, Direction, Dma, DmaError};
use core::cell::RefCell;
use core::ptr::NonNull;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::vec::Vec;

/// The device touched memory that is not its own: what a model would do to the machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BusError {
    /// First address touched.
    pub bus: u64,
    /// Bytes.
    pub len: usize,
}

/// What a driver did to memory both sides see.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// It read the word at this address of the device's.
    Read(u64),
    /// It wrote this word there.
    Write(u64, u32),
    /// What comes behind is seen behind what came before.
    Barrier,
}

std::thread_local! {
    static WATCHED: RefCell<Option<Vec<Access>>> = const { RefCell::new(None) };
}

/// Runs `work` and returns what it did to [`Coherent`](crate::Coherent) memory on this thread, in order: a device
/// may look at any moment, which a model in the same thread never does.
pub fn watch<T>(work: impl FnOnce() -> T) -> (T, Vec<Access>) {
    WATCHED.set(Some(Vec::new()));
    let result = work();
    (result, WATCHED.take().unwrap_or_default())
}

pub(crate) fn note(access: Access) {
    WATCHED.with_borrow_mut(|watched| {
        if let Some(watched) = watched {
            watched.push(access);
        }
    });
}

enum Region {
    /// The device's copy of a cached allocation.
    Cached(Vec<u8>),
    /// Address of memory both sides share.
    Coherent { pointer: usize, len: usize },
}

impl Region {
    fn len(&self) -> usize {
        match self {
            Region::Cached(bytes) => bytes.len(),
            Region::Coherent { len, .. } => *len,
        }
    }
}

struct State {
    regions: BTreeMap<u64, Region>,
    next_bus: u64,
    limit: Option<usize>,
}

/// The two memories. Clones share them: one for the driver, one for the device model.
#[derive(Clone)]
pub struct TwoMemories {
    state: Arc<Mutex<State>>,
    cache_line: usize,
}

impl TwoMemories {
    /// Empty memories of a machine with this cache line.
    pub fn new(cache_line: usize) -> TwoMemories {
        assert!(cache_line.is_power_of_two());
        let state = State { regions: BTreeMap::new(), next_bus: 0x4000_0000, limit: None };
        TwoMemories { state: Arc::new(Mutex::new(state)), cache_line }
    }

    /// Lets only `bytes` more be allocated, to test bring-up without memory.
    pub fn limit(&self, bytes: usize) {
        self.state.lock().unwrap().limit = Some(bytes);
    }

    /// Puts what is allocated from now on at `bus` and above, to test what a card cannot reach.
    pub fn continue_at(&self, bus: u64) {
        self.state.lock().unwrap().next_bus = bus;
    }

    /// Memory both sides see, as (address, bytes): what a hostile device may write at any moment.
    pub fn coherent(&self) -> Vec<(u64, usize)> {
        let state = self.state.lock().unwrap();
        let coherent = |region: &Region| matches!(region, Region::Coherent { .. });
        let regions = state.regions.iter().filter(|(_, region)| coherent(region));
        regions.map(|(&bus, region)| (bus, region.len())).collect()
    }

    /// What the device reads at `bus`.
    pub fn device_read(&self, bus: u64, out: &mut [u8]) -> Result<(), BusError> {
        self.access(bus, out.len(), |memory| out.copy_from_slice(memory))
    }

    /// The device writes at `bus`.
    pub fn device_write(&self, bus: u64, data: &[u8]) -> Result<(), BusError> {
        self.access(bus, data.len(), |memory| memory.copy_from_slice(data))
    }

    fn access(&self, bus: u64, len: usize, work: impl FnOnce(&mut [u8])) -> Result<(), BusError> {
        let mut state = self.state.lock().unwrap();
        let error = BusError { bus, len };
        let (&start, region) = state.regions.range_mut(..=bus).next_back().ok_or(error)?;
        let offset = (bus - start) as usize;
        if offset > region.len() || len > region.len() - offset {
            return Err(error);
        }
        match region {
            Region::Cached(bytes) => work(&mut bytes[offset..offset + len]),
            Region::Coherent { pointer, .. } => {
                // Through volatile bytes: the driver may hold no reference to coherent memory.
                let base = (*pointer + offset) as *mut u8;
                let mut copy: Vec<u8> = (0..len)
                    // SAFETY: in bounds (checked), never freed, no references exist.
                    .map(|i| unsafe { base.add(i).read_volatile() })
                    .collect();
                work(&mut copy);
                for (i, byte) in copy.into_iter().enumerate() {
                    // SAFETY: as above.
                    unsafe { base.add(i).write_volatile(byte) };
                }
            }
        }
        Ok(())
    }

    fn add(&self, len: usize, align: usize, coherent: bool) -> Result<Allocation, DmaError> {
        assert!(align.is_power_of_two());
        let mut state = self.state.lock().unwrap();
        if let Some(limit) = &mut state.limit {
            *limit = limit.checked_sub(len).ok_or(DmaError { len })?;
        }
        let align = align.max(self.cache_line);
        let layout = core::alloc::Layout::from_size_align(len.max(1), align).unwrap();
        // SAFETY: the size is not zero. Never freed: DMA memory lives as long as the program.
        let pointer = NonNull::new(unsafe { std::alloc::alloc_zeroed(layout) }).unwrap();
        let bus = state.next_bus.next_multiple_of(align as u64);
        // A gap behind each, so that running over the end hits nothing.
        state.next_bus = bus + len as u64 + 4096;
        let region = match coherent {
            true => Region::Coherent { pointer: pointer.expose_provenance().get(), len },
            false => Region::Cached(vec![0; len]),
        };
        state.regions.insert(bus, region);
        Ok(Allocation { pointer, bus, len })
    }
}

// SAFETY: allocations are leaked, so valid for ever; the device reaches them only through
// `device_read` and `device_write`; hand-overs copy exactly the range.
unsafe impl Dma for TwoMemories {
    fn allocate(&self, len: usize, align: usize) -> Result<Allocation, DmaError> {
        self.add(len, align, false)
    }

    fn allocate_coherent(&self, len: usize, align: usize) -> Result<Allocation, DmaError> {
        self.add(len, align, true)
    }

    fn to_device(&self, pointer: NonNull<u8>, bus: u64, len: usize, direction: Direction) {
        // SAFETY: the caller owns the range.
        let cpu = unsafe { core::slice::from_raw_parts_mut(pointer.as_ptr(), len) };
        self.access(bus, len, |device| device.copy_from_slice(cpu)).expect("a buffer of this Dma");
        if direction == Direction::FromDevice {
            cpu.fill(0xdb);
        }
    }

    fn to_cpu(&self, pointer: NonNull<u8>, bus: u64, len: usize, direction: Direction) {
        if direction == Direction::FromDevice {
            // SAFETY: the caller owns the range.
            let cpu = unsafe { core::slice::from_raw_parts_mut(pointer.as_ptr(), len) };
            self.access(bus, len, |device| cpu.copy_from_slice(device))
                .expect("a buffer of this Dma");
        }
    }

    fn cache_line(&self) -> usize {
        self.cache_line
    }
}

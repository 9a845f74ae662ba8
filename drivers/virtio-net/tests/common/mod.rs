//! The other side of the rings: a device double over the memory double.
//!
//! It reads and writes only through `TwoMemories`, so it sees what a device without cache coherence
//! would see, at addresses that are not pointers. It restates the layouts of the standard
//! ([VIRTIO 2.7]) instead of using the driver's.
#![allow(dead_code, unreachable_pub, reason = "each test file uses its part")]

use std::cell::RefCell;
use std::ptr::NonNull;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use trireme_nic::double::TwoMemories;
use trireme_nic::{Allocation, Direction, Dma, DmaError, Nic};
use trireme_virtio_net::{Config, Error, RingMemory, VirtioNet};
use virtio_drivers::transport::{DeviceStatus, DeviceType, InterruptStatus, Transport};
use virtio_drivers::{BufferDirection, Hal, PhysAddr};
use zerocopy::{FromBytes, Immutable, IntoBytes};

pub const CSUM: u64 = 1 << 0;
pub const GUEST_CSUM: u64 = 1 << 1;
pub const CTRL_GUEST_OFFLOADS: u64 = 1 << 2;
pub const MTU: u64 = 1 << 3;
pub const MAC: u64 = 1 << 5;
pub const GUEST_TSO4: u64 = 1 << 7;
pub const GUEST_TSO6: u64 = 1 << 8;
pub const HOST_TSO4: u64 = 1 << 11;
pub const HOST_TSO6: u64 = 1 << 12;
pub const MRG_RXBUF: u64 = 1 << 15;
pub const STATUS: u64 = 1 << 16;
pub const CTRL_VQ: u64 = 1 << 17;
pub const CTRL_RX: u64 = 1 << 18;
pub const EVENT_IDX: u64 = 1 << 29;
pub const VERSION_1: u64 = 1 << 32;
/// What QEMU 11 offers by default, and bits no driver knows.
pub const EVERYTHING: u64 = u64::MAX;

pub const RX: usize = 0;
pub const TX: usize = 1;
pub const CTRL: usize = 2;
const SIZE: u64 = 256;

struct Memory {
    two: TwoMemories,
    /// Pointer, bus address, length.
    regions: Vec<(usize, u64, usize)>,
    device: Option<Device>,
}

thread_local! {
    /// `Hal` has no self; every test has a thread.
    static MEMORY: RefCell<Option<Memory>> = const { RefCell::new(None) };
}

fn record(allocation: Allocation) -> Allocation {
    MEMORY.with_borrow_mut(|memory| {
        memory.as_mut().unwrap().regions.push((
            allocation.pointer.as_ptr() as usize,
            allocation.bus,
            allocation.len,
        ));
    });
    allocation
}

pub struct TestDma(pub TwoMemories);

// SAFETY: `TwoMemories` does it all.
unsafe impl Dma for TestDma {
    fn allocate(&self, len: usize, align: usize) -> Result<Allocation, DmaError> {
        self.0.allocate(len, align).map(record)
    }
    fn allocate_coherent(&self, len: usize, align: usize) -> Result<Allocation, DmaError> {
        self.0.allocate_coherent(len, align).map(record)
    }
    fn to_device(&self, pointer: NonNull<u8>, bus: u64, len: usize, direction: Direction) {
        self.0.to_device(pointer, bus, len, direction);
    }
    fn to_cpu(&self, pointer: NonNull<u8>, bus: u64, len: usize, direction: Direction) {
        self.0.to_cpu(pointer, bus, len, direction);
    }
    fn cache_line(&self) -> usize {
        self.0.cache_line()
    }
}

pub struct TestHal;

// SAFETY: coherent allocations of `TwoMemories` are zeroed, aligned as asked and live for ever.
unsafe impl Hal for TestHal {
    fn dma_alloc(pages: usize, _: BufferDirection) -> (PhysAddr, NonNull<u8>) {
        let two = MEMORY.with_borrow(|memory| memory.as_ref().unwrap().two.clone());
        match two.allocate_coherent(pages * 4096, 4096) {
            Ok(allocation) => {
                let allocation = record(allocation);
                (allocation.bus, allocation.pointer)
            }
            Err(_) => (0, NonNull::dangling()),
        }
    }
    unsafe fn dma_dealloc(_: PhysAddr, _: NonNull<u8>, _: usize) -> i32 {
        // Rings may go only when the device has stopped.
        MEMORY.with_borrow(|memory| {
            let device = memory.as_ref().unwrap().device.as_ref();
            let running = device.is_some_and(|device| device.state().status & 4 != 0);
            assert!(!running, "ring memory freed under a running device");
        });
        0
    }
    unsafe fn mmio_phys_to_virt(_: PhysAddr, _: usize) -> NonNull<u8> {
        unimplemented!("no PCI here")
    }
    unsafe fn share(buffer: NonNull<[u8]>, _: BufferDirection) -> PhysAddr {
        bus_of(buffer.as_ptr() as *mut u8 as usize, buffer.len())
    }
    unsafe fn unshare(address: PhysAddr, buffer: NonNull<[u8]>, _: BufferDirection) {
        assert_eq!(address, bus_of(buffer.as_ptr() as *mut u8 as usize, buffer.len()));
    }
}

fn bus_of(pointer: usize, len: usize) -> u64 {
    MEMORY.with_borrow(|memory| {
        let regions = &memory.as_ref().unwrap().regions;
        let (start, bus, _) = regions
            .iter()
            .find(|(start, _, size)| pointer >= *start && pointer + len <= start + size)
            .expect("memory of this machine");
        bus + (pointer - start) as u64
    })
}

// SAFETY: the pointer recorded with the allocation, moved by the same distance.
unsafe impl RingMemory for TestHal {
    fn ring_pointer(address: PhysAddr) -> NonNull<u8> {
        MEMORY.with_borrow(|memory| {
            let regions = &memory.as_ref().unwrap().regions;
            let (start, bus, _) = regions
                .iter()
                .find(|(_, bus, len)| (*bus..bus + *len as u64).contains(&address))
                .expect("ring memory");
            let pointer = std::ptr::with_exposed_provenance_mut(start + (address - bus) as usize);
            NonNull::new(pointer).unwrap()
        })
    }
}

#[derive(Default, Clone, Copy)]
struct Rings {
    size: u32,
    descriptors: u64,
    driver: u64,
    device: u64,
    enabled: bool,
    /// Chains taken from the available ring; entries written to the used ring, and of those, shown.
    taken: u16,
    used: u16,
    shown: u16,
}

pub struct State {
    two: TwoMemories,
    pub offered: u64,
    pub features: u64,
    pub status: u32,
    /// Do not confirm resets, or FEATURES_OK.
    pub ignores_reset: bool,
    pub refuses_features: bool,
    pub max_queue: u32,
    pub config: Vec<u8>,
    pub isr: u32,
    pub legacy: bool,
    rings: [Rings; 3],
    pub doorbells: [u64; 3],
    pub interrupts: u64,
    /// Commands seen, and how they are answered; `None`: not at all.
    pub commands: Vec<Vec<u8>>,
    pub answer: Option<u8>,
    /// Tell the driver not to ring.
    pub busy: bool,
}

/// A chain taken from the available ring: here always one or two descriptors.
#[derive(Clone, Debug)]
pub struct Chain {
    pub id: u16,
    /// Address, length, whether the device may write.
    pub parts: Vec<(u64, u32, bool)>,
}

impl State {
    // A double that lied before may meet descriptors that were cleared: address and length 0.
    fn read(&self, at: u64, len: usize) -> Vec<u8> {
        let mut bytes = vec![0; len];
        if len == 0 {
            return bytes;
        }
        self.two.device_read(at, &mut bytes).expect("device reads its own memory");
        bytes
    }
    fn read16(&self, at: u64) -> u16 {
        u16::from_le_bytes(self.read(at, 2).try_into().unwrap())
    }
    fn write(&self, at: u64, bytes: &[u8]) {
        if bytes.is_empty() {
            return;
        }
        self.two.device_write(at, bytes).expect("device writes its own memory");
    }

    pub fn memory(&self) -> TwoMemories {
        self.two.clone()
    }

    /// Chains the driver has made available and the device has not taken.
    pub fn available(&self, queue: usize) -> u16 {
        let rings = &self.rings[queue];
        if !rings.enabled || self.status & 4 == 0 {
            return 0;
        }
        self.read16(rings.driver + 2).wrapping_sub(rings.taken)
    }

    pub fn take(&mut self, queue: usize) -> Option<Chain> {
        if self.available(queue) == 0 {
            return None;
        }
        assert!(self.available(queue) <= self.rings[queue].size as u16, "more than the ring holds");
        let rings = self.rings[queue];
        let slot = u64::from(rings.taken) % u64::from(rings.size);
        let id = self.read16(rings.driver + 4 + 2 * slot);
        let mut parts = Vec::new();
        let mut next = Some(id);
        while let Some(index) = next {
            let bytes = self.read(rings.descriptors + 16 * u64::from(index), 16);
            let flags = u16::from_le_bytes(bytes[12..14].try_into().unwrap());
            parts.push((
                u64::from_le_bytes(bytes[..8].try_into().unwrap()),
                u32::from_le_bytes(bytes[8..12].try_into().unwrap()),
                flags & 2 != 0,
            ));
            assert!(flags & 4 == 0, "indirect was not offered a use");
            next = (flags & 1 != 0).then(|| u16::from_le_bytes(bytes[14..16].try_into().unwrap()));
            assert!(parts.len() <= 2);
        }
        let rings = &mut self.rings[queue];
        rings.taken = rings.taken.wrapping_add(1);
        if !self.busy {
            let (at, taken) = (rings.device + 4 + 8 * u64::from(rings.size), rings.taken);
            self.write(at, &taken.to_le_bytes());
        }
        Some(Chain { id, parts })
    }

    /// Writes a used entry, not yet shown.
    pub fn put_used(&mut self, queue: usize, id: u32, len: u32) {
        let rings = &mut self.rings[queue];
        if !rings.enabled {
            return;
        }
        let slot = u64::from(rings.used) % u64::from(rings.size);
        rings.used = rings.used.wrapping_add(1);
        let at = rings.device + 4 + 8 * slot;
        self.write(at, &[id.to_le_bytes(), len.to_le_bytes()].concat());
    }

    /// Shows what was put, and interrupts if the driver asked for it. [VIRTIO 2.7.7, 2.7.8]
    pub fn show(&mut self, queue: usize) {
        let rings = self.rings[queue];
        if !rings.enabled || self.status & 4 == 0 {
            return;
        }
        self.write(rings.device + 2, &rings.used.to_le_bytes());
        let wanted = if self.features & EVENT_IDX != 0 {
            let event = self.read16(rings.driver + 4 + 2 * u64::from(rings.size));
            rings.used.wrapping_sub(event).wrapping_sub(1) < rings.used.wrapping_sub(rings.shown)
        } else {
            rings.used != rings.shown && self.read16(rings.driver) & 1 == 0
        };
        self.rings[queue].shown = rings.used;
        if wanted {
            self.interrupts += 1;
            self.isr |= 1;
        }
    }

    /// Shows a used index of the device's choice.
    pub fn lie_about_index(&mut self, queue: usize, ahead: u16) {
        self.rings[queue].used = self.rings[queue].used.wrapping_add(ahead);
        self.show(queue);
    }

    /// DEVICE_NEEDS_RESET, with its interrupt.
    pub fn need_reset(&mut self) {
        self.status |= 64;
        self.isr |= 2;
    }

    /// Without EVENT_IDX: the device's own "do not ring" flag.
    pub fn set_no_notify(&mut self, queue: usize, on: bool) {
        self.write(self.rings[queue].device, &u16::from(on).to_le_bytes());
    }

    /// Everything the driver sent, completed in order.
    pub fn transmitted(&mut self) -> Vec<Vec<u8>> {
        let mut frames = Vec::new();
        while let Some(chain) = self.take(TX) {
            frames.push(self.content(&chain));
            self.put_used(TX, u32::from(chain.id), 0);
        }
        self.show(TX);
        frames
    }

    pub fn content(&self, chain: &Chain) -> Vec<u8> {
        let mut bytes = Vec::new();
        for (at, len, writable) in &chain.parts {
            assert!(!writable, "a buffer to be sent is read-only");
            bytes.extend(self.read(*at, *len as usize));
        }
        bytes
    }

    /// Delivers a frame as the standard says, over as many buffers as it needs. False if there are
    /// not enough, or too short ones.
    pub fn deliver(&mut self, mut header: [u8; 12], frame: &[u8]) -> bool {
        let merge = self.features & MRG_RXBUF != 0;
        let mut chains = Vec::new();
        let mut room = 0;
        while room < 12 + frame.len() {
            let Some(chain) = self.take(RX) else {
                return false;
            };
            room += chain.parts[0].1 as usize;
            chains.push(chain);
            if !merge && room < 12 + frame.len() {
                return false;
            }
        }
        header[10..].copy_from_slice(&(chains.len() as u16).to_le_bytes());
        let bytes = [&header, frame].concat();
        self.fill(&chains, &bytes);
        self.show(RX);
        true
    }

    /// Writes `bytes` over the chains, each filled to its end, and puts them.
    pub fn fill(&mut self, chains: &[Chain], mut bytes: &[u8]) {
        for chain in chains {
            let [(at, len, true)] = chain.parts[..] else { panic!("one writable buffer") };
            let (now, rest) = bytes.split_at(bytes.len().min(len as usize));
            self.write(at, now);
            self.put_used(RX, u32::from(chain.id), now.len() as u32);
            bytes = rest;
        }
    }

    /// Answers control commands.
    pub fn control(&mut self) {
        let Some(answer) = self.answer else { return };
        while let Some(chain) = self.take(CTRL) {
            let [(at, len, false), (ack, 1, true)] = chain.parts[..] else {
                panic!("a command and its answer, not {:?}", chain.parts)
            };
            let command = self.read(at, len as usize);
            self.commands.push(command);
            self.write(ack, &[answer]);
            self.put_used(CTRL, u32::from(chain.id), 1);
        }
        self.show(CTRL);
    }
}

#[derive(Clone)]
pub struct Device(Arc<Mutex<State>>);

impl Device {
    pub fn new(offered: u64) -> Device {
        let two = TwoMemories::new(64);
        let mut config = vec![0x52, 0x54, 0, 0x12, 0x34, 0x56];
        config.extend([1, 0, 1, 0]);
        config.extend(1400u16.to_le_bytes());
        let device = Device(Arc::new(Mutex::new(State {
            two: two.clone(),
            offered,
            features: 0,
            status: 0,
            ignores_reset: false,
            refuses_features: false,
            max_queue: SIZE as u32,
            config,
            isr: 0,
            legacy: false,
            rings: Default::default(),
            doorbells: [0; 3],
            interrupts: 0,
            commands: Vec::new(),
            answer: Some(0),
            busy: false,
        })));
        let memory = Memory { two, regions: Vec::new(), device: Some(device.clone()) };
        MEMORY.with_borrow_mut(|slot| *slot = Some(memory));
        device
    }

    pub fn state(&self) -> MutexGuard<'_, State> {
        // A failed assertion must not be followed by a second panic in the driver's `drop`.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn memory(&self) -> TwoMemories {
        self.state().two.clone()
    }

    pub fn driver_with(&self, config: &Config) -> Result<Driver, Error> {
        VirtioNet::new(self.clone(), TestDma(self.memory()), config)
    }

    pub fn driver(&self) -> Driver {
        self.driver_with(&CONFIG).unwrap()
    }
}

pub type Driver = VirtioNet<TestHal, Device, TestDma>;

pub const CONFIG: Config = Config {
    receive_bytes: 128 << 10,
    transmit_bytes: 256 << 10,
    fallback_mac: [2, 0, 0, 0, 0, 9],
};

impl Transport for Device {
    fn device_type(&self) -> DeviceType {
        DeviceType::Network
    }
    fn read_device_features(&mut self) -> u64 {
        self.state().offered
    }
    fn write_driver_features(&mut self, features: u64) {
        self.state().features = features;
    }
    fn max_queue_size(&mut self, _: u16) -> u32 {
        self.state().max_queue
    }
    fn notify(&mut self, queue: u16) {
        let mut state = self.state();
        assert!(state.status & 4 != 0, "doorbell before DRIVER_OK");
        state.doorbells[usize::from(queue)] += 1;
        if usize::from(queue) == CTRL {
            state.control();
        }
    }
    fn get_status(&self) -> DeviceStatus {
        DeviceStatus::from_bits_retain(self.state().status)
    }
    fn set_status(&mut self, status: DeviceStatus) {
        let mut state = self.state();
        let mut bits = status.bits();
        if bits == 0 {
            if state.ignores_reset {
                return;
            }
            state.rings = Default::default();
            state.features = 0;
            state.isr = 0;
        }
        if bits & 8 != 0 {
            let unknown = state.features & !state.offered;
            if state.refuses_features || unknown != 0 || state.features & VERSION_1 == 0 {
                bits &= !8;
            }
        }
        state.status = bits;
    }
    fn set_guest_page_size(&mut self, _: u32) {}
    fn requires_legacy_layout(&self) -> bool {
        self.state().legacy
    }
    fn queue_set(&mut self, queue: u16, size: u32, descriptors: u64, driver: u64, device: u64) {
        let mut state = self.state();
        assert_eq!(state.status & 12, 8, "queues are set up between FEATURES_OK and DRIVER_OK");
        state.rings[usize::from(queue)] =
            Rings { size, descriptors, driver, device, enabled: true, ..Rings::default() };
    }
    fn queue_unset(&mut self, _: u16) {}
    fn queue_used(&mut self, queue: u16) -> bool {
        self.state().rings[usize::from(queue)].enabled
    }
    fn ack_interrupt(&mut self) -> InterruptStatus {
        InterruptStatus::from_bits_retain(std::mem::take(&mut self.state().isr))
    }
    fn read_config_generation(&self) -> u32 {
        0
    }
    fn read_config_space<T: FromBytes + IntoBytes>(
        &self,
        offset: usize,
    ) -> Result<T, virtio_drivers::Error> {
        let state = self.state();
        let bytes = state.config.get(offset..offset + size_of::<T>());
        let bytes = bytes.ok_or(virtio_drivers::Error::ConfigSpaceTooSmall)?;
        Ok(T::read_from_bytes(bytes).unwrap())
    }
    fn write_config_space<T: IntoBytes + Immutable>(
        &mut self,
        _: usize,
        _: T,
    ) -> Result<(), virtio_drivers::Error> {
        unimplemented!("the driver writes no configuration")
    }
}

/// One counter.
pub fn counter(driver: &Driver, name: &str) -> u64 {
    let mut found = None;
    driver.statistics(&mut |known, value| {
        if known == name {
            found = Some(value);
        }
    });
    found.expect("a counter of that name")
}

/// `len` bytes that differ from place to place and from seed to seed.
pub fn pattern(seed: usize, len: usize) -> Vec<u8> {
    (0..len).map(|i| ((i + seed).wrapping_mul(2_654_435_761) >> 11) as u8).collect()
}

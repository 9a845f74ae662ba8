//! A bus with a Rhine and some memory on it. Offsets and bits in these tests are restated from the
//! facts, not imported from the model: a wrong constant must not agree with itself.
#![allow(dead_code, unreachable_pub, reason = "every test file uses a part")]

use std::cell::RefCell;
use std::time::Duration;
use trireme_rhine_model::{Chip, Faults, Rhine};
use trireme_vfio::{Context, Device, DmaError, GuestMemory};

pub const MAC: [u8; 6] = [0x00, 0x0d, 0xb9, 0x12, 0x34, 0x56];
pub const PEER: [u8; 6] = [0x02, 0, 0, 0, 0, 0x99];

/// Memory at 0x10000, filled with 0xa5, that notes every access outside.
pub struct Ram {
    bytes: RefCell<Vec<u8>>,
    pub outside: RefCell<Vec<u64>>,
}

pub const BASE: u64 = 0x1_0000;

impl Ram {
    pub fn new(len: usize) -> Ram {
        Ram { bytes: RefCell::new(vec![0xa5; len]), outside: RefCell::default() }
    }

    fn range(&self, address: u64, len: usize) -> Result<std::ops::Range<usize>, DmaError> {
        let start = address.checked_sub(BASE).and_then(|start| usize::try_from(start).ok());
        let range = start.and_then(|s| Some(s..s.checked_add(len)?));
        match range.filter(|range| range.end <= self.bytes.borrow().len()) {
            Some(range) => Ok(range),
            None => {
                self.outside.borrow_mut().push(address);
                Err(DmaError { address, len })
            }
        }
    }

    pub fn get(&self, address: u64, len: usize) -> Vec<u8> {
        self.bytes.borrow()[(address - BASE) as usize..][..len].to_vec()
    }

    pub fn set(&self, address: u64, data: &[u8]) {
        self.bytes.borrow_mut()[(address - BASE) as usize..][..data.len()].copy_from_slice(data);
    }

    pub fn word(&self, address: u64) -> u32 {
        u32::from_le_bytes(self.get(address, 4).try_into().unwrap())
    }

    pub fn descriptor(&self, address: u64, words: [u32; 4]) {
        for (i, word) in words.into_iter().enumerate() {
            self.set(address + 4 * i as u64, &word.to_le_bytes());
        }
    }
}

impl GuestMemory for Ram {
    fn read(&self, address: u64, data: &mut [u8]) -> Result<(), DmaError> {
        let range = self.range(address, data.len())?;
        data.copy_from_slice(&self.bytes.borrow()[range]);
        Ok(())
    }
    fn write(&self, address: u64, data: &[u8]) -> Result<(), DmaError> {
        let range = self.range(address, data.len())?;
        self.bytes.borrow_mut()[range].copy_from_slice(data);
        Ok(())
    }
}

/// The chip, reached through I/O space unless said otherwise.
pub struct Bench {
    pub rhine: Rhine,
    pub ram: Ram,
    pub now: Duration,
}

impl Bench {
    pub fn new(chip: Chip) -> Bench {
        Bench::with(chip, Faults::default())
    }

    pub fn with(chip: Chip, faults: Faults) -> Bench {
        let rhine = Rhine::new(chip, MAC, faults, 1);
        Bench { rhine, ram: Ram::new(0x2_0000), now: Duration::ZERO }
    }

    fn read(&mut self, bar: usize, offset: u64, len: usize) -> u32 {
        let mut data = [0; 4];
        let context = Context { memory: &self.ram, now: self.now };
        self.rhine.read(bar, offset, &mut data[..len], context);
        u32::from_le_bytes(data)
    }

    fn write(&mut self, bar: usize, offset: u64, len: usize, value: u32) {
        let context = Context { memory: &self.ram, now: self.now };
        self.rhine.write(bar, offset, &value.to_le_bytes()[..len], context);
    }

    pub fn r8(&mut self, offset: u64) -> u8 {
        self.read(0, offset, 1) as u8
    }
    pub fn r16(&mut self, offset: u64) -> u16 {
        self.read(0, offset, 2) as u16
    }
    pub fn r32(&mut self, offset: u64) -> u32 {
        self.read(0, offset, 4)
    }
    pub fn w8(&mut self, offset: u64, value: u8) {
        self.write(0, offset, 1, value.into());
    }
    pub fn w16(&mut self, offset: u64, value: u16) {
        self.write(0, offset, 2, value.into());
    }
    pub fn w32(&mut self, offset: u64, value: u32) {
        self.write(0, offset, 4, value);
    }
    pub fn memory_r8(&mut self, offset: u64) -> u8 {
        self.read(1, offset, 1) as u8
    }
    pub fn memory_w8(&mut self, offset: u64, value: u8) {
        self.write(1, offset, 1, value.into());
    }

    pub fn wire(&mut self, frame: &[u8]) {
        let context = Context { memory: &self.ram, now: self.now };
        self.rhine.receive(frame, context);
    }

    pub fn later(&mut self, by: Duration) {
        self.now += by;
        let context = Context { memory: &self.ram, now: self.now };
        self.rhine.advance(context);
    }

    pub fn sent(&mut self) -> Vec<Vec<u8>> {
        std::iter::from_fn(|| self.rhine.take_frame()).collect()
    }

    /// MII register through the command interface.
    pub fn mii(&mut self, register: u8) -> u16 {
        self.w8(0x71, register);
        self.w8(0x70, 0x40);
        self.r16(0x72)
    }

    pub fn mii_write(&mut self, register: u8, value: u16) {
        self.w8(0x71, register);
        self.w16(0x72, value);
        self.w8(0x70, 0x20);
    }

    /// Starts both engines, as drivers do: accept everything, full duplex, no polling.
    pub fn start(&mut self) {
        self.w8(0x06, 0x1e);
        self.w32(0x10, 0xffff_ffff);
        self.w32(0x14, 0xffff_ffff);
        self.w32(0x18, RX_RING as u32);
        self.w32(0x1c, TX_RING as u32);
        self.w16(0x0e, 0xfeff);
        self.w16(0x08, 0x0c1a);
    }

    /// A receive ring of `sizes.len()` descriptors, the buffers `RX_BUFFERS` + 2 KiB each.
    pub fn rx_ring(&mut self, sizes: &[u32]) {
        let n = sizes.len() as u64;
        for (i, &size) in (0..).zip(sizes) {
            let next = RX_RING + 16 * ((i + 1) % n);
            let buffer = RX_BUFFERS + 2048 * i;
            self.ram.descriptor(RX_RING + 16 * i, [1 << 31, size, buffer as u32, next as u32]);
        }
    }

    /// One transmit descriptor per piece of a frame, the first owned; the one after is not.
    pub fn tx_frame(&mut self, pieces: &[&[u8]], control: u32, vlan: u32) {
        let mut buffer = TX_BUFFERS;
        for (i, piece) in pieces.iter().enumerate() {
            let at = TX_RING + 16 * i as u64;
            let (first, last) = (i == 0, i == pieces.len() - 1);
            let mut word = 0x8000 | control | piece.len() as u32;
            word |= if first { 1 << 21 } else { 0 } | if last { 0xc0_0000 } else { 0 };
            self.ram.set(buffer, piece);
            let owner = if first { 1 << 31 | vlan << 16 } else { 0 };
            self.ram.descriptor(at, [owner, word, buffer as u32, (at + 16) as u32]);
            buffer += 2048;
        }
        self.ram.descriptor(TX_RING + 16 * pieces.len() as u64, [0; 4]);
    }
}

pub const TX_RING: u64 = BASE;
pub const RX_RING: u64 = BASE + 0x1000;
pub const RX_BUFFERS: u64 = BASE + 0x2000;
pub const TX_BUFFERS: u64 = BASE + 0x1_0000;

/// An Ethernet II frame of `len` bytes with counting payload.
pub fn frame(to: [u8; 6], len: usize) -> Vec<u8> {
    let mut frame = [&to[..], &PEER, &[0x88, 0xb5]].concat();
    frame.extend((frame.len()..len).map(|i| i as u8));
    frame
}

/// UDP "abc" from 10.0.0.1:1 to 10.0.0.2:2; sums by hand (0x66cc, 0x2770), padded to 60.
pub fn udp_frame() -> Vec<u8> {
    let mut frame = [&MAC[..], &PEER, &[0x08, 0x00]].concat();
    frame.extend([0x45, 0, 0, 31, 0, 0, 0, 0, 0x40, 17, 0x66, 0xcc, 10, 0, 0, 1, 10, 0, 0, 2]);
    frame.extend([0, 1, 0, 2, 0, 11, 0x27, 0x70, b'a', b'b', b'c']);
    frame.resize(60, 0);
    frame
}

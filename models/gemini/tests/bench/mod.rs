//! A bus with a Gemini's Ethernet block and some memory on it. Offsets and bits in these tests are restated
//! from docs/hardware/gemini.md, not imported from the model: a wrong constant must not agree with itself.
#![allow(dead_code, unreachable_pub, reason = "every test file uses a part")]

pub mod frames;

use std::cell::RefCell;
use std::time::Duration;
use trireme_gemini_model::{Board, BoardKind, Faults, Gemini};
use trireme_vfio::{Context, Device, DmaError, GuestMemory};

pub const MAC: [u8; 6] = [0x14, 0xd6, 0x4d, 0xa8, 0x3c, 0x4e];
pub const PEER: [u8; 6] = [0xfc, 0x34, 0x97, 0x01, 0xa0, 0xc6];

/// Memory at 1 MiB, filled with 0xa5, that notes every access outside.
pub struct Ram {
    bytes: RefCell<Vec<u8>>,
    pub outside: RefCell<Vec<u64>>,
}

pub const BASE: u64 = 0x10_0000;
const SIZE: usize = 0x8_0000;

impl Ram {
    fn range(&self, address: u64, len: usize) -> Result<std::ops::Range<usize>, DmaError> {
        let start = address.checked_sub(BASE).and_then(|start| usize::try_from(start).ok());
        let range = start.and_then(|s| Some(s..s.checked_add(len)?));
        match range.filter(|range| range.end <= SIZE) {
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

    pub fn words(&self, address: u64) -> [u32; 4] {
        let bytes = self.get(address, 16);
        [0, 4, 8, 12].map(|i| u32::from_le_bytes(bytes[i..i + 4].try_into().unwrap()))
    }

    pub fn descriptor(&self, address: u64, words: [u32; 4]) {
        let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        self.set(address, &bytes);
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

/// Six transmit rings of 256 per port, receive rings of 512, a free queue of 1024.
pub const TX_RINGS: u64 = BASE;
pub const RX_RINGS: u64 = BASE + 0xc000;
pub const FREE_RING: u64 = BASE + 0x1_0000;
pub const TX_BUFFERS: u64 = BASE + 0x1_4000;
pub const RX_BUFFERS: u64 = BASE + 0x3_0000;
/// Receive buffers that fit.
pub const BUFFERS: u64 = 160;

/// The block.
pub struct Bench {
    pub gemini: Gemini,
    pub ram: Ram,
    pub now: Duration,
    tx_write: [u16; 2],
}

impl Bench {
    pub fn new() -> Bench {
        Bench::with(BoardKind::Fixed, "")
    }

    pub fn with(board: BoardKind, faults: &str) -> Bench {
        let faults: Faults = faults.parse().unwrap();
        let ram = Ram { bytes: RefCell::new(vec![0xa5; SIZE]), outside: RefCell::default() };
        let gemini = Gemini::new(Board::new(board), MAC, faults, 1);
        Bench { gemini, ram, now: Duration::ZERO, tx_write: [0; 2] }
    }

    pub fn read(&mut self, bar: usize, offset: u64, len: usize) -> u32 {
        let mut data = [0; 4];
        let context = Context { memory: &self.ram, now: self.now };
        self.gemini.read(bar, offset, &mut data[..len], context);
        u32::from_le_bytes(data)
    }

    pub fn write(&mut self, bar: usize, offset: u64, len: usize, value: u32) {
        let context = Context { memory: &self.ram, now: self.now };
        self.gemini.write(bar, offset, &value.to_le_bytes()[..len], context);
    }

    pub fn r16(&mut self, offset: u64) -> u16 {
        self.read(0, offset, 2) as u16
    }
    pub fn r32(&mut self, offset: u64) -> u32 {
        self.read(0, offset, 4)
    }
    pub fn w16(&mut self, offset: u64, value: u16) {
        self.write(0, offset, 2, value.into());
    }
    pub fn w32(&mut self, offset: u64, value: u32) {
        self.write(0, offset, 4, value);
    }

    pub fn wire(&mut self, wire: usize, frame: &[u8]) {
        let context = Context { memory: &self.ram, now: self.now };
        self.gemini.receive_on(wire, frame, context);
    }

    pub fn later(&mut self, by: Duration) -> Option<Duration> {
        self.now += by;
        let context = Context { memory: &self.ram, now: self.now };
        self.gemini.advance(context)
    }

    /// Frames out, with their wires.
    pub fn sent_on(&mut self) -> Vec<(usize, Vec<u8>)> {
        std::iter::from_fn(|| self.gemini.take_frame_for()).collect()
    }

    pub fn sent(&mut self) -> Vec<Vec<u8>> {
        self.sent_on().into_iter().map(|(_, frame)| frame).collect()
    }

    /// Brings everything up in Linux's order (sheet 6.1, P5 to O7), with `buffers` receive buffers of
    /// `size` bytes.
    pub fn start_with(&mut self, buffers: u64, size: u32) {
        for (group, select) in [0xccfc_0fc0, 0x00f0_0002, 0xffff_ffff, 0xffff_ffff, 0xff00_0003]
            .into_iter()
            .enumerate()
        {
            let at = 0x20 + 16 * group as u64;
            self.w32(at + 4, 0);
            self.w32(at + 8, select);
            self.w32(at, 0xffff_ffff);
        }
        for offset in [0x04, 0x08, 0x14, 0x18] {
            self.w32(offset, 0);
        }
        for i in 0..1024 {
            let address = RX_BUFFERS + u64::from(size) * (i % buffers.max(1));
            self.ram.descriptor(FREE_RING + 16 * i, [0, 0, address as u32, 0]);
        }
        self.tx_write = [0; 2];
        self.w16(0x16, buffers as u16);
        self.w32(0x70, 0);
        self.w32(0x10, size);
        self.w32(0x04, FREE_RING as u32 | 10);
        for port in 0..2u64 {
            let (dma, gmac) = (0x8000 + 0x4000 * port, 0xa000 + 0x4000 * port);
            self.w32(gmac + 0x2c, 0x6d);
            self.w32(gmac + 0x18, 0x3f96_0103);
            self.w32(gmac + 0x1c, 0x1810);
            self.w32(gmac + 0x20, 0x0020_0010);
            self.w32(gmac + 0x24, 0);
            self.w32(dma + 0xc8, 0x000f_8421);
            self.w32(dma + 0x04, 0x0004_1041);
            self.w32(dma + 0x08, 0x0210_8421);
            self.w32(gmac + 0x0c, 7);
            self.w32(0x2000 + 8 * port, (RX_RINGS + 0x2000 * port) as u32 | 9);
            self.w32(0x2004 + 8 * port, 0);
            self.w32(dma + 0x50, (TX_RINGS + 0x6000 * port) as u32 | 8);
            self.w32(dma, 0xc002_3c1c);
            self.w32(gmac + 0x18, 0x3f96_0100);
        }
        self.gemini.take_frame_for();
    }

    pub fn start(&mut self) {
        self.start_with(BUFFERS, 2048);
    }

    /// Address of a slot of port 0's or 1's first transmit ring.
    pub fn tx_slot(port: usize, index: u16) -> u64 {
        TX_RINGS + 0x6000 * port as u64 + 16 * u64::from(index % 256)
    }

    pub fn rx_slot(port: usize, index: u16) -> u64 {
        RX_RINGS + 0x2000 * port as u64 + 16 * u64::from(index % 512)
    }

    /// Puts a frame of these pieces in queue 0 without ringing; returns the index of its first
    /// descriptor. Words 1 and 3 stand in each descriptor. \[5.2\]
    pub fn put(&mut self, port: usize, pieces: &[&[u8]], control: u32, mtu: u32) -> u16 {
        let first = self.tx_write[port];
        let total: usize = pieces.iter().map(|piece| piece.len()).sum();
        let mut buffer = TX_BUFFERS;
        for (i, piece) in pieces.iter().enumerate() {
            self.ram.set(buffer, piece);
            let sof = if i == 0 { 1 << 31 } else { 0 };
            let eof = if i + 1 == pieces.len() { 1 << 30 } else { 0 };
            let words =
                [piece.len() as u32, control | total as u32, buffer as u32, mtu | sof | eof];
            self.ram.descriptor(Bench::tx_slot(port, self.tx_write[port]), words);
            self.tx_write[port] = (self.tx_write[port] + 1) % 256;
            buffer += piece.len().next_multiple_of(16) as u64;
        }
        first
    }

    /// Moves queue 0's write pointer behind everything put.
    pub fn ring(&mut self, port: usize) {
        let write = self.tx_write[port];
        self.w16(0x800e + 0x4000 * port as u64, write);
    }

    /// Sends a frame through port 0 and returns what came out.
    pub fn send(&mut self, pieces: &[&[u8]], control: u32, mtu: u32) -> Vec<Vec<u8>> {
        self.put(0, pieces, control, mtu);
        self.ring(0);
        self.sent()
    }

    /// Words of the receive descriptors of `port` up to the write pointer, which are then given back.
    pub fn received(&mut self, port: usize) -> Vec<[u32; 4]> {
        let header = 0x2004 + 8 * port as u64;
        let (mut read, write) = (self.r16(header), self.r16(header + 2));
        let mut all = Vec::new();
        while read != write {
            all.push(self.ram.words(Bench::rx_slot(port, read)));
            read = (read + 1) % 512;
        }
        self.w16(header, read);
        all
    }
}

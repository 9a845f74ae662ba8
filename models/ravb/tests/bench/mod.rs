//! A bus with the block and some memory on it. Offsets and bits in these tests are restated from
//! `docs/hardware/ravb.md`, not imported from the model: a wrong constant must not agree with itself.
#![allow(dead_code, unreachable_pub, reason = "every test file uses a part")]

use std::cell::RefCell;
use std::time::Duration;
use trireme_ravb_model::{Faults, Ravb, Variant};
use trireme_vfio::{Context, Device, DmaError, GuestMemory};

pub const MAC: [u8; 6] = [0x2e, 0x09, 0x0a, 0x12, 0x34, 0x56];
pub const PEER: [u8; 6] = [0x02, 0, 0, 0, 0, 0x99];
pub use Variant::{GbEth, Gen2, Gen3};
pub const ALL: [Variant; 3] = [Gen2, Gen3, GbEth];
pub const AVB: [Variant; 2] = [Gen2, Gen3];

pub const BASE: u32 = 0x4000_0000;
pub const TABLE: u32 = BASE;
pub const TX_RING: u32 = BASE + 0x1000;
pub const NC_TX_RING: u32 = BASE + 0x1800;
pub const RX_RING: u32 = BASE + 0x2000;
pub const NC_RX_RING: u32 = BASE + 0x3000;
pub const TX_BUFFERS: u32 = BASE + 0x4000;
pub const RX_BUFFERS: u32 = BASE + 0x1_0000;
pub const NC_BUFFERS: u32 = BASE + 0x3_0000;
const SIZE: usize = 0x4_0000;

/// Memory at `BASE`, filled with 0xa5, that notes every access outside.
pub struct Ram {
    bytes: RefCell<Vec<u8>>,
    pub outside: RefCell<Vec<u64>>,
}

impl Ram {
    fn range(&self, address: u64, len: usize) -> Result<std::ops::Range<usize>, DmaError> {
        let start = address.checked_sub(u64::from(BASE)).and_then(|s| usize::try_from(s).ok());
        let range = start.and_then(|s| Some(s..s.checked_add(len)?));
        match range.filter(|range| range.end <= SIZE) {
            Some(range) => Ok(range),
            None => {
                self.outside.borrow_mut().push(address);
                Err(DmaError { address, len })
            }
        }
    }

    pub fn get(&self, address: u32, len: usize) -> Vec<u8> {
        self.bytes.borrow()[(address - BASE) as usize..][..len].to_vec()
    }

    pub fn set(&self, address: u32, data: &[u8]) {
        self.bytes.borrow_mut()[(address - BASE) as usize..][..data.len()].copy_from_slice(data);
    }

    pub fn word(&self, address: u32) -> u32 {
        u32::from_le_bytes(self.get(address, 4).try_into().unwrap())
    }

    pub fn put(&self, address: u32, words: &[u32]) {
        for (i, word) in (0..).zip(words) {
            self.set(address + 4 * i, &word.to_le_bytes());
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

pub struct Bench {
    pub ravb: Ravb,
    pub ram: Ram,
    pub now: Duration,
    pub variant: Variant,
    /// Where the next transmit descriptor goes.
    tx: u32,
}

impl Bench {
    pub fn new(variant: Variant) -> Bench {
        Bench::with(variant, "")
    }

    pub fn with(variant: Variant, faults: &str) -> Bench {
        Bench::faulty(variant, faults.parse().unwrap())
    }

    pub fn faulty(variant: Variant, faults: Faults) -> Bench {
        let ram = Ram { bytes: RefCell::new(vec![0xa5; SIZE]), outside: RefCell::default() };
        let ravb = Ravb::new(variant, MAC, faults, 1);
        Bench { ravb, ram, now: Duration::ZERO, variant, tx: TX_RING }
    }

    pub fn r(&mut self, offset: u64) -> u32 {
        let mut data = [0; 4];
        let context = Context { memory: &self.ram, now: self.now };
        self.ravb.read(0, offset, &mut data, context);
        u32::from_le_bytes(data)
    }

    pub fn w(&mut self, offset: u64, value: u32) {
        let context = Context { memory: &self.ram, now: self.now };
        self.ravb.write(0, offset, &value.to_le_bytes(), context);
    }

    pub fn wire(&mut self, frame: &[u8]) {
        let context = Context { memory: &self.ram, now: self.now };
        self.ravb.receive(frame, context);
    }

    pub fn later(&mut self, ms: u64) -> Option<Duration> {
        self.now += Duration::from_millis(ms);
        let context = Context { memory: &self.ram, now: self.now };
        self.ravb.advance(context)
    }

    pub fn sent(&mut self) -> Vec<Vec<u8>> {
        std::iter::from_fn(|| self.ravb.take_frame()).collect()
    }

    pub fn faults(&mut self, change: impl FnOnce(&mut Faults)) {
        change(self.ravb.faults_mut());
    }

    /// DBAT with queues 0 and 1 both ways where they exist; the rest is EOS.
    pub fn table(&mut self) {
        for q in 0..22 {
            self.ram.put(TABLE + 8 * q, &[0xa000_0000, 0]);
        }
        let mut entries = vec![(0, TX_RING), (4, RX_RING)];
        if self.variant != GbEth {
            entries.extend([(1, NC_TX_RING), (5, NC_RX_RING)]);
        }
        for (q, ring) in entries {
            self.ram.put(TABLE + 8 * q, &[0x9000_0000, ring]);
            self.ram.put(ring, &[0xa000_0000, 0]);
        }
        self.w(0x004, TABLE);
    }

    /// Enters OPERATION as Linux does, with checksums off, and opens the E-MAC at 1000 Mbit/s.
    pub fn start(&mut self) {
        self.start_with(if self.variant == GbEth { 0x6000_0000 } else { 0x1800_001f });
    }

    pub fn start_with(&mut self, rcr: u32) {
        let gbeth = self.variant == GbEth;
        self.w(0x000, if self.variant == Gen3 { 0x0001_0081 } else { 1 });
        if self.variant == Gen2 {
            self.w(0x000, 0x0001_0001);
        }
        self.table();
        self.w(0x090, rcr);
        if gbeth {
            self.w(0x0b4, 0x7ffc_2000);
        }
        self.w(0x300, if gbeth { 0x0022_2200 } else { 0x0011_2210 });
        self.w(0x304, if gbeth { 0 } else { 0x100 });
        if self.variant == Gen3 {
            self.w(0x440, 0);
            self.w(0x384, 0x0002_0101);
        }
        let ccc = self.r(0x000);
        self.w(0x000, ccc & !3 | 2);
        assert_eq!(self.r(0x00c) & 0xf, 4);
        if gbeth {
            self.w(0x540, 0x03e8_0000);
            self.w(0x530, 1);
            self.w(0x508, 0x2004);
            self.w(0x500, 0x020b_0062);
            self.w(0x5b0, 0x20);
            self.w(0x800, 0x30);
        } else {
            self.w(0x508, 0x804);
            self.w(0x500, 0x0008_0062);
            self.w(0x5b0, 1);
        }
    }

    /// A receive ring at `ring` with buffers of these sizes, 2 KiB apart from `buffers` on, and a
    /// LINKFIX to its start.
    pub fn ring(&mut self, ring: u32, stride: u32, buffers: u32, sizes: &[u32]) {
        for (i, size) in (0..).zip(sizes) {
            self.ram.put(ring + stride * i, &[0xc000_0000 | size, buffers + 2048 * i]);
        }
        self.ram.put(ring + stride * sizes.len() as u32, &[0x9000_0000, ring]);
    }

    pub fn stride(&self) -> u32 {
        if self.variant == GbEth { 8 } else { 20 }
    }

    /// The best-effort receive ring.
    pub fn rx_ring(&mut self, sizes: &[u32]) {
        self.ring(RX_RING, self.stride(), RX_BUFFERS, sizes);
    }

    /// Word 0 of a best-effort receive descriptor.
    pub fn rx_word(&self, i: u32) -> u32 {
        self.ram.word(RX_RING + self.stride() * i)
    }

    /// What a best-effort receive descriptor holds.
    pub fn rx_data(&self, i: u32) -> Vec<u8> {
        self.ram.get(RX_BUFFERS + 2048 * i, (self.rx_word(i) & 0xfff) as usize)
    }

    /// Puts a frame of these pieces behind what the transmit ring holds, and EEMPTY behind it. Returns
    /// the first descriptor's address.
    pub fn tx(&mut self, pieces: &[&[u8]]) -> u32 {
        let (first, last) = (self.tx, pieces.len() - 1);
        for (i, piece) in pieces.iter().enumerate() {
            let kind = match (i == 0, i == last) {
                (true, true) => 7,
                (true, false) => 5,
                (false, true) => 6,
                (false, false) => 4,
            };
            let buffer = TX_BUFFERS + (self.tx - TX_RING) / 8 * 2048 % 0xc000;
            self.ram.set(buffer, piece);
            self.ram.put(self.tx, &[kind << 28 | piece.len() as u32, buffer]);
            self.tx += 8;
        }
        self.ram.put(self.tx, &[0x3000_0000, 0]);
        first
    }

    /// TCCR.TSRQ of a queue, as drivers set it.
    pub fn demand(&mut self, queue: u32) {
        let value = self.r(0x304);
        self.w(0x304, value | 1 << queue);
    }

    /// Sends a frame in one piece and returns what came out.
    pub fn send(&mut self, frame: &[u8]) -> Vec<Vec<u8>> {
        if self.tx > TX_RING + 0x700 {
            self.tx = TX_RING;
            self.w(0x008, 1);
        }
        self.tx(&[frame]);
        self.demand(0);
        self.sent()
    }
}

/// An Ethernet II frame of `len` bytes with counting payload.
pub fn frame(to: [u8; 6], len: usize) -> Vec<u8> {
    let mut frame = [&to[..], &PEER, &[0x88, 0xb5]].concat();
    frame.extend((frame.len()..len).map(|i| i as u8));
    frame
}

/// The sheet's UDP datagram behind a header: 192.168.1.1:1000 to 192.168.1.2:2000, "hello!!", right
/// sums, not padded (5.1, 5.3).
pub fn udp() -> Vec<u8> {
    let mut frame = [&MAC[..], &PEER, &[0x08, 0x00]].concat();
    frame.extend(hex("45000023000100004011F775C0A80101C0A8010203E807D0000F0BD168656C6C6F2121"));
    frame
}

pub fn hex(text: &str) -> Vec<u8> {
    (0..text.len()).step_by(2).map(|i| u8::from_str_radix(&text[i..i + 2], 16).unwrap()).collect()
}

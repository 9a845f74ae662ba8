//! Driver and model in one process: registers and DMA meet over two memories, so that a missing
//! hand-over fails here and not on a board.
#![allow(dead_code, unreachable_pub, reason = "every test file uses a part")]

use std::num::NonZeroU16;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use trireme_nic::double::TwoMemories;
use trireme_nic::{
    FrameShape, Network, Nic, ReceiveChecksum, Registers, TransmitRequest, Transport, checksum,
};
use trireme_ravb::{Config, Delays, Error, Ravb, Variant};
use trireme_ravb_model::{Counters, Faults, Ravb as Model, Variant as ModelVariant};
use trireme_vfio::{Context, Device, DmaError, GuestMemory};

pub const MAC: [u8; 6] = [0x2e, 0x09, 0x0a, 0x12, 0x34, 0x56];
pub const PEER: [u8; 6] = [0x02, 0, 0, 0, 0, 0x99];
pub const FALLBACK: [u8; 6] = [0x02, 1, 2, 3, 4, 5];
pub const BUFFERS: usize = 64;
/// Frames that can be on their way out.
pub const ROOM: usize = 128;

pub const VARIANTS: [Variant; 3] = [Variant::Gen2, Variant::Gen3, Variant::Gbeth];
pub const AVB: [Variant; 2] = [Variant::Gen2, Variant::Gen3];

pub fn model_of(variant: Variant) -> ModelVariant {
    match variant {
        Variant::Gen2 => ModelVariant::Gen2,
        Variant::Gen3 => ModelVariant::Gen3,
        Variant::Gbeth => ModelVariant::GbEth,
    }
}

struct Memory(TwoMemories);

impl GuestMemory for Memory {
    fn read(&self, address: u64, data: &mut [u8]) -> Result<(), DmaError> {
        let len = data.len();
        self.0.device_read(address, data).map_err(|_| DmaError { address, len })
    }
    fn write(&self, address: u64, data: &[u8]) -> Result<(), DmaError> {
        let len = data.len();
        self.0.device_write(address, data).map_err(|_| DmaError { address, len })
    }
}

/// A card that lies: registers that say anything, and writes to any memory it was given, at any moment.
#[derive(Clone, Debug)]
pub struct Hostile {
    state: u64,
    /// One in so many reads is a lie, and one in so many accesses comes with a write.
    pub lies: u32,
    pub scribbles: u32,
}

impl Hostile {
    pub fn new(seed: u64, lies: u32, scribbles: u32) -> Hostile {
        Hostile { state: seed | 1, lies, scribbles }
    }

    pub fn random(&mut self) -> u32 {
        // Marsaglia's xorshift64.
        self.state ^= self.state << 13;
        self.state ^= self.state >> 7;
        self.state ^= self.state << 17;
        (self.state >> 20) as u32
    }

    fn strikes(&mut self, one_in: u32) -> bool {
        one_in != 0 && self.random().is_multiple_of(one_in)
    }

    fn distort(&mut self, value: u32) -> u32 {
        let other = self.random();
        match self.random() % 6 {
            0 => 0,
            1 => u32::MAX,
            2 => value ^ 1 << (other % 32),
            3 => value & other,
            4 => value | other,
            _ => other,
        }
    }

    /// What could stand in a descriptor: every type, and lengths at and beyond every limit.
    pub fn descriptor(&mut self) -> u32 {
        let lengths = [0, 1, 2, 13, 14, 17, 18, 60, 1514, 2046, 2047, 2048, 2049, 0xfff];
        let len = match self.random() % 4 {
            0 => self.random() & 0xfff,
            _ => lengths[self.random() as usize % lengths.len()],
        };
        let flags = if self.random().is_multiple_of(3) { self.random() & 0x0fff_f000 } else { 0 };
        self.random() << 28 | flags | len
    }

    fn scribble(&mut self, memory: &TwoMemories) {
        let regions = memory.coherent();
        if regions.is_empty() {
            return;
        }
        let (bus, len) = regions[self.random() as usize % regions.len()];
        for _ in 0..self.random() % 8 {
            let at = bus + u64::from(self.random()) % len as u64 / 4 * 4;
            let word = self.descriptor();
            memory.device_write(at, &word.to_le_bytes()).unwrap();
        }
    }
}

pub struct Card {
    pub hostile: Option<Hostile>,
    pub model: Model,
    memory: Memory,
    pub now: Duration,
    /// Register accesses so far, for counting what a packet costs.
    pub accesses: u64,
    /// Every write, as (offset, value).
    pub writes: Vec<(usize, u32)>,
}

impl Card {
    fn with<T>(&mut self, call: impl FnOnce(&mut Model, Context<'_>) -> T) -> T {
        call(&mut self.model, Context { memory: &self.memory, now: self.now })
    }
}

/// The card's registers.
#[derive(Clone)]
pub struct Bar(pub Arc<Mutex<Card>>);

impl Registers for Bar {
    fn read32(&self, offset: usize) -> u32 {
        let mut card = self.0.lock().unwrap();
        let card = &mut *card;
        card.accesses += 1;
        let mut data = [0; 4];
        card.with(|model, context| model.read(0, offset as u64, &mut data, context));
        let value = u32::from_le_bytes(data);
        let Some(hostile) = &mut card.hostile else { return value };
        if hostile.strikes(hostile.scribbles) {
            hostile.scribble(&card.memory.0);
        }
        if hostile.strikes(hostile.lies) { hostile.distort(value) } else { value }
    }
    fn write32(&self, offset: usize, value: u32) {
        let mut card = self.0.lock().unwrap();
        card.accesses += 1;
        card.writes.push((offset, value));
        card.with(|model, context| model.write(0, offset as u64, &value.to_le_bytes(), context));
    }
    fn read8(&self, _: usize) -> u8 {
        panic!("all registers are words")
    }
    fn read16(&self, _: usize) -> u16 {
        panic!("all registers are words")
    }
    fn write8(&self, _: usize, _: u8) {
        panic!("all registers are words")
    }
    fn write16(&self, _: usize, _: u16) {
        panic!("all registers are words")
    }
}

/// Driver, model and clock.
pub struct Rig {
    pub card: Arc<Mutex<Card>>,
    pub driver: Ravb<Bar, TwoMemories>,
}

pub fn card(dma: &TwoMemories, variant: Variant, faults: Faults) -> Arc<Mutex<Card>> {
    let model = Model::new(model_of(variant), MAC, faults, 7);
    let memory = Memory(dma.clone());
    Arc::new(Mutex::new(Card {
        hostile: None,
        model,
        memory,
        now: Duration::ZERO,
        accesses: 0,
        writes: Vec::new(),
    }))
}

/// What the machine gives the driver; time passes in the model while the driver waits.
pub fn config(card: &Arc<Mutex<Card>>, variant: Variant) -> Config {
    let clock = card.clone();
    let delay = move |us: u32| {
        let mut card = clock.lock().unwrap();
        card.now += Duration::from_micros(us.into());
        card.with(|model, context| model.advance(context));
    };
    Config {
        variant,
        mac: None,
        fallback_mac: FALLBACK,
        phy: None,
        delays: Delays { mac_transmit: true, ..Delays::default() },
        link_pin: true,
        gptp_clock_hz: 133_333_333,
        receive_buffers: BUFFERS,
        delay: Box::new(delay),
    }
}

pub fn try_rig(variant: Variant, faults: Faults) -> Result<Rig, (Error, Arc<Mutex<Card>>)> {
    let dma = TwoMemories::new(64);
    let card = card(&dma, variant, faults);
    match Ravb::new(Bar(card.clone()), dma, config(&card, variant)) {
        Ok(driver) => Ok(Rig { card, driver }),
        Err(error) => Err((error, card)),
    }
}

impl Rig {
    /// A healthy card with its link up.
    pub fn new(variant: Variant) -> Rig {
        Rig::with(variant, Faults::default())
    }

    pub fn with(variant: Variant, faults: Faults) -> Rig {
        let mut rig = match try_rig(variant, faults) {
            Ok(rig) => rig,
            Err((error, _)) => panic!("{error}"),
        };
        rig.settle();
        rig
    }

    /// Time passes until the link is up, as negotiation takes it.
    pub fn settle(&mut self) {
        for _ in 0..100 {
            self.serve();
            if self.driver.link().up {
                return;
            }
            self.later(Duration::from_millis(100));
        }
        panic!("no link in ten seconds");
    }

    pub fn faults(&self, change: impl FnOnce(&mut Faults)) {
        change(self.card.lock().unwrap().model.faults_mut());
    }

    pub fn hostile(&self, hostile: Option<Hostile>) {
        self.card.lock().unwrap().hostile = hostile;
    }

    pub fn interrupt(&self) -> bool {
        self.card.lock().unwrap().model.interrupt()
    }

    pub fn wire(&self, frame: &[u8]) {
        self.card.lock().unwrap().with(|model, context| model.receive(frame, context));
    }

    pub fn sent(&self) -> Vec<Vec<u8>> {
        let mut card = self.card.lock().unwrap();
        std::iter::from_fn(|| card.model.take_frame()).collect()
    }

    pub fn later(&self, by: Duration) {
        let mut card = self.card.lock().unwrap();
        card.now += by;
        card.with(|model, context| model.advance(context));
    }

    pub fn now_us(&self) -> u64 {
        self.card.lock().unwrap().now.as_micros() as u64
    }

    /// What happened to the card's registers since the last time, as (offset, value).
    pub fn take_writes(&self) -> Vec<(usize, u32)> {
        std::mem::take(&mut self.card.lock().unwrap().writes)
    }

    pub fn accesses(&self) -> u64 {
        self.card.lock().unwrap().accesses
    }

    /// What the model saw.
    pub fn seen(&self) -> Counters {
        self.card.lock().unwrap().model.counters()
    }

    /// A register as it is, looked at from outside.
    pub fn register(&self, offset: usize) -> u32 {
        Bar(self.card.clone()).read32(offset)
    }

    /// The memory driver and card share.
    pub fn memory(&self) -> TwoMemories {
        self.card.lock().unwrap().memory.0.clone()
    }

    /// A word of memory as the card sees it.
    pub fn word(&self, bus: u32) -> u32 {
        let mut word = [0; 4];
        self.card.lock().unwrap().memory.0.device_read(bus.into(), &mut word).unwrap();
        u32::from_le_bytes(word)
    }

    /// The card writes to memory.
    pub fn poke(&self, bus: u32, bytes: &[u8]) {
        self.card.lock().unwrap().memory.0.device_write(bus.into(), bytes).unwrap();
    }

    /// Entry of the descriptor base address table: its control word, and where its ring is.
    pub fn entry(&self, queue: u32) -> (u32, u32) {
        let table = self.register(0x004);
        (self.word(table + 8 * queue), self.word(table + 8 * queue + 4))
    }

    /// The card fills a buffer of its main receive queue by itself: this slot, with these bytes, flags and type.
    pub fn store(&self, slot: u32, kind: u32, flags: u32, bytes: &[u8]) {
        let stride = if self.driver.variant() == Variant::Gbeth { 8 } else { 20 };
        let at = self.entry(4).1 + slot * stride;
        assert_eq!(self.word(at) >> 28, 0xc, "a buffer is there");
        self.poke(self.word(at + 4), bytes);
        self.poke(at, &(kind << 28 | flags | bytes.len() as u32).to_le_bytes());
    }

    /// Queues a frame with its time of leaving wanted, and rings. Returns its number.
    pub fn send_timed(&mut self, data: &[u8]) -> u32 {
        let mut buffer = self.driver.transmit_buffer(data.len()).expect("ring full");
        buffer.copy_from_slice(data);
        let request = request(&self.driver, data);
        let number = self.driver.ptp().expect("a clock").transmit_timed(buffer, &request);
        self.driver.flush();
        number
    }

    /// A card without faults from now on.
    pub fn heal(&self) {
        self.faults(|faults| *faults = Faults::default());
    }

    /// Time passes in steps of 100 ms, the stack doing its work, until this holds. Bounded.
    pub fn until(&mut self, what: &str, mut done: impl FnMut(&mut Rig) -> bool) {
        for _ in 0..100 {
            self.serve();
            if done(self) {
                return;
            }
            self.later(Duration::from_millis(100));
        }
        panic!("{what}: not in ten seconds");
    }

    /// What the link partner offers: its register 4, and bits 11 and 10 of our register 10.
    pub fn partner(&self, advertisement: u16, gigabit: u16) {
        self.card.lock().unwrap().model.set_partner(advertisement, gigabit);
    }

    pub fn cable(&self, plugged: bool) {
        self.card.lock().unwrap().model.set_cable(plugged);
    }

    /// What the stack does when woken, until the card may interrupt again. Bounded.
    pub fn serve(&mut self) -> Vec<(Vec<u8>, ReceiveChecksum)> {
        let mut frames = Vec::new();
        for _ in 0..100 {
            self.driver.service(self.now_us());
            while let Some(frame) = self.driver.receive() {
                frames.push((frame.buffer.to_vec(), frame.checksum));
                self.driver.recycle(frame);
            }
            if !self.driver.arm() {
                return frames;
            }
        }
        panic!("the card never gets quiet");
    }

    /// Queues a frame without ringing. False: the ring is full.
    pub fn queue(&mut self, frame: &[u8], request: &TransmitRequest) -> bool {
        let Some(mut buffer) = self.driver.transmit_buffer(frame.len()) else { return false };
        buffer.copy_from_slice(frame);
        self.driver.transmit(buffer, request);
        true
    }

    /// Sends as a stack does: the card's ability decides what it is asked for, and fields it is to fill
    /// hold zero.
    pub fn send(&mut self, frame: &[u8]) {
        let request = request(&self.driver, frame);
        let mut frame = frame.to_vec();
        if request.transport_checksum {
            let field = request.shape.checksum_offset().unwrap();
            frame[field..field + 2].fill(0);
        }
        assert!(self.queue(&frame, &request), "ring full");
        self.driver.flush();
    }

    pub fn counter(&self, name: &str) -> u64 {
        let mut found = None;
        self.driver.statistics(&mut |n, value| {
            if n == name {
                found = Some(value);
            }
        });
        found.unwrap_or_else(|| panic!("no counter {name}"))
    }

    /// Both directions, with bytes and sums right.
    pub fn works(&mut self) {
        self.settle();
        self.sent();
        let out = packet(6, 777);
        self.send(&out);
        // Some faults make the card slow.
        self.later(Duration::from_millis(3));
        assert_eq!(self.sent(), [out]);
        self.serve();
        let data = packet(6, 555);
        self.wire(&data);
        self.later(Duration::from_millis(3));
        let got = self.serve();
        assert_eq!(got.len(), 1);
        assert_eq!(got[0].0, data);
        assert!(proves(&data, got[0].1), "{:?}", got[0].1);
    }
}

/// Whether what the card said settles the transport sum of a plain, right packet.
pub fn proves(frame: &[u8], said: ReceiveChecksum) -> bool {
    match said {
        ReceiveChecksum::Verified { transport, .. } => transport,
        ReceiveChecksum::Complete(sum) => {
            // RFC 1071: a sum of a right header is ffff, so everything's is that of all words.
            let all = checksum::sum(&frame[14..]);
            sum % 0xffff == all % 0xffff
        }
        _ => false,
    }
}

pub fn request(nic: &impl Nic, frame: &[u8]) -> TransmitRequest {
    let shape = shape(frame, None);
    let ability = nic.transmit_ability(&shape);
    TransmitRequest {
        network_checksum: ability.network_checksum,
        transport_checksum: ability.transport_checksum,
        ..TransmitRequest::plain(shape)
    }
}

/// Shape of the frames made here.
pub fn shape(frame: &[u8], segment: Option<NonZeroU16>) -> FrameShape {
    let tag = if frame[12..14] == [0x81, 0] || frame[12..14] == [0x88, 0xa8] { 4 } else { 0 };
    let at = 14 + tag;
    let kind = [frame[at - 2], frame[at - 1]];
    let (network, protocol, start) = match kind {
        [8, 0] => {
            let header_len = (frame[at] & 0xf) * 4;
            let fragment = frame[at + 6] & 0x3f != 0 || frame[at + 7] != 0;
            (Network::Ipv4 { header_len, fragment }, frame[at + 9], at + usize::from(header_len))
        }
        [0x86, 0xdd] => {
            let extension_headers = frame[at + 6] == 0;
            let (protocol, header_len) =
                if extension_headers { (frame[at + 40], 48) } else { (frame[at + 6], 40) };
            (
                Network::Ipv6 { header_len, extension_headers, fragment: false },
                protocol,
                at + usize::from(header_len),
            )
        }
        _ => (Network::Other, 0, at),
    };
    let fragment = matches!(network, Network::Ipv4 { fragment: true, .. });
    let transport = match protocol {
        6 => Transport::Tcp { header_len: (frame[start + 12] >> 4) * 4 },
        17 => Transport::Udp,
        1 | 58 => Transport::Icmp,
        _ => Transport::Other,
    };
    let transport = if fragment { Transport::Other } else { transport };
    FrameShape { len: frame.len(), link_len: at as u8, tagged: false, network, transport, segment }
}

/// An Ethernet II frame of `len` bytes with counting payload.
pub fn frame(to: [u8; 6], len: usize) -> Vec<u8> {
    let mut frame = [&to[..], &PEER, &[0x88, 0xb5]].concat();
    frame.extend((frame.len()..len).map(|i| i as u8));
    frame
}

/// A PTP event message, which is network control: IEEE 1588 annex F.
pub fn ptp_frame(to: [u8; 6], len: usize) -> Vec<u8> {
    let mut frame = frame(to, len);
    frame[12..14].copy_from_slice(&[0x88, 0xf7]);
    frame
}

/// What a packet is made of.
#[derive(Clone, Copy, Debug)]
pub struct Recipe {
    /// IPv4 options or an IPv6 extension header of 8 bytes.
    pub options: bool,
    pub v6: bool,
    pub tag: Option<u16>,
    pub protocol: u8,
    /// Of the whole frame.
    pub len: usize,
    pub fragment: bool,
}

impl Recipe {
    pub const fn plain(protocol: u8, len: usize) -> Recipe {
        Recipe { options: false, v6: false, tag: None, protocol, len, fragment: false }
    }

    /// The frame, every sum right by definition.
    pub fn make(self) -> Vec<u8> {
        let mut frame = [&MAC[..], &PEER].concat();
        if let Some(tpid) = self.tag {
            frame.extend(tpid.to_be_bytes());
            frame.extend([0x60, 0x05]);
        }
        let (network, start);
        if self.v6 {
            frame.extend([0x86, 0xdd]);
            network = frame.len();
            let payload = (self.len - network - 40) as u16;
            frame.extend([0x60, 0, 0, 0]);
            frame.extend(payload.to_be_bytes());
            frame.extend([if self.options { 0 } else { self.protocol }, 64]);
            frame.extend([0xfd, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1]);
            frame.extend([0xfd, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2]);
            if self.options {
                frame.extend([self.protocol, 0, 1, 4, 0, 0, 0, 0]);
            }
            start = frame.len();
        } else {
            frame.extend([0x08, 0x00]);
            network = frame.len();
            let header = if self.options { 24 } else { 20 };
            frame.extend([0x40 | (header / 4), 0]);
            frame.extend(((self.len - network) as u16).to_be_bytes());
            let flags = if self.fragment { [0x20, 0] } else { [0x40, 0] };
            frame.extend([0x12, 0x34, flags[0], flags[1], 64, self.protocol, 0, 0]);
            frame.extend([10, 0, 0, 1, 10, 0, 0, 2]);
            if self.options {
                frame.extend([1, 1, 1, 0]);
            }
            start = frame.len();
            let sum = !checksum::sum(&frame[network..start]);
            frame[network + 10..network + 12].copy_from_slice(&sum.to_be_bytes());
        }
        frame.extend((frame.len()..self.len).map(|i| (i * 7) as u8));
        let transport = self.len - start;
        let field = match self.protocol {
            6 => {
                frame[start + 12] = 0x50;
                start + 16
            }
            17 => {
                frame[start + 4..start + 6].copy_from_slice(&(transport as u16).to_be_bytes());
                start + 6
            }
            _ => return frame,
        };
        frame[field..field + 2].fill(0);
        let addresses =
            if self.v6 { network + 8..network + 40 } else { network + 12..network + 20 };
        let pseudo = checksum::fold(
            u64::from(checksum::sum(&frame[addresses]))
                + u64::from(self.protocol)
                + transport as u64,
        );
        let sum = !checksum::add(pseudo, checksum::sum(&frame[start..]));
        let sum = if sum == 0 && self.protocol == 17 { 0xffff } else { sum };
        frame[field..field + 2].copy_from_slice(&sum.to_be_bytes());
        frame
    }
}

/// TCP or UDP over IPv4 with right sums, `len` bytes of frame.
pub fn packet(protocol: u8, len: usize) -> Vec<u8> {
    Recipe::plain(protocol, len).make()
}

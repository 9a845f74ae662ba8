//! Driver and model in one process: registers and DMA meet over two memories, so that a missing
//! hand-over fails here and not on a board.
#![allow(dead_code, unreachable_pub, reason = "every test file uses a part")]

#[path = "../../../../models/gemini/tests/bench/frames.rs"]
pub mod frames;

use frames::Spec;
use std::num::NonZeroU16;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use trireme_gemini::{Attached, Config, Error, Gemini, Lines, PortConfig, Windows};
use trireme_gemini_model::{Board, BoardKind, Counters, Faults, Gemini as Model};
use trireme_nic::double::{BusError, TwoMemories};
use trireme_nic::{
    FrameShape, Network, Nic, ReceiveChecksum, Registers, TransmitRequest, Transport,
};
use trireme_vfio::{Context, Device, DmaError, GuestMemory};

/// Port 0's as the boot loader leaves it; port 1's differs in the last bit.
pub const MAC: [u8; 6] = [0x14, 0xd6, 0x4d, 0xa8, 0x3c, 0x4e];
pub const PEER: [u8; 6] = [0xfc, 0x34, 0x97, 0x01, 0xa0, 0xc6];
pub const FALLBACK: [u8; 6] = [0x02, 1, 2, 3, 4, 5];
pub const BUFFERS: usize = 64;
/// Single frames that can be on their way out of a port.
pub const ROOM: usize = 63;
/// What that many buffers, and three large ones, take: lines have 16 bytes, as the FA526's.
pub const TRANSMIT_BYTES: usize = 4 * 63 * 2080 + 1;

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

pub struct Card {
    pub model: Model,
    memory: Memory,
    pub now: Duration,
    /// Register accesses so far, for counting what a packet costs.
    pub accesses: u64,
    /// Every write, as (window, offset, bytes, value).
    pub writes: Vec<(usize, usize, usize, u32)>,
    /// Nobody answers: the card is gone.
    pub gone: bool,
    /// A frame for a port that comes in right after so many more accesses.
    pub ambush: Option<(u64, usize, Vec<u8>)>,
}

impl Card {
    fn with<T>(&mut self, call: impl FnOnce(&mut Model, Context<'_>) -> T) -> T {
        call(&mut self.model, Context { memory: &self.memory, now: self.now })
    }

    fn spring(&mut self) {
        self.accesses += 1;
        match &mut self.ambush {
            Some((0, port, frame)) => {
                let (port, frame) = (*port, std::mem::take(frame));
                self.ambush = None;
                self.with(|model, context| model.receive_on(port, &frame, context));
            }
            Some((left, ..)) => *left -= 1,
            None => {}
        }
    }
}

/// One of the card's windows.
#[derive(Clone)]
pub struct Bar(pub Arc<Mutex<Card>>, pub usize);

impl Bar {
    fn load(&self, offset: usize, len: usize) -> u32 {
        let mut card = self.0.lock().unwrap();
        if card.gone {
            return u32::MAX >> (32 - 8 * len);
        }
        let mut data = [0; 4];
        card.with(|model, context| model.read(self.1, offset as u64, &mut data[..len], context));
        card.spring();
        u32::from_le_bytes(data)
    }

    fn store(&self, offset: usize, len: usize, value: u32) {
        let mut card = self.0.lock().unwrap();
        card.writes.push((self.1, offset, len, value));
        if !card.gone {
            let data = value.to_le_bytes();
            card.with(|model, context| model.write(self.1, offset as u64, &data[..len], context));
        }
        card.spring();
    }
}

impl Registers for Bar {
    fn read32(&self, offset: usize) -> u32 {
        self.load(offset, 4)
    }
    fn write32(&self, offset: usize, value: u32) {
        self.store(offset, 4, value);
    }
    fn read16(&self, offset: usize) -> u16 {
        self.load(offset, 2) as u16
    }
    fn write16(&self, offset: usize, value: u16) {
        self.store(offset, 2, value.into());
    }
    fn read8(&self, _: usize) -> u8 {
        panic!("no register has bytes")
    }
    fn write8(&self, _: usize, _: u8) {
        panic!("no register has bytes")
    }
}

pub type Port = Gemini<Bar, TwoMemories>;

/// Driver, model and clock.
pub struct Rig {
    pub card: Arc<Mutex<Card>>,
    pub dma: TwoMemories,
    pub ports: Vec<Port>,
}

pub fn card(dma: &TwoMemories, board: BoardKind, faults: &str) -> Arc<Mutex<Card>> {
    let faults: Faults = faults.parse().unwrap();
    Arc::new(Mutex::new(Card {
        model: Model::new(Board::new(board), MAC, faults, 7),
        memory: Memory(dma.clone()),
        now: Duration::ZERO,
        accesses: 0,
        writes: Vec::new(),
        gone: false,
        ambush: None,
    }))
}

/// What the machine gives the driver; time passes in the model while the driver waits.
pub fn config(card: &Arc<Mutex<Card>>) -> Config {
    let clock = card.clone();
    let delay = move |us: u32| {
        let mut card = clock.lock().unwrap();
        card.now += Duration::from_micros(us.into());
        card.with(|model, context| model.advance(context));
    };
    let port = |last| PortConfig {
        attached: Attached::Fixed { pause: false },
        mac: None,
        fallback_mac: [FALLBACK[0], FALLBACK[1], FALLBACK[2], FALLBACK[3], FALLBACK[4], last],
    };
    Config {
        ports: [Some(port(5)), Some(port(6))],
        lines: Lines::REFERENCE,
        receive_buffers: BUFFERS,
        transmit_bytes: TRANSMIT_BYTES,
        delay: Box::new(delay),
    }
}

pub fn windows(card: &Arc<Mutex<Card>>) -> Windows<Bar> {
    let [ethernet, global, gpio] = [0, 1, 2].map(|window| Bar(card.clone(), window));
    Windows { ethernet, global, gpio: Some(gpio) }
}

pub fn try_rig(board: BoardKind, faults: &str) -> Result<Rig, (Error, Arc<Mutex<Card>>)> {
    try_rig_with(board, faults, |_| ())
}

pub fn try_rig_with(
    board: BoardKind,
    faults: &str,
    change: impl FnOnce(&mut Config),
) -> Result<Rig, (Error, Arc<Mutex<Card>>)> {
    let dma = TwoMemories::new(16);
    let card = card(&dma, board, faults);
    let mut config = config(&card);
    change(&mut config);
    match Gemini::bring_up(windows(&card), dma.clone(), config) {
        Ok(ports) => Ok(Rig { card, dma, ports }),
        Err(error) => Err((error, card)),
    }
}

impl Default for Rig {
    fn default() -> Rig {
        Rig::with("")
    }
}

impl Rig {
    /// A card with two fixed links and these faults.
    pub fn with(faults: &str) -> Rig {
        match try_rig(BoardKind::Fixed, faults) {
            Ok(rig) => rig,
            Err((error, _)) => panic!("{error}"),
        }
    }

    pub fn faults(&self, faults: &str) {
        *self.card.lock().unwrap().model.faults_mut() = faults.parse().unwrap();
    }

    pub fn counters(&self) -> Counters {
        self.card.lock().unwrap().model.counters()
    }

    /// Nothing was done that a correct driver does not do.
    pub fn is_clean(&self) {
        let counters = self.counters();
        assert_eq!(counters.traps(), 0, "{counters:?}");
    }

    pub fn lines(&self) -> [bool; 2] {
        self.card.lock().unwrap().model.lines()
    }

    /// A frame comes in.
    pub fn wire(&self, port: usize, frame: &[u8]) {
        self.card.lock().unwrap().with(|model, context| model.receive_on(port, frame, context));
    }

    /// Frames out of any port, with its number.
    pub fn sent_on(&self) -> Vec<(usize, Vec<u8>)> {
        let mut card = self.card.lock().unwrap();
        std::iter::from_fn(|| card.model.take_frame_for()).collect()
    }

    pub fn sent(&self) -> Vec<Vec<u8>> {
        self.sent_on().into_iter().map(|(_, frame)| frame).collect()
    }

    pub fn later(&self, by: Duration) {
        let mut card = self.card.lock().unwrap();
        card.now += by;
        card.with(|model, context| model.advance(context));
    }

    pub fn now_us(&self) -> u64 {
        self.card.lock().unwrap().now.as_micros() as u64
    }

    /// What the stack does with a port when woken, until it may interrupt again. Bounded.
    pub fn serve(&mut self, n: usize) -> Vec<(Vec<u8>, ReceiveChecksum)> {
        let mut frames = Vec::new();
        for _ in 0..100 {
            let now = self.now_us();
            let port = &mut self.ports[n];
            port.service(now);
            while let Some(frame) = port.receive() {
                frames.push((frame.buffer.to_vec(), frame.checksum));
                port.recycle(frame);
            }
            if !port.arm() {
                return frames;
            }
        }
        panic!("the card never gets quiet");
    }

    /// Time passes, and the stack looks whenever a port wants it to.
    pub fn live(&mut self, by: Duration) {
        let end = self.now_us() + by.as_micros() as u64;
        for _ in 0..100_000 {
            let due = self.ports.iter().filter_map(Nic::service_at).min().unwrap_or(end);
            let now = self.now_us();
            if due.max(now + 1) >= end {
                self.later(Duration::from_micros(end.saturating_sub(now)));
                break;
            }
            self.later(Duration::from_micros(due.max(now + 1) - now));
            (0..self.ports.len()).for_each(|n| drop(self.serve(n)));
        }
        (0..self.ports.len()).for_each(|n| drop(self.serve(n)));
    }

    /// Queues a frame without ringing. False: the ring is full.
    pub fn queue(&mut self, n: usize, frame: &[u8], request: &TransmitRequest) -> bool {
        let Some(mut buffer) = self.ports[n].transmit_buffer(frame.len()) else { return false };
        buffer.copy_from_slice(frame);
        self.ports[n].transmit(buffer, request);
        true
    }

    /// Sends as a stack does: the card's ability decides what it is asked for, and fields it is to fill
    /// hold zero. A frame it cannot cut is an error.
    pub fn send_on(&mut self, n: usize, frame: &[u8], segment: Option<u16>) {
        let (frame, request) = self.ask(n, frame, segment);
        assert!(self.queue(n, &frame, &request), "ring full");
        self.ports[n].flush();
    }

    pub fn send(&mut self, frame: &[u8]) {
        self.send_on(0, frame, None);
    }

    /// What the card is asked for, and the frame as it gets it.
    pub fn ask(&self, n: usize, frame: &[u8], segment: Option<u16>) -> (Vec<u8>, TransmitRequest) {
        let shape = shape(frame, segment.and_then(NonZeroU16::new));
        let ability = self.ports[n].transmit_ability(&shape);
        assert_eq!(ability.segment, segment.is_some(), "{shape:?}");
        let request = TransmitRequest {
            network_checksum: ability.network_checksum,
            transport_checksum: ability.transport_checksum,
            ..TransmitRequest::plain(shape)
        };
        let mut frame = frame.to_vec();
        if request.transport_checksum {
            let field = request.shape.checksum_offset().unwrap();
            frame[field..field + 2].fill(0);
        }
        (frame, request)
    }

    fn register(&self, offset: usize) -> u32 {
        Bar(self.card.clone(), 0).read32(offset)
    }

    fn set_register(&self, offset: usize, value: u32) {
        Bar(self.card.clone(), 0).write32(offset, value);
    }

    /// A ring by its base register: address and the mask of its indices.
    fn ring(&self, offset: usize) -> (u64, u32) {
        let base = self.register(offset);
        (u64::from(base & !15), (1 << (base & 15)) - 1)
    }

    /// The card takes a buffer from the free queue, as a faulty one would without using it. Its address.
    pub fn steal(&self) -> u32 {
        let (ring, mask) = self.ring(0x04);
        let pointers = self.register(0x14);
        let (read, write) = (pointers & 0xffff, pointers >> 16);
        assert_ne!(read, write, "no buffer left");
        let mut address = [0; 4];
        self.dma.device_read(ring + 16 * u64::from(read) + 8, &mut address).unwrap();
        self.set_register(0x14, write << 16 | (read + 1) & mask);
        u32::from_le_bytes(address)
    }

    /// A receive descriptor nothing on the wire would bring about.
    pub fn forge(&self, port: usize, words: [u32; 4]) {
        self.try_forge(port, words).expect("the ring is the driver's");
    }

    /// The same where the registers may hold anything.
    pub fn try_forge(&self, port: usize, words: [u32; 4]) -> Result<(), BusError> {
        let (ring, mask) = self.ring(0x2000 + 8 * port);
        let write = self.register(0x2004 + 8 * port) >> 16;
        let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        self.dma.device_write(ring + 16 * u64::from(write & mask), &bytes)?;
        Bar(self.card.clone(), 0).write16(0x2006 + 8 * port, ((write + 1) & mask) as u16);
        Ok(())
    }

    pub fn counter_of(&self, n: usize, name: &str) -> u64 {
        let mut found = None;
        self.ports[n].statistics(&mut |counter, value| {
            if counter == name {
                found = Some(value);
            }
        });
        found.unwrap_or_else(|| panic!("no counter {name}"))
    }

    pub fn counter(&self, name: &str) -> u64 {
        self.counter_of(0, name)
    }

    /// Both directions of a port, with bytes and sums right.
    pub fn works_on(&mut self, n: usize) {
        self.live(Duration::from_millis(50));
        self.sent();
        let out = Spec::tcp(777).build();
        self.send_on(n, &out, None);
        self.later(Duration::from_millis(3));
        assert_eq!(self.sent_on(), [(n, out)]);
        self.serve(n);
        let data = incoming(n, &Spec::tcp(555).build());
        self.wire(n, &data);
        let got = self.serve(n);
        assert_eq!(got, [(data, VERIFIED)]);
    }

    pub fn works(&mut self) {
        (0..self.ports.len()).for_each(|n| self.works_on(n));
    }
}

pub const VERIFIED: ReceiveChecksum = ReceiveChecksum::Verified { ip: true, transport: true };

/// Address of a port.
pub fn mac(n: usize) -> [u8; 6] {
    let mut mac = MAC;
    mac[5] ^= n as u8;
    mac
}

/// A frame built as one of ours, as if the peer had sent it to a port.
pub fn incoming(n: usize, frame: &[u8]) -> Vec<u8> {
    [&mac(n)[..], &PEER, &frame[12..]].concat()
}

/// Shape of the frames made here.
pub fn shape(frame: &[u8], segment: Option<NonZeroU16>) -> FrameShape {
    let mut at = 12;
    while matches!(frame[at..at + 2], [0x81, 0x00] | [0x88, 0x99]) {
        at += 4;
    }
    let kind = [frame[at], frame[at + 1]];
    let at = at + 2;
    let (network, protocol, start) = match kind {
        [8, 0] => {
            let header_len = (frame[at] & 0xf) * 4;
            let fragment = frame[at + 6] & 0x3f != 0 || frame[at + 7] != 0;
            (Network::Ipv4 { header_len, fragment }, frame[at + 9], at + usize::from(header_len))
        }
        [0x86, 0xdd] => {
            let extension_headers = matches!(frame[at + 6], 0 | 60);
            let (protocol, header_len) = match extension_headers {
                true => (frame[at + 40], 48),
                false => (frame[at + 6], 40),
            };
            let network = Network::Ipv6 { header_len, extension_headers, fragment: false };
            (network, protocol, at + usize::from(header_len))
        }
        _ => (Network::Other, 0, at),
    };
    let fragment = matches!(network, Network::Ipv4 { fragment: true, .. });
    let transport = match protocol {
        _ if fragment => Transport::Other,
        6 => Transport::Tcp { header_len: (frame[start + 12] >> 4) * 4 },
        17 => Transport::Udp,
        1 | 58 => Transport::Icmp,
        _ => Transport::Other,
    };
    FrameShape { len: frame.len(), link_len: at as u8, tagged: false, network, transport, segment }
}

/// An Ethernet II frame of an EtherType nobody knows, to a port.
pub fn frame(to: [u8; 6], len: usize) -> Vec<u8> {
    frames::raw(to, len)
}

//! Driver and model in one process: registers and DMA meet over two memories, so that a missing
//! hand-over fails here and not on a board.
#![allow(dead_code, unreachable_pub, reason = "every test file uses a part")]

use std::num::NonZeroU16;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use trireme_nic::double::TwoMemories;
use trireme_nic::{
    FrameShape, Network, Nic, ReceiveChecksum, Registers, Tci, TransmitRequest, Transport, checksum,
};
use trireme_rhine::{Chip, Config, Error, Rhine, TransmitChecksums};
use trireme_rhine_model::{Chip as ModelChip, Faults, Rhine as Model};
use trireme_vfio::{Context, Device, DmaError, GuestMemory};

pub const MAC: [u8; 6] = [0x00, 0x0d, 0xb9, 0x12, 0x34, 0x56];
pub const PEER: [u8; 6] = [0x02, 0, 0, 0, 0, 0x99];
pub const FALLBACK: [u8; 6] = [0x02, 1, 2, 3, 4, 5];

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
    /// The driver had its function put into D3hot.
    pub in_d3: bool,
    /// Register accesses so far, for counting what a packet costs.
    pub accesses: u64,
    /// Every write, as (offset, width, value).
    pub writes: Vec<(usize, u8, u32)>,
}

/// The card's I/O BAR.
#[derive(Clone)]
pub struct Bar(pub Arc<Mutex<Card>>);

impl Bar {
    fn get<const N: usize>(&self, offset: usize) -> [u8; N] {
        let mut card = self.0.lock().unwrap();
        let card = &mut *card;
        card.accesses += 1;
        let mut data = [0; N];
        let context = Context { memory: &card.memory, now: card.now };
        card.model.read(0, offset as u64, &mut data, context);
        data
    }

    fn put(&self, offset: usize, data: &[u8]) {
        let mut card = self.0.lock().unwrap();
        let card = &mut *card;
        card.accesses += 1;
        let mut value = [0; 4];
        value[..data.len()].copy_from_slice(data);
        card.writes.push((offset, data.len() as u8 * 8, u32::from_le_bytes(value)));
        let context = Context { memory: &card.memory, now: card.now };
        card.model.write(0, offset as u64, data, context);
    }
}

impl Registers for Bar {
    fn read8(&self, offset: usize) -> u8 {
        self.get::<1>(offset)[0]
    }
    fn read16(&self, offset: usize) -> u16 {
        u16::from_le_bytes(self.get(offset))
    }
    fn read32(&self, offset: usize) -> u32 {
        u32::from_le_bytes(self.get(offset))
    }
    fn write8(&self, offset: usize, value: u8) {
        self.put(offset, &[value]);
    }
    fn write16(&self, offset: usize, value: u16) {
        self.put(offset, &value.to_le_bytes());
    }
    fn write32(&self, offset: usize, value: u32) {
        self.put(offset, &value.to_le_bytes());
    }
}

/// Driver, model and clock.
pub struct Rig {
    pub card: Arc<Mutex<Card>>,
    pub driver: Rhine<Bar, TwoMemories>,
}

pub fn chips() -> [ModelChip; 5] {
    [
        ModelChip::VT86C100A,
        ModelChip::VT6102,
        ModelChip::VT8235,
        ModelChip::VT6105,
        ModelChip::VT6105M,
    ]
}

pub const M: ModelChip = ModelChip::VT6105M;

pub fn try_rig(
    chip: ModelChip,
    faults: Faults,
    checksums: TransmitChecksums,
) -> Result<Rig, (Error, Arc<Mutex<Card>>)> {
    let model = Model::new(chip, MAC, faults, 7);
    let memory = Memory(TwoMemories::new(64));
    let card =
        Card { model, memory, now: Duration::ZERO, in_d3: false, accesses: 0, writes: Vec::new() };
    let card = Arc::new(Mutex::new(card));
    bring_up(card.clone(), checksums).map_err(|error| (error, card))
}

/// A driver for a card that another had before.
pub fn try_rig_on(card: Arc<Mutex<Card>>) -> Result<Rig, Error> {
    bring_up(card, TransmitChecksums::Off)
}

fn bring_up(card: Arc<Mutex<Card>>, checksums: TransmitChecksums) -> Result<Rig, Error> {
    let (ours, dma) = {
        let mut card = card.lock().unwrap();
        let chip = card.model.chip();
        let ours = Chip { device: chip.device, revision: chip.revision };
        for (offset, bits) in ours.configuration_bits() {
            card.model.config_written(*offset, *bits);
        }
        (ours, card.memory.0.clone())
    };
    let clock = card.clone();
    let delay = move |us: u32| {
        let mut card = clock.lock().unwrap();
        card.now += Duration::from_micros(us.into());
        let card = &mut *card;
        card.model.advance(Context { memory: &card.memory, now: card.now });
    };
    let config = Config {
        chip: ours,
        fallback_mac: FALLBACK,
        transmit_checksums: checksums,
        sleep: {
            let card = card.clone();
            Box::new(move || card.lock().unwrap().in_d3 = true)
        },
        delay: Box::new(delay),
    };
    let driver = Rhine::new(Bar(card.clone()), dma, config)?;
    Ok(Rig { card, driver })
}

impl Rig {
    pub fn new(chip: ModelChip) -> Rig {
        Rig::with(chip, Faults::default())
    }

    pub fn with(chip: ModelChip, faults: Faults) -> Rig {
        Rig::full(chip, faults, TransmitChecksums::Off)
    }

    pub fn full(chip: ModelChip, faults: Faults, checksums: TransmitChecksums) -> Rig {
        let mut rig = match try_rig(chip, faults, checksums) {
            Ok(rig) => rig,
            Err((error, _)) => panic!("{error}"),
        };
        rig.serve();
        rig
    }

    pub fn faults(&self, change: impl FnOnce(&mut Faults)) {
        change(self.card.lock().unwrap().model.faults_mut());
    }

    pub fn interrupt(&self) -> bool {
        self.card.lock().unwrap().model.interrupt()
    }

    pub fn wire(&self, frame: &[u8]) {
        let mut card = self.card.lock().unwrap();
        let card = &mut *card;
        card.model.receive(frame, Context { memory: &card.memory, now: card.now });
    }

    pub fn sent(&self) -> Vec<Vec<u8>> {
        let mut card = self.card.lock().unwrap();
        std::iter::from_fn(|| card.model.take_frame()).collect()
    }

    pub fn later(&self, by: Duration) {
        let mut card = self.card.lock().unwrap();
        let card = &mut *card;
        card.now += by;
        card.model.advance(Context { memory: &card.memory, now: card.now });
    }

    /// What the stack does when woken, until the card may interrupt again. Bounded.
    pub fn serve(&mut self) -> Vec<(Vec<u8>, ReceiveChecksum)> {
        self.serve_tagged().into_iter().map(|(data, _, checksum)| (data, checksum)).collect()
    }

    /// The same, with the tags the card took out.
    pub fn serve_tagged(&mut self) -> Vec<(Vec<u8>, Option<Tci>, ReceiveChecksum)> {
        let mut frames = Vec::new();
        for _ in 0..100 {
            let now = self.card.lock().unwrap().now.as_micros() as u64;
            self.driver.service(now);
            while let Some(frame) = self.driver.receive() {
                frames.push((frame.buffer.to_vec(), frame.tag, frame.checksum));
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

    /// Sends as a stack does: the card's ability decides what it is asked for.
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

    /// The same with a tag beside the frame, which the card must take.
    pub fn queue_tagged(&mut self, frame: &[u8], tag: Tci) {
        let shape = FrameShape { tagged: true, ..shape(frame, None) };
        let ability = self.driver.transmit_ability(&shape);
        assert!(ability.tag, "{shape:?}");
        let request = TransmitRequest {
            shape,
            network_checksum: ability.network_checksum,
            transport_checksum: ability.transport_checksum,
            tag: Some(tag),
        };
        let mut frame = frame.to_vec();
        if request.transport_checksum {
            let field = shape.checksum_offset().unwrap();
            frame[field..field + 2].fill(0);
        }
        assert!(self.queue(&frame, &request), "ring full");
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
}

pub fn request(nic: &impl Nic, frame: &[u8]) -> TransmitRequest {
    let shape = shape(frame, None);
    let ability = nic.transmit_ability(&shape);
    TransmitRequest {
        shape,
        network_checksum: ability.network_checksum,
        transport_checksum: ability.transport_checksum,
        tag: None,
    }
}

/// Shape of the frames made here.
pub fn shape(frame: &[u8], segment: Option<NonZeroU16>) -> FrameShape {
    let ipv4 = frame[12..14] == [8, 0];
    let (network, transport) = match (ipv4, frame.get(23).copied().unwrap_or(0)) {
        (false, _) => (Network::Other, Transport::Other),
        (true, 6) => (ipv4_network(), Transport::Tcp { header_len: 20 }),
        (true, 17) => (ipv4_network(), Transport::Udp),
        (true, _) => (ipv4_network(), Transport::Other),
    };
    FrameShape { len: frame.len(), link_len: 14, tagged: false, network, transport, segment }
}

fn ipv4_network() -> Network {
    Network::Ipv4 { header_len: 20, fragment: false }
}

/// An Ethernet II frame of `len` bytes with counting payload.
pub fn frame(to: [u8; 6], len: usize) -> Vec<u8> {
    let mut frame = [&to[..], &PEER, &[0x88, 0xb5]].concat();
    frame.extend((frame.len()..len).map(|i| i as u8));
    frame
}

/// TCP or UDP over IPv4 with right sums, `len` bytes of frame.
pub fn packet(protocol: u8, len: usize) -> Vec<u8> {
    let total = len - 14;
    let mut frame = [&MAC[..], &PEER, &[0x08, 0x00, 0x45, 0]].concat();
    frame.extend((total as u16).to_be_bytes());
    frame.extend([0x12, 0x34, 0x40, 0, 64, protocol, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2]);
    frame.extend((frame.len()..len).map(|i| (i * 7) as u8));
    let header = !checksum::sum(&frame[14..34]);
    frame[24..26].copy_from_slice(&header.to_be_bytes());
    let field = if protocol == 6 { 34 + 16 } else { 34 + 6 };
    if protocol == 6 {
        frame[46] = 0x50;
    } else {
        frame[38..40].copy_from_slice(&((total - 20) as u16).to_be_bytes());
    }
    frame[field..field + 2].fill(0);
    let pseudo = checksum::fold(
        u64::from(checksum::sum(&frame[26..34])) + u64::from(protocol) + (total - 20) as u64,
    );
    let sum = !checksum::add(pseudo, checksum::sum(&frame[34..]));
    frame[field..field + 2].copy_from_slice(&sum.to_be_bytes());
    frame
}

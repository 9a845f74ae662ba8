//! A card for tests: takes frames out of device memory, and does to them what it said it would,
//! with sums and segments of its own making (`etherparse`'s, and by definition), not the stack's.
#![allow(dead_code, unreachable_pub, reason = "each test binary uses a part")]

use etherparse::{NetSlice, SlicedPacket, TransportSlice};
use std::collections::VecDeque;
use std::sync::mpsc::{Receiver, Sender, channel};
use trireme_nic::double::TwoMemories;
use trireme_nic::{
    Buffer, Direction, Dma, DriverInfo, Feature, FeatureError, FeatureState, FrameShape, Link,
    MacAddress, Network, Nic, Ptp, PtpError, PtpTime, ReceiveChecksum, ReceiveFilter,
    ReceivedFrame, TransmitAbility, TransmitRequest,
};

/// Room for one frame.
const SINGLE: usize = 1600;

/// What a card can, as its pure function.
pub type Ability = Box<dyn Fn(&FrameShape) -> TransmitAbility + Send>;

pub struct Card {
    memory: TwoMemories,
    ability: Ability,
    pub features: Vec<Feature>,
    max_segmented: Option<usize>,
    free: Vec<Buffer>,
    free_large: Vec<Buffer>,
    sent: Vec<Buffer>,
    /// Frames taken, as the device reads them, and what was asked for.
    pub taken: VecDeque<(Vec<u8>, TransmitRequest)>,
    pub cancelled: usize,
    pub flushes: usize,
    /// Where frames come from and, at a flush, go to.
    wire: Option<Peer>,
    receive_buffers: Vec<Buffer>,
    /// What its clock shows, if it has one; each look at it takes a second.
    pub clock: Option<PtpTime>,
    /// Numbers of frames whose times were wanted.
    timed: VecDeque<u32>,
}

/// One end of a card's wire.
pub struct Peer {
    pub incoming: Receiver<Vec<u8>>,
    pub outgoing: Sender<Vec<u8>>,
}

impl Card {
    /// A card with `ring` buffers that holds them until [`Card::drain`].
    pub fn new(ring: usize, max_segmented: Option<usize>, ability: Ability) -> Card {
        let memory = TwoMemories::new(64);
        let make = |len: usize| Buffer::new(memory.allocate(len, 64).unwrap());
        let free = (0..ring).map(|_| make(SINGLE)).collect();
        let free_large = max_segmented.iter().flat_map(|&max| (0..4).map(move |_| max));
        let free_large = free_large.map(make).collect();
        Card {
            memory,
            ability,
            features: vec![
                Feature::TxChecksumming,
                Feature::TcpSegmentationOffload,
                Feature::Tcp6Segmentation,
            ],
            max_segmented,
            free,
            free_large,
            sent: Vec::new(),
            taken: VecDeque::new(),
            cancelled: 0,
            flushes: 0,
            wire: None,
            receive_buffers: Vec::new(),
            clock: None,
            timed: VecDeque::new(),
        }
    }

    /// Connects it to a wire.
    pub fn attach(&mut self) -> Peer {
        let (to_card, from_peer) = channel();
        let (to_peer, from_card) = channel();
        self.wire = Some(Peer { incoming: from_peer, outgoing: to_peer });
        let make = |_| Buffer::new(self.memory.allocate(2048, 64).unwrap());
        self.receive_buffers = (0..64).map(make).collect();
        Peer { incoming: from_card, outgoing: to_card }
    }

    /// A card that can do nothing.
    pub fn plain(ring: usize) -> Card {
        Card::new(ring, None, Box::new(|_| TransmitAbility::default()))
    }

    /// A card that can do everything with anything.
    pub fn able(ring: usize) -> Card {
        let all = |shape: &FrameShape| TransmitAbility {
            network_checksum: true,
            transport_checksum: true,
            segment: shape.segment.is_some(),
            tag: shape.tagged,
        };
        Card::new(ring, Some(65600), Box::new(all))
    }

    pub fn buffers(&self) -> usize {
        self.free.len()
    }

    /// What is on the wire for everything taken so far; the ring is empty again.
    pub fn drain(&mut self) -> Vec<Vec<u8>> {
        let mut wire = Vec::new();
        for (frame, request) in self.taken.drain(..) {
            let ability = (self.ability)(&request.shape);
            assert!(!request.network_checksum || ability.network_checksum, "{request:?}");
            assert_eq!(request.shape.len, frame.len(), "{request:?}");
            match request.shape.segment {
                Some(segment) => {
                    assert!(ability.segment && request.transport_checksum);
                    wire.extend(segments(&frame, &request.shape, usize::from(segment.get())));
                }
                None => {
                    assert!(!request.transport_checksum || ability.transport_checksum);
                    let mut frame = frame;
                    complete(&mut frame, &request);
                    wire.push(frame);
                }
            }
        }
        for buffer in self.sent.drain(..) {
            match buffer.capacity() > SINGLE {
                true => self.free_large.push(buffer),
                false => self.free.push(buffer),
            }
        }
        wire
    }
}

/// Inserts the sums a card was asked for.
fn complete(frame: &mut [u8], request: &TransmitRequest) {
    let network = usize::from(request.shape.link_len);
    if request.transport_checksum {
        let field = request.shape.checksum_offset().unwrap();
        assert_eq!(frame[field..field + 2], [0, 0], "field must be zero for the card");
        let sum = transport_sum(frame);
        frame[field..field + 2].copy_from_slice(&sum.to_be_bytes());
    }
    if request.network_checksum {
        let Network::Ipv4 { header_len, .. } = request.shape.network else {
            panic!("header sum of what is not IPv4");
        };
        let header = &mut frame[network..network + usize::from(header_len)];
        header[10..12].fill(0);
        let sum = by_definition(header);
        header[10..12].copy_from_slice(&sum.to_be_bytes());
    }
}

/// Inverted ones' complement sum, word by word.
pub fn by_definition(bytes: &[u8]) -> u16 {
    let mut sum = 0u32;
    for pair in bytes.chunks(2) {
        sum += u32::from(pair[0]) << 8 | u32::from(*pair.get(1).unwrap_or(&0));
        sum = (sum & 0xffff) + (sum >> 16);
    }
    !(sum as u16)
}

/// The TCP or UDP sum a frame must have, by `etherparse`.
pub fn transport_sum(frame: &[u8]) -> u16 {
    let packet = SlicedPacket::from_ethernet(frame).unwrap();
    match (packet.net.unwrap(), packet.transport.unwrap()) {
        (NetSlice::Ipv4(ip), TransportSlice::Tcp(tcp)) => {
            let header = ip.header();
            tcp.calc_checksum_ipv4(header.source(), header.destination()).unwrap()
        }
        (NetSlice::Ipv6(ip), TransportSlice::Tcp(tcp)) => {
            let header = ip.header();
            tcp.calc_checksum_ipv6(header.source(), header.destination()).unwrap()
        }
        (NetSlice::Ipv4(ip), TransportSlice::Udp(udp)) => {
            udp.to_header().calc_checksum_ipv4(&ip.header().to_header(), udp.payload()).unwrap()
        }
        (NetSlice::Ipv6(ip), TransportSlice::Udp(udp)) => {
            udp.to_header().calc_checksum_ipv6(&ip.header().to_header(), udp.payload()).unwrap()
        }
        other => panic!("no TCP or UDP: {other:?}"),
    }
}

/// What a segmenting card makes of a frame.
fn segments(frame: &[u8], shape: &FrameShape, size: usize) -> Vec<Vec<u8>> {
    let start = shape.tcp_payload_offset().unwrap();
    let tcp = shape.transport_offset().unwrap();
    let network = usize::from(shape.link_len);
    let payload = &frame[start..];
    let count = payload.len().div_ceil(size);
    let sequence = u32::from_be_bytes(frame[tcp + 4..tcp + 8].try_into().unwrap());
    let one = |(index, piece): (usize, &[u8])| {
        let mut out = [&frame[..start], piece].concat();
        let len = out.len();
        let sequence = sequence.wrapping_add((index * size) as u32);
        out[tcp + 4..tcp + 8].copy_from_slice(&sequence.to_be_bytes());
        if index + 1 < count {
            out[tcp + 13] &= !0x09;
        }
        if index > 0 {
            out[tcp + 13] &= !0x80;
        }
        let is_v4 = matches!(shape.network, Network::Ipv4 { .. });
        if is_v4 {
            out[network + 2..network + 4].copy_from_slice(&((len - network) as u16).to_be_bytes());
            let id = u16::from_be_bytes([frame[network + 4], frame[network + 5]]);
            let id = id.wrapping_add(index as u16);
            out[network + 4..network + 6].copy_from_slice(&id.to_be_bytes());
        } else {
            let payload_len = (len - network - 40) as u16;
            out[network + 4..network + 6].copy_from_slice(&payload_len.to_be_bytes());
        }
        let shape = FrameShape { len, segment: None, ..*shape };
        let request =
            TransmitRequest { shape, network_checksum: is_v4, transport_checksum: true, tag: None };
        out[tcp + 16..tcp + 18].fill(0);
        complete(&mut out, &request);
        out
    };
    payload.chunks(size).enumerate().map(one).collect()
}

impl Nic for Card {
    fn driver_info(&self) -> DriverInfo {
        DriverInfo { driver: "double", chip: "for tests" }
    }
    fn mac_address(&self) -> MacAddress {
        [2, 0, 0, 0, 0, 1]
    }
    fn link(&self) -> Link {
        Link { up: true, speed_mbps: 0, full_duplex: true }
    }
    fn mtu(&self) -> u16 {
        1500
    }
    fn max_mtu(&self) -> u16 {
        1500
    }
    fn set_mtu(&mut self, _mtu: u16) -> bool {
        false
    }
    fn set_receive_filter(&mut self, _filter: ReceiveFilter<'_>) {}
    fn service(&mut self, _now_us: u64) {}
    fn arm(&mut self) -> bool {
        false
    }
    fn receive(&mut self) -> Option<ReceivedFrame> {
        let frame = self.wire.as_ref()?.incoming.try_recv().ok()?;
        let mut buffer = self.receive_buffers.pop().expect("frames are recycled");
        buffer.set_window(0..frame.len());
        let bus = buffer.bus_address();
        let lent = buffer.to_device(&self.memory, Direction::FromDevice);
        self.memory.device_write(bus, &frame).unwrap();
        let buffer = lent.to_cpu(&self.memory);
        let checksum = ReceiveChecksum::Unverified;
        Some(ReceivedFrame { buffer, checksum, segment: None, tag: None, slot: 0 })
    }
    fn recycle(&mut self, frame: ReceivedFrame) {
        self.receive_buffers.push(frame.buffer);
    }

    fn transmit_buffer(&mut self, len: usize) -> Option<Buffer> {
        let mut buffer = match len > SINGLE {
            true => {
                assert!(len <= self.max_segmented.unwrap(), "{len} bytes asked for");
                self.free_large.pop()?
            }
            false => self.free.pop()?,
        };
        buffer.whole_mut().fill(0xa5);
        buffer.set_window(0..len);
        Some(buffer)
    }

    fn transmit(&mut self, buffer: Buffer, request: &TransmitRequest) {
        let mut frame = vec![0; buffer.len()];
        let bus = buffer.bus_address();
        let lent = buffer.to_device(&self.memory, Direction::ToDevice);
        self.memory.device_read(bus, &mut frame).unwrap();
        self.sent.push(lent.to_cpu(&self.memory));
        self.taken.push_back((frame, *request));
    }

    fn transmit_cancel(&mut self, buffer: Buffer) {
        self.cancelled += 1;
        match buffer.capacity() > SINGLE {
            true => self.free_large.push(buffer),
            false => self.free.push(buffer),
        }
    }

    fn flush(&mut self) {
        self.flushes += 1;
        if self.wire.is_some() {
            let frames = self.drain();
            let peer = self.wire.as_ref().unwrap();
            // A peer that is gone is a cable pulled out.
            frames.into_iter().for_each(|frame| drop(peer.outgoing.send(frame)));
        }
    }

    fn transmit_room(&self) -> usize {
        self.free.len()
    }

    fn transmit_ability(&self, shape: &FrameShape) -> TransmitAbility {
        (self.ability)(shape)
    }

    fn max_segmented_frame(&self) -> Option<usize> {
        self.max_segmented
    }

    fn feature(&self, feature: Feature) -> FeatureState {
        FeatureState { on: self.features.contains(&feature), fixed: false }
    }

    fn set_feature(&mut self, _feature: Feature, _on: bool) -> Result<(), FeatureError> {
        Err(FeatureError::Fixed)
    }

    fn ptp(&mut self) -> Option<&mut dyn Ptp> {
        if self.clock.is_some() { Some(self) } else { None }
    }

    fn statistics(&self, _visit: &mut dyn FnMut(&'static str, u64)) {}
}

impl Ptp for Card {
    fn now(&mut self) -> Result<PtpTime, PtpError> {
        let clock = self.clock.as_mut().ok_or(PtpError::Timeout)?;
        clock.seconds += 1;
        Ok(*clock)
    }
    fn set(&mut self, time: PtpTime) -> Result<(), PtpError> {
        self.clock = Some(time);
        Ok(())
    }
    fn adjust(&mut self, _ppb: i32) -> Result<(), PtpError> {
        Ok(())
    }
    fn max_adjustment(&self) -> i32 {
        1
    }
    /// The nanoseconds are the frame's length.
    fn received_at(&self, frame: &ReceivedFrame) -> Option<PtpTime> {
        let nanoseconds = frame.buffer.len() as u32;
        self.clock.map(|clock| PtpTime { nanoseconds, ..clock })
    }
    fn transmit_timed(&mut self, buffer: Buffer, request: &TransmitRequest) -> u32 {
        self.transmit(buffer, request);
        let number = self.taken.len() as u32;
        self.timed.push_back(number);
        number
    }
    fn sent_at(&mut self) -> Option<(u32, PtpTime)> {
        let number = self.timed.pop_front()?;
        Some((number, self.now().ok()?))
    }
}

//! A card in memory, with the features a real one may have, on and off.

#![allow(dead_code, reason = "each test uses a part")]

use std::collections::VecDeque;
use std::ptr::NonNull;
use std::sync::{Arc, Mutex};
use trireme_nic::{
    Allocation, Buffer, DriverInfo, Feature, FeatureError, FeatureState, FrameShape, Link,
    MacAddress, Network, Nic, ReceiveChecksum, ReceiveFilter, ReceivedFrame, Tci, TransmitAbility,
    TransmitRequest, Transport,
};

/// What the card can do.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Abilities {
    pub(crate) checksums: bool,
    pub(crate) segmentation: bool,
    /// Frames the transmit ring holds.
    pub(crate) ring: usize,
    pub(crate) mtu: u16,
    /// It inserts and takes out VLAN tags.
    pub(crate) tags: bool,
}

impl Default for Abilities {
    fn default() -> Abilities {
        Abilities { checksums: true, segmentation: true, ring: 256, mtu: 1500, tags: false }
    }
}

/// The wire's end of the card.
#[derive(Default)]
pub(crate) struct Ends {
    /// Frames for the stack, with what the card says of their sums.
    pub(crate) towards: VecDeque<(Vec<u8>, ReceiveChecksum)>,
    /// Frames on the wire: cut and summed.
    pub(crate) sent: VecDeque<Vec<u8>>,
    /// Largest frame the stack gave, and how many it gave.
    pub(crate) largest: usize,
    pub(crate) given: usize,
    pub(crate) doorbells: usize,
    pub(crate) filter: Vec<MacAddress>,
    pub(crate) promiscuous: bool,
    pub(crate) vlans: Vec<u16>,
    /// Tags the card was asked to insert.
    pub(crate) inserted: Vec<Tci>,
}

pub(crate) struct Card {
    abilities: Abilities,
    ends: Arc<Mutex<Ends>>,
    kept: Vec<Buffer>,
    /// Frames in the ring, not home yet.
    occupied: usize,
    lent: usize,
    queued: Vec<Vec<u8>>,
}

const LARGE: usize = 65_549;
pub(crate) const MAC: MacAddress = [0x02, 0, 0, 0, 0, 0x02];

impl Card {
    pub(crate) fn new(abilities: Abilities) -> (Box<Card>, Arc<Mutex<Ends>>) {
        let ends = Arc::new(Mutex::new(Ends::default()));
        let card = Card {
            abilities,
            ends: ends.clone(),
            kept: Vec::new(),
            occupied: 0,
            lent: 0,
            queued: Vec::new(),
        };
        (Box::new(card), ends)
    }

    fn buffer(&mut self, len: usize) -> Buffer {
        let mut buffer = self.kept.pop().unwrap_or_else(|| {
            let memory = Box::leak(vec![0u8; LARGE].into_boxed_slice());
            Buffer::new(Allocation { pointer: NonNull::from(memory).cast(), bus: 0, len: LARGE })
        });
        buffer.set_window(0..len);
        buffer
    }
}

/// The Internet checksum, not inverted, by its definition.
pub(crate) fn sum(parts: &[&[u8]]) -> u16 {
    let mut total = 0u32;
    for part in parts {
        for pair in part.chunks(2) {
            total += u32::from(pair[0]) << 8 | u32::from(*pair.get(1).unwrap_or(&0));
            total = (total & 0xffff) + (total >> 16);
        }
    }
    total as u16
}

/// Fills in the IPv4 header's and the transport's sum of a whole frame, as a card does.
pub(crate) fn fill(frame: &mut [u8]) {
    let (start, protocol) = match (frame[12], frame[13]) {
        (0x08, 0x00) => {
            let start = 14 + usize::from(frame[14] & 15) * 4;
            frame[24..26].fill(0);
            let header = !sum(&[&frame[14..start]]);
            frame[24..26].copy_from_slice(&header.to_be_bytes());
            (start, frame[23])
        }
        _ => (54, frame[20]),
    };
    let field = start + if protocol == 6 { 16 } else { 6 };
    frame[field..field + 2].fill(0);
    let len = (frame.len() - start) as u32;
    let addresses = if frame[12] == 0x08 { 26..34 } else { 22..54 };
    let pseudo = [&len.to_be_bytes()[..], &[0, protocol]].concat();
    let value = !sum(&[&frame[addresses], &pseudo, &frame[start..]]);
    let value = if value == 0 && protocol == 17 { 0xffff } else { value };
    frame[field..field + 2].copy_from_slice(&value.to_be_bytes());
}

/// Cuts a large TCP frame as a card does.
fn cut(frame: &[u8], headers: usize, size: usize, transport: usize) -> Vec<Vec<u8>> {
    let payload = &frame[headers..];
    let count = payload.len().div_ceil(size);
    let piece = |(n, piece): (usize, &[u8])| {
        let mut segment = frame[..headers].to_vec();
        segment.extend_from_slice(piece);
        let len = segment.len() as u16;
        if frame[12] == 0x08 {
            segment[16..18].copy_from_slice(&(len - 14).to_be_bytes());
        } else {
            segment[18..20].copy_from_slice(&(len - 54).to_be_bytes());
        }
        let at = transport + 4;
        let sequence = u32::from_be_bytes(segment[at..at + 4].try_into().unwrap());
        let sequence = sequence.wrapping_add((n * size) as u32);
        segment[at..at + 4].copy_from_slice(&sequence.to_be_bytes());
        if n + 1 < count {
            segment[transport + 13] &= !0x09;
        }
        fill(&mut segment);
        segment
    };
    payload.chunks(size).enumerate().map(piece).collect()
}

impl Nic for Card {
    fn driver_info(&self) -> DriverInfo {
        DriverInfo { driver: "test", chip: "" }
    }
    fn mac_address(&self) -> MacAddress {
        MAC
    }
    fn link(&self) -> Link {
        Link { up: true, speed_mbps: 0, full_duplex: true }
    }
    fn mtu(&self) -> u16 {
        self.abilities.mtu
    }
    fn max_mtu(&self) -> u16 {
        9000
    }
    fn set_mtu(&mut self, mtu: u16) -> bool {
        self.abilities.mtu = mtu;
        true
    }
    fn set_receive_filter(&mut self, filter: ReceiveFilter<'_>) {
        let mut ends = self.ends.lock().unwrap();
        ends.promiscuous = matches!(filter, ReceiveFilter::Promiscuous);
        if let ReceiveFilter::Multicast(groups) = filter {
            ends.filter = groups.to_vec();
        }
    }
    fn set_vlans(&mut self, ids: &[u16]) {
        self.ends.lock().unwrap().vlans = ids.to_vec();
    }
    fn service(&mut self, _: u64) {
        self.occupied = 0;
    }
    fn arm(&mut self) -> bool {
        !self.ends.lock().unwrap().towards.is_empty()
    }
    fn receive(&mut self) -> Option<ReceivedFrame> {
        let (mut bytes, checksum) = self.ends.lock().unwrap().towards.pop_front()?;
        let takes = self.abilities.tags && bytes.len() >= 18 && bytes[12..14] == [0x81, 0];
        let tag = match takes {
            true => bytes.drain(12..16).collect(),
            false => Vec::new(),
        };
        let tag = (tag.len() == 4).then(|| Tci(u16::from_be_bytes([tag[2], tag[3]])));
        let mut buffer = self.buffer(bytes.len());
        buffer.copy_from_slice(&bytes);
        Some(ReceivedFrame { buffer, checksum, segment: None, tag, slot: 0 })
    }
    fn recycle(&mut self, frame: ReceivedFrame) {
        self.kept.push(frame.buffer);
    }
    fn transmit_buffer(&mut self, len: usize) -> Option<Buffer> {
        if self.transmit_room() == 0 {
            return None;
        }
        assert!(
            len <= usize::from(self.abilities.mtu) + 18
                || self.max_segmented_frame().is_some_and(|max| len <= max),
            "{len} bytes asked for"
        );
        self.lent += 1;
        let mut buffer = self.buffer(len);
        // What was there before must not matter.
        buffer.fill(0xa5);
        Some(buffer)
    }
    fn transmit(&mut self, buffer: Buffer, request: &TransmitRequest) {
        self.lent -= 1;
        self.occupied += 1;
        let mut frame = buffer.to_vec();
        self.kept.push(buffer);
        {
            let mut ends = self.ends.lock().unwrap();
            ends.largest = ends.largest.max(frame.len());
            ends.given += 1;
        }
        let shape = request.shape;
        assert_eq!(shape.len, frame.len());
        assert_eq!(shape.tagged, request.tag.is_some());
        let in_frame: Vec<u8> = frame.drain(12..12 + usize::from(shape.link_len) - 14).collect();
        let tag = match request.tag {
            Some(tag) => {
                assert!(self.abilities.tags);
                self.ends.lock().unwrap().inserted.push(tag);
                [[0x81, 0x00], tag.0.to_be_bytes()].concat()
            }
            None => Vec::new(),
        };
        let mut pieces = Vec::new();
        if let Some(size) = shape.segment {
            assert!(self.abilities.segmentation);
            let headers = shape.tcp_payload_offset().unwrap() - in_frame.len();
            let transport = shape.transport_offset().unwrap() - in_frame.len();
            pieces.extend(cut(&frame, headers, usize::from(size.get()), transport));
        } else {
            assert!(frame.len() <= usize::from(self.abilities.mtu) + 14, "{} bytes", frame.len());
            if request.transport_checksum {
                assert!(self.abilities.checksums);
                fill(&mut frame);
            }
            pieces.push(frame);
        }
        self.queued.extend(pieces.into_iter().map(|mut piece| {
            piece.splice(12..12, tag.iter().chain(&in_frame).copied());
            piece
        }));
    }
    fn transmit_cancel(&mut self, buffer: Buffer) {
        self.lent -= 1;
        self.kept.push(buffer);
    }
    fn flush(&mut self) {
        let mut ends = self.ends.lock().unwrap();
        ends.doorbells += 1;
        ends.sent.extend(self.queued.drain(..));
    }
    fn transmit_room(&self) -> usize {
        self.abilities.ring - self.occupied - self.lent
    }
    fn transmit_ability(&self, shape: &FrameShape) -> TransmitAbility {
        let fragment = match shape.network {
            Network::Ipv4 { fragment, .. } | Network::Ipv6 { fragment, .. } => fragment,
            Network::Other => true,
        };
        let sums = matches!(shape.transport, Transport::Tcp { .. } | Transport::Udp) && !fragment;
        TransmitAbility {
            network_checksum: false,
            transport_checksum: self.abilities.checksums && sums,
            segment: self.abilities.segmentation,
            tag: shape.tagged && self.abilities.tags,
        }
    }
    fn max_segmented_frame(&self) -> Option<usize> {
        self.abilities.segmentation.then_some(LARGE)
    }
    fn feature(&self, feature: Feature) -> FeatureState {
        let on = match feature {
            Feature::TcpSegmentationOffload | Feature::Tcp6Segmentation => {
                self.abilities.segmentation
            }
            Feature::TxChecksumming | Feature::RxChecksumming => self.abilities.checksums,
            _ => false,
        };
        FeatureState { on, fixed: false }
    }
    fn set_feature(&mut self, feature: Feature, on: bool) -> Result<(), FeatureError> {
        match feature {
            Feature::TcpSegmentationOffload | Feature::Tcp6Segmentation => {
                self.abilities.segmentation = on;
            }
            _ => self.abilities.checksums = on,
        }
        Ok(())
    }
    fn statistics(&self, _: &mut dyn FnMut(&'static str, u64)) {}
}

//! A card in memory that does as little as it can, a peer that says what it must, and the exchanges
//! whose cost is counted: instructions by `benches/cost.rs`, allocations by `tests/allocations.rs`.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::ptr::NonNull;
use std::sync::{Arc, Mutex};
use trireme_netstack::{
    Addressing, Config, Family, Instant, Ipv4Addressing, Ipv6Addressing, Kind, SocketId, Stack,
};
use trireme_nic::{
    Allocation, Buffer, DriverInfo, Feature, FeatureError, FeatureState, FrameShape, Link,
    MacAddress, Nic, ReceiveChecksum, ReceiveFilter, ReceivedFrame, TransmitAbility,
    TransmitRequest,
};

const MAC: MacAddress = [2, 0, 0, 0, 0, 2];
const OURS: [u8; 4] = [10, 0, 0, 2];
const PEER: [u8; 4] = [10, 0, 0, 1];

#[derive(Default)]
struct Ends {
    towards: VecDeque<Buffer>,
    /// First bytes of the last frame sent, and how long it was.
    last: Vec<u8>,
    len: usize,
    count: u64,
}

struct Card {
    ends: Arc<Mutex<Ends>>,
    kept: Arc<Mutex<Vec<Buffer>>>,
}

fn buffer() -> Buffer {
    let len = 65_549;
    let memory = Box::leak(vec![0u8; len].into_boxed_slice());
    Buffer::new(Allocation { pointer: NonNull::from(memory).cast(), bus: 0, len })
}

impl Nic for Card {
    fn driver_info(&self) -> DriverInfo {
        DriverInfo { driver: "bench", chip: "" }
    }
    fn mac_address(&self) -> MacAddress {
        MAC
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
    fn set_mtu(&mut self, _: u16) -> bool {
        false
    }
    fn set_receive_filter(&mut self, _: ReceiveFilter<'_>) {}
    fn service(&mut self, _: u64) {}
    fn arm(&mut self) -> bool {
        false
    }
    fn receive(&mut self) -> Option<ReceivedFrame> {
        let buffer = self.ends.lock().unwrap().towards.pop_front()?;
        let checksum = ReceiveChecksum::Verified { ip: true, transport: true };
        Some(ReceivedFrame { buffer, checksum, segment: None, tag: None, slot: 0 })
    }
    fn recycle(&mut self, frame: ReceivedFrame) {
        self.kept.lock().unwrap().push(frame.buffer);
    }
    fn transmit_buffer(&mut self, len: usize) -> Option<Buffer> {
        let mut lent = self.kept.lock().unwrap().pop().unwrap_or_else(buffer);
        lent.set_window(0..len);
        Some(lent)
    }
    fn transmit(&mut self, sent: Buffer, _: &TransmitRequest) {
        let mut ends = self.ends.lock().unwrap();
        let len = sent.len();
        let head = len.min(54);
        ends.last.clear();
        ends.last.extend_from_slice(&sent[..head]);
        ends.len = len;
        ends.count += 1;
        self.kept.lock().unwrap().push(sent);
    }
    fn transmit_cancel(&mut self, _: Buffer) {}
    fn flush(&mut self) {}
    fn transmit_room(&self) -> usize {
        256
    }
    fn transmit_ability(&self, _: &FrameShape) -> TransmitAbility {
        TransmitAbility {
            network_checksum: false,
            transport_checksum: true,
            segment: true,
            tag: false,
        }
    }
    fn max_segmented_frame(&self) -> Option<usize> {
        Some(65_549)
    }
    fn feature(&self, _: Feature) -> FeatureState {
        FeatureState { on: true, fixed: false }
    }
    fn set_feature(&mut self, _: Feature, _: bool) -> Result<(), FeatureError> {
        Ok(())
    }
    fn statistics(&self, _: &mut dyn FnMut(&'static str, u64)) {}
}

struct Bench {
    stack: Stack,
    ends: Arc<Mutex<Ends>>,
    kept: Arc<Mutex<Vec<Buffer>>>,
    now: Instant,
}

/// The peer's end of a connection.
#[derive(Clone, Copy)]
struct Peer {
    port: u16,
    sequence: u32,
    acknowledgement: u32,
}

impl Bench {
    fn new() -> Bench {
        let ends = Arc::new(Mutex::new(Ends::default()));
        let kept = Arc::new(Mutex::new(Vec::new()));
        let now = Instant::from_secs(1);
        let config = Config { seed: [3; 32], buffer_budget: 256 << 20, hostname: String::new() };
        let mut stack = Stack::new(config, now);
        let ipv4 = Ipv4Addressing::Static { address: OURS.into(), prefix: 24, gateway: None };
        let addressing =
            Addressing { ipv4, ipv6: Ipv6Addressing::LinkLocal, ..Addressing::default() };
        let card = Card { ends: ends.clone(), kept: kept.clone() };
        stack.add_interface(Box::new(card), addressing, now);
        let mut bench = Bench { stack, ends, kept, now };
        // The peer asks for us, so that it is known.
        let arp = [
            &[0xff; 6][..],
            &[2, 0, 0, 0, 0, 1, 8, 6, 0, 1, 8, 0, 6, 4, 0, 1, 2, 0, 0, 0, 0, 1],
            &PEER,
            &[0; 6],
            &OURS,
        ]
        .concat();
        bench.deliver(arp.len(), |frame| frame.copy_from_slice(&arp));
        bench.poll();
        for _ in 0..5 {
            bench.now += trireme_netstack::Duration::from_secs(1);
            bench.poll();
        }
        bench
    }

    fn poll(&mut self) {
        self.now += trireme_netstack::Duration::from_micros(20);
        self.stack.poll(self.now);
        while self.stack.next_event().is_some() {}
        let _ = self.stack.wake_at();
    }

    fn deliver(&mut self, len: usize, write: impl FnOnce(&mut [u8])) {
        let mut buffer = self.kept.lock().unwrap().pop().unwrap_or_else(buffer);
        buffer.set_window(0..len);
        write(&mut buffer);
        self.ends.lock().unwrap().towards.push_back(buffer);
    }

    fn ip(frame: &mut [u8], protocol: u8) {
        let total = (frame.len() - 14) as u16;
        frame[..6].copy_from_slice(&MAC);
        frame[6..14].copy_from_slice(&[2, 0, 0, 0, 0, 1, 8, 0]);
        frame[14..24].copy_from_slice(&[0x45, 0, 0, 0, 0, 0, 0x40, 0, 64, protocol]);
        frame[16..18].copy_from_slice(&total.to_be_bytes());
        frame[24..26].fill(0);
        frame[26..30].copy_from_slice(&PEER);
        frame[30..34].copy_from_slice(&OURS);
    }

    fn segment(&mut self, peer: &mut Peer, flags: u8, payload: usize) {
        let this = *peer;
        let options = if flags & 2 != 0 { 8 } else { 0 };
        self.deliver(54 + options + payload, |frame| {
            Bench::ip(frame, 6);
            frame[34..36].copy_from_slice(&this.port.to_be_bytes());
            frame[36..38].copy_from_slice(&80u16.to_be_bytes());
            frame[38..42].copy_from_slice(&this.sequence.to_be_bytes());
            frame[42..46].copy_from_slice(&this.acknowledgement.to_be_bytes());
            frame[46..54].copy_from_slice(&[
                0x50 + options as u8 * 4,
                flags,
                0xff,
                0xff,
                0,
                0,
                0,
                0,
            ]);
            if options > 0 {
                frame[54..62].copy_from_slice(&[2, 4, 0x05, 0xb4, 3, 3, 7, 0]);
            }
        });
        let control = u32::from(flags & 3 != 0);
        peer.sequence = peer.sequence.wrapping_add(payload as u32 + control);
    }

    /// Takes note of what the stack sent last.
    fn heard(&mut self, peer: &mut Peer) {
        let ends = self.ends.lock().unwrap();
        let sequence = u32::from_be_bytes(ends.last[38..42].try_into().unwrap());
        let control = u32::from(ends.last[47] & 3 != 0);
        let header = 34 + usize::from(ends.last[46] >> 4) * 4;
        peer.acknowledgement = sequence.wrapping_add((ends.len - header) as u32 + control);
    }

    fn listen(&mut self) -> SocketId {
        let id = self.stack.socket(Family::V4, Kind::Stream).unwrap();
        self.stack.bind(id, "0.0.0.0:80".parse().unwrap()).unwrap();
        self.stack.listen(id, 128, self.now).unwrap();
        id
    }

    fn open(&mut self, listener: SocketId, port: u16) -> (SocketId, Peer) {
        let mut peer = Peer { port, sequence: 1000, acknowledgement: 0 };
        self.segment(&mut peer, 0x02, 0);
        self.poll();
        self.heard(&mut peer);
        self.segment(&mut peer, 0x10, 0);
        self.poll();
        let (id, _) = self.stack.accept(listener, self.now).unwrap();
        (id, peer)
    }
}

/// Runs `warm` rounds of a scenario and then, inside `around`, `rounds` more. `NAME+N` runs it beside
/// N idle connections.
pub(crate) fn run(scenario: &str, warm: u64, rounds: u64, around: impl FnOnce(&mut dyn FnMut())) {
    let (scenario, idle) = match scenario.split_once('+') {
        Some((scenario, idle)) => (scenario, idle.parse().unwrap()),
        None => (scenario, 0u32),
    };
    let mut bench = Bench::new();
    let listener = bench.listen();
    let mut held = Vec::new();
    for n in 0..idle {
        held.push(bench.open(listener, 1000 + n as u16));
    }
    let mut buffer = vec![0; 65_536];
    let response = vec![b'x'; 1024 + 150];
    let bulk = vec![b'x'; 64_240];
    let (id, mut peer) = bench.open(listener, 60_000);
    let udp = bench.stack.socket(Family::V4, Kind::Datagram).unwrap();
    bench.stack.bind(udp, "0.0.0.0:7".parse().unwrap()).unwrap();
    let mut one = |round: u64| {
        let bench = &mut bench;
        match scenario {
            "nothing" => {}
            "poll" => bench.poll(),
            "get" => {
                bench.segment(&mut peer, 0x18, 120);
                bench.poll();
                let read = bench.stack.recv(id, &mut buffer, false, bench.now).unwrap();
                assert_eq!(read, 120);
                bench.stack.send(id, &response, bench.now).unwrap();
                bench.heard(&mut peer);
            }
            "echo" => {
                bench.deliver(14 + 28 + 1472, |frame| {
                    Bench::ip(frame, 17);
                    frame[34..42].copy_from_slice(&[0x10, 0, 0, 7, 0x05, 0xc8, 1, 1]);
                });
                bench.poll();
                let (len, from) =
                    bench.stack.recv_from(udp, &mut buffer, false, bench.now).unwrap();
                bench.stack.send_to(udp, &buffer[..len], from, bench.now).unwrap();
                assert_eq!(bench.ends.lock().unwrap().len, 14 + 28 + 1472);
            }
            "send" => {
                let mut sent = 0;
                while sent < bulk.len() {
                    sent += bench.stack.send(id, &bulk[sent..], bench.now).unwrap();
                    bench.heard(&mut peer);
                    bench.segment(&mut peer, 0x10, 0);
                    bench.poll();
                }
            }
            "receive" => {
                bench.segment(&mut peer, 0x10, 64_240);
                bench.poll();
                let read = bench.stack.recv(id, &mut buffer, false, bench.now).unwrap();
                assert_eq!(read, 64_240);
            }
            "receive small" => {
                bench.segment(&mut peer, 0x10, 1460);
                bench.poll();
                let read = bench.stack.recv(id, &mut buffer, false, bench.now).unwrap();
                assert_eq!(read, 1460);
            }
            "receive batch" => {
                (0..32).for_each(|_| bench.segment(&mut peer, 0x10, 1460));
                bench.poll();
                let read = bench.stack.recv(id, &mut buffer, false, bench.now).unwrap();
                assert_eq!(read, 32 * 1460);
            }
            "ack" => {
                bench.segment(&mut peer, 0x10, 0);
                bench.poll();
            }
            "connection" => {
                let (id, mut peer) = bench.open(listener, (round % 50_000) as u16 + 1);
                bench.segment(&mut peer, 0x18, 120);
                bench.poll();
                bench.stack.recv(id, &mut buffer, false, bench.now).unwrap();
                bench.stack.send(id, &response, bench.now).unwrap();
                bench.stack.close(id, bench.now).unwrap();
                bench.heard(&mut peer);
                bench.segment(&mut peer, 0x11, 0);
                bench.poll();
            }
            other => panic!("no scenario {other}"),
        }
    };
    (0..warm).for_each(&mut one);
    around(&mut || (warm..warm + rounds).for_each(&mut one));
    assert!(bench.stack.local_address(id) == Ok(SocketAddr::from((OURS, 80))));
}

//! Hundreds of clients at once over a wire that delays, loses and repeats, and a small ring: each gets its answer, and no
//! connection is reset. The clients do what RFC 9293 has of a client that asks once.

mod common;

use common::{Abilities, Card, Ends, MAC, fill};
use proptest::prelude::*;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};
use std::net::Ipv4Addr;
use std::sync::{Arc, Mutex};
use trireme_netstack::{
    Addressing, Config, Duration, Family, Instant, Ipv4Addressing, Ipv6Addressing, Kind, SocketId,
    Stack,
};
use trireme_nic::ReceiveChecksum;

const PEER_MAC: [u8; 6] = [2, 0, 0, 0, 0, 1];
const OURS: [u8; 4] = [10, 0, 0, 2];
const PEER: [u8; 4] = [10, 0, 0, 1];
const FIN: u8 = 1;
const SYN: u8 = 2;
const RST: u8 = 4;
const ACK: u8 = 16;
const REQUEST: &[u8] = b"GET /one.bin HTTP/1.1\r\n\r\n";
const ANSWER: &[u8] = &[b'a'; 300];
/// Everything is over before this, unless it hangs: the clients' patience, and a few lost segments in a row.
const PATIENCE: Duration = Duration::from_secs(60);

/// What a wire does to the frames on it.
#[derive(Clone, Copy, Debug)]
struct Weather {
    clients: usize,
    ring: usize,
    /// Of 1000 frames, how many are lost, and how many come twice.
    lost: u32,
    twice: u32,
    /// Microseconds a frame takes at most.
    delay: u32,
    seed: u64,
}

struct Random(u64);

impl Random {
    /// Below `limit`.
    fn below(&mut self, limit: u32) -> u32 {
        // xorshift64*
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        ((self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 33) % u64::from(limit.max(1))) as u32
    }
}

#[derive(Debug, PartialEq, Eq)]
enum State {
    SynSent,
    Established,
    LastAck,
    Done,
    Reset,
}

struct Client {
    port: u16,
    state: State,
    /// Next sequence number to send, first unacknowledged, next expected.
    next: u32,
    unacknowledged: u32,
    expected: u32,
    answer: Vec<u8>,
    /// When to send again, and after how long once more.
    again: Option<(Instant, Duration)>,
}

impl Client {
    fn segment(&self, sequence: u32, flags: u8, data: &[u8]) -> Vec<u8> {
        let mut tcp = [self.port.to_be_bytes(), 80u16.to_be_bytes()].concat();
        tcp.extend_from_slice(&sequence.to_be_bytes());
        let acknowledgement = if flags & ACK != 0 { self.expected } else { 0 };
        tcp.extend_from_slice(&acknowledgement.to_be_bytes());
        let options: &[u8] = if flags & SYN != 0 { &[2, 4, 0x05, 0xb4, 1, 3, 3, 7] } else { &[] };
        let offset = (5 + options.len() as u8 / 4) << 4;
        tcp.extend_from_slice(&[offset, flags, 0xff, 0xff, 0, 0, 0, 0]);
        tcp.extend_from_slice(options);
        tcp.extend_from_slice(data);
        let [hi, lo] = ((20 + tcp.len()) as u16).to_be_bytes();
        let mut frame = [&MAC[..], &PEER_MAC, &[8, 0]].concat();
        frame.extend_from_slice(&[0x45, 0, hi, lo, 0, 1, 0x40, 0, 64, 6, 0, 0]);
        frame.extend_from_slice(&PEER);
        frame.extend_from_slice(&OURS);
        frame.extend_from_slice(&tcp);
        fill(&mut frame);
        frame
    }

    fn acknowledge(&self) -> Vec<u8> {
        self.segment(self.next, ACK, &[])
    }

    /// Sends what is unacknowledged, for the first time or again.
    fn send(&mut self, now: Instant, out: &mut Vec<Vec<u8>>) {
        let after = match (self.again, &self.state) {
            (Some((_, after)), _) => after * 2,
            (None, State::SynSent) => Duration::from_secs(1),
            (None, _) => Duration::from_millis(200),
        };
        self.again = Some((now + after, after));
        out.push(match self.state {
            State::SynSent => self.segment(self.unacknowledged, SYN, &[]),
            State::Established => self.segment(self.unacknowledged, ACK, REQUEST),
            _ => self.segment(self.unacknowledged, FIN | ACK, &[]),
        });
    }

    fn reset(&mut self) {
        self.state = State::Reset;
        self.again = None;
    }

    fn hear(&mut self, tcp: &[u8], now: Instant, out: &mut Vec<Vec<u8>>) {
        let be32 = |at: usize| u32::from_be_bytes(*tcp[at..].first_chunk().unwrap());
        let (sequence, acknowledgement, flags) = (be32(4), be32(8), tcp[13]);
        let data = &tcp[usize::from(tcp[12] >> 4) * 4..];
        let answers = acknowledgement == self.next && flags & ACK != 0;
        match self.state {
            State::Done | State::Reset => {}
            State::SynSent if flags & RST != 0 => {
                if answers {
                    self.reset();
                }
            }
            State::SynSent => {
                assert_eq!(flags & (SYN | ACK), SYN | ACK);
                assert!(answers);
                self.state = State::Established;
                self.expected = sequence.wrapping_add(1);
                self.unacknowledged = self.next;
                out.push(self.acknowledge());
                self.again = None;
                self.send(now, out);
                self.next = self.next.wrapping_add(REQUEST.len() as u32);
            }
            _ if flags & RST != 0 => {
                // RFC 5961, 3.2
                if sequence == self.expected {
                    self.reset();
                }
            }
            _ if flags & SYN != 0 => out.push(self.acknowledge()),
            _ => {
                if answers {
                    self.unacknowledged = self.next;
                    self.again = None;
                    if self.state == State::LastAck {
                        self.state = State::Done;
                        return;
                    }
                }
                let length = data.len() as u32 + u32::from(flags & FIN != 0);
                if length == 0 {
                    return;
                }
                // A repeated segment may have the FIN that the first one had not.
                let known = self.expected.wrapping_sub(sequence);
                if known < length {
                    self.answer.extend_from_slice(&data[known as usize..]);
                    self.expected = sequence.wrapping_add(length);
                    if flags & FIN != 0 && self.state == State::Established {
                        // It has all of the answer, so the request has arrived, whatever was said of that.
                        self.state = State::LastAck;
                        self.unacknowledged = self.next;
                        self.again = None;
                        self.send(now, out);
                        self.next = self.next.wrapping_add(1);
                        return;
                    }
                }
                out.push(self.acknowledge());
            }
        }
    }
}

struct World {
    stack: Stack,
    ends: Arc<Mutex<Ends>>,
    listener: SocketId,
    open: Vec<SocketId>,
    clients: BTreeMap<u16, Client>,
    /// Frames on the wire: when they arrive, and whether for us.
    wire: BinaryHeap<Reverse<(Instant, bool, Vec<u8>)>>,
    random: Random,
    weather: Weather,
    now: Instant,
}

impl World {
    fn new(weather: Weather) -> World {
        let (card, ends) = Card::new(Abilities { ring: weather.ring, ..Abilities::default() });
        let now = Instant::from_secs(1);
        let config = Config { seed: [5; 32], buffer_budget: 32 << 20, hostname: String::new() };
        let mut stack = Stack::new(config, now);
        let ipv4 =
            Ipv4Addressing::Static { address: Ipv4Addr::from(OURS), prefix: 24, gateway: None };
        let ipv6 = Ipv6Addressing::LinkLocal;
        stack.add_interface(card, Addressing { ipv4, ipv6, ..Addressing::default() }, now);
        let listener = stack.socket(Family::V4, Kind::Stream).unwrap();
        stack.bind(listener, "0.0.0.0:80".parse().unwrap()).unwrap();
        stack.listen(listener, 128, now).unwrap();
        let mut random = Random(weather.seed | 1);
        let clients = (0..weather.clients as u16).map(|n| {
            let first = random.below(u32::MAX);
            let client = Client {
                port: 10_000 + n,
                state: State::SynSent,
                next: first.wrapping_add(1),
                unacknowledged: first,
                expected: 0,
                answer: Vec::new(),
                again: None,
            };
            (client.port, client)
        });
        let clients = clients.collect();
        let (open, wire) = (Vec::new(), BinaryHeap::new());
        World { stack, ends, listener, open, clients, wire, random, weather, now }
    }

    /// Puts a frame on the wire, where others may overtake it.
    fn put(&mut self, ours: bool, frame: Vec<u8>) {
        let copies = match self.random.below(1000) {
            n if n < self.weather.lost => 0,
            n if n < self.weather.lost + self.weather.twice => 2,
            _ => 1,
        };
        for _ in 0..copies {
            let delay = self.random.below(self.weather.delay);
            let at = self.now + Duration::from_micros(u64::from(delay));
            self.wire.push(Reverse((at, ours, frame.clone())));
        }
    }

    /// The server: reads the request, answers, closes.
    fn serve(&mut self) {
        let now = self.now;
        while self.stack.next_event().is_some() {}
        while let Ok((id, _)) = self.stack.accept(self.listener, now) {
            self.open.push(id);
        }
        let stack = &mut self.stack;
        self.open.retain(|&id| {
            let mut request = [0; 100];
            match stack.recv(id, &mut request, false, now) {
                Ok(len) if len > 0 => {
                    assert_eq!(&request[..len], REQUEST);
                    assert_eq!(stack.send(id, ANSWER, now), Ok(ANSWER.len()));
                    stack.close(id, now).unwrap();
                    false
                }
                Ok(_) => panic!("an end before the request"),
                Err(error) => {
                    assert_eq!(error, trireme_netstack::Error::WouldBlock);
                    true
                }
            }
        });
    }

    fn hear(&mut self, frame: &[u8]) {
        if frame[12..14] == [8, 6] && frame[20..22] == [0, 1] && frame[38..42] == PEER {
            let reply = [&[0, 1, 8, 0, 6, 4, 0, 2][..], &PEER_MAC, &PEER, &MAC, &OURS].concat();
            return self.put(true, [&MAC[..], &PEER_MAC, &[8, 6], &reply].concat());
        }
        if frame[12..14] != [8, 0] || frame[23] != 6 {
            return;
        }
        let len = 14 + usize::from(u16::from_be_bytes([frame[16], frame[17]]));
        let tcp = &frame[34..len];
        let port = u16::from_be_bytes([tcp[2], tcp[3]]);
        let mut out = Vec::new();
        let client = self.clients.get_mut(&port).expect("a client's port");
        client.hear(tcp, self.now, &mut out);
        for frame in out {
            self.put(true, frame);
        }
    }

    fn run(&mut self) {
        let begun = self.now;
        let mut out = Vec::new();
        for client in self.clients.values_mut() {
            client.send(begun, &mut out);
        }
        for frame in out {
            self.put(true, frame);
        }
        while self.clients.values().any(|c| !matches!(c.state, State::Done | State::Reset)) {
            loop {
                let again = self.stack.poll(self.now).again;
                self.serve();
                let sent: Vec<_> = self.ends.lock().unwrap().sent.drain(..).collect();
                for frame in sent {
                    self.put(false, frame);
                }
                if !again {
                    break;
                }
            }
            // To what happens next.
            let next = [
                self.stack.wake_at(),
                self.wire.peek().map(|Reverse((at, ..))| *at),
                self.clients.values().filter_map(|c| Some(c.again?.0)).min(),
            ];
            let next = next.into_iter().flatten().min().expect("something to wait for");
            self.now = next.max(self.now + Duration::from_micros(1));
            assert!(self.now < begun + PATIENCE, "{}", self.told());
            while let Some(Reverse((at, ..))) = self.wire.peek()
                && *at <= self.now
            {
                let Some(Reverse((_, ours, frame))) = self.wire.pop() else { break };
                match ours {
                    true => {
                        let mut ends = self.ends.lock().unwrap();
                        ends.towards.push_back((frame, ReceiveChecksum::Unverified));
                    }
                    false => self.hear(&frame),
                }
            }
            let mut out = Vec::new();
            for client in self.clients.values_mut() {
                if client.again.is_some_and(|(at, _)| at <= self.now) {
                    client.send(self.now, &mut out);
                }
            }
            for frame in out {
                self.put(true, frame);
            }
        }
    }

    /// Where the clients are.
    fn told(&self) -> String {
        let of = |state| self.clients.values().filter(|c| c.state == state).count();
        let [syn, open, last] = [State::SynSent, State::Established, State::LastAck].map(of);
        format!("{syn} wait for the handshake, {open} for the answer, {last} for its end")
    }
}

fn weather() -> impl Strategy<Value = Weather> {
    let parts = (
        1usize..400,
        prop::sample::select(vec![6usize, 16, 64, 256]),
        prop::sample::select(vec![0u32, 0, 10, 100]),
        prop::sample::select(vec![0u32, 50]),
        prop::sample::select(vec![1u32, 300, 5_000, 100_000, 1_500_000]),
        any::<u64>(),
    );
    parts.prop_map(|(clients, ring, lost, twice, delay, seed)| Weather {
        clients,
        ring,
        lost,
        twice,
        delay,
        seed,
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(16))]
    #[test]
    fn nobody_is_reset_and_everybody_answered(weather in weather()) {
        let mut world = World::new(weather);
        world.run();
        let reset: Vec<_> = world.clients.values().filter(|c| c.state == State::Reset).map(|c| c.port).collect();
        prop_assert!(reset.is_empty(), "reset: {reset:?} {:?}", world.stack.statistics());
        for client in world.clients.values() {
            prop_assert!(client.answer == ANSWER, "{}: {} octets", client.port, client.answer.len());
        }
    }
}

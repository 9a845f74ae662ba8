//! Whatever comes from the wire, and whatever the program calls: no panic, no growth, and afterwards
//! the stack still serves.
//!
//! Frames are made of what the stack itself sends, turned round, so that they fit its connections, and of
//! templates for everything else; then they are damaged. The card claims all sums right, so that
//! damage gets past the checksums. `TRIREME_HOSTILE_ROUNDS` makes it run longer.

mod common;

use common::{Abilities, Card, Ends, MAC, fill};
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use trireme_netstack::{
    Addressing, Config, Duration, Event, Family, Instant, Ipv4Addressing, Ipv6Addressing, Kind,
    Shutdown, SocketId, SocketOption, Stack,
};
use trireme_nic::ReceiveChecksum;

struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    fn below(&mut self, limit: usize) -> usize {
        (self.next() >> 11) as usize % limit
    }

    fn one_in(&mut self, n: usize) -> bool {
        self.below(n) == 0
    }
}

const PEER_MAC: [u8; 6] = [2, 0, 0, 0, 0, 1];

fn ethernet(ethertype: [u8; 2], to: [u8; 6], rest: &[&[u8]]) -> Vec<u8> {
    let mut frame = [&to[..], &PEER_MAC, &ethertype].concat();
    rest.iter().for_each(|part| frame.extend_from_slice(part));
    frame
}

fn ipv4(protocol: u8, source: [u8; 4], destination: [u8; 4], payload: &[u8]) -> Vec<u8> {
    let len = (20 + payload.len()) as u16;
    let [hi, lo] = len.to_be_bytes();
    let header = [0x45, 0, hi, lo, 0, 1, 0, 0, 64, protocol, 0, 0];
    let to = if destination[0] >= 224 { [0xff; 6] } else { MAC };
    let mut frame = ethernet([8, 0], to, &[&header, &source, &destination, payload]);
    let sum = !common::sum(&[&frame[14..34]]);
    frame[24..26].copy_from_slice(&sum.to_be_bytes());
    frame
}

fn ipv6(next: u8, hops: u8, source: &str, destination: &str, payload: &[u8]) -> Vec<u8> {
    let [hi, lo] = (payload.len() as u16).to_be_bytes();
    let address = |text: &str| text.parse::<std::net::Ipv6Addr>().unwrap().octets();
    let (source, destination) = (address(source), address(destination));
    let header = [0x60, 0, 0, 0, hi, lo, next, hops];
    let mut frame = ethernet([0x86, 0xdd], MAC, &[&header, &source, &destination, payload]);
    if next == 58 {
        let len = (payload.len() as u32).to_be_bytes();
        let sum = !common::sum(&[&source, &destination, &len, &[0, 58], payload]);
        frame[56..58].copy_from_slice(&sum.to_be_bytes());
    }
    frame
}

fn tcp(source: u16, destination: u16, sequence: u32, acknowledgement: u32, flags: u8) -> Vec<u8> {
    let mut segment = [source.to_be_bytes(), destination.to_be_bytes()].concat();
    segment.extend_from_slice(&sequence.to_be_bytes());
    segment.extend_from_slice(&acknowledgement.to_be_bytes());
    segment.extend_from_slice(&[0x70, flags, 0x20, 0, 0, 0, 0, 0, 2, 4, 5, 0xb4, 3, 3, 7, 1]);
    segment
}

fn template(random: &mut Random) -> Vec<u8> {
    let (peer, ours) = ([10, 0, 0, 1], [10, 0, 0, 2]);
    let port = 1000 + random.below(40) as u16;
    let flags = [0x02, 0x10, 0x18, 0x11, 0x04, 0x14, 0x12][random.below(7)];
    let (a, b) = (random.next() as u32, random.next() as u32);
    match random.below(18) {
        0..4 => {
            let mut segment = tcp(port, 80, a, b, flags);
            segment.extend(vec![0; random.below(200)]);
            ipv4(6, peer, ours, &segment)
        }
        4 => ipv6(6, 64, "fd00::1", "fd00::2", &tcp(port, 80, a, b, flags)),
        5 => ipv4(17, peer, ours, &[0, 9, 0, 7, 0, 12, 0, 0, 1, 2, 3, 4]),
        6 => ipv4(17, peer, [239, 1, 2, 3], &[0, 9, 0, 7, 0, 8, 0, 0]),
        7 => ipv4(17, peer, [255; 4], &[0, 67, 0, 68, 0, 8, 0, 0]),
        8 => ipv4(1, peer, ours, &[8, 0, 0xf7, 0xff, 0, 0, 0, 0]),
        9 => {
            // An error about something we may have sent.
            let quoted = ipv4(6, ours, peer, &tcp(80, port, a, b, 0x10));
            let mut message = vec![3, random.below(16) as u8, 0, 0, 0, 0, 2, 0];
            message.extend_from_slice(&quoted[14..42]);
            let sum = !common::sum(&[&message]);
            message[2..4].copy_from_slice(&sum.to_be_bytes());
            ipv4(1, peer, ours, &message)
        }
        10 => ipv4(2, peer, [224, 0, 0, 1], &[0x11, 10, 0xee, 0xf5, 0, 0, 0, 0]),
        11 => {
            // A fragment.
            let mut frame = ipv4(17, peer, ours, &[7; 64]);
            frame[20] = 0x20 * (random.below(2) as u8);
            frame[21] = random.below(64) as u8;
            frame[18] = random.below(4) as u8;
            let sum = {
                frame[24..26].fill(0);
                !common::sum(&[&frame[14..34]])
            };
            frame[24..26].copy_from_slice(&sum.to_be_bytes());
            frame
        }
        12 => {
            let fragment = [17, 0, 0, random.below(4) as u8 * 8 + 1, 0, 0, 0, 1];
            let payload = [&fragment[..], &[9; 40]].concat();
            ipv6(44, 64, "fd00::1", "fd00::2", &payload)
        }
        13 => {
            let target = [0xfd, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2];
            let kind = 135 + random.below(2) as u8;
            let message =
                [&[kind, 0, 0, 0, 0x60, 0, 0, 0][..], &target, &[1, 1], &PEER_MAC].concat();
            ipv6(58, 255, "fd00::1", "fd00::2", &message)
        }
        14 => {
            let prefix = [3, 4, 64, 0xc0, 0, 0, 14, 16, 0, 0, 14, 16, 0, 0, 0, 0, 0xfd, 9];
            let head = [134, 0, 0, 0, 64, 0, 7, 8, 0, 0, 0, 0, 0, 0, 0, 0];
            let message = [&head[..], &prefix, &[0; 14]].concat();
            ipv6(58, 255, "fe80::1", "ff02::1", &message)
        }
        15 => {
            ipv6(58, 1, "fe80::1", "ff02::1", &[&[130, 0, 0, 0, 0, 9, 0, 0][..], &[0; 20]].concat())
        }
        16 => {
            let arp = [0, 1, 8, 0, 6, 4, 0, 1 + random.below(2) as u8];
            let from = [10, 0, 0, random.below(256) as u8];
            ethernet([8, 6], [0xff; 6], &[&arp, &PEER_MAC, &from, &[0; 6], &ours])
        }
        _ => (0..random.below(100)).map(|_| random.next() as u8).collect(),
    }
}

/// Makes a frame of ours one of the peer's: addresses, ports and sequence numbers change sides.
fn turned_round(frame: &[u8]) -> Option<Vec<u8>> {
    let mut turned = frame.to_vec();
    turned[..6].copy_from_slice(&frame[6..12]);
    turned[6..12].copy_from_slice(&PEER_MAC);
    let (transport, protocol) = match frame[12..14] {
        [8, 0] => {
            turned[26..30].copy_from_slice(&frame[30..34]);
            turned[30..34].copy_from_slice(&frame[26..30]);
            (34, frame[23])
        }
        [0x86, 0xdd] => {
            turned[22..38].copy_from_slice(&frame[38..54]);
            turned[38..54].copy_from_slice(&frame[22..38]);
            (54, frame[20])
        }
        _ => return None,
    };
    let rest = frame.get(transport..transport + 4)?;
    turned[transport..transport + 2].copy_from_slice(&rest[2..]);
    turned[transport + 2..transport + 4].copy_from_slice(&rest[..2]);
    if protocol == 6 {
        let at = transport + 4;
        let sequence = u32::from_be_bytes(frame.get(at..at + 4)?.try_into().ok()?);
        let flags = frame.get(transport + 13)?;
        let header = usize::from(frame.get(transport + 12)? >> 4) * 4;
        let control = u32::from(flags & 1 != 0) + u32::from(flags & 2 != 0);
        let end = sequence.wrapping_add((frame.len() - transport - header) as u32 + control);
        turned[at..at + 4].copy_from_slice(&frame[at + 4..at + 8]);
        turned[at + 4..at + 8].copy_from_slice(&end.to_be_bytes());
        turned[transport + 13] |= 0x10;
    }
    Some(turned)
}

fn damage(random: &mut Random, frame: &mut Vec<u8>) {
    let deep = frame.len().min(90);
    for _ in 0..random.below(4) {
        if deep == 0 {
            return;
        }
        let at = random.below(deep);
        match random.below(4) {
            0 => frame[at] = random.next() as u8,
            1 => frame[at] ^= 1 << random.below(8),
            2 => frame[at] = [0, 1, 0x7f, 0x80, 0xff][random.below(5)],
            _ => frame[at] = frame[at].wrapping_add(1),
        }
    }
    match random.below(12) {
        0 => frame.truncate(random.below(frame.len() + 1)),
        1 => frame.extend(vec![0; random.below(100)]),
        _ => {}
    }
}

/// Makes a TCP segment one that nearly fits: numbers off by a little, any flags, any window, any
/// length. This is where sequence arithmetic goes wrong.
fn nearly(random: &mut Random, frame: &mut Vec<u8>) {
    let (transport, protocol) = match frame[12..14] {
        [8, 0] => (34, frame[23]),
        _ => (54, frame[20]),
    };
    if protocol != 6 || frame.len() < transport + 20 {
        return;
    }
    for at in [transport + 4, transport + 8] {
        let number = u32::from_be_bytes(frame[at..at + 4].try_into().unwrap());
        let far = random.next() as u32 % 70_000;
        let off = [0, 0, 0, 1, 2, u32::MAX, u32::MAX - 1, far, far.wrapping_neg(), 1460, 1 << 31];
        let number = number.wrapping_add(off[random.below(off.len())]);
        frame[at..at + 4].copy_from_slice(&number.to_be_bytes());
    }
    let flags = [0x10, 0x10, 0x10, 0x18, 0x11, 0x19, 0x14, 0x12, 0x02, 0x01, 0x04, 0x3f, 0x00];
    frame[transport + 13] = flags[random.below(flags.len())];
    let window = [0, 1, 100, 0x7fff, 0xffff, random.next() as u16][random.below(6)];
    frame[transport + 14..transport + 16].copy_from_slice(&window.to_be_bytes());
    frame.truncate(transport + 20);
    frame[transport + 12] = 0x50;
    let len = [0, 0, 0, 1, 10, 1460, random.below(4000)][random.below(7)];
    frame.extend((0..len).map(|n| n as u8));
    if frame[12] == 8 {
        let total = (frame.len() - 14) as u16;
        frame[16..18].copy_from_slice(&total.to_be_bytes());
    } else {
        let payload = (frame.len() - 54) as u16;
        frame[18..20].copy_from_slice(&payload.to_be_bytes());
    }
}

struct Host {
    stack: Stack,
    ends: Arc<Mutex<Ends>>,
    now: Instant,
    sockets: Vec<SocketId>,
}

impl Host {
    fn new() -> Host {
        let (card, ends) = Card::new(Abilities { ring: 64, ..Abilities::default() });
        let now = Instant::from_secs(1);
        let config = Config { seed: [9; 32], buffer_budget: 4 << 20, hostname: String::new() };
        let mut stack = Stack::new(config, now);
        let addressing = Addressing {
            ipv4: Ipv4Addressing::Static {
                address: [10, 0, 0, 2].into(),
                prefix: 24,
                gateway: Some([10, 0, 0, 1].into()),
            },
            ipv6: Ipv6Addressing::Auto,
            ..Addressing::default()
        };
        stack.add_interface(card, addressing, now);
        let ours = trireme_netstack::Cidr { address: "fd00::2".parse().unwrap(), prefix: 64 };
        stack.add_address(0, ours, now);
        let mut sockets = Vec::new();
        let listener = stack.socket(Family::V6, Kind::Stream).unwrap();
        stack.bind(listener, "[::]:80".parse().unwrap()).unwrap();
        stack.listen(listener, 128, now).unwrap();
        sockets.push(listener);
        let udp = stack.socket(Family::V6, Kind::Datagram).unwrap();
        stack.bind(udp, "[::]:7".parse().unwrap()).unwrap();
        let group = SocketOption::JoinMulticastV4([239, 1, 2, 3].into(), [0; 4].into());
        stack.set_option(udp, group, now).unwrap();
        sockets.push(udp);
        Host { stack, ends, now, sockets }
    }

    fn deliver(&mut self, frame: Vec<u8>, honest: bool) {
        let said = match honest {
            true => ReceiveChecksum::Unverified,
            false => ReceiveChecksum::Verified { ip: true, transport: true },
        };
        self.ends.lock().unwrap().towards.push_back((frame, said));
    }

    /// What a program might do.
    fn call(&mut self, random: &mut Random) {
        let now = self.now;
        let stack = &mut self.stack;
        let mut buffer = [0; 3000];
        let id = self.sockets[random.below(self.sockets.len())];
        match random.below(14) {
            0 => {
                let listener = self.sockets[0];
                if let Ok((accepted, _)) = stack.accept(listener, now) {
                    self.sockets.push(accepted);
                }
            }
            1..4 => {
                let _ = stack.recv(id, &mut buffer, random.one_in(5), now);
            }
            4..7 => {
                let len = random.below(3000);
                let _ = stack.send(id, &buffer[..len], now);
            }
            7 => {
                let how = [Shutdown::Read, Shutdown::Write, Shutdown::Both][random.below(3)];
                let _ = stack.shutdown(id, how, now);
            }
            8 if self.sockets.len() > 2 => {
                let at = 2 + random.below(self.sockets.len() - 2);
                let id = self.sockets.swap_remove(at);
                assert_eq!(stack.close(id, now), Ok(()));
            }
            9 if self.sockets.len() < 60 => {
                if let Ok(id) = stack.socket(Family::V4, Kind::Stream) {
                    let host = [10, 0, 0, random.below(4) as u8];
                    let _ = stack.connect(id, SocketAddr::from((host, 1000)), now);
                    self.sockets.push(id);
                }
            }
            10 => {
                let _ = stack.send_to(
                    id,
                    &buffer[..random.below(3000)],
                    "10.0.0.1:9".parse().unwrap(),
                    now,
                );
            }
            11 => {
                let _ = stack.set_option(id, SocketOption::NoDelay(random.one_in(2)), now);
            }
            12 => {
                let _ = stack.set_option(id, SocketOption::KeepAlive(random.one_in(2)), now);
            }
            _ => {
                let _ = (stack.take_error(id), stack.readiness(id), stack.available(id));
            }
        }
    }
}

#[test]
fn mutated_frames_and_random_calls() {
    let rounds = std::env::var("TRIREME_HOSTILE_ROUNDS").map_or(60_000, |n| n.parse().unwrap());
    let seed = std::env::var("TRIREME_HOSTILE_SEED").map_or(0x1234_5678, |n| n.parse().unwrap());
    let mut random = Random(seed);
    let mut host = Host::new();
    let mut recent: Vec<Vec<u8>> = Vec::new();
    for _ in 0..rounds {
        for _ in 0..random.below(4) {
            let turned = if recent.is_empty() || random.one_in(3) {
                None
            } else {
                turned_round(&recent[random.below(recent.len())])
            };
            let honest = random.one_in(8);
            let mut frame = turned.unwrap_or_else(|| template(&mut random));
            match random.below(8) {
                0..2 => {}
                2..5 if frame.len() >= 54 => nearly(&mut random, &mut frame),
                _ => damage(&mut random, &mut frame),
            }
            host.deliver(frame, honest);
        }
        for _ in 0..random.below(3) {
            host.call(&mut random);
        }
        let pause = [1, 10, 1000, 100_000, 3_000_000][random.below(5)];
        host.now += Duration::from_micros(pause);
        host.stack.poll(host.now);
        while let Some(Event::Socket(_) | Event::Query(_)) = host.stack.next_event() {}
        let sent: Vec<Vec<u8>> = host.ends.lock().unwrap().sent.drain(..).collect();
        recent.extend(sent);
        if recent.len() > 40 {
            recent.drain(..recent.len() - 40);
        }
        let (_, used, budget) = host.stack.usage();
        assert!(used <= budget);
    }

    // All that goes away, and the stack serves as ever.
    let now = host.now;
    for id in host.sockets.drain(2..) {
        host.stack.close(id, now).unwrap();
    }
    for _ in 0..2000 {
        host.now += Duration::from_millis(500);
        host.stack.poll(host.now);
        while host
            .stack
            .accept(host.sockets[0], host.now)
            .map(|(id, _)| host.stack.close(id, host.now))
            .is_ok()
        {}
    }
    println!("{:?}", host.stack.statistics());
    let left = host.stack.sockets();
    assert!(left.len() <= 2, "{left:#?}");
    host.ends.lock().unwrap().sent.clear();
    // The peer is known anew, then one honest handshake.
    let mut syn = ipv4(6, [10, 0, 0, 1], [10, 0, 0, 2], &tcp(5555, 80, 1, 0, 2));
    fill(&mut syn);
    host.deliver(syn, true);
    host.now += Duration::from_millis(1);
    host.stack.poll(host.now);
    let answer = host.ends.lock().unwrap().sent.pop_front().expect("an answer to an honest SYN");
    assert_eq!(answer[47], 0x12, "SYN-ACK");
}

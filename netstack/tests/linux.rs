//! The stack against Linux's own, over a TAP in a network namespace of the test's own.
//!
//! Needs root; without it the tests say so and pass. The peer is this very program, started again
//! inside the namespace ([`peer`]), so that it is plain `std::net`.

mod common;

use common::{Abilities, Card, Ends};
use socket2::{Domain, SockAddr, Socket, Type};
use std::collections::HashMap;
use std::io::{ErrorKind, Read, Write};
use std::net::{Ipv4Addr, Shutdown as Half, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::process::{Child, Command};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::sync::{Arc, Mutex};
use std::time::Duration as StdDuration;
use std::time::Instant as Clock;
use trireme_netstack::{
    Addressing, Config, Error, Event, Family, Instant, Ipv4Addressing, Ipv6Addressing, Kind,
    SocketId, SocketOption, Stack,
};
use trireme_nic::ReceiveChecksum;
use trireme_wire::{FrameSink, Impairment, Wire};

const V4: &str = "10.77.0.2";
const V6: &str = "fd77::2";
/// Of the card itself, where those are in a VLAN.
const UNTAGGED: &str = "10.78.0.2";
const SCENARIO: &str = "TRIREME_PEER_SCENARIO";

// What the stack serves, by TCP port.
const ECHO: u16 = 7;
const SINK: u16 = 9;
const RESET: u16 = 13;
const SOURCE: u16 = 19;
// What the peer listens on when the stack connects.
const PEER: u16 = 2000;

fn pattern(at: usize) -> u8 {
    ((at as u32).wrapping_mul(2_654_435_761) >> 23) as u8
}

fn hash(mut state: u64, bytes: &[u8]) -> u64 {
    for byte in bytes {
        state = (state ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3);
    }
    state
}

/// A namespace with one TAP in it, gone when dropped.
struct Namespace(String);

fn ip(arguments: &str) {
    let status = Command::new("ip").args(arguments.split(' ')).status().expect("iproute2");
    assert!(status.success(), "ip {arguments}");
}

impl Namespace {
    fn new() -> Option<(Namespace, Wire)> {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let name = format!("trn{}x{}", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed));
        let wire = match trireme_wire::tap(&name) {
            Ok(wire) => wire,
            Err(error) => {
                println!("skipped, no TAP: {error}");
                return None;
            }
        };
        let namespace = Namespace(name.clone());
        ip(&format!("netns add {name}"));
        ip(&format!("link set {name} netns {name}"));
        ip(&format!("-n {name} addr add 10.77.0.1/24 dev {name}"));
        ip(&format!("-n {name} addr add 10.78.0.1/24 dev {name}"));
        ip(&format!("-n {name} addr add fd77::1/64 dev {name} nodad"));
        ip(&format!("-n {name} link set lo up"));
        ip(&format!("-n {name} link set {name} up"));
        Some((namespace, wire))
    }

    fn start(&self, scenario: &str) -> Child {
        let program = std::env::current_exe().unwrap();
        Command::new("ip")
            .args(["netns", "exec", &self.0])
            .arg(program)
            .args(["peer", "--exact", "--nocapture"])
            .env(SCENARIO, scenario)
            .spawn()
            .unwrap()
    }
}

impl Drop for Namespace {
    fn drop(&mut self) {
        let _ = Command::new("ip").args(["netns", "del", &self.0]).status();
    }
}

enum Role {
    Echo { held: Vec<u8>, ended: bool },
    Sink { hash: u64 },
    Source { head: Vec<u8>, next: usize, len: usize },
    Client { sent: usize, received: Vec<u8> },
}

const TAG: [u8; 4] = [0x81, 0x00, 0, 5];

/// Is one of its addresses, in ARP or IPv4, in 10.78.0.0/24?
fn is_untagged(frame: &[u8]) -> bool {
    let addresses = match (frame[12], frame[13]) {
        (0x08, 0x00) => [26, 30],
        (0x08, 0x06) => [28, 38],
        _ => return false,
    };
    addresses.iter().any(|&at| frame[at..at + 3] == [10, 78, 0])
}

/// The stack's side: an appliance that serves a few simple protocols.
struct Appliance {
    stack: Stack,
    ends: Arc<Mutex<Ends>>,
    sink: Box<dyn FrameSink>,
    frames: Receiver<Vec<u8>>,
    outward: Impairment,
    inward: Impairment,
    began: Clock,
    /// All but 10.78.0.0/24 is in VLAN 5. The peer's kernel may know no VLANs: tags are put on and taken off
    /// between it and the card.
    vlan: bool,
    listeners: HashMap<SocketId, u16>,
    streams: HashMap<SocketId, Role>,
    udp: SocketId,
    errors: Vec<Error>,
    finished: usize,
}

impl Appliance {
    fn new(wire: Wire, abilities: Abilities, faults: &str, vlan: bool) -> Appliance {
        let Wire { sink, mut source } = wire;
        let (to, frames) = channel();
        std::thread::spawn(move || {
            let mut frame = Vec::new();
            while let Ok(true) = source.receive(&mut frame) {
                if to.send(frame.clone()).is_err() {
                    break;
                }
            }
        });
        let (card, ends) = Card::new(abilities);
        let now = Instant::from_micros(0);
        let config =
            Config { seed: [7; 32], buffer_budget: 256 << 20, hostname: "test".to_string() };
        let mut stack = Stack::new(config, now);
        let addressing = Addressing {
            ipv4: Ipv4Addressing::Static {
                address: V4.parse().unwrap(),
                prefix: 24,
                gateway: Some(Ipv4Addr::new(10, 77, 0, 1)),
            },
            ipv6: Ipv6Addressing::Static {
                address: V6.parse().unwrap(),
                prefix: 64,
                gateway: None,
            },
            ..Addressing::default()
        };
        if vlan {
            let untagged = Addressing {
                ipv4: Ipv4Addressing::Static {
                    address: UNTAGGED.parse().unwrap(),
                    prefix: 24,
                    gateway: None,
                },
                ipv6: Ipv6Addressing::LinkLocal,
                ..Addressing::default()
            };
            stack.add_interface(card, untagged, now);
            stack.add_vlan(&"eth0.5:eth0".parse().unwrap(), addressing, now).unwrap();
        } else {
            stack.add_interface(card, addressing, now);
        }
        let mut listeners = HashMap::new();
        for port in [ECHO, SINK, RESET, SOURCE] {
            let id = stack.socket(Family::V6, Kind::Stream).unwrap();
            stack.bind(id, SocketAddr::new("::".parse().unwrap(), port)).unwrap();
            stack.listen(id, 128, now).unwrap();
            listeners.insert(id, port);
        }
        let udp = stack.socket(Family::V6, Kind::Datagram).unwrap();
        stack.bind(udp, SocketAddr::new("::".parse().unwrap(), ECHO)).unwrap();
        let faults: trireme_wire::Faults = faults.parse().unwrap();
        Appliance {
            stack,
            ends,
            sink,
            frames,
            outward: Impairment::new(faults, 1),
            inward: Impairment::new(faults, 2),
            began: Clock::now(),
            vlan,
            listeners,
            streams: HashMap::new(),
            udp,
            errors: Vec::new(),
            finished: 0,
        }
    }

    fn now(&self) -> Instant {
        Instant::from_micros(self.began.elapsed().as_micros() as i64)
    }

    fn take_in(&mut self, frame: &[u8]) {
        let at = self.began.elapsed();
        let mut ends = self.ends.lock().unwrap();
        let mut frame = frame.to_vec();
        if self.vlan && !is_untagged(&frame) {
            frame.splice(12..12, TAG);
        }
        self.inward.pass(at, &frame, &mut |frame| {
            ends.towards.push_back((frame.to_vec(), ReceiveChecksum::Unverified));
        });
    }

    fn put_out(&mut self) {
        let at = self.began.elapsed();
        let sent: Vec<Vec<u8>> = self.ends.lock().unwrap().sent.drain(..).collect();
        for mut frame in sent {
            if self.vlan && frame[12..16] == TAG {
                frame.drain(12..16);
                assert!(!is_untagged(&frame), "{frame:x?}");
            } else if self.vlan {
                // Neighbours and the like are asked for on both.
                assert!(is_untagged(&frame) || frame[12..14] == [0x86, 0xdd], "{frame:x?}");
            }
            let sink = &mut self.sink;
            self.outward.pass(at, &frame, &mut |frame| drop(sink.send(frame)));
        }
    }

    /// Runs until `done` or the time is over.
    fn run(&mut self, seconds: u64, mut done: impl FnMut(&mut Appliance) -> bool) {
        let end = Clock::now() + StdDuration::from_secs(seconds);
        while Clock::now() < end {
            let now = self.now();
            let poll = self.stack.poll(now);
            self.serve();
            self.put_out();
            if done(self) {
                return;
            }
            let wait = if poll.again {
                StdDuration::ZERO
            } else {
                let wait = self.stack.wake_at().map_or(50_000, |at| {
                    at.total_micros().saturating_sub(self.now().total_micros()).clamp(0, 50_000)
                });
                StdDuration::from_micros(wait as u64)
            };
            match self.frames.recv_timeout(wait) {
                Ok(frame) => self.take_in(&frame),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => panic!("the TAP is gone"),
            }
            while let Ok(frame) = self.frames.try_recv() {
                self.take_in(&frame);
            }
            let at = self.began.elapsed();
            {
                let mut ends = self.ends.lock().unwrap();
                self.inward.release(at, &mut |frame| {
                    ends.towards.push_back((frame.to_vec(), ReceiveChecksum::Unverified));
                });
            }
            let sink = &mut self.sink;
            self.outward.release(at, &mut |frame| drop(sink.send(frame)));
        }
        panic!("not done after {seconds} s: {:#?}", self.stack.sockets());
    }

    fn serve(&mut self) {
        while let Some(event) = self.stack.next_event() {
            let Event::Socket(id) = event else { continue };
            let now = self.now();
            if id == self.udp {
                let mut buffer = vec![0; 65_536];
                while let Ok((len, from)) = self.stack.recv_from(id, &mut buffer, false, now) {
                    self.stack.send_to(id, &buffer[..len], from, now).unwrap();
                }
            } else if let Some(&port) = self.listeners.get(&id) {
                while let Ok((accepted, _)) = self.stack.accept(id, now) {
                    let role = match port {
                        ECHO => Role::Echo { held: Vec::new(), ended: false },
                        SINK => Role::Sink { hash: 0xcbf2_9ce4_8422_2325 },
                        SOURCE => Role::Source { head: Vec::new(), next: 0, len: 0 },
                        _ => {
                            let linger = SocketOption::Linger(Some(Default::default()));
                            self.stack.set_option(accepted, linger, now).unwrap();
                            self.stack.close(accepted, now).unwrap();
                            continue;
                        }
                    };
                    self.streams.insert(accepted, role);
                    self.stream(accepted);
                }
            } else {
                self.stream(id);
            }
        }
    }

    fn stream(&mut self, id: SocketId) {
        let now = self.now();
        let stack = &mut self.stack;
        let Some(role) = self.streams.get_mut(&id) else { return };
        let result: Result<bool, Error> = (|| {
            let mut buffer = [0; 65_536];
            match role {
                Role::Echo { held, ended } => loop {
                    while !held.is_empty() {
                        let sent = stack.send(id, held, now)?;
                        held.drain(..sent);
                    }
                    if *ended {
                        return Ok(true);
                    }
                    let read = stack.recv(id, &mut buffer, false, now)?;
                    held.extend_from_slice(&buffer[..read]);
                    *ended = read == 0;
                },
                Role::Sink { hash: state } => loop {
                    let mut len = 1;
                    let read = stack.recv_with(id, now, |bytes| {
                        *state = hash(*state, bytes);
                        len = bytes.len();
                        len
                    })?;
                    assert_eq!(read, len);
                    if len == 0 {
                        stack.send(id, &state.to_be_bytes(), now)?;
                        return Ok(true);
                    }
                },
                Role::Source { head, next, len } => {
                    while head.len() < 8 {
                        let missing = 8 - head.len();
                        let read = stack.recv(id, &mut buffer[..missing], false, now)?;
                        if read == 0 {
                            return Ok(true);
                        }
                        head.extend_from_slice(&buffer[..read]);
                        if head.len() == 8 {
                            *len = u64::from_be_bytes(head[..].try_into().unwrap()) as usize;
                        }
                    }
                    while *next < *len {
                        *next += stack.send_with(id, now, |room| {
                            let count = room.len().min(*len - *next);
                            for (n, place) in room[..count].iter_mut().enumerate() {
                                *place = pattern(*next + n);
                            }
                            count
                        })?;
                    }
                    Ok(true)
                }
                Role::Client { sent, received } => {
                    let request = b"hello from the other side";
                    while *sent < request.len() {
                        *sent += stack.send(id, &request[*sent..], now)?;
                    }
                    let read = stack.recv(id, &mut buffer, false, now)?;
                    received.extend_from_slice(&buffer[..read]);
                    if read == 0 {
                        assert_eq!(received, request);
                    }
                    Ok(read == 0)
                }
            }
        })();
        match result {
            Err(Error::WouldBlock) => return,
            Ok(false) => return self.stream(id),
            Ok(true) => self.finished += 1,
            Err(error) => self.errors.push(error),
        }
        self.streams.remove(&id);
        self.stack.close(id, now).unwrap();
    }
}

/// Runs a scenario of the peer's against the appliance.
fn against(scenario: &str, abilities: Abilities, faults: &str, seconds: u64) -> Option<Appliance> {
    between(scenario, abilities, faults, false, seconds)
}

/// The same; `vlan`: through VLAN 5.
fn between(
    scenario: &str,
    abilities: Abilities,
    faults: &str,
    vlan: bool,
    seconds: u64,
) -> Option<Appliance> {
    let (namespace, wire) = Namespace::new()?;
    let mut appliance = Appliance::new(wire, abilities, faults, vlan);
    // Until duplicate detection is over, the IPv6 address is not ours.
    let ready = |appliance: &mut Appliance| {
        appliance.stack.interfaces().last().is_some_and(|last| last.addresses.len() >= 3)
    };
    appliance.run(10, ready);
    let mut peer = namespace.start(scenario);
    let mut status = None;
    appliance.run(seconds, |_| {
        status = peer.try_wait().unwrap();
        status.is_some()
    });
    assert!(status.unwrap().success(), "the peer failed");
    Some(appliance)
}

/// Not a test but the peer, when it is started as such.
#[test]
fn peer() {
    let Ok(scenario) = std::env::var(SCENARIO) else { return };
    match scenario.as_str() {
        "bulk" => {
            for address in [V4, V6] {
                download(connect(address, SOURCE), 6_000_000);
                upload(connect(address, SINK), 6_000_000);
            }
        }
        "beside" => {
            // Without a tag, as much as there is; in the VLAN meanwhile, a little.
            let mut flood = connect(UNTAGGED, SOURCE);
            flood.write_all(&u64::MAX.to_be_bytes()).unwrap();
            let mut reader = flood.try_clone().unwrap();
            let reading = std::thread::spawn(move || {
                let mut total = 0;
                let mut buffer = vec![0; 64 << 10];
                while let Ok(read @ 1..) = reader.read(&mut buffer) {
                    total += read;
                }
                total
            });
            download(connect(V4, SOURCE), 300_000);
            flood.shutdown(Half::Both).unwrap();
            assert!(reading.join().unwrap() > 300_000, "there was no flood");
        }
        "lossy" => {
            for address in [V4, V6] {
                download(connect(address, SOURCE), 150_000);
                upload(connect(address, SINK), 150_000);
            }
        }
        "small window" => {
            let socket = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
            socket.set_recv_buffer_size(2304).unwrap();
            socket.connect(&address(V4, SOURCE)).unwrap();
            download(socket.into(), 1_000_000);
        }
        "many" => {
            let threads: Vec<_> = (0..512)
                .map(|n: usize| {
                    let work = move || {
                        let mut stream = connect(V4, ECHO);
                        exchange(&mut stream, &n.to_be_bytes());
                    };
                    std::thread::Builder::new().stack_size(64 << 10).spawn(work).unwrap()
                })
                .collect();
            threads.into_iter().for_each(|thread| thread.join().unwrap());
        }
        "reuse" => {
            // The same four-tuples again and again, reset by us or closed by the server first.
            for round in 0..40 {
                let socket = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
                socket.set_reuse_address(true).unwrap();
                socket.bind(&address("0.0.0.0", 40_000)).unwrap();
                socket.connect(&address(V4, if round % 2 == 0 { ECHO } else { SOURCE })).unwrap();
                let mut stream: TcpStream = socket.into();
                if round % 2 == 0 {
                    exchange(&mut stream, b"again");
                    // Not into TIME-WAIT here, or Linux itself would refuse the port.
                    Socket::from(stream).set_linger(Some(StdDuration::ZERO)).unwrap();
                } else {
                    download(stream, 1000);
                }
            }
        }
        "half close" => {
            let mut stream = connect(V6, ECHO);
            stream.write_all(&[5; 100_000]).unwrap();
            stream.shutdown(Half::Write).unwrap();
            let mut all = Vec::new();
            stream.read_to_end(&mut all).unwrap();
            assert_eq!(all, [5; 100_000]);
        }
        "resets" => {
            // The reset may come before connect returns.
            let reset = TcpStream::connect((V4, RESET)).and_then(|mut s| s.read(&mut [0; 9]));
            assert_eq!(reset.unwrap_err().kind(), ErrorKind::ConnectionReset);
            for host in [V4, V6] {
                let refused = TcpStream::connect((host, 4444)).unwrap_err();
                assert_eq!(refused.kind(), ErrorKind::ConnectionRefused);
            }
            let mut stream = connect(V4, ECHO);
            exchange(&mut stream, b"before");
            Socket::from(stream).set_linger(Some(StdDuration::ZERO)).unwrap();
            std::thread::sleep(StdDuration::from_millis(100));
        }
        "datagrams" => {
            for (host, any) in [(V4, "0.0.0.0"), (V6, "::")] {
                let socket = UdpSocket::bind((any, 0)).unwrap();
                socket.set_read_timeout(Some(StdDuration::from_secs(2))).unwrap();
                socket.connect((host, ECHO)).unwrap();
                for len in [0, 1, 1452, 1472, 1473, 3000, 8000, 65_000] {
                    let data: Vec<u8> = (0..len).map(pattern).collect();
                    socket.send(&data).unwrap();
                    let mut answer = vec![0; 65_536];
                    let read = socket.recv(&mut answer).unwrap_or_else(|e| panic!("{len}: {e}"));
                    assert!(answer[..read] == data, "{len} bytes");
                }
                socket.connect((host, 4444)).unwrap();
                socket.send(b"?").unwrap();
                let refused = socket.recv(&mut [0; 9]).unwrap_err();
                assert_eq!(refused.kind(), ErrorKind::ConnectionRefused);
            }
        }
        "listen" => {
            let listener = TcpListener::bind(("::", PEER)).unwrap();
            for _ in 0..2 {
                let (mut stream, _) = listener.accept().unwrap();
                let mut all = [0; 25];
                stream.read_exact(&mut all).unwrap();
                stream.write_all(&all).unwrap();
            }
        }
        "ping" => {
            for (host, size) in [(V4, "56"), (V6, "56"), (V4, "8000"), (V6, "8000")] {
                let arguments = ["-c", "3", "-i", "0.2", "-W", "2", "-s", size, host];
                match Command::new("ping").args(arguments).output() {
                    Ok(output) => assert!(output.status.success(), "{host} {size} {output:?}"),
                    Err(error) => println!("no ping here: {error}"),
                }
            }
        }
        other => panic!("no scenario {other}"),
    }
}

fn address(host: &str, port: u16) -> SockAddr {
    SocketAddr::new(host.parse().unwrap(), port).into()
}

fn connect(host: &str, port: u16) -> TcpStream {
    let stream = TcpStream::connect((host, port)).unwrap();
    stream.set_read_timeout(Some(StdDuration::from_secs(30))).unwrap();
    stream
}

fn exchange(stream: &mut TcpStream, data: &[u8]) {
    stream.write_all(data).unwrap();
    let mut answer = vec![0; data.len()];
    stream.read_exact(&mut answer).unwrap();
    assert_eq!(answer, data);
}

fn download(mut stream: TcpStream, len: usize) {
    stream.write_all(&(len as u64).to_be_bytes()).unwrap();
    let mut all = Vec::new();
    stream.read_to_end(&mut all).unwrap();
    assert_eq!(all.len(), len);
    assert!(all.iter().enumerate().all(|(at, byte)| *byte == pattern(at)));
}

fn upload(mut stream: TcpStream, len: usize) {
    let data: Vec<u8> = (0..len).map(pattern).collect();
    stream.write_all(&data).unwrap();
    stream.shutdown(Half::Write).unwrap();
    let mut answer = [0; 8];
    stream.read_exact(&mut answer).unwrap();
    assert_eq!(u64::from_be_bytes(answer), hash(0xcbf2_9ce4_8422_2325, &data));
}

#[test]
fn bulk_with_all_offloads() {
    let Some(appliance) = against("bulk", Abilities::default(), "", 60) else { return };
    let largest = appliance.ends.lock().unwrap().largest;
    assert!(largest > 60_000, "large frames went to the card: {largest}");
    assert_eq!(appliance.errors, []);
}

#[test]
fn bulk_with_a_card_that_can_nothing() {
    let nothing =
        Abilities { checksums: false, segmentation: false, ring: 64, ..Abilities::default() };
    let Some(appliance) = against("bulk", nothing, "", 60) else { return };
    assert_eq!(appliance.ends.lock().unwrap().largest, 1514);
}

#[test]
fn bulk_through_a_tiny_ring() {
    let tiny = Abilities { checksums: true, segmentation: false, ring: 8, ..Abilities::default() };
    against("bulk", tiny, "", 60);
}

/// Frames of 1500 bytes and a tag, cut and summed by card or software; the parent's counters of all.
fn bulk_in_a_vlan(abilities: Abilities) -> Option<(Appliance, u64, u64)> {
    let appliance = between("bulk", abilities, "", true, 60)?;
    assert_eq!(appliance.errors, []);
    let mut found = HashMap::new();
    appliance.stack.nic(1)?.statistics(&mut |name, value| _ = found.insert(name, value));
    appliance.stack.offload_statistics(1, &mut |name, value| _ = found.insert(name, value));
    println!("{found:?}");
    assert!(found["rx_packets"] > 8_000 && found["tx_packets"] > 300);
    Some((appliance, found["tx_vlan_hw"], found["tx_vlan_sw"]))
}

#[test]
fn bulk_in_a_vlan_with_tags_by_the_card() {
    let able = Abilities { tags: true, ..Abilities::default() };
    let Some((appliance, card, software)) = bulk_in_a_vlan(able) else { return };
    assert!(card > 300 && software == 0);
    assert!(appliance.ends.lock().unwrap().largest > 60_000, "large frames went to the card");
}

#[test]
fn bulk_in_a_vlan_with_tags_in_the_frame() {
    let Some((appliance, card, software)) = bulk_in_a_vlan(Abilities::default()) else { return };
    assert!(card == 0 && software > 300);
    assert!(appliance.ends.lock().unwrap().largest > 60_000, "large frames went to the card");
    let nothing =
        Abilities { checksums: false, segmentation: false, ring: 64, ..Abilities::default() };
    let Some((appliance, ..)) = bulk_in_a_vlan(nothing) else { return };
    assert_eq!(appliance.ends.lock().unwrap().largest, 1518);
}

#[test]
fn a_vlan_gets_its_share_of_a_ring_that_is_always_full() {
    let tiny = Abilities { segmentation: false, ring: 8, ..Abilities::default() };
    between("beside", tiny, "", true, 60);
}

#[test]
fn small_window() {
    against("small window", Abilities::default(), "", 30);
}

#[test]
fn five_hundred_connections_at_once() {
    let Some(mut appliance) = against("many", Abilities::default(), "", 30) else { return };
    appliance.run(5, |appliance| appliance.finished == 512);
    assert_eq!(appliance.errors, []);
    let statistics = appliance.stack.statistics();
    println!("{statistics:?}");
    assert_eq!(statistics.listen_overflows, 0);
}

#[test]
fn the_same_port_again_and_again() {
    let Some(appliance) = against("reuse", Abilities::default(), "", 30) else { return };
    assert_eq!(appliance.errors, [Error::ConnectionReset; 20]);
}

#[test]
fn half_close() {
    against("half close", Abilities::default(), "", 30);
}

#[test]
fn resets_both_ways() {
    let Some(appliance) = against("resets", Abilities::default(), "", 30) else { return };
    assert_eq!(appliance.errors, [Error::ConnectionReset]);
}

#[test]
fn datagrams_of_all_sizes() {
    against("datagrams", Abilities::default(), "", 30);
}

#[test]
fn datagrams_without_checksums_by_the_card() {
    let nothing =
        Abilities { checksums: false, segmentation: false, ring: 64, ..Abilities::default() };
    against("datagrams", nothing, "", 30);
}

#[test]
fn ping() {
    against("ping", Abilities::default(), "", 30);
}

#[test]
fn loss_both_ways() {
    against("lossy", Abilities::default(), "loss=1", 120);
}

/// Duplicate acknowledgements come while the ring has no room for what they ask for.
#[test]
fn loss_through_a_tiny_ring() {
    let tiny = Abilities { segmentation: false, ring: 8, ..Abilities::default() };
    against("lossy", tiny, "loss=1", 120);
}

#[test]
fn duplicates_reordering_and_corruption() {
    against("lossy", Abilities::default(), "duplication=2,reorder=2,corruption=1,hold=3", 120);
}

#[test]
fn active_opens() {
    let Some((namespace, wire)) = Namespace::new() else { return };
    let mut appliance = Appliance::new(wire, Abilities::default(), "", false);
    appliance.run(10, |appliance| appliance.stack.interfaces()[1].addresses.len() >= 3);
    let mut peer = namespace.start("listen");
    for (host, family) in [("10.77.0.1", Family::V4), ("fd77::1", Family::V6)] {
        let to = SocketAddr::new(host.parse().unwrap(), PEER);
        // The peer may not listen yet.
        for _ in 0..100 {
            let now = appliance.now();
            let id = appliance.stack.socket(family, Kind::Stream).unwrap();
            assert_eq!(appliance.stack.connect(id, to, now), Err(Error::InProgress));
            appliance.streams.insert(id, Role::Client { sent: 0, received: Vec::new() });
            let (before, failed) = (appliance.finished, appliance.errors.len());
            appliance.run(10, |a| a.finished > before || a.errors.len() > failed);
            if appliance.finished > before {
                break;
            }
            std::thread::sleep(StdDuration::from_millis(50));
        }
    }
    assert_eq!(appliance.finished, 2);
    assert!(appliance.errors.iter().all(|error| *error == Error::ConnectionRefused));
    let mut status = None;
    appliance.run(10, |_| {
        status = peer.try_wait().unwrap();
        status.is_some()
    });
    assert!(status.unwrap().success());

    // Nobody has this address: three questions, one second apart.
    let now = appliance.now();
    let id = appliance.stack.socket(Family::V4, Kind::Stream).unwrap();
    let nobody = "10.77.0.99:1".parse().unwrap();
    assert_eq!(appliance.stack.connect(id, nobody, now), Err(Error::InProgress));
    appliance.errors.clear();
    appliance.streams.insert(id, Role::Client { sent: 0, received: Vec::new() });
    appliance.run(10, |a| !a.errors.is_empty());
    assert_eq!(appliance.errors, [Error::HostUnreachable]);
}

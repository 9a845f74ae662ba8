//! Listening: connections made from SYNs, the accept queue, and SYN cookies when there are too many.
//!
//! smoltcp has no backlog: a listening socket becomes the connection. So no socket listens at all
//! until a SYN comes; then one is taken, told to listen, and given the SYN.

use crate::buffers::Engine;
use crate::cookie::{self, Acknowledged};
use crate::flow::FlowKey;
use crate::frame::{Headers, tcp_flags};
use crate::line::{Wire, maximum_segment_size};
use crate::packet::{self, Bare, Pair};
use crate::socket::{Family, Options, Readiness};
use crate::stack::{Slot, Stack};
use crate::tcp::{Flow, HALF_OPEN_TIMEOUT, Phase, ip_len, segment_of};
use alloc::collections::VecDeque;
use core::net::IpAddr;
use smoltcp::time::{Duration, Instant};
use smoltcp::wire::{IpAddress, IpListenEndpoint};

/// Half-open connections of all listeners together; beyond that, cookies.
const MAX_HALF_OPEN: usize = 256;
/// With this many half-open connections the next get modest rings: strangers who never answer must
/// not hold the large ones.
const LARGE_HALF_OPEN: usize = 32;
const MODEST_RING: usize = 32 << 10;
/// Accepted-to-be connections of one listener at least. `std` asks for 128, and a burst of 512 must
/// survive; the budget bounds the rest.
const LEAST_BACKLOG: usize = 1024;
/// And at most.
const MOST_BACKLOG: usize = 4096;
/// How long after the last cookie was sent an ACK may bring one back.
const COOKIE_LIFETIME: Duration = Duration::from_secs(128);

pub(crate) struct Listener {
    /// Unspecified: any.
    pub(crate) local: IpAddr,
    pub(crate) port: u16,
    pub(crate) family: Family,
    pub(crate) options: Options,
    backlog: usize,
    /// Places of established connections.
    pub(crate) queue: VecDeque<u32>,
    half_open: usize,
    /// A peer was left outside for want of memory.
    pub(crate) crowded: bool,
    pub(crate) announced: bool,
}

impl Listener {
    pub(crate) fn new(
        local: IpAddr,
        port: u16,
        family: Family,
        options: Options,
        backlog: usize,
    ) -> Listener {
        Listener {
            local,
            port,
            family,
            options,
            backlog: backlog.clamp(LEAST_BACKLOG, MOST_BACKLOG),
            queue: VecDeque::new(),
            half_open: 0,
            crowded: false,
            announced: false,
        }
    }

    pub(crate) fn readiness(&self) -> Readiness {
        let mut ready = Readiness::empty();
        ready.set(Readiness::READABLE, !self.queue.is_empty());
        ready.set(Readiness::CROWDED, self.crowded);
        ready
    }
}

/// What is kept of listening across listeners.
#[derive(Default)]
pub(crate) struct HalfOpen {
    count: usize,
    /// When the last cookie was sent.
    last_cookie: Option<Instant>,
}

impl Stack {
    /// A SYN for which there is no connection. `packet` starts with the IP header.
    pub(crate) fn syn(
        &mut self,
        listener: u32,
        interface: usize,
        key: FlowKey,
        packet: &mut [u8],
        headers: &Headers,
        now: Instant,
    ) {
        let tcp =
            usize::from(headers.transport_offset() as u16 - u16::from(headers.shape.link_len));
        let Some(Slot::Listener(state)) = self.slots.at(listener) else { return };
        if state.queue.len() >= state.backlog {
            self.statistics.listen_overflows += 1;
            return;
        }
        if self.half_open.count >= MAX_HALF_OPEN
            || state.half_open + state.queue.len() >= state.backlog
        {
            return self.send_cookie((listener, interface), key, packet, tcp, headers, now);
        }
        let Some(index) = self.half_open_flow(listener, interface, key, headers, now) else {
            // No memory for rings, but a cookie costs none.
            return self.send_cookie((listener, interface), key, packet, tcp, headers, now);
        };
        let isn = self.isn(&key, now);
        if let Some(flow) = self.flow_mut(index) {
            flow.wire.isn = Some(isn);
            flow.deadline = Some(now + HALF_OPEN_TIMEOUT);
        }
        self.feed(index, packet, tcp, now);
    }

    /// A connection in LISTEN for `key`, ready to be given its SYN.
    fn half_open_flow(
        &mut self,
        listener: u32,
        interface: usize,
        key: FlowKey,
        headers: &Headers,
        now: Instant,
    ) -> Option<u32> {
        let Some(Slot::Listener(state)) = self.slots.at(listener) else { return None };
        let (family, options) = (state.family, state.options);
        let mut wanted = options.receive_buffer.max(options.send_buffer);
        if self.half_open.count >= LARGE_HALF_OPEN {
            wanted = if wanted == 0 { MODEST_RING } else { wanted.min(MODEST_RING) };
        }
        let mut engine: Engine = self.buffers.take(wanted)?;
        let endpoint =
            IpListenEndpoint { addr: Some(IpAddress::from(key.local)), port: key.local_port };
        // A socket given back is closed, and ports are not 0 (the parser refuses them).
        if engine.socket_mut().listen(endpoint).is_err() {
            self.buffers.give(engine);
            return None;
        }
        let wire = self.wire(interface, key, headers.source_mac);
        let phase = Phase::HalfOpen(listener);
        let flow = Flow::new(engine, key, interface, wire, phase, family, options, now);
        let index = self.slots.insert(Slot::Flow(flow)).index;
        self.flows.insert(index, &self.slots);
        self.half_open.count += 1;
        if let Some(Slot::Listener(state)) = self.slots.at_mut(listener) {
            state.half_open += 1;
        }
        Some(index)
    }

    /// What the adapter keeps for a flow to a neighbour.
    pub(crate) fn wire(
        &self,
        interface: usize,
        key: FlowKey,
        mac: trireme_nic::MacAddress,
    ) -> Wire {
        let (mtu, ethernet) = match self.interfaces.get(interface) {
            Some(interface) => {
                let ethertype = match key.remote {
                    IpAddr::V4(_) => crate::frame::ethertype::IPV4,
                    IpAddr::V6(_) => crate::frame::ethertype::IPV6,
                };
                (interface.mtu(), interface.header(mac, ethertype))
            }
            None => (1280, [0; 14]),
        };
        let announce = segment_of(mtu, key.remote);
        let segment = announce.min(segment_of(self.path_mtu(key.remote, mtu), key.remote));
        Wire {
            ethernet,
            ip_len: ip_len(key.remote),
            segment,
            announce,
            offset: 0,
            isn: None,
            swallow: false,
            sent_to: 0,
            last_to: 0,
            acknowledged: 0,
            heard_to: 0,
            window_end: 0,
            window_scale: 0,
            expected: 0,
            edge: 0,
            promised: 0,
            scale: 0,
        }
    }

    /// A half-open connection ends before it was one.
    pub(crate) fn drop_half_open(&mut self, index: u32, listener: u32) {
        self.no_longer_half_open(listener);
        self.remove_flow(index);
    }

    fn no_longer_half_open(&mut self, listener: u32) {
        self.half_open.count -= 1;
        if let Some(Slot::Listener(state)) = self.slots.at_mut(listener) {
            state.half_open -= 1;
        }
    }

    /// The handshake is done: to the accept queue.
    pub(crate) fn established(&mut self, index: u32, listener: u32, now: Instant) {
        self.no_longer_half_open(listener);
        // The SYN-ACK need not be sent again: its timer would cost each connection a turn for nothing.
        self.timers.cancel(index);
        let Stack { slots, machines, timers, .. } = self;
        if let Some(Slot::Flow(flow)) = slots.at_mut(index) {
            flow.phase = Phase::Queued(listener);
            flow.deadline = None;
            if let Some(at) = machines.any().poll_at(now, &flow.engine.set) {
                timers.arm_earlier(index, at);
            }
        }
        match self.slots.at_mut(listener) {
            Some(Slot::Listener(state)) => {
                state.queue.push_back(index);
                self.announce(listener);
            }
            _ => self.fail_flow(index, crate::Error::ConnectionAborted, now),
        }
    }

    fn send_cookie(
        &mut self,
        (listener, interface): (u32, usize),
        key: FlowKey,
        packet: &mut [u8],
        tcp: usize,
        headers: &Headers,
        now: Instant,
    ) {
        let Some(syn) = headers.tcp else { return };
        let header = usize::from(packet[tcp + 12] >> 4) * 4;
        let offered = packet
            .get_mut(tcp + 20..tcp + header)
            .and_then(maximum_segment_size)
            .map_or(536, |size| u16::from_be_bytes(*size));
        let mut wire = self.wire(interface, key, headers.source_mac);
        if let Some(Slot::Listener(state)) = self.slots.at(listener) {
            wire.limit(state.options.max_segment);
        }
        let cookie = cookie::make(
            &self.cookie_key,
            &key,
            syn.sequence,
            offered.clamp(48, wire.announce),
            now,
        );
        let answer = Bare {
            source_port: key.local_port,
            destination_port: key.remote_port,
            sequence: cookie,
            acknowledgement: syn.sequence.wrapping_add(1),
            flags: tcp_flags::SYN | tcp_flags::ACK,
            // What the smallest ring takes: which it will be is not known yet.
            window: crate::buffers::RING[0] as u16,
            segment: Some(wire.announce),
        };
        self.half_open.last_cookie = Some(now);
        self.statistics.cookies_sent += 1;
        self.send_bare(interface, key, headers.source_mac, answer);
    }

    /// What a segment is to a cookie of ours, if it acknowledges one.
    pub(crate) fn cookie_in(
        &self,
        key: &FlowKey,
        headers: &Headers,
        now: Instant,
    ) -> Option<Acknowledged> {
        let (last, ack) = (self.half_open.last_cookie?, headers.tcp?);
        if now > last + COOKIE_LIFETIME
            || ack.flags & (tcp_flags::SYN | tcp_flags::RST | tcp_flags::ACK) != tcp_flags::ACK
        {
            return None;
        }
        let peer_isn = ack.sequence.wrapping_sub(1);
        let cookie = ack.acknowledgement.wrapping_sub(1);
        cookie::check(&self.cookie_key, key, peer_isn, cookie, now)
    }

    /// An ACK for a listener without a connection: the answer to a cookie? Makes the connection, and
    /// gives it the ACK. False: it is not, nor one that came before its time.
    pub(crate) fn cookie_ack(
        &mut self,
        listener: u32,
        interface: usize,
        key: FlowKey,
        packet: &mut [u8],
        headers: &Headers,
        now: Instant,
    ) -> bool {
        let (Some(ack), Some(cookie)) = (headers.tcp, self.cookie_in(&key, headers, now)) else {
            return false;
        };
        let Acknowledged::First(segment) = cookie else {
            self.statistics.cookies_early += 1;
            return true;
        };
        let peer_isn = ack.sequence.wrapping_sub(1);
        let cookie = ack.acknowledgement.wrapping_sub(1);
        if let Some(Slot::Listener(state)) = self.slots.at(listener)
            && state.queue.len() >= state.backlog
        {
            // The peer will repeat it, or send data.
            self.statistics.listen_overflows += 1;
            return true;
        }
        let Some(index) = self.half_open_flow(listener, interface, key, headers, now) else {
            self.statistics.no_memory += 1;
            if let Some(Slot::Listener(state)) = self.slots.at_mut(listener) {
                state.crowded = true;
                self.announce(listener);
            }
            return true;
        };
        self.statistics.cookies_accepted += 1;
        if let Some(flow) = self.flow_mut(index) {
            flow.wire.isn = Some(cookie);
            flow.wire.swallow = true;
        }
        // The SYN as it must have been; smoltcp's answer to it is not sent.
        let Some(pair) = Pair::new(key.remote, key.local) else { return true };
        let tcp = pair.header_len();
        let syn = Bare {
            source_port: key.remote_port,
            destination_port: key.local_port,
            sequence: peer_isn,
            acknowledgement: 0,
            flags: tcp_flags::SYN,
            window: ack.window,
            segment: Some(segment),
        };
        let mut replayed = [0u8; 64];
        let replayed = &mut replayed[..tcp + syn.len()];
        packet::ip_header(replayed, &pair, crate::frame::protocol::TCP, 64, syn.len());
        syn.write(&mut replayed[tcp..]);
        self.feed(index, replayed, tcp, now);
        self.turn(index, true, now);
        let tcp = headers.transport_offset() - usize::from(headers.shape.link_len);
        self.feed(index, packet, tcp, now);
        true
    }

    /// The initial sequence number for a connection: RFC 6528, 3.
    pub(crate) fn isn(&self, key: &FlowKey, now: Instant) -> u32 {
        let clock = (now.total_micros() / 4) as u32;
        clock.wrapping_add(key.digest(&self.isn_key) as u32)
    }
}

//! One TCP connection: smoltcp's socket alone in its set, and what we know beside it.
//!
//! The protocol is smoltcp's. Around it: the wire's terms ([`Wire`]), the reasons of an end that
//! smoltcp does not tell, our own deadlines, and the turn ([`Stack::turn`]) in which everything one
//! connection has to send is sent.

use crate::Error;
use crate::buffers::Engine;
use crate::flow::FlowKey;
use crate::frame::tcp_flags;
use crate::interface::Interface;
use crate::line::{Capabilities, ENGINE_MTU, Line, Wire, before};
use crate::socket::{Family, Options, Readiness};
use crate::stack::{Slot, Stack};
use core::net::IpAddr;
use smoltcp::iface::{Config, Interface as Machine};
use smoltcp::socket::tcp::{self, CongestionControl, State};
use smoltcp::time::{Duration, Instant};
use smoltcp::wire::HardwareAddress;
use trireme_nic::{Feature, Nic};

/// Frames one connection may send before it is the next one's turn.
const FRAMES_PER_TURN: u32 = 8;
/// Unanswered for this long while something waits for an answer, a peer counts as lost. RFC 9293,
/// 3.8.3 (R2) wants 100 s at least.
const PEER_TIMEOUT: Duration = Duration::from_secs(120);
/// Linux gives up connecting after about as long.
pub(crate) const CONNECT_TIMEOUT: Duration = Duration::from_secs(127);
/// A SYN's half-open connection lives this long.
pub(crate) const HALF_OPEN_TIMEOUT: Duration = Duration::from_secs(10);
/// After a close, how long to wait for the peer's FIN. Linux's `tcp_fin_timeout`.
const FIN_WAIT_TIMEOUT: Duration = Duration::from_secs(60);
/// How long to wait for data that could carry the acknowledgement.
const ACK_DELAY: Duration = Duration::from_millis(10);
/// smoltcp sends nothing again before this (RFC 6298, 2.4).
const LEAST_RTO: Duration = Duration::from_secs(1);

/// Who holds a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    /// The application called connect.
    Connecting,
    /// A SYN came for the listener at this place.
    HalfOpen(u32),
    /// Established, waits for that listener's accept.
    Queued(u32),
    /// The application's.
    Open,
    /// Closed by the application, not yet over.
    Orphan,
}

/// How a turn goes on.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Step {
    /// There is something to send.
    Send,
    /// All is sent; what remains is to wait for the acknowledgement.
    Sent,
    /// smoltcp knows.
    Ask,
}

pub(crate) struct Flow {
    pub(crate) engine: Engine,
    pub(crate) key: FlowKey,
    pub(crate) interface: usize,
    pub(crate) wire: Wire,
    pub(crate) phase: Phase,
    pub(crate) family: Family,
    pub(crate) options: Options,
    pub(crate) error: Option<Error>,
    /// Readiness the application was last told of or could see.
    pub(crate) reported: Readiness,
    /// Our own deadline, beside smoltcp's.
    pub(crate) deadline: Option<Instant>,
    last_state: State,
    last_heard: Instant,
    /// On the dirty list.
    pub(crate) dirty: bool,
    /// On the list of those the full ring stopped.
    pub(crate) blocked: bool,
    /// The next hop is being asked for; nothing is sent.
    pub(crate) waiting: bool,
    /// An event is queued.
    pub(crate) announced: bool,
    /// New payload came since the last turn.
    pub(crate) fresh: bool,
    pub(crate) shut_read: bool,
    /// Keepalive probes are out.
    probing: bool,
    /// Payload bytes received since the last acknowledgement.
    unacknowledged: u32,
    /// A timer of it expired, or the ring stopped it: smoltcp must be asked.
    pub(crate) due: bool,
    /// Bytes read since the last turn that went to smoltcp: the window grew by them.
    pub(crate) read: usize,
}

impl Flow {
    #[expect(clippy::too_many_arguments)]
    pub(crate) fn new(
        mut engine: Engine,
        key: FlowKey,
        interface: usize,
        wire: Wire,
        phase: Phase,
        family: Family,
        options: Options,
        now: Instant,
    ) -> Flow {
        let socket = engine.socket_mut();
        // The socket may have served before: what its own reset leaves behind is set anew.
        socket.set_congestion_control(CongestionControl::Reno);
        socket.set_ack_delay(Some(ACK_DELAY));
        socket.set_timeout(None);
        let mut flow = Flow {
            engine,
            key,
            interface,
            wire,
            phase,
            family,
            options,
            error: None,
            reported: Readiness::empty(),
            deadline: None,
            last_state: State::Closed,
            last_heard: now,
            dirty: false,
            blocked: false,
            waiting: false,
            announced: false,
            fresh: false,
            shut_read: false,
            probing: false,
            unacknowledged: 0,
            due: false,
            read: 0,
        };
        flow.apply_options();
        flow
    }

    /// Is a received SYN the one the connection begins with?
    fn opens(&self, tcp: &[u8]) -> bool {
        match self.state() {
            State::Listen => true,
            State::SynSent => tcp[13] & tcp_flags::ACK == 0 || self.wire.answers(tcp),
            _ => false,
        }
    }

    /// Hands the options on to smoltcp.
    pub(crate) fn apply_options(&mut self) {
        let options = self.options;
        self.probing = false;
        let socket = self.engine.socket_mut();
        socket.set_nagle_enabled(!options.no_delay);
        socket.set_hop_limit(Some(options.ttl));
        socket.set_keep_alive(options.keep_alive.then_some(options.keep_idle));
        self.wire.limit(options.max_segment);
    }

    #[inline]
    pub(crate) fn socket(&self) -> &tcp::Socket<'static> {
        self.engine.socket()
    }

    #[inline]
    pub(crate) fn state(&self) -> State {
        self.engine.socket().state()
    }

    /// What the application could do.
    pub(crate) fn readiness(&self) -> Readiness {
        if self.error.is_some() {
            return Readiness::all().difference(Readiness::READ_CLOSED | Readiness::CROWDED);
        }
        let socket = self.engine.socket();
        let state = socket.state();
        if matches!(state, State::SynSent | State::SynReceived | State::Listen) {
            return Readiness::empty();
        }
        let mut ready = Readiness::empty();
        let read_closed = self.shut_read || !socket.may_recv();
        if read_closed {
            ready |= Readiness::READABLE | Readiness::READ_CLOSED;
        } else if socket.can_recv() {
            ready |= Readiness::READABLE;
        }
        if !socket.may_send() {
            ready |= Readiness::WRITABLE;
            if read_closed {
                ready |= Readiness::HANGUP;
            }
        } else if socket.send_capacity() - socket.send_queue() >= socket.send_capacity() / 4 {
            // A quarter of the ring at least, so that a writer is not woken for every segment.
            ready |= Readiness::WRITABLE;
        }
        ready
    }

    /// Bytes given to smoltcp and never sent.
    #[inline]
    fn unsent(&self) -> usize {
        let in_flight = self.wire.sent_to.wrapping_sub(self.wire.heard_to) as usize;
        self.engine.socket().send_queue().saturating_sub(in_flight)
    }

    /// Are more than a handful of segments in flight?
    #[inline]
    pub(crate) fn is_bulk(&self) -> bool {
        self.wire.sent_to.wrapping_sub(self.wire.heard_to) > 4 * u32::from(self.wire.segment)
    }

    /// Is this bare acknowledgement a repetition, while nothing but a FIN is in flight? smoltcp takes the third for the
    /// loss of data, has none to send again, and forgets the timer that would have sent the FIN again.
    fn repeats_what_only_a_fin_waits_for(&self, tcp: &[u8]) -> bool {
        matches!(self.state(), State::FinWait1 | State::Closing | State::LastAck)
            && self.engine.socket().send_queue() == 0
            && self.wire.sent_to != self.wire.heard_to
            && self.wire.has_heard(tcp)
    }

    /// Is it certain, without asking smoltcp, that there is nothing to send now? In the middle of a
    /// connection, with nothing in flight and nothing to send, all there can be is an
    /// acknowledgement that may wait.
    #[inline]
    fn is_quiet(&self) -> bool {
        self.last_state == State::Established
            && self.phase == Phase::Open
            && self.wire.sent_to == self.wire.heard_to
            && !self.options.keep_alive
            && self.unacknowledged <= u32::from(self.wire.segment)
            && self.read < self.engine.ring() / 4
            && self.engine.socket().state() == State::Established
            && self.engine.socket().send_queue() == 0
            && !self.due
    }

    /// What to do next in a turn, as far as it is plain.
    #[inline]
    fn step(&self, attempts: u32, frames: u32) -> Step {
        if self.last_state != State::Established
            || self.state() != State::Established
            || self.options.keep_alive
            || self.due
        {
            return Step::Ask;
        }
        match (self.unsent(), attempts, frames) {
            (1.., 0, _) => Step::Send,
            (0, _, 1..) if self.wire.last_to == self.wire.sent_to => Step::Sent,
            _ => Step::Ask,
        }
    }

    /// Our own business after something happened: timeouts that smoltcp would apply to idle
    /// connections too, and keepalive's two intervals.
    fn tend(&mut self, now: Instant) {
        let Options { keep_alive, keep_idle, keep_interval, keep_count, .. } = self.options;
        let probing = keep_alive && now >= self.last_heard + keep_idle;
        if probing != self.probing {
            self.probing = probing;
            let interval = if probing { keep_interval } else { keep_idle };
            self.engine.socket_mut().set_keep_alive(Some(interval));
        }
        let socket = self.engine.socket_mut();
        let awaits = match socket.state() {
            State::SynSent => Some(CONNECT_TIMEOUT),
            State::SynReceived | State::FinWait1 | State::Closing | State::LastAck => {
                Some(PEER_TIMEOUT)
            }
            _ if socket.send_queue() > 0 => Some(PEER_TIMEOUT),
            _ if keep_alive => Some(keep_idle + keep_interval * u32::from(keep_count)),
            _ => None,
        };
        socket.set_timeout(awaits);
    }
}

/// The smoltcp interfaces connections are polled through. They hold no addresses and no routes: that is
/// decided before. They differ in what they believe the device can take.
pub(crate) struct Machines {
    /// The card cuts frames of 64 KiB.
    large: Machine,
    /// Software cuts them: 16 segments at a time keep a small ring busy and amortise enough.
    medium: Machine,
    /// A frame a segment, for a nearly full ring.
    single: Machine,
}

/// 44 segments of 1460 bytes and headers: no runt behind the full ones.
const LARGE: usize = 44 * 1460 + 40;
/// Segments in a frame for software to cut.
const MEDIUM_SEGMENTS: usize = 16;

impl Machines {
    pub(crate) fn new(seed: u64, now: Instant) -> Machines {
        let machine = |limit: Option<usize>, n: u64| {
            let mut config = Config::new(HardwareAddress::Ip);
            config.random_seed = seed.wrapping_add(n);
            let mut machine = Machine::new(config, &mut Capabilities::new(limit), now);
            // It sees only what is for us.
            machine.set_any_ip(true);
            machine
        };
        const { assert!(LARGE <= ENGINE_MTU) };
        Machines {
            large: machine(Some(LARGE), 1),
            medium: machine(Some(MEDIUM_SEGMENTS * 1460 + 40), 2),
            single: machine(None, 3),
        }
    }

    /// The one for a turn of a flow on this card. `large`: the card cuts its frames.
    #[inline]
    fn choose(&mut self, nic: &dyn Nic, large: bool) -> &mut Machine {
        if large {
            &mut self.large
        } else if nic.transmit_room() >= MEDIUM_SEGMENTS + 4 {
            &mut self.medium
        } else {
            &mut self.single
        }
    }

    /// For the context that smoltcp's connect wants, and for what is received.
    pub(crate) fn any(&mut self) -> &mut Machine {
        &mut self.single
    }
}

/// Does the card cut large frames of this family?
#[inline]
pub(crate) fn card_cuts(nic: &dyn Nic, ipv6: bool) -> bool {
    let feature = if ipv6 { Feature::Tcp6Segmentation } else { Feature::TcpSegmentationOffload };
    nic.feature(feature).on && nic.max_segmented_frame().is_some_and(|max| max >= LARGE + 14)
}

impl Stack {
    pub(crate) fn flow_mut(&mut self, index: u32) -> Option<&mut Flow> {
        match self.slots.at_mut(index) {
            Some(Slot::Flow(flow)) => Some(flow),
            _ => None,
        }
    }

    /// Gives a received segment to its flow. `packet` starts with the IP header, the TCP header is at
    /// `tcp`; both are the whole packet and well-formed.
    pub(crate) fn feed(&mut self, index: u32, packet: &mut [u8], tcp: usize, now: Instant) {
        let Stack { slots, interfaces, machines, dirty, .. } = self;
        let Some(Slot::Flow(flow)) = slots.at_mut(index) else { return };
        let Some(interface) = interfaces.get_mut(flow.interface) else { return };
        let flags = packet[tcp + 13];
        let payload = packet.len() - tcp - usize::from(packet[tcp + 12] >> 4) * 4;
        flow.last_heard = now;
        let behind = flags & (tcp_flags::ACK | tcp_flags::SYN | tcp_flags::RST) == tcp_flags::ACK
            && flow.wire.is_behind_window(&packet[tcp..]);
        let bare = payload == 0 && flags & tcp_flags::FIN == 0;
        if behind && bare {
            packet[tcp + 4..tcp + 8].copy_from_slice(&flow.wire.expected.to_be_bytes());
        }
        if payload > 0 {
            flow.fresh = true;
            // A lone small segment's acknowledgement can wait for the answer; a merged one is many.
            let merged = payload >= 2 * usize::from(flow.wire.segment);
            let delay = if merged { Duration::ZERO } else { ACK_DELAY };
            flow.engine.socket_mut().set_ack_delay(Some(delay));
            flow.unacknowledged = flow.unacknowledged.saturating_add(payload as u32);
        } else if flags == tcp_flags::ACK {
            if flow.repeats_what_only_a_fin_waits_for(&packet[tcp..]) {
                return;
            }
            split_acknowledgement(flow, interface, machines.any(), packet, tcp, now);
        }
        let news = flags & tcp_flags::ACK != 0 && flow.wire.hear(&packet[tcp..]);
        if flags & tcp_flags::SYN != 0 && flow.opens(&packet[tcp..]) {
            flow.wire.synchronize(&mut packet[tcp..]);
        }
        flow.wire.incoming(&mut packet[tcp..]);
        if behind && !bare && news {
            deliver_bare(flow, interface, machines.any(), packet, tcp, now);
        }
        let (expected, queued) = (flow.wire.expected, flow.socket().recv_queue());
        deliver(flow, interface, machines.any(), packet, now);
        if payload > 0 {
            let taken = flow.socket().recv_queue().saturating_sub(queued);
            flow.wire.expect(expected.wrapping_add(taken as u32));
        }
        if !flow.dirty {
            flow.dirty = true;
            dirty.push_back(index);
        }
        if flags & tcp_flags::RST != 0 {
            self.settle(index, Some(Error::ConnectionReset), true, now);
        }
    }

    /// Sends everything a connection has to send, up to a bound, and sees to the consequences.
    /// `told`: what happens is news to the application.
    pub(crate) fn turn(&mut self, index: u32, told: bool, now: Instant) {
        let Stack { slots, interfaces, machines, timers, dirty, .. } = self;
        let Some(Slot::Flow(flow)) = slots.at_mut(index) else { return };
        let Some(interface) = interfaces.get_mut(flow.interface) else { return };
        let quiet = flow.is_quiet();
        // Something is held back, and another turn is coming for it.
        let mut unsaid = false;
        if quiet && flow.unacknowledged > 0 {
            // smoltcp's own timer for this started with the segment, at about the same time.
            timers.arm_earlier(index, now + ACK_DELAY);
        }
        if !quiet && !flow.waiting {
            flow.tend(now);
            flow.read = 0;
            let large = card_cuts(&*interface.nic, flow.wire.ip_len == 40);
            let machine = machines.choose(&*interface.nic, large);
            let (mut attempts, mut frames, mut barren) = (0, 0, 0);
            loop {
                let step = flow.step(attempts, frames);
                match step {
                    Step::Send => {}
                    Step::Sent => {
                        timers.arm_earlier(index, now + LEAST_RTO);
                        break;
                    }
                    Step::Ask => {}
                }
                let due = match step {
                    Step::Ask => machine.poll_at(now, &flow.engine.set),
                    Step::Send | Step::Sent => Some(Instant::ZERO),
                };
                match due {
                    None => break,
                    // Its end is ours to decide: smoltcp would throw unread bytes away.
                    Some(at)
                        if flow.state() == State::TimeWait
                            && at >= flow.last_heard + Duration::from_secs(1) =>
                    {
                        break;
                    }
                    Some(at) if at > now => {
                        timers.arm_earlier(index, at);
                        // An acknowledgement held back has to go out before the flow becomes a TIME-WAIT
                        // record, which could only repeat the older one.
                        unsaid = true;
                        break;
                    }
                    Some(_) => {}
                }
                if frames >= FRAMES_PER_TURN {
                    if !flow.dirty {
                        flow.dirty = true;
                        dirty.push_back(index);
                    }
                    break;
                }
                let mut line = Line {
                    received: None,
                    nic: &mut *interface.nic,
                    egress: &mut interface.egress,
                    wire: &mut flow.wire,
                    large,
                    refused: false,
                    sent: 0,
                };
                attempts += 1;
                // smoltcp forgets a fast retransmission that finds no room, its timer with it: it is asked when there is.
                if line.is_ready() {
                    machine.poll_egress(now, &mut line, &mut flow.engine.set);
                }
                let (sent, refused) = (line.sent, line.refused);
                interface.unflushed |= sent > 0;
                frames += sent;
                if sent > 0 {
                    flow.unacknowledged = 0;
                }
                if refused {
                    if !flow.blocked {
                        flow.blocked = true;
                        interface.blocked.push_back(index);
                    }
                    unsaid = true;
                    break;
                }
                if sent == 0 && step == Step::Ask {
                    // A state changed, or smoltcp says now and does nothing: do not spin.
                    barren += 1;
                    if barren > 2 {
                        timers.arm_earlier(index, now + ACK_DELAY);
                        break;
                    }
                }
            }
        }
        if unsaid && flow.phase == Phase::Orphan && flow.state() == State::TimeWait {
            return;
        }
        self.settle(index, None, told, now);
    }

    /// Draws the consequences of a state smoltcp has reached. `cause`: why it may have been closed.
    fn settle(&mut self, index: u32, cause: Option<Error>, told: bool, now: Instant) {
        let Stack { slots, timers, time_wait, .. } = self;
        let Some(Slot::Flow(flow)) = slots.at_mut(index) else { return };
        let state = flow.state();
        let before = core::mem::replace(&mut flow.last_state, state);
        if let Some(deadline) = flow.deadline {
            timers.arm_earlier(index, deadline);
        }
        match flow.phase {
            Phase::HalfOpen(listener) => match state {
                State::SynReceived => {}
                State::Listen | State::Closed => return self.drop_half_open(index, listener),
                _ => return self.established(index, listener, now),
            },
            Phase::Queued(_) if state == State::Closed => {
                // Linux lets the application accept it and find the reset.
                flow.error.get_or_insert(cause.unwrap_or(Error::TimedOut));
            }
            Phase::Queued(_) => {}
            Phase::Connecting => match state {
                State::SynSent | State::SynReceived => {}
                State::Closed => {
                    let refused = |error| match error {
                        Error::ConnectionReset => Error::ConnectionRefused,
                        other => other,
                    };
                    flow.error.get_or_insert(cause.map_or(Error::TimedOut, refused));
                    flow.phase = Phase::Open;
                }
                _ => flow.phase = Phase::Open,
            },
            Phase::Open => {
                let over = matches!(before, State::LastAck | State::TimeWait | State::Closing);
                if state == State::Closed && before != State::Closed && !over {
                    flow.error.get_or_insert(cause.unwrap_or(Error::TimedOut));
                }
            }
            Phase::Orphan => {
                let unread = flow.socket().recv_queue() > 0;
                match state {
                    State::TimeWait => {
                        let Wire { sent_to, acknowledged, .. } = flow.wire;
                        time_wait.insert(flow.key, sent_to, acknowledged, now);
                        return self.remove_flow(index);
                    }
                    State::Closed if flow.socket().remote_endpoint().is_none() => {
                        return self.remove_flow(index);
                    }
                    // Nobody will read it: the peer must know (RFC 9293, 3.6.1).
                    _ if unread && state != State::Closed => {
                        flow.engine.socket_mut().abort();
                        self.mark_dirty(index);
                        return;
                    }
                    State::FinWait2 if flow.deadline.is_none() => {
                        let deadline = now + FIN_WAIT_TIMEOUT;
                        flow.deadline = Some(deadline);
                        timers.arm_earlier(index, deadline);
                    }
                    _ => {}
                }
                return;
            }
        }
        let ready = flow.readiness();
        let fresh = core::mem::take(&mut flow.fresh) && ready.contains(Readiness::READABLE);
        let grown = ready - flow.reported;
        flow.reported = ready;
        // A read may have uncovered the peer's end. Its caller got a short read, which says "empty" and not "ended", so
        // this is news even to him.
        let ended = grown.contains(Readiness::READ_CLOSED);
        if ((told && (fresh || !grown.is_empty())) || ended)
            && !matches!(flow.phase, Phase::Queued(_))
        {
            self.announce(index);
        }
    }

    /// A flow's deadline or smoltcp's has come.
    pub(crate) fn flow_timer(&mut self, index: u32, now: Instant) {
        let Some(flow) = self.flow_mut(index) else { return };
        if flow.deadline.is_some_and(|deadline| deadline <= now) {
            flow.deadline = None;
            match flow.phase {
                Phase::HalfOpen(listener) => {
                    self.statistics.half_open_expired += 1;
                    return self.drop_half_open(index, listener);
                }
                Phase::Orphan => return self.remove_flow(index),
                _ => {}
            }
        }
        if let Some(flow) = self.flow_mut(index) {
            flow.due = true;
        }
        self.turn(index, true, now);
        if let Some(flow) = self.flow_mut(index) {
            flow.due = false;
        }
    }

    /// Puts a flow on the dirty list.
    pub(crate) fn mark_dirty(&mut self, index: u32) {
        if let Some(Slot::Flow(flow)) = self.slots.at_mut(index)
            && !flow.dirty
        {
            flow.dirty = true;
            self.dirty.push_back(index);
        }
    }

    /// Ends a flow without a word on the wire, and gives its memory back.
    pub(crate) fn remove_flow(&mut self, index: u32) {
        let Some(Slot::Flow(flow)) = self.slots.at(index) else { return };
        let key = flow.key;
        self.flows.remove(&key, index);
        self.timers.cancel(index);
        if let Some(Slot::Flow(mut flow)) = self.slots.remove(index) {
            let socket = flow.engine.socket_mut();
            socket.abort();
            self.buffers.give(flow.engine);
        }
    }

    /// A flow failed: an ICMP error, no answer from the next hop, or its address is gone.
    pub(crate) fn fail_flow(&mut self, index: u32, error: Error, now: Instant) {
        let Some(flow) = self.flow_mut(index) else { return };
        flow.waiting = false;
        match flow.phase {
            Phase::HalfOpen(listener) => self.drop_half_open(index, listener),
            Phase::Orphan => self.remove_flow(index),
            Phase::Connecting | Phase::Queued(_) | Phase::Open => {
                flow.engine.socket_mut().abort();
                self.settle(index, Some(error), true, now);
            }
        }
    }
}

/// Runs one packet through smoltcp.
#[inline]
fn deliver(
    flow: &mut Flow,
    interface: &mut Interface,
    machine: &mut Machine,
    packet: &[u8],
    now: Instant,
) {
    let mut line = Line {
        received: Some(packet),
        nic: &mut *interface.nic,
        egress: &mut interface.egress,
        wire: &mut flow.wire,
        large: false,
        refused: false,
        sent: 0,
    };
    machine.poll_ingress_single(now, &mut line, &mut flow.engine.set);
    interface.unflushed |= line.sent > 0;
}

/// Runs what a packet acknowledges through smoltcp, without what it brings.
fn deliver_bare(
    flow: &mut Flow,
    interface: &mut Interface,
    machine: &mut Machine,
    packet: &mut [u8],
    tcp: usize,
    now: Instant,
) {
    const TCP_HEADER: usize = 20;
    let mut kept = [0; 8 + TCP_HEADER];
    let (ip, header) = kept.split_at_mut(8);
    ip.copy_from_slice(&packet[..8]);
    header.copy_from_slice(&packet[tcp..tcp + TCP_HEADER]);
    let end = tcp + TCP_HEADER;
    match flow.wire.ip_len {
        40 => packet[4..6].copy_from_slice(&((end - 40) as u16).to_be_bytes()),
        _ => packet[2..4].copy_from_slice(&(end as u16).to_be_bytes()),
    }
    packet[tcp + 4..tcp + 8].copy_from_slice(&flow.wire.expected.to_be_bytes());
    packet[tcp + 12] = (TCP_HEADER as u8 / 4) << 4;
    packet[tcp + 13] = tcp_flags::ACK;
    deliver(flow, interface, machine, &packet[..end], now);
    packet[..8].copy_from_slice(&kept[..8]);
    packet[tcp..end].copy_from_slice(&kept[8..]);
}

/// An acknowledgement of many segments at once counts as one in smoltcp's slow start, which then is
/// nearly linear: peers behind TSO and GRO acknowledge 64 KiB at a time. So it is delivered in
/// steps, but only while the congestion window is what holds the sender back: bytes are
/// waiting that were never sent, more than Nagle's algorithm would hold back, and neither the card's
/// ring nor the peer's window stops them.
fn split_acknowledgement(
    flow: &mut Flow,
    interface: &mut Interface,
    machine: &mut Machine,
    packet: &mut [u8],
    tcp: usize,
    now: Instant,
) {
    const MOST: u32 = 32;
    let Some(&bytes) = packet[tcp + 8..].first_chunk::<4>() else { return };
    let Wire { segment, heard_to, sent_to, window_end, offset, .. } = flow.wire;
    let (acknowledged, segment) = (u32::from_be_bytes(bytes), u32::from(segment));
    let advance = acknowledged.wrapping_sub(heard_to);
    if advance <= 2 * segment
        || before(acknowledged, heard_to)
        || before(sent_to, acknowledged)
        || flow.blocked
        || flow.unsent() < segment as usize
        || before(window_end, sent_to.wrapping_add(segment))
    {
        return;
    }
    let steps = (advance / segment).min(MOST);
    let step = advance / steps;
    for n in 1..steps {
        let part = heard_to.wrapping_add(step * n).wrapping_sub(offset);
        packet[tcp + 8..tcp + 12].copy_from_slice(&part.to_be_bytes());
        deliver(flow, interface, machine, packet, now);
    }
    packet[tcp + 8..tcp + 12].copy_from_slice(&bytes);
}

/// The family's IP header length.
pub(crate) fn ip_len(address: IpAddr) -> u8 {
    if address.is_ipv4() { 20 } else { 40 }
}

/// Bytes of TCP payload in a segment of a packet of `mtu` bytes.
pub(crate) fn segment_of(mtu: usize, address: IpAddr) -> u16 {
    mtu.saturating_sub(usize::from(ip_len(address)) + 20).clamp(48, 0xffff - 60) as u16
}

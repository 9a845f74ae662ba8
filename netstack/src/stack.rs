//! The stack as a whole: its tables, and the turn in which everything due is done.

use crate::address::Cidr;
use crate::buffers::Buffers;
use crate::flow::Flows;
use crate::gro::Gro;
use crate::hash::{Key, Random};
use crate::interface::Interface;
use crate::ipconfig::Addressing;
use crate::limit::Limit;
use crate::listen::{HalfOpen, Listener};
use crate::loopback::Loopback;
use crate::neighbour::Action;
use crate::ping::Pings;
use crate::pmtu::Paths;
use crate::ports::Ports;
use crate::query::TimeName;
use crate::reassembly::Reassembly;
use crate::slab::Slab;
use crate::socket::{Event, Family, Kind, Options, SocketId};
use crate::statistics::Statistics;
use crate::tcp::{Flow, Machines, card_cuts};
use crate::timer::Timers;
use crate::timewait::TimeWait;
use crate::udp::Datagram;
use crate::{dns, ntp};
use alloc::boxed::Box;
use alloc::collections::VecDeque;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use smoltcp::time::Instant;
use trireme_nic::{Nic, Stop};

/// Frames taken from a card before connections have their turns.
const BATCH: usize = 64;
/// Connections that have a turn in one poll.
const TURNS: usize = 256;
/// Deadlines handled in one poll.
const EXPIRIES: usize = 256;

/// No deadline at all.
const NEVER: i64 = i64::MAX;

#[inline]
fn micros(at: Option<Instant>) -> i64 {
    at.map_or(NEVER, |at| at.total_micros())
}

/// What a stack is made with.
#[derive(Clone, Debug)]
pub struct Config {
    /// Secret random bytes: keys of hash tables, sequence numbers and cookies come from it.
    pub seed: [u8; 32],
    /// Bytes of memory for all socket buffers together.
    pub buffer_budget: usize,
    /// Name told to DHCP servers, unless the addressing has another.
    pub hostname: String,
}

/// What [`Stack::poll`] leaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Poll {
    /// There is more to do now: poll again soon. The cards' interrupts stay off.
    pub again: bool,
    /// When to poll even if no card interrupts.
    pub wake_at: Option<Instant>,
}

/// A stream socket that is neither connected nor listening.
pub(crate) struct Fresh {
    pub(crate) family: Family,
    /// Unspecified: any.
    pub(crate) local: IpAddr,
    /// 0: not bound.
    pub(crate) port: u16,
    pub(crate) options: Options,
}

/// An entry of the socket table.
pub(crate) enum Slot {
    Fresh(Fresh),
    Listener(Listener),
    Flow(Flow),
    Datagram(Datagram),
}

/// The network stack: interfaces, sockets and everything between them.
///
/// Not shared between threads by itself: the owner locks. No call blocks.
pub struct Stack {
    /// Loopback first, then eth0, eth1, …
    pub(crate) interfaces: Vec<Interface>,
    pub(crate) hostname: String,
    pub(crate) resolver: dns::Resolver,
    pub(crate) ntp: ntp::Client,
    /// Time servers given by the boot arguments.
    pub(crate) time_names: Vec<TimeName>,
    /// When to look up again those that were not found.
    pub(crate) time_names_due: Option<Instant>,
    /// When the resolver or the NTP client has something to do.
    pub(crate) services_due: Option<Instant>,
    /// A datagram has found a card full, and nothing need come that would cause a turn: the next turn is due, in
    /// which the card is asked to interrupt when there is room.
    pub(crate) unarmed: bool,
    pub(crate) slots: Slab<Slot>,
    /// TCP connections.
    pub(crate) flows: Flows,
    /// Connected UDP sockets.
    pub(crate) connected: Flows,
    pub(crate) ports: Ports,
    pub(crate) timers: Timers,
    pub(crate) machines: Machines,
    pub(crate) buffers: Buffers,
    pub(crate) random: Random,
    pub(crate) isn_key: Key,
    pub(crate) cookie_key: Key,
    /// Of every [`FlowKey`](crate::flow::FlowKey).
    pub(crate) flow_key: Key,
    pub(crate) neighbour_key: Key,
    pub(crate) half_open: HalfOpen,
    pub(crate) time_wait: TimeWait,
    pub(crate) reassembly: Reassembly,
    pub(crate) gro: Gro,
    pub(crate) paths: Paths,
    pub(crate) pings: Pings,
    pub(crate) events: VecDeque<Event>,
    /// Connections something happened to, each to have a turn.
    pub(crate) dirty: VecDeque<u32>,
    /// Counts changes of what [`Stack::route`] and the neighbour tables say.
    pub(crate) route_epoch: u32,
    pub(crate) echo_limit: Limit,
    pub(crate) error_limit: Limit,
    pub(crate) reset_limit: Limit,
    pub(crate) statistics: Statistics,
    actions: Vec<Action>,
}

impl Stack {
    /// A stack with a loopback interface and nothing else.
    pub fn new(config: Config, now: Instant) -> Stack {
        let half = |at: usize| Key::new(core::array::from_fn(|i| config.seed[at + i]));
        let (first, second) = (half(0), half(16));
        let key = |purpose: u64| {
            let (a, b) = (first.hash([purpose, 1]), second.hash([purpose, 2]));
            let mut bytes = [0; 16];
            bytes[..8].copy_from_slice(&a.to_le_bytes());
            bytes[8..].copy_from_slice(&b.to_le_bytes());
            Key::new(bytes)
        };
        let budget = config.buffer_budget;
        let mut random = Random::new(key(0));
        let mut stack = Stack {
            interfaces: Vec::new(),
            hostname: config.hostname,
            resolver: dns::Resolver::new(),
            ntp: ntp::Client::new(now),
            time_names: Vec::new(),
            time_names_due: None,
            services_due: None,
            unarmed: false,
            slots: Slab::new(),
            flows: Flows::new(),
            connected: Flows::new(),
            ports: Ports::new(),
            timers: Timers::new(),
            machines: Machines::new(random.next_u64(), now),
            buffers: Buffers::new(budget),
            isn_key: key(3),
            cookie_key: key(4),
            flow_key: key(1),
            neighbour_key: key(5),
            half_open: HalfOpen::default(),
            time_wait: TimeWait::new((budget / 4096).clamp(256, 16_384)),
            reassembly: Reassembly::default(),
            gro: Gro::new(),
            paths: Paths::new(key(7)),
            pings: Pings::default(),
            events: VecDeque::new(),
            dirty: VecDeque::new(),
            route_epoch: 0,
            echo_limit: Limit::new(10_000, 1000, now),
            error_limit: Limit::new(1000, 50, now),
            reset_limit: Limit::new(1000, 200, now),
            statistics: Statistics::default(),
            actions: Vec::new(),
            random,
        };
        let nic = Box::new(Loopback::new());
        let mut loopback = Interface::new("lo".to_string(), nic, key(8), true);
        loopback.addresses.push(Cidr { address: IpAddr::V4(Ipv4Addr::LOCALHOST), prefix: 8 });
        loopback.addresses.push(Cidr { address: IpAddr::V6(Ipv6Addr::LOCALHOST), prefix: 128 });
        stack.interfaces.push(loopback);
        stack
    }

    /// Adds a card as the next `eth` interface and returns its number, by which other calls know it: they
    /// count cards and VLANs in the order they were added.
    pub fn add_interface(
        &mut self,
        nic: Box<dyn Nic>,
        addressing: Addressing,
        now: Instant,
    ) -> usize {
        let cards = self.interfaces.iter().filter(|other| !other.loopback && other.vlan.is_none());
        let name = format!("eth{}", cards.count());
        self.add(Interface::new(name, nic, self.neighbour_key, false), addressing, now)
    }

    /// Puts an interface at the end of the list and begins to configure it; returns its number.
    pub(crate) fn add(
        &mut self,
        interface: Interface,
        addressing: Addressing,
        now: Instant,
    ) -> usize {
        let place = self.interfaces.len();
        self.interfaces.push(interface);
        self.configure(place, addressing, now);
        self.interfaces[place].flush();
        place - 1
    }

    /// Stops all cards for good: nothing is sent or received any more.
    pub fn stop(&mut self, why: Stop) {
        for interface in &mut self.interfaces {
            interface.flush();
            interface.nic.stop(why);
        }
    }

    /// One bounded turn: what the cards received, what is due, what the sockets have to send. When
    /// nothing is left, the cards may interrupt again.
    pub fn poll(&mut self, now: Instant) -> Poll {
        let mut again = false;
        self.unarmed = false;
        for n in 0..self.interfaces.len() {
            again |= self.receive_batch(n, now);
        }
        if self.due_micros() <= now.total_micros() {
            again |= self.expire(now);
        }
        again |= self.take_turns(now);
        for interface in &mut self.interfaces {
            interface.flush();
        }
        if !again {
            for interface in &mut self.interfaces {
                again |= interface.nic.arm();
            }
        }
        Poll { again, wake_at: self.wake_at() }
    }

    /// True if there may be more.
    fn receive_batch(&mut self, n: usize, now: Instant) -> bool {
        let Some(interface) = self.interfaces.get_mut(n) else { return false };
        interface.nic.service(now.total_micros() as u64);
        if interface.link_came_up() {
            self.link_up(n, now);
        }
        self.unblock_all(n, now);
        let (mut next, mut count) = (None, 0);
        while count < BATCH {
            // One ahead, to know whether another waits; an answer may have brought one meanwhile.
            let frame = next.take().or_else(|| self.interfaces[n].nic.receive());
            let Some(mut frame) = frame else { break };
            count += 1;
            if count < BATCH {
                next = self.interfaces[n].nic.receive();
            }
            self.receive(n, &mut frame, next.is_some(), now);
            self.interfaces[n].nic.recycle(frame);
        }
        while let Some(merge) = self.gro.take_any() {
            self.deliver_merge(merge, now);
        }
        count == BATCH
    }

    /// The ring of a card has drained: whoever it stopped goes on, each of the interfaces over it once the first.
    fn unblock_all(&mut self, n: usize, now: Instant) {
        let Some(sharing) = &mut self.interfaces[n].sharing else {
            if !self.interfaces[n].blocked.is_empty() && self.interfaces[n].vlan.is_none() {
                self.unblock(n, now);
            }
            return;
        };
        let (first, count) = (sharing.first, sharing.vlans.len() + 1);
        sharing.first = (first + 1) % count;
        for turn in 0..count {
            let Some(sharing) = &self.interfaces[n].sharing else { return };
            let place = match (first + turn) % count {
                0 => n,
                vlan => sharing.vlans[vlan - 1].1,
            };
            if !self.interfaces[place].blocked.is_empty() {
                self.unblock(place, now);
            }
        }
    }

    /// Whoever an interface's full ring stopped goes on, in the order they were stopped.
    fn unblock(&mut self, n: usize, now: Instant) {
        for _ in 0..self.interfaces[n].blocked.len() {
            let interface = &mut self.interfaces[n];
            let Some(index) = interface.blocked.pop_front() else { return };
            match self.slots.at_mut(index) {
                Some(Slot::Flow(flow)) if flow.blocked => {
                    let nic = &mut *interface.nic;
                    let ready = match card_cuts(nic, flow.wire.ip_len == 40) {
                        true => interface.egress.ready_large(nic, 2),
                        false => interface.egress.ready(nic, 2),
                    };
                    if !ready {
                        interface.blocked.push_front(index);
                        return;
                    }
                    flow.blocked = false;
                    // What it could not send may be something only smoltcp knows of, an
                    // acknowledgement of a handshake for one.
                    flow.due = true;
                    self.turn(index, true, now);
                    if let Some(flow) = self.flow_mut(index) {
                        flow.due = false;
                    }
                }
                Some(Slot::Datagram(socket)) if socket.stalled => {
                    socket.stalled = false;
                    self.announce(index);
                }
                _ => {}
            }
        }
    }

    fn take_turns(&mut self, now: Instant) -> bool {
        for _ in 0..TURNS.min(self.dirty.len()) {
            let Some(index) = self.dirty.pop_front() else { break };
            if let Some(Slot::Flow(flow)) = self.slots.at_mut(index)
                && flow.dirty
            {
                flow.dirty = false;
                self.turn(index, true, now);
            }
        }
        !self.dirty.is_empty()
    }

    fn expire(&mut self, now: Instant) -> bool {
        if self.time_wait.due().is_some_and(|due| due <= now) {
            self.time_wait.expire(now);
        }
        if self.paths.due().is_some_and(|due| due <= now) {
            self.paths.expire(now);
        }
        if self.reassembly.due().is_some_and(|due| due <= now) {
            self.statistics.reassembly_timeouts += self.reassembly.expire(now) as u64;
        }
        if self.services_due.is_some_and(|due| due <= now) {
            self.services_tick(now);
        }
        for n in 0..self.interfaces.len() {
            if self.interfaces[n].setup_due().is_some_and(|due| due <= now) {
                self.configuration_tick(n, now);
            }
            if self.interfaces[n].groups.due().is_some_and(|due| due <= now) {
                while let Some((group, report)) = self.interfaces[n].groups.next_report(now) {
                    self.interfaces[n].report(group, report);
                }
            }
            if self.interfaces[n].neighbours.due().is_some_and(|due| due <= now) {
                let mut actions = core::mem::take(&mut self.actions);
                self.interfaces[n].neighbours.tick(now, &mut actions);
                for action in actions.drain(..) {
                    self.act(n, Some(action), now);
                }
                self.actions = actions;
            }
        }
        for _ in 0..EXPIRIES {
            match self.timers.expired(now) {
                Some(index) => self.flow_timer(index, now),
                None => return false,
            }
        }
        true
    }

    /// Ways that sockets remember are to be looked up anew.
    pub(crate) fn routes_changed(&mut self) {
        self.route_epoch = self.route_epoch.wrapping_add(1);
    }

    /// Does what the neighbour table says.
    pub(crate) fn act(&mut self, n: usize, action: Option<Action>, now: Instant) {
        if action.is_none() {
            return;
        }
        self.routes_changed();
        let Some(interface) = self.interfaces.get_mut(n) else { return };
        match action {
            None => {}
            Some(Action::Ask(address, known)) => interface.ask(address, known),
            Some(Action::Known { mac, queue, waiters, address }) => {
                let ethertype = match address {
                    IpAddr::V4(_) => crate::frame::ethertype::IPV4,
                    IpAddr::V6(_) => crate::frame::ethertype::IPV6,
                };
                for packet in queue {
                    interface
                        .send(mac, ethertype, packet.len(), |out| out.copy_from_slice(&packet));
                }
                for index in waiters {
                    if let Some(flow) = self.flow_mut(index)
                        && flow.waiting
                        && flow.interface == n
                    {
                        flow.waiting = false;
                        flow.wire.ethernet[..6].copy_from_slice(&mac);
                        self.mark_dirty(index);
                    }
                }
            }
            Some(Action::Dead { queue, waiters, .. }) => {
                queue.iter().for_each(|packet| self.undeliverable(packet, now));
                waiters.into_iter().for_each(|index| self.unreachable(index, now));
            }
        }
    }

    /// The earliest time at which [`poll`](Self::poll) has something to do. Socket calls may move
    /// it.
    #[inline]
    pub fn wake_at(&self) -> Option<Instant> {
        let is_due = self.unarmed || !self.dirty.is_empty();
        let at = if is_due { 0 } else { self.due_micros() };
        (at != NEVER).then(|| Instant::from_micros(at))
    }

    /// The earliest deadline in microseconds, or [`NEVER`]: it is asked for after every call, and a
    /// minimum of plain numbers is cheap.
    #[inline]
    fn due_micros(&self) -> i64 {
        let mut at = micros(self.timers.earliest())
            .min(micros(self.time_wait.due()))
            .min(micros(self.paths.due()))
            .min(micros(self.reassembly.due()))
            .min(micros(self.services_due));
        for interface in &self.interfaces {
            let service = interface.nic.service_at();
            let service = service.and_then(|us| i64::try_from(us).ok()).unwrap_or(NEVER);
            at = at.min(service);
            if !interface.loopback {
                at = at
                    .min(micros(interface.neighbours.due()))
                    .min(micros(interface.groups.due()))
                    .min(micros(interface.setup_due()));
            }
        }
        at
    }

    /// The next socket or query to look at again.
    pub fn next_event(&mut self) -> Option<Event> {
        loop {
            let event = self.events.pop_front()?;
            let Event::Socket(id) = event else { return Some(event) };
            match self.slots.get_mut(id) {
                Some(Slot::Flow(flow)) => flow.announced = false,
                Some(Slot::Listener(listener)) => listener.announced = false,
                Some(Slot::Datagram(socket)) => socket.announced = false,
                Some(Slot::Fresh(_)) | None => continue,
            }
            return Some(event);
        }
    }

    /// Queues an event for the socket at `index`, unless one is queued already.
    pub(crate) fn announce(&mut self, index: u32) {
        let announced = match self.slots.at_mut(index) {
            Some(Slot::Flow(flow)) => &mut flow.announced,
            Some(Slot::Listener(listener)) => &mut listener.announced,
            Some(Slot::Datagram(socket)) => &mut socket.announced,
            Some(Slot::Fresh(_)) | None => return,
        };
        if !core::mem::replace(announced, true) {
            let id = self.slots.id(index);
            self.events.push_back(Event::Socket(id));
        }
    }

    /// A free port for a socket of ours, at random (RFC 6056, 3.3.1; the range is Linux's default).
    pub(crate) fn free_port(
        &mut self,
        mut taken: impl FnMut(&Stack, u16) -> bool,
    ) -> Result<u16, crate::Error> {
        const FIRST: u16 = 32_768;
        const COUNT: u32 = 28_232;
        for _ in 0..512 {
            let port = FIRST + self.random.below(COUNT) as u16;
            if !taken(self, port) {
                return Ok(port);
            }
        }
        Err(crate::Error::AddressInUse)
    }

    /// Gives a datagram socket without a port one.
    pub(crate) fn bind_ephemeral(&mut self, index: u32) -> Result<u16, crate::Error> {
        let port =
            self.free_port(|stack, port| !stack.ports.users(Kind::Datagram, port).is_empty())?;
        if let Some(Slot::Datagram(socket)) = self.slots.at_mut(index) {
            socket.port = port;
            self.ports.add(Kind::Datagram, port, index);
        }
        Ok(port)
    }

    /// Puts a socket in the table.
    pub(crate) fn insert(&mut self, slot: Slot) -> SocketId {
        self.slots.insert(slot)
    }
}

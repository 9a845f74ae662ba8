//! Who answers to which next-hop address: the neighbour table of one interface.
//!
//! smoltcp has its own, but asks once a second for all of an interface together, so one dead peer
//! starves the rest, and it searches it linearly. Here every address is asked for on its own, what
//! waits for it waits here, bounded, and nothing is ever looked up per TCP packet: flows carry the
//! Ethernet header.
//!
//! This module holds the state and says what is to be done; the interface sends.

use crate::hash::Key;
use crate::order::sort_short;
use alloc::collections::VecDeque;
use alloc::vec::Vec;
use core::net::IpAddr;
use hashbrown::HashTable;
use smoltcp::time::{Duration, Instant};
use trireme_nic::MacAddress;

/// Entries at most.
const CAPACITY: usize = 1024;
/// Addresses being asked for at most.
const MAX_PENDING: usize = 256;
/// Packets that wait for one address at most; the newest is lost, as it would be on the wire.
const MAX_QUEUED: usize = 8;
/// Connections that wait for one address at most.
const MAX_WAITERS: usize = 1024;
/// Requests before an address counts as dead (RFC 4861's `MAX_MULTICAST_SOLICIT`).
const TRIES: u8 = 3;
/// Between requests (RFC 4861's `RETRANS_TIMER`).
const RETRY: Duration = Duration::from_secs(1);
/// An entry this old is used on, but asked for again.
const FRESH: Duration = Duration::from_secs(60);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// Asked for, no answer yet.
    Pending,
    /// Known.
    Known,
    /// Known but old: asked for again.
    Probing,
}

struct Entry {
    address: IpAddr,
    mac: MacAddress,
    state: State,
    /// Known: when it was confirmed. Else: when to ask again.
    at: Instant,
    tries: u8,
    /// Packets from the IP header on, sums zero.
    queue: Vec<Vec<u8>>,
    /// Table places of connections.
    waiters: Vec<u32>,
}

/// What is to be done about an address.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Action {
    /// Ask for it, of everyone or of the one who had it.
    Ask(IpAddr, Option<MacAddress>),
    /// It is known: send what waited.
    Known { address: IpAddr, mac: MacAddress, queue: Vec<Vec<u8>>, waiters: Vec<u32> },
    /// Nobody answered.
    Dead { address: IpAddr, queue: Vec<Vec<u8>>, waiters: Vec<u32> },
}

/// What waits for an answer.
pub(crate) enum Waiter {
    /// A packet.
    Packet(Vec<u8>),
    /// A connection.
    Flow(u32),
}

/// A line of `ip neigh`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NeighbourInfo {
    /// Interface, as in [`Stack::interfaces`](crate::Stack::interfaces).
    pub interface: usize,
    /// Its IP address.
    pub address: IpAddr,
    /// Its Ethernet address; `None` while it is asked for.
    pub mac: Option<MacAddress>,
    /// Confirmed within the last minute.
    pub reachable: bool,
}

pub(crate) struct Neighbours {
    key: Key,
    table: HashTable<Entry>,
    /// Addresses in the order they came, to make room.
    order: VecDeque<IpAddr>,
    /// Addresses not `Known`.
    asking: Vec<IpAddr>,
    due: Option<Instant>,
}

fn hash(key: &Key, address: IpAddr) -> u64 {
    match address {
        IpAddr::V4(address) => key.hash([u64::from(address.to_bits())]),
        IpAddr::V6(address) => {
            let bits = address.to_bits();
            key.hash([(bits >> 64) as u64, bits as u64])
        }
    }
}

impl Neighbours {
    pub(crate) fn new(key: Key) -> Neighbours {
        Neighbours {
            key,
            table: HashTable::new(),
            order: VecDeque::new(),
            asking: Vec::new(),
            due: None,
        }
    }

    /// When [`tick`](Self::tick) has something to do.
    pub(crate) fn due(&self) -> Option<Instant> {
        self.due
    }

    fn get(&mut self, address: IpAddr) -> Option<&mut Entry> {
        self.table.find_mut(hash(&self.key, address), |entry| entry.address == address)
    }

    /// The Ethernet address, if known.
    #[inline]
    pub(crate) fn find(&mut self, address: IpAddr, now: Instant) -> Option<MacAddress> {
        let entry = self.get(address)?;
        let mac = entry.mac;
        match entry.state {
            State::Pending => None,
            State::Known if now >= entry.at + FRESH => {
                entry.state = State::Probing;
                entry.at = now;
                entry.tries = 0;
                self.asking.push(address);
                self.due = Some(now);
                Some(mac)
            }
            State::Known | State::Probing => Some(mac),
        }
    }

    /// Lets something wait for an address. The first to wait makes `tick` ask. False if too much
    /// waits already.
    pub(crate) fn wait(&mut self, address: IpAddr, waiter: Waiter, now: Instant) -> bool {
        if self.get(address).is_none() {
            if self.asking.len() >= MAX_PENDING {
                return false;
            }
            self.insert(address, [0; 6], State::Pending, now);
            self.asking.push(address);
            self.due = Some(now);
        }
        let Some(entry) = self.get(address) else { return false };
        match waiter {
            Waiter::Packet(packet) if entry.queue.len() < MAX_QUEUED => entry.queue.push(packet),
            Waiter::Flow(flow) if entry.waiters.len() < MAX_WAITERS => entry.waiters.push(flow),
            _ => return false,
        }
        true
    }

    fn insert(&mut self, address: IpAddr, mac: MacAddress, state: State, at: Instant) {
        while self.table.len() >= CAPACITY {
            let Some(oldest) = self.order.pop_front() else { break };
            if self.get(oldest).is_some_and(|entry| entry.state == State::Known) {
                self.remove(oldest);
            } else if self.get(oldest).is_some() {
                // Something waits for it, and there are fewer of those than places.
                self.order.push_back(oldest);
            }
        }
        let key = self.key;
        let entry =
            Entry { address, mac, state, at, tries: 0, queue: Vec::new(), waiters: Vec::new() };
        self.table.insert_unique(hash(&key, address), entry, |entry| hash(&key, entry.address));
        self.order.push_back(address);
    }

    fn remove(&mut self, address: IpAddr) -> Option<Entry> {
        let hash = hash(&self.key, address);
        let entry = self.table.find_entry(hash, |entry| entry.address == address).ok()?;
        Some(entry.remove().0)
    }

    /// Somebody said who has an address. `create`: remember it even if nobody asked (it asked
    /// for us, so we will answer).
    pub(crate) fn learn(
        &mut self,
        address: IpAddr,
        mac: MacAddress,
        create: bool,
        now: Instant,
    ) -> Option<Action> {
        let Some(entry) = self.get(address) else {
            if create {
                self.insert(address, mac, State::Known, now);
            }
            return None;
        };
        let was = entry.state;
        let moved = entry.mac != mac;
        entry.state = State::Known;
        entry.mac = mac;
        entry.at = now;
        let (queue, waiters) =
            (core::mem::take(&mut entry.queue), core::mem::take(&mut entry.waiters));
        if was != State::Known {
            self.asking.retain(|asked| *asked != address);
        }
        (was == State::Pending || moved).then_some(Action::Known { address, mac, queue, waiters })
    }

    /// Asks again, gives up.
    pub(crate) fn tick(&mut self, now: Instant, actions: &mut Vec<Action>) {
        if self.due.is_none_or(|due| due > now) {
            return;
        }
        self.due = None;
        let mut asking = core::mem::take(&mut self.asking);
        asking.retain(|&address| {
            let Some(entry) = self.get(address) else { return false };
            if entry.at <= now {
                if entry.tries >= TRIES {
                    if let Some(entry) = self.remove(address) {
                        let Entry { queue, waiters, .. } = entry;
                        actions.push(Action::Dead { address, queue, waiters });
                    }
                    return false;
                }
                let known =
                    (entry.state == State::Probing && entry.tries == 0).then_some(entry.mac);
                entry.tries += 1;
                entry.at = now + RETRY;
                actions.push(Action::Ask(address, known));
            }
            let at = entry.at;
            self.due = Some(self.due.map_or(at, |due| due.min(at)));
            true
        });
        self.asking = asking;
    }

    pub(crate) fn list(&self, interface: usize, now: Instant) -> Vec<NeighbourInfo> {
        let mut all: Vec<NeighbourInfo> = self
            .table
            .iter()
            .map(|entry| NeighbourInfo {
                interface,
                address: entry.address,
                mac: (entry.state != State::Pending).then_some(entry.mac),
                reachable: entry.state == State::Known && now < entry.at + FRESH,
            })
            .collect();
        sort_short(&mut all, |neighbour| neighbour.address);
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MAC: MacAddress = [2, 0, 0, 0, 0, 9];

    fn at(seconds: i64) -> Instant {
        Instant::from_secs(seconds)
    }

    fn table() -> Neighbours {
        Neighbours::new(Key::new([1; 16]))
    }

    fn tick(neighbours: &mut Neighbours, now: Instant) -> Vec<Action> {
        let mut actions = Vec::new();
        neighbours.tick(now, &mut actions);
        actions
    }

    #[test]
    fn what_waits_is_sent_when_the_answer_comes() {
        let mut neighbours = table();
        let address: IpAddr = "10.0.0.9".parse().unwrap();
        assert_eq!(neighbours.find(address, at(0)), None);
        assert!(neighbours.wait(address, Waiter::Packet([7].into()), at(0)));
        assert!(neighbours.wait(address, Waiter::Flow(3), at(0)));
        assert_eq!(tick(&mut neighbours, at(0)), [Action::Ask(address, None)]);
        assert_eq!(tick(&mut neighbours, at(0)), []);
        assert_eq!(
            neighbours.learn(address, MAC, false, at(0)),
            Some(Action::Known {
                address,
                mac: MAC,
                queue: [[7].into()].into(),
                waiters: [3].into()
            })
        );
        assert_eq!(neighbours.find(address, at(1)), Some(MAC));
        assert_eq!(tick(&mut neighbours, at(1)), []);
    }

    #[test]
    fn one_dead_address_is_asked_three_times_and_delays_no_other() {
        let mut neighbours = table();
        let (dead, alive): (IpAddr, IpAddr) =
            ("10.0.0.8".parse().unwrap(), "fe80::1".parse().unwrap());
        neighbours.wait(dead, Waiter::Flow(1), at(0));
        assert_eq!(tick(&mut neighbours, at(0)), [Action::Ask(dead, None)]);
        neighbours.wait(alive, Waiter::Flow(2), at(0));
        assert_eq!(tick(&mut neighbours, at(0)), [Action::Ask(alive, None)]);
        neighbours.learn(alive, MAC, false, at(0));
        assert_eq!(tick(&mut neighbours, at(1)), [Action::Ask(dead, None)]);
        assert_eq!(tick(&mut neighbours, at(2)), [Action::Ask(dead, None)]);
        assert_eq!(neighbours.due(), Some(at(3)));
        let given_up = Action::Dead { address: dead, queue: Vec::new(), waiters: [1].into() };
        assert_eq!(tick(&mut neighbours, at(3)), [given_up]);
        assert_eq!(neighbours.due(), None);
    }

    #[test]
    fn an_old_entry_is_used_while_it_is_asked_for_again() {
        let mut neighbours = table();
        let address: IpAddr = "10.0.0.9".parse().unwrap();
        neighbours.learn(address, MAC, true, at(0));
        assert_eq!(neighbours.find(address, at(59)), Some(MAC));
        assert_eq!(neighbours.due(), None);
        assert_eq!(neighbours.find(address, at(60)), Some(MAC));
        assert_eq!(tick(&mut neighbours, at(60)), [Action::Ask(address, Some(MAC))]);
        assert_eq!(tick(&mut neighbours, at(61)), [Action::Ask(address, None)]);
        assert_eq!(neighbours.learn(address, MAC, false, at(61)), None);
        assert_eq!(tick(&mut neighbours, at(62)), []);
    }

    #[test]
    fn everything_is_bounded() {
        let mut neighbours = table();
        for n in 0..3000u32 {
            let address = IpAddr::V4(n.into());
            if n < 1000 {
                neighbours.wait(address, Waiter::Flow(n), at(0));
            } else {
                neighbours.learn(address, MAC, true, at(0));
            }
        }
        assert!(neighbours.table.len() <= CAPACITY && neighbours.order.len() <= CAPACITY);
        assert_eq!(neighbours.asking.len(), MAX_PENDING);
        let waiting = IpAddr::V4(5.into());
        let taken =
            (0..100).filter(|_| neighbours.wait(waiting, Waiter::Packet(Vec::new()), at(0)));
        assert_eq!(taken.count(), MAX_QUEUED);
    }
}

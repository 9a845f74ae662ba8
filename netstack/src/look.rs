//! Looking: what `ip`, `ss` and `ethtool` show.

use crate::address::Cidr;
use crate::dhcp::Lease;
use crate::neighbour::NeighbourInfo;
use crate::route::LOOPBACK;
use crate::socket::{Family, Kind, SocketId, presented};
use crate::stack::{Slot, Stack};
use crate::statistics::Statistics;
use crate::tcp::Phase;
use alloc::string::String;
use alloc::vec::Vec;
use core::net::{IpAddr, SocketAddr};
use smoltcp::socket::tcp::State;
use smoltcp::time::Instant;
use trireme_nic::{Link, MacAddress, Nic};

/// An interface, as `ip addr` and `ip route` show it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InterfaceInfo {
    /// `lo`, `eth0`, …
    pub name: String,
    /// Of a VLAN: the name of the card's interface below it, and its id.
    pub vlan: Option<(String, u16)>,
    /// Ethernet address.
    pub mac: MacAddress,
    /// Largest packet, as Linux counts.
    pub mtu: usize,
    /// Link state.
    pub link: Link,
    /// Addresses.
    pub addresses: Vec<Cidr>,
    /// Default routers, the one in use first.
    pub routers: Vec<IpAddr>,
    /// Joined multicast groups.
    pub groups: Vec<IpAddr>,
}

/// State of a socket, by the names of RFC 9293 where there is one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SocketState {
    /// Made and perhaps bound.
    Closed,
    /// Listening, with so many connections to be accepted.
    Listen(usize),
    /// SYN sent.
    SynSent,
    /// SYN received and answered.
    SynReceived,
    /// Open both ways.
    Established,
    /// Our FIN is out.
    FinWait1,
    /// Our FIN is acknowledged.
    FinWait2,
    /// The peer's FIN came.
    CloseWait,
    /// Both FINs crossed.
    Closing,
    /// The peer's FIN came first, ours is out.
    LastAck,
    /// Over; what is late is still answered.
    TimeWait,
    /// A datagram socket.
    Datagram,
}

/// A socket, as `ss` shows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SocketInfo {
    /// TCP or UDP.
    pub kind: Kind,
    /// State.
    pub state: SocketState,
    /// Local address.
    pub local: SocketAddr,
    /// Peer, if any.
    pub peer: Option<SocketAddr>,
    /// Bytes received and not read.
    pub received: usize,
    /// Bytes written and not acknowledged.
    pub unsent: usize,
}

impl Stack {
    /// All interfaces, `lo` first.
    pub fn interfaces(&self) -> Vec<InterfaceInfo> {
        let info = |interface: &crate::interface::Interface| InterfaceInfo {
            name: interface.name.clone(),
            vlan: interface.vlan.and_then(|vlan| {
                let parent = self.interfaces.get(vlan.parent)?;
                Some((parent.name.clone(), vlan.id))
            }),
            mac: interface.mac,
            mtu: interface.mtu(),
            link: interface.nic.link(),
            addresses: interface.addresses.clone(),
            routers: interface.routers.clone(),
            groups: interface.groups.addresses().collect(),
        };
        self.interfaces.iter().map(info).collect()
    }

    /// All neighbours, interface by interface.
    pub fn neighbours(&self, now: Instant) -> Vec<NeighbourInfo> {
        let list = |(n, interface): (usize, &crate::interface::Interface)| {
            interface.neighbours.list(n, now)
        };
        self.interfaces.iter().enumerate().flat_map(list).collect()
    }

    /// All sockets and what remains of connections. For display: visits everything.
    pub fn sockets(&self) -> Vec<SocketInfo> {
        let mut all: Vec<SocketInfo> =
            self.slots.iter().filter_map(|(id, _)| self.info(id)).collect();
        all.extend(self.time_wait.records().map(|record| SocketInfo {
            kind: Kind::Stream,
            state: SocketState::TimeWait,
            local: SocketAddr::new(record.key.local, record.key.local_port),
            peer: Some(SocketAddr::new(record.key.remote, record.key.remote_port)),
            received: 0,
            unsent: 0,
        }));
        all
    }

    /// Visits every socket's kind and state, and what remains of connections: counts them without making a list.
    pub fn socket_states(&self, visit: &mut dyn FnMut(Kind, SocketState)) {
        for (_, slot) in self.slots.iter() {
            let (kind, state) = state_of(slot);
            visit(kind, state);
        }
        (0..self.time_wait.len()).for_each(|_| visit(Kind::Stream, SocketState::TimeWait));
    }

    fn info(&self, id: SocketId) -> Option<SocketInfo> {
        let slot = self.slots.get(id)?;
        let (kind, state) = state_of(slot);
        let (received, unsent) = match slot {
            Slot::Fresh(_) | Slot::Listener(_) => (0, 0),
            Slot::Flow(flow) => (flow.socket().recv_queue(), flow.socket().send_queue()),
            Slot::Datagram(socket) => (socket.queue.next_len(), 0),
        };
        let peer = match slot {
            Slot::Flow(flow) if flow.phase == Phase::Connecting => {
                Some(SocketAddr::new(presented(flow.key.remote, Family::V4), flow.key.remote_port))
            }
            _ => self.peer_address(id).ok(),
        };
        Some(SocketInfo {
            kind,
            state,
            local: self.local_address(id).ok()?,
            peer,
            received,
            unsent,
        })
    }

    /// The stack's counters.
    pub fn statistics(&self) -> Statistics {
        self.statistics
    }

    /// Sockets of all kinds there are, and bytes of the buffer budget in use and in all.
    pub fn usage(&self) -> (usize, usize, usize) {
        (self.slots.len() + self.time_wait.len(), self.buffers.used(), self.buffers.budget())
    }

    /// The number of the interface with a name, as the calls below take it; `lo` has none.
    pub fn find(&self, name: &str) -> Option<usize> {
        self.interfaces.iter().skip(LOOPBACK + 1).position(|interface| interface.name == name)
    }

    /// The card of interface `n`.
    pub fn nic(&self, n: usize) -> Option<&dyn Nic> {
        self.interfaces.get(LOOPBACK + 1 + n).map(|interface| &*interface.nic)
    }

    /// The card of interface `n`, to change it.
    pub fn nic_mut(&mut self, n: usize) -> Option<&mut (dyn Nic + 'static)> {
        self.interfaces.get_mut(LOOPBACK + 1 + n).map(|interface| &mut *interface.nic)
    }

    /// Visits the card's own counters of an interface by its place in [`interfaces`](Self::interfaces).
    pub fn card_statistics(&self, place: usize, visit: &mut dyn FnMut(&'static str, u64)) {
        if let Some(interface) = self.interfaces.get(place) {
            interface.nic.statistics(visit);
        }
    }

    /// Visits the counters of the offload layer for interface `n`, to go with the card's own.
    pub fn offload_statistics(&self, n: usize, visit: &mut dyn FnMut(&'static str, u64)) {
        if let Some(interface) = self.interfaces.get(LOOPBACK + 1 + n) {
            if let Some(vlan) = &interface.vlan {
                visit("rx_packets", vlan.rx_packets);
                visit("rx_bytes", vlan.rx_bytes);
            }
            interface.egress.counters.visit(visit);
        }
    }

    /// Name servers in use.
    pub fn name_servers(&self) -> &[IpAddr] {
        self.resolver.servers()
    }

    /// Time servers in use.
    pub fn time_servers(&self) -> &[IpAddr] {
        self.ntp.servers()
    }

    /// The DHCP lease of interface `n`.
    pub fn lease(&self, n: usize) -> Option<&Lease> {
        self.interfaces.get(LOOPBACK + 1 + n)?.setup.as_ref()?.lease()
    }

    /// Visits the counters of the protocols that configure interface `n`.
    pub fn configuration_statistics(&self, n: usize, visit: &mut dyn FnMut(&'static str, u64)) {
        let interface = self.interfaces.get(LOOPBACK + 1 + n);
        let Some(setup) = interface.and_then(|interface| interface.setup.as_ref()) else { return };
        let (dhcp, slaac) = setup.counters();
        visit("dhcp_sent", dhcp.sent);
        visit("dhcp_taken", dhcp.taken);
        visit("dhcp_naks", dhcp.naks);
        visit("dhcp_invalid", dhcp.invalid);
        visit("dhcp_unexpected", dhcp.unexpected);
        visit("nd_router_solicitations", slaac.solicitations);
        visit("nd_router_advertisements", slaac.advertisements);
        visit("nd_invalid_advertisements", slaac.invalid);
        visit("nd_overflow", slaac.overflow);
        visit("nd_duplicate_addresses", slaac.duplicates);
    }

    /// Visits the counters of the resolver and the clock.
    pub fn service_statistics(&self, visit: &mut dyn FnMut(&'static str, u64)) {
        let dns = self.resolver.counters();
        visit("dns_sent", dns.sent);
        visit("dns_answers", dns.answers);
        visit("dns_cached", dns.cached);
        visit("dns_timeouts", dns.timeouts);
        visit("dns_failures", dns.failures);
        visit("dns_truncated", dns.truncated);
        visit("dns_mismatched", dns.mismatched);
        visit("dns_malformed", dns.malformed);
        let ntp = self.ntp.counters();
        visit("ntp_sent", ntp.sent);
        visit("ntp_good", ntp.good);
        visit("ntp_timeouts", ntp.timeouts);
        visit("ntp_bad", ntp.bad);
        visit("ntp_mismatched", ntp.mismatched);
        visit("ntp_refused", ntp.refused);
        visit("ntp_steps", ntp.steps);
    }
}

fn state_of(slot: &Slot) -> (Kind, SocketState) {
    match slot {
        Slot::Fresh(_) => (Kind::Stream, SocketState::Closed),
        Slot::Listener(state) => (Kind::Stream, SocketState::Listen(state.queue.len())),
        Slot::Flow(flow) => {
            let state = match flow.state() {
                State::Closed | State::Listen => SocketState::Closed,
                State::SynSent => SocketState::SynSent,
                State::SynReceived => SocketState::SynReceived,
                State::Established => SocketState::Established,
                State::FinWait1 => SocketState::FinWait1,
                State::FinWait2 => SocketState::FinWait2,
                State::CloseWait => SocketState::CloseWait,
                State::Closing => SocketState::Closing,
                State::LastAck => SocketState::LastAck,
                State::TimeWait => SocketState::TimeWait,
            };
            (Kind::Stream, state)
        }
        Slot::Datagram(_) => (Kind::Datagram, SocketState::Datagram),
    }
}

//! UDP: sockets, choosing them for a datagram, and sending.
//!
//! UDP is not left to smoltcp: its socket delivers to the first match only, queues behind a
//! neighbour that does not answer, and its fragmenter holds one datagram for the whole interface.
//! Sending one's own needs no more than two headers written into the card's buffer.

use crate::Error;
use crate::flow::FlowKey;
use crate::frame::protocol;
use crate::interface::Destination;
use crate::packet::{self, Pair, Part};
use crate::queue::Queue;
use crate::route::{LOOPBACK, Route};
use crate::socket::{Event, Family, Kind, Options, Readiness};
use crate::stack::{Slot, Stack};
use alloc::vec::Vec;
use core::net::IpAddr;
use smoltcp::time::{Duration, Instant};
use trireme_nic::{MacAddress, checksum};

/// Stands for an address that is not known.
const NOBODY: MacAddress = [0; 6];
/// Largest payload over IPv4 and, without jumbograms, IPv6 too.
const MAX_PAYLOAD: usize = 65_507;

/// A way found for a destination, with the next hop's Ethernet address.
#[derive(Clone, Copy)]
struct Way {
    route: Route,
    mac: MacAddress,
    mtu: usize,
    broadcast: bool,
    /// See [`Stack::routes_changed`].
    epoch: u32,
    /// When the neighbour is to be looked up again.
    until: Instant,
}

/// A way is looked up anew this often, so that the neighbour table sees that it is used.
const WAY_LIFETIME: Duration = Duration::from_secs(1);

pub(crate) struct Datagram {
    pub(crate) family: Family,
    /// Unspecified: any.
    pub(crate) local: IpAddr,
    /// 0: not bound.
    pub(crate) port: u16,
    pub(crate) remote: Option<(IpAddr, u16)>,
    /// Set while connected: found by it.
    pub(crate) flow: Option<FlowKey>,
    pub(crate) options: Options,
    pub(crate) queue: Queue,
    pub(crate) error: Option<Error>,
    /// Joined: interface and group.
    pub(crate) groups: Vec<(usize, IpAddr)>,
    pub(crate) announced: bool,
    /// Where it last sent, and how: good until routes change.
    way: Option<Way>,
    /// The ring was full when it last sent.
    pub(crate) stalled: bool,
    /// The interface of a connected peer's link-local address.
    pub(crate) scope: Option<usize>,
    pub(crate) shut_read: bool,
    pub(crate) shut_write: bool,
}

impl Datagram {
    pub(crate) fn new(family: Family, options: Options, capacity: usize) -> Datagram {
        Datagram {
            family,
            local: unspecified(family),
            port: 0,
            remote: None,
            flow: None,
            options,
            queue: Queue::new(capacity),
            error: None,
            groups: Vec::new(),
            announced: false,
            way: None,
            stalled: false,
            scope: None,
            shut_read: false,
            shut_write: false,
        }
    }

    pub(crate) fn readiness(&self) -> Readiness {
        if self.error.is_some() {
            return Readiness::ERROR | Readiness::READABLE | Readiness::WRITABLE;
        }
        let mut ready = Readiness::empty();
        ready.set(Readiness::READABLE, !self.queue.is_empty() || self.shut_read);
        ready.set(Readiness::WRITABLE, !self.stalled);
        ready.set(Readiness::READ_CLOSED, self.shut_read);
        ready.set(Readiness::HANGUP, self.shut_read && self.shut_write);
        ready
    }

    /// Would a datagram to `destination` be this socket's, and how well does it fit?
    fn fits(&self, destination: IpAddr, source: (IpAddr, u16)) -> Option<u8> {
        if self.shut_read || self.remote.is_some_and(|remote| remote != source) {
            return None;
        }
        match (self.family, destination) {
            (Family::V4, IpAddr::V6(_)) => return None,
            (Family::V6, IpAddr::V4(_)) if self.options.only_v6 => return None,
            _ => {}
        }
        if self.local == destination {
            Some(2)
        } else if self.local.is_unspecified() {
            Some(if self.family == Family::V4 || destination.is_ipv6() { 1 } else { 0 })
        } else {
            None
        }
    }
}

pub(crate) fn unspecified(family: Family) -> IpAddr {
    match family {
        Family::V4 => IpAddr::V4(core::net::Ipv4Addr::UNSPECIFIED),
        Family::V6 => IpAddr::V6(core::net::Ipv6Addr::UNSPECIFIED),
    }
}

/// A received datagram, whole and verified.
#[derive(Clone, Copy)]
pub(crate) struct Received<'a> {
    pub(crate) source: IpAddr,
    pub(crate) destination: IpAddr,
    pub(crate) source_port: u16,
    pub(crate) destination_port: u16,
    /// Where it came in.
    pub(crate) interface: usize,
    pub(crate) payload: &'a [u8],
}

impl Stack {
    /// Gives a datagram to its sockets. False: nobody wanted it.
    pub(crate) fn udp(&mut self, datagram: Received<'_>, to: Destination) -> bool {
        let source = (datagram.source, datagram.source_port);
        if to == Destination::Ours && !self.connected.is_empty() {
            let local = (datagram.destination, datagram.destination_port);
            let key = FlowKey::new(&self.flow_key, local, source);
            if let Some(index) = self.connected.find(&key, &self.slots) {
                self.enqueue(index, datagram);
                return true;
            }
        }
        let users = self.ports.users(Kind::Datagram, datagram.destination_port);
        let mut best: Option<(u8, u32)> = None;
        let mut all: Vec<u32> = Vec::new();
        for &user in users {
            let Some(Slot::Datagram(socket)) = self.slots.at(user) else { continue };
            let Some(fit) = socket.fits(datagram.destination, source) else { continue };
            if to != Destination::Ours {
                all.push(user);
            }
            if best.is_none_or(|(other, _)| fit > other) {
                best = Some((fit, user));
            }
        }
        let Some((_, index)) = best else { return false };
        if to == Destination::Ours {
            self.enqueue(index, datagram);
        } else {
            all.into_iter().for_each(|index| self.enqueue(index, datagram));
        }
        true
    }

    fn enqueue(&mut self, index: u32, datagram: Received<'_>) {
        let Some(Slot::Datagram(socket)) = self.slots.at_mut(index) else { return };
        let interface = datagram.interface as u16;
        if !socket.queue.push(datagram.source, datagram.source_port, interface, datagram.payload) {
            self.statistics.udp_queue_full += 1;
            return;
        }
        if !socket.announced {
            socket.announced = true;
            let id = self.slots.id(index);
            self.events.push_back(Event::Socket(id));
        }
    }

    /// Sends one datagram given in parts. `to`: where, unless connected.
    pub(crate) fn udp_send(
        &mut self,
        index: u32,
        parts: &[&[u8]],
        to: Option<(IpAddr, u16, Option<usize>)>,
        now: Instant,
    ) -> Result<usize, Error> {
        let Some(Slot::Datagram(socket)) = self.slots.at_mut(index) else {
            return Err(Error::BadDescriptor);
        };
        if let Some(error) = socket.error.take() {
            return Err(error);
        }
        if socket.shut_write {
            return Err(Error::BrokenPipe);
        }
        let connected = socket.remote.map(|(remote, port)| (remote, port, socket.scope));
        let (destination, port, scope) = to.or(connected).ok_or(Error::DestinationRequired)?;
        if port == 0 {
            return Err(Error::InvalidArgument);
        }
        let len = parts.iter().map(|part| part.len()).sum::<usize>();
        if len > MAX_PAYLOAD {
            return Err(Error::MessageTooLong);
        }
        let options = socket.options;
        let (bound, source_port) = (socket.local, socket.port);
        let multicast_interface = socket.groups.first().map(|group| group.0);
        let preferred = match destination.is_multicast() {
            true => scope.or(multicast_interface),
            false => scope,
        };
        let known = socket.way.filter(|way| {
            way.route.destination == destination
                && scope.is_none_or(|scope| way.route.interface == scope)
                && way.epoch == self.route_epoch
                && now < way.until
        });
        let way = match known {
            Some(way) => way,
            None => self.find_way(index, destination, preferred, now)?,
        };
        let route = way.route;
        // The unspecified address meant this host.
        let destination = route.destination;
        let source = if bound.is_unspecified() { route.source } else { bound };
        let pair = Pair::new(source, destination).ok_or(Error::NetworkUnreachable)?;
        let source_port = if source_port == 0 { self.bind_ephemeral(index)? } else { source_port };
        let broadcast = way.broadcast;
        if broadcast && !options.broadcast {
            return Err(Error::PermissionDenied);
        }
        let multicast = destination.is_multicast();
        let hops = if multicast { options.multicast_ttl } else { options.ttl };
        let looped =
            (broadcast || multicast && options.multicast_loop) && route.interface != LOOPBACK;
        let room = way.mtu - pair.header_len() - 8;
        let interface = &mut self.interfaces[route.interface];
        let sent = if len <= room {
            let total = pair.header_len() + 8 + len;
            let write = |packet: &mut [u8]| {
                packet::ip_header(packet, &pair, protocol::UDP, hops, 8 + len);
                let udp = &mut packet[pair.header_len()..];
                packet::udp_header(udp, source_port, port, 8 + len);
                let mut at = 8;
                for part in parts {
                    udp[at..at + part.len()].copy_from_slice(part);
                    at += part.len();
                }
            };
            if way.mac != NOBODY {
                interface.send_plain(way.mac, pair.ethertype(), total, false, write)
            } else {
                interface.send_via(route.next_hop, total, now, write)
            }
        } else {
            let mut datagram = Vec::with_capacity(8 + len);
            datagram.resize(8, 0);
            packet::udp_header(&mut datagram, source_port, port, 8 + len);
            parts.iter().for_each(|part| datagram.extend_from_slice(part));
            // The offload layer sees fragments only, so the sum is made here.
            let sum = checksum::add(
                pair.pseudo_sum(protocol::UDP, datagram.len()),
                checksum::sum(&datagram),
            );
            let sum = if sum == 0xffff { 0xffff } else { !sum };
            datagram[6..8].copy_from_slice(&sum.to_be_bytes());
            self.send_fragments(route, &pair, protocol::UDP, hops, &datagram, now)
        };
        if !sent {
            return self.udp_stalled(index, route.interface);
        }
        self.interfaces[route.interface].flush();
        if looped {
            let payload = parts.concat();
            let to = if multicast { Destination::Group } else { Destination::Broadcast };
            let heard = broadcast
                || self.interfaces[route.interface].destination(destination) == Destination::Group;
            if heard {
                let payload = &payload[..];
                let (destination_port, source) = (port, source);
                self.udp(
                    Received {
                        source,
                        destination,
                        source_port,
                        destination_port,
                        interface: route.interface,
                        payload,
                    },
                    to,
                );
            }
        }
        Ok(len)
    }

    /// Looks for a way, and remembers it if the neighbour is known.
    fn find_way(
        &mut self,
        index: u32,
        destination: IpAddr,
        preferred: Option<usize>,
        now: Instant,
    ) -> Result<Way, Error> {
        let route = self.route(destination, preferred)?;
        let interface = &mut self.interfaces[route.interface];
        let mac = interface.mac_of(route.next_hop, now);
        let broadcast = match destination {
            IpAddr::V4(address) => interface.is_broadcast(address),
            IpAddr::V6(_) => false,
        };
        let mtu = interface.mtu();
        let way = Way {
            route,
            mac: mac.unwrap_or(NOBODY),
            mtu: self.path_mtu(destination, mtu),
            broadcast,
            epoch: self.route_epoch,
            until: now + WAY_LIFETIME,
        };
        if let Some(Slot::Datagram(socket)) = self.slots.at_mut(index) {
            let loopback = route.interface == LOOPBACK;
            socket.way = (mac.is_some() && !loopback).then_some(way);
        }
        Ok(way)
    }

    /// Nothing could be queued: either the neighbour's queue is full, and the datagram is
    /// lost as the wire would lose it, or the ring is, and the caller waits.
    fn udp_stalled(&mut self, index: u32, interface: usize) -> Result<usize, Error> {
        let interface = &mut self.interfaces[interface];
        if interface.egress.ready(&mut *interface.nic, 0) {
            return Err(Error::HostUnreachable);
        }
        interface.flush();
        if let Some(Slot::Datagram(socket)) = self.slots.at_mut(index)
            && !socket.stalled
        {
            socket.stalled = true;
            interface.blocked.push_back(index);
            self.unarmed = true;
        }
        Err(Error::WouldBlock)
    }

    /// Sends a packet that is too large for the path, in pieces. Stops without error when the ring
    /// fills: the receiver then misses a piece, as it may anyway.
    pub(crate) fn send_fragments(
        &mut self,
        route: crate::route::Route,
        pair: &Pair,
        protocol: u8,
        hops: u8,
        payload: &[u8],
        now: Instant,
    ) -> bool {
        let mtu = self.interfaces[route.interface].mtu();
        let mtu = self.path_mtu(route.destination, mtu);
        let id = self.random.next_u32();
        let overhead = pair.header_len() + if matches!(pair, Pair::V6(..)) { 8 } else { 0 };
        let piece = (mtu - overhead) & !7;
        let interface = &mut self.interfaces[route.interface];
        let mut sent = false;
        for (n, data) in payload.chunks(piece).enumerate() {
            let offset = n * piece;
            let more = offset + data.len() < payload.len();
            let queued = interface.send_via(route.next_hop, overhead + data.len(), now, |packet| {
                match *pair {
                    Pair::V4(source, destination) => {
                        let part = Part { id: id as u16, offset, more };
                        let addresses = (source, destination);
                        packet::ipv4_part(packet, addresses, protocol, hops, data.len(), part);
                    }
                    Pair::V6(source, destination) => {
                        let len = 8 + data.len();
                        packet::ipv6_header(
                            packet,
                            source,
                            destination,
                            protocol::FRAGMENT,
                            hops,
                            len,
                        );
                        // RFC 8200, 4.5.
                        packet[40] = protocol;
                        packet[41] = 0;
                        let offset = offset as u16 | u16::from(more);
                        packet[42..44].copy_from_slice(&offset.to_be_bytes());
                        packet[44..48].copy_from_slice(&id.to_be_bytes());
                    }
                }
                packet[overhead..].copy_from_slice(data);
            });
            if !queued {
                break;
            }
            sent = true;
        }
        sent
    }

    /// What came back about a datagram: an ICMP error that quotes it.
    pub(crate) fn udp_error(&mut self, key: &FlowKey, error: Error) {
        let Some(index) = self.connected.find(key, &self.slots) else { return };
        if let Some(Slot::Datagram(socket)) = self.slots.at_mut(index) {
            socket.error = Some(error);
            self.announce(index);
        }
    }
}

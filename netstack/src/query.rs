//! Names and time: the clients of DNS and NTP, and what they send and hear.

use crate::Error;
use crate::dns::{Failure, LookupId};
use crate::frame::protocol;
use crate::packet::{self, Pair};
use crate::socket::{Event, QueryId};
use crate::stack::Stack;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::net::{IpAddr, SocketAddr};
use smoltcp::time::{Duration, Instant};

/// Time servers given by name.
const MAX_TIME_NAMES: usize = 4;
/// Before a time server that was not found is looked up again.
const TIME_NAME_RETRY: Duration = Duration::from_secs(30);

/// A time server given by name or address.
pub(crate) struct TimeName {
    name: String,
    lookup: Option<LookupId>,
    found: Vec<IpAddr>,
}

fn error(failure: Failure) -> Error {
    match failure {
        Failure::Invalid | Failure::NotFound => Error::NameNotFound,
        Failure::NoAnswer | Failure::Busy => Error::TryAgain,
    }
}

impl Stack {
    /// Begins to look up a name; an event tells when it is done.
    pub fn resolve(&mut self, name: &str, now: Instant) -> Result<QueryId, Error> {
        let LookupId(id) = self.resolver.resolve(name, now).map_err(error)?;
        self.services_tick(now);
        for interface in &mut self.interfaces {
            interface.flush();
        }
        Ok(QueryId(id))
    }

    /// The answer, once, when it is there.
    pub fn resolved(&mut self, query: QueryId) -> Option<Result<Vec<IpAddr>, Error>> {
        let global = |address: IpAddr| match address {
            IpAddr::V6(address) => address.segments()[0] & 0xe000 == 0x2000,
            IpAddr::V4(_) => false,
        };
        let mut addresses = self.interfaces.iter().flat_map(|interface| &interface.addresses);
        let ipv6_first = addresses.any(|cidr| global(cidr.address));
        let answer = self.resolver.take(LookupId(query.0), ipv6_first)?;
        Some(answer.map_err(error))
    }

    /// Forgets a lookup.
    pub fn cancel_query(&mut self, query: QueryId) {
        self.resolver.cancel(LookupId(query.0));
    }

    /// Nanoseconds since 1970-01-01 UTC as an NTP server told them.
    pub fn wall_clock(&self, now: Instant) -> Option<u64> {
        self.ntp.unix_ns(now)
    }

    /// The same, once after each time a server told it: when to set one's own clock.
    pub fn new_wall_clock(&mut self, now: Instant) -> Option<u64> {
        if self.ntp.set_lately() { self.ntp.unix_ns(now) } else { None }
    }

    /// Sets the time servers, names or addresses (the `ntp=` boot argument). Without any, those of
    /// `ip=` and DHCP are asked.
    pub fn set_time_servers<'a>(&mut self, names: impl IntoIterator<Item = &'a str>, now: Instant) {
        let new = |name: &str| TimeName { name: name.to_string(), lookup: None, found: Vec::new() };
        self.time_names = names.into_iter().take(MAX_TIME_NAMES).map(new).collect();
        self.time_names_due = Some(now);
        self.use_time_servers(now);
        self.services_tick(now);
    }

    /// Servers may have come or gone.
    pub(crate) fn use_time_servers(&mut self, now: Instant) {
        if self.time_names.is_empty() {
            let setups = self.interfaces.iter().filter_map(|interface| interface.setup.as_ref());
            self.ntp.set_servers(setups.flat_map(|setup| setup.time_servers()), now);
        } else {
            let found = self.time_names.iter().flat_map(|name| name.found.iter().copied());
            self.ntp.set_servers(found, now);
        }
    }

    fn look_up_time_servers(&mut self, now: Instant) {
        self.time_names_due = None;
        for name in self.time_names.iter_mut().filter(|n| n.lookup.is_none() && n.found.is_empty())
        {
            match self.resolver.resolve(&name.name, now) {
                Ok(id) => name.lookup = Some(id),
                Err(Failure::Busy) => self.time_names_due = Some(now + TIME_NAME_RETRY),
                Err(failure) => log::warn!("time server {:?}: {failure}", name.name),
            }
        }
    }

    /// A lookup ended: a time server's, or one the application asked for.
    fn lookup_ended(&mut self, id: LookupId, now: Instant) {
        let name = self.time_names.iter_mut().find(|name| name.lookup == Some(id));
        let Some(name) = name else {
            return self.events.push_back(Event::Query(QueryId(id.0)));
        };
        name.lookup = None;
        match self.resolver.take(id, false) {
            Some(Ok(addresses)) => name.found = addresses,
            _ => self.time_names_due = Some(now + TIME_NAME_RETRY),
        }
        self.use_time_servers(now);
    }

    /// What is due of names and time.
    pub(crate) fn services_tick(&mut self, now: Instant) {
        if self.time_names_due.is_some_and(|due| due <= now) {
            self.look_up_time_servers(now);
        }
        // Bounded by the lookups there can be, two questions each.
        for _ in 0..256 {
            let random = self.random.next_u64();
            let Some(query) = self.resolver.poll(now, random) else { break };
            self.ask(query.server, query.source_port, 53, &query.payload, now);
        }
        while let Some(id) = self.resolver.next_done() {
            self.lookup_ended(id, now);
        }
        let random = [self.random.next_u64(), self.random.next_u64()];
        if let Some(query) = self.ntp.poll(now, random) {
            self.ask(query.server, query.source_port, 123, &query.payload, now);
        }
        self.schedule_services();
    }

    pub(crate) fn schedule_services(&mut self) {
        self.services_due =
            [self.resolver.due(), self.ntp.due(), self.time_names_due].into_iter().flatten().min();
    }

    /// Sends one datagram from no socket, to which nothing comes back: what syslog needs. An error is worth another
    /// try later, but for [`Error::MessageTooLong`].
    pub fn send_unanswered(
        &mut self,
        to: SocketAddr,
        source_port: u16,
        payload: &[u8],
        now: Instant,
    ) -> Result<(), Error> {
        let route = self.route(to.ip(), None)?;
        let pair = Pair::new(route.source, to.ip()).ok_or(Error::NetworkUnreachable)?;
        let mtu = self.path_mtu(to.ip(), self.interfaces[route.interface].mtu());
        if pair.header_len() + 8 + payload.len() > mtu {
            return Err(Error::MessageTooLong);
        }
        let interface = &mut self.interfaces[route.interface];
        if !interface.nic.link().up {
            return Err(Error::NetworkUnreachable);
        }
        let (header, len) = (pair.header_len(), 8 + payload.len());
        let sent = interface.send_via(route.next_hop, header + len, now, |packet| {
            packet::ip_header(packet, &pair, protocol::UDP, 64, len);
            packet::udp_header(&mut packet[header..], source_port, to.port(), len);
            packet[header + 8..].copy_from_slice(payload);
        });
        interface.flush();
        if sent { Ok(()) } else { Err(Error::NoBufferSpace) }
    }

    /// Our address that a datagram to `destination` would have.
    pub fn source_address(&self, destination: IpAddr) -> Result<IpAddr, Error> {
        Ok(self.route(destination, None)?.source)
    }

    /// Sends a question of one datagram. One that cannot be sent is one that is not answered.
    fn ask(&mut self, server: IpAddr, source: u16, destination: u16, payload: &[u8], now: Instant) {
        let Ok(route) = self.route(server, None) else { return };
        let Some(pair) = Pair::new(route.source, server) else { return };
        let (header, len) = (pair.header_len(), 8 + payload.len());
        let Some(interface) = self.interfaces.get_mut(route.interface) else { return };
        interface.send_via(route.next_hop, header + len, now, |packet| {
            packet::ip_header(packet, &pair, protocol::UDP, 64, len);
            packet::udp_header(&mut packet[header..], source, destination, len);
            packet[header + 8..].copy_from_slice(payload);
        });
    }
}

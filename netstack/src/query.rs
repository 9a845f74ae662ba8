//! Names and time: the clients of DNS and NTP, and what they send and hear.

use crate::Error;
use crate::dns::{Failure, LookupId};
use crate::frame::protocol;
use crate::packet::{self, Pair};
use crate::socket::{Event, QueryId};
use crate::stack::Stack;
use alloc::vec::Vec;
use core::net::IpAddr;
use smoltcp::time::Instant;

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

    /// What is due of names and time.
    pub(crate) fn services_tick(&mut self, now: Instant) {
        // Bounded by the lookups there can be, two questions each.
        for _ in 0..256 {
            let random = self.random.next_u64();
            let Some(query) = self.resolver.poll(now, random) else { break };
            self.ask(query.server, query.source_port, 53, &query.payload, now);
        }
        let random = [self.random.next_u64(), self.random.next_u64()];
        if let Some(query) = self.ntp.poll(now, random) {
            self.ask(query.server, query.source_port, 123, &query.payload, now);
        }
        while let Some(LookupId(id)) = self.resolver.next_done() {
            self.events.push_back(Event::Query(QueryId(id)));
        }
        self.schedule_services();
    }

    pub(crate) fn schedule_services(&mut self) {
        self.services_due = self.resolver.due().into_iter().chain(self.ntp.due()).min();
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

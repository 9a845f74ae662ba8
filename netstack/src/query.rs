//! Looking up names. Not there yet: the resolver is being written.

use crate::Error;
use crate::socket::QueryId;
use crate::stack::Stack;
use alloc::vec::Vec;
use core::net::IpAddr;
use smoltcp::time::{Duration, Instant};

impl Stack {
    /// Begins to look up a name; an event tells when it is done.
    pub fn resolve(&mut self, _name: &str, _now: Instant) -> Result<QueryId, Error> {
        Err(Error::NotSupported)
    }

    /// The answer, once, when it is there.
    pub fn resolved(&mut self, _query: QueryId) -> Option<Result<Vec<IpAddr>, Error>> {
        None
    }

    /// Forgets a lookup.
    pub fn cancel_query(&mut self, _query: QueryId) {}

    /// Time since 1970-01-01 UTC as an NTP server told it.
    pub fn wall_clock(&self, _now: Instant) -> Option<Duration> {
        None
    }
}

//! Which way a packet goes.

use crate::Error;
use crate::socket::{Family, presented};
use crate::stack::Stack;
use core::net::{IpAddr, SocketAddr, SocketAddrV6};

/// A way to a destination.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Route {
    pub(crate) destination: IpAddr,
    pub(crate) interface: usize,
    pub(crate) next_hop: IpAddr,
    /// Our address on it.
    pub(crate) source: IpAddr,
}

/// Place of the loopback interface, which is always there.
pub(crate) const LOOPBACK: usize = 0;

/// How a socket of `family` is told of an address at an interface: a link-local one with its scope.
pub(crate) fn told(address: IpAddr, port: u16, family: Family, interface: usize) -> SocketAddr {
    match presented(address, family) {
        IpAddr::V6(v6) if v6.is_unicast_link_local() => {
            SocketAddrV6::new(v6, port, 0, interface as u32 + 1).into()
        }
        address => SocketAddr::new(address, port),
    }
}

impl Stack {
    /// The best way: the longest prefix, the first interface among equals. `preferred`: ask only
    /// this interface.
    pub(crate) fn route(
        &self,
        destination: IpAddr,
        preferred: Option<usize>,
    ) -> Result<Route, Error> {
        // As Linux does, the unspecified address means this host.
        let own =
            destination.is_loopback() || destination.is_unspecified() || self.is_ours(destination);
        if own {
            let destination = if destination.is_unspecified() {
                self.loopback_address(destination)
            } else {
                destination
            };
            let source = destination;
            return Ok(Route { destination, interface: LOOPBACK, next_hop: destination, source });
        }
        let mut best: Option<(u8, usize, IpAddr)> = None;
        for (n, interface) in self.interfaces.iter().enumerate().skip(1) {
            if preferred.is_some_and(|preferred| preferred != n) {
                continue;
            }
            if let Some((next_hop, prefix)) = interface.next_hop(destination)
                && best.is_none_or(|(other, ..)| prefix > other)
            {
                best = Some((prefix, n, next_hop));
            }
        }
        let (_, interface, next_hop) = best.ok_or(Error::NetworkUnreachable)?;
        let source =
            self.interfaces[interface].source_for(destination).ok_or(Error::NetworkUnreachable)?;
        Ok(Route { destination, interface, next_hop, source })
    }

    /// The interface that an address's scope names, counted from 1 as `if_nametoindex` does; `None` if it names none or
    /// the address needs none (RFC 4007, 6).
    pub(crate) fn scope_of(&self, address: &SocketAddr) -> Result<Option<usize>, Error> {
        let SocketAddr::V6(v6) = address else { return Ok(None) };
        if v6.scope_id() == 0 || !(v6.ip().is_unicast_link_local() || v6.ip().is_multicast()) {
            return Ok(None);
        }
        match v6.scope_id() as usize - 1 {
            place if place < self.interfaces.len() => Ok(Some(place)),
            _ => Err(Error::AddressNotAvailable),
        }
    }

    fn loopback_address(&self, like: IpAddr) -> IpAddr {
        match like {
            IpAddr::V4(_) => IpAddr::V4(core::net::Ipv4Addr::LOCALHOST),
            IpAddr::V6(_) => IpAddr::V6(core::net::Ipv6Addr::LOCALHOST),
        }
    }

    /// Is it an address of one of our interfaces?
    pub(crate) fn is_ours(&self, address: IpAddr) -> bool {
        self.interfaces
            .iter()
            .any(|interface| interface.addresses.iter().any(|cidr| cidr.address == address))
    }

    /// May a socket be bound to it?
    pub(crate) fn is_bindable(&self, address: IpAddr) -> bool {
        address.is_unspecified()
            || address.is_loopback()
            || address.is_multicast()
            || self.is_ours(address)
            || match address {
                IpAddr::V4(address) => {
                    self.interfaces.iter().skip(1).any(|interface| interface.is_broadcast(address))
                }
                IpAddr::V6(_) => false,
            }
    }
}

//! Which way a packet goes.

use crate::Error;
use crate::stack::Stack;
use core::net::IpAddr;

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

//! Name lookups that wait.

use alloc::rc::Rc;
use alloc::vec::Vec;
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use trireme_netstack::Error;

use super::{NETWORK, with_stack};
use crate::thread::wait::WaitList;

/// The addresses of a name: written out, `localhost` (RFC 6761, 6.3), or asked of the name servers.
pub fn resolve(name: &str) -> Result<Vec<IpAddr>, Error> {
    if let Ok(address) = name.parse::<IpAddr>() {
        return Ok([address].into());
    }
    if name.eq_ignore_ascii_case("localhost") {
        return Ok([IpAddr::V6(Ipv6Addr::LOCALHOST), IpAddr::V4(Ipv4Addr::LOCALHOST)].into());
    }
    let query = with_stack(|stack, now| stack.resolve(name, now))?;
    let waiters = Rc::new(WaitList::new());
    NETWORK.with(|slot| {
        if let Some(network) = slot {
            network.queries.push((query, waiters.clone()));
        }
    });
    // The stack gives up by itself, so there is an end to it.
    let result = loop {
        if let Some(result) = with_stack(|stack, _| stack.resolved(query)) {
            break result;
        }
        if waiters.wait(false, None).is_none() {
            with_stack(|stack, _| stack.cancel_query(query));
            break Err(Error::NoBufferSpace);
        }
    };
    NETWORK.with(|slot| {
        if let Some(network) = slot {
            network.queries.retain(|(of, _)| *of != query);
        }
    });
    result
}

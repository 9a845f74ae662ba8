//! Multicast groups of one interface: who is in, and the reports that keep routers sending.

use crate::address::multicast_mac;
use alloc::vec::Vec;
use core::net::IpAddr;
use trireme_nic::MacAddress;

/// Groups at most.
const CAPACITY: usize = 64;

struct Group {
    address: IpAddr,
    /// Sockets in it.
    members: u32,
}

pub(crate) struct Groups {
    groups: Vec<Group>,
}

impl Groups {
    pub(crate) fn new() -> Groups {
        Groups { groups: Vec::new() }
    }

    pub(crate) fn contains(&self, address: IpAddr) -> bool {
        self.groups.iter().any(|group| group.address == address)
    }

    /// One socket more is in. `Some(true)`: the first. `None`: too many groups.
    pub(crate) fn join(&mut self, address: IpAddr) -> Option<bool> {
        if let Some(group) = self.groups.iter_mut().find(|group| group.address == address) {
            group.members += 1;
            return Some(false);
        }
        if self.groups.len() >= CAPACITY {
            return None;
        }
        self.groups.push(Group { address, members: 1 });
        Some(true)
    }

    /// One socket less. True: that was the last.
    pub(crate) fn leave(&mut self, address: IpAddr) -> bool {
        let Some(at) = self.groups.iter().position(|group| group.address == address) else {
            return false;
        };
        self.groups[at].members -= 1;
        if self.groups[at].members > 0 {
            return false;
        }
        self.groups.swap_remove(at);
        true
    }

    pub(crate) fn addresses(&self) -> impl Iterator<Item = IpAddr> {
        self.groups.iter().map(|group| group.address)
    }

    /// Their Ethernet addresses, for the card's filter.
    pub(crate) fn macs(&self) -> Vec<MacAddress> {
        let mut macs: Vec<MacAddress> = self.addresses().map(multicast_mac).collect();
        macs.sort_unstable();
        macs.dedup();
        macs
    }
}

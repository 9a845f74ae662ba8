//! The table of TCP connections: found by a keyed hash of the 4-tuple.

use crate::hash::Key;
use crate::slab::Slab;
use crate::stack::Slot;
use core::net::IpAddr;
use hashbrown::HashTable;

/// Names a connection on the wire.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FlowKey {
    pub(crate) local: IpAddr,
    pub(crate) remote: IpAddr,
    pub(crate) local_port: u16,
    pub(crate) remote_port: u16,
}

impl FlowKey {
    #[inline]
    pub(crate) fn hash(&self, key: &Key) -> u64 {
        let ports = u64::from(self.local_port) << 16 | u64::from(self.remote_port);
        match (self.local, self.remote) {
            (IpAddr::V4(local), IpAddr::V4(remote)) => {
                key.hash([u64::from(local.to_bits()) << 32 | u64::from(remote.to_bits()), ports])
            }
            (local, remote) => {
                let words = |address: IpAddr| {
                    let bits = match address {
                        IpAddr::V4(address) => address.to_ipv6_mapped().to_bits(),
                        IpAddr::V6(address) => address.to_bits(),
                    };
                    ((bits >> 64) as u64, bits as u64)
                };
                let ((a, b), (c, d)) = (words(local), words(remote));
                key.hash([a, b, c, d, ports])
            }
        }
    }
}

/// The table. It holds places in the socket table, not keys.
pub(crate) struct Flows {
    key: Key,
    table: HashTable<u32>,
}

impl Flows {
    pub(crate) fn new(key: Key) -> Flows {
        Flows { key, table: HashTable::new() }
    }

    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.table.is_empty()
    }

    #[inline]
    pub(crate) fn find(&self, key: &FlowKey, slots: &Slab<Slot>) -> Option<u32> {
        self.table.find(key.hash(&self.key), |&index| key_of(slots, index) == Some(key)).copied()
    }

    /// Adds the flow at `index`, which is not in yet.
    pub(crate) fn insert(&mut self, index: u32, slots: &Slab<Slot>) {
        let Some(key) = key_of(slots, index) else { return };
        let secret = self.key;
        self.table.insert_unique(key.hash(&secret), index, |&index| {
            key_of(slots, index).map_or(0, |key| key.hash(&secret))
        });
    }

    /// Takes out the flow at `index`, if that one is in.
    pub(crate) fn remove(&mut self, key: &FlowKey, index: u32) {
        if let Ok(entry) = self.table.find_entry(key.hash(&self.key), |&other| other == index) {
            entry.remove();
        }
    }
}

#[inline]
fn key_of(slots: &Slab<Slot>, index: u32) -> Option<&FlowKey> {
    match slots.at(index) {
        Some(Slot::Flow(flow)) => Some(&flow.key),
        Some(Slot::Datagram(socket)) => socket.flow.as_ref(),
        _ => None,
    }
}

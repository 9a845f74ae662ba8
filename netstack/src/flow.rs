//! The table of TCP connections: found by a keyed hash of the 4-tuple.

use crate::hash::Key;
use crate::slab::Slab;
use crate::stack::Slot;
use core::net::IpAddr;
use hashbrown::HashTable;

/// Names a connection on the wire. Its hash comes with it: a segment's is made once and serves
/// every table it is looked up in or put into.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FlowKey {
    hash: u64,
    pub(crate) local: IpAddr,
    pub(crate) remote: IpAddr,
    pub(crate) local_port: u16,
    pub(crate) remote_port: u16,
}

impl FlowKey {
    /// All keys of one stack are made with the same secret.
    #[inline]
    pub(crate) fn new(secret: &Key, local: (IpAddr, u16), remote: (IpAddr, u16)) -> FlowKey {
        let ((local, local_port), (remote, remote_port)) = (local, remote);
        let mut key = FlowKey { hash: 0, local, remote, local_port, remote_port };
        key.hash = key.digest(secret);
        key
    }

    /// The hash under the tables' secret.
    #[inline]
    pub(crate) fn hash(&self) -> u64 {
        self.hash
    }

    /// A hash under a secret of one's own.
    #[inline]
    pub(crate) fn digest(&self, secret: &Key) -> u64 {
        let ports = u64::from(self.local_port) << 16 | u64::from(self.remote_port);
        match (self.local, self.remote) {
            (IpAddr::V4(local), IpAddr::V4(remote)) => {
                secret.hash([u64::from(local.to_bits()) << 32 | u64::from(remote.to_bits()), ports])
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
                secret.hash([a, b, c, d, ports])
            }
        }
    }
}

/// The table. It holds places in the socket table, not keys.
pub(crate) struct Flows {
    table: HashTable<u32>,
}

impl Flows {
    pub(crate) fn new() -> Flows {
        Flows { table: HashTable::new() }
    }

    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.table.is_empty()
    }

    #[inline]
    pub(crate) fn find(&self, key: &FlowKey, slots: &Slab<Slot>) -> Option<u32> {
        self.table.find(key.hash, |&index| key_of(slots, index) == Some(key)).copied()
    }

    /// Adds the flow at `index`, which is not in yet.
    pub(crate) fn insert(&mut self, index: u32, slots: &Slab<Slot>) {
        let Some(key) = key_of(slots, index) else { return };
        self.table.insert_unique(key.hash, index, |&index| {
            key_of(slots, index).map_or(0, |key| key.hash)
        });
    }

    /// Takes out the flow at `index`, if that one is in.
    pub(crate) fn remove(&mut self, key: &FlowKey, index: u32) {
        if let Ok(entry) = self.table.find_entry(key.hash, |&other| other == index) {
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

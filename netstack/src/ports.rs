//! Which sockets have a local port.

use crate::socket::Kind;
use alloc::vec::Vec;
use hashbrown::HashTable;

struct Port {
    kind: Kind,
    number: u16,
    users: Vec<u32>,
}

/// Listeners by TCP port and datagram sockets by UDP port. Which ports are in use is for us to say,
/// so the hash needs no key.
pub(crate) struct Ports {
    table: HashTable<Port>,
}

fn hash(kind: Kind, number: u16) -> u64 {
    (u64::from(number) << 1 | (kind == Kind::Stream) as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

impl Ports {
    pub(crate) fn new() -> Ports {
        Ports { table: HashTable::new() }
    }

    /// Places of the sockets that have it.
    #[inline]
    pub(crate) fn users(&self, kind: Kind, number: u16) -> &[u32] {
        self.table
            .find(hash(kind, number), |port| port.number == number && port.kind == kind)
            .map_or(&[], |port| &port.users)
    }

    pub(crate) fn add(&mut self, kind: Kind, number: u16, user: u32) {
        let hashed = hash(kind, number);
        let same = |port: &Port| port.number == number && port.kind == kind;
        match self.table.find_mut(hashed, same) {
            Some(port) => port.users.push(user),
            None => {
                let port = Port { kind, number, users: [user].into() };
                self.table.insert_unique(hashed, port, |port| hash(port.kind, port.number));
            }
        }
    }

    pub(crate) fn remove(&mut self, kind: Kind, number: u16, user: u32) {
        let same = |port: &Port| port.number == number && port.kind == kind;
        if let Ok(mut entry) = self.table.find_entry(hash(kind, number), same) {
            entry.get_mut().users.retain(|other| *other != user);
            if entry.get().users.is_empty() {
                entry.remove();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_are_apart_and_ports_are_shared() {
        let mut ports = Ports::new();
        ports.add(Kind::Stream, 80, 1);
        ports.add(Kind::Datagram, 80, 2);
        ports.add(Kind::Datagram, 80, 3);
        assert_eq!(ports.users(Kind::Stream, 80), [1]);
        assert_eq!(ports.users(Kind::Datagram, 80), [2, 3]);
        ports.remove(Kind::Datagram, 80, 2);
        ports.remove(Kind::Stream, 80, 1);
        assert_eq!(ports.users(Kind::Stream, 80), []);
        assert_eq!(ports.users(Kind::Datagram, 80), [3]);
    }
}

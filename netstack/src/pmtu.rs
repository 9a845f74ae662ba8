//! What is known of path MTUs smaller than our own link's (RFC 1191, RFC 8201).

use crate::hash::Key;
use alloc::collections::VecDeque;
use core::net::IpAddr;
use hashbrown::HashTable;
use smoltcp::time::{Duration, Instant};

const CAPACITY: usize = 256;
/// After this a larger one is tried again (RFC 8201, 4: not before five minutes).
const LIFETIME: Duration = Duration::from_secs(600);
/// Nothing smaller is believed: Linux's `min_pmtu`, and IPv6's minimum link MTU.
const LEAST_V4: usize = 552;
const LEAST_V6: usize = 1280;

struct Path {
    destination: IpAddr,
    mtu: usize,
}

pub(crate) struct Paths {
    key: Key,
    table: HashTable<Path>,
    order: VecDeque<(Instant, IpAddr)>,
}

impl Paths {
    pub(crate) fn new(key: Key) -> Paths {
        Paths { key, table: HashTable::new(), order: VecDeque::new() }
    }

    fn hash(key: &Key, address: IpAddr) -> u64 {
        match address {
            IpAddr::V4(address) => key.hash([u64::from(address.to_bits())]),
            IpAddr::V6(address) => {
                let bits = address.to_bits();
                key.hash([(bits >> 64) as u64, bits as u64])
            }
        }
    }

    /// The MTU towards `destination`, if it is less than the link's `mtu`.
    #[inline]
    pub(crate) fn get(&self, destination: IpAddr, mtu: usize) -> usize {
        if self.table.is_empty() {
            return mtu;
        }
        let hash = Self::hash(&self.key, destination);
        match self.table.find(hash, |path| path.destination == destination) {
            Some(path) => path.mtu.min(mtu),
            None => mtu,
        }
    }

    /// A router said so. Gives the MTU to use from now on.
    pub(crate) fn learn(&mut self, destination: IpAddr, mtu: usize, now: Instant) -> usize {
        let mtu = mtu.max(if destination.is_ipv4() { LEAST_V4 } else { LEAST_V6 });
        let hash = Self::hash(&self.key, destination);
        if let Some(path) = self.table.find_mut(hash, |path| path.destination == destination) {
            path.mtu = mtu.min(path.mtu);
            return path.mtu;
        }
        if self.order.len() >= CAPACITY
            && let Some((_, oldest)) = self.order.pop_front()
        {
            self.forget(oldest);
        }
        let key = self.key;
        self.table.insert_unique(hash, Path { destination, mtu }, |path| {
            Self::hash(&key, path.destination)
        });
        self.order.push_back((now + LIFETIME, destination));
        mtu
    }

    fn forget(&mut self, destination: IpAddr) {
        let hash = Self::hash(&self.key, destination);
        if let Ok(entry) = self.table.find_entry(hash, |path| path.destination == destination) {
            entry.remove();
        }
    }

    pub(crate) fn due(&self) -> Option<Instant> {
        self.order.front().map(|(at, _)| *at)
    }

    pub(crate) fn expire(&mut self, now: Instant) {
        while let Some(&(at, destination)) = self.order.front()
            && at <= now
        {
            self.order.pop_front();
            self.forget(destination);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_smaller_is_believed_and_only_for_a_while() {
        let mut paths = Paths::new(Key::new([5; 16]));
        let far: IpAddr = "192.0.2.1".parse().unwrap();
        let at = Instant::from_secs;
        assert_eq!(paths.get(far, 1500), 1500);
        assert_eq!(paths.learn(far, 1400, at(0)), 1400);
        assert_eq!(paths.learn(far, 1450, at(0)), 1400);
        assert_eq!(paths.learn(far, 68, at(1)), LEAST_V4);
        assert_eq!(paths.get(far, 1500), LEAST_V4);
        assert_eq!(paths.get("192.0.2.2".parse().unwrap(), 1500), 1500);
        assert_eq!(paths.learn("2001:db8::1".parse().unwrap(), 0, at(2)), LEAST_V6);
        paths.expire(at(600));
        assert_eq!(paths.get(far, 1500), 1500);
        assert_eq!(paths.due(), Some(at(602)));
        for n in 0..1000u32 {
            paths.learn(IpAddr::V4(n.into()), 1000, at(3));
        }
        assert_eq!((paths.table.len(), paths.order.len()), (CAPACITY, CAPACITY));
    }
}

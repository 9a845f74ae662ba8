//! Datagrams waiting to be read: one ring of bytes, one list of lengths and senders.

use alloc::collections::VecDeque;
use alloc::vec::Vec;
use core::net::IpAddr;

/// One waiting datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Waiting {
    pub(crate) from: IpAddr,
    pub(crate) port: u16,
    /// Where it came in.
    pub(crate) interface: u16,
    len: u32,
}

/// The queue. Its ring is allocated when the first datagram comes, and nothing afterwards.
pub(crate) struct Queue {
    ring: Vec<u8>,
    capacity: usize,
    start: usize,
    used: usize,
    waiting: VecDeque<Waiting>,
}

/// A datagram takes this much more than its bytes, so that empty ones are bounded too.
const OVERHEAD: usize = 32;

impl Queue {
    pub(crate) fn new(capacity: usize) -> Queue {
        Queue { ring: Vec::new(), capacity, start: 0, used: 0, waiting: VecDeque::new() }
    }

    pub(crate) fn capacity(&self) -> usize {
        self.capacity
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// Bytes of the next datagram.
    pub(crate) fn next_len(&self) -> usize {
        self.waiting.front().map_or(0, |next| next.len as usize)
    }

    /// Adds a datagram given in two parts. False: no room.
    pub(crate) fn push(&mut self, from: IpAddr, port: u16, interface: u16, data: &[u8]) -> bool {
        let taken = self.used + self.waiting.len() * OVERHEAD;
        if taken + data.len() + OVERHEAD > self.capacity {
            return false;
        }
        if self.ring.is_empty() {
            self.ring = alloc::vec![0; self.capacity];
            self.waiting.reserve(self.capacity / 512);
        }
        let at = (self.start + self.used) % self.capacity;
        let first = data.len().min(self.capacity - at);
        self.ring[at..at + first].copy_from_slice(&data[..first]);
        self.ring[..data.len() - first].copy_from_slice(&data[first..]);
        self.used += data.len();
        self.waiting.push_back(Waiting { from, port, interface, len: data.len() as u32 });
        true
    }

    /// The next datagram, in two parts if it wraps.
    pub(crate) fn front(&self) -> Option<(Waiting, &[u8], &[u8])> {
        let next = *self.waiting.front()?;
        let len = next.len as usize;
        let first = len.min(self.capacity - self.start);
        Some((next, &self.ring[self.start..self.start + first], &self.ring[..len - first]))
    }

    /// Drops it.
    pub(crate) fn pop(&mut self) {
        if let Some(next) = self.waiting.pop_front() {
            self.used -= next.len as usize;
            // Starting over when empty keeps the cache warm and datagrams in one piece.
            self.start =
                if self.used == 0 { 0 } else { (self.start + next.len as usize) % self.capacity };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn behaves_like_a_list(steps in prop::collection::vec((any::<bool>(), 0usize..400), 1..200)) {
            let mut queue = Queue::new(1000);
            let mut list: VecDeque<Vec<u8>> = VecDeque::new();
            let from: IpAddr = "::1".parse().unwrap();
            for (n, (push, len)) in steps.into_iter().enumerate() {
                if push {
                    let data: Vec<u8> = (0..len).map(|i| (i * 7 + n) as u8).collect();
                    let bytes: usize = list.iter().map(|data| data.len() + OVERHEAD).sum();
                    let fits = bytes + len + OVERHEAD <= 1000;
                    prop_assert_eq!(queue.push(from, n as u16, 1, &data), fits);
                    if fits {
                        list.push_back(data);
                    }
                } else {
                    let read = queue.front().map(|(_, a, b)| [a, b].concat());
                    prop_assert_eq!(&read, &list.pop_front());
                    queue.pop();
                }
                prop_assert_eq!(queue.is_empty(), list.is_empty());
                prop_assert_eq!(queue.next_len(), list.front().map_or(0, Vec::len));
            }
        }
    }
}

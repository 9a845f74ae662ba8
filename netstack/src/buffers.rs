//! Memory of connections: one budget, a few sizes, used again.
//!
//! smoltcp cannot change a socket's rings once it is made, so the size is chosen when a connection
//! begins, by how much of the budget is left: a lone connection gets rings that keep a fast link
//! busy, and when many come each gets little. The upper half of the budget is for large rings, the
//! lower half is kept for the smallest, so that a few bulk transfers never shut out a crowd.
//!
//! What is kept for use again is the whole smoltcp socket with its rings: making one anew would
//! mean allocating and clearing them for each connection.

use alloc::vec;
use alloc::vec::Vec;
use smoltcp::iface::{SocketHandle, SocketSet};
use smoltcp::socket::tcp;

/// Bytes of each of the two rings, by class.
pub(crate) const RING: [usize; 6] = [2 << 10, 8 << 10, 32 << 10, 128 << 10, 256 << 10, 512 << 10];

/// What a connection costs besides its rings: smoltcp's socket and set item, the table entry.
const OVERHEAD: usize = 1536;

const fn cost(class: usize) -> usize {
    2 * RING[class] + OVERHEAD
}

/// A smoltcp socket alone in its set, with its rings.
pub(crate) struct Engine {
    pub(crate) set: SocketSet<'static>,
    handle: SocketHandle,
    class: u8,
}

impl Engine {
    fn new(class: usize) -> Engine {
        let ring = || tcp::SocketBuffer::new(vec![0; RING[class]]);
        // With room for one: an empty vector would grow to four places.
        let mut set = SocketSet::new(Vec::with_capacity(1));
        let handle = set.add(tcp::Socket::new(ring(), ring()));
        Engine { set, handle, class: class as u8 }
    }

    #[inline]
    pub(crate) fn socket(&self) -> &tcp::Socket<'static> {
        self.set.get(self.handle)
    }

    #[inline]
    pub(crate) fn socket_mut(&mut self) -> &mut tcp::Socket<'static> {
        self.set.get_mut(self.handle)
    }

    /// Bytes of each ring.
    pub(crate) fn ring(&self) -> usize {
        RING[usize::from(self.class)]
    }
}

/// The budget and what is kept for use again.
pub(crate) struct Buffers {
    budget: usize,
    /// Bytes in connections and other queues.
    used: usize,
    /// Bytes in `kept`.
    idle: usize,
    kept: [Vec<Engine>; RING.len()],
}

impl Buffers {
    pub(crate) fn new(budget: usize) -> Buffers {
        Buffers { budget, used: 0, idle: 0, kept: [const { Vec::new() }; RING.len()] }
    }

    pub(crate) fn budget(&self) -> usize {
        self.budget
    }

    pub(crate) fn used(&self) -> usize {
        self.used
    }

    /// The class a connection beginning now should have.
    fn class(&self, wanted: usize) -> usize {
        let free = self.budget.saturating_sub(self.used);
        let large = free.saturating_sub(self.budget / 2) / 8;
        let wanted = if wanted == 0 { usize::MAX } else { wanted };
        let mut class = 0;
        while class + 1 < RING.len() && cost(class + 1) <= large && RING[class] < wanted {
            class += 1;
        }
        class
    }

    /// A closed socket with rings; the larger of them `wanted` bytes if that can be had (0: as
    /// large as is sensible). `None` if the budget is used up.
    pub(crate) fn take(&mut self, wanted: usize) -> Option<Engine> {
        let class = self.class(wanted);
        if self.used + cost(class) > self.budget {
            return None;
        }
        self.used += cost(class);
        if let Some(engine) = self.kept[class].pop() {
            self.idle -= cost(class);
            return Some(engine);
        }
        self.make_room();
        Some(Engine::new(class))
    }

    /// Gives a socket back. Its connection is over.
    pub(crate) fn give(&mut self, engine: Engine) {
        let class = usize::from(engine.class);
        self.used -= cost(class);
        if self.used + self.idle + cost(class) <= self.budget && self.idle < self.budget / 4 {
            self.idle += cost(class);
            self.kept[class].push(engine);
        }
    }

    /// Takes plain bytes of the budget, for queues of datagrams.
    pub(crate) fn reserve(&mut self, bytes: usize) -> bool {
        if self.used + bytes > self.budget {
            return false;
        }
        self.used += bytes;
        self.make_room();
        true
    }

    /// Gives them back.
    pub(crate) fn release(&mut self, bytes: usize) {
        self.used -= bytes;
    }

    /// Frees kept sockets, largest first, until used and kept ones fit the budget.
    fn make_room(&mut self) {
        for class in (0..RING.len()).rev() {
            while self.used + self.idle > self.budget && self.kept[class].pop().is_some() {
                self.idle -= cost(class);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lone_connection_gets_large_rings_and_a_crowd_fits() {
        let mut buffers = Buffers::new(128 << 20);
        let first = buffers.take(0).unwrap();
        assert_eq!(first.ring(), 512 << 10);
        let mut crowd: Vec<Engine> = core::iter::from_fn(|| buffers.take(0)).collect();
        assert!(crowd.len() > 10_000, "{}", crowd.len());
        assert_eq!(crowd.last().unwrap().ring(), RING[0]);
        assert!(buffers.used() <= buffers.budget());
        // All gone again, and the first to come gets large rings again.
        crowd.push(first);
        crowd.into_iter().for_each(|engine| buffers.give(engine));
        assert_eq!(buffers.used(), 0);
        assert!(buffers.idle <= 128 << 20);
        assert_eq!(buffers.take(0).unwrap().ring(), 512 << 10);
    }

    #[test]
    fn asking_for_less_gives_less() {
        let mut buffers = Buffers::new(128 << 20);
        assert_eq!(buffers.take(4 << 10).unwrap().ring(), 8 << 10);
        assert_eq!(buffers.take(1).unwrap().ring(), 2 << 10);
    }

    #[test]
    fn an_empty_budget_gives_nothing() {
        let mut buffers = Buffers::new(10_000);
        let one = buffers.take(0).unwrap();
        assert!(buffers.take(0).is_none());
        assert!(!buffers.reserve(10_000));
        buffers.give(one);
        assert!(buffers.reserve(10_000));
        assert!(buffers.take(0).is_none());
    }
}

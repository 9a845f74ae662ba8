//! Deadlines of sockets: one per socket, removable, earliest first.
//!
//! A four-ary heap that knows where each socket's entry is. A deadline moves on nearly every packet,
//! so callers arm only when the new one is *earlier* ([`Timers::arm_earlier`]) and look again when
//! it expires; then the heap is touched about once per round trip.

use alloc::vec::Vec;
use smoltcp::time::Instant;

const NONE: u32 = u32::MAX;

/// The heap. Keys are slab indices.
pub(crate) struct Timers {
    heap: Vec<(Instant, u32)>,
    /// Heap position of each key, or `NONE`.
    position: Vec<u32>,
}

impl Timers {
    pub(crate) fn new() -> Timers {
        Timers { heap: Vec::new(), position: Vec::new() }
    }

    /// The earliest deadline.
    #[inline]
    pub(crate) fn earliest(&self) -> Option<Instant> {
        self.heap.first().map(|entry| entry.0)
    }

    /// Arms `key` for `at` unless it is armed for an earlier time already.
    #[inline]
    pub(crate) fn arm_earlier(&mut self, key: u32, at: Instant) {
        match self.position.get(key as usize) {
            Some(&position) if position != NONE => {
                if at < self.heap[position as usize].0 {
                    self.heap[position as usize].0 = at;
                    self.up(position as usize);
                }
            }
            _ => self.insert(key, at),
        }
    }

    fn insert(&mut self, key: u32, at: Instant) {
        if self.position.len() <= key as usize {
            self.position.resize(key as usize + 1, NONE);
        }
        self.heap.push((at, key));
        self.position[key as usize] = self.heap.len() as u32 - 1;
        self.up(self.heap.len() - 1);
    }

    /// Forgets `key`'s deadline.
    pub(crate) fn cancel(&mut self, key: u32) {
        match self.position.get(key as usize) {
            Some(&position) if position != NONE => self.take(position as usize),
            _ => {}
        }
    }

    /// Takes out one key whose deadline has come.
    pub(crate) fn expired(&mut self, now: Instant) -> Option<u32> {
        let &(at, key) = self.heap.first()?;
        if at > now {
            return None;
        }
        self.take(0);
        Some(key)
    }

    fn take(&mut self, position: usize) {
        let (_, key) = self.heap.swap_remove(position);
        self.position[key as usize] = NONE;
        if position < self.heap.len() {
            self.position[self.heap[position].1 as usize] = position as u32;
            self.down(position);
            self.up(position);
        }
    }

    fn up(&mut self, mut at: usize) {
        while at > 0 {
            let parent = (at - 1) / 4;
            if self.heap[parent].0 <= self.heap[at].0 {
                break;
            }
            self.swap(parent, at);
            at = parent;
        }
    }

    fn down(&mut self, mut at: usize) {
        loop {
            let children = 4 * at + 1..(4 * at + 5).min(self.heap.len());
            let Some(least) = children.min_by_key(|&child| self.heap[child].0) else { break };
            if self.heap[at].0 <= self.heap[least].0 {
                break;
            }
            self.swap(at, least);
            at = least;
        }
    }

    fn swap(&mut self, a: usize, b: usize) {
        self.heap.swap(a, b);
        self.position[self.heap[a].1 as usize] = a as u32;
        self.position[self.heap[b].1 as usize] = b as u32;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::collections::BTreeMap;
    use proptest::prelude::*;

    fn at(us: i64) -> Instant {
        Instant::from_micros(us)
    }

    #[test]
    fn a_later_deadline_does_not_move_an_earlier_one() {
        let mut timers = Timers::new();
        timers.arm_earlier(3, at(50));
        timers.arm_earlier(3, at(90));
        assert_eq!(timers.earliest(), Some(at(50)));
        timers.arm_earlier(3, at(10));
        assert_eq!(timers.earliest(), Some(at(10)));
        assert_eq!(timers.expired(at(9)), None);
        assert_eq!(timers.expired(at(10)), Some(3));
        assert_eq!(timers.earliest(), None);
    }

    proptest! {
        #[test]
        fn behaves_like_a_sorted_map(steps in prop::collection::vec((0u8..3, 0u32..40, 0i64..1000), 1..300)) {
            let mut timers = Timers::new();
            let mut map: BTreeMap<u32, i64> = BTreeMap::new();
            for (what, key, time) in steps {
                match what {
                    0 => {
                        timers.arm_earlier(key, at(time));
                        let entry = map.entry(key).or_insert(time);
                        *entry = time.min(*entry);
                    }
                    1 => {
                        timers.cancel(key);
                        map.remove(&key);
                    }
                    _ => match timers.expired(at(time)) {
                        Some(key) => {
                            let due = map.remove(&key).unwrap();
                            prop_assert!(due <= time && map.values().all(|&other| due <= other));
                        }
                        None => prop_assert!(map.values().all(|&due| due > time)),
                    },
                }
                prop_assert_eq!(timers.earliest(), map.values().min().map(|&due| at(due)));
            }
        }
    }
}

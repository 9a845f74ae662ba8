//! The timer queue: who wants to be woken when. Pure logic.

use alloc::vec::Vec;

/// A binary heap of deadlines, at most one for each small integer key, that finds a key's entry in
/// constant time (so a wait that ends early is taken out again). Allocates only when a larger key
/// than ever before is seen.
#[derive(Debug, Default)]
pub struct TimerQueue {
    /// Min-heap by deadline.
    heap: Vec<Entry>,
    /// For each key its index in `heap`, or `ABSENT`. Invariant: `heap[place[k]].key == k`.
    place: Vec<u32>,
}

#[derive(Clone, Copy, Debug)]
struct Entry {
    deadline: u64,
    key: u32,
}

const ABSENT: u32 = u32::MAX;

impl TimerQueue {
    /// An empty queue.
    pub const fn new() -> TimerQueue {
        TimerQueue { heap: Vec::new(), place: Vec::new() }
    }

    /// Makes room for keys below `keys`, so that [`set`](Self::set) does not allocate. False: no memory.
    pub fn reserve(&mut self, keys: u32) -> bool {
        let keys = keys as usize;
        if keys <= self.place.len() {
            return true;
        }
        if self.heap.try_reserve(keys - self.heap.len()).is_err()
            || self.place.try_reserve(keys - self.place.len()).is_err()
        {
            return false;
        }
        self.place.resize(keys, ABSENT);
        true
    }

    /// Sets or moves a key's deadline.
    ///
    /// # Panics
    /// If the key was not reserved.
    pub fn set(&mut self, key: u32, deadline: u64) {
        let at = self.place[key as usize];
        if at == ABSENT {
            self.heap.push(Entry { deadline, key });
            let last = self.heap.len() - 1;
            self.place[key as usize] = last as u32;
            self.up(last);
        } else {
            let at = at as usize;
            let earlier = deadline < self.heap[at].deadline;
            self.heap[at].deadline = deadline;
            if earlier { self.up(at) } else { self.down(at) }
        }
    }

    /// Takes a key out, if it is in.
    pub fn cancel(&mut self, key: u32) {
        let at = self.place.get(key as usize).copied().unwrap_or(ABSENT);
        if at != ABSENT {
            self.remove(at as usize);
        }
    }

    /// The earliest deadline.
    pub fn next(&self) -> Option<u64> {
        self.heap.first().map(|entry| entry.deadline)
    }

    /// Takes out one key whose deadline is not after `now`, earliest first.
    pub fn expired(&mut self, now: u64) -> Option<u32> {
        let first = *self.heap.first()?;
        if first.deadline > now {
            return None;
        }
        self.remove(0);
        Some(first.key)
    }

    fn remove(&mut self, at: usize) {
        let last = self.heap.len() - 1;
        self.swap(at, last);
        if let Some(gone) = self.heap.pop() {
            self.place[gone.key as usize] = ABSENT;
        }
        if at < self.heap.len() {
            self.up(at);
            self.down(at);
        }
    }

    fn swap(&mut self, a: usize, b: usize) {
        self.heap.swap(a, b);
        self.place[self.heap[a].key as usize] = a as u32;
        self.place[self.heap[b].key as usize] = b as u32;
    }

    fn up(&mut self, mut at: usize) {
        while at > 0 {
            let parent = (at - 1) / 2;
            if self.heap[parent].deadline <= self.heap[at].deadline {
                break;
            }
            self.swap(at, parent);
            at = parent;
        }
    }

    fn down(&mut self, mut at: usize) {
        loop {
            let mut least = at;
            for child in [2 * at + 1, 2 * at + 2] {
                if child < self.heap.len() && self.heap[child].deadline < self.heap[least].deadline
                {
                    least = child;
                }
            }
            if least == at {
                break;
            }
            self.swap(at, least);
            at = least;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    #[test]
    fn earliest_comes_first_and_nothing_early() {
        let mut queue = TimerQueue::new();
        assert!(queue.reserve(4));
        queue.set(0, 30);
        queue.set(1, 10);
        queue.set(2, 20);
        assert_eq!(queue.next(), Some(10));
        assert_eq!(queue.expired(9), None);
        assert_eq!(queue.expired(20), Some(1));
        assert_eq!(queue.expired(20), Some(2));
        assert_eq!(queue.expired(29), None);
        assert_eq!(queue.expired(u64::MAX), Some(0));
        assert_eq!(queue.next(), None);
    }

    #[test]
    fn cancelling_an_absent_key_is_nothing() {
        let mut queue = TimerQueue::new();
        queue.cancel(77);
        assert!(queue.reserve(1));
        queue.cancel(0);
        assert_eq!(queue.next(), None);
    }

    proptest! {
        /// Against a sorted map, with every operation.
        #[test]
        fn behaves_like_a_sorted_map(ops in prop::collection::vec((0u8..4, 0u32..16, 0u64..64), 0..200)) {
            let mut queue = TimerQueue::new();
            prop_assert!(queue.reserve(16));
            let mut model: BTreeMap<u32, u64> = BTreeMap::new();
            for (op, key, time) in ops {
                match op {
                    0 | 1 => { queue.set(key, time); model.insert(key, time); }
                    2 => { queue.cancel(key); model.remove(&key); }
                    _ => {
                        let least = model.values().min().copied().filter(|t| *t <= time);
                        let got = queue.expired(time);
                        prop_assert_eq!(got.map(|key| model[&key]), least);
                        if let Some(key) = got { model.remove(&key); }
                    }
                }
                prop_assert_eq!(queue.next(), model.values().min().copied());
            }
        }
    }
}

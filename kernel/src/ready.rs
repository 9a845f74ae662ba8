//! The run queue: first come, first served within each priority. Pure logic.

use alloc::vec::Vec;

/// Priorities are below this; higher runs first. Hermit's has as many, and so has the mask.
pub const PRIORITIES: usize = 32;

const NONE: u32 = u32::MAX;

/// Queues of small integer keys (thread slots), linked through one table, so that no operation but
/// [`reserve`](Self::reserve) allocates.
#[derive(Debug)]
pub struct ReadyQueue {
    head: [u32; PRIORITIES],
    tail: [u32; PRIORITIES],
    /// Bit p is set exactly if queue p is not empty.
    occupied: u32,
    /// The key after this one in its queue.
    next: Vec<u32>,
}

impl Default for ReadyQueue {
    fn default() -> Self {
        Self::new()
    }
}

impl ReadyQueue {
    /// An empty queue.
    pub const fn new() -> ReadyQueue {
        ReadyQueue {
            head: [NONE; PRIORITIES],
            tail: [NONE; PRIORITIES],
            occupied: 0,
            next: Vec::new(),
        }
    }

    /// Makes room for keys below `keys`. False: no memory.
    pub fn reserve(&mut self, keys: u32) -> bool {
        let keys = keys as usize;
        if keys > self.next.len() {
            if self.next.try_reserve(keys - self.next.len()).is_err() {
                return false;
            }
            self.next.resize(keys, NONE);
        }
        true
    }

    /// Appends a key, which must not be in any queue.
    pub fn push(&mut self, key: u32, priority: u8) {
        let p = usize::from(priority).min(PRIORITIES - 1);
        self.next[key as usize] = NONE;
        if self.occupied & 1 << p == 0 {
            self.head[p] = key;
            self.occupied |= 1 << p;
        } else {
            self.next[self.tail[p] as usize] = key;
        }
        self.tail[p] = key;
    }

    /// Takes the first key of the highest priority.
    pub fn pop(&mut self) -> Option<u32> {
        let p = self.highest()? as usize;
        let key = self.head[p];
        self.head[p] = self.next[key as usize];
        if self.head[p] == NONE {
            self.occupied &= !(1 << p);
        }
        Some(key)
    }

    /// The highest priority with anyone in it.
    #[inline]
    pub fn highest(&self) -> Option<u8> {
        if self.occupied == 0 { None } else { Some(31 - self.occupied.leading_zeros() as u8) }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;

    use proptest::prelude::*;

    use super::*;

    #[test]
    fn higher_priority_first_then_order_of_arrival() {
        let mut queue = ReadyQueue::new();
        assert!(queue.reserve(5));
        for (key, priority) in [(0, 2), (1, 3), (2, 2), (3, 31), (4, 3)] {
            queue.push(key, priority);
        }
        assert_eq!(queue.highest(), Some(31));
        let order: Vec<u32> = core::iter::from_fn(|| queue.pop()).collect();
        assert_eq!(order, [3, 1, 4, 0, 2]);
        assert_eq!(queue.highest(), None);
    }

    proptest! {
        #[test]
        fn behaves_like_a_row_of_deques(ops in prop::collection::vec((any::<bool>(), 0u32..8, 0u8..32), 0..100)) {
            let mut queue = ReadyQueue::new();
            prop_assert!(queue.reserve(8));
            let mut model: Vec<VecDeque<u32>> = vec![VecDeque::new(); PRIORITIES];
            for (push, key, priority) in ops {
                if push && !model.iter().any(|q| q.contains(&key)) {
                    queue.push(key, priority);
                    model[usize::from(priority)].push_back(key);
                } else {
                    let want = model.iter_mut().rev().find_map(VecDeque::pop_front);
                    prop_assert_eq!(queue.pop(), want);
                }
            }
        }
    }
}

//! Who waits on which futex. Pure logic.

use alloc::vec::Vec;

const BUCKETS: usize = 64;
const NONE: u32 = u32::MAX;

/// A hash table from addresses to waiting keys (thread slots), first come, first served. A key waits
/// on one address at a time, so the links are in one table and only [`reserve`](Self::reserve)
/// allocates.
#[derive(Debug)]
pub struct FutexTable {
    head: [u32; BUCKETS],
    waiters: Vec<Waiter>,
}

#[derive(Clone, Copy, Debug)]
struct Waiter {
    /// 0: not waiting. (No futex lies at 0: the ABI refuses null.)
    address: usize,
    next: u32,
}

impl Default for FutexTable {
    fn default() -> Self {
        Self::new()
    }
}

fn bucket(address: usize) -> usize {
    // Futexes are 4-byte words, often at equal offsets in equal objects: spread the upper bits.
    (address >> 2).wrapping_mul(0x9e37_79b9) >> 16 & (BUCKETS - 1)
}

impl FutexTable {
    /// An empty table.
    pub const fn new() -> FutexTable {
        FutexTable { head: [NONE; BUCKETS], waiters: Vec::new() }
    }

    /// Makes room for keys below `keys`. False: no memory.
    pub fn reserve(&mut self, keys: u32) -> bool {
        let keys = keys as usize;
        if keys > self.waiters.len() {
            if self.waiters.try_reserve(keys - self.waiters.len()).is_err() {
                return false;
            }
            self.waiters.resize(keys, Waiter { address: 0, next: NONE });
        }
        true
    }

    /// Enters a key, which must not be waiting already.
    pub fn wait(&mut self, key: u32, address: usize) {
        self.waiters[key as usize] = Waiter { address, next: NONE };
        let mut link = &mut self.head[bucket(address)];
        // The list is split by the borrow checker's rules: find the last key by index first.
        if *link == NONE {
            *link = key;
            return;
        }
        let mut last = *link;
        while self.waiters[last as usize].next != NONE {
            last = self.waiters[last as usize].next;
        }
        link = &mut self.waiters[last as usize].next;
        *link = key;
    }

    /// Takes out the key that has waited longest on `address`.
    pub fn wake(&mut self, address: usize) -> Option<u32> {
        self.take(bucket(address), |_, waiter| waiter.address == address)
    }

    /// Takes a key out; false if it was not waiting.
    pub fn remove(&mut self, key: u32) -> bool {
        let address = self.waiters[key as usize].address;
        address != 0 && self.take(bucket(address), |candidate, _| candidate == key).is_some()
    }

    fn take(&mut self, bucket: usize, wanted: impl Fn(u32, &Waiter) -> bool) -> Option<u32> {
        let mut before = NONE;
        let mut at = self.head[bucket];
        while at != NONE {
            let waiter = self.waiters[at as usize];
            if wanted(at, &waiter) {
                if before == NONE {
                    self.head[bucket] = waiter.next;
                } else {
                    self.waiters[before as usize].next = waiter.next;
                }
                self.waiters[at as usize].address = 0;
                return Some(at);
            }
            before = at;
            at = waiter.next;
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn longest_waiter_is_woken_first_and_others_are_left() {
        let mut table = FutexTable::new();
        assert!(table.reserve(4));
        table.wait(2, 0x1000);
        table.wait(0, 0x2000);
        table.wait(1, 0x1000);
        assert_eq!(table.wake(0x1000), Some(2));
        assert_eq!(table.wake(0x1000), Some(1));
        assert_eq!(table.wake(0x1000), None);
        assert!(table.remove(0));
        assert!(!table.remove(0));
        assert_eq!(table.wake(0x2000), None);
    }

    proptest! {
        #[test]
        fn behaves_like_a_list(ops in prop::collection::vec((0u8..3, 0u32..12, 1usize..400), 0..200)) {
            let mut table = FutexTable::new();
            prop_assert!(table.reserve(12));
            let mut model: Vec<(u32, usize)> = Vec::new();
            for (op, key, word) in ops {
                let address = word * 4;
                match op {
                    0 if !model.iter().any(|(k, _)| *k == key) => {
                        table.wait(key, address);
                        model.push((key, address));
                    }
                    1 => {
                        let was = model.iter().position(|(k, _)| *k == key);
                        prop_assert_eq!(table.remove(key), was.is_some());
                        if let Some(at) = was { model.remove(at); }
                    }
                    _ => {
                        let was = model.iter().position(|(_, a)| *a == address);
                        prop_assert_eq!(table.wake(address), was.map(|at| model.remove(at).0));
                    }
                }
            }
        }
    }
}

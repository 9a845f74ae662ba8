//! A table that gives out the lowest free index, as file descriptors are. Pure logic.

use alloc::vec::Vec;

/// Values by small index.
#[derive(Debug)]
pub struct Slots<T> {
    entries: Vec<Option<T>>,
    /// Invariant: no index below this is free.
    hint: usize,
    limit: usize,
}

/// Why nothing was inserted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Full {
    /// The table's limit is reached.
    Limit,
    /// There is no memory to grow it.
    NoMemory,
}

impl<T> Slots<T> {
    /// An empty table of at most `limit` entries.
    pub const fn new(limit: usize) -> Slots<T> {
        Slots { entries: Vec::new(), hint: 0, limit }
    }

    /// Puts a value at the lowest free index that is at least `from`.
    pub fn insert(&mut self, from: usize, value: T) -> Result<usize, Full> {
        let start = self.hint.max(from);
        let at = (start..self.entries.len())
            .find(|at| self.entries[*at].is_none())
            .unwrap_or(start.max(self.entries.len()));
        if at >= self.limit {
            return Err(Full::Limit);
        }
        if at >= self.entries.len() {
            let more = at + 1 - self.entries.len();
            self.entries.try_reserve(more).map_err(|_| Full::NoMemory)?;
            self.entries.resize_with(at + 1, || None);
        }
        self.entries[at] = Some(value);
        if start == self.hint {
            self.hint = at + 1;
        }
        Ok(at)
    }

    /// The value at an index.
    #[inline]
    pub fn get(&self, at: usize) -> Option<&T> {
        self.entries.get(at)?.as_ref()
    }

    /// Takes a value out.
    pub fn remove(&mut self, at: usize) -> Option<T> {
        let value = self.entries.get_mut(at)?.take()?;
        self.hint = self.hint.min(at);
        Some(value)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    #[test]
    fn the_lowest_free_index_is_used() {
        let mut slots = Slots::new(5);
        for want in 0..3 {
            assert_eq!(slots.insert(0, want), Ok(want));
        }
        assert_eq!(slots.remove(1), Some(1));
        assert_eq!(slots.remove(1), None);
        assert_eq!(slots.insert(0, 7), Ok(1));
        assert_eq!(slots.insert(4, 8), Ok(4));
        assert_eq!(slots.insert(0, 9), Ok(3));
        assert_eq!(slots.insert(0, 10), Err(Full::Limit));
        assert_eq!(slots.get(4), Some(&8));
        assert_eq!(slots.get(5), None);
    }

    proptest! {
        #[test]
        fn behaves_like_a_map(ops in prop::collection::vec((any::<bool>(), 0usize..20), 0..200)) {
            let mut slots = Slots::new(16);
            let mut model: BTreeMap<usize, usize> = BTreeMap::new();
            for (count, (insert, at)) in ops.into_iter().enumerate() {
                if insert {
                    let want = (at..16).find(|at| !model.contains_key(at));
                    let got = slots.insert(at, count);
                    prop_assert_eq!(got.ok(), want);
                    if let Some(at) = want { model.insert(at, count); }
                } else {
                    prop_assert_eq!(slots.remove(at), model.remove(&at));
                }
            }
        }
    }
}

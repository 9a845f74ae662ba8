use alloc::vec::Vec;

/// Names an entry of a [`Slab`]: an index, and a generation so that a name outlives its entry
/// without ever naming the next one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SocketId {
    pub(crate) index: u32,
    pub(crate) generation: u32,
}

impl SocketId {
    /// The place in the socket table, reused after a close: for display.
    pub fn index(self) -> u32 {
        self.index
    }
}

struct Entry<T> {
    generation: u32,
    value: Option<T>,
}

/// A table with stable indices. Places are reused last out, first in, so that warm memory is used
/// again.
pub(crate) struct Slab<T> {
    entries: Vec<Entry<T>>,
    free: Vec<u32>,
    len: usize,
}

impl<T> Slab<T> {
    pub(crate) fn new() -> Slab<T> {
        Slab { entries: Vec::new(), free: Vec::new(), len: 0 }
    }

    pub(crate) fn len(&self) -> usize {
        self.len
    }

    pub(crate) fn insert(&mut self, value: T) -> SocketId {
        self.len += 1;
        if let Some(index) = self.free.pop() {
            let entry = &mut self.entries[index as usize];
            entry.value = Some(value);
            return SocketId { index, generation: entry.generation };
        }
        let index = self.entries.len() as u32;
        self.entries.push(Entry { generation: 0, value: Some(value) });
        // Removing must not allocate.
        self.free.reserve(self.entries.len() - self.free.len());
        SocketId { index, generation: 0 }
    }

    pub(crate) fn remove(&mut self, index: u32) -> Option<T> {
        let entry = self.entries.get_mut(index as usize)?;
        let value = entry.value.take()?;
        entry.generation = entry.generation.wrapping_add(1);
        self.len -= 1;
        self.free.push(index);
        Some(value)
    }

    /// Lets the entry live on under a new name: the old one names nothing any more.
    pub(crate) fn rename(&mut self, index: u32) {
        if let Some(entry) = self.entries.get_mut(index as usize) {
            entry.generation = entry.generation.wrapping_add(1);
        }
    }

    pub(crate) fn id(&self, index: u32) -> SocketId {
        SocketId { index, generation: self.entries[index as usize].generation }
    }

    /// The entry with this name, if it still exists.
    pub(crate) fn get(&self, id: SocketId) -> Option<&T> {
        let entry = self.entries.get(id.index as usize)?;
        if entry.generation == id.generation { entry.value.as_ref() } else { None }
    }

    pub(crate) fn get_mut(&mut self, id: SocketId) -> Option<&mut T> {
        let entry = self.entries.get_mut(id.index as usize)?;
        if entry.generation == id.generation { entry.value.as_mut() } else { None }
    }

    pub(crate) fn at(&self, index: u32) -> Option<&T> {
        self.entries.get(index as usize)?.value.as_ref()
    }

    pub(crate) fn at_mut(&mut self, index: u32) -> Option<&mut T> {
        self.entries.get_mut(index as usize)?.value.as_mut()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (SocketId, &T)> {
        self.entries.iter().enumerate().filter_map(|(index, entry)| {
            let id = SocketId { index: index as u32, generation: entry.generation };
            entry.value.as_ref().map(|value| (id, value))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_does_not_survive_its_entry() {
        let mut slab = Slab::new();
        let first = slab.insert('a');
        assert_eq!(slab.remove(first.index), Some('a'));
        assert_eq!(slab.remove(first.index), None);
        let second = slab.insert('b');
        assert_eq!(first.index, second.index);
        assert_eq!(slab.get(first), None);
        assert_eq!(slab.get(second), Some(&'b'));
        assert_eq!((slab.len(), slab.iter().count()), (1, 1));
    }
}

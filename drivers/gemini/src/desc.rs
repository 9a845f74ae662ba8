//! Descriptors: four words, no ownership bit; the pointers own. [GM 5]

use trireme_nic::Coherent;

/// Bytes of a descriptor.
pub(crate) const SIZE: usize = 16;

/// Word 0: what the card writes back is above the buffer's size.
pub(crate) const WRITTEN_BACK: u32 = 0xffff << 16;
/// Word 0 of a transmit descriptor: sent.
pub(crate) const TX_OK: u32 = 1 << 22;
/// Word 3: an interrupt is wanted when the frame is sent.
pub(crate) const EOFIE: u32 = 1 << 29;
/// Word 3: last of its frame.
pub(crate) const EOF: u32 = 1 << 30;
/// Word 3: first of its frame.
pub(crate) const SOF: u32 = 1 << 31;

/// A ring of descriptors: memory, and indices that wrap.
pub(crate) struct Ring {
    memory: Coherent,
    order: u32,
}

impl Ring {
    /// The first `1 << order` descriptors of this memory.
    pub(crate) fn new(memory: Coherent, order: u32) -> Ring {
        assert!(memory.len() >= SIZE << order);
        Ring { memory, order }
    }

    /// Base and order as registers want them.
    pub(crate) fn base_and_order(&self) -> u32 {
        self.memory.bus_address() as u32 | self.order
    }

    /// An index, or a number of descriptors between two.
    pub(crate) fn wrap(&self, index: u16) -> u16 {
        index & ((1u32 << self.order) - 1) as u16
    }

    pub(crate) fn read(&self, index: u16, word: usize) -> u32 {
        self.memory.read32(usize::from(self.wrap(index)) * SIZE + 4 * word)
    }

    pub(crate) fn write(&mut self, index: u16, word: usize, value: u32) {
        let at = usize::from(self.wrap(index)) * SIZE + 4 * word;
        self.memory.write32(at, value);
    }

    /// What was written is seen by the card before what is written next.
    pub(crate) fn settle(&self) {
        self.memory.barrier();
    }
}

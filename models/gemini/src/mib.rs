//! The six counters of a port (docs/hardware/gemini.md 10). A read clears; width and behaviour at the end
//! are not known: 32 bits that stay full.

/// In register order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mib {
    Discards,
    Errors,
    Multicast,
    Broadcast,
    Station1,
    Station2,
}

#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Counts([u32; 6]);

impl Counts {
    /// Counts one. True if the counter is now half full.
    pub(crate) fn count(&mut self, which: Mib, narrow: bool) -> bool {
        let full = if narrow { u32::from(u16::MAX) } else { u32::MAX };
        let counter = &mut self.0[which as usize];
        *counter = counter.saturating_add(1).min(full);
        *counter == full / 2 + 1
    }

    /// Takes the counter at `index`.
    pub(crate) fn take(&mut self, index: usize) -> u32 {
        self.0.get_mut(index).map_or(0, std::mem::take)
    }
}

//! The counters software can read: two tallies everywhere, twelve MIB counters on the VT6105M.

use crate::regs::{MIBEN, MIBRTN};

/// What the model saw, for tests and for people. Not part of the chip.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Frames sent to the wire.
    pub tx_frames: u64,
    /// Their bytes, without FCS.
    pub tx_bytes: u64,
    /// Frames below 60 bytes that software did not pad: a peer would drop them, so does the model.
    pub tx_runts: u64,
    /// Frames in which the chip filled in a checksum.
    pub tx_checksums: u64,
    /// Transmit errors of any kind.
    pub tx_errors: u64,
    /// Frames written to receive buffers.
    pub rx_frames: u64,
    /// Frames the address or VLAN filter refused.
    pub rx_filtered: u64,
    /// Frames lost for want of a descriptor.
    pub rx_missed: u64,
    /// Frames dropped with an error.
    pub rx_errors: u64,
    /// DMA that reached no memory.
    pub dma_errors: u64,
    /// Accesses to registers that do not exist.
    pub unknown_accesses: u64,
    /// Line time of everything sent, in nanoseconds, by the timing model.
    pub line_ns: u64,
}

/// A MIB counter, in the order the port gives them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mib {
    RxNoBuffer,
    RxErrors,
    RxFcs,
    RxMissed,
    RxAlignment,
    RxTooLong,
    RxPause = 8,
    TxPause = 9,
}

/// Tallies and MIB.
#[derive(Clone, Debug, Default)]
pub(crate) struct Statistics {
    missed: u16,
    crc: u16,
    mib: [u16; 12],
    mib_enabled: bool,
    port: usize,
}

impl Statistics {
    pub(crate) fn reset(&mut self) {
        *self = Statistics::default();
    }

    /// Counts a missed packet. True if the tally reached its half, which interrupts. (INF)
    pub(crate) fn missed(&mut self) -> bool {
        self.missed = self.missed.saturating_add(1);
        self.count(Mib::RxMissed);
        self.missed == 0x8000
    }

    /// Counts an FCS error; the same.
    pub(crate) fn crc(&mut self) -> bool {
        self.crc = self.crc.saturating_add(1);
        self.count(Mib::RxFcs);
        self.crc == 0x8000
    }

    pub(crate) fn count(&mut self, which: Mib) {
        if self.mib_enabled {
            let counter = &mut self.mib[which as usize];
            *counter = counter.saturating_add(1);
        }
    }

    /// A byte of the two tallies.
    pub(crate) fn read_tally(&mut self, byte: usize, read_clears: bool) -> u8 {
        let which = if byte < 2 { &mut self.missed } else { &mut self.crc };
        let value = which.to_le_bytes()[byte % 2];
        if read_clears && byte % 2 == 1 {
            *which = 0;
        }
        value
    }

    /// A write: clears, or on some chips sets to one and leaves clearing to a read.
    pub(crate) fn write_tally(&mut self, byte: usize, read_clears: bool) {
        let which = if byte < 2 { &mut self.missed } else { &mut self.crc };
        *which = u16::from(read_clears);
    }

    pub(crate) fn mib_control(&self) -> u8 {
        if self.mib_enabled { MIBEN } else { 0 }
    }

    pub(crate) fn write_mib_control(&mut self, value: u8) {
        self.mib_enabled = value & MIBEN != 0;
        if value & MIBRTN != 0 {
            self.port = 0;
        }
    }

    /// A byte of the port; the high one moves on to the next counter.
    pub(crate) fn read_port(&mut self, byte: usize) -> u8 {
        let value = self.mib[self.port].to_le_bytes()[byte];
        if byte == 1 {
            self.port = (self.port + 1) % self.mib.len();
        }
        value
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tallies_end_at_zero_after_the_linux_sequence_either_way() {
        for read_clears in [false, true] {
            let mut statistics = Statistics::default();
            for _ in 0..300 {
                statistics.missed();
            }
            let read = |s: &mut Statistics| {
                let low = s.read_tally(0, read_clears);
                u16::from_le_bytes([low, s.read_tally(1, read_clears)])
            };
            assert_eq!(read(&mut statistics), 300);
            (0..4).for_each(|byte| statistics.write_tally(byte, read_clears));
            read(&mut statistics);
            assert_eq!(read(&mut statistics), 0);
        }
    }

    #[test]
    fn the_mib_port_walks_twelve_counters_and_rewinds() {
        let mut statistics = Statistics::default();
        statistics.crc();
        statistics.write_mib_control(MIBEN | MIBRTN);
        statistics.crc();
        statistics.crc();
        statistics.count(Mib::TxPause);
        let mut walk = || {
            (0..12)
                .map(|_| {
                    let low = statistics.read_port(0);
                    u16::from_le_bytes([low, statistics.read_port(1)])
                })
                .collect::<Vec<_>>()
        };
        assert_eq!(walk(), [0, 0, 2, 0, 0, 0, 0, 0, 0, 1, 0, 0]);
        assert_eq!(walk()[2], 2);
    }
}

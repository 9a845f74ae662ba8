//! PCI configuration space, type 0 header. Layout and access rules from PCI Local Bus 3.0, chapter
//! 6; power management from PCI Bus Power Management 1.2.

/// A base address register.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bar {
    /// I/O ports.
    Io {
        /// Bytes, a power of two from 4 to 256.
        size: u32,
    },
    /// 32-bit, not prefetchable memory.
    Memory {
        /// Bytes, a power of two of at least 16.
        size: u32,
    },
}

impl Bar {
    /// Bytes.
    pub fn size(self) -> u32 {
        match self {
            Bar::Io { size } | Bar::Memory { size } => size,
        }
    }

    /// Type bits, which read back whatever is written.
    fn flags(self) -> u32 {
        match self {
            Bar::Io { .. } => 1,
            Bar::Memory { .. } => 0,
        }
    }
}

/// D-state of PMCSR.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum PowerState {
    D0,
    D1,
    D2,
    D3Hot,
}

impl PowerState {
    fn from_bits(bits: u8) -> PowerState {
        match bits & 3 {
            0 => PowerState::D0,
            1 => PowerState::D1,
            2 => PowerState::D2,
            _ => PowerState::D3Hot,
        }
    }
}

const COMMAND: usize = 0x04;
const STATUS: usize = 0x06;
const BARS: usize = 0x10;
const CAPABILITIES: usize = 0x34;
const INTERRUPT_LINE: usize = 0x3c;
const INTERRUPT_PIN: usize = 0x3d;

/// I/O, memory, master, invalidate, parity, SERR#, INTx disable.
const COMMAND_WRITABLE: u16 = 0x0557;
/// Error bits a one clears.
const STATUS_CLEARS: u16 = 0xf900;

/// The 256 bytes and what a write may do to each bit.
#[derive(Clone, Debug)]
pub struct ConfigSpace {
    bytes: [u8; 256],
    writable: [u8; 256],
    bars: [Option<Bar>; 6],
    /// Offset of the power-management capability.
    power: Option<usize>,
}

/// What a write changed that someone else must know.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Changed {
    pub(crate) power: Option<PowerState>,
}

impl ConfigSpace {
    /// A function with INTA and these identities, everything else zero.
    ///
    /// `class` is base class, subclass and programming interface, e.g. `0x020000` for Ethernet.
    pub fn new(vendor: u16, device: u16, class: u32, revision: u8) -> ConfigSpace {
        let mut space =
            ConfigSpace { bytes: [0; 256], writable: [0; 256], bars: [None; 6], power: None };
        space.set(0x00, &vendor.to_le_bytes());
        space.set(0x02, &device.to_le_bytes());
        // DEVSEL# timing medium.
        space.set(STATUS, &0x0200u16.to_le_bytes());
        space.bytes[0x08] = revision;
        space.set(0x09, &class.to_le_bytes()[..3]);
        space.bytes[INTERRUPT_PIN] = 1;
        space.allow(COMMAND, &COMMAND_WRITABLE.to_le_bytes());
        space.allow(0x0c, &[0xff, 0xff]); // cache line size, latency timer
        space.allow(INTERRUPT_LINE, &[0xff]);
        space
    }

    /// Adds a BAR.
    ///
    /// # Panics
    /// If its size is not one PCI can express, or the index is not below 6.
    pub fn with_bar(mut self, index: usize, bar: Bar) -> ConfigSpace {
        let least = match bar {
            Bar::Io { .. } => 4,
            Bar::Memory { .. } => 16,
        };
        assert!(bar.size().is_power_of_two() && bar.size() >= least);
        self.bars[index] = Some(bar);
        self.set(BARS + 4 * index, &bar.flags().to_le_bytes());
        self.allow(BARS + 4 * index, &(!(bar.size() - 1)).to_le_bytes());
        self
    }

    /// Sets the subsystem ids.
    pub fn with_subsystem(mut self, vendor: u16, device: u16) -> ConfigSpace {
        self.set(0x2c, &vendor.to_le_bytes());
        self.set(0x2e, &device.to_le_bytes());
        self
    }

    /// Sets Min_Gnt and Max_Lat, in quarters of a microsecond.
    pub fn with_latency(mut self, min_grant: u8, max_latency: u8) -> ConfigSpace {
        self.set(0x3e, &[min_grant, max_latency]);
        self
    }

    /// Adds a power-management capability at `offset`, the only capability.
    pub fn with_power_management(mut self, offset: u8, capabilities: u16) -> ConfigSpace {
        let at = usize::from(offset);
        self.set(at, &[0x01, 0x00]);
        self.set(at + 2, &capabilities.to_le_bytes());
        // Power state, PME enable; PME status is handled apart.
        self.allow(at + 4, &[0x03, 0x01]);
        self.bytes[CAPABILITIES] = offset;
        self.bytes[STATUS] |= 0x10;
        self.power = Some(at);
        self
    }

    /// Makes bytes of the device's own part plain storage.
    pub fn with_storage(mut self, range: std::ops::Range<usize>) -> ConfigSpace {
        self.writable[range].fill(0xff);
        self
    }

    fn set(&mut self, offset: usize, value: &[u8]) {
        self.bytes[offset..offset + value.len()].copy_from_slice(value);
    }

    fn allow(&mut self, offset: usize, mask: &[u8]) {
        self.writable[offset..offset + mask.len()].copy_from_slice(mask);
    }

    /// The BARs.
    pub fn bars(&self) -> &[Option<Bar>; 6] {
        &self.bars
    }

    fn command(&self) -> u16 {
        u16::from_le_bytes([self.bytes[COMMAND], self.bytes[COMMAND + 1]])
    }

    /// Accesses to this BAR are decoded.
    pub fn decodes(&self, bar: Bar) -> bool {
        let bit = match bar {
            Bar::Io { .. } => 1,
            Bar::Memory { .. } => 2,
        };
        self.command() & bit != 0 && self.power_state() == PowerState::D0
    }

    /// The function may read and write memory.
    pub fn is_bus_master(&self) -> bool {
        self.command() & 4 != 0 && self.power_state() == PowerState::D0
    }

    /// The function may assert its pin.
    pub fn may_interrupt(&self) -> bool {
        self.command() & 0x400 == 0
    }

    /// State in PMCSR.
    pub fn power_state(&self) -> PowerState {
        self.power.map_or(PowerState::D0, |at| PowerState::from_bits(self.bytes[at + 4]))
    }

    /// Records a master abort, as a function does whose DMA nobody answered.
    pub fn received_master_abort(&mut self) {
        self.bytes[STATUS + 1] |= 0x20;
    }

    /// Reads bytes; those beyond the end are zero. `pending` is the level inside the function.
    pub fn read(&self, offset: u64, data: &mut [u8], pending: bool) {
        for (i, byte) in data.iter_mut().enumerate() {
            let at = offset.saturating_add(i as u64);
            *byte = usize::try_from(at).ok().and_then(|at| self.bytes.get(at)).map_or(0, |&b| b);
            if at == STATUS as u64 && pending {
                *byte |= 0x08;
            }
        }
    }

    /// Writes bytes; those beyond the end and read-only bits are ignored.
    pub(crate) fn write(&mut self, offset: u64, data: &[u8]) -> Changed {
        let before = self.power_state();
        for (i, &value) in data.iter().enumerate() {
            let Ok(at) = usize::try_from(offset.saturating_add(i as u64)) else { break };
            let (Some(byte), Some(&mask)) = (self.bytes.get_mut(at), self.writable.get(at)) else {
                break;
            };
            *byte = *byte & !mask | value & mask;
            let clears = match at {
                STATUS => STATUS_CLEARS as u8,
                _ if at == STATUS + 1 => (STATUS_CLEARS >> 8) as u8,
                _ if Some(at) == self.power.map(|p| p + 5) => 0x80, // PME status
                _ => 0,
            };
            *byte &= !(value & clears);
        }
        let after = self.power_state();
        Changed { power: (before != after).then_some(after) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn card() -> ConfigSpace {
        ConfigSpace::new(0x1106, 0x3053, 0x02_0000, 0x96)
            .with_bar(0, Bar::Io { size: 256 })
            .with_bar(1, Bar::Memory { size: 256 })
            .with_latency(3, 8)
            .with_power_management(0x40, 0xfe02)
            .with_storage(0x50..0x58)
    }

    fn word(space: &ConfigSpace, offset: u64) -> u32 {
        let mut data = [0; 4];
        space.read(offset, &mut data, false);
        u32::from_le_bytes(data)
    }

    #[test]
    fn header_is_laid_out_as_in_the_specification() {
        let space = card();
        assert_eq!(word(&space, 0x00), 0x3053_1106);
        assert_eq!(word(&space, 0x04), 0x0210_0000);
        assert_eq!(word(&space, 0x08), 0x0200_0096);
        assert_eq!(word(&space, 0x10), 0x0000_0001);
        assert_eq!(word(&space, 0x34), 0x0000_0040);
        assert_eq!(word(&space, 0x3c), 0x0803_0100);
        assert_eq!(word(&space, 0x40), 0xfe02_0001);
    }

    #[test]
    fn bars_are_sized_by_writing_ones() {
        let mut space = card();
        space.write(0x10, &[0xff; 4]);
        space.write(0x14, &[0xff; 4]);
        space.write(0x18, &[0xff; 4]);
        assert_eq!(word(&space, 0x10), 0xffff_ff01);
        assert_eq!(word(&space, 0x14), 0xffff_ff00);
        assert_eq!(word(&space, 0x18), 0);
        space.write(0x14, &0xe004_0000u32.to_le_bytes());
        assert_eq!(word(&space, 0x14), 0xe004_0000);
    }

    #[test]
    fn command_bits_gate_and_read_only_ones_stay() {
        let mut space = card();
        assert!(!space.is_bus_master() && !space.decodes(Bar::Io { size: 256 }));
        space.write(0x04, &0xffffu16.to_le_bytes());
        assert_eq!(word(&space, 0x04) as u16, 0x0557);
        assert!(space.is_bus_master() && space.decodes(Bar::Memory { size: 256 }));
        assert!(!space.may_interrupt());
    }

    #[test]
    fn status_errors_clear_by_one_and_pending_shows() {
        let mut space = card();
        space.received_master_abort();
        assert_eq!(word(&space, 0x04) >> 16, 0x2210);
        space.write(0x06, &0x2000u16.to_le_bytes());
        assert_eq!(word(&space, 0x04) >> 16, 0x0210);
        let mut status = [0];
        space.read(0x06, &mut status, true);
        assert_eq!(status, [0x18]);
    }

    #[test]
    fn low_power_stops_decoding_and_mastering() {
        let mut space = card();
        space.write(0x04, &[7, 0]);
        assert_eq!(space.write(0x44, &[3]), Changed { power: Some(PowerState::D3Hot) });
        assert!(!space.is_bus_master() && !space.decodes(Bar::Io { size: 256 }));
        assert_eq!(space.write(0x44, &[0]), Changed { power: Some(PowerState::D0) });
        assert!(space.is_bus_master());
    }

    proptest! {
        #[test]
        fn any_write_leaves_identity_and_type_bits(
            writes in proptest::collection::vec((any::<u64>(), proptest::collection::vec(any::<u8>(), 0..9)), 0..50),
            low in proptest::collection::vec((0u64..300, proptest::collection::vec(any::<u8>(), 0..9)), 0..50),
        ) {
            let mut space = card();
            for (offset, data) in writes.into_iter().chain(low) {
                space.write(offset, &data);
            }
            prop_assert_eq!(word(&space, 0x00), 0x3053_1106);
            prop_assert_eq!(word(&space, 0x08), 0x0200_0096);
            prop_assert_eq!(word(&space, 0x10) & 0xff, 1);
            prop_assert_eq!(word(&space, 0x14) & 0xff, 0);
            prop_assert_eq!(word(&space, 0x40), 0xfe02_0001);
        }
    }
}

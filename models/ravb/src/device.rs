//! The block behind its carrier.

use crate::{CARRIER_VENDOR, Counters, Faults, Variant};
use std::time::Duration;
use trireme_vfio::{Bar, ConfigSpace, Context, Device};

/// Bytes of the register block: the TOE ends at 0x80c, a page is what a BAR needs to be mapped.
const BLOCK: u32 = 0x1000;

/// One block.
pub struct Ravb {
    variant: Variant,
    faults: Faults,
    counters: Counters,
}

impl Ravb {
    /// The block after power-up, with `mac` in MAHR and MALR as a boot loader leaves it.
    pub fn new(variant: Variant, _mac: [u8; 6], faults: Faults, _seed: u64) -> Ravb {
        Ravb { variant, faults, counters: Counters::default() }
    }

    /// The variant this is.
    pub fn variant(&self) -> Variant {
        self.variant
    }

    /// What the model saw.
    pub fn counters(&self) -> Counters {
        self.counters
    }

    /// The fault switches, to turn them at run time.
    pub fn faults_mut(&mut self) -> &mut Faults {
        &mut self.faults
    }
}

impl Device for Ravb {
    fn config_space(&self) -> ConfigSpace {
        ConfigSpace::new(CARRIER_VENDOR, self.variant.carrier_device(), 0x02_0000, 0)
            .with_bar(0, Bar::Memory { size: BLOCK })
    }

    fn read(&mut self, _bar: usize, _offset: u64, data: &mut [u8], _context: Context<'_>) {
        self.counters.unknown_accesses += 1;
        data.fill(0);
    }

    fn write(&mut self, _bar: usize, _offset: u64, _data: &[u8], _context: Context<'_>) {
        self.counters.unknown_accesses += 1;
    }

    fn receive(&mut self, _frame: &[u8], _context: Context<'_>) {}

    fn advance(&mut self, _context: Context<'_>) -> Option<Duration> {
        None
    }

    fn take_frame(&mut self) -> Option<Vec<u8>> {
        None
    }

    fn interrupt(&self) -> bool {
        false
    }

    fn reset(&mut self) {}
}

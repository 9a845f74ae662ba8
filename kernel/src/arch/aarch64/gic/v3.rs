//! Redistributors and routing, which version 3 adds. [V3]

use core::ops::Range;
use core::sync::atomic::Ordering;

use super::super::mmio::{read32, write32};
use super::{GicError, OURS, TARGET, distributor, system};

/// Redistributor registers, in its first 64 KiB. [V3 12.11]
const TYPER: usize = 0x008;
const WAKER: usize = 0x014;
/// The second 64 KiB: private interrupts, registers as in the distributor.
const SGI_FRAME: usize = 0x10000;

/// GICD_CTLR in the non-secure view: both group 1 enables, affinity routing. Where there is one security
/// state only, the low bit is group 0's, which nothing uses. [V3 12.9.4]
const CTLR_ENABLE: u32 = 1 << 0 | 1 << 1 | 1 << 4;
/// A write to the distributor has not taken effect everywhere.
const CTLR_PENDING: u32 = 1 << 31;

/// Polls of a bit that goes away within microseconds.
const PATIENCE: usize = 1_000_000;

pub(super) fn init(base: usize, regions: &[Range<u64>]) -> Result<(), GicError> {
    let mpidr = system::affinity();
    // Aff3.Aff2.Aff1.Aff0 as GICR_TYPER has them, and as GICD_IROUTER wants them.
    let affinity = (mpidr >> 8 & 0xff00_0000 | mpidr & 0xff_ffff) as u32;
    TARGET.store(mpidr & 0xff_00ff_ffff, Ordering::Relaxed);
    let ours = find(regions, affinity).ok_or(GicError::NoRedistributor)?;

    // ProcessorSleep off; wait for ChildrenAsleep to follow.
    write32(ours, WAKER, read32(ours, WAKER) & !(1 << 1));
    if !(0..PATIENCE).any(|_| read32(ours, WAKER) & 1 << 2 == 0) {
        return Err(GicError::Asleep);
    }
    let private = ours + SGI_FRAME;
    OURS.store(private, Ordering::Relaxed);
    write32(private, distributor::ICENABLER, !0);
    write32(base, distributor::CTLR, CTLR_ENABLE);
    (0..PATIENCE).any(|_| read32(base, distributor::CTLR) & CTLR_PENDING == 0);

    if system::enable() { Ok(()) } else { Err(GicError::NoSystemRegisters) }
}

/// The redistributor of the CPU with this affinity.
fn find(regions: &[Range<u64>], affinity: u32) -> Option<usize> {
    for region in regions {
        let mut at = region.start as usize;
        while at + 2 * SGI_FRAME <= region.end as usize {
            let low = read32(at, TYPER);
            if read32(at, TYPER + 4) == affinity {
                return Some(at);
            }
            if low & 1 << 4 != 0 {
                break; // the last of the region
            }
            // With virtual LPIs there are four frames. [V3 12.10]
            at += if low & 1 << 1 != 0 { 4 } else { 2 } * SGI_FRAME;
        }
    }
    None
}

/// Routes a shared line; the register has 64 bits. [V3 12.9.22]
pub(super) fn write_router(address: usize, affinity: u64) {
    write32(address, 0, affinity as u32);
    write32(address, 4, (affinity >> 32) as u32);
}

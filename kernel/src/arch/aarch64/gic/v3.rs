//! What version 3 has instead of a CPU interface in memory. [V3]

use core::arch::asm;
use core::ops::Range;
use core::sync::atomic::Ordering;

use aarch64_cpu::registers::{MPIDR_EL1, Readable};

use super::super::mmio::{read32, write32};
use super::{GicError, OURS, TARGET, distributor};

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
    let mpidr = MPIDR_EL1.get();
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

    let enabled: u64;
    // SAFETY: registers of the CPU interface; nothing interrupts yet. ICC_SRE_EL1, then ICC_PMR_EL1,
    // ICC_BPR1_EL1, ICC_IGRPEN1_EL1.
    unsafe {
        asm!("mrs {0}, S3_0_C12_C12_5", "orr {0}, {0}, #1", "msr S3_0_C12_C12_5, {0}", "isb",
            "mrs {0}, S3_0_C12_C12_5", out(reg) enabled, options(nomem, nostack));
    }
    if enabled & 1 == 0 {
        return Err(GicError::NoSystemRegisters);
    }
    // SAFETY: as above.
    unsafe {
        asm!("msr S3_0_C4_C6_0, {mask}", "msr S3_0_C12_C12_3, xzr", "msr S3_0_C12_C12_7, {one}", "isb",
            mask = in(reg) 0xffu64, one = in(reg) 1u64, options(nomem, nostack));
    }
    Ok(())
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

#[inline]
pub(super) fn acknowledge() -> u32 {
    let line: u64;
    // SAFETY: ICC_IAR1_EL1: taking the interrupt is its effect. [V3 12.2.14]: DSB before its handling.
    unsafe { asm!("mrs {}, S3_0_C12_C12_0", "dsb sy", out(reg) line, options(nostack)) };
    line as u32
}

#[inline]
pub(super) fn end(line: u32) {
    // SAFETY: ICC_EOIR1_EL1, for a line just acknowledged.
    unsafe { asm!("msr S3_0_C12_C12_1, {}", "isb", in(reg) u64::from(line), options(nostack)) };
}

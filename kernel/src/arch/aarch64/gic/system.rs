//! The CPU interface of version 3: system registers. [V3 12.2]

use core::arch::asm;

use aarch64_cpu::registers::{MPIDR_EL1, Readable};

/// This CPU's affinity fields, as MPIDR_EL1 has them.
pub(super) fn affinity() -> u64 {
    MPIDR_EL1.get()
}

/// Enables group 1 for every priority; false if the firmware keeps the registers to itself.
pub(super) fn enable() -> bool {
    let enabled: u64;
    // SAFETY: registers of the CPU interface; nothing interrupts yet. ICC_SRE_EL1, then ICC_PMR_EL1,
    // ICC_BPR1_EL1, ICC_IGRPEN1_EL1.
    unsafe {
        asm!("mrs {0}, S3_0_C12_C12_5", "orr {0}, {0}, #1", "msr S3_0_C12_C12_5, {0}", "isb",
            "mrs {0}, S3_0_C12_C12_5", out(reg) enabled, options(nomem, nostack));
    }
    if enabled & 1 == 0 {
        return false;
    }
    // SAFETY: as above.
    unsafe {
        asm!("msr S3_0_C4_C6_0, {mask}", "msr S3_0_C12_C12_3, xzr", "msr S3_0_C12_C12_7, {one}", "isb",
            mask = in(reg) 0xffu64, one = in(reg) 1u64, options(nomem, nostack));
    }
    true
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

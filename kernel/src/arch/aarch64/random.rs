//! The CPU's random number generator, FEAT_RNG. [ARM] K1.2

use core::arch::asm;
use core::sync::atomic::{AtomicBool, Ordering};

static PRESENT: AtomicBool = AtomicBool::new(false);

/// Looks whether there is one.
pub(super) fn init() {
    let features: u64;
    // SAFETY: a read of ID_AA64ISAR0_EL1; bits 63:60 are RNDR's.
    unsafe { asm!("mrs {}, id_aa64isar0_el1", out(reg) features, options(nomem, nostack)) };
    PRESENT.store(features >> 60 != 0, Ordering::Relaxed);
}

/// 64 random bits, if the CPU makes them and has some now.
pub fn hardware_random() -> Option<u64> {
    if !PRESENT.load(Ordering::Relaxed) {
        return None;
    }
    // Ten tries, as is advised for the like on other architectures.
    (0..10).find_map(|_| {
        let (value, failed): (u64, u64);
        // SAFETY: RNDR exists; it sets Z when it has nothing to give.
        unsafe {
            asm!("mrs {}, S3_3_C2_C4_0", "cset {}, eq", out(reg) value, out(reg) failed,
                options(nomem, nostack));
        }
        (failed == 0).then_some(value)
    })
}

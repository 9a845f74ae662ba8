//! RDSEED and RDRAND.

use core::arch::x86_64::{__cpuid, __cpuid_count, _rdrand64_step, _rdseed64_step};

#[target_feature(enable = "rdseed")]
fn seed(value: &mut u64) -> i32 {
    // RDSEED runs dry under load; Intel's guide says to try again a little.
    (0..10).map(|_| _rdseed64_step(value)).find(|ok| *ok == 1).unwrap_or(0)
}

#[target_feature(enable = "rdrand")]
fn random(value: &mut u64) -> i32 {
    (0..10).map(|_| _rdrand64_step(value)).find(|ok| *ok == 1).unwrap_or(0)
}

/// A word from the CPU's generator. The target's baseline claims the instructions; CPUs are asked.
pub fn hardware_random() -> Option<u64> {
    let mut value = 0;
    // CPUID 7.0, EBX bit 18: RDSEED. CPUID 1, ECX bit 30: RDRAND.
    if __cpuid(0).eax >= 7 && __cpuid_count(7, 0).ebx & 1 << 18 != 0 {
        // SAFETY: the CPU has it.
        if unsafe { seed(&mut value) } == 1 {
            return Some(value);
        }
    }
    if __cpuid(1).ecx & 1 << 30 != 0 {
        // SAFETY: the CPU has it.
        if unsafe { random(&mut value) } == 1 {
            return Some(value);
        }
    }
    None
}

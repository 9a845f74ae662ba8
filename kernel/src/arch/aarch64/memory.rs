//! `memcpy` and its kin, which the compiler calls by these names.
//!
//! Short blocks are moved by loads and stores that overlap in the middle, long ones by 256 bytes an
//! iteration; the far end of a long block is loaded first and stored last, so that the same code
//! serves for `memmove`. Memory is "normal" here, where unaligned accesses are allowed. Long runs of
//! zeroes are written by cache line, without reading it first (DC ZVA).

use core::arch::naked_asm;

/// # Safety
/// As in C: the ranges are valid and do not overlap.
#[unsafe(naked)]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn memcpy(to: *mut u8, from: *const u8, len: usize) -> *mut u8 {
    naked_asm!(
        "add x4, x1, x2",
        "add x5, x0, x2",
        "cmp x2, #128",
        "b.hi 5f",
        "cmp x2, #32",
        "b.hi 3f",
        "cmp x2, #16",
        "b.lo 1f",
        "ldr q0, [x1]",
        "ldr q1, [x4, #-16]",
        "str q0, [x0]",
        "str q1, [x5, #-16]",
        "ret",
        "1: tbz x2, #3, 2f",
        "ldr x6, [x1]",
        "ldr x7, [x4, #-8]",
        "str x6, [x0]",
        "str x7, [x5, #-8]",
        "ret",
        "2: tbz x2, #2, 21f",
        "ldr w6, [x1]",
        "ldr w7, [x4, #-4]",
        "str w6, [x0]",
        "str w7, [x5, #-4]",
        "ret",
        // One to three: first, middle and last may be the same.
        "21: cbz x2, 22f",
        "lsr x8, x2, #1",
        "ldrb w6, [x1]",
        "ldrb w7, [x1, x8]",
        "ldrb w9, [x4, #-1]",
        "strb w6, [x0]",
        "strb w7, [x0, x8]",
        "strb w9, [x5, #-1]",
        "22: ret",
        "3: cmp x2, #64",
        "b.hi 4f",
        "ldp q0, q1, [x1]",
        "ldp q2, q3, [x4, #-32]",
        "stp q0, q1, [x0]",
        "stp q2, q3, [x5, #-32]",
        "ret",
        "4: ldp q0, q1, [x1]",
        "ldp q2, q3, [x1, #32]",
        "ldp q4, q5, [x4, #-64]",
        "ldp q6, q7, [x4, #-32]",
        "stp q0, q1, [x0]",
        "stp q2, q3, [x0, #32]",
        "stp q4, q5, [x5, #-64]",
        "stp q6, q7, [x5, #-32]",
        "ret",
        "5: ldp q16, q17, [x4, #-128]",
        "ldp q18, q19, [x4, #-96]",
        "ldp q20, q21, [x4, #-64]",
        "ldp q22, q23, [x4, #-32]",
        "mov x3, x0",
        "sub x2, x2, #128",
        "subs x2, x2, #256",
        "b.lo 61f",
        "6: ldp q0, q1, [x1], #256",
        "ldp q2, q3, [x1, #-224]",
        "ldp q4, q5, [x1, #-192]",
        "ldp q6, q7, [x1, #-160]",
        "stp q0, q1, [x3], #256",
        "stp q2, q3, [x3, #-224]",
        "stp q4, q5, [x3, #-192]",
        "stp q6, q7, [x3, #-160]",
        "ldp q0, q1, [x1, #-128]",
        "ldp q2, q3, [x1, #-96]",
        "ldp q4, q5, [x1, #-64]",
        "ldp q6, q7, [x1, #-32]",
        "stp q0, q1, [x3, #-128]",
        "stp q2, q3, [x3, #-96]",
        "stp q4, q5, [x3, #-64]",
        "stp q6, q7, [x3, #-32]",
        "subs x2, x2, #256",
        "b.hs 6b",
        "61: adds x2, x2, #256",
        "b.eq 63f",
        "62: ldp q0, q1, [x1], #128",
        "ldp q2, q3, [x1, #-96]",
        "ldp q4, q5, [x1, #-64]",
        "ldp q6, q7, [x1, #-32]",
        "stp q0, q1, [x3], #128",
        "stp q2, q3, [x3, #-96]",
        "stp q4, q5, [x3, #-64]",
        "stp q6, q7, [x3, #-32]",
        "subs x2, x2, #128",
        "b.hi 62b",
        "63:",
        "stp q16, q17, [x5, #-128]",
        "stp q18, q19, [x5, #-96]",
        "stp q20, q21, [x5, #-64]",
        "stp q22, q23, [x5, #-32]",
        "ret",
    )
}

/// # Safety
/// As in C: the ranges are valid.
#[unsafe(naked)]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn memmove(to: *mut u8, from: *const u8, len: usize) -> *mut u8 {
    naked_asm!(
        // Backwards only if the target begins inside the source, and the block is long.
        "sub x3, x0, x1",
        "cmp x3, x2",
        "b.hs {memcpy}",
        "cmp x2, #128",
        "b.ls {memcpy}",
        "add x4, x1, x2",
        "add x5, x0, x2",
        "ldp q16, q17, [x1]",
        "ldp q18, q19, [x1, #32]",
        "ldp q20, q21, [x1, #64]",
        "ldp q22, q23, [x1, #96]",
        "sub x2, x2, #128",
        "1: ldp q0, q1, [x4, #-32]",
        "ldp q2, q3, [x4, #-64]",
        "ldp q4, q5, [x4, #-96]",
        "ldp q6, q7, [x4, #-128]",
        "stp q0, q1, [x5, #-32]",
        "stp q2, q3, [x5, #-64]",
        "stp q4, q5, [x5, #-96]",
        "stp q6, q7, [x5, #-128]",
        "sub x4, x4, #128",
        "sub x5, x5, #128",
        "subs x2, x2, #128",
        "b.hi 1b",
        "stp q16, q17, [x0]",
        "stp q18, q19, [x0, #32]",
        "stp q20, q21, [x0, #64]",
        "stp q22, q23, [x0, #96]",
        "ret",
        memcpy = sym memcpy,
    )
}

/// # Safety
/// As in C: the range is valid.
#[unsafe(naked)]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn memset(to: *mut u8, byte: i32, len: usize) -> *mut u8 {
    naked_asm!(
        "dup v0.16b, w1",
        "add x5, x0, x2",
        "cmp x2, #64",
        "b.hi 3f",
        "cmp x2, #16",
        "b.lo 1f",
        "str q0, [x0]",
        "str q0, [x5, #-16]",
        "cmp x2, #32",
        "b.ls 22f",
        "str q0, [x0, #16]",
        "str q0, [x5, #-32]",
        "ret",
        "1: tbz x2, #3, 2f",
        "str d0, [x0]",
        "str d0, [x5, #-8]",
        "ret",
        "2: tbz x2, #2, 21f",
        "str s0, [x0]",
        "str s0, [x5, #-4]",
        "ret",
        "21: cbz x2, 22f",
        "lsr x3, x2, #1",
        "strb w1, [x0]",
        "strb w1, [x0, x3]",
        "strb w1, [x5, #-1]",
        "22: ret",
        "3: mov x3, x0",
        "ands w4, w1, #0xff",
        "b.ne 4f",
        "cmp x2, #320",
        "b.lo 4f",
        // Zero, and long: by blocks of 64 if that is what DC ZVA clears here (DCZID_EL0: 4 is 64
        // bytes, bit 4 forbids it).
        "mrs x4, dczid_el0",
        "and x4, x4, #31",
        "cmp x4, #4",
        "b.ne 4f",
        "stp q0, q0, [x3]",
        "stp q0, q0, [x3, #32]",
        "add x3, x3, #64",
        "and x3, x3, #-64",
        "sub x2, x5, #256",
        "5: dc zva, x3",
        "add x4, x3, #64",
        "dc zva, x4",
        "add x4, x3, #128",
        "dc zva, x4",
        "add x4, x3, #192",
        "dc zva, x4",
        "add x3, x3, #256",
        "cmp x3, x2",
        "b.ls 5b",
        // Less than 256 are left.
        "4: sub x2, x5, #64",
        "cmp x3, x2",
        "b.hs 7f",
        "6: stp q0, q0, [x3]",
        "stp q0, q0, [x3, #32]",
        "add x3, x3, #64",
        "cmp x3, x2",
        "b.lo 6b",
        "7: stp q0, q0, [x5, #-64]",
        "stp q0, q0, [x5, #-32]",
        "ret",
    )
}

/// # Safety
/// As in C: the ranges are valid.
#[unsafe(naked)]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn memcmp(left: *const u8, right: *const u8, len: usize) -> i32 {
    naked_asm!(
        "subs x2, x2, #8",
        "b.lo 2f",
        "1: ldr x3, [x0], #8",
        "ldr x4, [x1], #8",
        "cmp x3, x4",
        "b.ne 4f",
        "subs x2, x2, #8",
        "b.hs 1b",
        "2: adds x2, x2, #8",
        "b.eq 5f",
        "3: ldrb w3, [x0], #1",
        "ldrb w4, [x1], #1",
        "subs w5, w3, w4",
        "b.ne 6f",
        "subs x2, x2, #1",
        "b.ne 3b",
        "5: mov w0, wzr",
        "ret",
        // The first byte in memory is the least significant: reverse, then compare as numbers.
        "4: rev x3, x3",
        "rev x4, x4",
        "cmp x3, x4",
        "mov w0, #1",
        "cneg w0, w0, lo",
        "ret",
        "6: mov w0, w5",
        "ret",
    )
}

/// # Safety
/// As in C: the ranges are valid.
#[unsafe(naked)]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn bcmp(left: *const u8, right: *const u8, len: usize) -> i32 {
    naked_asm!("b {}", sym memcmp)
}

/// # Safety
/// As in C: the string ends in a null byte.
#[unsafe(naked)]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn strlen(text: *const u8) -> usize {
    naked_asm!(
        "mov x1, x0",
        "1: ldrb w2, [x1], #1",
        "cbnz w2, 1b",
        "sub x0, x1, x0",
        "sub x0, x0, #1",
        "ret",
    )
}

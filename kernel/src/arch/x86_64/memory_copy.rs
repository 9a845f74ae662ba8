//! `memcpy` and its kin. Everything above copies through these, payload included, so they are measured. SSE moves,
//! 128 bytes an iteration: `rep movsb` needs some thirty cycles to start, is only fast since Ivy Bridge (ERMS), and
//! emulators execute it byte by byte. Lengths that are no multiple end in moves that overlap.

use core::arch::{asm, naked_asm};

/// Copies `n` bytes between ranges that do not overlap.
///
/// # Safety
/// As C's `memcpy`.
#[unsafe(no_mangle)]
#[unsafe(naked)]
pub unsafe extern "C" fn memcpy(to: *mut u8, from: *const u8, n: usize) -> *mut u8 {
    naked_asm!(
        "mov rax, rdi",
        "cmp rdx, 64",
        "ja 5f",
        "cmp rdx, 16",
        "jb 3f",
        "cmp rdx, 32",
        "ja 2f",
        // 16 to 32: both ends, loaded before either is stored, so memmove can share this.
        "movups xmm0, [rsi]",
        "movups xmm1, [rsi + rdx - 16]",
        "movups [rdi], xmm0",
        "movups [rdi + rdx - 16], xmm1",
        "ret",
        // 33 to 64.
        "2:",
        "movups xmm0, [rsi]",
        "movups xmm1, [rsi + 16]",
        "movups xmm2, [rsi + rdx - 32]",
        "movups xmm3, [rsi + rdx - 16]",
        "movups [rdi], xmm0",
        "movups [rdi + 16], xmm1",
        "movups [rdi + rdx - 32], xmm2",
        "movups [rdi + rdx - 16], xmm3",
        "ret",
        "3:",
        "cmp rdx, 8",
        "jb 4f",
        "mov rcx, [rsi]",
        "mov r8, [rsi + rdx - 8]",
        "mov [rdi], rcx",
        "mov [rdi + rdx - 8], r8",
        "ret",
        "4:",
        "cmp rdx, 4",
        "jb 6f",
        "mov ecx, [rsi]",
        "mov r8d, [rsi + rdx - 4]",
        "mov [rdi], ecx",
        "mov [rdi + rdx - 4], r8d",
        "ret",
        // More than 64: the last 64 bytes are loaded first and stored last, whole blocks in between. The loads come
        // first because the blocks may overwrite them, for memmove to a lower address.
        "5:",
        "movups xmm8, [rsi + rdx - 64]",
        "movups xmm9, [rsi + rdx - 48]",
        "movups xmm10, [rsi + rdx - 32]",
        "movups xmm11, [rsi + rdx - 16]",
        "lea r8, [rdi + rdx - 64]",
        "sub rdx, 128",
        "jb 9f",
        "8:",
        "movups xmm0, [rsi]",
        "movups xmm1, [rsi + 16]",
        "movups xmm2, [rsi + 32]",
        "movups xmm3, [rsi + 48]",
        "movups xmm4, [rsi + 64]",
        "movups xmm5, [rsi + 80]",
        "movups xmm6, [rsi + 96]",
        "movups xmm7, [rsi + 112]",
        "movups [rdi], xmm0",
        "movups [rdi + 16], xmm1",
        "movups [rdi + 32], xmm2",
        "movups [rdi + 48], xmm3",
        "movups [rdi + 64], xmm4",
        "movups [rdi + 80], xmm5",
        "movups [rdi + 96], xmm6",
        "movups [rdi + 112], xmm7",
        "sub rsi, -128",
        "sub rdi, -128",
        "sub rdx, 128",
        "jae 8b",
        // rdx + 128 bytes are left, 0 to 127: up to 64 of them are in xmm8 to xmm11.
        "9:",
        "cmp rdx, -64",
        "jle 10f",
        "movups xmm0, [rsi]",
        "movups xmm1, [rsi + 16]",
        "movups xmm2, [rsi + 32]",
        "movups xmm3, [rsi + 48]",
        "movups [rdi], xmm0",
        "movups [rdi + 16], xmm1",
        "movups [rdi + 32], xmm2",
        "movups [rdi + 48], xmm3",
        "10:",
        "movups [r8], xmm8",
        "movups [r8 + 16], xmm9",
        "movups [r8 + 32], xmm10",
        "movups [r8 + 48], xmm11",
        "ret",
        // 0 to 3: the first, the middle and the last byte.
        "6:",
        "test rdx, rdx",
        "jz 7f",
        "movzx ecx, byte ptr [rsi]",
        "movzx r8d, byte ptr [rsi + rdx - 1]",
        "mov r9, rdx",
        "shr r9, 1",
        "movzx r10d, byte ptr [rsi + r9]",
        "mov [rdi + r9], r10b",
        "mov [rdi], cl",
        "mov [rdi + rdx - 1], r8b",
        "7:",
        "ret",
    )
}

/// Copies `n` bytes between ranges that may overlap.
///
/// # Safety
/// As C's `memmove`.
#[unsafe(no_mangle)]
#[unsafe(naked)]
pub unsafe extern "C" fn memmove(to: *mut u8, from: *const u8, n: usize) -> *mut u8 {
    naked_asm!(
        // Up to 64 bytes memcpy loads everything before it stores anything.
        "cmp rdx, 64",
        "jbe {memcpy}",
        // Forwards is right unless the target begins within the source.
        "mov rcx, rdi",
        "sub rcx, rsi",
        "cmp rcx, rdx",
        "jae {memcpy}",
        // Backwards, 64 bytes an iteration from the end: `rep movsb` with the direction flag set is slow everywhere.
        "mov rax, rdi",
        "2:",
        "movups xmm0, [rsi + rdx - 16]",
        "movups xmm1, [rsi + rdx - 32]",
        "movups xmm2, [rsi + rdx - 48]",
        "movups xmm3, [rsi + rdx - 64]",
        "movups [rdi + rdx - 16], xmm0",
        "movups [rdi + rdx - 32], xmm1",
        "movups [rdi + rdx - 48], xmm2",
        "movups [rdi + rdx - 64], xmm3",
        "sub rdx, 64",
        "cmp rdx, 64",
        "ja 2b",
        // What is left, 1 to 64 bytes, is at the start: rdi and rsi still point there, and rax is the result.
        "jmp {memcpy}",
        memcpy = sym memcpy,
    )
}

/// Fills `n` bytes.
///
/// # Safety
/// As C's `memset`.
#[unsafe(no_mangle)]
#[unsafe(naked)]
pub unsafe extern "C" fn memset(to: *mut u8, value: i32, n: usize) -> *mut u8 {
    naked_asm!(
        "mov r8, rdi",
        "movzx eax, sil",
        "cmp rdx, 64",
        "ja 5f",
        "mov r9, 0x0101010101010101",
        "imul rax, r9",
        "cmp rdx, 16",
        "jb 3f",
        "movq xmm0, rax",
        "punpcklqdq xmm0, xmm0",
        "cmp rdx, 32",
        "jbe 2f",
        "movups [rdi + 16], xmm0",
        "movups [rdi + rdx - 32], xmm0",
        "2:",
        "movups [rdi], xmm0",
        "movups [rdi + rdx - 16], xmm0",
        "mov rax, r8",
        "ret",
        "3:",
        "cmp rdx, 8",
        "jb 4f",
        "mov [rdi], rax",
        "mov [rdi + rdx - 8], rax",
        "mov rax, r8",
        "ret",
        "4:",
        "mov rcx, rdx",
        "rep stosb",
        "mov rax, r8",
        "ret",
        // More than 64: blocks, the last one overlapping.
        "5:",
        "mov r9, 0x0101010101010101",
        "imul rax, r9",
        "movq xmm0, rax",
        "punpcklqdq xmm0, xmm0",
        "lea rcx, [rdi + rdx - 64]",
        "6:",
        "movups [rdi], xmm0",
        "movups [rdi + 16], xmm0",
        "movups [rdi + 32], xmm0",
        "movups [rdi + 48], xmm0",
        "add rdi, 64",
        "cmp rdi, rcx",
        "jb 6b",
        "movups [rcx], xmm0",
        "movups [rcx + 16], xmm0",
        "movups [rcx + 32], xmm0",
        "movups [rcx + 48], xmm0",
        "mov rax, r8",
        "ret",
    )
}

/// Compares `n` bytes.
///
/// # Safety
/// As C's `memcmp`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn memcmp(a: *const u8, b: *const u8, n: usize) -> i32 {
    let mut at = 0;
    // SAFETY: all reads are within the `n` bytes the caller vouches for.
    unsafe {
        while n - at >= 8 {
            let (x, y) = (
                a.add(at).cast::<u64>().read_unaligned(),
                b.add(at).cast::<u64>().read_unaligned(),
            );
            if x != y {
                return if x.swap_bytes() < y.swap_bytes() { -1 } else { 1 };
            }
            at += 8;
        }
        while at < n {
            let (x, y) = (a.add(at).read(), b.add(at).read());
            if x != y {
                return i32::from(x) - i32::from(y);
            }
            at += 1;
        }
    }
    0
}

/// Whether `n` bytes differ.
///
/// # Safety
/// As `memcmp`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn bcmp(a: *const u8, b: *const u8, n: usize) -> i32 {
    // SAFETY: the caller's duty.
    unsafe { memcmp(a, b, n) }
}

/// Length of a NUL-terminated string.
///
/// # Safety
/// As C's `strlen`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn strlen(text: *const u8) -> usize {
    let mut len = 0;
    // SAFETY: the string ends before it runs out, says the caller. The asm keeps the compiler from making this
    // loop a call of itself.
    unsafe {
        while text.add(len).read() != 0 {
            len += 1;
            asm!("", options(nomem, nostack, preserves_flags));
        }
    }
    len
}

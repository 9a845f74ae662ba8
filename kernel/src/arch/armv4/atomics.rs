//! Atomic operations and the thread pointer, which compiled code calls by these names.
//!
//! The architecture has SWP and nothing else, so an operation masks interrupts: on one processor nobody else could come
//! between. They keep all registers but those a call may change. Names and meanings are GCC's "Legacy __sync Built-in
//! Functions"; LLVM calls them for a target with `+atomics-32`.

use core::arch::global_asm;
use core::sync::atomic::{AtomicUsize, Ordering};

// `__sync_fetch_and_OPERATION_SIZE(pointer, value)`: r0 is the pointer, then the old value; r1 the value.
global_asm!(
    ".macro mask",
    "    mrs r3, cpsr",
    "    orr r12, r3, #0x80",
    "    msr cpsr_c, r12",
    ".endm",
    ".macro done result",
    "    msr cpsr_c, r3",
    "    mov r0, \\result",
    "    mov pc, lr",
    ".endm",
    ".macro begin name",
    ".pushsection .text.\\name, \"ax\", %progbits",
    ".global \\name",
    ".type \\name, %function",
    "\\name:",
    ".endm",
    ".macro finish",
    ".popsection",
    ".endm",
    // Computes r12 from the old value r2 and r1.
    ".macro arithmetic name, load, store, operation",
    "    begin \\name",
    "    mask",
    "    \\load r2, [r0]",
    "    \\operation r12, r2, r1",
    "    \\store r12, [r0]",
    "    done r2",
    "    finish",
    ".endm",
    ".macro nand name, load, store",
    "    begin \\name",
    "    mask",
    "    \\load r2, [r0]",
    "    and r12, r2, r1",
    "    mvn r12, r12",
    "    \\store r12, [r0]",
    "    done r2",
    "    finish",
    ".endm",
    // Stores r1 where the condition holds after comparing r1 with the old value r2. The shift brings a short value of
    // the caller's, whose upper bits may be anything, to the form the load has.
    ".macro extreme name, load, store, shift, up, condition",
    "    begin \\name",
    "    .if \\shift",
    "    mov r1, r1, lsl #\\shift",
    "    mov r1, r1, \\up #\\shift",
    "    .endif",
    "    mask",
    "    \\load r2, [r0]",
    "    cmp r1, r2",
    "    mov r12, r2",
    "    mov\\condition r12, r1",
    "    \\store r12, [r0]",
    "    done r2",
    "    finish",
    ".endm",
    ".macro exchange name, load, store",
    "    begin \\name",
    "    mask",
    "    \\load r2, [r0]",
    "    \\store r1, [r0]",
    "    done r2",
    "    finish",
    ".endm",
    // r1 is what is expected, r2 what to store; the old value is returned.
    ".macro compare name, load, store, shift",
    "    begin \\name",
    "    .if \\shift",
    "    mov r1, r1, lsl #\\shift",
    "    mov r1, r1, lsr #\\shift",
    "    .endif",
    "    mask",
    "    \\load r12, [r0]",
    "    cmp r12, r1",
    "    bne 1f",
    "    \\store r2, [r0]",
    "1:  done r12",
    "    finish",
    ".endm",
    ".macro family size, load, sload, store, shift",
    "    arithmetic __sync_fetch_and_add_\\size, \\load, \\store, add",
    "    arithmetic __sync_fetch_and_sub_\\size, \\load, \\store, sub",
    "    arithmetic __sync_fetch_and_and_\\size, \\load, \\store, and",
    "    arithmetic __sync_fetch_and_or_\\size, \\load, \\store, orr",
    "    arithmetic __sync_fetch_and_xor_\\size, \\load, \\store, eor",
    "    nand __sync_fetch_and_nand_\\size, \\load, \\store",
    "    extreme __sync_fetch_and_max_\\size, \\sload, \\store, \\shift, asr, gt",
    "    extreme __sync_fetch_and_min_\\size, \\sload, \\store, \\shift, asr, lt",
    "    extreme __sync_fetch_and_umax_\\size, \\load, \\store, \\shift, lsr, hi",
    "    extreme __sync_fetch_and_umin_\\size, \\load, \\store, \\shift, lsr, lo",
    "    exchange __sync_lock_test_and_set_\\size, \\load, \\store",
    "    compare __sync_val_compare_and_swap_\\size, \\load, \\store, \\shift",
    ".endm",
    "    family 1, ldrb, ldrsb, strb, 24",
    "    family 2, ldrh, ldrsh, strh, 16",
    "    family 4, ldr, ldr, str, 0",
    // A device may look as well: what was written is in memory afterwards.
    "    begin __sync_synchronize",
    "    mov r0, #0",
    "    mcr p15, 0, r0, c7, c10, 4",
    "    mov pc, lr",
    "    finish",
    // May change r0 only. [ABI: Run-time ABI for the Arm Architecture, 5.3.5]
    "    begin __aeabi_read_tp",
    "    ldr r0, =({pointer})",
    "    ldr r0, [r0]",
    "    mov pc, lr",
    "    .ltorg",
    "    finish",
    pointer = sym THREAD_POINTER,
);

static THREAD_POINTER: AtomicUsize = AtomicUsize::new(0);

/// Sets the running thread's TLS pointer.
#[inline]
pub fn set_thread_pointer(pointer: usize) {
    THREAD_POINTER.store(pointer, Ordering::Relaxed);
}

//! Exception vectors: interrupts, and everything that must not happen.
//!
//! All software runs at EL1 on SP_EL0; an exception switches to SP_EL1 by itself. So interrupts and
//! faults (a stack overflow above all) have a stack of their own.

use core::arch::{global_asm, naked_asm};
use core::fmt;
use core::sync::atomic::{AtomicBool, Ordering};

use aarch64_cpu::registers::{ELR_EL1, ESR_EL1, FAR_EL1, Readable};

use super::{gic, semihosting, timer};
use crate::panic::Fault;
use crate::preempt;

// An interrupt saves 720 bytes: caller-saved registers, x29, ELR, SPSR, FPCR, FPSR, all vectors (d8 to
// d15 survive calls, but the upper halves of v8 to v15 do not, so all are kept).

macro_rules! save {
    () => {
        "sub sp, sp, #720
        stp x0, x1, [sp]
        stp x2, x3, [sp, #16]
        stp x4, x5, [sp, #32]
        stp x6, x7, [sp, #48]
        stp x8, x9, [sp, #64]
        stp x10, x11, [sp, #80]
        stp x12, x13, [sp, #96]
        stp x14, x15, [sp, #112]
        stp x16, x17, [sp, #128]
        mrs x0, elr_el1
        mrs x1, spsr_el1
        mrs x2, fpcr
        mrs x3, fpsr
        stp x18, x29, [sp, #144]
        stp x30, x0, [sp, #160]
        stp x1, x2, [sp, #176]
        str x3, [sp, #192]
        stp q0, q1, [sp, #208]
        stp q2, q3, [sp, #240]
        stp q4, q5, [sp, #272]
        stp q6, q7, [sp, #304]
        stp q8, q9, [sp, #336]
        stp q10, q11, [sp, #368]
        stp q12, q13, [sp, #400]
        stp q14, q15, [sp, #432]
        stp q16, q17, [sp, #464]
        stp q18, q19, [sp, #496]
        stp q20, q21, [sp, #528]
        stp q22, q23, [sp, #560]
        stp q24, q25, [sp, #592]
        stp q26, q27, [sp, #624]
        stp q28, q29, [sp, #656]
        stp q30, q31, [sp, #688]"
    };
}

macro_rules! restore {
    () => {
        "ldp q0, q1, [sp, #208]
        ldp q2, q3, [sp, #240]
        ldp q4, q5, [sp, #272]
        ldp q6, q7, [sp, #304]
        ldp q8, q9, [sp, #336]
        ldp q10, q11, [sp, #368]
        ldp q12, q13, [sp, #400]
        ldp q14, q15, [sp, #432]
        ldp q16, q17, [sp, #464]
        ldp q18, q19, [sp, #496]
        ldp q20, q21, [sp, #528]
        ldp q22, q23, [sp, #560]
        ldp q24, q25, [sp, #592]
        ldp q26, q27, [sp, #624]
        ldp q28, q29, [sp, #656]
        ldp q30, q31, [sp, #688]
        ldr x3, [sp, #192]
        ldp x1, x2, [sp, #176]
        ldp x30, x0, [sp, #160]
        ldp x18, x29, [sp, #144]
        msr fpsr, x3
        msr fpcr, x2
        msr spsr_el1, x1
        msr elr_el1, x0
        ldp x16, x17, [sp, #128]
        ldp x14, x15, [sp, #112]
        ldp x12, x13, [sp, #96]
        ldp x10, x11, [sp, #80]
        ldp x8, x9, [sp, #64]
        ldp x6, x7, [sp, #48]
        ldp x4, x5, [sp, #32]
        ldp x2, x3, [sp, #16]
        ldp x0, x1, [sp]
        add sp, sp, #720
        eret"
    };
}

unsafe extern "C" {
    /// The table for VBAR_EL1.
    pub(super) static vectors: u8;
}

// [ARM D1.3.3]: four groups of four, 128 bytes each: from EL1 on SP_EL0, from EL1 on SP_EL1, from a
// lower EL in AArch64 and AArch32 (there is nothing there); synchronous, IRQ, FIQ, SError.
global_asm!(
    ".macro fault_vector kind",
    "    .balign 128",
    "    sub sp, sp, #288",
    "    stp x0, x1, [sp]",
    "    mov x0, #\\kind",
    "    b {save_fault}",
    ".endm",
    ".pushsection .text.vectors, \"ax\", %progbits",
    ".balign 2048",
    ".global {vectors}",
    "{vectors}:",
    "    fault_vector 0",
    "    .balign 128",
    "    b {interrupt}",
    "    fault_vector 2",
    "    fault_vector 3",
    // On SP_EL1, so while an exception is being handled: that stack may be the reason.
    "    .balign 128",
    "    b {nested}",
    "    .balign 128",
    "    b {nested}",
    "    .balign 128",
    "    b {nested}",
    "    .balign 128",
    "    b {nested}",
    "    fault_vector 4",
    "    fault_vector 4",
    "    fault_vector 4",
    "    fault_vector 4",
    "    fault_vector 4",
    "    fault_vector 4",
    "    fault_vector 4",
    "    fault_vector 4",
    ".popsection",
    vectors = sym vectors,
    save_fault = sym save_fault,
    interrupt = sym interrupt,
    nested = sym nested,
);

/// An interrupt: on SP_EL1, masked.
#[unsafe(naked)]
unsafe extern "C" fn interrupt() {
    naked_asm!(
        save!(),
        "bl {handle}",
        "cbnz w0, 1f",
        restore!(),
        // The interrupted thread is to call `preempt` first: move the frame to its stack and return
        // there into `preempted`. AArch64 has no red zone. If the thread's stack has no room, this
        // faults, and is reported as the overflow it is.
        "1: mrs x1, sp_el0",
        "sub x1, x1, #720",
        "msr sp_el0, x1",
        "mov x2, #720",
        "2: ldp q0, q1, [sp], #32",
        "stp q0, q1, [x1], #32",
        "subs x2, x2, #32",
        "cmp x2, #16",
        "b.hi 2b",
        "ldr q0, [sp], #16",
        "str q0, [x1]",
        "adrp x0, {preempted}",
        "add x0, x0, :lo12:{preempted}",
        "msr elr_el1, x0",
        "mov x0, #0x344",       // SPSR: EL1 on SP_EL0, interrupts enabled
        "msr spsr_el1, x0",
        "eret",
        handle = sym handle_interrupt,
        preempted = sym preempted,
    )
}

/// On the interrupted thread's stack, the interrupt's frame on top of it.
#[unsafe(naked)]
unsafe extern "C" fn preempted() {
    naked_asm!(
        // Backtraces go on with the interrupted function: a frame record of its x29 and ELR.
        "ldr x0, [sp, #168]",
        "stp x29, x0, [sp, #-16]!",
        "mov x29, sp",
        "bl {preempt}",
        "msr daifset, #2",
        "add sp, sp, #16",
        restore!(),
        preempt = sym preempt_thread,
    )
}

extern "C" fn preempt_thread() {
    crate::thread::preempt();
}

/// Handles one interrupt; whether the interrupted thread must go through `preempt`.
extern "C" fn handle_interrupt() -> bool {
    let Some(line) = gic::acknowledge() else {
        return false;
    };
    if !timer::handle(line) {
        crate::interrupt::dispatch(line);
    }
    gic::end(line);
    preempt::wanted()
}

/// What a fault saves.
#[repr(C)]
pub(super) struct Registers {
    x: [u64; 31],
    sp: u64,
    elr: u64,
    spsr: u64,
    esr: u64,
    far: u64,
}

/// From a `fault_vector`: x0 and x1 are saved already, x0 is the kind.
#[unsafe(naked)]
unsafe extern "C" fn save_fault() {
    naked_asm!(
        "stp x2, x3, [sp, #16]",
        "stp x4, x5, [sp, #32]",
        "stp x6, x7, [sp, #48]",
        "stp x8, x9, [sp, #64]",
        "stp x10, x11, [sp, #80]",
        "stp x12, x13, [sp, #96]",
        "stp x14, x15, [sp, #112]",
        "stp x16, x17, [sp, #128]",
        "stp x18, x19, [sp, #144]",
        "stp x20, x21, [sp, #160]",
        "stp x22, x23, [sp, #176]",
        "stp x24, x25, [sp, #192]",
        "stp x26, x27, [sp, #208]",
        "stp x28, x29, [sp, #224]",
        "mrs x2, sp_el0",
        "stp x30, x2, [sp, #240]",
        "mrs x2, elr_el1",
        "mrs x3, spsr_el1",
        "stp x2, x3, [sp, #256]",
        "mrs x2, esr_el1",
        "mrs x3, far_el1",
        "stp x2, x3, [sp, #272]",
        "mov x1, sp",
        "bl {handle}",
        // Only a probe comes back; it expects x0, x1 and the flags to be lost.
        "ldr x2, [sp, #256]",
        "msr elr_el1, x2",
        "ldp x2, x3, [sp, #16]",
        "ldp x4, x5, [sp, #32]",
        "ldp x6, x7, [sp, #48]",
        "ldp x8, x9, [sp, #64]",
        "ldp x10, x11, [sp, #80]",
        "ldp x12, x13, [sp, #96]",
        "ldp x14, x15, [sp, #112]",
        "ldp x16, x17, [sp, #128]",
        "ldr x18, [sp, #144]",
        "ldr x30, [sp, #240]",
        "add sp, sp, #288",
        "mov x0, #-1",
        "eret",
        handle = sym handle_fault,
    )
}

/// A fault in a fault or in an interrupt: a stack of its own, used from the top each time, so that this
/// ends even if it faults again.
#[unsafe(naked)]
unsafe extern "C" fn nested() {
    naked_asm!(
        "adrp x0, emergency_stack_end",
        "mov x1, sp",
        "mov sp, x0",
        "stp x1, x30, [sp, #-16]!",
        "bl {handle}",
        // A probe, as in `save_fault`.
        "msr elr_el1, x0",
        "ldp x1, x30, [sp], #16",
        "mov sp, x1",
        "mov x0, #-1",
        "eret",
        handle = sym handle_nested,
    )
}

extern "C" fn handle_fault(kind: u64, registers: &mut Registers) {
    if kind == 0 && is_probe(registers.esr, registers.elr) {
        registers.elr += 4;
        return;
    }
    let what = match kind {
        0 => class(registers.esr),
        2 => "fast interrupt",
        3 => "system error",
        _ => "exception from user mode",
    };
    crate::panic::fault(&Fault {
        kind: what,
        address: (kind == 0 && has_address(registers.esr)).then_some(registers.far as usize),
        pc: registers.elr as usize,
        frame: registers.x[29] as usize,
        registers: &*registers,
    })
}

/// Whether this is a semihosting call without anybody to take it. ESR.EC 0 is an undefined
/// instruction. [ARM D24.2.40]
fn is_probe(esr: u64, pc: u64) -> bool {
    esr >> 26 == 0 && semihosting::probed(pc as usize)
}

/// Returns where to go on if this was a probe; else there is no going on.
extern "C" fn handle_nested() -> u64 {
    static ENTERED: AtomicBool = AtomicBool::new(false);
    if is_probe(ESR_EL1.get(), ELR_EL1.get()) {
        return ELR_EL1.get() + 4;
    }
    if !ENTERED.swap(true, Ordering::Relaxed) {
        crate::console::print(format_args!(
            "trireme: {} while handling an exception, at {:#x}, address {:#x}\n",
            class(ESR_EL1.get()),
            ELR_EL1.get(),
            FAR_EL1.get()
        ));
    }
    super::shutdown(crate::panic::ABORTED)
}

/// ESR.EC and the fault status in words. [ARM D24.2.40]
fn class(esr: u64) -> &'static str {
    let status = esr & 0x3f;
    match esr >> 26 & 0x3f {
        0x00 => "undefined instruction",
        0x07 => "floating point not enabled",
        0x0e => "illegal execution state",
        0x15 => "supervisor call",
        0x21 => "instruction fetch fault",
        0x22 => "program counter not aligned",
        0x25 if status >> 2 == 0b0011 && esr & 1 << 6 != 0 => "write to read-only memory",
        0x25 if status >> 2 == 0b0011 => "read not permitted",
        0x25 if status >> 2 == 0b0001 && esr & 1 << 6 != 0 => "write to unmapped memory",
        0x25 if status >> 2 == 0b0001 => "read of unmapped memory",
        0x25 if status == 0b100001 => "access not aligned",
        0x25 => "data access fault",
        0x26 => "stack pointer not aligned",
        0x2c => "floating point exception",
        0x3c => "breakpoint instruction",
        _ => "exception",
    }
}

/// Whether FAR holds an address for this class.
fn has_address(esr: u64) -> bool {
    matches!(esr >> 26 & 0x3f, 0x20..=0x22 | 0x24 | 0x25)
}

impl fmt::Debug for Registers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, pair) in self.x.chunks(3).enumerate() {
            for (offset, value) in pair.iter().enumerate() {
                write!(f, " x{:<2} {value:016x}", index * 3 + offset)?;
            }
            writeln!(f)?;
        }
        writeln!(
            f,
            " sp  {:016x} pc  {:016x} spsr {:08x} esr {:08x}",
            self.sp, self.elr, self.spsr, self.esr
        )
    }
}

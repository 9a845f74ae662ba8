//! Exception vectors: interrupts, and everything that must not happen.
//!
//! All software runs in supervisor mode; an exception switches to a mode with a stack of its own. So interrupts and faults
//! (a stack overflow above all) have theirs. The vectors are at 0xffff0000, since page 0 is to stay unmapped.
//!
//! Sources: [ARM] DDI 0100I A2.6 (exceptions), B3.6 (fault status); [FA] docs/hardware/gemini.md 1.2.

use core::arch::{asm, global_asm, naked_asm};
use core::fmt;
use core::sync::atomic::{AtomicBool, Ordering};

use super::{interrupts, timer};
use crate::panic::Fault;
use crate::preempt;

unsafe extern "C" {
    /// A page, of which the vectors are the beginning.
    pub(super) static vectors: u8;
}

// [ARM A2.6]: reset, undefined instruction, supervisor call, prefetch abort, data abort, reserved, IRQ, FIQ. The page is
// mapped elsewhere, so each loads where to go on.
global_asm!(
    ".pushsection .text.vectors, \"ax\", %progbits",
    ".balign 4096",
    ".global {vectors}",
    "{vectors}:",
    "    ldr pc, 1f",
    "    ldr pc, 1f + 4",
    "    ldr pc, 1f + 8",
    "    ldr pc, 1f + 12",
    "    ldr pc, 1f + 16",
    "    ldr pc, 1f",
    "    ldr pc, 1f + 20",
    "    ldr pc, 1f",
    "1:  .long unexpected, undefined, supervisor_call, prefetch_abort, data_abort, {interrupt}",
    ".balign 4096",
    // How far r14 is beyond the instruction depends on what happened. A fault while another is handled starts on the
    // emergency stack: the fault stack may be the reason.
    ".macro fault_entry name, kind, beyond",
    "\\name:",
    "    sub lr, lr, #\\beyond",
    "    sub sp, sp, #72",
    "    stmia sp, {{r0-r12}}",
    "    str lr, [sp, #60]",
    "    mov r0, #\\kind",
    "    b {save_fault}",
    ".endm",
    "    fault_entry unexpected, 0, 4",
    "    fault_entry undefined, 1, 4",
    "    fault_entry prefetch_abort, 2, 4",
    "    fault_entry data_abort, 3, 8",
    // Nothing here calls a supervisor: it is a semihosting call without anybody to take it.
    "supervisor_call:",
    "    mvn r0, #0",
    "    movs pc, lr",
    ".popsection",
    vectors = sym vectors,
    interrupt = sym interrupt,
    save_fault = sym save_fault,
);

/// An interrupt: in IRQ mode, masked.
#[unsafe(naked)]
unsafe extern "C" fn interrupt() {
    naked_asm!(
        "sub lr, lr, #4",
        "stmfd sp!, {{r0-r3, r12, lr}}",
        "bl {handle}",
        "cmp r0, #0",
        "ldmfdeq sp!, {{r0-r3, r12, pc}}^",
        // The interrupted thread is to call `preempt` first: build a frame on its stack and go on there, in supervisor
        // mode. If the stack has no room, this faults, and is reported as the overflow it is. Only supervisor mode is
        // ever interrupted.
        "mov r0, sp",
        "add sp, sp, #24",
        "mrs r1, spsr",
        "msr cpsr_c, #0xd3",
        // The frame, upwards: r11 and pc (a record for backtraces), cpsr, r0-r3, r12, lr, pc.
        "ldr r2, [r0, #20]",
        "str r2, [sp, #-4]!",
        "str lr, [sp, #-4]!",
        "ldr r12, [r0, #16]",
        "str r12, [sp, #-4]!",
        "ldr r12, [r0, #12]",
        "str r12, [sp, #-4]!",
        "ldr r12, [r0, #8]",
        "str r12, [sp, #-4]!",
        "ldr r12, [r0, #4]",
        "str r12, [sp, #-4]!",
        "ldr r12, [r0]",
        "str r12, [sp, #-4]!",
        "str r1, [sp, #-4]!",
        "str r2, [sp, #-4]!",
        "str r11, [sp, #-4]!",
        "mov r11, sp",
        // Calls want a stack divisible by 8, which between calls it need not be.
        "bic sp, sp, #7",
        "msr cpsr_c, #0x53",
        "bl {preempt}",
        "msr cpsr_c, #0xd3",
        "mov sp, r11",
        "ldr r11, [sp], #8",
        "ldr r0, [sp], #4",
        "msr spsr_cxsf, r0",
        "ldmfd sp!, {{r0-r3, r12, lr, pc}}^",
        handle = sym handle_interrupts,
        preempt = sym preempt_thread,
    )
}

extern "C" fn preempt_thread() {
    crate::thread::preempt();
}

/// Handles what is pending; whether the interrupted thread must go through `preempt`.
extern "C" fn handle_interrupts() -> bool {
    // Bounded: a line that will not be silenced comes back after the interrupted code has had a turn.
    for _ in 0..interrupts::LINES {
        let Some(line) = interrupts::pending() else { break };
        interrupts::acknowledge(line);
        if timer::handle(line) {
            crate::interrupt::timer_fired();
        } else {
            crate::interrupt::dispatch(line);
        }
    }
    preempt::wanted()
}

/// What a fault saves.
#[repr(C)]
pub(super) struct Registers {
    /// r0 to r12, sp, lr, pc.
    r: [u32; 16],
    cpsr: u32,
}

/// From a `fault_entry`: r0 to r12 and pc are saved, r0 is the kind.
#[unsafe(naked)]
unsafe extern "C" fn save_fault() {
    naked_asm!(
        "mrs r1, spsr",
        "str r1, [sp, #64]",
        // In the modes of aborts, undefined instructions and fast interrupts: this is not the first fault.
        "and r2, r1, #0x1f",
        "cmp r2, #0x17",
        "cmpne r2, #0x1b",
        "cmpne r2, #0x11",
        "mov r4, sp",
        "ldreq sp, =emergency_stack_end",
        "beq 1f",
        "add r2, r4, #52",
        "mrs r3, cpsr",
        "orr r1, r1, #0xc0",
        "msr cpsr_c, r1",
        "stmia r2, {{r13, r14}}",
        "msr cpsr_c, r3",
        "mov r1, r4",
        "bl {handle}",
        "1: mov r1, r4",
        "bl {handle_nested}",
        ".ltorg",
        handle = sym handle_fault,
        handle_nested = sym handle_nested,
    )
}

extern "C" fn handle_fault(kind: u32, registers: &Registers) -> ! {
    let (status, address) = fault_registers();
    crate::panic::fault(&Fault {
        kind: class(kind, status),
        address: match kind {
            2 => Some(registers.r[15] as usize),
            3 => Some(address as usize),
            _ => None,
        },
        pc: registers.r[15] as usize,
        frame: registers.r[11] as usize,
        registers,
    })
}

/// A fault while one is reported, so there is no going on.
extern "C" fn handle_nested(kind: u32, registers: &Registers) -> ! {
    static ENTERED: AtomicBool = AtomicBool::new(false);
    let (status, address) = fault_registers();
    if !ENTERED.swap(true, Ordering::Relaxed) {
        crate::console::print(format_args!(
            "trireme: {} while handling an exception, at {:#x}, address {address:#x}\n",
            class(kind, status),
            registers.r[15],
        ));
    }
    super::shutdown(crate::panic::ABORTED)
}

/// Fault status and fault address.
fn fault_registers() -> (u32, u32) {
    let (status, address);
    // SAFETY: reads of registers.
    unsafe {
        asm!("mrc p15, 0, {}, c5, c0, 0", "mrc p15, 0, {}, c6, c0, 0", out(reg) status, out(reg) address,
            options(nomem, nostack));
    }
    (status, address)
}

/// What happened, in words. The status does not tell reads from writes; all code is privileged, so what is not permitted
/// is a write. [ARM B3.6.1]
fn class(kind: u32, status: u32) -> &'static str {
    match (kind, status & 0xf) {
        (1, _) => "undefined instruction",
        (2, _) => "instruction fetch fault",
        (3, 0b0001 | 0b0011) => "access not aligned",
        (3, 0b0101 | 0b0111) => "access to unmapped memory",
        (3, 0b1101 | 0b1111) => "write to read-only memory",
        (3, _) => "data access fault",
        _ => "fast interrupt or reset",
    }
}

impl fmt::Debug for Registers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, row) in self.r.chunks(4).enumerate() {
            for (offset, value) in row.iter().enumerate() {
                write!(f, " r{:<2} {value:08x}", index * 4 + offset)?;
            }
            writeln!(f)?;
        }
        writeln!(f, " cpsr {:08x}", self.cpsr)
    }
}

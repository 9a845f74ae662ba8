//! Switching threads.

use core::arch::naked_asm;

/// A thread that is not running: where it keeps its callee-saved registers.
#[repr(transparent)]
#[derive(Clone, Copy, Debug, Default)]
pub struct Context(usize);

/// Words of the frame: r4 to r11, and where to go on. [AAPCS32 6.1.1]
const FRAME: usize = 9;

/// Makes a thread that will run `entry(argument)`, interrupts enabled, on the stack ending at `stack_top`.
///
/// That ends a stack made for this thread, divisible by 8; what lies below is overwritten.
pub fn new_context(stack_top: usize, entry: extern "C" fn(usize) -> !, argument: usize) -> Context {
    let frame = (stack_top - 4 * FRAME) as *mut usize;
    // SAFETY: the frame lies within the stack, which by contract nobody uses yet.
    unsafe {
        frame.write_bytes(0, FRAME);
        frame.write(entry as *const () as usize);
        frame.add(1).write(argument);
        frame.add(8).write(begin as *const () as usize);
    }
    Context(frame as usize)
}

/// The first instructions of a thread: r4 is its entry, r5 the argument; r11 and r14 end a backtrace.
#[unsafe(naked)]
unsafe extern "C" fn begin() {
    naked_asm!(
        "mrs r0, cpsr",
        "bic r0, r0, #0x80",
        "msr cpsr_c, r0",
        "mov r0, r5",
        "mov lr, #0",
        "mov pc, r4",
    )
}

/// Saves the running thread in `from` and goes on with `to`.
///
/// # Safety
/// `to` was made by [`new_context`] or saved by this function, and is not used again until saved again. Preemption is
/// off.
#[unsafe(naked)]
pub unsafe extern "C" fn switch(from: *mut Context, to: *const Context) {
    naked_asm!(
        "stmfd sp!, {{r4-r11, lr}}",
        "str sp, [r0]",
        "ldr sp, [r1]",
        "ldmfd sp!, {{r4-r11, pc}}",
    )
}

//! Switching threads.

use core::arch::naked_asm;

/// A thread that is not running: where it keeps its callee-saved registers.
#[repr(transparent)]
#[derive(Clone, Copy, Debug, Default)]
pub struct Context(usize);

/// Bytes of the frame: x19 to x30, d8 to d15. [AAPCS64 6.1]
const FRAME: usize = 160;

/// Makes a thread that will run `entry(argument)`, interrupts enabled, on the stack ending at
/// `stack_top`.
///
/// That ends a stack made for this thread, divisible by 16; what lies below is overwritten.
pub fn new_context(stack_top: usize, entry: extern "C" fn(usize) -> !, argument: usize) -> Context {
    let frame = (stack_top - FRAME) as *mut usize;
    // SAFETY: the frame lies within the stack, which by contract nobody uses yet.
    unsafe {
        frame.write_bytes(0, FRAME / 8);
        // In the order of `switch`: x19, x20 … x29, x30.
        frame.add(8).write(entry as *const () as usize);
        frame.add(9).write(argument);
        frame.add(19).write(begin as *const () as usize);
    }
    Context(frame as usize)
}

/// The first instructions of a thread: x19 is its entry, x20 the argument, x29 and x30 end a backtrace.
#[unsafe(naked)]
unsafe extern "C" fn begin() {
    naked_asm!("msr daifclr, #2", "mov x0, x20", "mov x30, xzr", "br x19",)
}

/// Saves the running thread in `from` and goes on with `to`.
///
/// # Safety
/// `to` was made by [`new_context`] or saved by this function, and is not used again until saved
/// again. Preemption is off.
#[unsafe(naked)]
pub unsafe extern "C" fn switch(from: *mut Context, to: *const Context) {
    naked_asm!(
        "stp d8, d9, [sp, #-160]!",
        "stp d10, d11, [sp, #16]",
        "stp d12, d13, [sp, #32]",
        "stp d14, d15, [sp, #48]",
        "stp x19, x20, [sp, #64]",
        "stp x21, x22, [sp, #80]",
        "stp x23, x24, [sp, #96]",
        "stp x25, x26, [sp, #112]",
        "stp x27, x28, [sp, #128]",
        "stp x29, x30, [sp, #144]",
        "mov x9, sp",
        "str x9, [x0]",
        "ldr x9, [x1]",
        "mov sp, x9",
        "ldp d10, d11, [sp, #16]",
        "ldp d12, d13, [sp, #32]",
        "ldp d14, d15, [sp, #48]",
        "ldp x19, x20, [sp, #64]",
        "ldp x21, x22, [sp, #80]",
        "ldp x23, x24, [sp, #96]",
        "ldp x25, x26, [sp, #112]",
        "ldp x27, x28, [sp, #128]",
        "ldp x29, x30, [sp, #144]",
        "ldp d8, d9, [sp], #160",
        "ret",
    )
}

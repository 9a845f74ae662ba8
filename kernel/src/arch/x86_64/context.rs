//! Switched-out threads, and walking stacks.

use core::arch::naked_asm;

use crate::memory::PAGE;

/// A switched-out thread: its stack pointer. On the stack lie the callee-saved registers and the return
/// address.
#[derive(Debug, Default)]
#[repr(C)]
pub struct Context {
    stack_pointer: usize,
}

/// A thread that is to call `entry(argument)` on the stack that ends at `stack_top` (16-byte-aligned).
pub fn new_context(stack_top: usize, entry: extern "C" fn(usize) -> !, argument: usize) -> Context {
    // What `switch` pops: r15 r14 r13 r12 rbx rbp, return address; above them, where `entry` looks for its return address, a zero, which
    // ends backtraces.
    let frame = [0, 0, 0, argument, entry as usize, 0, begin as *const () as usize, 0];
    let at = (stack_top - size_of_val(&frame)) as *mut usize;
    // SAFETY: the caller's fresh stack has room for eight words at its top.
    unsafe { at.copy_from_nonoverlapping(frame.as_ptr(), frame.len()) };
    Context { stack_pointer: at as usize }
}

/// First instructions of a thread: argument and entry were put into r12 and rbx.
#[unsafe(naked)]
extern "C" fn begin() -> ! {
    naked_asm!("sti", "mov rdi, r12", "xor ebp, ebp", "jmp rbx")
}

/// Saves the running thread and continues another.
///
/// # Safety
/// `to` must be a thread that is not running, with an intact stack; `from` stays valid until it is switched to
/// again.
#[unsafe(naked)]
pub unsafe extern "C" fn switch(from: *mut Context, to: *const Context) {
    // x87 control word and MXCSR are never changed, so they need no saving.
    naked_asm!(
        "push rbp",
        "push rbx",
        "push r12",
        "push r13",
        "push r14",
        "push r15",
        "mov [rdi], rsp",
        "mov rsp, [rsi]",
        "pop r15",
        "pop r14",
        "pop r13",
        "pop r12",
        "pop rbx",
        "pop rbp",
        "ret",
    )
}

/// The caller's frame pointer.
#[inline(always)]
pub fn frame_pointer() -> usize {
    let frame: usize;
    // SAFETY: reads a register.
    unsafe { core::arch::asm!("mov {}, rbp", out(reg) frame, options(nomem, nostack)) };
    frame
}

/// What the linker called an address of the code: images are linked where they run.
pub fn link_address(pc: usize) -> usize {
    pc
}

/// Return addresses from a chain of frame pointers. Stops at whatever does not look like the next frame:
/// frames go upwards, are aligned, and lie within a stack's reach of each other.
pub fn backtrace(mut frame: usize, visit: &mut dyn FnMut(usize)) {
    for _ in 0..64 {
        if frame < PAGE || !frame.is_multiple_of(8) {
            return;
        }
        // SAFETY: the image is built with frame pointers, so this is a saved frame pointer with a return address
        // above it; if it is not, this may fault, which the reporter survives.
        let (next, pc) =
            unsafe { ((frame as *const usize).read(), (frame as *const usize).add(1).read()) };
        if pc == 0 {
            return;
        }
        visit(pc);
        if next <= frame || next - frame > 1 << 20 {
            return;
        }
        frame = next;
    }
}

//! Calls to a debugger, or to QEMU run with `-semihosting`.
//!
//! Without one the supervisor call arrives at our own vector, which answers -1 (`exceptions.rs`).
//!
//! Source: [SEMI] Arm "Semihosting for AArch32 and AArch64", 2023Q3.

use core::arch::asm;
use core::ffi::CStr;

/// Operations. [SEMI 7]
const WRITE0: usize = 0x04;
const EXIT_EXTENDED: usize = 0x20;
/// `ADP_Stopped_ApplicationExit`. [SEMI 7.6]
const APPLICATION_EXIT: usize = 0x20026;

/// Ends QEMU with the status. Returns if nobody offers semihosting.
pub(super) fn exit(status: i32) {
    // QEMU takes the status modulo 256, as the shell does.
    let block = [APPLICATION_EXIT, status as usize];
    call(EXIT_EXTENDED, block.as_ptr() as usize);
}

/// Writes text to the debugger's console, if there is one.
pub(super) fn write(text: &CStr) {
    call(WRITE0, text.as_ptr() as usize);
}

fn call(operation: usize, parameter: usize) {
    // SAFETY: the parameter is what the operation wants; an exception in supervisor mode loses lr.
    unsafe {
        asm!("svc #0x123456", inout("r0") operation => _, in("r1") parameter, out("lr") _);
    }
}

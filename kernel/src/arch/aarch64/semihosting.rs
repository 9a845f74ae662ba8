//! Calls to a debugger, or to QEMU run with `-semihosting`.
//!
//! Nothing tells whether there is one, so the call is tried: without a debugger its instruction is
//! undefined, and the exception handler returns behind it with -1 ([`probed`]).
//!
//! Source: [SEMI] Arm "Semihosting for AArch32 and AArch64", 2023Q3.

use core::arch::asm;
use core::ffi::CStr;
use core::sync::atomic::{AtomicBool, Ordering};

/// Operations. [SEMI 7]
const WRITE0: u64 = 0x04;
const EXIT_EXTENDED: u64 = 0x20;
/// `ADP_Stopped_ApplicationExit`. [SEMI 7.6]
const APPLICATION_EXIT: u64 = 0x20026;

/// A call is being tried.
static TRYING: AtomicBool = AtomicBool::new(false);
const HLT_F000: u32 = 0xd45e_0000;

/// Ends QEMU with the status. Returns if nobody offers semihosting.
pub(super) fn exit(status: i32) {
    // QEMU takes the status modulo 256, as the shell does.
    let block = [APPLICATION_EXIT, status as u64];
    call(EXIT_EXTENDED, block.as_ptr() as u64);
}

/// Writes text to the debugger's console, if there is one.
pub(super) fn write(text: &CStr) {
    call(WRITE0, text.as_ptr() as u64);
}

fn call(operation: u64, parameter: u64) {
    TRYING.store(true, Ordering::Relaxed);
    // SAFETY: the parameter is what the operation wants; the handler, if it comes to that, changes
    // only what a call may.
    unsafe {
        asm!("hlt #0xf000", inout("x0") operation => _, inout("x1") parameter => _, clobber_abi("C"));
    }
    TRYING.store(false, Ordering::Relaxed);
}

/// Whether the undefined instruction at `pc` is a call being tried.
pub(super) fn probed(pc: usize) -> bool {
    // SAFETY: the CPU has just fetched it from there.
    TRYING.load(Ordering::Relaxed) && unsafe { (pc as *const u32).read() } == HLT_F000
}

//! The end: faults and aborts are reported and the machine stops with a status that is not zero.
//!
//! Rust panics arrive here too: `std` prints the message on standard error and calls `sys_abort`.
//! Addresses are printed as the linker knows them; `addr2line -e IMAGE` and the project's tools turn them into lines.

use core::fmt;
use core::sync::atomic::{AtomicI32, AtomicU32, Ordering};

use crate::{arch, console, thread};

/// Status of an appliance that panicked or aborted: what a Rust program on Linux that panics in
/// `main` exits with.
pub const ABORTED: i32 = 101;

/// What a CPU exception told.
pub struct Fault<'a> {
    /// What it was, in words.
    pub kind: &'a str,
    /// The address accessed, if it was an access.
    pub address: Option<usize>,
    /// Where the instruction is.
    pub pc: usize,
    /// The frame pointer there, for the backtrace.
    pub frame: usize,
    /// All registers.
    pub registers: &'a dyn fmt::Debug,
}

/// What `panic=` asks for, as Linux has it: 0 stay, negative reset at once, positive reset after so many
/// seconds. `i32::MIN`: not given; then the machine ends (QEMU exits).
static POLICY: AtomicI32 = AtomicI32::new(i32::MIN);
/// How many reports have begun: a fault in a report must not report for ever.
static DEPTH: AtomicU32 = AtomicU32::new(0);

/// Sets what happens after a report.
pub fn set_policy(seconds: i32) {
    POLICY.store(seconds, Ordering::Relaxed);
}

/// Reports a CPU exception. Called by `arch` on an exception stack.
pub fn fault(fault: &Fault<'_>) -> ! {
    arch::interrupts_disable();
    match DEPTH.fetch_add(1, Ordering::Relaxed) {
        0 => {}
        1 => {
            console::print(format_args!("\nFAULT IN REPORT: {} at {:#x}\n", fault.kind, fault.pc));
            end();
        }
        _ => arch::shutdown(ABORTED),
    }
    console::print(format_args!("\nFAULT: {}", fault.kind));
    if let Some(address) = fault.address {
        console::print(format_args!(", address {address:#x}"));
        if thread::current_guard().is_some_and(|guard| guard.contains(&address)) {
            console::print(format_args!(" (this thread's stack overflowed)"));
        } else if address < 0x1000 {
            console::print(format_args!(" (null pointer)"));
        }
    }
    console::print(format_args!(", at {:#x}\n{:?}\n", fault.pc, fault.registers));
    backtrace(Some(fault.pc), fault.frame);
    end()
}

/// Ends the machine as `abort()` does: with a backtrace.
pub fn abort() -> ! {
    arch::interrupts_disable();
    if DEPTH.fetch_add(1, Ordering::Relaxed) == 0 {
        console::print(format_args!("\nABORTED\n"));
        backtrace(None, arch::frame_pointer());
    }
    end()
}

fn backtrace(pc: Option<usize>, frame: usize) {
    console::print(format_args!("backtrace:\n"));
    let line = |pc| console::print(format_args!("  {:#018x}\n", arch::link_address(pc)));
    pc.into_iter().for_each(line);
    arch::backtrace(frame, &mut |pc| line(pc));
}

fn end() -> ! {
    match POLICY.load(Ordering::Relaxed) {
        i32::MIN => arch::shutdown(ABORTED),
        0 => {
            console::print(format_args!("halted (panic=0)\n"));
            loop {
                arch::interrupts_disable();
                arch::halt();
            }
        }
        seconds => {
            if seconds > 0 {
                console::print(format_args!("resetting in {seconds} s\n"));
                let until = arch::monotonic_ns().saturating_add(seconds as u64 * 1_000_000_000);
                while arch::monotonic_ns() < until {
                    core::hint::spin_loop();
                }
            }
            arch::reboot()
        }
    }
}

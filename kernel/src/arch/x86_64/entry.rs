//! What interrupt and exception stubs call.

use core::fmt;

use x86_64::VirtAddr;
use x86_64::registers::control::Cr2;

use super::apic;
use crate::panic::{self, Fault};
use crate::{interrupt, preempt, thread};

core::arch::global_asm!(
    include_str!("entry.s"),
    interrupt = sym on_interrupt,
    exception = sym on_exception,
    preempt = sym on_preempt,
);

unsafe extern "C" {
    static entry_stubs: u8;
}

/// Address of a vector's stub.
pub fn stub(vector: u8) -> VirtAddr {
    let start = &raw const entry_stubs as u64;
    VirtAddr::new(start + 16 * u64::from(vector))
}

/// Returns whether the interrupted code is to give way.
extern "C" fn on_interrupt(vector: u64) -> bool {
    match vector as u8 {
        apic::TIMER => {
            interrupt::timer_fired();
            apic::end_of_interrupt();
        }
        // Not acknowledged, by the manual.
        apic::SPURIOUS => {}
        vector => {
            interrupt::dispatch(u32::from(vector - apic::FIRST));
            apic::end_of_interrupt();
        }
    }
    preempt::wanted()
}

extern "C" fn on_preempt() {
    thread::preempt();
}

/// As pushed by `exception_common` and the CPU.
#[repr(C)]
struct Registers {
    r15: u64,
    r14: u64,
    r13: u64,
    r12: u64,
    r11: u64,
    r10: u64,
    r9: u64,
    r8: u64,
    rbp: u64,
    rdi: u64,
    rsi: u64,
    rdx: u64,
    rcx: u64,
    rbx: u64,
    rax: u64,
    vector: u64,
    error: u64,
    rip: u64,
    cs: u64,
    rflags: u64,
    rsp: u64,
    ss: u64,
}

impl fmt::Debug for Registers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let list = [
            ("rax", self.rax),
            ("rbx", self.rbx),
            ("rcx", self.rcx),
            ("rdx", self.rdx),
            ("rsi", self.rsi),
            ("rdi", self.rdi),
            ("rbp", self.rbp),
            ("rsp", self.rsp),
            ("r8 ", self.r8),
            ("r9 ", self.r9),
            ("r10", self.r10),
            ("r11", self.r11),
            ("r12", self.r12),
            ("r13", self.r13),
            ("r14", self.r14),
            ("r15", self.r15),
            ("rip", self.rip),
            ("flg", self.rflags),
            ("err", self.error),
        ];
        for (index, (name, value)) in list.iter().enumerate() {
            let end = if index % 4 == 3 || index + 1 == list.len() { "\n" } else { " " };
            write!(f, "{name} {value:016x}{end}")?;
        }
        Ok(())
    }
}

const NAMES: [&str; 20] = [
    "divide error",
    "debug exception",
    "non-maskable interrupt",
    "breakpoint",
    "overflow",
    "bound range exceeded",
    "invalid opcode",
    "device not available",
    "double fault",
    "coprocessor segment overrun",
    "invalid TSS",
    "segment not present",
    "stack segment fault",
    "general protection fault",
    "page fault",
    "reserved exception",
    "x87 floating-point exception",
    "alignment check",
    "machine check",
    "SIMD floating-point exception",
];

const PAGE_FAULT: u64 = 14;

extern "C" fn on_exception(registers: &Registers) -> ! {
    let kind = match (registers.vector, registers.error) {
        // Error code of a page fault: bit 0 protection, 1 write, 4 instruction fetch.
        (PAGE_FAULT, error) => match (error & 1 != 0, error & 2 != 0, error & 16 != 0) {
            (false, _, true) => "page fault: jump to an unmapped address",
            (true, _, true) => "page fault: execution of data",
            (false, true, _) => "page fault: write to an unmapped address",
            (true, true, _) => "page fault: write to read-only memory",
            (false, false, _) => "page fault: read of an unmapped address",
            (true, false, _) => "page fault: read not allowed",
        },
        (vector, _) => NAMES.get(vector as usize).copied().unwrap_or("reserved exception"),
    };
    let address = (registers.vector == PAGE_FAULT).then(|| Cr2::read_raw() as usize);
    panic::fault(&Fault {
        kind,
        address,
        pc: registers.rip as usize,
        frame: registers.rbp as usize,
        registers,
    })
}

//! Interrupt controllers: the local APIC (x2APIC where there is one) and the IOAPICs; the old PICs are
//! silenced. Sections are of Intel's manual, volume 3, chapter 12 (2024), and the 82093AA data sheet.

use core::arch::x86_64::__cpuid;
use core::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering};

use x86_64::instructions::port::Port;
use x86_64::registers::model_specific::Msr;

use super::{clock, paging};
use crate::arch::{Msi, Trigger};

/// Vector of line 0: the first that is not an exception's.
pub const FIRST: u8 = 0x20;
/// Vector of the local APIC's timer.
pub const TIMER: u8 = 0xf0;
/// Vector of spurious interrupts; the low four bits have to be ones on old parts.
pub const SPURIOUS: u8 = 0xff;
/// Lines: first the IOAPIC inputs, then message-signalled interrupts, one vector each.
pub const LINES: usize = (TIMER - FIRST) as usize;
/// IOAPIC inputs (GSIs) that can be used.
const INPUTS: u32 = 64;

// Local APIC registers, as offsets in the memory-mapped block; an x2APIC has them as MSRs.
const ID: u32 = 0x20;
const TASK_PRIORITY: u32 = 0x80;
const END_OF_INTERRUPT: u32 = 0xb0;
const SPURIOUS_VECTOR: u32 = 0xf0;
const TIMER_ENTRY: u32 = 0x320;
const INITIAL_COUNT: u32 = 0x380;
const CURRENT_COUNT: u32 = 0x390;
const DIVIDE: u32 = 0x3e0;

const ENABLE: u32 = 1 << 8;
const ENTRY_MASKED: u32 = 1 << 16;
const DIVIDE_BY_16: u32 = 3;

/// Where IOAPICs are by convention; QEMU's microvm has a second. Asked for their version before use.
const IOAPICS: [u64; 2] = [0xfec0_0000, 0xfec1_0000];
const LOCAL: u64 = 0xfee0_0000;
const APIC_BASE: u32 = 0x1b;

static X2APIC: AtomicBool = AtomicBool::new(false);
/// First input and number of inputs of each IOAPIC.
static FIRST_INPUT: [AtomicU32; 2] = [const { AtomicU32::new(0) }; 2];
static INPUT_COUNT: [AtomicU32; 2] = [const { AtomicU32::new(0) }; 2];
static NEXT_MSI: AtomicUsize = AtomicUsize::new(INPUTS as usize);

fn read(register: u32) -> u32 {
    if X2APIC.load(Ordering::Relaxed) {
        // SAFETY: an x2APIC register that exists; reading has no effect on memory.
        unsafe { Msr::new(0x800 + register / 16).read() as u32 }
    } else {
        // SAFETY: mapped by `initialize`.
        unsafe { ((LOCAL + u64::from(register)) as *const u32).read_volatile() }
    }
}

fn write(register: u32, value: u32) {
    if X2APIC.load(Ordering::Relaxed) {
        // SAFETY: the registers written here affect interrupts only, which the tables are ready for.
        unsafe { Msr::new(0x800 + register / 16).write(u64::from(value)) }
    } else {
        // SAFETY: mapped by `initialize`.
        unsafe { ((LOCAL + u64::from(register)) as *mut u32).write_volatile(value) }
    }
}

/// Turns the local APIC on and the PICs off, and finds the IOAPICs.
pub fn initialize() {
    // SAFETY: masks all inputs of both 8259As: OCW1.
    unsafe {
        Port::<u8>::new(0x21).write(0xff);
        Port::<u8>::new(0xa1).write(0xff);
    }
    // CPUID 1, ECX bit 21. [12.12.1]: bits 10 and 11 of the base MSR.
    if __cpuid(1).ecx & 1 << 21 != 0 {
        // SAFETY: enables x2APIC mode, which the CPU has.
        unsafe {
            let mut base = Msr::new(APIC_BASE);
            let value = base.read();
            base.write(value | 0xc00);
        }
        X2APIC.store(true, Ordering::Relaxed);
    } else if paging::map_device(LOCAL, 4096).is_err() {
        crate::boot::give_up(format_args!("no memory to map the local APIC"));
    }
    write(TASK_PRIORITY, 0);
    write(SPURIOUS_VECTOR, ENABLE | u32::from(SPURIOUS));
    write(DIVIDE, DIVIDE_BY_16);
    write(TIMER_ENTRY, ENTRY_MASKED | u32::from(TIMER));

    let mut input = 0;
    for (index, base) in IOAPICS.iter().enumerate() {
        if paging::map_device(*base, 4096).is_err() {
            continue;
        }
        // Register 1: version in the low byte, highest input in bits 16 to 23. [82093AA 3.2.2]
        let version = io_read(index, 1);
        if version == 0 || version == u32::MAX {
            continue;
        }
        let count = (version >> 16 & 0xff) + 1;
        FIRST_INPUT[index].store(input, Ordering::Relaxed);
        INPUT_COUNT[index].store(count.min(INPUTS - input), Ordering::Relaxed);
        input = (input + count).min(INPUTS);
    }
}

fn io_read(ioapic: usize, register: u32) -> u32 {
    let base = IOAPICS[ioapic] as *mut u32;
    // SAFETY: mapped by `initialize`; IOREGSEL, then IOWIN 16 bytes on.
    unsafe {
        base.write_volatile(register);
        base.add(4).read_volatile()
    }
}

fn io_write(ioapic: usize, register: u32, value: u32) {
    let base = IOAPICS[ioapic] as *mut u32;
    // SAFETY: as in `io_read`.
    unsafe {
        base.write_volatile(register);
        base.add(4).write_volatile(value);
    }
}

/// The IOAPIC and its input that a line is, if it is one.
fn input_of(line: u32) -> Option<(usize, u32)> {
    (0..IOAPICS.len()).find_map(|index| {
        let first = FIRST_INPUT[index].load(Ordering::Relaxed);
        let count = INPUT_COUNT[index].load(Ordering::Relaxed);
        (first..first + count).contains(&line).then(|| (index, line - first))
    })
}

/// Routes an IOAPIC input to this CPU and unmasks it. Nothing to do for a message-signalled line.
pub fn irq_enable(line: u32, trigger: Trigger) {
    let Some((ioapic, input)) = input_of(line) else { return };
    let mode = match trigger {
        Trigger::Edge => 0,
        Trigger::Level => 1 << 15,
        Trigger::LevelLow => 1 << 15 | 1 << 13,
        Trigger::FallingEdge => 1 << 13,
    };
    io_write(ioapic, 0x11 + 2 * input, local_id() << 24);
    io_write(ioapic, 0x10 + 2 * input, mode | (line + u32::from(FIRST)));
}

/// Masks a line. Message-signalled ones are masked at the device.
pub fn irq_mask(line: u32) {
    set_mask(line, ENTRY_MASKED);
}

/// Unmasks a line.
pub fn irq_unmask(line: u32) {
    set_mask(line, 0);
}

fn set_mask(line: u32, mask: u32) {
    if let Some((ioapic, input)) = input_of(line) {
        let register = 0x10 + 2 * input;
        let entry = io_read(ioapic, register) & !ENTRY_MASKED;
        io_write(ioapic, register, entry | mask);
    }
}

fn local_id() -> u32 {
    let id = read(ID);
    if X2APIC.load(Ordering::Relaxed) { id & 0xff } else { id >> 24 }
}

/// A vector for a message-signalled interrupt. [12.11]
pub fn msi_allocate() -> Option<Msi> {
    let line = NEXT_MSI.load(Ordering::Relaxed);
    if line >= LINES {
        return None;
    }
    NEXT_MSI.store(line + 1, Ordering::Relaxed);
    Some(Msi {
        line: line as u32,
        address: LOCAL | u64::from(local_id()) << 12,
        data: line as u32 + u32::from(FIRST),
    })
}

/// Acknowledges the interrupt being handled.
pub fn end_of_interrupt() {
    write(END_OF_INTERRUPT, 0);
}

/// Sets the one-shot timer to a [`clock::monotonic_ns`] time. Fires early if it is farther off than the
/// counter reaches (34 s at 2 GHz).
pub fn set_timer(deadline_ns: Option<u64>) {
    match deadline_ns.filter(|at| *at != u64::MAX) {
        None => write(INITIAL_COUNT, 0),
        Some(at) => {
            clock::refine();
            let ticks = clock::timer_ticks(at.saturating_sub(clock::monotonic_ns()));
            write(TIMER_ENTRY, u32::from(TIMER));
            write(INITIAL_COUNT, ticks);
        }
    }
}

/// Starts the timer's counter from its highest value, silently, to be measured.
pub fn start_counting() {
    write(INITIAL_COUNT, u32::MAX);
}

/// How far it has counted.
pub fn counted() -> u32 {
    u32::MAX - read(CURRENT_COUNT)
}

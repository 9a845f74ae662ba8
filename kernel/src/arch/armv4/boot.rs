//! From the loader's jump to [`crate::start::start`].
//!
//! The image is a zImage: whatever starts Linux on ARM starts it, QEMU's `-kernel`, RedBoot and U-Boot's `go` and `bootm`
//! among them, at any address. It is linked at one near the beginning of RAM and copies itself there, header and all.
//! A device tree appended to the file is used before one in r2. Nothing is compiled in about the machine but that RAM is
//! at 0.
//!
//! Steps: mask everything; MMU and data cache off if a loader left them on; copy; clear `.bss`; then, in Rust with the MMU
//! still off, read the device tree, build the tables, turn MMU and caches on, start interrupt controller and timer.
//! Compiled code for this target makes no unaligned access, so it runs without the MMU.
//!
//! Sources: [BOOT] Linux `Documentation/arch/arm/booting.rst`; [ZI] what `arch/arm/boot/compressed/head.S` of Linux
//! begins with; [FA] docs/hardware/gemini.md 1.3; [ARM] DDI 0100I.

use core::arch::global_asm;
use core::ops::Range;

use super::paging::PAGE;
use super::{console, interrupts, power, ram, rtc, timer};
use crate::boot::{BootInformation, give_up};
use crate::fdt::{self, armv4, machine};

/// The boot stack becomes the idle thread's.
const BOOT_STACK: usize = 32 * 1024;
/// Interrupts mark and return.
const INTERRUPT_STACK: usize = 8 * 1024;
/// Formatting a panic is the deepest use.
const FAULT_STACK: usize = 16 * 1024;
/// Loaders put the tree below 2 MiB.
const LARGEST_TREE: usize = 2 << 20;

global_asm!(
    ".pushsection .head.text, \"ax\", %progbits",
    ".global _start",
    "_start:",
    "    .rept 8",
    "    mov r0, r0",            // some loaders enter a few words late
    "    .endr",
    "    b 1f",
    "    .long 0x016f2818",      // magic number [ZI]
    "    .long 0",               // first address: anywhere
    "    .long __file_size",     // the address behind the end
    "    .long 0x04030201",      // byte order
    "    .long 0, 0, 0",
    "1:  mov r9, r2",            // tree, perhaps
    "    msr cpsr_c, #0xd3",     // supervisor mode, all masked
    "    adr r10, _start",       // where we are
    "    mrc p15, 0, r0, c1, c0, 0",
    "    tst r0, #5",
    "    beq 3f",
    // MMU or data cache on: what is dirty goes to memory. Cores other than an FA526 have no operation for all of the
    // cache, but write a line back when another takes its place: 64 KiB of our image and beyond are more than any has.
    "    mrc p15, 0, r1, c0, c0, 0",
    "    ldr r2, =0xff01fff1",
    "    and r1, r1, r2",
    "    ldr r2, =0x66015261",
    "    cmp r1, r2",
    "    mov r1, #0",
    "    mcreq p15, 0, r1, c7, c14, 0",
    "    beq 21f",
    "    mov r2, #0x10000",
    "2:  subs r2, r2, #16",
    "    ldr r3, [r10, r2]",
    "    bne 2b",
    "21: mcr p15, 0, r1, c7, c10, 4",
    "    bic r0, r0, #0x000f",   // MMU, alignment faults, data cache, write buffer
    "    bic r0, r0, #0x3900",   // S, branch target buffer, instruction cache, high vectors
    "    mcr p15, 0, r0, c1, c0, 0",
    "    mov r0, r0",
    "    mov r0, r0",
    // Copy, if we are not where we are linked. What a loader appended stays where it is.
    "3:  ldr r4, =_start",
    "    ldr r5, =__file_size",
    "    add r8, r10, r5",       // behind the file: a tree, perhaps
    "    cmp r10, r4",
    "    beq 5f",
    "    mov r0, r10",
    "    mov r1, r4",
    "    add r2, r4, r5",
    "4:  ldmia r0!, {{r3, r6, r7, r12}}",
    "    stmia r1!, {{r3, r6, r7, r12}}",
    "    cmp r1, r2",
    "    blo 4b",
    // Caches hold nothing of it, whatever they held before.
    "5:  mov r1, #0",
    "    mcr p15, 0, r1, c7, c10, 4",
    "    mcr p15, 0, r1, c7, c7, 0",
    "    mcr p15, 0, r1, c8, c7, 0",
    "    mov r0, r0",
    "    mov r0, r0",
    "    ldr pc, =at_home",
    // Where we are linked. A tree behind the file takes precedence; it lies where .bss will be if we were not moved.
    "at_home:",
    "    ldr r0, [r8]",
    "    ldr r1, =0xedfe0dd0",   // 0xd00dfeed, big-endian
    "    cmp r0, r1",
    "    bne 8f",
    "    mov r9, r8",
    "    ldr r2, =__image_end",
    "    cmp r8, r2",
    "    bhs 8f",
    "    ldr r0, [r8, #4]",      // its length, big-endian
    "    and r1, r0, #0xff00",
    "    and r3, r0, #0xff0000",
    "    mov r4, r0, lsr #24",
    "    orr r4, r4, r0, lsl #24",
    "    orr r4, r4, r1, lsl #8",
    "    orr r4, r4, r3, lsr #8",
    "    add r4, r4, #3",
    "    bic r4, r4, #3",
    "    cmp r4, #{largest_tree}",
    "    bhi 8f",
    "    mov r9, r2",
    "7:  subs r4, r4, #4",       // from its end: it may reach beyond __image_end
    "    ldr r0, [r8, r4]",
    "    str r0, [r9, r4]",
    "    bne 7b",
    "8:  ldr r0, =__bss_start",
    "    ldr r1, =__bss_end",
    "    mov r2, #0",
    "9:  cmp r0, r1",
    "    strlo r2, [r0], #4",
    "    blo 9b",
    // A stack for each mode that something can happen in. [ARM A2.2]
    "    msr cpsr_c, #0xd2",
    "    ldr sp, =interrupt_stack_end",
    "    msr cpsr_c, #0xd7",
    "    ldr sp, =fault_stack_end",
    "    msr cpsr_c, #0xdb",
    "    ldr sp, =fault_stack_end",
    "    msr cpsr_c, #0xd1",
    "    ldr sp, =fault_stack_end",
    "    msr cpsr_c, #0xd3",
    "    ldr sp, =boot_stack_end",
    "    mov r0, r9",
    "    mov r11, #0",
    "    mov lr, #0",
    "    ldr pc, ={main}",
    "    .ltorg",
    ".popsection",
    ".pushsection .noinit, \"aw\", %nobits",
    ".balign 4096",
    "boot_stack_guard: .skip 4096",
    "    .skip {boot_stack}",
    "boot_stack_end:",
    "interrupt_stack_guard: .skip 4096",
    "    .skip {interrupt_stack}",
    "interrupt_stack_end:",
    "    .skip {fault_stack}",
    "fault_stack_end:",
    "    .skip 4096",
    ".global emergency_stack_end",
    "emergency_stack_end:",
    ".popsection",
    main = sym main,
    largest_tree = const LARGEST_TREE,
    boot_stack = const BOOT_STACK,
    interrupt_stack = const INTERRUPT_STACK,
    fault_stack = const FAULT_STACK,
);

unsafe extern "C" {
    static boot_stack_guard: u8;
    static interrupt_stack_guard: u8;
}

/// The unmapped pages below the boot stack and the interrupt stack.
pub(super) fn stack_guards() -> [Range<usize>; 2] {
    let guards = [&raw const boot_stack_guard, &raw const interrupt_stack_guard];
    guards.map(|guard| guard as usize..guard as usize + PAGE)
}

/// The first Rust code: MMU off, `.bss` clear, interrupts masked.
extern "C" fn main(tree: *const u8) -> ! {
    // SAFETY: the loader promises a tree or nothing.
    let tree_found = unsafe { fdt::open(tree, LARGEST_TREE) };
    let Some(found) = tree_found else {
        power::no_device_tree();
    };
    let machine = machine::read(found);
    let soc = armv4::read(found);
    if let Some(uart) = &machine.console {
        console::init(uart);
    }
    super::cache::init();

    let tree = tree as u64..tree as u64 + found.data().len() as u64;
    let memory = ram::set_up(&machine, tree.clone());
    if let Some(uart) = &machine.console {
        console::map(uart);
    }
    if let Some(system) = &soc.system {
        power::init(system);
    }
    match &soc.controller {
        Some(controller) => {
            if let Err(why) = interrupts::init(controller) {
                give_up(format_args!("interrupt controller: {why}"));
            }
        }
        None => give_up(format_args!("no interrupt controller in the device tree")),
    }
    match &soc.timer {
        Some(description) => {
            if let Err(why) = timer::init(description) {
                give_up(format_args!("timer: {why}"));
            }
        }
        None => give_up(format_args!("no timer in the device tree")),
    }
    if let Some(clock) = &machine.rtc {
        rtc::init(clock);
    }
    for range in &memory {
        // SAFETY: RAM that is neither image, tree, RAM disk, table nor reserved; mapped read-write.
        unsafe { crate::memory::donate(range.start as usize..range.end as usize) };
    }
    crate::start::start(BootInformation {
        command_line: machine.arguments,
        fdt: Some(tree.start as *const u8),
        initrd: machine.initrd_bytes(),
        memory_bytes: machine.memory.iter().map(|range| range.end - range.start).sum(),
    })
}

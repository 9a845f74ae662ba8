//! From the loader's jump to [`crate::start::start`].
//!
//! The image begins with the header that Linux's arm64 `Image` has, so whatever starts Linux starts
//! it: QEMU's `-kernel`, U-Boot's `booti`, a FIT. It is linked at address zero as a static
//! position-independent executable and relocates itself, so it runs at any page-aligned address that
//! the loader likes; nothing is compiled in about the machine.
//!
//! Steps: mask everything; leave EL2 if that is where we are; map everything at its own address with
//! 1 GiB blocks, the image's and the device tree's as normal memory and the rest as device memory;
//! turn on MMU and caches; clear `.bss`, relocate, load the vectors; then, in Rust, read the device
//! tree, build the final tables, start the interrupt controller and the timer.
//!
//! Sources: [BOOT] Linux `Documentation/arch/arm64/booting.rst`; [ARM] as in `paging.rs`.

use core::arch::global_asm;
use core::ops::Range;

use super::paging::PAGE;
use super::{console, exceptions, gic, power, ram, relocate, rtc, timer};
use crate::boot::{BootInformation, give_up};
use crate::fdt::{self, machine};

/// The boot stack becomes the idle thread's.
const BOOT_STACK: usize = 64 * 1024;
/// Interrupts and faults; formatting a panic is the deepest use.
const INTERRUPT_STACK: usize = 32 * 1024;
/// Loaders put the tree below 2 MiB, QEMU's says 1 MiB. [BOOT]
const LARGEST_TREE: usize = 2 << 20;

global_asm!(
    ".pushsection .head.text, \"ax\", %progbits",
    ".global _start",
    "_start:",
    "    b 1f",
    "    .long 0",
    "    .quad 0",               // text_offset: from a 2 MiB boundary
    "    .quad __image_size",    // with .bss and stacks
    "    .quad 0b1010",          // little-endian, 4 KiB pages, anywhere in memory
    "    .quad 0, 0, 0",
    "    .ascii \"ARM\\x64\"",
    "    .long 0",
    "1:  msr daifset, #15",
    "    mov x20, x0",           // device tree
    "    adr x21, _start",       // where we are, which is also the relocation offset
    "    mrs x9, CurrentEL",
    "    cmp x9, #(2 << 2)",
    "    b.eq 3f",
    "    b.hi 9f",               // EL3 has firmware to do first; nothing boots a kernel there
    // EL1, perhaps with the MMU on (a loader that forgot): all of the image must be in memory then.
    "    mrs x9, sctlr_el1",
    "    tbz x9, #0, 5f",
    "    bl 8f",
    "    mrs x9, sctlr_el1",
    "    bic x9, x9, #1",        // MMU off, data cache off
    "    bic x9, x9, #4",
    "    msr sctlr_el1, x9",
    "    isb",
    "    b 5f",
    // EL2: the same, then give EL1 everything and go there.
    "3:  mrs x9, sctlr_el2",
    "    tbz x9, #0, 4f",
    "    bl 8f",
    "    mrs x9, sctlr_el2",
    "    bic x9, x9, #1",        // MMU off, data cache off
    "    bic x9, x9, #4",
    "    msr sctlr_el2, x9",
    "    isb",
    "4:  mov x9, #(1 << 31)",    // HCR_EL2.RW: EL1 is 64-bit; nothing trapped, no second stage
    "    msr hcr_el2, x9",
    "    isb",
    "    mrs x9, cnthctl_el2",   // EL1 may use counter and physical timer
    "    orr x9, x9, #3",
    "    msr cnthctl_el2, x9",
    "    msr cntvoff_el2, xzr",
    "    mov x9, #0x33ff",       // CPTR_EL2: no trap; the ones are reserved as one
    "    msr cptr_el2, x9",
    "    msr hstr_el2, xzr",
    "    msr mdcr_el2, xzr",
    "    msr vttbr_el2, xzr",
    "    mrs x9, midr_el1",
    "    msr vpidr_el2, x9",
    "    mrs x9, mpidr_el1",
    "    msr vmpidr_el2, x9",
    "    mrs x9, id_aa64pfr0_el1",
    "    ubfx x9, x9, #24, #4",  // the GIC's system registers, if there are any
    "    cbz x9, 41f",
    "    mrs x9, S3_4_C12_C9_5", // ICC_SRE_EL2: SRE, and Enable for EL1
    "    orr x9, x9, #1",
    "    orr x9, x9, #8",
    "    msr S3_4_C12_C9_5, x9",
    "    isb",
    "    msr S3_4_C12_C11_0, xzr", // ICH_HCR_EL2: no virtual interrupts
    "41: ldr w9, =0x30d00800",   // SCTLR_EL1: only what is reserved as one
    "    msr sctlr_el1, x9",
    "    mov x9, #0x3c4",        // SPSR: masked, EL1 with SP_EL0
    "    msr spsr_el2, x9",
    "    adr x9, 5f",
    "    msr elr_el2, x9",
    "    eret",
    // EL1, MMU off. Two tables: the first 512 GiB in 1 GiB blocks.
    "5:  ldr w9, =0x30d01800",   // instruction cache on
    "    msr sctlr_el1, x9",
    "    isb",
    "    mrs x19, cntvct_el0",
    "    lsr x9, x21, #39",
    "    cbnz x9, 9f",
    "    adrp x22, early_tables",
    "    add x22, x22, :lo12:early_tables",
    "    mov x0, x22",
    "    add x1, x22, #8192",
    "    bl 81f",                // nothing dirty may be written back over what is stored now
    "    add x9, x22, #4096",
    "    orr x10, x9, #3",
    "    str x10, [x22]",
    "    mov x10, #511",
    "    add x11, x22, #8",
    "51: str xzr, [x11], #8",
    "    subs x10, x10, #1",
    "    b.ne 51b",
    "    ldr x10, =0x0060000000000401", // block, accessed, device, never executable
    "    mov x11, #512",
    "    mov x12, x9",
    "    mov x13, #(1 << 30)",
    "52: str x10, [x12], #8",
    "    add x10, x10, x13",
    "    subs x11, x11, #1",
    "    b.ne 52b",
    "    adrp x14, __image_end",
    "    mov x11, x21",
    "    bl 7f",
    "    sub x11, x14, #1",
    "    bl 7f",
    "    mov x11, x20",
    "    bl 7f",
    "    add x11, x20, #0x200000",
    "    bl 7f",
    "    dmb sy",
    "    mov x0, x22",
    "    add x1, x22, #8192",
    "    bl 82f",
    "    ldr x9, ={attributes}",
    "    msr mair_el1, x9",
    // 48 bits from TTBR0, walks cached and inner shareable, 4 KiB granule, nothing from TTBR1.
    "    ldr x9, =(16 | 1 << 8 | 1 << 10 | 3 << 12 | 1 << 23)",
    "    mrs x10, id_aa64mmfr0_el1",
    "    and x10, x10, #15",
    "    mov x11, #5",
    "    cmp x10, x11",
    "    csel x10, x10, x11, lo",
    "    bfi x9, x10, #32, #3",
    "    msr tcr_el1, x9",
    "    msr ttbr0_el1, x22",
    "    isb",
    "    tlbi vmalle1",
    "    ic iallu",
    "    dsb sy",
    "    isb",
    "    ldr w9, =0x30d0180d",   // and MMU, data cache, stack alignment check
    "    msr sctlr_el1, x9",
    "    isb",
    "    mov x9, #(3 << 20)",    // CPACR: vectors and floating point
    "    msr cpacr_el1, x9",
    "    msr spsel, #1",
    "    adrp x9, interrupt_stack_end",
    "    mov sp, x9",
    "    msr spsel, #0",
    "    adrp x9, boot_stack_end",
    "    mov sp, x9",
    "    msr tpidr_el0, xzr",
    "    isb",
    "    adrp x0, __bss_start",
    "    add x0, x0, :lo12:__bss_start",
    "    adrp x2, __bss_end",
    "    add x2, x2, :lo12:__bss_end",
    "    sub x2, x2, x0",
    "    mov w1, wzr",
    "    bl memset",
    "    mov x29, xzr",
    "    mov x0, x21",
    "    adrp x1, __relr_start",
    "    add x1, x1, :lo12:__relr_start",
    "    adrp x2, __relr_end",
    "    add x2, x2, :lo12:__relr_end",
    "    bl {relocate}",
    "    adrp x9, {vectors}",
    "    add x9, x9, :lo12:{vectors}",
    "    msr vbar_el1, x9",
    "    isb",
    "    mov x0, x20",
    "    mov x1, x19",
    "    mov x30, xzr",
    "    b {main}",
    // Makes the gigabyte of x11 normal memory, executable. x9: second table.
    "7:  lsr x12, x11, #30",
    "    cmp x12, #512",
    "    b.hs 71f",
    "    ldr x13, =0x0040000000000705",
    "    orr x13, x13, x12, lsl #30",
    "    str x13, [x9, x12, lsl #3]",
    "71: ret",
    // Cleans and invalidates the image; then, or from 81 on, what lies in x0..x1.
    "8:  mov x0, x21",
    "    adrp x1, __image_end",
    "81: mrs x2, ctr_el0",
    "    ubfx x2, x2, #16, #4",  // the smallest data cache line, as a power of words
    "    mov x3, #4",
    "    lsl x2, x3, x2",
    "83: dc civac, x0",
    "    add x0, x0, x2",
    "    cmp x0, x1",
    "    b.lo 83b",
    "    dsb sy",
    "    ret",
    // Invalidates x0..x1.
    "82: mrs x2, ctr_el0",
    "    ubfx x2, x2, #16, #4",
    "    mov x3, #4",
    "    lsl x2, x3, x2",
    "84: dc ivac, x0",
    "    add x0, x0, x2",
    "    cmp x0, x1",
    "    b.lo 84b",
    "    dsb sy",
    "    ret",
    "9:  wfe",
    "    b 9b",
    "    .ltorg",
    ".popsection",
    ".pushsection .noinit, \"aw\", %nobits",
    ".balign 4096",
    "early_tables: .skip 8192",
    "boot_stack_guard: .skip 4096",
    "    .skip {boot_stack}",
    "boot_stack_end:",
    "interrupt_stack_guard: .skip 4096",
    "    .skip {interrupt_stack}",
    "interrupt_stack_end:",
    "    .skip 4096",
    "emergency_stack_end:",
    ".popsection",
    attributes = const super::paging::MEMORY_ATTRIBUTES,
    relocate = sym relocate::relocate_image,
    vectors = sym exceptions::vectors,
    main = sym main,
    boot_stack = const BOOT_STACK,
    interrupt_stack = const INTERRUPT_STACK,
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

/// The first Rust code: MMU on with the early map, `.bss` clear, relocated, interrupts masked.
extern "C" fn main(tree: *const u8, start: u64) -> ! {
    timer::init_clock(start);
    // SAFETY: the loader promises a tree or nothing; the early map has 2 MiB of it as memory.
    let tree_found = unsafe { fdt::open(tree, LARGEST_TREE) };
    let Some(found) = tree_found else {
        power::no_device_tree();
    };
    let machine = machine::read(found);
    if let Some(uart) = &machine.console {
        // The early map has all devices below 512 GiB.
        console::init(uart);
    }
    power::init(machine.psci);
    super::cache::init();
    super::random::init();

    let tree = tree as u64..tree as u64 + found.data().len() as u64;
    let memory = ram::set_up(&machine, tree.clone());
    if let Some(uart) = &machine.console {
        console::map(uart);
    }
    if let Some(clock) = &machine.rtc {
        rtc::init(clock);
    }
    match &machine.gic {
        Some(description) => {
            if let Err(why) = gic::init(description) {
                give_up(format_args!("interrupt controller: {why}"));
            }
        }
        None => give_up(format_args!("no GIC in the device tree")),
    }
    timer::init_interrupt(machine.timer.map(|interrupt| interrupt.line));

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

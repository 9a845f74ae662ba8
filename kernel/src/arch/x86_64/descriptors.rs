//! Segments, the task state segment with its interrupt stacks, and the interrupt table.
//!
//! Every handler has a stack of its own: code here is built with a red zone, so nothing may be pushed on
//! the interrupted stack.

use core::cell::UnsafeCell;

use x86_64::VirtAddr;
use x86_64::instructions::segmentation::{CS, Segment};
use x86_64::instructions::tables::load_tss;
use x86_64::structures::gdt::{Descriptor, GlobalDescriptorTable, SegmentSelector};
use x86_64::structures::idt::InterruptDescriptorTable;
use x86_64::structures::tss::TaskStateSegment;

use super::entry;

/// Interrupt stack of device interrupts: handlers only mark, so they nest nothing.
const INTERRUPTS: u16 = 0;
/// Of exceptions, whose report formats text.
const EXCEPTIONS: u16 = 1;
/// Of the double fault, and of what comes while another exception is being reported.
const LAST: u16 = 2;

const INTERRUPT_STACK: usize = 8 * 1024;
const EXCEPTION_STACK: usize = 16 * 1024;

#[repr(C, align(16))]
struct Stack<const N: usize>(UnsafeCell<[u8; N]>);

// SAFETY: only the CPU uses them, as stacks, one entry at a time.
unsafe impl<const N: usize> Sync for Stack<N> {}

impl<const N: usize> Stack<N> {
    const fn new() -> Self {
        Stack(UnsafeCell::new([0; N]))
    }

    fn top(&self) -> VirtAddr {
        VirtAddr::new(self.0.get() as u64 + N as u64)
    }
}

static INTERRUPT: Stack<INTERRUPT_STACK> = Stack::new();
static EXCEPTION: Stack<EXCEPTION_STACK> = Stack::new();
static DOUBLE: Stack<EXCEPTION_STACK> = Stack::new();

/// A table the CPU reads; written once, before it is loaded.
struct Table<T>(UnsafeCell<T>);

// SAFETY: only `initialize` reaches it, once, on the boot path.
unsafe impl<T> Sync for Table<T> {}

static GDT: Table<GlobalDescriptorTable> = Table(UnsafeCell::new(GlobalDescriptorTable::new()));
static TSS: Table<TaskStateSegment> = Table(UnsafeCell::new(TaskStateSegment::new()));
static IDT: Table<InterruptDescriptorTable> =
    Table(UnsafeCell::new(InterruptDescriptorTable::new()));

/// Loads the tables. Called once, before anything can fault usefully.
pub fn initialize() {
    // SAFETY: called once on the boot path, so nothing else refers to these; they live for ever, as the
    // CPU needs. Handlers are the stubs of `entry`, which keep to the CPU's frame; stack indices are set.
    unsafe {
        let tss: &'static mut TaskStateSegment = &mut *TSS.0.get();
        tss.interrupt_stack_table[usize::from(INTERRUPTS)] = INTERRUPT.top();
        tss.interrupt_stack_table[usize::from(EXCEPTIONS)] = EXCEPTION.top();
        tss.interrupt_stack_table[usize::from(LAST)] = DOUBLE.top();

        let gdt: &'static mut GlobalDescriptorTable = &mut *GDT.0.get();
        let code = gdt.append(Descriptor::kernel_code_segment());
        let task = gdt.append(Descriptor::tss_segment(tss));
        gdt.load();
        CS::set_reg(code);
        load_tss(task);
        let idt: &'static mut InterruptDescriptorTable = &mut *IDT.0.get();
        install(idt, code);
        idt.load();
    }
}

/// # Safety
/// Only before the table is loaded.
unsafe fn install(idt: &mut InterruptDescriptorTable, code: SegmentSelector) {
    macro_rules! exception {
        ($($name:ident = $vector:expr, $stack:expr;)*) => {$(
            // SAFETY: the stub of this vector.
            unsafe {
                idt.$name
                    .set_handler_addr(entry::stub($vector))
                    .set_code_selector(code)
                    .set_stack_index($stack);
            }
        )*};
    }
    exception! {
        divide_error = 0, EXCEPTIONS;
        debug = 1, EXCEPTIONS;
        non_maskable_interrupt = 2, LAST;
        breakpoint = 3, EXCEPTIONS;
        overflow = 4, EXCEPTIONS;
        bound_range_exceeded = 5, EXCEPTIONS;
        invalid_opcode = 6, EXCEPTIONS;
        device_not_available = 7, EXCEPTIONS;
        double_fault = 8, LAST;
        invalid_tss = 10, EXCEPTIONS;
        segment_not_present = 11, EXCEPTIONS;
        stack_segment_fault = 12, EXCEPTIONS;
        general_protection_fault = 13, EXCEPTIONS;
        page_fault = 14, EXCEPTIONS;
        x87_floating_point = 16, EXCEPTIONS;
        alignment_check = 17, EXCEPTIONS;
        machine_check = 18, LAST;
        simd_floating_point = 19, EXCEPTIONS;
    }
    for vector in 32..=255u8 {
        // SAFETY: the stub of this vector.
        unsafe {
            idt[vector]
                .set_handler_addr(entry::stub(vector))
                .set_code_selector(code)
                .set_stack_index(INTERRUPTS);
        }
    }
}

//! Ending the machine.

use x86_64::instructions::port::Port;

/// Port of QEMU's `isa-debug-exit` device as the project's tools configure it.
const DEBUG_EXIT: u16 = 0xf4;

/// Ends the machine with a status. QEMU with `isa-debug-exit` exits with `status * 2 + 1`, of which the host
/// sees the low eight bits; a status that would read as success there is changed to 127.
pub fn shutdown(status: i32) -> ! {
    let code = if status != 0 && status & 0x7f == 0 { 127 } else { status & 0x7f };
    // SAFETY: a port nothing else listens on: without the device, nothing happens.
    unsafe { Port::<u32>::new(DEBUG_EXIT).write(code as u32) };
    // ACPI soft-off on QEMU's q35 and pc: PM1a control, SLP_EN, SLP_TYP 0. On other machines the port is free.
    // SAFETY: as above.
    unsafe { Port::<u16>::new(0x604).write(0x2000) };
    loop {
        super::interrupts_disable();
        super::halt();
    }
}

/// Resets the machine: by the reset control register of PCI chipsets, by the keyboard controller, by a triple
/// fault.
pub fn reboot() -> ! {
    super::interrupts_disable();
    // SAFETY: these reset the machine, which is what is wanted.
    unsafe {
        Port::<u8>::new(0xcf9).write(0x06);
        Port::<u8>::new(0x64).write(0xfe);
        let nothing =
            x86_64::structures::DescriptorTablePointer { limit: 0, base: x86_64::VirtAddr::zero() };
        x86_64::instructions::tables::lidt(&nothing);
        core::arch::asm!("ud2", options(noreturn));
    }
}

//! The first serial port: a 16550 at I/O port 3F8h, IRQ 4. Registers and bits as in National's PC16550D data
//! sheet. The speed is left as firmware set it; 115200 if it did not.

use x86_64::instructions::port::Port;

use crate::arch::Trigger;

const BASE: u16 = 0x3f8;
const DATA: u16 = BASE;
const INTERRUPT_ENABLE: u16 = BASE + 1;
const FIFO_CONTROL: u16 = BASE + 2;
const LINE_CONTROL: u16 = BASE + 3;
const MODEM_CONTROL: u16 = BASE + 4;
const LINE_STATUS: u16 = BASE + 5;

const DATA_READY: u8 = 1;
const TRANSMIT_EMPTY: u8 = 1 << 5;
const FIFO: usize = 16;
/// Status reads before a dead port is given up on; 16 characters at 9600 baud take 17 ms, a read 1 µs.
const PATIENCE: u32 = 50_000;

fn read(register: u16) -> u8 {
    // SAFETY: a register of the serial port; reading has no effect on memory.
    unsafe { Port::new(register).read() }
}

fn write(register: u16, value: u8) {
    // SAFETY: as above.
    unsafe { Port::new(register).write(value) }
}

/// Sets the port up: 8N1, FIFOs on, no interrupts.
pub fn initialize() {
    write(INTERRUPT_ENABLE, 0);
    write(LINE_CONTROL, 0x83);
    if read(DATA) == 0 && read(INTERRUPT_ENABLE) == 0 {
        write(DATA, 1);
    }
    write(LINE_CONTROL, 0x03);
    write(FIFO_CONTROL, 0x07);
    // DTR, RTS, and OUT2, which lets the interrupt out.
    write(MODEM_CONTROL, 0x0b);
}

/// Sends bytes as they are.
pub fn console_write(bytes: &[u8]) {
    for chunk in bytes.chunks(FIFO) {
        let mut tries = 0;
        while read(LINE_STATUS) & TRANSMIT_EMPTY == 0 && tries < PATIENCE {
            tries += 1;
        }
        // SAFETY: writes a slice to the port; `rep outsb` only reads memory.
        unsafe {
            core::arch::asm!(
                "rep outsb",
                in("dx") DATA,
                inout("rsi") chunk.as_ptr() => _,
                inout("rcx") chunk.len() => _,
                options(readonly, nostack, preserves_flags),
            );
        }
    }
}

/// A received byte.
pub fn console_read() -> Option<u8> {
    (read(LINE_STATUS) & DATA_READY != 0).then(|| read(DATA))
}

/// Enables the receive interrupt; its line. ISA: edge-triggered.
pub fn console_interrupt() -> Option<(u32, Trigger)> {
    write(INTERRUPT_ENABLE, 1);
    Some((4, Trigger::Edge))
}

//! The console: whichever UART the device tree's `stdout-path` names.
//!
//! The boot loader has set it up (speed, pins, clocks); here it is only read and written. Adding a
//! kind is a row in [`crate::fdt::machine::UARTS`] and an arm in each of the functions below.
//!
//! Sources: [PL011] Arm DDI 0183G; SCIF's and the 16550's are in their files; those two are
//! unverified on silicon.

use core::sync::atomic::{AtomicU8, AtomicU32, AtomicUsize, Ordering};

use super::mmio::{self, read8, read32, write8, write32};
use super::mmu;
use super::ns16550::{self, Ns16550};
use super::scif::{self, Scif};
use crate::arch::Trigger;
use crate::fdt::machine::{Uart, UartKind};

static BASE: AtomicUsize = AtomicUsize::new(0);
static KIND: AtomicU8 = AtomicU8::new(NONE);
/// Distance of registers as a power of two, and bytes an access has (16550).
static SHIFT: AtomicU8 = AtomicU8::new(0);
static WIDE: AtomicU8 = AtomicU8::new(0);
static LINE: AtomicU32 = AtomicU32::new(0);

const NONE: u8 = 0;
const PL011: u8 = 1;
const SCIF: u8 = 2;
const NS16550: u8 = 3;

/// Polls of a full transmitter before the character is dropped: at 9600 baud one leaves in a
/// millisecond, so this is generous, and a UART without a clock does not hang the machine.
const PATIENCE: usize = 1_000_000;

/// PL011 registers. [PL011 3.2]
mod pl011 {
    pub(super) const DR: usize = 0x00;
    pub(super) const FR: usize = 0x18;
    pub(super) const CR: usize = 0x30;
    pub(super) const IMSC: usize = 0x38;
    pub(super) const ICR: usize = 0x44;
    /// FR: receive FIFO empty, transmit FIFO full.
    pub(super) const RXFE: u32 = 1 << 4;
    pub(super) const TXFF: u32 = 1 << 5;
    /// CR: UART, transmitter, receiver on.
    pub(super) const ON: u32 = 1 << 0 | 1 << 8 | 1 << 9;
    /// IMSC: receive, receive time-out.
    pub(super) const RX: u32 = 1 << 4 | 1 << 6;
}

/// Makes the UART the console, at its physical address (mapped already).
pub(super) fn init(uart: &Uart) {
    let base = uart.registers.start as usize;
    let (kind, shift) = match uart.kind {
        UartKind::Pl011 => {
            write32(base, pl011::CR, read32(base, pl011::CR) | pl011::ON);
            (PL011, 0)
        }
        UartKind::Scif => (SCIF, 1),
        UartKind::ScifDense => (SCIF, 0),
        UartKind::Ns16550 => (NS16550, uart.shift as u8),
    };
    SHIFT.store(shift, Ordering::Relaxed);
    WIDE.store(u8::from(uart.width == 4), Ordering::Relaxed);
    LINE.store(uart.interrupt.map_or(0, |interrupt| interrupt.line), Ordering::Relaxed);
    BASE.store(base, Ordering::Relaxed);
    KIND.store(kind, Ordering::Relaxed);
}

/// Maps the UART in the final tables; without that there is no console any more.
pub(super) fn map(uart: &Uart) {
    let registers = &uart.registers;
    if mmu::map_device(registers.start, (registers.end - registers.start) as usize).is_err() {
        KIND.store(NONE, Ordering::Relaxed);
    }
}

/// A block of registers, by its address.
struct Registers(usize);

impl scif::Block for Registers {
    fn read8(&self, offset: usize) -> u8 {
        mmio::read8(self.0, offset)
    }

    fn read16(&self, offset: usize) -> u16 {
        mmio::read16(self.0, offset)
    }

    fn write8(&self, offset: usize, value: u8) {
        mmio::write8(self.0, offset, value);
    }

    fn write16(&self, offset: usize, value: u16) {
        mmio::write16(self.0, offset, value);
    }
}

fn scif(base: usize) -> Scif<Registers> {
    Scif { block: Registers(base), shift: SHIFT.load(Ordering::Relaxed) }
}

impl ns16550::Block for Registers {
    fn read(&self, register: usize) -> u8 {
        let at = register << SHIFT.load(Ordering::Relaxed);
        match WIDE.load(Ordering::Relaxed) {
            0 => read8(self.0, at),
            _ => read32(self.0, at) as u8,
        }
    }

    fn write(&self, register: usize, value: u8) {
        let at = register << SHIFT.load(Ordering::Relaxed);
        match WIDE.load(Ordering::Relaxed) {
            0 => write8(self.0, at, value),
            _ => write32(self.0, at, u32::from(value)),
        }
    }
}

/// Writes bytes, waiting for room in the transmitter.
pub fn console_write(bytes: &[u8]) {
    let base = BASE.load(Ordering::Relaxed);
    let kind = KIND.load(Ordering::Relaxed);
    if kind == NONE {
        return;
    }
    for &byte in bytes {
        let room = || match kind {
            PL011 => read32(base, pl011::FR) & pl011::TXFF == 0,
            SCIF => scif(base).has_room(),
            _ => Ns16550(Registers(base)).has_room(),
        };
        if !(0..PATIENCE).any(|_| room()) {
            return;
        }
        match kind {
            PL011 => write32(base, pl011::DR, u32::from(byte)),
            SCIF => scif(base).put(byte),
            _ => Ns16550(Registers(base)).put(byte),
        }
    }
}

/// A received byte, if there is one.
pub fn console_read() -> Option<u8> {
    let base = BASE.load(Ordering::Relaxed);
    match KIND.load(Ordering::Relaxed) {
        PL011 => {
            let any = read32(base, pl011::FR) & pl011::RXFE == 0;
            any.then(|| read32(base, pl011::DR) as u8)
        }
        SCIF => scif(base).take(),
        NS16550 => Ns16550(Registers(base)).take(),
        _ => None,
    }
}

/// The line that input arrives on; the UART raises it from now on.
pub fn console_interrupt() -> Option<(u32, Trigger)> {
    let base = BASE.load(Ordering::Relaxed);
    match KIND.load(Ordering::Relaxed) {
        PL011 => {
            write32(base, pl011::ICR, 0x7ff);
            write32(base, pl011::IMSC, pl011::RX);
        }
        SCIF => scif(base).listen(),
        NS16550 => Ns16550(Registers(base)).listen(),
        _ => return None,
    }
    match LINE.load(Ordering::Relaxed) {
        0 => None,
        line => Some((line, Trigger::Level)),
    }
}

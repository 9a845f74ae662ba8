//! PCs: configuration through ports 0xcf8 and 0xcfc, BARs assigned by firmware.

use core::ops::Range;

use x86_64::instructions::port::Port;

use super::super::pci::{Address, Configuration, Place};
use super::super::ports::PortRegisters;
use crate::arch::Trigger;
use crate::memory::KernelDma;

/// Configuration mechanism 1 of the PCI specification, 3.2.2.3.2.
#[derive(Clone, Copy, Debug)]
pub struct Space;

const SELECT: u16 = 0xcf8;
const DATA: u16 = 0xcfc;
const ENABLE: u32 = 1 << 31;

fn select(address: Address, offset: u8) {
    let word = ENABLE
        | u32::from(address.bus) << 16
        | u32::from(address.device) << 11
        | u32::from(address.function) << 8
        | u32::from(offset);
    // SAFETY: only selects what the data port shows.
    unsafe { Port::<u32>::new(SELECT).write(word) };
}

impl Configuration for Space {
    fn read(&self, address: Address, offset: u8) -> u32 {
        select(address, offset);
        // SAFETY: reading configuration has no effect on memory.
        unsafe { Port::<u32>::new(DATA).read() }
    }

    fn write(&mut self, address: Address, offset: u8, value: u32) {
        select(address, offset);
        // SAFETY: `bus::pci` moves no BAR into memory in use, and drivers know their devices.
        unsafe { Port::<u32>::new(DATA).write(value) };
    }
}

impl Space {
    /// Reads a byte: some devices answer to the width their register has, and no other.
    pub fn read8(&self, address: Address, offset: u8) -> u8 {
        select(address, offset & !3);
        // SAFETY: reading configuration has no effect on memory.
        unsafe { Port::<u8>::new(DATA + u16::from(offset & 3)).read() }
    }

    /// Writes a byte.
    pub fn write8(&mut self, address: Address, offset: u8, value: u8) {
        select(address, offset & !3);
        // SAFETY: as for words.
        unsafe { Port::<u8>::new(DATA + u16::from(offset & 3)).write(value) };
    }

    /// Writes 16 bits at an even offset.
    pub fn write16(&mut self, address: Address, offset: u8, value: u16) {
        select(address, offset & !3);
        // SAFETY: as for words.
        unsafe { Port::<u16>::new(DATA + u16::from(offset & 2)).write(value) };
    }
}

/// Nobody describes it: it is asked.
pub type Description = ();

/// Registers in I/O space.
pub type Ports = PortRegisters;

/// How INTx pins reach the IOAPIC.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wiring {
    /// ICH9 (QEMU's q35): eight lines of their own, inputs 16 to 23. Devices 0 to 24 take turns on the
    /// upper four, as QEMU's `hw/isa/lpc_ich9.c` (10.1) sets them up; those above are on the lower four.
    Ich9,
    /// PIIX and everything unknown: the ISA line firmware wrote into the function.
    Isa,
}

/// Vendor and device of the Q35 host bridge (Intel 316966, 5.1.1).
const Q35: u32 = 0x29c0_8086;

pub fn find((): Description) -> Option<(Space, Wiring)> {
    // The register reads back what was written if there is such a mechanism. microvm has none.
    // SAFETY: only selects what the data port shows.
    let echo = unsafe {
        let mut port = Port::<u32>::new(SELECT);
        port.write(ENABLE);
        port.read()
    };
    if echo != ENABLE {
        return None;
    }
    let bridge = Space.read(Address { bus: 0, device: 0, function: 0 }, 0);
    Some((Space, if bridge == Q35 { Wiring::Ich9 } else { Wiring::Isa }))
}

impl Wiring {
    pub fn buses(&self) -> Range<u16> {
        0..256
    }

    pub fn place(&self) -> Option<Place> {
        None
    }

    pub fn ports(&self, ports: Range<u16>) -> Option<Ports> {
        // SAFETY: `ports` are a BAR's, assigned by firmware; what the device does with memory is its
        // driver's affair, as everywhere.
        Some(unsafe { PortRegisters::new(ports) })
    }

    pub fn dma(&self) -> KernelDma {
        KernelDma::COHERENT
    }

    pub fn line(&self, device: u8, pin: u8, written: u8) -> Option<(u32, Trigger)> {
        let turn = u32::from(device) + u32::from(pin) - 1;
        match self {
            Wiring::Ich9 if device < 25 || device == 30 => {
                // Device 30, the bridge to conventional PCI, is not rotated.
                let turn = if device == 30 { u32::from(pin) - 1 } else { turn };
                Some((20 + turn % 4, Trigger::LevelLow))
            }
            Wiring::Ich9 => Some((16 + u32::from(pin) - 1, Trigger::LevelLow)),
            // 255 is "not connected". [PCI 6.2.4]
            Wiring::Isa if (1..16).contains(&written) => {
                Some((u32::from(written), Trigger::LevelLow))
            }
            Wiring::Isa => None,
        }
    }
}

//! ARM: a memory-mapped configuration space described by the device tree.

use core::ops::Range;

use trireme_nic::Registers;

use super::super::pci::{Address, Configuration, Place};
use super::super::registers::MappedRegisters;
use crate::arch::{MapError, Trigger};
use crate::fdt;
use crate::memory::KernelDma;

/// A megabyte of configuration for each bus (PCI Express Base Specification, 7.2.2), or 64 KiB as older bridges have it.
#[derive(Clone, Copy, Debug)]
pub struct Space {
    registers: MappedRegisters,
    bus_shift: u8,
    first_bus: u8,
    bus_count: u16,
}

impl Space {
    fn offset(&self, address: Address, offset: u8) -> Option<usize> {
        let bus = address.bus.checked_sub(self.first_bus)?;
        let function = usize::from(address.device & 31) << 3 | usize::from(address.function & 7);
        let within = function << (self.bus_shift - 8) | usize::from(offset & !3);
        (u16::from(bus) < self.bus_count).then_some(usize::from(bus) << self.bus_shift | within)
    }
}

impl Configuration for Space {
    fn read(&self, address: Address, offset: u8) -> u32 {
        match self.offset(address, offset) {
            Some(at) => self.registers.read32(at),
            None => u32::MAX,
        }
    }

    fn write(&mut self, address: Address, offset: u8, value: u32) {
        if let Some(at) = self.offset(address, offset) {
            self.registers.write32(at, value);
        }
    }
}

impl Space {
    /// Reads a byte: some devices answer to the width their register has, and no other.
    pub fn read8(&self, address: Address, offset: u8) -> u8 {
        let at = self.offset(address, offset);
        at.map_or(u8::MAX, |at| self.registers.read8(at + usize::from(offset & 3)))
    }

    /// Writes a byte.
    pub fn write8(&mut self, address: Address, offset: u8, value: u8) {
        if let Some(at) = self.offset(address, offset) {
            self.registers.write8(at + usize::from(offset & 3), value);
        }
    }

    /// Writes 16 bits at an even offset.
    pub fn write16(&mut self, address: Address, offset: u8, value: u16) {
        if let Some(at) = self.offset(address, offset) {
            self.registers.write16(at + usize::from(offset & 2), value);
        }
    }
}

/// The first port that is given to a device.
const FIRST_PORT: u64 = 0x1000;

/// Registers in I/O space.
pub type Ports = MappedRegisters;

/// The first bridge of the device tree.
pub type Description = Option<fdt::pci::Host<'static>>;

/// The node of the bridge.
pub struct Wiring {
    node: fdt::pci::Host<'static>,
}

pub fn find(description: Description) -> Option<(Space, Wiring)> {
    let node = description?;
    let Range { start, end } = node.configuration;
    let bus_shift = node.bus_shift;
    let bus_count =
        ((end - start) >> bus_shift).min(u64::from(node.buses.end - node.buses.start)) as u16;
    let map = || {
        show_windows(&node)?;
        MappedRegisters::map(start..start + (u64::from(bus_count) << bus_shift))
    };
    match map() {
        Ok(registers) => {
            let first_bus = node.buses.start as u8;
            Some((Space { registers, bus_shift, first_bus, bus_count }, Wiring { node }))
        }
        Err(error) => {
            log::error!("pci: configuration space at {start:#x}: {error}");
            None
        }
    }
}

/// The Versatile's bridge has three windows to memory, of 256 MiB from 0x5000_0000 and 0x6000_0000 on but the first, and a
/// register for each with the upper four bits of what it shows. [QEMU hw/pci-host/versatile.c; Arm DUI 0225D 4.14]
fn show_windows(node: &fdt::pci::Host<'_>) -> Result<(), MapError> {
    let Some(registers) = &node.windows_at else { return Ok(()) };
    let registers = MappedRegisters::map(registers.clone())?;
    for window in node.windows.iter().filter(|window| window.space != fdt::pci::Space::Io) {
        let register = match window.cpu.start >> 28 {
            4 => 0x0,
            5 => 0x4,
            6 => 0x8,
            _ => continue,
        };
        registers.write32(register, (window.bus >> 28) as u32);
    }
    // And for the other direction, from the first of RAM on.
    for register in [0x14, 0x18, 0x1c] {
        registers.write32(register, 0);
    }
    Ok(())
}

impl Wiring {
    pub fn buses(&self) -> Range<u16> {
        self.node.buses.clone()
    }

    /// The window for 32-bit memory, if addresses are the same on both sides of the bridge, and that for
    /// ports.
    pub fn place(&self) -> Option<Place> {
        let windows = self.node.windows.iter();
        let memory = windows
            .filter(|window| window.space == fdt::pci::Space::Memory32)
            .find(|window| window.bus == window.cpu.start)
            .map(|window| window.cpu.clone())?;
        let ports = self.ports_window().map_or(0..0, |window| {
            let end = window.bus + (window.cpu.end - window.cpu.start);
            // Address 0 means "not assigned", and the lowest ports are a PC's own.
            window.bus.max(FIRST_PORT)..end.min(1 << 16)
        });
        Some(Place { memory, ports })
    }

    fn ports_window(&self) -> Option<&fdt::pci::Window> {
        self.node.windows.iter().find(|window| window.space == fdt::pci::Space::Io)
    }

    /// Ports as the CPU reaches them: memory that the bridge turns into I/O cycles.
    pub fn ports(&self, ports: Range<u16>) -> Option<Ports> {
        let window = self.ports_window()?;
        let start = window.cpu.start + u64::from(ports.start).checked_sub(window.bus)?;
        let end = start + u64::from(ports.end.checked_sub(ports.start)?);
        if end > window.cpu.end {
            return None;
        }
        MappedRegisters::map(start..end).ok()
    }

    pub fn dma(&self) -> KernelDma {
        KernelDma::new(self.node.dma_coherent)
    }

    pub fn line(&self, device: u8, pin: u8, _: u8) -> Option<(u32, Trigger)> {
        let interrupt = self.node.interrupt(self.node.buses.start as u8, device, 0, pin)?;
        Some((interrupt.line, interrupt.sense.into()))
    }
}

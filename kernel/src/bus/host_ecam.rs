//! aarch64: a memory-mapped configuration space (ECAM) described by the device tree.

use core::ops::Range;

use trireme_nic::Registers;

use super::super::pci::{Address, Configuration, Place};
use super::super::registers::MappedRegisters;
use crate::arch::Trigger;
use crate::fdt::{self, Sense};
use crate::memory::KernelDma;

/// A megabyte of configuration for each bus. PCI Express Base Specification, 7.2.2.
#[derive(Clone, Copy, Debug)]
pub struct Space {
    registers: MappedRegisters,
    first_bus: u8,
    bus_count: u16,
}

impl Space {
    fn offset(&self, address: Address, offset: u8) -> Option<usize> {
        let bus = address.bus.checked_sub(self.first_bus)?;
        let within = usize::from(address.device & 31) << 15
            | usize::from(address.function & 7) << 12
            | usize::from(offset & !3);
        (u16::from(bus) < self.bus_count).then_some(usize::from(bus) << 20 | within)
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
    let count = (node.ecam.end - node.ecam.start) >> 20;
    let bus_count = count.min(u64::from(node.buses.end - node.buses.start)) as u16;
    let ecam = node.ecam.start..node.ecam.start + (u64::from(bus_count) << 20);
    match MappedRegisters::map(ecam) {
        Ok(registers) => {
            let first_bus = node.buses.start as u8;
            Some((Space { registers, first_bus, bus_count }, Wiring { node }))
        }
        Err(error) => {
            log::error!("pci: configuration space at {:#x}: {error}", node.ecam.start);
            None
        }
    }
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
        let trigger = match interrupt.sense {
            Sense::Edge => Trigger::Edge,
            Sense::Level => Trigger::Level,
        };
        Some((interrupt.line, trigger))
    }
}

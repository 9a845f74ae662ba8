//! The PCI host bridge of the machine: its configuration space and how INTx pins are wired.

use alloc::vec::Vec;

use super::pci::{self, Address, Configuration, Function};
use crate::arch::Trigger;
use crate::memory::KernelDma;

#[cfg(any(target_arch = "aarch64", target_arch = "arm"))]
#[path = "host_tree.rs"]
mod machine;
#[cfg(target_arch = "x86_64")]
#[path = "host_ports.rs"]
mod machine;

pub use machine::{Description, Space};

/// A host bridge. One is looked for.
pub struct Host {
    space: Space,
    wiring: machine::Wiring,
}

impl Host {
    /// The machine's host bridge, if it has one.
    pub fn find(description: Description) -> Option<Host> {
        machine::find(description).map(|(space, wiring)| Host { space, wiring })
    }

    /// Its configuration space. Copies reach the same one.
    pub fn space(&self) -> Space {
        self.space
    }

    /// Everything on its buses.
    pub fn functions(&mut self) -> Vec<Function> {
        let (buses, place) = (self.wiring.buses(), self.wiring.place());
        pci::scan(&mut self.space, buses, place)
    }

    /// The ports of a function's BAR, if it is of ports and was given an address.
    pub fn ports(&self, function: &Function, bar: u8) -> Option<machine::Ports> {
        self.wiring.ports(function.ports(bar)?)
    }

    /// How what is on its buses reaches memory.
    pub fn dma(&self) -> KernelDma {
        self.wiring.dma()
    }

    /// The interrupt line that a function's pin is wired to.
    pub fn line(&self, function: &Function) -> Option<(u32, Trigger)> {
        let (device, pin) = function.pin?;
        self.wiring.line(device, pin, function.line)
    }
}

// What `virtio_drivers` calls the same thing.
impl virtio_drivers::transport::pci::bus::ConfigurationAccess for Space {
    fn read_word(
        &self,
        function: virtio_drivers::transport::pci::bus::DeviceFunction,
        offset: u8,
    ) -> u32 {
        self.read(address(function), offset & !3)
    }

    fn write_word(
        &mut self,
        function: virtio_drivers::transport::pci::bus::DeviceFunction,
        offset: u8,
        value: u32,
    ) {
        self.write(address(function), offset & !3, value);
    }

    unsafe fn unsafe_clone(&self) -> Space {
        *self
    }
}

fn address(function: virtio_drivers::transport::pci::bus::DeviceFunction) -> Address {
    Address { bus: function.bus, device: function.device, function: function.function }
}

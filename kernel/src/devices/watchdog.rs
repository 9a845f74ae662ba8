//! Watchdogs: where the device tree or the PCI bus has them.

use alloc::boxed::Box;

use crate::bus::host::{Host, Space};
use crate::bus::pci::{self, Function};
use crate::bus::registers::MappedRegisters;
use crate::watchdog::{self, esb};

/// A function's configuration space.
struct Configuration(Space, pci::Address);

impl esb::Configuration for Configuration {
    fn read8(&self, offset: u8) -> u8 {
        self.0.read8(self.1, offset)
    }

    fn write8(&mut self, offset: u8, value: u8) {
        self.0.write8(self.1, offset, value);
    }

    fn write16(&mut self, offset: u8, value: u16) {
        self.0.write16(self.1, offset, value);
    }
}

/// If the function is a watchdog, hands it over.
pub(super) fn on_pci(host: &Host, function: &Function) {
    if (function.vendor, function.device) != esb::PCI_ID {
        return;
    }
    let mut space = host.space();
    function.enable(&mut space, false);
    let registers = function.memory(0).filter(|memory| memory.end - memory.start >= 16);
    match registers.map(MappedRegisters::map) {
        Some(Ok(registers)) => {
            let space = Configuration(space, function.address);
            watchdog::found(Box::new(esb::Esb::new(registers, space)));
        }
        Some(Err(error)) => log::error!("pci {}: watchdog: {error}", function.address),
        None => log::error!("pci {}: watchdog: no memory was assigned", function.address),
    }
}

/// If the node is a watchdog, hands it over.
#[cfg(target_arch = "aarch64")]
pub(super) fn at_node(place: &crate::fdt::Place<'_, '_>) {
    use crate::watchdog::rwdt;
    if !place.enabled() || !place.is("renesas,rcar-gen3-wdt") {
        return;
    }
    let Some(registers) = place.reg(0) else { return };
    match MappedRegisters::map(registers) {
        Ok(registers) if registers.contains(0, rwdt::REGISTERS) => {
            watchdog::found(Box::new(rwdt::Rwdt::new(registers)));
        }
        Ok(_) => log::error!("watchdog: its registers are too few"),
        Err(error) => log::error!("watchdog: {error}"),
    }
}

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

/// Watchdogs of a system on a chip, by their nodes.
#[cfg(not(target_arch = "x86_64"))]
#[derive(Clone, Copy, Debug)]
enum Kind {
    #[cfg(target_arch = "aarch64")]
    Rwdt,
    #[cfg(target_arch = "aarch64")]
    Rzg2l,
    Ftwdt010,
}

/// A node of a watchdog: what it is, and its registers.
#[cfg(not(target_arch = "x86_64"))]
#[derive(Clone, Debug)]
pub(super) struct Node(Kind, core::ops::Range<u64>);

/// The watchdog at a node, if there is one that is known.
#[cfg(not(target_arch = "x86_64"))]
pub(super) fn at_node(place: &crate::fdt::Place<'_, '_>) -> Option<Node> {
    let kind = place.compatible().find_map(|name| match name {
        #[cfg(target_arch = "aarch64")]
        "renesas,rcar-gen3-wdt" => Some(Kind::Rwdt),
        #[cfg(target_arch = "aarch64")]
        "renesas,rzg2l-wdt" => Some(Kind::Rzg2l),
        "faraday,ftwdt010" | "cortina,gemini-watchdog" => Some(Kind::Ftwdt010),
        _ => None,
    })?;
    place.enabled().then_some(Node(kind, place.reg(0)?))
}

#[cfg(not(target_arch = "x86_64"))]
impl Node {
    /// Hands the watchdog over. `generator`: the registers of the clock generator, if it is RZ/G2L's.
    pub(super) fn bring_up(&self, generator: Option<&core::ops::Range<u64>>) {
        let Node(kind, registers) = self;
        let map = |registers: &core::ops::Range<u64>, least| {
            let mapped = MappedRegisters::map(registers.clone()).map_err(|error| {
                log::error!("watchdog {:#x}: {error}", registers.start);
            });
            mapped.ok().filter(|mapped| {
                let enough = mapped.contains(0, least);
                if !enough {
                    log::error!("watchdog {:#x}: its registers are too few", registers.start);
                }
                enough
            })
        };
        let hardware: Option<Box<dyn watchdog::Hardware>> = match kind {
            #[cfg(target_arch = "aarch64")]
            Kind::Rwdt => {
                use crate::watchdog::rwdt::{REGISTERS, Rwdt};
                map(registers, REGISTERS).map(|mapped| Box::new(Rwdt::new(mapped)) as _)
            }
            #[cfg(target_arch = "aarch64")]
            Kind::Rzg2l => {
                use crate::watchdog::rzwdt::{CPG_REGISTERS, REGISTERS, RzWdt, channel};
                // Without the generator nobody can say whether it may be touched.
                let parts = channel(registers.start).zip(generator);
                parts.and_then(|(channel, generator)| {
                    let (mapped, cpg) =
                        (map(registers, REGISTERS)?, map(generator, CPG_REGISTERS)?);
                    Some(Box::new(RzWdt::new(mapped, cpg, channel, super::delay)) as _)
                })
            }
            Kind::Ftwdt010 => {
                use crate::watchdog::ftwdt010::{Ftwdt010, REGISTERS};
                map(registers, REGISTERS).map(|mapped| Box::new(Ftwdt010::new(mapped)) as _)
            }
        };
        let _ = generator;
        if let Some(hardware) = hardware {
            watchdog::found(hardware);
        }
    }
}

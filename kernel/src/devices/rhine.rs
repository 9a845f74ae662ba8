//! VIA Rhine cards: their registers, interrupt and boot argument.

use alloc::boxed::Box;

use trireme_nic::Registers;
use trireme_rhine::{Chip, Config, Rhine, TransmitChecksums};

use super::delay;
use crate::bus::host::Host;
use crate::bus::pci::{Configuration, Function};
use crate::interrupt::{self, Source};
use crate::memory::KernelDma;
use crate::{arch, net};

/// Whether this is one.
pub(super) fn is(function: &Function) -> bool {
    Chip::PCI_IDS.contains(&(function.vendor, function.device))
}

/// Brings a card up and gives it to the stack. `checksums`: who makes transmit checksums.
pub(super) fn add(
    host: &Host,
    function: &Function,
    fallback_mac: [u8; 6],
    checksums: TransmitChecksums,
) {
    let place = function.address;
    let mut space = host.space();
    let Some((line, trigger)) = host.line(function).filter(|(line, _)| interrupt::is_valid(*line))
    else {
        return log::error!("pci {place}: Rhine: it has no interrupt");
    };
    let revision = space.read(function.address, 0x08) as u8;
    let chip = Chip { device: function.device, revision };
    function.enable(&mut space, true);
    for (offset, bits) in chip.configuration_bits() {
        function.set_bits(&mut space, *offset, *bits);
    }
    if let Some(ports) = host.ports(function, 0) {
        return bring_up(ports, chip, function, line, trigger, fallback_mac, checksums);
    }
    // Where there are no ports the memory BAR must do; a card whose EEPROM leaves it switched off cannot
    // be reached then.
    let Some(memory) = function.memory(1) else {
        return log::error!("pci {place}: Rhine: neither ports nor memory were assigned");
    };
    match crate::bus::registers::MappedRegisters::map(memory) {
        Ok(memory) => bring_up(memory, chip, function, line, trigger, fallback_mac, checksums),
        Err(error) => log::error!("pci {place}: Rhine: {error}"),
    }
}

fn bring_up<R: Registers + 'static>(
    registers: R,
    chip: Chip,
    function: &Function,
    line: u32,
    trigger: arch::Trigger,
    fallback_mac: [u8; 6],
    transmit_checksums: TransmitChecksums,
) {
    let place = function.address;
    let config = Config { chip, fallback_mac, transmit_checksums, delay: Box::new(delay) };
    match Rhine::new(registers, KernelDma, config) {
        Ok(card) => {
            log::info!("pci {place}: {}, revision {:#04x}", chip.name(), chip.revision);
            interrupt::attach(line, trigger, Source::Network);
            net::add_card(Box::new(card));
        }
        Err(error) => log::error!("pci {place}: {}: {error}", chip.name()),
    }
}

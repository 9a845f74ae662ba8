//! VIA Rhine cards: their registers, interrupt and boot arguments.

use alloc::boxed::Box;

use trireme_nic::{Nic, Registers};
use trireme_rhine::{Chip, Config, Rhine, TransmitChecksums};

use super::delay;
use crate::arguments::Arguments;
use crate::bus::host::{Host, Space};
use crate::bus::pci::{Configuration, Function};
use crate::interrupt::{self, Source};
use crate::memory::KernelDma;
use crate::{arch, net};

/// Whether this is one.
pub(super) fn is(function: &Function) -> bool {
    Chip::PCI_IDS.contains(&(function.vendor, function.device))
}

/// What boot arguments say of all of them.
#[derive(Clone, Copy)]
pub(super) struct Settings {
    /// Who makes transmit checksums.
    checksums: TransmitChecksums,
    /// A magic packet is to wake the machine.
    wake: bool,
}

impl Settings {
    pub(super) fn new(arguments: &Arguments<'_>) -> Settings {
        let checksums = arguments.rhine_tx.map_or(Ok(TransmitChecksums::Off), str::parse);
        let checksums = checksums.unwrap_or_else(|()| {
            let asked = arguments.rhine_tx.unwrap_or_default();
            log::warn!("boot argument not understood: rhine.tx-checksumming={asked}");
            TransmitChecksums::Off
        });
        let wake = match arguments.rhine_wol {
            Some("g") => true,
            None | Some("d") => false,
            Some(other) => {
                log::warn!("boot argument not understood: rhine.wol={other}");
                false
            }
        };
        Settings { checksums, wake }
    }
}

/// Brings a card up and gives it to the stack.
pub(super) fn add(host: &Host, function: &Function, fallback_mac: [u8; 6], settings: Settings) {
    let place = function.address;
    let mut space = host.space();
    let Some((line, trigger)) = host.line(function).filter(|(line, _)| interrupt::is_valid(*line))
    else {
        return log::error!("pci {place}: Rhine: it has no interrupt");
    };
    let revision = space.read(function.address, 0x08) as u8;
    let chip = Chip { device: function.device, revision };
    // Whoever had it before may have left it asleep.
    function.wake(&mut space, &delay);
    function.enable(&mut space, true);
    for (offset, bits) in chip.configuration_bits() {
        function.set_bits(&mut space, *offset, *bits);
    }
    if let Some(ports) = host.ports(function, 0) {
        let dma = host.dma();
        return bring_up(ports, dma, chip, function, line, trigger, fallback_mac, settings, space);
    }
    // Where there are no ports the memory BAR must do; a card whose EEPROM leaves it switched off cannot
    // be reached then.
    let Some(memory) = function.memory(1) else {
        return log::error!("pci {place}: Rhine: neither ports nor memory were assigned");
    };
    match crate::bus::registers::MappedRegisters::map(memory) {
        Ok(memory) => {
            let dma = host.dma();
            bring_up(memory, dma, chip, function, line, trigger, fallback_mac, settings, space)
        }
        Err(error) => log::error!("pci {place}: Rhine: {error}"),
    }
}

#[expect(clippy::too_many_arguments)]
fn bring_up<R: Registers + 'static>(
    registers: R,
    dma: KernelDma,
    chip: Chip,
    function: &Function,
    line: u32,
    trigger: arch::Trigger,
    fallback_mac: [u8; 6],
    settings: Settings,
    mut space: Space,
) {
    let place = function.address;
    let asleep = function.clone();
    let config = Config {
        chip,
        fallback_mac,
        transmit_checksums: settings.checksums,
        sleep: Box::new(move || asleep.sleep(&mut space)),
        delay: Box::new(delay),
    };
    match Rhine::new(registers, dma, config) {
        Ok(mut card) => {
            if settings.wake && !card.set_wake_on_lan(true) {
                log::warn!("pci {place}: {} cannot wake the machine", chip.name());
            }
            log::info!("pci {place}: {}, revision {:#04x}", chip.name(), chip.revision);
            interrupt::attach(line, trigger, Source::Network);
            net::add_card(Box::new(card));
        }
        Err(error) => log::error!("pci {place}: {}: {error}", chip.name()),
    }
}

//! Renesas RAVB cards: where the device tree or a carrier in QEMU has them, their clocks and interrupts.

use alloc::boxed::Box;

use trireme_nic::Registers;
use trireme_ravb::{Config, Delays, Ravb, Variant};

use super::delay;
use crate::bus::host::Host;
use crate::bus::pci::Function;
use crate::bus::registers::MappedRegisters;
use crate::interrupt::{self, Source};
use crate::memory::{self, KernelDma};
use crate::net;

/// Hz of the clock gPTP counts: S0D6 on R-Car Gen3, what module 812 hangs on. [docs/hardware/ravb.md 1.4]
const GPTP_CLOCK_HZ: u32 = 133_333_333;

/// Vendor of the carriers. Of its devices 10f0 to 10ff are anyone's for experiments, QEMU's
/// `docs/specs/pci-ids` says; `models/ravb` uses the first three.
const CARRIER_VENDOR: u16 = 0x1af4;

/// The block on a carrier, the function of a device model that has it as its BAR.
pub(super) fn carried(function: &Function) -> Option<Variant> {
    match (function.vendor, function.device) {
        (CARRIER_VENDOR, 0x10f0) => Some(Variant::Gen2),
        (CARRIER_VENDOR, 0x10f1) => Some(Variant::Gen3),
        (CARRIER_VENDOR, 0x10f2) => Some(Variant::Gbeth),
        _ => None,
    }
}

fn config(variant: Variant, fallback_mac: [u8; 6]) -> Config {
    let share = memory::total() / 16;
    Config {
        variant,
        mac: None,
        fallback_mac,
        phy: None,
        delays: Delays::default(),
        link_pin: true,
        gptp_clock_hz: GPTP_CLOCK_HZ,
        // 2 KiB each.
        receive_buffers: (share >> 11).clamp(32, 512),
        delay: Box::new(delay),
    }
}

/// Brings up the block on a carrier.
pub(super) fn on_carrier(host: &Host, function: &Function, variant: Variant, mac: [u8; 6]) {
    let place = function.address;
    let Some((line, trigger)) = host.line(function).filter(|(line, _)| interrupt::is_valid(*line))
    else {
        return log::error!("pci {place}: {}: it has no interrupt", variant.name());
    };
    function.enable(&mut host.space(), true);
    let Some(registers) = function.memory(0) else {
        return log::error!("pci {place}: {}: its registers were not placed", variant.name());
    };
    match MappedRegisters::map(registers) {
        Ok(registers) => {
            if let Some(card) =
                bring_up(registers, host.dma(), config(variant, mac), format_args!("pci {place}"))
            {
                interrupt::attach(line, trigger, Source::Network);
                net::add_card(Box::new(card));
            }
        }
        Err(error) => log::error!("pci {place}: {}: {error}", variant.name()),
    }
}

/// Brings up the block at a node of the device tree.
#[cfg(target_arch = "aarch64")]
pub(super) fn at_node(
    card: &crate::fdt::ravb::Card,
    generators: &[(trireme_ravb::cpg::Kind, core::ops::Range<u64>)],
    fallback_mac: [u8; 6],
) {
    let place = card.registers.start;
    let name = card.variant.name();
    if card.lines.iter().any(|line| !interrupt::is_valid(line.line)) {
        return log::error!("ravb {place:#x}: {name}: no such interrupt line");
    }
    if let Err(error) = start_clocks(card, generators) {
        return log::error!("ravb {place:#x}: {name}: {error}");
    }
    let registers = match MappedRegisters::map(card.registers.clone()) {
        Ok(registers) => registers,
        Err(error) => return log::error!("ravb {place:#x}: {name}: {error}"),
    };
    let config = Config {
        mac: card.mac,
        phy: card.phy,
        delays: card.delays,
        link_pin: card.link_pin,
        ..config(card.variant, fallback_mac)
    };
    let dma = KernelDma::new(card.dma_coherent);
    if let Some(ravb) = bring_up(registers, dma, config, format_args!("ravb {place:#x}")) {
        for line in &card.lines {
            interrupt::attach(line.line, line.sense.into(), Source::Network);
        }
        net::add_card(Box::new(ravb));
    }
}

/// Where there is no generator we know, clocks are as the firmware left them.
#[cfg(target_arch = "aarch64")]
fn start_clocks(
    card: &crate::fdt::ravb::Card,
    generators: &[(trireme_ravb::cpg::Kind, core::ops::Range<u64>)],
) -> Result<(), alloc::string::String> {
    use alloc::string::ToString;
    use trireme_ravb::cpg::{self, Kind};
    let port = cpg::gbeth_port(card.registers.start);
    let Some((kind, registers)) = generators.first() else { return Ok(()) };
    let port = match (kind, port) {
        (Kind::RcarGen3, _) => 0,
        (Kind::Rzg2l, Some(port)) => port,
        (Kind::Rzg2l, None) => return Ok(()),
    };
    let generator = MappedRegisters::map(registers.clone()).map_err(|error| error.to_string())?;
    if !generator.contains(0, cpg::REGISTERS) {
        return Err("the clock generator's registers are too few".to_string());
    }
    cpg::start(&generator, *kind, port, &delay)
        .map_err(|timeout| trireme_ravb::Error::from(timeout).to_string())
}

fn bring_up(
    registers: MappedRegisters,
    dma: KernelDma,
    config: Config,
    place: core::fmt::Arguments<'_>,
) -> Option<Ravb<impl Registers + use<>, KernelDma>> {
    let variant = config.variant;
    if !registers.contains(0, variant.register_bytes()) {
        log::error!("{place}: {}: its registers are too few", variant.name());
        return None;
    }
    match Ravb::new(registers, dma, config) {
        Ok(card) => {
            log::info!("{place}: {}", variant.name());
            Some(card)
        }
        Err(error) => {
            log::error!("{place}: {}: {error}", variant.name());
            None
        }
    }
}

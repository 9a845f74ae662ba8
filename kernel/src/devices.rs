//! Finds the machine's devices and hands them to the parts that use them. The only place that knows which
//! device needs which driver.

mod gemini;
mod ravb;
mod rhine;
mod rng;
mod watchdog;

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::fmt;

use trireme_virtio_net::{Config, VirtioNet};
use virtio_drivers::transport::{DeviceType, Transport};

use crate::arch::Trigger;
use crate::arguments::Arguments;
use crate::boot::BootInformation;
use crate::bus::host::{self, Host};
use crate::bus::pci::Function;
use crate::bus::virtio::{self, VirtioTransport};
use crate::bus::{KernelHal, virtio_mmio};
use crate::interrupt::Source;
use crate::memory::{self, KernelDma};
use crate::{arch, entropy, net};

/// Devices at fixed places looked at.
const MAX_FIXED: usize = 64;

/// Finds every network card and gives it to [`crate::net::add_card`], in discovery order: PCI first, by bus,
/// device and function, then devices at fixed places in the order they were named. Before that, feeds
/// [`crate::entropy::add`] from entropy devices: cards and stack draw from it.
pub fn discover(boot: &BootInformation) {
    let rhines = rhine::Settings::new(&Arguments::parse(boot.command_line));
    let Described { bridge, fixed, cards } = described(boot);
    let mut host = Host::find(bridge);
    let functions = host.as_mut().map(Host::functions).unwrap_or_default();
    for function in &functions {
        log::debug!(
            "pci {}: {:04x}:{:04x}, class {:06x}",
            function.address,
            function.vendor,
            function.device,
            function.class
        );
    }
    if let Some(host) = &host {
        functions.iter().for_each(|function| watchdog::on_pci(host, function));
    }
    for kind in [DeviceType::EntropySource, DeviceType::Network] {
        for function in &functions {
            if let Some(host) = &host {
                on_pci(host, function, kind, rhines);
            }
        }
        for (device, trigger) in &fixed {
            at_fixed_place(device, *trigger, kind);
        }
    }
    cards.bring_up();
}

/// What boot arguments and device tree say is there.
struct Described {
    bridge: host::Description,
    /// virtio devices at fixed places.
    fixed: Vec<(virtio_mmio::Device, Trigger)>,
    cards: Cards,
}

/// Cards of a system on a chip, and what they need of it.
#[derive(Default)]
struct Cards {
    #[cfg(target_arch = "aarch64")]
    ravb: Vec<crate::fdt::ravb::Card>,
    #[cfg(target_arch = "aarch64")]
    generators: Vec<(trireme_ravb::cpg::Kind, core::ops::Range<u64>)>,
    #[cfg(target_arch = "arm")]
    gemini: crate::fdt::gemini::Gemini,
    #[cfg(not(target_arch = "x86_64"))]
    watchdogs: Vec<watchdog::Node>,
}

impl Cards {
    /// The registers of an RZ/G2L's clock generator.
    #[cfg(target_arch = "aarch64")]
    fn rzg2l(&self) -> Option<&core::ops::Range<u64>> {
        let rzg2l = |(kind, _): &&(_, _)| *kind == trireme_ravb::cpg::Kind::Rzg2l;
        self.generators.iter().find(rzg2l).map(|(_, registers)| registers)
    }

    #[cfg(target_arch = "arm")]
    fn rzg2l(&self) -> Option<&core::ops::Range<u64>> {
        None
    }

    fn bring_up(&self) {
        #[cfg(not(target_arch = "x86_64"))]
        for node in self.watchdogs.iter().take(MAX_FIXED) {
            node.bring_up(self.rzg2l());
        }
        #[cfg(target_arch = "aarch64")]
        for card in self.ravb.iter().take(MAX_FIXED) {
            ravb::at_node(card, &self.generators, random_mac());
        }
        #[cfg(target_arch = "arm")]
        gemini::at_node(&self.gemini, random_mac);
    }
}

fn described(boot: &BootInformation) -> Described {
    let mut fixed = Vec::new();
    #[cfg_attr(target_arch = "x86_64", expect(unused_mut, reason = "no device tree"))]
    let mut cards = Cards::default();
    for value in Arguments::parse(boot.command_line).virtio_mmio {
        match virtio_mmio::parse(value) {
            // The inputs of an IOAPIC; the device holds the line until it is acknowledged.
            Some(device) => fixed.push((device, Trigger::Level)),
            None => log::warn!("boot argument not understood: virtio_mmio.device={value}"),
        }
    }
    #[cfg(target_arch = "x86_64")]
    let bridge = ();
    #[cfg(not(target_arch = "x86_64"))]
    let mut bridge = None;
    #[cfg(not(target_arch = "x86_64"))]
    if let Some(tree) = boot.tree() {
        use crate::fdt;
        // A walk reads the whole tree, so there is one.
        fdt::walk(tree, &mut |place| {
            if bridge.is_none() {
                bridge = fdt::pci::host(tree, place);
            }
            #[cfg(target_arch = "aarch64")]
            {
                if cfg!(feature = "ravb") {
                    cards.ravb.extend(fdt::ravb::card(place));
                }
                cards.generators.extend(fdt::ravb::generator(place));
            }
            #[cfg(target_arch = "arm")]
            cards.gemini.look(place);
            cards.watchdogs.extend(watchdog::at_node(place));
            if !place.is("virtio,mmio") || !place.enabled() {
                return;
            }
            if let (Some(registers), Some(interrupt)) = (place.reg(0), place.interrupt(0)) {
                let trigger = interrupt.sense.into();
                fixed.push((virtio_mmio::Device { registers, line: interrupt.line }, trigger));
            }
        });
    }
    fixed.truncate(MAX_FIXED);
    Described { bridge, fixed, cards }
}

/// Waits so many microseconds, computing.
fn delay(us: u32) {
    let until = arch::monotonic_ns() + u64::from(us) * 1000;
    while arch::monotonic_ns() < until {
        core::hint::spin_loop();
    }
}

/// Who hears of a virtio device's interrupts.
fn source(kind: DeviceType) -> Option<Source> {
    (kind == DeviceType::Network).then_some(Source::Network)
}

fn on_pci(host: &Host, function: &Function, kind: DeviceType, rhines: rhine::Settings) {
    if cfg!(feature = "rhine") && rhine::is(function) && kind == DeviceType::Network {
        return rhine::add(host, function, random_mac(), rhines);
    }
    if cfg!(feature = "gemini") && gemini::is(function) {
        if kind == DeviceType::Network {
            gemini::on_carrier(host, function, random_mac);
        }
        return;
    }
    if cfg!(feature = "ravb")
        && let Some(variant) = ravb::carried(function)
    {
        if kind == DeviceType::Network {
            ravb::on_carrier(host, function, variant, random_mac());
        }
        return;
    }
    // Transitional devices have numbers of their own. [VIRTIO 4.1.2.1]
    match (function.vendor, function.device, kind) {
        (virtio::VENDOR, 0x1000 | 0x1041, DeviceType::Network) => {}
        (virtio::VENDOR, 0x1005 | 0x1044, DeviceType::EntropySource) => {}
        _ => return,
    }
    match VirtioTransport::pci(host, function, source(kind)) {
        Ok(transport) => virtio(transport, format_args!("pci {}", function.address)),
        Err(error) => log::error!("pci {}: virtio {kind:?}: {error}", function.address),
    }
}

fn at_fixed_place(device: &virtio_mmio::Device, trigger: Trigger, kind: DeviceType) {
    let start = device.registers.start;
    match VirtioTransport::mmio(device.registers.clone(), device.line, trigger, kind, source(kind))
    {
        Ok(Some(transport)) => virtio(transport, format_args!("virtio-mmio {start:#x}")),
        Ok(None) => {}
        // Said once, not in every pass.
        Err(error) if kind == DeviceType::Network => {
            log::error!("virtio-mmio {start:#x}: {error}");
        }
        Err(_) => {}
    }
}

fn virtio(transport: VirtioTransport, place: fmt::Arguments<'_>) {
    match transport.device_type() {
        DeviceType::Network => network_card(transport, place),
        DeviceType::EntropySource => match rng::draw(transport) {
            Ok(bytes) => {
                log::info!("{place}: virtio entropy source: {} bytes", bytes.len());
                entropy::add(&bytes);
            }
            Err(error) => log::warn!("{place}: entropy source: {error}"),
        },
        _ => {}
    }
}

/// An address for a card that has none.
fn random_mac() -> [u8; 6] {
    let mut mac = [0; 6];
    entropy::fill(&mut mac);
    // Locally administered, not a group.
    mac[0] = mac[0] & 0xfc | 2;
    mac
}

fn network_card(transport: VirtioTransport, place: fmt::Arguments<'_>) {
    let share = memory::total() / 16;
    let config = Config {
        receive_bytes: share.clamp(128 << 10, 4 << 20),
        transmit_bytes: share.clamp(256 << 10, 4 << 20),
        fallback_mac: random_mac(),
    };
    let kind = transport.kind();
    // As its rings are, see `KernelHal`.
    match VirtioNet::<KernelHal, _, _>::new(transport, KernelDma::COHERENT, &config) {
        Ok(card) => {
            log::info!("{place}: virtio network card ({kind})");
            log::debug!("{place}: {:?}", card.features());
            net::add_card(Box::new(card));
        }
        Err(error) => log::error!("{place}: virtio network card: {error}"),
    }
}

//! The Ethernet ports of a Cortina Gemini: where the device tree or a carrier in QEMU has them.

use alloc::boxed::Box;

use trireme_gemini::{Attached, Config, Gemini, Lines, PortConfig, Windows};
use trireme_nic::Registers;

use super::delay;
use crate::bus::host::Host;
use crate::bus::pci::{Configuration, Function};
use crate::bus::registers::MappedRegisters;
use crate::interrupt::{self, Source};
use crate::memory::{self, KernelDma};
use crate::net;

/// The carrier of `models/gemini`. [QEMU, docs/specs/pci-ids: 1af4:10f0 to 10ff are anyone's for experiments]
const CARRIER: (u16, u16) = (0x1af4, 0x10f3);
/// Bytes of registers: the Ethernet block's, and what is used of the global block's and GPIO's.
const ETHERNET_BYTES: usize = 0x1_0000;
const GLOBAL_BYTES: usize = 0x38;
const GPIO_BYTES: usize = 0x18;

/// Whether it is the carrier.
pub(super) fn is(function: &Function) -> bool {
    (function.vendor, function.device) == CARRIER
}

/// What is on the other side of each port, by the board the carrier's subsystem says it stands for.
fn attached(board: u16) -> Option<[Option<Attached>; 2]> {
    let fixed = Some(Attached::Fixed { pause: false });
    let phy = |address| Some(Attached::Phy { address });
    match board {
        0 => Some([fixed, fixed]),
        // DNS-313 and WBD-222.
        1 => Some([phy(1), None]),
        2 => Some([phy(1), phy(3)]),
        // DIR-685.
        3 => Some([Some(Attached::Switch { pause: true }), None]),
        _ => None,
    }
}

/// What the machine gives the driver. `mac` makes addresses.
fn config(attached: [Option<Attached>; 2], mac: impl Fn() -> [u8; 6]) -> Config {
    let share = memory::total() / 16;
    let port = |attached: Option<Attached>| {
        Some(PortConfig { attached: attached?, mac: None, fallback_mac: mac() })
    };
    Config {
        ports: attached.map(port),
        lines: Lines::REFERENCE,
        // 2 KiB each.
        receive_buffers: (share >> 12).clamp(32, 512),
        transmit_bytes: share / 4,
        delay: Box::new(delay),
    }
}

/// Brings up the ports on a carrier.
pub(super) fn on_carrier(host: &Host, function: &Function, mac: impl Fn() -> [u8; 6]) {
    let place = function.address;
    let Some((line, trigger)) = host.line(function).filter(|(line, _)| interrupt::is_valid(*line))
    else {
        return log::error!("pci {place}: Gemini: it has no interrupt");
    };
    let mut space = host.space();
    function.enable(&mut space, true);
    let board = (space.read(function.address, 0x2c) >> 16) as u16;
    let Some(attached) = attached(board) else {
        return log::error!("pci {place}: Gemini: board {board} is not known");
    };
    let map = |bar, bytes| {
        let registers = MappedRegisters::map(function.memory(bar)?).ok()?;
        registers.contains(0, bytes).then_some(registers)
    };
    let (Some(ethernet), Some(global)) = (map(0, ETHERNET_BYTES), map(1, GLOBAL_BYTES)) else {
        return log::error!("pci {place}: Gemini: its registers were not placed");
    };
    let windows = Windows { ethernet, global, gpio: map(2, GPIO_BYTES) };
    let mut config = config(attached, mac);
    if matches!(attached, [Some(Attached::Switch { .. }), _]) {
        config.lines = Lines::REALTEK;
    }
    if bring_up(windows, host.dma(), config, format_args!("pci {place}")) {
        interrupt::attach(line, trigger, Source::Network);
    }
}

/// Brings up the ports the device tree has.
#[cfg(target_arch = "arm")]
pub(super) fn at_node(card: &crate::fdt::gemini::Gemini, mac: impl Fn() -> [u8; 6]) {
    let (Some(start), Some(global)) = (card.ethernet, card.global.clone()) else { return };
    if card.lines.iter().any(|line| !interrupt::is_valid(line.line)) {
        return log::error!("gemini {start:#x}: no such interrupt line");
    }
    let map = |registers: core::ops::Range<u64>, bytes| {
        let registers = MappedRegisters::map(registers).ok()?;
        registers.contains(0, bytes).then_some(registers)
    };
    let management = card.management();
    let ethernet = map(start..start + ETHERNET_BYTES as u64, ETHERNET_BYTES);
    let (Some(ethernet), Some(global)) = (ethernet, map(global, GLOBAL_BYTES)) else {
        return log::error!("gemini {start:#x}: its registers cannot be reached");
    };
    let gpio = management.clone().and_then(|(registers, _)| map(registers, GPIO_BYTES));
    let attached = card.ports.map(|port| card.attached(&port?));
    let mut config = config(attached, mac);
    config.lines = management.map_or(config.lines, |(_, lines)| lines);
    for (port, node) in config.ports.iter_mut().zip(card.ports) {
        if let (Some(port), Some(node)) = (port, node) {
            port.mac = node.mac;
        }
    }
    let windows = Windows { ethernet, global, gpio };
    let dma = KernelDma::new(false);
    if bring_up(windows, dma, config, format_args!("gemini {start:#x}")) {
        // The free queue's causes come by port 1's. [docs/hardware/gemini.md 6.1]
        for line in &card.lines {
            interrupt::attach(line.line, line.sense.into(), Source::Network);
        }
    }
}

/// Gives the ports to the stack. True: there are some.
fn bring_up(
    windows: Windows<impl Registers + 'static>,
    dma: KernelDma,
    config: Config,
    place: core::fmt::Arguments<'_>,
) -> bool {
    match Gemini::bring_up(windows, dma, config) {
        Ok(ports) => {
            let some = !ports.is_empty();
            for port in ports {
                log::info!("{place}: Cortina Gemini, port {}", port.number());
                net::add_card(Box::new(port));
            }
            some
        }
        Err(error) => {
            log::error!("{place}: Gemini: {error}");
            false
        }
    }
}

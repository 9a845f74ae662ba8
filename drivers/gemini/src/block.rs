//! The block: what both ports share, and recovery, which concerns both.

use crate::counters::{Counters, SharedCounters};
use crate::free::FreeQueue;
use crate::gpio::{GpioPins, Lines};
use crate::init::{self, Setting};
use crate::link::Attached;
use crate::port::{PortState, Trouble};
use crate::regs::{self, GROUPS};
use crate::smi::Smi;
use crate::switch::TAG;
use crate::{Config, Delay, Error, Offloads, PortConfig};
use alloc::vec::Vec;
use trireme_nic::{Dma, Link, ReceiveFilter, Registers};
use trireme_phy::{LinkState, Mdio};

/// Between attempts to bring a broken card back.
const RECOVERY_INTERVAL_US: u64 = 1_000_000;
/// Resets are not done more often than this: a card that errs on everything must not keep the machine busy.
const RESET_INTERVAL_US: u64 = 20_000;
pub(crate) const DEFAULT_MTU: u16 = 1500;

/// Where the machine has the card's registers.
pub struct Windows<R> {
    /// The Ethernet block, 64 KiB. [GM 3.1]
    pub ethernet: R,
    /// The global block, for resets and clocks. [GM 1.6]
    pub global: R,
    /// GPIO 0, if a port has something on the management bus. [GM 1.9]
    pub gpio: Option<R>,
}

/// Both ports and what they share.
pub(crate) struct Block<R: Registers, D: Dma> {
    pub(crate) bar: R,
    pub(crate) global: R,
    gpio: Option<R>,
    lines: Lines,
    pub(crate) dma: D,
    pub(crate) delay: Delay,
    pub(crate) free: FreeQueue,
    /// Ports in use.
    pub(crate) ports: Vec<PortState>,
    /// Causes that interrupt now, by group: what the registers hold.
    enabled: [u32; GROUPS],
    pub(crate) counters: SharedCounters,
    pub(crate) now_us: u64,
    /// Not reset again before this time.
    patient_until_us: u64,
    /// Cannot be used before a restart, which is due at this time.
    pub(crate) broken_until_us: Option<u64>,
    /// Why it was restarted last, or is to be.
    trouble: (usize, Trouble),
}

impl<R: Registers, D: Dma> Block<R, D> {
    pub(crate) fn new(windows: Windows<R>, dma: D, config: Config) -> Result<Block<R, D>, Error> {
        let Windows { ethernet: bar, global, gpio } = windows;
        if !init::is_there(&bar) {
            return Err(Error::Absent);
        }
        let free = FreeQueue::new(&dma, config.receive_buffers.clamp(16, 2047))?;
        let mut ports = Vec::new();
        for (number, port) in config.ports.into_iter().enumerate() {
            let Some(PortConfig { attached, mac, fallback_mac }) = port else { continue };
            // A reset may lose it.
            let address = mac.or_else(|| init::read_address(&bar, number)).unwrap_or(fallback_mac);
            let setting = Setting {
                address,
                filter: init::Filter::new(ReceiveFilter::Multicast(&[])),
                receive_checksums: true,
                mtu: DEFAULT_MTU,
                tag: if matches!(attached, Attached::Switch { .. }) { TAG } else { 0 },
                link: LinkState::default(),
            };
            let offloads = Offloads { checksums: true, tso: true, tso6: true };
            let bytes = config.transmit_bytes;
            let order = free.order();
            ports.push(PortState::new(&dma, number, attached, setting, offloads, bytes, order)?);
        }
        let mut block = Block {
            bar,
            global,
            gpio,
            lines: config.lines,
            dma,
            delay: config.delay,
            free,
            ports,
            enabled: [0; GROUPS],
            counters: SharedCounters::default(),
            now_us: 0,
            patient_until_us: 0,
            broken_until_us: None,
            trouble: (0, Trouble::Gone),
        };
        init::reset(&block.bar, &block.global, &*block.delay)?;
        block.start();
        Ok(block)
    }

    /// From reset to running.
    fn start(&mut self) {
        self.enabled = [0; GROUPS];
        init::shared(&self.bar, &mut self.free, self.ports.len() > 1);
        for n in 0..self.ports.len() {
            self.start_port(n);
        }
    }

    fn start_port(&mut self, n: usize) {
        let link = self.ask_link(n);
        let Block { bar, ports, now_us, .. } = self;
        let port = &mut ports[n];
        (port.armed, port.asks_sent) = (false, false);
        if port.halted {
            return;
        }
        port.setting.link = link;
        let (tx_base, rx_base) = (port.tx.base_and_order(), port.rx.base_and_order());
        let (sent, received) = init::port(bar, port.number, &port.setting, tx_base, rx_base);
        port.tx.rewind(sent);
        port.rx.rewind(received);
        port.rest(*now_us);
        init::go(bar, port.number, &port.setting);
        let number = port.number;
        for (group, causes) in init::standing_causes(number).into_iter().enumerate() {
            self.enable(group, causes, true);
        }
        self.ring_doorbell(n, true);
    }

    /// The link as it is now.
    pub(crate) fn ask_link(&mut self, n: usize) -> LinkState {
        let Block { gpio, lines, delay, ports, .. } = self;
        let port = &mut ports[n];
        let address = match port.attached {
            Attached::Fixed { pause } => {
                let link = Link { up: true, speed_mbps: 1000, full_duplex: true };
                return LinkState { link, pause };
            }
            Attached::Phy { address } => address,
            Attached::Switch { pause } => {
                let (Some(gpio), Some(switch)) = (gpio, &mut port.switch) else {
                    return LinkState::default();
                };
                return switch.look(&Smi::new(GpioPins::new(gpio, *lines), &**delay), pause);
            }
        };
        let Some(gpio) = gpio else { return LinkState::default() };
        let bus = Mdio::new(GpioPins::new(gpio, *lines), &**delay);
        if !port.phy.is_found() && !port.phy.find(&bus, [address], |_, _, _| ()) {
            return LinkState::default();
        }
        port.phy.look(&bus)
    }

    /// Looks at the link, and has the MAC follow.
    pub(crate) fn look_at_link(&mut self, n: usize) {
        let state = self.ask_link(n);
        let Block { bar, delay, ports, now_us, .. } = self;
        let port = &mut ports[n];
        if state == port.setting.link {
            return;
        }
        port.counters.link_changes += 1;
        port.setting.link = state;
        init::change(bar, port.number, &port.setting, &**delay);
        port.rest(*now_us);
    }

    /// Lets causes of a group interrupt, or not. Both ports share the registers, so what they hold is kept
    /// here. [GM 11.2, 2024]
    pub(crate) fn enable(&mut self, group: usize, causes: u32, on: bool) {
        let before = self.enabled[group];
        let after = if on { before | causes } else { before & !causes };
        if after != before {
            self.enabled[group] = after;
            regs::int_enable(group).write(&self.bar, after);
        }
    }

    /// Resets and restarts the block, both ports with it; if that fails, again in a while.
    pub(crate) fn restart(&mut self, n: usize, trouble: Trouble) {
        self.trouble = (n, trouble);
        if self.now_us < self.patient_until_us {
            return self.give_up_until(self.patient_until_us);
        }
        log::warn!("gemini: port {}: {trouble:?}, restarting", self.ports[n].number);
        self.patient_until_us = self.now_us + RESET_INTERVAL_US;
        self.broken_until_us = None;
        if let Err(error) = self.recover(n, trouble) {
            self.counters.reset_failures += 1;
            log::warn!("gemini: {error}");
            self.give_up_until(self.now_us + RECOVERY_INTERVAL_US);
        }
    }

    /// Not a register is touched until then, and nothing interrupts.
    fn give_up_until(&mut self, until_us: u64) {
        for group in 0..GROUPS {
            self.enable(group, u32::MAX, false);
        }
        for port in &mut self.ports {
            (port.armed, port.asks_sent) = (false, false);
        }
        self.broken_until_us = Some(until_us);
    }

    /// A reset that was put off, or did not work, is due.
    pub(crate) fn try_again(&mut self) {
        let (n, trouble) = self.trouble;
        self.restart(n, trouble);
    }

    fn recover(&mut self, n: usize, trouble: Trouble) -> Result<(), Error> {
        self.counters.resets += 1;
        if !init::is_there(&self.bar) {
            return Err(Error::Absent);
        }
        for port in 0..self.ports.len() {
            self.reclaim(port);
        }
        // Until the reset is confirmed the card may still use its buffers: they stay with it.
        init::reset(&self.bar, &self.global, &*self.delay)?;
        if trouble.is_of_a_frame() {
            // It might be the frame that did it.
            self.drop_oldest(n);
        }
        self.start();
        Ok(())
    }

    /// Visits counters of a port and of what is shared.
    pub(crate) fn statistics(&self, n: usize, visit: &mut dyn FnMut(&'static str, u64)) {
        let counters: &Counters = &self.ports[n].counters;
        counters.visit(visit);
        self.counters.visit(visit);
    }

    /// Stops a port for good.
    pub(crate) fn halt(&mut self, n: usize) {
        self.mask(n);
        let number = self.ports[n].number;
        for (group, causes) in init::standing_causes(number).into_iter().enumerate() {
            self.enable(group, causes, false);
        }
        self.ports[n].halted = true;
        self.ports[n].setting.link = LinkState::default();
        init::silence(&self.bar, number);
        (self.delay)(init::FINISH_US);
        init::stop_dma(&self.bar, number);
    }

    /// When the card wants to be looked at though nothing interrupts.
    pub(crate) fn service_at(&self, n: usize) -> Option<u64> {
        let port = &self.ports[n];
        if port.halted {
            return None;
        }
        self.broken_until_us.or_else(|| Some(port.due_us()))
    }
}

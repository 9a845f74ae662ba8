//! What the boot code of 32-bit boards needs beyond [`super::machine`]: interrupt controller, timer, system controller.
//!
//! Sources: bindings of Linux, `Documentation/devicetree/bindings`: [VIC] interrupt-controller/arm,vic.yaml, [SIC]
//! interrupt-controller/arm,versatile-fpga-irq.txt, [SP804] timer/arm,sp804.yaml, [TMR] timer/faraday,fttmr010.yaml;
//! docs/hardware/gemini.md 1.5 to 1.8.

use core::ops::Range;

use dtoolkit::fdt::Fdt;

use super::{Interrupt, Place, cell, cell_at, value, walk};

/// Which interrupt controller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ControllerKind {
    /// Arm PrimeCell VIC, PL190.
    Vic,
    /// Faraday FTINTC010.
    Ftintc010,
}

/// The interrupt controller.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Controller {
    /// How it is driven.
    pub kind: ControllerKind,
    /// Its registers.
    pub registers: Range<u64>,
    /// The Versatile board's second controller, which can let lines through to the first.
    pub second: Option<Range<u64>>,
}

/// Which timer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TimerKind {
    /// Arm dual timer.
    Sp804,
    /// Faraday FTTMR010.
    Fttmr010,
}

/// What tells how fast a timer counts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Rate {
    /// So many times a second.
    Hertz(u32),
    /// The straps in these registers, Gemini's global block.
    Gemini(Range<u64>),
}

/// A timer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Timer {
    /// How it is driven.
    pub kind: TimerKind,
    /// Its registers.
    pub registers: Range<u64>,
    /// The interrupt of its first counter.
    pub interrupt: Interrupt,
    /// How fast it counts.
    pub rate: Rate,
}

/// Which system controller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SystemKind {
    /// Versatile's system registers.
    Versatile,
    /// Gemini's global block.
    Gemini,
}

/// The system controller, which resets the machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct System {
    /// How it is driven.
    pub kind: SystemKind,
    /// Its registers.
    pub registers: Range<u64>,
}

/// What there is; of each the first.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Soc {
    /// The interrupt controller.
    pub controller: Option<Controller>,
    /// The timer.
    pub timer: Option<Timer>,
    /// The system controller.
    pub system: Option<System>,
}

/// Reads the tree.
pub(crate) fn read(tree: Fdt<'_>) -> Soc {
    let mut soc = Soc::default();
    let mut second = None;
    walk(tree, &mut |place| {
        if !place.enabled() {
            return;
        }
        let Some(registers) = place.reg(0) else { return };
        for compatible in place.compatible() {
            match compatible {
                "arm,versatile-vic" | "arm,pl190-vic" => {
                    soc.controller(ControllerKind::Vic, registers);
                }
                "faraday,ftintc010" => soc.controller(ControllerKind::Ftintc010, registers),
                "arm,versatile-sic" => second = second.take().or(Some(registers)),
                "arm,sp804" => soc.timer(tree, place, TimerKind::Sp804, registers),
                "faraday,fttmr010" => soc.timer(tree, place, TimerKind::Fttmr010, registers),
                "arm,versatile-sysreg" => soc.system(SystemKind::Versatile, registers),
                "cortina,gemini-syscon" => soc.system(SystemKind::Gemini, registers),
                _ => continue,
            }
            break;
        }
    });
    if let Some(controller) = &mut soc.controller {
        controller.second = second;
    }
    soc
}

impl Soc {
    fn controller(&mut self, kind: ControllerKind, registers: Range<u64>) {
        self.controller.get_or_insert(Controller { kind, registers, second: None });
    }

    fn system(&mut self, kind: SystemKind, registers: Range<u64>) {
        self.system.get_or_insert(System { kind, registers });
    }

    fn timer(
        &mut self,
        tree: Fdt<'_>,
        place: &Place<'_, '_>,
        kind: TimerKind,
        registers: Range<u64>,
    ) {
        let rate = match hertz(tree, place) {
            Some(rate) => Some(Rate::Hertz(rate)),
            None => system_controller(tree, place).map(Rate::Gemini),
        };
        if let (None, Some(interrupt), Some(rate)) = (&self.timer, place.interrupt(0), rate) {
            self.timer = Some(Timer { kind, registers, interrupt, rate });
        }
    }
}

/// The rate of the first clock of a node, if that is fixed. [fixed-clock.yaml]
fn hertz(tree: Fdt<'_>, place: &Place<'_, '_>) -> Option<u32> {
    let clock = cell_at(value(&place.node, "clocks")?, 0)?;
    let mut found = None;
    walk(tree, &mut |other| {
        if found.is_none() && cell(&other.node, "phandle") == Some(clock) {
            found = cell(&other.node, "clock-frequency");
        }
    });
    found.filter(|rate| *rate != 0)
}

/// The registers of the Gemini system controller that the node's `syscon` names.
fn system_controller(tree: Fdt<'_>, place: &Place<'_, '_>) -> Option<Range<u64>> {
    let syscon = cell(&place.node, "syscon")?;
    let mut found = None;
    walk(tree, &mut |other| {
        let named =
            other.is("cortina,gemini-syscon") && cell(&other.node, "phandle") == Some(syscon);
        if found.is_none() && named {
            found = other.reg(0);
        }
    });
    found
}

//! The code against models of the controllers: of a PL190 by [VIC] 3.3, of an FTINTC010 by docs/hardware/gemini.md 1.7.

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::*;
use crate::arch::armv4::mmio;

const AT: usize = 0x1000_0000;
const SECOND: usize = 0x2000_0000;

#[derive(Default)]
struct State {
    faraday: bool,
    /// Lines as they are.
    lines: u32,
    enabled: u32,
    selected_fiq: u32,
    latched: u32,
    edge: u32,
    low: u32,
    soft: u32,
    fiq_mask: u32,
    /// The Versatile's second controller.
    passed: u32,
    second_enabled: u32,
}

impl State {
    /// FTINTC010: lines after their polarity; edges only once latched.
    fn raw(&self) -> u32 {
        (self.lines ^ self.low) & !self.edge | self.latched & self.edge
    }

    fn drive(&mut self, lines: u32) {
        let (before, after) = (self.lines ^ self.low, lines ^ self.low);
        self.latched |= after & !before;
        self.lines = lines;
    }
}

struct Model(Rc<RefCell<State>>);

impl mmio::Registers for Model {
    fn read32(&mut self, address: usize) -> u32 {
        let s = self.0.borrow();
        match (s.faraday, address - AT) {
            (false, 0x00) => (s.lines | s.soft) & s.enabled & !s.selected_fiq,
            (true, 0x04) => s.enabled,
            (true, 0x0c) => s.edge,
            (true, 0x10) => s.low,
            (true, 0x14) => s.raw() & s.enabled,
            (_, offset) => panic!("read of {offset:#x}"),
        }
    }

    fn write32(&mut self, address: usize, value: u32) {
        let mut s = self.0.borrow_mut();
        if address >= SECOND {
            match address - SECOND {
                0x0c => s.second_enabled &= !value,
                0x20 => s.passed |= value & 0x7fe0_0000,
                offset => panic!("write of {offset:#x}"),
            }
            return;
        }
        match (s.faraday, address - AT) {
            (false, 0x0c) => s.selected_fiq = value,
            (false, 0x10) => s.enabled |= value,
            (false, 0x14) => s.enabled &= !value,
            (false, 0x1c) => s.soft &= !value,
            (true, 0x04) => s.enabled = value,
            (true, 0x08) => s.latched &= !value,
            (true, 0x0c) => s.edge = value,
            (true, 0x10) => s.low = value,
            (true, 0x24) => s.fiq_mask = value,
            (_, offset) => panic!("write of {offset:#x}"),
        }
    }
}

/// One at a time: the driver's state is the kernel's.
fn start(state: State) -> (Rc<RefCell<State>>, MutexGuard<'static, ()>) {
    static ONE: Mutex<()> = Mutex::new(());
    let guard = ONE.lock().unwrap_or_else(PoisonError::into_inner);
    let faraday = state.faraday;
    let state = Rc::new(RefCell::new(state));
    mmio::install(Box::new(Model(state.clone())));
    let at = AT as u64;
    let second = SECOND as u64;
    init(&Controller {
        kind: if faraday { ControllerKind::Ftintc010 } else { ControllerKind::Vic },
        registers: at..at + 0x1000,
        second: (!faraday).then_some(second..second + 0x1000),
    })
    .unwrap();
    (state, guard)
}

#[test]
fn vic_forgets_what_a_loader_left() {
    let left = State { enabled: !0, selected_fiq: !0, soft: 1, lines: 1, ..State::default() };
    let (state, _guard) = start(State { second_enabled: 1 << 3, ..left });
    assert_eq!(pending(), None);
    irq_enable(0, Trigger::Level);
    assert_eq!(pending(), Some(0));
    let s = state.borrow();
    assert_eq!((s.selected_fiq, s.soft, s.second_enabled), (0, 0, 0));
    // INTA to INTD of PCI go past the second controller.
    assert_eq!(s.passed & 0xf << 27, 0xf << 27);
}

#[test]
fn vic_serves_the_lowest_line_until_it_is_quiet() {
    let (state, _guard) = start(State::default());
    irq_enable(30, Trigger::Level);
    irq_enable(4, Trigger::Level);
    state.borrow_mut().drive(1 << 30 | 1 << 4 | 1 << 12);
    assert_eq!(pending(), Some(4));
    acknowledge(4);
    assert_eq!(pending(), Some(4), "a level stays");
    irq_mask(4);
    assert_eq!(pending(), Some(30));
    state.borrow_mut().drive(1 << 4);
    assert_eq!(pending(), None);
    irq_unmask(4);
    assert_eq!(pending(), Some(4));
}

#[test]
fn ftintc010_latches_a_falling_edge_once() {
    let (state, _guard) =
        start(State { faraday: true, lines: 1 << 14, enabled: 7, ..State::default() });
    assert_eq!(pending(), None, "what a loader enabled");
    irq_enable(14, Trigger::FallingEdge);
    assert_eq!(pending(), None);
    state.borrow_mut().drive(0);
    state.borrow_mut().drive(1 << 14); // a pulse, and over
    assert_eq!(pending(), Some(14));
    acknowledge(14);
    assert_eq!(pending(), None);
    assert_eq!(state.borrow().fiq_mask, 0);
}

#[test]
fn ftintc010_forgets_an_edge_nobody_wanted() {
    let (state, _guard) = start(State { faraday: true, latched: 1 << 26, ..State::default() });
    irq_enable(26, Trigger::Edge);
    assert_eq!(pending(), None);
    state.borrow_mut().drive(1 << 26);
    assert_eq!(pending(), Some(26));
}

#[test]
fn ftintc010_levels_are_pending_as_long_as_they_last() {
    let (state, _guard) = start(State { faraday: true, ..State::default() });
    irq_enable(1, Trigger::Level);
    irq_enable(9, Trigger::LevelLow);
    assert_eq!(pending(), Some(9));
    state.borrow_mut().drive(1 << 9 | 1 << 1);
    assert_eq!(pending(), Some(1));
    acknowledge(1);
    assert_eq!(pending(), Some(1));
    irq_mask(1);
    assert_eq!(pending(), None);
    irq_unmask(1);
    assert_eq!(pending(), Some(1));
    state.borrow_mut().drive(1 << 9);
    assert_eq!(pending(), None);
}

#[test]
fn line_that_is_not_there_is_no_harm() {
    let (state, _guard) = start(State::default());
    irq_enable(32, Trigger::Level);
    irq_mask(1000);
    irq_unmask(u32::MAX);
    assert_eq!(state.borrow().enabled, 0);
}

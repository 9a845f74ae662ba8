//! The code against models of the timers: of an SP804 by [SP804] 3, of an FTTMR010 by docs/hardware/gemini.md 1.8. Time is
//! what the test says.

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::*;
use crate::arch::armv4::mmio;
use crate::fdt::{Interrupt, Sense};

const AT: usize = 0x3000_0000;
const GLOBAL: usize = 0x4000_0000;

#[derive(Default)]
struct State {
    faraday: bool,
    /// Counts since reset of the clock.
    counts: u64,
    /// When the clock was loaded, and the first counter; how it was loaded and set up.
    clock_since: u64,
    clock_control: u32,
    since: u64,
    load: u32,
    control: u32,
    /// FTTMR010.
    first: u32,
    matched: u32,
    mask: u32,
    enabled_line: bool,
    /// Interrupts so far; SP804's is held until cleared.
    pulses: u32,
    held: bool,
}

impl State {
    fn count(&self) -> u32 {
        self.first.wrapping_add((self.counts - self.since) as u32)
    }

    /// Lets time pass, one count at a time where it matters.
    fn pass(&mut self, counts: u64) {
        let before = self.counts;
        self.counts += counts;
        if self.faraday {
            // The match is met when the counter, which takes every value, has it.
            let to_match =
                self.matched.wrapping_sub(self.first.wrapping_add((before - self.since) as u32));
            let to_match = if to_match == 0 { 1 << 32 } else { u64::from(to_match) };
            if self.control & 1 != 0 && counts >= to_match {
                self.pulses += 1;
            }
        } else if self.control & 1 << 7 != 0 {
            // One-shot: once, when it gets to zero. [SP804 3.2.2]
            let left = u64::from(self.load).saturating_sub(before - self.since);
            if left > 0 && counts >= left && self.control & 1 << 5 != 0 {
                self.pulses += 1;
                self.held = true;
            }
        }
    }
}

struct Model(Rc<RefCell<State>>);

impl mmio::Registers for Model {
    fn read32(&mut self, address: usize) -> u32 {
        let s = self.0.borrow();
        match (s.faraday, address) {
            // Straps of a chip with an AHB of 150 MHz. [1.6]
            (true, a) if a == GLOBAL + 4 => 2 << 15,
            (true, a) if a == AT => s.count(),
            (false, a) if a == AT + 0x24 => {
                0u32.wrapping_sub(1).wrapping_sub((s.counts - s.clock_since) as u32)
            }
            // The interrupt controller, an FTINTC010 or a PL190.
            (_, a) if a < AT => 0,
            (_, a) => panic!("read of {a:#x}"),
        }
    }

    fn write32(&mut self, address: usize, value: u32) {
        let mut s = self.0.borrow_mut();
        let counts = s.counts;
        if address < AT {
            s.enabled_line = true;
            return;
        }
        match (s.faraday, address - AT) {
            (false, 0x00) => (s.load, s.since) = (value, counts),
            (false, 0x08) => s.control = value,
            (false, 0x0c) => s.held = false,
            (false, 0x20) => s.clock_since = counts,
            (false, 0x28) => s.clock_control = value,
            (true, 0x00) => (s.first, s.since) = (value, counts),
            (true, 0x04 | 0x0c | 0x34) => {}
            (true, 0x08) => s.matched = value,
            (true, 0x30) => s.control = value,
            (true, 0x38) => s.mask = value,
            (_, offset) => panic!("write of {offset:#x}"),
        }
    }
}

/// One at a time: the driver's state is the kernel's.
fn start(faraday: bool) -> (Rc<RefCell<State>>, MutexGuard<'static, ()>) {
    static ONE: Mutex<()> = Mutex::new(());
    let guard = ONE.lock().unwrap_or_else(PoisonError::into_inner);
    let state = Rc::new(RefCell::new(State { faraday, counts: 12345, ..State::default() }));
    mmio::install(Box::new(Model(state.clone())));
    let (at, global) = (AT as u64, GLOBAL as u64);
    init(&Timer {
        kind: if faraday { TimerKind::Fttmr010 } else { TimerKind::Sp804 },
        registers: at..at + 0x1000,
        interrupt: Interrupt {
            line: 14,
            sense: if faraday { Sense::FallingEdge } else { Sense::Level },
        },
        rate: if faraday { Rate::Gemini(global..global + 0x1000) } else { Rate::Hertz(1_000_000) },
    })
    .unwrap();
    (state, guard)
}

/// 25 MHz is what the sheet gives for straps of 2. [1.6]
const PER_SECOND: [u64; 2] = [1_000_000, 25_000_000];

#[test]
fn clock_counts_nanoseconds() {
    for (faraday, rate) in [false, true].into_iter().zip(PER_SECOND) {
        let (state, _guard) = start(faraday);
        assert_eq!(monotonic_ns(), 0);
        state.borrow_mut().pass(rate);
        assert_eq!(monotonic_ns(), 1_000_000_000);
        state.borrow_mut().pass(rate / 1_000_000);
        assert_eq!(monotonic_ns(), 1_000_001_000);
    }
}

#[test]
fn clock_goes_on_when_the_counter_wraps() {
    for (faraday, rate) in [false, true].into_iter().zip(PER_SECOND) {
        let (state, _guard) = start(faraday);
        let mut counts = 0;
        for _ in 0..20 {
            state.borrow_mut().pass(LONGEST - 7);
            counts += LONGEST - 7;
            assert_eq!(
                monotonic_ns(),
                (u128::from(counts) * 1_000_000_000 / u128::from(rate)) as u64
            );
        }
    }
}

#[test]
fn deadline_is_not_early_and_not_late() {
    for (faraday, rate) in [false, true].into_iter().zip(PER_SECOND) {
        for ns in [1_000_000, 1_000_001, 999_999_999] {
            let (state, _guard) = start(faraday);
            assert!(state.borrow().enabled_line);
            set_timer(Some(ns));
            let counts = (ns * rate).div_ceil(1_000_000_000);
            state.borrow_mut().pass(counts - 1);
            assert_eq!(state.borrow().pulses, 0, "{ns} ns came early");
            state.borrow_mut().pass(1);
            assert_eq!(state.borrow().pulses, 1, "{ns} ns did not come");
            assert!(monotonic_ns() >= ns);
            assert!(handle(14));
            assert!(!state.borrow().held, "silenced");
        }
    }
}

#[test]
fn deadline_in_the_past_comes_at_once() {
    for faraday in [false, true] {
        let (state, _guard) = start(faraday);
        state.borrow_mut().pass(1_000_000_000);
        set_timer(Some(1));
        state.borrow_mut().pass(SHORTEST);
        assert_eq!(state.borrow().pulses, 1);
    }
}

#[test]
fn timer_comes_often_enough_to_see_every_round_of_the_counter() {
    for faraday in [false, true] {
        let (state, _guard) = start(faraday);
        for round in 1..5 {
            state.borrow_mut().pass(LONGEST);
            assert_eq!(state.borrow().pulses, round);
            assert!(handle(14));
        }
        set_timer(Some(u64::MAX));
        state.borrow_mut().pass(LONGEST);
        assert_eq!(state.borrow().pulses, 5);
        assert!(!handle(13), "not the timer's");
    }
}

#[test]
fn matches_do_not_depend_on_what_the_mask_means() {
    // 1 is "enabled" in Linux's driver: MATCH1 of timer 1, bit 0, is on, its other causes are off. [1.8]
    let (state, _guard) = start(true);
    assert_eq!(state.borrow().mask & 0b111, 0b001);
}

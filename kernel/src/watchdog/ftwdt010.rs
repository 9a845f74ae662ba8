//! Faraday's FTWDT010, the watchdog of Cortina's Gemini.
//!
//! It counts down from what is loaded and at zero does what its control register says: reset, interrupt, a pin.
//! Sources: docs/hardware/gemini.md 1.6 and 1.9; [L] Linux `drivers/watchdog/ftwdt010_wdt.c`, facts only. Unverified on silicon.

use core::time::Duration;

use trireme_nic::Registers;

use super::Hardware;

/// Bytes of registers.
pub const REGISTERS: usize = 0x10;

/// The value loaded; a restart; control. [1.9]
const WDLOAD: usize = 0x04;
const WDRESTART: usize = 0x08;
const WDCR: usize = 0x0c;
/// What is written for a restart: the counter becomes what is loaded. [1.9]
const MAGIC: u32 = 0x5ab9;
/// Control: counts; resets the system at the end; counts 5 MHz instead of the bus clock. [1.9]
const ENABLE: u32 = 1 << 0;
const RESET: u32 = 1 << 1;
const CLOCK_5_MHZ: u32 = 1 << 4;

/// The slow clock. [L]
const HZ: u64 = 5_000_000;
/// The fastest the bus clock can be: AHB at 200 MHz, by six. [1.6] One left running on it is kept alive soon enough.
const FASTEST_BUS_HZ: u64 = 33_333_334;

/// One of them.
pub struct Ftwdt010<R> {
    registers: R,
}

impl<R: Registers> Ftwdt010<R> {
    /// The watchdog as it was left.
    pub fn new(registers: R) -> Ftwdt010<R> {
        Ftwdt010 { registers }
    }
}

impl<R: Registers + Send> Hardware for Ftwdt010<R> {
    fn name(&self) -> &'static str {
        "Faraday FTWDT010"
    }

    fn timeout(&self) -> Option<Duration> {
        let control = self.registers.read32(WDCR);
        if control & (ENABLE | RESET) != ENABLE | RESET {
            return None;
        }
        let hz = if control & CLOCK_5_MHZ != 0 { HZ } else { FASTEST_BUS_HZ };
        Some(Duration::from_millis(u64::from(self.registers.read32(WDLOAD)) * 1000 / hz))
    }

    fn start(&mut self, timeout: Duration) {
        self.registers.write32(WDCR, 0);
        let counts = (timeout.as_millis() * u128::from(HZ) / 1000).clamp(1, u128::from(u32::MAX));
        self.registers.write32(WDLOAD, counts as u32);
        self.registers.write32(WDRESTART, MAGIC);
        // The clock is chosen before it counts. [L]
        self.registers.write32(WDCR, CLOCK_5_MHZ | RESET);
        self.registers.write32(WDCR, CLOCK_5_MHZ | RESET | ENABLE);
    }

    fn keep_alive(&mut self) {
        self.registers.write32(WDRESTART, MAGIC);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use super::*;

    /// The block by the sheet, 1.9, on a bus of 25 MHz.
    #[derive(Default)]
    struct Chip {
        counter: u64,
        load: u32,
        control: u32,
        clock_changed_while_counting: bool,
        resets: u32,
    }

    impl Chip {
        fn pass(&mut self, milliseconds: u64) {
            if self.control & 1 != 0 {
                let khz = if self.control & 1 << 4 != 0 { 5_000 } else { 25_000 };
                self.counter = self.counter.saturating_sub(milliseconds * khz);
                if self.counter == 0 && self.control & 1 << 1 != 0 {
                    self.resets += 1;
                }
            }
        }
    }

    #[derive(Clone, Default)]
    struct Shared(Arc<Mutex<Chip>>);

    impl Registers for Shared {
        fn read8(&self, _: usize) -> u8 {
            panic!("words only")
        }
        fn read16(&self, _: usize) -> u16 {
            panic!("words only")
        }
        fn write8(&self, _: usize, _: u8) {
            panic!("words only")
        }
        fn write16(&self, _: usize, _: u16) {
            panic!("words only")
        }
        fn read32(&self, offset: usize) -> u32 {
            let chip = self.0.lock().unwrap();
            match offset {
                0x04 => chip.load,
                0x0c => chip.control,
                _ => panic!("{offset:#x} is not read"),
            }
        }
        fn write32(&self, offset: usize, value: u32) {
            let mut chip = self.0.lock().unwrap();
            match offset {
                0x04 => chip.load = value,
                0x08 if value == 0x5ab9 => chip.counter = chip.load.into(),
                0x0c => {
                    let both = chip.control & value;
                    chip.clock_changed_while_counting |=
                        both & 1 != 0 && (chip.control ^ value) & 1 << 4 != 0;
                    // The clock is the one chosen before.
                    chip.clock_changed_while_counting |=
                        value & 1 != 0 && chip.control & 1 << 4 != value & 1 << 4;
                    chip.control = value;
                }
                _ => {}
            }
        }
    }

    #[test]
    fn asked_for_time_passes_before_a_reset_and_no_more() {
        let block = Shared::default();
        let mut watchdog = Ftwdt010::new(block.clone());
        assert_eq!(watchdog.timeout(), None);
        watchdog.start(Duration::from_secs(60));
        assert_eq!(watchdog.timeout(), Some(Duration::from_secs(60)));
        for _ in 0..10 {
            block.0.lock().unwrap().pass(59_000);
            watchdog.keep_alive();
        }
        let mut chip = block.0.lock().unwrap();
        assert_eq!(chip.resets, 0);
        chip.pass(61_000);
        assert_eq!(chip.resets, 1);
        assert!(!chip.clock_changed_while_counting);
    }

    #[test]
    fn one_left_running_on_the_bus_clock_is_kept_alive_in_time() {
        let block = Shared::default();
        *block.0.lock().unwrap() =
            Chip { counter: 250_000_000, load: 250_000_000, control: 3, ..Chip::default() };
        let mut watchdog = Ftwdt010::new(block.clone());
        // 10 s at 25 MHz; it is taken for less, never for more.
        let taken_for = watchdog.timeout().unwrap();
        assert!((7_000..=10_000).contains(&taken_for.as_millis()), "{taken_for:?}");
        block.0.lock().unwrap().pass(9_000);
        watchdog.keep_alive();
        let mut chip = block.0.lock().unwrap();
        chip.pass(9_000);
        assert_eq!((chip.resets, chip.control), (0, 3));
    }

    #[test]
    fn one_that_only_interrupts_is_not_taken_for_running() {
        let block = Shared::default();
        block.0.lock().unwrap().control = 1 | 1 << 2;
        assert_eq!(Ftwdt010::new(block).timeout(), None);
    }

    #[test]
    fn longest_time_is_what_the_counter_holds() {
        let mut watchdog = Ftwdt010::new(Shared::default());
        watchdog.start(Duration::from_secs(1_000_000));
        assert_eq!(watchdog.timeout(), Some(Duration::from_millis(858_993)));
    }
}

//! The watchdog of RZ/G2L and its relatives.
//!
//! It counts up; at the end of a period it wants to interrupt, at the end of a second one without a sign of life it resets.
//! What it does is fixed until it is put through a reset itself, and its clocks and that reset are the clock generator's
//! (CPG): nothing of it may be touched without clock, an access would never end.
//!
//! \[L\] is Linux `drivers/watchdog/rzg2l_wdt.c` and `drivers/clk/renesas/r9a07g044-cpg.c`, \[U\] Renesas' U-Boot for the SMARC kits
//! (`renesas-u-boot-cip`), `drivers/watchdog/rzg2l_wdt.c`, which may leave it running with 60 s: facts only. The manual was not
//! at hand. That its end resets the whole chip is up to WDTRSTSEL in the CPG, which the kits' TF-A sets. Unverified on silicon.

use core::time::Duration;

use trireme_nic::Registers;
use trireme_registers::wait_until;

use super::Hardware;

/// Bytes of its registers, and of the CPG's, that are touched.
pub const REGISTERS: usize = 0x10;
pub const CPG_REGISTERS: usize = 0xa00;

/// Enable; the period; the time passed; a write of one: a sign of life. [L]
const WDTCNT: usize = 0x00;
const WDTSET: usize = 0x04;
const WDTTIM: usize = 0x08;
const WDTINT: usize = 0x0c;
/// WDTCNT: counts. Cleared by nothing but a reset of the block. [L]
const WDTEN: u32 = 1;
/// WDTINT: the sign of life.
const INTDISP: u32 = 1;
/// WDTSET: bits 31:20 are how many counts there are in a period, less one.
const PERIOD_SHIFT: u32 = 20;
const LONGEST: u32 = 0xfff;

/// Of the CPG: clocks on, that monitored, reset released, that monitored. Bits 16 up select those of 0 up that are
/// written. [L]
const CLK_ON: usize = 0x548;
const CLK_MON: usize = 0x6c8;
const RST: usize = 0x848;
const RST_MON: usize = 0x9c8;

/// OSCCLK, which is the crystal's. [L]
const OSC_HZ: u64 = 24_000_000;
/// One count is so many cycles of it. [L]
const CYCLES: u64 = 1 << 20;
/// After a write the block needs 6 cycles of OSCCLK and 9 of P0 (100 MHz): 340 ns. [L, U]
const SETTLE_US: u32 = 1;
/// How long the block is held in reset, and the longest that clock and reset take. [U waits 35 µs]
const RESET_US: u32 = 40;
const START_US: u32 = 10_000;

/// Which one it is, by the address of its registers: those of the two application cores. [L, r9a07g044.dtsi]
pub fn channel(base: u64) -> Option<u32> {
    match base {
        0x1280_0800 => Some(0),
        0x1280_0c00 => Some(1),
        _ => None,
    }
}

/// One of them.
pub struct RzWdt<R, C> {
    registers: R,
    cpg: C,
    channel: u32,
    delay: fn(u32),
}

impl<R: Registers, C: Registers> RzWdt<R, C> {
    /// The watchdog as it was left; `delay` waits so many microseconds.
    pub fn new(registers: R, cpg: C, channel: u32, delay: fn(u32)) -> RzWdt<R, C> {
        RzWdt { registers, cpg, channel, delay }
    }

    /// Register access and main clock.
    fn clocks(&self) -> u32 {
        3 << (2 * self.channel)
    }

    fn is_reachable(&self) -> bool {
        self.cpg.read32(CLK_MON) & self.clocks() == self.clocks()
            && self.cpg.read32(RST_MON) & 1 << self.channel == 0
    }

    fn write(&self, offset: usize, value: u32) {
        self.registers.write32(offset, value);
        (self.delay)(SETTLE_US);
    }

    /// Starts the clocks and puts the block through a reset; whether that worked.
    fn reset(&self) -> bool {
        let (clocks, reset) = (self.clocks(), 1 << self.channel);
        self.cpg.write32(CLK_ON, clocks << 16 | clocks);
        self.cpg.write32(RST, reset << 16);
        (self.delay)(RESET_US);
        self.cpg.write32(RST, reset << 16 | reset);
        wait_until(&self.delay, "watchdog's clocks", START_US, || self.is_reachable()).is_ok()
    }
}

impl<R: Registers + Send, C: Registers + Send> Hardware for RzWdt<R, C> {
    fn name(&self) -> &'static str {
        "Renesas RZ/G2L WDT"
    }

    fn timeout(&self) -> Option<Duration> {
        if !self.is_reachable() || self.registers.read32(WDTCNT) & WDTEN == 0 {
            return None;
        }
        let counts = u64::from(self.registers.read32(WDTSET) >> PERIOD_SHIFT) + 1;
        Some(Duration::from_millis(2 * counts * CYCLES * 1000 / OSC_HZ))
    }

    fn start(&mut self, timeout: Duration) {
        if !self.reset() {
            return;
        }
        let cycles = timeout.as_millis() * u128::from(OSC_HZ) / 1000;
        let period = cycles.div_ceil(2 * u128::from(CYCLES)).saturating_sub(1);
        let period = period.min(u128::from(LONGEST)) as u32;
        self.write(WDTINT, INTDISP);
        self.write(WDTSET, period << PERIOD_SHIFT);
        self.write(WDTTIM, 0);
        self.write(WDTCNT, WDTEN);
    }

    fn keep_alive(&mut self) {
        if self.is_reachable() {
            self.write(WDTINT, INTDISP);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use super::*;

    /// The chip's part of it as [L] shows it.
    #[derive(Default)]
    struct Chip {
        clocks: u32,
        released: u32,
        stuck: bool,
        counting: bool,
        set: u32,
        /// Cycles since the last sign of life.
        passed: u64,
        resets: u32,
        touched_without_clock: u32,
    }

    impl Chip {
        fn pass(&mut self, milliseconds: u64) {
            if self.counting && self.clocks & 2 != 0 {
                self.passed += milliseconds * 24_000;
                if self.passed >= 2 * (u64::from(self.set) + 1) * 1024 * 1024 {
                    self.resets += 1;
                    self.passed = 0;
                }
            }
        }
    }

    #[derive(Clone, Default)]
    struct Block(Arc<Mutex<Chip>>);
    #[derive(Clone)]
    struct Generator(Arc<Mutex<Chip>>);

    /// What neither side of the chip has.
    macro_rules! words_only {
        () => {
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
        };
    }

    impl Registers for Block {
        fn read32(&self, offset: usize) -> u32 {
            let mut chip = self.0.lock().unwrap();
            chip.touched_without_clock += u32::from(chip.clocks != 3 || chip.released != 1);
            match offset {
                0 => u32::from(chip.counting),
                4 => chip.set << 20,
                _ => 0,
            }
        }
        fn write32(&self, offset: usize, value: u32) {
            let mut chip = self.0.lock().unwrap();
            chip.touched_without_clock += u32::from(chip.clocks != 3 || chip.released != 1);
            match offset {
                0x0 => chip.counting |= value & 1 != 0,
                // Once it counts, the period stays.
                0x4 if !chip.counting => chip.set = value >> 20,
                0xc if value & 1 != 0 => chip.passed = 0,
                _ => {}
            }
        }
        words_only!();
    }

    impl Registers for Generator {
        fn read32(&self, offset: usize) -> u32 {
            let chip = self.0.lock().unwrap();
            match offset {
                0x6c8 => chip.clocks,
                0x9c8 => !chip.released & 1,
                _ => panic!("{offset:#x} is not the watchdog's"),
            }
        }
        fn write32(&self, offset: usize, value: u32) {
            let mut chip = self.0.lock().unwrap();
            let (select, bits) = (value >> 16, value & 0xffff);
            assert!(matches!(offset, 0x548 | 0x848), "{offset:#x} is not the watchdog's");
            assert_eq!(select & !3, 0, "a neighbour's bit");
            match offset {
                0x548 if !chip.stuck => chip.clocks = chip.clocks & !select | bits & select,
                0x848 => {
                    chip.released = chip.released & !select | bits & select;
                    if chip.released & 1 == 0 {
                        (chip.counting, chip.set, chip.passed) = (false, 0, 0);
                    }
                }
                _ => {}
            }
        }
        words_only!();
    }

    fn watchdog(block: &Block) -> RzWdt<Block, Generator> {
        RzWdt::new(block.clone(), Generator(block.0.clone()), 0, |_| ())
    }

    #[test]
    fn asked_for_time_passes_before_a_reset_and_not_much_more() {
        let block = Block::default();
        let mut watchdog = watchdog(&block);
        assert_eq!(watchdog.timeout(), None);
        watchdog.start(Duration::from_secs(60));
        for _ in 0..10 {
            block.0.lock().unwrap().pass(59_900);
            watchdog.keep_alive();
        }
        let mut chip = block.0.lock().unwrap();
        assert_eq!(chip.resets, 0);
        chip.pass(60_100);
        assert_eq!((chip.resets, chip.touched_without_clock), (1, 0));
    }

    #[test]
    fn one_left_running_is_kept_alive_at_its_own_pace() {
        let block = Block::default();
        // As [U] leaves it: 60 s, rounded down to counts.
        *block.0.lock().unwrap() =
            Chip { clocks: 3, released: 1, counting: true, set: 686, ..Chip::default() };
        let mut watchdog = watchdog(&block);
        assert_eq!(watchdog.timeout(), Some(Duration::from_millis(60_030)));
        watchdog.keep_alive();
        block.0.lock().unwrap().pass(60_000);
        assert_eq!(block.0.lock().unwrap().resets, 0);
        // Another time takes a reset of the block.
        watchdog.start(Duration::from_secs(1));
        assert!(watchdog.timeout().unwrap() < Duration::from_millis(1100));
        assert!(watchdog.timeout().unwrap() >= Duration::from_secs(1));
    }

    #[test]
    fn without_clock_it_is_left_alone() {
        let block = Block::default();
        block.0.lock().unwrap().stuck = true;
        let mut watchdog = watchdog(&block);
        watchdog.keep_alive();
        watchdog.start(Duration::from_secs(1));
        assert_eq!(watchdog.timeout(), None);
        assert_eq!(block.0.lock().unwrap().touched_without_clock, 0);
    }

    #[test]
    fn longest_time_is_what_twelve_bits_hold() {
        let mut watchdog = watchdog(&Block::default());
        watchdog.start(Duration::from_secs(1_000_000));
        // 2 * 4096 * 2^20 / 24 MHz.
        assert_eq!(watchdog.timeout(), Some(Duration::from_millis(357_913)));
    }
}

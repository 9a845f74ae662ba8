//! The RCLK watchdog of R-Car Gen3.
//!
//! It counts up and resets the chip when its 16 bits overflow. Registers want a key in the upper bits of each write.
//! [L] is Linux `drivers/watchdog/renesas_wdt.c`, facts only; the manual (R-Car Gen3, "RCLK Watchdog Timer") was not at
//! hand. Its module clock (402) is one that is never gated. Unverified on silicon.

use core::time::Duration;

use trireme_nic::Registers;

use super::Hardware;

/// Bytes of registers.
pub const REGISTERS: usize = 0x0c;

/// Counter: key 5a5ah, 16 bits. [L]
const RWTCNT: usize = 0x00;
/// Control A and B: key a5a5a5h, 8 bits. [L]
const RWTCSRA: usize = 0x04;
const RWTCSRB: usize = 0x08;
const COUNTER_KEY: u32 = 0x5a5a << 16;
const CONTROL_KEY: u32 = 0xa5_a5a5 << 8;
/// Control A: a write to the counter is under way; enabled; which divider. [L]
const WRFLG: u8 = 1 << 5;
const TME: u8 = 1 << 7;
const CKS: u8 = 7;

/// What the clock is divided by, for each value of CKS. [L]
const DIVIDERS: [u32; 7] = [1, 4, 16, 32, 64, 128, 1024];
/// The largest one.
const SLOWEST: u8 = 6;
/// RCLK, nominally. [docs/hardware/ravb.md has no figure; Linux's r8a7795-cpg-mssr.c names it "r", 32.768 kHz]
const RCLK_HZ: u32 = 32_768;
/// Looks at WRFLG before giving up; it takes a few cycles of RCLK.
const PATIENCE: u32 = 1_000_000;

/// One of them.
pub struct Rwdt<R> {
    registers: R,
    divider: u32,
    /// Where the counter starts.
    start: u16,
}

impl<R: Registers> Rwdt<R> {
    /// The watchdog as it was left.
    pub fn new(registers: R) -> Rwdt<R> {
        let cks = usize::from(registers.read8(RWTCSRA) & CKS);
        // From 0 on it has the longest time there is with this divider.
        Rwdt { registers, divider: DIVIDERS.get(cks).copied().unwrap_or(1), start: 0 }
    }

    fn control(&mut self, value: u8) {
        self.registers.write32(RWTCSRA, CONTROL_KEY | u32::from(value));
    }

    fn count_from_start(&mut self) {
        self.registers.write32(RWTCNT, COUNTER_KEY | u32::from(self.start));
        let done = || self.registers.read8(RWTCSRA) & WRFLG == 0;
        let _ = (0..PATIENCE).any(|_| done());
    }
}

impl<R: Registers> Hardware for Rwdt<R> {
    fn name(&self) -> &'static str {
        "Renesas RWDT"
    }

    fn timeout(&self) -> Option<Duration> {
        if self.registers.read8(RWTCSRA) & TME == 0 {
            return None;
        }
        let counts = 0x1_0000 - u64::from(self.start);
        Some(Duration::from_millis(counts * u64::from(self.divider) * 1000 / u64::from(RCLK_HZ)))
    }

    fn start(&mut self, timeout: Duration) {
        self.control(0);
        self.registers.write32(RWTCSRB, CONTROL_KEY);
        self.divider = DIVIDERS[usize::from(SLOWEST)];
        let hz = u128::from(RCLK_HZ / self.divider);
        let counts = (timeout.as_millis() * hz).div_ceil(1000).clamp(1, 0xffff) as u16;
        self.start = 0u16.wrapping_sub(counts);
        self.count_from_start();
        self.control(SLOWEST | TME);
    }

    fn keep_alive(&mut self) {
        self.count_from_start();
    }
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;
    use std::sync::{Arc, Mutex};

    use super::*;

    /// The block as [L] shows it: writes without their key are lost, WRFLG stays a while, TME clears a pending one.
    #[derive(Default)]
    struct Block {
        counter: u32,
        control: u8,
        writing: RefCell<u32>,
        resets: u32,
        bad_keys: u32,
    }

    impl Block {
        /// Lets so many seconds of RCLK pass.
        fn pass(&mut self, seconds: u32) {
            if self.control & 0x80 != 0 {
                let divider = [1, 4, 16, 32, 64, 128, 1024][usize::from(self.control & 7)];
                self.counter += seconds * 32_768 / divider;
                if self.counter > 0xffff {
                    self.resets += 1;
                    self.counter = 0;
                }
            }
        }
    }

    #[derive(Clone, Default)]
    struct Shared(Arc<Mutex<Block>>);

    impl Registers for Shared {
        fn read8(&self, offset: usize) -> u8 {
            assert_eq!(offset, 4);
            let block = self.0.lock().unwrap();
            let mut writing = block.writing.borrow_mut();
            let busy = *writing > 0;
            *writing = writing.saturating_sub(1);
            block.control | u8::from(busy) << 5
        }
        fn read16(&self, _: usize) -> u16 {
            unimplemented!("the driver has no need of it")
        }
        fn read32(&self, _: usize) -> u32 {
            unimplemented!("the driver has no need of it")
        }
        fn write8(&self, _: usize, _: u8) {
            self.0.lock().unwrap().bad_keys += 1;
        }
        fn write16(&self, _: usize, _: u16) {
            self.0.lock().unwrap().bad_keys += 1;
        }
        fn write32(&self, offset: usize, value: u32) {
            let mut block = self.0.lock().unwrap();
            match (offset, value >> 16, value >> 8) {
                (0, 0x5a5a, _) => {
                    block.counter = value & 0xffff;
                    *block.writing.borrow_mut() = 5;
                }
                (4, _, 0xa5_a5a5) => block.control = value as u8 & 0x97,
                (8, _, 0xa5_a5a5) => {}
                _ => block.bad_keys += 1,
            }
        }
    }

    #[test]
    fn asked_for_time_passes_before_a_reset_and_no_more() {
        let block = Shared::default();
        let mut watchdog = Rwdt::new(block.clone());
        assert_eq!(watchdog.timeout(), None);
        watchdog.start(Duration::from_secs(60));
        assert_eq!(watchdog.timeout(), Some(Duration::from_secs(60)));
        for _ in 0..10 {
            block.0.lock().unwrap().pass(59);
            watchdog.keep_alive();
        }
        assert_eq!(block.0.lock().unwrap().resets, 0);
        block.0.lock().unwrap().pass(61);
        assert_eq!(block.0.lock().unwrap().resets, 1);
        assert_eq!(block.0.lock().unwrap().bad_keys, 0);
    }

    #[test]
    fn one_left_running_is_kept_alive_at_its_own_pace() {
        let block = Shared::default();
        block.0.lock().unwrap().control = 0x80 | 3;
        block.0.lock().unwrap().counter = 0xff00;
        let mut watchdog = Rwdt::new(block.clone());
        // 65,536 counts of 32,768 Hz / 32.
        assert_eq!(watchdog.timeout(), Some(Duration::from_secs(64)));
        watchdog.keep_alive();
        block.0.lock().unwrap().pass(63);
        assert_eq!(block.0.lock().unwrap().resets, 0);
        assert_eq!(block.0.lock().unwrap().control, 0x80 | 3, "it was set up anew");
    }

    #[test]
    fn longest_time_is_what_sixteen_bits_hold() {
        let mut watchdog = Rwdt::new(Shared::default());
        watchdog.start(Duration::from_secs(1_000_000));
        assert_eq!(watchdog.timeout(), Some(Duration::from_millis(0xffff * 1000 / 32)));
    }
}

//! The watchdog of Intel's 6300ESB, a PCI function; QEMU has it for every machine with PCI (`-device i6300esb`).
//!
//! Two stages of 20 bits count down one after the other; at the end of the second the machine is reset. A write of 80h
//! and 86h unlocks the register that is written next. Source: [DS] Intel 6300ESB I/O Controller Hub data sheet 300641,
//! chapter "Watchdog Timer". Run on QEMU.

use core::time::Duration;

use trireme_nic::Registers;

use super::Hardware;

/// Its numbers.
pub const PCI_ID: (u16, u16) = (0x8086, 0x25ab);

/// Registers in memory. [DS]
const PRELOAD_1: usize = 0x00;
const PRELOAD_2: usize = 0x04;
const RELOAD: usize = 0x0c;
/// RELOAD: back to the first stage; the flag of an earlier end, cleared by writing one.
const AGAIN: u16 = 1 << 8;
const TIMEOUT: u16 = 1 << 9;
/// In configuration space: a word with the clock and what happens, a byte that starts. [DS]
const SETTINGS: u8 = 0x60;
const LOCK: u8 = 0x68;
/// SETTINGS: no interrupt after the first stage. The clock is 33 MHz / 2^15 and the output resets when bits 2 and 5 are 0.
const NO_INTERRUPT: u16 = 3;
/// LOCK: counts.
const ENABLE: u8 = 1 << 1;

/// Counts in a second, near enough: 33 MHz / 32,768.
const HZ: u128 = 1007;

/// The function's configuration space. Registers there take accesses of their own width only, in QEMU at least.
pub trait Configuration: Send {
    /// Reads a byte.
    fn read8(&self, offset: u8) -> u8;
    /// Writes a byte.
    fn write8(&mut self, offset: u8, value: u8);
    /// Writes 16 bits.
    fn write16(&mut self, offset: u8, value: u16);
}

/// One of them.
pub struct Esb<R, C> {
    registers: R,
    space: C,
    /// Counts in both stages together.
    counts: u32,
}

impl<R: Registers, C: Configuration> Esb<R, C> {
    /// The watchdog as it was left.
    pub fn new(registers: R, space: C) -> Esb<R, C> {
        // The preloads read back; whoever started it left them.
        let stage = |offset| registers.read32(offset) & 0xf_ffff;
        let counts = stage(PRELOAD_1) + stage(PRELOAD_2);
        Esb { registers, space, counts }
    }

    fn unlock(&self) {
        self.registers.write8(RELOAD, 0x80);
        self.registers.write8(RELOAD, 0x86);
    }

    fn reload(&self, bits: u16) {
        self.unlock();
        self.registers.write16(RELOAD, bits);
    }
}

impl<R: Registers, C: Configuration> Hardware for Esb<R, C> {
    fn name(&self) -> &'static str {
        "Intel 6300ESB"
    }

    fn timeout(&self) -> Option<Duration> {
        let runs = self.space.read8(LOCK) & ENABLE != 0;
        runs.then(|| Duration::from_millis(u64::from(self.counts) * 1000 / HZ as u64))
    }

    fn start(&mut self, timeout: Duration) {
        self.space.write16(SETTINGS, NO_INTERRUPT);
        let stage = (timeout.as_millis() * HZ).div_ceil(2000).clamp(1, 0xf_ffff) as u32;
        self.counts = 2 * stage;
        for preload in [PRELOAD_1, PRELOAD_2] {
            self.unlock();
            self.registers.write32(preload, stage);
        }
        self.reload(AGAIN | TIMEOUT);
        self.space.write8(LOCK, ENABLE);
    }

    fn keep_alive(&mut self) {
        self.reload(AGAIN);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use super::*;

    /// The function by the data sheet: a write takes effect only behind 80h and 86h.
    #[derive(Default)]
    struct Function {
        unlocking: u8,
        preloads: [u32; 2],
        reloads: u32,
        lost: u32,
        lock: u8,
        settings: u16,
    }

    #[derive(Clone, Default)]
    struct Shared(Arc<Mutex<Function>>);

    impl Shared {
        fn unlocked(&self) -> bool {
            let mut function = self.0.lock().unwrap();
            let unlocked = function.unlocking == 2;
            function.unlocking = 0;
            function.lost += u32::from(!unlocked);
            unlocked
        }
    }

    impl Registers for Shared {
        fn read8(&self, _: usize) -> u8 {
            unimplemented!("the driver has no need of it")
        }
        fn read16(&self, _: usize) -> u16 {
            unimplemented!("the driver has no need of it")
        }
        fn read32(&self, offset: usize) -> u32 {
            self.0.lock().unwrap().preloads[offset / 4]
        }
        fn write8(&self, offset: usize, value: u8) {
            assert_eq!(offset, 0x0c);
            let mut function = self.0.lock().unwrap();
            function.unlocking = match (function.unlocking, value) {
                (_, 0x80) => 1,
                (1, 0x86) => 2,
                _ => 0,
            };
        }
        fn write16(&self, offset: usize, value: u16) {
            assert_eq!(offset, 0x0c);
            if self.unlocked() && value & 0x100 != 0 {
                self.0.lock().unwrap().reloads += 1;
            }
        }
        fn write32(&self, offset: usize, value: u32) {
            if self.unlocked() {
                self.0.lock().unwrap().preloads[offset / 4] = value;
            }
        }
    }

    impl Configuration for Shared {
        fn read8(&self, offset: u8) -> u8 {
            assert_eq!(offset, 0x68);
            self.0.lock().unwrap().lock
        }
        fn write8(&mut self, offset: u8, value: u8) {
            assert_eq!(offset, 0x68);
            self.0.lock().unwrap().lock = value;
        }
        fn write16(&mut self, offset: u8, value: u16) {
            assert_eq!(offset, 0x60);
            self.0.lock().unwrap().settings = value;
        }
    }

    #[test]
    fn both_stages_get_half_the_time_and_then_it_counts() {
        let function = Shared::default();
        let mut watchdog = Esb::new(function.clone(), function.clone());
        assert_eq!(watchdog.timeout(), None);
        watchdog.start(Duration::from_secs(10));
        watchdog.keep_alive();
        let function = function.0.lock().unwrap();
        // 5 s of 33 MHz / 2^15.
        assert_eq!(function.preloads, [5035, 5035]);
        assert_eq!((function.reloads, function.lost), (2, 0));
        // No interrupt; 1 kHz and reset at the end are zeroes. Enabled, not locked.
        assert_eq!((function.settings, function.lock), (3, 2));
    }

    #[test]
    fn one_left_running_is_recognised_with_its_time() {
        let function = Shared::default();
        function.0.lock().unwrap().preloads = [1007, 2014];
        function.0.lock().unwrap().lock = 2;
        let watchdog = Esb::new(function.clone(), function.clone());
        assert_eq!(watchdog.timeout(), Some(Duration::from_secs(3)));
    }
}

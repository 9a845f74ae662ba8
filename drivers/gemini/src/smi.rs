//! Realtek's two-wire management bus: start, bytes with an acknowledgement each, stop, as on I2C. [GM 2.1]

use trireme_phy::Pins;

/// Half a clock, in microseconds; 10 ns would do.
const HALF_US: u32 = 1;
const READ: u8 = 0xa9;
const WRITE: u8 = 0xa8;

/// The bus.
pub(crate) struct Smi<'a, P> {
    pins: P,
    delay: &'a dyn Fn(u32),
}

impl<'a, P: Pins> Smi<'a, P> {
    /// On these pins; `delay` waits for so many microseconds.
    pub(crate) fn new(pins: P, delay: &'a dyn Fn(u32)) -> Smi<'a, P> {
        Smi { pins, delay }
    }

    /// Reads a register; `None` if nobody answers.
    pub(crate) fn read(&self, register: u16) -> Option<u16> {
        self.start();
        let [low, high] = register.to_le_bytes();
        let heard = [READ, low, high].into_iter().all(|byte| self.put(byte));
        let value = heard.then(|| {
            let low = self.get();
            self.bit(false);
            let high = self.get();
            self.bit(true);
            u16::from_le_bytes([low, high])
        });
        self.stop();
        value
    }

    /// Writes a register. False: nobody takes it.
    pub(crate) fn write(&self, register: u16, value: u16) -> bool {
        self.start();
        let ([a, b], [c, d]) = (register.to_le_bytes(), value.to_le_bytes());
        let heard = [WRITE, a, b, c, d].into_iter().all(|byte| self.put(byte));
        self.stop();
        heard
    }

    fn lines(&self, clock: bool, data: Option<bool>) {
        self.pins.drive(clock, data);
        (self.delay)(HALF_US);
    }

    /// Data falls while the clock is high.
    fn start(&self) {
        for (clock, data) in [(false, true), (true, true), (true, false), (false, false)] {
            self.lines(clock, Some(data));
        }
    }

    /// And rises.
    fn stop(&self) {
        for (clock, data) in [(false, false), (true, false), (true, true)] {
            self.lines(clock, Some(data));
        }
    }

    fn bit(&self, bit: bool) {
        for clock in [false, true, false] {
            self.lines(clock, Some(bit));
        }
    }

    fn heard(&self) -> bool {
        self.lines(false, None);
        self.lines(true, None);
        let bit = self.pins.sample();
        self.lines(false, None);
        bit
    }

    /// Puts a byte. True: it was acknowledged.
    fn put(&self, byte: u8) -> bool {
        (0..8).rev().for_each(|n| self.bit(byte >> n & 1 != 0));
        !self.heard()
    }

    fn get(&self) -> u8 {
        (0..8).fold(0, |byte, _| byte << 1 | u8::from(self.heard()))
    }
}

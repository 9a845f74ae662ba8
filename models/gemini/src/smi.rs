//! The switch's end of Realtek's two-wire SMI (docs/hardware/gemini.md 2.1): start, bytes with an acknowledge
//! bit each, stop, as on I2C.

use crate::switch::Switch;

const READ: u8 = 0xa9;
const WRITE: u8 = 0xa8;

/// What has been seen of the transfer under way.
#[derive(Clone, Debug, Default)]
pub(crate) struct Smi {
    clock: bool,
    data: bool,
    active: bool,
    /// Bits of the byte under way, acknowledge included: 0 to 9.
    bits: u32,
    shift: u8,
    /// Bytes taken: command, address low and high, for writes data low and high.
    bytes: Vec<u8>,
    /// Bytes to give once the command is acknowledged.
    ready: Option<[u8; 2]>,
    /// Bytes to give now.
    reply: Option<[u8; 2]>,
    given: usize,
    output: Option<bool>,
}

impl Smi {
    /// What the switch drives on the data line.
    pub(crate) fn output(&self) -> Option<bool> {
        self.output
    }

    fn giving(&self) -> Option<u8> {
        self.reply.and_then(|reply| reply.get(self.given).copied())
    }

    /// The host's lines change.
    pub(crate) fn drive(&mut self, clock: bool, data: bool, switch: &mut Switch) {
        let old_clock = std::mem::replace(&mut self.clock, clock);
        let old_data = std::mem::replace(&mut self.data, data);
        if clock && old_clock && data != old_data && self.output.is_none() {
            // Data moves while the clock is high: start falls, stop rises.
            let (clock, data) = (self.clock, self.data);
            *self = Smi { clock, data, active: !data, ..Smi::default() };
            return;
        }
        if !self.active || clock == old_clock {
            return;
        }
        if clock {
            self.bits += 1;
            if self.bits <= 8 && self.giving().is_none() {
                self.shift = self.shift << 1 | u8::from(data);
            }
        } else {
            self.fall(switch);
        }
    }

    fn fall(&mut self, switch: &mut Switch) {
        match (self.bits, self.giving()) {
            (0..8, Some(byte)) => self.output = Some(byte >> (7 - self.bits) & 1 != 0),
            // The host acknowledges what it is given.
            (8, Some(_)) => self.output = None,
            (8, None) => self.output = self.take(switch).then_some(false),
            (9.., giving) => {
                self.bits = 0;
                self.given += usize::from(giving.is_some());
                self.reply = self.ready.take().or(self.reply);
                self.output = self.giving().map(|byte| byte >> 7 != 0);
            }
            _ => {}
        }
    }

    /// Takes a byte. True: acknowledged.
    fn take(&mut self, switch: &mut Switch) -> bool {
        self.bytes.push(self.shift);
        match *self.bytes.as_slice() {
            [READ | WRITE] | [READ | WRITE, _] | [WRITE, _, _] | [WRITE, _, _, _] => true,
            [READ, low, high] => {
                self.ready = Some(switch.read(u16::from_le_bytes([low, high])).to_le_bytes());
                true
            }
            [WRITE, low, high, data_low, data_high] => {
                let value = u16::from_le_bytes([data_low, data_high]);
                switch.write(u16::from_le_bytes([low, high]), value);
                true
            }
            _ => {
                self.active = false;
                false
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A host as docs/hardware/gemini.md 2.1 has it.
    struct Host(Smi, Switch);

    impl Host {
        fn lines(&mut self, clock: bool, data: bool) {
            self.0.drive(clock, data, &mut self.1);
        }
        fn start(&mut self) {
            for (clock, data) in [(false, true), (true, true), (true, false), (false, false)] {
                self.lines(clock, data);
            }
        }
        fn stop(&mut self) {
            for (clock, data) in [(false, false), (true, false), (true, true)] {
                self.lines(clock, data);
            }
        }
        fn put(&mut self, bit: bool) {
            self.lines(false, bit);
            self.lines(true, bit);
            self.lines(false, bit);
        }
        fn get(&mut self) -> bool {
            self.lines(true, true);
            let bit = self.0.output().unwrap_or(true);
            self.lines(false, true);
            bit
        }
        fn byte(&mut self, byte: u8) {
            (0..8).rev().for_each(|i| self.put(byte >> i & 1 != 0));
            assert!(!self.get(), "acknowledged");
        }
        fn read(&mut self, address: u16) -> u16 {
            self.start();
            self.byte(0xa9);
            address.to_le_bytes().into_iter().for_each(|byte| self.byte(byte));
            let low = (0..8).fold(0, |value, _| value << 1 | u16::from(self.get()));
            self.put(false);
            let high = (0..8).fold(0, |value, _| value << 1 | u16::from(self.get()));
            self.put(true);
            self.stop();
            high << 8 | low
        }
        fn write(&mut self, address: u16, value: u16) {
            self.start();
            self.byte(0xa8);
            address.to_le_bytes().into_iter().for_each(|byte| self.byte(byte));
            value.to_le_bytes().into_iter().for_each(|byte| self.byte(byte));
            self.stop();
        }
    }

    #[test]
    fn the_switch_identifies_and_keeps_registers() {
        let mut host = Host(Smi::default(), Switch::new());
        assert_eq!(host.read(0x005c), 0x5937);
        assert_eq!(host.read(0x0509), 0x5937);
        host.write(0x0061, 0x0020);
        assert_eq!(host.read(0x0061), 0x0020);
    }

    #[test]
    fn a_port_phy_is_reached_through_8000() {
        let mut host = Host(Smi::default(), Switch::new());
        // Register 2 of PHY 3: control says read, the address is written, the data read.
        host.write(0x8000, 1);
        host.write(0x8000 | 1 << 12 | 2, 0);
        assert_eq!(host.read(0x8002), 0x001c);
        // Power PHY 3 down: port status 0x15, high byte, loses its link.
        assert_eq!(host.read(0x0015) >> 12 & 1, 1);
        host.write(0x8000, 0);
        host.write(0x8000 | 1 << 12, 0x0800);
        assert_eq!(host.read(0x0015) >> 12 & 1, 0);
    }

    #[test]
    fn noise_on_the_lines_is_survived() {
        let mut random = fastrand::Rng::with_seed(1);
        let mut host = Host(Smi::default(), Switch::new());
        for _ in 0..20_000 {
            host.lines(random.bool(), random.bool());
        }
        host.stop();
        assert_eq!(host.read(0x005c), 0x5937);
    }
}

//! Clause 22 management frames over the pins in PIR, a bit at a time. [RV 4.1]
//!
//! A PHY takes our bit at the rising edge of MDC and puts its own out after one, so a bit of ours is
//! set up while MDC is low and one of the PHY's is sampled at the end of the high phase.

use crate::regs::{PIR, Pir};
use trireme_nic::Registers;

/// Half a clock, in microseconds; the shortest allowed is 0.2.
const HALF_US: u32 = 1;

const PREAMBLE: u32 = u32::MAX;
const START: u32 = 0b01;
const READ: u32 = 0b10;
const WRITE: u32 = 0b01;
const TURNAROUND: u32 = 0b10;

/// Register access and time, together.
pub(crate) struct Bus<'a, R> {
    pub(crate) bar: &'a R,
    pub(crate) delay: &'a dyn Fn(u32),
}

impl<R: Registers> Bus<'_, R> {
    /// Reads a PHY's register; `None` if nobody answers.
    pub(crate) fn read(&self, phy: u8, register: u8) -> Option<u16> {
        self.put(PREAMBLE, 32);
        self.put(START, 2);
        self.put(READ, 2);
        self.put(phy.into(), 5);
        self.put(register.into(), 5);
        // The PHY drives a zero in the second half of the turnaround.
        let silent = self.get(1) != 0;
        // The frame is clocked to its end in any case, or the PHY would lose step.
        let value = self.get(16) as u16;
        self.get(1);
        (!silent).then_some(value)
    }

    /// Writes a PHY's register.
    pub(crate) fn write(&self, phy: u8, register: u8, value: u16) {
        self.put(PREAMBLE, 32);
        self.put(START, 2);
        self.put(WRITE, 2);
        self.put(phy.into(), 5);
        self.put(register.into(), 5);
        self.put(TURNAROUND, 2);
        self.put(value.into(), 16);
        self.get(1);
    }

    fn put(&self, bits: u32, count: u32) {
        for n in (0..count).rev() {
            let bit = if bits >> n & 1 != 0 { Pir::MDO } else { Pir::empty() };
            self.clock(Pir::MMD | bit);
        }
    }

    fn get(&self, count: u32) -> u32 {
        (0..count).fold(0, |bits, _| {
            self.clock(Pir::empty());
            bits << 1 | u32::from(PIR.read(self.bar).contains(Pir::MDI))
        })
    }

    fn clock(&self, pins: Pir) {
        PIR.write(self.bar, pins);
        (self.delay)(HALF_US);
        PIR.write(self.bar, pins | Pir::MDC);
        (self.delay)(HALF_US);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Mutex;

    /// A wire that notes what is on it at each rising edge, and plays a PHY's bits: those of `reply` by
    /// number of the edge after which they are put out.
    struct Wire {
        state: Mutex<State>,
        reply: fn(usize) -> bool,
    }

    #[derive(Default)]
    struct State {
        edges: Vec<Option<bool>>,
        high: bool,
    }

    impl Registers for Wire {
        fn read32(&self, offset: usize) -> u32 {
            assert_eq!(offset, 0x520);
            let edges = self.state.lock().unwrap().edges.len();
            if (self.reply)(edges) { 8 } else { 0 }
        }
        fn write32(&self, offset: usize, value: u32) {
            assert_eq!(offset, 0x520);
            let mut state = self.state.lock().unwrap();
            let high = value & 1 != 0;
            if high && !state.high {
                state.edges.push((value & 2 != 0).then_some(value & 4 != 0));
            }
            state.high = high;
        }
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
    }

    fn wire(reply: fn(usize) -> bool) -> Wire {
        Wire { state: Mutex::default(), reply }
    }

    fn driven(wire: &Wire) -> String {
        let state = wire.state.lock().unwrap();
        let bit = |bit: &Option<bool>| bit.map_or('z', |bit| if bit { '1' } else { '0' });
        state.edges.iter().map(bit).collect()
    }

    /// Edges as [RV 4.1] counts them: 1-32 preamble, 33-34 start, 35-36 opcode, 37-41 PHY, 42-46 register;
    /// zero after edge 47, D15 after edge 48 to D0 after edge 63, released at 64.
    #[test]
    fn a_read_is_the_frame_of_the_standard() {
        let wire = wire(|edge| match edge {
            47 => false,
            48..=63 => 0x796d >> (63 - edge) & 1 != 0,
            _ => true,
        });
        let bus = Bus { bar: &wire, delay: &|_| () };
        assert_eq!(bus.read(7, 1), Some(0x796d));
        let expected =
            format!("{}01{}{}{}{}", "1".repeat(32), "10", "00111", "00001", "z".repeat(18));
        assert_eq!(driven(&wire), expected);
    }

    /// Edges 47 and 48 carry 1 and 0, 49-64 the data; then the bus is released.
    #[test]
    fn a_write_is_the_frame_of_the_standard() {
        let wire = wire(|_| true);
        Bus { bar: &wire, delay: &|_| () }.write(0, 9, 0x0200);
        let expected = format!(
            "{}01{}{}{}{}{}z",
            "1".repeat(32),
            "01",
            "00000",
            "01001",
            "10",
            "0000001000000000"
        );
        assert_eq!(driven(&wire), expected);
    }

    #[test]
    fn nobody_at_an_address_is_noticed() {
        let wire = wire(|_| true);
        assert_eq!(Bus { bar: &wire, delay: &|_| () }.read(3, 2), None);
    }
}

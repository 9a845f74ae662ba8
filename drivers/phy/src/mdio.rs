//! Clause 22 management frames, a bit at a time. [802.3 22.2.4.5]
//!
//! A PHY takes our bit at the rising edge of MDC and puts its own out after one, so a bit of ours is
//! set up while MDC is low and one of the PHY's is sampled at the end of the high phase.

/// Half a clock, in microseconds; the shortest allowed is 0.2.
const HALF_US: u32 = 1;

const PREAMBLE: u32 = u32::MAX;
const START: u32 = 0b01;
const READ: u32 = 0b10;
const WRITE: u32 = 0b01;
const TURNAROUND: u32 = 0b10;

/// The two pins.
pub trait Pins {
    /// Puts MDC to this level, and MDIO; `None`: whoever else wants to may drive it.
    fn drive(&self, clock: bool, data: Option<bool>);

    /// Level of MDIO.
    fn sample(&self) -> bool;
}

/// The management bus.
pub struct Mdio<'a, P> {
    pins: P,
    /// Waits for so many microseconds.
    pub(crate) delay: &'a dyn Fn(u32),
}

impl<'a, P: Pins> Mdio<'a, P> {
    /// On these pins; `delay` waits for so many microseconds.
    pub fn new(pins: P, delay: &'a dyn Fn(u32)) -> Mdio<'a, P> {
        Mdio { pins, delay }
    }

    /// Reads a PHY's register; `None` if nobody answers.
    pub fn read(&self, phy: u8, register: u8) -> Option<u16> {
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
    pub fn write(&self, phy: u8, register: u8, value: u16) {
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
            self.clock(Some(bits >> n & 1 != 0));
        }
    }

    fn get(&self, count: u32) -> u32 {
        (0..count).fold(0, |bits, _| {
            self.clock(None);
            bits << 1 | u32::from(self.pins.sample())
        })
    }

    fn clock(&self, data: Option<bool>) {
        self.pins.drive(false, data);
        (self.delay)(HALF_US);
        self.pins.drive(true, data);
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

    impl Pins for &Wire {
        fn sample(&self) -> bool {
            (self.reply)(self.state.lock().unwrap().edges.len())
        }
        fn drive(&self, clock: bool, data: Option<bool>) {
            let mut state = self.state.lock().unwrap();
            if clock && !state.high {
                state.edges.push(data);
            }
            state.high = clock;
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

    /// Edges are counted from one: 1-32 preamble, 33-34 start, 35-36 opcode, 37-41 PHY, 42-46 register;
    /// zero after edge 47, D15 after edge 48 to D0 after edge 63, released at 64.
    #[test]
    fn a_read_is_the_frame_of_the_standard() {
        let wire = wire(|edge| match edge {
            47 => false,
            48..=63 => 0x796d >> (63 - edge) & 1 != 0,
            _ => true,
        });
        let bus = Mdio::new(&wire, &|_| ());
        assert_eq!(bus.read(7, 1), Some(0x796d));
        let expected =
            format!("{}01{}{}{}{}", "1".repeat(32), "10", "00111", "00001", "z".repeat(18));
        assert_eq!(driven(&wire), expected);
    }

    /// Edges 47 and 48 carry 1 and 0, 49-64 the data; then the bus is released.
    #[test]
    fn a_write_is_the_frame_of_the_standard() {
        let wire = wire(|_| true);
        Mdio::new(&wire, &|_| ()).write(0, 9, 0x0200);
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
        assert_eq!(Mdio::new(&wire, &|_| ()).read(3, 2), None);
    }
}

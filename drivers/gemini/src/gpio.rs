//! Two lines of GPIO 0 as pins: there is no MDIO hardware. [GM 1.9, 1.10]

use core::cell::Cell;
use trireme_nic::Registers;
use trireme_phy::Pins;
use trireme_registers::{Reg, Ro, Rw, W1s};

/// Levels seen.
const IN: Reg<u32, Ro> = Reg::at(0x04);
/// Lines driven.
const DIRECTION: Reg<u32, Rw> = Reg::at(0x08);
/// A one drives a line high, or low.
const SET: Reg<u32, W1s> = Reg::at(0x10);
const CLEAR: Reg<u32, W1s> = Reg::at(0x14);

/// Which lines of GPIO 0 the management bus is on, by board.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lines {
    /// MDC, 0 to 31.
    pub clock: u8,
    /// MDIO.
    pub data: u8,
}

impl Lines {
    /// The reference design's and most boards'.
    pub const REFERENCE: Lines = Lines { clock: 22, data: 21 };
    /// Where a Realtek switch is on them: DIR-685, SE-208BW.
    pub const REALTEK: Lines = Lines { clock: 21, data: 22 };
}

/// The two pins.
pub(crate) struct GpioPins<'a, R> {
    gpio: &'a R,
    clock: u32,
    data: u32,
    /// Data is driven by us, as the register was told last.
    driven: Cell<Option<bool>>,
}

impl<'a, R: Registers> GpioPins<'a, R> {
    pub(crate) fn new(gpio: &'a R, lines: Lines) -> GpioPins<'a, R> {
        let (clock, data) = (1 << (lines.clock & 31), 1 << (lines.data & 31));
        DIRECTION.modify(gpio, |lines| lines | clock);
        GpioPins { gpio, clock, data, driven: Cell::new(None) }
    }

    fn put(&self, line: u32, high: bool) {
        if high { SET.act(self.gpio, line) } else { CLEAR.act(self.gpio, line) }
    }
}

impl<R: Registers> Pins for GpioPins<'_, R> {
    fn drive(&self, clock: bool, data: Option<bool>) {
        if !clock {
            self.put(self.clock, false);
        }
        if let Some(high) = data {
            self.put(self.data, high);
        }
        if self.driven.replace(Some(data.is_some())) != Some(data.is_some()) {
            let drive = data.is_some();
            DIRECTION.modify(
                self.gpio,
                |lines| {
                    if drive { lines | self.data } else { lines & !self.data }
                },
            );
        }
        if clock {
            self.put(self.clock, true);
        }
    }

    fn sample(&self) -> bool {
        IN.read(self.gpio) & self.data != 0
    }
}

//! The management bus on the pins in PIR. [RV 4.1]

use crate::regs::{PIR, Pir};
use trireme_nic::Registers;
use trireme_phy::{Mdio, Pins};

/// PIR.
pub(crate) struct PirPins<'a, R>(&'a R);

impl<R: Registers> Pins for PirPins<'_, R> {
    fn drive(&self, clock: bool, data: Option<bool>) {
        let mut pins = Pir::empty();
        pins.set(Pir::MDC, clock);
        pins.set(Pir::MMD, data.is_some());
        pins.set(Pir::MDO, data == Some(true));
        PIR.write(self.0, pins);
    }

    fn sample(&self) -> bool {
        PIR.read(self.0).contains(Pir::MDI)
    }
}

/// The management bus of a card.
pub(crate) type Bus<'a, R> = Mdio<'a, PirPins<'a, R>>;

/// The management bus of the card with these registers.
pub(crate) fn bus<'a, R: Registers>(bar: &'a R, delay: &'a dyn Fn(u32)) -> Bus<'a, R> {
    Mdio::new(PirPins(bar), delay)
}

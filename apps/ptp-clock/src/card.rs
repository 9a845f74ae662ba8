//! The card's clock as the protocol sees it.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use statime::Clock;
use statime::config::TimePropertiesDS;
use statime::time::{Duration, Time};
use trireme::ptp::{Error, Port, PtpTime};

/// A time of the card in the protocol's terms.
pub fn time(of: PtpTime) -> Time {
    Time::from_fixed_nanos(u128::from(of.seconds) * 1_000_000_000 + u128::from(of.nanoseconds))
}

/// The other way round.
pub fn ptp_time(of: Time) -> PtpTime {
    PtpTime { seconds: of.secs(), nanoseconds: of.subsec_nanos() }
}

/// The clock of a card.
#[derive(Clone, Debug)]
pub struct CardClock {
    port: Rc<RefCell<Port>>,
    /// What it was last asked to run faster by, in ppm.
    frequency: Rc<Cell<f64>>,
}

impl CardClock {
    /// The clock behind a port.
    pub fn new(port: Rc<RefCell<Port>>) -> CardClock {
        CardClock { port, frequency: Rc::default() }
    }

    /// What it was last asked to run faster by, in ppm.
    pub fn frequency(&self) -> f64 {
        self.frequency.get()
    }

    fn read(&self) -> Result<Time, Error> {
        self.port.borrow_mut().now().map(time)
    }
}

impl Clock for CardClock {
    type Error = Error;

    fn now(&self) -> Time {
        self.read().unwrap_or_default()
    }

    fn step_clock(&mut self, offset: Duration) -> Result<Time, Error> {
        let stepped = self.read()? + offset;
        self.port.borrow_mut().set(ptp_time(stepped))?;
        println!("clock stepped by {:.9} s", offset.seconds());
        Ok(stepped)
    }

    fn set_frequency(&mut self, ppm: f64) -> Result<Time, Error> {
        // A cast saturates; what the card cannot do it refuses.
        self.port.borrow_mut().adjust((ppm * 1000.0).round() as i32)?;
        self.frequency.set(ppm);
        self.read()
    }

    fn set_properties(&mut self, _: &TimePropertiesDS) -> Result<(), Error> {
        // The card's clock counts seconds and knows of no leaps.
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_the_same_both_ways() {
        for (seconds, nanoseconds) in [(0, 0), (1_764_582_000, 999_999_999), ((1 << 48) - 1, 1)] {
            let of = PtpTime { seconds, nanoseconds };
            assert_eq!(ptp_time(time(of)), of);
        }
        let later =
            time(PtpTime { seconds: 9, nanoseconds: 999_999_990 }) + Duration::from_nanos(20);
        assert_eq!(ptp_time(later), PtpTime { seconds: 10, nanoseconds: 10 });
    }
}

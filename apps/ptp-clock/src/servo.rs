//! What is done about an offset: nothing, or the clock is set once and its rate trimmed from then on.
//!
//! `statime` has filters of its own, but the better of them can be brought to divide by zero, and to panic, by a master that
//! says odd things. This is the servo that `ptp4l` has unless told otherwise: proportional and integral, behind a median of
//! the delays.

use std::collections::VecDeque;

use statime::Clock;
use statime::filters::{Filter, FilterEstimate, FilterUpdate};
use statime::port::Measurement;
use statime::time::{Duration, Time};

/// Delays the median is of.
const DELAYS: usize = 10;
/// A delay from here on, in seconds, is none: it was measured across a step of the clock, or is made up.
const NO_DELAY: f64 = 1.0;
/// An offset above this, in nanoseconds, is corrected at once.
const STEP: f64 = 1e6;
/// Most the rate is trimmed by, in parts per thousand million. Crystals are good to 100,000.
const MOST: f64 = 500_000.0;
/// Of an offset, this much is worked off in a second, at one measurement a second; with fewer, less.
const PROPORTIONAL: f64 = 0.7;
/// The same for what becomes part of the rate for good.
const INTEGRAL: f64 = 0.3;

/// What to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// Measure only.
    Measure,
    /// Keep the clock on the master's time.
    Steer,
}

/// The filter of a port.
#[derive(Debug)]
pub struct Servo {
    purpose: Purpose,
    offset: Duration,
    delays: VecDeque<Duration>,
    /// What the rate has turned out to need, in parts per thousand million.
    drift: f64,
    last: Option<Time>,
}

impl Servo {
    fn delay(&self) -> Option<Duration> {
        let mut sorted: Vec<Duration> = self.delays.iter().copied().collect();
        sorted.sort_unstable();
        sorted.get(sorted.len() / 2).copied()
    }

    fn steer<C: Clock>(&mut self, offset: Duration, at: Time, clock: &mut C) {
        let nanoseconds = offset.nanos_lossy();
        let since = self.last.replace(at).map_or(1.0, |last| (at - last).seconds());
        // A failure shows in the next measurement.
        if nanoseconds.abs() > STEP {
            self.last = None;
            let _ = clock.step_clock(-offset);
            return;
        }
        let since = since.clamp(1.0 / 128.0, 128.0);
        let change = INTEGRAL * nanoseconds * since.min(1.0 / since);
        self.drift = (self.drift - change).clamp(-MOST, MOST);
        let rate = self.drift - PROPORTIONAL * nanoseconds * (1.0 / since).min(1.0);
        let _ = clock.set_frequency(rate.clamp(-MOST, MOST) / 1000.0);
    }
}

impl Filter for Servo {
    type Config = Purpose;

    fn new(purpose: Purpose) -> Servo {
        let delays = VecDeque::with_capacity(DELAYS);
        Servo { purpose, offset: Duration::ZERO, delays, drift: 0.0, last: None }
    }

    fn measurement<C: Clock>(&mut self, measured: Measurement, clock: &mut C) -> FilterUpdate {
        let delay = measured.delay.or(measured.peer_delay);
        if let Some(delay) = delay.filter(|delay| delay.seconds().abs() < NO_DELAY) {
            if self.delays.len() == DELAYS {
                self.delays.pop_front();
            }
            self.delays.push_back(delay);
        }
        if let Some(offset) = measured.offset {
            self.offset = offset;
            if self.purpose == Purpose::Steer {
                self.steer(offset, measured.event_time, clock);
            }
        }
        FilterUpdate { mean_delay: self.delay(), next_update: None }
    }

    fn update<C: Clock>(&mut self, _: &mut C) -> FilterUpdate {
        FilterUpdate::default()
    }

    fn demobilize<C: Clock>(self, clock: &mut C) {
        if self.purpose == Purpose::Steer {
            let _ = clock.set_frequency(self.drift / 1000.0);
        }
    }

    fn current_estimates(&self) -> FilterEstimate {
        let mean_delay = self.delay().unwrap_or(Duration::ZERO);
        FilterEstimate { offset_from_master: self.offset, mean_delay }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use statime::config::TimePropertiesDS;

    /// A clock that is too fast by `error` ppm, against one that is right.
    struct Simulated {
        ahead: f64,
        error: f64,
        trimmed: f64,
        steps: usize,
    }

    impl Simulated {
        fn new(ahead: f64, error: f64) -> Simulated {
            Simulated { ahead, error, trimmed: 0.0, steps: 0 }
        }

        fn run(&mut self, seconds: f64) {
            self.ahead += (self.error + self.trimmed) * 1000.0 * seconds;
        }
    }

    impl Clock for Simulated {
        type Error = ();

        fn now(&self) -> Time {
            Time::default()
        }

        fn step_clock(&mut self, offset: Duration) -> Result<Time, ()> {
            self.ahead += offset.nanos_lossy();
            self.steps += 1;
            Ok(Time::default())
        }

        fn set_frequency(&mut self, ppm: f64) -> Result<Time, ()> {
            assert!(ppm.abs() <= 500.0);
            self.trimmed = ppm;
            Ok(Time::default())
        }

        fn set_properties(&mut self, _: &TimePropertiesDS) -> Result<(), ()> {
            Ok(())
        }
    }

    fn ahead(by: f64, at: f64) -> Measurement {
        Measurement {
            event_time: Time::from_nanos((at * 1e9) as u64),
            offset: Some(Duration::from_fixed_nanos(by)),
            ..Measurement::default()
        }
    }

    #[test]
    fn any_clock_is_brought_to_the_masters_time_and_rate() {
        for (wrong, error, interval) in
            [(5e9, 40.0, 1.0), (-9e5, -90.0, 0.0625), (9e5, 90.0, 0.0625), (1e5, 20.0, 4.0)]
        {
            let (mut servo, mut clock) = (Servo::new(Purpose::Steer), Simulated::new(wrong, error));
            let mut at = 100.0;
            while at < 400.0 {
                servo.measurement(ahead(clock.ahead, at), &mut clock);
                clock.run(interval);
                at += interval;
            }
            assert!(clock.ahead.abs() < 1.0, "{} ns of {wrong} at {error} ppm", clock.ahead);
            assert!((clock.trimmed + error).abs() < 0.01, "{} ppm", clock.trimmed);
            assert_eq!(clock.steps, usize::from(f64::abs(wrong) > STEP));
            // Without a master it goes on as it has learned to.
            servo.demobilize(&mut clock);
            assert!((clock.trimmed + error).abs() < 0.01);
        }
    }

    #[test]
    fn a_clock_that_runs_free_is_only_measured() {
        let (mut servo, mut clock) = (Servo::new(Purpose::Measure), Simulated::new(5e9, 40.0));
        servo.measurement(ahead(clock.ahead, 1.0), &mut clock);
        assert_eq!((clock.ahead, clock.trimmed, clock.steps), (5e9, 0.0, 0));
        assert_eq!(servo.current_estimates().offset_from_master, Duration::from_secs(5));
    }

    #[test]
    fn delays_that_are_none_and_single_odd_ones_do_not_count() {
        let (mut servo, mut clock) = (Servo::new(Purpose::Steer), Simulated::new(0.0, 0.0));
        for nanoseconds in [i64::MAX, 3_000, -2_000_000_000, 3_100, 800_000_000, 3_050, i64::MIN] {
            let delay = Some(Duration::from_nanos(nanoseconds));
            servo.measurement(Measurement { delay, ..Measurement::default() }, &mut clock);
        }
        assert_eq!(servo.current_estimates().mean_delay, Duration::from_nanos(3_100));
    }

    #[test]
    fn no_measurement_is_too_odd() {
        let (mut servo, mut clock) = (Servo::new(Purpose::Steer), Simulated::new(0.0, 0.0));
        let extremes = [0.0, 1.0, -1.0, 999_999.0, -999_999.0, 1e18, -1e18, 2.4e26, -2.4e26];
        for by in extremes {
            for at in [0.0, 1.0, 1.0, 1e9, 0.5] {
                servo.measurement(ahead(by, at), &mut clock);
            }
        }
    }
}

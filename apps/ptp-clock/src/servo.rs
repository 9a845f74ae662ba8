//! What is done about an offset: nothing, or what `statime`'s Kalman filter says. Either way it is remembered as measured.

use statime::Clock;
use statime::filters::{Filter, FilterEstimate, FilterUpdate, KalmanConfiguration, KalmanFilter};
use statime::port::Measurement;
use statime::time::Duration;

/// What to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// Measure only.
    Measure,
    /// Keep the clock on the master's time.
    Steer,
}

/// The filter of a port.
pub struct Servo {
    steering: Option<KalmanFilter>,
    offset: Duration,
    delay: Duration,
}

impl Filter for Servo {
    type Config = Purpose;

    fn new(purpose: Purpose) -> Servo {
        let steering = match purpose {
            Purpose::Measure => None,
            Purpose::Steer => Some(KalmanFilter::new(KalmanConfiguration::default())),
        };
        Servo { steering, offset: Duration::ZERO, delay: Duration::ZERO }
    }

    fn measurement<C: Clock>(&mut self, measured: Measurement, clock: &mut C) -> FilterUpdate {
        self.offset = measured.offset.unwrap_or(self.offset);
        let delay = measured.delay.or(measured.peer_delay);
        self.delay = delay.unwrap_or(self.delay);
        match &mut self.steering {
            Some(filter) => filter.measurement(measured, clock),
            None => FilterUpdate { mean_delay: delay, ..FilterUpdate::default() },
        }
    }

    fn update<C: Clock>(&mut self, clock: &mut C) -> FilterUpdate {
        self.steering.as_mut().map_or_else(FilterUpdate::default, |filter| filter.update(clock))
    }

    fn demobilize<C: Clock>(self, clock: &mut C) {
        if let Some(filter) = self.steering {
            filter.demobilize(clock);
        }
    }

    fn current_estimates(&self) -> FilterEstimate {
        FilterEstimate { offset_from_master: self.offset, mean_delay: self.delay }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use statime::config::TimePropertiesDS;
    use statime::time::Time;

    #[derive(Default)]
    struct Recorder(Vec<Duration>);

    impl Clock for Recorder {
        type Error = ();

        fn now(&self) -> Time {
            Time::default()
        }

        fn step_clock(&mut self, offset: Duration) -> Result<Time, ()> {
            self.0.push(offset);
            Ok(Time::default())
        }

        fn set_frequency(&mut self, _: f64) -> Result<Time, ()> {
            Ok(Time::default())
        }

        fn set_properties(&mut self, _: &TimePropertiesDS) -> Result<(), ()> {
            Ok(())
        }
    }

    fn ahead(by: Duration) -> Measurement {
        Measurement {
            event_time: Time::from_secs(100),
            offset: Some(by),
            delay: Some(Duration::from_micros(3)),
            raw_sync_offset: Some(by),
            ..Measurement::default()
        }
    }

    #[test]
    fn a_clock_that_is_ahead_is_set_back_unless_it_runs_free() {
        for (purpose, steps) in [(Purpose::Measure, 0), (Purpose::Steer, 1)] {
            let (mut servo, mut clock) = (Servo::new(purpose), Recorder::default());
            servo.measurement(ahead(Duration::from_secs(5)), &mut clock);
            assert_eq!(clock.0.len(), steps);
            assert!(clock.0.iter().all(|step| step.secs() <= -4), "{:?}", clock.0);
            assert_eq!(servo.current_estimates().offset_from_master, Duration::from_secs(5));
            assert_eq!(servo.current_estimates().mean_delay, Duration::from_micros(3));
        }
    }
}

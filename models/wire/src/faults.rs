//! What a wire can do to frames: lose, corrupt, truncate, duplicate, reorder. One seed, time as an
//! argument, so that a run can be repeated.

use crate::{FrameSink, FrameSource};
use std::collections::VecDeque;
use std::fmt;
use std::io;
use std::str::FromStr;
use std::time::{Duration, Instant};

/// Frames held back for reordering at most.
const HELD: usize = 16;

/// How likely each fault is, in parts per million of frames. They are drawn independently, in this
/// order, and several can hit one frame.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Faults {
    /// Frame disappears.
    pub loss: u32,
    /// One bit flips behind the FCS check: only checksums above can notice.
    pub corruption: u32,
    /// Frame is cut to a random shorter length, not below an Ethernet header.
    pub truncation: u32,
    /// Frame arrives twice.
    pub duplication: u32,
    /// Frame is held back until [`hold`](Faults::hold) has passed, so that later ones overtake it.
    pub reorder: u32,
    /// How long a reordered frame is held.
    pub hold: Duration,
}

/// A fault specification was not understood.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ParseFaultError(pub String);

impl fmt::Display for ParseFaultError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "wire fault {:?}: want loss, corruption, truncation, duplication or reorder",
            self.0
        )?;
        write!(f, "=PERCENT, or hold=MILLISECONDS")
    }
}

impl std::error::Error for ParseFaultError {}

impl FromStr for Faults {
    type Err = ParseFaultError;

    /// Comma-separated `name=percent`, e.g. `loss=1,reorder=0.5,hold=20`.
    fn from_str(text: &str) -> Result<Faults, ParseFaultError> {
        let mut faults = Faults { hold: Duration::from_millis(5), ..Faults::default() };
        for item in text.split(',').filter(|item| !item.is_empty()) {
            let error = || ParseFaultError(item.to_string());
            let (name, value) = item.split_once('=').ok_or_else(error)?;
            let number: f64 = value.parse().map_err(|_| error())?;
            if name == "hold" {
                faults.hold = Duration::try_from_secs_f64(number / 1000.0).map_err(|_| error())?;
                continue;
            }
            if !(0.0..=100.0).contains(&number) {
                return Err(error());
            }
            let field = match name {
                "loss" => &mut faults.loss,
                "corruption" => &mut faults.corruption,
                "truncation" => &mut faults.truncation,
                "duplication" => &mut faults.duplication,
                "reorder" => &mut faults.reorder,
                _ => return Err(error()),
            };
            *field = (number * 10_000.0).round() as u32;
        }
        Ok(faults)
    }
}

/// What happened so far, in frames.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Frames that went in.
    pub offered: u64,
    /// Frames that came out, duplicates included.
    pub passed: u64,
    /// Lost.
    pub lost: u64,
    /// With a bit flipped.
    pub corrupted: u64,
    /// Cut.
    pub truncated: u64,
    /// Sent twice.
    pub duplicated: u64,
    /// Held back.
    pub reordered: u64,
}

/// The faults at work: frames and times in, frames out. Knows no clock.
pub struct Impairment {
    faults: Faults,
    random: fastrand::Rng,
    held: VecDeque<(Duration, Vec<u8>)>,
    counters: Counters,
}

impl Impairment {
    /// Faults drawn from `seed`.
    pub fn new(faults: Faults, seed: u64) -> Impairment {
        Impairment {
            faults,
            random: fastrand::Rng::with_seed(seed),
            held: VecDeque::new(),
            counters: Counters::default(),
        }
    }

    /// What happened so far.
    pub fn counters(&self) -> Counters {
        self.counters
    }

    fn draw(&mut self, ppm: u32) -> bool {
        // Drawn even when impossible, so that switching one fault on does not move the others.
        self.random.u32(0..1_000_000) < ppm
    }

    /// Passes one frame at `now` (any monotonic origin), and whatever was held back long enough.
    pub fn pass(&mut self, now: Duration, frame: &[u8], out: &mut dyn FnMut(&[u8])) {
        self.counters.offered += 1;
        let lose = self.draw(self.faults.loss);
        let corrupt = self.draw(self.faults.corruption);
        let truncate = self.draw(self.faults.truncation);
        let duplicate = self.draw(self.faults.duplication);
        let hold = self.draw(self.faults.reorder);
        if lose {
            self.counters.lost += 1;
            return self.release(now, out);
        }
        let mut frame = frame.to_vec();
        if corrupt && !frame.is_empty() {
            self.counters.corrupted += 1;
            let bit = self.random.usize(0..frame.len() * 8);
            frame[bit / 8] ^= 1 << (bit % 8);
        }
        if truncate && frame.len() > 14 {
            self.counters.truncated += 1;
            frame.truncate(self.random.usize(14..frame.len()));
        }
        if hold && self.held.len() < HELD {
            self.counters.reordered += 1;
            self.held.push_back((now + self.faults.hold, frame));
        } else {
            self.emit(&frame, out);
            if duplicate {
                self.counters.duplicated += 1;
                self.emit(&frame, out);
            }
        }
        self.release(now, out);
    }

    /// Lets go of what was held back until `now`.
    pub fn release(&mut self, now: Duration, out: &mut dyn FnMut(&[u8])) {
        while self.held.front().is_some_and(|(due, _)| *due <= now) {
            if let Some((_, frame)) = self.held.pop_front() {
                self.emit(&frame, out);
            }
        }
    }

    fn emit(&mut self, frame: &[u8], out: &mut dyn FnMut(&[u8])) {
        self.counters.passed += 1;
        out(frame);
    }
}

/// A sink or source behind an [`Impairment`]. Reads the host's clock; held frames come with the next one.
pub struct Impaired<T> {
    inner: T,
    impairment: Impairment,
    start: Instant,
    /// Of a source: what came out and was not fetched yet.
    ready: VecDeque<Vec<u8>>,
}

impl<T> Impaired<T> {
    /// Puts the faults in front of `inner`.
    pub fn new(inner: T, impairment: Impairment) -> Impaired<T> {
        Impaired { inner, impairment, start: Instant::now(), ready: VecDeque::new() }
    }
}

impl<S: FrameSource> FrameSource for Impaired<S> {
    fn receive(&mut self, frame: &mut Vec<u8>) -> io::Result<bool> {
        loop {
            if let Some(next) = self.ready.pop_front() {
                *frame = next;
                return Ok(true);
            }
            if !self.inner.receive(frame)? {
                return Ok(false);
            }
            let ready = &mut self.ready;
            self.impairment.pass(self.start.elapsed(), frame, &mut |f| ready.push_back(f.to_vec()));
        }
    }
}

impl<S: FrameSink> FrameSink for Impaired<S> {
    fn send(&mut self, frame: &[u8]) -> io::Result<()> {
        let mut result = Ok(());
        let inner = &mut self.inner;
        self.impairment.pass(self.start.elapsed(), frame, &mut |frame| {
            if let Err(error) = inner.send(frame) {
                result = Err(error);
            }
        });
        result
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn run(faults: Faults, seed: u64, frames: u32) -> (Vec<Vec<u8>>, Counters) {
        let mut wire = Impairment::new(faults, seed);
        let mut out = Vec::new();
        for i in 0..frames {
            let mut frame = vec![0; 60];
            frame[..4].copy_from_slice(&i.to_be_bytes());
            wire.pass(Duration::from_millis(u64::from(i)), &frame, &mut |f| out.push(f.to_vec()));
        }
        wire.release(Duration::from_secs(3600), &mut |f| out.push(f.to_vec()));
        (out, wire.counters())
    }

    #[test]
    fn no_faults_pass_everything_untouched() {
        let (out, counters) = run(Faults::default(), 1, 100);
        assert_eq!(out.len(), 100);
        assert!(out.iter().enumerate().all(|(i, f)| f[..4] == (i as u32).to_be_bytes()));
        assert_eq!(counters, Counters { offered: 100, passed: 100, ..Counters::default() });
    }

    #[test]
    fn the_same_seed_gives_the_same_wire() {
        let faults: Faults =
            "loss=5,corruption=5,truncation=5,duplication=5,reorder=5,hold=3".parse().unwrap();
        assert_eq!(run(faults, 42, 2000), run(faults, 42, 2000));
        assert_ne!(run(faults, 42, 2000).0, run(faults, 43, 2000).0);
    }

    #[test]
    fn rates_are_what_was_asked_for() {
        let faults: Faults = "loss=10,duplication=20".parse().unwrap();
        let (_, counters) = run(faults, 7, 20_000);
        assert!((1_800..2_200).contains(&counters.lost), "{counters:?}");
        assert!(
            (3_300..3_900).contains(&counters.duplicated),
            "of what was not lost: {counters:?}"
        );
    }

    #[test]
    fn a_held_frame_is_overtaken_and_then_released() {
        let mut wire = Impairment::new("reorder=100,hold=5".parse().unwrap(), 1);
        let mut out = Vec::new();
        wire.pass(Duration::ZERO, &[1; 60], &mut |f| out.push(f[0]));
        assert!(out.is_empty());
        wire.faults.reorder = 0;
        wire.pass(Duration::from_millis(1), &[2; 60], &mut |f| out.push(f[0]));
        wire.pass(Duration::from_millis(5), &[3; 60], &mut |f| out.push(f[0]));
        assert_eq!(out, [2, 3, 1]);
    }

    #[test]
    fn a_source_is_impaired_as_a_sink_is() {
        let (a, mut b) = crate::pair(8);
        let faults = "duplication=100".parse().unwrap();
        let mut source = Impaired::new(a.source, Impairment::new(faults, 1));
        let mut frame = Vec::new();
        for i in 0..2 {
            b.sink.send(&[i; 60]).unwrap();
        }
        for i in [0, 0, 1, 1] {
            assert!(source.receive(&mut frame).unwrap());
            assert_eq!(frame, [i; 60]);
        }
        drop(b);
        assert!(!source.receive(&mut frame).unwrap());
    }

    #[test]
    fn specifications_are_checked() {
        assert_eq!("loss=0.01".parse::<Faults>().unwrap().loss, 100);
        for bad in ["loss", "loss=x", "loss=-1", "loss=101", "gain=1", "hold=-1", "hold=inf"] {
            assert_eq!(bad.parse::<Faults>().unwrap_err(), ParseFaultError(bad.to_string()));
        }
    }

    proptest! {
        #[test]
        fn any_frame_at_any_time_is_survived(
            frames in proptest::collection::vec((any::<u32>(), 0..2000usize), 1..200),
            seed in any::<u64>(),
        ) {
            let faults: Faults =
                "loss=20,corruption=50,truncation=50,duplication=20,reorder=30".parse().unwrap();
            let mut wire = Impairment::new(faults, seed);
            for (at, len) in frames {
                wire.pass(Duration::from_micros(u64::from(at)), &vec![0; len], &mut |_| ());
                prop_assert!(wire.held.len() <= HELD);
            }
            let counters = wire.counters();
            prop_assert_eq!(
                counters.offered + counters.duplicated,
                counters.passed + counters.lost + wire.held.len() as u64
            );
        }
    }
}

//! How much of the CPU a test took.

use std::time::{Duration, Instant};

/// Time used by the program and by the system for it, between two moments.
pub(crate) struct Cpu {
    begun: Instant,
    used: Option<[Duration; 2]>,
    percent: [f64; 3],
}

impl Cpu {
    pub(crate) fn start(now: Instant) -> Cpu {
        Cpu { begun: now, used: used(), percent: [0.0; 3] }
    }

    pub(crate) fn stop(&mut self, now: Instant) {
        let wall = now.saturating_duration_since(self.begun).as_secs_f64();
        if let (Some(before), Some(after)) = (self.used, used())
            && wall > 0.0
        {
            let share =
                |at: usize| 100.0 * after[at].saturating_sub(before[at]).as_secs_f64() / wall;
            let (user, system) = (share(0), share(1));
            self.percent = [user + system, user, system];
        }
    }

    /// In all, by the program, by the system; zeros where the system doesn't tell.
    pub(crate) fn percent(&self) -> [f64; 3] {
        self.percent
    }
}

/// From `/proc/self/stat`, fields 14 and 15, in hundredths of a second [proc(5)].
#[cfg(not(target_os = "hermit"))]
fn used() -> Option<[Duration; 2]> {
    let text = std::fs::read_to_string("/proc/self/stat").ok()?;
    // The second field, the name, may have spaces in it.
    let mut fields = text.rsplit_once(')')?.1.split_ascii_whitespace().skip(11);
    let mut next =
        || fields.next()?.parse().ok().map(|ticks: u64| Duration::from_millis(ticks * 10));
    Some([next()?, next()?])
}

#[cfg(target_os = "hermit")]
fn used() -> Option<[Duration; 2]> {
    None
}

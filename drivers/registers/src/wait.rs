//! Bounded waits for a register: each has a name.

use core::fmt;

/// Between two looks at a register, in microseconds.
const STEP_US: u32 = 10;

/// A wait that went beyond its bound.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timeout {
    /// What did not happen.
    pub what: &'static str,
    /// How long was waited, in microseconds.
    pub waited_us: u32,
}

impl fmt::Display for Timeout {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: not in {} µs", self.what, self.waited_us)
    }
}

impl core::error::Error for Timeout {}

/// Waits until `done`, for `bound_us` at most. `delay` waits for so many microseconds.
pub fn wait_until(
    delay: &dyn Fn(u32),
    what: &'static str,
    bound_us: u32,
    done: impl FnMut() -> bool,
) -> Result<(), Timeout> {
    wait_in_steps(delay, what, STEP_US, bound_us, done)
}

/// The same with `step_us` between two looks, for looks that take long themselves.
pub fn wait_in_steps(
    delay: &dyn Fn(u32),
    what: &'static str,
    step_us: u32,
    bound_us: u32,
    mut done: impl FnMut() -> bool,
) -> Result<(), Timeout> {
    for _ in 0..bound_us / step_us {
        if done() {
            return Ok(());
        }
        delay(step_us);
    }
    match done() {
        true => Ok(()),
        false => Err(Timeout { what, waited_us: bound_us }),
    }
}

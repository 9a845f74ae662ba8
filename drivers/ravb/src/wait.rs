//! Bounded waits: each has a name.

use crate::Timeout;

/// Between two looks at a register, in microseconds; Linux's step. [RV 3.1]
const STEP_US: u32 = 10;

/// Waits until `done`, for `bound_us` at most.
pub(crate) fn wait_until(
    delay: &dyn Fn(u32),
    what: &'static str,
    bound_us: u32,
    mut done: impl FnMut() -> bool,
) -> Result<(), Timeout> {
    for _ in 0..bound_us / STEP_US {
        if done() {
            return Ok(());
        }
        delay(STEP_US);
    }
    match done() {
        true => Ok(()),
        false => Err(Timeout { what, waited_us: bound_us }),
    }
}

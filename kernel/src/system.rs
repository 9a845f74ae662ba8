//! The machine, as a program can ask about it: what it is, memory, the processor's idleness.
//!
//! Every function answers `None` where the program is no appliance: then the machine is not its own, and its operating
//! system is to be asked.

use alloc::string::String;
use core::time::Duration;

/// The program is the machine's only one. False on Linux and the like, from the same source.
pub const APPLIANCE: bool = cfg!(target_os = "hermit");

/// The kernel's version.
pub const VERSION: &str = env!("CARGO_PKG_VERSION");

/// Memory that kernel and program share: one heap.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Memory {
    /// Bytes there are.
    pub total: usize,
    /// Bytes in use, rounding and bookkeeping left out.
    pub used: usize,
}

/// What the processor did since boot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Processor {
    /// Time since boot.
    pub uptime: Duration,
    /// Of that, time in which it slept because nothing was to be done.
    pub idle: Duration,
}

/// Memory, now.
pub fn memory() -> Option<Memory> {
    sys::memory()
}

/// Time and idleness, now. The share over a while is the difference of two answers.
pub fn processor() -> Option<Processor> {
    sys::processor()
}

/// Tells the U-Boot that started the machine that this image is good: its trial ends, and no counter leads back to the
/// other slot. `Ok(false)`: it was on no trial. `Err`: it cannot be told, and why. See docs/boards/update.md.
pub fn mark_good() -> Option<Result<bool, String>> {
    sys::mark_good()
}

#[cfg(target_os = "hermit")]
mod sys {
    use alloc::string::{String, ToString};

    use super::{Duration, Memory, Processor};
    use crate::{memory, preempt, thread, time};

    pub fn memory() -> Option<Memory> {
        let _guard = preempt::disable();
        Some(Memory { total: memory::total(), used: memory::used() })
    }

    pub fn processor() -> Option<Processor> {
        let _guard = preempt::disable();
        let uptime = Duration::from_nanos(time::monotonic_ns());
        Some(Processor { uptime, idle: Duration::from_nanos(thread::idle_ns()) })
    }

    pub fn mark_good() -> Option<Result<bool, String>> {
        Some(crate::trial::mark_good().map_err(|why| why.to_string()))
    }
}

#[cfg(not(target_os = "hermit"))]
mod sys {
    use super::{Memory, Processor};

    pub fn memory() -> Option<Memory> {
        None
    }

    pub fn processor() -> Option<Processor> {
        None
    }

    pub fn mark_good() -> Option<Result<bool, alloc::string::String>> {
        None
    }
}

//! The machine's watchdog: resets it when the kernel no longer schedules.
//!
//! One that the boot loader left running is kept alive; `watchdog=SECONDS` starts one. A thread of the programs' own priority
//! keeps it alive: as long as that thread has its turn, so have the others. Not kept alive after a panic that halts, on purpose.

pub mod esb;
#[cfg(any(not(target_arch = "x86_64"), test))]
pub mod ftwdt010;
#[cfg(any(target_arch = "aarch64", test))]
pub mod rwdt;
#[cfg(any(target_arch = "aarch64", test))]
pub mod rzwdt;

use core::time::Duration;

/// A watchdog.
pub trait Hardware: Send {
    /// What it is.
    fn name(&self) -> &'static str;
    /// After how long it resets the machine; `None`: it does not run.
    fn timeout(&self) -> Option<Duration>;
    /// Starts it with about this time, or what it can that comes nearest.
    fn start(&mut self, timeout: Duration);
    /// Makes it begin again.
    fn keep_alive(&mut self);
}

#[cfg(target_os = "hermit")]
mod keeper;

#[cfg(target_os = "hermit")]
pub use keeper::{begin, found, show};

//! Makes every program of this package an appliance where the target is one.

#[cfg(target_os = "hermit")]
use trireme as _;

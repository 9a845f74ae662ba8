//! The thread that keeps it alive.

use alloc::boxed::Box;
use alloc::string::String;
use core::fmt::Write;
use core::time::Duration;

use super::Hardware;
use crate::cell::Kernel;
use crate::{preempt, thread, time};

/// The one in use.
static WATCHDOG: Kernel<Option<Box<dyn Hardware>>> = Kernel::new(None);

/// Takes a watchdog that was found. The first is used, or the first that runs.
pub fn found(hardware: Box<dyn Hardware>) {
    log::debug!("watchdog: {}", hardware.name());
    WATCHDOG.with(|kept| {
        let better = kept.as_ref().is_none_or(|kept| kept.timeout().is_none());
        if kept.is_none() || better && hardware.timeout().is_some() {
            *kept = Some(hardware);
        }
    });
}

/// Starts the watchdog if `seconds` asks for it, and from now on keeps alive what runs.
pub fn begin(seconds: Option<u32>) {
    let begun = WATCHDOG.with(|kept| {
        let kept = kept.as_mut()?;
        let left_running = kept.timeout();
        if let Some(seconds @ 1..) = seconds {
            kept.start(Duration::from_secs(seconds.into()));
        }
        kept.keep_alive();
        Some((kept.name(), left_running.is_some(), kept.timeout()))
    });
    match begun {
        Some((name, left_running, Some(timeout))) => {
            let how = if left_running { "left running" } else { "started" };
            log::info!("watchdog: {name}, {how}: resets after {timeout:?} without a sign of life");
            if thread::spawn(keep, 0, thread::NORMAL, 0).is_none() {
                log::error!("watchdog: no memory to keep it alive");
            }
        }
        Some((name, ..)) if seconds.is_some_and(|seconds| seconds > 0) => {
            log::error!("watchdog: {name} does not start");
        }
        None if seconds.is_some_and(|seconds| seconds > 0) => {
            log::error!("watchdog=: this machine has none that is known here");
        }
        _ => {}
    }
}

/// Three times in the time it allows.
extern "C" fn keep(_: usize) {
    loop {
        let _guard = preempt::disable();
        let timeout = WATCHDOG.with(|kept| {
            let kept = kept.as_mut()?;
            kept.keep_alive();
            kept.timeout()
        });
        let Some(timeout) = timeout else { return };
        let pause = u64::try_from(timeout.as_nanos() / 3).unwrap_or(u64::MAX).max(1_000_000);
        thread::block(Some(time::monotonic_ns().saturating_add(pause)));
    }
}

/// As `wdctl` shows it.
pub fn show(out: &mut String) {
    let shown = WATCHDOG.with(|kept| {
        let kept = kept.as_ref()?;
        Some((kept.name(), kept.timeout()))
    });
    let _ = match shown {
        None => writeln!(out, "no watchdog"),
        Some((name, None)) => writeln!(out, "{name}: not running"),
        Some((name, Some(timeout))) => writeln!(out, "{name}: resets after {timeout:?}"),
    };
}

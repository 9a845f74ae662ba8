//! An image on trial: its boots are counted by whoever boots it, until it is marked good.
//!
//! U-Boot is told by its environment, where that is in flash ([`crate::uboot`]); GRUB by a bit in a PC's CMOS memory
//! ([`crate::cmos`]). docs/boards/update.md has the whole story.

use core::sync::atomic::{AtomicU32, Ordering};

use crate::arguments::Arguments;
use crate::boot::BootInformation;
use crate::uboot::{self, Error};
use crate::{preempt, thread, time};

/// `uboot.good=` or `grub.good=`, seconds.
static TRIAL: AtomicU32 = AtomicU32::new(0);

/// Looks where an image can be marked good, and starts the trial that the boot arguments ask for.
pub fn initialize(boot: &BootInformation, arguments: &Arguments<'_>) {
    uboot::initialize(boot, arguments);
    #[cfg(target_arch = "x86_64")]
    crate::cmos::initialize(arguments);
    if let Some(seconds) = arguments.good {
        TRIAL.store(seconds, Ordering::Relaxed);
        if thread::spawn(trial, 0, thread::NORMAL, 0).is_none() {
            log::error!("no memory to end the trial of this image");
        }
    }
}

/// Marks the image good when the program has run for so long.
extern "C" fn trial(_: usize) {
    let seconds = TRIAL.load(Ordering::Relaxed);
    let due = time::monotonic_ns().saturating_add(u64::from(seconds) * 1_000_000_000);
    while time::monotonic_ns() < due {
        let _guard = preempt::disable();
        thread::block(Some(due));
    }
    match mark_good() {
        Ok(true) => log::info!("this image ran for {seconds} s: marked good"),
        Ok(false) => {}
        Err(why) => log::error!("this image cannot be marked good: {why}"),
    }
}

/// Ends the trial of the image that runs: from now on it is booted without counting. `false`: it was on none, or is marked
/// already.
pub fn mark_good() -> Result<bool, Error> {
    #[cfg(target_arch = "x86_64")]
    if let Some(was_clear) = crate::cmos::mark() {
        return Ok(was_clear);
    }
    uboot::mark_good()
}

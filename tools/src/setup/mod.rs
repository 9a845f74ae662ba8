//! Set-up: what a command needs that the machine may lack. Every step looks first, so doing it again costs nothing.

mod packages;
pub mod promtool;
pub mod qemu;
mod rust;

use std::time::Duration;

use anyhow::{Context, Result};
use indicatif::{ProgressBar, ProgressStyle};

/// What a command is about to use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Need {
    /// `std`'s source, to build images.
    Image,
    /// A QEMU that is new enough.
    Qemu,
    /// The compiler of device trees.
    Trees,
    /// What board images are made with.
    Board,
    /// GRUB, for the images of PCs.
    Grub,
    /// TAP devices.
    Tap,
    /// The programs and crates that the test suite drives.
    Tests,
    /// What the Linux guest that benches compare with is built from.
    Bench,
    /// What the Linux guests that judge models are built from.
    Judge,
}

impl Need {
    /// Everything there is.
    pub const ALL: [Need; 9] = [
        Need::Image,
        Need::Qemu,
        Need::Trees,
        Need::Board,
        Need::Grub,
        Need::Tap,
        Need::Tests,
        Need::Bench,
        Need::Judge,
    ];
}

/// Sees to it that what is needed is there, showing what it does if that takes time.
pub fn ensure(needs: &[Need]) -> Result<()> {
    for need in needs {
        match need {
            Need::Image => rust::standard_library_source(),
            Need::Qemu => qemu::install(),
            Need::Trees => packages::install(packages::TREES),
            Need::Board => packages::install(packages::BOARD),
            Need::Grub => packages::install(packages::GRUB),
            Need::Tap => packages::install(packages::TAP),
            Need::Tests => packages::install(packages::TESTS)
                .and_then(|()| promtool::install())
                .and_then(|()| rust::nextest()),
            Need::Bench => packages::install(packages::BENCH),
            Need::Judge => packages::install(packages::JUDGE),
        }
        .with_context(|| format!("set-up of {need:?} failed"))?;
    }
    Ok(())
}

/// Runs one step with a spinner that tells what it is doing and for how long.
fn step(what: &str, work: impl FnOnce(&ProgressBar) -> Result<()>) -> Result<()> {
    let bar = ProgressBar::new_spinner();
    bar.set_style(ProgressStyle::with_template("{spinner} [{elapsed_precise}] {msg}")?);
    bar.set_message(what.to_owned());
    bar.enable_steady_tick(Duration::from_millis(200));
    if bar.is_hidden() {
        eprintln!("set-up: {what} ...");
    }
    let result = work(&bar);
    match &result {
        Ok(()) => bar.finish_with_message(format!("{what}: done")),
        Err(_) => bar.abandon_with_message(format!("{what}: failed")),
    }
    result
}

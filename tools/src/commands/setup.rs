//! `run.sh setup`.

use std::process::ExitCode;

use anyhow::Result;
use clap::Args;
use trireme_tools::setup::{self, Need};

#[derive(Args)]
pub(crate) struct Arguments {}

pub(crate) fn run(_: Arguments) -> Result<ExitCode> {
    setup::ensure(&Need::ALL)?;
    println!("everything is there");
    Ok(ExitCode::SUCCESS)
}

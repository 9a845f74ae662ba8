//! `run.sh bench`.

use std::process::ExitCode;

use anyhow::{Result, bail};
use clap::Args;

#[derive(Args)]
pub(crate) struct Arguments {
    /// One row; all of them if left out
    name: Option<String>,
}

pub(crate) fn run(arguments: Arguments) -> Result<ExitCode> {
    bail!("no bench {:?}", arguments.name);
}

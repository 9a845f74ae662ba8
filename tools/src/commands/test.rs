//! `run.sh test`: every check, cheapest first. CI runs this and nothing else.

use std::process::{Command, ExitCode};
use std::time::Instant;

use anyhow::{Result, bail};
use clap::Args;
use trireme_tools::arch::Arch;
use trireme_tools::setup::{self, Need};
use trireme_tools::workspace::{cargo, root, shown};

#[derive(Args)]
pub(crate) struct Arguments {
    /// Run only the tests whose names contain this; leaves out the checks of form
    filter: Option<String>,
    /// Leave out the tests that boot images
    #[arg(long)]
    host_only: bool,
}

pub(crate) fn run(arguments: Arguments) -> Result<ExitCode> {
    setup::ensure(&[Need::Image, Need::Tests])?;
    if !arguments.host_only {
        setup::ensure(&[Need::Qemu, Need::Tap])?;
    }
    if arguments.filter.is_none() {
        form()?;
    }
    let mut tests = cargo();
    tests.args(["nextest", "run", "--workspace", "--no-fail-fast"]);
    if arguments.host_only {
        tests.args(["--exclude", "trireme-tests"]);
    }
    tests.args(&arguments.filter);
    stage("tests", &mut tests)?;
    Ok(ExitCode::SUCCESS)
}

/// Format, lints, documentation and the examples in it.
fn form() -> Result<()> {
    stage("format", cargo().args(["fmt", "--all", "--check"]))?;
    let deny = ["--", "-D", "warnings"];
    stage("lints", cargo().args(["clippy", "--workspace", "--all-targets"]).args(deny))?;
    for arch in Arch::ALL {
        let mut clippy = cargo();
        clippy.args(["clippy", "-Zbuild-std=std,panic_abort", "--target", arch.target()]);
        clippy.env("RUSTC_BOOTSTRAP", "1");
        stage(
            &format!("lints on {}", arch.target()),
            clippy.args(["-p", "httpd", "-p", "echo", "-p", "trireme"]).args(deny),
        )?;
    }
    let mut documentation = cargo();
    documentation.env("RUSTDOCFLAGS", "-D warnings").args(["doc", "--workspace", "--no-deps"]);
    stage("documentation", &mut documentation)?;
    stage("documentation tests", cargo().args(["test", "--workspace", "--doc", "--quiet"]))
}

/// Runs one stage, saying which and how long it took.
fn stage(name: &str, command: &mut Command) -> Result<()> {
    eprintln!("== {name}: {}", shown(command));
    let start = Instant::now();
    let status = command.current_dir(root()).status()?;
    if !status.success() {
        bail!("{name} failed: {status}");
    }
    eprintln!("== {name}: passed in {:.0} s", start.elapsed().as_secs_f32());
    Ok(())
}

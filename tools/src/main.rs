//! The command line behind `run.sh`. One file per command in `commands/`.

mod commands;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

use commands::{bench, image, judge, run, setup, test};

/// Trireme: an ordinary Rust program as a network appliance.
///
/// Without a command: `run httpd`.
#[derive(Parser)]
#[command(name = "run.sh", bin_name = "./run.sh", version)]
struct Arguments {
    #[command(subcommand)]
    command: Option<Command>,
}

#[derive(Subcommand)]
enum Command {
    /// Build an application and boot it in QEMU
    Run(Box<run::Arguments>),
    /// Build an application's images and print where they are
    Image(image::Arguments),
    /// Check everything: format, lints, documentation, host tests, images in QEMU
    Test(test::Arguments),
    /// Measure in executed guest instructions, beside a Linux guest
    Bench(bench::Arguments),
    /// Let a foreign driver judge a device model
    Judge(judge::Arguments),
    /// Install what the other commands need (they do so themselves when they need it)
    Setup(setup::Arguments),
}

fn main() -> ExitCode {
    let command = Arguments::parse().command;
    let result =
        match command.unwrap_or_else(|| Command::Run(Box::new(run::Arguments::of("httpd")))) {
            Command::Run(arguments) => run::run(*arguments),
            Command::Image(arguments) => image::run(arguments),
            Command::Test(arguments) => test::run(arguments),
            Command::Bench(arguments) => bench::run(arguments),
            Command::Judge(arguments) => judge::run(arguments),
            Command::Setup(arguments) => setup::run(arguments),
        };
    match result {
        Ok(status) => status,
        Err(error) => {
            eprintln!("run.sh: {error:#}");
            ExitCode::FAILURE
        }
    }
}

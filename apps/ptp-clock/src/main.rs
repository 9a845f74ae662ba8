//! A PTP clock on a network card's own clock and timestamps, as an appliance.

use std::process::ExitCode;

use ptp_clock::options::{self, Command};
use ptp_clock::ordinary::Ordinary;

fn main() -> ExitCode {
    let options = match options::parse(std::env::args_os().skip(1)) {
        Ok(Command::Run(options)) => options,
        Ok(Command::Print(text)) => {
            print!("{text}");
            return ExitCode::SUCCESS;
        }
        Err(error) => {
            eprintln!("ptp-clock: {error}; see --help");
            return ExitCode::from(2);
        }
    };
    match Ordinary::open(&options) {
        Ok(clock) => clock.run(),
        Err(error) => {
            eprintln!("ptp-clock: {}: {error}", options.interface);
            ExitCode::FAILURE
        }
    }
}

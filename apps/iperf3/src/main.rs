//! Throughput by iperf3's protocol, as a Linux program and as an appliance.

use std::process::ExitCode;

use iperf3::options::{self, Command, Role};
use iperf3::{Server, client};
#[cfg(target_os = "hermit")]
use trireme as _;

fn main() -> ExitCode {
    let options = match options::parse(std::env::args_os().skip(1)) {
        Ok(Command::Run(options)) => options,
        Ok(Command::Print(text)) => {
            print!("{text}");
            return ExitCode::SUCCESS;
        }
        Err(error) => {
            eprintln!("iperf3: parameter error - {error}; see --help");
            return ExitCode::from(2);
        }
    };
    let is_good = match &options.role {
        Role::Client(host) => client::run(&options, host).is_ok(),
        Role::Server => match Server::bind(&options).and_then(Server::run) {
            Ok(is_good) => is_good,
            Err(error) => {
                eprintln!("iperf3: error - unable to listen: {error}");
                false
            }
        },
    };
    if is_good { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

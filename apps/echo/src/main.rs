//! A TCP and UDP echo server, as a Linux program and as an appliance.

use std::process::ExitCode;

use echo::Server;
use echo::options::{self, Command};
#[cfg(target_os = "hermit")]
use trireme as _;

fn main() -> ExitCode {
    let options = match options::parse(std::env::args_os().skip(1)) {
        Ok(Command::Serve(options)) => options,
        Ok(Command::Print(text)) => {
            print!("{text}");
            return ExitCode::SUCCESS;
        }
        Err(error) => {
            eprintln!("echo: {error}; see --help");
            return ExitCode::from(2);
        }
    };
    let server = match Server::bind(&options) {
        Ok(server) => server,
        Err(error) => {
            eprintln!("echo: can't listen: {error}");
            return ExitCode::FAILURE;
        }
    };
    for socket in server.describe() {
        println!("echo: listening, {socket}");
    }
    let error = server.run();
    eprintln!("echo: can't go on: {error}");
    ExitCode::FAILURE
}

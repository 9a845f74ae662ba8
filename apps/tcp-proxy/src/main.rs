//! A TCP proxy between two networks, as a Linux program and as an appliance.

use std::process::ExitCode;

use tcp_proxy::Server;
use tcp_proxy::options::{self, Command};
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
            eprintln!("tcp-proxy: {error}; see --help");
            return ExitCode::from(2);
        }
    };
    let server = match Server::bind(&options) {
        Ok(server) => server,
        Err(error) => {
            eprintln!("tcp-proxy: can't serve: {error}");
            return ExitCode::FAILURE;
        }
    };
    for address in server.addresses() {
        println!("tcp-proxy: listening on {address}, to {}", server.targets());
    }
    let error = server.run();
    eprintln!("tcp-proxy: can't go on: {error}");
    ExitCode::FAILURE
}

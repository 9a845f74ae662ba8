//! A static web server, as a Linux program and as an appliance.

use std::process::ExitCode;

use httpd::Server;
use httpd::options::{self, Command};
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
            eprintln!("httpd: {error}; see --help");
            return ExitCode::from(2);
        }
    };
    let server = match Server::bind(&options) {
        Ok(server) => server,
        Err(error) => {
            eprintln!("httpd: can't listen: {error}");
            return ExitCode::FAILURE;
        }
    };
    for address in server.addresses().flatten() {
        println!("httpd: listening on http://{address}/, serving {}", options.root.display());
    }
    let error = server.run();
    eprintln!("httpd: can't go on: {error}");
    ExitCode::FAILURE
}

//! Says hello, shows its arguments and environment, and exits with the status its first argument names.

use std::env;
use std::process::ExitCode;

use trireme_test_programs as _;

fn main() -> ExitCode {
    println!("hello from std");
    for (index, argument) in env::args().skip(1).enumerate() {
        println!("argument {index}: {argument:?}");
    }
    if let Ok(value) = env::var("GREETING") {
        println!("GREETING is {value:?}");
    }
    let status = env::args().nth(1).and_then(|text| text.parse().ok());
    ExitCode::from(status.unwrap_or(0))
}

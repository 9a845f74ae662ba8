//! Runs the programs that talk to a guest, with a limit on their time.

use std::process::{Command, Output, Stdio};
use std::time::Duration;

/// Runs a program to its end and returns its standard output. Panics with what it wrote if it fails or takes longer
/// than `limit`.
pub fn succeed(program: &str, arguments: &[&str], limit: Duration) -> String {
    let output = run(program, arguments, limit);
    assert!(
        output.status.success(),
        "{program} {}: {}\n{}{}",
        arguments.join(" "),
        output.status,
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// Runs a program to its end. One that takes longer than `limit` is ended and reports status 124.
pub fn run(program: &str, arguments: &[&str], limit: Duration) -> Output {
    let mut command = Command::new("timeout");
    command.args(["--kill-after=2", &format!("{}", limit.as_secs_f32()), program]).args(arguments);
    command.stdin(Stdio::null()).output().unwrap_or_else(|e| panic!("{program}: {e}"))
}

/// `curl` with this limit; what it fetched.
pub fn curl(arguments: &[&str], limit: Duration) -> String {
    succeed(
        "curl",
        &[&["--silent", "--show-error", "--fail", "--noproxy", "*"], arguments].concat(),
        limit,
    )
}

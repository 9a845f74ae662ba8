//! Debian's iperf3, and what it and ours say in JSON.

use std::process::{Child, Command, Stdio};
use std::time::Duration;

use serde_json::Value;

use crate::guest::Guest;
use crate::program::{run, succeed};

/// Time for one test of a second or so, on a machine that does other things too.
const LIMIT: Duration = Duration::from_secs(40);

/// Runs Debian's client against `host`; its JSON.
pub fn client(host: &str, options: &str) -> Value {
    let text = succeed("iperf3", &arguments(host, options), LIMIT);
    let value: Value = serde_json::from_str(&text).unwrap_or_else(|e| panic!("{e} in {text}"));
    assert!(value.get("error").is_none(), "iperf3 {options}: {}", value["error"]);
    value
}

/// Runs Debian's client against `host` where it is to fail; its complaint.
pub fn refused_client(host: &str, options: &str) -> String {
    let output = run("iperf3", &arguments(host, options), LIMIT);
    let value: Value = serde_json::from_slice(&output.stdout).expect("JSON from iperf3 -J");
    value["error"].as_str().unwrap_or_else(|| panic!("iperf3 {options} succeeded")).to_owned()
}

fn arguments<'a>(host: &'a str, options: &'a str) -> Vec<&'a str> {
    ["-c", host, "-J"].into_iter().chain(options.split_whitespace()).collect()
}

/// Debian's server, for one test.
pub struct Server(Child);

impl Server {
    /// Starts it; returns when it listens.
    pub fn start() -> Server {
        let mut command = Command::new("setpriv");
        command.args(["--pdeathsig", "TERM", "--", "iperf3", "-s", "-1", "-J"]);
        let child = command
            .stdout(Stdio::piped())
            .spawn()
            .expect("iperf3 is one of the packages of set-up");
        while !succeed("ss", &["-Hltn", "sport = :5201"], LIMIT).contains("5201") {
            std::thread::sleep(Duration::from_millis(20));
        }
        Server(child)
    }

    /// What it says of its test, once that is over.
    pub fn report(mut self) -> Value {
        let pipe = self.0.stdout.take().expect("a pipe");
        let text = std::io::read_to_string(pipe).expect("iperf3 prints UTF-8");
        self.0.wait().expect("a child can be waited for");
        serde_json::from_str(&text).unwrap_or_else(|e| panic!("{e} in {text}"))
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // It has ended unless the test is failing.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The JSON of the guest's test number `number`, from 1 on, once it is there.
pub fn guest_report(guest: &Guest, number: usize) -> Value {
    let deadline = std::time::Instant::now() + LIMIT;
    loop {
        let console = guest.console();
        let line = console.lines().filter(|line| line.starts_with("{\"start\"")).nth(number - 1);
        // A line that is not whole yet is no JSON.
        if let Some(value) = line.and_then(|line| serde_json::from_str(line.trim()).ok()) {
            return value;
        }
        assert!(std::time::Instant::now() < deadline, "the guest has not reported test {number}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Octets of one of the sums at the end of a report: `sum_sent`, `sum_received`, and the same with `_bidir_reverse`.
pub fn octets(report: &Value, sum: &str) -> u64 {
    let value = report["end"][sum]["bytes"].as_u64();
    value.unwrap_or_else(|| panic!("no {sum} in {}", report["end"]))
}

//! What a packet costs, in instructions.
//!
//! `cargo bench -p trireme-netstack` runs each scenario under `valgrind --tool=callgrind` twice, with
//! few and with many rounds, and prints the difference per round: deterministic, whatever else the
//! machine does. The card is one in memory that does as little as it can; what it costs is in the
//! numbers. With a scenario and a number of rounds as arguments it just runs that.

#[path = "../tests/common/quiet.rs"]
mod quiet;

use std::process::Command;

/// Instructions executed by one run.
fn instructions(scenario: &str, rounds: u64) -> u64 {
    let output = Command::new("valgrind")
        .args(["--tool=callgrind", "--callgrind-out-file=/dev/null"])
        .arg(std::env::current_exe().unwrap())
        .args([scenario, &rounds.to_string()])
        // `rep movsb` counts as an instruction a byte; a loop of vectors is what an image has.
        .env("GLIBC_TUNABLES", "glibc.cpu.x86_rep_movsb_threshold=0x7fffffff")
        .output()
        .expect("valgrind");
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{text}");
    let line = text.lines().find(|line| line.contains("Collected :")).expect(&text);
    line.rsplit(' ').next().unwrap().parse().unwrap()
}

fn main() {
    let arguments: Vec<String> =
        std::env::args().skip(1).filter(|a| !a.starts_with("--")).collect();
    if let [scenario, rounds] = &arguments[..] {
        return quiet::run(scenario, 0, rounds.parse().unwrap(), |rounds| rounds());
    }
    let cases = [
        ("poll", 1, "poll with nothing to do"),
        ("get", 1, "GET of 1 KiB, keep-alive: request, answer"),
        ("get+1000", 1, "the same beside 1,000 idle connections"),
        ("get+10000", 1, "the same beside 10,000"),
        ("connection", 1, "GET of 1 KiB with a connection of its own"),
        ("echo", 1, "UDP echo of 1472 bytes"),
        ("ack", 1, "a lone acknowledgement"),
        ("send", 64_240, "sending, per byte"),
        ("receive", 64_240, "receiving merged frames, per byte"),
        ("receive small", 1460, "receiving 1460 bytes a frame, per byte"),
        ("receive batch", 32 * 1460, "the same, 32 frames at a time"),
    ];
    for (scenario, unit, what) in cases {
        let (few, many) = (100, 1100);
        let cost = instructions(scenario, many) - instructions(scenario, few);
        let each = cost as f64 / (many - few) as f64;
        println!("{:>10.2}  {what}", each / f64::from(unit));
    }
}

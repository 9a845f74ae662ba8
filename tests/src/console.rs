//! Commands on a guest's console and their answers.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use crate::guest::Guest;

static ASKED: AtomicUsize = AtomicUsize::new(0);

const LIMIT: Duration = Duration::from_secs(20);

/// What the console prints after a command.
pub fn ask(guest: &mut Guest, command: &str) -> String {
    answer(guest, format!("{command}\n").as_bytes())
}

/// What the console prints after these keys, the last of which ends a line.
pub fn answer(guest: &mut Guest, keys: &[u8]) -> String {
    let before = guest.console().len();
    guest.type_bytes(keys);
    // A command that does not exist: the complaint names it. What the program prints may come between any two letters typed.
    let end = format!("end-of-answer-{}", ASKED.fetch_add(1, Ordering::Relaxed));
    guest.type_line(&end);
    let deadline = Instant::now() + LIMIT;
    loop {
        let console = guest.console();
        let answer = &console[before.min(console.len())..];
        if let Some(at) = answer.find(&format!("{end}: command not found")) {
            return answer[..at].replace('\r', "");
        }
        let keys = String::from_utf8_lossy(keys);
        assert!(Instant::now() < deadline, "the console does not answer {keys:?}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// A counter as `ethtool -S` shows it.
pub fn counter(statistics: &str, name: &str) -> u64 {
    let line = statistics.lines().find_map(|line| line.trim().strip_prefix(&format!("{name}: ")));
    line.unwrap_or_else(|| panic!("no {name} in:\n{statistics}")).trim().parse().expect("a number")
}

/// Memory in use as `free` shows it, in KiB.
pub fn used_memory(guest: &mut Guest) -> u64 {
    let answer = ask(guest, "free");
    let memory = answer.lines().find_map(|line| line.trim().strip_prefix("Mem:"));
    let used = memory.and_then(|numbers| numbers.split_whitespace().nth(1)?.parse().ok());
    used.unwrap_or_else(|| panic!("no memory in use in:\n{answer}"))
}

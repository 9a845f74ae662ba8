//! Commands on a guest's console and their answers.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use crate::guest::Guest;

static ASKED: AtomicUsize = AtomicUsize::new(0);

const LIMIT: Duration = Duration::from_secs(20);

/// What the console prints after a command.
pub fn ask(guest: &mut Guest, command: &str) -> String {
    let before = guest.console().len();
    guest.type_line(command);
    // A command that does not exist: the complaint names it. What the program prints may come between any two letters typed.
    let end = format!("end-of-answer-{}", ASKED.fetch_add(1, Ordering::Relaxed));
    guest.type_line(&end);
    let deadline = Instant::now() + LIMIT;
    loop {
        let console = guest.console();
        let answer = &console[before.min(console.len())..];
        if let Some(at) = answer.find(&format!("{end}: ")) {
            return answer[..at].replace('\r', "");
        }
        assert!(Instant::now() < deadline, "the console does not answer {command:?}");
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
    let number = |text: &str| text.trim_matches(|c: char| !c.is_ascii_digit()).parse().ok();
    // "Mem: TOTAL USED ...", or "... used N KiB ...".
    let mem = answer.lines().find_map(|line| line.trim().strip_prefix("Mem:"));
    let used = match mem {
        Some(numbers) => numbers.split_whitespace().nth(1).and_then(number),
        None => answer.split("used ").nth(1).and_then(|t| number(t.split(' ').next()?)),
    };
    used.unwrap_or_else(|| panic!("no memory in use in:\n{answer}"))
}

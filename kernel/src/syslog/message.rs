//! What goes to the server: messages in the format of RFC 5424, and the queue they wait in. Pure logic.

use alloc::collections::VecDeque;
use alloc::string::String;
use core::fmt::Write;

use crate::calendar::Civil;

/// Bytes of text kept of a message: with the header it stays below the 2048 bytes that receivers should take (RFC
/// 5424, 6.1) and fits one Ethernet frame (RFC 5426, 3.2).
pub const TEXT: usize = 1024;
/// Bytes of text that wait at most, and messages.
const QUEUE: usize = 16 * 1024;
const MESSAGES: usize = 256;

/// Facilities of RFC 5424, table 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Facility {
    /// Kernel messages.
    Kernel = 0,
    /// User-level messages: the program's.
    User = 1,
}

/// Severities of RFC 5424, table 2.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Severity {
    /// Error conditions.
    Error = 3,
    /// Warning conditions.
    Warning = 4,
    /// Informational messages.
    Informational = 6,
    /// Debug-level messages.
    Debug = 7,
}

/// One message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Message {
    /// Whose it is.
    pub facility: Facility,
    /// How urgent.
    pub severity: Severity,
    /// When, on the monotonic clock, in nanoseconds.
    pub at_ns: u64,
    /// What it says, control characters replaced.
    pub text: String,
}

impl Message {
    /// Cuts the text to what is kept, and replaces control characters (RFC 5424, 6.4).
    pub fn new(facility: Facility, severity: Severity, at_ns: u64, text: &str) -> Message {
        let mut kept = String::new();
        for character in text.trim_end().chars() {
            if kept.len() + character.len_utf8() > TEXT {
                break;
            }
            kept.push(if character.is_control() && character != '\t' { ' ' } else { character });
        }
        Message { facility, severity, at_ns, text: kept }
    }

    /// The datagram: `wall_ns`, when it was by the wall clock, if anybody has told the time. (RFC 5424, 6; 6.2.3.1)
    pub fn datagram(&self, wall_ns: Option<u64>, host: &str) -> String {
        let mut out = String::with_capacity(self.text.len() + 80);
        let priority = 8 * self.facility as u32 + self.severity as u32;
        // Writing to a string cannot fail.
        let _ = write!(out, "<{priority}>1 ");
        let _ = match wall_ns {
            None => write!(out, "-"),
            Some(ns) => {
                let c = Civil::new(ns / 1_000_000_000);
                write!(
                    out,
                    "{:04}-{:02}-{:02}T{:02}:{:02}:{:02}.{:06}Z",
                    c.year,
                    c.month,
                    c.day,
                    c.hour,
                    c.minute,
                    c.second,
                    ns % 1_000_000_000 / 1000
                )
            }
        };
        let name = match self.facility {
            Facility::Kernel => "kernel",
            Facility::User => "appliance",
        };
        let _ = write!(out, " {} {name} - - - {}", header_field(host), self.text);
        out
    }
}

/// A field of the header: printable ASCII without spaces, or nothing. (RFC 5424, 6: HOSTNAME)
fn header_field(value: &str) -> &str {
    let fits = (1..=255).contains(&value.len()) && value.bytes().all(|b| b.is_ascii_graphic());
    if fits { value } else { "-" }
}

/// Messages that wait, oldest first.
#[derive(Debug, Default)]
pub struct Queue {
    messages: VecDeque<Message>,
    bytes: usize,
    /// Messages that found it full since the last that did not.
    missing: u64,
    /// All that ever did.
    dropped: u64,
}

impl Queue {
    /// Nothing waits.
    pub const fn new() -> Queue {
        Queue { messages: VecDeque::new(), bytes: 0, missing: 0, dropped: 0 }
    }

    /// Appends a message. A full queue keeps what it has: what came first explains what came later.
    pub fn push(&mut self, message: Message) {
        let full = self.messages.len() >= MESSAGES || self.bytes + message.text.len() > QUEUE;
        if full || self.messages.try_reserve(1).is_err() {
            self.missing += 1;
            self.dropped += 1;
            return;
        }
        self.bytes += message.text.len();
        self.messages.push_back(message);
    }

    /// Takes the oldest. Where messages are missing behind it, one in their place says how many.
    pub fn pop(&mut self, now_ns: u64) -> Option<Message> {
        let Some(message) = self.messages.pop_front() else {
            let missing = core::mem::take(&mut self.missing);
            if missing == 0 {
                return None;
            }
            let text = alloc::format!("syslog: {missing} messages lost: the queue was full");
            return Some(Message::new(Facility::Kernel, Severity::Warning, now_ns, &text));
        };
        self.bytes -= message.text.len();
        Some(message)
    }

    /// Puts back what could not be sent.
    pub fn put_back(&mut self, message: Message) {
        self.bytes += message.text.len();
        self.messages.push_front(message);
    }

    /// Whether [`pop`](Self::pop) would give something.
    pub fn is_empty(&self) -> bool {
        self.messages.is_empty() && self.missing == 0
    }

    /// Messages lost so far.
    pub fn dropped(&self) -> u64 {
        self.dropped
    }
}

/// Puts lines together from what a program writes.
#[derive(Debug, Default)]
pub struct Lines(alloc::vec::Vec<u8>);

impl Lines {
    /// Nothing yet.
    pub const fn new() -> Lines {
        Lines(alloc::vec::Vec::new())
    }

    /// Calls `line` with each line that bytes complete. Longer ones than a message are cut into several.
    pub fn feed(&mut self, bytes: &[u8], mut line: impl FnMut(&str)) {
        for &byte in bytes {
            if byte == b'\n' || self.0.len() == TEXT {
                if !self.0.is_empty() {
                    line(&String::from_utf8_lossy(&self.0));
                }
                self.0.clear();
            }
            if byte != b'\n' {
                self.0.push(byte);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(text: &str) -> Message {
        Message::new(Facility::User, Severity::Informational, 5, text)
    }

    #[test]
    fn datagrams_are_as_in_rfc_5424() {
        // 2003-10-11T22:14:15.003Z is RFC 5424's own first example (6.5).
        let moment = 1_065_910_455_003_000_000;
        let error = Message::new(Facility::Kernel, Severity::Error, 0, "'su root' failed");
        assert_eq!(
            error.datagram(Some(moment), "mymachine.example.com"),
            "<3>1 2003-10-11T22:14:15.003000Z mymachine.example.com kernel - - - 'su root' failed"
        );
        assert_eq!(message("up").datagram(None, "box"), "<14>1 - box appliance - - - up");
        for host in ["", "two words", "h\u{f6}st", &"x".repeat(256)] {
            assert_eq!(message("up").datagram(None, host), "<14>1 - - appliance - - - up");
        }
    }

    #[test]
    fn text_is_cut_between_characters_and_kept_printable() {
        assert_eq!(message("a\x1b[1mb\tc\r\n").text, "a [1mb\tc");
        let long = message(&"\u{20ac}".repeat(1000)).text;
        assert_eq!(long.len(), TEXT / 3 * 3);
    }

    #[test]
    fn a_full_queue_keeps_the_oldest_and_says_what_is_missing() {
        let mut queue = Queue::new();
        for n in 0..MESSAGES + 3 {
            queue.push(message(&n.to_string()));
        }
        let first = queue.pop(9).unwrap();
        assert_eq!(first.text, "0");
        queue.put_back(first);
        for n in 0..MESSAGES {
            assert_eq!(queue.pop(9).unwrap().text, n.to_string());
        }
        let last = queue.pop(9).unwrap();
        assert!(last.text.contains(" 3 messages lost"), "{last:?}");
        assert!(queue.is_empty() && queue.pop(9).is_none());
        assert_eq!(queue.dropped(), 3);
        // By bytes, too.
        for _ in 0..QUEUE / TEXT + 1 {
            queue.push(message(&"x".repeat(TEXT)));
        }
        assert_eq!((queue.dropped(), queue.messages.len()), (4, QUEUE / TEXT));
    }

    #[test]
    fn lines_are_put_together_and_bounded() {
        let mut lines = Lines::new();
        let mut seen = Vec::new();
        for part in [&b"one\ntw"[..], b"o\n\n", b"\xff\xfe\n", &[b'x'; TEXT + 1], b"\n"] {
            lines.feed(part, |line| seen.push(line.to_string()));
        }
        assert_eq!(seen[..3], ["one", "two", "\u{fffd}\u{fffd}"]);
        assert_eq!(seen[3..], ["x".repeat(TEXT), "x".to_string()]);
    }
}

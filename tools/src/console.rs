//! The guest's console on its way to ours: bytes pass as they come, backtrace lines get names.

use std::io::{self, Read, Write};

use crate::symbols::Symbols;

/// A line longer than this is passed on but not looked at.
const LINE_LIMIT: usize = 512;

/// Copies the console until it ends. After a line with the word `backtrace`, each line that has an address is
/// followed by the functions at that address, until a line has none.
pub fn copy(mut from: impl Read, mut to: impl Write, symbols: Option<&Symbols>) -> io::Result<()> {
    let mut annotator = Annotator { symbols, line: Vec::new(), inside: false };
    let mut buffer = [0; 4096];
    loop {
        let length = match from.read(&mut buffer) {
            Ok(0) => return Ok(()),
            Ok(length) => length,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(error),
        };
        for piece in buffer[..length].split_inclusive(|byte| *byte == b'\n') {
            to.write_all(piece)?;
            for note in annotator.take(piece) {
                writeln!(to, "            {note}\r")?;
            }
        }
        to.flush()?;
    }
}

struct Annotator<'a> {
    symbols: Option<&'a Symbols>,
    line: Vec<u8>,
    inside: bool,
}

impl Annotator<'_> {
    /// Takes the next piece of the console; returns what to print below the line it ends.
    fn take(&mut self, piece: &[u8]) -> Vec<String> {
        if self.line.len() < LINE_LIMIT {
            self.line.extend_from_slice(&piece[..piece.len().min(LINE_LIMIT)]);
        }
        if piece.last() != Some(&b'\n') {
            return Vec::new();
        }
        let line = String::from_utf8_lossy(&self.line).into_owned();
        self.line.clear();
        if line.to_ascii_lowercase().contains("backtrace") {
            self.inside = true;
            return Vec::new();
        }
        let address = address_in(&line);
        self.inside &= address.is_some();
        match (self.inside, address, self.symbols) {
            (true, Some(address), Some(symbols)) => symbols.at(address),
            _ => Vec::new(),
        }
    }
}

/// The first `0x…` number of a line.
fn address_in(line: &str) -> Option<u64> {
    let digits = &line[line.find("0x")? + 2..];
    let end = digits.find(|c: char| !c.is_ascii_hexdigit()).unwrap_or(digits.len());
    u64::from_str_radix(&digits[..end], 16).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn console_passes_unchanged() {
        let console = b"hello\r\nno newline at the end \xff\x00 0x1234";
        let mut out = Vec::new();
        copy(&console[..], &mut out, None).unwrap();
        assert_eq!(out, console);
    }

    #[test]
    fn addresses_are_read() {
        assert_eq!(address_in("  #1 0x0000000000201234\r"), Some(0x201234));
        assert_eq!(address_in("pc 0xffff lr 0x1"), Some(0xffff));
        assert_eq!(address_in("0x"), None);
        assert_eq!(address_in("nothing"), None);
    }

    #[test]
    fn only_lines_of_a_backtrace_count() {
        let mut annotator = Annotator { symbols: None, line: Vec::new(), inside: false };
        let mut inside_after = |line: &str| {
            annotator.take(line.as_bytes());
            annotator.inside
        };
        assert!(!inside_after("fault at 0x10\n"));
        assert!(inside_after("backtrace:\n"));
        assert!(inside_after("  0x2010\n"));
        assert!(!inside_after("halted\n"));
        assert!(!inside_after("  0x2010\n"));
    }
}

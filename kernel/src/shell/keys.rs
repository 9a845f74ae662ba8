//! From bytes of a terminal to keys: UTF-8, control characters and escape sequences. Pure logic.
//!
//! What is neither a key nor a character is swallowed, whole where its end can be seen: half an escape sequence or
//! character must not become a command.

/// Parameter and intermediate bytes of a control sequence read; longer ones are nonsense and end.
const LONGEST_SEQUENCE: u8 = 16;

/// A key, or what a combination of keys stands for in Emacs and readline.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Key {
    /// A printable character.
    Character(char),
    /// End of the line: return.
    Enter,
    /// Ctrl-C.
    Interrupt,
    /// Ctrl-D.
    EndOfFile,
    /// Delete the character before the cursor.
    Backspace,
    /// Delete the character under the cursor.
    Delete,
    /// One to the left.
    Left,
    /// One to the right.
    Right,
    /// One word to the left.
    WordLeft,
    /// One word to the right.
    WordRight,
    /// To the beginning.
    Home,
    /// To the end.
    End,
    /// Back in history.
    Up,
    /// Forth in history.
    Down,
    /// Delete to the beginning: Ctrl-U.
    KillToStart,
    /// Delete to the end: Ctrl-K.
    KillToEnd,
    /// Delete the word before the cursor: Ctrl-W.
    KillWord,
    /// Draw the screen anew: Ctrl-L.
    Redraw,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum State {
    #[default]
    Ground,
    /// After a carriage return: a line feed right behind it is part of it.
    Returned,
    /// After ESC.
    Escape,
    /// After `ESC O`: keypad and some cursor keys.
    SingleShift,
    /// After `ESC [`. [ECMA-48 5.4]
    Sequence {
        /// First number; 255 at most.
        first: u8,
        /// There was a second number: a modifier.
        modified: bool,
        length: u8,
    },
    /// Inside a character: bytes so far, and how many it will have.
    Character { bytes: [u8; 4], have: u8, want: u8 },
}

/// Takes bytes, gives keys.
#[derive(Debug, Default)]
pub struct Keys(State);

impl Keys {
    /// The next byte.
    pub fn byte(&mut self, byte: u8) -> Option<Key> {
        let state = core::mem::take(&mut self.0);
        match state {
            State::Ground => self.ground(byte),
            State::Returned if byte == b'\n' => None,
            State::Returned => self.ground(byte),
            State::Escape => match byte {
                b'[' => {
                    self.0 = State::Sequence { first: 0, modified: false, length: 0 };
                    None
                }
                b'O' => {
                    self.0 = State::SingleShift;
                    None
                }
                b'b' => Some(Key::WordLeft),
                b'f' => Some(Key::WordRight),
                8 | 0x7f => Some(Key::KillWord),
                // Control characters count, and another ESC begins anew.
                0..0x20 => self.ground(byte),
                _ => None,
            },
            State::SingleShift if byte < 0x20 => self.ground(byte),
            State::SingleShift => cursor_key(byte, false),
            State::Sequence { first, modified, length } => {
                self.sequence(byte, first, modified, length)
            }
            State::Character { mut bytes, have, want } => {
                if byte & 0xc0 != 0x80 {
                    return self.ground(byte);
                }
                bytes[usize::from(have)] = byte;
                let have = have + 1;
                if have < want {
                    self.0 = State::Character { bytes, have, want };
                    return None;
                }
                let text = core::str::from_utf8(&bytes[..usize::from(have)]).ok()?;
                text.chars().next().filter(|c| !c.is_control()).map(Key::Character)
            }
        }
    }

    fn ground(&mut self, byte: u8) -> Option<Key> {
        Some(match byte {
            0x20..0x7f => Key::Character(char::from(byte)),
            b'\n' => Key::Enter,
            b'\r' => {
                self.0 = State::Returned;
                Key::Enter
            }
            0x1b => {
                self.0 = State::Escape;
                return None;
            }
            0xc2..0xf5 => {
                let want = 2 + u8::from(byte >= 0xe0) + u8::from(byte >= 0xf0);
                self.0 = State::Character { bytes: [byte, 0, 0, 0], have: 1, want };
                return None;
            }
            1 => Key::Home,
            2 => Key::Left,
            3 => Key::Interrupt,
            4 => Key::EndOfFile,
            5 => Key::End,
            6 => Key::Right,
            8 | 0x7f => Key::Backspace,
            0x0b => Key::KillToEnd,
            0x0c => Key::Redraw,
            0x0e => Key::Down,
            0x10 => Key::Up,
            0x15 => Key::KillToStart,
            0x17 => Key::KillWord,
            _ => return None,
        })
    }

    fn sequence(&mut self, byte: u8, first: u8, modified: bool, length: u8) -> Option<Key> {
        let length = length + 1;
        match byte {
            b'0'..=b'9' if length < LONGEST_SEQUENCE => {
                let digit = byte - b'0';
                let first =
                    if modified { first } else { first.saturating_mul(10).saturating_add(digit) };
                self.0 = State::Sequence { first, modified, length };
                None
            }
            b';' if length < LONGEST_SEQUENCE => {
                self.0 = State::Sequence { first, modified: true, length };
                None
            }
            // Other parameters and intermediates mean nothing here.
            0x20..0x40 if length < LONGEST_SEQUENCE => {
                self.0 = State::Sequence { first, modified, length };
                None
            }
            b'~' => match first {
                1 | 7 => Some(Key::Home),
                3 => Some(Key::Delete),
                4 | 8 => Some(Key::End),
                _ => None,
            },
            0x40..0x7f => cursor_key(byte, modified),
            0..0x20 => self.ground(byte),
            _ => None,
        }
    }
}

/// The keys whose sequences end in a letter.
fn cursor_key(byte: u8, modified: bool) -> Option<Key> {
    Some(match byte {
        b'A' => Key::Up,
        b'B' => Key::Down,
        b'C' if modified => Key::WordRight,
        b'D' if modified => Key::WordLeft,
        b'C' => Key::Right,
        b'D' => Key::Left,
        b'H' => Key::Home,
        b'F' => Key::End,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn keys(bytes: &[u8]) -> Vec<Key> {
        let mut keys = Keys::default();
        bytes.iter().filter_map(|byte| keys.byte(*byte)).collect()
    }

    /// The sequences of xterm's "ctlseqs" document and of a VT220's editing keypad.
    #[test]
    fn keys_of_terminals() {
        assert_eq!(keys(b"\x1b[A\x1b[B\x1b[C\x1b[D"), [Key::Up, Key::Down, Key::Right, Key::Left]);
        assert_eq!(keys(b"\x1bOA\x1bOH\x1bOF"), [Key::Up, Key::Home, Key::End]);
        assert_eq!(keys(b"\x1b[H\x1b[F\x1b[1~\x1b[4~"), [Key::Home, Key::End, Key::Home, Key::End]);
        assert_eq!(
            keys(b"\x1b[3~\x1b[1;5D\x1b[1;5C"),
            [Key::Delete, Key::WordLeft, Key::WordRight]
        );
        assert_eq!(keys(b"\x1b[5~\x1b[24~\x1b[?25h\x1bz"), []);
        assert_eq!(
            keys(b"\x08\x7f\x15\x03\x04"),
            [Key::Backspace, Key::Backspace, Key::KillToStart, Key::Interrupt, Key::EndOfFile]
        );
    }

    #[test]
    fn line_ends() {
        assert_eq!(keys(b"\r"), [Key::Enter]);
        assert_eq!(keys(b"\r\n"), [Key::Enter]);
        assert_eq!(keys(b"\n\r\n\n"), [Key::Enter, Key::Enter, Key::Enter]);
    }

    #[test]
    fn characters_beyond_ascii() {
        let text = "aé→𝄞z";
        let expected: Vec<Key> = text.chars().map(Key::Character).collect();
        assert_eq!(keys(text.as_bytes()), expected);
    }

    #[test]
    fn broken_characters_and_sequences_are_swallowed() {
        // Overlong, surrogate, too large, alone, cut off: Unicode 15, table 3-7.
        for bytes in [
            &b"\xc0\x80"[..],
            b"\xe0\x80\x80",
            b"\xed\xa0\x80",
            b"\xf4\x90\x80\x80",
            b"\xf5\x80\x80\x80",
            b"\x80\xbf",
            b"\xff\xfe",
            b"\xc2\x9b",
        ] {
            assert_eq!(keys(bytes), [], "{bytes:x?}");
        }
        assert_eq!(keys(b"\xe2\x86a"), [Key::Character('a')]);
        assert_eq!(keys(b"\x1b[12\n"), [Key::Enter]);
        assert_eq!(keys(b"\x1b\x1b[A"), [Key::Up]);
        // A sequence without end does not swallow the keyboard.
        assert!(keys(&[b"\x1b[", &[b'0'; 100][..]].concat()).len() > 50);
    }

    proptest! {
        #[test]
        fn any_bytes_are_survived_and_return_still_works(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            let mut keys = Keys::default();
            for byte in bytes {
                if let Some(Key::Character(c)) = keys.byte(byte) {
                    prop_assert!(!c.is_control());
                }
            }
            keys.byte(b'a');
            prop_assert_eq!(keys.byte(b'\n'), Some(Key::Enter));
        }
    }
}

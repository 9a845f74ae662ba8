//! The line being typed: editing, history, and what of it is on the screen. Pure logic.
//!
//! The buffer and the history are `editline`'s. Drawing is done here, as it has to be undone and done again when
//! somebody else prints, and as the terminal is not asked anything: it may be a pipe. A line that does not fit in 80
//! columns is shown in part. Every character is taken to be one column wide.

use alloc::string::{String, ToString};
use alloc::vec::Vec;

use editline::{History, LineBuffer};

use super::keys::{Key, Keys};

/// Longest line, in bytes; what is typed beyond it is dropped.
pub const MAX_LINE: usize = 512;
/// Lines remembered.
const REMEMBERED: usize = 32;
/// Columns of the terminal, less the last, in which terminals differ about wrapping.
const COLUMNS: usize = 79;

/// What a key led to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The line may have changed.
    Editing,
    /// It is done.
    Line(String),
    /// It was given up with Ctrl-C.
    Interrupted,
    /// Ctrl-D at an empty line.
    EndOfFile,
}

/// A line being edited behind a prompt.
pub struct Editor {
    prompt: String,
    keys: Keys,
    line: LineBuffer,
    history: History,
    /// What is on the screen behind the prompt, if the cursor is at its end.
    drawn: Option<String>,
    clear: bool,
}

impl Editor {
    /// An empty line.
    pub fn new(prompt: &str) -> Editor {
        Editor {
            prompt: prompt.chars().take(COLUMNS / 2).filter(|c| !c.is_control()).collect(),
            keys: Keys::default(),
            line: LineBuffer::new(MAX_LINE),
            history: History::new(REMEMBERED),
            drawn: None,
            clear: false,
        }
    }

    fn text(&self) -> &str {
        // Whole characters go in and out.
        self.line.as_str().unwrap_or_default()
    }

    /// A byte was typed.
    pub fn byte(&mut self, byte: u8) -> Outcome {
        let Some(key) = self.keys.byte(byte) else { return Outcome::Editing };
        match key {
            Key::Enter => {
                let line = self.text().to_string();
                self.history.add(&line);
                self.abandon();
                return Outcome::Line(line);
            }
            Key::Interrupt => {
                self.abandon();
                return Outcome::Interrupted;
            }
            Key::EndOfFile if self.line.is_empty() => return Outcome::EndOfFile,
            Key::EndOfFile | Key::Delete => self.delete(),
            Key::Character(c) if self.line.len() + c.len_utf8() <= MAX_LINE => {
                self.line.insert_char(c);
            }
            Key::Character(_) => {}
            Key::Backspace if self.left() => self.delete(),
            Key::Backspace => {}
            Key::Left => {
                self.left();
            }
            Key::Right => self.right(),
            Key::WordLeft => {
                self.line.move_cursor_word_left();
            }
            Key::WordRight => {
                self.line.move_cursor_word_right();
            }
            Key::Home => {
                self.line.move_cursor_to_start();
            }
            Key::End => {
                self.line.move_cursor_to_end();
            }
            Key::KillToStart => while self.line.delete_before_cursor() {},
            Key::KillToEnd => while self.line.delete_at_cursor() {},
            Key::KillWord => {
                self.line.delete_word_left();
            }
            Key::Up => {
                let now = self.line.as_str().unwrap_or_default();
                if let Some(older) = self.history.previous(now) {
                    self.line.load(older);
                }
            }
            Key::Down => {
                if let Some(newer) = self.history.next_entry() {
                    self.line.load(newer);
                }
            }
            Key::Redraw => self.clear = true,
        }
        Outcome::Editing
    }

    fn abandon(&mut self) {
        self.line.clear();
        self.history.reset_view();
        self.drawn = None;
    }

    /// Whether the cursor is inside a character.
    fn is_inside(&self) -> bool {
        self.line.as_bytes().get(self.line.cursor_pos()).is_some_and(|byte| byte & 0xc0 == 0x80)
    }

    fn left(&mut self) -> bool {
        let moved = self.line.move_cursor_left();
        while self.is_inside() && self.line.move_cursor_left() {}
        moved
    }

    fn right(&mut self) {
        self.line.move_cursor_right();
        while self.is_inside() && self.line.move_cursor_right() {}
    }

    fn delete(&mut self) {
        self.line.delete_at_cursor();
        while self.is_inside() && self.line.delete_at_cursor() {}
    }

    /// Brings the screen up to date: appends to `out` what has to be sent. `shown`: the line is on the screen as it was
    /// drawn last.
    pub fn draw(&mut self, shown: bool, out: &mut Vec<u8>) {
        let text = self.line.as_str().unwrap_or_default();
        let room = COLUMNS - self.prompt.chars().count();
        let cursor = text[..self.line.cursor_pos()].chars().count();
        let count = text.chars().count();
        let drawn = self.drawn.take().filter(|_| shown && !self.clear);
        if cursor == count
            && count < room
            && let Some(new) = drawn.as_ref().and_then(|drawn| text.strip_prefix(&**drawn))
        {
            out.extend_from_slice(new.as_bytes());
        } else {
            // The part that has the cursor in it.
            let first = if cursor < room { 0 } else { cursor + 1 - room };
            let part: String = text.chars().skip(first).take(room).collect();
            out.extend_from_slice(if self.clear { b"\x1b[H\x1b[2J" } else { b"\r" });
            out.extend_from_slice(self.prompt.as_bytes());
            out.extend_from_slice(part.as_bytes());
            out.extend_from_slice(b"\x1b[K");
            let back = part.chars().count() - (cursor - first);
            if back > 0 {
                out.extend_from_slice(alloc::format!("\x1b[{back}D").as_bytes());
            }
        }
        self.clear = false;
        self.drawn = (cursor == count && count < room).then(|| text.to_string());
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// What a terminal shows: one line of it, and the column of the cursor.
    #[derive(Default)]
    struct Screen {
        line: Vec<char>,
        column: usize,
    }

    impl Screen {
        /// As ECMA-48 says of CR, EL, CUB, CUP and ED.
        fn show(&mut self, bytes: &[u8]) {
            let text = std::str::from_utf8(bytes).expect("text");
            let mut rest = text.chars();
            while let Some(c) = rest.next() {
                match c {
                    '\r' => self.column = 0,
                    '\x1b' => {
                        assert_eq!(rest.next(), Some('['));
                        let mut number = String::new();
                        let letter = loop {
                            match rest.next().expect("the end of a sequence") {
                                digit @ '0'..='9' => number.push(digit),
                                letter => break letter,
                            }
                        };
                        match letter {
                            'K' => self.line.truncate(self.column),
                            'D' => self.column -= number.parse::<usize>().unwrap(),
                            'H' => self.column = 0,
                            'J' => self.line.clear(),
                            _ => panic!("{letter}"),
                        }
                    }
                    c => {
                        assert!(!c.is_control());
                        if self.column == self.line.len() {
                            self.line.push(c);
                        } else {
                            self.line[self.column] = c;
                        }
                        self.column += 1;
                        assert!(self.column <= COLUMNS, "the line would wrap");
                    }
                }
            }
        }

        fn text(&self) -> String {
            self.line.iter().collect()
        }
    }

    fn typed(editor: &mut Editor, bytes: &[u8]) -> Vec<Outcome> {
        let outcomes = bytes.iter().map(|byte| editor.byte(*byte));
        outcomes.filter(|outcome| *outcome != Outcome::Editing).collect()
    }

    fn line(text: &str) -> Outcome {
        Outcome::Line(text.to_string())
    }

    #[test]
    fn editing_as_in_emacs() {
        for (keys, expected) in [
            ("abc\x7f\x7fx\n", "ax"),
            ("bc\x01a\x05d\n", "abcd"),
            ("ping there\x1b[D\x1b[D\x15x\n", "xre"),
            ("ping there\x1b[D\x1b[D\x0b\n", "ping the"),
            ("ip addr show\x17\x17x\n", "ip x"),
            ("é→z\x02\x02\x7f\n", "→z"),
            ("é→z\x01\x1b[3~\x04\n", "z"),
            ("a\x02\x02\x02b\x06\x06c\n", "bac"),
        ] {
            let mut editor = Editor::new("> ");
            assert_eq!(typed(&mut editor, keys.as_bytes()), [line(expected)], "{keys:?}");
        }
    }

    #[test]
    fn history_goes_back_and_forth_and_keeps_what_was_begun() {
        let mut editor = Editor::new("> ");
        assert_eq!(typed(&mut editor, b"one\ntwo\n"), [line("one"), line("two")]);
        assert_eq!(typed(&mut editor, b"\x1b[A\x1b[A\n"), [line("one")]);
        assert_eq!(typed(&mut editor, b"thr\x1b[A\x1b[A\x1b[B\x1b[Bee\n"), [line("three")]);
        // Far more than is remembered.
        for n in 0..100 {
            assert_eq!(typed(&mut editor, format!("n{n}\n").as_bytes()), [line(&format!("n{n}"))]);
        }
        assert_eq!(
            typed(&mut editor, &[b"\x1b[A".repeat(200), b"\n".to_vec()].concat()),
            [line("n68")]
        );
    }

    #[test]
    fn a_line_ends_in_its_ways() {
        let mut editor = Editor::new("> ");
        assert_eq!(
            typed(&mut editor, b"rm\x03x\x04\n\x04"),
            [Outcome::Interrupted, line("x"), Outcome::EndOfFile]
        );
    }

    #[test]
    fn a_line_is_bounded() {
        let mut editor = Editor::new("> ");
        let long = "→".repeat(5000) + "\n";
        let [Outcome::Line(kept)] = &typed(&mut editor, long.as_bytes())[..] else { panic!() };
        assert_eq!(kept.len(), MAX_LINE / 3 * 3);
    }

    #[test]
    fn typing_at_the_end_sends_what_is_typed_and_nothing_else() {
        let mut editor = Editor::new("> ");
        let mut out = Vec::new();
        editor.draw(false, &mut out);
        for byte in *b"ss" {
            out.clear();
            editor.byte(byte);
            editor.draw(true, &mut out);
            assert_eq!(out, [byte]);
        }
        out.clear();
        editor.draw(false, &mut out);
        assert_eq!(out, b"\r> ss\x1b[K");
    }

    proptest! {
        /// Whatever is typed, a terminal shows the prompt and the part of the line around the cursor.
        #[test]
        fn the_screen_shows_the_line(
            keys in prop::collection::vec(prop_oneof![
                4 => "[a-z é→-]{1,12}".prop_map(String::into_bytes),
                1 => Just(b"\x1b[A".to_vec()),
                1 => Just(b"\x1b[B".to_vec()),
                2 => Just(b"\x1b[D".to_vec()),
                1 => Just(b"\x1b[C".to_vec()),
                1 => Just(b"\x7f".to_vec()),
                1 => Just(b"\x01".to_vec()),
                1 => Just(b"\x0b".to_vec()),
                1 => Just(b"\x17".to_vec()),
                1 => Just(b"\x0c".to_vec()),
                1 => Just(b"\n".to_vec()),
                1 => prop::collection::vec(any::<u8>(), 1..6),
            ], 0..60)
        ) {
            let mut editor = Editor::new("oar# ");
            let mut screen = Screen::default();
            let mut shown = false;
            for key in keys {
                for byte in key {
                    if editor.byte(byte) != Outcome::Editing {
                        screen = Screen::default();
                        shown = false;
                    }
                }
                let mut out = Vec::new();
                editor.draw(shown, &mut out);
                shown = true;
                screen.show(&out);
                let text = screen.text();
                let part = text.strip_prefix("oar# ").expect("the prompt");
                prop_assert!(editor.text().contains(part));
                let before = &editor.text()[..editor.line.cursor_pos()];
                let left: String = part.chars().take(screen.column - 5).collect();
                prop_assert!(before.ends_with(&left));
                if editor.text().chars().count() < 70 {
                    prop_assert_eq!(part, editor.text());
                    prop_assert_eq!(before, left);
                }
            }
        }
    }
}

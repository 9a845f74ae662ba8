//! Options among the words of a command, as getopt has them. Pure logic.

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

/// What a command was given.
#[derive(Debug, PartialEq, Eq)]
pub enum Item<'a> {
    /// `-c`, with its value if it takes one.
    Option(char, &'a str),
    /// Anything else.
    Operand(&'a str),
}

/// Takes the words behind a command's name apart. `valued`: letters of options that have a value, behind them or in
/// the next word; `plain`: those that have none; `long`: other names. An error is what the tool `name` would print.
pub fn getopt<'a>(
    name: &str,
    words: &[&'a str],
    valued: &str,
    plain: &str,
    long: &[(&str, char)],
) -> Result<Vec<Item<'a>>, String> {
    let mut items = Vec::new();
    let mut words = words.iter();
    while let Some(word) = words.next() {
        if *word == "--" {
            items.extend(words.by_ref().map(|word| Item::Operand(word)));
        } else if let Some(option) = word.strip_prefix("--") {
            match long.iter().find(|(name, _)| *name == option) {
                Some((_, letter)) => items.push(Item::Option(*letter, "")),
                None => return Err(format!("{name}: unrecognized option '{word}'\n")),
            }
        } else if let Some(letters) = word.strip_prefix('-').filter(|rest| !rest.is_empty()) {
            for (at, letter) in letters.char_indices() {
                if plain.contains(letter) {
                    items.push(Item::Option(letter, ""));
                } else if valued.contains(letter) {
                    let rest = &letters[at + letter.len_utf8()..];
                    let value = if rest.is_empty() { words.next().copied() } else { Some(rest) };
                    let Some(value) = value else {
                        return Err(format!("{name}: option requires an argument -- '{letter}'\n"));
                    };
                    items.push(Item::Option(letter, value));
                    break;
                } else {
                    return Err(format!("{name}: invalid option -- '{letter}'\n"));
                }
            }
        } else {
            items.push(Item::Operand(word));
        }
    }
    Ok(items)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse<'a>(words: &[&'a str]) -> Result<Vec<Item<'a>>, String> {
        getopt("tool", words, "cs", "nq46", &[("all", 'a')])
    }

    /// As POSIX' utility syntax guidelines 5 to 10 have it.
    #[test]
    fn options_and_operands() {
        assert_eq!(
            parse(&["-nq", "-c3", "-s", "100", "host", "-6c", "5", "--all", "--", "-x"]).unwrap(),
            [
                Item::Option('n', ""),
                Item::Option('q', ""),
                Item::Option('c', "3"),
                Item::Option('s', "100"),
                Item::Operand("host"),
                Item::Option('6', ""),
                Item::Option('c', "5"),
                Item::Option('a', ""),
                Item::Operand("-x"),
            ]
        );
        assert_eq!(parse(&["-"]).unwrap(), [Item::Operand("-")]);
    }

    /// Word for word what glibc prints.
    #[test]
    fn errors() {
        assert_eq!(parse(&["-nx"]).unwrap_err(), "tool: invalid option -- 'x'\n");
        assert_eq!(parse(&["-→"]).unwrap_err(), "tool: invalid option -- '→'\n");
        assert_eq!(parse(&["-c"]).unwrap_err(), "tool: option requires an argument -- 'c'\n");
        assert_eq!(parse(&["--bogus"]).unwrap_err(), "tool: unrecognized option '--bogus'\n");
    }
}

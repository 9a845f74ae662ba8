//! Tables of what was measured.

use std::fmt::Write;

use super::{Measurement, Row};
use crate::arch::Arch;

/// A row's numbers: ours and Linux'.
pub type Measured = (Row, Option<Measurement>, Option<Measurement>);

/// The table of one architecture, in Markdown.
fn table(arch: Arch, rows: &[Measured]) -> String {
    let mut text = format!(
        "| instructions per ({}) | Linux guest | ours | spread | at most | |\n|---|---|---|---|---|---|\n",
        arch.name()
    );
    for (row, ours, linux) in rows {
        let value = ours.as_ref().and_then(|m| m.median);
        let met = match value {
            Some(value) if value <= row.goal => "met",
            Some(_) => "**not met**",
            None => "**no number**",
        };
        let spread =
            ours.as_ref().and_then(|m| Some(format!("{} – {}", number(m.min?), number(m.max?))));
        let shown = |m: &Option<Measurement>| {
            m.as_ref().and_then(|m| m.median).map_or("–".to_owned(), number)
        };
        writeln!(
            text,
            "| {} | {} | {} | {} | {} | {met} |",
            row.title,
            shown(linux),
            shown(ours),
            spread.unwrap_or_default(),
            number(row.goal),
        )
        .expect("a String takes everything");
    }
    text
}

/// How many functions are named of a row that is not met.
const FUNCTIONS: usize = 8;

/// Where the instructions of the rows that are not met go.
pub fn report(arch: Arch, rows: &[Measured]) -> String {
    let mut text = table(arch, rows);
    for (row, ours, _) in rows {
        let Some(ours) = ours else { continue };
        if let Some(error) = &ours.error {
            write!(text, "\n{}: no number: {error}\n", row.title)
                .expect("a String takes everything");
        }
        if ours.median.is_none_or(|value| value <= row.goal) || ours.top.is_empty() {
            continue;
        }
        write!(text, "\n{}: not met. Instructions per unit go to:\n\n", row.title)
            .expect("as above");
        for (function, instructions) in ours.top.iter().take(FUNCTIONS) {
            writeln!(text, "- {} in `{function}`", number(*instructions)).expect("as above");
        }
    }
    text
}

/// A number with as many digits as it deserves: three, or all of an integer.
pub(super) fn number(value: f64) -> String {
    if value < 100.0 {
        return format!("{value:.3}").trim_end_matches('0').trim_end_matches('.').to_owned();
    }
    let digits = format!("{value:.0}");
    let mut grouped = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    grouped
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::row;

    fn measured(median: f64) -> Option<Measurement> {
        let json = format!(r#"{{"metric":"x","median":{median},"top":[["memcpy",1234.5]]}}"#);
        serde_json::from_str(&json).unwrap()
    }

    #[test]
    fn numbers_are_readable() {
        assert_eq!(number(0.3), "0.3");
        assert_eq!(number(0.12345), "0.123");
        assert_eq!(number(1_158_000_000.4), "1,158,000,000");
        assert_eq!(number(999.0), "999");
    }

    #[test]
    fn unmet_row_says_where_the_instructions_go() {
        let rows = [(*row("udp").unwrap(), measured(4000.0), measured(16_000.0))];
        let text = report(Arch::Aarch64, &rows);
        assert!(
            text.contains("| UDP echo of 1472 bytes | 16,000 | 4,000 |  | 3,000 | **not met** |"),
            "{text}"
        );
        assert!(text.contains("1,235 in `memcpy`") || text.contains("1,234 in `memcpy`"), "{text}");
    }

    #[test]
    fn met_row_is_met() {
        let rows = [(*row("udp").unwrap(), measured(3000.0), None)];
        let text = report(Arch::Aarch64, &rows);
        assert!(text.contains("| met |") && !text.contains("memcpy"), "{text}");
    }
}

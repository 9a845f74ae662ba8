//! Sections of docs/measurements.md that are written by themselves.

/// `document` with the section of the same heading (the first line) replaced by this one, or with it at the end.
pub fn with_section(document: &str, section: &str) -> String {
    let heading = section.lines().next().unwrap_or_default();
    let start = document.find(heading).unwrap_or(document.len());
    let (before, old) = document.split_at(start);
    let after = old.get(heading.len()..).unwrap_or_default();
    let after = after.find("\n## ").map_or("", |at| &after[at + 1..]);
    let mut text = format!("{}\n\n{}\n", before.trim_end(), section.trim_end());
    if !after.is_empty() {
        text.push_str(&format!("\n{after}"));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_section_is_put_at_the_end_or_in_its_place_and_nothing_else_changes() {
        let new = "## VIA Rhine\n\nnew\n";
        let without = "# M\n\n## x86_64\n\nrows\n";
        let with = "# M\n\n## x86_64\n\nrows\n\n## VIA Rhine\n\nnew\n";
        assert_eq!(with_section(without, new), with);
        assert_eq!(with_section(with, new), with);
        let between = "# M\n\n## VIA Rhine\n\nold\n### part\n\n## aarch64\n\nrows\n";
        assert_eq!(
            with_section(between, new),
            "# M\n\n## VIA Rhine\n\nnew\n\n## aarch64\n\nrows\n"
        );
    }
}

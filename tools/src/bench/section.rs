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

/// `document` with what stands above its first section replaced by this.
pub fn with_preamble(document: &str, preamble: &str) -> String {
    let sections = document.find("\n## ").map_or("", |at| &document[at..]);
    format!("{}\n{sections}", preamble.trim_end())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_new_preamble_leaves_every_section() {
        let sections = "\n## aarch64\n\nrows\n\n## By hand\n\nmore\n";
        let old = format!("# M\n\nold\n{sections}");
        assert_eq!(with_preamble(&old, "# M\n\nnew\n"), format!("# M\n\nnew\n{sections}"));
        assert_eq!(with_preamble("", "# M\n"), "# M\n");
    }

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

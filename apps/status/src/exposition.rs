//! The text exposition format, version 0.0.4.
//!
//! Sums and times are integers throughout: printing floats would be a tenth of this program.

use std::fmt::{Display, Write};
use std::time::Duration;

/// The Content-Type of what [`Exposition`] makes.
pub(crate) const MEDIA_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

/// Whether a value only grows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Counter,
    Gauge,
}

/// A document in the making. Writing to a string cannot fail, so results of `write!` are dropped throughout.
#[derive(Default)]
pub(crate) struct Exposition {
    text: String,
    /// The family whose samples come now, and what goes before the first of them.
    name: &'static str,
    pending: Option<(Kind, &'static str)>,
}

impl Exposition {
    /// Begins a family. One without samples leaves no trace.
    pub(crate) fn family(&mut self, name: &'static str, kind: Kind, help: &'static str) {
        self.name = name;
        self.pending = Some((kind, help));
    }

    /// Adds a sample. Label values may be anything.
    pub(crate) fn sample(&mut self, labels: &[(&str, &str)], value: impl Display) {
        let name = self.name;
        if let Some((kind, help)) = self.pending.take() {
            let kind = if kind == Kind::Counter { "counter" } else { "gauge" };
            let _ = write!(self.text, "# HELP {name} {help}\n# TYPE {name} {kind}\n");
        }
        self.text.push_str(name);
        for (index, (label, value)) in labels.iter().enumerate() {
            self.text.push(if index == 0 { '{' } else { ',' });
            self.text.push_str(label);
            self.text.push_str("=\"");
            for character in value.chars() {
                match character {
                    '\\' => self.text.push_str("\\\\"),
                    '"' => self.text.push_str("\\\""),
                    '\n' => self.text.push_str("\\n"),
                    other => self.text.push(other),
                }
            }
            self.text.push('"');
        }
        if !labels.is_empty() {
            self.text.push('}');
        }
        let _ = writeln!(self.text, " {value}");
    }

    /// A family of one sample.
    pub(crate) fn single(
        &mut self,
        name: &'static str,
        kind: Kind,
        help: &'static str,
        value: impl Display,
    ) {
        self.family(name, kind, help);
        self.sample(&[], value);
    }

    pub(crate) fn into_text(self) -> String {
        self.text
    }
}

/// A duration in seconds, to the microsecond.
pub(crate) struct Seconds(pub(crate) Duration);

impl Display for Seconds {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}.{:06}", self.0.as_secs(), self.0.subsec_micros())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The lines are from the format's description, "Text format example" and "Text format details".
    #[test]
    fn help_type_and_escapes_are_as_the_format_says() {
        let mut out = Exposition::default();
        out.family("nothing_total", Kind::Counter, "Has no samples.");
        out.family("http_requests_total", Kind::Counter, "The total number of HTTP requests.");
        out.sample(&[("method", "post"), ("code", "200")], 1027);
        out.sample(&[("method", "post"), ("code", "400")], 3);
        out.family("msdos_file_access_time_seconds", Kind::Gauge, "Times.");
        out.sample(
            &[("path", "C:\\DIR\\FILE.TXT"), ("error", "Cannot find file:\n\"FILE.TXT\"")],
            Seconds(Duration::from_micros(1_458_255_915_000_012)),
        );
        out.single("metric_without_labels", Kind::Gauge, "One.", u64::MAX);
        assert_eq!(
            out.into_text(),
            "# HELP http_requests_total The total number of HTTP requests.\n\
             # TYPE http_requests_total counter\n\
             http_requests_total{method=\"post\",code=\"200\"} 1027\n\
             http_requests_total{method=\"post\",code=\"400\"} 3\n\
             # HELP msdos_file_access_time_seconds Times.\n\
             # TYPE msdos_file_access_time_seconds gauge\n\
             msdos_file_access_time_seconds{path=\"C:\\\\DIR\\\\FILE.TXT\",error=\"Cannot find file:\\n\\\"FILE.TXT\\\"\"} 1458255915.000012\n\
             # HELP metric_without_labels One.\n\
             # TYPE metric_without_labels gauge\n\
             metric_without_labels 18446744073709551615\n"
        );
    }
}

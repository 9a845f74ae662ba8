//! Byte ranges. [RFC 9110 14]

use std::ops::Range;

/// Most ranges answered in one response. A request for more is answered with the whole: each part costs more to describe
/// than a small range is worth, and "many small ranges" are the example of abuse in [RFC 9110 17.15].
pub(crate) const RANGE_LIMIT: usize = 16;

/// What a Range field asks of a representation.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Ranges {
    /// The field is to be ignored: unknown unit, malformed, or too greedy. [RFC 9110 14.2]
    Ignore,
    /// None of the ranges lies in the representation.
    Unsatisfiable,
    /// The parts to send, in the order asked for; at least one, none empty.
    Parts(Vec<Range<u64>>),
}

impl Ranges {
    /// Reads a Range field against a representation of `length` octets.
    pub(crate) fn parse(value: &[u8], length: u64) -> Self {
        let Some((unit, set)) = value.split_at_checked(6) else { return Self::Ignore };
        if !unit.eq_ignore_ascii_case(b"bytes=") {
            return Self::Ignore;
        }
        let mut parts = Vec::new();
        let mut seen = 0;
        for spec in crate::request::list(set) {
            seen += 1;
            if seen > RANGE_LIMIT {
                return Self::Ignore;
            }
            match one(spec, length) {
                None => return Self::Ignore,
                Some(None) => {}
                Some(Some(part)) => parts.push(part),
            }
        }
        if seen == 0 {
            return Self::Ignore;
        }
        if parts.is_empty() {
            return Self::Unsatisfiable;
        }
        // Overlapping ranges could make a short request fetch the whole many times over.
        let total = parts.iter().fold(0u64, |sum, part| sum.saturating_add(part.end - part.start));
        if parts.len() > 1 && total > length {
            return Self::Ignore;
        }
        Self::Parts(parts)
    }
}

/// One range: `None` malformed, `Some(None)` unsatisfiable.
fn one(spec: &[u8], length: u64) -> Option<Option<Range<u64>>> {
    let dash = spec.iter().position(|&octet| octet == b'-')?;
    let (first, last) = (&spec[..dash], &spec[dash + 1..]);
    match (first, last) {
        ([], []) => None,
        ([], _) => {
            let suffix = number(last)?.min(length);
            Some((suffix > 0).then(|| length - suffix..length))
        }
        (_, []) => {
            let first = number(first)?;
            Some((first < length).then_some(first..length))
        }
        _ => {
            let (first, last) = (number(first)?, number(last)?);
            if last < first {
                return None;
            }
            Some((first < length).then(|| first..last.saturating_add(1).min(length)))
        }
    }
}

/// Digits; a number too large for the type is as good as the largest.
fn number(digits: &[u8]) -> Option<u64> {
    digits.iter().all(u8::is_ascii_digit).then(|| {
        digits
            .iter()
            .fold(0u64, |sum, digit| sum.saturating_mul(10).saturating_add(u64::from(digit - b'0')))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn parts(value: &str, length: u64, expected: &[(u64, u64)]) {
        let expected = expected.iter().map(|&(start, end)| start..end).collect();
        assert_eq!(Ranges::parse(value.as_bytes(), length), Ranges::Parts(expected), "{value}");
    }

    #[test]
    fn examples_of_the_standard() {
        // RFC 9110 14.1.2, for a representation of 10,000 octets.
        parts("bytes=0-499", 10_000, &[(0, 500)]);
        parts("bytes=500-999", 10_000, &[(500, 1000)]);
        parts("bytes=-500", 10_000, &[(9500, 10_000)]);
        parts("bytes=9500-", 10_000, &[(9500, 10_000)]);
        parts("bytes=0-0,-1", 10_000, &[(0, 1), (9999, 10_000)]);
        parts("bytes= 0-999, 4500-5499, -1000", 10_000, &[(0, 1000), (4500, 5500), (9000, 10_000)]);
        parts("bytes=500-600,601-999", 10_000, &[(500, 601), (601, 1000)]);
        parts("bytes=500-700,601-999", 10_000, &[(500, 701), (601, 1000)]);
    }

    #[test]
    fn ends_are_clamped() {
        parts("Bytes=5-99999999999999999999999", 10, &[(5, 10)]);
        parts("bytes=-99999999999999999999999", 10, &[(0, 10)]);
        parts("bytes=20-30,9-", 10, &[(9, 10)]);
    }

    #[test]
    fn unsatisfiable() {
        for value in [
            "bytes=10-",
            "bytes=10-10",
            "bytes=-0",
            "bytes=99999999999999999999999-",
            "bytes=10-11, 12-",
        ] {
            assert_eq!(Ranges::parse(value.as_bytes(), 10), Ranges::Unsatisfiable, "{value}");
        }
        assert_eq!(Ranges::parse(b"bytes=0-", 0), Ranges::Unsatisfiable);
    }

    #[test]
    fn ignored() {
        let many = format!("bytes={}", "0-0,".repeat(RANGE_LIMIT + 1));
        for value in [
            "",
            "bytes",
            "bytes=",
            "bytes=,",
            "bytes=-",
            "bytes=a-b",
            "bytes=5-4",
            "bytes=1",
            "bytes=1-2-3",
            "bytes=+1-2",
            "lines=0-1",
            "bytes=0-,0-",
            "bytes=0-1 2-3",
            "bytes=--1",
            &many,
        ] {
            assert_eq!(Ranges::parse(value.as_bytes(), 10), Ranges::Ignore, "{value}");
        }
    }
}

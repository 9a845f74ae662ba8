//! Numbers with suffixes, read and shown as iperf3 does.

/// Reads `10`, `1.5M`, `64k`: the suffix counts in powers of `base` (1024 for sizes, 1000 for rates).
pub(crate) fn parse(text: &str, base: u32) -> Option<u64> {
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let power = match &text[digits.len()..] {
        "" => 0,
        "k" | "K" => 1,
        "m" | "M" => 2,
        "g" | "G" => 3,
        "t" | "T" => 4,
        _ => return None,
    };
    let scale = u64::from(base).pow(power);
    if let Ok(whole) = digits.parse::<u64>() {
        return whole.checked_mul(scale);
    }
    let value = digits.parse::<f64>().ok()? * scale as f64;
    (value.is_finite() && value >= 0.0 && value < u64::MAX as f64).then_some(value as u64)
}

/// The unit of rates: adaptive bits, or what `-f` names (lower case bits, upper case octets).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Unit {
    #[default]
    Bits,
    Fixed(char),
}

impl Unit {
    pub(crate) fn parse(text: &str) -> Option<Unit> {
        match text.as_bytes() {
            [letter @ (b'k' | b'm' | b'g' | b't' | b'K' | b'M' | b'G' | b'T')] => {
                Some(Unit::Fixed(char::from(*letter)))
            }
            _ => None,
        }
    }
}

const PREFIXES: [&str; 5] = ["", "K", "M", "G", "T"];

/// `2.09 GByte`, in at least four columns; the caller adds the plural.
pub(crate) fn octets(count: f64) -> String {
    scaled(count, 1024.0, None, "Byte")
}

/// `18.0 Gbit`, of octets a second.
pub(crate) fn rate(octets_per_second: f64, unit: Unit) -> String {
    match unit {
        Unit::Bits => scaled(octets_per_second * 8.0, 1000.0, None, "bit"),
        Unit::Fixed(letter) => {
            let power = "KMGT".find(letter.to_ascii_uppercase()).map_or(0, |at| at + 1);
            if letter.is_ascii_uppercase() {
                scaled(octets_per_second, 1024.0, Some(power), "Byte")
            } else {
                scaled(octets_per_second * 8.0, 1000.0, Some(power), "bit")
            }
        }
    }
}

fn scaled(mut value: f64, base: f64, fixed: Option<usize>, name: &str) -> String {
    let mut power = 0;
    while fixed.map_or(value >= base && power + 1 < PREFIXES.len(), |fixed| power < fixed) {
        value /= base;
        power += 1;
    }
    // Three digits, but for the powers of two between 1000 and 1023.
    let decimals = match value {
        value if value < 9.995 => 2,
        value if value < 99.95 => 1,
        _ => 0,
    };
    format!("{value:4.decimals$} {}{name}", PREFIXES[power])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn suffixes_count_in_their_base() {
        for (text, base, value) in [
            ("0", 1024, Some(0)),
            ("128K", 1024, Some(131_072)),
            ("1m", 1000, Some(1_000_000)),
            ("1.5M", 1000, Some(1_500_000)),
            ("2G", 1024, Some(2 << 30)),
            ("1T", 1000, Some(1_000_000_000_000)),
            ("", 1024, None),
            ("K", 1024, None),
            ("-1", 1024, None),
            ("1Q", 1024, None),
            ("1é", 1024, None),
            ("99999999999T", 1024, None),
            ("nan", 1024, None),
        ] {
            assert_eq!(parse(text, base), value, "{text:?}");
        }
    }

    /// What iperf 3.12 printed.
    #[test]
    fn values_look_as_in_iperf3() {
        assert_eq!(octets(0.0), "0.00 Byte");
        assert_eq!(octets(131_072.0), " 128 KByte");
        assert_eq!(octets(32768.0), "32.0 KByte");
        assert_eq!(octets(1_279_262.0), "1.22 MByte");
        assert_eq!(rate(131_072.0, Unit::Bits), "1.05 Mbit");
        assert_eq!(rate(0.0, Unit::Bits), "0.00 bit");
        assert_eq!(rate(82_750_000.0, Unit::Bits), " 662 Mbit");
        assert_eq!(rate(125_000.0, Unit::Fixed('k')), "1000 Kbit");
        assert_eq!(rate(1_048_576.0, Unit::Fixed('M')), "1.00 MByte");
    }
}

//! Times as `ping` reads and prints them. Pure logic.

use alloc::format;
use alloc::string::String;

/// Reads seconds with an optional fraction, as `0.2` or `3`; nanoseconds. `None`: it is none, or above a day.
pub fn parse_seconds(text: &str) -> Option<u64> {
    const DAY: u64 = 86_400;
    let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
    let digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    if whole.len() + fraction.len() == 0 || !digits(whole) || !digits(fraction) {
        return None;
    }
    let seconds: u64 = if whole.is_empty() { 0 } else { whole.parse().ok()? };
    let mut nanoseconds = 0;
    let mut place = 100_000_000;
    for digit in fraction.bytes() {
        nanoseconds += u64::from(digit - b'0') * place;
        place /= 10;
    }
    (seconds <= DAY).then(|| seconds * 1_000_000_000 + nanoseconds)
}

/// Milliseconds with about three digits (three decimals below one), as the lines of `ping` have them.
pub fn short_ms(us: u64) -> String {
    let (ms, rest) = (us / 1000, us % 1000);
    match us {
        0..1000 => format!("{ms}.{rest:03}"),
        1000..10_000 => format!("{ms}.{:02}", rest / 10),
        10_000..100_000 => format!("{ms}.{}", rest / 100),
        _ => format!("{ms}"),
    }
}

/// Milliseconds with three decimals.
pub fn ms(us: u64) -> String {
    format!("{}.{:03}", us / 1000, us % 1000)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seconds_with_fractions() {
        assert_eq!(parse_seconds("3"), Some(3_000_000_000));
        assert_eq!(parse_seconds("0.2"), Some(200_000_000));
        assert_eq!(parse_seconds(".05"), Some(50_000_000));
        assert_eq!(parse_seconds("1.0000000009"), Some(1_000_000_000));
        for nonsense in
            ["", ".", "-1", "1e3", "x", "1.x", "1.2.3", "86401", "99999999999999999999999"]
        {
            assert_eq!(parse_seconds(nonsense), None, "{nonsense}");
        }
    }

    /// Digits as iputils' `gather_statistics` chooses them.
    #[test]
    fn milliseconds() {
        let shown = [28, 1234, 12_345, 123_456, 1_234_567].map(short_ms);
        assert_eq!(shown, ["0.028", "1.23", "12.3", "123", "1234"]);
        assert_eq!(ms(12_003), "12.003");
    }
}

//! The access log, in the Common Log Format: `host - - [time] "request" status octets`.

use std::io::{self, BufWriter, Stdout, Write};
use std::net::IpAddr;
use std::time::{SystemTime, UNIX_EPOCH};

/// Most octets of a request line that are logged.
const LINE_LIMIT: usize = 512;

/// Lines for the console, written in batches.
pub(crate) struct AccessLog(BufWriter<Stdout>);

impl AccessLog {
    pub(crate) fn to_console() -> Self {
        Self(BufWriter::new(io::stdout()))
    }

    /// Adds a line. `octets` begin with the request line; `time` is left as `-` where unknown.
    pub(crate) fn add(
        &mut self,
        peer: IpAddr,
        time: Option<SystemTime>,
        octets: &[u8],
        status: u16,
        length: u64,
    ) {
        // There is nobody to tell that the console is gone.
        let _ = write_line(&mut self.0, peer, time, octets, status, length);
    }

    pub(crate) fn flush(&mut self) {
        let _ = self.0.flush();
    }
}

fn write_line(
    out: &mut impl Write,
    peer: IpAddr,
    time: Option<SystemTime>,
    octets: &[u8],
    status: u16,
    length: u64,
) -> io::Result<()> {
    match time.and_then(|time| time.duration_since(UNIX_EPOCH).ok()) {
        Some(since) => {
            let (date, month, year) = date(since.as_secs() / 86_400);
            let (hour, minute, second) =
                (since.as_secs() / 3600 % 24, since.as_secs() / 60 % 60, since.as_secs() % 60);
            write!(
                out,
                "{} - - [{date:02}/{month}/{year}:{hour:02}:{minute:02}:{second:02} +0000] \"",
                peer.to_canonical()
            )?;
        }
        None => write!(out, "{} - - [-] \"", peer.to_canonical())?,
    }
    let line = octets.split(|&octet| matches!(octet, b'\r' | b'\n')).next().unwrap_or_default();
    // What a client sends must not forge a line or speak to the terminal.
    for &octet in line.iter().take(LINE_LIMIT) {
        match octet {
            b'"' | b'\\' => out.write_all(&[b'\\', octet])?,
            b' '..=b'~' => out.write_all(&[octet])?,
            _ => write!(out, "\\x{octet:02x}")?,
        }
    }
    match length {
        0 => writeln!(out, "\" {status} -"),
        _ => writeln!(out, "\" {status} {length}"),
    }
}

/// Day of the month, month and year of a day counted from 1970-01-01. After Howard Hinnant, "chrono-Compatible Low-Level
/// Date Algorithms", `civil_from_days`.
fn date(days: u64) -> (u64, &'static str, u64) {
    const MONTHS: [&str; 12] =
        ["Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec", "Jan", "Feb"];
    let days = days + 719_468;
    let (era, day_of_era) = (days / 146_097, days % 146_097);
    let year_of_era =
        (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month + 2) / 5 + 1;
    let year = year_of_era + era * 400 + u64::from(month >= 10);
    (day, MONTHS[month as usize], year)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn line(time: Option<u64>, octets: &[u8], length: u64) -> String {
        let mut out = Vec::new();
        let time = time.map(|seconds| UNIX_EPOCH + Duration::from_secs(seconds));
        write_line(&mut out, "::ffff:192.0.2.7".parse().unwrap(), time, octets, 200, length)
            .unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn common_log_format() {
        // Seconds by `date -u -d ... +%s`.
        assert_eq!(
            line(Some(971_211_336), b"GET /apache_pb.gif HTTP/1.0\r\nHost: a\r\n", 2326),
            "192.0.2.7 - - [10/Oct/2000:20:55:36 +0000] \"GET /apache_pb.gif HTTP/1.0\" 200 2326\n"
        );
        assert_eq!(
            line(Some(1_835_395_200), b"x", 0),
            "192.0.2.7 - - [29/Feb/2028:00:00:00 +0000] \"x\" 200 -\n"
        );
        assert_eq!(line(None, b"x", 0), "192.0.2.7 - - [-] \"x\" 200 -\n");
    }

    #[test]
    fn lines_cannot_be_forged() {
        assert_eq!(
            line(None, b"a\"\\\x1b[2J\xff", 1),
            "192.0.2.7 - - [-] \"a\\\"\\\\\\x1b[2J\\xff\" 200 1\n"
        );
        assert_eq!(line(None, &[b'a'; 9000], 1).len(), 512 + 27);
    }
}

//! The time of day as HTTP wants it, made once a second and not once a response.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use crate::status::Status;

/// Anything earlier is a machine that does not know the time: this program is younger. 2025-01-01, in UNIX seconds.
const PLAUSIBLE: u64 = 1_735_689_600;

/// Status lines and the fields that every response has.
pub(crate) struct Clock {
    /// When the second now in the fields ends.
    stale_at: Instant,
    /// Now, where known.
    wall: Option<SystemTime>,
    /// `Server` and, where the time is known, `Date` [RFC 9110 6.6.1].
    common: Vec<u8>,
    /// The status line of a 200, and `common`.
    ok: Vec<u8>,
}

impl Clock {
    pub(crate) fn new(now: Instant) -> Self {
        let mut clock = Self { stale_at: now, wall: None, common: Vec::new(), ok: Vec::new() };
        clock.advance(now);
        clock
    }

    pub(crate) fn advance(&mut self, now: Instant) {
        if now >= self.stale_at {
            self.renew(now, SystemTime::now());
        }
    }

    fn renew(&mut self, now: Instant, wall: SystemTime) {
        let since = wall.duration_since(UNIX_EPOCH).unwrap_or_default();
        self.stale_at =
            now + Duration::from_secs(1) - Duration::from_nanos(since.subsec_nanos().into());
        self.wall = (since.as_secs() >= PLAUSIBLE).then_some(wall);
        self.common.clear();
        self.common.extend_from_slice(b"Server: trireme\r\n");
        if let Some(wall) = self.wall {
            self.common.extend_from_slice(b"Date: ");
            self.common.extend_from_slice(httpdate::fmt_http_date(wall).as_bytes());
            self.common.extend_from_slice(b"\r\n");
        }
        self.ok.clear();
        write_start(&mut self.ok, Status::Ok, &self.common);
    }

    pub(crate) const fn wall(&self) -> Option<SystemTime> {
        self.wall
    }

    /// Appends the status line and the common fields.
    pub(crate) fn start(&self, head: &mut Vec<u8>, status: Status) {
        match status {
            Status::Ok => head.extend_from_slice(&self.ok),
            _ => write_start(head, status, &self.common),
        }
    }
}

fn write_start(head: &mut Vec<u8>, status: Status, common: &[u8]) {
    head.extend_from_slice(b"HTTP/1.1 ");
    head.extend_from_slice(status.phrase().as_bytes());
    head.extend_from_slice(b"\r\n");
    head.extend_from_slice(common);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_date_is_left_out_when_unknown() {
        let now = Instant::now();
        let mut clock = Clock::new(now);
        let mut head = Vec::new();
        clock.renew(now, UNIX_EPOCH + Duration::from_secs(5));
        clock.start(&mut head, Status::Ok);
        assert_eq!(head, b"HTTP/1.1 200 OK\r\nServer: trireme\r\n");
        assert_eq!(clock.wall(), None);
    }

    #[test]
    fn the_date_changes_with_the_second() {
        let now = Instant::now();
        let mut clock = Clock::new(now);
        clock.renew(now, UNIX_EPOCH + Duration::from_millis(1_800_000_000_250));
        assert_eq!(clock.stale_at - now, Duration::from_millis(750));
        let mut head = Vec::new();
        clock.start(&mut head, Status::NotFound);
        assert_eq!(
            head,
            b"HTTP/1.1 404 Not Found\r\nServer: trireme\r\nDate: Fri, 15 Jan 2027 08:00:00 GMT\r\n"
        );
    }
}

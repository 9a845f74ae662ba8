//! TIME-WAIT as a small record, without socket and rings (RFC 9293, 3.4.2; RFC 1337).
//!
//! smoltcp would keep the whole socket for ten seconds. A record knows what it takes to repeat the
//! last acknowledgement and to tell a new connection's SYN from an old one's.

use crate::flow::FlowKey;
use alloc::collections::VecDeque;
use hashbrown::HashTable;
use smoltcp::time::{Duration, Instant};

/// Twice the lifetime of a segment. Linux's `TCP_TIMEWAIT_LEN`.
const LIFETIME: Duration = Duration::from_secs(60);

/// One connection that is over.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Record {
    pub(crate) key: FlowKey,
    /// Our next sequence number, as the wire knows it.
    pub(crate) sent_to: u32,
    /// Theirs.
    pub(crate) expected: u32,
    serial: u64,
}

/// What to do with a segment for a connection that is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// There is no record of it.
    Unknown,
    /// Say nothing.
    Ignore,
    /// Repeat the last acknowledgement: (our sequence number, theirs).
    Acknowledge(u32, u32),
    /// A new connection may begin; the record is gone.
    Renew,
}

/// All of them, oldest first.
pub(crate) struct TimeWait {
    capacity: usize,
    table: HashTable<Record>,
    order: VecDeque<(Instant, FlowKey, u64)>,
    serial: u64,
}

impl TimeWait {
    pub(crate) fn new(capacity: usize) -> TimeWait {
        TimeWait { capacity, table: HashTable::new(), order: VecDeque::new(), serial: 0 }
    }

    pub(crate) fn len(&self) -> usize {
        self.table.len()
    }

    pub(crate) fn records(&self) -> impl Iterator<Item = &Record> {
        self.table.iter()
    }

    /// Remembers a connection. The oldest is forgotten if there are too many.
    pub(crate) fn insert(&mut self, key: FlowKey, sent_to: u32, expected: u32, now: Instant) {
        self.remove(&key, None);
        if self.order.len() >= self.capacity
            && let Some((_, oldest, serial)) = self.order.pop_front()
        {
            self.remove(&oldest, Some(serial));
        }
        self.serial += 1;
        let record = Record { key, sent_to, expected, serial: self.serial };
        self.table.insert_unique(key.hash(), record, |record| record.key.hash());
        self.order.push_back((now + LIFETIME, key, self.serial));
    }

    fn remove(&mut self, key: &FlowKey, serial: Option<u64>) {
        let same = |record: &Record| {
            record.key == *key && serial.is_none_or(|serial| serial == record.serial)
        };
        if let Ok(entry) = self.table.find_entry(key.hash(), same) {
            entry.remove();
        }
    }

    /// When the next record ends.
    pub(crate) fn due(&self) -> Option<Instant> {
        self.order.front().map(|(at, ..)| *at)
    }

    /// Forgets what is old enough, a bounded number at a time.
    pub(crate) fn expire(&mut self, now: Instant) {
        for _ in 0..64 {
            match self.order.front() {
                Some(&(at, key, serial)) if at <= now => {
                    self.order.pop_front();
                    self.remove(&key, Some(serial));
                }
                _ => return,
            }
        }
    }

    /// Judges a segment: its flags and sequence number.
    pub(crate) fn judge(&mut self, key: &FlowKey, syn: bool, rst: bool, sequence: u32) -> Verdict {
        let found = self.table.find(key.hash(), |record| record.key == *key);
        let Some(record) = found.copied() else { return Verdict::Unknown };
        if rst {
            // RFC 1337: a reset does not end TIME-WAIT early.
            return Verdict::Ignore;
        }
        if syn && crate::line::before(record.expected, sequence) {
            // RFC 6191, without timestamps: beyond what the old connection received.
            self.remove(key, None);
            return Verdict::Renew;
        }
        Verdict::Acknowledge(record.sent_to, record.expected)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hash::Key;

    fn key(port: u16) -> FlowKey {
        let (local, remote) = ("10.0.0.1".parse().unwrap(), "10.0.0.2".parse().unwrap());
        FlowKey::new(&Key::new([3; 16]), (local, 80), (remote, port))
    }

    fn at(seconds: i64) -> Instant {
        Instant::from_secs(seconds)
    }

    #[test]
    fn acknowledges_the_old_and_lets_the_new_begin() {
        let mut records = TimeWait::new(10);
        records.insert(key(1), 100, u32::MAX, at(0));
        let mut judge = |syn, rst, sequence| records.judge(&key(1), syn, rst, sequence);
        assert_eq!(judge(false, false, u32::MAX - 1), Verdict::Acknowledge(100, u32::MAX));
        assert_eq!(judge(false, true, u32::MAX), Verdict::Ignore);
        assert_eq!(judge(true, false, u32::MAX - 5), Verdict::Acknowledge(100, u32::MAX));
        assert_eq!(judge(true, false, 5), Verdict::Renew, "sequence numbers wrap");
        assert_eq!(judge(true, false, 5), Verdict::Unknown);
    }

    #[test]
    fn records_end_and_are_bounded() {
        let mut records = TimeWait::new(10);
        (0..15).for_each(|n| records.insert(key(n), 1, 1, at(n.into())));
        assert_eq!(records.len(), 10);
        assert_eq!(records.judge(&key(4), false, false, 0), Verdict::Unknown);
        records.insert(key(14), 2, 2, at(50));
        assert_eq!(records.due(), Some(at(66)));
        records.expire(at(74));
        assert_eq!(records.len(), 1);
        assert_eq!(records.judge(&key(14), false, false, 0), Verdict::Acknowledge(2, 2));
        records.expire(at(110));
        assert_eq!((records.len(), records.due()), (0, None));
    }
}

//! What is at the front of a datagram, and what its receiver makes of it.

use std::time::Duration;

/// What a client sends first on a UDP stream, so that the server learns its address. Older versions send other numbers;
/// servers look at none of them.
pub(crate) const HELLO: [u8; 4] = *b"9876";
/// What the server answers, since 3.10 [iperf.h: UDP_CONNECT_REPLY, on the wire].
pub(crate) const ANSWER: [u8; 4] = *b"6789";
/// What older servers answer: 987654321 in the order of a little-endian machine.
pub(crate) const OLD_ANSWER: [u8; 4] = 987_654_321_u32.to_le_bytes();

/// A datagram's header: when it was sent by the sender's clock, and its number, from 1 on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Header {
    pub(crate) sent: Duration,
    pub(crate) number: u64,
}

impl Header {
    /// Writes it to the front of a datagram of at least 16 octets.
    pub(crate) fn emit(&self, datagram: &mut [u8], wide: bool) {
        datagram[..4].copy_from_slice(&(self.sent.as_secs() as u32).to_be_bytes());
        datagram[4..8].copy_from_slice(&self.sent.subsec_micros().to_be_bytes());
        if wide {
            datagram[8..16].copy_from_slice(&self.number.to_be_bytes());
        } else {
            datagram[8..12].copy_from_slice(&(self.number as u32).to_be_bytes());
        }
    }

    /// Reads it; `None` if the datagram is too short.
    pub(crate) fn parse(datagram: &[u8], wide: bool) -> Option<Header> {
        let (seconds, rest) = datagram.split_first_chunk()?;
        let (micros, rest) = rest.split_first_chunk()?;
        let number = if wide {
            u64::from_be_bytes(*rest.first_chunk()?)
        } else {
            u32::from_be_bytes(*rest.first_chunk()?).into()
        };
        let seconds = Duration::from_secs(u32::from_be_bytes(*seconds).into());
        let sent = seconds + Duration::from_micros(u32::from_be_bytes(*micros).into());
        Some(Header { sent, number })
    }
}

/// What has become of the datagrams of a stream. The jitter is RFC 1889's [A.8].
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Receipt {
    /// The highest number seen: so many have been sent at least.
    pub(crate) packets: u64,
    /// Numbers passed over and not seen since.
    pub(crate) lost: u64,
    /// Seen after a higher number.
    pub(crate) out_of_order: u64,
    /// In seconds.
    pub(crate) jitter: f64,
    /// How long the last one was under way, in seconds, by two clocks that differ.
    transit: Option<f64>,
}

impl Receipt {
    /// A datagram has arrived at `now` of our clock.
    pub(crate) fn note(&mut self, header: Header, now: Duration) {
        if header.number > self.packets {
            // A forged number could make it anything; it only makes the figures wrong.
            self.lost = self.lost.saturating_add(header.number - self.packets - 1);
            self.packets = header.number;
        } else {
            self.out_of_order += 1;
            self.lost = self.lost.saturating_sub(1);
        }
        let transit = now.as_secs_f64() - header.sent.as_secs_f64();
        let difference = (transit - self.transit.unwrap_or(transit)).abs();
        self.transit = Some(transit);
        self.jitter += (difference - self.jitter) / 16.0;
    }

    /// What was added since; of the jitter, what it is now.
    pub(crate) fn since(&self, base: &Receipt) -> Receipt {
        Receipt {
            packets: self.packets.saturating_sub(base.packets),
            // Late arrivals may have taken back what was counted before.
            lost: self.lost.saturating_sub(base.lost),
            out_of_order: self.out_of_order - base.out_of_order,
            ..*self
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What iperf 3.12 sent.
    const SENT: [u8; 16] =
        [0, 0, 0x33, 0x47, 0, 0x0a, 0xd5, 0xe5, 0, 0, 0, 1, 0x92, 0x39, 0xb7, 0xa3];

    #[test]
    fn header_is_read_and_written() {
        let header = Header::parse(&SENT, false).unwrap();
        assert_eq!(header, Header { sent: Duration::from_micros(13_127_710_117), number: 1 });
        let mut again = [0xa5; 16];
        header.emit(&mut again, false);
        assert_eq!(again[..12], SENT[..12]);
        assert_eq!(again[12..], [0xa5; 4]);
        Header { number: 1 << 40, ..header }.emit(&mut again, true);
        assert_eq!(Header::parse(&again, true).unwrap().number, 1 << 40);
        assert_eq!(Header::parse(&again[..15], true), None);
        assert_eq!(Header::parse(&[], false), None);
        // Microseconds that are none.
        assert!(Header::parse(&[0xff; 16], false).is_some());
    }

    #[test]
    fn losses_and_late_arrivals_are_told_apart() {
        let mut receipt = Receipt::default();
        let mut note =
            |number| receipt.note(Header { sent: Duration::ZERO, number }, Duration::ZERO);
        for number in [1, 2, 5, 6, 3, 9] {
            note(number);
        }
        assert_eq!((receipt.packets, receipt.lost, receipt.out_of_order), (9, 3, 1));
        assert_eq!(receipt.jitter, 0.0);
    }

    #[test]
    fn jitter_is_a_sixteenth_of_the_difference() {
        let mut receipt = Receipt::default();
        let ms = Duration::from_millis;
        receipt.note(Header { sent: ms(0), number: 1 }, ms(500));
        assert_eq!(receipt.jitter, 0.0);
        receipt.note(Header { sent: ms(10), number: 2 }, ms(526));
        assert!(
            (receipt.jitter - 0.016 / 16.0).abs() < 1e-9,
            "16 ms later than expected: a sixteenth"
        );
    }
}

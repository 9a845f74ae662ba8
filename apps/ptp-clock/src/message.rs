//! What of a message is looked at before the protocol is: IEEE 1588-2019, 13.3.

/// Octets of the common header.
const HEADER: usize = 34;
/// No network keeps a message for this long, in the units of correctionField: a second, in nanoseconds times 2^16.
const CORRECTION: u64 = 1_000_000_000 << 16;

/// messageType.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the names are the standard's")]
pub enum Kind {
    Sync,
    DelayReq,
    PdelayReq,
    PdelayResp,
    FollowUp,
    DelayResp,
    PdelayRespFollowUp,
    Announce,
    Signaling,
    Management,
}

impl Kind {
    /// The name, as the standard writes it.
    pub fn name(self) -> &'static str {
        match self {
            Kind::Sync => "Sync",
            Kind::DelayReq => "Delay_Req",
            Kind::PdelayReq => "Pdelay_Req",
            Kind::PdelayResp => "Pdelay_Resp",
            Kind::FollowUp => "Follow_Up",
            Kind::DelayResp => "Delay_Resp",
            Kind::PdelayRespFollowUp => "Pdelay_Resp_Follow_Up",
            Kind::Announce => "Announce",
            Kind::Signaling => "Signaling",
            Kind::Management => "Management",
        }
    }

    /// Whether it counts when it left and arrived.
    pub fn is_event(self) -> bool {
        matches!(self, Kind::Sync | Kind::DelayReq | Kind::PdelayReq | Kind::PdelayResp)
    }

    /// Octets of the shortest one.
    fn least(self) -> usize {
        match self {
            Kind::Sync | Kind::DelayReq | Kind::FollowUp | Kind::Signaling => 44,
            Kind::PdelayReq | Kind::PdelayResp | Kind::DelayResp | Kind::PdelayRespFollowUp => 54,
            Kind::Announce => 64,
            Kind::Management => 48,
        }
    }

    fn of(number: u8) -> Option<Kind> {
        Some(match number {
            0x0 => Kind::Sync,
            0x1 => Kind::DelayReq,
            0x2 => Kind::PdelayReq,
            0x3 => Kind::PdelayResp,
            0x8 => Kind::FollowUp,
            0x9 => Kind::DelayResp,
            0xa => Kind::PdelayRespFollowUp,
            0xb => Kind::Announce,
            0xc => Kind::Signaling,
            0xd => Kind::Management,
            _ => return None,
        })
    }
}

/// A message of PTP version 2.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Message<'a> {
    /// Its type.
    pub kind: Kind,
    /// sequenceId: an answer has that of the question.
    pub sequence: u16,
    /// Itself, without what padded it.
    pub bytes: &'a [u8],
}

/// The message in these bytes, if that is what they are.
pub fn parse(bytes: &[u8]) -> Option<Message<'_>> {
    let header: &[u8; HEADER] = bytes.first_chunk()?;
    let kind = Kind::of(header[0] & 0xf)?;
    let length = usize::from(u16::from_be_bytes([header[2], header[3]]));
    let correction = i64::from_be_bytes(*header[8..].first_chunk()?);
    if header[1] & 0xf != 2 || length < kind.least() || correction.unsigned_abs() >= CORRECTION {
        return None;
    }
    let sequence = u16::from_be_bytes([header[30], header[31]]);
    Some(Message { kind, sequence, bytes: bytes.get(..length)? })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A Sync of version 2.1, sequence 0x1234, without timestamps, padded to Ethernet's least length.
    fn sync() -> [u8; 46] {
        let mut bytes = [0; 46];
        bytes[..4].copy_from_slice(&[0x00, 0x12, 0x00, 0x2c]);
        bytes[30..32].copy_from_slice(&[0x12, 0x34]);
        bytes
    }

    #[test]
    fn padding_is_no_part_of_a_message() {
        let bytes = sync();
        let message = parse(&bytes).unwrap();
        assert_eq!((message.kind, message.sequence), (Kind::Sync, 0x1234));
        assert_eq!(message.bytes, &bytes[..44]);
        assert!(message.kind.is_event() && message.kind.name() == "Sync");
    }

    #[test]
    fn what_is_no_message_is_none() {
        assert_eq!(parse(&[]), None);
        assert_eq!(parse(&sync()[..43]), None, "longer than it is");
        // Unknown, shorter than an Announce, version 1, cut short, corrected by more than a day either way.
        for (at, value) in [(0, 0x07), (0, 0x0b), (1, 0x01), (3, 43), (8, 0x10), (8, 0xef)] {
            let mut bytes = sync();
            bytes[at] = value;
            assert_eq!(parse(&bytes), None, "{value:#x} at {at}");
        }
    }
}

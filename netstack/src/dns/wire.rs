//! DNS messages (RFC 1035, RFC 6891): queries out, answers in. Parsing rests on smoltcp's `wire`.

use alloc::vec::Vec;
use core::net::{IpAddr, Ipv4Addr};
use smoltcp::wire::{DnsFlags, DnsOpcode, DnsPacket, DnsQueryType, DnsQuestion, DnsRcode};
use smoltcp::wire::{DnsRecord, DnsRecordData};

/// Longest name on the wire (RFC 1035, 2.3.4).
const MAX_NAME: usize = 255;
/// CNAMEs followed within one answer.
const MAX_CHAIN: usize = 16;
/// Answer we can take over UDP without fragments on any path (DNS flag day 2020).
const UDP_SIZE: u16 = 1232;

/// A name in wire form, uncompressed, lower case: lengths and labels, a zero at the end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Name(Vec<u8>);

impl Name {
    /// Reads `www.example.net`, with or without the last dot. Only what a host can be called:
    /// letters, digits, hyphens and underscores.
    pub(super) fn from_text(text: &str) -> Option<Name> {
        let text = text.strip_suffix('.').unwrap_or(text);
        let mut wire = Vec::new();
        for label in text.split('.') {
            let fits = (1..=63).contains(&label.len());
            let good = |b: u8| b.is_ascii_alphanumeric() || b == b'-' || b == b'_';
            if !fits || !label.bytes().all(good) {
                return None;
            }
            wire.push(label.len() as u8);
            wire.extend(label.bytes().map(|b| b.to_ascii_lowercase()));
        }
        wire.push(0);
        (wire.len() <= MAX_NAME).then_some(Name(wire))
    }

    /// Uncompresses a name of a packet.
    fn from_packet(packet: &DnsPacket<&[u8]>, name: &[u8]) -> Option<Name> {
        let mut wire = Vec::new();
        for label in packet.parse_name(name) {
            let label = label.ok()?;
            if label.is_empty() || wire.len() + 2 + label.len() > MAX_NAME {
                return None;
            }
            wire.push(label.len() as u8);
            wire.extend(label.iter().map(u8::to_ascii_lowercase));
        }
        wire.push(0);
        Some(Name(wire))
    }

    /// In mixed case by the bits of `mask`, repeated: what a forger must also guess (`0x20`, see
    /// draft-vixie-dnsext-dns0x20).
    pub(super) fn mixed(&self, mask: u32) -> Vec<u8> {
        let mut bit = 0;
        let letter = |&b: &u8| {
            if !b.is_ascii_lowercase() {
                return b;
            }
            bit += 1;
            if mask.rotate_right(bit) & 1 != 0 { b.to_ascii_uppercase() } else { b }
        };
        self.0.iter().map(letter).collect()
    }

    /// Does its last label say so, or all of it?
    pub(super) fn is_localhost(&self) -> bool {
        self.0.ends_with(b"\x09localhost\0")
    }
}

/// A or AAAA.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    A,
    Aaaa,
}

impl Kind {
    fn code(self) -> DnsQueryType {
        match self {
            Kind::A => DnsQueryType::A,
            Kind::Aaaa => DnsQueryType::Aaaa,
        }
    }
}

/// A query for the name as spelt, recursion desired.
pub(super) fn query(transaction: u16, spelt: &[u8], kind: Kind, extended: bool) -> Vec<u8> {
    let mut message = Vec::with_capacity(12 + spelt.len() + 4 + 11);
    message.extend(transaction.to_be_bytes());
    message.extend([1, 0, 0, 1, 0, 0, 0, 0, 0, u8::from(extended)]);
    message.extend(spelt);
    message.extend(u16::from(kind.code()).to_be_bytes());
    message.extend([0, 1]);
    if extended {
        // OPT: root, type 41, our size, no flags, no options (RFC 6891, 6.1.2).
        message.extend([0, 0, 41]);
        message.extend(UDP_SIZE.to_be_bytes());
        message.extend([0; 6]);
    }
    message
}

/// What a server said.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Answer {
    /// These addresses, for so many seconds.
    Addresses(Vec<IpAddr>, u32),
    /// The name is another's, of which the server did not tell.
    Alias(Name),
    /// The name has no address of this kind.
    Nothing,
    /// It does not understand extensions, or says so.
    NoExtensions,
    /// It cannot or will not.
    Failed,
    /// There is more, and nothing here.
    Truncated,
}

/// Why a message is not an answer to the query.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mismatch {
    /// It cannot be read.
    Malformed,
    /// It answers something else: a forger's guess, or late.
    Question,
}

/// Reads the answer to a query for `spelt`, whose name is `name`.
pub(super) fn answer(
    message: &[u8],
    transaction: u16,
    name: &Name,
    spelt: &[u8],
    kind: Kind,
) -> Result<Answer, Mismatch> {
    let packet = DnsPacket::new_checked(message).map_err(|_| Mismatch::Malformed)?;
    let flags = packet.flags();
    if packet.transaction_id() != transaction
        || !flags.contains(DnsFlags::RESPONSE)
        || packet.opcode() != DnsOpcode::Query
    {
        return Err(Mismatch::Question);
    }
    let rcode = packet.rcode();
    if matches!(rcode, DnsRcode::FormErr | DnsRcode::NotImp) && packet.question_count() == 0 {
        return Ok(Answer::NoExtensions);
    }
    if packet.question_count() != 1 {
        return Err(Mismatch::Question);
    }
    let (mut rest, question) =
        DnsQuestion::parse(packet.payload()).map_err(|_| Mismatch::Malformed)?;
    // Byte by byte: the case must come back too.
    if question.name != spelt || question.type_ != kind.code() {
        return Err(Mismatch::Question);
    }
    match rcode {
        DnsRcode::NoError => {}
        DnsRcode::NXDomain => return Ok(Answer::Nothing),
        DnsRcode::FormErr | DnsRcode::NotImp => return Ok(Answer::NoExtensions),
        _ => return Ok(Answer::Failed),
    }
    let mut records = Vec::new();
    for _ in 0..packet.answer_record_count() {
        let Ok((after, record)) = DnsRecord::parse(rest) else {
            // A truncated message may end anywhere; another must not.
            match flags.contains(DnsFlags::TRUNCATED) {
                true => break,
                false => return Err(Mismatch::Malformed),
            }
        };
        rest = after;
        let owner = Name::from_packet(&packet, record.name).ok_or(Mismatch::Malformed)?;
        records.push((owner, record));
    }
    let found = follow(&packet, &records, name)?;
    match found {
        Answer::Nothing if flags.contains(DnsFlags::TRUNCATED) => Ok(Answer::Truncated),
        found => Ok(found),
    }
}

/// Follows aliases from `name` to addresses. Records of other names count for nothing.
fn follow(
    packet: &DnsPacket<&[u8]>,
    records: &[(Name, DnsRecord<'_>)],
    name: &Name,
) -> Result<Answer, Mismatch> {
    let mut current = name.clone();
    let mut ttl = u32::MAX;
    for _ in 0..MAX_CHAIN {
        let mut addresses = Vec::new();
        let mut alias = None;
        for (_, record) in records.iter().filter(|(owner, _)| *owner == current) {
            let address = match record.data {
                DnsRecordData::A(address) => IpAddr::V4(address),
                DnsRecordData::Aaaa(address) => IpAddr::V6(address),
                DnsRecordData::Cname(target) => {
                    alias = Some(Name::from_packet(packet, target).ok_or(Mismatch::Malformed)?);
                    ttl = ttl.min(record.ttl);
                    continue;
                }
                DnsRecordData::Other(..) => continue,
            };
            ttl = ttl.min(record.ttl);
            if connectable(address) && !addresses.contains(&address) {
                addresses.push(address);
            }
        }
        match (addresses.is_empty(), alias) {
            (false, _) => return Ok(Answer::Addresses(addresses, ttl)),
            (true, Some(alias)) => current = alias,
            (true, None) if current == *name => return Ok(Answer::Nothing),
            (true, None) => return Ok(Answer::Alias(current)),
        }
    }
    // A circle.
    Ok(Answer::Nothing)
}

/// An address one can connect to. Blocking name servers answer `0.0.0.0`, which would be ourselves.
fn connectable(address: IpAddr) -> bool {
    !address.is_unspecified()
        && !address.is_multicast()
        && address != IpAddr::V4(Ipv4Addr::BROADCAST)
}

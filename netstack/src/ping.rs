//! Asking whether a host is there: ICMP echo, the requester's side (RFC 792; RFC 4443, 4).
//!
//! A requester is opened for one destination, sends as often as it likes and takes the answers, of which a bounded
//! number is kept. Only what quotes or answers a request of its identifier to its destination reaches it.

use crate::Error;
use crate::frame::{Headers, protocol};
use crate::icmp::Quoted;
use crate::packet::{self, Pair};
use crate::socket::Event;
use crate::stack::Stack;
use alloc::collections::VecDeque;
use core::net::IpAddr;
use smoltcp::time::Instant;

/// Requesters at a time.
const MAX_REQUESTERS: usize = 8;
/// Answers kept for each; more are dropped and counted.
const MAX_ANSWERS: usize = 32;
/// The largest payload of an echo request, in bytes: 65,535 less both IPv4 headers, as `ping -s` has it.
pub const MAX_PAYLOAD: usize = 65_507;

/// Names a requester. It is the identifier of its echo requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PingId(u16);

/// What came back for one request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Answer {
    /// Sequence number of the request.
    pub sequence: u16,
    /// Who answered.
    pub from: IpAddr,
    /// When.
    pub at: Instant,
    /// What.
    pub kind: AnswerKind,
}

/// The kinds of answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AnswerKind {
    /// The echo.
    Reply {
        /// Bytes of the ICMP message, its header of eight included.
        bytes: usize,
        /// Time to live or hop limit it arrived with.
        hops: u8,
        /// The payload is not the one that was sent.
        damaged: bool,
    },
    /// An ICMP error from a router or the host.
    Error {
        /// ICMP type.
        kind: u8,
        /// ICMP code.
        code: u8,
    },
    /// The next hop did not answer: nothing was sent.
    NoNeighbour,
}

struct Requester {
    id: u16,
    destination: IpAddr,
    interface: Option<usize>,
    answers: VecDeque<Answer>,
}

/// All requesters.
#[derive(Default)]
pub(crate) struct Pings {
    open: alloc::vec::Vec<Requester>,
}

/// Byte `at` of the payload.
fn pattern(at: usize) -> u8 {
    at as u8
}

impl Stack {
    /// Opens a requester. `interface`: the number of the only `eth` interface to use.
    pub fn ping_open(
        &mut self,
        destination: IpAddr,
        interface: Option<usize>,
    ) -> Result<PingId, Error> {
        if self.pings.open.len() >= MAX_REQUESTERS {
            return Err(Error::NoBufferSpace);
        }
        let interface = interface.map(|number| number + 1);
        let destination = self.route(destination, interface)?.destination;
        let id = loop {
            let id = self.random.next_u32() as u16;
            if self.pings.open.iter().all(|requester| requester.id != id) {
                break id;
            }
        };
        self.pings.open.push(Requester { id, destination, interface, answers: VecDeque::new() });
        Ok(PingId(id))
    }

    /// Closes it.
    pub fn ping_close(&mut self, id: PingId) {
        self.pings.open.retain(|requester| requester.id != id.0);
    }

    /// Our address that requests are sent from now.
    pub fn ping_source(&self, id: PingId) -> Result<IpAddr, Error> {
        let requester = self.pings.open.iter().find(|requester| requester.id == id.0);
        let requester = requester.ok_or(Error::BadDescriptor)?;
        Ok(self.route(requester.destination, requester.interface)?.source)
    }

    /// Sends a request with `len` bytes of payload. An event says when there is an answer.
    pub fn ping(
        &mut self,
        id: PingId,
        sequence: u16,
        len: usize,
        hops: u8,
        now: Instant,
    ) -> Result<(), Error> {
        let requester = self.pings.open.iter().find(|requester| requester.id == id.0);
        let requester = requester.ok_or(Error::BadDescriptor)?;
        if len > MAX_PAYLOAD {
            return Err(Error::MessageTooLong);
        }
        let route = self.route(requester.destination, requester.interface)?;
        let pair = Pair::new(route.source, route.destination).ok_or(Error::NetworkUnreachable)?;
        let (kind, protocol) = match pair {
            Pair::V4(_, destination) => {
                if self.interfaces[route.interface].is_broadcast(destination) {
                    return Err(Error::PermissionDenied);
                }
                (crate::icmp::v4::ECHO, protocol::ICMP)
            }
            Pair::V6(..) => (crate::icmp::v6::ECHO, protocol::ICMPV6),
        };
        let (header, len) = (pair.header_len(), 8 + len);
        let fill = |message: &mut [u8]| {
            message[..4].copy_from_slice(&[kind, 0, 0, 0]);
            message[4..6].copy_from_slice(&id.0.to_be_bytes());
            message[6..8].copy_from_slice(&sequence.to_be_bytes());
            for (at, byte) in message[8..].iter_mut().enumerate() {
                *byte = pattern(at);
            }
            packet::icmp_sum(message, &pair);
        };
        let mtu = self.path_mtu(route.destination, self.interfaces[route.interface].mtu());
        let sent = if header + len <= mtu {
            self.interfaces[route.interface].send_via(route.next_hop, header + len, now, |packet| {
                packet::ip_header(packet, &pair, protocol, hops, len);
                fill(&mut packet[header..]);
            })
        } else {
            let mut whole = alloc::vec![0; len];
            fill(&mut whole);
            self.send_fragments(route, &pair, protocol, hops, &whole, now)
        };
        self.interfaces[route.interface].flush();
        if sent { Ok(()) } else { Err(Error::NoBufferSpace) }
    }

    /// The next answer.
    pub fn ping_answer(&mut self, id: PingId) -> Option<Answer> {
        let requester = self.pings.open.iter_mut().find(|requester| requester.id == id.0)?;
        requester.answers.pop_front()
    }

    /// An echo reply, its sum checked.
    pub(crate) fn echo_reply(&mut self, headers: &Headers, message: &[u8], now: Instant) {
        let Some(&[_, _, _, _, a, b, c, d]) = message.first_chunk() else { return };
        let payload = &message[8..];
        let damaged = payload.iter().enumerate().any(|(at, byte)| *byte != pattern(at));
        let answer = Answer {
            sequence: u16::from_be_bytes([c, d]),
            from: headers.source,
            at: now,
            kind: AnswerKind::Reply { bytes: message.len(), hops: headers.hop_limit, damaged },
        };
        self.ping_heard(u16::from_be_bytes([a, b]), None, answer);
    }

    /// What is said of a request of ours that `quote` is the beginning of.
    pub(crate) fn ping_failed(
        &mut self,
        from: IpAddr,
        kind: AnswerKind,
        quote: &Quoted,
        now: Instant,
    ) {
        let request = match quote.protocol {
            protocol::ICMP => crate::icmp::v4::ECHO,
            protocol::ICMPV6 => crate::icmp::v6::ECHO,
            _ => return,
        };
        // Type and code lie where a port would.
        if quote.local.1 != u16::from(request) << 8 {
            return;
        }
        let (id, sequence) = ((quote.sequence >> 16) as u16, quote.sequence as u16);
        let answer = Answer { sequence, from, at: now, kind };
        self.ping_heard(id, Some(quote.remote.0), answer);
    }

    fn ping_heard(&mut self, id: u16, asked: Option<IpAddr>, answer: Answer) {
        let requester = self.pings.open.iter_mut().find(|requester| {
            let asked = asked.unwrap_or(answer.from);
            requester.id == id
                && (requester.destination == asked || requester.destination.is_multicast())
        });
        let Some(requester) = requester else { return };
        if requester.answers.len() >= MAX_ANSWERS {
            self.statistics.ping_queue_full += 1;
            return;
        }
        requester.answers.push_back(answer);
        if requester.answers.len() == 1 {
            self.events.push_back(Event::Ping(PingId(id)));
        }
    }
}

//! ICMP for IPv4 and IPv6: echo, errors to and from sockets, neighbour discovery's door.

use crate::Error;
use crate::flow::FlowKey;
use crate::frame::{Headers, protocol};
use crate::interface::Destination;
use crate::line::before;
use crate::nd::{self, Nd};
use crate::packet::{self, Pair};
use crate::ping::AnswerKind;
use crate::stack::{Slot, Stack};
use crate::tcp::{Phase, segment_of};
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use smoltcp::time::Instant;

pub(crate) mod v4 {
    pub(super) const ECHO_REPLY: u8 = 0;
    pub(super) const UNREACHABLE: u8 = 3;
    pub(super) const TIME_EXCEEDED: u8 = 11;
    pub(super) const PARAMETER_PROBLEM: u8 = 12;
    pub(crate) const ECHO: u8 = 8;
    pub(super) const PORT: u8 = 3;
}

pub(crate) mod v6 {
    pub(super) const UNREACHABLE: u8 = 1;
    pub(super) const TOO_BIG: u8 = 2;
    pub(super) const PARAMETER_PROBLEM: u8 = 4;
    pub(crate) const ECHO: u8 = 128;
    pub(super) const ECHO_REPLY: u8 = 129;
    pub(super) const PORT: u8 = 4;
}

/// A packet an ICMP error quotes: the first bytes of one we sent.
pub(crate) struct Quoted {
    pub(crate) local: (IpAddr, u16),
    pub(crate) remote: (IpAddr, u16),
    pub(crate) protocol: u8,
    /// TCP's; else whatever is there.
    pub(crate) sequence: u32,
}

/// Reads the quoted packet: IP header and eight bytes more.
pub(crate) fn quoted(bytes: &[u8]) -> Option<Quoted> {
    let (source, destination, protocol, rest): (IpAddr, IpAddr, u8, &[u8]) =
        match bytes.first()? >> 4 {
            4 => {
                let header: &[u8; 20] = bytes.first_chunk()?;
                let len = usize::from(header[0] & 15) * 4;
                // Later fragments quote no ports.
                if len < 20 || u16::from_be_bytes([header[6], header[7]]) & 0x1fff != 0 {
                    return None;
                }
                let source: [u8; 4] = *header[12..].first_chunk()?;
                let destination: [u8; 4] = *header[16..].first_chunk()?;
                (
                    Ipv4Addr::from(source).into(),
                    Ipv4Addr::from(destination).into(),
                    header[9],
                    bytes.get(len..)?,
                )
            }
            6 => {
                let header: &[u8; 40] = bytes.first_chunk()?;
                let source: [u8; 16] = *header[8..].first_chunk()?;
                let destination: [u8; 16] = *header[24..].first_chunk()?;
                (
                    Ipv6Addr::from(source).into(),
                    Ipv6Addr::from(destination).into(),
                    header[6],
                    bytes.get(40..)?,
                )
            }
            _ => return None,
        };
    let transport: &[u8; 8] = rest.first_chunk()?;
    let port = |at: usize| u16::from_be_bytes([transport[at], transport[at + 1]]);
    Some(Quoted {
        local: (source, port(0)),
        remote: (destination, port(2)),
        protocol,
        sequence: u32::from_be_bytes(*transport[4..].first_chunk()?),
    })
}

/// What an error message says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Said {
    /// Of the destination.
    Error(Error),
    /// Of the path.
    Mtu(usize),
}

impl Stack {
    /// A received ICMP message. `message` is whole.
    pub(crate) fn icmp(
        &mut self,
        interface: usize,
        headers: &Headers,
        message: &[u8],
        to: Destination,
        now: Instant,
    ) {
        let Some(pair) = Pair::new(headers.source, headers.destination) else { return };
        let Some(&[kind, code, _, _, a, b, c, d]) = message.first_chunk() else { return };
        if !packet::icmp_sum_is_right(message, &pair) {
            self.statistics.icmp_bad_checksum += 1;
            return;
        }
        let error = match headers.protocol {
            protocol::ICMP => {
                matches!(kind, v4::UNREACHABLE | v4::TIME_EXCEEDED | v4::PARAMETER_PROBLEM)
            }
            _ => (v6::UNREACHABLE..=v6::PARAMETER_PROBLEM).contains(&kind),
        };
        if error
            && to == Destination::Ours
            && let Some(quote) = quoted(&message[8..])
        {
            self.ping_failed(headers.source, AnswerKind::Error { kind, code }, &quote, now);
        }
        let said = match headers.protocol {
            protocol::ICMP => match (kind, code) {
                (v4::ECHO_REPLY, 0) => return self.echo_reply(headers, message, now),
                (v4::ECHO, 0) => return self.echo(interface, headers, message, to, now),
                (v4::UNREACHABLE, 4) => Said::Mtu(usize::from(u16::from_be_bytes([c, d]))),
                (v4::UNREACHABLE, 2 | 3) => Said::Error(Error::ConnectionRefused),
                (v4::UNREACHABLE, 0 | 6 | 9 | 11) => Said::Error(Error::NetworkUnreachable),
                (v4::UNREACHABLE, _) => Said::Error(Error::HostUnreachable),
                _ => return,
            },
            _ => match (kind, code) {
                (v6::ECHO, 0) => return self.echo(interface, headers, message, to, now),
                (v6::ECHO_REPLY, 0) => return self.echo_reply(headers, message, now),
                (nd::SOLICITATION | nd::ADVERTISEMENT, 0) => {
                    return self.neighbour_message(interface, headers, message, now);
                }
                (v6::TOO_BIG, _) => Said::Mtu(u32::from_be_bytes([a, b, c, d]) as usize),
                (v6::UNREACHABLE, 4) => Said::Error(Error::ConnectionRefused),
                (v6::UNREACHABLE, 0) => Said::Error(Error::NetworkUnreachable),
                (v6::UNREACHABLE, _) => Said::Error(Error::HostUnreachable),
                _ => return self.icmpv6_other(interface, headers, message, now),
            },
        };
        if to == Destination::Ours {
            self.icmp_error(said, &message[8..], now);
        }
    }

    fn icmp_error(&mut self, said: Said, quote: &[u8], now: Instant) {
        let Some(quoted) = quoted(quote) else { return };
        if !self.is_ours(quoted.local.0) {
            return;
        }
        let key = FlowKey::new(&self.flow_key, quoted.local, quoted.remote);
        match quoted.protocol {
            protocol::TCP => {
                let Some(index) = self.flows.find(&key, &self.slots) else { return };
                let Some(flow) = self.flow_mut(index) else { return };
                // Only what quotes bytes in flight is believed (RFC 5927, 4.1).
                let wire = &flow.wire;
                if before(quoted.sequence, wire.heard_to) || before(wire.sent_to, quoted.sequence) {
                    self.statistics.icmp_out_of_window += 1;
                    return;
                }
                match said {
                    // Hard only while connecting (RFC 5461, 5).
                    Said::Error(error) if flow.phase == Phase::Connecting => {
                        self.fail_flow(index, error, now);
                    }
                    Said::Error(_) => {}
                    Said::Mtu(mtu) => {
                        let mtu = self.paths.learn(key.remote, mtu, now);
                        let segment = segment_of(mtu, key.remote);
                        if let Some(flow) = self.flow_mut(index)
                            && segment < flow.wire.segment
                        {
                            // Sent again, cut smaller, when smoltcp's timer says so.
                            flow.wire.segment = segment;
                        }
                    }
                }
            }
            protocol::UDP => match said {
                Said::Error(error) => self.udp_error(&key, error),
                Said::Mtu(mtu) => {
                    if self.connected.find(&key, &self.slots).is_some()
                        || !self.ports.users(crate::Kind::Datagram, key.local_port).is_empty()
                    {
                        self.paths.learn(key.remote, mtu, now);
                        self.routes_changed();
                    }
                }
            },
            _ => {}
        }
    }

    fn echo(
        &mut self,
        interface: usize,
        headers: &Headers,
        message: &[u8],
        to: Destination,
        now: Instant,
    ) {
        // To a broadcast address: ignored, as RFC 1122, 3.2.2.6 allows and Linux does.
        if to == Destination::Broadcast || !self.echo_limit.allow(now) {
            return;
        }
        let source = match to {
            Destination::Ours => headers.destination,
            _ => match self.interfaces[interface].source_for(headers.source) {
                Some(source) => source,
                None => return,
            },
        };
        let Some(pair) = Pair::new(source, headers.source) else { return };
        let kind = if matches!(pair, Pair::V4(..)) { v4::ECHO_REPLY } else { v6::ECHO_REPLY };
        let header = pair.header_len();
        let mtu = self.path_mtu(headers.source, self.interfaces[interface].mtu());
        let reply = |packet: &mut [u8]| {
            packet.copy_from_slice(message);
            packet[0] = kind;
            packet[2..4].fill(0);
            packet::icmp_sum(packet, &pair);
        };
        if header + message.len() <= mtu {
            let ethertype = pair.ethertype();
            let len = header + message.len();
            self.interfaces[interface].send(headers.source_mac, ethertype, len, |packet| {
                packet::ip_header(packet, &pair, headers.protocol, 64, message.len());
                reply(&mut packet[header..]);
            });
        } else if let Ok(route) = self.route(headers.source, Some(interface)) {
            let mut whole = alloc::vec![0; message.len()];
            reply(&mut whole);
            self.send_fragments(route, &pair, headers.protocol, 64, &whole, now);
        }
    }

    fn neighbour_message(
        &mut self,
        interface: usize,
        headers: &Headers,
        message: &[u8],
        now: Instant,
    ) {
        // From this link, not routed here (RFC 4861, 7.1).
        if headers.hop_limit != 255 {
            return;
        }
        let (Some(heard), IpAddr::V6(source)) = (Nd::parse(message), headers.source) else {
            return;
        };
        self.claimed(interface, &heard, source, now);
        let action = self.interfaces[interface].nd(heard, source, now);
        self.act(interface, action, now);
    }

    /// Port unreachable, for a datagram nobody wanted. `packet` starts with the IP header.
    pub(crate) fn port_unreachable(
        &mut self,
        interface: usize,
        headers: &Headers,
        packet: &[u8],
        now: Instant,
    ) {
        if !self.error_limit.allow(now) {
            self.statistics.icmp_limited += 1;
            return;
        }
        let Some(pair) = Pair::new(headers.destination, headers.source) else { return };
        let (kind, code, protocol, least) = match pair {
            Pair::V4(..) => (v4::UNREACHABLE, v4::PORT, protocol::ICMP, 576),
            Pair::V6(..) => (v6::UNREACHABLE, v6::PORT, protocol::ICMPV6, 1280),
        };
        let header = pair.header_len();
        // As much of it as fits the smallest packet everyone takes (RFC 1812, 4.3.2.3; RFC 4443).
        let quote = &packet[..packet.len().min(least - header - 8)];
        let len = 8 + quote.len();
        self.interfaces[interface].send(
            headers.source_mac,
            pair.ethertype(),
            header + len,
            |out| {
                packet::ip_header(out, &pair, protocol, 64, len);
                let message = &mut out[header..];
                message[..8].copy_from_slice(&[kind, code, 0, 0, 0, 0, 0, 0]);
                message[8..].copy_from_slice(quote);
                packet::icmp_sum(message, &pair);
            },
        );
    }

    /// The MTU of the path to `destination` over a link with `mtu`.
    #[inline]
    pub(crate) fn path_mtu(&self, destination: IpAddr, mtu: usize) -> usize {
        self.paths.get(destination, mtu)
    }

    /// Tells connections and senders behind a dead next hop.
    pub(crate) fn unreachable(&mut self, index: u32, now: Instant) {
        if let Some(Slot::Flow(flow)) = self.slots.at(index)
            && flow.waiting
        {
            self.fail_flow(index, Error::HostUnreachable, now);
        }
    }

    /// Where a datagram came from that could not be sent to a dead next hop: its socket's error.
    pub(crate) fn undeliverable(&mut self, packet: &[u8], now: Instant) {
        let Some(quoted) = quoted(packet) else { return };
        if quoted.protocol == protocol::UDP {
            let key = FlowKey::new(&self.flow_key, quoted.local, quoted.remote);
            self.udp_error(&key, Error::HostUnreachable);
        } else {
            self.ping_failed(quoted.local.0, AnswerKind::NoNeighbour, &quoted, now);
        }
    }
}

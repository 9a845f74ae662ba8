//! From a received frame to whom it is for.

use crate::address::is_plausible_source;
use crate::cookie::Acknowledged;
use crate::flow::FlowKey;
use crate::frame::{self, Headers, ethertype, protocol, tcp_flags};
use crate::gro::{Added, Merge};
use crate::interface::Destination;
use crate::offload;
use crate::packet::{self, Bare, Pair};
use crate::reassembly;
use crate::socket::{Family, Kind};
use crate::stack::{Slot, Stack};
use crate::tcp::Phase;
use crate::timewait::Verdict;
use crate::udp;
use core::net::IpAddr;
use smoltcp::socket::tcp::State;
use smoltcp::time::Instant;
use trireme_nic::{MacAddress, Network, ReceivedFrame, Transport};

impl Stack {
    /// Takes one frame in. The caller gives its buffer back to the card.
    /// `more`: another waits behind it.
    pub(crate) fn receive(
        &mut self,
        interface: usize,
        frame: &mut ReceivedFrame,
        more: bool,
        now: Instant,
    ) {
        let Some(at) = self.interfaces.get_mut(interface) else { return };
        let headers = match frame::parse(&frame.buffer) {
            Ok(headers) => headers,
            Err(cause) => return at.egress.counters.malformed(cause),
        };
        let (interface, at) = if frame.tag.is_some() || headers.shape.link_len != 14 {
            let Some(place) = self.untag(interface, frame.tag, &headers) else { return };
            let Some(at) = self.interfaces.get_mut(place) else { return };
            (place, at)
        } else {
            (interface, at)
        };
        let mac = &headers.destination_mac;
        if *mac != at.mac && mac[0] & 1 == 0 {
            self.statistics.not_for_us += 1;
            return;
        }
        let link_cast = mac[0] & 1 != 0;
        match headers.ethertype {
            ethertype::IPV4 | ethertype::IPV6 => {}
            ethertype::ARP => {
                let packet = &frame.buffer[usize::from(headers.shape.link_len)..];
                let action = at.arp(packet, now);
                return self.act(interface, action, now);
            }
            ethertype::PTP => {
                return self.ptp_frame(interface, frame, headers.shape.link_len.into());
            }
            _ => {
                self.statistics.unknown_protocol += 1;
                return;
            }
        }
        let said = frame.checksum;
        if offload::verify(&frame.buffer, &headers, said, &mut at.egress.counters).is_err() {
            return;
        }
        let mut to = at.destination(headers.destination);
        if to == Destination::Other && at.loopback && self.is_ours(headers.destination) {
            // What we send to an address of a card of ours does not leave.
            to = Destination::Ours;
        }
        if to == Destination::Other {
            return self.foreign(interface, &headers, &frame.buffer, now);
        }
        let packet = usize::from(headers.shape.link_len)..headers.shape.len;
        let packet = &mut frame.buffer[packet];
        if headers.is_fragment() {
            return self.fragment(interface, &headers, packet, to, now);
        }
        match headers.shape.transport {
            Transport::Tcp { .. } if to == Destination::Ours && !link_cast => {
                self.tcp_segment(interface, packet, &headers, more, now);
            }
            Transport::Tcp { .. } => {}
            Transport::Udp => {
                let start = headers.transport_offset() - usize::from(headers.shape.link_len);
                let payload = &packet[start + 8..start + headers.transport_len];
                let datagram = udp::Received {
                    source: headers.source,
                    destination: headers.destination,
                    source_port: headers.source_port,
                    destination_port: headers.destination_port,
                    interface,
                    payload,
                };
                self.datagram(interface, &headers, datagram, packet, to, link_cast, now);
            }
            Transport::Icmp | Transport::Other => {
                let start = headers.transport_offset() - usize::from(headers.shape.link_len);
                let message = &packet[start..start + headers.transport_len];
                self.other(interface, &headers, message, to, now);
            }
        }
    }

    #[expect(clippy::too_many_arguments)]
    fn datagram(
        &mut self,
        interface: usize,
        headers: &Headers,
        datagram: udp::Received<'_>,
        packet: &[u8],
        to: Destination,
        link_cast: bool,
        now: Instant,
    ) {
        if self.configuration_datagram(interface, &datagram, now) {
            return;
        }
        if !is_plausible_source(datagram.source) {
            self.statistics.bad_source += 1;
            return;
        }
        if !self.udp(datagram, to) {
            self.statistics.udp_no_port += 1;
            if to == Destination::Ours && !link_cast {
                self.port_unreachable(interface, headers, packet, now);
            }
        }
    }

    fn other(
        &mut self,
        interface: usize,
        headers: &Headers,
        message: &[u8],
        to: Destination,
        now: Instant,
    ) {
        match (headers.protocol, headers.destination) {
            (protocol::ICMP, IpAddr::V4(_)) if is_plausible_source(headers.source) => {
                self.icmp(interface, headers, message, to, now);
            }
            (protocol::ICMPV6, IpAddr::V6(_)) => self.icmp(interface, headers, message, to, now),
            (protocol::IGMP, IpAddr::V4(_)) => self.igmp(interface, message, now),
            _ => self.statistics.unknown_protocol += 1,
        }
    }

    /// A piece of a datagram, verified as far as it can be.
    fn fragment(
        &mut self,
        interface: usize,
        headers: &Headers,
        packet: &[u8],
        to: Destination,
        now: Instant,
    ) {
        let Some(piece) = piece(headers, packet) else { return };
        let Piece { id, protocol, offset, more, data } = piece;
        // TCP sends no fragments, and a piece of a segment is only good for attacks.
        if protocol == protocol::TCP {
            self.statistics.fragments_dropped += 1;
            return;
        }
        let (source, destination) = (headers.source, headers.destination);
        let datagram = reassembly::Datagram { source, destination, id, protocol };
        let Some(whole) = self.reassembly.add(datagram, offset, more, data, now) else { return };
        self.statistics.reassembled += 1;
        let mut headers = *headers;
        headers.protocol = protocol;
        headers.transport_len = whole.len();
        if protocol != protocol::UDP {
            return self.other(interface, &headers, &whole, to, now);
        }
        let Some(&[a, b, c, d, e, f, g, h]) = whole.first_chunk() else { return };
        let len = usize::from(u16::from_be_bytes([e, f]));
        let Some(pair) = Pair::new(source, destination) else { return };
        let absent = [g, h] == [0, 0] && matches!(pair, Pair::V4(..));
        if len < 8 || len > whole.len() {
            return;
        }
        let sum = trireme_nic::checksum::add(
            pair.pseudo_sum(protocol, len),
            trireme_nic::checksum::sum(&whole[..len]),
        );
        if !absent && sum != 0xffff {
            self.interfaces[interface].egress.counters.rx_csum_bad_udp += 1;
            return;
        }
        let datagram = udp::Received {
            source,
            destination,
            source_port: u16::from_be_bytes([a, b]),
            destination_port: u16::from_be_bytes([c, d]),
            interface,
            payload: &whole[8..len],
        };
        // Nothing is quoted back: the first piece is gone, and so is the sender's interest.
        if is_plausible_source(source) && !self.udp(datagram, to) {
            self.statistics.udp_no_port += 1;
        }
    }

    fn tcp_segment(
        &mut self,
        interface: usize,
        packet: &mut [u8],
        headers: &Headers,
        more: bool,
        now: Instant,
    ) {
        let Some(segment) = headers.tcp else { return };
        let tcp = headers.transport_offset() - usize::from(headers.shape.link_len);
        // What follows the segment in the IP payload is not there: TCP has no length of its own.
        let key = FlowKey::new(
            &self.flow_key,
            (headers.destination, headers.destination_port),
            (headers.source, headers.source_port),
        );
        if !self.gro.is_empty() {
            let added = self.gro.add(&key, packet, headers);
            if matches!(added, Added::Complete | Added::Refused)
                && let Some(merge) = self.gro.take(&key)
            {
                self.deliver_merge(merge, now);
            }
            if matches!(added, Added::Merged | Added::Complete) {
                return;
            }
        }
        if let Some(index) = self.flows.find(&key, &self.slots) {
            let syn = segment.flags & (tcp_flags::SYN | tcp_flags::ACK) == tcp_flags::SYN;
            if syn && self.superseded(index, segment.sequence) {
                return self.new_segment(interface, key, packet, tcp, headers, now);
            }
            if let Some(Slot::Flow(flow)) = self.slots.at(index)
                && let Phase::HalfOpen(listener) = flow.phase
                // Of its own cookie, each segment of the batch it came in would be one.
                && segment.acknowledgement != flow.wire.sent_to
                && let Some(cookie) = self.cookie_in(&key, headers, now)
            {
                // The peer's first SYN was answered by a cookie, the SYN it repeated by this flow, and
                // it took the first answer. The other would have it reset.
                if let Acknowledged::First(_) = cookie {
                    self.drop_half_open(index, listener);
                }
                return self.new_segment(interface, key, packet, tcp, headers, now);
            }
            if let Some(Slot::Flow(flow)) = self.slots.at_mut(index) {
                if flow.wire.ethernet[..6] != headers.source_mac && !flow.waiting {
                    // The way to the peer leads where its segments come from.
                    flow.wire.ethernet[..6].copy_from_slice(&headers.source_mac);
                }
                if flow.interface != interface {
                    self.statistics.not_for_us += 1;
                    return;
                }
            }
            // Without much in flight another acknowledgement is not what waits behind one.
            let in_bulk = |slot: &Slot| matches!(slot, Slot::Flow(flow) if flow.is_bulk());
            if more
                && self.gro.wants(headers)
                && (headers.tcp_payload_len() > 0 || self.slots.at(index).is_some_and(in_bulk))
            {
                return self.gro.hold(index, key, interface, packet, headers);
            }
            return self.feed(index, packet, tcp, now);
        }
        if !is_plausible_source(headers.source) {
            self.statistics.bad_source += 1;
            return;
        }
        let syn = segment.flags & tcp_flags::SYN != 0;
        let rst = segment.flags & tcp_flags::RST != 0;
        match self.time_wait.judge(&key, syn, rst, segment.sequence) {
            Verdict::Unknown | Verdict::Renew => {}
            Verdict::Ignore => return,
            Verdict::Acknowledge(sequence, acknowledgement) => {
                if self.reset_limit.allow(now) {
                    let again = Bare {
                        source_port: key.local_port,
                        destination_port: key.remote_port,
                        sequence,
                        acknowledgement,
                        flags: tcp_flags::ACK,
                        window: 0,
                        segment: None,
                    };
                    self.send_bare(interface, key, headers.source_mac, again);
                }
                return;
            }
        }
        self.new_segment(interface, key, packet, tcp, headers, now);
    }

    /// Gives merged segments to their connection, if it is still there.
    pub(crate) fn deliver_merge(&mut self, mut merge: Merge, now: Instant) {
        let there = |slot: &Slot| matches!(slot, Slot::Flow(flow) if flow.key == merge.key);
        if self.slots.at(merge.index).is_some_and(there) {
            if merge.segments > 1
                && let Some(interface) = self.interfaces.get_mut(merge.interface)
            {
                merge.finish();
                let counters = &mut interface.egress.counters;
                counters.rx_gro_frames += 1;
                counters.rx_gro_segments += merge.segments;
            }
            self.feed(merge.index, &mut merge.packet, merge.tcp, now);
        }
        self.gro.give_back(merge);
    }

    /// A SYN for a connection that is over, but not yet closed by the application: it makes way, if
    /// the SYN is newer. The application can still read what it has.
    fn superseded(&mut self, index: u32, sequence: u32) -> bool {
        let Some(Slot::Flow(flow)) = self.slots.at(index) else { return false };
        let over = flow.phase == Phase::Open
            && matches!(flow.state(), State::TimeWait | State::Closed)
            && (flow.state() == State::Closed
                || crate::line::before(flow.wire.acknowledged, sequence));
        if over {
            let key = flow.key;
            self.flows.remove(&key, index);
        }
        over
    }

    /// A segment that belongs to no connection.
    fn new_segment(
        &mut self,
        interface: usize,
        key: FlowKey,
        packet: &mut [u8],
        tcp: usize,
        headers: &Headers,
        now: Instant,
    ) {
        let Some(segment) = headers.tcp else { return };
        let control =
            segment.flags & (tcp_flags::SYN | tcp_flags::ACK | tcp_flags::RST | tcp_flags::FIN);
        if control & tcp_flags::RST != 0 {
            return;
        }
        if let Some(listener) = self.listener(key.local, key.local_port) {
            if control == tcp_flags::SYN {
                return self.syn(listener, interface, key, packet, headers, now);
            }
            if self.cookie_ack(listener, interface, key, packet, headers, now) {
                return;
            }
        }
        self.statistics.tcp_no_socket += 1;
        if !self.reset_limit.allow(now) {
            self.statistics.resets_limited += 1;
            return;
        }
        // RFC 9293, 3.10.7.1.
        let header = usize::from(packet[tcp + 12] >> 4) * 4;
        let len = (packet.len() - tcp - header) as u32
            + u32::from(control & tcp_flags::SYN != 0)
            + u32::from(control & tcp_flags::FIN != 0);
        let acknowledges = control & tcp_flags::ACK != 0;
        let reset = Bare {
            source_port: key.local_port,
            destination_port: key.remote_port,
            sequence: if acknowledges { segment.acknowledgement } else { 0 },
            acknowledgement: if acknowledges { 0 } else { segment.sequence.wrapping_add(len) },
            flags: if acknowledges { tcp_flags::RST } else { tcp_flags::RST | tcp_flags::ACK },
            window: 0,
            segment: None,
        };
        self.send_bare(interface, key, headers.source_mac, reset);
    }

    /// The listener for connections to an address and port: one bound to the address before one
    /// bound to any.
    fn listener(&self, local: IpAddr, port: u16) -> Option<u32> {
        let mut best: Option<(u8, u32)> = None;
        for &user in self.ports.users(Kind::Stream, port) {
            let Some(Slot::Listener(state)) = self.slots.at(user) else { continue };
            let fit = match (state.family, local) {
                (Family::V4, IpAddr::V6(_)) => continue,
                (Family::V6, IpAddr::V4(_)) if state.options.only_v6 => continue,
                _ if state.local == local => 2,
                _ if !state.local.is_unspecified() => continue,
                (Family::V6, IpAddr::V4(_)) => 0,
                _ => 1,
            };
            if best.is_none_or(|(other, _)| fit > other) {
                best = Some((fit, user));
            }
        }
        best.map(|(_, index)| index)
    }

    /// Sends a segment made outside smoltcp. A full ring loses it, as the wire might.
    pub(crate) fn send_bare(
        &mut self,
        interface: usize,
        key: FlowKey,
        mac: MacAddress,
        bare: Bare,
    ) {
        let Some(pair) = Pair::new(key.local, key.remote) else { return };
        let Some(interface) = self.interfaces.get_mut(interface) else { return };
        let header = pair.header_len();
        interface.send(mac, pair.ethertype(), header + bare.len(), |packet| {
            packet::ip_header(packet, &pair, protocol::TCP, 64, bare.len());
            bare.write(&mut packet[header..]);
        });
    }
}

/// A fragment, whatever the family.
struct Piece<'a> {
    id: u32,
    protocol: u8,
    offset: usize,
    more: bool,
    data: &'a [u8],
}

fn piece<'a>(headers: &Headers, packet: &'a [u8]) -> Option<Piece<'a>> {
    match headers.shape.network {
        Network::Ipv4 { header_len, .. } => {
            let fragment = headers.fragment?;
            Some(Piece {
                id: u32::from(fragment.id),
                protocol: headers.protocol,
                offset: usize::from(fragment.offset),
                more: fragment.more,
                data: packet.get(usize::from(header_len)..)?,
            })
        }
        Network::Ipv6 { .. } => {
            // Only where senders put it: directly behind the fixed header.
            if *packet.get(6)? != protocol::FRAGMENT {
                return None;
            }
            let header: &[u8; 8] = packet.get(40..)?.first_chunk()?;
            let flags = u16::from_be_bytes([header[2], header[3]]);
            Some(Piece {
                id: u32::from_be_bytes(*header[4..].first_chunk()?),
                protocol: header[0],
                offset: usize::from(flags & !7),
                more: flags & 1 != 0,
                data: packet.get(48..)?,
            })
        }
        Network::Other => None,
    }
}

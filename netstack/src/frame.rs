//! Takes an Ethernet frame apart, far enough to find its flow, its checksums and its segments.
//!
//! [`parse`] is total: any bytes give [`Headers`] or the name of the check they failed. It is run
//! once on every frame, received or about to be sent, and everything later (demultiplexing,
//! verification, segmentation) indexes the frame by what it found. So one rule holds for all
//! offsets and lengths in `Headers`: **they lie within the frame**.
//!
//! What counts as a transport header is what smoltcp 0.14 finds when it is given the same packet:
//! in IPv6 it walks one leading hop-by-hop header and no other extension header. A TCP segment
//! behind a destination-options header is `Transport::Other` here because smoltcp will answer
//! it with a parameter problem and not look for a socket.

use core::fmt;
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use trireme_nic::{FrameShape, MacAddress, Network, Tci, Transport};

/// IP protocol numbers, from the IANA registry.
pub mod protocol {
    /// IPv6 hop-by-hop options.
    pub const HOP_BY_HOP: u8 = 0;
    /// ICMP for IPv4.
    pub const ICMP: u8 = 1;
    /// IGMP.
    pub const IGMP: u8 = 2;
    /// TCP.
    pub const TCP: u8 = 6;
    /// UDP.
    pub const UDP: u8 = 17;
    /// IPv6 routing header.
    pub const ROUTING: u8 = 43;
    /// IPv6 fragment header.
    pub const FRAGMENT: u8 = 44;
    /// ICMP for IPv6.
    pub const ICMPV6: u8 = 58;
    /// IPv6 destination options.
    pub const DESTINATION_OPTIONS: u8 = 60;
}

/// EtherTypes, from the IEEE registry.
pub mod ethertype {
    /// IPv4.
    pub const IPV4: u16 = 0x0800;
    /// ARP.
    pub const ARP: u16 = 0x0806;
    /// 802.1Q tag.
    pub const VLAN: u16 = 0x8100;
    /// IPv6.
    pub const IPV6: u16 = 0x86dd;
    /// 802.1ad service tag.
    pub const SERVICE_VLAN: u16 = 0x88a8;
    /// PTP (IEEE 1588 annex E).
    pub const PTP: u16 = 0x88f7;
}

/// TCP flag bits, as in byte 13 of the header (RFC 9293, RFC 3168).
pub mod tcp_flags {
    /// No more data.
    pub const FIN: u8 = 0x01;
    /// Synchronise.
    pub const SYN: u8 = 0x02;
    /// Reset.
    pub const RST: u8 = 0x04;
    /// Push.
    pub const PSH: u8 = 0x08;
    /// The acknowledgement number counts.
    pub const ACK: u8 = 0x10;
    /// The urgent pointer counts.
    pub const URG: u8 = 0x20;
    /// ECN echo.
    pub const ECE: u8 = 0x40;
    /// Congestion window reduced.
    pub const CWR: u8 = 0x80;
}

/// Tags walked before a frame is called [`Network::Other`]: a service tag and a customer tag.
const MAX_TAGS: u8 = 2;

/// The check a frame failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Malformed {
    /// Shorter than an Ethernet header, or cut inside a tag.
    Link,
    /// Shorter than an IPv4 header.
    Ipv4Short,
    /// EtherType IPv4, but another version in the header.
    Ipv4Version,
    /// Header length below 20, or beyond the total length.
    Ipv4HeaderLength,
    /// Total length beyond the frame.
    Ipv4TotalLength,
    /// A fragment whose end lies beyond 65535 bytes, or one without payload.
    Ipv4Fragment,
    /// Shorter than an IPv6 header.
    Ipv6Short,
    /// EtherType IPv6, but another version in the header.
    Ipv6Version,
    /// Payload length beyond the frame.
    Ipv6PayloadLength,
    /// An extension header that does not fit the payload.
    Ipv6Extension,
    /// IP payload shorter than a TCP header.
    TcpShort,
    /// TCP header length below 20, or beyond the IP payload.
    TcpHeaderLength,
    /// TCP source or destination port 0, which no endpoint has.
    TcpPort,
    /// IP payload shorter than a UDP header.
    UdpShort,
    /// UDP length below 8, or beyond the IP payload.
    UdpLength,
    /// UDP destination port 0.
    UdpPort,
}

impl Malformed {
    /// Every check, in the order of a counter array.
    pub const ALL: [Malformed; 16] = [
        Malformed::Link,
        Malformed::Ipv4Short,
        Malformed::Ipv4Version,
        Malformed::Ipv4HeaderLength,
        Malformed::Ipv4TotalLength,
        Malformed::Ipv4Fragment,
        Malformed::Ipv6Short,
        Malformed::Ipv6Version,
        Malformed::Ipv6PayloadLength,
        Malformed::Ipv6Extension,
        Malformed::TcpShort,
        Malformed::TcpHeaderLength,
        Malformed::TcpPort,
        Malformed::UdpShort,
        Malformed::UdpLength,
        Malformed::UdpPort,
    ];

    /// Name of the counter of frames that failed this check.
    pub const fn counter(self) -> &'static str {
        match self {
            Malformed::Link => "rx_malformed_link",
            Malformed::Ipv4Short => "rx_malformed_ipv4_short",
            Malformed::Ipv4Version => "rx_malformed_ipv4_version",
            Malformed::Ipv4HeaderLength => "rx_malformed_ipv4_header_length",
            Malformed::Ipv4TotalLength => "rx_malformed_ipv4_total_length",
            Malformed::Ipv4Fragment => "rx_malformed_ipv4_fragment",
            Malformed::Ipv6Short => "rx_malformed_ipv6_short",
            Malformed::Ipv6Version => "rx_malformed_ipv6_version",
            Malformed::Ipv6PayloadLength => "rx_malformed_ipv6_payload_length",
            Malformed::Ipv6Extension => "rx_malformed_ipv6_extension",
            Malformed::TcpShort => "rx_malformed_tcp_short",
            Malformed::TcpHeaderLength => "rx_malformed_tcp_header_length",
            Malformed::TcpPort => "rx_malformed_tcp_port",
            Malformed::UdpShort => "rx_malformed_udp_short",
            Malformed::UdpLength => "rx_malformed_udp_length",
            Malformed::UdpPort => "rx_malformed_udp_port",
        }
    }
}

impl fmt::Display for Malformed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Malformed::Link => "Ethernet header cut short",
            Malformed::Ipv4Short => "IPv4 header cut short",
            Malformed::Ipv4Version => "IPv4 frame with another IP version",
            Malformed::Ipv4HeaderLength => "impossible IPv4 header length",
            Malformed::Ipv4TotalLength => "IPv4 total length beyond the frame",
            Malformed::Ipv4Fragment => "impossible IPv4 fragment",
            Malformed::Ipv6Short => "IPv6 header cut short",
            Malformed::Ipv6Version => "IPv6 frame with another IP version",
            Malformed::Ipv6PayloadLength => "IPv6 payload length beyond the frame",
            Malformed::Ipv6Extension => "IPv6 extension header cut short",
            Malformed::TcpShort => "TCP header cut short",
            Malformed::TcpHeaderLength => "impossible TCP header length",
            Malformed::TcpPort => "TCP port 0",
            Malformed::UdpShort => "UDP header cut short",
            Malformed::UdpLength => "impossible UDP length",
            Malformed::UdpPort => "UDP destination port 0",
        })
    }
}

/// The TCP header fields a demultiplexer, coalescer or segmenter looks at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TcpFields {
    /// Sequence number.
    pub sequence: u32,
    /// Acknowledgement number, valid if [`tcp_flags::ACK`] is set.
    pub acknowledgement: u32,
    /// See [`tcp_flags`].
    pub flags: u8,
    /// Window, not scaled.
    pub window: u16,
}

/// Where an IPv4 fragment belongs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fragment {
    /// Identification.
    pub id: u16,
    /// Offset of its payload in the datagram, in bytes.
    pub offset: u16,
    /// It is not the last.
    pub more: bool,
}

/// What [`parse`] found. All offsets and lengths lie within the frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Headers {
    /// What a card must know. `shape.len` excludes padding behind the IP packet: it is
    /// the frame's length less what is to be trimmed. `shape.segment` is `None`.
    pub shape: FrameShape,
    /// MAC address the frame was sent to.
    pub destination_mac: MacAddress,
    /// MAC address it was sent from.
    pub source_mac: MacAddress,
    /// The 802.1Q tag in the frame, if that is the first.
    pub tag: Option<Tci>,
    /// EtherType behind any tags.
    pub ethertype: u16,
    /// IP source; `0.0.0.0` if not IP.
    pub source: IpAddr,
    /// IP destination; `0.0.0.0` if not IP.
    pub destination: IpAddr,
    /// IP protocol of what `transport_offset` points to: the IPv4 protocol, or the last next-header
    /// value walked. 0 if not IP.
    pub protocol: u8,
    /// TTL or hop limit. 0 if not IP.
    pub hop_limit: u8,
    /// TCP or UDP source port, else 0.
    pub source_port: u16,
    /// TCP or UDP destination port, else 0.
    pub destination_port: u16,
    /// Bytes of the transport packet, header included: the UDP length for UDP (which may be
    /// less than what IP carries), else the IP payload behind walked extension headers. Of a
    /// first fragment: the bytes present.
    pub transport_len: usize,
    /// Of TCP, unless a later fragment.
    pub tcp: Option<TcpFields>,
    /// Of an IPv4 fragment.
    pub fragment: Option<Fragment>,
}

impl Headers {
    /// Offset of the transport header; the end of the frame if it is not IP.
    pub fn transport_offset(&self) -> usize {
        self.shape.transport_offset().unwrap_or(self.shape.len)
    }

    /// Is the transport packet whole, so that it can be summed?
    pub fn is_fragment(&self) -> bool {
        match self.shape.network {
            Network::Ipv4 { fragment, .. } | Network::Ipv6 { fragment, .. } => fragment,
            Network::Other => false,
        }
    }

    /// TCP payload bytes; 0 if the frame is not TCP.
    pub fn tcp_payload_len(&self) -> usize {
        match self.shape.transport {
            Transport::Tcp { header_len } => self.transport_len - usize::from(header_len),
            _ => 0,
        }
    }
}

/// Reads `N` bytes at `offset`, if they are there.
fn bytes<const N: usize>(frame: &[u8], offset: usize) -> Option<[u8; N]> {
    frame.get(offset..)?.first_chunk::<N>().copied()
}

fn be16(frame: &[u8], offset: usize) -> Option<u16> {
    bytes(frame, offset).map(u16::from_be_bytes)
}

/// Takes a frame apart. Never panics, whatever the bytes.
pub fn parse(frame: &[u8]) -> Result<Headers, Malformed> {
    let destination_mac = bytes(frame, 0).ok_or(Malformed::Link)?;
    let source_mac = bytes(frame, 6).ok_or(Malformed::Link)?;
    let mut link_len = 14u8;
    let mut ethertype = be16(frame, 12).ok_or(Malformed::Link)?;
    let tag = match ethertype {
        ethertype::VLAN => be16(frame, 14).map(Tci),
        _ => None,
    };
    while matches!(ethertype, ethertype::VLAN | ethertype::SERVICE_VLAN)
        && link_len < 14 + 4 * MAX_TAGS
    {
        ethertype = be16(frame, usize::from(link_len) + 2).ok_or(Malformed::Link)?;
        link_len += 4;
    }
    let mut headers = Headers {
        shape: FrameShape {
            len: frame.len(),
            link_len,
            tagged: false,
            network: Network::Other,
            transport: Transport::Other,
            segment: None,
        },
        destination_mac,
        source_mac,
        tag,
        ethertype,
        source: IpAddr::V4(Ipv4Addr::UNSPECIFIED),
        destination: IpAddr::V4(Ipv4Addr::UNSPECIFIED),
        protocol: 0,
        hop_limit: 0,
        source_port: 0,
        destination_port: 0,
        transport_len: 0,
        tcp: None,
        fragment: None,
    };
    match ethertype {
        ethertype::IPV4 => ipv4(frame, &mut headers)?,
        ethertype::IPV6 => ipv6(frame, &mut headers)?,
        _ => {}
    }
    Ok(headers)
}

#[inline]
fn ipv4(frame: &[u8], headers: &mut Headers) -> Result<(), Malformed> {
    let start = usize::from(headers.shape.link_len);
    let ip: [u8; 20] = bytes(frame, start).ok_or(Malformed::Ipv4Short)?;
    if ip[0] >> 4 != 4 {
        return Err(Malformed::Ipv4Version);
    }
    let header_len = (ip[0] & 0x0f) * 4;
    let total_len = usize::from(u16::from_be_bytes([ip[2], ip[3]]));
    if header_len < 20 || usize::from(header_len) > total_len {
        return Err(Malformed::Ipv4HeaderLength);
    }
    if total_len > frame.len() - start {
        return Err(Malformed::Ipv4TotalLength);
    }
    let flags_offset = u16::from_be_bytes([ip[6], ip[7]]);
    let more = flags_offset & 0x2000 != 0;
    let offset = (flags_offset & 0x1fff) * 8;
    let payload_len = total_len - usize::from(header_len);
    let fragment = more || offset != 0;
    if fragment {
        if payload_len == 0 || usize::from(offset) + payload_len > 0xffff {
            return Err(Malformed::Ipv4Fragment);
        }
        let id = u16::from_be_bytes([ip[4], ip[5]]);
        headers.fragment = Some(Fragment { id, offset, more });
    }
    headers.shape.len = start + total_len;
    headers.shape.network = Network::Ipv4 { header_len, fragment };
    headers.hop_limit = ip[8];
    headers.protocol = ip[9];
    headers.source = IpAddr::V4(Ipv4Addr::new(ip[12], ip[13], ip[14], ip[15]));
    headers.destination = IpAddr::V4(Ipv4Addr::new(ip[16], ip[17], ip[18], ip[19]));
    headers.transport_len = payload_len;
    match offset {
        0 => transport(frame, headers),
        _ => Ok(()),
    }
}

fn ipv6(frame: &[u8], headers: &mut Headers) -> Result<(), Malformed> {
    let start = usize::from(headers.shape.link_len);
    let ip: [u8; 40] = bytes(frame, start).ok_or(Malformed::Ipv6Short)?;
    if ip[0] >> 4 != 6 {
        return Err(Malformed::Ipv6Version);
    }
    let payload_len = usize::from(u16::from_be_bytes([ip[4], ip[5]]));
    if payload_len > frame.len() - start - 40 {
        return Err(Malformed::Ipv6PayloadLength);
    }
    let end = start + 40 + payload_len;
    headers.shape.len = end;
    headers.hop_limit = ip[7];
    let [source, destination] = [8, 24].map(|at| {
        let mut address = [0; 16];
        address.copy_from_slice(&ip[at..at + 16]);
        IpAddr::V6(Ipv6Addr::from(address))
    });
    headers.source = source;
    headers.destination = destination;

    let mut next = ip[6];
    let mut header_len = 40u16;
    let mut extension_headers = false;
    if next == protocol::HOP_BY_HOP {
        // RFC 8200, 4.3: next header, and a length in units of 8 bytes less the first.
        let [after, len] = bytes(&frame[..end], start + 40).ok_or(Malformed::Ipv6Extension)?;
        header_len += (u16::from(len) + 1) * 8;
        if start + usize::from(header_len) > end {
            return Err(Malformed::Ipv6Extension);
        }
        next = after;
        extension_headers = true;
    }
    let rest = start + usize::from(header_len);
    let mut fragment = false;
    if next == protocol::FRAGMENT {
        // RFC 8200, 4.5. Offset and more-flag both zero: an atomic fragment (RFC 6946).
        let header: [u8; 8] = bytes(&frame[..end], rest).ok_or(Malformed::Ipv6Extension)?;
        fragment = u16::from_be_bytes([header[2], header[3]]) & 0xfff9 != 0;
    }
    extension_headers |=
        matches!(next, protocol::FRAGMENT | protocol::ROUTING | protocol::DESTINATION_OPTIONS);
    headers.shape.network = Network::Ipv6 { header_len, extension_headers, fragment };
    headers.protocol = next;
    headers.transport_len = end - rest;
    transport(frame, headers)
}

/// The transport header at the start of an IP payload that is whole, or a first fragment.
#[inline]
fn transport(frame: &[u8], headers: &mut Headers) -> Result<(), Malformed> {
    let start = headers.transport_offset();
    let packet = &frame[start..start + headers.transport_len];
    match (headers.protocol, headers.source) {
        (protocol::TCP, _) => {
            let tcp: [u8; 20] = bytes(packet, 0).ok_or(Malformed::TcpShort)?;
            let header_len = (tcp[12] >> 4) * 4;
            if header_len < 20 || usize::from(header_len) > packet.len() {
                return Err(Malformed::TcpHeaderLength);
            }
            headers.source_port = u16::from_be_bytes([tcp[0], tcp[1]]);
            headers.destination_port = u16::from_be_bytes([tcp[2], tcp[3]]);
            if headers.source_port == 0 || headers.destination_port == 0 {
                return Err(Malformed::TcpPort);
            }
            headers.tcp = Some(TcpFields {
                sequence: u32::from_be_bytes([tcp[4], tcp[5], tcp[6], tcp[7]]),
                acknowledgement: u32::from_be_bytes([tcp[8], tcp[9], tcp[10], tcp[11]]),
                flags: tcp[13],
                window: u16::from_be_bytes([tcp[14], tcp[15]]),
            });
            headers.shape.transport = Transport::Tcp { header_len };
        }
        (protocol::UDP, _) => {
            let udp: [u8; 8] = bytes(packet, 0).ok_or(Malformed::UdpShort)?;
            let len = usize::from(u16::from_be_bytes([udp[4], udp[5]]));
            // The first fragment of a datagram carries the length of the whole.
            let whole = !headers.is_fragment();
            if len < 8 || (whole && len > packet.len()) || (!whole && len < packet.len()) {
                return Err(Malformed::UdpLength);
            }
            headers.source_port = u16::from_be_bytes([udp[0], udp[1]]);
            headers.destination_port = u16::from_be_bytes([udp[2], udp[3]]);
            if headers.destination_port == 0 {
                return Err(Malformed::UdpPort);
            }
            headers.transport_len = len.min(packet.len());
            headers.shape.transport = Transport::Udp;
        }
        (protocol::ICMP, IpAddr::V4(_)) | (protocol::ICMPV6, IpAddr::V6(_)) => {
            headers.shape.transport = Transport::Icmp;
        }
        _ => {}
    }
    Ok(())
}

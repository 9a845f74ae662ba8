use crate::Buffer;
use core::num::NonZeroU16;

/// Network layer of a frame, as far as a card cares.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Network {
    /// IPv4.
    Ipv4 {
        /// Header length in bytes, options included: 20 to 60.
        header_len: u8,
        /// More-fragments set or fragment offset not zero.
        fragment: bool,
    },
    /// IPv6.
    Ipv6 {
        /// Length in bytes of the fixed header and all extension headers before the transport.
        header_len: u16,
        /// There is at least one extension header.
        extension_headers: bool,
        /// One of them is a fragment header that is not atomic (RFC 6946).
        fragment: bool,
    },
    /// Anything else (ARP, …).
    Other,
}

/// Transport layer of a frame. Of a fragment after the first it is [`Transport::Other`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Transport {
    /// TCP.
    Tcp {
        /// Header length in bytes, options included: 20 to 60.
        header_len: u8,
    },
    /// UDP.
    Udp,
    /// ICMPv4 or ICMPv6. Its checksum is always made and verified in software.
    Icmp,
    /// Anything else, or none.
    Other,
}

/// IEEE 802.1Q tag control information: what follows the TPID 0x8100 in a tag.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Tci(pub u16);

impl Tci {
    /// VLAN identifier, 0 to 4095. 0: the tag carries a priority only; 4095 is reserved.
    pub const fn id(self) -> u16 {
        self.0 & 0xfff
    }

    /// Priority code point, 0 to 7.
    pub const fn priority(self) -> u8 {
        (self.0 >> 13) as u8
    }

    /// Drop eligible indicator.
    pub const fn drop_eligible(self) -> bool {
        self.0 & 1 << 12 != 0
    }
}

/// What a card must know of a frame to decide what it can do for it. No addresses, no payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FrameShape {
    /// Whole frame in bytes, Ethernet header included, FCS not.
    pub len: usize,
    /// Bytes before the network header: 14, and 4 for each VLAN or switch tag in the frame.
    pub link_len: u8,
    /// A VLAN tag goes beside the frame, for the card to insert behind the addresses. It is counted in
    /// neither `len` nor `link_len`.
    pub tagged: bool,
    /// Network layer.
    pub network: Network,
    /// Transport layer.
    pub transport: Transport,
    /// Frame is to be cut into TCP segments with this many payload bytes each.
    pub segment: Option<NonZeroU16>,
}

impl FrameShape {
    /// Offset of the transport header from the frame's start; `None` if the network is not IP.
    pub fn transport_offset(&self) -> Option<usize> {
        let network = match self.network {
            Network::Ipv4 { header_len, .. } => usize::from(header_len),
            Network::Ipv6 { header_len, .. } => usize::from(header_len),
            Network::Other => return None,
        };
        Some(usize::from(self.link_len) + network)
    }

    /// Offset of the TCP or UDP checksum field from the frame's start.
    pub fn checksum_offset(&self) -> Option<usize> {
        let within = match self.transport {
            Transport::Tcp { .. } => 16,
            Transport::Udp => 6,
            Transport::Icmp | Transport::Other => return None,
        };
        Some(self.transport_offset()? + within)
    }

    /// Length of all headers up to the TCP payload; `None` if the frame is not TCP.
    pub fn tcp_payload_offset(&self) -> Option<usize> {
        match self.transport {
            Transport::Tcp { header_len } => {
                Some(self.transport_offset()? + usize::from(header_len))
            }
            _ => None,
        }
    }
}

/// What the card will do for a frame of some shape.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TransmitAbility {
    /// Fill in the IPv4 header checksum.
    pub network_checksum: bool,
    /// Fill in the TCP or UDP checksum.
    pub transport_checksum: bool,
    /// Cut it into segments (implies both sums, and lengths, ids, sequence numbers and flags).
    pub segment: bool,
    /// Insert the VLAN tag that goes beside it. False for a shape that is not `tagged`; false for one that
    /// is: the frame cannot be sent like this, and the tag must be put into it.
    pub tag: bool,
}

/// What the card is asked to do for a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TransmitRequest {
    /// The frame's shape; `shape.segment` is the wire segment size if the card is to segment.
    pub shape: FrameShape,
    /// Fill in the IPv4 header checksum (the field holds zero or a valid sum; either is allowed).
    pub network_checksum: bool,
    /// Fill in the TCP or UDP checksum (the field holds zero).
    pub transport_checksum: bool,
    /// Insert this VLAN tag; `Some` exactly if `shape.tagged`.
    pub tag: Option<Tci>,
}

impl TransmitRequest {
    /// Send as it is.
    pub const fn plain(shape: FrameShape) -> TransmitRequest {
        TransmitRequest { shape, network_checksum: false, transport_checksum: false, tag: None }
    }
}

/// What the card said of a received frame's checksums.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReceiveChecksum {
    /// Nothing: software must verify.
    Unverified,
    /// The card verified these layers and found them right.
    Verified {
        /// IPv4 header checksum.
        ip: bool,
        /// TCP or UDP checksum.
        transport: bool,
    },
    /// The card found a wrong checksum. Software checks again before it drops: cards err.
    Bad,
    /// The ones' complement sum, not inverted, of every byte after the first 14, padding included
    /// (R-Car). Settled by arithmetic over the headers.
    Complete(u16),
    /// The sender left the transport checksum unfinished because the frame has not crossed a wire
    /// (virtio's `NEEDS_CSUM`): its content is as good as verified.
    Partial,
}

/// A received frame in the buffer the card wrote it to. Goes back through
/// [`Nic::recycle`](crate::Nic::recycle).
#[derive(Debug)]
pub struct ReceivedFrame {
    /// The frame, from the destination address to the last byte before the FCS, is the buffer's
    /// window.
    pub buffer: Buffer,
    /// What the card said of the checksums.
    pub checksum: ReceiveChecksum,
    /// If the card merged several TCP segments: their payload size each, as far as it told.
    pub segment: Option<NonZeroU16>,
    /// The VLAN tag, if the card took one out of the frame.
    pub tag: Option<Tci>,
    /// For the driver: which slot of its ring this is.
    pub slot: u32,
}

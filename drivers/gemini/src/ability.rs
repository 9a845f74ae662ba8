//! What the offload unit does for a frame, and how to ask for it. Pure functions, which hold the errata. [GM 8]

use bitflags::bitflags;
use trireme_nic::{FrameShape, Network, TransmitAbility, TransmitRequest, Transport};

/// Longest frame that is sent in one piece, in bytes without FCS: word 3 has 11 bits for it. [GM 8.7]
pub const MAX_FRAME: usize = 2047;
/// Longest frame the unit cuts: `byte_count` has 16 bits. [GM 8.7]
pub const MAX_SEGMENTED_FRAME: usize = 65535;
/// Longest frame plain mode sends whole. [GM 8.1, E 2]
const PLAIN_MAX: usize = 1514;
/// Frames up to here have their IP length rewritten unless told not to. [GM E 5]
const SHORT: usize = 60;

/// Which of its engines the card may use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Offloads {
    /// Sums.
    pub checksums: bool,
    /// Segmentation over IPv4; needs sums.
    pub tso: bool,
    /// Segmentation over IPv6; needs sums. Advertised by Linux, measured by nobody. [GM 12, 18]
    pub tso6: bool,
}

bitflags! {
    /// Word 1 above `byte_count`. [GM 5.2]
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    struct Control: u32 {
        const MTU_ENABLE = 1 << 16;
        const IP_CHKSUM = 1 << 17;
        const IPV6_ENABLE = 1 << 18;
        const TCP_CHKSUM = 1 << 19;
        const UDP_CHKSUM = 1 << 20;
        const BYPASS_TSS = 1 << 21;
        const IP_FIXED_LEN = 1 << 22;
    }
}

/// Words 1 and 3 of a frame's descriptors, without the marks of the first and the last. They stand in each
/// of them. [GM 5.2]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TransmitWords {
    /// Word 1.
    pub control: u32,
    /// Word 3.
    pub size: u32,
}

impl TransmitWords {
    /// The frame goes past the unit.
    pub(crate) fn is_bypass(&self) -> bool {
        self.control & Control::BYPASS_TSS.bits() != 0
    }
}

/// Headers the unit is known to sum over: no options, no extension headers, no fragment. [GM 12, 16; E 6]
fn plain_headers(network: Network) -> bool {
    matches!(
        network,
        Network::Ipv4 { header_len: 20, fragment: false }
            | Network::Ipv6 { header_len: 40, extension_headers: false, fragment: false }
    )
}

/// What the card does for a frame of this shape.
pub fn transmit_ability(offloads: Offloads, shape: &FrameShape) -> TransmitAbility {
    let none = TransmitAbility::default();
    // Behind one tag, the network's or a switch's, TCP is found and cut [GM 8.1]; two are not known [12, 16].
    // Nothing inserts tags.
    if shape.tagged || !offloads.checksums || shape.link_len > 18 || !plain_headers(shape.network) {
        return none;
    }
    let v4 = matches!(shape.network, Network::Ipv4 { .. });
    let sums = TransmitAbility { network_checksum: v4, transport_checksum: true, ..none };
    match (shape.transport, shape.segment) {
        (Transport::Tcp { .. }, Some(segment)) => {
            let size =
                shape.tcp_payload_offset().map(|headers| headers + usize::from(segment.get()));
            let fits =
                size.is_some_and(|size| size <= MAX_FRAME) && shape.len <= MAX_SEGMENTED_FRAME;
            let on = if v4 { offloads.tso } else { offloads.tso6 };
            if fits && on { TransmitAbility { segment: true, ..sums } } else { none }
        }
        (_, Some(_)) => none,
        (Transport::Tcp { .. }, None) if shape.len <= MAX_FRAME => sums,
        // The rest goes through plain mode, or past the unit where that would break it.
        _ if shape.len > PLAIN_MAX || shape.link_len > 14 => none,
        // Whether a sum of zero is sent as all ones is not known [12, 21]: over IPv4 such a datagram
        // is taken for one without a sum, over IPv6 it is thrown away.
        (Transport::Udp, None) if v4 => sums,
        _ => TransmitAbility { network_checksum: v4, ..none },
    }
}

/// How to ask for it. `request` is one [`transmit_ability`] agreed to, in `buffers` descriptors. `None`: the
/// frame is longer than the card can send.
pub fn transmit_words(request: &TransmitRequest, buffers: usize) -> Option<TransmitWords> {
    let shape = &request.shape;
    let tcp = shape.tcp_payload_offset();
    let size = match (shape.segment, tcp) {
        (Some(segment), Some(headers)) => headers + usize::from(segment.get()),
        _ => shape.len,
    };
    if size > MAX_FRAME || shape.len > MAX_SEGMENTED_FRAME {
        return None;
    }
    let len = shape.len as u32;
    // All TCP in MTU mode, which must be given a size that fits; the frame's own leaves it whole. [GM E 3]
    let (mode, size) = match tcp {
        Some(_) => (Control::MTU_ENABLE, size as u32),
        None if shape.len > PLAIN_MAX => {
            return Some(TransmitWords { control: Control::BYPASS_TSS.bits() | len, size: 0 });
        }
        None => (Control::empty(), 0),
    };
    let mut control = mode;
    control.set(Control::IP_CHKSUM, request.network_checksum);
    if request.transport_checksum {
        let udp = matches!(shape.transport, Transport::Udp);
        control |= if udp { Control::UDP_CHKSUM } else { Control::TCP_CHKSUM };
        control.set(Control::IPV6_ENABLE, matches!(shape.network, Network::Ipv6 { .. }));
    }
    // With several buffers it would spoil the TCP checksum. [GM E 4, E 5]
    let short = shape.len <= SHORT && buffers == 1 && shape.segment.is_none();
    control.set(Control::IP_FIXED_LEN, short && !matches!(shape.network, Network::Other));
    Some(TransmitWords { control: control.bits() | len, size })
}

#[cfg(test)]
mod tests {
    use super::*;
    use core::num::NonZeroU16;

    const ALL: Offloads = Offloads { checksums: true, tso: true, tso6: true };

    fn tcp(len: usize, header: u8, segment: Option<u16>) -> FrameShape {
        FrameShape {
            len,
            link_len: 14,
            tagged: false,
            network: Network::Ipv4 { header_len: 20, fragment: false },
            transport: Transport::Tcp { header_len: header },
            segment: segment.and_then(NonZeroU16::new),
        }
    }

    const V6: Network = Network::Ipv6 { header_len: 40, extension_headers: false, fragment: false };

    fn asked(shape: FrameShape) -> TransmitRequest {
        let ability = transmit_ability(ALL, &shape);
        TransmitRequest {
            shape,
            network_checksum: ability.network_checksum,
            transport_checksum: ability.transport_checksum,
            tag: None,
        }
    }

    fn words(shape: FrameShape, buffers: usize) -> (u32, u32) {
        let words = transmit_words(&asked(shape), buffers).unwrap();
        (words.control, words.size)
    }

    #[test]
    fn worked_examples_of_the_sheet() {
        // [GM 5.8], words 1 and 3 without SOF and EOF.
        assert_eq!(words(tcp(7306, 32, Some(1448)), 2), (0x000b_1c8a, 0x5ea));
        let v6 = FrameShape { network: V6, ..tcp(8654, 32, Some(1428)) };
        assert_eq!(words(v6, 2), (0x000d_21ce, 86 + 1428));
        let udp = FrameShape { transport: Transport::Udp, ..tcp(1000, 0, None) };
        assert_eq!(words(udp, 1), (0x0012_03e8, 0));
        let icmp = FrameShape { transport: Transport::Icmp, ..tcp(1842, 0, None) };
        assert_eq!(words(icmp, 1), (0x0020_0732, 0));
        let arp =
            FrameShape { network: Network::Other, transport: Transport::Other, ..tcp(60, 0, None) };
        assert_eq!(words(arp, 1), (0x0000_003c, 0));
        // A tagged TCP frame of 1518 bytes, summed by software.
        let tagged = TransmitRequest::plain(FrameShape { link_len: 18, ..tcp(1518, 32, None) });
        let words = transmit_words(&tagged, 1).unwrap();
        assert_eq!((words.control, words.size), (0x0001_05ee, 0x5ee));
    }

    #[test]
    fn segment_sizes_count_all_headers() {
        // [GM 8.4]: not the MSS alone, which an early patch put there.
        for (len, wanted) in [(0x1c8a, 0x5ea), (0x27da, 0x5ea), (0x0b92, 0x5ea), (0x2bda, 0x5ea)] {
            assert_eq!(words(tcp(len, 32, Some(1448)), 1).1, wanted);
        }
        let tagged = FrameShape { link_len: 18, ..tcp(7310, 32, Some(1448)) };
        assert_eq!(words(tagged, 1).1, 0x5ee);
    }

    #[test]
    fn boundaries_of_the_modes() {
        let udp = |len| FrameShape { transport: Transport::Udp, ..tcp(len, 0, None) };
        for (len, bypass) in
            [(1513, false), (1514, false), (1515, true), (2043, true), (2047, true)]
        {
            let (control, size) = words(udp(len), 1);
            assert_eq!((control >> 21 & 1 != 0, size), (bypass, 0), "{len}");
            assert_eq!(transmit_ability(ALL, &udp(len)).transport_checksum, !bypass);
            let (control, size) = words(tcp(len, 32, None), 1);
            assert_eq!((control >> 16 & 0x21, size as usize), (1, len), "TCP is never bypassed");
        }
        for shape in [udp(2048), tcp(2048, 32, None), tcp(3000, 32, Some(2000))] {
            assert_eq!(transmit_words(&asked(shape), 1), None);
        }
        assert!(
            !transmit_ability(ALL, &tcp(3000, 32, Some(1982))).segment,
            "2048 with its headers"
        );
        assert!(transmit_ability(ALL, &tcp(3000, 32, Some(1981))).segment);
        assert!(!transmit_ability(ALL, &tcp(65536, 32, Some(1448))).segment);
    }

    #[test]
    fn what_is_not_known_is_software() {
        let none = TransmitAbility::default();
        let base = tcp(1000, 20, None);
        let odd_networks = [
            Network::Ipv4 { header_len: 24, fragment: false },
            Network::Ipv4 { header_len: 20, fragment: true },
            Network::Ipv6 { header_len: 48, extension_headers: true, fragment: false },
            Network::Ipv6 { header_len: 48, extension_headers: true, fragment: true },
            Network::Other,
        ];
        for network in odd_networks {
            for segment in [None, NonZeroU16::new(500)] {
                assert_eq!(transmit_ability(ALL, &FrameShape { network, segment, ..base }), none);
            }
        }
        let udp = FrameShape { transport: Transport::Udp, ..base };
        for shape in [
            FrameShape { link_len: 22, ..base },
            FrameShape { tagged: true, ..base },
            FrameShape { link_len: 18, ..udp },
            FrameShape { network: V6, ..udp },
            FrameShape { segment: NonZeroU16::new(500), ..udp },
        ] {
            assert_eq!(transmit_ability(ALL, &shape), none, "{shape:?}");
        }
    }

    #[test]
    fn switches_are_obeyed() {
        let none = TransmitAbility::default();
        let off = Offloads { checksums: false, ..ALL };
        assert_eq!(transmit_ability(off, &tcp(7306, 32, Some(1448))), none);
        assert_eq!(transmit_ability(off, &tcp(1000, 32, None)), none);
        let v6 = FrameShape { network: V6, ..tcp(7306, 32, Some(1428)) };
        for (tso, tso6) in [(false, true), (true, false)] {
            let offloads = Offloads { tso, tso6, ..ALL };
            assert_eq!(transmit_ability(offloads, &tcp(7306, 32, Some(1448))).segment, tso);
            assert_eq!(transmit_ability(offloads, &v6).segment, tso6);
        }
    }

    #[test]
    fn only_short_single_buffers_fix_their_ip_length() {
        // [GM E 4, E 5]
        for (len, buffers, fixed) in [(54, 1, true), (60, 1, true), (61, 1, false), (54, 2, false)]
        {
            assert_eq!(
                words(tcp(len, 20, None), buffers).0 >> 22 & 1 != 0,
                fixed,
                "{len} {buffers}"
            );
        }
        assert_eq!(words(tcp(58, 20, Some(2)), 1).0 >> 22 & 1, 0, "never with segmentation");
    }
}

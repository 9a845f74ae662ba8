//! What the device will do for a frame, from its shape alone.

use crate::features::Features;
use trireme_nic::{FrameShape, Network, TransmitAbility, Transport};

/// Longest frame the device is asked to cut: a full IPv4 packet and the Ethernet header.
pub const MAX_SEGMENTED_FRAME: usize = 65535 + 14;

/// Transmit offloads that are in use: negotiated, and not switched off.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TransmitOffloads {
    /// Completing TCP and UDP checksums.
    pub checksum: bool,
    /// Cutting IPv4 TCP.
    pub tso4: bool,
    /// Cutting IPv6 TCP.
    pub tso6: bool,
}

impl TransmitOffloads {
    /// Everything that was negotiated.
    pub(crate) fn negotiated(features: Features) -> TransmitOffloads {
        TransmitOffloads {
            checksum: features.contains(Features::CSUM),
            tso4: features.contains(Features::HOST_TSO4),
            tso6: features.contains(Features::HOST_TSO6),
        }
    }
}

/// The pure function behind [`Nic::transmit_ability`](trireme_nic::Nic::transmit_ability).
///
/// The checksum is generic (start, offset), so it works behind VLAN tags and IP options; only a
/// fragment cannot have its sum completed. Segmentation is left to Ethernet with one VLAN tag at most
/// and IPv6 without extension headers: the header has no way to say where the network layer starts,
/// the device finds it itself. VIRTIO says nothing of tags; Linux's driver sends such frames (it has
/// segmentation among its `vlan_features`), so devices take them.
pub fn transmit_ability(offloads: TransmitOffloads, shape: &FrameShape) -> TransmitAbility {
    let fragment = match shape.network {
        Network::Ipv4 { fragment, .. } | Network::Ipv6 { fragment, .. } => fragment,
        Network::Other => return TransmitAbility::default(),
    };
    let field_fits = shape.checksum_offset().is_some_and(|field| field + 2 <= shape.len);
    let transport_checksum = offloads.checksum && field_fits && !fragment;
    let family = match shape.network {
        Network::Ipv4 { .. } => offloads.tso4,
        Network::Ipv6 { extension_headers, .. } => offloads.tso6 && !extension_headers,
        Network::Other => false,
    };
    let segment = transport_checksum
        && family
        && matches!(shape.link_len, 14 | 18)
        && shape.len <= MAX_SEGMENTED_FRAME
        && matches!(shape.transport, Transport::Tcp { .. })
        // A frame of one segment is not cut, so the device would not complete its IPv4 sum.
        && match (shape.segment, shape.tcp_payload_offset()) {
            (Some(segment), Some(payload)) => {
                shape.len.saturating_sub(payload) > usize::from(segment.get())
            }
            _ => false,
        };
    TransmitAbility { network_checksum: false, transport_checksum, segment, tag: false }
}

#[cfg(test)]
mod tests {
    use super::*;
    use core::num::NonZeroU16;

    fn offloads() -> impl Iterator<Item = TransmitOffloads> {
        (0..8).map(|n| TransmitOffloads {
            checksum: n & 1 != 0,
            tso4: n & 2 != 0,
            tso6: n & 4 != 0,
        })
    }

    /// Every kind of frame the contract can express, at the lengths where something changes.
    fn shapes() -> Vec<FrameShape> {
        let mut networks = vec![Network::Other];
        for fragment in [false, true] {
            for header_len in [20, 24, 60] {
                networks.push(Network::Ipv4 { header_len, fragment });
            }
            for (header_len, extension_headers) in [(40, false), (48, true), (1000, true)] {
                networks.push(Network::Ipv6 { header_len, extension_headers, fragment });
            }
        }
        let transports = [
            Transport::Tcp { header_len: 20 },
            Transport::Tcp { header_len: 32 },
            Transport::Tcp { header_len: 60 },
            Transport::Udp,
            Transport::Icmp,
            Transport::Other,
        ];
        let mut shapes = Vec::new();
        for network in networks {
            for transport in transports {
                for link_len in [14, 18, 22] {
                    for segment in [None, Some(1), Some(536), Some(1460), Some(65535)] {
                        let segment = segment.and_then(NonZeroU16::new);
                        for base in [0, 14, 34, 52, 54, 60, 590, 1514, 65549, 65550, 70000] {
                            for extra in 0..4 {
                                let len = base + extra;
                                shapes.push(FrameShape {
                                    len,
                                    link_len,
                                    tagged: false,
                                    network,
                                    transport,
                                    segment,
                                });
                            }
                        }
                    }
                }
            }
        }
        shapes
    }

    /// The rules of [VIRTIO 5.1.6.2], said the other way round: what must never be asked.
    #[test]
    fn nothing_is_promised_that_the_device_may_refuse() {
        let mut promised = 0;
        for offloads in offloads() {
            for shape in shapes() {
                let ability = transmit_ability(offloads, &shape);
                assert!(!ability.network_checksum, "virtio never fills an IPv4 sum by itself");
                if ability.transport_checksum {
                    assert!(offloads.checksum);
                    assert!(matches!(shape.transport, Transport::Tcp { .. } | Transport::Udp));
                    assert!(shape.checksum_offset().unwrap() + 2 <= shape.len);
                    let (Network::Ipv4 { fragment, .. } | Network::Ipv6 { fragment, .. }) =
                        shape.network
                    else {
                        panic!("checksum of {shape:?}")
                    };
                    assert!(!fragment);
                    promised += 1;
                }
                if ability.segment {
                    assert!(ability.transport_checksum);
                    assert!(shape.link_len <= 18, "one tag");
                    match shape.network {
                        Network::Ipv4 { .. } => assert!(offloads.tso4),
                        Network::Ipv6 { extension_headers, .. } => {
                            assert!(offloads.tso6 && !extension_headers)
                        }
                        Network::Other => panic!("segmentation of {shape:?}"),
                    }
                    let payload = shape.len - shape.tcp_payload_offset().unwrap();
                    assert!(payload > usize::from(shape.segment.unwrap().get()));
                    assert!(
                        shape.len - usize::from(shape.link_len) <= 65535,
                        "an IPv4 total length is 16 bits"
                    );
                    promised += 1;
                }
            }
        }
        assert!(promised > 1000, "the table must contain offloadable frames");
    }

    #[test]
    fn ordinary_frames_get_everything_that_is_on() {
        let all = TransmitOffloads { checksum: true, tso4: true, tso6: true };
        let v4 = FrameShape {
            len: 54 + 2921,
            link_len: 14,
            tagged: false,
            network: Network::Ipv4 { header_len: 20, fragment: false },
            transport: Transport::Tcp { header_len: 20 },
            segment: NonZeroU16::new(1460),
        };
        let v6 = FrameShape {
            network: Network::Ipv6 { header_len: 40, extension_headers: false, fragment: false },
            ..v4
        };
        let both = TransmitAbility {
            network_checksum: false,
            transport_checksum: true,
            segment: true,
            tag: false,
        };
        assert_eq!(transmit_ability(all, &v4), both);
        assert_eq!(transmit_ability(all, &v6), both);
        let sum = TransmitAbility { segment: false, ..both };
        assert_eq!(transmit_ability(TransmitOffloads { tso4: false, ..all }, &v4), sum);
        assert_eq!(transmit_ability(TransmitOffloads { tso6: false, ..all }, &v6), sum);
        assert_eq!(transmit_ability(all, &FrameShape { link_len: 18, ..v4 }), both);
        assert_eq!(transmit_ability(all, &FrameShape { link_len: 22, ..v4 }), sum);
        let off = TransmitOffloads { checksum: false, ..all };
        assert_eq!(transmit_ability(off, &v4), TransmitAbility::default());
    }
}

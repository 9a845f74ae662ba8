//! What the card will do for a frame, a pure function, and what it says of a received one. [RV 5]

use crate::variant::Variant;
use trireme_nic::{FrameShape, Network, ReceiveChecksum, TransmitAbility, Transport};

/// What `variant` does for a frame of this shape, its transmit checksums being `on`.
///
/// R-Car has no transmit engine, and nothing inserts tags. The TOE of GbEth takes TCP and UDP behind one tag at most, over IPv4
/// or IPv6, not fragmented [RV 5.3]. That it takes IPv4 options or IPv6 extension headers is not known
/// [RV 10], and UDP over IPv6 see [`Variant::transmit_sums`](crate::variant): those are software's.
/// A short frame is no exception: Linux's are padded and summed by the engine all the time.
pub fn transmit_ability(variant: Variant, on: bool, shape: &FrameShape) -> TransmitAbility {
    let none = TransmitAbility::default();
    // The stack's own tags are 0x8100; another with one tag is summed in `Nic::transmit`.
    if variant != Variant::Gbeth
        || !on
        || shape.segment.is_some()
        || shape.tagged
        || shape.link_len > 18
    {
        return none;
    }
    let transport_checksum = match shape.network {
        Network::Ipv4 { header_len: 20, fragment: false } => {
            matches!(shape.transport, Transport::Tcp { .. } | Transport::Udp)
        }
        Network::Ipv6 { header_len: 40, extension_headers: false, fragment: false } => {
            matches!(shape.transport, Transport::Tcp { .. })
        }
        _ => false,
    };
    TransmitAbility { transport_checksum, ..none }
}

/// What lies behind a received frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Trailer {
    /// Nothing.
    None,
    /// R-Car's sum of everything behind the first 14 bytes, big-endian. [RV 5.1]
    Sum,
    /// The TOE's verdict on IPv4 header and transport, two bytes each. [RV 5.2]
    Verdict,
}

impl Trailer {
    /// Its length in bytes.
    pub(crate) fn len(self) -> usize {
        match self {
            Trailer::None => 0,
            Trailer::Sum => 2,
            Trailer::Verdict => 4,
        }
    }

    /// What a stored frame, trailer included, is to be taken for. `None`: it is too short to hold one.
    pub(crate) fn read(self, stored: &[u8]) -> Option<(usize, ReceiveChecksum)> {
        let len = stored.len().checked_sub(self.len())?;
        let last = stored.last_chunk::<2>().map_or(0, |last| u16::from_be_bytes(*last));
        let checksum = match self {
            Trailer::None => ReceiveChecksum::Unverified,
            Trailer::Sum => ReceiveChecksum::Complete(last),
            // All of the second half counts [RV E43]. The first is about IPv4 headers, which the stack sums
            // anyway and the engine is not asked for; for IPv6 it is 0xffff.
            Trailer::Verdict => match last {
                0 => ReceiveChecksum::Verified { ip: false, transport: true },
                // It could not tell. [RV E42]
                0xffff => ReceiveChecksum::Unverified,
                _ => ReceiveChecksum::Bad,
            },
        };
        Some((len, checksum))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use core::num::NonZeroU16;
    use trireme_nic::checksum;

    const NONE: TransmitAbility = TransmitAbility {
        network_checksum: false,
        transport_checksum: false,
        segment: false,
        tag: false,
    };
    const SUM: TransmitAbility = TransmitAbility { transport_checksum: true, ..NONE };

    fn networks() -> Vec<Network> {
        let mut all = vec![Network::Other];
        for header_len in (20..=60).step_by(4) {
            for fragment in [false, true] {
                all.push(Network::Ipv4 { header_len, fragment });
            }
        }
        for header_len in (40..=104).step_by(8) {
            for fragment in [false, true] {
                all.push(Network::Ipv6 {
                    header_len,
                    extension_headers: header_len > 40,
                    fragment,
                });
            }
        }
        // An atomic fragment header: 8 bytes of extension, no fragment (RFC 6946). Covered by 48, false.
        all
    }

    fn transports() -> Vec<Transport> {
        let mut all = vec![Transport::Udp, Transport::Icmp, Transport::Other];
        all.extend((20..=60).step_by(4).map(|header_len| Transport::Tcp { header_len }));
        all
    }

    /// Every combination of what a shape can say, beside the rule written the other way round: a list of
    /// what excludes a frame.
    #[test]
    fn exactly_what_the_engine_can_do_is_asked_of_it() {
        let mut asked = 0;
        every_shape(&mut |variant, on, shape| {
            let FrameShape { link_len, tagged, network, transport, segment, .. } = *shape;
            let excluded = variant != Variant::Gbeth
                || !on
                || tagged
                || segment.is_some()
                || link_len >= 22
                || matches!(transport, Transport::Icmp | Transport::Other)
                || match network {
                    Network::Other => true,
                    Network::Ipv4 { header_len, fragment } => header_len != 20 || fragment,
                    Network::Ipv6 { extension_headers, fragment, .. } => {
                        extension_headers || fragment || transport == Transport::Udp
                    }
                };
            let expected = if excluded { NONE } else { SUM };
            assert_eq!(transmit_ability(variant, on, shape), expected, "{shape:?}");
            asked += usize::from(!excluded);
        });
        // 11 TCP header lengths and UDP over IPv4, 11 over IPv6; two link lengths; seven lengths.
        assert_eq!(asked, (12 + 11) * 2 * 7);
    }

    fn every_shape(visit: &mut dyn FnMut(Variant, bool, &FrameShape)) {
        let flags = [false, true];
        for variant in [Variant::Gen2, Variant::Gen3, Variant::Gbeth] {
            for (on, tagged) in [(0, 0), (0, 1), (1, 0), (1, 1)].map(|(a, b)| (flags[a], flags[b]))
            {
                for link_len in [14, 18, 22, 26] {
                    for network in networks() {
                        for transport in transports() {
                            for segment in [None, NonZeroU16::new(1460)] {
                                for len in [54, 59, 60, 61, 590, 1514, 1518] {
                                    let shape = FrameShape {
                                        len,
                                        link_len,
                                        tagged,
                                        network,
                                        transport,
                                        segment,
                                    };
                                    visit(variant, on, &shape);
                                }
                            }
                        }
                    }
                }
            }
        }
    }

    #[test]
    fn sums_are_read_as_the_sheet_has_them_in_memory() {
        // [RV 5.1], test vectors: bytes behind the header, and the trailer.
        let udp = "45000023000100004011f775c0a80101c0a8010203e807d0000f0bd168656c6c6f2121";
        let hex = |text: &str| -> Vec<u8> {
            (0..text.len())
                .step_by(2)
                .map(|i| u8::from_str_radix(&text[i..i + 2], 16).unwrap())
                .collect()
        };
        let mut padded = hex(udp);
        padded.extend([0; 11]);
        for (data, trailer) in [
            (hex("0001f203f4f5f6f7"), [0xdd, 0xf2]),
            (hex("0001f203f4f5f6"), [0xdc, 0xfb]),
            (hex(udp), [0x7c, 0x8b]),
            (padded, [0x7c, 0x8b]),
        ] {
            // The card's sum is the one software would make, so the two can be subtracted.
            assert_eq!(checksum::sum(&data).to_be_bytes(), trailer);
            let stored = [&[0; 14][..], &data, &trailer].concat();
            let sum = u16::from_be_bytes(trailer);
            assert_eq!(
                Trailer::Sum.read(&stored),
                Some((14 + data.len(), ReceiveChecksum::Complete(sum)))
            );
        }
    }

    /// [RV 5.2, E42, E43]
    #[test]
    fn only_a_whole_zero_is_a_verdict() {
        let frame = [0x11; 60];
        let read = |trailer: [u8; 4]| Trailer::Verdict.read(&[&frame[..], &trailer].concat());
        let right = ReceiveChecksum::Verified { ip: false, transport: true };
        assert_eq!(read([0, 0, 0, 0]), Some((60, right)));
        assert_eq!(read([0xff, 0xff, 0, 0]), Some((60, right)), "IPv6");
        assert_eq!(read([0xff, 0xff, 0xff, 0xff]), Some((60, ReceiveChecksum::Unverified)));
        assert_eq!(read([0, 0, 0xff, 0xff]), Some((60, ReceiveChecksum::Unverified)));
        for wrong in 1..0xffffu16 {
            let [high, low] = wrong.to_be_bytes();
            assert_eq!(read([0, 0, high, low]), Some((60, ReceiveChecksum::Bad)));
        }
    }

    #[test]
    fn what_is_too_short_for_a_trailer_has_none() {
        assert_eq!(Trailer::Sum.read(&[1]), None);
        assert_eq!(Trailer::Verdict.read(&[1, 2, 3]), None);
        assert_eq!(Trailer::None.read(&[]), Some((0, ReceiveChecksum::Unverified)));
    }
}

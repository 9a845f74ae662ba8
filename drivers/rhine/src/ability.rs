//! What the card will do for a frame. A pure function, which holds the errata. [RH 5.1]

use crate::chip::Chip;
use core::str::FromStr;
use trireme_nic::{FrameShape, Network, TransmitAbility, Transport};

/// Who makes transmit checksums.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TransmitChecksums {
    /// Software. The default: the card's engine costs 8 % of the throughput at MTU 1500.
    #[default]
    Off,
    /// The card, whenever it can.
    On,
    /// The card for frames up to `limit` bytes (Ethernet header counted, FCS not), of which two fit
    /// in its transmit buffer, so that they cost no throughput.
    Auto {
        /// Longest such frame; 1014 is MTU 1000.
        limit: usize,
    },
}

impl TransmitChecksums {
    /// `Auto` with the published limit, MTU 1000.
    pub const AUTO: TransmitChecksums = TransmitChecksums::Auto { limit: 1014 };
}

impl FromStr for TransmitChecksums {
    type Err = ();

    /// `off`, `on`, `auto`, or `auto:BYTES` with another limit.
    fn from_str(text: &str) -> Result<TransmitChecksums, ()> {
        match text.split_once(':') {
            None if text == "off" => Ok(TransmitChecksums::Off),
            None if text == "on" => Ok(TransmitChecksums::On),
            None if text == "auto" => Ok(TransmitChecksums::AUTO),
            Some(("auto", limit)) => {
                limit.parse().map(|limit| TransmitChecksums::Auto { limit }).map_err(|_| ())
            }
            _ => Err(()),
        }
    }
}

/// What `chip` does for a frame of this shape.
///
/// `tags`: it inserts VLAN tags.
pub fn transmit_ability(
    chip: Chip,
    checksums: TransmitChecksums,
    tags: bool,
    shape: &FrameShape,
) -> TransmitAbility {
    let tag = shape.tagged && tags && chip.has_vlans();
    if shape.tagged && !tag {
        return TransmitAbility::default();
    }
    let wanted = match checksums {
        TransmitChecksums::Off => false,
        TransmitChecksums::On => true,
        TransmitChecksums::Auto { limit } => shape.len <= limit,
    };
    // Only IPv4 directly behind the Ethernet header. Options are said to work and nobody has looked;
    // fragments, IPv6 and tags in the frame are not to be asked for.
    // A tag beside the frame is not in what the card sums; OpenBSD asks for both at once. [RH 4.2, 5.1]
    let plain = shape.link_len == 14
        && shape.segment.is_none()
        && matches!(shape.network, Network::Ipv4 { header_len: 20, fragment: false });
    if !chip.has_checksums() || !wanted || !plain {
        return TransmitAbility { tag, ..TransmitAbility::default() };
    }
    TransmitAbility {
        tag,
        network_checksum: true,
        transport_checksum: matches!(shape.transport, Transport::Tcp { .. } | Transport::Udp),
        ..TransmitAbility::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use core::num::NonZeroU16;

    const M: Chip = Chip { device: 0x3053, revision: 0x96 };

    fn shape(len: usize) -> FrameShape {
        FrameShape {
            len,
            link_len: 14,
            tagged: false,
            network: Network::Ipv4 { header_len: 20, fragment: false },
            transport: Transport::Tcp { header_len: 20 },
            segment: None,
        }
    }

    const BOTH: TransmitAbility = TransmitAbility {
        network_checksum: true,
        transport_checksum: true,
        segment: false,
        tag: false,
    };
    const NONE: TransmitAbility = TransmitAbility {
        network_checksum: false,
        transport_checksum: false,
        segment: false,
        tag: false,
    };

    #[test]
    fn only_the_management_chip_and_only_when_switched_on() {
        for revision in 0..=255 {
            let chip = Chip { device: 0x3053, revision };
            assert_eq!(transmit_ability(chip, TransmitChecksums::Off, true, &shape(100)), NONE);
            let on = transmit_ability(chip, TransmitChecksums::On, true, &shape(1514));
            assert_eq!(on, if revision >= 0x90 { BOTH } else { NONE });
        }
    }

    #[test]
    fn modes_are_spelled_as_ethtool_would() {
        assert_eq!("off".parse(), Ok(TransmitChecksums::Off));
        assert_eq!("on".parse(), Ok(TransmitChecksums::On));
        assert_eq!("auto".parse(), Ok(TransmitChecksums::Auto { limit: 1014 }));
        assert_eq!("auto:600".parse(), Ok(TransmitChecksums::Auto { limit: 600 }));
        for wrong in ["", "auto:", "auto:x", "on:5", "yes"] {
            assert_eq!(wrong.parse::<TransmitChecksums>(), Err(()));
        }
    }

    #[test]
    fn auto_ends_at_its_limit() {
        for len in 60..=1514 {
            let ability = transmit_ability(M, TransmitChecksums::AUTO, true, &shape(len));
            assert_eq!(ability, if len <= 1014 { BOTH } else { NONE });
        }
    }

    #[test]
    fn everything_unusual_is_software() {
        let base = shape(100);
        let ipv6 = |extension_headers, fragment| Network::Ipv6 {
            header_len: 40,
            extension_headers,
            fragment,
        };
        for network in [
            Network::Ipv4 { header_len: 24, fragment: false },
            Network::Ipv4 { header_len: 60, fragment: false },
            Network::Ipv4 { header_len: 20, fragment: true },
            ipv6(false, false),
            ipv6(true, true),
            Network::Other,
        ] {
            let shape = FrameShape { network, ..base };
            assert_eq!(transmit_ability(M, TransmitChecksums::On, true, &shape), NONE);
        }
        for odd in [
            FrameShape { link_len: 18, ..base },
            FrameShape { segment: NonZeroU16::new(1460), ..base },
        ] {
            assert_eq!(transmit_ability(M, TransmitChecksums::On, true, &odd), NONE);
        }
        for transport in [Transport::Icmp, Transport::Other] {
            let shape = FrameShape { transport, ..base };
            let ability = transmit_ability(M, TransmitChecksums::On, true, &shape);
            assert_eq!(ability, TransmitAbility { network_checksum: true, ..NONE });
        }
    }

    #[test]
    fn a_tag_beside_the_frame_is_the_management_chips_and_changes_no_sum() {
        let tagged = FrameShape { tagged: true, ..shape(100) };
        for revision in 0..=255 {
            let chip = Chip { device: 0x3053, revision };
            let tag = TransmitAbility { tag: revision >= 0x90, ..NONE };
            assert_eq!(transmit_ability(chip, TransmitChecksums::Off, true, &tagged), tag);
            // Tags off: it cannot be sent like that, whatever else it could have done for it.
            assert_eq!(transmit_ability(chip, TransmitChecksums::On, false, &tagged), NONE);
        }
        let both = TransmitAbility { tag: true, ..BOTH };
        assert_eq!(transmit_ability(M, TransmitChecksums::On, true, &tagged), both);
        let other = FrameShape { network: Network::Other, ..tagged };
        let tag = TransmitAbility { tag: true, ..NONE };
        assert_eq!(transmit_ability(M, TransmitChecksums::On, true, &other), tag);
    }
}

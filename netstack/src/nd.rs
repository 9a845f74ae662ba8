//! Neighbour solicitations and advertisements (RFC 4861, 4.3 and 4.4).

use core::net::Ipv6Addr;
use trireme_nic::MacAddress;

/// ICMPv6 type of a solicitation.
pub(crate) const SOLICITATION: u8 = 135;
/// ICMPv6 type of an advertisement.
pub(crate) const ADVERTISEMENT: u8 = 136;
/// Bytes of either with one link-layer address option.
pub(crate) const LEN: usize = 32;

const SOURCE_LINK_ADDRESS: u8 = 1;
const TARGET_LINK_ADDRESS: u8 = 2;
const SOLICITED: u8 = 0x40;
const OVERRIDE: u8 = 0x20;

/// A solicitation or advertisement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Nd {
    /// A solicitation, not an advertisement.
    pub(crate) solicitation: bool,
    /// The advertisement answers a solicitation.
    pub(crate) solicited: bool,
    pub(crate) target: Ipv6Addr,
    /// The sender's (solicitation) or the target's (advertisement).
    pub(crate) mac: Option<MacAddress>,
}

impl Nd {
    /// Reads an ICMPv6 message whose sum and hop limit were checked.
    pub(crate) fn parse(message: &[u8]) -> Option<Nd> {
        let fixed: &[u8; 24] = message.first_chunk()?;
        let solicitation = match (fixed[0], fixed[1]) {
            (SOLICITATION, 0) => true,
            (ADVERTISEMENT, 0) => false,
            _ => return None,
        };
        let target = Ipv6Addr::from(core::array::from_fn::<u8, 16, _>(|i| fixed[8 + i]));
        if target.is_multicast() {
            return None;
        }
        let wanted = if solicitation { SOURCE_LINK_ADDRESS } else { TARGET_LINK_ADDRESS };
        let mut mac = None;
        let mut options = &message[24..];
        while let [kind, len, ..] = *options {
            // An option of length 0 makes the message invalid (RFC 4861, 7.1).
            let len = usize::from(len) * 8;
            if len == 0 || len > options.len() {
                return None;
            }
            if kind == wanted {
                mac = options.get(2..8)?.first_chunk().copied();
            }
            options = &options[len..];
        }
        let solicited = !solicitation && fixed[4] & SOLICITED != 0;
        Some(Nd { solicitation, solicited, target, mac })
    }

    /// Writes [`LEN`] bytes with a zero sum; an advertisement overrides what the hearer knew.
    pub(crate) fn emit(&self, message: &mut [u8]) {
        message[..LEN].fill(0);
        message[0] = if self.solicitation { SOLICITATION } else { ADVERTISEMENT };
        if !self.solicitation {
            message[4] = OVERRIDE | if self.solicited { SOLICITED } else { 0 };
        }
        message[8..24].copy_from_slice(&self.target.octets());
        message[24] = if self.solicitation { SOURCE_LINK_ADDRESS } else { TARGET_LINK_ADDRESS };
        message[25] = 1;
        message[26..32].copy_from_slice(&self.mac.unwrap_or_default());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use smoltcp::wire::{Icmpv6Packet, NdiscNeighborFlags, NdiscRepr};

    #[test]
    fn smoltcp_reads_what_is_written() {
        let target: Ipv6Addr = "fe80::7".parse().unwrap();
        let mac = Some([2, 0, 0, 0, 0, 7]);
        let mut bytes = [0xa5; LEN];
        Nd { solicitation: false, solicited: true, target, mac }.emit(&mut bytes);
        match NdiscRepr::parse(&Icmpv6Packet::new_checked(&bytes[..]).unwrap()).unwrap() {
            NdiscRepr::NeighborAdvert { flags, target_addr, lladdr } => {
                assert_eq!(flags, NdiscNeighborFlags::SOLICITED | NdiscNeighborFlags::OVERRIDE);
                assert_eq!(target_addr, target);
                assert_eq!(lladdr.unwrap().as_bytes(), [2, 0, 0, 0, 0, 7]);
            }
            other => panic!("{other:?}"),
        }
        let ask = Nd { solicitation: true, solicited: false, target, mac };
        ask.emit(&mut bytes);
        assert_eq!(Nd::parse(&bytes), Some(ask));
    }

    #[test]
    fn bad_options_make_it_invalid() {
        let mut bytes = [0; LEN];
        let target = "fe80::7".parse().unwrap();
        Nd { solicitation: true, solicited: false, target, mac: Some([1; 6]) }.emit(&mut bytes);
        for len in [0, 2, 255] {
            bytes[25] = len;
            assert_eq!(Nd::parse(&bytes), None);
        }
        assert_eq!(Nd::parse(&bytes[..23]), None);
        assert_eq!(Nd::parse(&bytes[..24]).unwrap().mac, None);
    }
}

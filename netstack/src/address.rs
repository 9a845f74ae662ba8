//! Addresses, prefixes, and the two Ethernet header forms.

use core::fmt;
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use trireme_nic::MacAddress;

/// The Ethernet broadcast address.
pub(crate) const BROADCAST_MAC: MacAddress = [0xff; 6];

/// An address of ours with the length of its network's prefix.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cidr {
    /// The address, not the network.
    pub address: IpAddr,
    /// Prefix length in bits: up to 32 for IPv4, 128 for IPv6.
    pub prefix: u8,
}

impl Cidr {
    /// Is `address` in the same network?
    pub fn contains(&self, address: IpAddr) -> bool {
        match (self.address, address) {
            (IpAddr::V4(ours), IpAddr::V4(other)) => {
                let mask = u32::MAX.checked_shl(32 - u32::from(self.prefix.min(32))).unwrap_or(0);
                (ours.to_bits() ^ other.to_bits()) & mask == 0
            }
            (IpAddr::V6(ours), IpAddr::V6(other)) => {
                let mask =
                    u128::MAX.checked_shl(128 - u32::from(self.prefix.min(128))).unwrap_or(0);
                (ours.to_bits() ^ other.to_bits()) & mask == 0
            }
            _ => false,
        }
    }

    /// The network's directed broadcast address; none for IPv6 and for /31 and /32 (RFC 3021).
    pub fn broadcast(&self) -> Option<Ipv4Addr> {
        match self.address {
            IpAddr::V4(address) if self.prefix < 31 => {
                Some(Ipv4Addr::from_bits(address.to_bits() | (u32::MAX >> self.prefix)))
            }
            _ => None,
        }
    }
}

impl fmt::Display for Cidr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.address, self.prefix)
    }
}

/// The Ethernet address of a multicast group (RFC 1112, 6.4; RFC 2464, 7).
pub(crate) fn multicast_mac(group: IpAddr) -> MacAddress {
    match group {
        IpAddr::V4(group) => {
            let [_, b, c, d] = group.octets();
            [0x01, 0x00, 0x5e, b & 0x7f, c, d]
        }
        IpAddr::V6(group) => {
            let [.., a, b, c, d] = group.octets();
            [0x33, 0x33, a, b, c, d]
        }
    }
}

/// The solicited-node group of an address (RFC 4291, 2.7.1).
pub(crate) fn solicited_node(address: Ipv6Addr) -> Ipv6Addr {
    let [.., b, c] = address.segments();
    Ipv6Addr::new(0xff02, 0, 0, 0, 0, 1, 0xff00 | (b & 0xff), c)
}

/// The link-local address made of a MAC address (RFC 4291, appendix A).
pub(crate) fn link_local(mac: MacAddress) -> Ipv6Addr {
    let [a, b, c, d, e, f] = mac;
    let half = |hi: u8, lo: u8| u16::from(hi) << 8 | u16::from(lo);
    Ipv6Addr::new(0xfe80, 0, 0, 0, half(a ^ 2, b), half(c, 0xff), half(0xfe, d), half(e, f))
}

/// `fe80::/10`.
pub(crate) fn is_link_local(address: Ipv6Addr) -> bool {
    address.segments()[0] & 0xffc0 == 0xfe80
}

/// Could a packet rightly come from here?
pub(crate) fn is_plausible_source(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => {
            !address.is_multicast() && !address.is_broadcast() && address.octets()[0] != 0
        }
        IpAddr::V6(address) => !address.is_multicast() && !address.is_unspecified(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prefixes() {
        let net = Cidr { address: "10.1.2.3".parse().unwrap(), prefix: 20 };
        assert!(net.contains("10.1.15.255".parse().unwrap()));
        assert!(!net.contains("10.1.16.0".parse().unwrap()));
        assert!(!net.contains("::ffff:10.1.2.3".parse().unwrap()));
        assert_eq!(net.broadcast(), Some(Ipv4Addr::new(10, 1, 15, 255)));
        let all = Cidr { prefix: 0, ..net };
        assert!(all.contains("192.0.2.1".parse().unwrap()));
        let host = Cidr { prefix: 32, ..net };
        assert!(host.contains(net.address) && host.broadcast().is_none());
    }

    #[test]
    fn group_addresses() {
        // The examples of RFC 2464, 7 and RFC 4291, 2.7.1; bit 8 of the group is lost in IPv4.
        let group = solicited_node("4037::01:800:200e:8c6c".parse().unwrap());
        assert_eq!(group, "ff02::1:ff0e:8c6c".parse::<Ipv6Addr>().unwrap());
        assert_eq!(multicast_mac(group.into()), [0x33, 0x33, 0xff, 0x0e, 0x8c, 0x6c]);
        let group = "224.129.1.2".parse().unwrap();
        assert_eq!(multicast_mac(group), [0x01, 0x00, 0x5e, 0x01, 0x01, 0x02]);
    }
}

//! ARP for IPv4 over Ethernet (RFC 826).

use core::net::Ipv4Addr;
use trireme_nic::MacAddress;

/// Bytes of a packet.
pub(crate) const LEN: usize = 28;
/// Hardware type Ethernet, protocol IPv4, address lengths 6 and 4.
const PREFIX: [u8; 6] = [0, 1, 8, 0, 6, 4];

/// An ARP packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Arp {
    /// A request, not a reply.
    pub(crate) request: bool,
    pub(crate) sender_mac: MacAddress,
    pub(crate) sender: Ipv4Addr,
    pub(crate) target_mac: MacAddress,
    pub(crate) target: Ipv4Addr,
}

impl Arp {
    /// Reads a request or reply. Padding may follow.
    pub(crate) fn parse(packet: &[u8]) -> Option<Arp> {
        let bytes: &[u8; LEN] = packet.first_chunk()?;
        if bytes[..6] != PREFIX {
            return None;
        }
        let request = match bytes[6..8] {
            [0, 1] => true,
            [0, 2] => false,
            _ => return None,
        };
        let mac = |at: usize| core::array::from_fn(|i| bytes[at + i]);
        let ip = |at: usize| Ipv4Addr::from(core::array::from_fn::<u8, 4, _>(|i| bytes[at + i]));
        Some(Arp {
            request,
            sender_mac: mac(8),
            sender: ip(14),
            target_mac: mac(18),
            target: ip(24),
        })
    }

    /// Writes it to the first [`LEN`] bytes.
    pub(crate) fn emit(&self, packet: &mut [u8]) {
        packet[..6].copy_from_slice(&PREFIX);
        packet[6..8].copy_from_slice(&[0, if self.request { 1 } else { 2 }]);
        packet[8..14].copy_from_slice(&self.sender_mac);
        packet[14..18].copy_from_slice(&self.sender.octets());
        packet[18..24].copy_from_slice(&self.target_mac);
        packet[24..28].copy_from_slice(&self.target.octets());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // A request as Linux sends it, 10.0.0.1 asking for 10.0.0.2.
    const BYTES: [u8; 28] =
        [0, 1, 8, 0, 6, 4, 0, 1, 2, 0, 0, 0, 0, 1, 10, 0, 0, 1, 0, 0, 0, 0, 0, 0, 10, 0, 0, 2];

    #[test]
    fn both_ways() {
        let arp = Arp::parse(&BYTES).unwrap();
        assert_eq!(
            arp,
            Arp {
                request: true,
                sender_mac: [2, 0, 0, 0, 0, 1],
                sender: Ipv4Addr::new(10, 0, 0, 1),
                target_mac: [0; 6],
                target: Ipv4Addr::new(10, 0, 0, 2),
            }
        );
        let mut written = [0xa5; 28];
        arp.emit(&mut written);
        assert_eq!(written, BYTES);
    }

    #[test]
    fn anything_else_is_refused() {
        for at in 0..8 {
            let mut bytes = BYTES;
            bytes[at] ^= 4;
            assert_eq!(Arp::parse(&bytes), None, "byte {at}");
        }
        assert_eq!(Arp::parse(&BYTES[..27]), None);
    }
}

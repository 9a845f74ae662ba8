//! Giving interfaces their addresses, and taking them away.

use crate::Error;
use crate::address::{Cidr, solicited_node};
use crate::frame::Headers;
use crate::ipconfig::{Addressing, Ipv4Addressing, Ipv6Addressing};
use crate::route::LOOPBACK;
use crate::stack::{Slot, Stack};
use crate::udp::Received;
use alloc::vec::Vec;
use core::net::{IpAddr, Ipv6Addr};
use smoltcp::time::Instant;
use trireme_nic::{MacAddress, ReceiveFilter};

/// The link-local address made of a MAC address (RFC 4291, appendix A).
fn link_local(mac: MacAddress) -> Ipv6Addr {
    let [a, b, c, d, e, f] = mac;
    let half = |hi: u8, lo: u8| u16::from(hi) << 8 | u16::from(lo);
    Ipv6Addr::new(0xfe80, 0, 0, 0, half(a ^ 2, b), half(c, 0xff), half(0xfe, d), half(e, f))
}

impl Stack {
    /// Applies what the boot arguments say of an interface.
    pub(crate) fn configure(&mut self, place: usize, addressing: &Addressing, now: Instant) {
        let mac = self.interfaces[place].mac;
        self.add_address(place, Cidr { address: link_local(mac).into(), prefix: 64 });
        if let Ipv4Addressing::Static { address, prefix, gateway } = addressing.ipv4 {
            self.add_address(place, Cidr { address: address.into(), prefix });
            if let Some(gateway) = gateway {
                self.interfaces[place].routers.push(gateway.into());
            }
        }
        if let Ipv6Addressing::Static { address, prefix, gateway } = addressing.ipv6 {
            self.add_address(place, Cidr { address: address.into(), prefix });
            if let Some(gateway) = gateway {
                self.interfaces[place].routers.push(gateway.into());
            }
        }
        let _ = now;
    }

    /// Adds an address to an interface.
    pub(crate) fn add_address(&mut self, place: usize, cidr: Cidr) {
        let Some(interface) = self.interfaces.get_mut(place) else { return };
        if interface.addresses.iter().all(|other| other.address != cidr.address) {
            interface.addresses.push(cidr);
            self.filter(place);
        }
    }

    /// Takes an address away from `eth{n}`; connections that used it are over.
    pub fn remove_address(&mut self, n: usize, address: IpAddr, now: Instant) {
        let place = LOOPBACK + 1 + n;
        let Some(interface) = self.interfaces.get_mut(place) else { return };
        interface.addresses.retain(|cidr| cidr.address != address);
        let lost: Vec<u32> = self
            .slots
            .iter()
            .filter(|(_, slot)| matches!(slot, Slot::Flow(flow) if flow.key.local == address))
            .map(|(id, _)| id.index)
            .collect();
        for index in lost {
            self.fail_flow(index, Error::ConnectionAborted, now);
        }
        self.filter(place);
    }

    /// Tells the card which groups it is to receive: ours, and those IPv6 needs.
    pub(crate) fn filter(&mut self, place: usize) {
        let interface = &mut self.interfaces[place];
        let mut macs = interface.groups.macs();
        macs.push([0x33, 0x33, 0, 0, 0, 1]);
        for cidr in &interface.addresses {
            if let IpAddr::V6(address) = cidr.address {
                macs.push(crate::address::multicast_mac(solicited_node(address).into()));
            }
        }
        macs.sort_unstable();
        macs.dedup();
        interface.nic.set_receive_filter(ReceiveFilter::Multicast(&macs));
    }

    /// A datagram of the protocols that configure us. True: it was one.
    pub(crate) fn configuration_datagram(
        &mut self,
        _place: usize,
        _headers: &Headers,
        _datagram: &Received<'_>,
        _now: Instant,
    ) -> bool {
        false
    }

    /// A packet to an address that is not ours (yet): a DHCP offer may be.
    pub(crate) fn foreign(
        &mut self,
        _place: usize,
        _headers: &Headers,
        _frame: &[u8],
        _now: Instant,
    ) {
        self.statistics.not_for_us += 1;
    }

    /// ICMPv6 that is neither echo, error nor neighbour discovery.
    pub(crate) fn icmpv6_other(
        &mut self,
        _place: usize,
        _headers: &Headers,
        _message: &[u8],
        _now: Instant,
    ) {
        self.statistics.unknown_protocol += 1;
    }

    /// An IGMP message.
    pub(crate) fn igmp(&mut self, _place: usize, _message: &[u8], _now: Instant) {
        self.statistics.unknown_protocol += 1;
    }
}

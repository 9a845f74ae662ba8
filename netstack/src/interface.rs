//! A network interface: a card, its addresses, routes and neighbours.

use crate::address::{BROADCAST_MAC, Cidr, is_link_local, multicast_mac, solicited_node};
use crate::arp::{self, Arp};
use crate::configure::Setup;
use crate::egress::Egress;
use crate::frame::{ethertype, protocol};
use crate::hash::Key;
use crate::multicast::Groups;
use crate::nd::{self, Nd};
use crate::neighbour::{Action, Neighbours, Waiter};
use crate::packet::{self, Pair};
use crate::ptp::PtpQueue;
use crate::vlan::Trunk;
use alloc::boxed::Box;
use alloc::collections::VecDeque;
use alloc::string::String;
use alloc::vec::Vec;
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use smoltcp::time::Instant;
use trireme_nic::{MacAddress, Nic};

/// What an interface over a card shared with others knows of that.
pub(crate) struct Sharing {
    pub(crate) trunk: Trunk,
    /// The VLANs over the card: ids and their interfaces' places, in order. Empty for a VLAN itself.
    pub(crate) vlans: Vec<(u16, usize)>,
    /// Which of them is first in line when the ring has drained.
    pub(crate) first: usize,
}

/// A VLAN interface's place in the world.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Vlan {
    pub(crate) id: u16,
    /// Place of the card's own interface.
    pub(crate) parent: usize,
    pub(crate) rx_packets: u64,
    pub(crate) rx_bytes: u64,
}

/// What kind of destination a received packet was sent to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Destination {
    /// An address of ours.
    Ours,
    /// A broadcast address of the network.
    Broadcast,
    /// A group we are in.
    Group,
    /// Somebody else.
    Other,
}

pub(crate) struct Interface {
    pub(crate) name: String,
    pub(crate) nic: Box<dyn Nic>,
    /// Transmit side, and the counters of both sides.
    pub(crate) egress: Egress,
    pub(crate) mac: MacAddress,
    pub(crate) addresses: Vec<Cidr>,
    /// Default routers, the one in use first; at most one of IPv4.
    pub(crate) routers: Vec<IpAddr>,
    pub(crate) neighbours: Neighbours,
    pub(crate) groups: Groups,
    /// Addresses we are about to take: their solicited-node groups are heard.
    pub(crate) tentative: Vec<Ipv6Addr>,
    /// What DHCP or routers say, if less than the card's.
    pub(crate) advertised_mtu: Option<u16>,
    pub(crate) setup: Option<Box<Setup>>,
    /// Delivers to ourselves; needs no neighbours.
    pub(crate) loopback: bool,
    /// Connections and sockets a full ring stopped.
    pub(crate) blocked: VecDeque<u32>,
    /// Something was queued since the doorbell was last rung.
    pub(crate) unflushed: bool,
    /// There are VLANs over its card.
    pub(crate) sharing: Option<Box<Sharing>>,
    /// It is one.
    pub(crate) vlan: Option<Vlan>,
    /// Where PTP messages go.
    pub(crate) ptp: Option<PtpQueue>,
}

impl Interface {
    pub(crate) fn new(name: String, nic: Box<dyn Nic>, key: Key, loopback: bool) -> Interface {
        Interface {
            name,
            mac: nic.mac_address(),
            nic,
            egress: Egress::new(),
            addresses: Vec::new(),
            routers: Vec::new(),
            neighbours: Neighbours::new(key),
            groups: Groups::new(),
            tentative: Vec::new(),
            advertised_mtu: None,
            setup: None,
            loopback,
            blocked: VecDeque::new(),
            unflushed: false,
            sharing: None,
            vlan: None,
            ptp: None,
        }
    }

    pub(crate) fn mtu(&self) -> usize {
        let mtu = self.nic.mtu();
        usize::from(self.advertised_mtu.map_or(mtu, |told| told.min(mtu)))
    }

    /// What `destination` is to us.
    #[inline]
    pub(crate) fn destination(&self, destination: IpAddr) -> Destination {
        if self.addresses.iter().any(|cidr| cidr.address == destination) {
            return Destination::Ours;
        }
        match destination {
            IpAddr::V4(address) => {
                if self.loopback && address.is_loopback() {
                    Destination::Ours
                } else if self.is_broadcast(address) {
                    Destination::Broadcast
                } else if address.is_multicast() && self.groups.contains(destination) {
                    Destination::Group
                } else {
                    Destination::Other
                }
            }
            IpAddr::V6(address) if address.is_multicast() => {
                if self.is_ipv6_group(address) {
                    Destination::Group
                } else {
                    Destination::Other
                }
            }
            IpAddr::V6(_) => Destination::Other,
        }
    }

    pub(crate) fn is_broadcast(&self, address: Ipv4Addr) -> bool {
        address.is_broadcast()
            || self.addresses.iter().any(|cidr| cidr.broadcast() == Some(address))
    }

    /// All nodes, solicited nodes of our addresses, and joined groups.
    fn is_ipv6_group(&self, group: Ipv6Addr) -> bool {
        group == Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 1)
            || self.groups.contains(IpAddr::V6(group))
            || self.tentative.iter().any(|address| solicited_node(*address) == group)
            || self.addresses.iter().any(|cidr| match cidr.address {
                IpAddr::V6(address) => solicited_node(address) == group,
                IpAddr::V4(_) => false,
            })
    }

    /// Is there a way to `destination` from here, and over which next hop? The length of the prefix
    /// that matched comes with it (default route: 0).
    pub(crate) fn next_hop(&self, destination: IpAddr) -> Option<(IpAddr, u8)> {
        let on_link = self.addresses.iter().filter(|cidr| cidr.contains(destination));
        if let Some(cidr) = on_link.max_by_key(|cidr| cidr.prefix) {
            return Some((destination, cidr.prefix.max(1)));
        }
        match destination {
            IpAddr::V4(address) if self.is_broadcast(address) || address.is_multicast() => {
                (!self.addresses.is_empty()).then_some((destination, 1))
            }
            IpAddr::V6(address) if is_link_local(address) || address.is_multicast() => {
                (!self.addresses.is_empty()).then_some((destination, 1))
            }
            _ => {
                let router =
                    self.routers.iter().find(|router| router.is_ipv4() == destination.is_ipv4())?;
                Some((*router, 0))
            }
        }
    }

    /// Our address to speak to `destination` from: in the same network if there is one, else of the
    /// same scope (RFC 6724, rules 2 and 8, as far as hosts like this need them).
    pub(crate) fn source_for(&self, destination: IpAddr) -> Option<IpAddr> {
        let same_family =
            || self.addresses.iter().filter(|cidr| cidr.address.is_ipv4() == destination.is_ipv4());
        if let Some(cidr) =
            same_family().filter(|cidr| cidr.contains(destination)).max_by_key(|cidr| cidr.prefix)
        {
            return Some(cidr.address);
        }
        let IpAddr::V6(destination) = destination else {
            return same_family().next().map(|cidr| cidr.address);
        };
        let local_scope = is_link_local(destination) || destination.segments()[0] == 0xff02;
        let common = |cidr: &&Cidr| match cidr.address {
            IpAddr::V6(ours) => (ours.to_bits() ^ destination.to_bits()).leading_zeros(),
            IpAddr::V4(_) => 0,
        };
        let of_scope = same_family().filter(|cidr| match cidr.address {
            IpAddr::V6(ours) => is_link_local(ours) == local_scope,
            IpAddr::V4(_) => false,
        });
        of_scope.max_by_key(common).or_else(|| same_family().next()).map(|cidr| cidr.address)
    }

    /// The Ethernet address of a next hop, if it is known or needs no asking.
    #[inline]
    pub(crate) fn mac_of(&mut self, next_hop: IpAddr, now: Instant) -> Option<MacAddress> {
        if self.loopback {
            return Some(self.mac);
        }
        if next_hop.is_multicast() {
            return Some(multicast_mac(next_hop));
        }
        if let Some(mac) = self.neighbours.find(next_hop, now) {
            return Some(mac);
        }
        match next_hop {
            IpAddr::V4(address) if self.is_broadcast(address) => Some(BROADCAST_MAC),
            _ => None,
        }
    }

    /// The Ethernet header of packets to `mac`.
    pub(crate) fn header(&self, mac: MacAddress, ethertype: u16) -> [u8; 14] {
        let mut header = [0; 14];
        header[..6].copy_from_slice(&mac);
        header[6..12].copy_from_slice(&self.mac);
        header[12..].copy_from_slice(&ethertype.to_be_bytes());
        header
    }

    /// Sends a packet of `len` bytes that `write` writes from the IP header on. False: the ring is
    /// full, nothing was written.
    #[inline]
    pub(crate) fn send(
        &mut self,
        mac: MacAddress,
        ethertype: u16,
        len: usize,
        write: impl FnOnce(&mut [u8]),
    ) -> bool {
        if !self.egress.ready(&mut *self.nic, 0) {
            return false;
        }
        let header = self.header(mac, ethertype);
        self.egress.send(&mut *self.nic, Some(&header), len, None, write);
        self.unflushed = true;
        true
    }

    /// The same for a whole TCP or UDP packet with a plain IP header.
    #[inline]
    pub(crate) fn send_plain(
        &mut self,
        mac: MacAddress,
        ethertype: u16,
        len: usize,
        tcp: bool,
        write: impl FnOnce(&mut [u8]),
    ) -> bool {
        if !self.egress.ready(&mut *self.nic, 0) {
            return false;
        }
        let header = self.header(mac, ethertype);
        self.egress.send_plain(&mut *self.nic, &header, len, tcp, write);
        self.unflushed = true;
        true
    }

    /// Sends it to a next hop, or lets it wait for the neighbour's address. False: no room.
    pub(crate) fn send_via(
        &mut self,
        next_hop: IpAddr,
        len: usize,
        now: Instant,
        write: impl FnOnce(&mut [u8]),
    ) -> bool {
        match self.mac_of(next_hop, now) {
            Some(mac) => self.send(mac, ethertype_of(next_hop), len, write),
            None => {
                let mut packet = alloc::vec![0; len];
                write(&mut packet);
                self.neighbours.wait(next_hop, Waiter::Packet(packet), now)
            }
        }
    }

    /// Rings the doorbell if anything was queued.
    #[inline]
    pub(crate) fn flush(&mut self) {
        if self.unflushed | self.egress.take_resumed() {
            self.unflushed = false;
            self.nic.flush();
        }
        if self.sharing.is_some() || self.vlan.is_some() {
            self.egress.give_back(&mut *self.nic);
        }
    }

    /// Asks for a neighbour: by broadcast or group, or, to confirm it, of `known` alone.
    pub(crate) fn ask(&mut self, address: IpAddr, known: Option<MacAddress>) {
        match address {
            IpAddr::V4(target) => {
                let Some(IpAddr::V4(sender)) = self.source_for(address) else { return };
                let ask = Arp {
                    request: true,
                    sender_mac: self.mac,
                    sender,
                    target_mac: known.unwrap_or_default(),
                    target,
                };
                let mac = known.unwrap_or(BROADCAST_MAC);
                self.send(mac, ethertype::ARP, arp::LEN, |packet| ask.emit(packet));
            }
            IpAddr::V6(target) => {
                let Some(IpAddr::V6(source)) = self.source_for(address) else { return };
                let ask = Nd { solicitation: true, solicited: false, target, mac: Some(self.mac) };
                let (destination, mac) = match known {
                    Some(mac) => (target, mac),
                    None => {
                        let group = solicited_node(target);
                        (group, multicast_mac(group.into()))
                    }
                };
                self.send_nd(ask, source, destination, mac);
            }
        }
    }

    /// Tells the link that an address is ours (RFC 5227, 2.3), in case another had it before.
    pub(crate) fn announce(&mut self, address: Ipv4Addr) {
        let announcement = Arp {
            request: true,
            sender_mac: self.mac,
            sender: address,
            target_mac: [0; 6],
            target: address,
        };
        self.send(BROADCAST_MAC, ethertype::ARP, arp::LEN, |packet| announcement.emit(packet));
    }

    pub(crate) fn send_nd(
        &mut self,
        message: Nd,
        source: Ipv6Addr,
        destination: Ipv6Addr,
        mac: MacAddress,
    ) {
        let pair = Pair::V6(source, destination);
        self.send(mac, ethertype::IPV6, 40 + nd::LEN, |packet| {
            packet::ip_header(packet, &pair, protocol::ICMPV6, 255, nd::LEN);
            message.emit(&mut packet[40..]);
            packet::icmp_sum(&mut packet[40..], &pair);
        });
    }

    /// A received ARP packet: answers requests for our addresses, learns.
    pub(crate) fn arp(&mut self, packet: &[u8], now: Instant) -> Option<Action> {
        let heard = Arp::parse(packet)?;
        let ours = self.addresses.iter().any(|cidr| cidr.address == IpAddr::V4(heard.target));
        let plausible = crate::address::is_plausible_source(heard.sender.into())
            && heard.sender_mac[0] & 1 == 0
            && self.addresses.iter().any(|cidr| cidr.contains(heard.sender.into()))
            && !self.addresses.iter().any(|cidr| cidr.address == IpAddr::V4(heard.sender));
        if ours && heard.request {
            let reply = Arp {
                request: false,
                sender_mac: self.mac,
                sender: heard.target,
                target_mac: heard.sender_mac,
                target: heard.sender,
            };
            self.send(heard.sender_mac, ethertype::ARP, arp::LEN, |packet| reply.emit(packet));
        }
        if !plausible {
            return None;
        }
        // RFC 826: update what is known in any case, remember new ones only if we are the target.
        self.neighbours.learn(heard.sender.into(), heard.sender_mac, ours, now)
    }

    /// A received neighbour solicitation or advertisement, sum and hop limit checked.
    pub(crate) fn nd(&mut self, heard: Nd, source: Ipv6Addr, now: Instant) -> Option<Action> {
        if !heard.solicitation {
            return self.neighbours.learn(heard.target.into(), heard.mac?, false, now);
        }
        if !self.addresses.iter().any(|cidr| cidr.address == IpAddr::V6(heard.target)) {
            return None;
        }
        let answer = Nd {
            solicitation: false,
            solicited: !source.is_unspecified(),
            target: heard.target,
            mac: Some(self.mac),
        };
        if source.is_unspecified() {
            // Somebody checks whether the address is free: tell all (RFC 4862, 5.4.3).
            let all = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 1);
            self.send_nd(answer, heard.target, all, multicast_mac(all.into()));
            return None;
        }
        let mac = heard.mac?;
        if mac[0] & 1 != 0 {
            return None;
        }
        let learned = self.neighbours.learn(source.into(), mac, true, now);
        self.send_nd(answer, heard.target, source, mac);
        learned
    }
}

fn ethertype_of(address: IpAddr) -> u16 {
    match address {
        IpAddr::V4(_) => ethertype::IPV4,
        IpAddr::V6(_) => ethertype::IPV6,
    }
}

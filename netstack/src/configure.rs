//! Where interfaces get their addresses from: boot arguments, DHCP, router advertisements; and the
//! services that ride along, names and time.

use crate::Error;
use crate::address::{BROADCAST_MAC, Cidr, multicast_mac, solicited_node};
use crate::frame::{Headers, ethertype, protocol};
use crate::interface::Interface;
use crate::ipconfig::{Addressing, Ipv4Addressing, Ipv6Addressing};
use crate::order::sort_short;
use crate::packet::{self, Pair};
use crate::route::LOOPBACK;
use crate::slaac::Slaac;
use crate::stack::{Slot, Stack};
use crate::udp::Received;
use crate::{dhcp, nd, slaac};
use alloc::boxed::Box;
use alloc::vec::Vec;
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use smoltcp::time::Instant;
use trireme_nic::{MacAddress, ReceiveFilter, Transport};

const DHCP_CLIENT_PORT: u16 = 68;
const DHCP_SERVER_PORT: u16 = 67;
const DNS_PORT: u16 = 53;
const NTP_PORT: u16 = 123;
/// ICMPv6 type of a router advertisement (RFC 4861, 4.2).
const ROUTER_ADVERTISEMENT: u8 = 134;

/// How one interface is configured.
pub(crate) struct Setup {
    addressing: Addressing,
    dhcp: Option<dhcp::Client>,
    lease: Option<dhcp::Lease>,
    slaac: Slaac,
    link_up: bool,
    /// Added by hand.
    extra: Vec<Cidr>,
    /// When one of the clients has something to do.
    due: Option<Instant>,
}

impl Setup {
    fn new(mac: MacAddress, addressing: Addressing, hostname: &str, now: Instant) -> Setup {
        let hostname = addressing.hostname.as_deref().unwrap_or(hostname);
        let dhcp = (addressing.ipv4 == Ipv4Addressing::Dhcp)
            .then(|| dhcp::Client::new(mac, hostname, now));
        Setup {
            dhcp,
            lease: None,
            slaac: Slaac::new(mac, addressing.ipv6, now),
            link_up: true,
            extra: Vec::new(),
            due: Some(now),
            addressing,
        }
    }

    /// Addresses there are to be, in order of preference.
    fn addresses(&self) -> Vec<Cidr> {
        let mut all = Vec::new();
        if let Ipv4Addressing::Static { address, prefix, .. } = self.addressing.ipv4 {
            all.push(Cidr { address: address.into(), prefix });
        }
        if let Some(lease) = &self.lease {
            all.push(Cidr { address: lease.address.into(), prefix: lease.prefix });
        }
        let ipv6 = self.slaac.addresses();
        all.extend(ipv6.map(|(address, prefix)| Cidr { address: address.into(), prefix }));
        all.extend(&self.extra);
        all
    }

    fn routers(&self) -> Vec<IpAddr> {
        let given = match self.addressing.ipv4 {
            Ipv4Addressing::Static { gateway, .. } => gateway,
            Ipv4Addressing::Dhcp => self.lease.as_ref().and_then(|lease| lease.router),
            Ipv4Addressing::Off => None,
        };
        given.map(IpAddr::V4).into_iter().chain(self.slaac.routers().map(IpAddr::V6)).collect()
    }

    fn mtu(&self) -> Option<u16> {
        let leased = self.lease.as_ref().and_then(|lease| lease.mtu);
        // IPv6 needs 1280 on every link (RFC 8200, 5), whatever a DHCP server says.
        leased.into_iter().chain(self.slaac.mtu()).min().map(|mtu| mtu.max(1280))
    }

    fn name_servers(&self) -> impl Iterator<Item = IpAddr> {
        let leased = self.lease.iter().flat_map(|lease| &lease.dns).map(|dns| IpAddr::V4(*dns));
        let advertised = self.slaac.dns().map(IpAddr::V6);
        self.addressing.dns.iter().copied().chain(leased).chain(advertised)
    }

    pub(crate) fn time_servers(&self) -> impl Iterator<Item = IpAddr> {
        let leased = self.lease.iter().flat_map(|lease| &lease.ntp).map(|ntp| IpAddr::V4(*ntp));
        self.addressing.ntp.into_iter().chain(leased)
    }

    pub(crate) fn lease(&self) -> Option<&dhcp::Lease> {
        self.lease.as_ref()
    }

    pub(crate) fn counters(&self) -> (dhcp::Counters, slaac::Counters) {
        let dhcp = self.dhcp.as_ref().map(dhcp::Client::counters).unwrap_or_default();
        (dhcp, self.slaac.counters())
    }

    fn schedule(&mut self) {
        let dhcp = self.dhcp.as_ref().and_then(dhcp::Client::due);
        self.due = dhcp.into_iter().chain(self.slaac.due()).min();
    }
}

impl Interface {
    /// When its configuration has something to do.
    #[inline]
    pub(crate) fn setup_due(&self) -> Option<Instant> {
        self.setup.as_ref().and_then(|setup| setup.due)
    }

    /// Did the link come up since the last call?
    #[inline]
    pub(crate) fn link_came_up(&mut self) -> bool {
        let Some(setup) = &mut self.setup else { return false };
        let up = self.nic.link().up;
        core::mem::replace(&mut setup.link_up, up) != up && up
    }
}

impl Stack {
    /// Begins to configure an interface.
    pub(crate) fn configure(&mut self, place: usize, addressing: Addressing, now: Instant) {
        let Some(interface) = self.interfaces.get_mut(place) else { return };
        let mac = interface.mac;
        if let Some(mtu) = addressing.mtu
            && !interface.nic.set_mtu(mtu)
        {
            let most = interface.nic.max_mtu();
            log::warn!("{}: no MTU of {mtu}; it can be {most} at most", interface.name);
        }
        if addressing.mac.is_some_and(|wanted| wanted != mac) {
            log::warn!("{}: the address of a card cannot be changed", interface.name);
        }
        // Heard before they are ours, to hear objections.
        interface.tentative.push(crate::address::link_local(mac));
        if let Ipv6Addressing::Static { address, .. } = addressing.ipv6 {
            interface.tentative.push(address);
        }
        interface.setup = Some(Box::new(Setup::new(mac, addressing, &self.hostname, now)));
        self.filter(place);
        self.apply_setup(place, now);
        self.configuration_tick(place, now);
    }

    /// The link came back: ask again.
    pub(crate) fn link_up(&mut self, place: usize, now: Instant) {
        if let Some(setup) = self.interfaces.get_mut(place).and_then(|i| i.setup.as_mut()) {
            if let Some(dhcp) = &mut setup.dhcp {
                dhcp.link_up(now);
            }
            setup.slaac.link_up(now);
            setup.due = Some(now);
        }
    }

    /// What is due of an interface's configuration.
    pub(crate) fn configuration_tick(&mut self, place: usize, now: Instant) {
        // A message each at most, so a handful of rounds is everything.
        for _ in 0..16 {
            let (random, other) = (self.random.next_u32(), self.random.next_u32());
            let Some(interface) = self.interfaces.get_mut(place) else { return };
            let Some(setup) = &mut interface.setup else { return };
            let dhcp = setup.dhcp.as_mut().and_then(|dhcp| dhcp.poll(now, random));
            let slaac = setup.slaac.poll(now, other);
            setup.schedule();
            if dhcp.is_none() && slaac.is_none() {
                break;
            }
            if let Some(message) = dhcp {
                send_dhcp(interface, message, now);
            }
            if let Some(message) = slaac {
                send_slaac(interface, &message);
            }
        }
        self.collect_setup(place, now);
    }

    /// Takes over what the clients learned.
    fn collect_setup(&mut self, place: usize, now: Instant) {
        let Some(setup) = self.interfaces.get_mut(place).and_then(|i| i.setup.as_mut()) else {
            return;
        };
        let event = setup.dhcp.as_mut().and_then(dhcp::Client::event);
        let changed = setup.slaac.changed() | event.is_some();
        match event {
            Some(dhcp::Event::Configured(lease)) => setup.lease = Some(lease),
            Some(dhcp::Event::Deconfigured) => setup.lease = None,
            None => {}
        }
        setup.schedule();
        if changed {
            self.apply_setup(place, now);
        }
    }

    fn apply_setup(&mut self, place: usize, now: Instant) {
        let Some(interface) = self.interfaces.get_mut(place) else { return };
        let Some(setup) = &interface.setup else { return };
        self.route_epoch = self.route_epoch.wrapping_add(1);
        let new = setup.addresses();
        let mtu = setup.mtu();
        interface.routers = setup.routers();
        interface.advertised_mtu = mtu;
        let old = core::mem::replace(&mut interface.addresses, new);
        let gone = |cidr: &&Cidr| !interface.addresses.iter().any(|n| n.address == cidr.address);
        let is_new = |cidr: &&Cidr| !old.iter().any(|o| o.address == cidr.address);
        let new: Vec<Cidr> = interface.addresses.iter().filter(is_new).copied().collect();
        let lost: Vec<IpAddr> = old.iter().filter(gone).map(|cidr| cidr.address).collect();
        if !new.is_empty() {
            self.ntp.way_opened(now);
        }
        for cidr in new {
            log::info!("{}: {cidr}", interface.name);
            if let IpAddr::V4(address) = cidr.address {
                interface.announce(address);
            }
        }
        interface.flush();
        for address in lost {
            self.address_lost(address, now);
        }
        self.filter(place);
        let setups = || self.interfaces.iter().filter_map(|interface| interface.setup.as_ref());
        let names: Vec<IpAddr> = setups().flat_map(|setup| setup.name_servers()).collect();
        self.resolver.set_servers(names, now);
        self.use_time_servers(now);
        self.schedule_services();
    }

    /// Adds an address to interface `n`, as `ip addr add` does.
    pub fn add_address(&mut self, n: usize, cidr: Cidr, now: Instant) {
        let place = LOOPBACK + 1 + n;
        if let Some(setup) = self.interfaces.get_mut(place).and_then(|i| i.setup.as_mut())
            && setup.addresses().iter().all(|other| other.address != cidr.address)
        {
            setup.extra.push(cidr);
            self.apply_setup(place, now);
        }
    }

    /// Takes an address that was added away again; connections that used it are over.
    pub fn remove_address(&mut self, n: usize, address: IpAddr, now: Instant) {
        let place = LOOPBACK + 1 + n;
        if let Some(setup) = self.interfaces.get_mut(place).and_then(|i| i.setup.as_mut()) {
            setup.extra.retain(|cidr| cidr.address != address);
            self.apply_setup(place, now);
        }
    }

    fn address_lost(&mut self, address: IpAddr, now: Instant) {
        let of = |slot: &Slot| matches!(slot, Slot::Flow(flow) if flow.key.local == address);
        let lost: Vec<u32> =
            self.slots.iter().filter(|(_, slot)| of(slot)).map(|(id, _)| id.index).collect();
        for index in lost {
            self.fail_flow(index, Error::ConnectionAborted, now);
        }
    }

    /// Tells the card which groups it is to receive: ours, and those IPv6 needs.
    pub(crate) fn filter(&mut self, place: usize) {
        let Some(interface) = self.interfaces.get_mut(place) else { return };
        let mut macs = interface.groups.macs();
        macs.push(multicast_mac(IpAddr::V6(Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 1))));
        macs.push(multicast_mac(IpAddr::V4(Ipv4Addr::new(224, 0, 0, 1))));
        let ours = interface.addresses.iter().filter_map(|cidr| match cidr.address {
            IpAddr::V6(address) => Some(address),
            IpAddr::V4(_) => None,
        });
        for address in ours.chain(interface.tentative.iter().copied()) {
            macs.push(multicast_mac(solicited_node(address).into()));
        }
        sort_short(&mut macs, |&mac| mac);
        macs.dedup();
        interface.nic.set_receive_filter(ReceiveFilter::Multicast(&macs));
    }

    /// A datagram of the protocols that configure us. True: it was one.
    #[inline]
    pub(crate) fn configuration_datagram(
        &mut self,
        place: usize,
        datagram: &Received<'_>,
        now: Instant,
    ) -> bool {
        let &Received { source, source_port, destination_port, payload, .. } = datagram;
        match (source_port, destination_port) {
            (DHCP_SERVER_PORT, DHCP_CLIENT_PORT) => self.dhcp_datagram(place, payload, now),
            (DNS_PORT, port) if self.resolver.owns(port) => {
                self.resolver.receive(source, port, payload, now);
                self.services_tick(now);
                true
            }
            (NTP_PORT, port) if self.ntp.owns(port) => {
                self.ntp.receive(source, port, payload, now);
                self.services_tick(now);
                true
            }
            _ => false,
        }
    }

    fn dhcp_datagram(&mut self, place: usize, payload: &[u8], now: Instant) -> bool {
        let setup = self.interfaces.get_mut(place).and_then(|i| i.setup.as_mut());
        let Some(dhcp) = setup.and_then(|setup| setup.dhcp.as_mut()) else { return false };
        dhcp.receive(payload, now);
        self.configuration_tick(place, now);
        true
    }

    /// A packet to an address that is not ours yet: a DHCP offer may be.
    pub(crate) fn foreign(&mut self, place: usize, headers: &Headers, frame: &[u8], now: Instant) {
        let ports = (headers.source_port, headers.destination_port);
        let start = headers.transport_offset();
        if headers.shape.transport == Transport::Udp
            && ports == (DHCP_SERVER_PORT, DHCP_CLIENT_PORT)
            && !headers.is_fragment()
            && self.dhcp_datagram(place, &frame[start + 8..start + headers.transport_len], now)
        {
            return;
        }
        self.statistics.not_for_us += 1;
    }

    /// ICMPv6 that is neither echo, error nor neighbour discovery. The sum was checked.
    pub(crate) fn icmpv6_other(
        &mut self,
        place: usize,
        headers: &Headers,
        message: &[u8],
        now: Instant,
    ) {
        match (message.first(), headers.source) {
            (Some(&ROUTER_ADVERTISEMENT), IpAddr::V6(source)) if headers.hop_limit == 255 => {
                let setup = self.interfaces.get_mut(place).and_then(|i| i.setup.as_mut());
                let Some(setup) = setup else { return };
                setup.slaac.advertisement(source, message, now);
                self.configuration_tick(place, now);
            }
            _ => self.mld(place, headers, message, now),
        }
    }

    /// Somebody speaks for an address on the link: is it one we are about to take?
    pub(crate) fn claimed(&mut self, place: usize, heard: &nd::Nd, source: Ipv6Addr, now: Instant) {
        if heard.solicitation && !source.is_unspecified() {
            return;
        }
        let setup = self.interfaces.get_mut(place).and_then(|i| i.setup.as_mut());
        if let Some(setup) = setup {
            setup.slaac.claimed(heard.target);
            self.collect_setup(place, now);
        }
    }
}

fn send_dhcp(interface: &mut Interface, message: dhcp::Outgoing, now: Instant) {
    let dhcp::Outgoing { source, destination, payload } = message;
    let pair = Pair::V4(source, destination);
    let len = 8 + payload.len();
    let write = |packet: &mut [u8]| {
        packet::ip_header(packet, &pair, protocol::UDP, 64, len);
        packet::udp_header(&mut packet[20..], DHCP_CLIENT_PORT, DHCP_SERVER_PORT, len);
        packet[28..].copy_from_slice(&payload);
    };
    if destination.is_broadcast() {
        interface.send(BROADCAST_MAC, ethertype::IPV4, 20 + len, write);
    } else if let Some((next_hop, _)) = interface.next_hop(destination.into()) {
        interface.send_via(next_hop, 20 + len, now, write);
    }
}

fn send_slaac(interface: &mut Interface, message: &slaac::Outgoing) {
    let slaac::Outgoing { source, destination, message } = message;
    let pair = Pair::V6(*source, *destination);
    let mac = multicast_mac(IpAddr::V6(*destination));
    interface.send(mac, ethertype::IPV6, 40 + message.len(), |packet| {
        packet::ip_header(packet, &pair, protocol::ICMPV6, 255, message.len());
        packet[40..].copy_from_slice(message);
        packet::icmp_sum(&mut packet[40..], &pair);
    });
}

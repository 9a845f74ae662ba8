//! Multicast groups of one interface: who is in, and the reports that keep routers and switches
//! sending (IGMPv2, RFC 2236; MLDv2, RFC 3810).

use crate::address::multicast_mac;
use crate::frame::{ethertype, protocol};
use crate::interface::Interface;
use crate::packet::{self, Pair};
use alloc::vec::Vec;
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use smoltcp::time::{Duration, Instant};
use trireme_nic::{MacAddress, checksum};

/// Groups at most.
const CAPACITY: usize = 64;
/// Between the first report of a join and its repetition, at most (RFC 3810, 9.11).
const REPEAT: Duration = Duration::from_secs(1);

/// What a report says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Report {
    /// We joined.
    Joined,
    /// We are still in: the answer to a query.
    Member,
    /// We left.
    Left,
}

struct Group {
    address: IpAddr,
    /// Sockets in it.
    members: u32,
    /// When to report next, and what.
    report: Option<(Instant, Report)>,
}

pub(crate) struct Groups {
    groups: Vec<Group>,
    due: Option<Instant>,
}

impl Groups {
    pub(crate) fn new() -> Groups {
        Groups { groups: Vec::new(), due: None }
    }

    pub(crate) fn contains(&self, address: IpAddr) -> bool {
        self.groups.iter().any(|group| group.address == address)
    }

    /// One socket more is in. `None`: too many groups.
    pub(crate) fn join(&mut self, address: IpAddr, now: Instant) -> Option<()> {
        if let Some(group) = self.groups.iter_mut().find(|group| group.address == address) {
            group.members += 1;
            return Some(());
        }
        if self.groups.len() >= CAPACITY {
            return None;
        }
        self.groups.push(Group { address, members: 1, report: Some((now, Report::Joined)) });
        self.due = Some(now);
        Some(())
    }

    /// One socket less. True: that was the last.
    pub(crate) fn leave(&mut self, address: IpAddr) -> bool {
        let Some(at) = self.groups.iter().position(|group| group.address == address) else {
            return false;
        };
        self.groups[at].members -= 1;
        if self.groups[at].members > 0 {
            return false;
        }
        self.groups.swap_remove(at);
        true
    }

    pub(crate) fn addresses(&self) -> impl Iterator<Item = IpAddr> {
        self.groups.iter().map(|group| group.address)
    }

    /// Their Ethernet addresses, for the card's filter.
    pub(crate) fn macs(&self) -> Vec<MacAddress> {
        self.addresses().map(multicast_mac).collect()
    }

    /// A router asks who is in `asked` (`None`: in any group of the family), and wants to know
    /// within `patience`. `random` spreads the answers.
    pub(crate) fn queried(
        &mut self,
        asked: Option<IpAddr>,
        ipv4: bool,
        patience: Duration,
        random: u32,
        now: Instant,
    ) {
        for (n, group) in self.groups.iter_mut().enumerate() {
            if group.address.is_ipv4() != ipv4 || asked.is_some_and(|asked| asked != group.address)
            {
                continue;
            }
            let random = u64::from(random.rotate_left(n as u32 * 5));
            let spread = (random * patience.total_micros()) >> 32;
            let at = now + Duration::from_micros(spread);
            if group.report.is_none_or(|(other, _)| at < other) {
                group.report = Some((at, Report::Member));
            }
            self.due = Some(self.due.map_or(at, |due| due.min(at)));
        }
    }

    pub(crate) fn due(&self) -> Option<Instant> {
        self.due
    }

    /// Takes out one report that is due.
    pub(crate) fn next_report(&mut self, now: Instant) -> Option<(IpAddr, Report)> {
        let due =
            self.groups.iter_mut().find(|group| group.report.is_some_and(|(at, _)| at <= now));
        let Some(group) = due else {
            self.due = self.groups.iter().filter_map(|group| Some(group.report?.0)).min();
            return None;
        };
        let (_, report) = group.report.take()?;
        if report == Report::Joined {
            // Said twice, in case the first is lost.
            group.report = Some((now + REPEAT, Report::Member));
        }
        Some((group.address, report))
    }
}

/// Nobody reports these: everyone is in, or they do not leave the host (RFC 2236, 6; RFC 3810, 6).
fn is_unreported(group: IpAddr) -> bool {
    match group {
        IpAddr::V4(group) => group == Ipv4Addr::new(224, 0, 0, 1),
        IpAddr::V6(group) => {
            let scope = group.segments()[0] & 0xf;
            scope < 2 || group == Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 1)
        }
    }
}

impl Interface {
    /// Sends a report about a group.
    pub(crate) fn report(&mut self, group: IpAddr, report: Report) {
        if self.loopback || is_unreported(group) {
            return;
        }
        match group {
            IpAddr::V4(group) => self.igmp_report(group, report),
            IpAddr::V6(group) => self.mld_report(group, report),
        }
    }

    fn igmp_report(&mut self, group: Ipv4Addr, report: Report) {
        let Some(IpAddr::V4(source)) = self.source_for(group.into()) else { return };
        let (kind, destination) = match report {
            Report::Left => (0x17, Ipv4Addr::new(224, 0, 0, 2)),
            Report::Joined | Report::Member => (0x16, group),
        };
        let mac = multicast_mac(destination.into());
        self.send(mac, ethertype::IPV4, 32, |packet| {
            // The header has the router alert option (RFC 2113), so it is 24 bytes long.
            packet::ip_header(packet, &Pair::V4(source, destination), protocol::IGMP, 1, 12);
            packet[0] = 0x46;
            packet[10..12].fill(0);
            packet[20..24].copy_from_slice(&[0x94, 4, 0, 0]);
            let sum = !checksum::sum(&packet[..24]);
            packet[10..12].copy_from_slice(&sum.to_be_bytes());
            let message = &mut packet[24..];
            message[..4].copy_from_slice(&[kind, 0, 0, 0]);
            message[4..].copy_from_slice(&group.octets());
            let sum = !checksum::sum(message);
            message[2..4].copy_from_slice(&sum.to_be_bytes());
        });
    }

    fn mld_report(&mut self, group: Ipv6Addr, report: Report) {
        let link_local = self.addresses.iter().find_map(|cidr| match cidr.address {
            IpAddr::V6(address) if crate::address::is_link_local(address) => Some(address),
            _ => None,
        });
        // While there is none yet: RFC 3810, 5.2.13.
        let source = link_local.unwrap_or(Ipv6Addr::UNSPECIFIED);
        let destination = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 0x16);
        // Exclude nobody, or include nobody (RFC 3810, 5.2.12).
        let record = match report {
            Report::Member => 2,
            Report::Left => 3,
            Report::Joined => 4,
        };
        let pair = Pair::V6(source, destination);
        self.send(multicast_mac(destination.into()), ethertype::IPV6, 76, |packet| {
            packet::ip_header(packet, &pair, protocol::HOP_BY_HOP, 1, 36);
            // Router alert for MLD (RFC 2711), padded.
            packet[40..48].copy_from_slice(&[protocol::ICMPV6, 0, 5, 2, 0, 0, 1, 0]);
            let message = &mut packet[48..];
            message[..8].copy_from_slice(&[143, 0, 0, 0, 0, 0, 0, 1]);
            message[8..12].copy_from_slice(&[record, 0, 0, 0]);
            message[12..28].copy_from_slice(&group.octets());
            packet::icmp_sum(message, &pair);
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_join_is_reported_twice_and_a_query_is_answered_in_time() {
        let mut groups = Groups::new();
        let group: IpAddr = "239.1.2.3".parse().unwrap();
        let at = Instant::from_secs;
        groups.join(group, at(0)).unwrap();
        groups.join(group, at(0)).unwrap();
        assert_eq!(groups.next_report(at(0)), Some((group, Report::Joined)));
        assert_eq!(groups.next_report(at(0)), None);
        assert_eq!(groups.due(), Some(at(1)));
        assert_eq!(groups.next_report(at(1)), Some((group, Report::Member)));
        assert_eq!(groups.next_report(at(1)), None);
        assert_eq!(groups.due(), None);
        groups.queried(None, false, Duration::from_secs(10), u32::MAX, at(5));
        assert_eq!(groups.due(), None, "the other family");
        groups.queried(None, true, Duration::from_secs(10), u32::MAX, at(5));
        assert!(groups.due().unwrap() <= at(15));
        assert_eq!(groups.next_report(at(15)), Some((group, Report::Member)));
        assert!(!groups.leave(group));
        assert!(groups.leave(group));
        assert!(!groups.contains(group));
    }
}

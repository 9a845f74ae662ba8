//! Joining and leaving multicast groups.

use crate::Error;
use crate::address::Cidr;
use crate::frame::Headers;
use crate::multicast::Report;
use crate::route::LOOPBACK;
use crate::socket::{SocketId, SocketOption};
use crate::stack::{Slot, Stack};
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use smoltcp::time::{Duration, Instant};

impl Stack {
    /// A join or leave option.
    pub(crate) fn membership(
        &mut self,
        id: SocketId,
        option: SocketOption,
        now: Instant,
    ) -> Result<(), Error> {
        let (group, place, join) = match option {
            SocketOption::JoinMulticastV4(group, at) => {
                (IpAddr::V4(group), self.place_with(at.into())?, true)
            }
            SocketOption::LeaveMulticastV4(group, at) => {
                (IpAddr::V4(group), self.place_with(at.into())?, false)
            }
            SocketOption::JoinMulticastV6(group, number) => {
                (IpAddr::V6(group), self.place_numbered(number)?, true)
            }
            SocketOption::LeaveMulticastV6(group, number) => {
                (IpAddr::V6(group), self.place_numbered(number)?, false)
            }
            _ => return Err(Error::InvalidArgument),
        };
        if !group.is_multicast() {
            return Err(Error::InvalidArgument);
        }
        let Some(Slot::Datagram(socket)) = self.slots.get_mut(id) else {
            return Err(Error::NotSupported);
        };
        let member = socket.groups.iter().position(|joined| *joined == (place, group));
        match (join, member) {
            (true, Some(_)) => Err(Error::AddressInUse),
            (true, None) => {
                socket.groups.push((place, group));
                if self.join(place, group, now) {
                    return Ok(());
                }
                if let Some(Slot::Datagram(socket)) = self.slots.get_mut(id) {
                    socket.groups.pop();
                }
                Err(Error::NoBufferSpace)
            }
            (false, Some(at)) => {
                socket.groups.swap_remove(at);
                self.leave(place, group);
                Ok(())
            }
            (false, None) => Err(Error::AddressNotAvailable),
        }
    }

    /// The interface with an address; unspecified: the first card.
    fn place_with(&self, address: IpAddr) -> Result<usize, Error> {
        let has = |cidrs: &[Cidr]| cidrs.iter().any(|cidr| cidr.address == address);
        if address.is_unspecified() {
            return self.place_numbered(0);
        }
        self.interfaces
            .iter()
            .position(|interface| has(&interface.addresses))
            .ok_or(Error::AddressNotAvailable)
    }

    /// Interface number n, from 1 for `lo`; 0: the first card, or `lo` if there is none.
    fn place_numbered(&self, number: u32) -> Result<usize, Error> {
        let place = match number {
            0 => (self.interfaces.len() - 1).min(LOOPBACK + 1),
            n => n as usize - 1,
        };
        if place < self.interfaces.len() { Ok(place) } else { Err(Error::AddressNotAvailable) }
    }

    fn join(&mut self, place: usize, group: IpAddr, now: Instant) -> bool {
        let Some(interface) = self.interfaces.get_mut(place) else { return false };
        if interface.groups.join(group, now).is_none() {
            return false;
        }
        while let Some((group, report)) = interface.groups.next_report(now) {
            interface.report(group, report);
        }
        interface.flush();
        self.filter(place);
        true
    }

    /// A socket leaves a group.
    pub(crate) fn leave(&mut self, place: usize, group: IpAddr) {
        if let Some(interface) = self.interfaces.get_mut(place)
            && interface.groups.leave(group)
        {
            interface.report(group, Report::Left);
            interface.flush();
            self.filter(place);
        }
    }

    /// An IGMP message: a query is answered, reports of others do not concern us.
    pub(crate) fn igmp(&mut self, place: usize, message: &[u8], now: Instant) {
        let Some(&[kind, tenths, _, _, a, b, c, d]) = message.first_chunk() else { return };
        if kind != 0x11 || trireme_nic::checksum::sum(message) != 0xffff {
            return;
        }
        let group = Ipv4Addr::new(a, b, c, d);
        let asked = (!group.is_unspecified()).then_some(IpAddr::V4(group));
        // Version 1 queries have none and mean ten seconds (RFC 2236, 4).
        let tenths = if tenths == 0 { 100 } else { tenths };
        let patience = Duration::from_millis(u64::from(tenths) * 100);
        let random = self.random.next_u32();
        self.interfaces[place].groups.queried(asked, true, patience, random, now);
    }

    /// An MLD message, sum checked: likewise.
    pub(crate) fn mld(&mut self, place: usize, headers: &Headers, message: &[u8], now: Instant) {
        const QUERY: u8 = 130;
        let Some(fixed) = message.first_chunk::<24>() else { return };
        if fixed[0] != QUERY || headers.hop_limit != 1 {
            self.statistics.unknown_protocol += u64::from(fixed[0] != QUERY);
            return;
        }
        let group = Ipv6Addr::from(core::array::from_fn::<u8, 16, _>(|i| fixed[8 + i]));
        let asked = (!group.is_unspecified()).then_some(IpAddr::V6(group));
        // Codes from 32768 are a float of at least that many milliseconds (RFC 3810, 5.1.3).
        let code = u16::from_be_bytes([fixed[4], fixed[5]]).min(0x8000);
        let patience = Duration::from_millis(u64::from(code));
        let random = self.random.next_u32();
        self.interfaces[place].groups.queried(asked, false, patience, random, now);
    }
}

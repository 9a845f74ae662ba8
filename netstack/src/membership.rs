//! Joining and leaving multicast groups.

use crate::Error;
use crate::address::Cidr;
use crate::route::LOOPBACK;
use crate::socket::{SocketId, SocketOption};
use crate::stack::{Slot, Stack};
use core::net::IpAddr;
use smoltcp::time::Instant;

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
                self.leave(place, group, now);
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

    fn join(&mut self, place: usize, group: IpAddr, _now: Instant) -> bool {
        let Some(interface) = self.interfaces.get_mut(place) else { return false };
        match interface.groups.join(group) {
            None => return false,
            Some(false) => return true,
            Some(true) => {}
        }
        self.filter(place);
        true
    }

    /// A socket leaves a group.
    pub(crate) fn leave(&mut self, place: usize, group: IpAddr, _now: Instant) {
        if let Some(interface) = self.interfaces.get_mut(place)
            && interface.groups.leave(group)
        {
            self.filter(place);
        }
    }
}

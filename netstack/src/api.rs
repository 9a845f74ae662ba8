//! The socket calls.
//!
//! Each does its network work before it returns: a send transmits and rings the doorbell, a receive
//! opens the window, a close sends the FIN. None waits.

use crate::Error;
use crate::flow::FlowKey;
use crate::listen::Listener;
use crate::neighbour::Waiter;
use crate::queue::Queue;
use crate::route::told;
use crate::socket::{
    Family, Kind, Options, Readiness, Shutdown, SocketId, SocketOption, SocketOptionName,
    canonical, presented,
};
use crate::stack::{Fresh, Slot, Stack};
use crate::tcp::{Flow, Phase};
use crate::udp::{Datagram, unspecified};
use core::net::{IpAddr, SocketAddr};
use smoltcp::socket::tcp::State;
use smoltcp::time::{Duration, Instant};
use smoltcp::wire::{IpAddress, IpEndpoint, IpListenEndpoint};

impl Stack {
    /// Makes a socket.
    pub fn socket(&mut self, family: Family, kind: Kind) -> Result<SocketId, Error> {
        let options = Options::DEFAULT;
        Ok(match kind {
            Kind::Stream => self.insert(Slot::Fresh(Fresh {
                family,
                local: unspecified(family),
                port: 0,
                options,
            })),
            Kind::Datagram => {
                let capacity = (self.buffers.budget() / 64).clamp(8 << 10, 256 << 10);
                if !self.buffers.reserve(capacity) {
                    self.statistics.no_memory += 1;
                    return Err(Error::NoBufferSpace);
                }
                self.insert(Slot::Datagram(Datagram::new(family, options, capacity)))
            }
        })
    }

    fn slot(&self, id: SocketId) -> Result<&Slot, Error> {
        self.slots.get(id).ok_or(Error::BadDescriptor)
    }

    fn slot_mut(&mut self, id: SocketId) -> Result<&mut Slot, Error> {
        self.slots.get_mut(id).ok_or(Error::BadDescriptor)
    }

    /// Gives a socket its local address. Port 0: any free one.
    pub fn bind(&mut self, id: SocketId, address: SocketAddr) -> Result<(), Error> {
        let (family, kind, bound, only_v6, reuse) = match self.slot(id)? {
            Slot::Fresh(fresh) => {
                let Options { only_v6, reuse_address, .. } = fresh.options;
                (fresh.family, Kind::Stream, fresh.port != 0, only_v6, reuse_address)
            }
            Slot::Datagram(socket) => {
                let Options { only_v6, reuse_address, .. } = socket.options;
                (socket.family, Kind::Datagram, socket.port != 0, only_v6, reuse_address)
            }
            Slot::Flow(_) | Slot::Listener(_) => return Err(Error::InvalidArgument),
        };
        if bound {
            return Err(Error::InvalidArgument);
        }
        let mut local = address.ip();
        if !local.is_unspecified() {
            local = canonical(local);
        }
        let fits = match (family, local) {
            (Family::V4, IpAddr::V4(_)) | (Family::V6, IpAddr::V6(_)) => true,
            (Family::V6, IpAddr::V4(_)) => !only_v6,
            (Family::V4, IpAddr::V6(_)) => false,
        };
        if !fits {
            return Err(Error::InvalidArgument);
        }
        if !self.is_bindable(local) {
            return Err(Error::AddressNotAvailable);
        }
        let port = if address.port() == 0 {
            self.free_port(|stack, port| !stack.ports.users(kind, port).is_empty())?
        } else {
            if self.is_taken(kind, local, address.port(), family, only_v6, reuse) {
                return Err(Error::AddressInUse);
            }
            address.port()
        };
        match self.slot_mut(id)? {
            Slot::Fresh(fresh) => (fresh.local, fresh.port) = (local, port),
            Slot::Datagram(socket) => (socket.local, socket.port) = (local, port),
            Slot::Flow(_) | Slot::Listener(_) => {}
        }
        self.ports.add(kind, port, id.index);
        Ok(())
    }

    /// Has another socket this address, and will not share?
    fn is_taken(
        &self,
        kind: Kind,
        local: IpAddr,
        port: u16,
        family: Family,
        only_v6: bool,
        reuse: bool,
    ) -> bool {
        self.ports.users(kind, port).iter().any(|&user| {
            let (other, other_family, options, listens) = match self.slots.at(user) {
                Some(Slot::Fresh(fresh)) => (fresh.local, fresh.family, &fresh.options, false),
                Some(Slot::Listener(state)) => (state.local, state.family, &state.options, true),
                Some(Slot::Datagram(socket)) => {
                    (socket.local, socket.family, &socket.options, false)
                }
                // Connections are told apart by their peer.
                Some(Slot::Flow(_)) | None => return false,
            };
            if reuse && options.reuse_address && !listens {
                return false;
            }
            let apart = family != other_family
                && (if family == Family::V6 { only_v6 } else { options.only_v6 });
            !apart && (other == local || other.is_unspecified() || local.is_unspecified())
        })
    }

    /// Lets connections come. `backlog` is a wish: a burst must not be lost.
    pub fn listen(&mut self, id: SocketId, backlog: usize, _now: Instant) -> Result<(), Error> {
        let slot = self.slot(id)?;
        let Slot::Fresh(fresh) = slot else {
            return match slot {
                Slot::Listener(_) => Ok(()),
                Slot::Datagram(_) => Err(Error::NotSupported),
                _ => Err(Error::InvalidArgument),
            };
        };
        let (family, local, options) = (fresh.family, fresh.local, fresh.options);
        let mut port = fresh.port;
        let listens = |user: &u32| {
            matches!(self.slots.at(*user), Some(Slot::Listener(other))
            if other.local == local && other.family == family)
        };
        if port != 0 && self.ports.users(Kind::Stream, port).iter().any(listens) {
            return Err(Error::AddressInUse);
        }
        if port == 0 {
            port =
                self.free_port(|stack, port| !stack.ports.users(Kind::Stream, port).is_empty())?;
            self.ports.add(Kind::Stream, port, id.index);
        }
        *self.slot_mut(id)? = Slot::Listener(Listener::new(local, port, family, options, backlog));
        Ok(())
    }

    /// Takes an established connection from the queue, with the peer's address.
    pub fn accept(&mut self, id: SocketId, _now: Instant) -> Result<(SocketId, SocketAddr), Error> {
        let Slot::Listener(state) = self.slot_mut(id)? else {
            return Err(Error::InvalidArgument);
        };
        state.crowded = false;
        let index = state.queue.pop_front().ok_or(Error::WouldBlock)?;
        let accepted = self.slots.id(index);
        let flow = self.flow_mut(index).ok_or(Error::WouldBlock)?;
        flow.phase = Phase::Open;
        flow.reported = flow.readiness();
        let peer = told(flow.key.remote, flow.key.remote_port, flow.family, flow.interface);
        Ok((accepted, peer))
    }

    /// Connects. TCP: `Err(InProgress)`, then the socket becomes writable or has an error. UDP: names
    /// the peer, the only one heard from then on.
    pub fn connect(
        &mut self,
        id: SocketId,
        address: SocketAddr,
        now: Instant,
    ) -> Result<(), Error> {
        match self.slot(id)? {
            Slot::Fresh(_) => self.connect_stream(id, address, now),
            Slot::Datagram(_) => self.connect_datagram(id, address),
            Slot::Listener(_) => Err(Error::InvalidArgument),
            Slot::Flow(flow) => match flow.phase {
                Phase::Connecting => Err(Error::InProgress),
                _ => Err(Error::AlreadyConnected),
            },
        }
    }

    fn connect_stream(
        &mut self,
        id: SocketId,
        address: SocketAddr,
        now: Instant,
    ) -> Result<(), Error> {
        let Slot::Fresh(fresh) = self.slot(id)? else { return Err(Error::InvalidArgument) };
        let Fresh { family, local: bound, port: bound_port, options } = *fresh;
        let remote = canonical(address.ip());
        check_family(family, remote, &options)?;
        if address.port() == 0 || remote.is_multicast() {
            return Err(Error::AddressNotAvailable);
        }
        let route = self.route(remote, self.scope_of(&address)?)?;
        if let IpAddr::V4(v4) = remote
            && self.interfaces[route.interface].is_broadcast(v4)
        {
            return Err(Error::NetworkUnreachable);
        }
        let local = if bound.is_unspecified() { route.source } else { bound };
        let named = |stack: &Stack, port: u16| {
            let peer = (route.destination, address.port());
            FlowKey::new(&stack.flow_key, (local, port), peer)
        };
        let used =
            |stack: &Stack, port| stack.flows.find(&named(stack, port), &stack.slots).is_some();
        let mut port = bound_port;
        if bound_port == 0 {
            port = self.free_port(|stack, port| {
                used(stack, port) || !stack.ports.users(Kind::Stream, port).is_empty()
            })?;
        } else if used(self, bound_port) {
            return Err(Error::AddressInUse);
        }
        let key = named(self, port);
        let wanted = options.receive_buffer.max(options.send_buffer);
        let Some(mut engine) = self.buffers.take(wanted) else {
            self.statistics.no_memory += 1;
            return Err(Error::NoBufferSpace);
        };
        let to = IpEndpoint { addr: IpAddress::from(key.remote), port: key.remote_port };
        let from =
            IpListenEndpoint { addr: Some(IpAddress::from(key.local)), port: key.local_port };
        let context = self.machines.any().context();
        if engine.socket_mut().connect(context, to, from).is_err() {
            self.buffers.give(engine);
            return Err(Error::AddressNotAvailable);
        }
        let mac = self.interfaces[route.interface].mac_of(route.next_hop, now);
        let mut wire = self.wire(route.interface, key, mac.unwrap_or_default());
        wire.isn = Some(self.isn(&key, now));
        let interface = route.interface;
        let mut flow =
            Flow::new(engine, key, interface, wire, Phase::Connecting, family, options, now);
        flow.waiting = mac.is_none();
        if bound_port != 0 {
            self.ports.remove(Kind::Stream, bound_port, id.index);
        }
        *self.slot_mut(id)? = Slot::Flow(flow);
        self.flows.insert(id.index, &self.slots);
        if mac.is_none()
            && !self.interfaces[interface].neighbours.wait(
                route.next_hop,
                Waiter::Flow(id.index),
                now,
            )
        {
            self.fail_flow(id.index, Error::NoBufferSpace, now);
        }
        self.turn(id.index, false, now);
        self.interfaces[interface].flush();
        Err(Error::InProgress)
    }

    fn connect_datagram(&mut self, id: SocketId, address: SocketAddr) -> Result<(), Error> {
        let index = id.index;
        let Slot::Datagram(socket) = self.slot_mut(id)? else { return Err(Error::BadDescriptor) };
        if let Some(old) = socket.flow {
            self.connected.remove(&old, index);
        }
        let Slot::Datagram(socket) = self.slot_mut(id)? else { return Err(Error::BadDescriptor) };
        (socket.flow, socket.remote) = (None, None);
        let (family, bound, options, port) =
            (socket.family, socket.local, socket.options, socket.port);
        let remote = canonical(address.ip());
        check_family(family, remote, &options)?;
        if address.port() == 0 {
            return Err(Error::InvalidArgument);
        }
        let scope = self.scope_of(&address)?;
        let route = self.route(remote, scope)?;
        let local = if bound.is_unspecified() { route.source } else { bound };
        let port = if port == 0 { self.bind_ephemeral(index)? } else { port };
        let peer = (route.destination, address.port());
        let key = FlowKey::new(&self.flow_key, (local, port), peer);
        let Slot::Datagram(socket) = self.slot_mut(id)? else { return Err(Error::BadDescriptor) };
        socket.remote = Some((route.destination, address.port()));
        socket.flow = Some(key);
        socket.scope = scope;
        self.connected.insert(index, &self.slots);
        Ok(())
    }

    /// Sends bytes; returns how many were taken. For TCP that may be fewer than given.
    pub fn send(&mut self, id: SocketId, data: &[u8], now: Instant) -> Result<usize, Error> {
        self.send_vectored(id, &[data], now)
    }

    /// Sends bytes from several places as one write.
    pub fn send_vectored(
        &mut self,
        id: SocketId,
        parts: &[&[u8]],
        now: Instant,
    ) -> Result<usize, Error> {
        match self.slot_mut(id)? {
            Slot::Flow(flow) => {
                sendable(flow)?;
                let socket = flow.engine.socket_mut();
                let mut sent = 0;
                for part in parts {
                    let taken = socket.send_slice(part).map_err(|_| Error::BrokenPipe)?;
                    sent += taken;
                    if taken < part.len() {
                        break;
                    }
                }
                if sent == 0 && parts.iter().any(|part| !part.is_empty()) {
                    flow.reported = flow.readiness();
                    return Err(Error::WouldBlock);
                }
                self.finish(id.index, now);
                Ok(sent)
            }
            Slot::Datagram(_) => self.udp_send(id.index, parts, None, now),
            Slot::Fresh(_) | Slot::Listener(_) => Err(Error::NotConnected),
        }
    }

    /// Lets `fill` write into the send ring itself: it is given room and returns how much of it it
    /// filled. TCP only.
    pub fn send_with<F>(&mut self, id: SocketId, now: Instant, fill: F) -> Result<usize, Error>
    where
        F: FnOnce(&mut [u8]) -> usize,
    {
        let Slot::Flow(flow) = self.slot_mut(id)? else { return Err(Error::NotSupported) };
        sendable(flow)?;
        let socket = flow.engine.socket_mut();
        let filled = socket.send(|room| {
            if room.is_empty() {
                return (0, None);
            }
            let filled = fill(room).min(room.len());
            (filled, Some(filled))
        });
        match filled {
            Ok(Some(filled)) => {
                self.finish(id.index, now);
                Ok(filled)
            }
            Ok(None) => {
                flow.reported = flow.readiness();
                Err(Error::WouldBlock)
            }
            Err(_) => Err(Error::BrokenPipe),
        }
    }

    /// Turn and doorbell after a call.
    #[inline]
    fn finish(&mut self, index: u32, now: Instant) {
        self.turn(index, false, now);
        if let Some(Slot::Flow(flow)) = self.slots.at(index) {
            let interface = flow.interface;
            self.interfaces[interface].flush();
        }
    }

    /// Bytes were read: a turn if the window has grown enough to tell the peer (a quarter of it,
    /// as RFC 9293, 3.8.6.2.2 has it for small ones).
    #[inline]
    fn has_read(&mut self, index: u32, read: usize, now: Instant) {
        let Some(flow) = self.flow_mut(index) else { return };
        flow.read += read;
        // After the peer's end, `finish` says when a read has uncovered it.
        if flow.read >= flow.engine.ring() / 4 || flow.state() != State::Established {
            self.finish(index, now);
        } else {
            flow.reported = flow.readiness();
        }
    }

    /// Receives bytes, `Ok(0)` at the end of the stream. `peek`: they stay.
    pub fn recv(
        &mut self,
        id: SocketId,
        into: &mut [u8],
        peek: bool,
        now: Instant,
    ) -> Result<usize, Error> {
        match self.slot_mut(id)? {
            Slot::Flow(flow) => {
                if let Some(end) = receivable(flow)? {
                    return Ok(end);
                }
                let socket = flow.engine.socket_mut();
                let read = match peek {
                    true => socket.peek_slice(into),
                    false => socket.recv_slice(into),
                };
                let read = read.map_err(|_| Error::ConnectionReset)?;
                if !peek {
                    self.has_read(id.index, read, now);
                }
                Ok(read)
            }
            Slot::Datagram(_) => {
                let (read, _) = self.recv_from(id, into, peek, now)?;
                Ok(read)
            }
            Slot::Fresh(_) | Slot::Listener(_) => Err(Error::NotConnected),
        }
    }

    /// Receives into several places, filling one after the other.
    pub fn recv_vectored(
        &mut self,
        id: SocketId,
        parts: &mut [&mut [u8]],
        now: Instant,
    ) -> Result<usize, Error> {
        if let Slot::Datagram(socket) = self.slot_mut(id)? {
            let mut received = 0;
            let (_, first, second) = datagram(socket)?;
            let mut bytes = first.iter().chain(second);
            'parts: for part in parts {
                for place in part.iter_mut() {
                    let Some(byte) = bytes.next() else { break 'parts };
                    *place = *byte;
                    received += 1;
                }
            }
            socket.queue.pop();
            return Ok(received);
        }
        let mut received = 0;
        for part in parts.iter_mut().filter(|part| !part.is_empty()) {
            match self.recv(id, part, false, now) {
                Ok(read) => {
                    received += read;
                    if read < part.len() {
                        break;
                    }
                }
                Err(error) if received == 0 => return Err(error),
                Err(_) => break,
            }
        }
        Ok(received)
    }

    /// Lets `take` read the receive ring (TCP) or queue (UDP) itself: it is given what lies in one
    /// piece, and returns how much of it it took. An empty slice is the end of the stream.
    pub fn recv_with<F>(&mut self, id: SocketId, now: Instant, take: F) -> Result<usize, Error>
    where
        F: FnOnce(&[u8]) -> usize,
    {
        match self.slot_mut(id)? {
            Slot::Flow(flow) => {
                if receivable(flow)?.is_some() {
                    return Ok(take(&[]));
                }
                let socket = flow.engine.socket_mut();
                let taken = socket.recv(|bytes| {
                    let taken = take(bytes).min(bytes.len());
                    (taken, taken)
                });
                let taken = taken.map_err(|_| Error::ConnectionReset)?;
                self.has_read(id.index, taken, now);
                Ok(taken)
            }
            Slot::Datagram(socket) => {
                let (_, first, second) = datagram(socket)?;
                let taken = match second {
                    [] => take(first).min(first.len()),
                    _ => {
                        let whole = [first, second].concat();
                        take(&whole).min(whole.len())
                    }
                };
                socket.queue.pop();
                Ok(taken)
            }
            Slot::Fresh(_) | Slot::Listener(_) => Err(Error::NotConnected),
        }
    }

    /// Sends a datagram to an address.
    pub fn send_to(
        &mut self,
        id: SocketId,
        data: &[u8],
        address: SocketAddr,
        now: Instant,
    ) -> Result<usize, Error> {
        match self.slot(id)? {
            Slot::Datagram(socket) => {
                let remote = canonical(address.ip());
                check_family(socket.family, remote, &socket.options)?;
                let to = (remote, address.port(), self.scope_of(&address)?);
                self.udp_send(id.index, &[data], Some(to), now)
            }
            Slot::Flow(_) => self.send(id, data, now),
            Slot::Fresh(_) | Slot::Listener(_) => Err(Error::NotConnected),
        }
    }

    /// Receives a datagram and its sender; what does not fit is lost. Returns the bytes copied.
    pub fn recv_from(
        &mut self,
        id: SocketId,
        into: &mut [u8],
        peek: bool,
        now: Instant,
    ) -> Result<(usize, SocketAddr), Error> {
        let socket = match self.slot_mut(id)? {
            Slot::Datagram(socket) => socket,
            Slot::Flow(flow) => {
                let peer = told(flow.key.remote, flow.key.remote_port, flow.family, flow.interface);
                return Ok((self.recv(id, into, peek, now)?, peer));
            }
            Slot::Fresh(_) | Slot::Listener(_) => return Err(Error::NotConnected),
        };
        let family = socket.family;
        let (sender, first, second) = match datagram(socket) {
            Ok(datagram) => datagram,
            Err(Error::BrokenPipe) => {
                return Ok((0, SocketAddr::new(unspecified(family), 0)));
            }
            Err(error) => return Err(error),
        };
        let head = first.len().min(into.len());
        into[..head].copy_from_slice(&first[..head]);
        let tail = second.len().min(into.len() - head);
        into[head..head + tail].copy_from_slice(&second[..tail]);
        let from = told(sender.from, sender.port, family, sender.interface.into());
        if !peek {
            socket.queue.pop();
        }
        Ok((head + tail, from))
    }

    /// Shuts one or both halves.
    pub fn shutdown(&mut self, id: SocketId, how: Shutdown, now: Instant) -> Result<(), Error> {
        let (read, write) = (how != Shutdown::Write, how != Shutdown::Read);
        match self.slot_mut(id)? {
            Slot::Flow(flow) => {
                if matches!(flow.state(), State::SynSent | State::Closed) {
                    return Err(Error::NotConnected);
                }
                flow.shut_read |= read;
                if write {
                    flow.engine.socket_mut().close();
                }
                self.turn(id.index, true, now);
                self.finish(id.index, now);
                self.announce(id.index);
                Ok(())
            }
            Slot::Datagram(socket) => {
                if socket.remote.is_none() {
                    return Err(Error::NotConnected);
                }
                socket.shut_read |= read;
                socket.shut_write |= write;
                self.announce(id.index);
                Ok(())
            }
            Slot::Fresh(_) | Slot::Listener(_) => Err(Error::NotConnected),
        }
    }

    /// Closes a socket: its name is gone at once, what TCP still has to do is done in the background.
    pub fn close(&mut self, id: SocketId, now: Instant) -> Result<(), Error> {
        let index = id.index;
        match self.slot_mut(id)? {
            Slot::Fresh(fresh) => {
                let port = fresh.port;
                if port != 0 {
                    self.ports.remove(Kind::Stream, port, index);
                }
                self.slots.remove(index);
            }
            Slot::Listener(state) => {
                let port = state.port;
                self.ports.remove(Kind::Stream, port, index);
                self.close_pending(index, now);
                self.slots.remove(index);
            }
            Slot::Datagram(socket) => {
                let (port, flow, capacity) = (socket.port, socket.flow, socket.queue.capacity());
                let groups = core::mem::take(&mut socket.groups);
                if port != 0 {
                    self.ports.remove(Kind::Datagram, port, index);
                }
                if let Some(flow) = flow {
                    self.connected.remove(&flow, index);
                }
                for (interface, group) in groups {
                    self.leave(interface, group);
                }
                self.buffers.release(capacity);
                self.slots.remove(index);
            }
            Slot::Flow(flow) => {
                let interface = flow.interface;
                flow.phase = Phase::Orphan;
                let abortive = flow.options.linger == Some(Duration::ZERO);
                // Unread bytes: the peer must learn that they were lost (RFC 2525, 2.17).
                let unread = flow.socket().recv_queue() > 0;
                if abortive || unread {
                    flow.engine.socket_mut().abort();
                } else {
                    flow.engine.socket_mut().close();
                }
                if flow.waiting {
                    // The SYN never left.
                    flow.engine.socket_mut().abort();
                    self.remove_flow(index);
                    return Ok(());
                }
                self.slots.rename(index);
                self.turn(index, false, now);
                self.interfaces[interface].flush();
            }
        }
        Ok(())
    }

    /// A listener goes, and with it what it had not yet given away.
    fn close_pending(&mut self, listener: u32, now: Instant) {
        let of_listener = |slot: &Slot| {
            matches!(slot, Slot::Flow(Flow { phase: Phase::HalfOpen(of) | Phase::Queued(of), .. })
                if *of == listener)
        };
        let pending: alloc::vec::Vec<(SocketId, bool)> = self
            .slots
            .iter()
            .filter(|(_, slot)| of_listener(slot))
            .map(|(id, slot)| {
                let half =
                    matches!(slot, Slot::Flow(flow) if flow.phase == Phase::HalfOpen(listener));
                (id, half)
            })
            .collect();
        for (id, half_open) in pending {
            if half_open {
                self.drop_half_open(id.index, listener);
            } else if let Some(flow) = self.flow_mut(id.index) {
                flow.options.linger = Some(Duration::ZERO);
                // It is a socket like any other, only nobody has its name yet.
                if self.close(id, now).is_err() {
                    self.remove_flow(id.index);
                }
            }
        }
    }

    /// The local address; unspecified and port 0 before it is bound.
    pub fn local_address(&self, id: SocketId) -> Result<SocketAddr, Error> {
        let (address, port, family) = match self.slot(id)? {
            Slot::Fresh(fresh) => (fresh.local, fresh.port, fresh.family),
            Slot::Listener(state) => (state.local, state.port, state.family),
            Slot::Flow(flow) => (flow.key.local, flow.key.local_port, flow.family),
            Slot::Datagram(socket) => {
                let local = socket.flow.map_or(socket.local, |flow| flow.local);
                (local, socket.port, socket.family)
            }
        };
        Ok(SocketAddr::new(presented(address, family), port))
    }

    /// The peer's address.
    pub fn peer_address(&self, id: SocketId) -> Result<SocketAddr, Error> {
        let (remote, port, family) = match self.slot(id)? {
            Slot::Flow(flow) if !matches!(flow.state(), State::SynSent | State::Closed) => {
                let (remote, port) = (flow.key.remote, flow.key.remote_port);
                return Ok(told(remote, port, flow.family, flow.interface));
            }
            Slot::Datagram(socket) => {
                let (remote, port) = socket.remote.ok_or(Error::NotConnected)?;
                if let Some(scope) = socket.scope {
                    return Ok(told(remote, port, socket.family, scope));
                }
                (remote, port, socket.family)
            }
            _ => return Err(Error::NotConnected),
        };
        Ok(SocketAddr::new(presented(remote, family), port))
    }

    /// What a socket could do at once. Nothing, if it does not exist.
    pub fn readiness(&self, id: SocketId) -> Readiness {
        match self.slots.get(id) {
            Some(Slot::Flow(flow)) => flow.readiness(),
            Some(Slot::Listener(state)) => state.readiness(),
            Some(Slot::Datagram(socket)) => socket.readiness(),
            // As Linux's poll shows it.
            Some(Slot::Fresh(_)) => Readiness::WRITABLE | Readiness::HANGUP,
            None => Readiness::empty(),
        }
    }

    /// The error since the last call (`SO_ERROR`); taking it clears it.
    pub fn take_error(&mut self, id: SocketId) -> Option<Error> {
        match self.slots.get_mut(id)? {
            Slot::Flow(flow) => flow.error.take(),
            Slot::Datagram(socket) => socket.error.take(),
            Slot::Fresh(_) | Slot::Listener(_) => None,
        }
    }

    /// Bytes that can be read at once (`FIONREAD`); of UDP, those of the next datagram.
    pub fn available(&self, id: SocketId) -> usize {
        match self.slots.get(id) {
            Some(Slot::Flow(flow)) => flow.socket().recv_queue(),
            Some(Slot::Datagram(socket)) => socket.queue.next_len(),
            _ => 0,
        }
    }

    /// Sets an option.
    pub fn set_option(
        &mut self,
        id: SocketId,
        option: SocketOption,
        now: Instant,
    ) -> Result<(), Error> {
        if let SocketOption::JoinMulticastV4(..)
        | SocketOption::LeaveMulticastV4(..)
        | SocketOption::JoinMulticastV6(..)
        | SocketOption::LeaveMulticastV6(..) = option
        {
            return self.membership(id, option, now);
        }
        match self.slot_mut(id)? {
            Slot::Fresh(fresh) => fresh.options.set(option),
            Slot::Listener(state) => state.options.set(option),
            Slot::Flow(flow) => {
                flow.options.set(option)?;
                flow.apply_options();
                self.finish(id.index, now);
                Ok(())
            }
            Slot::Datagram(socket) => {
                socket.options.set(option)?;
                match option {
                    SocketOption::ReceiveBuffer(len) => self.resize_queue(id, len),
                    _ => Ok(()),
                }
            }
        }
    }

    /// Gives a datagram socket another receive buffer, while nothing is in it.
    fn resize_queue(&mut self, id: SocketId, len: usize) -> Result<(), Error> {
        // Room for one small datagram at least, for sixteen of the largest at most.
        let len = len.clamp(2048, 1 << 20);
        let Some(Slot::Datagram(socket)) = self.slots.get_mut(id) else {
            return Err(Error::BadDescriptor);
        };
        let old = socket.queue.capacity();
        if !socket.queue.is_empty() || len == old {
            return Ok(());
        }
        if len > old && !self.buffers.reserve(len - old) {
            return Err(Error::NoBufferSpace);
        }
        if len < old {
            self.buffers.release(old - len);
        }
        socket.queue = Queue::new(len);
        Ok(())
    }

    /// Reads an option.
    pub fn option(&self, id: SocketId, name: SocketOptionName) -> Result<SocketOption, Error> {
        Ok(match self.slot(id)? {
            Slot::Fresh(fresh) => fresh.options.get(name),
            Slot::Listener(state) => state.options.get(name),
            Slot::Flow(flow) => match name {
                SocketOptionName::ReceiveBuffer | SocketOptionName::SendBuffer => {
                    let mut options = flow.options;
                    options.receive_buffer = flow.engine.ring();
                    options.send_buffer = flow.engine.ring();
                    options.get(name)
                }
                SocketOptionName::MaxSegment => SocketOption::MaxSegment(flow.wire.segment),
                _ => flow.options.get(name),
            },
            Slot::Datagram(socket) => match name {
                SocketOptionName::ReceiveBuffer => {
                    SocketOption::ReceiveBuffer(socket.queue.capacity())
                }
                _ => socket.options.get(name),
            },
        })
    }
}

fn check_family(family: Family, remote: IpAddr, options: &Options) -> Result<(), Error> {
    match (family, remote) {
        (Family::V4, IpAddr::V6(_)) => Err(Error::InvalidArgument),
        (Family::V6, IpAddr::V4(_)) if options.only_v6 => Err(Error::NetworkUnreachable),
        _ => Ok(()),
    }
}

/// May bytes be given to it now?
fn sendable(flow: &mut Flow) -> Result<(), Error> {
    if let Some(error) = flow.error.take() {
        return Err(error);
    }
    if flow.socket().may_send() {
        return Ok(());
    }
    match flow.state() {
        State::SynSent | State::SynReceived => Err(Error::WouldBlock),
        _ => Err(Error::BrokenPipe),
    }
}

/// Are there bytes to read? `Ok(Some(0))`: the stream has ended.
fn receivable(flow: &mut Flow) -> Result<Option<usize>, Error> {
    if let Some(error) = flow.error.take() {
        return Err(error);
    }
    if flow.shut_read {
        return Ok(Some(0));
    }
    let socket = flow.socket();
    if socket.can_recv() {
        return Ok(None);
    }
    match socket.state() {
        State::SynSent | State::SynReceived => Err(Error::WouldBlock),
        _ if socket.may_recv() => Err(Error::WouldBlock),
        _ => Ok(Some(0)),
    }
}

type Parts<'a> = (crate::queue::Waiting, &'a [u8], &'a [u8]);

/// The next datagram of a socket.
fn datagram(socket: &mut Datagram) -> Result<Parts<'_>, Error> {
    if let Some(error) = socket.error.take() {
        return Err(error);
    }
    if socket.queue.is_empty() {
        return Err(if socket.shut_read { Error::BrokenPipe } else { Error::WouldBlock });
    }
    socket.queue.front().ok_or(Error::WouldBlock)
}

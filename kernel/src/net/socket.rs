//! Sockets: calls that wait until the stack can do them.
//!
//! All are called with preemption off; waiting turns to other threads regardless.

use alloc::rc::Rc;
use core::cell::Cell;
use core::net::{IpAddr, SocketAddr, SocketAddrV6};

use hermit_abi::errno::{EAGAIN, EINPROGRESS, EINVAL, ENOMEM, ENOTCONN, ETIMEDOUT};
use hermit_abi::{POLLERR, POLLHUP, POLLIN, POLLOUT, POLLPRI, POLLRDHUP, POLLRDNORM, POLLWRNORM};
use trireme_netstack::{Error, Family, Instant, Kind, Readiness, Shutdown, SocketId, Stack};

use super::{enter, errno, leave, look, with_stack};
use crate::descriptor::{Description, Errno, Object};
use crate::thread::Wake;
use crate::time;

/// A socket of the stack, and what only the calls know of it.
pub struct Socket {
    id: SocketId,
    family: Family,
    kind: Kind,
    /// `SO_RCVTIMEO` in nanoseconds; 0: none.
    pub(super) receive_timeout: Cell<u64>,
    /// `SO_SNDTIMEO` in nanoseconds; 0: none.
    pub(super) send_timeout: Cell<u64>,
}

impl Drop for Socket {
    fn drop(&mut self) {
        leave(self.id);
        // Only fails for a socket that is not there.
        let _ = with_stack(|stack, now| stack.close(self.id, now));
    }
}

impl Socket {
    fn new(id: SocketId, family: Family, kind: Kind) -> Socket {
        Socket { id, family, kind, receive_timeout: Cell::new(0), send_timeout: Cell::new(0) }
    }

    /// The stack's name for it.
    pub(super) fn id(&self) -> SocketId {
        self.id
    }

    /// Whether it keeps message boundaries.
    pub fn is_datagram(&self) -> bool {
        self.kind == Kind::Datagram
    }

    /// Addresses as the socket's family shows them: IPv4 is mapped on an IPv6 socket (RFC 3493, 3.7).
    fn shown(&self, address: SocketAddr) -> SocketAddr {
        match (self.family, address.ip()) {
            (Family::V6, IpAddr::V4(ip)) => {
                SocketAddrV6::new(ip.to_ipv6_mapped(), address.port(), 0, 0).into()
            }
            _ => address,
        }
    }
}

/// Makes a socket.
pub fn open(family: Family, kind: Kind, nonblocking: bool) -> Result<Rc<Description>, Errno> {
    let id = with_stack(|stack, _| stack.socket(family, kind)).map_err(errno)?;
    describe(Socket::new(id, family, kind), nonblocking)
}

fn describe(socket: Socket, nonblocking: bool) -> Result<Rc<Description>, Errno> {
    let id = socket.id;
    let description = Description::new(Object::Socket(socket), nonblocking);
    enter(id, &description)?;
    Ok(description)
}

/// Tries until the answer is another than "would block", waiting in between unless the socket is non-blocking.
fn insist<T>(
    description: &Description,
    exclusive: bool,
    timeout_ns: u64,
    mut call: impl FnMut(&mut Stack, Instant) -> Result<T, Error>,
) -> Result<T, Errno> {
    let mut deadline = None;
    loop {
        match with_stack(&mut call) {
            Err(Error::WouldBlock) if !description.nonblocking.get() => {}
            result => return result.map_err(errno),
        }
        if timeout_ns != 0 && deadline.is_none() {
            deadline = Some(time::deadline_after(timeout_ns));
        }
        match description.waiters.wait(exclusive, deadline) {
            Some(Wake::Woken) => {}
            Some(Wake::TimedOut) => return Err(EAGAIN),
            None => return Err(ENOMEM),
        }
    }
}

/// Gives a socket its local address.
pub fn bind(socket: &Socket, address: SocketAddr) -> Result<(), Errno> {
    with_stack(|stack, _| stack.bind(socket.id, address)).map_err(errno)
}

/// Starts taking connections.
pub fn listen(socket: &Socket, backlog: usize) -> Result<(), Errno> {
    with_stack(|stack, now| stack.listen(socket.id, backlog, now)).map_err(errno)
}

/// Takes a connection.
pub fn accept(
    description: &Description,
    socket: &Socket,
) -> Result<(Rc<Description>, SocketAddr), Errno> {
    let (id, peer) = insist(description, true, socket.receive_timeout.get(), |stack, now| {
        stack.accept(socket.id, now)
    })?;
    // One event wakes one accept: pass it on if there are more connections.
    if look(|stack| stack.readiness(socket.id)).contains(Readiness::READABLE) {
        description.waiters.wake();
    }
    let accepted = Socket::new(id, socket.family, socket.kind);
    let peer = accepted.shown(peer);
    Ok((describe(accepted, false)?, peer))
}

/// Connects. A datagram socket at once; a stream when the peer has answered.
pub fn connect(
    description: &Description,
    socket: &Socket,
    address: SocketAddr,
) -> Result<(), Errno> {
    connect_within(description, socket, address, socket.send_timeout.get())
}

/// The same; EINPROGRESS after `timeout` nanoseconds, if that is not 0.
pub fn connect_within(
    description: &Description,
    socket: &Socket,
    address: SocketAddr,
    timeout: u64,
) -> Result<(), Errno> {
    match with_stack(|stack, now| stack.connect(socket.id, address, now)) {
        Err(Error::InProgress | Error::WouldBlock) => {}
        result => return result.map_err(errno),
    }
    if description.nonblocking.get() {
        return Err(EINPROGRESS);
    }
    let deadline = (timeout != 0).then(|| time::deadline_after(timeout));
    loop {
        if let Some(error) = look(|stack| stack.take_error(socket.id)) {
            return Err(errno(error));
        }
        let ready = look(|stack| stack.readiness(socket.id));
        if ready.contains(Readiness::HANGUP) {
            return Err(hermit_abi::errno::ECONNABORTED);
        }
        if ready.contains(Readiness::WRITABLE) {
            return Ok(());
        }
        match description.waiters.wait(false, deadline) {
            Some(Wake::Woken) => {}
            // As Linux does for a connect that SO_SNDTIMEO ends.
            Some(Wake::TimedOut) => return Err(EINPROGRESS),
            None => return Err(ENOMEM),
        }
    }
}

/// Writes. A blocking stream takes all of it, as Linux does; what was taken before an error or the timeout counts.
pub fn send(description: &Description, socket: &Socket, bytes: &[u8]) -> Result<usize, Errno> {
    let mut sent = 0;
    loop {
        let result = insist(description, false, socket.send_timeout.get(), |stack, now| {
            stack.send(socket.id, &bytes[sent..], now)
        });
        match result {
            Ok(n) => sent += n,
            Err(_) if sent > 0 => return Ok(sent),
            Err(errno) => return Err(errno),
        }
        if sent >= bytes.len() || socket.is_datagram() || description.nonblocking.get() {
            return Ok(sent);
        }
    }
}

/// Writes several pieces as one: a stream perhaps in part.
pub fn send_vectored(
    description: &Description,
    socket: &Socket,
    pieces: &[&[u8]],
) -> Result<usize, Errno> {
    insist(description, false, socket.send_timeout.get(), |stack, now| {
        stack.send_vectored(socket.id, pieces, now)
    })
}

/// Sends a datagram to someone.
pub fn send_to(
    description: &Description,
    socket: &Socket,
    bytes: &[u8],
    to: SocketAddr,
) -> Result<usize, Errno> {
    insist(description, false, socket.send_timeout.get(), |stack, now| {
        stack.send_to(socket.id, bytes, to, now)
    })
}

/// Reads; `peek` leaves it there.
pub fn receive(
    description: &Description,
    socket: &Socket,
    buffer: &mut [u8],
    peek: bool,
) -> Result<usize, Errno> {
    let timeout = socket.receive_timeout.get();
    if socket.is_datagram() {
        return receive_from(description, socket, buffer, peek).map(|(n, _)| n);
    }
    if buffer.is_empty() {
        return Ok(0);
    }
    insist(description, false, timeout, |stack, now| stack.recv(socket.id, buffer, peek, now))
}

/// Receives a datagram, cut to the buffer, and who sent it. Of a stream: bytes from the peer.
pub fn receive_from(
    description: &Description,
    socket: &Socket,
    buffer: &mut [u8],
    peek: bool,
) -> Result<(usize, SocketAddr), Errno> {
    if !socket.is_datagram() {
        let peer = peer_address(socket)?;
        return receive(description, socket, buffer, peek).map(|n| (n, peer));
    }
    let timeout = socket.receive_timeout.get();
    let (n, from) = insist(description, false, timeout, |stack, now| {
        stack.recv_from(socket.id, buffer, peek, now)
    })?;
    Ok((n, socket.shown(from)))
}

/// Ends one direction or both.
pub fn shutdown(socket: &Socket, how: Shutdown) -> Result<(), Errno> {
    with_stack(|stack, now| stack.shutdown(socket.id, how, now)).map_err(errno)
}

/// The local address; unspecified if there is none yet.
pub fn local_address(socket: &Socket) -> Result<SocketAddr, Errno> {
    look(|stack| stack.local_address(socket.id)).map(|address| socket.shown(address)).map_err(errno)
}

/// The peer's address.
pub fn peer_address(socket: &Socket) -> Result<SocketAddr, Errno> {
    look(|stack| stack.peer_address(socket.id)).map(|address| socket.shown(address)).map_err(
        |error| match error {
            Error::InvalidArgument => ENOTCONN,
            other => errno(other),
        },
    )
}

/// Bytes that can be read at once.
pub fn available(socket: &Socket) -> Result<usize, Errno> {
    Ok(look(|stack| stack.available(socket.id)))
}

/// The error that ended the socket, which is thereby forgotten: `SO_ERROR`.
pub(super) fn take_error(socket: &Socket) -> Errno {
    look(|stack| stack.take_error(socket.id)).map_or(0, |error| match error {
        Error::TimedOut => ETIMEDOUT,
        Error::InvalidArgument => EINVAL,
        other => errno(other),
    })
}

/// Readiness as `poll` has it.
pub fn poll_bits(socket: &Socket) -> i16 {
    let ready = look(|stack| stack.readiness(socket.id));
    let mut bits = 0;
    for (flag, means) in [
        (Readiness::READABLE, POLLIN | POLLRDNORM),
        (Readiness::WRITABLE, POLLOUT | POLLWRNORM),
        (Readiness::HANGUP, POLLHUP),
        (Readiness::READ_CLOSED, POLLRDHUP | POLLIN),
        (Readiness::ERROR, POLLERR),
        // "There is some exceptional condition" [poll(2)]
        (Readiness::CROWDED, POLLPRI),
    ] {
        if ready.contains(flag) {
            bits |= means;
        }
    }
    bits
}

//! Sockets before they are connected, and options that `std` has no words for.
//!
//! `std` makes, binds and connects a socket in one call. What has to be said in between is said here; then the socket becomes
//! one of `std`'s. Names are those of the crate socket2, which does not build for this target.

extern crate std;

use core::net::SocketAddr;
use core::time::Duration;
use std::io::{Error, ErrorKind, Result};
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

use hermit_abi::errno::{EINPROGRESS, ENOTSOCK};
use hermit_abi::{
    IPPROTO_IPV6, IPPROTO_TCP, IPV6_V6ONLY, SO_KEEPALIVE, SO_LINGER, SO_RCVBUF, SO_REUSEADDR,
    SO_SNDBUF, SOL_SOCKET,
};
use trireme_netstack::{Family, Kind};

use crate::descriptor::{self, Description, Errno};
use crate::net::{self, TCP_MAXSEG};
use crate::preempt;

/// A socket that is `std`'s as soon as it is converted.
pub struct Socket(OwnedFd);

fn with<T>(
    fd: &impl AsRawFd,
    call: impl FnOnce(&Description, &net::Socket) -> core::result::Result<T, Errno>,
) -> Result<T> {
    let _guard = preempt::disable();
    let description = descriptor::get(fd.as_raw_fd()).map_err(Error::from_raw_os_error)?;
    let socket = description.socket().ok_or(ENOTSOCK).map_err(Error::from_raw_os_error)?;
    call(&description, socket).map_err(Error::from_raw_os_error)
}

fn set(fd: &impl AsRawFd, level: i32, name: i32, value: usize) -> Result<()> {
    let value = i32::try_from(value).map_err(|_| ErrorKind::InvalidInput)?;
    with(fd, |_, socket| net::set_option(socket, level, name, &value.to_ne_bytes()))
}

fn get(fd: &impl AsRawFd, level: i32, name: i32) -> Result<usize> {
    let value = with(fd, |_, socket| net::get_option(socket, level, name))?;
    let value = value.as_bytes().first_chunk().map_or(0, |bytes| i32::from_ne_bytes(*bytes));
    Ok(usize::try_from(value).unwrap_or(0))
}

impl Socket {
    fn new(family: Family, kind: Kind) -> Result<Socket> {
        let _guard = preempt::disable();
        let fd = net::open(family, kind, false).and_then(descriptor::insert);
        let fd = fd.map_err(Error::from_raw_os_error)?;
        // SAFETY: the descriptor was made a moment ago, and nobody else knows it.
        Ok(Socket(unsafe { OwnedFd::from_raw_fd(fd) }))
    }

    fn family(address: &SocketAddr) -> Family {
        if address.is_ipv4() { Family::V4 } else { Family::V6 }
    }

    /// A TCP socket of the address's family.
    pub fn stream(address: &SocketAddr) -> Result<Socket> {
        Socket::new(Socket::family(address), Kind::Stream)
    }

    /// A UDP socket of the address's family.
    pub fn datagram(address: &SocketAddr) -> Result<Socket> {
        Socket::new(Socket::family(address), Kind::Datagram)
    }

    /// Shares a local address with sockets that allow it too (`SO_REUSEADDR`).
    pub fn set_reuse_address(&self, on: bool) -> Result<()> {
        set(&self.0, SOL_SOCKET, SO_REUSEADDR, usize::from(on))
    }

    /// An IPv6 socket takes no IPv4 (`IPV6_V6ONLY`).
    pub fn set_only_v6(&self, on: bool) -> Result<()> {
        set(&self.0, IPPROTO_IPV6, IPV6_V6ONLY, usize::from(on))
    }

    /// Gives it its local address.
    pub fn bind(&self, address: SocketAddr) -> Result<()> {
        with(&self.0, |_, socket| net::bind(socket, address))
    }

    /// Starts taking connections.
    pub fn listen(&self, backlog: usize) -> Result<()> {
        with(&self.0, |_, socket| net::listen(socket, backlog))
    }

    /// Connects, or fails after `timeout`.
    pub fn connect_timeout(&self, address: SocketAddr, timeout: Duration) -> Result<()> {
        let ns = u64::try_from(timeout.as_nanos()).unwrap_or(u64::MAX).max(1);
        let result = with(&self.0, |description, socket| {
            net::connect_within(description, socket, address, ns)
        });
        match result {
            Err(error) if error.raw_os_error() == Some(EINPROGRESS) => {
                Err(ErrorKind::TimedOut.into())
            }
            result => result,
        }
    }

    /// Begins to connect, and doesn't block from now on: when it is writable, `take_error` tells how it went.
    pub fn start_connect(&self, address: SocketAddr) -> Result<()> {
        let result = with(&self.0, |description, socket| {
            description.nonblocking.set(true);
            net::connect(description, socket, address)
        });
        match result {
            Err(error) if error.raw_os_error() == Some(EINPROGRESS) => Ok(()),
            result => result,
        }
    }
}

/// Closing it resets the connection (`SO_LINGER` of no time).
pub fn reset_on_close(socket: &impl AsRawFd) -> Result<()> {
    // struct linger: on, seconds.
    let value = [1_i32.to_ne_bytes(), 0_i32.to_ne_bytes()].concat();
    with(socket, |_, socket| net::set_option(socket, SOL_SOCKET, SO_LINGER, &value))
}

/// Sets the largest segment sent and announced, in octets of payload (`TCP_MAXSEG`). On a listener: for connections to come.
/// On a connection: for what is sent from now on.
pub fn set_tcp_mss(socket: &impl AsRawFd, octets: u32) -> Result<()> {
    set(socket, IPPROTO_TCP, TCP_MAXSEG, octets as usize)
}

/// The largest segment sent, in octets of payload.
pub fn tcp_mss(socket: &impl AsRawFd) -> Result<u32> {
    get(socket, IPPROTO_TCP, TCP_MAXSEG).map(|octets| octets as u32)
}

/// Sets the size of the send buffer; before connecting or listening.
pub fn set_send_buffer_size(socket: &impl AsRawFd, octets: usize) -> Result<()> {
    set(socket, SOL_SOCKET, SO_SNDBUF, octets)
}

/// Sets the size of the receive buffer; before connecting or listening.
pub fn set_recv_buffer_size(socket: &impl AsRawFd, octets: usize) -> Result<()> {
    set(socket, SOL_SOCKET, SO_RCVBUF, octets)
}

/// The size of the send buffer.
pub fn send_buffer_size(socket: &impl AsRawFd) -> Result<usize> {
    get(socket, SOL_SOCKET, SO_SNDBUF)
}

/// The size of the receive buffer.
pub fn recv_buffer_size(socket: &impl AsRawFd) -> Result<usize> {
    get(socket, SOL_SOCKET, SO_RCVBUF)
}

/// Probes an idle peer (`SO_KEEPALIVE`).
pub fn set_keepalive(socket: &impl AsRawFd, on: bool) -> Result<()> {
    set(socket, SOL_SOCKET, SO_KEEPALIVE, usize::from(on))
}

impl AsRawFd for Socket {
    fn as_raw_fd(&self) -> i32 {
        self.0.as_raw_fd()
    }
}

impl From<Socket> for TcpStream {
    fn from(socket: Socket) -> TcpStream {
        socket.0.into()
    }
}

impl From<Socket> for TcpListener {
    fn from(socket: Socket) -> TcpListener {
        socket.0.into()
    }
}

impl From<Socket> for UdpSocket {
    fn from(socket: Socket) -> UdpSocket {
        socket.0.into()
    }
}

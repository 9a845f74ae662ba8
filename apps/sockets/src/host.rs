//! Linux and its relatives, through socket2.

use std::io::Result;
use std::net::{SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::os::fd::AsFd;
use std::time::Duration;

use socket2::{Domain, SockRef, Type};

/// Linux's number.
const EINPROGRESS: i32 = 115;

/// A socket that is `std`'s as soon as it is converted.
pub struct Socket(socket2::Socket);

impl Socket {
    /// A TCP socket of the address's family.
    pub fn stream(address: &SocketAddr) -> Result<Socket> {
        socket2::Socket::new(Domain::for_address(*address), Type::STREAM, None).map(Socket)
    }

    /// A UDP socket of the address's family.
    pub fn datagram(address: &SocketAddr) -> Result<Socket> {
        socket2::Socket::new(Domain::for_address(*address), Type::DGRAM, None).map(Socket)
    }

    /// Shares a local address with sockets that allow it too (`SO_REUSEADDR`).
    pub fn set_reuse_address(&self, on: bool) -> Result<()> {
        self.0.set_reuse_address(on)
    }

    /// An IPv6 socket takes no IPv4 (`IPV6_V6ONLY`).
    pub fn set_only_v6(&self, on: bool) -> Result<()> {
        self.0.set_only_v6(on)
    }

    /// Gives it its local address.
    pub fn bind(&self, address: SocketAddr) -> Result<()> {
        self.0.bind(&address.into())
    }

    /// Starts taking connections.
    pub fn listen(&self, backlog: usize) -> Result<()> {
        self.0.listen(i32::try_from(backlog).unwrap_or(i32::MAX))
    }

    /// Connects, or fails after `timeout`.
    pub fn connect_timeout(&self, address: SocketAddr, timeout: Duration) -> Result<()> {
        self.0.connect_timeout(&address.into(), timeout)
    }

    /// Begins to connect, and doesn't block from now on: when it is writable, `take_error` tells how it went.
    pub fn start_connect(&self, address: SocketAddr) -> Result<()> {
        self.0.set_nonblocking(true)?;
        match self.0.connect(&address.into()) {
            // `InProgress` has no stable name.
            Err(error) if error.raw_os_error() == Some(EINPROGRESS) => Ok(()),
            result => result,
        }
    }
}

/// Closing it resets the connection (`SO_LINGER` of no time).
pub fn reset_on_close(socket: &impl AsFd) -> Result<()> {
    SockRef::from(socket).set_linger(Some(Duration::ZERO))
}

/// Sets the largest segment sent and announced, in octets of payload (`TCP_MAXSEG`). On a listener: for connections to come.
pub fn set_tcp_mss(socket: &impl AsFd, octets: u32) -> Result<()> {
    SockRef::from(socket).set_tcp_mss(octets)
}

/// The largest segment sent, in octets of payload.
pub fn tcp_mss(socket: &impl AsFd) -> Result<u32> {
    SockRef::from(socket).tcp_mss()
}

/// Sets the size of the send buffer; before connecting or listening.
pub fn set_send_buffer_size(socket: &impl AsFd, octets: usize) -> Result<()> {
    SockRef::from(socket).set_send_buffer_size(octets)
}

/// Sets the size of the receive buffer; before connecting or listening.
pub fn set_recv_buffer_size(socket: &impl AsFd, octets: usize) -> Result<()> {
    SockRef::from(socket).set_recv_buffer_size(octets)
}

/// The size of the send buffer.
pub fn send_buffer_size(socket: &impl AsFd) -> Result<usize> {
    SockRef::from(socket).send_buffer_size()
}

/// The size of the receive buffer.
pub fn recv_buffer_size(socket: &impl AsFd) -> Result<usize> {
    SockRef::from(socket).recv_buffer_size()
}

/// Probes an idle peer (`SO_KEEPALIVE`).
pub fn set_keepalive(socket: &impl AsFd, on: bool) -> Result<()> {
    SockRef::from(socket).set_keepalive(on)
}

impl AsFd for Socket {
    fn as_fd(&self) -> std::os::fd::BorrowedFd<'_> {
        self.0.as_fd()
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

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read, Write};

    #[test]
    fn a_socket_becomes_stds_with_what_was_set() {
        let any: SocketAddr = "127.0.0.1:0".parse().unwrap();
        let listener = Socket::stream(&any).unwrap();
        listener.set_reuse_address(true).unwrap();
        set_tcp_mss(&listener, 1000).unwrap();
        listener.bind(any).unwrap();
        listener.listen(5).unwrap();
        let listener = TcpListener::from(listener);
        let client = Socket::stream(&any).unwrap();
        set_send_buffer_size(&client, 10_000).unwrap();
        client.bind("127.0.0.2:0".parse().unwrap()).unwrap();
        let server = listener.local_addr().unwrap();
        client.connect_timeout(server, Duration::from_secs(5)).unwrap();
        // Twelve of them are timestamps' [tcp(7)].
        assert_eq!(tcp_mss(&client).unwrap(), 988);
        let mut client = TcpStream::from(client);
        let (mut peer, address) = listener.accept().unwrap();
        assert_eq!(address.ip().to_string(), "127.0.0.2");
        client.write_all(b"hello").unwrap();
        let mut got = [0; 5];
        peer.read_exact(&mut got).unwrap();
        assert_eq!(&got, b"hello");
    }
}

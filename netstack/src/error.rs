use core::fmt;

/// Why a socket call failed, by the names of `errno`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Error {
    /// Nothing to read, no room to write, nobody to accept: try when readiness changed.
    WouldBlock,
    /// The connection is being made; writable or in error when decided.
    InProgress,
    /// The peer answered with a reset, or a port-unreachable message came.
    ConnectionRefused,
    /// The peer reset the connection.
    ConnectionReset,
    /// The connection was ended on our side (its address went away).
    ConnectionAborted,
    /// The socket has no peer.
    NotConnected,
    /// A datagram without a destination, from a socket without a peer.
    DestinationRequired,
    /// The socket has a peer already.
    AlreadyConnected,
    /// Another socket has this local address.
    AddressInUse,
    /// No interface has this address.
    AddressNotAvailable,
    /// No route.
    NetworkUnreachable,
    /// The next hop does not answer, or a router says so of the destination.
    HostUnreachable,
    /// The peer did not answer in time.
    TimedOut,
    /// Writing after shutdown.
    BrokenPipe,
    /// Datagram larger than UDP or the socket can take.
    MessageTooLong,
    /// The buffer budget or a queue is used up.
    NoBufferSpace,
    /// The call makes no sense for this socket.
    InvalidArgument,
    /// Not for this kind of socket, or not at all.
    NotSupported,
    /// No such socket.
    BadDescriptor,
    /// Broadcasting without the option.
    PermissionDenied,
    /// The name does not exist.
    NameNotFound,
    /// The name servers did not answer, or failed.
    TryAgain,
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Error::WouldBlock => "operation would block",
            Error::InProgress => "operation in progress",
            Error::ConnectionRefused => "connection refused",
            Error::ConnectionReset => "connection reset by peer",
            Error::ConnectionAborted => "connection aborted",
            Error::NotConnected => "not connected",
            Error::DestinationRequired => "destination address required",
            Error::AlreadyConnected => "already connected",
            Error::AddressInUse => "address in use",
            Error::AddressNotAvailable => "address not available",
            Error::NetworkUnreachable => "network unreachable",
            Error::HostUnreachable => "host unreachable",
            Error::TimedOut => "timed out",
            Error::BrokenPipe => "broken pipe",
            Error::MessageTooLong => "message too long",
            Error::NoBufferSpace => "no buffer space",
            Error::InvalidArgument => "invalid argument",
            Error::NotSupported => "not supported",
            Error::BadDescriptor => "no such socket",
            Error::PermissionDenied => "permission denied",
            Error::NameNotFound => "name not found",
            Error::TryAgain => "temporary failure in name resolution",
        })
    }
}

impl core::error::Error for Error {}

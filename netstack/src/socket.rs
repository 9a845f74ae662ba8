//! The words of the socket interface: what callers pass in and get back.

use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use smoltcp::time::Duration;

use crate::ping::PingId;
pub use crate::slab::SocketId;

/// Address family of a socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Family {
    /// IPv4.
    V4,
    /// IPv6, and IPv4 as mapped addresses unless [`SocketOption::OnlyV6`] is set.
    V6,
}

/// Kind of a socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    /// TCP.
    Stream,
    /// UDP.
    Datagram,
}

/// Which half of a connection to shut.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Shutdown {
    /// Nothing more will be read.
    Read,
    /// Nothing more will be written.
    Write,
    /// Neither.
    Both,
}

bitflags::bitflags! {
    /// What a socket could do at once, in the sense of `poll(2)`.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub struct Readiness: u8 {
        /// A read gives bytes, end of file or an error; an accept gives a connection.
        const READABLE = 1;
        /// A write takes bytes or gives an error.
        const WRITABLE = 1 << 1;
        /// Both halves are shut, or the connection is gone.
        const HANGUP = 1 << 2;
        /// The peer has shut its half and everything it sent may be read.
        const READ_CLOSED = 1 << 3;
        /// `take_error` gives something.
        const ERROR = 1 << 4;
        /// A listener has had to leave a peer outside since the last accept: there is no memory for another
        /// connection. Closing one makes room; the peer tries again.
        const CROWDED = 1 << 5;
    }
}

/// Names a name lookup under way.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct QueryId(pub(crate) u32);

/// Something to look at again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// A socket's readiness grew, or it has more to read.
    Socket(SocketId),
    /// A lookup ended.
    Query(QueryId),
    /// An echo request was answered.
    Ping(PingId),
    /// `eth{n}` received a PTP message.
    Ptp(usize),
}

/// A socket option with its value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SocketOption {
    /// Send small segments at once (`TCP_NODELAY`).
    NoDelay(bool),
    /// IPv4 time to live, at least 1.
    Ttl(u8),
    /// IPv6 unicast hop limit, at least 1.
    HopLimit(u8),
    /// Time to live and hop limit of multicast.
    MulticastTtl(u8),
    /// Hear one's own multicast.
    MulticastLoop(bool),
    /// Allow sending to broadcast addresses.
    Broadcast(bool),
    /// An IPv6 socket takes no IPv4.
    OnlyV6(bool),
    /// Probe an idle peer.
    KeepAlive(bool),
    /// Idle time before the first probe.
    KeepIdle(Duration),
    /// Time between probes.
    KeepInterval(Duration),
    /// Unanswered probes before the connection counts as lost.
    KeepCount(u8),
    /// What a close does with unsent bytes: zero resets the connection; anything else sends them in
    /// the background, and waiting for that is the caller's.
    Linger(Option<Duration>),
    /// Share a local address with sockets that allow it too.
    ReuseAddress(bool),
    /// Bytes of receive buffer; before connect, listen or bind.
    ReceiveBuffer(usize),
    /// Bytes of send buffer; before connect or listen.
    SendBuffer(usize),
    /// Largest segment, in bytes of payload, from 88 to 32767 (`TCP_MAXSEG`): announced and sent by connections made
    /// afterwards, sent by one that is there. 0: what the path takes.
    MaxSegment(u16),
    /// Join an IPv4 group at the interface with this address (unspecified: the default).
    JoinMulticastV4(Ipv4Addr, Ipv4Addr),
    /// Leave it.
    LeaveMulticastV4(Ipv4Addr, Ipv4Addr),
    /// Join an IPv6 group at interface number n, counted from 1 as `if_nametoindex` does (0: the
    /// default).
    JoinMulticastV6(Ipv6Addr, u32),
    /// Leave it.
    LeaveMulticastV6(Ipv6Addr, u32),
}

/// Names an option to read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SocketOptionName {
    /// [`SocketOption::NoDelay`]
    NoDelay,
    /// [`SocketOption::Ttl`]
    Ttl,
    /// [`SocketOption::HopLimit`]
    HopLimit,
    /// [`SocketOption::MulticastTtl`]
    MulticastTtl,
    /// [`SocketOption::MulticastLoop`]
    MulticastLoop,
    /// [`SocketOption::Broadcast`]
    Broadcast,
    /// [`SocketOption::OnlyV6`]
    OnlyV6,
    /// [`SocketOption::KeepAlive`]
    KeepAlive,
    /// [`SocketOption::KeepIdle`]
    KeepIdle,
    /// [`SocketOption::KeepInterval`]
    KeepInterval,
    /// [`SocketOption::KeepCount`]
    KeepCount,
    /// [`SocketOption::Linger`]
    Linger,
    /// [`SocketOption::ReuseAddress`]
    ReuseAddress,
    /// [`SocketOption::ReceiveBuffer`]
    ReceiveBuffer,
    /// [`SocketOption::SendBuffer`]
    SendBuffer,
    /// [`SocketOption::MaxSegment`]; of a connection, what it sends.
    MaxSegment,
}

/// The options every socket carries.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Options {
    pub(crate) no_delay: bool,
    pub(crate) ttl: u8,
    pub(crate) multicast_ttl: u8,
    pub(crate) multicast_loop: bool,
    pub(crate) broadcast: bool,
    pub(crate) only_v6: bool,
    pub(crate) keep_alive: bool,
    pub(crate) keep_idle: Duration,
    pub(crate) keep_interval: Duration,
    pub(crate) keep_count: u8,
    pub(crate) linger: Option<Duration>,
    pub(crate) reuse_address: bool,
    /// 0: by the budget.
    pub(crate) receive_buffer: usize,
    /// 0: by the budget.
    pub(crate) send_buffer: usize,
    /// 0: what the path takes.
    pub(crate) max_segment: u16,
}

impl Options {
    /// Linux's defaults.
    pub(crate) const DEFAULT: Options = Options {
        no_delay: false,
        ttl: 64,
        multicast_ttl: 1,
        multicast_loop: true,
        broadcast: false,
        only_v6: false,
        keep_alive: false,
        keep_idle: Duration::from_secs(7200),
        keep_interval: Duration::from_secs(75),
        keep_count: 9,
        linger: None,
        reuse_address: false,
        receive_buffer: 0,
        send_buffer: 0,
        max_segment: 0,
    };

    /// Sets one; joins are not kept here.
    pub(crate) fn set(&mut self, option: SocketOption) -> Result<(), crate::Error> {
        use crate::Error::{InvalidArgument, NotSupported};
        match option {
            SocketOption::NoDelay(on) => self.no_delay = on,
            SocketOption::Ttl(0) | SocketOption::HopLimit(0) => return Err(InvalidArgument),
            SocketOption::Ttl(ttl) | SocketOption::HopLimit(ttl) => self.ttl = ttl,
            SocketOption::MulticastTtl(ttl) => self.multicast_ttl = ttl,
            SocketOption::MulticastLoop(on) => self.multicast_loop = on,
            SocketOption::Broadcast(on) => self.broadcast = on,
            SocketOption::OnlyV6(on) => self.only_v6 = on,
            SocketOption::KeepAlive(on) => self.keep_alive = on,
            SocketOption::KeepIdle(time) | SocketOption::KeepInterval(time)
                if time < Duration::from_secs(1) =>
            {
                return Err(InvalidArgument);
            }
            SocketOption::KeepIdle(time) => self.keep_idle = time,
            SocketOption::KeepInterval(time) => self.keep_interval = time,
            SocketOption::KeepCount(0) => return Err(InvalidArgument),
            SocketOption::KeepCount(count) => self.keep_count = count,
            SocketOption::Linger(time) => self.linger = time,
            SocketOption::ReuseAddress(on) => self.reuse_address = on,
            SocketOption::ReceiveBuffer(len) => self.receive_buffer = len.max(1),
            SocketOption::SendBuffer(len) => self.send_buffer = len.max(1),
            // Linux's bounds (`TCP_MIN_MSS`, `MAX_TCP_WINDOW`).
            SocketOption::MaxSegment(len) if len != 0 && !(88..=32_767).contains(&len) => {
                return Err(InvalidArgument);
            }
            SocketOption::MaxSegment(len) => self.max_segment = len,
            SocketOption::JoinMulticastV4(..)
            | SocketOption::LeaveMulticastV4(..)
            | SocketOption::JoinMulticastV6(..)
            | SocketOption::LeaveMulticastV6(..) => return Err(NotSupported),
        }
        Ok(())
    }

    pub(crate) fn get(&self, name: SocketOptionName) -> SocketOption {
        match name {
            SocketOptionName::NoDelay => SocketOption::NoDelay(self.no_delay),
            SocketOptionName::Ttl => SocketOption::Ttl(self.ttl),
            SocketOptionName::HopLimit => SocketOption::HopLimit(self.ttl),
            SocketOptionName::MulticastTtl => SocketOption::MulticastTtl(self.multicast_ttl),
            SocketOptionName::MulticastLoop => SocketOption::MulticastLoop(self.multicast_loop),
            SocketOptionName::Broadcast => SocketOption::Broadcast(self.broadcast),
            SocketOptionName::OnlyV6 => SocketOption::OnlyV6(self.only_v6),
            SocketOptionName::KeepAlive => SocketOption::KeepAlive(self.keep_alive),
            SocketOptionName::KeepIdle => SocketOption::KeepIdle(self.keep_idle),
            SocketOptionName::KeepInterval => SocketOption::KeepInterval(self.keep_interval),
            SocketOptionName::KeepCount => SocketOption::KeepCount(self.keep_count),
            SocketOptionName::Linger => SocketOption::Linger(self.linger),
            SocketOptionName::ReuseAddress => SocketOption::ReuseAddress(self.reuse_address),
            SocketOptionName::ReceiveBuffer => SocketOption::ReceiveBuffer(self.receive_buffer),
            SocketOptionName::SendBuffer => SocketOption::SendBuffer(self.send_buffer),
            // Linux's answer where there is no connection (`TCP_MSS_DEFAULT`).
            SocketOptionName::MaxSegment => SocketOption::MaxSegment(match self.max_segment {
                0 => 536,
                octets => octets,
            }),
        }
    }
}

/// The IPv4 address in a mapped IPv6 one, or the address itself.
pub(crate) fn canonical(address: IpAddr) -> IpAddr {
    address.to_canonical()
}

/// How a socket of `family` is told an address.
pub(crate) fn presented(address: IpAddr, family: Family) -> IpAddr {
    match (address, family) {
        (IpAddr::V4(v4), Family::V6) => IpAddr::V6(v4.to_ipv6_mapped()),
        _ => address,
    }
}

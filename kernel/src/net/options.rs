//! `setsockopt` and `getsockopt`.

use core::net::{Ipv4Addr, Ipv6Addr};

use hermit_abi::errno::{EDOM, EINVAL, ENOPROTOOPT};
use hermit_abi::{
    IP_ADD_MEMBERSHIP, IP_DROP_MEMBERSHIP, IP_MULTICAST_LOOP, IP_MULTICAST_TTL, IP_TTL, IPPROTO_IP,
    IPPROTO_IPV6, IPPROTO_TCP, IPV6_ADD_MEMBERSHIP, IPV6_DROP_MEMBERSHIP, IPV6_MULTICAST_LOOP,
    IPV6_V6ONLY, SO_BROADCAST, SO_ERROR, SO_KEEPALIVE, SO_LINGER, SO_RCVBUF, SO_RCVTIMEO,
    SO_REUSEADDR, SO_SNDBUF, SO_SNDTIMEO, SOL_SOCKET, TCP_NODELAY,
};
use trireme_netstack::{Duration, SocketOption, SocketOptionName};

use super::socket::{Socket, take_error};
use super::{errno, look, with_stack};
use crate::descriptor::Errno;

/// Longest option value here: `timeval` and `ipv6_mreq`.
const VALUE: usize = 32;

/// The largest segment. Linux's number for it; the ABI has none.
pub const TCP_MAXSEG: i32 = 2;

/// A value as the ABI lays it out.
pub struct Value {
    bytes: [u8; VALUE],
    len: usize,
}

impl Value {
    /// Its bytes.
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes[..self.len]
    }

    fn of(parts: &[&[u8]]) -> Value {
        let mut value = Value { bytes: [0; VALUE], len: 0 };
        for part in parts {
            value.bytes[value.len..value.len + part.len()].copy_from_slice(part);
            value.len += part.len();
        }
        value
    }

    fn int(value: i32) -> Value {
        Value::of(&[&value.to_ne_bytes()])
    }
}

fn part<const N: usize>(value: &[u8], at: usize) -> Result<[u8; N], Errno> {
    value.get(at..at + N).and_then(|bytes| bytes.try_into().ok()).ok_or(EINVAL)
}

fn int(value: &[u8]) -> Result<i32, Errno> {
    part(value, 0).map(i32::from_ne_bytes)
}

fn flag(value: &[u8]) -> Result<bool, Errno> {
    int(value).map(|value| value != 0)
}

/// A hop count; -1 means the default of 64, as on Linux.
fn hops(value: &[u8]) -> Result<u8, Errno> {
    match int(value)? {
        -1 => Ok(64),
        value => u8::try_from(value).map_err(|_| EINVAL),
    }
}

fn size(value: &[u8]) -> Result<usize, Errno> {
    usize::try_from(int(value)?).map_err(|_| EINVAL)
}

/// `struct timeval`: 64-bit seconds, 32-bit microseconds. In nanoseconds.
fn timeout(value: &[u8]) -> Result<u64, Errno> {
    let seconds = u64::try_from(i64::from_ne_bytes(part(value, 0)?)).map_err(|_| EDOM)?;
    let micros = i32::from_ne_bytes(part(value, 8)?);
    if !(0..1_000_000).contains(&micros) {
        return Err(EDOM);
    }
    Ok(seconds.saturating_mul(1_000_000_000).saturating_add(micros as u64 * 1000))
}

/// Sets an option.
pub fn set_option(socket: &Socket, level: i32, name: i32, value: &[u8]) -> Result<(), Errno> {
    let option = match (level, name) {
        (SOL_SOCKET, SO_RCVTIMEO) => {
            socket.receive_timeout.set(timeout(value)?);
            return Ok(());
        }
        (SOL_SOCKET, SO_SNDTIMEO) => {
            socket.send_timeout.set(timeout(value)?);
            return Ok(());
        }
        (SOL_SOCKET, SO_REUSEADDR) => SocketOption::ReuseAddress(flag(value)?),
        (SOL_SOCKET, SO_KEEPALIVE) => SocketOption::KeepAlive(flag(value)?),
        (SOL_SOCKET, SO_BROADCAST) => SocketOption::Broadcast(flag(value)?),
        (SOL_SOCKET, SO_SNDBUF) => SocketOption::SendBuffer(size(value)?),
        (SOL_SOCKET, SO_RCVBUF) => SocketOption::ReceiveBuffer(size(value)?),
        (SOL_SOCKET, SO_LINGER) => {
            // struct linger: on, seconds.
            let seconds = u64::try_from(i32::from_ne_bytes(part(value, 4)?)).map_err(|_| EINVAL)?;
            SocketOption::Linger(flag(value)?.then(|| Duration::from_secs(seconds)))
        }
        (IPPROTO_TCP, TCP_NODELAY) => SocketOption::NoDelay(flag(value)?),
        (IPPROTO_TCP, TCP_MAXSEG) => {
            SocketOption::MaxSegment(u16::try_from(int(value)?).map_err(|_| EINVAL)?)
        }
        (IPPROTO_IP, IP_TTL) => SocketOption::Ttl(hops(value)?),
        (IPPROTO_IP, IP_MULTICAST_TTL) => SocketOption::MulticastTtl(hops(value)?),
        (IPPROTO_IP, IP_MULTICAST_LOOP) | (IPPROTO_IPV6, IPV6_MULTICAST_LOOP) => {
            SocketOption::MulticastLoop(flag(value)?)
        }
        (IPPROTO_IP, IP_ADD_MEMBERSHIP | IP_DROP_MEMBERSHIP) => {
            // struct ip_mreq: group, interface.
            let group = Ipv4Addr::from(part::<4>(value, 0)?);
            let interface = Ipv4Addr::from(part::<4>(value, 4)?);
            if name == IP_ADD_MEMBERSHIP {
                SocketOption::JoinMulticastV4(group, interface)
            } else {
                SocketOption::LeaveMulticastV4(group, interface)
            }
        }
        (IPPROTO_IPV6, IPV6_ADD_MEMBERSHIP | IPV6_DROP_MEMBERSHIP) => {
            // struct ipv6_mreq: group, interface number.
            let group = Ipv6Addr::from(part::<16>(value, 0)?);
            let interface = u32::from_ne_bytes(part(value, 16)?);
            if name == IPV6_ADD_MEMBERSHIP {
                SocketOption::JoinMulticastV6(group, interface)
            } else {
                SocketOption::LeaveMulticastV6(group, interface)
            }
        }
        (IPPROTO_IPV6, IPV6_V6ONLY) => SocketOption::OnlyV6(flag(value)?),
        _ => return Err(ENOPROTOOPT),
    };
    with_stack(|stack, now| stack.set_option(socket.id(), option, now)).map_err(errno)
}

fn timeval(ns: u64) -> Value {
    let seconds = (ns / 1_000_000_000) as i64;
    let micros = (ns % 1_000_000_000 / 1000) as i32;
    Value::of(&[&seconds.to_ne_bytes(), &micros.to_ne_bytes(), &[0; 4]])
}

/// Reads an option.
pub fn get_option(socket: &Socket, level: i32, name: i32) -> Result<Value, Errno> {
    let name = match (level, name) {
        (SOL_SOCKET, SO_RCVTIMEO) => return Ok(timeval(socket.receive_timeout.get())),
        (SOL_SOCKET, SO_SNDTIMEO) => return Ok(timeval(socket.send_timeout.get())),
        (SOL_SOCKET, SO_ERROR) => return Ok(Value::int(take_error(socket))),
        (SOL_SOCKET, SO_REUSEADDR) => SocketOptionName::ReuseAddress,
        (SOL_SOCKET, SO_KEEPALIVE) => SocketOptionName::KeepAlive,
        (SOL_SOCKET, SO_BROADCAST) => SocketOptionName::Broadcast,
        (SOL_SOCKET, SO_SNDBUF) => SocketOptionName::SendBuffer,
        (SOL_SOCKET, SO_RCVBUF) => SocketOptionName::ReceiveBuffer,
        (SOL_SOCKET, SO_LINGER) => SocketOptionName::Linger,
        (IPPROTO_TCP, TCP_NODELAY) => SocketOptionName::NoDelay,
        (IPPROTO_TCP, TCP_MAXSEG) => SocketOptionName::MaxSegment,
        (IPPROTO_IP, IP_TTL) => SocketOptionName::Ttl,
        (IPPROTO_IP, IP_MULTICAST_TTL) => SocketOptionName::MulticastTtl,
        (IPPROTO_IP, IP_MULTICAST_LOOP) | (IPPROTO_IPV6, IPV6_MULTICAST_LOOP) => {
            SocketOptionName::MulticastLoop
        }
        (IPPROTO_IPV6, IPV6_V6ONLY) => SocketOptionName::OnlyV6,
        _ => return Err(ENOPROTOOPT),
    };
    let option = look(|stack| stack.option(socket.id(), name)).map_err(errno)?;
    Ok(match option {
        SocketOption::NoDelay(on)
        | SocketOption::MulticastLoop(on)
        | SocketOption::Broadcast(on)
        | SocketOption::OnlyV6(on)
        | SocketOption::KeepAlive(on)
        | SocketOption::ReuseAddress(on) => Value::int(i32::from(on)),
        SocketOption::Ttl(n)
        | SocketOption::HopLimit(n)
        | SocketOption::MulticastTtl(n)
        | SocketOption::KeepCount(n) => Value::int(i32::from(n)),
        SocketOption::MaxSegment(octets) => Value::int(octets.into()),
        SocketOption::ReceiveBuffer(n) | SocketOption::SendBuffer(n) => {
            Value::int(n.min(i32::MAX as usize) as i32)
        }
        SocketOption::KeepIdle(time) | SocketOption::KeepInterval(time) => {
            Value::int(time.secs().min(i32::MAX as u64) as i32)
        }
        SocketOption::Linger(linger) => {
            let seconds = linger.map_or(0, |time| time.secs().min(i32::MAX as u64) as i32);
            let on = i32::from(linger.is_some());
            Value::of(&[&on.to_ne_bytes(), &seconds.to_ne_bytes()])
        }
        SocketOption::JoinMulticastV4(..)
        | SocketOption::LeaveMulticastV4(..)
        | SocketOption::JoinMulticastV6(..)
        | SocketOption::LeaveMulticastV6(..) => return Err(ENOPROTOOPT),
    })
}

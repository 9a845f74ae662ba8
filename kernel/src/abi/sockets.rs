//! Sockets.

use core::ffi::c_void;
use core::net::SocketAddr;

use alloc::rc::Rc;

use hermit_abi::errno::{
    EAFNOSUPPORT, EFAULT, EINVAL, ENOTSOCK, EOPNOTSUPP, EPROTONOSUPPORT, EPROTOTYPE,
};
use hermit_abi::{
    AF_INET, AF_INET6, IPPROTO_TCP, IPPROTO_UDP, MSG_PEEK, SHUT_RD, SHUT_RDWR, SHUT_WR,
    SOCK_CLOEXEC, SOCK_DGRAM, SOCK_NONBLOCK, SOCK_STREAM, sockaddr, sockaddr_in6, socklen_t,
};
use trireme_netstack::{Family, Kind, Shutdown};

use super::{answer, bytes, bytes_mut, read, write};
use crate::descriptor::{self, Description, Errno};
use crate::net::{self, Socket};
use crate::preempt;

/// Room for the longest address here.
const ADDRESS: usize = size_of::<sockaddr_in6>();
/// What Linux takes for "as much as possible" (`SOMAXCONN`).
const BACKLOG: usize = 4096;

/// Runs a call on a socket, preemption off.
fn on_socket<T>(
    fd: i32,
    call: impl FnOnce(&Rc<Description>, &Socket) -> Result<T, Errno>,
) -> Result<T, Errno> {
    let description = descriptor::get(fd)?;
    call(&description, description.socket().ok_or(ENOTSOCK)?)
}

/// # Safety
/// `address` is null or holds `len` bytes.
unsafe fn address(address: *const sockaddr, len: socklen_t) -> Result<SocketAddr, Errno> {
    if address.is_null() {
        return Err(EFAULT);
    }
    // SAFETY: the caller's duty; more than the longest address is not looked at.
    net::from_c(unsafe { bytes(address.cast(), (len as usize).min(ADDRESS)) }?)
}

/// Stores an address for the caller, cut to the room there is; the length becomes the real one.
///
/// # Safety
/// `len` is null or a length, and `out` null or room for that many bytes.
unsafe fn give(out: *mut sockaddr, len: *mut socklen_t, address: SocketAddr) -> Result<(), Errno> {
    let mut raw = [0; ADDRESS];
    let needed = net::to_c(address, &mut raw);
    // SAFETY: the caller's duty.
    unsafe {
        let room = read(len)? as usize;
        let out = bytes_mut(out.cast(), room.min(needed))?;
        out.copy_from_slice(&raw[..out.len()]);
        write(len, needed as socklen_t)
    }
}

#[unsafe(no_mangle)]
extern "C" fn sys_socket(domain: i32, kind: i32, protocol: i32) -> i32 {
    let _guard = preempt::disable();
    let make = || {
        let family = match domain {
            AF_INET => Family::V4,
            AF_INET6 => Family::V6,
            _ => return Err(EAFNOSUPPORT),
        };
        let flags = kind & (SOCK_NONBLOCK | SOCK_CLOEXEC);
        let kind = match (kind & !flags, protocol) {
            (SOCK_STREAM, 0 | IPPROTO_TCP) => Kind::Stream,
            (SOCK_DGRAM, 0 | IPPROTO_UDP) => Kind::Datagram,
            (SOCK_STREAM | SOCK_DGRAM, IPPROTO_TCP | IPPROTO_UDP) => return Err(EPROTOTYPE),
            (SOCK_STREAM | SOCK_DGRAM, _) => return Err(EPROTONOSUPPORT),
            _ => return Err(EINVAL),
        };
        descriptor::insert(net::open(family, kind, flags & SOCK_NONBLOCK != 0)?)
    };
    answer(make())
}

/// # Safety
/// `name` is null or holds `len` bytes.
#[unsafe(no_mangle)]
unsafe extern "C" fn sys_bind(fd: i32, name: *const sockaddr, len: socklen_t) -> i32 {
    let _guard = preempt::disable();
    answer(on_socket(fd, |_, socket| {
        // SAFETY: the caller's duty.
        net::bind(socket, unsafe { address(name, len) }?).map(|()| 0)
    }))
}

#[unsafe(no_mangle)]
extern "C" fn sys_listen(fd: i32, backlog: i32) -> i32 {
    let _guard = preempt::disable();
    // As Linux: at least one, at most SOMAXCONN; negative means the most.
    let backlog = usize::try_from(backlog).unwrap_or(BACKLOG).clamp(1, BACKLOG);
    answer(on_socket(fd, |_, socket| net::listen(socket, backlog).map(|()| 0)))
}

/// # Safety
/// `name` is null or has room for the `*len` bytes.
#[unsafe(no_mangle)]
unsafe extern "C" fn sys_accept(fd: i32, name: *mut sockaddr, len: *mut socklen_t) -> i32 {
    let _guard = preempt::disable();
    answer(on_socket(fd, |description, socket| {
        let (accepted, peer) = net::accept(description, socket)?;
        if !name.is_null() {
            // SAFETY: the caller's duty.
            unsafe { give(name, len, peer) }?;
        }
        descriptor::insert(accepted)
    }))
}

/// # Safety
/// `name` is null or holds `len` bytes.
#[unsafe(no_mangle)]
unsafe extern "C" fn sys_connect(fd: i32, name: *const sockaddr, len: socklen_t) -> i32 {
    let _guard = preempt::disable();
    answer(on_socket(fd, |description, socket| {
        // SAFETY: the caller's duty.
        net::connect(description, socket, unsafe { address(name, len) }?).map(|()| 0)
    }))
}

/// # Safety
/// `data` is null or holds `len` bytes.
#[unsafe(no_mangle)]
unsafe extern "C" fn sys_send(fd: i32, data: *const c_void, len: usize, flags: i32) -> isize {
    // SAFETY: the caller's duty.
    unsafe { sys_sendto(fd, data, len, flags, core::ptr::null(), 0) }
}

/// # Safety
/// `data` is null or holds `len` bytes, `to` is null or holds `to_len` bytes.
#[unsafe(no_mangle)]
unsafe extern "C" fn sys_sendto(
    fd: i32,
    data: *const c_void,
    len: usize,
    flags: i32,
    to: *const sockaddr,
    to_len: socklen_t,
) -> isize {
    let _guard = preempt::disable();
    let result = on_socket(fd, |description, socket| {
        if flags != 0 {
            return Err(EOPNOTSUPP);
        }
        // SAFETY: the caller's duty.
        let data = unsafe { bytes(data.cast(), len) }?;
        if to.is_null() || !socket.is_datagram() {
            return net::send(description, socket, data);
        }
        // SAFETY: the caller's duty.
        net::send_to(description, socket, data, unsafe { address(to, to_len) }?)
    });
    answer(result.map(|n| n as isize))
}

/// # Safety
/// `buffer` is null or has room for `len` bytes.
#[unsafe(no_mangle)]
unsafe extern "C" fn sys_recv(fd: i32, buffer: *mut u8, len: usize, flags: i32) -> isize {
    let _guard = preempt::disable();
    let result = on_socket(fd, |description, socket| {
        if flags & !MSG_PEEK != 0 {
            return Err(EOPNOTSUPP);
        }
        // SAFETY: the caller's duty.
        let buffer = unsafe { bytes_mut(buffer, len) }?;
        net::receive(description, socket, buffer, flags & MSG_PEEK != 0)
    });
    answer(result.map(|n| n as isize))
}

/// # Safety
/// `buffer` is null or has room for `len` bytes, `from` is null or has room for the `*from_len` bytes.
#[unsafe(no_mangle)]
unsafe extern "C" fn sys_recvfrom(
    fd: i32,
    buffer: *mut u8,
    len: usize,
    flags: i32,
    from: *mut sockaddr,
    from_len: *mut socklen_t,
) -> isize {
    let _guard = preempt::disable();
    let result = on_socket(fd, |description, socket| {
        if flags & !MSG_PEEK != 0 {
            return Err(EOPNOTSUPP);
        }
        // SAFETY: the caller's duty.
        let buffer = unsafe { bytes_mut(buffer, len) }?;
        let (n, peer) = net::receive_from(description, socket, buffer, flags & MSG_PEEK != 0)?;
        if !from.is_null() {
            // SAFETY: the caller's duty.
            unsafe { give(from, from_len, peer) }?;
        }
        Ok(n)
    });
    answer(result.map(|n| n as isize))
}

#[unsafe(no_mangle)]
extern "C" fn sys_shutdown(fd: i32, how: i32) -> i32 {
    let _guard = preempt::disable();
    answer(on_socket(fd, |_, socket| {
        let how = match how {
            SHUT_RD => Shutdown::Read,
            SHUT_WR => Shutdown::Write,
            SHUT_RDWR => Shutdown::Both,
            _ => return Err(EINVAL),
        };
        net::shutdown(socket, how).map(|()| 0)
    }))
}

#[unsafe(no_mangle)]
extern "C" fn sys_shutdown_socket(fd: i32, how: i32) -> i32 {
    sys_shutdown(fd, how)
}

/// # Safety
/// `name` is null or has room for the `*len` bytes.
#[unsafe(no_mangle)]
unsafe extern "C" fn sys_getsockname(fd: i32, name: *mut sockaddr, len: *mut socklen_t) -> i32 {
    let _guard = preempt::disable();
    answer(on_socket(fd, |_, socket| {
        // SAFETY: the caller's duty.
        unsafe { give(name, len, net::local_address(socket)?) }.map(|()| 0)
    }))
}

/// # Safety
/// `name` is null or has room for the `*len` bytes.
#[unsafe(no_mangle)]
unsafe extern "C" fn sys_getpeername(fd: i32, name: *mut sockaddr, len: *mut socklen_t) -> i32 {
    let _guard = preempt::disable();
    answer(on_socket(fd, |_, socket| {
        // SAFETY: the caller's duty.
        unsafe { give(name, len, net::peer_address(socket)?) }.map(|()| 0)
    }))
}

/// # Safety
/// `value` is null or has room for the `*len` bytes.
#[unsafe(no_mangle)]
unsafe extern "C" fn sys_getsockopt(
    fd: i32,
    level: i32,
    name: i32,
    value: *mut c_void,
    len: *mut socklen_t,
) -> i32 {
    let _guard = preempt::disable();
    answer(on_socket(fd, |_, socket| {
        // SAFETY: the caller's duty.
        let room = unsafe { read(len) }? as usize;
        let found = net::get_option(socket, level, name)?;
        let found = found.as_bytes();
        // Linux cuts a value to the room, too.
        let n = found.len().min(room);
        // SAFETY: the caller's duty.
        unsafe {
            bytes_mut(value.cast(), n)?.copy_from_slice(&found[..n]);
            write(len, n as socklen_t)?;
        }
        Ok(0)
    }))
}

/// # Safety
/// `value` is null or holds `len` bytes.
#[unsafe(no_mangle)]
unsafe extern "C" fn sys_setsockopt(
    fd: i32,
    level: i32,
    name: i32,
    value: *const c_void,
    len: socklen_t,
) -> i32 {
    let _guard = preempt::disable();
    answer(on_socket(fd, |_, socket| {
        // SAFETY: the caller's duty.
        net::set_option(socket, level, name, unsafe { bytes(value.cast(), len as usize) }?)
            .map(|()| 0)
    }))
}

/// The network is up before the program starts.
#[unsafe(no_mangle)]
extern "C" fn sys_network_init() -> i32 {
    0
}

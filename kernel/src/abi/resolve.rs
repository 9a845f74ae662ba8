//! Names to addresses.

use alloc::boxed::Box;
use core::ffi::c_char;
use core::net::{IpAddr, SocketAddr};

use hermit_abi::errno::{EINVAL, EIO};
use hermit_abi::{
    AF_INET, AF_INET6, AF_UNSPEC, EAI_AGAIN, EAI_FAIL, EAI_FAMILY, EAI_MEMORY, EAI_NONAME,
    EAI_SERVICE, EAI_SOCKTYPE, IPPROTO_TCP, IPPROTO_UDP, SOCK_DGRAM, SOCK_STREAM, addrinfo,
    in_addr, in6_addr, sockaddr, sockaddr_in6,
};
use trireme_netstack::Error;

use super::{answer, bytes_mut, read, string, write};
use crate::{net, preempt};

/// One answer, and the address it points to.
#[repr(C)]
struct Record {
    /// First, so that a pointer to it is one to the record.
    info: addrinfo,
    address: [u8; size_of::<sockaddr_in6>()],
}

fn code(error: Error) -> i32 {
    match error {
        Error::NameNotFound => EAI_NONAME,
        Error::TryAgain | Error::TimedOut | Error::NetworkUnreachable => EAI_AGAIN,
        Error::NoBufferSpace => EAI_MEMORY,
        Error::InvalidArgument => EAI_NONAME,
        _ => EAI_FAIL,
    }
}

/// # Safety
/// `node` and `service` are null or strings, `hints` is null or an `addrinfo`, `result` is null or has room for a
/// pointer.
#[unsafe(no_mangle)]
unsafe extern "C" fn sys_getaddrinfo(
    node: *const c_char,
    service: *const c_char,
    hints: *const addrinfo,
    result: *mut *mut addrinfo,
) -> i32 {
    let _guard = preempt::disable();
    let look_up = || {
        let (mut family, mut kind) = (AF_UNSPEC, 0);
        if !hints.is_null() {
            // SAFETY: the caller's duty.
            let hints = unsafe { read(hints) }.map_err(|_| EAI_FAIL)?;
            (family, kind) = (hints.ai_family, hints.ai_socktype);
        }
        if !matches!(family, AF_UNSPEC | AF_INET | AF_INET6) {
            return Err(EAI_FAMILY);
        }
        if !matches!(kind, 0 | SOCK_STREAM | SOCK_DGRAM) {
            return Err(EAI_SOCKTYPE);
        }
        let port = if service.is_null() {
            0
        } else {
            // SAFETY: the caller's duty. There is no list of services: numbers only.
            let service = unsafe { string(service) }.map_err(|_| EAI_SERVICE)?;
            service.parse().map_err(|_| EAI_SERVICE)?
        };
        // SAFETY: the caller's duty.
        let node = unsafe { string(node) }.map_err(|_| EAI_NONAME)?;
        let addresses = net::resolve(node).map_err(code)?;
        let wanted = addresses.into_iter().filter(|address| match family {
            AF_INET => address.is_ipv4(),
            AF_INET6 => address.is_ipv6(),
            _ => true,
        });
        let mut first: *mut addrinfo = core::ptr::null_mut();
        // Built from the end, so that the order stays.
        for address in wanted.rev() {
            first = record(SocketAddr::new(address, port), kind, first);
        }
        if first.is_null() { Err(EAI_NONAME) } else { Ok(first) }
    };
    match look_up() {
        Ok(first) => {
            // SAFETY: the caller's duty.
            if unsafe { write(result, first) }.is_err() {
                sys_freeaddrinfo(first);
                return EAI_FAIL;
            }
            0
        }
        Err(code) => code,
    }
}

fn record(address: SocketAddr, kind: i32, next: *mut addrinfo) -> *mut addrinfo {
    let mut record = Box::new(Record {
        info: addrinfo {
            ai_flags: 0,
            ai_family: if address.is_ipv4() { AF_INET } else { AF_INET6 },
            ai_socktype: if kind == 0 { SOCK_STREAM } else { kind },
            ai_protocol: if kind == SOCK_DGRAM { IPPROTO_UDP } else { IPPROTO_TCP },
            ai_addrlen: 0,
            ai_canonname: core::ptr::null_mut(),
            ai_addr: core::ptr::null_mut(),
            ai_next: next,
        },
        address: [0; size_of::<sockaddr_in6>()],
    });
    record.info.ai_addrlen = net::to_c(address, &mut record.address) as u32;
    let record = Box::into_raw(record);
    // SAFETY: just made; nothing else points into it.
    unsafe { (*record).info.ai_addr = (&raw mut (*record).address).cast::<sockaddr>() };
    record.cast()
}

/// Frees a list of `sys_getaddrinfo`.
#[unsafe(no_mangle)]
extern "C" fn sys_freeaddrinfo(mut list: *mut addrinfo) {
    while !list.is_null() {
        // SAFETY: the list is one of ours, says the contract: each entry is the first field of a `Record`.
        let record = unsafe { Box::from_raw(list.cast::<Record>()) };
        list = record.info.ai_next;
    }
}

/// The first address of a name, in the family that `len` is the size of.
///
/// # Safety
/// `name` is null or a string; `out` is null or has room for `len` bytes.
#[unsafe(no_mangle)]
unsafe extern "C" fn sys_getaddrbyname(name: *const c_char, out: *mut u8, len: usize) -> i32 {
    const V4: usize = size_of::<in_addr>();
    const V6: usize = size_of::<in6_addr>();
    let _guard = preempt::disable();
    let look_up = || {
        if len != V4 && len != V6 {
            return Err(EINVAL);
        }
        // SAFETY: the caller's duty.
        let (name, out) = unsafe { (string(name)?, bytes_mut(out, len)?) };
        let addresses = net::resolve(name).map_err(|_| EIO)?;
        for address in addresses {
            match address {
                IpAddr::V4(ip) if len == V4 => out.copy_from_slice(&ip.octets()),
                IpAddr::V6(ip) if len == V6 => out.copy_from_slice(&ip.octets()),
                _ => continue,
            }
            return Ok(0);
        }
        Err(hermit_abi::errno::ENOENT)
    };
    answer(look_up())
}

//! Calls on descriptors of any kind.

use core::ffi::c_void;

use alloc::rc::Rc;

use hermit_abi::errno::{EAGAIN, EBADF, EFAULT, EINVAL, EISDIR, ENOMEM, ENOTTY, ESPIPE};
use hermit_abi::{
    EFD_CLOEXEC, EFD_NONBLOCK, EFD_SEMAPHORE, F_DUPFD, F_GETFD, F_GETFL, F_SETFD, F_SETFL, FIONBIO,
    IOV_MAX, O_NONBLOCK, O_RDWR, POLLERR, POLLHUP, POLLIN, POLLNVAL, POLLOUT, POLLRDNORM,
    POLLWRNORM, iovec, pollfd,
};

use super::{answer, bytes, bytes_mut, read, write};
use crate::descriptor::{self, Description, Errno, EventCounter, Object};
use crate::thread::{self, Wake, wait::WaitList};
use crate::{console, preempt, syslog, time};

/// Waits on a list, unless the description is non-blocking.
fn wait(
    description: &Description,
    list: &WaitList,
    exclusive: bool,
    deadline: Option<u64>,
) -> Result<(), Errno> {
    if description.nonblocking.get() {
        return Err(EAGAIN);
    }
    match list.wait(exclusive, deadline) {
        Some(Wake::Woken) => Ok(()),
        Some(Wake::TimedOut) => Err(EAGAIN),
        None => Err(ENOMEM),
    }
}

fn read_description(description: &Description, buffer: &mut [u8]) -> Result<usize, Errno> {
    match &description.object {
        Object::Input => {
            if buffer.is_empty() {
                return Ok(0);
            }
            console::claim();
            loop {
                let taken = console::take_input(buffer);
                if taken > 0 {
                    return Ok(taken);
                }
                wait(description, console::readers(), false, None)?;
            }
        }
        Object::Output => Err(EBADF),
        Object::Socket(socket) => crate::net::receive(description, socket, buffer, false),
        Object::Event(event) => read_event(description, event, buffer),
        Object::File(file) => {
            if file.entry.is_directory() {
                return Err(EISDIR);
            }
            let rest = file.entry.data.get(file.position.get()..).unwrap_or(&[]);
            let n = rest.len().min(buffer.len());
            buffer[..n].copy_from_slice(&rest[..n]);
            file.position.set(file.position.get() + n);
            Ok(n)
        }
    }
}

fn write_description(description: &Description, buffer: &[u8]) -> Result<usize, Errno> {
    match &description.object {
        Object::Input => Err(EBADF),
        Object::Output => {
            console::write(buffer);
            syslog::printed(buffer);
            Ok(buffer.len())
        }
        Object::Socket(socket) => crate::net::send(description, socket, buffer),
        Object::Event(event) => write_event(description, event, buffer),
        // Opened read-only: there is no other way.
        Object::File(_) => Err(EBADF),
    }
}

fn read_event(
    description: &Description,
    event: &EventCounter,
    buffer: &mut [u8],
) -> Result<usize, Errno> {
    let out = buffer.first_chunk_mut::<8>().ok_or(EINVAL)?;
    while event.count.get() == 0 {
        wait(description, &description.waiters, false, None)?;
    }
    let taken = if event.semaphore { 1 } else { event.count.get() };
    event.count.set(event.count.get() - taken);
    *out = taken.to_ne_bytes();
    // A writer may be waiting for room.
    description.waiters.wake();
    Ok(8)
}

fn write_event(
    description: &Description,
    event: &EventCounter,
    buffer: &[u8],
) -> Result<usize, Errno> {
    let added = u64::from_ne_bytes(*buffer.first_chunk::<8>().ok_or(EINVAL)?);
    if added == u64::MAX {
        return Err(EINVAL);
    }
    // The largest value is u64::MAX - 1, as eventfd(2) has it.
    while added > u64::MAX - 1 - event.count.get() {
        wait(description, &description.waiters, false, None)?;
    }
    event.count.set(event.count.get() + added);
    description.waiters.wake();
    Ok(8)
}

/// # Safety
/// `buffer` is null or has room for `len` bytes.
#[unsafe(no_mangle)]
unsafe extern "C" fn sys_read(fd: i32, buffer: *mut u8, len: usize) -> isize {
    let _guard = preempt::disable();
    let read = || {
        let description = descriptor::get(fd)?;
        // SAFETY: the caller's duty.
        read_description(&description, unsafe { bytes_mut(buffer, len) }?)
    };
    answer(read().map(|n| n as isize))
}

/// # Safety
/// `buffer` is null or holds `len` bytes.
#[unsafe(no_mangle)]
unsafe extern "C" fn sys_write(fd: i32, buffer: *const u8, len: usize) -> isize {
    let _guard = preempt::disable();
    let write = || {
        // SAFETY: the caller's duty.
        let buffer = unsafe { bytes(buffer, len) }?;
        if matches!(fd, 1 | 2) && descriptor::is_busy() {
            // A panic inside the table's own code reports here.
            console::write(buffer);
            return Ok(len);
        }
        write_description(&*descriptor::get(fd)?, buffer)
    };
    answer(write().map(|n| n as isize))
}

/// # Safety
/// As [`vector`].
unsafe fn vector<'a>(list: *const iovec, count: usize) -> Result<&'a [iovec], Errno> {
    if count > IOV_MAX {
        return Err(EINVAL);
    }
    if count == 0 {
        return Ok(&[]);
    }
    if list.is_null() || !list.is_aligned() {
        return Err(EFAULT);
    }
    // SAFETY: the caller vouches for `count` entries.
    Ok(unsafe { core::slice::from_raw_parts(list, count) })
}

/// # Safety
/// `list` is null or holds `count` entries, each null or with room for its bytes.
#[unsafe(no_mangle)]
unsafe extern "C" fn sys_readv(fd: i32, list: *const iovec, count: usize) -> isize {
    let _guard = preempt::disable();
    let read = || {
        let description = descriptor::get(fd)?;
        let mut total = 0;
        // SAFETY: the caller's duty.
        for entry in unsafe { vector(list, count) }? {
            // SAFETY: the caller's duty.
            let buffer = unsafe { bytes_mut(entry.iov_base.cast(), entry.iov_len) }?;
            if buffer.is_empty() {
                continue;
            }
            // What has been read already must not be held back by waiting for more.
            if total > 0 && readiness(&description) & POLLIN == 0 {
                break;
            }
            let n = match read_description(&description, buffer) {
                Ok(n) => n,
                Err(_) if total > 0 => break,
                Err(errno) => return Err(errno),
            };
            total += n;
            if n < buffer.len() {
                break;
            }
        }
        Ok(total)
    };
    answer(read().map(|n| n as isize))
}

/// # Safety
/// `list` is null or holds `count` entries, each null or holding its bytes.
#[unsafe(no_mangle)]
unsafe extern "C" fn sys_writev(fd: i32, list: *const iovec, count: usize) -> isize {
    let _guard = preempt::disable();
    let write = || {
        // SAFETY: the caller's duty.
        let list = unsafe { vector(list, count) }?;
        let description = descriptor::get(fd)?;
        if let Some(socket) = description.socket() {
            let mut slices = [&[][..]; 16];
            let used = list.len().min(slices.len());
            for (slice, entry) in slices.iter_mut().zip(list) {
                // SAFETY: the caller's duty.
                *slice = unsafe { bytes(entry.iov_base.cast(), entry.iov_len) }?;
            }
            // A datagram must go in one piece; a stream may be written in part.
            if list.len() > used && socket.is_datagram() {
                let mut whole = alloc::vec::Vec::new();
                for entry in list {
                    // SAFETY: the caller's duty.
                    let part = unsafe { bytes(entry.iov_base.cast(), entry.iov_len) }?;
                    whole.try_reserve(part.len()).map_err(|_| ENOMEM)?;
                    whole.extend_from_slice(part);
                }
                return crate::net::send(&description, socket, &whole);
            }
            return crate::net::send_vectored(&description, socket, &slices[..used]);
        }
        let mut total = 0;
        for entry in list {
            // SAFETY: the caller's duty.
            let buffer = unsafe { bytes(entry.iov_base.cast(), entry.iov_len) }?;
            if buffer.is_empty() {
                continue;
            }
            let n = match write_description(&description, buffer) {
                Ok(n) => n,
                Err(_) if total > 0 => break,
                Err(errno) => return Err(errno),
            };
            total += n;
            if n < buffer.len() {
                break;
            }
        }
        Ok(total)
    };
    answer(write().map(|n| n as isize))
}

#[unsafe(no_mangle)]
extern "C" fn sys_close(fd: i32) -> i32 {
    let _guard = preempt::disable();
    answer(descriptor::close(fd).map(|()| 0))
}

#[unsafe(no_mangle)]
extern "C" fn sys_dup(fd: i32) -> i32 {
    let _guard = preempt::disable();
    answer(descriptor::get(fd).and_then(descriptor::insert))
}

/// # Safety
/// `argument` is null or points to what the request wants: an `int`.
#[unsafe(no_mangle)]
unsafe extern "C" fn sys_ioctl(fd: i32, request: i32, argument: *mut c_void) -> i32 {
    /// Bytes that can be read at once, as BSD spells it: `_IOR('f', 127, int)`.
    const FIONREAD: i32 = 0x4004_667f;
    let _guard = preempt::disable();
    let control = || {
        let description = descriptor::get(fd)?;
        match request {
            FIONBIO => {
                // SAFETY: the caller's duty.
                let on = unsafe { read(argument.cast::<i32>()) }?;
                description.nonblocking.set(on != 0);
            }
            FIONREAD => {
                let available = match &description.object {
                    Object::Socket(socket) => crate::net::available(socket)?,
                    Object::File(file) => file.entry.data.len().saturating_sub(file.position.get()),
                    _ => return Err(ENOTTY),
                };
                let available = available.min(i32::MAX as usize) as i32;
                // SAFETY: the caller's duty.
                unsafe { write(argument.cast::<i32>(), available) }?;
            }
            _ => return Err(ENOTTY),
        }
        Ok(0)
    };
    answer(control())
}

#[unsafe(no_mangle)]
extern "C" fn sys_fcntl(fd: i32, command: i32, argument: i32) -> i32 {
    let _guard = preempt::disable();
    let control =
        || {
            let description = descriptor::get(fd)?;
            match command {
                F_DUPFD => descriptor::insert_from(argument, description),
                // There is no exec, so close-on-exec is always as good as set.
                F_GETFD | F_SETFD => Ok(0),
                F_GETFL => Ok(access(&description)
                    | if description.nonblocking.get() { O_NONBLOCK } else { 0 }),
                F_SETFL => {
                    // As Linux: access mode and creation flags are ignored; O_APPEND means nothing here.
                    description.nonblocking.set(argument & O_NONBLOCK != 0);
                    Ok(0)
                }
                _ => Err(EINVAL),
            }
        };
    answer(control())
}

fn access(description: &Description) -> i32 {
    match description.object {
        Object::Input | Object::File(_) => hermit_abi::O_RDONLY,
        Object::Output => hermit_abi::O_WRONLY,
        Object::Socket(_) | Object::Event(_) => O_RDWR,
    }
}

#[unsafe(no_mangle)]
extern "C" fn sys_eventfd(initial: u64, flags: i16) -> i32 {
    let _guard = preempt::disable();
    if flags & !(EFD_SEMAPHORE | EFD_NONBLOCK | EFD_CLOEXEC) != 0 || initial == u64::MAX {
        return answer(Err(EINVAL));
    }
    let counter = EventCounter {
        count: core::cell::Cell::new(initial),
        semaphore: flags & EFD_SEMAPHORE != 0,
    };
    let description = Description::new(Object::Event(counter), flags & EFD_NONBLOCK != 0);
    answer(descriptor::insert(description))
}

#[unsafe(no_mangle)]
extern "C" fn sys_fsync(fd: i32) -> i32 {
    let _guard = preempt::disable();
    answer(descriptor::get(fd).and_then(|description| match description.object {
        // Nothing is ever dirty.
        Object::File(_) => Ok(0),
        _ => Err(EINVAL),
    }))
}

#[unsafe(no_mangle)]
extern "C" fn sys_lseek(fd: i32, offset: isize, whence: i32) -> isize {
    let _guard = preempt::disable();
    let seek = || {
        let description = descriptor::get(fd)?;
        let Object::File(file) = &description.object else { return Err(ESPIPE) };
        let base = match whence {
            hermit_abi::SEEK_SET => 0,
            hermit_abi::SEEK_CUR => file.position.get(),
            hermit_abi::SEEK_END => file.entry.data.len(),
            _ => return Err(EINVAL),
        };
        let position = base.checked_add_signed(offset).ok_or(EINVAL)?;
        let answer = isize::try_from(position).map_err(|_| EINVAL)?;
        file.position.set(position);
        Ok(answer)
    };
    answer(seek())
}

/// What could be done without waiting, as `poll` bits.
pub fn readiness(description: &Description) -> i16 {
    const BOTH: i16 = POLLIN | POLLRDNORM;
    const WRITE: i16 = POLLOUT | POLLWRNORM;
    match &description.object {
        Object::Input if console::has_input() => BOTH,
        Object::Input => 0,
        Object::Output => WRITE,
        Object::Socket(socket) => crate::net::poll_bits(socket),
        Object::Event(event) => {
            let count = event.count.get();
            (if count > 0 { BOTH } else { 0 }) | if count < u64::MAX - 1 { WRITE } else { 0 }
        }
        Object::File(_) => BOTH | WRITE,
    }
}

/// Where to wait for the readiness of a description to change.
pub fn wait_list(description: &Description) -> &WaitList {
    match description.object {
        Object::Input => {
            console::claim();
            console::readers()
        }
        _ => &description.waiters,
    }
}

/// Fills in `revents`; how many descriptors have any.
fn look(list: &mut [pollfd]) -> i32 {
    let mut ready = 0;
    for entry in list {
        entry.revents = if entry.fd < 0 {
            0
        } else {
            match descriptor::get(entry.fd) {
                Ok(description) => readiness(&description) & (entry.events | POLLERR | POLLHUP),
                Err(_) => POLLNVAL,
            }
        };
        ready += i32::from(entry.revents != 0);
    }
    ready
}

/// # Safety
/// `list` is null or holds `count` entries.
#[unsafe(no_mangle)]
unsafe extern "C" fn sys_poll(list: *mut pollfd, count: usize, timeout_ms: i32) -> i32 {
    let _guard = preempt::disable();
    let result = (|| {
        if count > 0 && (list.is_null() || !list.is_aligned()) {
            return Err(EFAULT);
        }
        if count > i32::MAX as usize {
            return Err(EINVAL);
        }
        let list = if count == 0 {
            &mut []
        } else {
            // SAFETY: the caller's duty; not null and aligned.
            unsafe { core::slice::from_raw_parts_mut(list, count) }
        };
        let deadline = u64::try_from(timeout_ms)
            .ok()
            .map(|milliseconds| time::deadline_after(milliseconds * 1_000_000));
        poll(list, timeout_ms == 0, deadline)
    })();
    // Unlike the rest, callers look at errno here: an error is -1, nothing else.
    match result {
        Ok(ready) => ready,
        Err(errno) => {
            thread::set_errno(errno);
            -1
        }
    }
}

fn poll(list: &mut [pollfd], at_once: bool, deadline: Option<u64>) -> Result<i32, Errno> {
    loop {
        let ready = look(list);
        if ready > 0 || at_once {
            return Ok(ready);
        }
        // What is waited on is held, so that a close by another thread does not pull it away.
        let mut held: alloc::vec::Vec<Rc<Description>> = alloc::vec::Vec::new();
        held.try_reserve(list.len()).map_err(|_| ENOMEM)?;
        held.extend(list.iter().filter_map(|entry| descriptor::get(entry.fd).ok()));
        let entered = held.iter().all(|description| wait_list(description).enter(false));
        let wake = if entered { thread::block(deadline) } else { Wake::Woken };
        for description in &held {
            wait_list(description).leave();
        }
        if !entered {
            return Err(ENOMEM);
        }
        if wake == Wake::TimedOut {
            return Ok(look(list));
        }
    }
}

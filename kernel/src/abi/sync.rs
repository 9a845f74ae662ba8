//! Futexes, semaphores, and the wait queues that early versions of Hermit's `std` used.

use alloc::boxed::Box;
use core::cell::Cell;
use core::ffi::c_void;

use hermit_abi::errno::{EAGAIN, EINVAL, ENOMEM, ENOSYS, EOVERFLOW, ETIMEDOUT};
use hermit_abi::{FUTEX_RELATIVE_TIMEOUT, timespec};

use super::{answer, nanoseconds, read, write};
use crate::descriptor::Errno;
use crate::thread::{self, Wake, wait::WaitList};
use crate::{preempt, time};

/// # Safety
/// `address` is null or an atomic word; `timeout` is null or a `timespec`.
#[unsafe(no_mangle)]
unsafe extern "C" fn sys_futex_wait(
    address: *mut u32,
    expected: u32,
    timeout: *const timespec,
    flags: u32,
) -> i32 {
    let wait = || {
        if address.is_null() || !address.is_aligned() || flags & !FUTEX_RELATIVE_TIMEOUT != 0 {
            return Err(EINVAL);
        }
        let deadline = if timeout.is_null() {
            None
        } else {
            // SAFETY: the caller's duty.
            let time = nanoseconds(unsafe { read(timeout) }?)?;
            let relative = flags & FUTEX_RELATIVE_TIMEOUT != 0;
            Some(if relative { time::deadline_after(time) } else { time })
        };
        // SAFETY: the caller's duty.
        match unsafe { thread::futex_wait(address, expected, deadline) } {
            None => Err(EAGAIN),
            Some(Wake::TimedOut) => Err(ETIMEDOUT),
            Some(Wake::Woken) => Ok(0),
        }
    };
    answer(wait())
}

#[unsafe(no_mangle)]
extern "C" fn sys_futex_wake(address: *mut u32, count: i32) -> i32 {
    match u32::try_from(count) {
        Ok(count) if !address.is_null() => {
            let count = if count == i32::MAX as u32 { u32::MAX } else { count };
            thread::futex_wake(address as usize, count).min(i32::MAX as u32) as i32
        }
        _ => answer(Err(EINVAL)),
    }
}

/// What `sem_t` points to.
struct Semaphore {
    count: Cell<u32>,
    waiters: WaitList,
}

type SemaphoreHandle = *const c_void;

/// # Safety
/// `semaphore` is null or a `sem_t` that `sys_sem_init` set up and `sys_sem_destroy` has not seen yet.
unsafe fn semaphore<'a>(semaphore: *mut SemaphoreHandle) -> Result<&'a Semaphore, Errno> {
    // SAFETY: the caller's duty.
    let inner = unsafe { read(semaphore) }.map_err(|_| EINVAL)?.cast::<Semaphore>();
    // SAFETY: made by `Box::into_raw` in `sys_sem_init`.
    unsafe { inner.as_ref() }.ok_or(EINVAL)
}

/// # Safety
/// `handle` is null or has room for a `sem_t`.
#[unsafe(no_mangle)]
unsafe extern "C" fn sys_sem_init(handle: *mut SemaphoreHandle, shared: i32, value: u32) -> i32 {
    if shared != 0 {
        return answer(Err(ENOSYS));
    }
    if value > i32::MAX as u32 {
        return answer(Err(EINVAL));
    }
    let new = Box::new(Semaphore { count: Cell::new(value), waiters: WaitList::new() });
    let inner: *const Semaphore = Box::into_raw(new);
    // SAFETY: the caller's duty.
    answer(unsafe { write(handle, inner.cast()) }.map_err(|_| EINVAL).map(|()| 0))
}

/// # Safety
/// As [`semaphore`]; nobody waits on it, and it is not used again.
#[unsafe(no_mangle)]
unsafe extern "C" fn sys_sem_destroy(handle: *mut SemaphoreHandle) -> i32 {
    // SAFETY: the caller's duty.
    answer(unsafe { semaphore(handle) }.map(|inner| {
        let inner: *const Semaphore = inner;
        // SAFETY: made by `Box::into_raw`, not used again; the handle is there, it was just read.
        unsafe {
            handle.write(core::ptr::null());
            drop(Box::from_raw(inner.cast_mut()));
        }
        0
    }))
}

/// # Safety
/// As [`semaphore`].
#[unsafe(no_mangle)]
unsafe extern "C" fn sys_sem_post(handle: *mut SemaphoreHandle) -> i32 {
    let _guard = preempt::disable();
    // SAFETY: the caller's duty.
    answer(unsafe { semaphore(handle) }.and_then(|inner| {
        let count = inner.count.get();
        if count >= i32::MAX as u32 {
            return Err(EOVERFLOW);
        }
        inner.count.set(count + 1);
        inner.waiters.wake();
        Ok(0)
    }))
}

/// # Safety
/// As [`semaphore`].
#[unsafe(no_mangle)]
unsafe extern "C" fn sys_sem_trywait(handle: *mut SemaphoreHandle) -> i32 {
    let _guard = preempt::disable();
    // SAFETY: the caller's duty.
    answer(unsafe { semaphore(handle) }.and_then(|inner| {
        let count = inner.count.get();
        inner.count.set(count.checked_sub(1).ok_or(EAGAIN)?);
        Ok(0)
    }))
}

/// Waits until an absolute time of the real-time clock, as POSIX has it; without end if it is null.
///
/// # Safety
/// As [`semaphore`]; `until` is null or a `timespec`.
#[unsafe(no_mangle)]
unsafe extern "C" fn sys_sem_timedwait(
    handle: *mut SemaphoreHandle,
    until: *const timespec,
) -> i32 {
    let _guard = preempt::disable();
    let wait = || {
        // SAFETY: the caller's duty.
        let inner = unsafe { semaphore(handle) }?;
        let deadline = if until.is_null() {
            None
        } else {
            // SAFETY: the caller's duty.
            let until = nanoseconds(unsafe { read(until) }?)?;
            Some(time::deadline_after(until.saturating_sub(time::wall_ns())))
        };
        loop {
            if let Some(left) = inner.count.get().checked_sub(1) {
                inner.count.set(left);
                return Ok(0);
            }
            match inner.waiters.wait(true, deadline) {
                Some(Wake::Woken) => {}
                Some(Wake::TimedOut) => return Err(ETIMEDOUT),
                None => return Err(ENOMEM),
            }
        }
    };
    answer(wait())
}

/// Marked hidden in `hermit-abi`, and superseded there by futexes: nothing current calls these five.
macro_rules! superseded {
    ($($name:ident($($argument:ident: $kind:ty),*);)*) => {$(
        #[unsafe(no_mangle)]
        extern "C" fn $name($($argument: $kind),*) -> i32 {
            $(let _ = $argument;)*
            answer(Err(ENOSYS))
        }
    )*};
}

superseded! {
    sys_init_queue(id: usize);
    sys_destroy_queue(id: usize);
    sys_add_queue(id: usize, timeout_ns: i64);
    sys_wait(id: usize);
    sys_notify(id: usize, count: i32);
}

//! The Hermit ABI: what `std` (and `libc`, for mio and the like) calls, by the names of `hermit-abi` 0.5.
//!
//! Every function checks what it can of its arguments: null or absurd pointers are EFAULT, unknown flags
//! EINVAL, descriptors that are not open EBADF. What this kernel cannot do is ENOSYS or EOPNOTSUPP. Errors are
//! negative numbers; `errno` is set too, for callers that look there.

mod descriptors;
mod files;
mod heap;
mod process;
mod resolve;
mod sockets;
mod sync;
mod threads;

pub use descriptors::{readiness, wait_list};

use hermit_abi::errno::{EFAULT, EINVAL};
use hermit_abi::timespec;

use crate::descriptor::Errno;
use crate::memory::PAGE;
use crate::thread;

/// The way out of a call: the value, or the negative error with `errno` set.
fn answer<T: From<i8> + TryFrom<i64>>(result: Result<T, Errno>) -> T {
    match result {
        Ok(value) => value,
        Err(errno) => {
            thread::set_errno(errno);
            T::try_from(-i64::from(errno)).unwrap_or_else(|_| T::from(-1))
        }
    }
}

/// A caller's buffer to read from. The null page counts as null.
///
/// # Safety
/// If it is not null, the caller vouches for `len` readable bytes that nobody writes meanwhile.
unsafe fn bytes<'a>(pointer: *const u8, len: usize) -> Result<&'a [u8], Errno> {
    if len == 0 {
        return Ok(&[]);
    }
    if (pointer as usize) < PAGE || len > isize::MAX as usize {
        return Err(EFAULT);
    }
    // SAFETY: the caller's duty.
    Ok(unsafe { core::slice::from_raw_parts(pointer, len) })
}

/// A caller's buffer to write to.
///
/// # Safety
/// If it is not null, the caller vouches for `len` writable bytes that nobody else uses meanwhile. They may be
/// uninitialised: they are only written.
unsafe fn bytes_mut<'a>(pointer: *mut u8, len: usize) -> Result<&'a mut [u8], Errno> {
    if len == 0 {
        return Ok(&mut []);
    }
    if (pointer as usize) < PAGE || len > isize::MAX as usize {
        return Err(EFAULT);
    }
    // SAFETY: the caller's duty.
    Ok(unsafe { core::slice::from_raw_parts_mut(pointer, len) })
}

/// A caller's value.
///
/// # Safety
/// If it is not null, the caller vouches for a readable `T`; any bits are a valid `T`.
unsafe fn read<T: Copy>(pointer: *const T) -> Result<T, Errno> {
    if (pointer as usize) < PAGE {
        return Err(EFAULT);
    }
    // SAFETY: the caller's duty; unaligned is allowed, for C callers.
    Ok(unsafe { pointer.read_unaligned() })
}

/// Stores a value for the caller.
///
/// # Safety
/// If it is not null, the caller vouches for room for a `T`.
unsafe fn write<T>(pointer: *mut T, value: T) -> Result<(), Errno> {
    if (pointer as usize) < PAGE {
        return Err(EFAULT);
    }
    // SAFETY: the caller's duty.
    unsafe { pointer.write_unaligned(value) };
    Ok(())
}

/// A caller's NUL-terminated string.
///
/// # Safety
/// If it is not null, the caller vouches for a string that nobody writes meanwhile.
unsafe fn string<'a>(pointer: *const core::ffi::c_char) -> Result<&'a str, Errno> {
    if (pointer as usize) < PAGE {
        return Err(EFAULT);
    }
    // SAFETY: the caller's duty.
    unsafe { core::ffi::CStr::from_ptr(pointer) }.to_str().map_err(|_| EINVAL)
}

/// A duration or point in time in nanoseconds; EINVAL if negative or its nanoseconds are not below a second.
fn nanoseconds(time: timespec) -> Result<u64, Errno> {
    let seconds = u64::try_from(time.tv_sec).map_err(|_| EINVAL)?;
    if !(0..1_000_000_000).contains(&time.tv_nsec) {
        return Err(EINVAL);
    }
    Ok(seconds.saturating_mul(1_000_000_000).saturating_add(time.tv_nsec as u64))
}

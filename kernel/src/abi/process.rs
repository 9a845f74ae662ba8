//! The process that is the whole machine: exit, clocks, entropy, facts.

use hermit_abi::errno::EINVAL;
use hermit_abi::{CLOCK_MONOTONIC, CLOCK_REALTIME, timespec};

use super::{answer, bytes_mut, write};
use crate::memory::PAGE;
use crate::{entropy, net, panic, power, thread, time};

#[unsafe(no_mangle)]
extern "C" fn sys_exit(status: i32) -> ! {
    net::drain();
    power::off(status)
}

#[unsafe(no_mangle)]
extern "C" fn sys_abort() -> ! {
    panic::abort()
}

#[unsafe(no_mangle)]
extern "C" fn sys_get_errno() -> i32 {
    thread::errno()
}

#[unsafe(no_mangle)]
extern "C" fn sys_errno() -> i32 {
    thread::errno()
}

/// There is one process, and ids begin at one.
#[unsafe(no_mangle)]
extern "C" fn sys_getpid() -> i32 {
    1
}

#[unsafe(no_mangle)]
extern "C" fn sys_getpagesize() -> i32 {
    PAGE as i32
}

#[unsafe(no_mangle)]
extern "C" fn sys_available_parallelism() -> usize {
    1
}

#[unsafe(no_mangle)]
extern "C" fn sys_get_processor_count() -> usize {
    1
}

/// # Safety
/// `time` is null or has room for a `timespec`.
#[unsafe(no_mangle)]
unsafe extern "C" fn sys_clock_gettime(clock: i32, time: *mut timespec) -> i32 {
    let now = match clock {
        CLOCK_REALTIME => time::wall_ns(),
        CLOCK_MONOTONIC => time::monotonic_ns(),
        _ => return answer(Err(EINVAL)),
    };
    let value =
        timespec { tv_sec: (now / 1_000_000_000) as i64, tv_nsec: (now % 1_000_000_000) as i32 };
    // SAFETY: the caller's duty.
    answer(unsafe { write(time, value) }.map(|()| 0))
}

/// # Safety
/// `buffer` is null or has room for `len` bytes.
#[unsafe(no_mangle)]
unsafe extern "C" fn sys_read_entropy(buffer: *mut u8, len: usize, flags: u32) -> isize {
    if flags != 0 {
        return answer(Err(EINVAL));
    }
    // SAFETY: the caller's duty.
    answer(unsafe { bytes_mut(buffer, len) }.map(|buffer| {
        entropy::fill(buffer);
        len as isize
    }))
}

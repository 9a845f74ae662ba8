//! Threads.

use hermit_abi::errno::{EAGAIN, EDEADLK, EINVAL};
use hermit_abi::{Tid, timespec};

use super::{answer, nanoseconds, read, write};
use crate::thread::{self, Wake};
use crate::{memory, preempt, ready, time};

/// Stack of `sys_spawn`, in bytes: what `std` asks for at least.
const STACK: usize = 1 << 20;

#[unsafe(no_mangle)]
extern "C" fn sys_spawn2(
    entry: extern "C" fn(usize),
    argument: usize,
    priority: u8,
    stack_size: usize,
    _core: isize,
) -> Tid {
    if usize::from(priority) >= ready::PRIORITIES || stack_size > memory::total() {
        return 0;
    }
    thread::spawn(entry, argument, priority, stack_size).unwrap_or(0)
}

/// # Safety
/// `id` is null or has room for a thread id.
#[unsafe(no_mangle)]
unsafe extern "C" fn sys_spawn(
    id: *mut Tid,
    entry: extern "C" fn(usize),
    argument: usize,
    priority: u8,
    _core: isize,
) -> i32 {
    if usize::from(priority) >= ready::PRIORITIES {
        return answer(Err(EINVAL));
    }
    let spawned = thread::spawn(entry, argument, priority, STACK).ok_or(EAGAIN);
    answer(spawned.and_then(|tid| {
        if id.is_null() {
            return Ok(0);
        }
        // SAFETY: the caller's duty.
        unsafe { write(id, tid) }.map(|()| 0)
    }))
}

#[unsafe(no_mangle)]
extern "C" fn sys_join(id: Tid) -> i32 {
    answer(if thread::join(id) { Ok(0) } else { Err(EDEADLK) })
}

#[unsafe(no_mangle)]
extern "C" fn sys_yield() {
    thread::yield_now();
}

#[unsafe(no_mangle)]
extern "C" fn sys_usleep(microseconds: u64) {
    sleep(microseconds.saturating_mul(1000));
}

/// # Safety
/// `duration` is null or a `timespec`.
#[unsafe(no_mangle)]
unsafe extern "C" fn sys_nanosleep(duration: *const timespec) -> i32 {
    // SAFETY: the caller's duty.
    answer(unsafe { read(duration) }.and_then(nanoseconds).map(|duration| {
        sleep(duration);
        0
    }))
}

fn sleep(duration_ns: u64) {
    let _guard = preempt::disable();
    let deadline = time::deadline_after(duration_ns);
    while thread::block(Some(deadline)) != Wake::TimedOut {}
}

#[unsafe(no_mangle)]
extern "C" fn sys_get_priority() -> u8 {
    thread::priority()
}

#[unsafe(no_mangle)]
extern "C" fn sys_set_priority(id: Tid, priority: u8) {
    if usize::from(priority) < ready::PRIORITIES {
        thread::set_priority(id, priority);
    }
}

#[unsafe(no_mangle)]
extern "C" fn sys_block_current_task() {
    thread::announce_block(None);
}

#[unsafe(no_mangle)]
extern "C" fn sys_block_current_task_with_timeout(milliseconds: u64) {
    thread::announce_block(Some(time::deadline_after(milliseconds.saturating_mul(1_000_000))));
}

#[unsafe(no_mangle)]
extern "C" fn sys_wakeup_taskt(id: Tid) {
    thread::wake_id(id);
}

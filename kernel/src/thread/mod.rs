//! Threads and the scheduler.
//!
//! Round robin within a priority, higher priorities first. A thread keeps the CPU until it blocks,
//! yields, or an equal has waited for its slice to end; a thread that was just woken waits less
//! ([`AFTER_WAKE_NS`]), so that serving stays quick beside computing. There is no idle thread: whoever
//! blocks last runs the idle loop on its own stack, and when what it waited for comes, it simply
//! returns.

use alloc::boxed::Box;
use alloc::vec::Vec;

use crate::arch::{self, Context};
use crate::cell::Kernel;
use crate::futex::FutexTable;
use crate::interrupt::{self, Source};
use crate::memory::Stack;
use crate::preempt;
use crate::ready::ReadyQueue;
use crate::timer::TimerQueue;
use crate::tls;

pub mod wait;

/// How long a computing thread keeps the CPU while equals are ready.
const SLICE_NS: u64 = 10_000_000;
/// How long it keeps it once a thread that had been waiting for something is ready.
const AFTER_WAKE_NS: u64 = 1_000_000;
/// How late the network's timer may be seen to while the program computes, in nanoseconds.
const LAG_NS: u64 = 10_000_000;
/// Priority of a program's threads, Hermit's `NORMAL_PRIO`.
pub const NORMAL: u8 = 2;

/// Slot 0 is not a thread: its timer is the network's.
const NETWORK_TIMER: u32 = 0;
/// A thread id is a slot and, above it, a generation.
const SLOT_BITS: u32 = 16;

/// A slot of the thread table.
pub type Slot = u32;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// Running, or in the run queue.
    Ready,
    /// Waiting for [`wake`] or its timer.
    Blocked,
    /// Never runs again.
    Dead,
}

struct Thread {
    context: Context,
    state: State,
    priority: u8,
    /// The last wake-up was the timer's.
    timed_out: bool,
    /// The next `yield` is to block, until this deadline (`sys_block_current_task`); a [`wake`] in between
    /// takes it back.
    announced: Option<Option<u64>>,
    errno: i32,
    id: u32,
    tls_pointer: usize,
    entry: extern "C" fn(usize),
    argument: usize,
    /// What `ps` calls it.
    name: &'static str,
    /// Time it had the CPU, in nanoseconds, until [`Threads::since`] if it runs.
    cpu_ns: u64,
    /// Threads waiting in `join`.
    joiners: Vec<Slot>,
    stack: Option<Stack>,
    _tls: Option<tls::Block>,
}

struct Threads {
    slots: Vec<Option<Box<Thread>>>,
    generation: u32,
    current: Slot,
    ready: ReadyQueue,
    timers: TimerQueue,
    futexes: FutexTable,
    /// A thread that ended; its stack cannot go before someone else's is in use.
    grave: Option<Box<Thread>>,
    slice_end: u64,
    /// Until when the CPU's time has been given to somebody's account.
    since: u64,
    /// Time nobody wanted the CPU.
    idle_ns: u64,
    /// What the hardware timer is set to; `u64::MAX`: nothing.
    programmed: u64,
    switches: u64,
}

static THREADS: Kernel<Threads> = Kernel::new(Threads {
    slots: Vec::new(),
    generation: 0,
    current: 0,
    ready: ReadyQueue::new(),
    timers: TimerQueue::new(),
    futexes: FutexTable::new(),
    grave: None,
    slice_end: 0,
    since: 0,
    idle_ns: 0,
    programmed: u64::MAX,
    switches: 0,
});

/// Why [`block`] returned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wake {
    /// Someone called [`wake`].
    Woken,
    /// The deadline passed.
    TimedOut,
}

impl Threads {
    fn thread(&mut self, slot: Slot) -> Option<&mut Thread> {
        self.slots.get_mut(slot as usize)?.as_deref_mut()
    }

    fn current(&mut self) -> &mut Thread {
        let slot = self.current;
        self.thread(slot).expect("the running thread has a slot")
    }

    fn by_id(&mut self, id: u32) -> Option<Slot> {
        let slot = id & ((1 << SLOT_BITS) - 1);
        (self.thread(slot)?.id == id).then_some(slot)
    }

    /// False: it was not blocked.
    fn wake(&mut self, slot: Slot, timed_out: bool) -> bool {
        let Some(thread) = self.thread(slot) else { return false };
        if thread.state != State::Blocked {
            thread.announced = None;
            return false;
        }
        thread.state = State::Ready;
        thread.timed_out = timed_out;
        let priority = thread.priority;
        if !timed_out {
            self.timers.cancel(slot);
        }
        self.ready.push(slot, priority);
        if self.current != slot {
            let now = arch::monotonic_ns();
            self.slice_end = self.slice_end.min(now + AFTER_WAKE_NS);
            preempt::mark();
        }
        true
    }

    /// Puts a new thread into a free slot.
    fn insert(&mut self, mut thread: Box<Thread>) -> Result<u32, Box<Thread>> {
        let free = self.slots.iter().skip(1).position(Option::is_none).map(|at| at + 1);
        let slot = free.unwrap_or(self.slots.len().max(1));
        if slot >= 1 << SLOT_BITS {
            return Err(thread);
        }
        let keys = slot as u32 + 1;
        if slot >= self.slots.len() {
            let more = slot + 1 - self.slots.len();
            if self.slots.try_reserve(more).is_err() {
                return Err(thread);
            }
            self.slots.resize_with(slot + 1, || None);
        }
        if !(self.ready.reserve(keys) && self.timers.reserve(keys) && self.futexes.reserve(keys)) {
            return Err(thread);
        }
        // 15 bits, so that an id is positive as an i32 too.
        self.generation = (self.generation + 1) & 0x7fff;
        thread.id = self.generation << SLOT_BITS | slot as u32;
        let id = thread.id;
        self.slots[slot] = Some(thread);
        Ok(id)
    }

    /// Puts the time since the last entry on the running thread's account.
    fn account(&mut self, now: u64) {
        let ran = now.saturating_sub(self.since);
        self.since = now;
        let slot = self.current;
        if let Some(thread) = self.thread(slot) {
            thread.cpu_ns += ran;
        }
    }

    /// When the hardware timer has to fire next, for the thread about to run.
    fn due(&self) -> u64 {
        let timer = self.timers.next().unwrap_or(u64::MAX);
        if self.ready.highest().is_some() { timer.min(self.slice_end) } else { timer }
    }

    /// Sets the hardware timer if it would fire too late. Too early is put up with: it is cheaper
    /// than reprogramming it on every change.
    fn program(&mut self) {
        let due = self.due();
        if due < self.programmed {
            self.programmed = due;
            arch::set_timer(Some(due));
        }
    }
}

/// Makes the thread table; `idle_tls` is kept in use by the caller.
pub fn initialize() {
    THREADS.with(|threads| {
        threads.timers.reserve(1);
    });
}

/// Creates a thread and makes it ready. `None`: no memory or no slot.
pub fn spawn(
    entry: extern "C" fn(usize),
    argument: usize,
    priority: u8,
    stack_size: usize,
) -> Option<u32> {
    let stack = Stack::new(stack_size)?;
    let tls = tls::Block::new()?;
    let mut thread = Box::new(Thread {
        context: arch::new_context(stack.top(), first_step, 0),
        state: State::Ready,
        priority,
        timed_out: false,
        announced: None,
        errno: 0,
        id: 0,
        tls_pointer: tls.pointer(),
        entry,
        argument,
        name: "thread",
        cpu_ns: 0,
        joiners: Vec::new(),
        stack: Some(stack),
        _tls: Some(tls),
    });
    thread.state = State::Ready;
    THREADS.with(|threads| {
        let id = threads.insert(thread).ok()?;
        let slot = id & ((1 << SLOT_BITS) - 1);
        threads.ready.push(slot, priority);
        preempt::mark();
        Some(id)
    })
}

/// Where every thread begins: on its own stack, preemption off.
extern "C" fn first_step(_: usize) -> ! {
    bury();
    let (entry, argument) = THREADS.with(|threads| {
        let thread = threads.current();
        (thread.entry, thread.argument)
    });
    preempt::set(0);
    if preempt::is_marked() {
        preempt();
    }
    entry(argument);
    exit()
}

/// Ends the running thread.
pub fn exit() -> ! {
    let _guard = preempt::disable();
    THREADS.with(|threads| {
        let slot = threads.current;
        let joiners = core::mem::take(&mut threads.current().joiners);
        threads.current().state = State::Dead;
        threads.timers.cancel(slot);
        for joiner in joiners {
            threads.wake(joiner, false);
        }
    });
    reschedule();
    unreachable!("a dead thread ran")
}

/// Waits until a thread has ended. At once if it has; false if it is the caller.
pub fn join(id: u32) -> bool {
    let _guard = preempt::disable();
    loop {
        let wait = THREADS.with(|threads| {
            let me = threads.current;
            let slot = threads.by_id(id)?;
            if slot != me {
                let thread = threads.thread(slot)?;
                if !thread.joiners.contains(&me) {
                    thread.joiners.push(me);
                }
            }
            Some(slot != me)
        });
        match wait {
            None => return true,
            Some(false) => return false,
            Some(true) => {
                block(None);
            }
        }
    }
}

/// The running thread's slot.
pub fn current() -> Slot {
    THREADS.with(|threads| threads.current)
}

/// The guard page of the running thread's stack, if it has one: for fault reports.
pub fn current_guard() -> Option<core::ops::Range<usize>> {
    THREADS.try_with(|threads| {
        let slot = threads.current;
        threads.thread(slot).and_then(|t| t.stack.as_ref().map(Stack::guard))
    })?
}

/// Switches between threads so far.
pub fn switches() -> u64 {
    THREADS.with(|threads| threads.switches)
}

/// How long nobody has wanted the CPU since boot, in nanoseconds.
pub fn idle_ns() -> u64 {
    THREADS.with(|threads| threads.idle_ns)
}

/// A thread, as `ps` shows it.
#[derive(Clone, Copy, Debug)]
pub struct ThreadInfo {
    /// What `join` takes.
    pub id: u32,
    /// What it is for, as far as the kernel knows.
    pub name: &'static str,
    /// It runs or could; else it waits.
    pub ready: bool,
    /// Higher runs first.
    pub priority: u8,
    /// Time it had the CPU, in nanoseconds. What interrupts and the network's turns took is on the account of
    /// whoever had the CPU.
    pub cpu_ns: u64,
}

/// All threads, by slot.
pub fn list() -> Vec<ThreadInfo> {
    let info = |thread: &Thread| ThreadInfo {
        id: thread.id,
        name: thread.name,
        ready: thread.state == State::Ready,
        priority: thread.priority,
        cpu_ns: thread.cpu_ns,
    };
    THREADS.with(|threads| {
        threads.account(arch::monotonic_ns());
        threads.slots.iter().flatten().map(|thread| info(thread)).collect()
    })
}

/// Names the running thread.
pub fn set_name(name: &'static str) {
    THREADS.with(|threads| threads.current().name = name);
}

/// The running thread's `errno`.
pub fn errno() -> i32 {
    THREADS.with(|threads| threads.current().errno)
}

/// Sets the running thread's `errno`.
pub fn set_errno(errno: i32) {
    THREADS.with(|threads| threads.current().errno = errno);
}

/// The running thread's priority.
pub fn priority() -> u8 {
    THREADS.with(|threads| threads.current().priority)
}

/// Sets a thread's priority, from the next time it is queued on. False: no such thread.
pub fn set_priority(id: u32, priority: u8) -> bool {
    THREADS.with(|threads| match threads.by_id(id) {
        Some(slot) => {
            if let Some(thread) = threads.thread(slot) {
                thread.priority = priority;
            }
            true
        }
        None => false,
    })
}

/// Makes a blocked thread ready. False, and nothing happens, if it is not blocked.
pub fn wake(slot: Slot) -> bool {
    THREADS.with(|threads| threads.wake(slot, false))
}

/// Like [`wake`], by id. False: no such thread.
pub fn wake_id(id: u32) -> bool {
    THREADS.with(|threads| match threads.by_id(id) {
        Some(slot) => {
            threads.wake(slot, false);
            true
        }
        None => false,
    })
}

/// Blocks the running thread until it is woken or the monotonic clock reaches `deadline`
/// (nanoseconds). The caller has preemption off since before it looked at whatever it waits for, so
/// that no wake-up is lost.
pub fn block(deadline: Option<u64>) -> Wake {
    let _guard = preempt::disable();
    THREADS.with(|threads| {
        let slot = threads.current;
        let thread = threads.current();
        thread.state = State::Blocked;
        thread.timed_out = false;
        if let Some(deadline) = deadline {
            threads.timers.set(slot, deadline);
        }
    });
    reschedule();
    let timed_out = THREADS.with(|threads| threads.current().timed_out);
    if timed_out { Wake::TimedOut } else { Wake::Woken }
}

/// Lets equals run.
pub fn yield_now() {
    let _guard = preempt::disable();
    let announced = THREADS.with(|threads| {
        let slot = threads.current;
        let announced = threads.current().announced.take();
        if announced.is_none() && threads.ready.highest().is_some() {
            let priority = threads.current().priority;
            threads.ready.push(slot, priority);
            return Some(None);
        }
        announced.map(Some)
    });
    match announced {
        None => {
            // Alone: at least look at what came in.
            if preempt::take_mark() || interrupt::is_pending() {
                deferred();
            }
        }
        Some(None) => reschedule(),
        Some(Some(deadline)) => {
            block(deadline);
        }
    }
}

/// Says that the next [`yield_now`] is to block (Hermit's `block_current_task`).
pub fn announce_block(deadline: Option<u64>) {
    THREADS.with(|threads| threads.current().announced = Some(deadline));
}

/// Waits on a futex: if `*address` still is `expected`, until [`futex_wake`] or the deadline.
/// `None`: it was something else.
///
/// # Safety
/// `address` must be valid for an atomic read.
pub unsafe fn futex_wait(address: *mut u32, expected: u32, deadline: Option<u64>) -> Option<Wake> {
    let _guard = preempt::disable();
    // SAFETY: the caller's duty.
    let word = unsafe { core::sync::atomic::AtomicU32::from_ptr(address) };
    if word.load(core::sync::atomic::Ordering::SeqCst) != expected {
        return None;
    }
    THREADS.with(|threads| {
        let slot = threads.current;
        threads.futexes.wait(slot, address as usize);
    });
    let wake = block(deadline);
    if wake == Wake::TimedOut {
        THREADS.with(|threads| {
            let slot = threads.current;
            threads.futexes.remove(slot);
        });
    }
    Some(wake)
}

/// Wakes up to `count` waiters of a futex; says how many.
pub fn futex_wake(address: usize, count: u32) -> u32 {
    THREADS.with(|threads| {
        let mut woken = 0;
        while woken < count {
            let Some(slot) = threads.futexes.wake(address) else { break };
            threads.wake(slot, false);
            woken += 1;
        }
        woken
    })
}

/// Sets, moves or clears (`None`) the time of the network's next turn.
pub fn set_network_timer(deadline: Option<u64>) {
    THREADS.with(|threads| match deadline {
        Some(deadline) => {
            threads.timers.set(NETWORK_TIMER, deadline);
            threads.program();
        }
        None => threads.timers.cancel(NETWORK_TIMER),
    });
}

/// Has the hardware timer fire within [`LAG_NS`], for deadlines that nobody has told it of yet.
pub fn look_soon() {
    THREADS.with(|threads| {
        let soon = arch::monotonic_ns().saturating_add(LAG_NS);
        if soon < threads.programmed {
            threads.programmed = soon;
            arch::set_timer(Some(soon));
        }
    });
}

/// The scheduling point of code that was interrupted, or that turned preemption on again: does the
/// work that interrupts marked, and lets a better thread run.
pub fn preempt() {
    preempt::set(1);
    loop {
        while preempt::take_mark() {
            deferred();
            let switch = THREADS.with(|threads| {
                let Some(best) = threads.ready.highest() else { return false };
                let slot = threads.current;
                let Some(me) = threads.thread(slot) else { return true };
                let priority = me.priority;
                let go = best > priority
                    || best == priority && arch::monotonic_ns() >= threads.slice_end;
                if go {
                    threads.ready.push(slot, priority);
                } else {
                    threads.program();
                }
                go
            });
            if switch {
                reschedule();
            }
        }
        preempt::set(0);
        if !preempt::is_marked() {
            return;
        }
        preempt::set(1);
    }
}

/// Work that interrupts marked, and timers that are due. Preemption is off.
fn deferred() {
    let pending = interrupt::take_pending();
    if pending & Source::Console as u32 != 0 {
        crate::console::serve();
        interrupt::unmask(Source::Console);
    }
    let mut network = pending & Source::Network as u32 != 0;
    let timer = pending & Source::Timer as u32 != 0;
    if timer {
        THREADS.with(|threads| {
            threads.programmed = u64::MAX;
            let now = arch::monotonic_ns();
            while let Some(slot) = threads.timers.expired(now) {
                if slot == NETWORK_TIMER {
                    crate::net::timer_fired();
                    network = true;
                } else {
                    threads.wake(slot, true);
                }
            }
        });
    }
    if network {
        crate::net::turn();
    } else {
        crate::net::settle();
    }
    if timer {
        THREADS.with(Threads::program);
    }
}

/// Gives the CPU to the next ready thread; the caller has queued itself or is blocked or dead.
/// Returns when it is this thread's turn again.
fn reschedule() {
    loop {
        if preempt::take_mark() || interrupt::is_pending() {
            deferred();
        } else {
            crate::net::settle();
        }
        let next = THREADS.with(|threads| {
            let next = threads.ready.pop()?;
            let now = arch::monotonic_ns();
            threads.slice_end = now + SLICE_NS;
            threads.account(now);
            threads.program();
            let previous = core::mem::replace(&mut threads.current, next);
            if next == previous {
                return Some(None);
            }
            threads.switches += 1;
            let to: *mut Thread = threads.thread(next)?;
            let from: *mut Thread = match threads.slots.get_mut(previous as usize) {
                // The boot context (slot 0) is left for good; so is a dead thread.
                None | Some(None) => core::ptr::null_mut(),
                Some(entry) => {
                    if entry.as_ref().is_some_and(|t| t.state == State::Dead) {
                        threads.grave = entry.take();
                        threads.grave.as_deref_mut().map_or(core::ptr::null_mut(), |t| t)
                    } else {
                        entry.as_deref_mut().map_or(core::ptr::null_mut(), |t| t)
                    }
                }
            };
            Some(Some((from, to)))
        });
        match next {
            Some(None) => return,
            Some(Some((from, to))) => {
                switch_to(from, to);
                return;
            }
            None => idle(),
        }
    }
}

/// Switches threads. Both pointers are to boxes in the table (or the grave), so they stay put.
fn switch_to(from: *mut Thread, to: *mut Thread) {
    let count = preempt::get();
    let mut nowhere = Context::default();
    // SAFETY: `to` is a ready thread's record; its context was filled by `new_context` or by an earlier
    // `switch`, and it runs on its own stack and TLS. `from` is the record of the running thread, or null
    // when the running code is never to be continued. The grave is emptied only after the switch.
    unsafe {
        arch::set_thread_pointer((*to).tls_pointer);
        let save = if from.is_null() { &raw mut nowhere } else { &raw mut (*from).context };
        arch::switch(save, &raw const (*to).context);
    }
    preempt::set(count);
    bury();
}

/// Frees the thread that ended just before this one got the CPU.
fn bury() {
    let dead = THREADS.with(|threads| threads.grave.take());
    drop(dead);
}

/// Nothing is ready: sleeps until an interrupt. Preemption is off.
fn idle() {
    arch::interrupts_disable();
    if !interrupt::is_pending() {
        THREADS.with(|threads| {
            threads.account(arch::monotonic_ns());
            threads.program();
        });
        arch::wait_for_interrupt();
        THREADS.with(|threads| {
            let now = arch::monotonic_ns();
            threads.idle_ns += now - threads.since;
            threads.since = now;
        });
    }
    arch::interrupts_restore(true);
}

/// Leaves the boot context for the first thread, for good.
pub fn leave_boot() -> ! {
    reschedule();
    unreachable!("the boot context was left for good")
}

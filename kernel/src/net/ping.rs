//! Echo requests for threads that wait.

use core::net::IpAddr;

use trireme_netstack::{Answer, Error, PingId};

use super::with_stack;
use crate::thread::wait::WaitList;
use crate::{console, preempt, thread, time};

/// Who waits for answers to echo requests.
pub struct Waiters(WaitList);

// SAFETY: only reached with preemption off, on the one CPU, never from an interrupt.
unsafe impl Sync for Waiters {}

/// All of them: there are few.
pub static WAITERS: Waiters = Waiters(WaitList::new());

impl Waiters {
    /// Wakes them. Preemption must be off.
    pub fn wake(&self) {
        debug_assert!(preempt::is_disabled());
        self.0.wake();
    }
}

/// A requester; closed when dropped.
pub struct Pinger(PingId);

/// What ended a wait.
pub enum Heard {
    /// An answer.
    Answer(Answer),
    /// Ctrl-C at the console.
    Interrupt,
    /// The deadline.
    Nothing,
}

impl Pinger {
    /// Opens a requester. `interface`: the number of the only card to use.
    pub fn new(destination: IpAddr, interface: Option<usize>) -> Result<Pinger, Error> {
        with_stack(|stack, _| stack.ping_open(destination, interface)).map(Pinger)
    }

    /// Our address.
    pub fn source(&self) -> Result<IpAddr, Error> {
        with_stack(|stack, _| stack.ping_source(self.0))
    }

    /// Sends a request with `len` bytes of payload.
    pub fn send(&self, sequence: u16, len: usize, hops: u8) -> Result<(), Error> {
        with_stack(|stack, now| stack.ping(self.0, sequence, len, hops, now))
    }

    /// Waits for an answer or Ctrl-C until a monotonic time in nanoseconds.
    pub fn wait(&self, deadline_ns: u64) -> Heard {
        // Until the thread blocks nothing can come in between.
        let _guard = preempt::disable();
        loop {
            if console::take_interrupt() {
                return Heard::Interrupt;
            }
            if let Some(answer) = with_stack(|stack, _| stack.ping_answer(self.0)) {
                return Heard::Answer(answer);
            }
            if time::monotonic_ns() >= deadline_ns {
                return Heard::Nothing;
            }
            // Without memory for an entry it is woken later.
            WAITERS.0.enter(false);
            console::readers().enter(false);
            thread::block(Some(deadline_ns));
            console::readers().leave();
            WAITERS.0.leave();
        }
    }
}

impl Drop for Pinger {
    fn drop(&mut self) {
        with_stack(|stack, _| stack.ping_close(self.0));
    }
}

//! [`WaitList`]: the threads that wait for something to happen to one object.

use alloc::rc::Rc;
use alloc::vec::Vec;
use core::cell::RefCell;

use crate::poller::Watch;
use crate::thread::{self, Slot, Wake};

/// Threads waiting on an object. A thread that waits on several (`poll`) is on several lists; woken
/// by one, it takes itself off all.
#[derive(Default)]
pub struct WaitList {
    waiters: RefCell<Vec<Waiter>>,
    watches: RefCell<Vec<Rc<Watch>>>,
}

#[derive(Clone, Copy, Debug)]
struct Waiter {
    slot: Slot,
    /// One event satisfies one such waiter (`accept`), so only one of them is woken.
    exclusive: bool,
}

impl WaitList {
    /// An empty list.
    pub const fn new() -> WaitList {
        WaitList { waiters: RefCell::new(Vec::new()), watches: RefCell::new(Vec::new()) }
    }

    /// Puts the running thread on the list. False: no memory for the entry.
    pub fn enter(&self, exclusive: bool) -> bool {
        let mut waiters = self.waiters.borrow_mut();
        if waiters.try_reserve(1).is_err() {
            return false;
        }
        waiters.push(Waiter { slot: thread::current(), exclusive });
        true
    }

    /// Takes the running thread off.
    pub fn leave(&self) {
        let me = thread::current();
        self.waiters.borrow_mut().retain(|waiter| waiter.slot != me);
    }

    /// Wakes everyone, but only one of the exclusive waiters: the first that is not awake already, for an
    /// earlier event it has not come round to yet.
    pub fn wake(&self) {
        let mut exclusive_woken = false;
        for waiter in self.waiters.borrow().iter() {
            if waiter.exclusive {
                exclusive_woken = exclusive_woken || thread::wake(waiter.slot);
            } else {
                thread::wake(waiter.slot);
            }
        }
        if !self.watches.borrow().is_empty() {
            self.watches.borrow_mut().retain(Watch::notify);
        }
    }

    /// Has a [`Poller`](crate::poller::Poller) told of every wake-up. False: no memory for the entry.
    pub fn watch(&self, watch: Rc<Watch>) -> bool {
        let mut watches = self.watches.borrow_mut();
        if watches.try_reserve(1).is_err() {
            return false;
        }
        watches.push(watch);
        true
    }

    /// Ends that.
    pub fn unwatch(&self, watch: &Rc<Watch>) {
        self.watches.borrow_mut().retain(|other| !Rc::ptr_eq(other, watch));
    }

    /// Waits for one [`wake`](Self::wake), or the deadline. Preemption is off since before the caller
    /// looked at the object. `None`: no memory for the entry.
    pub fn wait(&self, exclusive: bool, deadline: Option<u64>) -> Option<Wake> {
        if !self.enter(exclusive) {
            return None;
        }
        let wake = thread::block(deadline);
        self.leave();
        Some(wake)
    }
}

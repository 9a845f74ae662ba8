//! Readiness of many descriptors for one server, with interest that is registered once and kept.
//!
//! `poll` looks at every descriptor it is given, each time; a server of ten thousand connections that are mostly
//! idle would do little else. Here an event costs what the event costs: it puts its descriptor on a ready list, and
//! [`Poller::wait`] takes from that. Edge-triggered, as `epoll` with `EPOLLET`: what was reported is reported again
//! only when something new happens.

use alloc::collections::{BTreeMap, VecDeque};
use alloc::rc::{Rc, Weak};
use core::cell::{Cell, RefCell};
use core::time::Duration;

use hermit_abi::errno::{EEXIST, ENOENT, ENOMEM};
use hermit_abi::{POLLERR, POLLHUP, POLLIN, POLLOUT, POLLPRI, POLLRDHUP};

use crate::abi::readiness;
use crate::descriptor::{self, Description};
use crate::thread::{Wake, wait::WaitList};
use crate::{preempt, time};

/// What has become possible on a descriptor.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Event {
    /// The number given to [`Poller::add`].
    pub key: usize,
    /// There may be something to read or accept, an error or the end included.
    pub readable: bool,
    /// There may be room to write, or an error.
    pub writable: bool,
    /// The peer has sent its last byte, or the connection is gone.
    pub read_closed: bool,
    /// A listener had to leave a peer outside: no connection can be made until one is closed.
    pub crowded: bool,
}

/// A set of watched descriptors.
pub struct Poller(Rc<Set>);

// SAFETY: every method holds preemption off while it touches the set, and there is one CPU; the reference count is
// touched by `new` and `drop` only, the latter with preemption off too.
unsafe impl Send for Poller {}
// SAFETY: as above.
unsafe impl Sync for Poller {}

#[derive(Default)]
struct Set {
    watches: RefCell<BTreeMap<i32, Rc<Watch>>>,
    ready: RefCell<VecDeque<Rc<Watch>>>,
    waiters: WaitList,
}

/// One descriptor in one set. The description's wait list holds it too.
pub struct Watch {
    key: usize,
    set: Weak<Set>,
    description: Weak<Description>,
    /// It is on the ready list.
    queued: Cell<bool>,
    /// It has not been removed.
    active: Cell<bool>,
}

impl Watch {
    /// Something happened to the description. False: nobody wants to know any more.
    pub fn notify(self: &Rc<Watch>) -> bool {
        let Some(set) = self.set.upgrade().filter(|_| self.active.get()) else { return false };
        if !self.queued.replace(true) {
            // There is room: `add` reserved it.
            set.ready.borrow_mut().push_back(self.clone());
            set.waiters.wake();
        }
        true
    }
}

impl Poller {
    /// An empty set.
    pub fn new() -> Poller {
        Poller(Rc::new(Set::default()))
    }

    /// Watches a descriptor from now on. What it is ready for already counts as having happened now. Errors are
    /// positive `errno` values.
    pub fn add(&self, fd: i32, key: usize) -> Result<(), i32> {
        let _guard = preempt::disable();
        let description = descriptor::get(fd)?;
        let mut watches = self.0.watches.borrow_mut();
        // A descriptor that was closed without being removed has left a watch of nothing.
        if watches.get(&fd).is_some_and(|watch| watch.description.strong_count() > 0) {
            return Err(EEXIST);
        }
        let mut ready = self.0.ready.borrow_mut();
        let missing = (watches.len() + 1).saturating_sub(ready.len());
        ready.try_reserve(missing).map_err(|_| ENOMEM)?;
        drop(ready);
        let watch = Rc::new(Watch {
            key,
            set: Rc::downgrade(&self.0),
            description: Rc::downgrade(&description),
            queued: Cell::new(false),
            active: Cell::new(true),
        });
        if !crate::abi::wait_list(&description).watch(watch.clone()) {
            return Err(ENOMEM);
        }
        watches.insert(fd, watch.clone());
        drop(watches);
        if readiness(&description) != 0 {
            watch.notify();
        }
        Ok(())
    }

    /// Stops watching; before the descriptor is closed.
    pub fn remove(&self, fd: i32) -> Result<(), i32> {
        let _guard = preempt::disable();
        let watch = self.0.watches.borrow_mut().remove(&fd).ok_or(ENOENT)?;
        watch.active.set(false);
        if let Some(description) = watch.description.upgrade() {
            crate::abi::wait_list(&description).unwatch(&watch);
        }
        Ok(())
    }

    /// Waits until something is ready or the timeout has passed (`None`: never), and fills in events; how many.
    pub fn wait(&self, timeout: Option<Duration>, events: &mut [Event]) -> Result<usize, i32> {
        let _guard = preempt::disable();
        let deadline = timeout.map(|timeout| {
            time::deadline_after(u64::try_from(timeout.as_nanos()).unwrap_or(u64::MAX))
        });
        let mut last = timeout.is_some_and(|timeout| timeout.is_zero());
        loop {
            let mut count = 0;
            while count < events.len() {
                let Some(watch) = self.0.ready.borrow_mut().pop_front() else { break };
                watch.queued.set(false);
                let Some(description) = watch.description.upgrade() else { continue };
                let bits = readiness(&description);
                if bits == 0 || !watch.active.get() {
                    continue;
                }
                let over = bits & (POLLERR | POLLHUP) != 0;
                events[count] = Event {
                    key: watch.key,
                    readable: bits & POLLIN != 0 || over,
                    writable: bits & POLLOUT != 0 || over,
                    read_closed: bits & POLLRDHUP != 0 || over,
                    crowded: bits & POLLPRI != 0,
                };
                count += 1;
            }
            if count > 0 || last || events.is_empty() {
                return Ok(count);
            }
            match self.0.waiters.wait(false, deadline) {
                Some(Wake::Woken) => {}
                Some(Wake::TimedOut) => last = true,
                None => return Err(ENOMEM),
            }
        }
    }
}

impl Default for Poller {
    fn default() -> Self {
        Self::new()
    }
}

impl Drop for Poller {
    fn drop(&mut self) {
        let _guard = preempt::disable();
        for watch in self.0.watches.borrow().values() {
            watch.active.set(false);
            if let Some(description) = watch.description.upgrade() {
                crate::abi::wait_list(&description).unwatch(watch);
            }
        }
    }
}

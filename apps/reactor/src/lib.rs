//! Readiness of many sockets for a single-threaded server.
//!
//! A server with ten thousand connections must not pay for the idle ones each time it asks which are ready. `poll` makes
//! it pay, and it is all that the crates for this purpose find on an appliance. Here interest is registered once and
//! kept: by `epoll` (through mio) on Linux, by the kernel's own ready list on an appliance.
//!
//! The contract is the smaller of the two backends':
//! - both directions are watched from [`Poller::add`] on, and an event is reported when readiness *arises*
//!   (edge-triggered). Whoever is told must read, write or accept until `WouldBlock`, or remember that it has not;
//! - a read that returns less than was asked for has emptied the socket, unless the event said `read_closed`;
//! - events may be spurious. They may also concern a source removed after they were fetched.

#![deny(unsafe_code)]

#[cfg_attr(target_os = "hermit", path = "appliance.rs")]
#[cfg_attr(not(target_os = "hermit"), path = "host.rs")]
mod sys;

use std::io;
use std::time::Duration;

#[cfg(not(target_os = "hermit"))]
use std::os::fd::AsRawFd;
#[cfg(target_os = "hermit")]
use std::os::hermit::io::AsRawFd;

/// What has become possible on a source.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Event {
    /// The number given to [`Poller::add`].
    pub key: usize,
    /// There may be something to read or accept, an error or the end included.
    pub readable: bool,
    /// There may be room to write, or an error.
    pub writable: bool,
    /// The peer has sent its last byte, or the connection is gone.
    pub read_closed: bool,
    /// A listener had to leave a peer outside: no connection can be made until one is closed. Only on an appliance,
    /// where connections get their memory from one budget.
    pub crowded: bool,
}

/// A set of sources and what is ready among them.
pub struct Poller(sys::Poller);

impl Poller {
    /// A set without members, which reports at most `batch` events per [`Poller::wait`].
    pub fn new(batch: usize) -> io::Result<Self> {
        sys::Poller::new(batch).map(Self)
    }

    /// Watches `source` from now on. What it is ready for already counts as having arisen now.
    pub fn add(&self, source: &impl AsRawFd, key: usize) -> io::Result<()> {
        self.0.add(source.as_raw_fd(), key)
    }

    /// Stops watching. To be called before the source is closed.
    pub fn remove(&self, source: &impl AsRawFd) -> io::Result<()> {
        self.0.remove(source.as_raw_fd())
    }

    /// Waits until something is ready or `timeout` has passed, and puts the events into `events`, which is emptied first.
    /// `None` waits for ever. May return early and empty-handed.
    pub fn wait(&mut self, timeout: Option<Duration>, events: &mut Vec<Event>) -> io::Result<()> {
        events.clear();
        match self.0.wait(timeout, events) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => Ok(()),
            result => result,
        }
    }
}

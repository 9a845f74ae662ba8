//! An appliance, through the kernel's ready list.

use std::io;
use std::os::hermit::io::RawFd;
use std::time::Duration;

use trireme::poller;

use crate::Event;

pub(crate) struct Poller {
    inner: poller::Poller,
    fetched: Vec<poller::Event>,
}

impl Poller {
    pub(crate) fn new(batch: usize) -> io::Result<Self> {
        Ok(Self { inner: poller::Poller::new(), fetched: vec![poller::Event::default(); batch] })
    }

    pub(crate) fn add(&self, fd: RawFd, key: usize) -> io::Result<()> {
        self.inner.add(fd, key).map_err(io::Error::from_raw_os_error)
    }

    pub(crate) fn remove(&self, fd: RawFd) -> io::Result<()> {
        self.inner.remove(fd).map_err(io::Error::from_raw_os_error)
    }

    pub(crate) fn wait(
        &mut self,
        timeout: Option<Duration>,
        events: &mut Vec<Event>,
    ) -> io::Result<()> {
        let count =
            self.inner.wait(timeout, &mut self.fetched).map_err(io::Error::from_raw_os_error)?;
        events.extend(self.fetched[..count].iter().map(|event| Event {
            key: event.key,
            readable: event.readable,
            writable: event.writable,
            read_closed: event.read_closed,
            crowded: event.crowded,
        }));
        Ok(())
    }
}

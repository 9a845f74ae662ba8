//! Linux and its relatives, through mio.

use std::io;
use std::os::fd::RawFd;
use std::time::Duration;

use mio::unix::SourceFd;
use mio::{Events, Interest, Poll, Token};

use crate::Event;

pub(crate) struct Poller {
    poll: Poll,
    fetched: Events,
}

impl Poller {
    pub(crate) fn new(batch: usize) -> io::Result<Self> {
        Ok(Self { poll: Poll::new()?, fetched: Events::with_capacity(batch) })
    }

    pub(crate) fn add(&self, fd: RawFd, key: usize) -> io::Result<()> {
        self.poll.registry().register(
            &mut SourceFd(&fd),
            Token(key),
            Interest::READABLE | Interest::WRITABLE,
        )
    }

    pub(crate) fn remove(&self, fd: RawFd) -> io::Result<()> {
        self.poll.registry().deregister(&mut SourceFd(&fd))
    }

    pub(crate) fn wait(
        &mut self,
        timeout: Option<Duration>,
        events: &mut Vec<Event>,
    ) -> io::Result<()> {
        self.poll.poll(&mut self.fetched, timeout)?;
        events.extend(self.fetched.iter().map(|event| Event {
            key: event.token().0,
            readable: event.is_readable() || event.is_read_closed() || event.is_error(),
            writable: event.is_writable() || event.is_write_closed() || event.is_error(),
            read_closed: event.is_read_closed() || event.is_error(),
            crowded: false,
        }));
        Ok(())
    }
}

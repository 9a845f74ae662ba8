//! What [`ptp`](crate::ptp) does, by the stack.

use alloc::rc::Rc;
use core::time::Duration;

use trireme_netstack::Error as StackError;
use trireme_nic::Ptp;

use super::{NETWORK, with_stack};
use crate::preempt;
use crate::ptp::{Error, MacAddress, Message, PtpError, PtpTime};
use crate::thread::{self, Wake, wait::WaitList};
use crate::time;

/// How long a message may take to leave.
const LEAVE_NS: u64 = 10_000_000;
/// Between looks for its time.
const LOOK_NS: u64 = 20_000;

pub fn open(interface: &str) -> Result<usize, Error> {
    let _guard = preempt::disable();
    let found = with_stack(|stack, _| stack.find(interface));
    let n = found.ok_or(Error::NoSuchInterface)?;
    with_stack(|stack, _| stack.ptp_open(n)).map_err(|error| match error {
        StackError::AddressInUse => Error::InUse,
        StackError::NotSupported => Error::NoClock,
        _ => Error::NoSuchInterface,
    })?;
    Ok(n)
}

pub fn close(n: usize) {
    let _guard = preempt::disable();
    with_stack(|stack, _| stack.ptp_close(n));
}

pub fn with_clock<T>(
    n: usize,
    work: impl FnOnce(&mut dyn Ptp) -> Result<T, PtpError>,
) -> Result<T, Error> {
    let _guard = preempt::disable();
    with_stack(|stack, _| match stack.ptp_clock(n) {
        Some(clock) => work(clock).map_err(Error::Clock),
        None => Err(Error::NoClock),
    })
}

pub fn send(n: usize, destination: MacAddress, message: &[u8]) -> Result<PtpTime, Error> {
    let _guard = preempt::disable();
    let sent = with_stack(|stack, _| stack.ptp_send(n, destination, message));
    let number = sent.map_err(|error| match error {
        StackError::MessageTooLong => Error::TooLong,
        StackError::NotSupported => Error::NoClock,
        StackError::WouldBlock => Error::Full,
        _ => Error::NoSuchInterface,
    })?;
    let end = time::deadline_after(LEAVE_NS);
    loop {
        // Those of earlier messages that came too late are passed over.
        let left = with_stack(|stack, _| {
            let clock = stack.ptp_clock(n)?;
            core::iter::from_fn(|| clock.sent_at()).find(|(of, _)| *of == number)
        });
        if let Some((_, time)) = left {
            return Ok(time);
        }
        if time::monotonic_ns() >= end {
            return Err(Error::NoTimestamp);
        }
        thread::block(Some(time::deadline_after(LOOK_NS)));
    }
}

pub fn receive(n: usize, timeout: Duration) -> Option<Message> {
    let _guard = preempt::disable();
    let end = time::deadline_after(u64::try_from(timeout.as_nanos()).unwrap_or(u64::MAX / 2));
    let waiters = Rc::new(WaitList::new());
    NETWORK.with(|slot| {
        if let Some(network) = slot {
            network.ptp.push((n, waiters.clone()));
        }
    });
    let message = loop {
        if let Some(message) = with_stack(|stack, _| stack.ptp_receive(n)) {
            break Some(message);
        }
        match waiters.wait(false, Some(end)) {
            Some(Wake::Woken) if time::monotonic_ns() < end => {}
            _ => break with_stack(|stack, _| stack.ptp_receive(n)),
        }
    };
    NETWORK.with(|slot| {
        if let Some(network) = slot {
            network.ptp.retain(|(_, other)| !Rc::ptr_eq(other, &waiters));
        }
    });
    let message = message?;
    Some(Message {
        source: message.source,
        destination: message.destination,
        bytes: message.message,
        received_at: message.received_at,
    })
}

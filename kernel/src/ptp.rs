//! Time by the network card: its own clock (IEEE 1588, 802.1AS), and when messages left and arrived by it.
//!
//! A [`Port`] sends and receives PTP messages over Ethernet (EtherType 88f7) and reads, sets and trims the card's
//! clock. What messages say, and what follows from it, is the program's affair: this is what a PTP daemon needs of a
//! system, not one. Which cards can is shown by `ethtool -T`.
//!
//! ```
//! use trireme::ptp::Port;
//!
//! match Port::open("eth0") {
//!     Ok(mut port) => println!("the card's clock shows {:?}", port.now()),
//!     Err(error) => println!("eth0: {error}"),
//! }
//! ```

use alloc::vec::Vec;
use core::fmt;
use core::time::Duration;

pub use trireme_nic::{MacAddress, PtpError, PtpTime};

/// Where 802.1AS sends everything: a group no bridge forwards.
pub const NEAREST_BRIDGE: MacAddress = [0x01, 0x80, 0xc2, 0x00, 0x00, 0x0e];

/// Why something was not done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Error {
    /// There is no interface of that name; nor any at all where the program is no appliance.
    NoSuchInterface,
    /// The card has no clock.
    NoClock,
    /// There is a [`Port`] of the interface already.
    InUse,
    /// The message is longer than 1500 bytes.
    TooLong,
    /// The card's ring is full.
    Full,
    /// The card did not say when the message left.
    NoTimestamp,
    /// The clock did not take it.
    Clock(PtpError),
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Error::NoSuchInterface => "no such interface",
            Error::NoClock => "the card has no clock",
            Error::InUse => "somebody has opened the interface's clock already",
            Error::TooLong => "longer than 1500 bytes",
            Error::Full => "the card's ring is full",
            Error::NoTimestamp => "the card did not say when the message left",
            Error::Clock(error) => return error.fmt(f),
        })
    }
}

impl core::error::Error for Error {}

/// A message received.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Message {
    /// Who sent it.
    pub source: MacAddress,
    /// Whom it was sent to.
    pub destination: MacAddress,
    /// What follows the Ethernet header, with whatever pads it: a message says its own length.
    pub bytes: Vec<u8>,
    /// When it arrived, by the card's clock.
    pub received_at: Option<PtpTime>,
}

/// The PTP side of an interface. While there is one, up to 32 messages wait for it; more are lost.
#[derive(Debug)]
pub struct Port {
    interface: usize,
}

impl Port {
    /// Opens an interface (`eth0`) whose card has a clock.
    pub fn open(interface: &str) -> Result<Port, Error> {
        Ok(Port { interface: sys::open(interface)? })
    }

    /// What the card's clock shows.
    pub fn now(&mut self) -> Result<PtpTime, Error> {
        sys::with_clock(self.interface, |clock| clock.now())
    }

    /// Sets the card's clock.
    pub fn set(&mut self, time: PtpTime) -> Result<(), Error> {
        sys::with_clock(self.interface, |clock| clock.set(time))
    }

    /// Has the card's clock run faster than its nominal rate by `ppb` parts in a thousand million, from now on.
    pub fn adjust(&mut self, ppb: i32) -> Result<(), Error> {
        sys::with_clock(self.interface, |clock| clock.adjust(ppb))
    }

    /// Sends a message and returns when it left. Waits 10 ms for that at most.
    pub fn send(&mut self, destination: MacAddress, message: &[u8]) -> Result<PtpTime, Error> {
        sys::send(self.interface, destination, message)
    }

    /// The next message; waits for one no longer than `timeout`.
    pub fn receive(&mut self, timeout: Duration) -> Option<Message> {
        sys::receive(self.interface, timeout)
    }
}

impl Drop for Port {
    fn drop(&mut self) {
        sys::close(self.interface);
    }
}

#[cfg(target_os = "hermit")]
use crate::net::ptp as sys;

#[cfg(not(target_os = "hermit"))]
mod sys {
    use super::{Duration, Error, MacAddress, Message, PtpError, PtpTime};
    use trireme_nic::Ptp;

    pub fn open(_: &str) -> Result<usize, Error> {
        Err(Error::NoSuchInterface)
    }

    pub fn with_clock<T>(
        _: usize,
        _: impl FnOnce(&mut dyn Ptp) -> Result<T, PtpError>,
    ) -> Result<T, Error> {
        Err(Error::NoClock)
    }

    pub fn send(_: usize, _: MacAddress, _: &[u8]) -> Result<PtpTime, Error> {
        Err(Error::NoClock)
    }

    pub fn receive(_: usize, _: Duration) -> Option<Message> {
        None
    }

    pub fn close(_: usize) {}
}

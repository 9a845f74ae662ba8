//! Why a card cannot be used.

use crate::Timeout;
use core::fmt;
use trireme_nic::DmaError;

/// Why a card cannot be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Error {
    /// All registers read as ones.
    Absent,
    /// It did not do something in time.
    Timeout(Timeout),
    /// No memory, or none the card can reach.
    Memory(DmaError),
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::Absent => f.write_str("the card does not answer"),
            Error::Timeout(timeout) => timeout.fmt(f),
            Error::Memory(error) => error.fmt(f),
        }
    }
}

impl core::error::Error for Error {}

impl From<Timeout> for Error {
    fn from(timeout: Timeout) -> Error {
        Error::Timeout(timeout)
    }
}

impl From<DmaError> for Error {
    fn from(error: DmaError) -> Error {
        Error::Memory(error)
    }
}

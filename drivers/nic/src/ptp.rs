use crate::{Buffer, ReceivedFrame, TransmitRequest};
use core::fmt;

/// A time of IEEE 1588: what a card's clock shows. Its epoch is whatever the clock was set to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct PtpTime {
    /// Seconds; 48 bits on the wire and in the cards.
    pub seconds: u64,
    /// Nanoseconds, below 1,000,000,000.
    pub nanoseconds: u32,
}

/// Why a clock could not be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PtpError {
    /// The card did not answer in time.
    Timeout,
    /// A time or rate the clock cannot take.
    OutOfRange,
}

impl fmt::Display for PtpError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            PtpError::Timeout => "the card's clock does not answer",
            PtpError::OutOfRange => "out of the clock's range",
        })
    }
}

impl core::error::Error for PtpError {}

/// A card's own clock and its timestamps of frames: what `ethtool -T` calls hardware timestamping.
/// Called like the rest of [`Nic`](crate::Nic), which hands it out.
pub trait Ptp {
    /// The time now.
    fn now(&mut self) -> Result<PtpTime, PtpError>;

    /// Sets the clock.
    fn set(&mut self, time: PtpTime) -> Result<(), PtpError>;

    /// Has the clock run faster than its nominal rate by this many parts in a thousand million; replaces
    /// what was asked for before.
    fn adjust(&mut self, ppb: i32) -> Result<(), PtpError>;

    /// Largest rate [`adjust`](Ptp::adjust) takes, either way.
    fn max_adjustment(&self) -> i32;

    /// When a frame arrived. To be asked before the frame is recycled.
    fn received_at(&self, frame: &ReceivedFrame) -> Option<PtpTime>;

    /// As [`Nic::transmit`](crate::Nic::transmit), with the time wanted at which it leaves. The number
    /// comes back with it.
    fn transmit_timed(&mut self, buffer: Buffer, request: &TransmitRequest) -> u32;

    /// The next time a frame left, with its number. Some may be lost when many are wanted at once.
    fn sent_at(&mut self) -> Option<(u32, PtpTime)>;
}

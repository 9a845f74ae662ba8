//! What a port knows besides its registers.

use crate::mib::Counts;
use std::time::Duration;

/// A frame that is on its way to the wire: its descriptors are done when it is.
#[derive(Clone, Copy, Debug)]
pub(crate) struct InFlight {
    pub(crate) queue: usize,
    /// Address of the first descriptor, and its word 0 as it will be.
    pub(crate) first: u64,
    pub(crate) word0: u32,
    /// Address of the last: its EOFIE counts when the frame is done. \[9, 5\]
    pub(crate) last: u64,
    /// The read pointer behind the frame.
    pub(crate) next: u16,
    pub(crate) done_at: Duration,
}

#[derive(Clone, Debug, Default)]
pub(crate) struct Port {
    pub(crate) mib: Counts,
    pub(crate) in_flight: Option<InFlight>,
    /// A status that is written late: address and word.
    pub(crate) late: Option<(u64, u32)>,
    /// Queue whose turn it is, and frames left of its turn.
    pub(crate) turn: usize,
    pub(crate) left: u32,
    /// E2, E3, E7: nothing moves until a reset.
    pub(crate) tx_hung: bool,
    pub(crate) rx_hung: bool,
    /// Descriptors could not be fetched: waits for another ring or for DMA to be switched anew.
    pub(crate) tx_halted: bool,
    /// A received PAUSE holds the transmitter until then.
    pub(crate) paused_until: Option<Duration>,
    /// We have asked the peer to pause.
    pub(crate) pausing: bool,
    /// Runts in a row.
    pub(crate) runts: u32,
    /// When the transmitter has to look again by itself.
    pub(crate) again: Option<Duration>,
    /// Progress registers: first and current descriptor, and the current one's words.
    pub(crate) tx_progress: [u32; 6],
    pub(crate) rx_progress: [u32; 6],
}

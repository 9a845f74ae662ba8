//! What the model saw, for tests and for people. Not part of the chip.

/// Counted since power-up; a reset of the function leaves them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Frames sent to the wire.
    pub tx_frames: u64,
    /// Their bytes, without FCS.
    pub tx_bytes: u64,
    /// Frames below 60 bytes sent with padding switched off: a peer drops them.
    pub tx_runts: u64,
    /// Frames in which the TOE wrote a TCP, UDP or ICMP checksum.
    pub tx_checksums: u64,
    /// Of those, frames whose field held neither the pseudo-header sum nor the right checksum.
    pub tx_odd_seeds: u64,
    /// Frames too long to be sent, and queue errors.
    pub tx_errors: u64,
    /// Frames sent or arriving while the E-MAC's speed is not the PHY's, or with no link.
    pub unheard: u64,
    /// Transmit buffers that did not lie on four bytes where they must.
    pub tx_misaligned: u64,
    /// Frames stored in receive buffers.
    pub rx_frames: u64,
    /// Frames the address or stream filter refused.
    pub rx_filtered: u64,
    /// Frames lost for want of a descriptor.
    pub rx_missed: u64,
    /// Frames lost in a full receive FIFO.
    pub rx_overflows: u64,
    /// Frames received with an error, stored or not.
    pub rx_errors: u64,
    /// Receive checksums: R-Car's trailers, or TOE results that say "right".
    pub rx_checksums: u64,
    /// DMA that reached no memory.
    pub dma_errors: u64,
    /// Accesses to registers that do not exist, or of another width than 32 bits.
    pub unknown_accesses: u64,
    /// Breaches of the manual's rules on order and mode; each is logged as a warning.
    pub violations: u64,
}

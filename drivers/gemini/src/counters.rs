//! What `ethtool -S` shows. The card's own counters are left out: VD calls them implausible. [GM E12]

use crate::verdict::FrameError;

trireme_nic::counters! {
    /// Of a port.
    pub(crate) struct Counters {
    rx_packets,
    rx_bytes,
    rx_errors,
    rx_crc_errors,
    rx_frame_errors,
    rx_length_errors,
    /// A FIFO was full.
    rx_fifo_errors,
    /// DMA met a bus error, or the card its own descriptors.
    rx_dma_errors,
    /// Pieces of a frame without its beginning.
    rx_missing_pieces,
    /// Descriptors with a buffer address that is none of ours, or of a buffer the card has not.
    rx_unknown_buffers,
    /// Frames of a switch that should tag them and did not.
    rx_untagged,
    /// Times frames were lost for want of buffers.
    rx_over_errors,
    tx_packets,
    tx_bytes,
    tx_errors,
    tx_dropped,
    /// Large frames given to the card to be cut, each one chain of descriptors.
    tx_tso,
    /// Frames it was asked for checksums of.
    tx_csum,
    /// Frames sent past its offload unit.
    tx_bypass,
    /// Descriptors used.
    tx_descriptors,
    /// Frames whose status was never written.
    tx_no_status,
    /// Times the card claimed to have read descriptors it was not given.
    tx_pointer_errors,
    /// Nothing was sent for too long.
    tx_timeouts,
    tx_hangs,
    rx_hangs,
    /// Times the receiver was found confused.
    rx_confused,
    link_changes,
    }
}

trireme_nic::counters! {
    /// Of what both ports share.
    pub(crate) struct SharedCounters {
    /// Protocol or bus errors the card reported.
    dma_faults,
    resets,
    reset_failures,
    }
}

impl Counters {
    /// Counts a frame that is dropped.
    pub(crate) fn count_bad(&mut self, error: FrameError) {
        self.rx_errors += 1;
        *match error {
            FrameError::Length | FrameError::Short => &mut self.rx_length_errors,
            FrameError::Crc => &mut self.rx_crc_errors,
            FrameError::Alignment | FrameError::Other => &mut self.rx_frame_errors,
            FrameError::Overrun => &mut self.rx_fifo_errors,
            FrameError::Descriptor => &mut self.rx_dma_errors,
        } += 1;
    }
}

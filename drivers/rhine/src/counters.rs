//! What `ethtool -S` shows.

trireme_nic::counters! {
    /// Counters of card and driver.
    pub(crate) struct Counters {
        rx_packets,
        rx_bytes,
        rx_errors,
        /// Counted by the card: no descriptor or FIFO space.
        rx_missed_errors,
        rx_crc_errors,
        rx_frame_errors,
        rx_length_errors,
        rx_fifo_errors,
        /// Times the ring was empty or the FIFO overran.
        rx_stops,
        /// Times the receiver was found wedged and the card was reset. [RH E19]
        rx_wedged,
        tx_packets,
        tx_bytes,
        tx_errors,
        tx_dropped,
        tx_aborted_errors,
        tx_carrier_errors,
        tx_window_errors,
        /// FIFO underruns; each raises the threshold.
        tx_fifo_errors,
        /// Frames copied because the chip needs alignment.
        tx_bounced,
        /// Descriptor write-back races. [RH E4]
        tx_writeback_races,
        /// Restarts of the transmit engine alone.
        tx_restarts,
        /// Frames found done without an interrupt, or nothing done for too long.
        tx_timeouts,
        bus_errors,
        link_changes,
        resets,
        reset_failures,
    }
}

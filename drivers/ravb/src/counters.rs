//! What `ethtool -S` shows.

trireme_nic::counters! {
    /// Counters of card and driver.
    pub(crate) struct Counters {
        rx_packets,
        rx_bytes,
        rx_multicast,
        rx_errors,
        rx_crc_errors,
        rx_frame_errors,
        rx_length_errors,
        /// Truncated, or pieces of a frame without the others.
        rx_missing_pieces,
        /// Frames over several descriptors.
        rx_chained,
        /// Those of them that were copied together because the ring ended between them.
        rx_linearised,
        /// Times a receive queue was full.
        rx_over_errors,
        /// Times the receive FIFO was full.
        rx_fifo_errors,
        tx_packets,
        tx_bytes,
        tx_dropped,
        /// Counted by the E-MAC.
        tx_aborted_errors,
        tx_carrier_errors,
        collisions,
        /// Frames that took two descriptors because the card wants alignment.
        tx_misaligned,
        /// Checksums the card was asked for and the driver made, as the frame's tag is not the usual one.
        tx_csum_foreign_tag,
        /// Start requests repeated because one seemed lost.
        tx_restarts,
        /// Nothing was sent for too long.
        tx_timeouts,
        /// Descriptors made no sense to the card.
        queue_errors,
        mac_errors,
        /// Transmit timestamps delivered; lost; and those that are no time or no frame's.
        tx_timestamps,
        tx_timestamps_lost,
        tx_timestamps_odd,
        carrier_events,
        link_changes,
        checksum_switches,
        resets,
        reset_failures,
    }
}

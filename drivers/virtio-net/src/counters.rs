//! Counters, as `ethtool -S` shows them.

trireme_nic::counters! {
    /// Counters of card and driver.
    pub(crate) struct Counters {
        rx_packets,
        rx_bytes,
        rx_dropped,
        /// Used-ring lengths that are more than the buffer or less than a header and an Ethernet frame.
        rx_length_errors,
        /// Frames that claimed more buffers than the device returned, or more bytes than a frame has.
        rx_merge_errors,
        rx_csum_partial,
        rx_csum_valid,
        /// Frames the device merged from several segments.
        rx_gso_packets,
        /// Frames that came in several buffers.
        rx_merged_buffers,
        /// Those of them that had to be copied together.
        rx_linearised,
        /// Dropped because no buffer to copy them together was free.
        rx_no_spare,
        rx_kicks,
        tx_packets,
        tx_bytes,
        tx_errors,
        tx_dropped,
        tx_csum,
        tx_tso,
        tx_kicks,
        /// A buffer was asked for and none was free.
        tx_busy,
        /// Used-ring entries that named a buffer the device did not have.
        bad_ids,
        ctrl_commands,
        ctrl_errors,
        ctrl_timeouts,
        resets,
        reset_failures,
    }
}

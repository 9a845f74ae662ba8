//! What the model counts for people and tests. The chip's own counters are in `mib.rs`.

macro_rules! counters {
    ($($(#[$doc:meta])* $name:ident,)*) => {
        /// What a port of the model saw. Not part of the chip.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        pub struct PortCounters {
            $($(#[$doc])* pub $name: u64,)*
        }
    };
}

counters! {
    /// Frames handed to the engine, a super-frame being one.
    tx_requests,
    /// Descriptors they took.
    tx_descriptors,
    /// Frames on the wire.
    tx_frames,
    /// Their bytes, without FCS.
    tx_bytes,
    /// Requests that were cut.
    tx_super_frames,
    /// Frames the engine made by cutting.
    tx_segments,
    /// Requests in bypass.
    tx_bypassed,
    /// Checksums filled in, IP header ones apart.
    tx_checksums,
    /// Trap: cut to 1514 (plain), to word 3 (MTU mode, not TCP) or to 2047 bytes (bypass).
    tx_truncated,
    /// Trap E3: TCP outside MTU mode and bypass.
    tx_tcp_plain,
    /// Trap: word 3 leaves no room for payload, or its reserved bits were needed.
    tx_bad_mtu,
    /// Trap E1: a later fragment of one or two bytes at an address that is no multiple of 4.
    tx_tiny_fragments,
    /// Trap E4: IP_FIXED_LEN with several buffers or segments.
    tx_fixed_len,
    /// Trap E5: an IP packet in a frame of at most 60 bytes without IP_FIXED_LEN.
    tx_short_ip,
    /// Trap E6: UDP checksum asked for on a fragment.
    tx_udp_fragments,
    /// A checksum asked for where the engine recognises nothing to fill in.
    tx_unrecognised,
    /// Descriptor chains that break the protocol.
    tx_protocol_errors,
    /// Frames the injected error hit.
    tx_errors,
    /// Times the transmitter stopped for good.
    tx_hangs,
    /// Frames written to buffers.
    rx_frames,
    /// Their bytes.
    rx_bytes,
    /// Frames delivered whose checksums were found good.
    rx_checksum_good,
    /// Frames delivered whose checksums were found bad.
    rx_checksum_bad,
    /// Frames refused by the filter.
    rx_filtered,
    /// Frames that met a receiver that is off, or ran at another speed.
    rx_deaf,
    /// Frames lost for want of buffers or room in the queue.
    rx_discards,
    /// Frames with errors, delivered or not.
    rx_errors,
    /// Times the receiver stopped for good.
    rx_hangs,
    /// PAUSE frames received.
    rx_pause,
    /// PAUSE frames sent.
    tx_pause,
    /// DMA that reached no memory.
    dma_errors,
}

/// What the model saw.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Of each port.
    pub port: [PortCounters; 2],
    /// Accesses to registers without a name.
    pub unknown_accesses: u64,
    /// Accesses of a width the register is not known to take.
    pub odd_accesses: u64,
}

impl Counters {
    /// Sum over both ports of everything that a correct driver never causes.
    pub fn traps(&self) -> u64 {
        let of = |p: &PortCounters| {
            p.tx_truncated
                + p.tx_tcp_plain
                + p.tx_bad_mtu
                + p.tx_tiny_fragments
                + p.tx_fixed_len
                + p.tx_udp_fragments
                + p.tx_protocol_errors
                + p.dma_errors
        };
        self.port.iter().map(of).sum::<u64>() + self.unknown_accesses + self.odd_accesses
    }
}

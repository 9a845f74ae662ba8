//! What can be made to go wrong, and where sources disagree: which way to take.
//!
//! A rate of `n` is one in `n`, drawn from the seed; 0 is never. Numbers in brackets are rows of
//! `docs/hardware/ravb.md`, section 6.

pub(crate) use trireme_vfio::strikes;

trireme_vfio::faults! {
    /// Reads are ones, writes are lost.
    gone: switch,
    /// (1) Changes of operating mode take this long.
    slow_mode: time,
    /// (5) CSR.DTS never follows CCC.DTSR.
    dts_never: switch,
    /// RESET mode leaves the AVB-DMAC's registers as they are instead of returning them to their
    /// reset values. (sheet 10, 11)
    reset_keeps: switch,
    /// CSR0's path enables take this many reads until they show 0. (sheet 2.9)
    slow_toe: count,
    /// (50) Load requests and captures in GCCR take this many reads.
    slow_ptp: count,
    /// The PHY does not answer.
    absent_phy: switch,
    /// Negotiation takes this long.
    slow_link: time,
    /// Link goes away and comes back, this often.
    link_flap: time,
    /// Interrupts with nothing pending, this often.
    spurious: time,
    /// The transmit engine fetches nothing for 20 ms.
    tx_stall: rate,
    /// Sent frames' descriptors are written back this much later; TPO shows it.
    tx_late: time,
    /// (6) A read of a transmit descriptor fails, and with it the queue.
    tx_queue_error: rate,
    /// (31) GbEth: frames longer than this hang it, instead of those above 1522 bytes with FCS; the
    /// true limit is not known.
    tx_limit: count,
    /// The timestamp FIFO is full whatever it holds.
    timestamp_overflow: rate,
    /// Frames wait this long in the receive FIFO; RPO shows it. Those received before a switch of
    /// the checksum engine keep their format. (sheet 5.1)
    rx_late: time,
    /// Frames with a wrong FCS.
    rx_crc: rate,
    /// Frames the PHY flags.
    rx_phy_error: rate,
    /// Frames cut below 64 bytes.
    rx_runt: rate,
    /// Frames with residual bits.
    rx_residual: rate,
    /// GbEth: frames with a carrier extension error.
    rx_extension: rate,
    /// Illegal carrier, told by ECSR.ICD.
    illegal_carrier: rate,
    /// The receive FIFO is full.
    rx_overflow: rate,
    /// Frames meet a full ring whatever the ring holds.
    rx_queue_full: rate,
    /// (24) A frame ends after its first descriptor: FSTART and no FEND.
    rx_cut_chain: rate,
    /// Frames longer than 64 bytes are cut and marked TR.
    rx_truncated: rate,
    /// A completed descriptor says 0 bytes.
    rx_zero_length: rate,
    /// A completed descriptor says more bytes than its buffer holds.
    rx_bad_length: rate,
    /// Completion without its flag, so without its interrupt.
    rx_no_interrupt: rate,
    /// The same for transmission.
    tx_no_interrupt: rate,
    /// Errors of a chained frame stand in all its descriptors instead of the last. (sheet 10, 8)
    status_everywhere: switch,
    /// R-Car: a sum of zero is stored as ffff. (sheet 10, 13)
    sum_as_ones: switch,
    /// The receive checksum result is wrong, one way or the other.
    rx_wrong_sum: rate,
    /// GbEth: results are appended only while CSR2 enables anything. (sheet 10, 14)
    no_idle_trailer: switch,
    /// GbEth: UDP over IPv4 without a checksum counts as right. (sheet 10, 14)
    zero_udp_is_right: switch,
    /// GbEth: IPv4 options are no obstacle. (sheet 10, 14)
    takes_options: switch,
    /// GbEth: received frames with bytes behind the IP packet are not supported. (sheet 10, 14)
    padding_unsupported: switch,
    /// GbEth: the engine adds to what the field holds instead of replacing it. (sheet 10, 15)
    seeded_checksum: switch,
    /// GbEth: a UDP sum of 0000 is sent as such. (sheet 10, 15)
    udp_zero_sent: switch,
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;
    use trireme_vfio::UnknownFault;

    #[test]
    fn specifications_parse_and_mistakes_do_not() {
        let wanted = Faults {
            rx_crc: 100,
            dts_never: true,
            slow_toe: 3,
            link_flap: Duration::from_secs(2),
            ..Faults::default()
        };
        assert_eq!("rx-crc=100,dts-never,link-flap=2000,slow-toe=3".parse(), Ok(wanted));
        for bad in ["rx-crc", "dts-never=1", "link-flap=0", "fire", "slow-toe=x", "spurious="] {
            assert_eq!(bad.parse::<Faults>(), Err(UnknownFault(bad.to_string())));
        }
    }
}

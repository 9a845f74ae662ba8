//! What can be made to go wrong, and where sources disagree: which way to take. `E` numbers are the rows
//! of docs/hardware/gemini.md 11.1.
//!
//! A rate of `n` is one in `n`, drawn from the seed; 0 is never.

pub(crate) use trireme_vfio::strikes;

trireme_vfio::faults! {
    /// E1: a later fragment of one or two bytes at an address that is no multiple of 4 is
    /// fetched wrongly.
    tiny_fragments: switch,
    /// E2: a frame over 1514 bytes in plain mode stops the transmitter, besides being truncated.
    plain_hang: switch,
    /// E5: in frames of at most 60 bytes the IP length grows to cover the padding.
    short_ip_length: switch,
    /// E8: ten frames in a row shorter than 60 bytes confuse the receiver for good.
    runt_storm: switch,
    /// E12: counters read as nonsense.
    mib_nonsense: switch,
    /// Counters have 16 bits, so that they get half full (their width is not known).
    narrow_mib: switch,
    /// A transmit read pointer moves before the status is written back. \[5.2\]
    late_status: switch,
    /// A port's reset leaves what both ports share as it is. \[6.4\]
    reset_keeps_toe: switch,
    /// The PHYs do not answer.
    absent_phy: switch,
    /// Transmission takes the time its bits take at the port's speed.
    paced: switch,
    /// E3: TCP outside MTU mode locks the transmitter up.
    tcp_hang: rate,
    /// E7: the transmitter hangs with its signature.
    tx_hang: rate,
    /// E7: the receiver hangs with its signature.
    rx_hang: rate,
    /// A frame is not sent and its status not OK.
    tx_error: rate,
    /// A transmit buffer meets a bus error.
    tx_derr: rate,
    /// A receive buffer meets a bus error.
    rx_derr: rate,
    /// A receive descriptor is marked as a protocol error.
    rx_perr: rate,
    /// Frames with a wrong FCS.
    rx_crc: rate,
    /// Frames cut short on the wire.
    rx_runt: rate,
    /// E10: a receive descriptor without its buffer address.
    rx_null: rate,
    /// Frames lost as if there were no buffer.
    rx_overrun: rate,
    /// Links go away and come back, this often; zero: never.
    link_flap: time,
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;
    use trireme_vfio::UnknownFault;

    #[test]
    fn specifications_parse_and_mistakes_do_not() {
        let faults: Faults = "tx-hang=100,paced,link-flap=2000".parse().unwrap();
        let wanted = Faults {
            tx_hang: 100,
            paced: true,
            link_flap: Duration::from_secs(2),
            ..Faults::default()
        };
        assert_eq!(faults, wanted);
        for bad in ["tx-hang", "paced=1", "link-flap=0", "fire", "rx-crc=x"] {
            assert_eq!(bad.parse::<Faults>(), Err(UnknownFault(bad.to_string())));
        }
    }
}

//! What can be made to go wrong, and where sources disagree: which way to take.
//!
//! A rate of `n` is one in `n`, drawn from the seed; 0 is never.

use std::num::ParseIntError;
use std::str::FromStr;

pub(crate) use trireme_vfio::strikes;

/// How the software reset ends.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ResetFault {
    /// Before the next read.
    #[default]
    Prompt,
    /// After this many reads of CR1.
    Slow(u32),
    /// Only by MISC_CR1's force bit.
    UntilForced,
    /// Never.
    Never,
}

impl FromStr for ResetFault {
    type Err = ParseIntError;

    /// `until-forced`, `never`, or the number of reads.
    fn from_str(text: &str) -> Result<ResetFault, ParseIntError> {
        Ok(match text {
            "until-forced" => ResetFault::UntilForced,
            "never" => ResetFault::Never,
            reads => ResetFault::Slow(reads.parse()?),
        })
    }
}

trireme_vfio::faults! {
    /// E8, E9: the software reset does not end as it should.
    reset: ResetFault,
    /// E11: reads of EECSR until a reload is done.
    slow_eeprom: count,
    /// E12: the EEPROM arms magic-packet wake (CFGA 0-1).
    eeprom_arms_wake: switch,
    /// The EEPROM switches memory decoding on; those of most cards do not.
    eeprom_enables_memory: switch,
    /// E23: MIDLE never comes.
    dead_midle: switch,
    /// The PHY does not answer.
    absent_phy: switch,
    /// E25: the PHY comes up isolated from the MII.
    isolated_phy: switch,
    /// E24: the PHY answers at every address.
    promiscuous_phy: switch,
    /// E1: writes take effect at the next read.
    posted_writes: switch,
    /// E13: found asleep (STICKHW = 3).
    asleep: switch,
    /// Card pulled out: all reads are ones.
    gone: switch,
    /// E2: transmit FIFO underruns while the threshold is below store-and-forward.
    tx_underrun: rate,
    /// E8: excessive collisions.
    tx_abort: rate,
    /// E4: descriptor write-back races (VT6102 class).
    tx_race: rate,
    /// Buffer or link underflow.
    tx_bad_link: rate,
    /// E7: TXE with no detail.
    tx_unexplained: rate,
    /// E34: completion without its interrupt.
    tx_no_interrupt: rate,
    /// Completion interrupts nobody asked for.
    tx_extra_interrupt: switch,
    /// The transmit engine stops fetching for a while.
    tx_stall: rate,
    /// PCI errors on transmit DMA.
    pci_error: rate,
    /// Frames with a wrong FCS.
    rx_crc: rate,
    /// Frames cut short on the wire.
    rx_runt: rate,
    /// FIFO overflows.
    rx_overflow: rate,
    /// E19: the ring fills with empty "oversized" descriptors, then nothing more is received.
    rx_wedge: rate,
    /// Write-backs with a length that is not the frame's.
    rx_bad_length: rate,
    /// The receive checksum engine says "good" to everything it recognises.
    rx_checksum_lies: switch,
    /// The receive checksum engine says "bad" to everything.
    rx_checksum_bad: switch,
    /// Link goes away and comes back, this often; zero: never.
    link_flap: time,
    /// Interrupts with nothing pending, this often; zero: never.
    spurious: time,
    /// The TX checksum engine adds to what the field holds instead of replacing it.
    seeded_checksum: switch,
    /// The tally counters clear by reading, and count one after any write.
    tally_read_clears: switch,
    /// Soft reset clears PAR until the EEPROM is reloaded.
    reset_clears_par: switch,
    /// CHN must be set on all but a frame's last descriptor.
    strict_chain: switch,
    /// Transmission takes the time the timing model says.
    paced: switch,
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;
    use trireme_vfio::UnknownFault;

    #[test]
    fn specifications_parse_and_mistakes_do_not() {
        let faults: Faults =
            "tx-underrun=100,posted-writes,link-flap=2000,reset=until-forced".parse().unwrap();
        let wanted = Faults {
            tx_underrun: 100,
            posted_writes: true,
            link_flap: Duration::from_secs(2),
            reset: ResetFault::UntilForced,
            ..Faults::default()
        };
        assert_eq!(faults, wanted);
        for bad in ["tx-underrun", "posted-writes=1", "link-flap=0", "fire", "reset=", "spurious=x"]
        {
            assert_eq!(bad.parse::<Faults>(), Err(UnknownFault(bad.to_string())));
        }
    }
}

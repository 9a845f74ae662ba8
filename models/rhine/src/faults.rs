//! What can be made to go wrong, and where sources disagree: which way to take.
//!
//! A rate of `n` is one in `n`, drawn from the seed; 0 is never.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

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

/// The switches. `Default` is a healthy chip that takes the likelier reading everywhere.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Faults {
    /// E8, E9: the software reset does not end as it should.
    pub reset: ResetFault,
    /// E11: reads of EECSR until a reload is done.
    pub slow_eeprom: u32,
    /// E12: the EEPROM arms magic-packet wake (CFGA 0-1).
    pub eeprom_arms_wake: bool,
    /// The EEPROM switches memory decoding on; those of most cards do not.
    pub eeprom_enables_memory: bool,
    /// E23: MIDLE never comes.
    pub dead_midle: bool,
    /// The PHY does not answer.
    pub absent_phy: bool,
    /// E25: the PHY comes up isolated from the MII.
    pub isolated_phy: bool,
    /// E24: the PHY answers at every address.
    pub promiscuous_phy: bool,
    /// E1: writes take effect at the next read.
    pub posted_writes: bool,
    /// E13: found asleep (STICKHW = 3).
    pub asleep: bool,
    /// Card pulled out: all reads are ones.
    pub gone: bool,
    /// E2: transmit FIFO underruns while the threshold is below store-and-forward.
    pub tx_underrun: u32,
    /// E8: excessive collisions.
    pub tx_abort: u32,
    /// E4: descriptor write-back races (VT6102 class).
    pub tx_race: u32,
    /// Buffer or link underflow.
    pub tx_bad_link: u32,
    /// E7: TXE with no detail.
    pub tx_unexplained: u32,
    /// E34: completion without its interrupt.
    pub tx_no_interrupt: u32,
    /// Completion interrupts nobody asked for.
    pub tx_extra_interrupt: bool,
    /// The transmit engine stops fetching for a while.
    pub tx_stall: u32,
    /// PCI errors on transmit DMA.
    pub pci_error: u32,
    /// Frames with a wrong FCS.
    pub rx_crc: u32,
    /// Frames cut short on the wire.
    pub rx_runt: u32,
    /// FIFO overflows.
    pub rx_overflow: u32,
    /// E19: the ring fills with empty "oversized" descriptors, then nothing more is received.
    pub rx_wedge: u32,
    /// Write-backs with a length that is not the frame's.
    pub rx_bad_length: u32,
    /// The receive checksum engine says "good" to everything it recognises.
    pub rx_checksum_lies: bool,
    /// The receive checksum engine says "bad" to everything.
    pub rx_checksum_bad: bool,
    /// Link goes away and comes back, this often; zero: never.
    pub link_flap: Duration,
    /// Interrupts with nothing pending, this often; zero: never.
    pub spurious: Duration,
    /// The TX checksum engine adds to what the field holds instead of replacing it.
    pub seeded_checksum: bool,
    /// The tally counters clear by reading, and count one after any write.
    pub tally_read_clears: bool,
    /// Soft reset clears PAR until the EEPROM is reloaded.
    pub reset_clears_par: bool,
    /// CHN must be set on all but a frame's last descriptor.
    pub strict_chain: bool,
    /// Transmission takes the time the timing model says.
    pub paced: bool,
}

/// A fault was not understood.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnknownFault(pub String);

impl fmt::Display for UnknownFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "fault {:?}: want NAME, RATE-NAME=ONE-IN-N or TIME-NAME=MILLISECONDS", self.0)
    }
}

impl std::error::Error for UnknownFault {}

impl FromStr for Faults {
    type Err = UnknownFault;

    /// Comma-separated names as the fields spell them, with `-` for `_`; rates and times with
    /// `=value`, e.g. `tx-underrun=100,posted-writes,link-flap=2000,reset=until-forced`.
    fn from_str(text: &str) -> Result<Faults, UnknownFault> {
        let mut faults = Faults::default();
        for item in text.split(',').filter(|item| !item.is_empty()) {
            let (name, value) = item.split_once('=').unwrap_or((item, ""));
            faults.set(name, value).ok_or_else(|| UnknownFault(item.to_string()))?;
        }
        Ok(faults)
    }
}

impl Faults {
    fn set(&mut self, name: &str, value: &str) -> Option<()> {
        if name == "reset" {
            self.reset = match value {
                "until-forced" => ResetFault::UntilForced,
                "never" => ResetFault::Never,
                reads => ResetFault::Slow(reads.parse().ok()?),
            };
            return Some(());
        }
        let switch = match name {
            "eeprom-enables-memory" => Some(&mut self.eeprom_enables_memory),
            "eeprom-arms-wake" => Some(&mut self.eeprom_arms_wake),
            "dead-midle" => Some(&mut self.dead_midle),
            "absent-phy" => Some(&mut self.absent_phy),
            "isolated-phy" => Some(&mut self.isolated_phy),
            "promiscuous-phy" => Some(&mut self.promiscuous_phy),
            "posted-writes" => Some(&mut self.posted_writes),
            "asleep" => Some(&mut self.asleep),
            "gone" => Some(&mut self.gone),
            "tx-extra-interrupt" => Some(&mut self.tx_extra_interrupt),
            "rx-checksum-lies" => Some(&mut self.rx_checksum_lies),
            "rx-checksum-bad" => Some(&mut self.rx_checksum_bad),
            "seeded-checksum" => Some(&mut self.seeded_checksum),
            "tally-read-clears" => Some(&mut self.tally_read_clears),
            "reset-clears-par" => Some(&mut self.reset_clears_par),
            "strict-chain" => Some(&mut self.strict_chain),
            "paced" => Some(&mut self.paced),
            _ => None,
        };
        if let Some(switch) = switch {
            *switch = true;
            return value.is_empty().then_some(());
        }
        let time = match name {
            "link-flap" => Some(&mut self.link_flap),
            "spurious" => Some(&mut self.spurious),
            _ => None,
        };
        if let Some(time) = time {
            *time = Duration::from_millis(value.parse().ok().filter(|&ms| ms > 0)?);
            return Some(());
        }
        let rate = match name {
            "slow-eeprom" => &mut self.slow_eeprom,
            "tx-underrun" => &mut self.tx_underrun,
            "tx-abort" => &mut self.tx_abort,
            "tx-race" => &mut self.tx_race,
            "tx-bad-link" => &mut self.tx_bad_link,
            "tx-unexplained" => &mut self.tx_unexplained,
            "tx-no-interrupt" => &mut self.tx_no_interrupt,
            "tx-stall" => &mut self.tx_stall,
            "pci-error" => &mut self.pci_error,
            "rx-crc" => &mut self.rx_crc,
            "rx-runt" => &mut self.rx_runt,
            "rx-overflow" => &mut self.rx_overflow,
            "rx-wedge" => &mut self.rx_wedge,
            "rx-bad-length" => &mut self.rx_bad_length,
            _ => return None,
        };
        *rate = value.parse().ok()?;
        Some(())
    }
}

/// Draws whether a fault of this rate happens now.
pub(crate) fn strikes(random: &mut fastrand::Rng, rate: u32) -> bool {
    rate != 0 && random.u32(0..rate) == 0
}

#[cfg(test)]
mod tests {
    use super::*;

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

    #[test]
    fn a_rate_is_one_in_n() {
        let mut random = fastrand::Rng::with_seed(1);
        let hits = (0..100_000).filter(|_| strikes(&mut random, 100)).count();
        assert!((850..1150).contains(&hits), "{hits}");
        assert!((0..1000).all(|_| !strikes(&mut random, 0)));
        assert!((0..1000).all(|_| strikes(&mut random, 1)));
    }
}

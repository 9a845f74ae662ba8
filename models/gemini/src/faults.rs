//! What can be made to go wrong, and where sources disagree: which way to take. `E` numbers are the rows
//! of docs/hardware/gemini.md 11.1.
//!
//! A rate of `n` is one in `n`, drawn from the seed; 0 is never.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

macro_rules! faults {
    (
        switches { $($(#[$switch_doc:meta])* $switch:ident = $switch_name:literal,)* }
        rates { $($(#[$rate_doc:meta])* $rate:ident = $rate_name:literal,)* }
        times { $($(#[$time_doc:meta])* $time:ident = $time_name:literal,)* }
    ) => {
        /// The switches. `Default` is a healthy chip that takes the likelier reading everywhere.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        pub struct Faults {
            $($(#[$switch_doc])* pub $switch: bool,)*
            $($(#[$rate_doc])* pub $rate: u32,)*
            $($(#[$time_doc])* pub $time: Duration,)*
        }

        impl Faults {
            fn set(&mut self, name: &str, value: &str) -> Option<()> {
                match name {
                    $($switch_name => {
                        self.$switch = true;
                        return value.is_empty().then_some(());
                    })*
                    $($rate_name => self.$rate = value.parse().ok()?,)*
                    $($time_name => {
                        let ms = value.parse().ok().filter(|&ms| ms > 0)?;
                        self.$time = Duration::from_millis(ms);
                    })*
                    _ => return None,
                }
                Some(())
            }
        }
    };
}

faults! {
    switches {
        /// E1: a later fragment of one or two bytes at an address that is no multiple of 4 is
        /// fetched wrongly.
        tiny_fragments = "tiny-fragments",
        /// E2: a frame over 1514 bytes in plain mode stops the transmitter, besides being truncated.
        plain_hang = "plain-hang",
        /// E5: in frames of at most 60 bytes the IP length grows to cover the padding.
        short_ip_length = "short-ip-length",
        /// E8: ten frames in a row shorter than 60 bytes confuse the receiver for good.
        runt_storm = "runt-storm",
        /// E12: counters read as nonsense.
        mib_nonsense = "mib-nonsense",
        /// Counters have 16 bits, so that they get half full (their width is not known).
        narrow_mib = "narrow-mib",
        /// A transmit read pointer moves before the status is written back. \[5.2\]
        late_status = "late-status",
        /// A port's reset leaves what both ports share as it is. \[6.4\]
        reset_keeps_toe = "reset-keeps-toe",
        /// The PHYs do not answer.
        absent_phy = "absent-phy",
        /// Transmission takes the time its bits take at the port's speed.
        paced = "paced",
    }
    rates {
        /// E3: TCP outside MTU mode locks the transmitter up.
        tcp_hang = "tcp-hang",
        /// E7: the transmitter hangs with its signature.
        tx_hang = "tx-hang",
        /// E7: the receiver hangs with its signature.
        rx_hang = "rx-hang",
        /// A frame is not sent and its status not OK.
        tx_error = "tx-error",
        /// A transmit buffer meets a bus error.
        tx_derr = "tx-derr",
        /// A receive buffer meets a bus error.
        rx_derr = "rx-derr",
        /// A receive descriptor is marked as a protocol error.
        rx_perr = "rx-perr",
        /// Frames with a wrong FCS.
        rx_crc = "rx-crc",
        /// Frames cut short on the wire.
        rx_runt = "rx-runt",
        /// E10: a receive descriptor without its buffer address.
        rx_null = "rx-null",
        /// Frames lost as if there were no buffer.
        rx_overrun = "rx-overrun",
    }
    times {
        /// Links go away and come back, this often; zero: never.
        link_flap = "link-flap",
    }
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
    /// `=value`, e.g. `tx-hang=1000,paced,link-flap=2000`.
    fn from_str(text: &str) -> Result<Faults, UnknownFault> {
        let mut faults = Faults::default();
        for item in text.split(',').filter(|item| !item.is_empty()) {
            let (name, value) = item.split_once('=').unwrap_or((item, ""));
            faults.set(name, value).ok_or_else(|| UnknownFault(item.to_string()))?;
        }
        Ok(faults)
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

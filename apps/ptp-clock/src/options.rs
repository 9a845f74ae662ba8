//! The command line. On an appliance it is what follows `--` in the boot arguments.

use std::ffi::OsString;
use std::time::Duration;

use lexopt::{Arg, Parser, ValueExt as _};

/// What `--help` prints.
pub const HELP: &str = "\
Keeps a network card's own clock (IEEE 1588) on the time of a grandmaster, over Ethernet.

Usage: ptp-clock [OPTIONS]

  --interface NAME        a card with a clock: `ethtool -T` shows which has one [eth0]
  --domain N              PTP domain [0]
  --priority1 N           leads itself if nobody better is heard, with this priority1; without, it only follows
  --p2p                   measures the delay to the neighbour (802.1AS, power) instead of to the master
  --free-running          measures, and leaves the card's clock as it is
  --announce-interval N   all as powers of two, in seconds, from -7 to 7; of announcements, to be the master's [1]
  --sync-interval N       [0]
  --delay-interval N      of delay requests, at least [0]
  --report S              a line of offset and delay every S seconds [1]
  --messages              a line for each message with a timestamp
  --help, --version
";

/// How to run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// The card.
    pub interface: String,
    /// domainNumber.
    pub domain: u8,
    /// priority1, if it may lead.
    pub priority1: Option<u8>,
    /// Peer delay instead of end to end.
    pub p2p: bool,
    /// The clock is not touched.
    pub free_running: bool,
    /// logAnnounceInterval.
    pub announce_interval: i8,
    /// logSyncInterval.
    pub sync_interval: i8,
    /// logMinDelayReqInterval.
    pub delay_interval: i8,
    /// Time between two reports.
    pub report: Duration,
    /// Whether messages are shown.
    pub messages: bool,
}

/// What the command line asks for.
#[derive(Debug, PartialEq, Eq)]
pub enum Command {
    /// Run.
    Run(Options),
    /// Print this.
    Print(String),
}

/// Reads the arguments after the program's name.
pub fn parse(arguments: impl IntoIterator<Item = OsString>) -> Result<Command, lexopt::Error> {
    let mut options = Options {
        interface: "eth0".to_owned(),
        domain: 0,
        priority1: None,
        p2p: false,
        free_running: false,
        announce_interval: 1,
        sync_interval: 0,
        delay_interval: 0,
        report: Duration::from_secs(1),
        messages: false,
    };
    let mut parser = Parser::from_args(arguments);
    while let Some(argument) = parser.next()? {
        match argument {
            Arg::Long("interface") => options.interface = parser.value()?.string()?,
            Arg::Long("domain") => options.domain = parser.value()?.parse()?,
            Arg::Long("priority1") => options.priority1 = Some(parser.value()?.parse()?),
            Arg::Long("p2p") => options.p2p = true,
            Arg::Long("free-running") => options.free_running = true,
            Arg::Long("announce-interval") => options.announce_interval = interval(&mut parser)?,
            Arg::Long("sync-interval") => options.sync_interval = interval(&mut parser)?,
            Arg::Long("delay-interval") => options.delay_interval = interval(&mut parser)?,
            Arg::Long("report") => {
                let seconds: u32 = parser.value()?.parse()?;
                options.report = Duration::from_secs(seconds.max(1).into());
            }
            Arg::Long("messages") => options.messages = true,
            Arg::Long("help") | Arg::Short('h') => return Ok(Command::Print(HELP.to_owned())),
            Arg::Long("version") | Arg::Short('V') => {
                return Ok(Command::Print(format!("ptp-clock {}\n", env!("CARGO_PKG_VERSION"))));
            }
            _ => return Err(argument.unexpected()),
        }
    }
    Ok(Command::Run(options))
}

fn interval(parser: &mut Parser) -> Result<i8, lexopt::Error> {
    let value = parser.value()?;
    value.parse_with(|text| match text.parse() {
        Ok(log @ -7..=7) => Ok(log),
        _ => Err("not within -7 and 7"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(line: &str) -> Result<Command, String> {
        parse(line.split_whitespace().map(OsString::from)).map_err(|error| error.to_string())
    }

    #[test]
    fn everything_can_be_said() {
        let expected = Options {
            interface: "eth1".to_owned(),
            domain: 24,
            priority1: Some(200),
            p2p: true,
            free_running: true,
            announce_interval: -2,
            sync_interval: -4,
            delay_interval: 7,
            report: Duration::from_secs(10),
            messages: true,
        };
        let line = "--interface eth1 --domain 24 --priority1 200 --p2p --free-running --announce-interval -2 \
                    --sync-interval=-4 --delay-interval 7 --report 10 --messages";
        assert_eq!(parsed(line), Ok(Command::Run(expected)));
    }

    #[test]
    fn mistakes_are_named() {
        for line in
            ["--domain 256", "--sync-interval 8", "--delay-interval x", "eth0", "--priority1 -1"]
        {
            assert!(parsed(line).is_err(), "{line}");
        }
    }
}

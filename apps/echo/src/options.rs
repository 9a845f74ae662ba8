//! The command line. On an appliance it is what follows `--` in the boot arguments.

use std::ffi::OsString;
use std::net::IpAddr;
use std::time::Duration;

use lexopt::{Arg, Parser, ValueExt as _};

/// What `--help` prints.
pub const HELP: &str = "\
Sends back what it gets, by TCP and UDP [RFC 862].

Usage: echo [OPTIONS]

  --address IP        listen here; may be given more than once
                      [appliance: :: and 0.0.0.0, else: 127.0.0.1]
  --port N            port of the echo service [appliance: 7, else: 7007]
  --sink N            also take and forget what is sent to TCP port N
  --source N          also answer on TCP port N: to a number of octets, itself 8 octets,
                      big-endian, with as many octets
  --measure           --sink 5001 --source 5002
  --connections N     most connections at a time [10000]
  --idle-timeout S    seconds without traffic before a connection is closed [300]
  --help, --version
";

/// How to serve.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// Addresses to listen on.
    pub addresses: Vec<IpAddr>,
    /// Nobody asked for these addresses: one that works is enough.
    pub addresses_are_default: bool,
    /// Port of the echo service, for TCP and UDP.
    pub port: u16,
    /// Port of the sink.
    pub sink: Option<u16>,
    /// Port of the source.
    pub source: Option<u16>,
    /// Most connections at a time, all services together.
    pub connections: usize,
    /// After so long without traffic a connection is closed.
    pub idle_timeout: Duration,
}

/// What the command line asks for.
#[derive(Debug, PartialEq, Eq)]
pub enum Command {
    /// Serve.
    Serve(Options),
    /// Print this.
    Print(String),
}

impl Default for Options {
    fn default() -> Self {
        let appliance = cfg!(target_os = "hermit");
        let addresses: &[&str] = if appliance { &["::", "0.0.0.0"] } else { &["127.0.0.1"] };
        Self {
            addresses: addresses.iter().filter_map(|address| address.parse().ok()).collect(),
            addresses_are_default: true,
            port: if appliance { 7 } else { 7007 },
            sink: None,
            source: None,
            connections: 10_000,
            idle_timeout: Duration::from_secs(300),
        }
    }
}

/// Reads the arguments after the program's name.
pub fn parse(arguments: impl IntoIterator<Item = OsString>) -> Result<Command, lexopt::Error> {
    let mut options = Options::default();
    let mut parser = Parser::from_args(arguments);
    while let Some(argument) = parser.next()? {
        match argument {
            Arg::Long("address") => {
                let address = parser.value()?.parse()?;
                if std::mem::take(&mut options.addresses_are_default) {
                    options.addresses.clear();
                }
                options.addresses.push(address);
            }
            Arg::Long("port") => options.port = parser.value()?.parse()?,
            Arg::Long("sink") => options.sink = Some(parser.value()?.parse()?),
            Arg::Long("source") => options.source = Some(parser.value()?.parse()?),
            Arg::Long("measure") => (options.sink, options.source) = (Some(5001), Some(5002)),
            Arg::Long("connections") => options.connections = parser.value()?.parse()?,
            Arg::Long("idle-timeout") => {
                let seconds: u32 = parser.value()?.parse()?;
                options.idle_timeout = Duration::from_secs(seconds.max(1).into());
            }
            Arg::Long("help") | Arg::Short('h') => return Ok(Command::Print(HELP.to_owned())),
            Arg::Long("version") | Arg::Short('V') => {
                return Ok(Command::Print(format!("echo {}\n", env!("CARGO_PKG_VERSION"))));
            }
            _ => return Err(argument.unexpected()),
        }
    }
    Ok(Command::Serve(options))
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
            addresses: vec!["::1".parse().unwrap(), "127.0.0.1".parse().unwrap()],
            addresses_are_default: false,
            port: 9,
            sink: Some(5001),
            source: Some(2),
            connections: 3,
            idle_timeout: Duration::from_secs(4),
        };
        let line = "--address ::1 --address 127.0.0.1 --port 9 --measure --source 2 --connections 3 --idle-timeout 4";
        assert_eq!(parsed(line), Ok(Command::Serve(expected)));
        assert_eq!(parsed(""), Ok(Command::Serve(Options::default())));
    }

    #[test]
    fn mistakes_are_named() {
        for line in [
            "--port 65536",
            "--sink",
            "--address localhost",
            "--unknown",
            "file",
            "--connections -1",
        ] {
            assert!(parsed(line).is_err(), "{line}");
        }
    }
}

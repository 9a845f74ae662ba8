//! The command line. On an appliance it is what follows `--` in the boot arguments.

use std::ffi::OsString;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use lexopt::{Arg, Parser, ValueExt as _};

/// What `--help` prints.
pub const HELP: &str = "\
Carries TCP connections from one side to the other.

Usage: tcp-proxy --to HOST:PORT [OPTIONS]

  --to HOST:PORT        where to; several are tried in order
  --listen IP:PORT      where from; may be given more than once
                        [appliance: [::]:8080 and 0.0.0.0:8080, else: 127.0.0.1:8080]
  --source IP           the address to connect from [that of the way to the server]
  --connections N       most at a time; more wait [1000]
  --connect-timeout S   seconds until another server is tried [10]
  --idle-timeout S      seconds without traffic before a connection is closed [300]
  --report S            print what there is and was every S seconds
  --help, --version
";

/// How to serve.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// Addresses to listen on.
    pub listen: Vec<SocketAddr>,
    /// Nobody asked for these addresses: one that works is enough.
    pub listen_is_default: bool,
    /// Where to, as `HOST:PORT`.
    pub targets: Vec<String>,
    /// The address to connect from.
    pub source: Option<IpAddr>,
    /// Most connections at a time.
    pub connections: usize,
    /// A server that hasn't answered by then won't.
    pub connect_timeout: Duration,
    /// After so long without traffic a connection is closed.
    pub idle_timeout: Duration,
    /// Time between two reports.
    pub report: Option<Duration>,
}

/// What the command line asks for.
#[derive(Debug, PartialEq, Eq)]
pub enum Command {
    /// Serve.
    Serve(Options),
    /// Print this.
    Print(String),
}

/// Reads the arguments after the program's name.
pub fn parse(arguments: impl IntoIterator<Item = OsString>) -> Result<Command, lexopt::Error> {
    let appliance = cfg!(target_os = "hermit");
    let default: &[&str] =
        if appliance { &["[::]:8080", "0.0.0.0:8080"] } else { &["127.0.0.1:8080"] };
    let mut options = Options {
        listen: default.iter().filter_map(|address| address.parse().ok()).collect(),
        listen_is_default: true,
        targets: Vec::new(),
        source: None,
        connections: 1000,
        connect_timeout: Duration::from_secs(10),
        idle_timeout: Duration::from_secs(300),
        report: None,
    };
    let mut parser = Parser::from_args(arguments);
    while let Some(argument) = parser.next()? {
        match argument {
            Arg::Long("to") => options.targets.push(parser.value()?.string()?),
            Arg::Long("listen") => {
                let address = parser.value()?.parse()?;
                if std::mem::take(&mut options.listen_is_default) {
                    options.listen.clear();
                }
                options.listen.push(address);
            }
            Arg::Long("source") => options.source = Some(parser.value()?.parse()?),
            Arg::Long("connections") => {
                options.connections = parser.value()?.parse::<usize>()?.clamp(1, 1 << 20);
            }
            Arg::Long("connect-timeout") => options.connect_timeout = seconds(&mut parser)?,
            Arg::Long("idle-timeout") => options.idle_timeout = seconds(&mut parser)?,
            Arg::Long("report") => options.report = Some(seconds(&mut parser)?),
            Arg::Long("help") | Arg::Short('h') => return Ok(Command::Print(HELP.to_owned())),
            Arg::Long("version") | Arg::Short('V') => {
                return Ok(Command::Print(format!("tcp-proxy {}\n", env!("CARGO_PKG_VERSION"))));
            }
            _ => return Err(argument.unexpected()),
        }
    }
    if options.targets.is_empty() {
        return Err("--to is missing".into());
    }
    Ok(Command::Serve(options))
}

fn seconds(parser: &mut Parser) -> Result<Duration, lexopt::Error> {
    let seconds: u32 = parser.value()?.parse()?;
    Ok(Duration::from_secs(seconds.max(1).into()))
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
            listen: vec!["10.0.0.1:80".parse().unwrap(), "[::1]:81".parse().unwrap()],
            listen_is_default: false,
            targets: vec!["10.1.0.1:80".to_owned(), "server:http".to_owned()],
            source: Some("10.1.0.2".parse().unwrap()),
            connections: 3,
            connect_timeout: Duration::from_secs(4),
            idle_timeout: Duration::from_secs(5),
            report: Some(Duration::from_secs(6)),
        };
        let line = "--listen 10.0.0.1:80 --listen [::1]:81 --to 10.1.0.1:80 --to server:http --source 10.1.0.2 \
                    --connections 3 --connect-timeout 4 --idle-timeout 5 --report 6";
        assert_eq!(parsed(line), Ok(Command::Serve(expected)));
    }

    #[test]
    fn mistakes_are_named() {
        for line in
            ["", "--to", "--to a:1 --listen 80", "--to a:1 file", "--to a:1 --connections -1"]
        {
            assert!(parsed(line).is_err(), "{line}");
        }
    }
}

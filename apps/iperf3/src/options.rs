//! The command line, in iperf3's words. On an appliance it is what follows `--` in the boot arguments.

use std::ffi::OsString;
use std::net::IpAddr;
use std::time::Duration;

use lexopt::{Arg, Parser, ValueExt as _};

use crate::parameters::{
    BLOCK_LIMIT, BURST_LIMIT, DATAGRAM, MSS_LIMIT, OMIT_LIMIT, Parameters, STREAM_LIMIT,
    TIME_LIMIT, UDP_BLOCK, UDP_RATE, VERSION, WINDOW_LIMIT,
};
use crate::report::Format;
use crate::units::{self, Unit};

/// What `--help` prints.
pub const HELP: &str = "\
Measures throughput by iperf3's protocol.

Usage: iperf3 -s|-c HOST [OPTIONS]      an appliance is a server unless told otherwise

  -s, --server              serve
  -c, --client HOST         test with this server
  -p, --port N              the server's port [5201]
  -B, --bind IP             listen at this address, or connect from it
  -4, -6                    only IPv4, only IPv6
  -i, --interval S          seconds between reports, 0 for none [1]
  -f, --format k|m|g|t|K|M|G|T
                            unit of rates: bits, or octets if upper case
  -J, --json                report in JSON, a line for each test
  --rcv-timeout MS          give up if nothing moves for so long [120000]
  -h, --help; -v, --version

Server:
  -1, --one-off             end after one test

Client:
  -u, --udp                 UDP instead of TCP
  -b, --bitrate N[KMG][/N]  bits a second and stream; 0 for no limit; after the slash, blocks
                            that leave together [UDP: 1 Mbit/s, TCP: no limit]
  -t, --time S              how long to send [10]
  -n, --bytes N[KMG]        or how much
  -k, --blockcount N[KMG]   or how many blocks
  -l, --length N[KMG]       octets in a block or datagram [TCP: 128K, UDP: 1460]
  -P, --parallel N          streams in a direction [1]
  -R, --reverse             the server sends
  --bidir                   both send
  -w, --window N[KMG]       size of socket buffers
  -M, --set-mss N           largest segment
  -N, --no-delay            small segments at once
  -O, --omit S              leave out the first seconds
  -T, --title TEXT          put before each line
  --extra-data TEXT         put into the JSON of both
  --get-server-output       show what the server printed
  --udp-counters-64bit      count datagrams in 64 bits
  --pacing-timer US         microseconds between two looks at the rate [1000]
  --connect-timeout MS      [10000]
";

/// What to do.
#[derive(Clone, Debug, PartialEq)]
pub enum Role {
    /// Serve.
    Server,
    /// Test with this server.
    Client(String),
}

/// An address family.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Family {
    /// IPv4
    V4,
    /// IPv6
    V6,
}

/// How to do it.
#[derive(Clone, Debug, PartialEq)]
pub struct Options {
    /// What to do.
    pub role: Role,
    /// The server's port.
    pub port: u16,
    /// Our address; `None`: any.
    pub bind: Option<IpAddr>,
    /// The only address family wanted.
    pub family: Option<Family>,
    /// Time between two reports.
    pub interval: Option<Duration>,
    pub(crate) format: Format,
    /// End if nothing moves for so long.
    pub receive_timeout: Duration,
    /// How long connecting may take.
    pub connect_timeout: Duration,
    /// Serve one test only.
    pub one_off: bool,
    /// A client's test.
    pub parameters: Parameters,
    /// The length of blocks was given.
    pub has_length: bool,
}

/// What the command line asks for.
#[derive(Debug, PartialEq)]
pub enum Command {
    /// A test, or many.
    Run(Box<Options>),
    /// Print this.
    Print(String),
}

impl Options {
    /// Addresses for a server to listen on; one that works is enough.
    pub(crate) fn listen_on(&self) -> Vec<IpAddr> {
        match (self.bind, self.family) {
            (Some(address), _) => vec![address],
            (None, Some(Family::V4)) => vec![[0; 4].into()],
            (None, Some(Family::V6)) => vec![[0; 16].into()],
            (None, None) => vec![[0; 16].into(), [0; 4].into()],
        }
    }
}

/// Reads the arguments after the program's name.
pub fn parse(arguments: impl IntoIterator<Item = OsString>) -> Result<Command, lexopt::Error> {
    let mut role = None;
    let mut rate = None;
    let mut length = None;
    let mut ends = 0;
    let mut client_only = None;
    let mut options = Options {
        role: Role::Server,
        port: 5201,
        bind: None,
        family: None,
        interval: Some(Duration::from_secs(1)),
        format: Format::default(),
        receive_timeout: Duration::from_secs(120),
        connect_timeout: Duration::from_secs(10),
        one_off: false,
        parameters: Parameters::default(),
        has_length: false,
    };
    let test = &mut options.parameters;
    let mut parser = Parser::from_args(arguments);
    while let Some(argument) = parser.next()? {
        match argument {
            Arg::Short('s') | Arg::Long("server") => role = Some(Role::Server),
            Arg::Short('c') | Arg::Long("client") => {
                role = Some(Role::Client(parser.value()?.string()?));
            }
            Arg::Short('p') | Arg::Long("port") => options.port = parser.value()?.parse()?,
            Arg::Short('B') | Arg::Long("bind") => options.bind = Some(parser.value()?.parse()?),
            Arg::Short('4') | Arg::Long("version4") => options.family = Some(Family::V4),
            Arg::Short('6') | Arg::Long("version6") => options.family = Some(Family::V6),
            Arg::Short('i') | Arg::Long("interval") => {
                let seconds: f64 = parser.value()?.parse()?;
                options.interval = match seconds {
                    0.0 => None,
                    0.1..=60.0 => Some(Duration::from_secs_f64(seconds)),
                    _ => return Err("the interval is 0, or 0.1 to 60 seconds".into()),
                };
            }
            Arg::Short('f') | Arg::Long("format") => {
                let unit = parser.value()?.string()?;
                options.format.unit = Unit::parse(&unit).ok_or("-f takes one of kmgtKMGT")?;
            }
            Arg::Short('J') | Arg::Long("json") => options.format.json = true,
            Arg::Long("rcv-timeout") => options.receive_timeout = milliseconds(&mut parser)?,
            Arg::Long("connect-timeout") => options.connect_timeout = milliseconds(&mut parser)?,
            Arg::Short('1') | Arg::Long("one-off") => options.one_off = true,
            Arg::Short('h') | Arg::Long("help") => return Ok(Command::Print(HELP.to_owned())),
            Arg::Short('v') | Arg::Long("version") => {
                return Ok(Command::Print(format!("iperf {VERSION}\n")));
            }
            argument => {
                client_only.get_or_insert_with(|| match argument {
                    Arg::Short(letter) => format!("-{letter}"),
                    Arg::Long(name) => format!("--{name}"),
                    Arg::Value(ref value) => value.to_string_lossy().into_owned(),
                });
                match argument {
                    Arg::Short('u') | Arg::Long("udp") => test.udp = true,
                    Arg::Short('b') | Arg::Long("bitrate" | "bandwidth") => {
                        let text = parser.value()?.string()?;
                        let (bits, burst) = text.split_once('/').unwrap_or((&text, "0"));
                        rate = Some(size(bits, 1000, u64::MAX)?);
                        test.burst = size(burst, 1000, BURST_LIMIT)? as u32;
                    }
                    Arg::Short('t') | Arg::Long("time") => {
                        test.time = count(&mut parser, TIME_LIMIT)? as u32;
                        ends += 1;
                    }
                    Arg::Short('n') | Arg::Long("bytes") => {
                        test.bytes = Some(count(&mut parser, u64::MAX)?.max(1));
                        ends += 1;
                    }
                    Arg::Short('k') | Arg::Long("blockcount") => {
                        test.blocks = Some(count(&mut parser, u64::MAX)?.max(1));
                        ends += 1;
                    }
                    Arg::Short('l') | Arg::Long("length") => {
                        length = Some(count(&mut parser, BLOCK_LIMIT)?);
                    }
                    Arg::Short('P') | Arg::Long("parallel") => {
                        test.parallel = count(&mut parser, STREAM_LIMIT.into())?.max(1) as u32;
                    }
                    Arg::Short('R') | Arg::Long("reverse") => test.reverse = true,
                    Arg::Long("bidir") => test.bidirectional = true,
                    Arg::Short('w') | Arg::Long("window") => {
                        test.window = Some(count(&mut parser, WINDOW_LIMIT)? as u32);
                    }
                    Arg::Short('M') | Arg::Long("set-mss") => {
                        test.mss = Some(count(&mut parser, MSS_LIMIT)? as u32);
                    }
                    Arg::Short('N') | Arg::Long("no-delay") => test.no_delay = true,
                    Arg::Short('O') | Arg::Long("omit") => {
                        test.omit = count(&mut parser, OMIT_LIMIT)? as u32;
                    }
                    Arg::Short('T') | Arg::Long("title") => {
                        test.title = Some(parser.value()?.string()?);
                    }
                    Arg::Long("extra-data") => test.extra_data = Some(parser.value()?.string()?),
                    Arg::Long("get-server-output") => test.server_output = true,
                    Arg::Long("udp-counters-64bit") => test.wide_counters = true,
                    Arg::Long("pacing-timer") => {
                        test.pacing_timer = count(&mut parser, 1_000_000)?.max(1) as u32;
                    }
                    _ => return Err(argument.unexpected()),
                }
            }
        }
    }
    if ends > 1 {
        return Err("only one test end condition (-t, -n, -k) may be specified".into());
    }
    if test.bytes.is_some() || test.blocks.is_some() {
        test.time = 0;
    }
    if test.reverse && test.bidirectional {
        return Err("cannot be both reverse and bidirectional".into());
    }
    test.rate = rate.unwrap_or(if test.udp { UDP_RATE } else { 0 });
    options.has_length = length.is_some_and(|length| length > 0);
    test.length = match length.filter(|length| *length > 0) {
        Some(length) if test.udp && !DATAGRAM.contains(&length) => {
            return Err("a datagram has 16 to 65507 octets".into());
        }
        Some(length) => length as u32,
        None if test.udp => UDP_BLOCK,
        None => test.length,
    };
    options.role = match role {
        Some(role) => role,
        None if cfg!(target_os = "hermit") => Role::Server,
        None => return Err("must either be a client (-c) or server (-s)".into()),
    };
    match (&options.role, client_only) {
        (Role::Server, Some(option)) => {
            Err(format!("{option}: some option you are trying to set is client only").into())
        }
        (Role::Client(_), _) if options.one_off => {
            Err("-1: some option you are trying to set is server only".into())
        }
        _ => Ok(Command::Run(Box::new(options))),
    }
}

fn milliseconds(parser: &mut Parser) -> Result<Duration, lexopt::Error> {
    let ms: u32 = parser.value()?.parse()?;
    Ok(Duration::from_millis(ms.max(1).into()))
}

fn count(parser: &mut Parser, limit: u64) -> Result<u64, lexopt::Error> {
    size(&parser.value()?.string()?, 1024, limit)
}

fn size(text: &str, base: u32, limit: u64) -> Result<u64, lexopt::Error> {
    match units::parse(text, base) {
        Some(value) if value <= limit => Ok(value),
        Some(_) => Err(format!("{text} is more than {limit}").into()),
        None => Err(format!("{text} is no number").into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(line: &str) -> Result<Options, String> {
        match parse(line.split_whitespace().map(OsString::from)) {
            Ok(Command::Run(options)) => Ok(*options),
            Ok(Command::Print(text)) => Err(text),
            Err(error) => Err(error.to_string()),
        }
    }

    #[test]
    fn everything_can_be_said() {
        let options = parsed(
            "-c 10.0.0.1 -p 5202 -6 -i 0.5 -f M -J -u -b 1.5M/8 -n 10M -l 1000 -P 3 --bidir -w 64K -M 1000 -N -O 2 \
             -T me --extra-data x --get-server-output --udp-counters-64bit --pacing-timer 500",
        )
        .unwrap();
        assert_eq!(options.role, Role::Client("10.0.0.1".to_owned()));
        assert_eq!((options.port, options.family), (5202, Some(Family::V6)));
        assert_eq!(options.interval, Some(Duration::from_millis(500)));
        let expected = Parameters {
            udp: true,
            omit: 2,
            time: 0,
            bytes: Some(10 << 20),
            mss: Some(1000),
            no_delay: true,
            parallel: 3,
            bidirectional: true,
            window: Some(64 << 10),
            length: 1000,
            rate: 1_500_000,
            burst: 8,
            pacing_timer: 500,
            wide_counters: true,
            server_output: true,
            title: Some("me".to_owned()),
            extra_data: Some("x".to_owned()),
            ..Parameters::default()
        };
        assert_eq!(options.parameters, expected);
    }

    #[test]
    fn mistakes_are_named() {
        for line in [
            "",
            "-c",
            "-s -u",
            "-s -t 1",
            "-c h -1",
            "-c h -t 1 -n 1",
            "-c h -R --bidir",
            "-c h -u -l 15",
            "-c h -u -l 64K",
            "-c h -l 2M",
            "-c h -P 129",
            "-c h -i 0.05",
            "-c h -i nan",
            "-c h -b x",
            "-c h -f x",
            "-c h file",
            "-s -p 65536",
            "-c h --unknown",
        ] {
            assert!(parsed(line).is_err(), "{line}");
        }
        assert!(parsed("-s -1 -J -i 0").is_ok());
    }
}

//! The command line. On an appliance it is what follows `--` in the boot arguments.

use std::ffi::OsString;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use lexopt::{Arg, Parser, ValueExt as _};

/// What `--help` prints.
pub const HELP: &str = "\
A static web server.

Usage: httpd [OPTIONS]

  --root DIR             serve the files below DIR
                         [appliance: /, with cargo run: this crate's www, else: .]
  --listen ADDRESS:PORT  listen here; may be given more than once
                         [appliance: [::]:80 and 0.0.0.0:80, else: 127.0.0.1:8080]
  --access-log           write the Common Log Format to the console
  --bytes                serve /bytes/N: N octets that can be checked by computation, N to 2^30
  --status               serve a status page at /.status, with metrics at /.status/metrics
                         [a build may leave it out: cargo's feature `status`]
  --connections N        most connections at a time [10000]
  --cache KIB            memory for small files, and half as much for unfinished requests
                         [appliance: 1024, else: 8192]
  --request-timeout S    seconds for a whole request head to arrive [10]
  --idle-timeout S       seconds without a request [60]
  --write-timeout S      seconds without a client taking anything of an answer [30]
  --help, --version
";

/// How to serve.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// Directory whose files are served.
    pub root: PathBuf,
    /// Addresses to listen on.
    pub listen: Vec<SocketAddr>,
    /// Nobody asked for these addresses: one that works is enough.
    pub listen_is_default: bool,
    /// Log to standard output.
    pub access_log: bool,
    /// Serve `/bytes/N`.
    pub bytes: bool,
    /// Serve the status page.
    pub status: bool,
    /// Most connections at a time.
    pub connections: usize,
    /// Memory for files, in octets.
    pub cache: usize,
    /// For a whole head or body.
    pub request_timeout: Duration,
    /// Between requests.
    pub idle_timeout: Duration,
    /// Without progress of an answer.
    pub write_timeout: Duration,
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
        let root = match std::env::var_os("CARGO_MANIFEST_DIR") {
            _ if appliance => PathBuf::from("/"),
            Some(package) => PathBuf::from(package).join("www"),
            None => PathBuf::from("."),
        };
        let listen: &[&str] =
            if appliance { &["[::]:80", "0.0.0.0:80"] } else { &["127.0.0.1:8080"] };
        Self {
            root,
            listen: listen.iter().filter_map(|address| address.parse().ok()).collect(),
            listen_is_default: true,
            access_log: false,
            bytes: false,
            status: false,
            connections: 10_000,
            cache: if appliance { 1 << 20 } else { 8 << 20 },
            request_timeout: Duration::from_secs(10),
            idle_timeout: Duration::from_secs(60),
            write_timeout: Duration::from_secs(30),
        }
    }
}

/// Reads the arguments after the program's name.
pub fn parse(arguments: impl IntoIterator<Item = OsString>) -> Result<Command, lexopt::Error> {
    let mut options = Options::default();
    let mut parser = Parser::from_args(arguments);
    while let Some(argument) = parser.next()? {
        match argument {
            Arg::Long("root") => options.root = parser.value()?.into(),
            Arg::Long("listen") => {
                let address = parser.value()?.parse()?;
                if std::mem::take(&mut options.listen_is_default) {
                    options.listen.clear();
                }
                options.listen.push(address);
            }
            Arg::Long("access-log") => options.access_log = true,
            Arg::Long("bytes") => options.bytes = true,
            Arg::Long("status") if cfg!(feature = "status") => options.status = true,
            Arg::Long("connections") => options.connections = parser.value()?.parse()?,
            Arg::Long("cache") => options.cache = parser.value()?.parse_with(kibibytes)?,
            Arg::Long("request-timeout") => {
                options.request_timeout = parser.value()?.parse_with(seconds)?
            }
            Arg::Long("idle-timeout") => {
                options.idle_timeout = parser.value()?.parse_with(seconds)?
            }
            Arg::Long("write-timeout") => {
                options.write_timeout = parser.value()?.parse_with(seconds)?
            }
            Arg::Long("help") | Arg::Short('h') => return Ok(Command::Print(HELP.to_owned())),
            Arg::Long("version") | Arg::Short('V') => {
                return Ok(Command::Print(format!("httpd {}\n", env!("CARGO_PKG_VERSION"))));
            }
            _ => return Err(argument.unexpected()),
        }
    }
    Ok(Command::Serve(options))
}

fn kibibytes(text: &str) -> Result<usize, String> {
    let count = text.parse::<usize>().map_err(|error| error.to_string())?;
    count.checked_mul(1024).ok_or_else(|| "too large".to_owned())
}

/// Seconds with up to three decimals, from 10 ms to a day. Not by way of `f64`, whose parser is larger than the rest of
/// this file.
fn seconds(text: &str) -> Result<Duration, String> {
    let (whole, decimals) = text.split_once('.').unwrap_or((text, ""));
    if decimals.len() > 3 || !decimals.bytes().all(|octet| octet.is_ascii_digit()) {
        return Err("not seconds with up to three decimals".to_owned());
    }
    let whole = whole.parse::<u32>().map_err(|error| error.to_string())?;
    let milliseconds = format!("{decimals:0<3}").parse().map_err(|_| "not a number")?;
    let duration = Duration::from_secs(whole.into()) + Duration::from_millis(milliseconds);
    if (Duration::from_millis(10)..=Duration::from_secs(86_400)).contains(&duration) {
        Ok(duration)
    } else {
        Err("not between 0.01 and 86400".to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(line: &str) -> Result<Command, String> {
        parse(line.split_whitespace().map(OsString::from)).map_err(|error| error.to_string())
    }

    #[test]
    fn everything_can_be_said() {
        let line = "--root /srv --listen 127.0.0.1:1 --listen [::1]:2 --access-log --bytes --status --connections 3 --cache 4 \
                    --request-timeout 0.5 --idle-timeout=6 --write-timeout 7";
        let expected = Options {
            root: "/srv".into(),
            listen: vec!["127.0.0.1:1".parse().unwrap(), "[::1]:2".parse().unwrap()],
            listen_is_default: false,
            access_log: true,
            bytes: true,
            status: true,
            connections: 3,
            cache: 4096,
            request_timeout: Duration::from_millis(500),
            idle_timeout: Duration::from_secs(6),
            write_timeout: Duration::from_secs(7),
        };
        assert_eq!(parsed(line), Ok(Command::Serve(expected)));
        assert_eq!(parsed(""), Ok(Command::Serve(Options::default())));
    }

    #[test]
    fn mistakes_are_named() {
        for line in [
            "--listen 80",
            "--listen",
            "--idle-timeout 0",
            "--idle-timeout nan",
            "--idle-timeout 1e9",
            "--idle-timeout 1.0001",
            "--idle-timeout 90000",
            "--cache -1",
            "--unknown",
            "file",
            "--cache 99999999999999999999",
            "--access-log=yes",
        ] {
            assert!(parsed(line).is_err(), "{line}");
        }
    }

    #[test]
    fn help_names_every_option() {
        for option in [
            "root",
            "listen",
            "access-log",
            "bytes",
            "status",
            "connections",
            "cache",
            "request-timeout",
            "idle-timeout",
            "write-timeout",
        ] {
            assert!(HELP.contains(&format!("--{option}")), "{option}");
        }
    }
}

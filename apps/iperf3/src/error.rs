//! What ends a test before its time.

use std::fmt;
use std::io;

/// Why a test, or the program, can't go on. The words are iperf3's where it has some.
#[derive(Debug)]
pub enum Error {
    /// The server runs another client's test.
    Busy,
    /// The peer's end of the control connection is gone.
    Closed(Peer),
    /// The peer says that it ends the test.
    Terminated(Peer),
    /// The server gave up, with iperf3's number for the reason and its `errno`.
    Server(i32, i32),
    /// A state that makes no sense now.
    Message(i8),
    /// The parameters are malformed or too much; iperf3's number for it, and what it is.
    Parameters(i32, String),
    /// The results are malformed.
    Results(String),
    /// The peer took too long.
    TimedOut(&'static str),
    /// Something can't be had of the system.
    Io(&'static str, io::Error),
}

/// Who is meant by an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Peer {
    /// The other side is a client.
    Client,
    /// The other side is a server.
    Server,
}

impl fmt::Display for Peer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Peer::Client => "client",
            Peer::Server => "server",
        })
    }
}

/// iperf3's numbers for errors that a server reports [iperf_api.h].
pub(crate) mod code {
    pub(crate) const DURATION: i32 = 5;
    pub(crate) const STREAM_COUNT: i32 = 6;
    pub(crate) const BLOCK_SIZE: i32 = 7;
    pub(crate) const BUFFER_SIZE: i32 = 8;
    pub(crate) const MSS: i32 = 10;
    pub(crate) const OMIT: i32 = 12;
    pub(crate) const BURST: i32 = 15;
    pub(crate) const UDP_BLOCK_SIZE: i32 = 20;
    pub(crate) const CONTROL_READ: i32 = 108;
    pub(crate) const MESSAGE: i32 = 110;
    pub(crate) const PARAMETERS: i32 = 114;
    pub(crate) const RESULTS: i32 = 117;
    pub(crate) const PROTOCOL: i32 = 131;
    pub(crate) const STREAM_CREATE: i32 = 200;
}

impl Error {
    /// The number a client is told.
    pub(crate) fn code(&self) -> i32 {
        match self {
            Error::Parameters(code, _) | Error::Server(code, _) => *code,
            Error::Message(_) => code::MESSAGE,
            Error::Results(_) => code::RESULTS,
            Error::Io(..) => code::STREAM_CREATE,
            _ => code::CONTROL_READ,
        }
    }

    pub(crate) fn errno(&self) -> i32 {
        match self {
            Error::Io(_, error) => error.raw_os_error().unwrap_or(0),
            Error::Server(_, errno) => *errno,
            _ => 0,
        }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::Busy => f.write_str("the server is busy running a test. try again later"),
            Error::Closed(Peer::Client) => {
                f.write_str("the client has unexpectedly closed the connection")
            }
            Error::Closed(Peer::Server) => f.write_str("control socket has closed unexpectedly"),
            Error::Terminated(peer) => write!(f, "the {peer} has terminated"),
            Error::Server(code, errno) => {
                write!(f, "the server reports iperf3's error {code}")?;
                if *errno == 0 {
                    return Ok(());
                }
                write!(f, ": {}", io::Error::from_raw_os_error(*errno))
            }
            Error::Message(state) => {
                write!(f, "received an unknown control message: state {state} is not expected now")
            }
            Error::Parameters(_, what) => write!(f, "unable to take the parameters: {what}"),
            Error::Results(what) => write!(f, "unable to receive results: {what}"),
            Error::TimedOut(what) => write!(f, "timed out: {what}"),
            Error::Io(what, error) => write!(f, "{what}: {error}"),
        }
    }
}

impl std::error::Error for Error {}

//! The control connection: a cookie, then states of one octet and JSON with a length before it.
//!
//! Nothing here waits. What has arrived is kept until it is whole, what can't be sent yet until there is room.

use std::io::{self, ErrorKind, Read, Write};
use std::net::TcpStream;

use serde_json::Value;

use crate::error::{Error, Peer};

/// Octets of a cookie, the final zero included.
pub(crate) const COOKIE: usize = 37;
/// Most that a peer may have us keep, in octets. Results carry the other side's whole console output if asked for.
const INPUT_LIMIT: usize = 1 << 20;

/// What names a test: 36 characters and a zero.
pub(crate) type Cookie = [u8; COOKIE];

/// States, as the octet on the wire [iperf_api.h].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(i8)]
pub(crate) enum State {
    TestStart = 1,
    TestRunning = 2,
    TestEnd = 4,
    ExchangeParameters = 9,
    CreateStreams = 10,
    ServerTerminate = 11,
    ClientTerminate = 12,
    ExchangeResults = 13,
    DisplayResults = 14,
    Done = 16,
    AccessDenied = -1,
    ServerError = -2,
}

impl State {
    fn from_octet(octet: u8) -> Option<State> {
        use State::*;
        [
            TestStart,
            TestRunning,
            TestEnd,
            ExchangeParameters,
            CreateStreams,
            ServerTerminate,
            ClientTerminate,
            ExchangeResults,
            DisplayResults,
            Done,
            AccessDenied,
            ServerError,
        ]
        .into_iter()
        .find(|state| *state as i8 as u8 == octet)
    }
}

/// A control connection.
pub(crate) struct Control {
    stream: TcpStream,
    peer: Peer,
    input: Vec<u8>,
    output: Vec<u8>,
    ended: bool,
}

impl Control {
    /// Takes a connection, which must not block. `peer` is who is at its other end.
    pub(crate) fn new(stream: TcpStream, peer: Peer) -> Control {
        Control { stream, peer, input: Vec::new(), output: Vec::new(), ended: false }
    }

    pub(crate) fn stream(&self) -> &TcpStream {
        &self.stream
    }

    /// Reads what has arrived.
    pub(crate) fn fill(&mut self) -> Result<(), Error> {
        let mut piece = [0; 4096];
        while !self.ended && self.input.len() < INPUT_LIMIT {
            match (&self.stream).read(&mut piece) {
                Ok(0) => self.ended = true,
                Ok(length) => self.input.extend_from_slice(&piece[..length]),
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                // What came before the reset still counts.
                Err(_) => self.ended = true,
            }
        }
        Ok(())
    }

    fn take(&mut self, count: usize) -> Result<Option<Vec<u8>>, Error> {
        if self.input.len() >= count {
            return Ok(Some(self.input.drain(..count).collect()));
        }
        if self.ended {
            return Err(Error::Closed(self.peer));
        }
        Ok(None)
    }

    /// The next state, if it has arrived.
    pub(crate) fn state(&mut self) -> Result<Option<State>, Error> {
        let Some(octet) = self.take(1)? else { return Ok(None) };
        State::from_octet(octet[0]).map(Some).ok_or(Error::Message(octet[0] as i8))
    }

    /// The two numbers that follow [`State::ServerError`].
    pub(crate) fn server_error(&mut self) -> Result<Option<Error>, Error> {
        let Some(octets) = self.take(8)? else { return Ok(None) };
        let number = |at: usize| {
            i32::from_be_bytes([octets[at], octets[at + 1], octets[at + 2], octets[at + 3]])
        };
        Ok(Some(Error::Server(number(0), number(4))))
    }

    /// The next JSON text, if it has arrived whole.
    pub(crate) fn message(&mut self) -> Result<Option<Value>, String> {
        let closed = |error: Error| error.to_string();
        let Some(length) = self.input.first_chunk() else {
            return self.take(4).map(|_| None).map_err(closed);
        };
        let length = u32::from_be_bytes(*length) as usize;
        if length > INPUT_LIMIT - 4 {
            return Err(format!("{length} octets are too many"));
        }
        if self.input.len() < 4 + length {
            return self.take(4 + length).map(|_| None).map_err(closed);
        }
        let value = serde_json::from_slice(&self.input[4..4 + length]);
        self.input.drain(..4 + length);
        value.map(Some).map_err(|error| error.to_string())
    }

    /// Sends a state.
    pub(crate) fn send(&mut self, state: State) -> Result<(), Error> {
        self.send_octets(&[state as i8 as u8])
    }

    /// Sends JSON with its length before it.
    pub(crate) fn send_message(&mut self, value: &Value) -> Result<(), Error> {
        let text = value.to_string();
        let mut octets = (text.len() as u32).to_be_bytes().to_vec();
        octets.extend_from_slice(text.as_bytes());
        self.send_octets(&octets)
    }

    /// Sends what a client is told when its test can't be.
    pub(crate) fn send_error(&mut self, error: &Error) -> Result<(), Error> {
        let mut octets = vec![State::ServerError as i8 as u8];
        octets.extend_from_slice(&error.code().to_be_bytes());
        octets.extend_from_slice(&error.errno().to_be_bytes());
        self.send_octets(&octets)
    }

    /// Sends octets; keeps those there is no room for.
    pub(crate) fn send_octets(&mut self, octets: &[u8]) -> Result<(), Error> {
        self.output.extend_from_slice(octets);
        self.flush()
    }

    /// Sends what was kept.
    pub(crate) fn flush(&mut self) -> Result<(), Error> {
        while !self.output.is_empty() {
            match (&self.stream).write(&self.output) {
                Ok(0) => return Err(Error::Closed(self.peer)),
                Ok(length) => drop(self.output.drain(..length)),
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if gone(&error) => return Err(Error::Closed(self.peer)),
                Err(error) => {
                    return Err(Error::Io("unable to write to the control socket", error));
                }
            }
        }
        Ok(())
    }
}

/// Whether a connection's error says that the peer is gone.
pub(crate) fn gone(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        ErrorKind::ConnectionReset | ErrorKind::ConnectionAborted | ErrorKind::BrokenPipe
    )
}

/// A new test's name, of the letters iperf3 uses [RFC 4648 6].
pub(crate) fn new_cookie() -> Cookie {
    use std::hash::{BuildHasher, RandomState};
    const LETTERS: &[u8; 32] = b"abcdefghijklmnopqrstuvwxyz234567";
    let mut cookie = [0; COOKIE];
    // Every state has keys of its own from the system's entropy; a cookie is a name and no secret.
    for part in cookie[..COOKIE - 1].chunks_mut(12) {
        let mut number = RandomState::new().hash_one(part.len());
        for letter in part {
            *letter = LETTERS[(number % 32) as usize];
            number /= 32;
        }
    }
    cookie
}

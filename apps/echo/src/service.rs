//! What a TCP connection is for. Each service does as much as it can without waiting, and holds no data of its own.

use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::rc::Rc;

/// Octets moved at a time.
pub(crate) const BLOCK: usize = 64 * 1024;
/// Calls for one connection before the others get their turn.
const TURN: usize = 16;

/// Octet `i` of what a source sends is the top octet of the 32-bit product `(i mod 65521) * 2654435761`: with a prime as
/// its period, a piece that is lost, doubled or moved shows.
const PERIOD: usize = 65_521;
/// Periods in memory: a write should be as large as the stack likes.
const PERIODS: usize = 4;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Echo,
    Sink,
    Source,
}

/// The state of one connection's service.
pub(crate) enum Service {
    Echo,
    Sink,
    Source(Source),
}

#[derive(Default)]
pub(crate) struct Source {
    request: [u8; 8],
    /// Octets of `request` that have arrived.
    received: usize,
    /// Octets to be sent.
    total: u64,
    sent: u64,
}

/// What is left to do.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Next {
    /// Nothing, until there is more to read.
    Read,
    /// Nothing, until there is room to write.
    Write,
    /// The turn is over, more could be done.
    Again,
    /// The connection has done its duty.
    Close,
}

/// Buffers that all connections share.
pub(crate) struct Buffers {
    pub(crate) input: Vec<u8>,
    /// What sources send, several periods of it; made when first asked for.
    pattern: Option<Rc<[u8]>>,
}

impl Buffers {
    pub(crate) fn new() -> Self {
        Self { input: vec![0; BLOCK], pattern: None }
    }

    fn pattern(&mut self) -> Rc<[u8]> {
        let octet = |index| (((index % PERIOD) as u32).wrapping_mul(2_654_435_761) >> 24) as u8;
        Rc::clone(self.pattern.get_or_insert_with(|| (0..PERIOD * PERIODS).map(octet).collect()))
    }
}

impl Service {
    pub(crate) fn new(kind: Kind) -> Self {
        match kind {
            Kind::Echo => Self::Echo,
            Kind::Sink => Self::Sink,
            Kind::Source => Self::Source(Source::default()),
        }
    }

    /// Goes on until the socket has nothing more to give or take. `read_closed`: the peer has announced its end, so a short
    /// read says nothing.
    pub(crate) fn turn(
        &mut self,
        stream: &TcpStream,
        read_closed: bool,
        buffers: &mut Buffers,
    ) -> io::Result<Next> {
        for _ in 0..TURN {
            let step = match self {
                Self::Echo => echo(stream, read_closed, &mut buffers.input),
                Self::Sink => sink(stream, read_closed, &mut buffers.input),
                Self::Source(source) if source.received < 8 => source.ask(stream, read_closed),
                Self::Source(source) => source.send(stream, &buffers.pattern()),
            };
            match step {
                Ok(None) => {}
                Ok(Some(next)) => return Ok(next),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(Next::Again)
    }
}

/// One read; `None` if there is nothing to read now.
fn read(mut stream: &TcpStream, buffer: &mut [u8]) -> io::Result<Option<usize>> {
    match stream.read(buffer) {
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(None),
        result => result.map(Some),
    }
}

fn sink(stream: &TcpStream, read_closed: bool, buffer: &mut [u8]) -> io::Result<Option<Next>> {
    Ok(match read(stream, buffer)? {
        Some(0) => Some(Next::Close),
        Some(n) if n == buffer.len() || read_closed => None,
        _ => Some(Next::Read),
    })
}

/// Sends what can be sent of what has arrived, and only then takes it: what the peer does not read back stays in its own
/// window, and a thousand peers that never read cost no memory here.
fn echo(mut stream: &TcpStream, read_closed: bool, buffer: &mut [u8]) -> io::Result<Option<Next>> {
    let seen = match stream.peek(buffer) {
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(Some(Next::Read)),
        result => result?,
    };
    if seen == 0 {
        // Everything has been sent back: our half ends as the peer's did.
        stream.shutdown(Shutdown::Write)?;
        return Ok(Some(Next::Close));
    }
    let written = match stream.write(&buffer[..seen]) {
        Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(Some(Next::Write)),
        result => result?,
    };
    stream.read_exact(&mut buffer[..written])?;
    Ok(if written < seen {
        Some(Next::Write)
    } else if seen < buffer.len() && !read_closed {
        Some(Next::Read)
    } else {
        None
    })
}

impl Source {
    fn ask(&mut self, stream: &TcpStream, read_closed: bool) -> io::Result<Option<Next>> {
        let wanted = &mut self.request[self.received..];
        let length = wanted.len();
        let got = read(stream, wanted)?;
        match got {
            Some(0) => return Ok(Some(Next::Close)),
            Some(n) => self.received += n,
            None => return Ok(Some(Next::Read)),
        }
        if self.received == 8 {
            self.total = u64::from_be_bytes(self.request);
            return Ok(None);
        }
        Ok((got < Some(length) && !read_closed).then_some(Next::Read))
    }

    fn send(&mut self, mut stream: &TcpStream, pattern: &[u8]) -> io::Result<Option<Next>> {
        let left = self.total - self.sent;
        if left == 0 {
            stream.shutdown(Shutdown::Write)?;
            return Ok(Some(Next::Close));
        }
        let start = (self.sent % PERIOD as u64) as usize;
        let rest = &pattern[start..];
        let length = usize::try_from(left).unwrap_or(usize::MAX).min(rest.len());
        match stream.write(&rest[..length]) {
            Ok(0) => Err(io::ErrorKind::WriteZero.into()),
            Ok(n) => {
                self.sent += n as u64;
                Ok((n < length).then_some(Next::Write))
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(Some(Next::Write)),
            Err(error) => Err(error),
        }
    }
}

//! One connection: octets in, answers out, and when to lose patience.

use std::io::{self, Read};
use std::mem::{self, MaybeUninit};
use std::net::{IpAddr, Shutdown, TcpStream};
use std::time::Instant;

use crate::access_log::AccessLog;
use crate::body::Framing;
use crate::output::{Output, Written};
use crate::request::{self, FIELD_LIMIT, HEAD_LIMIT, Parsed, Recent};
use crate::respond::Responder;
use crate::status::Status;

/// Octets read at a time, more than a head.
pub(crate) const READ_SIZE: usize = 16 * 1024;
/// Octets written for one connection before the others get their turn.
const TURN_OCTETS: usize = 512 * 1024;
/// Reads from one connection before the others get their turn.
const TURN_READS: usize = 4;
/// Pieces of output queued before more requests are taken from the same read.
const PIECE_LIMIT: usize = 64;
/// Octets thrown away while waiting for the peer to close.
const LINGER_LIMIT: usize = 256 * 1024;
/// Output queues kept for reuse.
const SPARE_LIMIT: usize = 8;

/// What all connections of a server share.
pub(crate) struct Shared {
    pub(crate) responder: Responder,
    pub(crate) log: Option<AccessLog>,
    pub(crate) now: Instant,
    /// `now` in ticks of the wheel.
    pub(crate) tick: u64,
    pub(crate) patience: Patience,
    /// Octets of unfinished requests held for all connections.
    pub(crate) held: usize,
    /// Bound of `held`.
    pub(crate) held_limit: usize,
    pub(crate) input: Vec<u8>,
    pub(crate) file: Vec<u8>,
    pub(crate) recent: Recent,
    pub(crate) output: Output,
    pub(crate) spare: Vec<Output>,
}

impl Shared {
    fn recycle(&mut self, empty: Output) {
        if self.spare.len() < SPARE_LIMIT {
            self.spare.push(empty);
        }
    }
}

/// Time limits, in ticks.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Patience {
    /// For a whole head or body.
    pub(crate) request: u64,
    /// Between requests.
    pub(crate) idle: u64,
    /// Without progress while writing.
    pub(crate) write: u64,
    /// For the peer to close.
    pub(crate) linger: u64,
}

/// What the server is to do with a connection after its turn.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum After {
    Keep,
    /// It could have gone on: give it another turn after the others'.
    Again,
    Close,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// Nothing has arrived yet.
    Fresh,
    /// Between requests.
    Idle,
    /// A head or a body is incomplete.
    Request,
    /// The last answer is being written.
    Ending,
    /// Our side is closed; what the peer still sends is thrown away, lest a reset destroy the last answer. [RFC 9112 9.6]
    Lingering,
}

pub(crate) struct Connection {
    pub(crate) stream: TcpStream,
    peer: IpAddr,
    phase: Phase,
    /// There may be more to read than has been read.
    readable: bool,
    /// The peer has announced its end: a short read does not mean there is nothing left.
    read_closed: bool,
    /// The end has been read.
    ended: bool,
    /// Input that is not used up contains complete requests.
    unparsed: bool,
    /// The peer may still be sending: the connection has to end by lingering.
    linger: bool,
    /// What is left of the body of the last request.
    body: Framing,
    /// Received and not used up. No memory is held between requests.
    input: Vec<u8>,
    /// What the socket has not taken yet.
    output: Option<Box<Output>>,
    lingered: usize,
    /// The tick at which patience ends.
    pub(crate) deadline: u64,
}

impl Connection {
    pub(crate) fn new(stream: TcpStream, peer: IpAddr, shared: &Shared) -> Self {
        Self {
            stream,
            peer,
            phase: Phase::Fresh,
            readable: false,
            read_closed: false,
            ended: false,
            unparsed: false,
            linger: false,
            body: Framing::None,
            input: Vec::new(),
            output: None,
            lingered: 0,
            deadline: shared.tick + shared.patience.request,
        }
    }

    /// Nobody would miss it.
    pub(crate) fn is_idle(&self) -> bool {
        self.phase == Phase::Idle && self.output.is_none()
    }

    /// Takes note of an event.
    pub(crate) fn notice(&mut self, event: &reactor::Event) {
        self.readable |= event.readable;
        self.read_closed |= event.read_closed;
    }

    /// Does what can be done without waiting.
    pub(crate) fn turn(&mut self, shared: &mut Shared) -> After {
        let mut allowance = TURN_OCTETS;
        for _ in 0..TURN_READS {
            match self.flush(shared, &mut allowance) {
                Ok(Written::All) => {}
                Ok(Written::Blocked) => return After::Keep,
                Ok(Written::Paused) => return After::Again,
                Err(_) => return After::Close,
            }
            match self.phase {
                Phase::Ending if !self.linger || self.ended => return After::Close,
                Phase::Ending => {
                    if self.stream.shutdown(Shutdown::Write).is_err() {
                        return After::Close;
                    }
                    self.phase = Phase::Lingering;
                    self.deadline = shared.tick + shared.patience.linger;
                    self.release(shared);
                    return self.discard(shared);
                }
                Phase::Lingering => return self.discard(shared),
                Phase::Fresh | Phase::Idle | Phase::Request => {}
            }
            if !self.unparsed && !self.readable {
                return After::Keep;
            }
            if self.receive(shared).is_err() {
                return After::Close;
            }
        }
        After::Again
    }

    /// Patience has ended.
    pub(crate) fn expire(&mut self, shared: &mut Shared) -> After {
        if self.phase != Phase::Request || self.output.is_some() {
            return After::Close;
        }
        self.refuse(Status::RequestTimeout, b"", shared);
        match self.send(shared) {
            Ok(()) => self.turn(shared),
            Err(_) => After::Close,
        }
    }

    /// Gives back what is accounted for elsewhere. To be called before a connection is dropped.
    pub(crate) fn release(&mut self, shared: &mut Shared) {
        shared.held -= self.input.capacity();
        self.input = Vec::new();
        if let Some(mut output) = self.output.take() {
            output.clear();
            shared.recycle(*output);
        }
    }

    fn flush(&mut self, shared: &mut Shared, allowance: &mut usize) -> io::Result<Written> {
        let Some(output) = &mut self.output else { return Ok(Written::All) };
        let (written, octets) = output.write(&self.stream, &mut shared.file, *allowance)?;
        *allowance = allowance.saturating_sub(octets);
        if octets > 0 {
            self.deadline = shared.tick + shared.patience.write;
        }
        if written == Written::All {
            if let Some(output) = self.output.take() {
                shared.recycle(*output);
            }
            self.settle(shared);
        }
        Ok(written)
    }

    /// Reads once, unless there are requests left from the last time, and answers what is complete.
    fn receive(&mut self, shared: &mut Shared) -> io::Result<()> {
        let mut octets = mem::take(&mut shared.input);
        let result = self.receive_into(&mut octets, shared);
        shared.input = octets;
        result
    }

    fn receive_into(&mut self, octets: &mut [u8], shared: &mut Shared) -> io::Result<()> {
        let held = self.input.len();
        octets[..held].copy_from_slice(&self.input);
        let (mut end, mut looked_at) = (held, held);
        if mem::take(&mut self.unparsed) {
            looked_at = 0;
        } else {
            match (&self.stream).read(&mut octets[held..]) {
                Ok(0) => {
                    self.readable = false;
                    self.ended = true;
                }
                Ok(n) => {
                    end += n;
                    self.readable = self.read_closed || end == octets.len();
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    self.readable = false;
                    return Ok(());
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => return Ok(()),
                Err(error) => return Err(error),
            }
        }
        let used = self.consume(&octets[..end], looked_at, shared);
        if self.ended && !self.unparsed {
            // What is incomplete stays so.
            self.phase = Phase::Ending;
        }
        self.hold(&octets[used..end], shared);
        self.send(shared)
    }

    /// Writes the answers just made; what the socket does not take becomes the connection's own queue.
    fn send(&mut self, shared: &mut Shared) -> io::Result<()> {
        match shared.output.write(&self.stream, &mut shared.file, TURN_OCTETS) {
            Ok((Written::All, _)) => {
                self.settle(shared);
                Ok(())
            }
            Ok(_) => {
                let fresh = shared.spare.pop().unwrap_or_default();
                self.output = Some(Box::new(mem::replace(&mut shared.output, fresh)));
                self.deadline = shared.tick + shared.patience.write;
                Ok(())
            }
            Err(error) => {
                shared.output.clear();
                Err(error)
            }
        }
    }

    /// Answers the requests that are complete, as long as the queue is short. Returns how many octets are used up. The
    /// first `looked_at` are the begin of a head and were not enough.
    fn consume(&mut self, octets: &[u8], looked_at: usize, shared: &mut Shared) -> usize {
        // A head ends in a line feed: without one among the new octets there is nothing new to find.
        if looked_at > 0 && octets.len() < HEAD_LIMIT && !octets[looked_at..].contains(&b'\n') {
            return 0;
        }
        let mut used = 0;
        while self.phase != Phase::Ending && used < octets.len() {
            if shared.output.pieces() >= PIECE_LIMIT {
                self.unparsed = true;
                break;
            }
            if self.body != Framing::None {
                match self.body.skip(&octets[used..]) {
                    Ok(skipped) => used += skipped,
                    Err(status) => self.refuse(status, &octets[used..], shared),
                }
                continue;
            }
            used += request::leading_empty_lines(&octets[used..]);
            let mut fields = [const { MaybeUninit::uninit() }; FIELD_LIMIT];
            match shared.recent.parse(&octets[used..], &mut fields) {
                Parsed::Partial => break,
                Parsed::Refused(status) => self.refuse(status, &octets[used..], shared),
                Parsed::Complete(request) => {
                    let answer = shared.responder.answer(&request, shared.now, &mut shared.output);
                    if let Some(log) = &mut shared.log {
                        let time = shared.responder.clock.wall();
                        log.add(
                            self.peer,
                            time,
                            &octets[used..],
                            answer.status.code(),
                            answer.length,
                        );
                    }
                    used += request.length;
                    self.body = request.body;
                    self.phase = if answer.close { Phase::Ending } else { Phase::Idle };
                    self.linger =
                        answer.close && (self.body != Framing::None || used < octets.len());
                }
            }
        }
        used
    }

    fn refuse(&mut self, status: Status, octets: &[u8], shared: &mut Shared) {
        let answer = shared.responder.refuse(status, &mut shared.output);
        if let Some(log) = &mut shared.log {
            log.add(self.peer, shared.responder.clock.wall(), octets, status.code(), answer.length);
        }
        self.phase = Phase::Ending;
        self.linger = true;
        self.unparsed = false;
    }

    /// Keeps what is not used up for the next read, if there is room.
    fn hold(&mut self, rest: &[u8], shared: &mut Shared) {
        let before = self.input.capacity();
        if self.phase == Phase::Ending || rest.is_empty() {
            self.input = Vec::new();
        } else if shared.held - before + rest.len() > shared.held_limit {
            self.input = Vec::new();
            self.refuse(Status::ServiceUnavailable, rest, shared);
        } else {
            self.input.clear();
            self.input.reserve_exact(rest.len());
            self.input.extend_from_slice(rest);
        }
        shared.held = shared.held - before + self.input.capacity();
    }

    /// Sets phase and deadline after everything that could be answered is on its way.
    fn settle(&mut self, shared: &Shared) {
        if self.phase == Phase::Ending {
            return;
        }
        let waits = !self.input.is_empty() || self.body != Framing::None;
        match (self.phase, waits) {
            // The time for a request runs from its first octet, however slowly the others come.
            (Phase::Request | Phase::Fresh, true) => self.phase = Phase::Request,
            (_, true) => {
                self.phase = Phase::Request;
                self.deadline = shared.tick + shared.patience.request;
            }
            (_, false) => {
                self.phase = Phase::Idle;
                self.deadline = shared.tick + shared.patience.idle;
            }
        }
    }

    fn discard(&mut self, shared: &mut Shared) -> After {
        while self.readable && self.lingered < LINGER_LIMIT {
            match (&self.stream).read(&mut shared.input) {
                Ok(0) => return After::Close,
                Ok(n) => self.lingered += n,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => self.readable = false,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(_) => return After::Close,
            }
        }
        if self.lingered < LINGER_LIMIT { After::Keep } else { After::Close }
    }
}

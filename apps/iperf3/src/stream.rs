//! A stream: a connection, or a pair of addresses, that carries the test's data one way.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream, UdpSocket};
use std::time::{Duration, Instant};

use crate::control::gone;
use crate::datagram::{Header, Receipt};
use crate::pace::Pace;
use crate::parameters::Parameters;

/// Writes or reads of a stream before the others get their turn.
const TURN: usize = 16;
/// The same for datagrams.
const DATAGRAMS: usize = 64;

/// What carries it.
pub(crate) enum Link {
    Tcp(TcpStream),
    /// A client's socket, connected.
    Udp(UdpSocket),
    /// A server's peer, on the socket all streams of the test share.
    Shared(SocketAddr),
}

/// What has been counted.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Count {
    pub(crate) octets: u64,
    pub(crate) blocks: u64,
    /// Datagrams given to the network.
    pub(crate) sent: u64,
    pub(crate) receipt: Receipt,
}

/// A stream.
pub(crate) struct Stream {
    /// Its number in the results: 1, 3, 4, 5, … as in iperf3.
    pub(crate) id: u64,
    pub(crate) is_sender: bool,
    pub(crate) link: Link,
    pub(crate) local: SocketAddr,
    pub(crate) remote: SocketAddr,
    /// There may be something to do at once.
    pub(crate) ready: bool,
    /// The peer has ended it.
    pub(crate) closed: bool,
    /// When to go on by time.
    pub(crate) wake: Option<Instant>,
    /// How much of a block is out.
    offset: usize,
    pub(crate) pace: Pace,
    /// Counted in all, what was left out included.
    pub(crate) total: Count,
    /// [`Stream::total`] when counting began.
    pub(crate) base: Count,
    /// [`Stream::total`] when counting ended.
    pub(crate) last: Option<Count>,
    /// When something was sent or arrived last.
    pub(crate) active: Instant,
}

/// What is common to all streams of a test while they have their turn.
pub(crate) struct Shared<'a> {
    pub(crate) parameters: &'a Parameters,
    pub(crate) socket: Option<&'a UdpSocket>,
    /// What is sent: a block.
    pub(crate) block: &'a mut [u8],
    /// Where to receive.
    pub(crate) input: &'a mut [u8],
    /// Octets and blocks that may still be sent by all together.
    pub(crate) octets_left: u64,
    pub(crate) blocks_left: u64,
    /// Our clock's zero.
    pub(crate) epoch: Instant,
}

/// When a stream wants its next turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Next {
    /// When its socket has something.
    Event,
    /// At once.
    Again,
    /// Then.
    At(Instant),
}

impl Stream {
    pub(crate) fn new(
        id: u64,
        is_sender: bool,
        link: Link,
        addresses: (SocketAddr, SocketAddr),
        parameters: &Parameters,
        now: Instant,
    ) -> Stream {
        let quantum = Duration::from_micros(parameters.pacing_timer.into());
        Stream {
            id,
            is_sender,
            link,
            local: addresses.0,
            remote: addresses.1,
            ready: true,
            closed: false,
            wake: None,
            offset: 0,
            pace: Pace::new(parameters.rate, parameters.burst, quantum, now),
            total: Count::default(),
            base: Count::default(),
            last: None,
            active: now,
        }
    }

    /// Its number on the console, where iperf3 has the descriptor's.
    pub(crate) fn number(&self) -> u64 {
        match self.id {
            1 => 5,
            id => 2 * id + 1,
        }
    }

    /// Counted from the beginning until counting ended, or now.
    pub(crate) fn count(&self) -> Count {
        self.last.unwrap_or(self.total)
    }

    /// Octets that count.
    pub(crate) fn octets(&self) -> u64 {
        self.count().octets - self.base.octets
    }

    /// Counts from now on.
    pub(crate) fn begin_counting(&mut self, now: Instant) {
        self.base = self.total;
        self.total.receipt.jitter = 0.0;
        self.pace.restart(now);
    }

    /// Nothing more is sent: the peer is told, if it can be.
    pub(crate) fn finish(&mut self) {
        if let (Link::Tcp(stream), true) = (&self.link, self.is_sender) {
            // If that fails, it has ended already.
            let _ = stream.shutdown(Shutdown::Write);
        }
    }

    /// Does what can be done.
    pub(crate) fn turn(&mut self, shared: &mut Shared<'_>, now: Instant) -> io::Result<Next> {
        match (&self.link, self.is_sender) {
            (Link::Tcp(_), true) => self.write(shared, now),
            (Link::Tcp(_), false) => self.read(shared, now),
            (Link::Udp(_) | Link::Shared(_), true) => self.send(shared),
            (Link::Udp(_), false) => self.receive(shared),
            // The shared socket's owner reads.
            (Link::Shared(_), false) => Ok(Next::Event),
        }
    }

    fn write(&mut self, shared: &mut Shared<'_>, now: Instant) -> io::Result<Next> {
        let Link::Tcp(stream) = &mut self.link else { return Ok(Next::Event) };
        for _ in 0..TURN {
            if self.offset == 0 {
                if let Some(wait) = self.pace.wait(now) {
                    return Ok(Next::At(now + wait));
                }
                if shared.blocks_left == 0 {
                    return Ok(Next::Event);
                }
            }
            let room = u64::min((shared.block.len() - self.offset) as u64, shared.octets_left);
            if room == 0 {
                return Ok(Next::Event);
            }
            match stream.write(&shared.block[self.offset..][..room as usize]) {
                Ok(length) => {
                    self.offset += length;
                    let is_block = self.offset == shared.block.len();
                    if is_block {
                        self.offset = 0;
                        shared.blocks_left -= 1;
                        self.total.blocks += 1;
                    }
                    shared.octets_left -= length as u64;
                    self.total.octets += length as u64;
                    self.active = now;
                    self.pace.sent(length, is_block);
                }
                Err(error) => return self.failed(error),
            }
        }
        Ok(Next::Again)
    }

    fn read(&mut self, shared: &mut Shared<'_>, now: Instant) -> io::Result<Next> {
        let Link::Tcp(stream) = &mut self.link else { return Ok(Next::Event) };
        for _ in 0..TURN {
            match stream.read(shared.input) {
                Ok(0) => {
                    self.closed = true;
                    return Ok(Next::Event);
                }
                Ok(length) => {
                    self.total.octets += length as u64;
                    self.total.blocks += 1;
                    self.active = now;
                }
                Err(error) => return self.failed(error),
            }
        }
        Ok(Next::Again)
    }

    fn send(&mut self, shared: &mut Shared<'_>) -> io::Result<Next> {
        for _ in 0..DATAGRAMS {
            let now = Instant::now();
            if let Some(wait) = self.pace.wait(now) {
                return Ok(Next::At(now + wait));
            }
            if shared.blocks_left == 0 || shared.octets_left == 0 {
                return Ok(Next::Event);
            }
            let header = Header { sent: now - shared.epoch, number: self.total.sent + 1 };
            header.emit(shared.block, shared.parameters.wide_counters);
            let result = match (&self.link, shared.socket) {
                (Link::Udp(socket), _) => socket.send(shared.block),
                (Link::Shared(peer), Some(socket)) => socket.send_to(shared.block, peer),
                _ => return Ok(Next::Event),
            };
            match result {
                Ok(length) => {
                    shared.octets_left = shared.octets_left.saturating_sub(length as u64);
                    shared.blocks_left -= 1;
                    self.total.octets += length as u64;
                    self.total.blocks += 1;
                    self.total.sent += 1;
                    self.active = now;
                    self.pace.sent(length, true);
                }
                // No buffer is no error: the wire is slower than we are.
                Err(error) if error.kind() == ErrorKind::OutOfMemory || is_full(&error) => {
                    return Ok(Next::At(now + Duration::from_millis(1)));
                }
                Err(error) => return self.failed(error),
            }
        }
        Ok(Next::Again)
    }

    fn receive(&mut self, shared: &mut Shared<'_>) -> io::Result<Next> {
        for _ in 0..DATAGRAMS {
            let Link::Udp(socket) = &self.link else { return Ok(Next::Event) };
            match socket.recv(shared.input) {
                Ok(length) => {
                    let (input, wide) = (&shared.input[..length], shared.parameters.wide_counters);
                    self.note(input, wide, shared.epoch);
                }
                Err(error) => return self.failed(error),
            }
        }
        Ok(Next::Again)
    }

    /// A datagram of this stream has arrived.
    pub(crate) fn note(&mut self, datagram: &[u8], wide: bool, epoch: Instant) {
        let Some(header) = Header::parse(datagram, wide) else { return };
        let now = Instant::now();
        self.total.receipt.note(header, now - epoch);
        self.total.octets += datagram.len() as u64;
        self.total.blocks += 1;
        self.active = now;
    }

    fn failed(&mut self, error: io::Error) -> io::Result<Next> {
        match error.kind() {
            ErrorKind::WouldBlock => Ok(Next::Event),
            ErrorKind::Interrupted => Ok(Next::Again),
            // The control connection tells whether that is an error.
            _ if gone(&error) => {
                self.closed = true;
                Ok(Next::Event)
            }
            // A datagram's peer isn't there (any more); the control connection tells.
            ErrorKind::ConnectionRefused if !matches!(self.link, Link::Tcp(_)) => Ok(Next::Again),
            _ => Err(error),
        }
    }
}

/// `ENOBUFS`: the card's queue is full. `std` has no name for it.
fn is_full(error: &io::Error) -> bool {
    error.raw_os_error() == Some(105)
}

//! One connection: two sockets, and a way in each direction.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::time::Instant;

/// Reads of a way before other connections get their turn.
const TURN: usize = 8;
/// Most that is read at a time, and so most that a way ever holds, in octets.
pub(crate) const PIECE: usize = 32 << 10;

/// The side that has connected to us.
pub(crate) const CLIENT: usize = 0;
/// The side that we have connected to.
pub(crate) const SERVER: usize = 1;

/// Two sockets that are to be one connection.
pub(crate) struct Pair {
    /// The client's and the server's.
    ends: [End; 2],
    /// From the client, and from the server.
    ways: [Way; 2],
    /// When something moved last.
    pub(crate) active: Instant,
}

struct End {
    stream: TcpStream,
    /// There may be something to read.
    readable: bool,
    /// There may be room to write.
    writable: bool,
}

#[derive(Default)]
struct Way {
    /// What one side has sent and the other couldn't take at once.
    held: Vec<u8>,
    /// How much of it is gone.
    at: usize,
    /// The sender has ended.
    ended: bool,
    /// The receiver has been told.
    shut: bool,
    octets: u64,
}

/// What a pair is to have next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum After {
    /// A turn when something happens.
    Keep,
    /// A turn soon.
    Again,
    /// An end: both sides have had all.
    Close,
}

impl Pair {
    pub(crate) fn new(client: TcpStream, server: TcpStream, now: Instant) -> Pair {
        let end = |stream| End { stream, readable: true, writable: true };
        Pair { ends: [end(client), end(server)], ways: Default::default(), active: now }
    }

    /// A side's socket.
    pub(crate) fn stream(&self, side: usize) -> &TcpStream {
        &self.ends[side].stream
    }

    /// Octets from the client, and from the server.
    pub(crate) fn octets(&self) -> [u64; 2] {
        [self.ways[CLIENT].octets, self.ways[SERVER].octets]
    }

    /// Something has become possible on a side.
    pub(crate) fn notice(&mut self, side: usize, readable: bool, writable: bool) {
        self.ends[side].readable |= readable;
        self.ends[side].writable |= writable;
    }

    /// Carries what there is. An error concerns both sides.
    pub(crate) fn turn(&mut self, piece: &mut [u8], now: Instant) -> io::Result<After> {
        let before = self.octets();
        let mut again = false;
        for from in [CLIENT, SERVER] {
            again |= self.carry(from, piece)?;
        }
        if self.octets() != before {
            self.active = now;
        }
        Ok(match () {
            () if self.ways.iter().all(|way| way.shut) => After::Close,
            () if again => After::Again,
            () => After::Keep,
        })
    }

    /// One way. True if there may be more at once.
    fn carry(&mut self, from: usize, piece: &mut [u8]) -> io::Result<bool> {
        let (left, right) = self.ends.split_at_mut(1);
        let (source, sink) = match from {
            CLIENT => (&mut left[0], &mut right[0]),
            _ => (&mut right[0], &mut left[0]),
        };
        let way = &mut self.ways[from];
        for _ in 0..TURN {
            if !way.held.is_empty() {
                let Some(length) = sink.write(&way.held[way.at..])? else { return Ok(false) };
                way.at += length;
                way.octets += length as u64;
                if way.at == way.held.len() {
                    // Its memory is better used by somebody else.
                    (way.held, way.at) = (Vec::new(), 0);
                }
                continue;
            }
            if way.ended {
                if !way.shut {
                    sink.stream.shutdown(Shutdown::Write)?;
                    way.shut = true;
                }
                return Ok(false);
            }
            // What can't be passed on stays where it is: its sender's window closes.
            if !sink.writable {
                return Ok(false);
            }
            let Some(length) = source.read(piece)? else { return Ok(false) };
            if length == 0 {
                way.ended = true;
                continue;
            }
            let sent = sink.write(&piece[..length])?.unwrap_or(0);
            way.octets += sent as u64;
            way.held.extend_from_slice(&piece[sent..length]);
        }
        Ok(true)
    }
}

impl End {
    /// `None`: nothing for now.
    fn read(&mut self, piece: &mut [u8]) -> io::Result<Option<usize>> {
        while self.readable {
            match self.stream.read(piece) {
                Err(error) if error.kind() == ErrorKind::WouldBlock => self.readable = false,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                result => return result.map(Some),
            }
        }
        Ok(None)
    }

    /// `None`: no room for now.
    fn write(&mut self, octets: &[u8]) -> io::Result<Option<usize>> {
        while self.writable {
            match self.stream.write(octets) {
                Err(error) if error.kind() == ErrorKind::WouldBlock => self.writable = false,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                result => return result.map(Some),
            }
        }
        Ok(None)
    }
}

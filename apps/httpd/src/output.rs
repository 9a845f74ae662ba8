//! Octets on their way out: a queue of slices, most of them in memory that is shared with other connections.

use std::collections::VecDeque;
use std::io::{self, IoSlice, Read, Seek, SeekFrom, Write};
use std::net::TcpStream;
use std::ops::Range;
use std::rc::Rc;

use crate::content::{Entry, Store};

/// Most slices in one write.
const SLICE_LIMIT: usize = 16;
/// Octets offered to the socket in one write, about: more would be gathered in vain.
const WRITE_SIZE: usize = 256 * 1024;

/// What is to be sent, in order.
#[derive(Default)]
pub(crate) struct Output {
    /// Heads made for one answer, and parts of them.
    scratch: Vec<u8>,
    chunks: VecDeque<Chunk>,
}

struct Chunk {
    /// `None`: the range lies in `scratch`.
    entry: Option<Rc<Entry>>,
    range: Range<u64>,
}

/// How far [`Output::write`] came.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Written {
    All,
    /// The socket takes no more for now.
    Blocked,
    /// The turn is over, the socket might take more.
    Paused,
}

impl Output {
    /// Number of pieces; a measure of how much is queued.
    pub(crate) fn pieces(&self) -> usize {
        self.chunks.len()
    }

    pub(crate) fn clear(&mut self) {
        self.scratch.clear();
        self.chunks.clear();
    }

    /// Appends what `make` appends.
    pub(crate) fn head(&mut self, make: impl FnOnce(&mut Vec<u8>)) {
        let start = self.scratch.len() as u64;
        make(&mut self.scratch);
        let end = self.scratch.len() as u64;
        match self.chunks.back_mut() {
            Some(Chunk { entry: None, range }) if range.end == start => range.end = end,
            _ => self.push(None, start..end),
        }
    }

    /// Appends the fields of a 200, the empty line and, unless `without_body`, the body.
    pub(crate) fn entry(&mut self, entry: &Rc<Entry>, without_body: bool) {
        match (&entry.store, without_body) {
            (Store::Memory, false) => {
                self.push(Some(Rc::clone(entry)), 0..entry.bytes().len() as u64)
            }
            (Store::Memory, true) => {
                self.push(Some(Rc::clone(entry)), 0..entry.head().len() as u64)
            }
            (Store::File(_) | Store::Pattern(_), _) => {
                self.head(|head| head.extend_from_slice(entry.head()));
                if !without_body {
                    self.push(Some(Rc::clone(entry)), 0..entry.length);
                }
            }
        }
    }

    /// Appends a part of a body.
    pub(crate) fn body(&mut self, entry: &Rc<Entry>, range: Range<u64>) {
        let skip = match entry.store {
            Store::Memory => entry.head().len() as u64,
            Store::File(_) | Store::Pattern(_) => 0,
        };
        self.push(Some(Rc::clone(entry)), range.start + skip..range.end + skip);
    }

    fn push(&mut self, entry: Option<Rc<Entry>>, range: Range<u64>) {
        if !range.is_empty() {
            self.chunks.push_back(Chunk { entry, range });
        }
    }

    /// Writes until everything is out, the socket is full, or `allowance` octets have been spent. Returns also how many
    /// were written. Files are read through `buffer`. An error means that the connection can't go on.
    pub(crate) fn write(
        &mut self,
        mut stream: &TcpStream,
        buffer: &mut [u8],
        allowance: usize,
    ) -> io::Result<(Written, usize)> {
        let mut written = 0;
        while !self.chunks.is_empty() {
            if written >= allowance {
                return Ok((Written::Paused, written));
            }
            let mut slices = [IoSlice::new(&[]); SLICE_LIMIT];
            let (count, offered) = self.gather(&mut slices, buffer)?;
            match stream.write_vectored(&slices[..count]) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(n) => {
                    written += n;
                    self.advance(n as u64);
                    if n < offered {
                        return Ok((Written::Blocked, written));
                    }
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    return Ok((Written::Blocked, written));
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        self.scratch.clear();
        Ok((Written::All, written))
    }

    /// Fills `slices` with what comes next. Returns how many it filled, and with how many octets.
    fn gather<'s>(
        &'s self,
        slices: &mut [IoSlice<'s>],
        buffer: &'s mut [u8],
    ) -> io::Result<(usize, usize)> {
        let (mut count, mut offered) = (0, 0);
        let mut buffer = Some(buffer);
        'chunks: for Chunk { entry, range } in &self.chunks {
            if count == slices.len() || offered >= WRITE_SIZE {
                break;
            }
            let memory = |bytes: &'s [u8]| &bytes[range.start as usize..range.end as usize];
            let slice = match entry.as_ref().map(|entry| (&entry.store, entry)) {
                None => memory(&self.scratch),
                Some((Store::Memory, entry)) => memory(entry.bytes()),
                Some((Store::File(file), _)) => {
                    // One file a write: there is one buffer.
                    let Some(buffer) = buffer.take() else { break };
                    let wanted = (buffer.len() as u64).min(range.end - range.start) as usize;
                    let mut file = file;
                    file.seek(SeekFrom::Start(range.start))?;
                    let buffer = &mut buffer[..wanted];
                    // Too short a file has changed under our hands: the length that was promised can't be kept.
                    file.read_exact(buffer)?;
                    slices[count] = IoSlice::new(buffer);
                    return Ok((count + 1, offered + wanted));
                }
                Some((Store::Pattern(block), _)) => {
                    let mut range = range.clone();
                    while !range.is_empty() {
                        if count == slices.len() || offered >= WRITE_SIZE {
                            break 'chunks;
                        }
                        let start = (range.start % block.len() as u64) as usize;
                        let length = (block.len() - start)
                            .min(usize::try_from(range.end - range.start).unwrap_or(usize::MAX));
                        slices[count] = IoSlice::new(&block[start..start + length]);
                        range.start += length as u64;
                        offered += length;
                        count += 1;
                    }
                    continue;
                }
            };
            slices[count] = IoSlice::new(slice);
            offered += slice.len();
            count += 1;
        }
        Ok((count, offered))
    }

    fn advance(&mut self, mut octets: u64) {
        while let Some(chunk) = self.chunks.front_mut() {
            let length = chunk.range.end - chunk.range.start;
            if octets < length {
                chunk.range.start += octets;
                return;
            }
            octets -= length;
            self.chunks.pop_front();
        }
    }
}

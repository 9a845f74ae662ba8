//! QEMU's `-netdev stream` on a Unix socket: each frame follows its length, 32 bits big-endian.
//! `passt` and a second QEMU speak it too.

use crate::{FrameSink, FrameSource, MAX_FRAME, Wire};
use std::io::{self, Read, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::time::Duration;

/// How long a peer that does not read may hold the sender up before it counts as gone.
const SEND_TIMEOUT: Duration = Duration::from_secs(2);

/// Connects to a peer that listens.
pub fn connect(path: &Path) -> io::Result<Wire> {
    wire(UnixStream::connect(path)?)
}

/// Waits for one peer to connect.
pub fn listen(path: &Path) -> io::Result<Wire> {
    let listener = UnixListener::bind(path)?;
    wire(listener.accept()?.0)
}

fn wire(stream: UnixStream) -> io::Result<Wire> {
    stream.set_write_timeout(Some(SEND_TIMEOUT))?;
    let source = stream.try_clone()?;
    Ok(Wire {
        sink: Box::new(Sink { stream: Some(stream), packet: Vec::new() }),
        source: Box::new(Source(source)),
    })
}

struct Sink {
    /// `None` once a write was cut short: the framing is lost for good.
    stream: Option<UnixStream>,
    packet: Vec<u8>,
}

impl FrameSink for Sink {
    fn send(&mut self, frame: &[u8]) -> io::Result<()> {
        if frame.len() > MAX_FRAME {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        let stream = self.stream.as_mut().ok_or(io::ErrorKind::BrokenPipe)?;
        self.packet.clear();
        self.packet.extend_from_slice(&(frame.len() as u32).to_be_bytes());
        self.packet.extend_from_slice(frame);
        stream.write_all(&self.packet).inspect_err(|_| self.stream = None)
    }
}

struct Source(UnixStream);

impl FrameSource for Source {
    fn receive(&mut self, frame: &mut Vec<u8>) -> io::Result<bool> {
        let mut len = [0; 4];
        match self.0.read_exact(&mut len) {
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(false),
            result => result?,
        }
        let len = u32::from_be_bytes(len) as usize;
        if len > MAX_FRAME {
            // Nothing after this can be trusted to be a length.
            return Err(io::Error::new(io::ErrorKind::InvalidData, "frame too long in stream"));
        }
        frame.resize(len, 0);
        match self.0.read_exact(frame) {
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(false),
            result => result.map(|()| true),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn framing_is_length_then_frame() {
        let (ours, mut theirs) = UnixStream::pair().unwrap();
        let mut wire = wire(ours).unwrap();
        wire.sink.send(&[0xab; 3]).unwrap();
        let mut seen = [0; 7];
        theirs.read_exact(&mut seen).unwrap();
        assert_eq!(seen, [0, 0, 0, 3, 0xab, 0xab, 0xab]);

        theirs.write_all(&[0, 0, 0, 2, 7, 8, 0, 0, 0, 1, 9]).unwrap();
        let mut frame = vec![0xa5; 100];
        assert!(wire.source.receive(&mut frame).unwrap());
        assert_eq!(frame, [7, 8]);
        assert!(wire.source.receive(&mut frame).unwrap());
        assert_eq!(frame, [9]);
        drop(theirs);
        assert!(!wire.source.receive(&mut frame).unwrap());
    }

    #[test]
    fn a_length_beyond_any_frame_is_an_error_not_an_allocation() {
        let (ours, mut theirs) = UnixStream::pair().unwrap();
        let mut wire = wire(ours).unwrap();
        theirs.write_all(&[0xff; 8]).unwrap();
        let error = wire.source.receive(&mut Vec::new()).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::InvalidData);
    }
}

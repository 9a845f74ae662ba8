//! QEMU's `-netdev stream` on a Unix socket: each frame follows its length, 32 bits big-endian.
//! `passt` and a second QEMU speak it too.

use crate::{FrameSink, FrameSource, MAX_FRAME, Wire};
use std::fs;
use std::io::{self, Read, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

/// How long a peer that does not read may hold the sender up before it counts as gone.
const SEND_TIMEOUT: Duration = Duration::from_secs(2);

/// Connects to a peer that listens.
pub fn connect(path: &Path) -> io::Result<Wire> {
    wire(UnixStream::connect(path)?)
}

/// Lets one peer connect. Returns at once: the source waits for the peer, and frames sent before it
/// is there are lost, as on a cable that is plugged in at one end.
pub fn listen(path: &Path) -> io::Result<Wire> {
    let listener = UnixListener::bind(path)?;
    let peer = Arc::new(OnceLock::new());
    let sink = LateSink { peer: peer.clone(), sink: None };
    let source = LateSource { listener, path: path.to_path_buf(), peer, source: None };
    Ok(Wire { sink: Box::new(sink), source: Box::new(source) })
}

struct LateSink {
    peer: Arc<OnceLock<UnixStream>>,
    sink: Option<Sink>,
}

impl FrameSink for LateSink {
    fn send(&mut self, frame: &[u8]) -> io::Result<()> {
        if self.sink.is_none() {
            let stream = self.peer.get().ok_or(io::ErrorKind::NotConnected)?.try_clone()?;
            self.sink = Some(Sink { stream: Some(stream), packet: Vec::new() });
        }
        self.sink.as_mut().ok_or(io::ErrorKind::NotConnected)?.send(frame)
    }
}

struct LateSource {
    listener: UnixListener,
    path: PathBuf,
    peer: Arc<OnceLock<UnixStream>>,
    source: Option<Source>,
}

impl FrameSource for LateSource {
    fn receive(&mut self, frame: &mut Vec<u8>) -> io::Result<bool> {
        if self.source.is_none() {
            let (stream, _) = self.listener.accept()?;
            // There is one peer; nobody else shall find the name.
            let _ = fs::remove_file(&self.path);
            stream.set_write_timeout(Some(SEND_TIMEOUT))?;
            self.source = Some(Source(stream.try_clone()?));
            let _ = self.peer.set(stream);
        }
        match &mut self.source {
            Some(source) => source.receive(frame),
            None => Ok(false),
        }
    }
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
    fn a_listener_loses_frames_until_its_peer_is_there() {
        let path = std::env::temp_dir().join(format!("trireme-wire-{}", std::process::id()));
        let _ = fs::remove_file(&path);
        let mut here = listen(&path).unwrap();
        assert_eq!(here.sink.send(&[1; 60]).unwrap_err().kind(), io::ErrorKind::NotConnected);
        let mut there = connect(&path).unwrap();
        there.sink.send(&[2; 60]).unwrap();
        let mut frame = Vec::new();
        assert!(here.source.receive(&mut frame).unwrap());
        assert_eq!(frame, [2; 60]);
        assert!(!path.exists());
        here.sink.send(&[3; 60]).unwrap();
        assert!(there.source.receive(&mut frame).unwrap());
        assert_eq!(frame, [3; 60]);
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

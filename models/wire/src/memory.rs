//! Two ends of a wire in one process, for tests.

use crate::{FrameSink, FrameSource, MAX_FRAME, Wire};
use std::io;
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};

struct Sink(SyncSender<Vec<u8>>);
struct Source(Receiver<Vec<u8>>);

/// Two wires that are each other's peer. `depth` frames wait in each direction; more are refused
/// with [`io::ErrorKind::WouldBlock`], as a full switch port would lose them.
pub fn pair(depth: usize) -> (Wire, Wire) {
    let (to_b, from_a) = sync_channel(depth);
    let (to_a, from_b) = sync_channel(depth);
    (
        Wire { sink: Box::new(Sink(to_b)), source: Box::new(Source(from_b)) },
        Wire { sink: Box::new(Sink(to_a)), source: Box::new(Source(from_a)) },
    )
}

impl FrameSink for Sink {
    fn send(&mut self, frame: &[u8]) -> io::Result<()> {
        if frame.len() > MAX_FRAME {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        self.0.try_send(frame.to_vec()).map_err(|error| match error {
            TrySendError::Full(_) => io::ErrorKind::WouldBlock.into(),
            TrySendError::Disconnected(_) => io::ErrorKind::BrokenPipe.into(),
        })
    }
}

impl FrameSource for Source {
    fn receive(&mut self, frame: &mut Vec<u8>) -> io::Result<bool> {
        match self.0.recv() {
            Ok(next) => {
                *frame = next;
                Ok(true)
            }
            Err(_) => Ok(false),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_cross_both_ways_in_order() {
        let (mut a, mut b) = pair(4);
        a.sink.send(&[1; 60]).unwrap();
        a.sink.send(&[2; 61]).unwrap();
        b.sink.send(&[3; 62]).unwrap();
        let mut frame = vec![0xa5; 9];
        assert!(b.source.receive(&mut frame).unwrap());
        assert_eq!(frame, [1; 60]);
        assert!(b.source.receive(&mut frame).unwrap());
        assert_eq!(frame, [2; 61]);
        assert!(a.source.receive(&mut frame).unwrap());
        assert_eq!(frame, [3; 62]);
    }

    #[test]
    fn a_full_queue_refuses_and_a_dropped_peer_ends() {
        let (mut a, b) = pair(1);
        a.sink.send(&[1; 60]).unwrap();
        assert_eq!(a.sink.send(&[2; 60]).unwrap_err().kind(), io::ErrorKind::WouldBlock);
        drop(b);
        assert_eq!(a.sink.send(&[3; 60]).unwrap_err().kind(), io::ErrorKind::BrokenPipe);
        assert!(!a.source.receive(&mut Vec::new()).unwrap());
    }
}

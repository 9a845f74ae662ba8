//! The wire side of Trireme's device models: TAP, QEMU stream sockets, pcap, in memory.
//!
//! A frame here is everything from the destination address to the last byte before the FCS. Sinks
//! and sources are separate so that a model can send from the thread that serves its registers and
//! receive on another. Nothing here waits for ever except [`FrameSource::receive`], which is what a
//! receiving thread is for.

mod capture;
mod faults;
mod memory;
mod stream;
mod tap;

pub use capture::{Capture, PcapWriter};
pub use faults::{Counters, Faults, Impaired, Impairment, ParseFaultError};
pub use memory::pair;
pub use stream::{connect, listen};
pub use tap::open as tap;

use std::io;

/// Longest frame any wire here passes, in bytes; longer ones are dropped. 16 KiB is more than any
/// model's card takes, and bounds what a hostile peer can make us hold.
pub const MAX_FRAME: usize = 16 * 1024;

/// Takes frames towards the peer.
pub trait FrameSink: Send {
    /// Sends one frame. An error is for the frame or the peer, never for the caller to panic on.
    fn send(&mut self, frame: &[u8]) -> io::Result<()>;
}

/// Gives frames from the peer.
pub trait FrameSource: Send {
    /// Waits for the next frame and puts it in `frame`, whatever was there before. `Ok(false)`: the
    /// peer is gone for good.
    fn receive(&mut self, frame: &mut Vec<u8>) -> io::Result<bool>;
}

/// Both directions of one wire.
pub struct Wire {
    /// Towards the peer.
    pub sink: Box<dyn FrameSink>,
    /// From the peer.
    pub source: Box<dyn FrameSource>,
}

impl FrameSink for Box<dyn FrameSink> {
    fn send(&mut self, frame: &[u8]) -> io::Result<()> {
        (**self).send(frame)
    }
}

impl FrameSource for Box<dyn FrameSource> {
    fn receive(&mut self, frame: &mut Vec<u8>) -> io::Result<bool> {
        (**self).receive(frame)
    }
}

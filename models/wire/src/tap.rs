//! A TAP interface. Facts from Linux `Documentation/networking/tuntap.rst`.

use crate::{FrameSink, FrameSource, MAX_FRAME, Wire};
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::AsRawFd;

/// Attaches to the TAP interface `name`, creating it if it does not exist (needs `CAP_NET_ADMIN`).
/// The interface is looked up in the network namespace of the calling thread.
pub fn open(name: &str) -> io::Result<Wire> {
    // One byte of the name field is the terminating zero.
    if name.is_empty() || name.len() >= libc::IFNAMSIZ || name.contains('\0') {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "not an interface name"));
    }
    let tap = File::options().read(true).write(true).open("/dev/net/tun")?;
    // SAFETY: an ifreq is plain integers and unions of them: all zeroes is a value of it.
    let mut request: libc::ifreq = unsafe { core::mem::zeroed() };
    for (to, from) in request.ifr_name.iter_mut().zip(name.bytes()) {
        *to = from as libc::c_char;
    }
    request.ifr_ifru.ifru_flags = (libc::IFF_TAP | libc::IFF_NO_PI) as libc::c_short;
    // SAFETY: TUNSETIFF reads and writes one ifreq, which outlives the call; the fd is open.
    if unsafe { libc::ioctl(tap.as_raw_fd(), libc::TUNSETIFF, &mut request) } != 0 {
        return Err(io::Error::last_os_error());
    }
    let source = tap.try_clone()?;
    Ok(Wire { sink: Box::new(Sink(tap)), source: Box::new(Source(source)) })
}

struct Sink(File);
struct Source(File);

impl FrameSink for Sink {
    fn send(&mut self, frame: &[u8]) -> io::Result<()> {
        // One write is one frame; the kernel takes all of it or fails.
        self.0.write(frame).map(drop)
    }
}

impl FrameSource for Source {
    fn receive(&mut self, frame: &mut Vec<u8>) -> io::Result<bool> {
        frame.resize(MAX_FRAME, 0);
        let len = loop {
            match self.0.read(frame) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                result => break result?,
            }
        };
        frame.truncate(len);
        Ok(len > 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bad_names_are_refused_before_the_kernel_sees_them() {
        for name in ["", "sixteen-letters-", "nul\0name"] {
            assert_eq!(open(name).err().unwrap().kind(), io::ErrorKind::InvalidInput);
        }
    }
}

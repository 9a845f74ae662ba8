//! pcap capture files, as `tcpdump -r` and Wireshark read them (draft-ietf-opsawg-pcap, nanosecond
//! magic, LINKTYPE_ETHERNET).

use crate::{FrameSink, FrameSource};
use std::io::{self, Write};
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};

/// Bytes kept of each frame.
const SNAP_LEN: u32 = 65_535;

/// Writes a capture file. Time is the caller's.
pub struct PcapWriter<W: Write> {
    to: W,
}

impl<W: Write> PcapWriter<W> {
    /// Writes the file header.
    pub fn new(mut to: W) -> io::Result<PcapWriter<W>> {
        let mut header = [0; 24];
        header[0..4].copy_from_slice(&0xa1b2_3c4du32.to_le_bytes()); // nanoseconds
        header[4..6].copy_from_slice(&2u16.to_le_bytes());
        header[6..8].copy_from_slice(&4u16.to_le_bytes());
        header[16..20].copy_from_slice(&SNAP_LEN.to_le_bytes());
        header[20..24].copy_from_slice(&1u32.to_le_bytes()); // LINKTYPE_ETHERNET
        to.write_all(&header)?;
        Ok(PcapWriter { to })
    }

    /// Appends one frame seen at `at` since the epoch.
    pub fn frame(&mut self, at: Duration, frame: &[u8]) -> io::Result<()> {
        let kept = frame.len().min(SNAP_LEN as usize);
        let mut header = [0; 16];
        header[0..4].copy_from_slice(&(at.as_secs() as u32).to_le_bytes());
        header[4..8].copy_from_slice(&at.subsec_nanos().to_le_bytes());
        header[8..12].copy_from_slice(&(kept as u32).to_le_bytes());
        header[12..16].copy_from_slice(&(frame.len() as u32).to_le_bytes());
        self.to.write_all(&header)?;
        self.to.write_all(&frame[..kept])?;
        self.to.flush()
    }
}

/// A sink or source whose frames are captured as they pass, stamped with the host's clock.
pub struct Capture<T, W: Write> {
    inner: T,
    file: Arc<Mutex<PcapWriter<W>>>,
}

impl<T, W: Write> Capture<T, W> {
    /// Captures what passes `inner` into `file`, which both directions may share.
    pub fn new(inner: T, file: Arc<Mutex<PcapWriter<W>>>) -> Capture<T, W> {
        Capture { inner, file }
    }

    fn record(&self, frame: &[u8]) -> io::Result<()> {
        let at = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        let mut file = self.file.lock().map_err(|_| io::Error::other("capture file poisoned"))?;
        file.frame(at, frame)
    }
}

impl<T: FrameSink, W: Write + Send> FrameSink for Capture<T, W> {
    fn send(&mut self, frame: &[u8]) -> io::Result<()> {
        self.record(frame)?;
        self.inner.send(frame)
    }
}

impl<T: FrameSource, W: Write + Send> FrameSource for Capture<T, W> {
    fn receive(&mut self, frame: &mut Vec<u8>) -> io::Result<bool> {
        let more = self.inner.receive(frame)?;
        if more {
            self.record(frame)?;
        }
        Ok(more)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn file_is_the_documented_bytes() {
        let mut file = Vec::new();
        let mut writer = PcapWriter::new(&mut file).unwrap();
        writer.frame(Duration::new(0x0102, 0x0304), &[9, 8, 7]).unwrap();
        assert_eq!(
            file,
            [
                0x4d, 0x3c, 0xb2, 0xa1, 2, 0, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 0, 0, 1, 0,
                0, 0, // file header
                2, 1, 0, 0, 4, 3, 0, 0, 3, 0, 0, 0, 3, 0, 0, 0, // record header
                9, 8, 7
            ]
        );
    }

    #[test]
    fn both_directions_land_in_one_file() {
        let file = Arc::new(Mutex::new(PcapWriter::new(Vec::new()).unwrap()));
        let (a, mut b) = crate::pair(2);
        let mut sink = Capture::new(a.sink, file.clone());
        let mut source = Capture::new(a.source, file.clone());
        sink.send(&[1; 60]).unwrap();
        b.sink.send(&[2; 60]).unwrap();
        source.receive(&mut Vec::new()).unwrap();
        assert_eq!(file.lock().unwrap().to.len(), 24 + 2 * (16 + 60));
    }
}

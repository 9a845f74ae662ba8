//! PAUSE frames (IEEE 802.3 annex 31B) and the free-buffer count of the Rhine-III that sends them.

use crate::regs::{FLOW_OBEY, FLOW_SEND, FLOW_XON};
use std::time::Duration;

/// Destination of PAUSE frames.
const PAUSE_GROUP: [u8; 6] = [0x01, 0x80, 0xc2, 0x00, 0x00, 0x01];

#[derive(Clone, Debug, Default)]
pub(crate) struct Flow {
    /// Free receive buffers, as software reported them and frames used them up.
    residue: u8,
    pub(crate) control: u8,
    pub(crate) timer: u16,
    /// XOFF was sent, and no XON since.
    stopped_peer: bool,
    /// The peer asked for silence until then.
    paused_until: Duration,
}

impl Flow {
    pub(crate) fn residue(&self) -> u8 {
        self.residue
    }

    /// Writing adds; writing zero clears. (INF) that it saturates.
    pub(crate) fn write_residue(&mut self, value: u8) {
        self.residue = if value == 0 { 0 } else { self.residue.saturating_add(value) };
    }

    pub(crate) fn buffer_used(&mut self) {
        self.residue = self.residue.saturating_sub(1);
    }

    fn low(&self) -> u8 {
        [4, 8, 16, 24][usize::from(self.control >> 6)]
    }

    fn high(&self) -> u8 {
        [24, 32, 48, 64][usize::from(self.control >> 4 & 3)]
    }

    /// A PAUSE frame to send now, if the count crossed a threshold.
    pub(crate) fn pause_to_send(&mut self, station: &[u8; 6]) -> Option<Vec<u8>> {
        if self.control & FLOW_SEND == 0 {
            return None;
        }
        let time = if !self.stopped_peer && self.residue < self.low() {
            self.stopped_peer = true;
            self.timer
        } else if self.stopped_peer && self.residue > self.high() {
            self.stopped_peer = false;
            if self.control & FLOW_XON == 0 {
                return None;
            }
            0
        } else {
            return None;
        };
        let mut frame = vec![0; 60];
        frame[..6].copy_from_slice(&PAUSE_GROUP);
        frame[6..12].copy_from_slice(station);
        frame[12..16].copy_from_slice(&[0x88, 0x08, 0x00, 0x01]);
        frame[16..18].copy_from_slice(&time.to_be_bytes());
        Some(frame)
    }

    /// True if the frame is a PAUSE; obeys it if `obeys`.
    pub(crate) fn receive(&mut self, frame: &[u8], obeys: bool, now: Duration, fast: bool) -> bool {
        if frame.get(..6) != Some(&PAUSE_GROUP) || frame.get(12..16) != Some(&[0x88, 0x08, 0, 1]) {
            return false;
        }
        if let (true, Some(time)) = (obeys, frame.get(16..18)) {
            // In units of 512 bit times.
            let quanta = u64::from(u16::from_be_bytes([time[0], time[1]]));
            let bit_ns = if fast { 10 } else { 100 };
            self.paused_until = now + Duration::from_nanos(quanta * 512 * bit_ns);
        }
        true
    }

    pub(crate) fn obeys(&self) -> bool {
        self.control & FLOW_OBEY != 0
    }

    /// Until when nothing may be sent, if that is not over.
    pub(crate) fn paused(&self, now: Duration) -> Option<Duration> {
        (self.paused_until > now).then_some(self.paused_until)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const US: [u8; 6] = [2, 0, 0, 0, 0, 1];

    #[test]
    fn xoff_below_the_low_mark_and_xon_above_the_high_one() {
        let mut flow = Flow { control: FLOW_SEND | FLOW_XON, timer: 0xffff, ..Flow::default() };
        flow.write_residue(5);
        assert_eq!(flow.pause_to_send(&US), None);
        flow.buffer_used();
        flow.buffer_used();
        let xoff = flow.pause_to_send(&US).unwrap();
        assert_eq!(xoff[12..18], [0x88, 0x08, 0x00, 0x01, 0xff, 0xff]);
        assert_eq!(flow.pause_to_send(&US), None, "only once");
        flow.write_residue(20);
        assert_eq!(flow.pause_to_send(&US), None, "23 is not above 24");
        flow.write_residue(5);
        assert_eq!(flow.pause_to_send(&US).unwrap()[16..18], [0, 0]);
    }

    #[test]
    fn a_pause_silences_for_its_quanta() {
        let mut flow = Flow::default();
        let mut frame = [0; 60];
        frame[..6].copy_from_slice(&PAUSE_GROUP);
        frame[12..18].copy_from_slice(&[0x88, 0x08, 0, 1, 0, 100]);
        let now = Duration::from_secs(1);
        assert!(flow.receive(&frame, false, now, true));
        assert_eq!(flow.paused(now), None);
        assert!(flow.receive(&frame, true, now, true));
        // 100 * 512 bits at 10 ns.
        assert_eq!(flow.paused(now), Some(now + Duration::from_micros(512)));
        assert_eq!(flow.paused(now + Duration::from_micros(512)), None);
        frame[15] = 2;
        assert!(!flow.receive(&frame, true, now, true));
    }
}

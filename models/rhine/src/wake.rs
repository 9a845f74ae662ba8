//! Wake-on-LAN and the sticky power bits (rev 0x40 and up). They survive a software reset.
//!
//! Four bytes are written through two windows, one that sets and one that clears; both read the
//! state.

use crate::chip::Chip;

/// Bits of STICKHW that mean "asleep" when both are set.
const ASLEEP: u8 = 3;
/// WOLCR.
const UNICAST: u8 = 1 << 4;
const MAGIC: u8 = 1 << 5;
const LINK_ON: u8 = 1 << 6;
const LINK_OFF: u8 = 1 << 7;

#[derive(Clone, Debug)]
pub(crate) struct Wake {
    /// WOLCR, PWCFG, TSTREG, WOLCG.
    control: [u8; 4],
    /// PWRCSR, PWRCSR1.
    status: [u8; 2],
    pub(crate) sticky: u8,
}

impl Wake {
    pub(crate) fn new(asleep: bool) -> Wake {
        // TSTREG and WOLCG read 1 on a VT6102 at rest.
        let sticky = if asleep { ASLEEP } else { 0 };
        Wake { control: [0, 0, 1, 1], status: [0; 2], sticky }
    }

    pub(crate) fn asleep(&self) -> bool {
        self.sticky & ASLEEP == ASLEEP
    }

    pub(crate) fn control(&self, byte: usize) -> u8 {
        self.control[byte]
    }

    pub(crate) fn set_control(&mut self, byte: usize, bits: u8) {
        self.control[byte] |= bits;
    }

    pub(crate) fn clear_control(&mut self, byte: usize, bits: u8) {
        self.control[byte] &= !bits;
    }

    pub(crate) fn status(&self, byte: usize, chip: Chip) -> u8 {
        match byte {
            0 => self.status[0],
            1 if chip.has_six_patterns() => self.status[1],
            _ => 0,
        }
    }

    pub(crate) fn set_status(&mut self, byte: usize, bits: u8) {
        if let Some(status) = self.status.get_mut(byte) {
            *status |= bits;
        }
    }

    pub(crate) fn clear_status(&mut self, byte: usize, bits: u8) {
        if let Some(status) = self.status.get_mut(byte) {
            *status &= !bits;
        }
    }

    /// A frame arrives while asleep: notes what it would wake for.
    pub(crate) fn frame(&mut self, frame: &[u8], station: &[u8; 6]) {
        let enabled = self.control[0];
        if enabled & MAGIC != 0 && is_magic(frame, station) {
            self.status[0] |= MAGIC;
        }
        if enabled & UNICAST != 0 && frame.first_chunk() == Some(station) {
            self.status[0] |= UNICAST;
        }
    }

    /// The link changes while asleep.
    pub(crate) fn link(&mut self, up: bool) {
        self.status[0] |= self.control[0] & if up { LINK_ON } else { LINK_OFF };
    }
}

/// Six bytes of ones, then the station address sixteen times, anywhere (AMD 20213).
fn is_magic(frame: &[u8], station: &[u8; 6]) -> bool {
    frame.windows(102).any(|window| {
        window[..6] == [0xff; 6] && window[6..].chunks(6).all(|chunk| chunk == station)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_windows_show_one_state() {
        let mut wake = Wake::new(false);
        wake.set_control(0, 0x30);
        wake.clear_control(0, 0x10);
        assert_eq!(wake.control(0), 0x20);
        assert_eq!([wake.control(2), wake.control(3)], [1, 1]);
    }

    #[test]
    fn a_magic_packet_is_noted_only_when_asked_for() {
        let station = [0, 1, 2, 3, 4, 5];
        let mut frame = vec![9; 20];
        frame.extend([0xff; 6]);
        (0..16).for_each(|_| frame.extend(station));
        let mut wake = Wake::new(true);
        wake.frame(&frame, &station);
        assert_eq!(wake.status(0, Chip::VT6102), 0);
        wake.set_control(0, MAGIC);
        wake.frame(&frame[..frame.len() - 1], &station);
        assert_eq!(wake.status(0, Chip::VT6102), 0);
        wake.frame(&frame, &station);
        assert_eq!(wake.status(0, Chip::VT6102), 0x20);
    }
}

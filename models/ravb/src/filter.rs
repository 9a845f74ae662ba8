//! Which frames are received, and into which queue. (sheet 2.3, 2.8)

use crate::device::Ravb;
use crate::regs::{self, ecmr, rcr};

/// PAUSE's address. (IEEE 802.3, annex 31B)
const PAUSE: [u8; 6] = [0x01, 0x80, 0xc2, 0x00, 0x00, 0x01];
/// EtherTypes of PTP, MSRP, MVRP and MMRP. What the block takes for network control is not public;
/// these are the protocols the queue is named for.
const NETWORK_CONTROL: [u16; 4] = [0x88f7, 0x22ea, 0x88f5, 0x88f6];
/// EtherType of AVTP. (IEEE 1722)
const AVTP: u16 = 0x22f0;
/// Queues of streams: 2 to 17.
const STREAMS: usize = 16;

fn kind(frame: &[u8], at: usize) -> Option<u16> {
    let bytes = frame.get(at..at + 2)?;
    Some(u16::from_be_bytes([bytes[0], bytes[1]]))
}

/// The quanta of a PAUSE frame.
pub(crate) fn pause(frame: &[u8]) -> Option<u16> {
    let is_pause = frame.starts_with(&PAUSE) && frame.get(12..16)? == [0x88, 0x08, 0, 1];
    is_pause.then(|| kind(frame, 16)).flatten()
}

/// Six times ff and then the address sixteen times, anywhere in the frame.
pub(crate) fn is_magic(frame: &[u8], station: &[u8; 6]) -> bool {
    let pattern = [&[0xff; 6][..], &station.repeat(16)].concat();
    frame.windows(pattern.len()).any(|window| window == pattern)
}

impl Ravb {
    /// MAHR and MALR.
    pub(crate) fn station(&self) -> [u8; 6] {
        let [a, b, c, d] = self.get(regs::MAHR).to_be_bytes();
        let [.., e, f] = self.get(regs::MALR).to_be_bytes();
        [a, b, c, d, e, f]
    }

    /// The E-MAC passes a frame on: PRM, and in EtherAVB, SBFS.
    pub(crate) fn passes_address(&self, frame: &[u8]) -> bool {
        let broadcast = frame.starts_with(&[0xff; 6]);
        if broadcast {
            return !self.variant.is_avb() || self.get(regs::RCR) & rcr::SBFS == 0;
        }
        // All multicast passes: there is no filter for it.
        let multicast = frame[0] & 1 != 0;
        let promiscuous = self.get(regs::ECMR) & ecmr::PRM != 0;
        multicast || promiscuous || frame.starts_with(&self.station())
    }

    /// The receive queue of a frame; `None`: it is dropped.
    pub(crate) fn receive_queue(&self, frame: &[u8]) -> Option<usize> {
        let rcr = self.get(regs::RCR);
        if !self.variant.is_avb() {
            return Some(0);
        }
        let tagged = kind(frame, 12) == Some(0x8100);
        let kind = kind(frame, if tagged { 16 } else { 12 }).unwrap_or(0);
        if rcr & rcr::ENCF != 0 && NETWORK_CONTROL.contains(&kind) {
            return Some(1);
        }
        let filter = rcr >> 2 & 3;
        let stream = filter == 1 || filter > 1 && tagged && kind == AVTP;
        let found = stream.then(|| self.separated(frame)).flatten();
        match (filter, found) {
            (_, Some(queue)) => Some(queue),
            (2, None) => None,
            _ => Some(0),
        }
    }

    /// The separation filter: eight bytes from SFO.FBP on, under the mask, against each pattern. The
    /// first byte is taken for bits 7:0, as BOC = 0 has it. An empty mask matches nothing.
    fn separated(&self, frame: &[u8]) -> Option<usize> {
        let pair = |at: u16| u64::from(self.get(at)) | u64::from(self.get(at + 4)) << 32;
        let from = self.get(regs::SFO) as usize;
        let bytes = frame.get(from..from + 8)?;
        let value = bytes.iter().rev().fold(0, |value, &byte| value << 8 | u64::from(byte));
        let mask = pair(regs::SFM);
        let matches =
            |&r: &usize| value & mask == pair(regs::SFP + 8 * r as u16) & mask && mask != 0;
        (0..STREAMS).find(matches).map(|r| r + 2)
    }
}

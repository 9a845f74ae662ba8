//! What a receive descriptor says of its frame. [GM 5.3, 5.5, 5.6]

use trireme_nic::ReceiveChecksum;

/// Shortest frame, in bytes without FCS: both known drivers drop what is below. [GM 5.5]
const MIN: u16 = 60;

/// Why a frame is dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FrameError {
    /// Longer than the limit, with or without another error.
    Length,
    /// Shorter than any frame may be.
    Short,
    /// Wrong FCS.
    Crc,
    /// Not a whole number of bytes.
    Alignment,
    /// A FIFO was full.
    Overrun,
    /// DMA met a bus error, or the descriptors break the protocol.
    Descriptor,
    /// Anything else the MAC has a code for, or has not.
    Other,
}

/// A frame by its first descriptor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Verdict {
    /// Bytes of the whole frame.
    pub len: u16,
    /// What the card says of the checksums.
    pub checksum: ReceiveChecksum,
}

impl Verdict {
    /// Reads words 0 and 1 of a frame's first descriptor.
    pub fn read(word0: u32, word1: u32) -> Result<Verdict, FrameError> {
        if word0 >> 29 & 3 != 0 {
            return Err(FrameError::Descriptor);
        }
        let len = word1 as u16;
        match word0 >> 22 & 15 {
            0 if len >= MIN => {}
            0 | 2 => return Err(FrameError::Short),
            1 | 5 | 7 => return Err(FrameError::Length),
            4 => return Err(FrameError::Crc),
            6 => return Err(FrameError::Alignment),
            10 => return Err(FrameError::Overrun),
            _ => return Err(FrameError::Other),
        }
        let checksum = match word0 >> 26 & 7 {
            0 => ReceiveChecksum::Verified { ip: true, transport: true },
            1 => ReceiveChecksum::Verified { ip: true, transport: false },
            // Both known drivers drop these frames; here software has the last word.
            4..=6 => ReceiveChecksum::Bad,
            _ => ReceiveChecksum::Unverified,
        };
        Ok(Verdict { len, checksum })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn worked_examples_of_the_sheet() {
        // [GM 5.8]
        let all = ReceiveChecksum::Verified { ip: true, transport: true };
        assert_eq!(Verdict::read(0x0001_0800, 0x5ea), Ok(Verdict { len: 1514, checksum: all }));
        let arp = Verdict { len: 60, checksum: ReceiveChecksum::Unverified };
        assert_eq!(Verdict::read(0x0801_0800, 0x3c), Ok(arp));
        let bad = Verdict { len: 600, checksum: ReceiveChecksum::Bad };
        assert_eq!(Verdict::read(0x1801_0800, 600), Ok(bad));
        assert_eq!(Verdict::read(0x0002_0800, 0xfa0).unwrap().len, 4000);
        assert_eq!(Verdict::read(0x0901_0800, 600), Err(FrameError::Crc));
    }

    #[test]
    fn every_code_has_a_meaning() {
        // [GM 5.5], as Linux counts them.
        use FrameError::{Alignment, Crc, Length, Other, Overrun, Short};
        let wanted = [
            None,
            Some(Length),
            Some(Short),
            Some(Other),
            Some(Crc),
            Some(Length),
            Some(Alignment),
            Some(Length),
            Some(Other),
            Some(Other),
            Some(Overrun),
            Some(Other),
            Some(Other),
            Some(Other),
            Some(Other),
            Some(Other),
        ];
        for (code, wanted) in (0..).zip(wanted) {
            assert_eq!(Verdict::read(code << 22, 100).err(), wanted, "{code}");
        }
        for bit in [29, 30] {
            assert_eq!(Verdict::read(1 << bit, 100), Err(FrameError::Descriptor));
        }
        assert_eq!(Verdict::read(0, 59), Err(FrameError::Short), "runt with a good status");
        let trusted = |code: u32| Verdict::read(code << 26, 100).unwrap().checksum;
        let one = ReceiveChecksum::Verified { ip: true, transport: false };
        assert_eq!(trusted(1), one);
        assert!([2, 3, 7].into_iter().all(|code| trusted(code) == ReceiveChecksum::Unverified));
        assert!([4, 5, 6].into_iter().all(|code| trusted(code) == ReceiveChecksum::Bad));
    }
}

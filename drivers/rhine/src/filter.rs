//! Receive filter: mode bits and a 64-bit multicast hash. [RH 4.10]
//!
//! The CAM of the VT6105M is not used: hash and CAM accept in parallel, and a stale hash defeats the
//! CAM. [RH E33, E41] Everything is written in full each time, so nothing is left over.

use crate::regs::Rcr;
use trireme_nic::{MacAddress, ReceiveFilter};

/// What goes into RCR and MAR.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Filter {
    pub(crate) mode: Rcr,
    pub(crate) hash: u64,
}

impl Filter {
    /// Our address and broadcast.
    pub(crate) const OWN: Filter = Filter { mode: Rcr::AB, hash: 0 };

    pub(crate) fn new(filter: ReceiveFilter<'_>) -> Filter {
        match filter {
            ReceiveFilter::Multicast([]) => Filter::OWN,
            ReceiveFilter::Multicast(groups) => Filter {
                mode: Rcr::AB.union(Rcr::AM),
                hash: groups.iter().fold(0, |hash, group| hash | 1 << hash_index(group)),
            },
            ReceiveFilter::AllMulticast => Filter { mode: Rcr::AB.union(Rcr::AM), hash: !0 },
            ReceiveFilter::Promiscuous => {
                Filter { mode: Rcr::AB.union(Rcr::AM).union(Rcr::PROM), hash: !0 }
            }
        }
    }
}

/// Top six bits of the MSB-first CRC-32 over the address, data bits LSB first, not inverted.
fn hash_index(address: &MacAddress) -> u32 {
    let crc = address.iter().fold(u32::MAX, |crc, byte| {
        (0..8).fold(crc, |crc, bit| {
            let carry = crc >> 31 ^ u32::from(byte >> bit & 1);
            (crc << 1) ^ (carry * 0x04c1_1db7)
        })
    });
    crc >> 26
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hash_matches_the_vectors() {
        // [RH 4.10]; the first is from a real VT6102.
        for (address, index) in [
            ([0x01, 0x00, 0x5e, 0x00, 0x00, 0x01], 31),
            ([0x01, 0x80, 0xc2, 0x00, 0x00, 0x00], 25),
            ([0x33, 0x33, 0x00, 0x00, 0x00, 0x01], 62),
            ([0x01, 0x00, 0x5e, 0x00, 0x00, 0xfb], 15),
            ([0x01, 0x00, 0x5e, 0x00, 0x00, 0x02], 8),
            ([0x33, 0x33, 0xff, 0x00, 0x00, 0x01], 29),
        ] {
            assert_eq!(hash_index(&address), index);
        }
    }

    #[test]
    fn groups_set_their_bits_and_modes_replace_each_other() {
        let groups = [[0x01, 0x00, 0x5e, 0, 0, 0x01], [0x01, 0x00, 0x5e, 0, 0, 0x02]];
        let filter = Filter::new(ReceiveFilter::Multicast(&groups));
        assert_eq!((filter.mode.bits(), filter.hash), (0x0c, 1 << 31 | 1 << 8));
        assert_eq!(Filter::new(ReceiveFilter::Multicast(&[])).mode.bits(), 0x08);
        assert_eq!(Filter::new(ReceiveFilter::AllMulticast).mode.bits(), 0x0c);
        assert_eq!(Filter::new(ReceiveFilter::Promiscuous).mode.bits(), 0x1c);
    }
}

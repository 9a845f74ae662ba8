//! Which frames a port takes (docs/hardware/gemini.md 4.4, 7).

use crate::regs::RxFilter;

/// Whose a frame is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Class {
    Station1,
    Station2,
    Broadcast,
    Multicast,
    Other,
}

const fn crc_table() -> [u32; 256] {
    let mut table = [0; 256];
    let mut i = 0;
    while i < 256 {
        let mut crc = i as u32;
        let mut bit = 0;
        while bit < 8 {
            crc = if crc & 1 != 0 { crc >> 1 ^ 0xedb8_8320 } else { crc >> 1 };
            bit += 1;
        }
        table[i] = crc;
        i += 1;
    }
    table
}

static CRC: [u32; 256] = crc_table();

/// Low six bits of the finalised reflected CRC. \[7\]
pub(crate) fn multicast_hash(address: &[u8; 6]) -> u32 {
    let step = |crc: u32, &byte: &u8| crc >> 8 ^ CRC[usize::from(crc as u8 ^ byte)];
    !address.iter().fold(u32::MAX, step) & 0x3f
}

/// The two station addresses in STA_ADD0 to 2. \[4.4\]
pub(crate) fn stations(words: [u32; 3]) -> [[u8; 6]; 2] {
    let [a, b, c] = words.map(u32::to_le_bytes);
    [[a[0], a[1], a[2], a[3], b[0], b[1]], [b[2], b[3], c[0], c[1], c[2], c[3]]]
}

pub(crate) fn classify(to: &[u8; 6], stations: &[[u8; 6]; 2]) -> Class {
    match to {
        [0xff, 0xff, 0xff, 0xff, 0xff, 0xff] => Class::Broadcast,
        _ if to[0] & 1 != 0 => Class::Multicast,
        _ if to == &stations[0] => Class::Station1,
        // Nobody has address zero: the second is then not in use.
        _ if to == &stations[1] && stations[1] != [0; 6] => Class::Station2,
        _ => Class::Other,
    }
}

/// The filter lets a frame to `to` pass.
pub(crate) fn passes(filter: RxFilter, hash: [u32; 2], to: &[u8; 6], class: Class) -> bool {
    if filter.contains(RxFilter::PROMISCUOUS) {
        return true;
    }
    match class {
        Class::Station1 | Class::Station2 => filter.contains(RxFilter::UNICAST),
        Class::Broadcast => filter.contains(RxFilter::BROADCAST),
        Class::Multicast => {
            let bit = multicast_hash(to);
            filter.contains(RxFilter::MULTICAST) && hash[(bit >> 5) as usize] >> (bit & 31) & 1 != 0
        }
        Class::Other => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hash_is_the_low_end_of_the_frame_check_sequence() {
        // CRC-32 as IEEE 802.3 has it, by Python's zlib.crc32, low six bits.
        for (address, index) in [
            ([0x01, 0x00, 0x5e, 0x00, 0x00, 0x01], HASH_ALL_HOSTS),
            ([0x33, 0x33, 0x00, 0x00, 0x00, 0x01], HASH_ALL_NODES),
            ([0x01, 0x80, 0xc2, 0x00, 0x00, 0x00], HASH_BRIDGE),
        ] {
            assert_eq!(multicast_hash(&address), index, "{address:02x?}");
        }
    }

    const HASH_ALL_HOSTS: u32 = 1;
    const HASH_ALL_NODES: u32 = 32;
    const HASH_BRIDGE: u32 = 25;
}

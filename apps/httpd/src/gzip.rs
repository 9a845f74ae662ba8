//! The gzip format [RFC 1952] around miniz_oxide's deflate. The crates that would do this bring tables for fast checksums,
//! larger than everything else here; a file is compressed once.

use miniz_oxide::deflate::compress_to_vec;

/// Deflate's level: zlib's default, a good deal smaller than the fast ones and much faster than the best.
const LEVEL: u8 = 6;

/// Magic, deflate, no flags, no time, no extra flags, an unknown system. [2.3]
const HEADER: [u8; 10] = [0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 255];

/// One member that holds `octets`, which are less than 4 GiB.
pub(crate) fn compress(octets: &[u8]) -> Vec<u8> {
    let mut member = HEADER.to_vec();
    member.append(&mut compress_to_vec(octets, LEVEL));
    member.extend_from_slice(&crc(octets).to_le_bytes());
    member.extend_from_slice(&(octets.len() as u32).to_le_bytes());
    member
}

/// CRC-32 of [RFC 1952 8], four bits at a time.
fn crc(octets: &[u8]) -> u32 {
    const TABLE: [u32; 16] = {
        let mut table = [0; 16];
        let mut index = 0;
        while index < 16 {
            let mut value = index as u32;
            let mut bit = 0;
            while bit < 4 {
                value = if value & 1 == 1 { value >> 1 ^ 0xedb8_8320 } else { value >> 1 };
                bit += 1;
            }
            table[index] = value;
            index += 1;
        }
        table
    };
    let step = |crc: u32, nibble: u8| crc >> 4 ^ TABLE[((crc ^ u32::from(nibble)) & 15) as usize];
    !octets.iter().fold(!0, |crc, &octet| step(step(crc, octet), octet >> 4))
}

#[cfg(test)]
mod tests {
    use std::io::Read;

    use super::*;

    #[test]
    fn checksum() {
        // The check value of CRC-32/ISO-HDLC in the catalogue of parametrised CRC algorithms.
        assert_eq!(crc(b"123456789"), 0xcbf4_3926);
        assert_eq!(crc(b""), 0);
    }

    #[test]
    fn another_implementation_reads_it() {
        for length in [0, 1, 600, 70_000, 300_000] {
            let octets: Vec<u8> =
                (0..length).map(|index: u32| (index.wrapping_mul(index) >> 7) as u8).collect();
            let mut back = Vec::new();
            flate2::read::GzDecoder::new(&compress(&octets)[..]).read_to_end(&mut back).unwrap();
            assert!(back == octets, "{length}");
        }
    }
}

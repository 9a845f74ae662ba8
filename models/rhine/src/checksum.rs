//! The checksum engines' arithmetic: Ethernet CRC (IEEE 802.3, 3.2.9) and Internet checksum (RFC
//! 1071). Written for the model alone, so that a driver's arithmetic is checked by another's.

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

/// Frame check sequence, in the byte order it is sent (and lands in a receive buffer).
pub(crate) fn fcs(bytes: &[u8]) -> [u8; 4] {
    let crc =
        bytes.iter().fold(u32::MAX, |crc, &byte| crc >> 8 ^ CRC[usize::from(crc as u8 ^ byte)]);
    (!crc).to_le_bytes()
}

/// Index into the 64-bit multicast hash: top six bits of the MSB-first CRC over the address, data
/// bits taken LSB first, not inverted.
pub(crate) fn multicast_hash(address: &[u8; 6]) -> u32 {
    let mut crc = u32::MAX;
    for byte in address {
        for bit in 0..8 {
            let feedback = (crc >> 31) ^ u32::from(byte >> bit & 1);
            crc = crc << 1 ^ if feedback & 1 != 0 { 0x04c1_1db7 } else { 0 };
        }
    }
    crc >> 26
}

/// Adds big-endian 16-bit words to a sum; an odd last byte is a high one.
fn add(sum: u32, bytes: &[u8]) -> u32 {
    let mut sum = u64::from(sum);
    for pair in bytes.chunks(2) {
        sum += u64::from(pair[0]) << 8 | u64::from(pair.get(1).copied().unwrap_or(0));
    }
    while sum >> 16 != 0 {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    sum as u32
}

/// An IPv4 packet inside a frame, as far as the engines look. All ranges are within the frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Ipv4 {
    /// Offset of the IP header.
    pub(crate) start: usize,
    /// Offset of the transport header.
    pub(crate) transport: usize,
    /// Offset of the end of the packet, as the total length says.
    pub(crate) end: usize,
    /// More fragments, or an offset.
    pub(crate) fragment: bool,
    pub(crate) protocol: u8,
}

pub(crate) const TCP: u8 = 6;
pub(crate) const UDP: u8 = 17;

impl Ipv4 {
    /// Looks for IPv4 directly after an Ethernet II header.
    pub(crate) fn find(frame: &[u8]) -> Option<Ipv4> {
        if frame.get(12..14)? != [0x08, 0x00] {
            return None;
        }
        let header = frame.get(14..34)?;
        let header_len = usize::from(header[0] & 15) * 4;
        let total = usize::from(u16::from_be_bytes([header[2], header[3]]));
        let end = 14 + total;
        if header[0] >> 4 != 4 || header_len < 20 || total < header_len || end > frame.len() {
            return None;
        }
        Some(Ipv4 {
            start: 14,
            transport: 14 + header_len,
            end,
            fragment: u16::from_be_bytes([header[6], header[7]]) & 0x3fff != 0,
            protocol: header[9],
        })
    }

    /// The header sums to all ones, checksum field included.
    pub(crate) fn header_ok(&self, frame: &[u8]) -> bool {
        add(0, &frame[self.start..self.transport]) == 0xffff
    }

    /// Offset of the transport checksum field, if the header is there.
    pub(crate) fn checksum_field(&self) -> Option<usize> {
        let (offset, least) = match self.protocol {
            TCP => (16, 20),
            UDP => (6, 8),
            _ => return None,
        };
        (self.end - self.transport >= least).then_some(self.transport + offset)
    }

    fn pseudo_header(&self, frame: &[u8]) -> u32 {
        let length = (self.end - self.transport) as u32;
        let addresses = add(0, &frame[self.start + 12..self.start + 20]);
        add(addresses + u32::from(self.protocol) + length, &[])
    }

    /// The transport sums to all ones, pseudo-header and checksum field included.
    pub(crate) fn transport_ok(&self, frame: &[u8]) -> bool {
        add(self.pseudo_header(frame), &frame[self.transport..self.end]) == 0xffff
    }

    /// Fills in the header checksum. The field counts as zero.
    pub(crate) fn fill_header(&self, frame: &mut [u8]) {
        let field = self.start + 10;
        frame[field..field + 2].fill(0);
        let sum = !add(0, &frame[self.start..self.transport]) as u16;
        frame[field..field + 2].copy_from_slice(&sum.to_be_bytes());
    }

    /// Fills in the transport checksum. `seeded`: the field already holds the pseudo-header's sum;
    /// otherwise the field counts as zero and the engine makes the pseudo-header itself.
    pub(crate) fn fill_transport(&self, frame: &mut [u8], seeded: bool) {
        let Some(field) = self.checksum_field() else { return };
        let pseudo = if seeded { 0 } else { self.pseudo_header(frame) };
        if !seeded {
            frame[field..field + 2].fill(0);
        }
        let sum = !add(pseudo, &frame[self.transport..self.end]) as u16;
        // RFC 768: a UDP checksum of zero is sent as all ones. (INF) that the chip does.
        let sum = if self.protocol == UDP && sum == 0 { 0xffff } else { sum };
        frame[field..field + 2].copy_from_slice(&sum.to_be_bytes());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fcs_has_the_standard_check_value() {
        // CRC-32 of "123456789" is 0xcbf43926.
        assert_eq!(fcs(b"123456789"), [0x26, 0x39, 0xf4, 0xcb]);
    }

    #[test]
    fn multicast_hash_matches_the_vectors() {
        for (address, index) in [
            ([0x01, 0x00, 0x5e, 0x00, 0x00, 0x01], 31), // seen on a real VT6102
            ([0x01, 0x80, 0xc2, 0x00, 0x00, 0x00], 25),
            ([0x33, 0x33, 0x00, 0x00, 0x00, 0x01], 62),
            ([0x01, 0x00, 0x5e, 0x00, 0x00, 0xfb], 15),
            ([0x01, 0x00, 0x5e, 0x00, 0x00, 0x02], 8),
            ([0x33, 0x33, 0xff, 0x00, 0x00, 0x01], 29),
            ([0xff; 6], 63),
        ] {
            assert_eq!(multicast_hash(&address), index, "{address:02x?}");
        }
    }

    /// UDP datagram from 10.0.0.1:1 to 10.0.0.2:2, three bytes "abc". Sums worked out by hand:
    /// header words 4500 001f 0000 0000 4011 0a00 0001 0a00 0002 add to 9933, so 66cc;
    /// pseudo-header 0a00+0001+0a00+0002+0011+000b = 141f, header 0001+0002+000b = 000e, data
    /// 6162+6300 = c462, total d88f, so 2770.
    const UDP_FRAME: [u8; 45] = [
        2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 0x08, 0x00, // Ethernet
        0x45, 0, 0, 31, 0, 0, 0, 0, 0x40, 17, 0x66, 0xcc, 10, 0, 0, 1, 10, 0, 0, 2, // IPv4
        0, 1, 0, 2, 0, 11, 0x27, 0x70, b'a', b'b', b'c',
    ];

    #[test]
    fn engines_agree_with_sums_by_hand() {
        let ip = Ipv4::find(&UDP_FRAME).unwrap();
        assert!(ip.header_ok(&UDP_FRAME) && ip.transport_ok(&UDP_FRAME));
        let mut frame = UDP_FRAME;
        frame[24] = 0xaa;
        frame[40] = 0x55;
        assert!(!ip.header_ok(&frame) && !ip.transport_ok(&frame));
        ip.fill_header(&mut frame);
        ip.fill_transport(&mut frame, false);
        assert_eq!(frame, UDP_FRAME);
        frame[40..42].copy_from_slice(&0x141fu16.to_be_bytes());
        ip.fill_transport(&mut frame, true);
        assert_eq!(frame, UDP_FRAME);
    }

    #[test]
    fn truncated_or_foreign_packets_are_not_recognised() {
        for len in 0..UDP_FRAME.len() {
            assert_eq!(Ipv4::find(&UDP_FRAME[..len]), None);
        }
        let mut ipv6 = UDP_FRAME;
        ipv6[14] = 0x65;
        assert_eq!(Ipv4::find(&ipv6), None);
    }
}

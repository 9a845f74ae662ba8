//! Frames for tests, with arithmetic of their own.

use super::{MAC, PEER};

/// The Internet checksum by its definition (RFC 1071), 32-bit accumulator, word by word.
pub fn sum(parts: &[&[u8]]) -> u16 {
    let bytes: Vec<u8> = parts.concat();
    let mut sum = 0u32;
    for i in (0..bytes.len()).step_by(2) {
        let low = if i + 1 < bytes.len() { bytes[i + 1] } else { 0 };
        sum += u32::from(u16::from_be_bytes([bytes[i], low]));
        sum = (sum & 0xffff) + (sum >> 16);
    }
    !(sum as u16)
}

/// What a TCP or UDP packet is made of.
#[derive(Clone, Debug)]
pub struct Spec {
    /// Between the addresses and the EtherType.
    pub tag: Vec<u8>,
    pub v6: bool,
    /// IPv4 options, or IPv6 extension headers with the number of the first.
    pub ip_options: Vec<u8>,
    pub extension: Option<u8>,
    pub id: u16,
    pub udp: bool,
    pub sequence: u32,
    pub flags: u8,
    pub tcp_options: Vec<u8>,
    pub payload: Vec<u8>,
}

impl Spec {
    pub fn tcp(payload: usize) -> Spec {
        Spec {
            tag: vec![],
            v6: false,
            ip_options: vec![],
            extension: None,
            id: 0x16a0,
            udp: false,
            sequence: 0xff25_9822,
            flags: 0x10,
            tcp_options: vec![1, 1, 8, 10, 0xe7, 0xa2, 0x99, 0x0c, 0xd6, 0xa8, 0, 0],
            payload: (0..payload).map(|i| (i * 7 + i / 251) as u8).collect(),
        }
    }

    /// Bytes of everything before the payload.
    pub fn headers(&self) -> usize {
        let ip = if self.v6 { 40 } else { 20 };
        let transport = if self.udp { 8 } else { 20 + self.tcp_options.len() };
        14 + self.tag.len() + ip + self.ip_options.len() + transport
    }

    /// The whole packet, with right sums. A length above 65535 wraps.
    pub fn build(&self) -> Vec<u8> {
        let mut transport = Vec::new();
        transport.extend([0xe7, 0x20, 0x14, 0x51]);
        if self.udp {
            transport.extend((8 + self.payload.len() as u16).to_be_bytes());
            transport.extend([0, 0]);
        } else {
            transport.extend(self.sequence.to_be_bytes());
            transport.extend([0x4c, 0x52, 0x29, 0xcf]);
            let words = (20 + self.tcp_options.len()) / 4;
            transport.extend([(words as u8) << 4, self.flags, 0x04, 0x2a, 0, 0, 0, 0]);
            transport.extend(&self.tcp_options);
        }
        transport.extend(&self.payload);
        let protocol = if self.udp { 17 } else { 6 };
        let mut ip = Vec::new();
        let addresses = if self.v6 {
            let len = self.ip_options.len() + transport.len();
            ip.extend([0x60, 0x01, 0x23, 0x45]);
            ip.extend((len as u16).to_be_bytes());
            ip.extend([self.extension.unwrap_or(protocol), 64]);
            ip.extend([0xfd, 0x77, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2]);
            ip.extend([0xfd, 0x77, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1]);
            ip[8..40].to_vec()
        } else {
            let header = 20 + self.ip_options.len();
            ip.extend([0x40 | (header / 4) as u8, 0]);
            ip.extend(((header + transport.len()) as u16).to_be_bytes());
            ip.extend(self.id.to_be_bytes());
            ip.extend([0x40, 0, 64, protocol, 0, 0, 192, 168, 1, 136, 192, 168, 1, 2]);
            ip[12..20].to_vec()
        };
        ip.extend(&self.ip_options);
        if !self.v6 {
            let check = sum(&[&ip]);
            ip[10..12].copy_from_slice(&check.to_be_bytes());
        }
        let len = (transport.len() as u32).to_be_bytes();
        let check = sum(&[&addresses, &len, &[0, protocol], &transport]);
        let check = if self.udp && check == 0 { 0xffff } else { check };
        let field = if self.udp { 6 } else { 16 };
        transport[field..field + 2].copy_from_slice(&check.to_be_bytes());
        let kind: [u8; 2] = if self.v6 { [0x86, 0xdd] } else { [0x08, 0x00] };
        [&PEER[..], &MAC, &self.tag, &kind, &ip, &transport].concat()
    }

    /// Segments of at most `size` bytes, each built as a packet of its own: RFC 9293's sequence
    /// numbers, an IP id that counts up, FIN and PSH on the last, CWR on the first.
    pub fn segments(&self, size: usize) -> Vec<Vec<u8>> {
        let step = size - self.headers();
        let last = self.payload.len().div_ceil(step) - 1;
        let segment = |i: usize| {
            let end = self.payload.len().min((i + 1) * step);
            let mut flags = self.flags;
            if i < last {
                flags &= !0x01 & !0x08;
            }
            if i > 0 {
                flags &= !0x80;
            }
            let part = Spec {
                id: self.id.wrapping_add(i as u16),
                sequence: self.sequence.wrapping_add((i * step) as u32),
                flags,
                payload: self.payload[i * step..end].to_vec(),
                ..self.clone()
            };
            let mut frame = part.build();
            frame.resize(frame.len().max(60), 0);
            frame
        };
        (0..=last).map(segment).collect()
    }

    /// As a stack hands it over: sums in the header are garbage.
    pub fn unsummed(&self) -> Vec<u8> {
        let mut frame = self.build();
        let l3 = 14 + self.tag.len();
        let l4 = self.headers() - if self.udp { 8 } else { 20 + self.tcp_options.len() };
        if !self.v6 {
            frame[l3 + 10..l3 + 12].copy_from_slice(&[0x12, 0x34]);
        }
        let field = l4 + if self.udp { 6 } else { 16 };
        frame[field..field + 2].copy_from_slice(&[0x56, 0x78]);
        frame
    }
}

/// An Ethernet II frame of an EtherType nobody knows.
pub fn raw(to: [u8; 6], len: usize) -> Vec<u8> {
    let mut frame = [&to[..], &PEER, &[0x88, 0xb5]].concat();
    frame.extend((frame.len()..len).map(|i| i as u8));
    frame
}

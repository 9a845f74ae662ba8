//! `virtio_net_hdr`, the twelve bytes before every frame. [VIRTIO 5.1.6], all fields little-endian.

use crate::features::Features;
use core::num::NonZeroU16;
use trireme_nic::{Network, ReceiveChecksum, TransmitRequest, checksum};

/// Length of the header of a device that follows version 1.
pub const HEADER_LEN: usize = 12;

const NEEDS_CSUM: u8 = 1;
const DATA_VALID: u8 = 2;

const GSO_NONE: u8 = 0;
const GSO_TCPV4: u8 = 1;
const GSO_TCPV6: u8 = 4;
const GSO_ECN: u8 = 0x80;

/// TCP's congestion-window-reduced flag, RFC 3168, in the 14th byte of the header.
const TCP_CWR: u8 = 0x80;

/// The request does not fit the frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Mismatch;

/// Makes the header for `frame` and stores the pseudo-header's sum where the device wants it: in the
/// checksum field, with the whole transport length even if the frame is to be cut.
pub(crate) fn emit(
    frame: &mut [u8],
    request: &TransmitRequest,
    features: Features,
) -> Result<[u8; HEADER_LEN], Mismatch> {
    let mut header = [0; HEADER_LEN];
    if !request.transport_checksum && request.shape.segment.is_none() {
        return Ok(header);
    }
    let shape = &request.shape;
    let start = shape.transport_offset().ok_or(Mismatch)?;
    let field = shape.checksum_offset().ok_or(Mismatch)?;
    if field + 2 > frame.len() {
        return Err(Mismatch);
    }
    let sum = checksum::pseudo_header(frame, shape, frame.len() - start).ok_or(Mismatch)?;
    frame[field..field + 2].copy_from_slice(&sum.to_be_bytes());
    header[0] = NEEDS_CSUM;
    header[6..8].copy_from_slice(&(start as u16).to_le_bytes());
    header[8..10].copy_from_slice(&((field - start) as u16).to_le_bytes());
    if let Some(segment) = shape.segment {
        let header_len = shape.tcp_payload_offset().ok_or(Mismatch)?;
        if header_len >= frame.len() {
            return Err(Mismatch);
        }
        header[1] = match shape.network {
            Network::Ipv4 { .. } => GSO_TCPV4,
            _ => GSO_TCPV6,
        };
        // Without HOST_ECN the device repeats CWR in every segment; that only makes the peer
        // hear it more than once.
        if features.contains(Features::HOST_ECN) && frame[start + 13] & TCP_CWR != 0 {
            header[1] |= GSO_ECN;
        }
        header[2..4].copy_from_slice(&(header_len as u16).to_le_bytes());
        header[4..6].copy_from_slice(&segment.get().to_le_bytes());
    }
    Ok(header)
}

/// What a received frame's header says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Received {
    pub(crate) checksum: ReceiveChecksum,
    pub(crate) segment: Option<NonZeroU16>,
    /// Buffers the frame is spread over; as the device wrote it, even 0.
    pub(crate) buffers: u16,
}

/// Reads a header. Fields of features that were not negotiated are ignored, as the device
/// may not rely on them being understood.
#[inline]
pub(crate) fn parse(header: &[u8; HEADER_LEN], features: Features) -> Received {
    let word = |at: usize| u16::from_le_bytes([header[at], header[at + 1]]);
    let checksum = if !features.contains(Features::GUEST_CSUM) {
        ReceiveChecksum::Unverified
    } else if header[0] & NEEDS_CSUM != 0 {
        ReceiveChecksum::Partial
    } else if header[0] & DATA_VALID != 0 {
        // The device says nothing of the IPv4 header. [VIRTIO 5.1.6.4.2]
        ReceiveChecksum::Verified { ip: false, transport: true }
    } else {
        ReceiveChecksum::Unverified
    };
    let segment = match header[1] & !GSO_ECN {
        GSO_NONE => None,
        GSO_TCPV4 | GSO_TCPV6 => NonZeroU16::new(word(4)),
        _ => None,
    };
    Received { checksum, segment, buffers: word(10) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use trireme_nic::{FrameShape, Transport};

    /// IPv4 TCP, header of 24 bytes, 8 bytes of payload; addresses 10.0.0.1 and 10.0.0.2.
    fn frame() -> Vec<u8> {
        let mut frame = vec![0xa5; 14 + 20 + 24 + 8];
        frame[26..34].copy_from_slice(&[10, 0, 0, 1, 10, 0, 0, 2]);
        frame[14 + 20 + 13] = 0x10;
        frame[14 + 20 + 16..14 + 20 + 18].fill(0);
        frame
    }

    fn shape(segment: Option<u16>) -> FrameShape {
        FrameShape {
            len: frame().len(),
            link_len: 14,
            tagged: false,
            network: Network::Ipv4 { header_len: 20, fragment: false },
            transport: Transport::Tcp { header_len: 24 },
            segment: segment.and_then(NonZeroU16::new),
        }
    }

    #[test]
    fn plain_frame_has_an_empty_header_and_stays_as_it_is() {
        let mut bytes = frame();
        let request = TransmitRequest::plain(shape(None));
        assert_eq!(emit(&mut bytes, &request, Features::all()), Ok([0; 12]));
        assert_eq!(bytes, frame());
    }

    #[test]
    fn checksum_request_by_hand() {
        let mut bytes = frame();
        let request = TransmitRequest {
            shape: shape(None),
            network_checksum: false,
            transport_checksum: true,
            tag: None,
        };
        let header = emit(&mut bytes, &request, Features::all()).unwrap();
        assert_eq!(header, [1, 0, 0, 0, 0, 0, 34, 0, 16, 0, 0, 0]);
        // 0a00 + 0001 + 0a00 + 0002 + 0006 + 0020 (24 + 8 bytes of TCP) = 1429.
        assert_eq!(bytes[50..52], [0x14, 0x29]);
    }

    #[test]
    fn segmentation_request_by_hand_keeps_the_whole_length_in_the_sum() {
        let mut bytes = frame();
        let request = TransmitRequest {
            shape: shape(Some(0x0203)),
            network_checksum: false,
            transport_checksum: true,
            tag: None,
        };
        let header = emit(&mut bytes, &request, Features::all()).unwrap();
        assert_eq!(header, [1, 1, 58, 0, 0x03, 0x02, 34, 0, 16, 0, 0, 0]);
        assert_eq!(bytes[50..52], [0x14, 0x29]);
    }

    #[test]
    fn cwr_is_announced_only_if_the_device_knows_it() {
        let request = TransmitRequest {
            shape: shape(Some(4)),
            network_checksum: false,
            transport_checksum: true,
            tag: None,
        };
        let mut bytes = frame();
        bytes[47] |= TCP_CWR;
        assert_eq!(emit(&mut bytes, &request, Features::all()).unwrap()[1], 0x81);
        let without = Features::all() - Features::HOST_ECN;
        assert_eq!(emit(&mut bytes, &request, without).unwrap()[1], 1);
    }

    #[test]
    fn request_that_does_not_fit_is_refused() {
        let request = TransmitRequest {
            shape: shape(None),
            network_checksum: false,
            transport_checksum: true,
            tag: None,
        };
        assert_eq!(emit(&mut [0; 51], &request, Features::all()), Err(Mismatch));
        let mut other = request;
        other.shape.transport = Transport::Icmp;
        assert_eq!(emit(&mut frame(), &other, Features::all()), Err(Mismatch));
        let mut cut = request;
        cut.shape.segment = NonZeroU16::new(4);
        assert_eq!(emit(&mut frame()[..58], &cut, Features::all()), Err(Mismatch));
    }

    #[test]
    fn received_header_is_read_as_negotiated() {
        let header = [NEEDS_CSUM, GSO_TCPV6 | GSO_ECN, 0, 0, 0xb4, 5, 0, 0, 0, 0, 3, 0];
        let received = parse(&header, Features::all());
        assert_eq!(received.checksum, ReceiveChecksum::Partial);
        assert_eq!((received.segment, received.buffers), (NonZeroU16::new(1460), 3));
        let blind = parse(&header, Features::all() - Features::GUEST_CSUM);
        assert_eq!(blind.checksum, ReceiveChecksum::Unverified);
        let valid = parse(&[DATA_VALID, 0, 0, 0, 9, 9, 0, 0, 0, 0, 1, 0], Features::all());
        assert_eq!(valid.checksum, ReceiveChecksum::Verified { ip: false, transport: true });
        assert_eq!(valid.segment, None);
    }
}

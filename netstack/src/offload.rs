//! Makes true, frame by frame, what smoltcp is told once: that checksums are taken care of.
//!
//! smoltcp's capabilities are fixed when an interface is made, for all protocols, all sizes and for
//! ever. Cards are not like that: one sums frames up to 1000 bytes, one no fragments, one
//! nothing behind a VLAN tag, and features are switched at run time. So smoltcp is told that the
//! device does TCP and UDP sums in both directions and cuts large frames, and this module asks the
//! card about each frame, and does in software what the card will not:
//!
//! - [`verify`] judges a received frame by what the card said of it. A frame it passes has
//!   a good IPv4 header sum and, unless it is a fragment, good TCP and UDP sums. (ICMP sums are always
//!   smoltcp's: they are rare, and cards do not do them.)
//! - [`finish`] sends a frame smoltcp wrote with TCP and UDP sums zero.
//!
//! Fragments are nobody's here: a card sees only its own frame. Whoever cuts a datagram sums it first,
//! and whoever puts one together sums it then.

use crate::counters::Counters;
use crate::frame::{self, Headers};
use crate::gso::{self, Segmentation};
use core::fmt;
use core::num::NonZeroU16;
use trireme_nic::checksum;
use trireme_nic::{Buffer, FrameShape, Network, Nic, ReceiveChecksum, TransmitRequest, Transport};

/// Why a received frame was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BadChecksum {
    /// IPv4 header sum.
    Ipv4Header,
    /// TCP sum.
    Tcp,
    /// UDP sum.
    Udp,
    /// UDP over IPv6 without a sum, which RFC 8200, 8.1 says to discard.
    UdpMissing,
}

impl fmt::Display for BadChecksum {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            BadChecksum::Ipv4Header => "wrong IPv4 header checksum",
            BadChecksum::Tcp => "wrong TCP checksum",
            BadChecksum::Udp => "wrong UDP checksum",
            BadChecksum::UdpMissing => "UDP over IPv6 without a checksum",
        })
    }
}

/// Judges a received frame's checksums. `frame` is all the card delivered, padding included;
/// `headers` were parsed from it.
pub fn verify(
    frame: &[u8],
    headers: &Headers,
    said: ReceiveChecksum,
    counters: &mut Counters,
) -> Result<(), BadChecksum> {
    let verdict = judge(frame, headers, said, counters);
    match verdict {
        Ok(()) => {}
        Err(BadChecksum::Ipv4Header) => counters.rx_csum_bad_ip += 1,
        Err(BadChecksum::Tcp) => counters.rx_csum_bad_tcp += 1,
        Err(BadChecksum::Udp) => counters.rx_csum_bad_udp += 1,
        Err(BadChecksum::UdpMissing) => counters.rx_csum_missing += 1,
    }
    verdict
}

fn judge(
    frame: &[u8],
    headers: &Headers,
    said: ReceiveChecksum,
    counters: &mut Counters,
) -> Result<(), BadChecksum> {
    let shape = &headers.shape;
    let start = headers.transport_offset();
    if matches!(shape.network, Network::Ipv4 { .. })
        && !matches!(said, ReceiveChecksum::Verified { ip: true, .. })
        && sum_of_header(&frame[usize::from(shape.link_len)..start]) != 0xffff
    {
        return Err(BadChecksum::Ipv4Header);
    }
    let bad = match shape.transport {
        Transport::Tcp { .. } => BadChecksum::Tcp,
        Transport::Udp => BadChecksum::Udp,
        Transport::Icmp | Transport::Other => {
            counters.rx_csum_none += 1;
            return Ok(());
        }
    };
    if headers.is_fragment() {
        counters.rx_csum_none += 1;
        return Ok(());
    }
    if bad == BadChecksum::Udp && frame[start + 6..start + 8] == [0, 0] {
        if matches!(shape.network, Network::Ipv6 { .. }) {
            return Err(BadChecksum::UdpMissing);
        }
        counters.rx_csum_absent += 1;
        return Ok(());
    }
    match said {
        ReceiveChecksum::Verified { transport: true, .. } => {
            counters.rx_csum_hw += 1;
            return Ok(());
        }
        ReceiveChecksum::Partial => {
            counters.rx_csum_partial += 1;
            return Ok(());
        }
        ReceiveChecksum::Complete(sum) if settles(frame, headers, sum) => {
            counters.rx_csum_complete += 1;
            return Ok(());
        }
        _ => {}
    }
    let packet = &frame[start..start + headers.transport_len];
    counters.rx_csum_sw += 1;
    counters.rx_csum_sw_bytes += packet.len() as u64;
    let pseudo = checksum::pseudo_header(frame, shape, packet.len()).ok_or(bad)?;
    if checksum::add(pseudo, checksum::sum(packet)) != 0xffff {
        return Err(bad);
    }
    if matches!(said, ReceiveChecksum::Bad | ReceiveChecksum::Complete(_)) {
        counters.rx_csum_card_wrong += 1;
    }
    Ok(())
}

/// Sum of an IPv4 header, which hardly ever has options.
#[inline]
fn sum_of_header(header: &[u8]) -> u16 {
    match <&[u8; 20]>::try_from(header) {
        Ok(plain) => checksum::sum_fixed(plain),
        Err(_) => checksum::sum(header),
    }
}

/// Does the card's sum over everything after the first 14 bytes prove the transport sum right?
/// What is not the transport packet (tags, IP headers, trailing bytes) is taken out of it.
fn settles(frame: &[u8], headers: &Headers, sum: u16) -> bool {
    let start = headers.transport_offset();
    let end = start + headers.transport_len;
    let mut behind = checksum::sum(&frame[end..]);
    if !(end - 14).is_multiple_of(2) {
        // The card's 16-bit words straddle the end: high and low bytes are exchanged
        // (RFC 1071, 2 B).
        behind = behind.swap_bytes();
    }
    let before = checksum::sum(&frame[14..start]);
    let packet = checksum::subtract(checksum::subtract(sum, before), behind);
    match checksum::pseudo_header(frame, &headers.shape, headers.transport_len) {
        // Zero has two spellings in ones' complement, and subtraction can give either.
        Some(pseudo) => matches!(checksum::add(pseudo, packet), 0 | 0xffff),
        None => false,
    }
}

/// A large frame the card declined and the ring had no room for all segments of.
#[derive(Debug)]
#[must_use = "the rest of the frame is still to be sent"]
pub struct Unfinished {
    buffer: Buffer,
    segmentation: Segmentation,
}

impl Unfinished {
    /// Goes on after the ring has drained a little.
    pub fn resume(mut self, nic: &mut dyn Nic, counters: &mut Counters) -> Option<Unfinished> {
        if self.segmentation.run(nic, &self.buffer, counters) {
            nic.transmit_cancel(self.buffer);
            return None;
        }
        Some(self)
    }
}

/// Sends one frame that smoltcp wrote with TCP and UDP sums zero: the window of a buffer lent by
/// [`Nic::transmit_buffer`]. With `segment`, a TCP frame with more payload than that is cut, by
/// the card if it will, else in software. Does not ring the doorbell.
pub fn finish(
    nic: &mut dyn Nic,
    buffer: Buffer,
    segment: Option<NonZeroU16>,
    counters: &mut Counters,
) -> Option<Unfinished> {
    let Ok(headers) = frame::parse(&buffer) else {
        counters.tx_dropped_malformed += 1;
        nic.transmit_cancel(buffer);
        return None;
    };
    if let Some(segment) = segment
        && headers.tcp_payload_len() > usize::from(segment.get())
    {
        return finish_large(nic, buffer, &headers, segment, counters);
    }
    let shape = FrameShape { len: buffer.len(), ..headers.shape };
    finish_known(nic, buffer, shape, headers.transport_len, counters);
    None
}

/// The same for a frame whose shape the writer knows and that is not to be cut. `transport_len`:
/// bytes from the transport header on.
#[inline]
pub fn finish_known(
    nic: &mut dyn Nic,
    mut buffer: Buffer,
    shape: FrameShape,
    transport_len: usize,
    counters: &mut Counters,
) {
    let ability = nic.transmit_ability(&shape);
    let mut request = TransmitRequest::plain(shape);
    let start = shape.transport_offset().unwrap_or(shape.len);
    let fragment = match shape.network {
        Network::Ipv4 { fragment, .. } | Network::Ipv6 { fragment, .. } => fragment,
        Network::Other => false,
    };

    if let Network::Ipv4 { .. } = shape.network {
        let header = &mut buffer[usize::from(shape.link_len)..start];
        if header[10..12] == [0, 0] {
            if ability.network_checksum {
                request.network_checksum = true;
                counters.tx_csum_ip_hw += 1;
            } else {
                let sum = !checksum::sum(header);
                header[10..12].copy_from_slice(&sum.to_be_bytes());
                counters.tx_csum_ip_sw += 1;
            }
        }
    }
    match shape.checksum_offset() {
        Some(field) if !fragment => {
            buffer[field..field + 2].fill(0);
            if ability.transport_checksum {
                request.transport_checksum = true;
                counters.tx_csum_hw += 1;
                counters.tx_csum_hw_bytes += shape.len as u64;
            } else {
                fill_transport(&mut buffer, &shape, start, transport_len, field);
                counters.tx_csum_sw += 1;
                counters.tx_csum_sw_bytes += transport_len as u64;
            }
        }
        _ => counters.tx_csum_none += 1,
    }
    nic.transmit(buffer, &request);
}

fn fill_transport(frame: &mut [u8], shape: &FrameShape, start: usize, len: usize, field: usize) {
    let packet = checksum::sum(&frame[start..start + len]);
    let pseudo = checksum::pseudo_header(frame, shape, len).unwrap_or(0);
    let mut sum = !checksum::add(pseudo, packet);
    if sum == 0 && shape.transport == Transport::Udp {
        // Zero means "no checksum" there (RFC 768).
        sum = 0xffff;
    }
    frame[field..field + 2].copy_from_slice(&sum.to_be_bytes());
}

fn finish_large(
    nic: &mut dyn Nic,
    mut buffer: Buffer,
    headers: &Headers,
    segment: NonZeroU16,
    counters: &mut Counters,
) -> Option<Unfinished> {
    let shape = FrameShape { len: buffer.len(), segment: Some(segment), ..headers.shape };
    let ability = nic.transmit_ability(&shape);
    if ability.segment
        && let Some(field) = shape.checksum_offset()
    {
        buffer[field..field + 2].fill(0);
        counters.tx_tso_frames += 1;
        counters.tx_tso_bytes += shape.len as u64;
        counters.tx_tso_segments +=
            headers.tcp_payload_len().div_ceil(usize::from(segment.get())) as u64;
        // The card makes both sums of every segment: that is what segmenting means.
        let network_checksum = ability.network_checksum;
        nic.transmit(
            buffer,
            &TransmitRequest { shape, network_checksum, transport_checksum: true, tag: None },
        );
        return None;
    }
    match Segmentation::new(&buffer, headers, segment) {
        Ok(segmentation) => {
            counters.tx_gso_frames += 1;
            Unfinished { buffer, segmentation }.resume(nic, counters)
        }
        Err(gso::NotSegmentable) => {
            counters.tx_dropped_malformed += 1;
            nic.transmit_cancel(buffer);
            None
        }
    }
}

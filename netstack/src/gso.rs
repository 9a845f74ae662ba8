//! Generic segmentation offload: cuts a TCP frame larger than the MTU into the segments the wire can
//! carry, for cards that do not, or not this one.
//!
//! It costs one copy of the payload, from the large frame to the card's buffers, and a few dozen
//! instructions per segment: whatever the segments have in common is summed once
//! ([`Segmentation::new`]), and each sum then made from that, the fields that differ and, only if
//! the card does not sum, the segment's payload. That is much less than the stack would spend on
//! making the segments one by one.
//!
//! What differs between segments is what segmenting cards do, so that turning the feature on and
//! off cannot be seen on the wire: IPv4 ids count up, sequence numbers move on, FIN and PSH are on
//! the last segment only, and CWR on the first only (RFC 3168, 6.1.2: once per window).
//!
//! A full transmit ring interrupts the work; [`Segmentation::run`] goes on where it stopped.

use crate::counters::Counters;
use crate::frame::{Headers, tcp_flags};
use core::num::NonZeroU16;
use trireme_nic::{FrameShape, Network, Nic, TransmitRequest, checksum};

/// The frame cannot be cut: it is not a whole TCP segment, or opens or aborts a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NotSegmentable;

/// A cut in progress. The large frame itself stays with the caller and must not change.
#[derive(Clone, Copy, Debug)]
pub struct Segmentation {
    /// Of the large frame; `len` and `segment` are set anew for each segment.
    shape: FrameShape,
    transport_offset: usize,
    payload_offset: usize,
    /// End of the payload.
    end: usize,
    /// Payload bytes in each segment but the last.
    segment: usize,
    /// Next payload byte to send. Invariant: `payload_offset <= next <= end`.
    next: usize,
    /// Of the next segment.
    id: u16,
    /// Of the next segment.
    sequence: u32,
    flags: u8,
    /// Sum of the IPv4 header without total length, id and sum.
    network_sum: u16,
    /// Sum of the pseudo-header without length, and of the TCP header without sequence number, flags
    /// and sum.
    transport_sum: u16,
}

impl Segmentation {
    /// Prepares to cut the frame these headers were parsed from into segments of `segment` payload
    /// bytes.
    pub fn new(
        frame: &[u8],
        headers: &Headers,
        segment: NonZeroU16,
    ) -> Result<Segmentation, NotSegmentable> {
        let shape = headers.shape;
        let tcp = headers.tcp.ok_or(NotSegmentable)?;
        let payload_offset = shape.tcp_payload_offset().ok_or(NotSegmentable)?;
        if headers.is_fragment() || tcp.flags & (tcp_flags::SYN | tcp_flags::RST) != 0 {
            return Err(NotSegmentable);
        }
        let transport_offset = headers.transport_offset();
        let end = transport_offset + headers.transport_len;
        let mut header = [0u8; 60];
        let network = usize::from(shape.link_len);
        let (network_sum, id) = match shape.network {
            Network::Ipv4 { header_len, .. } => {
                let header = &mut header[..usize::from(header_len)];
                header.copy_from_slice(&frame[network..transport_offset]);
                let id = u16::from_be_bytes([header[4], header[5]]);
                for at in [2, 4, 10] {
                    header[at..at + 2].fill(0);
                }
                (checksum::sum(header), id)
            }
            _ => (0, 0),
        };
        let header = &mut header[..payload_offset - transport_offset];
        header.copy_from_slice(&frame[transport_offset..payload_offset]);
        header[4..8].fill(0);
        header[13] = 0;
        header[16..18].fill(0);
        let pseudo = checksum::pseudo_header(frame, &shape, 0).ok_or(NotSegmentable)?;
        Ok(Segmentation {
            shape,
            transport_offset,
            payload_offset,
            end,
            segment: usize::from(segment.get()),
            next: payload_offset,
            id,
            sequence: tcp.sequence,
            flags: tcp.flags,
            network_sum,
            transport_sum: checksum::add(pseudo, checksum::sum(header)),
        })
    }

    /// Segments still to be sent.
    pub fn remaining(&self) -> usize {
        (self.end - self.next).div_ceil(self.segment)
    }

    /// Queues segments until all are (true) or the ring is full (false; call again after
    /// the next [`Nic::service`]). `frame` is the frame given to [`new`](Self::new).
    pub fn run(&mut self, nic: &mut dyn Nic, frame: &[u8], counters: &mut Counters) -> bool {
        // All segments but the last are alike: the card is asked once for them.
        let len = self.payload_offset + self.segment;
        let full = FrameShape { len, segment: None, ..self.shape };
        let sums_full = nic.transmit_ability(&full).transport_checksum;
        while self.next < self.end {
            if !self.send_next(nic, frame, sums_full, counters) {
                counters.tx_gso_waits += 1;
                return false;
            }
        }
        true
    }

    /// `sums_full`: the card sums segments of full size.
    fn send_next(
        &mut self,
        nic: &mut dyn Nic,
        frame: &[u8],
        sums_full: bool,
        counters: &mut Counters,
    ) -> bool {
        let size = self.segment.min(self.end - self.next);
        let last = self.next + size == self.end;
        let len = self.payload_offset + size;
        let Some(mut buffer) = nic.transmit_buffer(len) else {
            return false;
        };
        let payload = &frame[self.next..self.next + size];
        let (header, room) = buffer.split_at_mut(self.payload_offset);
        header.copy_from_slice(&frame[..self.payload_offset]);
        room.copy_from_slice(payload);

        self.network_header(&mut header[usize::from(self.shape.link_len)..], len);
        let mut flags = self.flags;
        if !last {
            flags &= !(tcp_flags::FIN | tcp_flags::PSH);
        }
        if self.next != self.payload_offset {
            flags &= !tcp_flags::CWR;
        }
        let tcp = &mut header[self.transport_offset..];
        tcp[4..8].copy_from_slice(&self.sequence.to_be_bytes());
        tcp[13] = flags;
        tcp[16..18].fill(0);

        let shape = FrameShape { len, segment: None, ..self.shape };
        let mut request = TransmitRequest::plain(shape);
        let card_sums = match size == self.segment {
            true => sums_full,
            false => nic.transmit_ability(&shape).transport_checksum,
        };
        if card_sums {
            request.transport_checksum = true;
            counters.tx_csum_hw += 1;
            counters.tx_csum_hw_bytes += len as u64;
        } else {
            let transport_len = len - self.transport_offset;
            let differing = u64::from(self.sequence >> 16)
                + u64::from(self.sequence & 0xffff)
                + u64::from(flags)
                + transport_len as u64
                + u64::from(checksum::sum(payload));
            let sum = checksum::fold(u64::from(self.transport_sum) + differing);
            tcp[16..18].copy_from_slice(&(!sum).to_be_bytes());
            counters.tx_csum_sw += 1;
            counters.tx_csum_sw_bytes += size as u64;
        }
        nic.transmit(buffer, &request);

        counters.tx_gso_segments += 1;
        counters.tx_gso_bytes += size as u64;
        self.next += size;
        self.sequence = self.sequence.wrapping_add(size as u32);
        self.id = self.id.wrapping_add(1);
        true
    }

    /// Lengths, id and header sum of the IP header of a segment whose frame has `len` bytes.
    fn network_header(&self, ip: &mut [u8], len: usize) {
        let len = len - usize::from(self.shape.link_len);
        match self.shape.network {
            Network::Ipv4 { .. } => {
                ip[2..4].copy_from_slice(&(len as u16).to_be_bytes());
                ip[4..6].copy_from_slice(&self.id.to_be_bytes());
                let sum = u64::from(self.network_sum) + len as u64 + u64::from(self.id);
                ip[10..12].copy_from_slice(&(!checksum::fold(sum)).to_be_bytes());
            }
            Network::Ipv6 { .. } => {
                ip[4..6].copy_from_slice(&((len - 40) as u16).to_be_bytes());
            }
            Network::Other => {}
        }
    }
}

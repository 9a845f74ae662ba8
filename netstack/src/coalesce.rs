//! Large IPv6 TCP frames from a stack that does not make them.
//!
//! smoltcp 0.14 loses IPv6 frames larger than the MTU (`dispatch_ip` compares them with the MTU and
//! never passes the segment size on), so it is told that only IPv4 is segmented, and writes IPv6 data
//! one segment after the other. [`Coalescer`] lets it write each segment *behind* the one before:
//! the packet is placed so that its payload lands where the last payload ends, and the few bytes
//! its headers cover for the moment are kept aside and put back. No payload byte is moved.
//! When the next packet does not continue the last, or there is no more, the batch is one
//! frame for the card to cut. The card and whatever is behind it
//! gain as much as from a frame that was born large; smoltcp still works per segment.
//!
//! A packet continues a batch if its headers are equal to the first's in all but length, sequence
//! number, checksum, PSH and FIN, and the sequence number is the next. A short segment, PSH or FIN
//! ends the batch. The caller ends it after each flow's turn: two flows never share the time.

use crate::counters::Counters;
use crate::frame::{self, Headers, tcp_flags};
use crate::offload::{self, Unfinished};
use core::num::NonZeroU16;
use trireme_nic::{Buffer, Feature, FrameShape, Network, Nic};

/// Length of the Ethernet header in front of each packet.
pub const LINK_LEN: usize = 14;
/// IPv6 header and the longest TCP header.
const MAX_HEADERS: usize = 40 + 60;
/// Shorter segments are not worth a large buffer.
const MIN_SEGMENT: usize = 512;
/// IPv6's payload length has 16 bits.
const MAX_FRAME: usize = LINK_LEN + 40 + 0xffff;

/// Segments written so far that may yet be continued.
#[derive(Debug)]
struct Batch {
    buffer: Buffer,
    /// Of the first segment.
    headers: Headers,
    /// Offset of the payload.
    payload_offset: usize,
    /// End of the payload so far.
    end: usize,
    segment: NonZeroU16,
    segments: u64,
    /// Where the bytes under the next packet's headers are kept.
    saved: [u8; MAX_HEADERS],
}

/// Merges consecutive IPv6 TCP segments of one flow into a frame for the card to cut.
#[derive(Debug, Default)]
pub struct Coalescer {
    batch: Option<Batch>,
}

impl Coalescer {
    /// Nothing open.
    pub const fn new() -> Coalescer {
        Coalescer { batch: None }
    }

    /// Is a packet of `len` bytes (IPv6 header included) worth offering to [`start`](Self::start)?
    pub fn wants(nic: &dyn Nic, len: usize) -> bool {
        len >= MIN_SEGMENT
            && nic.feature(Feature::Tcp6Segmentation).on
            && nic.max_segmented_frame().is_some_and(|max| max >= 2 * (LINK_LEN + len))
    }

    /// Length of buffer to borrow for a batch.
    pub fn buffer_len(nic: &dyn Nic) -> usize {
        nic.max_segmented_frame().unwrap_or(0).min(MAX_FRAME)
    }

    /// True if a batch is open.
    pub fn is_open(&self) -> bool {
        self.batch.is_some()
    }

    /// Takes a frame of `len` bytes at the start of a buffer of [`buffer_len`](Self::buffer_len)
    /// bytes; no batch may be open. Keeps it if the next segment might continue it, else sends it.
    pub fn start(
        &mut self,
        nic: &mut dyn Nic,
        mut buffer: Buffer,
        len: usize,
        counters: &mut Counters,
    ) -> Option<Unfinished> {
        debug_assert!(self.batch.is_none());
        if let Some((headers, segment)) = continuable(nic, &buffer, len) {
            let payload_offset = len - headers.tcp_payload_len();
            self.batch = Some(Batch {
                buffer,
                headers,
                payload_offset,
                end: len,
                segment,
                segments: 1,
                saved: [0; MAX_HEADERS],
            });
            return None;
        }
        let start = buffer.window().start;
        buffer.set_window(start..start + len);
        offload::finish(nic, buffer, None, counters)
    }

    /// Where to write the next IP packet of `len` bytes so that it continues the open batch; `None`
    /// if there is no batch or no room. After writing, call [`written`](Self::written).
    pub fn place(&mut self, len: usize) -> Option<&mut [u8]> {
        let batch = self.batch.as_mut()?;
        let headers = batch.payload_offset - LINK_LEN;
        let start = batch.end - headers;
        if len <= headers || start + len > batch.buffer.len() {
            return None;
        }
        batch.saved[..headers].copy_from_slice(&batch.buffer[start..batch.end]);
        Some(&mut batch.buffer[start..start + len])
    }

    /// Judges the packet of `len` bytes written at [`place`](Self::place).
    pub fn written(&mut self, nic: &mut dyn Nic, len: usize, counters: &mut Counters) -> Written {
        let Some(batch) = self.batch.as_mut() else {
            return Written::Refused(None);
        };
        let headers = batch.payload_offset - LINK_LEN;
        let start = batch.end - headers;
        let packet = &batch.buffer[start..start + len];
        let flags = batch.continued_by(packet);
        let rescued = match flags {
            Some(_) => None,
            None => {
                let lent = nic.transmit_buffer(LINK_LEN + len);
                if lent.is_none() {
                    counters.tx_dropped_no_buffer += 1;
                }
                lent.map(|mut buffer| {
                    buffer[..LINK_LEN].copy_from_slice(&batch.buffer[..LINK_LEN]);
                    buffer[LINK_LEN..].copy_from_slice(packet);
                    buffer
                })
            }
        };
        batch.buffer[start..start + headers].copy_from_slice(&batch.saved[..headers]);
        let Some(flags) = flags else {
            return Written::Refused(rescued);
        };
        let payload = len - headers;
        batch.end += payload;
        batch.segments += 1;
        let flags_at = batch.headers.transport_offset() + 13;
        batch.buffer[flags_at] |= flags;
        match flags != 0 || payload < usize::from(batch.segment.get()) {
            true => Written::Last,
            false => Written::Merged,
        }
    }

    /// Sends the open batch, if there is one.
    pub fn flush(&mut self, nic: &mut dyn Nic, counters: &mut Counters) -> Option<Unfinished> {
        let mut batch = self.batch.take()?;
        let payload_len = batch.end - LINK_LEN - 40;
        batch.buffer[LINK_LEN + 4..LINK_LEN + 6]
            .copy_from_slice(&(payload_len as u16).to_be_bytes());
        let start = batch.buffer.window().start;
        batch.buffer.set_window(start..start + batch.end);
        if batch.segments == 1 {
            return offload::finish(nic, batch.buffer, None, counters);
        }
        counters.tx_coalesced += batch.segments;
        offload::finish(nic, batch.buffer, Some(batch.segment), counters)
    }
}

/// What became of a packet.
#[derive(Debug)]
pub enum Written {
    /// Part of the batch.
    Merged,
    /// Part of the batch, and the last one: flush.
    Last,
    /// Not part of it: flush, then send this frame. `None` if no buffer could be borrowed for it:
    /// it is lost.
    Refused(Option<Buffer>),
}

impl Batch {
    /// Does this packet continue the batch? Then its PSH and FIN flags.
    fn continued_by(&self, packet: &[u8]) -> Option<u8> {
        let tcp = self.headers.tcp?;
        let headers = self.payload_offset - LINK_LEN;
        let first = self.buffer.get(LINK_LEN..self.payload_offset)?;
        let next = packet.get(..headers)?;
        let payload = packet.len() - headers;
        let payload_len = u16::from_be_bytes([next[4], next[5]]);
        if payload == 0
            || payload > usize::from(self.segment.get())
            || usize::from(payload_len) != packet.len() - 40
        {
            return None;
        }
        let sequence = tcp.sequence.wrapping_add((self.end - self.payload_offset) as u32);
        let may_differ = tcp_flags::PSH | tcp_flags::FIN;
        let equal = first[..4] == next[..4]
            && first[6..44] == next[6..44]
            && next[44..48] == sequence.to_be_bytes()
            && first[48..53] == next[48..53]
            && next[53] & !may_differ == first[53]
            && first[54..56] == next[54..56]
            && first[58..] == next[58..];
        equal.then_some(next[53] & may_differ)
    }
}

/// Can the frame in the first `len` bytes be the first of a batch? Only a plain data segment without
/// extension headers can, and only if the card would cut the longest batch.
fn continuable(nic: &dyn Nic, buffer: &Buffer, len: usize) -> Option<(Headers, NonZeroU16)> {
    let headers = frame::parse(buffer.get(..len)?).ok()?;
    let plain = matches!(headers.shape.network, Network::Ipv6 { header_len: 40, .. })
        && usize::from(headers.shape.link_len) == LINK_LEN
        && headers.shape.len == len
        && headers.tcp.is_some_and(|tcp| tcp.flags == tcp_flags::ACK)
        && headers.tcp_payload_len() >= MIN_SEGMENT;
    let segment = NonZeroU16::new(headers.tcp_payload_len() as u16).filter(|_| plain)?;
    let shape = FrameShape { len: buffer.len(), segment: Some(segment), ..headers.shape };
    nic.transmit_ability(&shape).segment.then_some((headers, segment))
}

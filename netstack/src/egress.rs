//! The transmit side of one card: takes frames from smoltcp and leaves them in the card's ring.
//!
//! [`Egress::send`] is what a transmit token's `consume` comes down to. smoltcp writes each frame where
//! the card will read it, unless the frame is to be cut in software: then it is written to one
//! scratch buffer and cut from there. Work that a full ring interrupted is kept, and
//! [`Egress::ready`] is false until it is done, so frames stay in order and nothing piles up.

use crate::counters::Counters;
use crate::frame;
use crate::gso::Segmentation;
use crate::offload::{self, Unfinished};
use alloc::vec::Vec;
use core::num::NonZeroU16;
use trireme_nic::{Buffer, Feature, FrameShape, Network, Nic, TransmitRequest, Transport};

/// Length of an Ethernet header without tags.
pub const LINK_LEN: usize = 14;
/// Largest frame smoltcp is asked for: 64 KiB of IP packet, less one byte, in Ethernet.
pub const MAX_SUPER_FRAME: usize = LINK_LEN + 0xffff;

/// The transmit side of one card.
#[derive(Debug, Default)]
pub struct Egress {
    /// What was done to frames, both ways: the receive side counts here too.
    pub counters: Counters,
    /// Where frames to be cut in software are written, grown on first use.
    scratch: Vec<u8>,
    cut: Option<Segmentation>,
    unfinished: Option<Unfinished>,
    /// Borrowed ahead, so that a large frame is never begun without room for it.
    large: Option<Buffer>,
    /// Going on with interrupted work has queued frames, and nobody else knows.
    resumed: bool,
}

impl Egress {
    /// An idle transmit side.
    pub fn new() -> Egress {
        Egress::default()
    }

    /// Goes on with interrupted work. True if a frame may be sent now: all earlier ones are in the
    /// ring, and `reserve` frames will still fit behind the next.
    pub fn ready(&mut self, nic: &mut dyn Nic, reserve: usize) -> bool {
        self.resumed |= self.cut.is_some() || self.unfinished.is_some();
        if let Some(cut) = &mut self.cut {
            if !cut.run(nic, &self.scratch, &mut self.counters) {
                return false;
            }
            self.cut = None;
        }
        if let Some(unfinished) = self.unfinished.take() {
            self.unfinished = unfinished.resume(nic, &mut self.counters);
        }
        self.unfinished.is_none() && nic.transmit_room() > reserve
    }

    /// Were frames queued by going on with interrupted work since the last call? The doorbell is to be rung for them.
    #[inline]
    pub fn take_resumed(&mut self) -> bool {
        core::mem::take(&mut self.resumed)
    }

    /// As [`ready`](Self::ready), for a frame that may be large and that the card is to cut: cards have few
    /// buffers for those, and waiting for one is better than cutting in software meanwhile.
    pub fn ready_large(&mut self, nic: &mut dyn Nic, reserve: usize) -> bool {
        if !self.ready(nic, reserve) {
            return false;
        }
        if self.large.is_none() {
            let len = nic.max_segmented_frame().unwrap_or(0).min(MAX_SUPER_FRAME);
            self.large = nic.transmit_buffer(len);
        }
        self.large.is_some()
    }

    /// Gives back what was borrowed ahead: others share the card and its few large buffers.
    pub fn give_back(&mut self, nic: &mut dyn Nic) {
        if let Some(buffer) = self.large.take() {
            nic.transmit_cancel(buffer);
        }
    }

    /// Sends what `write` writes. With `link`, `write` is given room for an IP packet of `len` bytes,
    /// and the Ethernet header is put in front; without, for a frame of `len` bytes. With
    /// `segment`, TCP payload is cut into pieces of that size.
    ///
    /// Call only while [`ready`](Self::ready): otherwise the frame is lost, and counted.
    pub fn send<R>(
        &mut self,
        nic: &mut dyn Nic,
        link: Option<&[u8; LINK_LEN]>,
        len: usize,
        segment: Option<NonZeroU16>,
        write: impl FnOnce(&mut [u8]) -> R,
    ) -> R {
        let frame_len = len + link.map_or(0, |link| link.len());
        if let Some(segment) = segment {
            return self.send_large(nic, link, frame_len, segment, write);
        }
        let Some(mut buffer) = nic.transmit_buffer(frame_len) else {
            return self.lose(frame_len, write);
        };
        let result = write(with_link(&mut buffer, link));
        self.finish(nic, buffer, None);
        result
    }

    /// Sends a frame that is not IP and of which the card is to say when it leaves. `None`: it cannot, or
    /// its ring is full.
    pub fn send_timed(
        &mut self,
        nic: &mut dyn Nic,
        link: &[u8; LINK_LEN],
        payload: &[u8],
    ) -> Option<u32> {
        let len = LINK_LEN + payload.len();
        let mut buffer = nic.transmit_buffer(len)?;
        with_link(&mut buffer, Some(link)).copy_from_slice(payload);
        let shape = FrameShape {
            len,
            link_len: LINK_LEN as u8,
            tagged: false,
            network: Network::Other,
            transport: Transport::Other,
            segment: None,
        };
        self.counters.tx_csum_none += 1;
        match nic.ptp() {
            Some(clock) => Some(clock.transmit_timed(buffer, &TransmitRequest::plain(shape))),
            None => {
                nic.transmit_cancel(buffer);
                None
            }
        }
    }

    /// Sends a TCP or UDP packet without IP options or extension headers and not to be cut, of `len`
    /// bytes from the IP header on: its shape is known without taking it apart again.
    #[inline]
    pub fn send_plain<R>(
        &mut self,
        nic: &mut dyn Nic,
        link: &[u8; LINK_LEN],
        len: usize,
        tcp: bool,
        write: impl FnOnce(&mut [u8]) -> R,
    ) -> R {
        let frame_len = LINK_LEN + len;
        let Some(mut buffer) = nic.transmit_buffer(frame_len) else {
            return self.lose(frame_len, write);
        };
        let result = write(with_link(&mut buffer, Some(link)));
        let (ip_len, network) = if link[12..] == frame::ethertype::IPV4.to_be_bytes() {
            (20, Network::Ipv4 { header_len: 20, fragment: false })
        } else {
            (40, Network::Ipv6 { header_len: 40, extension_headers: false, fragment: false })
        };
        let transport = match buffer.get(LINK_LEN + ip_len + 12) {
            Some(offset) if tcp => Transport::Tcp { header_len: (offset >> 4) * 4 },
            _ => Transport::Udp,
        };
        let link_len = LINK_LEN as u8;
        let shape = FrameShape {
            len: frame_len,
            link_len,
            tagged: false,
            network,
            transport,
            segment: None,
        };
        offload::finish_known(nic, buffer, shape, len - ip_len, &mut self.counters);
        result
    }

    fn send_large<R>(
        &mut self,
        nic: &mut dyn Nic,
        link: Option<&[u8; LINK_LEN]>,
        frame_len: usize,
        segment: NonZeroU16,
        write: impl FnOnce(&mut [u8]) -> R,
    ) -> R {
        if self.cut.is_some() || self.unfinished.is_some() {
            return self.lose(frame_len, write);
        }
        // The EtherType is smoltcp's to write where there is no `link`; that is never TCP.
        let feature = match link {
            Some(link) if link[12..] == frame::ethertype::IPV6.to_be_bytes() => {
                Feature::Tcp6Segmentation
            }
            _ => Feature::TcpSegmentationOffload,
        };
        if nic.feature(feature).on
            && let Some(mut buffer) = self.large_buffer(nic, frame_len)
        {
            let result = write(with_link(&mut buffer, link));
            self.finish(nic, buffer, Some(segment));
            return result;
        }
        if self.scratch.len() < frame_len {
            self.scratch.resize(MAX_SUPER_FRAME.max(frame_len), 0);
        }
        let frame = &mut self.scratch[..frame_len];
        let result = write(with_link(frame, link));
        let cut = frame::parse(frame)
            .ok()
            .and_then(|headers| Segmentation::new(frame, &headers, segment).ok());
        match cut {
            Some(mut cut) => {
                self.counters.tx_gso_frames += 1;
                if !cut.run(nic, &self.scratch, &mut self.counters) {
                    self.cut = Some(cut);
                }
            }
            None => self.counters.tx_dropped_malformed += 1,
        }
        result
    }

    /// A buffer for a large frame: the one borrowed ahead, or another.
    fn large_buffer(&mut self, nic: &mut dyn Nic, frame_len: usize) -> Option<Buffer> {
        if nic.max_segmented_frame().is_none_or(|max| max < frame_len) {
            return None;
        }
        let mut buffer = match self.large.take() {
            Some(buffer) => buffer,
            None => nic.transmit_buffer(frame_len)?,
        };
        let start = buffer.window().start;
        buffer.set_window(start..start + frame_len);
        Some(buffer)
    }

    fn finish(&mut self, nic: &mut dyn Nic, buffer: Buffer, segment: Option<NonZeroU16>) {
        if let Some(rest) = offload::finish(nic, buffer, segment, &mut self.counters) {
            self.unfinished = Some(rest);
        }
    }

    /// smoltcp must be let write in any case.
    fn lose<R>(&mut self, frame_len: usize, write: impl FnOnce(&mut [u8]) -> R) -> R {
        self.counters.tx_dropped_no_buffer += 1;
        write(&mut alloc::vec![0; frame_len])
    }
}

/// Puts the Ethernet header, if it is ours to write, in front of a frame; returns the rest.
fn with_link<'a>(frame: &'a mut [u8], link: Option<&[u8; LINK_LEN]>) -> &'a mut [u8] {
    match link {
        Some(link) => {
            let (front, packet) = frame.split_at_mut(LINK_LEN);
            front.copy_from_slice(link);
            packet
        }
        None => frame,
    }
}

//! The loopback card: what is transmitted is received.
//!
//! It is a [`Nic`] like any other, so 127.0.0.1 takes the same path as everything else, frames of
//! 64 KiB included. Nothing on it is summed, as on Linux's `lo`.

use alloc::boxed::Box;
use alloc::collections::VecDeque;
use alloc::vec;
use alloc::vec::Vec;
use core::ptr::NonNull;
use trireme_nic::{
    Allocation, Buffer, DriverInfo, Feature, FeatureError, FeatureState, FrameShape, Link,
    MacAddress, Nic, ReceiveChecksum, ReceiveFilter, ReceivedFrame, TransmitAbility,
    TransmitRequest, Transport,
};

/// Frames under way at most.
const FRAMES: usize = 64;
/// Largest frame: 64 KiB of IP and the Ethernet header.
const LARGE: usize = 65_549;
/// Small buffers serve segments of single datagrams; most frames are acknowledgements.
const SMALL: usize = 2048;

/// See the module.
pub(crate) struct Loopback {
    /// Buffers not in use, small and large. They are leaked, as DMA memory is, but only as many as were
    /// ever in flight at once.
    small: Vec<Buffer>,
    large: Vec<Buffer>,
    lent: usize,
    queued: VecDeque<Buffer>,
    frames: u64,
    bytes: u64,
}

impl Loopback {
    pub(crate) fn new() -> Loopback {
        Loopback {
            small: Vec::new(),
            large: Vec::new(),
            lent: 0,
            queued: VecDeque::new(),
            frames: 0,
            bytes: 0,
        }
    }

    fn keep(&mut self, mut buffer: Buffer) {
        self.lent -= 1;
        buffer.set_window(0..buffer.capacity());
        if buffer.capacity() == SMALL { self.small.push(buffer) } else { self.large.push(buffer) }
    }
}

fn buffer(len: usize) -> Buffer {
    let memory = Box::leak(vec![0u8; len].into_boxed_slice());
    Buffer::new(Allocation { pointer: NonNull::from(memory).cast(), bus: 0, len })
}

impl Nic for Loopback {
    fn driver_info(&self) -> DriverInfo {
        DriverInfo { driver: "loopback", chip: "" }
    }

    fn mac_address(&self) -> MacAddress {
        [0; 6]
    }

    fn link(&self) -> Link {
        Link { up: true, speed_mbps: 0, full_duplex: true }
    }

    fn mtu(&self) -> u16 {
        0xffff
    }

    fn max_mtu(&self) -> u16 {
        0xffff
    }

    fn set_mtu(&mut self, mtu: u16) -> bool {
        mtu == self.mtu()
    }

    fn set_receive_filter(&mut self, _: ReceiveFilter<'_>) {}

    fn service(&mut self, _: u64) {}

    fn arm(&mut self) -> bool {
        !self.queued.is_empty()
    }

    fn service_at(&self) -> Option<u64> {
        // Nothing interrupts for what a socket call queued.
        (!self.queued.is_empty()).then_some(0)
    }

    fn receive(&mut self) -> Option<ReceivedFrame> {
        let buffer = self.queued.pop_front()?;
        let checksum = ReceiveChecksum::Verified { ip: true, transport: true };
        Some(ReceivedFrame { buffer, checksum, segment: None, tag: None, slot: 0 })
    }

    fn recycle(&mut self, frame: ReceivedFrame) {
        self.keep(frame.buffer);
    }

    fn transmit_buffer(&mut self, len: usize) -> Option<Buffer> {
        if self.lent >= FRAMES || len > LARGE {
            return None;
        }
        let (kept, size) =
            if len <= SMALL { (&mut self.small, SMALL) } else { (&mut self.large, LARGE) };
        let mut lent = kept.pop().unwrap_or_else(|| buffer(size));
        lent.set_window(0..len);
        self.lent += 1;
        Some(lent)
    }

    fn transmit(&mut self, mut buffer: Buffer, request: &TransmitRequest) {
        // As virtio's unfinished checksum: anything but zero, which over IPv6 would say that there is none.
        if request.transport_checksum
            && request.shape.transport == Transport::Udp
            && let Some(at) = request.shape.checksum_offset()
            && let Some(field) = buffer.get_mut(at..at + 2)
        {
            field.fill(0xff);
        }
        self.frames += 1;
        self.bytes += buffer.len() as u64;
        self.queued.push_back(buffer);
    }

    fn transmit_cancel(&mut self, buffer: Buffer) {
        self.keep(buffer);
    }

    fn flush(&mut self) {}

    fn transmit_room(&self) -> usize {
        FRAMES - self.lent
    }

    fn transmit_ability(&self, _: &FrameShape) -> TransmitAbility {
        TransmitAbility {
            network_checksum: true,
            transport_checksum: true,
            segment: true,
            tag: false,
        }
    }

    fn max_segmented_frame(&self) -> Option<usize> {
        Some(LARGE)
    }

    fn feature(&self, feature: Feature) -> FeatureState {
        FeatureState { on: feature != Feature::ScatterGather, fixed: true }
    }

    fn set_feature(&mut self, _: Feature, _: bool) -> Result<(), FeatureError> {
        Err(FeatureError::Fixed)
    }

    fn statistics(&self, visit: &mut dyn FnMut(&'static str, u64)) {
        visit("rx_packets", self.frames);
        visit("rx_bytes", self.bytes);
        visit("tx_packets", self.frames);
        visit("tx_bytes", self.bytes);
    }
}

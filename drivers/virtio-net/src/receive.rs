//! The receive ring: an arena of slots the device fills in address order.
//!
//! With MRG_RXBUF a long frame arrives in as many slots as it needs. The slots were offered in
//! address order, so they are neighbours, and since only the first begins with a header, the frame
//! lies in memory in one piece: the slots are joined and nothing is copied. A frame that runs over
//! the end of the arena, or that a device put into slots of its own choice, is copied together in a
//! spare buffer.
//!
//! To keep the order, slots are offered again strictly in turn: one that comes back early waits for
//! those before it.

use crate::counters::Counters;
use crate::features::Features;
use crate::header::{self, HEADER_LEN};
use crate::queue::{BadId, Queue, RingMemory};
use crate::{Error, RECEIVE_SIZE};
use alloc::boxed::Box;
use alloc::vec::Vec;
use trireme_nic::{Buffer, Direction, Dma, ReceiveChecksum, ReceivedFrame};
use virtio_drivers::transport::Transport;

/// An Ethernet header; anything shorter is no frame.
const MIN_FRAME: usize = 14;
/// Longest frame there is: a full IP packet, Ethernet header, one VLAN tag.
const MAX_FRAME: usize = 65535 + 14 + 4;
/// `ReceivedFrame::slot` of a frame that was copied together.
const SPARE: u32 = u32::MAX;

/// How the memory for receiving is cut up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Layout {
    pub(crate) slots: usize,
    pub(crate) slot_len: usize,
    pub(crate) spares: usize,
}

impl Layout {
    /// For these features, at most about `bytes` of memory, an MTU up to `max_mtu`.
    pub(crate) fn new(features: Features, bytes: usize, max_mtu: u16, cache_line: usize) -> Layout {
        if features.contains(Features::MRG_RXBUF) {
            // Larger slots cost less per byte, but a burst of small frames needs one each.
            let fair = (bytes / (RECEIVE_SIZE / 2)).clamp(2048, 32768);
            let slot_len = 1 << fair.ilog2();
            let slots = (bytes / slot_len).clamp(64, RECEIVE_SIZE);
            return Layout { slots, slot_len, spares: if bytes < 1 << 20 { 2 } else { 4 } };
        }
        let frame = if features.intersects(Features::GUEST_TSO4 | Features::GUEST_TSO6) {
            // [VIRTIO 5.1.6.3.1]: 65562 with the header; and a VLAN tag.
            MAX_FRAME
        } else {
            usize::from(max_mtu) + 14 + 4
        };
        let slot_len = (HEADER_LEN + frame).next_multiple_of(cache_line);
        Layout { slots: (bytes / slot_len).clamp(16, RECEIVE_SIZE), slot_len, spares: 0 }
    }
}

pub(crate) struct Receive<H: RingMemory> {
    queue: Queue<H, RECEIVE_SIZE, true>,
    /// The slots the CPU has and has not lent to the stack.
    slots: Box<[Option<Buffer>]>,
    slot_len: usize,
    /// The slot to be offered next. Invariant: below `slots.len()`.
    next: usize,
    spares: Vec<Buffer>,
    features: Features,
}

/// A frame of several slots under way.
enum Assembly {
    /// Neighbours, joined.
    Joined(Buffer),
    /// Copied to the start of a spare buffer.
    Copied(Buffer),
    /// To be dropped.
    Bad,
}

impl<H: RingMemory> Receive<H> {
    pub(crate) fn new<D: Dma>(
        queue: Queue<H, RECEIVE_SIZE, true>,
        dma: &D,
        layout: Layout,
        features: Features,
    ) -> Result<Self, Error> {
        let line = dma.cache_line();
        let mut rest = Buffer::new(dma.allocate(layout.slots * layout.slot_len, line)?);
        let mut slots = Vec::with_capacity(layout.slots);
        for _ in 0..layout.slots {
            let (slot, after) = rest.split_at(layout.slot_len);
            slots.push(Some(slot));
            rest = after;
        }
        let spare_len = (HEADER_LEN + MAX_FRAME).next_multiple_of(line);
        let mut spares = Vec::with_capacity(layout.spares);
        for _ in 0..layout.spares {
            spares.push(Buffer::new(dma.allocate(spare_len, line)?));
        }
        let slot_len = layout.slot_len;
        Ok(Receive { queue, slots: slots.into(), slot_len, next: 0, spares, features })
    }

    /// Offers every slot whose turn it is.
    pub(crate) fn refill<D: Dma>(&mut self, dma: &D) {
        while let Some(slot) = self.slots[self.next].take() {
            if !self.offer(dma, slot) {
                return;
            }
        }
    }

    /// Offers the slot whose turn it is. False, and nothing offered, if the ring is full: there are no
    /// more slots than descriptors, so only after a device misused them.
    ///
    /// Not inlined into its two callers, so that all of `VirtQueue::add` is inlined into it.
    #[inline(never)]
    fn offer<D: Dma>(&mut self, dma: &D, mut slot: Buffer) -> bool {
        slot.set_window(0..self.slot_len);
        let lent = slot.to_device(dma, Direction::FromDevice);
        if let Err(lent) = self.queue.add(lent, self.next as u16) {
            self.slots[self.next] = Some(lent.to_cpu(dma));
            return false;
        }
        self.next = if self.next + 1 == self.slots.len() { 0 } else { self.next + 1 };
        true
    }

    pub(crate) fn hold(&mut self) {
        self.queue.hold();
    }

    pub(crate) fn arm(&mut self) -> bool {
        self.queue.arm()
    }

    pub(crate) fn kick<T: Transport>(&mut self, transport: &mut T, counters: &mut Counters) {
        counters.rx_kicks += u64::from(self.queue.kick(transport));
    }

    /// The next good frame. Bad ones are counted and skipped, at most a ring's worth.
    pub(crate) fn receive<D: Dma>(
        &mut self,
        dma: &D,
        counters: &mut Counters,
    ) -> Result<Option<ReceivedFrame>, BadId> {
        for _ in 0..RECEIVE_SIZE {
            let Some(used) = self.queue.pop()? else {
                return Ok(None);
            };
            let len = used.len as usize;
            let (buffer, first) = self.queue.take(used)?;
            let mut buffer = buffer.to_cpu(dma);
            if len > buffer.len() || len < HEADER_LEN + MIN_FRAME {
                counters.rx_length_errors += 1;
                self.free(first, buffer);
                continue;
            }
            let Some(bytes) = buffer.first_chunk() else {
                self.free(first, buffer);
                continue;
            };
            let said = header::parse(bytes, self.features);
            if said.buffers > 1 && self.features.contains(Features::MRG_RXBUF) {
                let Some((merged, slot)) =
                    self.assemble(dma, counters, first, buffer, len, said.buffers)?
                else {
                    continue;
                };
                return Ok(Some(finish(merged, slot, said, counters)));
            }
            buffer.set_window(HEADER_LEN..len);
            return Ok(Some(finish(buffer, u32::from(first), said, counters)));
        }
        Ok(None)
    }

    /// Puts a frame of `count` slots together; `buffer` is the first of them, with `len` bytes.
    fn assemble<D: Dma>(
        &mut self,
        dma: &D,
        counters: &mut Counters,
        first: u16,
        buffer: Buffer,
        len: usize,
        count: u16,
    ) -> Result<Option<(Buffer, u32)>, BadId> {
        if usize::from(count) > self.slots.len() {
            counters.rx_merge_errors += 1;
            self.free(first, buffer);
            return Ok(None);
        }
        counters.rx_merged_buffers += 1;
        let mut total = len;
        // Only slots filled to the end leave no gap when they are joined.
        let mut full = len == self.slot_len;
        let mut assembly = Assembly::Joined(buffer);
        for _ in 1..count {
            let next = match self.queue.pop() {
                Ok(Some(used)) => self.queue.take(used).map(|taken| (used, taken)),
                // The device must have returned all buffers of a frame at once. [VIRTIO 5.1.6.4]
                Ok(None) => {
                    counters.rx_merge_errors += 1;
                    self.discard(first, assembly);
                    return Ok(None);
                }
                Err(bad) => Err(bad),
            };
            let (used, (piece, tag)) = match next {
                Ok(next) => next,
                Err(bad) => {
                    self.discard(first, assembly);
                    return Err(bad);
                }
            };
            let piece = piece.to_cpu(dma);
            let len = used.len as usize;
            let sane = len <= piece.len() && len != 0 && total + len <= HEADER_LEN + MAX_FRAME;
            if !sane && !matches!(assembly, Assembly::Bad) {
                counters.rx_merge_errors += 1;
            }
            assembly = match assembly {
                Assembly::Joined(whole) if sane && full => match whole.join(piece) {
                    Ok(whole) => Assembly::Joined(whole),
                    Err((whole, piece)) => {
                        self.copy_out(counters, first, whole, total, tag, piece, len)
                    }
                },
                Assembly::Joined(whole) if sane => {
                    self.copy_out(counters, first, whole, total, tag, piece, len)
                }
                Assembly::Copied(mut spare) if sane => {
                    spare.whole_mut()[total..total + len].copy_from_slice(&piece[..len]);
                    self.free(tag, piece);
                    Assembly::Copied(spare)
                }
                // Its other slots still have to be taken, or they would pass for frames.
                bad => {
                    self.free(tag, piece);
                    self.discard(first, bad);
                    Assembly::Bad
                }
            };
            total += len;
            full = len == self.slot_len;
        }
        Ok(match assembly {
            Assembly::Joined(mut whole) => {
                whole.set_window(HEADER_LEN..total);
                Some((whole, u32::from(first)))
            }
            Assembly::Copied(mut spare) => {
                counters.rx_linearised += 1;
                spare.set_window(HEADER_LEN..total);
                Some((spare, SPARE))
            }
            Assembly::Bad => None,
        })
    }

    /// Goes over from joining to copying.
    #[expect(clippy::too_many_arguments, reason = "two places, each a slot, a buffer and a length")]
    fn copy_out(
        &mut self,
        counters: &mut Counters,
        first: u16,
        whole: Buffer,
        total: usize,
        tag: u16,
        piece: Buffer,
        len: usize,
    ) -> Assembly {
        let copied = match self.spares.pop() {
            Some(mut spare) => {
                let bytes = spare.whole_mut();
                bytes[..total].copy_from_slice(&whole[..total]);
                bytes[total..total + len].copy_from_slice(&piece[..len]);
                Assembly::Copied(spare)
            }
            None => {
                counters.rx_no_spare += 1;
                counters.rx_dropped += 1;
                Assembly::Bad
            }
        };
        self.free(first, whole);
        self.free(tag, piece);
        copied
    }

    fn discard(&mut self, first: u16, assembly: Assembly) {
        match assembly {
            Assembly::Joined(whole) => self.free(first, whole),
            Assembly::Copied(spare) => self.spares.push(spare),
            Assembly::Bad => {}
        }
    }

    /// Takes a frame's buffer back from the stack; offers it again, if that is asked for, when its turn
    /// comes.
    #[inline]
    pub(crate) fn recycle<D: Dma>(&mut self, dma: &D, frame: ReceivedFrame, offer: bool) {
        let ReceivedFrame { buffer, slot, .. } = frame;
        // Mostly it is its turn: no detour through `slots`.
        if slot as usize == self.next && offer {
            let mut rest = buffer;
            while rest.capacity() > self.slot_len {
                let (one, after) = rest.split_at(self.slot_len);
                let following = self.next + 1;
                if !self.offer(dma, one) {
                    return self.free(following as u16, after);
                }
                rest = after;
            }
            if self.offer(dma, rest) && self.slots[self.next].is_some() {
                self.refill(dma);
            }
            return;
        }
        match u16::try_from(slot) {
            Ok(first) => self.free(first, buffer),
            Err(_) => self.spares.push(buffer),
        }
        if offer {
            self.refill(dma);
        }
    }

    /// Cuts a buffer into its slots again, `first` being the first of them.
    fn free(&mut self, first: u16, buffer: Buffer) {
        let mut slot = usize::from(first);
        let mut rest = buffer;
        while rest.capacity() > self.slot_len {
            let (one, after) = rest.split_at(self.slot_len);
            self.slots[slot] = Some(one);
            slot += 1;
            rest = after;
        }
        self.slots[slot] = Some(rest);
    }

    /// Puts a fresh queue under the ring and takes home what the old one had. The device must
    /// have been reset.
    pub(crate) fn restart<D: Dma>(&mut self, queue: Queue<H, RECEIVE_SIZE, true>, dma: &D) {
        let old = core::mem::replace(&mut self.queue, queue);
        for (buffer, slot) in old.into_lent() {
            self.slots[usize::from(slot)] = Some(buffer.to_cpu(dma));
        }
    }
}

fn finish(
    buffer: Buffer,
    slot: u32,
    said: header::Received,
    counters: &mut Counters,
) -> ReceivedFrame {
    counters.rx_packets += 1;
    counters.rx_bytes += buffer.len() as u64;
    match said.checksum {
        ReceiveChecksum::Partial => counters.rx_csum_partial += 1,
        ReceiveChecksum::Verified { .. } => counters.rx_csum_valid += 1,
        _ => {}
    }
    counters.rx_gso_packets += u64::from(said.segment.is_some());
    ReceivedFrame { buffer, checksum: said.checksum, segment: said.segment, tag: None, slot }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn layout_follows_memory_and_features() {
        let merge = Features::all();
        for bytes in [0, 1 << 16, 1 << 18, 1 << 20, 3 << 20, 1 << 22, 1 << 30] {
            let layout = Layout::new(merge, bytes, 1500, 64);
            assert!(layout.slot_len.is_power_of_two() && (2048..=32768).contains(&layout.slot_len));
            assert!((64..=RECEIVE_SIZE).contains(&layout.slots));
            assert!(layout.slots * layout.slot_len <= bytes.max(64 * 2048));
            assert!(layout.slots * layout.slot_len >= 65562, "one frame of 64 KiB must fit");
        }
        let big = Layout::new(merge - Features::MRG_RXBUF, 1 << 20, 1500, 64);
        assert!(big.slot_len >= 65562 && big.slot_len.is_multiple_of(64) && big.slots == 16);
        let plain = Features::VERSION_1;
        let small = Layout::new(plain, 1 << 20, 1500, 64);
        assert_eq!(small, Layout { slots: 256, slot_len: 1536, spares: 0 });
    }
}

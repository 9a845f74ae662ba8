//! One virtqueue of single buffers: `virtio_drivers`' [`VirtQueue`] for the rings, and around it what
//! a fast and a distrustful driver needs besides.
//!
//! - The buffers the device has are kept here by descriptor: an id the device returns is looked up
//!   before [`VirtQueue`] sees it, so its panics on foreign ids are out of reach.
//! - The event index is done here. [`VirtQueue`] compares ring indices without wrapping (a doorbell is
//!   lost each time the index passes 65536) and moves `used_event` with every buffer taken, so the
//!   device would interrupt all through a poll. It is created as if EVENT_IDX was not negotiated
//!   and leaves both event fields alone.

#![allow(unsafe_code)]

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::ptr::NonNull;
use core::sync::atomic::{AtomicU16, Ordering, fence};
use trireme_nic::DeviceBuffer;
use virtio_drivers::queue::VirtQueue;
use virtio_drivers::transport::{DeviceStatus, DeviceType, InterruptStatus, Transport};
use virtio_drivers::{Error, Hal, PhysAddr};
use zerocopy::{FromBytes, Immutable, IntoBytes};

/// Ring memory by its physical address: [`Hal`] hands [`VirtQueue`] pointers that it keeps to itself.
///
/// # Safety
///
/// For an address inside memory that [`Hal::dma_alloc`] gave out and that was not deallocated,
/// `ring_pointer` must return the CPU's pointer to that byte, derived from the one given out.
pub unsafe trait RingMemory: Hal {
    /// The CPU's pointer to a byte of ring memory.
    fn ring_pointer(address: PhysAddr) -> NonNull<u8>;
}

/// The device used a descriptor it does not have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct BadId;

/// A buffer back from the device: [`Queue::take`] gives it.
#[derive(Clone, Copy)]
pub(crate) struct Used {
    token: u16,
    /// Bytes the device says it wrote. Not checked.
    pub(crate) len: u32,
}

/// The two fields behind the rings. [VIRTIO 2.7.7.1, 2.7.10]
struct EventIndex {
    /// Ours: interrupt when the used index passes this.
    used: NonNull<AtomicU16>,
    /// The device's: ring when the available index passes this.
    avail: NonNull<AtomicU16>,
}

pub(crate) struct Queue<H: RingMemory, const SIZE: usize, const RECEIVES: bool> {
    /// Boxed for its table of descriptors: 4 KiB that would be copied from frame to frame of a boot
    /// stack.
    ring: Box<VirtQueue<H, SIZE>>,
    index: u16,
    /// Buffers the device has, by descriptor.
    lent: Box<[Option<(DeviceBuffer, u16)>]>,
    /// Free-running counts of buffers added, added when the doorbell was last considered, and taken
    /// back. The first and the last equal the rings' own indices.
    added: u16,
    announced: u16,
    taken: u16,
    /// `None` if EVENT_IDX was not negotiated.
    events: Option<EventIndex>,
}

// SAFETY: the pointers in `events` go to memory `ring` owns, which is itself Send; nothing else of
// a Queue is tied to a thread.
unsafe impl<H: RingMemory, const SIZE: usize, const RECEIVES: bool> Send
    for Queue<H, SIZE, RECEIVES>
{
}

impl<H: RingMemory, const SIZE: usize, const RECEIVES: bool> Queue<H, SIZE, RECEIVES> {
    /// Sets up queue `index` of a device that is between FEATURES_OK and DRIVER_OK.
    pub(crate) fn new<T: Transport>(
        transport: &mut T,
        index: u16,
        event_index: bool,
    ) -> Result<Self, Error> {
        let mut recorder = Recorder { transport, areas: None };
        let ring = Box::new(VirtQueue::new(&mut recorder, index, false, false)?);
        let (driver_area, device_area) = recorder.areas.ok_or(Error::InvalidParam)?;
        // Both are preceded by flags, index and the ring itself. [VIRTIO 2.7.6, 2.7.8]
        let events = event_index.then(|| EventIndex {
            used: H::ring_pointer(driver_area + 4 + 2 * SIZE as u64).cast(),
            avail: H::ring_pointer(device_area + 4 + 8 * SIZE as u64).cast(),
        });
        let lent = core::iter::repeat_with(|| None).take(SIZE).collect();
        Ok(Queue { ring, index, lent, added: 0, announced: 0, taken: 0, events })
    }

    /// Offers a buffer. Gives it back if the ring is full or the buffer empty.
    #[inline]
    pub(crate) fn add(&mut self, buffer: DeviceBuffer, tag: u16) -> Result<(), DeviceBuffer> {
        if buffer.is_empty() {
            return Err(buffer);
        }
        let bytes = buffer.pointer();
        // SAFETY: a DeviceBuffer's bytes are valid for the rest of the program and reached by
        // nobody on the CPU's side while it exists; it goes into `lent` until `pop_used`. The
        // reference ends with the call.
        let token = unsafe {
            if RECEIVES {
                self.ring.add(&[], &mut [&mut *bytes.as_ptr()])
            } else {
                self.ring.add(&[&*bytes.as_ptr()], &mut [])
            }
        };
        match token {
            Ok(token) => {
                self.lent[usize::from(token)] = Some((buffer, tag));
                self.added = self.added.wrapping_add(1);
                Ok(())
            }
            Err(_) => Err(buffer),
        }
    }

    /// The next buffer the device is done with, to be taken at once. After `BadId` the ring cannot go
    /// on: the device has to be reset.
    #[inline]
    pub(crate) fn pop(&mut self) -> Result<Option<Used>, BadId> {
        let Some(token) = self.ring.peek_used() else {
            return Ok(None);
        };
        let Some(Some((buffer, _))) = self.lent.get(usize::from(token)) else {
            return Err(BadId);
        };
        let bytes = buffer.pointer();
        // SAFETY: the same bytes as `add` got when it returned `token`, still reached by nobody.
        let len = unsafe {
            if RECEIVES {
                self.ring.pop_used(token, &[], &mut [&mut *bytes.as_ptr()])
            } else {
                self.ring.pop_used(token, &[&*bytes.as_ptr()], &mut [])
            }
        };
        // It fails if the device rewrote the ring entry between our two looks at it.
        let len = len.map_err(|_| BadId)?;
        self.taken = self.taken.wrapping_add(1);
        Ok(Some(Used { token, len }))
    }

    /// The buffer that was popped, and what [`add`](Self::add) was given with it. Apart from `pop` so that
    /// it moves only once.
    #[inline]
    pub(crate) fn take(&mut self, used: Used) -> Result<(DeviceBuffer, u16), BadId> {
        self.lent.get_mut(usize::from(used.token)).and_then(Option::take).ok_or(BadId)
    }

    /// Asks for no interrupts. With the event index there is nothing to do: the index asked for
    /// lies in the past once it has been passed, and only [`arm`](Self::arm) moves it.
    #[inline]
    pub(crate) fn hold(&mut self) {
        if self.events.is_none() {
            self.ring.set_dev_notify(false);
        }
    }

    /// Asks for an interrupt with the next used buffer. True if there is one already: then there
    /// may be no interrupt for it.
    pub(crate) fn arm(&mut self) -> bool {
        match &self.events {
            // SAFETY: a field of the available ring, valid as long as `ring`; atomic, as the device
            // reads it at any time.
            Some(events) => unsafe { events.used.as_ref() }.store(self.taken, Ordering::Release),
            None => self.ring.set_dev_notify(true),
        }
        // The request must be visible to the device before we look at the used index: it does it
        // the other way round. [VIRTIO 2.7.7.1, 2.7.14]
        fence(Ordering::SeqCst);
        self.ring.can_pop()
    }

    /// Tells the device of buffers added since the last call, if it wants to be told. Returns
    /// whether it was: each doorbell is an exit under a hypervisor.
    #[inline]
    pub(crate) fn kick<T: Transport>(&mut self, transport: &mut T) -> bool {
        if self.added == self.announced {
            return false;
        }
        // The available index must be visible before we look whether the device sleeps.
        fence(Ordering::SeqCst);
        let wanted = match &self.events {
            // SAFETY: a field of the used ring, valid as long as `ring`; atomic, as the device
            // writes it at any time.
            Some(events) => passed(
                unsafe { events.avail.as_ref() }.load(Ordering::Acquire),
                self.announced,
                self.added,
            ),
            None => self.ring.should_notify(),
        };
        self.announced = self.added;
        if wanted {
            transport.notify(self.index);
        }
        wanted
    }

    /// Every buffer the device had, with its tag. The device must have been reset.
    pub(crate) fn into_lent(mut self) -> Vec<(DeviceBuffer, u16)> {
        self.lent.iter_mut().filter_map(Option::take).collect()
    }
}

/// True if an index that went from `old` to `new` passed `event`, that is, the entry numbered
/// `event` was among those written. [VIRTIO 2.7.7.1: vring_need_event]
fn passed(event: u16, old: u16, new: u16) -> bool {
    new.wrapping_sub(event).wrapping_sub(1) < new.wrapping_sub(old)
}

/// A transport that remembers where [`VirtQueue`] put its rings.
struct Recorder<'a, T> {
    transport: &'a mut T,
    /// Driver and device area.
    areas: Option<(PhysAddr, PhysAddr)>,
}

impl<T: Transport> Transport for Recorder<'_, T> {
    fn queue_set(
        &mut self,
        queue: u16,
        size: u32,
        descriptors: PhysAddr,
        driver_area: PhysAddr,
        device_area: PhysAddr,
    ) {
        self.areas = Some((driver_area, device_area));
        self.transport.queue_set(queue, size, descriptors, driver_area, device_area);
    }
    fn device_type(&self) -> DeviceType {
        self.transport.device_type()
    }
    fn read_device_features(&mut self) -> u64 {
        self.transport.read_device_features()
    }
    fn write_driver_features(&mut self, features: u64) {
        self.transport.write_driver_features(features);
    }
    fn max_queue_size(&mut self, queue: u16) -> u32 {
        self.transport.max_queue_size(queue)
    }
    fn notify(&mut self, queue: u16) {
        self.transport.notify(queue);
    }
    fn get_status(&self) -> DeviceStatus {
        self.transport.get_status()
    }
    fn set_status(&mut self, status: DeviceStatus) {
        self.transport.set_status(status);
    }
    fn set_guest_page_size(&mut self, size: u32) {
        self.transport.set_guest_page_size(size);
    }
    fn requires_legacy_layout(&self) -> bool {
        self.transport.requires_legacy_layout()
    }
    fn queue_unset(&mut self, queue: u16) {
        self.transport.queue_unset(queue);
    }
    fn queue_used(&mut self, queue: u16) -> bool {
        self.transport.queue_used(queue)
    }
    fn ack_interrupt(&mut self) -> InterruptStatus {
        self.transport.ack_interrupt()
    }
    fn read_config_generation(&self) -> u32 {
        self.transport.read_config_generation()
    }
    fn read_config_space<V: FromBytes + IntoBytes>(&self, offset: usize) -> Result<V, Error> {
        self.transport.read_config_space(offset)
    }
    fn write_config_space<V: IntoBytes + Immutable>(
        &mut self,
        offset: usize,
        value: V,
    ) -> Result<(), Error> {
        self.transport.write_config_space(offset, value)
    }
}

#[cfg(test)]
mod tests {
    use super::passed;

    #[test]
    fn event_is_passed_when_its_entry_is_among_those_written() {
        for start in [0u16, 100, 65530, 65535] {
            for written in 0..20u16 {
                let new = start.wrapping_add(written);
                for distance in 0..=u16::MAX {
                    let event = start.wrapping_add(distance);
                    assert_eq!(passed(event, start, new), distance < written);
                }
            }
        }
    }
}

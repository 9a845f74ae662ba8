//! The virtio entropy source: asked once, at boot, for a key's worth. [VIRTIO 5.4]

use alloc::boxed::Box;
use core::fmt;

use virtio_drivers::Error;
use virtio_drivers::queue::VirtQueue;
use virtio_drivers::transport::{DeviceStatus, Transport};

use crate::arch;
use crate::bus::KernelHal;
use crate::bus::virtio::VirtioTransport;

/// A key of the generator.
const BYTES: usize = 32;
/// A host that has entropy gives it at once; one that has none may take for ever.
const PATIENCE_NS: u64 = 50_000_000;
const VERSION_1: u64 = 1 << 32;

/// Why there is no entropy.
pub enum NoEntropy {
    /// It is of the time before virtio 1.0.
    Legacy,
    /// The queue cannot be set up or is misused by the device.
    Queue(Error),
    /// It did not answer.
    Silent,
    /// It gave fewer bytes than asked for.
    Short(u32),
}

impl fmt::Display for NoEntropy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            NoEntropy::Legacy => f.write_str("legacy device, needs virtio 1.0"),
            NoEntropy::Queue(error) => write!(f, "queue: {error}"),
            NoEntropy::Silent => f.write_str("no answer"),
            NoEntropy::Short(len) => write!(f, "only {len} bytes"),
        }
    }
}

impl From<Error> for NoEntropy {
    fn from(error: Error) -> Self {
        NoEntropy::Queue(error)
    }
}

/// Draws random bytes, then stops the device.
pub fn draw(mut transport: VirtioTransport) -> Result<[u8; BYTES], NoEntropy> {
    let until = arch::monotonic_ns() + PATIENCE_NS;
    transport.set_status(DeviceStatus::empty());
    let mut status = DeviceStatus::ACKNOWLEDGE | DeviceStatus::DRIVER;
    transport.set_status(status);
    if transport.read_device_features() & VERSION_1 == 0 || transport.requires_legacy_layout() {
        return Err(NoEntropy::Legacy);
    }
    transport.write_driver_features(VERSION_1);
    status |= DeviceStatus::FEATURES_OK;
    transport.set_status(status);
    let mut queue = VirtQueue::<KernelHal, 2>::new(&mut transport, 0, false, false)?;
    queue.set_dev_notify(false);
    transport.set_status(status | DeviceStatus::DRIVER_OK);

    let mut buffer = Box::new([0; BYTES]);
    // SAFETY: the buffer is not touched before `pop_used`, and is leaked with the queue if that
    // never comes to be.
    let token = unsafe { queue.add(&[], &mut [&mut *buffer]) }?;
    transport.notify(0);
    while !queue.can_pop() && arch::monotonic_ns() < until {
        core::hint::spin_loop();
    }
    // SAFETY: the buffer that was added.
    let drawn = match unsafe { queue.pop_used(token, &[], &mut [&mut *buffer]) } {
        Ok(len) if len as usize >= BYTES => Ok(*buffer),
        Ok(len) => Err(NoEntropy::Short(len)),
        Err(Error::NotReady) => Err(NoEntropy::Silent),
        Err(error) => Err(error.into()),
    };
    transport.set_status(DeviceStatus::empty());
    while transport.get_status() != DeviceStatus::empty() {
        if arch::monotonic_ns() > until {
            // It may still write to both.
            core::mem::forget((queue, buffer));
            break;
        }
        core::hint::spin_loop();
    }
    drawn
}

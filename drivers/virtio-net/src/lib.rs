//! Driver for virtio network devices: QEMU's, and every hypervisor's that follows the standard.
//!
//! Not a virtio library: rings and transports are those of the crate `virtio_drivers`. Not for devices
//! older than version 1.0 of the standard ("legacy"): they are refused with a reason.
//!
//! The principles:
//! - **A frame is one descriptor.** The device's header of twelve bytes stands right before the frame,
//!   in the same buffer, both ways.
//! - **A merged frame is one piece of memory**, not a list: see [the receive ring](receive).
//! - **A doorbell is an exit**, so the device is told only when it asked to be, by event index, and
//!   once per batch. Interrupts are asked for only before sleeping, and then the rings are looked at
//!   once more.
//! - **The device lies.** Ids and lengths from the used ring are checked against what it was given. A
//!   wrong length costs a frame; a wrong id costs a reset of the device, at most one per second.
//!
//! Sources: [VIRTIO] is "Virtual I/O Device (VIRTIO) Version 1.2", OASIS, 2022.

#![cfg_attr(not(test), no_std)]
#![deny(unsafe_code)]
// Sources are cited in brackets, which rustdoc takes for links.
#![allow(rustdoc::broken_intra_doc_links)]

extern crate alloc;

mod ability;
mod control;
mod counters;
mod features;
mod header;
mod init;
mod nic;
mod queue;
mod receive;
mod transmit;

pub use ability::{MAX_SEGMENTED_FRAME, TransmitOffloads, transmit_ability};
pub use features::Features;
pub use header::HEADER_LEN;
pub use nic::VirtioNet;
pub use queue::RingMemory;

use core::fmt;
use trireme_nic::{DmaError, MacAddress};

/// Descriptors for receiving. QEMU's default; every device in use offers at least as many.
const RECEIVE_SIZE: usize = 256;
/// Descriptors for sending: fewer, since frames to be cut are few and large. Another number than for
/// receiving has a use of its own: each ring is a type of its own then, whose code is inlined where it
/// is called, which is a sixth of the instructions of a packet.
const TRANSMIT_SIZE: usize = 128;

const QUEUE_RECEIVE: u16 = 0;
const QUEUE_TRANSMIT: u16 = 1;
/// With one pair of queues, the third. [VIRTIO 5.1.2]
const QUEUE_CONTROL: u16 = 2;

/// What the machine gives the driver.
#[derive(Clone, Copy, Debug)]
pub struct Config {
    /// Memory for received frames, in bytes. At least 128 KiB are taken, at most 8 MiB used where
    /// the device merges buffers.
    pub receive_bytes: usize,
    /// Memory for frames to send, in bytes. At least 180 KiB are taken if there is segmentation,
    /// at most 4.2 MiB used.
    pub transmit_bytes: usize,
    /// Address to use if the device has none; random and locally administered.
    pub fallback_mac: MacAddress,
}

/// Why a device cannot be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Error {
    /// It did not confirm the reset.
    ResetTimeout,
    /// It is of the time before version 1.0.
    Legacy,
    /// It refused the features it had offered, or offered others after a reset.
    FeaturesRefused {
        /// The feature bits asked for.
        asked: u64,
    },
    /// It could not set up a queue.
    Queue(virtio_drivers::Error),
    /// No memory.
    Memory(DmaError),
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::ResetTimeout => f.write_str("the device does not reset"),
            Error::Legacy => f.write_str(
                "legacy device, needs virtio 1.0 (QEMU: disable-modern=off, \
                 -global virtio-mmio.force-legacy=false)",
            ),
            Error::FeaturesRefused { asked } => {
                write!(f, "the device refuses the features it offered ({asked:#x})")
            }
            Error::Queue(error) => write!(f, "queue: {error}"),
            Error::Memory(error) => error.fmt(f),
        }
    }
}

impl core::error::Error for Error {}

impl From<DmaError> for Error {
    fn from(error: DmaError) -> Self {
        Error::Memory(error)
    }
}

impl From<virtio_drivers::Error> for Error {
    fn from(error: virtio_drivers::Error) -> Self {
        Error::Queue(error)
    }
}

//! Driver for the Ethernet ports of the Cortina (StorLink) Gemini, SL3512 and SL3516.
//!
//! The facts are those of `docs/hardware/gemini.md`, cited as [GM n] by its sections and [GM E n] by the rows
//! of its errata table (11.1); VD and LG are the vendor's and Linux' drivers, as the sheet calls them.
//! **Unverified on silicon**: so far the card has been the model in `models/gemini`, which Linux' driver runs
//! on too.
//!
//! The principles:
//! - **A large write is one chain of descriptors**, which the card cuts. What its offload unit must not be
//!   given is known: [`transmit_ability`] and [`transmit_words`] are pure functions, and hold the errata.
//! - **One card, two ports.** Registers, free queue and resets are shared, so there is one lock, which nobody
//!   ever waits for: the stack calls one port at a time.
//! - **Frames stay where the card put them.** Buffers come back to the one queue both ports take from, known
//!   by where they begin.
//! - **Everything can fail and be recovered**: each wait has a bound and a name, and an error ends with both
//!   ports running, or is tried again later.
//! - **The card lies.** Lengths are checked, positions and addresses are our own.
//!
//! Words of 32 bits and aligned, no atomics wider than a pointer: it runs on the ARMv4 core the card belongs to.

#![cfg_attr(not(test), no_std)]
#![deny(unsafe_code)]
// Sources are cited in brackets, which rustdoc takes for links.
#![allow(rustdoc::broken_intra_doc_links)]

extern crate alloc;

mod ability;
mod block;
mod counters;
mod desc;
mod free;
mod gpio;
mod init;
mod link;
mod nic;
mod port;
mod receive;
mod regs;
mod ring;
mod smi;
mod switch;
mod verdict;

pub use ability::{
    MAX_FRAME, MAX_SEGMENTED_FRAME, Offloads, TransmitWords, transmit_ability, transmit_words,
};
pub use block::Windows;
pub use gpio::Lines;
pub use link::Attached;
pub use nic::{Gemini, MAX_MTU};
pub use trireme_registers::{Error, Timeout};
pub use verdict::{FrameError, Verdict};

use alloc::boxed::Box;
use trireme_nic::MacAddress;

/// Waits for so many microseconds.
pub type Delay = Box<dyn Fn(u32) + Send>;

/// What the machine says of a port.
#[derive(Clone, Copy, Debug)]
pub struct PortConfig {
    /// What its pins lead to.
    pub attached: Attached,
    /// The address, if the machine says one; else the one a boot loader left in the card.
    pub mac: Option<MacAddress>,
    /// Address to use if there is none; random and locally administered.
    pub fallback_mac: MacAddress,
}

/// What the machine gives the driver.
pub struct Config {
    /// Ports in use.
    pub ports: [Option<PortConfig>; 2],
    /// Where the management bus is, for ports that have a PHY.
    pub lines: Lines,
    /// Receive buffers of about 2 KiB, for both ports together; 16 to 2047.
    pub receive_buffers: usize,
    /// Memory for frames to send, in bytes, of each port. At least 170 KiB are taken, at most 1.9 MiB used.
    pub transmit_bytes: usize,
    /// Waits; used while the card is brought up, reset, or follows a link or an MTU, never per frame.
    pub delay: Delay,
}

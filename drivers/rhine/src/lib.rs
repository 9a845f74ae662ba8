//! Driver for VIA Rhine network cards: VT86C100A, VT6102, VT6105 and VT6105M.
//!
//! No data sheet is public: the facts are those of `docs/hardware/rhine.md`, cited as [RH n] by its
//! sections and [RH E n] by the rows of its errata table (section 6). **Unverified on silicon**: so far
//! the card has been the model in `models/rhine`, which Linux's `via-rhine` runs on too.
//!
//! The principles:
//! - **One frame, one descriptor.** The stack writes frames where the card reads them.
//! - **Transmit checksums are off.** The VT6105M can, but moves no data meanwhile, which costs 8 % of
//!   the throughput at MTU 1500 [RH 5.2]; `Auto` uses it for frames short enough to cost nothing.
//! - **Everything can fail and be recovered**: every wait has a bound and a name, every error path of
//!   the sheet ends with a card that runs, by restarting one engine or by resetting all of it.
//! - **The card lies.** Lengths are checked, ring positions are our own, and neither ring trusts the
//!   card's pointer.

#![cfg_attr(not(test), no_std)]
#![deny(unsafe_code)]
// Sources are cited in brackets, which rustdoc takes for links.
#![allow(rustdoc::broken_intra_doc_links)]

extern crate alloc;

mod ability;
mod chip;
mod counters;
mod desc;
mod filter;
mod flow;
mod init;
mod irq;
mod nic;
mod phy;
mod power;
mod regs;
mod ring;
mod vlan;

pub use ability::{TransmitChecksums, transmit_ability};
pub use chip::Chip;
pub use nic::Rhine;
pub use trireme_registers::{Error, Timeout};

use alloc::boxed::Box;
use trireme_nic::MacAddress;

/// Waits for so many microseconds.
pub type Delay = Box<dyn Fn(u32) + Send>;

/// What the machine gives the driver.
pub struct Config {
    /// Which chip, from PCI configuration space.
    pub chip: Chip,
    /// Address to use if the card's own is none; random and locally administered.
    pub fallback_mac: MacAddress,
    /// Transmit checksums to begin with.
    pub transmit_checksums: TransmitChecksums,
    /// Puts the card's PCI function into D3hot with its power management event enabled: the last step towards
    /// a sleep it wakes the machine from.
    pub sleep: Box<dyn FnMut() + Send>,
    /// Waits; used while the card is brought up, reset or its PHY asked, never per frame.
    pub delay: Delay,
}

//! Driver for Renesas RAVB network cards: EtherAVB of R-Car Gen2 and Gen3, and GbEth of RZ/G2L.
//!
//! No manual is public: the facts are those of `docs/hardware/ravb.md`, cited as [RV n] by its sections and
//! [RV E n] by the rows of its errata tables (section 6). **Unverified on silicon**: so far the card has been
//! the model in `models/ravb`.
//!
//! The principles:
//! - **Frames stay where the card put them.** Receive buffers lie side by side, so a frame over several
//!   descriptors is one piece of memory, its checksum trailer included, wherever that lies. Frames to send
//!   are written at aligned places; one that was moved is sent by two descriptors, not by copying.
//! - **What the engines cannot do is known**: [`transmit_ability`] is a pure function, and what R-Car sums it
//!   sums over everything, which is settled by arithmetic over headers.
//! - **Switching checksums stops, changes and restarts** the path concerned; what was stored before is read as
//!   it was stored.
//! - **Everything can fail and be recovered**: each wait has a bound and a name, and an error ends with a card
//!   that runs, or is tried again later.
//! - **The card lies.** Lengths are checked, positions and addresses are our own.

#![cfg_attr(not(test), no_std)]
#![deny(unsafe_code)]
// Sources are cited in brackets, which rustdoc takes for links.
#![allow(rustdoc::broken_intra_doc_links)]

extern crate alloc;

mod ability;
mod counters;
pub mod cpg;
mod desc;
mod gptp;
mod init;
mod irq;
mod mdio;
mod mode;
mod nic;
mod phy;
mod receive;
mod regs;
mod ring;
mod variant;

pub use ability::transmit_ability;
pub use nic::Ravb;
pub use phy::Delays;
pub use trireme_registers::{Error, Timeout};
pub use variant::Variant;

use alloc::boxed::Box;
use trireme_nic::MacAddress;

/// Waits for so many microseconds.
pub type Delay = Box<dyn Fn(u32) + Send>;

/// What the machine gives the driver.
pub struct Config {
    /// Which block.
    pub variant: Variant,
    /// The address, if the machine says one; else the one a boot loader left in the card.
    pub mac: Option<MacAddress>,
    /// Address to use if there is none; random and locally administered.
    pub fallback_mac: MacAddress,
    /// Where the PHY is on MDIO, if the machine says so; else all addresses are tried.
    pub phy: Option<u8>,
    /// Delays of the RGMII clocks.
    pub delays: Delays,
    /// The link pin is wired: its changes interrupt. Otherwise the PHY is asked every second.
    pub link_pin: bool,
    /// Hz of the clock gPTP counts: the peripheral bus's.
    pub gptp_clock_hz: u32,
    /// Receive buffers of the main queue, of 2 KiB each; 16 to 2048.
    pub receive_buffers: usize,
    /// Waits; used while the card is brought up, reset, switched or its PHY asked, never per frame.
    pub delay: Delay,
}

//! Renesas RAVB as a register-level model: EtherAVB of R-Car Gen2 and Gen3, and GbEth of RZ/G2L.
//!
//! The core ([`Ravb`]) is the block as the public facts describe it (`docs/hardware/ravb.md`, "the
//! sheet"), not as any driver of ours would like it. It has no threads, sockets, clocks or `unsafe`:
//! accesses, frames, guest memory and time come in as arguments, frames and interrupt levels go out.
//! Where sources are silent or disagree the likelier reading is the default and the other a switch in
//! [`Faults`], together with everything that is known to go wrong with these blocks.
//!
//! Nothing the guest or the wire does may panic the core, make it reach memory that was not asked
//! for, or keep it busy for ever: descriptor walks, fragments and queues are bounded.

#![deny(unsafe_code)]

mod access;
mod checksum;
mod counters;
mod desc;
mod device;
mod faults;
mod filter;
mod gptp;
mod irq;
mod mdio;
mod mode;
mod phy;
mod ptp;
mod queue;
mod regs;
mod rx;
mod tx;
mod variant;

pub use counters::Counters;
pub use device::Ravb;
pub use faults::Faults;
pub use variant::{CARRIER_VENDOR, UnknownVariant, Variant};

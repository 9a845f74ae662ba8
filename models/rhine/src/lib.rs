//! The VIA Rhine family as a register-level model: VT86C100A, VT6102, VT6105 and VT6105M.
//!
//! The core ([`Rhine`]) is the chip as the public facts describe it, not as any driver of ours would
//! like it. It has no threads, sockets, clocks or `unsafe`: accesses, frames, guest memory and time
//! come in as arguments, frames and an interrupt level go out. Where sources disagree the likelier
//! reading is the default and the other a switch in [`Faults`], together with everything that is
//! known to go wrong with these chips.
//!
//! Nothing the guest or the wire does may panic the core, make it reach memory that was not asked
//! for, or keep it busy for ever: descriptor walks, fragments and queues are bounded.

#![deny(unsafe_code)]
// Sources are cited in brackets, which rustdoc takes for links.
#![allow(rustdoc::broken_intra_doc_links)]

mod access;
mod checksum;
mod chip;
mod device;
mod faults;
mod filter;
mod flow;
mod mii;
pub mod regs;
mod rx;
mod stats;
mod timing;
mod tx;
mod wake;

pub use chip::{Chip, UnknownChip};
pub use device::Rhine;
pub use faults::{Faults, ResetFault};
pub use stats::Counters;
pub use timing::{FrameTiming, Timing};

//! The Ethernet block of the Cortina (StorLink) Gemini, SL3512 and SL3516, as a register-level model:
//! two GMAC ports and the TOE they share.
//!
//! The core ([`Gemini`]) is the block as docs/hardware/gemini.md describes it, whose sections are cited
//! in brackets; `(INF)` and "section 12" mark what is inferred or not known. It has no threads, sockets,
//! clocks or `unsafe`: accesses, frames, guest memory and time come in as arguments, frames and interrupt
//! levels go out. Where sources disagree the likelier reading is the default and the other a switch in
//! [`Faults`], together with everything that is known to go wrong with the chip.
//!
//! Nothing the guest or the wire does may panic the core, make it reach memory that was not asked for, or
//! keep it busy for ever: descriptor walks, fragments and queues are bounded.
//!
//! In QEMU the block rides a carrier: a PCI function whose BAR 0 is the chip's 0x60000000 to 0x6000ffff,
//! BAR 1 the global block at 0x40000000 and BAR 2 GPIO 0 at 0x4d000000, 4 KiB each. INT0 and INT1 are both
//! on INTA.

#![deny(unsafe_code)]
// Sources are cited in brackets, which rustdoc takes for links.
#![allow(rustdoc::broken_intra_doc_links)]

mod access;
mod board;
mod device;
mod faults;
mod filter;
mod flow;
mod gpio;
mod interrupts;
mod mdio;
mod mib;
mod packet;
mod phy;
mod port;
pub mod regs;
mod rx;
mod smi;
mod stats;
mod switch;
mod syscon;
mod tss;
mod tx;

pub use board::{Board, BoardKind, UnknownBoard};
pub use device::Gemini;
pub use faults::Faults;
pub use phy::Phy;
pub use stats::{Counters, PortCounters};

/// PCI vendor of the carrier. QEMU's `docs/specs/pci-ids` leaves 1af4:10f0 to 1af4:10ff to anyone "for
/// experimental usage without registration"; a device that leaves the laboratory needs an id of its own.
pub const CARRIER_VENDOR: u16 = 0x1af4;
/// PCI device of the carrier. The subsystem device says which board it is, in [`BoardKind`]'s order.
pub const CARRIER_DEVICE: u16 = 0x10f3;

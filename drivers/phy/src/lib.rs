//! Ethernet PHYs by clause 22 of IEEE 802.3, over a management bus whose two pins software moves: [`Mdio`],
//! and a [`Phy`] on it, which is found, made to negotiate, and asked for the link.
//!
//! What a board's PHY needs besides, as delays of its clocks, is the affair of whoever knows the board. [802.3 n]
//! is a section of the standard.

#![cfg_attr(not(test), no_std)]
#![deny(unsafe_code)]
// Sources are cited in brackets, which rustdoc takes for links.
#![allow(rustdoc::broken_intra_doc_links)]

mod mdio;
mod phy;

pub use mdio::{Mdio, Pins};
pub use phy::{Advertisement, LinkState, Phy};

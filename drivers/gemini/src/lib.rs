//! Driver for the Ethernet ports of the Cortina (StorLink) Gemini, SL3512 and SL3516. So far its pure part:
//! per-frame decisions and what descriptors say.
//!
//! The facts are those of `docs/hardware/gemini.md`, cited as [GM n] by its sections and [GM E n] by the rows
//! of its errata table (11.1). **Unverified on silicon.**

#![cfg_attr(not(test), no_std)]
#![deny(unsafe_code)]
// Sources are cited in brackets, which rustdoc takes for links.
#![allow(rustdoc::broken_intra_doc_links)]

mod ability;
mod verdict;

pub use ability::{
    MAX_FRAME, MAX_SEGMENTED_FRAME, Offloads, TransmitWords, transmit_ability, transmit_words,
};
pub use verdict::{FrameError, Verdict};

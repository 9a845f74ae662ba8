//! A PTP clock (IEEE 1588-2019) on a card's own clock.
//!
//! The protocol is the crate `statime`'s: who leads, what is sent when, what the times say. Here are its surroundings: the
//! card's clock as it wants one ([`card`]), the loop that keeps its timers and carries its messages ([`ordinary`]), and what of
//! it is shown. Times come from the card at both ends of a message, so that neither the stack nor the program's turn on the
//! processor is in them.

#![deny(unsafe_code)]

pub mod card;
pub mod message;
pub mod options;
pub mod ordinary;
pub mod servo;

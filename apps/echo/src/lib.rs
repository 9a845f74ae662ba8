//! A TCP and UDP echo server [RFC 862], with a TCP sink and a TCP source for measurements.
//!
//! One thread, one loop. Connections hold no data: what a peer sends is left in its socket until it has been sent back. So
//! memory is bounded by the number of connections and the sockets' own buffers.

#![deny(unsafe_code)]

mod datagrams;
pub mod options;
mod server;
mod service;

pub use server::Server;

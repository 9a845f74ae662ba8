//! Measures throughput by iperf3's protocol, with iperf3 or itself as the peer.
//!
//! One thread, one loop on either side. A test holds a block to send, a buffer to receive into and some counters for each
//! stream; no octet of either is looked at but a datagram's header.

#![deny(unsafe_code)]

pub mod client;
mod control;
mod cpu;
mod datagram;
mod error;
pub mod options;
mod pace;
mod parameters;
mod report;
mod results;
mod server;
mod stream;
mod test;
mod tuning;
mod units;

pub use error::{Error, Peer};
pub use parameters::Parameters;
pub use server::Server;

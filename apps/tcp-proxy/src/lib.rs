//! A TCP proxy between two networks.
//!
//! One thread, one loop. A connection is a pair of sockets with a way in each direction, and a way holds only what one side has
//! sent and the other could not take at once. So memory is bounded by the number of connections.

#![deny(unsafe_code)]

pub mod options;
mod pair;
mod server;

pub use server::Server;

//! A static web server for HTTP/1.1 and 1.0 [RFC 9110, RFC 9112], made for small machines: one thread, one loop, memory
//! that is bounded by what the command line says and not by what clients do.
//!
//! A request comes in through [`server`](Server) and `connection`, is read by `request` and `body`, resolved by `target` and
//! `content`, answered by `respond` and leaves through `output`. An answer for a small file is two slices in one write, and
//! is made without allocating and without formatting.
//!
//! It is **not** a proxy, runs no programs, takes no uploads and speaks no TLS.

#![deny(unsafe_code)]
// What only the status page asks for.
#![cfg_attr(not(feature = "status"), allow(dead_code))]

mod access_log;
mod body;
mod clock;
mod conditional;
mod connection;
mod content;
mod gzip;
mod media_type;
pub mod options;
mod output;
pub mod pattern;
mod range;
mod request;
mod respond;
mod server;
mod status;
mod target;
mod wheel;

pub use server::Server;

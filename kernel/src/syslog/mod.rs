//! Console messages to a syslog server, `syslog=HOST[:PORT]`: RFC 5424 over UDP (RFC 5426).
//!
//! Whoever prints only appends to a bounded queue; a thread of its own sends. Without a network, a route or the
//! server's name the queue waits, from the first message of the boot on. What the sender itself has to say goes to
//! the console only: a message about a message that could not be sent would be the next.

mod message;
#[cfg(target_os = "hermit")]
mod sender;

#[cfg(target_os = "hermit")]
pub use sender::{dropped, initialize, printed, record};

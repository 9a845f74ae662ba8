//! Sockets with what `std` has no words for: on Linux by socket2, on an appliance by the kernel.
//!
//! Both have the same names and mean the same by them. [`Socket`] becomes `std`'s `TcpStream`, `TcpListener` or `UdpSocket`
//! by `into`; the functions take any of those.

#![deny(unsafe_code)]

#[cfg(not(target_os = "hermit"))]
mod host;

#[cfg(not(target_os = "hermit"))]
pub use host::*;
#[cfg(target_os = "hermit")]
pub use trireme::socket::*;

//! Puts a device model into stock QEMU: a PCI function around any [`Device`], served on a vfio-user
//! socket (`-device vfio-user-pci`, QEMU 10.1 or newer).
//!
//! A device core knows none of this. It sees register accesses, frames, guest memory and time, each
//! as an argument, and answers with an interrupt level and frames to send. The layers around it:
//!
//! - [`ConfigSpace`]: the 256 bytes of PCI configuration, generic header and capabilities.
//! - [`Function`]: core and configuration together; decides who may touch what.
//! - [`serve`]: sockets, threads, memory mappings and the interrupt's eventfd. The only `unsafe`.
//! - [`Program`] and [`faults!`]: what the models' command lines have in common.
//!
//! The client on the socket is not trusted: a wrong length, index or mapping is an error and a log
//! line, never a panic and never an access outside the mapped memory.

mod config;
mod device;
mod faults;
mod function;
mod memory;
mod program;
mod server;

pub use config::{Bar, ConfigSpace, PowerState};
pub use device::{Context, Device, DmaError, GuestMemory};
pub use faults::{UnknownFault, strikes};
pub use function::Function;
pub use memory::{DmaTable, MapError};
pub use program::{Program, Setup};
pub use server::{Options, ServeError, Wires, serve};

//! Buses devices are found on, and how their registers are reached.

pub mod pci;
pub mod virtio_mmio;

#[cfg(target_os = "hermit")]
mod hal;
#[cfg(target_os = "hermit")]
pub mod host;
#[cfg(all(target_os = "hermit", target_arch = "x86_64"))]
pub mod ports;
#[cfg(target_os = "hermit")]
pub mod registers;
#[cfg(target_os = "hermit")]
pub mod virtio;

#[cfg(target_os = "hermit")]
pub use hal::KernelHal;

//! What a device core has to offer, and what it is given.

use crate::{ConfigSpace, PowerState};
use std::fmt;
use std::time::Duration;

/// A DMA access that reached no memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DmaError {
    /// First address of the access.
    pub address: u64,
    /// Bytes.
    pub len: usize,
}

impl fmt::Display for DmaError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "DMA to {:#x}+{} reaches no memory", self.address, self.len)
    }
}

impl std::error::Error for DmaError {}

/// Guest memory as a bus master sees it. A failed access may have moved a part of the bytes.
///
/// Aligned 32-bit words are read and written whole, so an ownership bit never appears without the
/// rest of its word; accesses reach memory in the order they are made.
pub trait GuestMemory {
    /// Reads `data.len()` bytes at `address`.
    fn read(&self, address: u64, data: &mut [u8]) -> Result<(), DmaError>;
    /// Writes `data` at `address`.
    fn write(&self, address: u64, data: &[u8]) -> Result<(), DmaError>;

    /// Reads a little-endian word.
    fn read32(&self, address: u64) -> Result<u32, DmaError> {
        let mut word = [0; 4];
        self.read(address, &mut word)?;
        Ok(u32::from_le_bytes(word))
    }

    /// Writes a little-endian word.
    fn write32(&self, address: u64, value: u32) -> Result<(), DmaError> {
        self.write(address, &value.to_le_bytes())
    }
}

/// What a core is given with every call.
#[derive(Clone, Copy)]
pub struct Context<'a> {
    /// Guest memory; every access fails while the function is no bus master.
    pub memory: &'a dyn GuestMemory,
    /// Time since some origin; never goes back.
    pub now: Duration,
}

/// A device core: registers, DMA, frames, interrupt level. No threads, sockets or clocks.
pub trait Device: Send {
    /// Configuration space after power-up.
    fn config_space(&self) -> ConfigSpace;

    /// Reads `data.len()` bytes (1, 2, 4 or 8) of a BAR; the access lies within the BAR.
    fn read(&mut self, bar: usize, offset: u64, data: &mut [u8], context: Context<'_>);

    /// Writes a BAR; the access lies within the BAR.
    fn write(&mut self, bar: usize, offset: u64, data: &[u8], context: Context<'_>);

    /// A frame arrives from the wire, without FCS.
    fn receive(&mut self, frame: &[u8], context: Context<'_>);

    /// Time passes. Returns when the core wants to be called again if nothing else happens.
    fn advance(&mut self, context: Context<'_>) -> Option<Duration>;

    /// The next frame for the wire, without FCS.
    fn take_frame(&mut self) -> Option<Vec<u8>>;

    /// A frame arrives on wire `wire` of a card with several; cards with one need not know.
    fn receive_on(&mut self, _wire: usize, frame: &[u8], context: Context<'_>) {
        self.receive(frame, context);
    }

    /// The next frame and the wire it leaves on, for a card with several.
    fn take_frame_for(&mut self) -> Option<(usize, Vec<u8>)> {
        self.take_frame().map(|frame| (0, frame))
    }

    /// Level of the interrupt pin: true is asserted.
    fn interrupt(&self) -> bool;

    /// PCI reset: everything as after power-up.
    fn reset(&mut self);

    /// The power-management state changed.
    fn power(&mut self, _state: PowerState) {}

    /// A byte of configuration space outside the standard header was written.
    fn config_written(&mut self, _offset: u8, _value: u8) {}
}

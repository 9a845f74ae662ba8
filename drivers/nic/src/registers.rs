/// A card's register block: offsets in bytes from its start.
///
/// Implemented by the kernel on mapped memory or I/O ports, by tests on a device model. Reads may
/// have effects, so nothing may add or merge accesses; an implementation keeps their order and width
/// and orders them against [`Coherent`](crate::Coherent) memory (a write is not passed by an earlier
/// store to memory the device reads).
pub trait Registers: Send {
    /// Reads 8 bits.
    fn read8(&self, offset: usize) -> u8;
    /// Reads 16 bits at an even offset.
    fn read16(&self, offset: usize) -> u16;
    /// Reads 32 bits at an offset divisible by four.
    fn read32(&self, offset: usize) -> u32;
    /// Writes 8 bits.
    fn write8(&self, offset: usize, value: u8);
    /// Writes 16 bits at an even offset.
    fn write16(&self, offset: usize, value: u16);
    /// Writes 32 bits at an offset divisible by four.
    fn write32(&self, offset: usize, value: u32);
}

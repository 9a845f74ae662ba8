//! A device's registers in I/O space.

use core::ops::Range;

use trireme_nic::Registers;
use x86_64::instructions::port::Port;

/// A block of ports. An access is one instruction; x86 does not reorder or buffer it, the bus may.
#[derive(Clone, Copy, Debug)]
pub struct PortRegisters {
    base: u16,
    len: u16,
}

impl PortRegisters {
    /// The ports of a device's BAR.
    ///
    /// # Safety
    /// They must be that device's, and it must not reach memory other than what it is given.
    pub unsafe fn new(ports: Range<u16>) -> PortRegisters {
        PortRegisters { base: ports.start, len: ports.end.saturating_sub(ports.start) }
    }

    /// The port at an offset.
    #[inline]
    fn at<T>(&self, offset: usize) -> Port<T> {
        let size = size_of::<T>();
        let end = offset.checked_add(size);
        assert!(offset.is_multiple_of(size) && end.is_some_and(|end| end <= usize::from(self.len)));
        Port::new(self.base + offset as u16)
    }
}

impl Registers for PortRegisters {
    #[inline]
    fn read8(&self, offset: usize) -> u8 {
        // SAFETY: a port of the device (`at` checked that), whose driver asks for it.
        unsafe { self.at(offset).read() }
    }

    #[inline]
    fn read16(&self, offset: usize) -> u16 {
        // SAFETY: as for `read8`.
        unsafe { self.at(offset).read() }
    }

    #[inline]
    fn read32(&self, offset: usize) -> u32 {
        // SAFETY: as for `read8`.
        unsafe { self.at(offset).read() }
    }

    #[inline]
    fn write8(&self, offset: usize, value: u8) {
        // SAFETY: a port of the device (`at` checked that), which reaches no memory but what its driver
        // gives it (`new`).
        unsafe { self.at(offset).write(value) };
    }

    #[inline]
    fn write16(&self, offset: usize, value: u16) {
        // SAFETY: as for `write8`.
        unsafe { self.at(offset).write(value) };
    }

    #[inline]
    fn write32(&self, offset: usize, value: u32) {
        // SAFETY: as for `write8`.
        unsafe { self.at(offset).write(value) };
    }
}

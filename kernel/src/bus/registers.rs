//! A device's registers in memory.

use core::ops::Range;
use core::ptr::NonNull;

use trireme_nic::Registers;

use crate::arch::{self, MapError};

/// A mapped block of registers.
///
/// On aarch64 each access is one load or store without write-back: that is what a hypervisor can
/// decode, and a volatile access does not promise it.
#[derive(Clone, Copy, Debug)]
pub struct MappedRegisters {
    /// Invariant: `len` bytes from here are mapped as device registers, for good.
    base: NonNull<u8>,
    len: usize,
}

// SAFETY: registers can be accessed from any thread; what their accesses mean is their driver's affair.
unsafe impl Send for MappedRegisters {}

macro_rules! read {
    ($self:ident, $offset:ident, $type:ty, $instruction:literal) => {{
        let at: *const $type = $self.at($offset);
        #[cfg(target_arch = "aarch64")]
        {
            let value: u32;
            // SAFETY: in the block and aligned, `at` checked that; mapped as registers (invariant).
            unsafe {
                core::arch::asm!(concat!($instruction, " {:w}, [{}]"), out(reg) value, in(reg) at,
                    options(nostack, preserves_flags));
            }
            value as $type
        }
        #[cfg(not(target_arch = "aarch64"))]
        // SAFETY: in the block and aligned, `at` checked that; mapped as registers (invariant).
        unsafe {
            at.read_volatile()
        }
    }};
}

macro_rules! write {
    ($self:ident, $offset:ident, $value:ident, $type:ty, $instruction:literal) => {{
        let at: *mut $type = $self.at($offset);
        #[cfg(target_arch = "aarch64")]
        {
            let value = u32::from($value);
            // The barrier puts earlier stores to memory the device reads before the write.
            // SAFETY: in the block and aligned, `at` checked that; mapped as registers (invariant).
            unsafe {
                core::arch::asm!("dmb oshst", concat!($instruction, " {:w}, [{}]"), in(reg) value,
                    in(reg) at, options(nostack, preserves_flags));
            }
        }
        // A store to registers waits for nothing, earlier ones to memory may be in the write buffer still.
        #[cfg(target_arch = "arm")]
        core::sync::atomic::fence(core::sync::atomic::Ordering::SeqCst);
        #[cfg(not(target_arch = "aarch64"))]
        // SAFETY: in the block and aligned, `at` checked that; mapped as registers (invariant).
        // Stores are not reordered with stores on x86.
        unsafe {
            at.write_volatile($value);
        }
    }};
}

impl MappedRegisters {
    /// Maps a physical range of registers.
    pub fn map(physical: Range<u64>) -> Result<MappedRegisters, MapError> {
        let len = physical.end.checked_sub(physical.start).ok_or(MapError::BadRange)?;
        let len = usize::try_from(len).map_err(|_| MapError::BadRange)?;
        Ok(MappedRegisters { base: arch::map_device(physical.start, len)?, len })
    }

    /// Whether `len` bytes from `offset` are in the block.
    #[inline]
    pub fn contains(&self, offset: usize, len: usize) -> bool {
        offset <= self.len && len <= self.len - offset
    }

    /// Where an access of this width goes.
    #[inline]
    fn at<T>(&self, offset: usize) -> *mut T {
        let size = size_of::<T>();
        assert!(offset.is_multiple_of(size) && self.contains(offset, size));
        // SAFETY: within the block.
        unsafe { self.base.as_ptr().add(offset).cast() }
    }
}

impl Registers for MappedRegisters {
    #[inline]
    fn read8(&self, offset: usize) -> u8 {
        read!(self, offset, u8, "ldrb")
    }

    #[inline]
    fn read16(&self, offset: usize) -> u16 {
        read!(self, offset, u16, "ldrh")
    }

    #[inline]
    fn read32(&self, offset: usize) -> u32 {
        read!(self, offset, u32, "ldr")
    }

    #[inline]
    fn write8(&self, offset: usize, value: u8) {
        write!(self, offset, value, u8, "strb");
    }

    #[inline]
    fn write16(&self, offset: usize, value: u16) {
        write!(self, offset, value, u16, "strh");
    }

    #[inline]
    fn write32(&self, offset: usize, value: u32) {
        write!(self, offset, value, u32, "str");
    }
}

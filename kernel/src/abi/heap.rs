//! Memory: the allocator's calls, and anonymous mappings.

use alloc::vec::Vec;
use core::alloc::Layout;
use core::ptr::NonNull;

use hermit_abi::errno::{EACCES, EINVAL, ENOMEM};
use hermit_abi::{PROT_EXEC, PROT_READ, PROT_WRITE};

use super::{answer, write};
use crate::arch::{self, Protection};
use crate::cell::Kernel;
use crate::descriptor::Errno;
use crate::memory::{self, PAGE};

#[inline]
fn allocate(size: usize, align: usize) -> *mut u8 {
    Layout::from_size_align(size, align)
        .ok()
        .and_then(memory::allocate)
        .map_or(core::ptr::null_mut(), NonNull::as_ptr)
}

#[unsafe(no_mangle)]
extern "C" fn sys_malloc(size: usize, align: usize) -> *mut u8 {
    allocate(size, align)
}

#[unsafe(no_mangle)]
extern "C" fn sys_alloc(size: usize, align: usize) -> *mut u8 {
    allocate(size, align)
}

#[unsafe(no_mangle)]
extern "C" fn sys_alloc_zeroed(size: usize, align: usize) -> *mut u8 {
    let block = allocate(size, align);
    if !block.is_null() {
        // SAFETY: `size` bytes just allocated.
        unsafe { block.write_bytes(0, size) };
    }
    block
}

/// # Safety
/// `pointer` came from this allocator with this size and alignment.
#[unsafe(no_mangle)]
unsafe extern "C" fn sys_realloc(
    pointer: *mut u8,
    size: usize,
    align: usize,
    new_size: usize,
) -> *mut u8 {
    let (Some(block), Ok(layout)) = (NonNull::new(pointer), Layout::from_size_align(size, align))
    else {
        return core::ptr::null_mut();
    };
    // SAFETY: the caller's duty; a `new_size` too large is refused inside.
    unsafe { memory::reallocate(block, layout, new_size) }
        .map_or(core::ptr::null_mut(), NonNull::as_ptr)
}

/// # Safety
/// `pointer` came from this allocator with this size and alignment, and is not used again.
#[unsafe(no_mangle)]
unsafe extern "C" fn sys_free(pointer: *mut u8, size: usize, align: usize) {
    if let (Some(block), Ok(layout)) = (NonNull::new(pointer), Layout::from_size_align(size, align))
    {
        // SAFETY: the caller's duty.
        unsafe { memory::free(block, layout) };
    }
}

/// # Safety
/// As `sys_free`.
#[unsafe(no_mangle)]
unsafe extern "C" fn sys_dealloc(pointer: *mut u8, size: usize, align: usize) {
    // SAFETY: the caller's duty.
    unsafe { sys_free(pointer, size, align) }
}

/// Mappings made by `sys_mmap`, by address and length in bytes.
static MAPPINGS: Kernel<Vec<(usize, usize)>> = Kernel::new(Vec::new());

/// Executable memory is refused: all code is in the image.
fn protection(flags: u32) -> Result<Protection, Errno> {
    if flags & !(PROT_READ | PROT_WRITE | PROT_EXEC) != 0 {
        return Err(EINVAL);
    }
    match (flags & PROT_EXEC != 0, flags & PROT_WRITE != 0, flags & PROT_READ != 0) {
        (true, _, _) => Err(EACCES),
        (_, true, _) => Ok(Protection::ReadWrite),
        (_, _, true) => Ok(Protection::ReadOnly),
        _ => Ok(Protection::None),
    }
}

fn map(size: usize, flags: u32) -> Result<*mut u8, Errno> {
    let protection = protection(flags)?;
    let len = size.checked_next_multiple_of(PAGE).filter(|len| *len != 0).ok_or(EINVAL)?;
    let layout = Layout::from_size_align(len, PAGE).map_err(|_| ENOMEM)?;
    MAPPINGS.with(|mappings| {
        mappings.try_reserve(1).map_err(|_| ENOMEM)?;
        let block = memory::allocate(layout).ok_or(ENOMEM)?;
        // SAFETY: `len` bytes just allocated.
        unsafe { block.as_ptr().write_bytes(0, len) };
        let start = block.as_ptr() as usize;
        if arch::protect(start..start + len, protection).is_err() {
            // SAFETY: just allocated with this layout.
            unsafe { memory::free(block, layout) };
            return Err(ENOMEM);
        }
        mappings.push((start, len));
        Ok(block.as_ptr())
    })
}

/// # Safety
/// `ret` is null or has room for a pointer.
#[unsafe(no_mangle)]
unsafe extern "C" fn sys_mmap(size: usize, flags: u32, ret: *mut *mut u8) -> i32 {
    // SAFETY: the caller's duty.
    answer(map(size, flags).and_then(|block| unsafe { write(ret, block) }).map(|()| 0))
}

/// # Safety
/// Nothing in the mapping is used again.
#[unsafe(no_mangle)]
unsafe extern "C" fn sys_munmap(pointer: *mut u8, size: usize) -> i32 {
    let unmap = || {
        let len = size.checked_next_multiple_of(PAGE).ok_or(EINVAL)?;
        let start = pointer as usize;
        MAPPINGS.with(|mappings| {
            // Whole mappings only.
            let at = mappings.iter().position(|m| *m == (start, len)).ok_or(EINVAL)?;
            let layout = Layout::from_size_align(len, PAGE).map_err(|_| EINVAL)?;
            arch::protect(start..start + len, Protection::ReadWrite).map_err(|_| ENOMEM)?;
            mappings.swap_remove(at);
            if let Some(block) = NonNull::new(pointer) {
                // SAFETY: allocated by `map` with this layout; unused from now on, says the caller.
                unsafe { memory::free(block, layout) };
            }
            Ok(0)
        })
    };
    answer(unmap())
}

/// # Safety
/// Nothing in the range is used against the new protection.
#[unsafe(no_mangle)]
unsafe extern "C" fn sys_mprotect(pointer: *mut u8, size: usize, flags: u32) -> i32 {
    let protect = || {
        let protection = protection(flags)?;
        let start = pointer as usize;
        let len = size.checked_next_multiple_of(PAGE).ok_or(EINVAL)?;
        let end = start.checked_add(len).ok_or(EINVAL)?;
        let inside =
            MAPPINGS.with(|mappings| mappings.iter().any(|(at, n)| *at <= start && end <= at + n));
        if !inside || !start.is_multiple_of(PAGE) {
            return Err(EINVAL);
        }
        arch::protect(start..end, protection).map_err(|_| ENOMEM)?;
        Ok(0)
    };
    answer(protect())
}

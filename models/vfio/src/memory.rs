//! The guest's memory as the vfio-user client mapped it.
//!
//! The client hands over file descriptors. A file that shrinks under a mapping turns an access into
//! SIGBUS, so only sealed memfds are mapped (`F_SEAL_SHRINK`, which QEMU's `memory-backend-memfd`
//! sets by default).

use crate::{DmaError, GuestMemory};
use std::collections::BTreeMap;
use std::fmt;
use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::ptr::NonNull;

/// Mappings at most; QEMU's `pc` makes fewer than 20.
const MAX_MAPPINGS: usize = 256;

/// Why a mapping was refused.
#[derive(Debug)]
pub enum MapError {
    /// Size zero, or offset or address not on a page, or the range wraps.
    Malformed,
    /// It touches a mapping that is already there.
    Overlap,
    /// There are too many.
    TooMany,
    /// The file is shorter than the range.
    Short {
        /// Bytes in the file.
        file: u64,
    },
    /// The file is no memfd sealed against shrinking.
    NotSealed,
    /// There is no such mapping to remove.
    Unknown,
    /// The system refused.
    Os(io::Error),
}

impl fmt::Display for MapError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            MapError::Malformed => write!(f, "range is empty, wraps or is not page-aligned"),
            MapError::Overlap => write!(f, "range overlaps a mapping"),
            MapError::TooMany => write!(f, "more than {MAX_MAPPINGS} mappings"),
            MapError::Short { file } => write!(f, "file has only {file} bytes"),
            MapError::NotSealed => {
                write!(f, "memory is no memfd sealed against shrinking (use memory-backend-memfd)")
            }
            MapError::Unknown => write!(f, "no such mapping"),
            MapError::Os(error) => write!(f, "{error}"),
        }
    }
}

impl std::error::Error for MapError {}

impl From<MapError> for io::Error {
    fn from(error: MapError) -> io::Error {
        let errno = match &error {
            MapError::Malformed | MapError::Short { .. } => libc::EINVAL,
            MapError::Overlap => libc::EEXIST,
            MapError::TooMany => libc::ENOSPC,
            MapError::NotSealed => libc::EPERM,
            MapError::Unknown => libc::ENOENT,
            MapError::Os(os) => os.raw_os_error().unwrap_or(libc::EIO),
        };
        io::Error::from_raw_os_error(errno)
    }
}

/// One mapped range. Invariant: `pointer` is the start of `len` bytes mapped shared with read (and,
/// if `writable`, write) access, of a file that can no longer shrink; unmapped by `Drop` only.
struct Mapping {
    pointer: NonNull<u8>,
    len: usize,
    writable: bool,
}

// SAFETY: the mapping belongs to the value and is reached through volatile accesses only; which
// thread makes them does not matter.
unsafe impl Send for Mapping {}

impl Mapping {
    fn new(file: &File, offset: u64, len: usize, writable: bool) -> Result<Mapping, MapError> {
        // SAFETY: F_GET_SEALS takes no pointer; the descriptor is open.
        let seals = unsafe { libc::fcntl(file.as_raw_fd(), libc::F_GET_SEALS) };
        if seals < 0 || seals & libc::F_SEAL_SHRINK == 0 {
            return Err(MapError::NotSealed);
        }
        let size = file.metadata().map_err(MapError::Os)?.len();
        if offset.checked_add(len as u64).is_none_or(|end| end > size) {
            return Err(MapError::Short { file: size });
        }
        let offset = libc::off_t::try_from(offset).map_err(|_| MapError::Malformed)?;
        let protection = libc::PROT_READ | if writable { libc::PROT_WRITE } else { 0 };
        // SAFETY: a new mapping at an address the system chooses touches no existing memory; the
        // descriptor is open.
        let pointer = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                len,
                protection,
                libc::MAP_SHARED,
                file.as_raw_fd(),
                offset,
            )
        };
        if pointer == libc::MAP_FAILED {
            return Err(MapError::Os(io::Error::last_os_error()));
        }
        let pointer = NonNull::new(pointer.cast()).ok_or(MapError::Malformed)?;
        Ok(Mapping { pointer, len, writable })
    }

    /// Copies out. `offset + data.len()` must be within `len`: checked by the caller, and here.
    fn read(&self, offset: usize, data: &mut [u8]) {
        assert!(offset <= self.len && data.len() <= self.len - offset);
        let mut at = offset;
        let mut rest = data;
        while !rest.is_empty() {
            if at.is_multiple_of(4) && rest.len() >= 4 {
                // SAFETY: four bytes within the mapping (asserted), aligned: mappings start on
                // pages. Volatile, since the guest writes at the same time.
                let word = unsafe { self.pointer.as_ptr().add(at).cast::<u32>().read_volatile() };
                rest[..4].copy_from_slice(&word.to_ne_bytes());
                (at, rest) = (at + 4, &mut rest[4..]);
            } else {
                // SAFETY: one byte within the mapping; volatile as above.
                rest[0] = unsafe { self.pointer.as_ptr().add(at).read_volatile() };
                (at, rest) = (at + 1, &mut rest[1..]);
            }
        }
    }

    /// Copies in; the same rules, and `writable` must hold.
    fn write(&self, offset: usize, data: &[u8]) {
        assert!(self.writable && offset <= self.len && data.len() <= self.len - offset);
        let mut at = offset;
        let mut rest = data;
        while let Some(&byte) = rest.first() {
            if let (true, Some(word)) = (at.is_multiple_of(4), rest.first_chunk::<4>()) {
                let word = u32::from_ne_bytes(*word);
                // SAFETY: four bytes within the mapping (asserted), aligned, mapped for writing.
                unsafe { self.pointer.as_ptr().add(at).cast::<u32>().write_volatile(word) };
                (at, rest) = (at + 4, &rest[4..]);
            } else {
                // SAFETY: one byte within the mapping, mapped for writing.
                unsafe { self.pointer.as_ptr().add(at).write_volatile(byte) };
                (at, rest) = (at + 1, &rest[1..]);
            }
        }
        // Frame bytes before the descriptor that announces them, descriptor before the interrupt.
        std::sync::atomic::fence(std::sync::atomic::Ordering::SeqCst);
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: the range is exactly what `new` mapped, and no reference into it exists.
        unsafe { libc::munmap(self.pointer.as_ptr().cast(), self.len) };
    }
}

/// Guest-physical ranges and what backs them.
#[derive(Default)]
pub struct DmaTable {
    mappings: BTreeMap<u64, Mapping>,
}

impl DmaTable {
    /// Maps `size` bytes of `file` from `offset` at guest address `address`.
    pub fn map(
        &mut self,
        file: &File,
        offset: u64,
        address: u64,
        size: u64,
        writable: bool,
    ) -> Result<(), MapError> {
        let end = address.checked_add(size).ok_or(MapError::Malformed)?;
        let len = usize::try_from(size).map_err(|_| MapError::Malformed)?;
        if len == 0 || !(address | offset | size).is_multiple_of(4096) {
            return Err(MapError::Malformed);
        }
        if self.mappings.len() >= MAX_MAPPINGS {
            return Err(MapError::TooMany);
        }
        let before = self.mappings.range(..end).next_back();
        if before.is_some_and(|(&start, mapping)| start + mapping.len as u64 > address) {
            return Err(MapError::Overlap);
        }
        self.mappings.insert(address, Mapping::new(file, offset, len, writable)?);
        Ok(())
    }

    /// Removes a mapping made with exactly this range.
    pub fn unmap(&mut self, address: u64, size: u64) -> Result<(), MapError> {
        match self.mappings.get(&address) {
            Some(mapping) if mapping.len as u64 == size => {
                self.mappings.remove(&address);
                Ok(())
            }
            _ => Err(MapError::Unknown),
        }
    }

    /// Removes every mapping.
    pub fn clear(&mut self) {
        self.mappings.clear();
    }

    /// Calls `copy` for each mapped piece of the range, in order: mapping, offset in it, and which
    /// part of the data.
    fn pieces(
        &self,
        address: u64,
        len: usize,
        mut copy: impl FnMut(&Mapping, usize, std::ops::Range<usize>) -> bool,
    ) -> Result<(), DmaError> {
        let error = DmaError { address, len };
        let mut done = 0;
        while done < len {
            let at = address.checked_add(done as u64).ok_or(error)?;
            let (&start, mapping) = self.mappings.range(..=at).next_back().ok_or(error)?;
            let offset = (at - start) as usize;
            let here = mapping.len.saturating_sub(offset).min(len - done);
            if here == 0 || !copy(mapping, offset, done..done + here) {
                return Err(error);
            }
            done += here;
        }
        Ok(())
    }
}

impl GuestMemory for DmaTable {
    fn read(&self, address: u64, data: &mut [u8]) -> Result<(), DmaError> {
        self.pieces(address, data.len(), |mapping, offset, part| {
            mapping.read(offset, &mut data[part]);
            true
        })
    }

    fn write(&self, address: u64, data: &[u8]) -> Result<(), DmaError> {
        self.pieces(address, data.len(), |mapping, offset, part| {
            if mapping.writable {
                mapping.write(offset, &data[part]);
            }
            mapping.writable
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::fd::FromRawFd;
    use std::os::unix::fs::FileExt;

    fn memfd(len: u64, seals: libc::c_int) -> File {
        // SAFETY: the name is a C string; a new descriptor belongs to nobody else.
        let file = unsafe {
            let fd = libc::memfd_create(c"test".as_ptr(), libc::MFD_ALLOW_SEALING);
            assert!(fd >= 0);
            File::from_raw_fd(fd)
        };
        file.set_len(len).unwrap();
        // SAFETY: no pointers.
        assert_eq!(unsafe { libc::fcntl(file.as_raw_fd(), libc::F_ADD_SEALS, seals) }, 0);
        file
    }

    #[test]
    fn accesses_cross_neighbours_and_stop_at_holes() {
        let file = memfd(3 * 4096, libc::F_SEAL_SHRINK);
        let mut table = DmaTable::default();
        table.map(&file, 8192, 0x1000, 4096, true).unwrap();
        table.map(&file, 0, 0x2000, 4096, true).unwrap();
        table.write(0x1ffe, &[1, 2, 3, 4, 5]).unwrap();
        let mut bytes = [0; 2];
        file.read_exact_at(&mut bytes, 8192 + 4094).unwrap();
        assert_eq!(bytes, [1, 2]);
        let mut back = [0; 5];
        table.read(0x1ffe, &mut back).unwrap();
        assert_eq!(back, [1, 2, 3, 4, 5]);
        for address in [0xfff, 0x2ffc, 0x3000, 0, u64::MAX - 2] {
            let error = DmaError { address, len: 5 };
            assert_eq!(table.read(address, &mut back), Err(error));
        }
        table.unmap(0x2000, 4096).unwrap();
        assert!(table.read(0x2000, &mut back).is_err());
    }

    #[test]
    fn read_only_memory_is_not_written() {
        let file = memfd(4096, libc::F_SEAL_SHRINK);
        let mut table = DmaTable::default();
        table.map(&file, 0, 0, 4096, false).unwrap();
        assert_eq!(table.write32(8, 1), Err(DmaError { address: 8, len: 4 }));
        assert_eq!(table.read32(8), Ok(0));
    }

    #[test]
    fn hostile_mappings_are_refused() {
        let file = memfd(8192, libc::F_SEAL_SHRINK);
        let mut table = DmaTable::default();
        table.map(&file, 0, 0x4000, 8192, true).unwrap();
        let errno =
            |result: Result<(), MapError>| io::Error::from(result.unwrap_err()).raw_os_error();
        for (offset, address, size, want) in [
            (0, 0x8000, 0, libc::EINVAL),
            (0, 0x8000, 100, libc::EINVAL),
            (1, 0x8000, 4096, libc::EINVAL),
            (0, 0x8001, 4096, libc::EINVAL),
            (0, u64::MAX - 4095, 4096, libc::EINVAL),
            (0, 0x8000, 3 * 4096, libc::EINVAL),
            (u64::MAX - 4095, 0x8000, 4096, libc::EINVAL),
            (0, 0x5000, 4096, libc::EEXIST),
            (0, 0x3000, 8192, libc::EEXIST),
            (0, 0, 1 << 40, libc::EEXIST),
        ] {
            let result = table.map(&file, offset, address, size, true);
            assert_eq!(errno(result), Some(want), "{offset:x} {address:x} {size:x}");
        }
        let loose = memfd(8192, 0);
        assert_eq!(errno(table.map(&loose, 0, 0x8000, 4096, true)), Some(libc::EPERM));
        let null = File::open("/dev/null").unwrap();
        assert_eq!(errno(table.map(&null, 0, 0x8000, 4096, true)), Some(libc::EPERM));
        assert_eq!(errno(table.unmap(0x4000, 4096)), Some(libc::ENOENT));
        assert_eq!(errno(table.unmap(0x5000, 4096)), Some(libc::ENOENT));
    }

    #[test]
    fn mappings_are_bounded_in_number() {
        let file = memfd(4096, libc::F_SEAL_SHRINK);
        let mut table = DmaTable::default();
        for i in 0..MAX_MAPPINGS as u64 {
            table.map(&file, 0, i * 4096, 4096, true).unwrap();
        }
        assert!(matches!(table.map(&file, 0, 1 << 40, 4096, true), Err(MapError::TooMany)));
        table.clear();
        table.map(&file, 0, 0, 4096, true).unwrap();
    }
}

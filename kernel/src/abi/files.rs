//! The read-only file system of the image.

use core::cell::Cell;
use core::ffi::c_char;

use hermit_abi::errno::{EINVAL, ENOENT, ENOTDIR, EROFS};
use hermit_abi::{
    DT_DIR, DT_REG, O_CREAT, O_DIRECTORY, O_EXCL, O_NONBLOCK, O_RDONLY, O_RDWR, O_TRUNC, O_WRONLY,
    S_IFCHR, S_IFDIR, S_IFREG, S_IFSOCK, dirent64, stat, timespec,
};

use super::{answer, bytes_mut, string, write};
use crate::cpio::{self, Entry};
use crate::descriptor::{self, Description, Errno, Object, OpenFile};
use crate::{files, preempt};

/// # Safety
/// `path` is null or a string.
#[unsafe(no_mangle)]
unsafe extern "C" fn sys_open(path: *const c_char, flags: i32, _mode: i32) -> i32 {
    let _guard = preempt::disable();
    // SAFETY: the caller's duty.
    answer(unsafe { string(path) }.and_then(|path| open(path, flags)))
}

/// # Safety
/// `path` is null or a string.
#[unsafe(no_mangle)]
unsafe extern "C" fn sys_opendir(path: *const c_char) -> i32 {
    let _guard = preempt::disable();
    // SAFETY: the caller's duty.
    answer(unsafe { string(path) }.and_then(|path| open(path, O_DIRECTORY)))
}

fn open(path: &str, flags: i32) -> Result<i32, Errno> {
    if path.is_empty() {
        return Err(ENOENT);
    }
    if flags & (O_WRONLY | O_RDWR) != O_RDONLY || flags & O_TRUNC != 0 {
        return Err(EROFS);
    }
    let Some(entry) = files::find(path) else {
        return Err(if flags & O_CREAT != 0 { EROFS } else { ENOENT });
    };
    if flags & (O_CREAT | O_EXCL) == O_CREAT | O_EXCL {
        return Err(hermit_abi::errno::EEXIST);
    }
    if flags & O_DIRECTORY != 0 && !entry.is_directory() {
        return Err(ENOTDIR);
    }
    let file = OpenFile { path: cpio::normal(path).into(), entry, position: Cell::new(0) };
    descriptor::insert(Description::new(Object::File(file), flags & O_NONBLOCK != 0))
}

fn attributes(entry: &Entry<'_>) -> stat {
    let time = timespec { tv_sec: i64::from(entry.modified), tv_nsec: 0 };
    stat {
        st_ino: u64::from(entry.inode),
        st_nlink: 1,
        // Whatever the archive says of writing, there is none.
        st_mode: entry.mode & !0o222,
        st_size: entry.data.len() as i64,
        st_blksize: 4096,
        st_blocks: entry.data.len().div_ceil(512) as i64,
        st_atim: time,
        st_mtim: time,
        st_ctim: time,
        ..stat::default()
    }
}

/// # Safety
/// `path` is null or a string; `out` is null or has room for a `stat`.
#[unsafe(no_mangle)]
unsafe extern "C" fn sys_stat(path: *const c_char, out: *mut stat) -> i32 {
    let look = || {
        // SAFETY: the caller's duty.
        let path = unsafe { string(path) }?;
        let entry = files::find(path).filter(|_| !path.is_empty()).ok_or(ENOENT)?;
        // SAFETY: the caller's duty.
        unsafe { write(out, attributes(&entry)) }.map(|()| 0)
    };
    answer(look())
}

/// Links are not followed anywhere: the archive's own are plain entries.
///
/// # Safety
/// As `sys_stat`.
#[unsafe(no_mangle)]
unsafe extern "C" fn sys_lstat(path: *const c_char, out: *mut stat) -> i32 {
    // SAFETY: the caller's duty.
    unsafe { sys_stat(path, out) }
}

/// # Safety
/// `out` is null or has room for a `stat`.
#[unsafe(no_mangle)]
unsafe extern "C" fn sys_fstat(fd: i32, out: *mut stat) -> i32 {
    let _guard = preempt::disable();
    let look = || {
        let description = descriptor::get(fd)?;
        let found = match &description.object {
            Object::File(file) => attributes(&file.entry),
            Object::Input | Object::Output => {
                stat { st_mode: S_IFCHR | 0o620, st_nlink: 1, ..stat::default() }
            }
            Object::Socket(_) => stat { st_mode: S_IFSOCK | 0o777, st_nlink: 1, ..stat::default() },
            Object::Event(_) => stat { st_mode: 0o600, st_nlink: 1, ..stat::default() },
        };
        // SAFETY: the caller's duty.
        unsafe { write(out, found) }.map(|()| 0)
    };
    answer(look())
}

/// Fixed part of a `dirent64`: up to its name.
const NAME: usize = core::mem::offset_of!(dirent64, d_name);

/// # Safety
/// `out` is null or has room for `len` bytes.
#[unsafe(no_mangle)]
unsafe extern "C" fn sys_getdents64(fd: i32, out: *mut dirent64, len: usize) -> i64 {
    let _guard = preempt::disable();
    let list = || {
        let description = descriptor::get(fd)?;
        let Object::File(file) = &description.object else { return Err(ENOTDIR) };
        if !file.entry.is_directory() {
            return Err(ENOTDIR);
        }
        // SAFETY: the caller's duty.
        entries(file, unsafe { bytes_mut(out.cast(), len) }?)
    };
    answer(list())
}

/// `std` takes one answer for the whole directory, and doubles its buffer on EINVAL: so all that is left has to
/// fit, or nothing is given.
fn entries(file: &OpenFile, out: &mut [u8]) -> Result<i64, Errno> {
    let mut used = 0;
    let mut index = 0;
    for entry in files::all() {
        let Some(name) = cpio::child_of(&file.path, entry.path) else { continue };
        index += 1;
        if index <= file.position.get() {
            continue;
        }
        let record = (NAME + name.len() + 1).next_multiple_of(8);
        let at = out.get_mut(used..used + record).ok_or(EINVAL)?;
        at.fill(0);
        at[..8].copy_from_slice(&u64::from(entry.inode).to_ne_bytes());
        at[8..16].copy_from_slice(&(index as i64).to_ne_bytes());
        at[16..18].copy_from_slice(&(record as u16).to_ne_bytes());
        at[18] = if entry.is_directory() { DT_DIR } else { DT_REG };
        at[NAME..NAME + name.len()].copy_from_slice(name.as_bytes());
        used += record;
    }
    file.position.set(index);
    Ok(used as i64)
}

macro_rules! read_only {
    ($($name:ident($($argument:ident: $kind:ty),*);)*) => {$(
        #[unsafe(no_mangle)]
        extern "C" fn $name(path: *const c_char $(, $argument: $kind)*) -> i32 {
            $(let _ = $argument;)*
            answer(Err(if path.is_null() { hermit_abi::errno::EFAULT } else { EROFS }))
        }
    )*};
}

read_only! {
    sys_mkdir(mode: u32);
    sys_rmdir();
    sys_unlink();
}

const _: () = assert!(S_IFDIR == 0o040_000 && S_IFREG == 0o100_000);

//! The files of the image: a read-only tree from the archive linked in, and from the loader's.

use core::sync::atomic::{AtomicPtr, AtomicUsize, Ordering};

use crate::cpio::{self, Entry};

/// The archive linked in by the build (`TRIREME_FILES`), or nothing.
static LINKED: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/files.cpio"));

static INITRD: AtomicPtr<u8> = AtomicPtr::new(core::ptr::null_mut());
static INITRD_LEN: AtomicUsize = AtomicUsize::new(0);

/// Takes note of the loader's archive, whose files come before those linked in.
pub fn initialize(initrd: Option<&'static [u8]>) {
    if let Some(archive) = initrd {
        INITRD_LEN.store(archive.len(), Ordering::Relaxed);
        INITRD.store(archive.as_ptr().cast_mut(), Ordering::Relaxed);
        log::info!("files: {} from the loader", cpio::entries(archive).count());
    }
}

fn initrd() -> &'static [u8] {
    let start = INITRD.load(Ordering::Relaxed);
    if start.is_null() {
        return &[];
    }
    // SAFETY: the two were stored from one 'static slice.
    unsafe { core::slice::from_raw_parts(start, INITRD_LEN.load(Ordering::Relaxed)) }
}

/// All entries; a path may come twice, the first counts.
pub fn all() -> impl Iterator<Item = Entry<'static>> {
    cpio::entries(initrd()).chain(cpio::entries(LINKED))
}

/// Looks a path up. The root and directories that only appear as part of a path exist too.
pub fn find(path: &str) -> Option<Entry<'static>> {
    let wanted = cpio::normal(path);
    if let Some(entry) = all().find(|entry| entry.path == wanted) {
        return Some(entry);
    }
    let implied = |entry: Entry<'_>| {
        entry.path.strip_prefix(wanted).is_some_and(|rest| rest.starts_with('/'))
    };
    (wanted.is_empty() || all().any(implied)).then_some(Entry {
        path: "",
        mode: 0o040_555,
        modified: 0,
        inode: 0,
        data: &[],
    })
}

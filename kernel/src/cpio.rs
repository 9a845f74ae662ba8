//! Reads files out of a cpio archive in place ("newc" format, magic 070701 or 070702). Pure logic.
//!
//! The format, from cpio(5) of libarchive: a header of 13 fields of eight hexadecimal digits after the
//! magic, the name with its NUL padded to four bytes, the content padded to four bytes. The entry named
//! `TRAILER!!!` ends it. Nothing here trusts a length: a broken archive ends at the first bad entry.

const HEADER: usize = 110;

/// A file or directory of an archive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry<'a> {
    /// Path without leading `/` or `./`; empty for the root.
    pub path: &'a str,
    /// Type and permissions, as in `st_mode`.
    pub mode: u32,
    /// Seconds since 1970.
    pub modified: u32,
    /// Inode number within the archive.
    pub inode: u32,
    /// Content.
    pub data: &'a [u8],
}

impl Entry<'_> {
    /// Whether it is a directory.
    pub fn is_directory(&self) -> bool {
        self.mode & 0o170_000 == 0o040_000
    }
}

/// Visits an archive's entries in order.
#[derive(Clone, Debug)]
pub struct Entries<'a> {
    rest: &'a [u8],
}

/// The entries of an archive.
pub fn entries(archive: &[u8]) -> Entries<'_> {
    Entries { rest: archive }
}

fn hex(field: &[u8]) -> Option<u32> {
    field.iter().try_fold(0u32, |value, digit| {
        let digit = (*digit as char).to_digit(16)?;
        value.checked_mul(16)?.checked_add(digit)
    })
}

impl<'a> Iterator for Entries<'a> {
    type Item = Entry<'a>;

    fn next(&mut self) -> Option<Entry<'a>> {
        let header = self.rest.get(..HEADER)?;
        if !matches!(&header[..6], b"070701" | b"070702") {
            return None;
        }
        let field = |index: usize| hex(&header[6 + 8 * index..14 + 8 * index]);
        let (inode, mode, modified) = (field(0)?, field(1)?, field(5)?);
        let (size, name_size) = (field(6)? as usize, field(11)? as usize);
        let name_end = HEADER.checked_add(name_size)?;
        let (name, nul) =
            self.rest.get(HEADER..name_end)?.split_at_checked(name_size.checked_sub(1)?)?;
        if nul != [0] || name == b"TRAILER!!!" {
            return None;
        }
        let start = name_end.checked_next_multiple_of(4)?;
        let end = start.checked_add(size)?;
        let data = self.rest.get(start..end)?;
        // The last entry may lack its padding.
        let next = end.checked_next_multiple_of(4)?;
        self.rest = self.rest.get(next..).unwrap_or(&[]);
        let path = normal(core::str::from_utf8(name).ok()?);
        Some(Entry { path, mode, modified, inode, data })
    }
}

/// A path in the form of [`Entry::path`].
pub fn normal(mut path: &str) -> &str {
    loop {
        let shorter = path.strip_prefix("./").or_else(|| path.strip_prefix('/')).unwrap_or(path);
        if shorter.len() == path.len() {
            break;
        }
        path = shorter;
    }
    if path == "." { "" } else { path.trim_end_matches('/') }
}

/// Whether `path` is directly in `directory` (both normal), and what it is called there.
pub fn child_of<'p>(directory: &str, path: &'p str) -> Option<&'p str> {
    let name = if directory.is_empty() {
        path
    } else {
        path.strip_prefix(directory)?.strip_prefix('/')?
    };
    (!name.is_empty() && !name.contains('/')).then_some(name)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Written by GNU cpio 2.13: `printf 'hi\n' > a; mkdir d; printf x > d/b; touch -d @1000000000 a d d/b;
    /// chmod 644 a d/b; chmod 755 d; printf 'a\nd\nd/b\n' | cpio -o -H newc --reproducible`, owner and
    /// device fields zeroed, trailing block padding cut.
    fn archive() -> Vec<u8> {
        let header = |ino: u32, mode: u32, nlink: u32, time: u32, size: u32, name: u32| {
            format!(
                "070701{ino:08X}{mode:08X}{:08X}{:08X}{nlink:08X}{time:08X}{size:08X}\
                 {:08X}{:08X}{:08X}{:08X}{name:08X}{:08X}",
                0, 0, 0, 0, 0, 0, 0
            )
        };
        let mut bytes = Vec::new();
        for (head, name, data) in [
            (header(1, 0o100_644, 1, 1_000_000_000, 3, 2), "a", "hi\n"),
            (header(2, 0o040_755, 2, 1_000_000_000, 0, 2), "d", ""),
            (header(3, 0o100_644, 1, 1_000_000_000, 1, 4), "d/b", "x"),
            (header(0, 0, 1, 0, 0, 11), "TRAILER!!!", ""),
        ] {
            bytes.extend_from_slice(head.as_bytes());
            bytes.extend_from_slice(name.as_bytes());
            bytes.push(0);
            bytes.resize(bytes.len().next_multiple_of(4), 0);
            bytes.extend_from_slice(data.as_bytes());
            bytes.resize(bytes.len().next_multiple_of(4), 0);
        }
        bytes
    }

    #[test]
    fn lists_what_was_packed() {
        let bytes = archive();
        let list: Vec<_> = entries(&bytes).map(|e| (e.path, e.is_directory(), e.data)).collect();
        assert_eq!(
            list,
            [("a", false, &b"hi\n"[..]), ("d", true, &b""[..]), ("d/b", false, &b"x"[..])]
        );
    }

    #[test]
    fn paths_are_brought_to_one_form() {
        for (given, want) in [
            ("/", ""),
            (".", ""),
            ("./a/b", "a/b"),
            ("//a/", "a"),
            ("", ""),
            (".hidden", ".hidden"),
        ] {
            assert_eq!(normal(given), want, "{given}");
        }
    }

    #[test]
    fn children_are_direct() {
        assert_eq!(child_of("", "a"), Some("a"));
        assert_eq!(child_of("", "d/b"), None);
        assert_eq!(child_of("d", "d/b"), Some("b"));
        assert_eq!(child_of("d", "dd/b"), None);
        assert_eq!(child_of("d", "d"), None);
    }

    #[test]
    fn a_cut_archive_ends_early() {
        let bytes = archive();
        for len in 0..bytes.len() {
            assert!(entries(&bytes[..len]).count() <= 3);
        }
    }

    proptest! {
        #[test]
        fn broken_archives_never_panic(at in 0usize..600, value: u8, cut in 0usize..600) {
            let mut bytes = archive();
            let len = bytes.len();
            bytes[at % len] = value;
            bytes.truncate(len.min(cut));
            prop_assert!(entries(&bytes).count() < 10);
        }
    }
}

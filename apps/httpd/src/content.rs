//! What is served: files below a root, small ones kept in memory behind a head made beforehand.
//!
//! A file is looked at when it is first asked for. Up to [`MEMORY_LIMIT`] octets it is kept, head and body in one piece, so
//! that an answer is two slices and no formatting; a larger one is kept open and read as it is sent. On Linux a kept file is
//! compared with the file system once a second; on an appliance files are part of the image and don't change.

use std::cell::{Cell, OnceCell};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs::{self, File, Metadata};
use std::hash::{DefaultHasher, Hasher};
use std::io::{self, Read};
use std::path::PathBuf;
use std::rc::Rc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use crate::conditional::Validators;
use crate::gzip;
use crate::media_type::MediaType;
use crate::pattern;
use crate::target::{Path, Unusable};

/// Longest file kept in memory, in octets.
const MEMORY_LIMIT: u64 = 256 * 1024;
/// Shortest file worth compressing, in octets: below this the answer is one packet either way.
const GZIP_LEAST: u64 = 512;
/// Most files known at a time, in memory or open.
const ENTRY_LIMIT: usize = 512;
/// How long a file in memory is trusted to be the file on disk.
const TRUST: Duration = Duration::from_secs(1);

/// One representation, ready to send.
pub(crate) struct Entry {
    pub(crate) media_type: &'static str,
    /// Of the body, in octets.
    pub(crate) length: u64,
    pub(crate) store: Store,
    /// Fields that a 206 or 304 repeats: validators, Vary, Accept-Ranges.
    pub(crate) common_fields: String,
    /// All fields of a 200 that belong to the representation, and the empty line; then the body if it is in memory.
    bytes: Vec<u8>,
    head_length: usize,
    etag: Option<String>,
    modified: Option<SystemTime>,
    /// The same compressed, once somebody asked for that; `None` if it isn't worth it.
    gzip: OnceCell<Option<Rc<Entry>>>,
    file: Option<Origin>,
}

/// Where the octets of a body are.
pub(crate) enum Store {
    Memory,
    File(File),
    /// A block, repeated without end.
    Pattern(Rc<[u8]>),
}

/// The file an entry was made from.
struct Origin {
    path: PathBuf,
    stamp: (u64, Option<SystemTime>),
    compressible: bool,
    checked: Cell<Instant>,
}

/// Why there is nothing to send.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Miss {
    Malformed,
    NotFound,
    /// The path is a directory's, without its slash.
    Directory,
    /// The file exists and can't be read.
    Unreadable,
}

impl Entry {
    /// The fields of a 200 and the empty line.
    pub(crate) fn head(&self) -> &[u8] {
        &self.bytes[..self.head_length]
    }

    /// Head and, if it is in memory, body.
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    pub(crate) fn validators(&self) -> Validators<'_> {
        Validators { etag: self.etag.as_deref(), modified: self.modified }
    }

    /// Octets that this entry occupies.
    fn footprint(&self) -> usize {
        size_of::<Self>() + self.bytes.capacity() + self.common_fields.capacity()
    }

    fn new(
        media_type: &'static str,
        validators: (Option<String>, Option<SystemTime>),
        body: Body,
    ) -> Self {
        let (etag, modified) = validators;
        let mut common_fields = String::new();
        // Writing to a String can't fail.
        if let Some(etag) = &etag {
            let _ = write!(common_fields, "ETag: {etag}\r\n");
        }
        if let Some(modified) = modified {
            let _ =
                write!(common_fields, "Last-Modified: {}\r\n", httpdate::fmt_http_date(modified));
        }
        if body.varies {
            common_fields.push_str("Vary: Accept-Encoding\r\n");
        }
        common_fields.push_str("Accept-Ranges: bytes\r\n");
        let encoding = if body.is_gzip { "Content-Encoding: gzip\r\n" } else { "" };
        let length = body.length;
        let head = format!(
            "Content-Type: {media_type}\r\nContent-Length: {length}\r\n{encoding}{common_fields}\r\n"
        );
        let head_length = head.len();
        let mut bytes = head.into_bytes();
        bytes.reserve_exact(body.memory.len());
        bytes.extend_from_slice(&body.memory);
        Self {
            media_type,
            length,
            store: body.store,
            common_fields,
            bytes,
            head_length,
            etag,
            modified,
            gzip: OnceCell::new(),
            file: None,
        }
    }
}

/// What [`Entry::new`] puts behind the head.
struct Body {
    store: Store,
    memory: Vec<u8>,
    length: u64,
    varies: bool,
    is_gzip: bool,
}

/// The content of one server.
pub(crate) struct Site {
    root: PathBuf,
    known: BTreeMap<Box<[u8]>, Rc<Entry>>,
    used: usize,
    budget: usize,
    /// The block of `/bytes/N`, if that is to be served.
    pattern: Option<Rc<[u8]>>,
}

impl Site {
    /// Serves what is below `root`, keeping about `budget` octets of it in memory.
    pub(crate) fn new(root: PathBuf, budget: usize, with_pattern: bool) -> Self {
        let pattern = with_pattern.then(pattern::block);
        Self { root, known: BTreeMap::new(), used: 0, budget, pattern }
    }

    /// Finds what a target in origin-form names.
    pub(crate) fn find(&mut self, target: &[u8], now: Instant) -> Result<Rc<Entry>, Miss> {
        // A key is a decoded path. A target equal to one needs no decoding, unless it contains what decoding changes.
        if let Some(entry) = self.known.get(target)
            && !target.iter().any(|octet| matches!(octet, b'%' | b'?'))
            && entry.is_current(now)
        {
            return Ok(Rc::clone(entry));
        }
        let path = match Path::decode(target) {
            Ok(path) => path,
            Err(Unusable::Malformed) => return Err(Miss::Malformed),
            Err(Unusable::Hidden) => return Err(Miss::NotFound),
        };
        if let Some(block) = &self.pattern
            && let Some(length) = pattern::length(path.as_str())
        {
            let body = Body {
                store: Store::Pattern(Rc::clone(block)),
                memory: Vec::new(),
                length,
                varies: false,
                is_gzip: false,
            };
            let etag = format!("\"bytes-{length}\"");
            return Ok(Rc::new(Entry::new(MediaType::UNKNOWN.name, (Some(etag), None), body)));
        }
        let key = path.as_str().as_bytes();
        if let Some(entry) = self.known.get(key) {
            if entry.is_current(now) {
                return Ok(Rc::clone(entry));
            }
            self.forget(key);
        }
        let entry = Rc::new(self.load(&path, now)?);
        self.keep(key, &entry);
        Ok(entry)
    }

    /// The compressed form of `entry`, if there is one and it is shorter.
    pub(crate) fn gzip(&mut self, entry: &Rc<Entry>) -> Option<Rc<Entry>> {
        let compressed = entry.gzip.get_or_init(|| {
            let compressed = entry.compress().map(Rc::new);
            self.used += compressed.as_ref().map_or(0, |entry| entry.footprint());
            compressed
        });
        compressed.clone()
    }

    fn load(&self, path: &Path, now: Instant) -> Result<Entry, Miss> {
        let mut on_disk = self.root.clone();
        on_disk.extend(path.names());
        if path.is_directory() {
            on_disk.push("index.html");
        }
        let metadata = fs::metadata(&on_disk).map_err(|_| Miss::NotFound)?;
        if metadata.is_dir() && !path.is_directory() {
            return Err(Miss::Directory);
        }
        // Opening a pipe or a device could block, or do worse.
        if !metadata.is_file() {
            return Err(Miss::NotFound);
        }
        let file = File::open(&on_disk).map_err(|_| Miss::Unreadable)?;
        let media =
            MediaType::of(on_disk.file_name().and_then(|name| name.to_str()).unwrap_or_default());
        let mut entry = Entry::from_file(file, media, false).map_err(|_| Miss::Unreadable)?;
        let stamp = (metadata.len(), metadata.modified().ok());
        entry.file = Some(Origin {
            path: on_disk,
            stamp,
            compressible: media.compressible,
            checked: Cell::new(now),
        });
        Ok(entry)
    }

    fn keep(&mut self, key: &[u8], entry: &Rc<Entry>) {
        let footprint = entry.footprint() + key.len();
        if self.used + footprint > self.budget || self.known.len() >= ENTRY_LIMIT {
            // Which to keep is not worth remembering: a site that fits never comes here. What is being sent lives on.
            self.known.clear();
            self.used = 0;
        }
        if footprint <= self.budget {
            self.used += footprint;
            self.known.insert(key.into(), Rc::clone(entry));
        }
    }

    fn forget(&mut self, key: &[u8]) {
        if let Some((key, entry)) = self.known.remove_entry(key) {
            let compressed =
                entry.gzip.get().and_then(Option::as_ref).map_or(0, |entry| entry.footprint());
            self.used = self.used.saturating_sub(entry.footprint() + key.len() + compressed);
        }
    }
}

impl Entry {
    fn from_file(file: File, media: MediaType, is_gzip: bool) -> io::Result<Self> {
        let metadata = file.metadata()?;
        let modified = modified(&metadata);
        let mut length = metadata.len();
        let mut memory = Vec::new();
        let (store, etag) = if length <= MEMORY_LIMIT {
            memory.reserve_exact(length as usize + 1);
            file.take(MEMORY_LIMIT).read_to_end(&mut memory)?;
            length = memory.len() as u64;
            // Of the content: files packed into an image may all have the same date.
            let mut hasher = DefaultHasher::new();
            hasher.write(&memory);
            (Store::Memory, Some(format!("\"{:x}-{length:x}\"", hasher.finish())))
        } else {
            let nanoseconds = modified
                .and(metadata.modified().ok())
                .and_then(|time| time.duration_since(UNIX_EPOCH).ok());
            (
                Store::File(file),
                nanoseconds.map(|time| format!("\"{:x}-{length:x}\"", time.as_nanos())),
            )
        };
        // Content-Encoding is part of the representation, so its tag must differ. [RFC 9110 8.8.3.3]
        let etag = etag.map(|etag| if is_gzip { etag.replacen('"', "\"gz-", 1) } else { etag });
        let body = Body { store, memory, length, varies: media.compressible, is_gzip };
        Ok(Self::new(media.name, (etag, modified), body))
    }

    /// Looks for the same name with `.gz` behind it, or compresses what is in memory.
    fn compress(&self) -> Option<Self> {
        let origin = self.file.as_ref().filter(|origin| origin.compressible)?;
        let media = MediaType { name: self.media_type, compressible: true };
        let mut beside = origin.path.clone().into_os_string();
        beside.push(".gz");
        if fs::metadata(&beside).is_ok_and(|metadata| metadata.is_file())
            && let Ok(file) = File::open(&beside)
        {
            return Self::from_file(file, media, true).ok();
        }
        if !matches!(self.store, Store::Memory) || self.length < GZIP_LEAST {
            return None;
        }
        let memory = gzip::compress(&self.bytes[self.head_length..]);
        let length = memory.len() as u64;
        if length >= self.length {
            return None;
        }
        let etag = self.etag.as_ref().map(|etag| etag.replacen('"', "\"gz-", 1));
        let body = Body { store: Store::Memory, memory, length, varies: true, is_gzip: true };
        Some(Self::new(media.name, (etag, self.modified), body))
    }

    /// The file on disk is still the one this was made from.
    fn is_current(&self, now: Instant) -> bool {
        if cfg!(target_os = "hermit") {
            return true;
        }
        let Some(origin) = &self.file else { return true };
        if now.saturating_duration_since(origin.checked.get()) < TRUST {
            return true;
        }
        let is_current = fs::metadata(&origin.path)
            .is_ok_and(|metadata| (metadata.len(), metadata.modified().ok()) == origin.stamp);
        if is_current {
            origin.checked.set(now);
        }
        is_current
    }
}

/// In whole seconds, as HTTP has it. The epoch itself is what an archive without dates says.
fn modified(metadata: &Metadata) -> Option<SystemTime> {
    let since = metadata.modified().ok()?.duration_since(UNIX_EPOCH).ok()?;
    (since.as_secs() > 0).then(|| UNIX_EPOCH + Duration::from_secs(since.as_secs()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn site(name: &str, budget: usize) -> (Site, PathBuf) {
        let root =
            std::env::temp_dir().join(format!("httpd-content-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&root);
        fs::create_dir_all(root.join("d")).unwrap();
        (Site::new(root.clone(), budget, false), root)
    }

    #[test]
    fn changes_on_disk_are_seen_after_a_second() {
        let (mut site, root) = site("changes", 1 << 20);
        fs::write(root.join("a.txt"), "old").unwrap();
        let now = Instant::now();
        assert!(site.find(b"/a.txt", now).unwrap().bytes().ends_with(b"\r\n\r\nold"));
        fs::write(root.join("a.txt"), "newer").unwrap();
        assert!(site.find(b"/a.txt", now).unwrap().bytes().ends_with(b"\r\n\r\nold"));
        assert!(site.find(b"/a.txt", now + TRUST).unwrap().bytes().ends_with(b"\r\n\r\nnewer"));
        fs::remove_file(root.join("a.txt")).unwrap();
        assert_eq!(site.find(b"/a.txt", now + 2 * TRUST).err(), Some(Miss::NotFound));
    }

    #[test]
    fn memory_stays_within_the_budget() {
        let (mut site, root) = site("budget", 8192);
        for index in 0..32 {
            fs::write(root.join(format!("{index}.txt")), vec![b'a'; 3000]).unwrap();
        }
        for index in 0..32 {
            let entry = site.find(format!("/{index}.txt").as_bytes(), Instant::now()).unwrap();
            assert_eq!(entry.length, 3000);
            assert!(site.used <= 8192);
        }
        fs::write(root.join("large"), vec![0; 20_000]).unwrap();
        assert_eq!(site.find(b"/large", Instant::now()).unwrap().length, 20_000);
        assert!(site.used <= 8192);
    }

    #[test]
    fn misses() {
        let (mut site, root) = site("misses", 8192);
        fs::write(root.join("d/index.html"), "x").unwrap();
        fs::write(root.join("a%20b"), "literal").unwrap();
        let mut find =
            |target: &str| site.find(target.as_bytes(), Instant::now()).map(|entry| entry.length);
        assert_eq!(find("/d"), Err(Miss::Directory));
        assert_eq!(find("/d/"), Ok(1));
        assert_eq!(find("/d/?q"), Ok(1));
        assert_eq!(find("/"), Err(Miss::NotFound));
        assert_eq!(find("/d/index.html/"), Err(Miss::NotFound));
        assert_eq!(find("/d/index.html/x"), Err(Miss::NotFound));
        assert_eq!(find("/../etc/passwd"), Err(Miss::Malformed));
        assert_eq!(find("/a%2520b"), Ok(7));
        // Known by its decoded name now, which as a target means another file.
        assert_eq!(find("/a%20b"), Err(Miss::NotFound));
    }

    #[test]
    fn compressed_forms() {
        let (mut site, root) = site("gzip", 1 << 20);
        let text = "All work and no play makes Jack a dull boy.\n".repeat(100);
        fs::write(root.join("a.txt"), &text).unwrap();
        fs::write(root.join("b.txt"), "short").unwrap();
        fs::write(root.join("c.png"), &text).unwrap();
        fs::write(root.join("d.html"), "short").unwrap();
        fs::write(root.join("d.html.gz"), "made beforehand").unwrap();
        let mut gzip = |target: &str| {
            let entry = site.find(target.as_bytes(), Instant::now()).unwrap();
            site.gzip(&entry)
                .map(|gzip| (gzip.bytes()[gzip.head_length..].to_vec(), entry.etag != gzip.etag))
        };
        let (body, differs) = gzip("/a.txt").unwrap();
        let mut back = String::new();
        flate2::read::GzDecoder::new(&body[..]).read_to_string(&mut back).unwrap();
        assert_eq!(back, text);
        assert!(differs);
        assert_eq!(gzip("/b.txt"), None);
        assert_eq!(gzip("/c.png"), None);
        assert_eq!(gzip("/d.html"), Some((b"made beforehand".to_vec(), true)));
    }
}

//! Files with known contents, for guests to serve.

use std::fs;
use std::path::{Path, PathBuf};

use trireme_tools::{archive, workspace};

/// Size of `big.bin`, in bytes.
pub const BIG: usize = 100_000_000;

/// A scratch folder of this test process under the build folder; removed when dropped.
pub struct Scratch(PathBuf);

impl Scratch {
    /// Makes the folder.
    pub fn new() -> Scratch {
        let path =
            workspace::target_directory().join(format!("tests/scratch-{}", std::process::id()));
        fs::create_dir_all(&path).expect("the build folder can be written");
        Scratch(path)
    }

    /// A path in it.
    pub fn file(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }
}

impl Default for Scratch {
    fn default() -> Scratch {
        Scratch::new()
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Bytes without a pattern that a segment size could hide in: xorshift64* from `seed`.
pub fn noise(seed: u64, length: usize) -> Vec<u8> {
    let mut state = seed | 1;
    let mut bytes = Vec::with_capacity(length + 8);
    while bytes.len() < length {
        state ^= state >> 12;
        state ^= state << 25;
        state ^= state >> 27;
        bytes.extend_from_slice(&state.wrapping_mul(0x2545_F491_4F6C_DD1D).to_le_bytes());
    }
    bytes.truncate(length);
    bytes
}

/// The folder of files that the web server's tests fetch (`one.bin`, `1k.bin`, `big.bin`), made once per build folder.
pub fn web_files() -> PathBuf {
    let folder = workspace::target_directory().join("tests/files");
    fs::create_dir_all(&folder).expect("the build folder can be written");
    for (name, size) in [("one.bin", 1), ("1k.bin", 1024), ("64k.bin", 65_536), ("big.bin", BIG)] {
        write_once(&folder.join(name), || noise(size as u64, size));
    }
    folder
}

/// The same files as an initial RAM disk: too large to link into an image for each test.
pub fn web_archive() -> PathBuf {
    let folder = web_files();
    let path = folder.with_extension("cpio");
    write_once(&path, || archive::pack(&folder).expect("the folder was made a moment ago"));
    path
}

/// Writes a file that is not there yet; whole or not at all, whoever else does the same.
fn write_once(path: &Path, content: impl FnOnce() -> Vec<u8>) {
    if path.exists() {
        return;
    }
    let new = path.with_extension(format!("new-{}", std::process::id()));
    fs::write(&new, content()).expect("the build folder can be written");
    fs::rename(&new, path).expect("same folder");
}

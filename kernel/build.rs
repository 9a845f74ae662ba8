//! Puts the archive of files named by `TRIREME_FILES` (a newc cpio, made by the project's tools) where
//! `src/files.rs` includes it; an empty one if there is none.

use std::path::PathBuf;
use std::{env, fs};

fn main() {
    println!("cargo::rerun-if-env-changed=TRIREME_FILES");
    let out = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets OUT_DIR")).join("files.cpio");
    match env::var_os("TRIREME_FILES").filter(|path| !path.is_empty()) {
        Some(path) => {
            let path = PathBuf::from(path);
            println!("cargo::rerun-if-changed={}", path.display());
            if let Err(error) = fs::copy(&path, &out) {
                panic!("TRIREME_FILES={}: {error}", path.display());
            }
        }
        None => fs::write(&out, []).expect("OUT_DIR is writable"),
    }
}

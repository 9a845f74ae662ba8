//! The Rust side: `std`'s source, cargo-nextest.

use std::path::PathBuf;
use std::process::Command;

use anyhow::Result;

use super::step;
use crate::workspace::{cargo, check, find_program, output, root};

/// `-Z build-std` compiles `std` from the component `rust-src`, which `rust-toolchain.toml` names; a toolchain that
/// was installed before it was named may lack it.
pub(super) fn standard_library_source() -> Result<()> {
    let mut rustc = Command::new("rustc");
    rustc.current_dir(root()).env_remove("RUSTUP_TOOLCHAIN").args(["--print", "sysroot"]);
    let sysroot = PathBuf::from(output(&mut rustc)?.trim());
    if sysroot.join("lib/rustlib/src/rust/library/std/Cargo.toml").is_file() {
        return Ok(());
    }
    step("adding the component rust-src", |_| {
        let mut rustup = Command::new("rustup");
        rustup.current_dir(root()).args(["component", "add", "rust-src"]);
        output(&mut rustup).map(drop)
    })
}

/// The test runner. Compiling it takes some minutes, once.
pub(super) fn nextest() -> Result<()> {
    if find_program("cargo-nextest").is_some()
        || output(cargo().args(["nextest", "--version"])).is_ok()
    {
        return Ok(());
    }
    step("building cargo-nextest (minutes, once)", |bar| {
        bar.suspend(|| check(cargo().args(["install", "--locked", "--debug", "cargo-nextest"])))
    })
}

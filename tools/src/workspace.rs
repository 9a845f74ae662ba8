//! Where things are: the repository, its build folder, the cache of what set-up fetched.

use std::env;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

/// The repository's folder: `run.sh` names it; otherwise it is where this crate was built.
pub fn root() -> PathBuf {
    match env::var_os("TRIREME_ROOT") {
        Some(root) => PathBuf::from(root),
        None => {
            let own = Path::new(env!("CARGO_MANIFEST_DIR"));
            own.parent().expect("tools/ is in the repository").to_owned()
        }
    }
}

/// Cargo's output folder of the repository.
pub fn target_directory() -> PathBuf {
    match env::var_os("CARGO_TARGET_DIR") {
        Some(directory) => PathBuf::from(directory),
        None => root().join("target"),
    }
}

/// What set-up fetches and must survive `cargo clean`: `${XDG_CACHE_HOME:-~/.cache}/trireme`.
pub fn cache() -> Result<PathBuf> {
    if let Some(cache) = env::var_os("XDG_CACHE_HOME") {
        return Ok(PathBuf::from(cache).join("trireme"));
    }
    let home = env::var_os("HOME").context("neither XDG_CACHE_HOME nor HOME is set")?;
    Ok(PathBuf::from(home).join(".cache/trireme"))
}

/// A cargo that obeys the repository's `rust-toolchain.toml` wherever the caller stands.
pub fn cargo() -> Command {
    let mut command = Command::new("cargo");
    command.current_dir(root());
    // Set by the rustup proxy that started us; it would pin the caller's toolchain instead of ours.
    command.env_remove("RUSTUP_TOOLCHAIN");
    command
}

/// Runs a command to its end; its failure is an error that shows the command.
pub fn check(command: &mut Command) -> Result<()> {
    let status =
        command.status().with_context(|| format!("cannot start {:?}", command.get_program()))?;
    if !status.success() {
        bail!("{} failed: {status}", shown(command));
    }
    Ok(())
}

/// Runs a command to its end and returns what it wrote to its standard output.
pub fn output(command: &mut Command) -> Result<String> {
    let output =
        command.output().with_context(|| format!("cannot start {:?}", command.get_program()))?;
    if !output.status.success() {
        bail!(
            "{} failed: {}\n{}",
            shown(command),
            output.status,
            String::from_utf8_lossy(&output.stderr).trim_end()
        );
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// A command as a person would type it.
pub fn shown(command: &Command) -> String {
    let mut words = vec![command.get_program().to_string_lossy().into_owned()];
    words.extend(command.get_args().map(|a| a.to_string_lossy().into_owned()));
    words.join(" ")
}

/// Whether a program can be found in `PATH` (or in the administrator's folders, which `PATH` may lack).
pub fn find_program(name: &str) -> Option<PathBuf> {
    let path = env::var_os("PATH").unwrap_or_default();
    env::split_paths(&path)
        .chain(["/usr/sbin", "/sbin", "/usr/bin"].map(PathBuf::from))
        .map(|folder| folder.join(name))
        .find(|file| file.is_file())
}

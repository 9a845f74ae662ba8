//! Prometheus' own checker of metrics. Debian has it in the package of the server, which would be started when installed:
//! the one program is taken out of the package.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, Result};

use super::{packages, step};
use crate::workspace::{cache, find_program, output};

/// The program; `install` must have succeeded before.
pub fn program() -> Result<PathBuf> {
    match find_program("promtool") {
        Some(program) => Ok(program),
        None => Ok(cache()?.join("bin/promtool")),
    }
}

/// Fetches it unless it is there.
pub(super) fn install() -> Result<()> {
    if program()?.exists() {
        return Ok(());
    }
    let folder = cache()?.join("promtool");
    fs::create_dir_all(&folder)?;
    // A second set-up waits here and then finds the work done.
    let lock = fs::File::create(cache()?.join("promtool.lock"))?;
    lock.lock().context("cannot lock promtool.lock")?;
    if program()?.exists() {
        return Ok(());
    }
    packages::install(packages::FETCH)?;
    step("fetching promtool from Debian's package prometheus", |_| {
        let download = || {
            // As ourselves: apt's own user may not write here.
            let mut apt = Command::new("apt-get");
            apt.current_dir(&folder).args(["-q", "-o", "APT::Sandbox::User=root"]);
            output(apt.args(["download", "prometheus"]))
        };
        if download().is_err() {
            packages::update()?;
            download()?;
        }
        for entry in fs::read_dir(&folder)? {
            let path = entry?.path();
            if path.extension().is_some_and(|extension| extension == "deb") {
                output(Command::new("dpkg-deb").arg("-x").arg(path).arg(&folder))?;
            }
        }
        fs::create_dir_all(cache()?.join("bin"))?;
        fs::rename(folder.join("usr/bin/promtool"), cache()?.join("bin/promtool"))
            .context("the package has no promtool")?;
        Ok(fs::remove_dir_all(&folder)?)
    })
}

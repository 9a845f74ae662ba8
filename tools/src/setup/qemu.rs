//! QEMU 10.1 or newer: the system's if it is, otherwise Debian's backport for trixie unpacked into the cache.
//!
//! The packages are not installed: they would replace libraries of a Debian 12. They are unpacked into a folder of
//! their own, and a two-line script starts QEMU there through that folder's own dynamic loader. Nothing is mounted
//! and no root is needed; QEMU sees the host's paths, so sockets, images and plugins need no translation.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail, ensure};

use super::{packages, step};
use crate::arch::Arch;
use crate::workspace::{cache, find_program, output};

/// The first release with `vfio-user-pci`, which the device models attach by.
const LEAST_VERSION: (u32, u32) = (10, 1);

const PACKAGES: [&str; 2] = ["qemu-system-x86", "qemu-system-arm"];
const KEYRING: &str = "/usr/share/keyrings/debian-archive-keyring.gpg";

/// The emulators used, by the ends of their names: those of images, and that of a 32-bit ARM Linux which judges a model.
const EMULATORS: [&str; 3] = ["x86_64", "aarch64", "arm"];

/// The QEMU program for an architecture; `install` must have succeeded before.
pub fn program(arch: Arch) -> Result<PathBuf> {
    emulator(arch.emulator())
}

/// The QEMU program whose name ends like this; `install` must have succeeded before.
pub fn emulator(name: &str) -> Result<PathBuf> {
    let name = format!("qemu-system-{name}");
    if let Some(program) = find_program(&name).filter(|p| is_new_enough(p)) {
        return Ok(program);
    }
    let program = cache()?.join("bin").join(&name);
    ensure!(
        program.exists(),
        "{name} {}.{} is missing: ./run.sh setup",
        LEAST_VERSION.0,
        LEAST_VERSION.1
    );
    Ok(program)
}

/// The version QEMU prints, as `11.1.3`.
pub fn version(program: &Path) -> Result<String> {
    let text = output(Command::new(program).arg("--version"))?;
    let after = text.split("version ").nth(1).context("QEMU printed no version")?;
    Ok(after.split_whitespace().next().unwrap_or_default().to_owned())
}

fn is_new_enough(program: &Path) -> bool {
    let Ok(version) = version(program) else { return false };
    let mut numbers = version.split('.').map(|n| n.parse::<u32>().unwrap_or(0));
    (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0)) >= LEAST_VERSION
}

/// Unpacks a QEMU into the cache if neither the system nor the cache has one.
pub(super) fn install() -> Result<()> {
    if EMULATORS.iter().all(|name| emulator(name).is_ok()) {
        return Ok(());
    }
    let cache = cache()?;
    fs::create_dir_all(&cache).with_context(|| format!("cannot make {}", cache.display()))?;
    // A second set-up waits here and then finds the work done.
    let lock = fs::File::create(cache.join("qemu.lock"))?;
    lock.lock().context("cannot lock qemu.lock")?;
    if EMULATORS.iter().all(|name| emulator(name).is_ok()) {
        return Ok(());
    }
    let unpacked = cache.join("trixie");
    if !unpacked.join("usr/bin/qemu-system-aarch64").exists() {
        packages::install(packages::FETCH)?;
        step("fetching QEMU from Debian's trixie-backports", |_| fetch(&cache, &unpacked))?;
    }
    for name in EMULATORS {
        write_starter(&cache, &unpacked, name)?;
        let program = emulator(name)?;
        ensure!(is_new_enough(&program), "{} does not run: try {0} --version", program.display());
    }
    Ok(())
}

/// Downloads QEMU and everything it depends on, verified by apt, and unpacks it.
fn fetch(cache: &Path, unpacked: &Path) -> Result<()> {
    let apt = cache.join("apt");
    let new = cache.join("trixie.new");
    for leftover in [&new, &apt] {
        if leftover.exists() {
            fs::remove_dir_all(leftover)?;
        }
    }
    let configuration = private_apt(&apt)?;
    let get = |arguments: &[&str]| {
        let mut command = Command::new("apt-get");
        command.env("APT_CONFIG", &configuration).env("DEBIAN_FRONTEND", "noninteractive");
        output(command.arg("-q").args(arguments)).map(drop)
    };
    get(&["update"])?;
    let download =
        ["install", "-y", "--download-only", "--no-install-recommends", "-t", "trixie-backports"];
    get(&[&download[..], &PACKAGES[..], &["base-files"]].concat())?;
    fs::create_dir_all(&new)?;
    let mut count = 0;
    let mut archives: Vec<PathBuf> = Vec::new();
    for entry in fs::read_dir(apt.join("cache/archives"))? {
        let path = entry?.path();
        if path.extension().is_some_and(|e| e == "deb") {
            archives.push(path);
        }
    }
    // base-files brings the links /bin, /lib, /lib64 into /usr; packages unpacked before it would make folders of them.
    archives.sort_by_key(|path| {
        !path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("base-files_"))
    });
    for archive in archives {
        output(Command::new("dpkg-deb").arg("-x").arg(&archive).arg(&new))?;
        count += 1;
    }
    ensure!(count > 0, "apt-get downloaded nothing");
    if unpacked.exists() {
        bail!("{} has no QEMU in it: remove it and try again", unpacked.display());
    }
    fs::rename(&new, unpacked)?;
    fs::remove_dir_all(&apt)?;
    Ok(())
}

/// An apt of its own, which knows of no installed package: so it downloads all dependencies and installs none.
fn private_apt(apt: &Path) -> Result<PathBuf> {
    for folder in
        ["state/lists/partial", "cache/archives/partial", "etc/apt.conf.d", "etc/preferences.d"]
    {
        fs::create_dir_all(apt.join(folder))?;
    }
    fs::write(apt.join("state/status"), "")?;
    let mirror = packages::debian_mirror()?;
    let source = |suite: &str| format!("deb [signed-by={KEYRING}] {mirror} {suite} main\n");
    fs::write(apt.join("etc/sources.list"), source("trixie") + &source("trixie-backports"))?;
    let configuration = apt.join("apt.conf");
    let folder = apt.display();
    fs::write(
        &configuration,
        format!(
            "Dir \"{folder}\"; Dir::State \"state\"; Dir::Cache \"cache\"; Dir::Etc \"etc\";\n\
             Dir::State::status \"{folder}/state/status\"; APT::Architecture \"amd64\"; APT::Architectures {{\"amd64\";}};\n\
             APT::Sandbox::User \"\"; Acquire::Languages \"none\";\n"
        ),
    )?;
    Ok(configuration)
}

fn write_starter(cache: &Path, unpacked: &Path, name: &str) -> Result<()> {
    let folder = cache.join("bin");
    fs::create_dir_all(&folder)?;
    let name = format!("qemu-system-{name}");
    let root = unpacked.display();
    let script = format!(
        "#!/bin/sh\nexec {root}/usr/lib64/ld-linux-x86-64.so.2 \
         --library-path {root}/usr/lib/x86_64-linux-gnu {root}/usr/bin/{name} \
         -L {root}/usr/share/qemu -L {root}/usr/share/seabios \"$@\"\n"
    );
    let new = folder.join(format!("{name}.new"));
    fs::write(&new, script)?;
    fs::set_permissions(&new, fs::Permissions::from_mode(0o755))?;
    Ok(fs::rename(&new, folder.join(name))?)
}

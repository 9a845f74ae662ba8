//! Debian packages, each known by a program (or file) it brings.

use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, bail};

use super::step;
use crate::workspace::{cache, find_program, output};

/// A program, or the absolute path of a file, and the package it comes from.
type Wanted = (&'static str, &'static str);

/// For TAP devices.
pub(super) const TAP: &[Wanted] = &[("ip", "iproute2")];

/// For machines that bring no device tree.
pub(super) const TREES: &[Wanted] = &[("dtc", "device-tree-compiler")];

/// For board images.
pub(super) const BOARD: &[Wanted] = &[
    ("mkimage", "u-boot-tools"),
    ("dtc", "device-tree-compiler"),
    ("mformat", "mtools"),
    ("openssl", "openssl"),
];

/// For the images of PCs.
pub(super) const GRUB: &[Wanted] =
    &[("grub-mkimage", "grub-common"), ("/usr/lib/grub/i386-pc/boot.img", "grub-pc-bin")];

/// For the test suite.
pub(super) const TESTS: &[Wanted] = &[
    ("ip", "iproute2"),
    ("nsenter", "util-linux"),
    ("ping", "iputils-ping"),
    ("curl", "curl"),
    ("ab", "apache2-utils"),
    ("wrk", "wrk"),
    ("iperf3", "iperf3"),
    ("tcpdump", "tcpdump"),
    ("ethtool", "ethtool"),
    ("ptp4l", "linuxptp"),
    ("fdtput", "device-tree-compiler"),
    ("dnsmasq", "dnsmasq-base"),
    ("rsyslogd", "rsyslog"),
    ("scapy3", "python3-scapy"),
    ("cpio", "cpio"),
    ("/usr/lib/u-boot/qemu_arm64/u-boot.bin", "u-boot-qemu"),
    ("sb", "lrzsz"),
    ("grub-mkimage", "grub-common"),
    ("/usr/lib/grub/i386-pc/pxe.mod", "grub-pc-bin"),
    ("chromium-headless-shell", "chromium-headless-shell"),
];

/// For the Linux guest that benches compare with, and for QEMU's counter plugin.
pub(super) const BENCH: &[Wanted] = &[
    ("ip", "iproute2"),
    ("python3", "python3"),
    ("/usr/lib/u-boot/qemu_arm64/u-boot.bin", "u-boot-qemu"),
    ("gcc", "gcc"),
    ("fdtput", "device-tree-compiler"),
    ("aarch64-linux-gnu-gcc", "gcc-aarch64-linux-gnu"),
    ("/usr/aarch64-linux-gnu/lib/libc.a", "libc6-dev-arm64-cross"),
    ("cpio", "cpio"),
];

/// For building the guests that judge models; their compilers are not installed, see `tools/judge/common.sh`.
pub(super) const JUDGE: &[Wanted] = &[
    ("ip", "iproute2"),
    ("cpio", "cpio"),
    ("xz", "xz-utils"),
    ("dtc", "device-tree-compiler"),
    ("flock", "util-linux"),
    ("dpkg-deb", "dpkg"),
    ("/usr/share/keyrings/debian-archive-keyring.gpg", "debian-archive-keyring"),
];

/// For fetching QEMU.
pub(super) const FETCH: &[Wanted] = &[
    ("dpkg-deb", "dpkg"),
    ("/usr/share/keyrings/debian-archive-keyring.gpg", "debian-archive-keyring"),
];

/// Installs the packages whose programs are missing.
pub(super) fn install(wanted: &[Wanted]) -> Result<()> {
    let missing: Vec<&str> = wanted.iter().filter(|w| !is_there(w.0)).map(|w| w.1).collect();
    if missing.is_empty() {
        return Ok(());
    }
    let names = missing.join(" ");
    if find_program("apt-get").is_none() {
        bail!("these Debian packages or their like are needed and apt-get is not here: {names}");
    }
    if !is_root()? {
        bail!(
            "these packages are needed; as root: apt-get install --no-install-recommends {names}"
        );
    }
    // One at a time: apt's own lock makes the second of two set-ups fail instead of wait.
    fs::create_dir_all(cache()?)?;
    let lock = fs::File::create(cache()?.join("apt.lock"))?;
    lock.lock().context("cannot lock apt.lock")?;
    step(&format!("installing {names}"), |_| {
        // Lists may be absent or old on a fresh machine; either makes the install fail.
        if apt(&["install", "-qy", "--no-install-recommends"], &missing).is_err() {
            update()?;
            apt(&["install", "-qy", "--no-install-recommends"], &missing)?;
        }
        Ok(())
    })?;
    match wanted.iter().find(|w| !is_there(w.0)) {
        None => Ok(()),
        Some((file, package)) => bail!("{file} is still missing with {package} installed"),
    }
}

/// The Debian mirror this machine uses for its own packages.
pub(super) fn debian_mirror() -> Result<String> {
    let mirror = || -> Result<Option<String>> {
        let format = "$(ORIGIN)/$(LABEL) $(REPO_URI)";
        let targets = output(Command::new("apt-get").args(["indextargets", "--format", format]))?;
        Ok(targets.lines().find_map(|l| l.strip_prefix("Debian/Debian ")).map(str::to_owned))
    };
    if mirror()?.is_none() && is_root()? {
        // A fresh machine has not fetched what says whose its mirrors are.
        update()?;
    }
    mirror()?
        .context("apt-get knows no Debian mirror here: install QEMU 10.1 or newer by other means")
}

/// Fetches the lists of what there is.
pub(super) fn update() -> Result<()> {
    apt(&["update", "-q"], &[])
}

fn apt(verb: &[&str], packages: &[&str]) -> Result<()> {
    let mut command = Command::new("apt-get");
    command.args(["-o", "DPkg::Lock::Timeout=300"]).args(verb).args(packages);
    output(command.env("DEBIAN_FRONTEND", "noninteractive")).map(drop)
}

fn is_there(wanted: &str) -> bool {
    match wanted.starts_with('/') {
        true => Path::new(wanted).exists(),
        false => find_program(wanted).is_some(),
    }
}

/// Whether we may install packages and make TAP devices.
fn is_root() -> Result<bool> {
    Ok(output(Command::new("id").arg("-u"))?.trim() == "0")
}

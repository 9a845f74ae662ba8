//! Builds an application into a bootable image: cargo, the archive of files, checks, the form the machine boots.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};
use serde::Deserialize;

use crate::app::{App, KERNEL, Optimize};
use crate::arch::Arch;
use crate::setup::{self, Need};
use crate::{archive, elf, workspace};

/// The profile images are built with, given on the command line so that it holds for applications outside this
/// repository too. One LTO unit of application, `std` and kernel; line tables for backtraces stay in the ELF file.
const PROFILE: [&str; 7] = [
    "profile.appliance.inherits=\"release\"",
    "profile.appliance.opt-level=2",
    "profile.appliance.lto=\"fat\"",
    "profile.appliance.codegen-units=1",
    "profile.appliance.panic=\"abort\"",
    "profile.appliance.debug=\"line-tables-only\"",
    "profile.appliance.strip=\"none\"",
];

/// Set in the environment of the end-to-end tests by `run.sh test`, which builds every image before the first of
/// them: a test then need not ask cargo whether something changed, which takes seconds and waits for other cargos.
pub const PREBUILT: &str = "TRIREME_IMAGES_BUILT";

/// A built image.
#[derive(Clone, Debug)]
pub struct Image {
    /// What it was built for.
    pub arch: Arch,
    /// The linked program with symbols and line tables.
    pub elf: PathBuf,
    /// The file a machine boots: a stripped ELF with a PVH note on x86_64, a Linux `Image` on aarch64, a zImage on ARMv4.
    pub boot: PathBuf,
}

/// Builds `app` for `arch`, with the folder `files` (or the application's own) packed in.
pub fn build(app: &App, arch: Arch, files: Option<&Path>) -> Result<Image> {
    let elf = link(app, arch, files.or(app.files.as_deref()))?;
    let bytes = fs::read(&elf).with_context(|| format!("cannot read {}", elf.display()))?;
    elf::verify(&bytes, arch).with_context(|| format!("{} is not usable", elf.display()))?;
    let content = match arch {
        Arch::X86_64 => elf::stripped(&bytes)?,
        Arch::Aarch64 => elf::arm64_image(&bytes)?,
        Arch::Armv4 => elf::zimage(&bytes)?,
    };
    let boot = boot_file(app, arch)?;
    write_if_changed(&boot, &content)?;
    if arch == Arch::Armv4 {
        write_if_changed(&boot.with_file_name(TREE), &versatile_tree()?)?;
    }
    Ok(Image { arch, elf, boot })
}

/// Compiles applications of one package that pack no files, all at once: linking one keeps one processor busy for as long as
/// everything else takes. [`build`] has then little to do.
pub fn compile(apps: &[&App], arch: Arch) -> Result<()> {
    let Some(first) = apps.first() else { return Ok(()) };
    let mut cargo = cargo("build", arch, None, first.optimize);
    cargo.arg("--manifest-path").arg(&first.manifest).args(["--package", &first.package]);
    for app in apps {
        cargo.args(["--bin", &app.binary]);
    }
    run(cargo, &format!("building {} for {}", first.package, arch.target())).map(drop)
}

/// The device tree of QEMU's `versatilepb`, compiled: it lies beside every image for ARMv4.
pub const TREE: &str = "versatilepb.dtb";

fn versatile_tree() -> Result<Vec<u8>> {
    setup::ensure(&[Need::Trees])?;
    let mut dtc = Command::new("dtc");
    dtc.args(["-q", "-I", "dts", "-O", "dtb"]);
    let source = workspace::root().join("targets/versatilepb.dts");
    let output = dtc.arg(source).output().context("cannot start dtc")?;
    ensure!(
        output.status.success(),
        "dtc: {}\n{}",
        output.status,
        String::from_utf8_lossy(&output.stderr)
    );
    Ok(output.stdout)
}

/// The image of the last `build`, without asking cargo whether it is still what the source says.
pub fn built(app: &App, arch: Arch) -> Result<Image> {
    let elf = app.target_directory.join(arch.target()).join("appliance").join(&app.binary);
    let boot = boot_file(app, arch)?;
    for file in [&elf, &boot] {
        ensure!(file.exists(), "{} was not built", file.display());
    }
    Ok(Image { arch, elf, boot })
}

fn boot_file(app: &App, arch: Arch) -> Result<PathBuf> {
    let extension = match arch {
        Arch::X86_64 => "elf",
        Arch::Aarch64 => "Image",
        Arch::Armv4 => "zImage",
    };
    Ok(output_folder(app)?.join(format!("{}-{}.{extension}", app.binary, arch.name())))
}

fn output_folder(app: &App) -> Result<PathBuf> {
    let folder = app.target_directory.join("trireme");
    fs::create_dir_all(&folder).with_context(|| format!("cannot make {}", folder.display()))?;
    Ok(folder)
}

/// Runs cargo and returns the linked ELF file.
fn link(app: &App, arch: Arch, files: Option<&Path>) -> Result<PathBuf> {
    let archive = match files {
        None => None,
        Some(folder) => {
            let archive = output_folder(app)?.join(format!("{}.cpio", app.binary));
            write_if_changed(&archive, &archive::pack(folder)?)?;
            Some(archive)
        }
    };
    let verb = if app.has_kernel { "build" } else { "rustc" };
    let mut cargo = cargo(verb, arch, archive.as_deref(), app.optimize);
    cargo.arg("--manifest-path").arg(&app.manifest);
    cargo.args(["--package", &app.package, "--bin", &app.binary]).args(app.features.arguments());
    if !app.has_kernel {
        // The program does not name the kernel, so the linker is made to: an `extern crate` from the command line.
        let kernel = kernel(arch, archive.as_deref(), app.optimize)?;
        let mut path = OsString::from("force:trireme=");
        path.push(&kernel);
        let dependencies = kernel.parent().context("a file without a folder")?.join("deps");
        cargo.arg("--target-dir").arg(&app.target_directory);
        cargo.args(["--", "-Zunstable-options", "--extern"]).arg(path);
        cargo.arg("-L").arg(format!("dependency={}", dependencies.display()));
    }
    let messages = run(cargo, &format!("building {} for {}", app.binary, arch.target()))?;
    let named = artifacts(&messages, &app.binary).filter_map(|artifact| artifact.executable).last();
    named.with_context(|| format!("cargo named no executable for {}", app.binary))
}

/// Builds the kernel alone and returns its library.
fn kernel(arch: Arch, archive: Option<&Path>, optimize: Optimize) -> Result<PathBuf> {
    let mut cargo = cargo("build", arch, archive, optimize);
    cargo.args(["--package", KERNEL, "--lib"]);
    let messages = run(cargo, &format!("building the kernel for {}", arch.target()))?;
    let mut files = artifacts(&messages, KERNEL).flat_map(|artifact| artifact.filenames);
    files
        .find(|f| f.extension().is_some_and(|e| e == "rlib"))
        .context("cargo named no library of the kernel")
}

/// A cargo command that builds for an image.
fn cargo(verb: &str, arch: Arch, archive: Option<&Path>, optimize: Optimize) -> Command {
    let mut cargo = workspace::cargo();
    cargo.args([verb, "--profile=appliance", "--message-format=json-render-diagnostics"]);
    cargo.arg("-Zbuild-std=std,panic_abort").args(arch.target_arguments(&workspace::root()));
    for setting in PROFILE {
        cargo.args(["--config", setting]);
    }
    if optimize == Optimize::Size {
        cargo.args(["--config", "profile.appliance.opt-level=\"s\""]);
    }
    cargo.env("RUSTC_BOOTSTRAP", "1");
    cargo.env("CARGO_ENCODED_RUSTFLAGS", arch.rustflags(&workspace::root()).join("\x1f"));
    cargo.env_remove("RUSTFLAGS");
    match archive {
        Some(archive) => cargo.env("TRIREME_FILES", archive),
        None => cargo.env_remove("TRIREME_FILES"),
    };
    cargo
}

/// Runs cargo to its end; returns its messages.
fn run(mut cargo: Command, what: &str) -> Result<Vec<u8>> {
    let output = cargo.stderr(Stdio::inherit()).output().context("cannot start cargo")?;
    ensure!(output.status.success(), "{what} failed");
    Ok(output.stdout)
}

#[derive(Deserialize)]
struct Artifact {
    target: Target,
    #[serde(default)]
    filenames: Vec<PathBuf>,
    executable: Option<PathBuf>,
}

#[derive(Deserialize)]
struct Target {
    name: String,
}

/// What cargo's messages say it built of a target.
fn artifacts<'a>(messages: &'a [u8], target: &'a str) -> impl Iterator<Item = Artifact> + 'a {
    let lines = messages.split(|byte| *byte == b'\n');
    let artifacts = lines.filter_map(|line| serde_json::from_slice::<Artifact>(line).ok());
    artifacts.filter(move |artifact| artifact.target.name == target)
}

/// Writes a file unless it has this content already: cargo and QEMU then see an unchanged time. The new content
/// appears at once, so that another build of the same image never reads half of it.
fn write_if_changed(path: &Path, content: &[u8]) -> Result<()> {
    if fs::read(path).is_ok_and(|old| old == content) {
        return Ok(());
    }
    let new = path.with_extension(format!("new-{}", std::process::id()));
    fs::write(&new, content).with_context(|| format!("cannot write {}", new.display()))?;
    fs::rename(&new, path).with_context(|| format!("cannot write {}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn artifacts_are_taken_from_the_right_messages() {
        let messages = br#"{"reason":"compiler-artifact","target":{"name":"build-script-build"},"executable":null}
{"reason":"compiler-artifact","target":{"name":"trireme"},"filenames":["/t/libtrireme.rlib"],"executable":null}
{"reason":"compiler-artifact","target":{"name":"httpd"},"filenames":["/t/httpd"],"executable":"/t/httpd"}
{"reason":"build-finished","success":true}
"#;
        let httpd: Vec<_> = artifacts(messages, "httpd").filter_map(|a| a.executable).collect();
        assert_eq!(httpd, [PathBuf::from("/t/httpd")]);
        let kernel: Vec<_> = artifacts(messages, "trireme").flat_map(|a| a.filenames).collect();
        assert_eq!(kernel, [PathBuf::from("/t/libtrireme.rlib")]);
        assert_eq!(artifacts(messages, "echo").count(), 0);
    }
}

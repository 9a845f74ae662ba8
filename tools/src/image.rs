//! Builds an application into a bootable image: cargo, the archive of files, checks, the form the machine boots.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use anyhow::{Context, Result, bail, ensure};
use serde::Deserialize;

use crate::app::App;
use crate::arch::Arch;
use crate::{archive, elf, workspace};

/// The profile images are built with, given on the command line so that it holds for applications outside this
/// repository too. One LTO unit of application, `std` and kernel; line tables for backtraces stay in the ELF file.
const PROFILE: [&str; 6] = [
    "profile.appliance.inherits=\"release\"",
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
    /// The file a machine boots: a stripped ELF with a PVH note on x86_64, a Linux `Image` on aarch64.
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
    };
    let boot = boot_file(app, arch)?;
    write_if_changed(&boot, &content)?;
    Ok(Image { arch, elf, boot })
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
    let mut cargo = workspace::cargo();
    cargo.args(["build", "--profile=appliance", "--message-format=json-render-diagnostics"]);
    cargo.args(["-Zbuild-std=std,panic_abort", "--target", arch.target()]);
    for setting in PROFILE {
        cargo.args(["--config", setting]);
    }
    cargo.arg("--manifest-path").arg(&app.manifest);
    cargo.args(["--package", &app.package, "--bin", &app.binary]);
    cargo.env("RUSTC_BOOTSTRAP", "1");
    cargo.env("CARGO_ENCODED_RUSTFLAGS", arch.rustflags(&workspace::root()).join("\x1f"));
    cargo.env_remove("RUSTFLAGS");
    cargo.env_remove("TRIREME_FILES");
    if let Some(folder) = files {
        let archive = output_folder(app)?.join(format!("{}.cpio", app.binary));
        write_if_changed(&archive, &archive::pack(folder)?)?;
        cargo.env("TRIREME_FILES", archive);
    }
    let output = cargo.stderr(Stdio::inherit()).output().context("cannot start cargo")?;
    if !output.status.success() {
        bail!("building {} for {} failed", app.binary, arch.target());
    }
    executable(&output.stdout, &app.binary)
        .with_context(|| format!("cargo named no executable for {}", app.binary))
}

#[derive(Deserialize)]
struct Message {
    executable: Option<PathBuf>,
    target: Option<MessageTarget>,
}

#[derive(Deserialize)]
struct MessageTarget {
    name: String,
}

/// The executable that cargo's messages name for the binary.
fn executable(messages: &[u8], binary: &str) -> Option<PathBuf> {
    let messages = messages.split(|byte| *byte == b'\n');
    messages
        .filter_map(|line| serde_json::from_slice::<Message>(line).ok())
        .filter(|message| message.target.as_ref().is_some_and(|t| t.name == binary))
        .filter_map(|message| message.executable)
        .next_back()
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
    fn executable_is_taken_from_the_right_message() {
        let messages = br#"{"reason":"compiler-artifact","target":{"name":"build-script-build"},"executable":null}
{"reason":"compiler-artifact","target":{"name":"httpd"},"executable":"/t/httpd"}
{"reason":"build-finished","success":true}
"#;
        assert_eq!(executable(messages, "httpd"), Some(PathBuf::from("/t/httpd")));
        assert_eq!(executable(messages, "echo"), None);
    }
}

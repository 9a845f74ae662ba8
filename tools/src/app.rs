//! An application: a cargo package with a binary, and what its manifest says of how to run it.
//!
//! ```toml
//! [package.metadata.trireme]
//! files = "www"                # a folder packed into the image, relative to the manifest
//! forward = ["8080:80"]        # with user networking: host port : guest port, `udp:` in front for UDP
//! open = "http://{80}/"        # printed at start; {PORT} is where the guest's port can be reached
//! optimize = "size"            # an eighth smaller and a seventh slower than "speed", the default
//! ```

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};
use serde::Deserialize;

use crate::net::Forward;
use crate::workspace;

/// The kernel's package.
pub const KERNEL: &str = "trireme";

/// A program by others that the end-to-end tests boot as it is: a TFTP server on plain `std`.
pub const THIRD_PARTY: &str = "tftpd@0.2.13";

/// What `[package.metadata.trireme]` may hold.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct Settings {
    files: Option<PathBuf>,
    #[serde(default)]
    forward: Vec<String>,
    open: Option<String>,
    #[serde(default)]
    optimize: Optimize,
}

/// What an image's code is to be good at.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Optimize {
    /// Few instructions.
    #[default]
    Speed,
    /// Few bytes.
    Size,
}

/// An application that can be built into an image.
#[derive(Clone, Debug)]
pub struct App {
    /// The cargo package.
    pub package: String,
    /// The binary in it.
    pub binary: String,
    /// The package's `Cargo.toml`.
    pub manifest: PathBuf,
    /// Where cargo puts what it builds of it.
    pub target_directory: PathBuf,
    /// A folder to pack into the image.
    pub files: Option<PathBuf>,
    /// Ports worth reaching.
    pub forwards: Vec<Forward>,
    /// An address to show, with `{PORT}` for guest ports.
    pub open: Option<String>,
    /// Whether the package itself depends on the kernel; if not, the image's build links it in.
    pub has_kernel: bool,
    /// Which of its features an image has.
    pub features: Features,
    /// What its image is optimized for.
    pub optimize: Optimize,
}

/// Features of the package, by cargo's own options.
#[derive(clap::Args, Clone, Debug, Default, PartialEq, Eq)]
pub struct Features {
    /// Features of the application's package, comma separated
    #[arg(long, value_name = "FEATURES")]
    features: Option<String>,
    /// Leave out the features that the application's package has by default
    #[arg(long)]
    no_default_features: bool,
}

impl Features {
    /// As arguments of cargo.
    pub fn arguments(&self) -> Vec<String> {
        let none = self.no_default_features.then(|| "--no-default-features".to_owned());
        let some = self.features.iter().map(|features| format!("--features={features}"));
        none.into_iter().chain(some).collect()
    }
}

#[derive(Deserialize)]
struct Metadata {
    packages: Vec<Package>,
    target_directory: PathBuf,
}

#[derive(Deserialize)]
struct Package {
    name: String,
    manifest_path: PathBuf,
    default_run: Option<String>,
    targets: Vec<Target>,
    dependencies: Vec<Dependency>,
    metadata: serde_json::Value,
}

#[derive(Deserialize)]
struct Dependency {
    name: String,
}

#[derive(Deserialize)]
struct Target {
    name: String,
    kind: Vec<String>,
}

impl App {
    /// Finds the application `name` of this repository, or of the package or workspace at `manifest`.
    ///
    /// `name` may be a package or a binary; with a manifest of a single package it may be left out.
    pub fn find(name: Option<&str>, manifest: Option<&Path>) -> Result<App> {
        let own = workspace::root().join("Cargo.toml");
        let manifest = match manifest {
            Some(path) => {
                let path = if path.is_dir() { path.join("Cargo.toml") } else { path.to_owned() };
                path.canonicalize().with_context(|| format!("no manifest at {}", path.display()))?
            }
            None => own,
        };
        let metadata = metadata(&manifest)?;
        let mut found = Vec::new();
        for package in &metadata.packages {
            let binaries = package.targets.iter().filter(|t| t.kind.iter().any(|k| k == "bin"));
            let binaries: Vec<&str> = binaries.map(|t| t.name.as_str()).collect();
            if let Some(binary) = choose(name, package, &binaries, &manifest) {
                found.push((package, binary));
            }
        }
        match found[..] {
            [(package, ref binary)] => App::of(package, binary, &metadata.target_directory),
            [] => bail!(
                "no application {} in {}; there are: {}",
                name.unwrap_or("(unnamed)"),
                manifest.display(),
                names(&metadata.packages)
            ),
            _ => bail!("several applications fit; name one of: {}", names(&metadata.packages)),
        }
    }

    /// Fetches a package from crates.io, as `NAME` or `NAME@VERSION`, and finds its application.
    ///
    /// Cargo builds no dependency's binaries, so its source is copied out of cargo's registry and built there.
    pub fn from_registry(name: Option<&str>, package: &str) -> Result<App> {
        let (package, version) = match package.split_once('@') {
            Some((package, version)) => (package, format!("={version}")),
            None => (package, "*".to_owned()),
        };
        // Outside of the repository, or cargo would take it for a forgotten member of our workspace.
        let crates = workspace::cache()?.join("crates");
        let fetch = crates.join(format!("fetch-{package}"));
        fs::create_dir_all(fetch.join("src"))?;
        fs::write(fetch.join("src/lib.rs"), "")?;
        let manifest = fetch.join("Cargo.toml");
        fs::write(
            &manifest,
            format!(
                "[package]\nname = \"fetch\"\nversion = \"0.0.0\"\nedition = \"2024\"\n\n\
                 [dependencies]\n\"{package}\" = \"{version}\"\n\n[workspace]\n"
            ),
        )?;
        let mut command = workspace::cargo();
        command.args(["metadata", "--format-version=1", "--manifest-path"]).arg(&manifest);
        let metadata: Metadata = serde_json::from_str(&workspace::output(&mut command)?)?;
        let found = metadata.packages.iter().find(|p| p.name == package);
        let source =
            found.and_then(|p| p.manifest_path.parent()).context("cargo did not fetch it")?;
        let copy = crates.join(source.file_name().context("a folder without a name")?);
        if !copy.exists() {
            workspace::output(Command::new("cp").arg("-r").arg(source).arg(&copy))?;
        }
        App::find(name, Some(&copy))
    }

    /// Every application of this repository: `apps/` and the programs of the tests.
    pub fn all() -> Result<Vec<App>> {
        let metadata = metadata(&workspace::root().join("Cargo.toml"))?;
        let mut apps = Vec::new();
        for package in &metadata.packages {
            let folder =
                package.manifest_path.strip_prefix(workspace::root()).unwrap_or(Path::new(""));
            if folder.starts_with("apps") || folder.starts_with("tests/programs") {
                for target in package.targets.iter().filter(|t| t.kind.iter().any(|k| k == "bin")) {
                    apps.push(App::of(package, &target.name, &metadata.target_directory)?);
                }
            }
        }
        Ok(apps)
    }

    fn of(package: &Package, binary: &str, target_directory: &Path) -> Result<App> {
        let settings = match package.metadata.get("trireme") {
            Some(value) => Settings::deserialize(value)
                .with_context(|| format!("[package.metadata.trireme] of {}", package.name))?,
            None => Settings::default(),
        };
        let folder = package.manifest_path.parent().context("a manifest without a folder")?;
        let has_kernel = package.dependencies.iter().any(|d| d.name == KERNEL);
        // The kernel and a program that does not know of it must share the one build of `std`.
        let own = workspace::target_directory();
        let target_directory = if has_kernel { target_directory } else { &own };
        Ok(App {
            package: package.name.clone(),
            binary: binary.to_owned(),
            manifest: package.manifest_path.clone(),
            target_directory: target_directory.to_owned(),
            files: settings.files.map(|files| folder.join(files)),
            forwards: settings.forward.iter().map(|f| f.parse()).collect::<Result<_>>()?,
            open: settings.open,
            has_kernel,
            features: Features::default(),
            optimize: settings.optimize,
        })
    }
}

fn metadata(manifest: &Path) -> Result<Metadata> {
    let mut command = workspace::cargo();
    command.args(["metadata", "--format-version=1", "--no-deps", "--manifest-path"]).arg(manifest);
    Ok(serde_json::from_str(&workspace::output(&mut command)?)?)
}

/// The binary of `package` that `name` means, if any.
fn choose(
    name: Option<&str>,
    package: &Package,
    binaries: &[&str],
    manifest: &Path,
) -> Option<String> {
    let name = match name {
        Some(name) if binaries.contains(&name) => return Some(name.to_owned()),
        Some(name) => name,
        None if package.manifest_path == manifest => &package.name,
        None => return None,
    };
    if package.name != name {
        return None;
    }
    match (&package.default_run, binaries) {
        (Some(default), _) => Some(default.clone()),
        (None, [only]) => Some((*only).to_owned()),
        (None, _) => None,
    }
}

fn names(packages: &[Package]) -> String {
    let binaries = packages.iter().flat_map(|p| &p.targets);
    let binaries = binaries.filter(|t| t.kind.iter().any(|k| k == "bin"));
    let names: Vec<&str> = binaries.map(|t| t.name.as_str()).collect();
    names.join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn own_application_is_found_by_name() {
        let app = App::find(Some("httpd"), None).unwrap();
        assert_eq!((app.package.as_str(), app.binary.as_str()), ("httpd", "httpd"));
        assert!(app.manifest.ends_with("apps/httpd/Cargo.toml"));
    }

    #[test]
    fn unknown_application_names_the_known_ones() {
        let error = App::find(Some("nonesuch"), None).unwrap_err().to_string();
        assert!(error.contains("nonesuch") && error.contains("httpd"), "{error}");
    }

    #[test]
    fn manifest_of_one_package_needs_no_name() {
        let manifest = workspace::root().join("apps/echo/Cargo.toml");
        assert_eq!(App::find(None, Some(&manifest)).unwrap().binary, "echo");
    }
}

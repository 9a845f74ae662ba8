//! An application: a cargo package with a binary, and what its manifest says of how to run it.
//!
//! ```toml
//! [package.metadata.trireme]
//! files = "www"                # a folder packed into the image, relative to the manifest
//! forward = ["8080:80"]        # with user networking: host port : guest port, `udp:` in front for UDP
//! open = "http://{80}/"        # printed at start; {PORT} is where the guest's port can be reached
//! ```

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use serde::Deserialize;

use crate::net::Forward;
use crate::workspace;

/// What `[package.metadata.trireme]` may hold.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct Settings {
    files: Option<PathBuf>,
    #[serde(default)]
    forward: Vec<String>,
    open: Option<String>,
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
    metadata: serde_json::Value,
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
        Ok(App {
            package: package.name.clone(),
            binary: binary.to_owned(),
            manifest: package.manifest_path.clone(),
            target_directory: target_directory.to_owned(),
            files: settings.files.map(|files| folder.join(files)),
            forwards: settings.forward.iter().map(|f| f.parse()).collect::<Result<_>>()?,
            open: settings.open,
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

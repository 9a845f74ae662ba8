//! Images for the tests: built by whoever needs one first, found by the rest.

use std::env;
use std::path::PathBuf;

use trireme_tools::app::App;
use trireme_tools::arch::Arch;
use trireme_tools::image::{Image, PREBUILT, build, built};
use trireme_tools::workspace;

/// The image of an application or test program of this repository.
pub fn image(app: &str, arch: Arch) -> Image {
    of(App::find(Some(app), None), arch)
}

/// The image of a program from crates.io.
pub fn image_from_registry(package: &str, arch: Arch) -> Image {
    of(App::from_registry(None, package), arch)
}

fn of(app: anyhow::Result<App>, arch: Arch) -> Image {
    let app = app.unwrap_or_else(|e| panic!("{e:#}"));
    let image = match env::var_os(PREBUILT) {
        Some(_) => built(&app, arch),
        None => build(&app, arch, None),
    };
    image.unwrap_or_else(|e| panic!("no image of {} for {}: {e:#}", app.binary, arch.name()))
}

/// A test program built for this machine, to see what Linux answers.
pub fn native(program: &str) -> PathBuf {
    if env::var_os(PREBUILT).is_none() {
        let mut cargo = workspace::cargo();
        cargo.args(["build", "--quiet", "--package", "trireme-test-programs", "--bin", program]);
        workspace::check(&mut cargo).unwrap_or_else(|e| panic!("{e:#}"));
    }
    workspace::target_directory().join("debug").join(program)
}

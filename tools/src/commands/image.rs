//! `run.sh image`.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context, Result};
use clap::Args;
use trireme_tools::app::App;
use trireme_tools::arch::Arch;
use trireme_tools::image;
use trireme_tools::setup::{self, Need};

#[derive(Args)]
pub(crate) struct Arguments {
    /// The application: a package or binary of this repository, or of the one named by --manifest-path
    app: Option<String>,
    /// The architecture; every one if left out
    #[arg(long)]
    arch: Option<Arch>,
    /// An application outside this repository: its folder or Cargo.toml
    #[arg(long, value_name = "PATH")]
    manifest_path: Option<PathBuf>,
    /// An application from crates.io, as it is; it need not know of Trireme
    #[arg(long = "crate", value_name = "NAME[@VERSION]", conflicts_with = "manifest_path")]
    from_registry: Option<String>,
    /// A folder to pack into the image instead of the application's own
    #[arg(long, value_name = "DIR")]
    files: Option<PathBuf>,
}

pub(crate) fn run(arguments: Arguments) -> Result<ExitCode> {
    setup::ensure(&[Need::Image])?;
    let app = match &arguments.from_registry {
        Some(package) => App::from_registry(arguments.app.as_deref(), package)?,
        None => App::find(arguments.app.as_deref(), arguments.manifest_path.as_deref())?,
    };
    let architectures = arguments.arch.map_or(Arch::ALL.to_vec(), |arch| vec![arch]);
    for arch in architectures {
        let image = image::build(&app, arch, arguments.files.as_deref())?;
        let size = image.boot.metadata().context("the image vanished")?.len();
        println!(
            "{}  {} ({size} bytes; symbols in {})",
            arch.name(),
            image.boot.display(),
            image.elf.display()
        );
    }
    Ok(ExitCode::SUCCESS)
}

//! `run.sh image`.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, Result};
use clap::Args;
use trireme_tools::app::{App, Features};
use trireme_tools::arch::Arch;
use trireme_tools::board::instructions::instructions;
use trireme_tools::board::{self, Board, Key, Processor, zimage};
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
    #[command(flatten)]
    features: Features,
    /// A folder to pack into the image instead of the application's own
    #[arg(long, value_name = "DIR")]
    files: Option<PathBuf>,
    /// A board of targets/boards: makes what its boot loader takes, and says what to type there
    #[arg(long, value_name = "NAME", conflicts_with = "arch")]
    board: Option<String>,
    /// With --board: boot arguments
    #[arg(
        long,
        value_name = "ARGS",
        default_value = "",
        allow_hyphen_values = true,
        requires = "board"
    )]
    append: String,
    /// With --board: where to put the files, instead of a folder of their own under target/trireme
    #[arg(long, value_name = "DIR", requires = "board")]
    out: Option<PathBuf>,
    /// With --board: sign the FIT with this private key, NAME.key beside NAME.crt
    #[arg(long, value_name = "FILE", requires = "board")]
    key: Option<PathBuf>,
}

pub(crate) fn run(arguments: Arguments) -> Result<ExitCode> {
    setup::ensure(&[Need::Image])?;
    let mut app = match &arguments.from_registry {
        Some(package) => App::from_registry(arguments.app.as_deref(), package)?,
        None => App::find(arguments.app.as_deref(), arguments.manifest_path.as_deref())?,
    };
    app.features = arguments.features.clone();
    if let Some(board) = &arguments.board {
        return for_board(&Board::find(board)?, &app, &arguments);
    }
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

fn for_board(board: &Board, app: &App, arguments: &Arguments) -> Result<ExitCode> {
    setup::ensure(&[Need::Board])?;
    if board.grub.is_some() {
        setup::ensure(&[Need::Grub])?;
    }
    let key = arguments.key.as_deref().map(Key::open).transpose()?;
    let folder = arguments.out.clone().unwrap_or_else(|| {
        app.target_directory.join("trireme").join(format!("{}-{}", app.binary, board.name))
    });
    let image = image::build(app, board.architecture(), arguments.files.as_deref())?;
    if board.arch == Processor::Armv4 {
        let kernel = fs::read(&image.boot).context("the image vanished")?;
        let wrapped = zimage::wrap(board, &app.binary, &kernel, &arguments.append, &folder)?;
        let text = zimage::instructions(board, &wrapped);
        return finish(&folder, &text);
    }
    let append = &arguments.append;
    let package = board::package(board, &app.binary, &image, append, key.as_ref(), &folder)?;
    let mut text = instructions(board, &package, append);
    if let Some(tree) = &package.public_key {
        let tree = tree.display();
        text.push_str(&format!("\nthe public key, for U-Boot's control device tree: {tree}\n"));
    }
    finish(&folder, &text)
}

/// Prints what to type, and keeps it with the files.
fn finish(folder: &Path, text: &str) -> Result<ExitCode> {
    fs::write(folder.join("commands.txt"), text)?;
    print!("{text}");
    println!("\nfiles, these commands among them: {}", folder.display());
    Ok(ExitCode::SUCCESS)
}

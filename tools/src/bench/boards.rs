//! The section on board images: how large they are.

use std::fmt::Write;
use std::fs;
use std::path::Path;

use anyhow::Result;

use crate::app::App;
use crate::arch::Arch;
use crate::board::{Board, Processor, package};
use crate::image;
use crate::workspace::target_directory;

/// Makes httpd's files for every board there is a kernel for, and returns the section. `when`: date and commit.
pub fn boards(when: &str) -> Result<String> {
    let app = App::find(Some("httpd"), None)?;
    let mut text = format!(
        "## Board images\n\nWritten by `./run.sh bench boards` on {when}. httpd with its files, in bytes. The time from the \
         kernel's entry to the first answer is the row \"boot\" above: QEMU enters the kernel right after reset there, and with \
         `-icount shift=0` an instruction is a nanosecond of guest time. What U-Boot takes before that is U-Boot's; its \
         countdown alone is 2 s.\n\n| board | kernel | FIT | device tree of ours |\n|---|---|---|---|\n"
    );
    for name in Board::names()? {
        let board = Board::find(&name)?;
        let arch = match board.arch {
            Processor::X86_64 => Arch::X86_64,
            Processor::Aarch64 => Arch::Aarch64,
            Processor::Armv4 => continue,
        };
        let built = image::build(&app, arch, None)?;
        let folder = target_directory().join("trireme").join(format!("bench-{name}"));
        let made = package(&board, &app.binary, &built, "", None, &folder)?;
        let size = |file: &Path| -> Result<u64> { Ok(fs::metadata(file)?.len()) };
        let tree = made.tree.as_deref().map(size).transpose()?;
        let tree = tree.map_or("–".to_owned(), |tree| tree.to_string());
        writeln!(text, "| {name} | {} | {} | {tree} |", size(&made.kernel)?, size(&made.fit)?)?;
        fs::remove_dir_all(folder)?;
    }
    Ok(text)
}

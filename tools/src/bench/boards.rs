//! The section on board images: how large they are, and how long they take from U-Boot's jump to the first answer.

use std::fmt::Write;
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};
use serde::Deserialize;

use super::guests::cpu;
use crate::app::App;
use crate::board::instructions::{commands, instructions};
use crate::board::{Board, Package, Processor, package, zimage};
use crate::qemu::Network;
use crate::workspace::{root, shown, target_directory};
use crate::{image, setup};

/// The address QEMU forwards the port to; U-Boot has asked for it before.
const ADDRESS: &str = "ip=10.0.2.15::10.0.2.2:255.255.255.0";

/// Ways to boot: what they are called, the beginning of their part of the instructions (none: by itself), and whether the files
/// come from a TFTP server instead of the card.
const WAYS: [(&str, &str, bool); 3] = [
    ("SD card by itself (FIT)", "", false),
    ("card, `booti` or `zboot`", "without a FIT", false),
    ("TFTP (FIT)", "TFTP", true),
];

/// What `tools/bench/boards.py` prints: instructions up to the kernel's entry, and from there to the answer.
#[derive(Deserialize)]
struct Counted {
    loader: u64,
    boot: u64,
}

/// Makes httpd's files for every board there is a kernel for, boots them where QEMU can, and returns the section. `when`:
/// date and commit.
pub fn boards(when: &str) -> Result<String> {
    let app = App::find(Some("httpd"), None)?;
    let mut sizes = String::new();
    let mut times = String::new();
    for name in Board::names()? {
        let board = Board::find(&name)?;
        let built = image::build(&app, board.architecture(), None)?;
        let folder = target_directory().join("trireme").join(format!("bench-{name}"));
        if board.arch == Processor::Armv4 {
            let kernel = fs::metadata(&built.boot)?.len();
            let wrapped =
                zimage::wrap(&board, &app.binary, &fs::read(&built.boot)?, ADDRESS, &folder)?;
            let whole = fs::metadata(&wrapped.zimage)?.len();
            writeln!(sizes, "| {name} | {kernel} | – | {} | – |", whole - kernel)?;
            fs::remove_dir_all(folder)?;
            continue;
        }
        let made = package(&board, &app.binary, &built, ADDRESS, None, &folder)?;
        let size = |file: &Path| -> Result<u64> { Ok(fs::metadata(file)?.len()) };
        let tree = made.tree.as_deref().map(size).transpose()?;
        let tree = tree.map_or("–".to_owned(), |tree| tree.to_string());
        let (kernel, fit, card) = (size(&made.kernel)?, size(&made.fit)?, size(&made.card)?);
        writeln!(sizes, "| {name} | {kernel} | {fit} | {tree} | {} |", card >> 20)?;
        // What GRUB boots is the same kernel, and GRUB's countdown takes minutes under the counter.
        if board.emulation.is_some() && board.grub.is_none() {
            for (way, part, tftp) in WAYS {
                eprintln!("== {name}: {way} ...");
                let Counted { loader, boot } = count(&board, &made, part, tftp)?;
                writeln!(times, "| {name} | {way} | {:.1} | {:.1} |", mega(boot), mega(loader))?;
            }
        }
        fs::remove_dir_all(folder)?;
    }
    Ok(format!(
        "## Board images\n\nWritten by `./run.sh bench boards` on {when}. httpd with its files. Sizes are in bytes, the card's in MiB; a FIT \
         holds kernel, device tree and hashes; Gemini's boards take a zImage with the tree behind it.\n\n\
         | board | kernel | FIT | device tree of ours | card |\n|---|---|---|---|---|\n{sizes}\n\
         Millions of executed instructions, which at `-icount shift=0` are milliseconds of the guest's time when it is not idle, counted by \
         tools/bench/boards.py (one run, static address, \
         virtio-net): from U-Boot's jump to the kernel to the first HTTP answer, and before that in U-Boot, whose \
         countdown alone is 2,000. On x86_64 string instructions are not counted.\n\n\
         | board | way | kernel's entry to first answer | before |\n|---|---|---|---|\n{times}"
    ))
}

#[expect(clippy::cast_precision_loss, reason = "for people")]
fn mega(count: u64) -> f64 {
    count as f64 / 1e6
}

fn count(board: &Board, made: &Package, part: &str, tftp: bool) -> Result<Counted> {
    let (mut machine, emulation) =
        board.emulated(made).zip(board.emulation.as_ref()).context("QEMU has no such board")?;
    machine.cpu = cpu(machine.arch).to_owned();
    let mut network = "user,hostfwd=tcp:127.0.0.1:8080-:80".to_owned();
    if tftp {
        machine.disk = None;
        write!(network, ",tftp={}", made.tftp.display())?;
    }
    machine.network = Network::Other(network);
    machine.extra = vec!["-icount".into(), "shift=0".into()];
    let mut command = Command::new("python3");
    command.arg(root().join("tools/bench/boards.py"));
    for entry in &emulation.entries {
        command.arg(format!("--entry={entry:x}"));
    }
    if !part.is_empty() {
        for typed in commands(&instructions(board, made, ADDRESS), part) {
            command.arg(format!("--type={}", typed.replace("SERVER", "10.0.2.2")));
        }
    }
    command.arg("--").arg(setup::qemu::program(machine.arch)?).args(machine.arguments());
    let output = command.stderr(Stdio::inherit()).output().context("cannot start python3")?;
    if !output.status.success() {
        bail!("{}: {}", shown(&command), output.status);
    }
    serde_json::from_slice(&output.stdout).context("boards.py counted nothing")
}

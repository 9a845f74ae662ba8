//! Everything a board's loader takes, made of one image.

use std::fs;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail, ensure};

use super::{Board, Key, Processor, fit, grub, script, sd, write};
use crate::elf;
use crate::image::Image;
use crate::workspace::output;

/// A part of a FIT.
pub(super) struct Part {
    /// What it is to the configuration: `kernel`, `fdt`, `setup`.
    pub role: &'static str,
    /// mkimage's name for its type.
    pub kind: &'static str,
    /// Its content.
    pub file: PathBuf,
    /// Where it is loaded and entered; `None`: wherever U-Boot likes.
    pub load: Option<u64>,
}

/// The files made for a board.
#[derive(Clone, Debug)]
pub struct Package {
    /// Where they are.
    pub folder: PathBuf,
    /// The FIT.
    pub fit: PathBuf,
    /// What the board's processor boots by itself: an arm64 `Image`, a `bzImage`.
    pub kernel: PathBuf,
    /// The board's own device tree.
    pub tree: Option<PathBuf>,
    /// The SD card.
    pub card: PathBuf,
    /// The folder for a TFTP server.
    pub tftp: PathBuf,
    /// A device tree that holds the public key, if the FIT is signed.
    pub public_key: Option<PathBuf>,
}

/// Where a bzImage's setup sectors are loaded by U-Boot, and by boot loaders since there are any. [U-Boot,
/// arch/x86/lib/zimage.c]
const SETUP: u64 = 0x9_0000;
/// Makes the files for `board` in `folder` of the image of the application `app`. `append` are boot arguments; `key`
/// signs the FIT.
pub fn package(
    board: &Board,
    app: &str,
    image: &Image,
    append: &str,
    key: Option<&Key>,
    folder: &Path,
) -> Result<Package> {
    ensure!(
        !append.contains(|c: char| c == '\'' || c.is_control()),
        "boot arguments for U-Boot cannot hold a single quote or a control character: {append}"
    );
    let tftp = folder.join("tftp");
    fs::create_dir_all(&tftp).with_context(|| format!("cannot make {}", folder.display()))?;
    let disk = board.disk.as_ref().context("the board's file names no disk")?;
    let read = |file: &Path| fs::read(file).with_context(|| file.display().to_string());
    let part = |role, kind, file: &Path, load| Part { role, kind, file: file.to_owned(), load };
    let (own_kernel, bytes, mut parts, run_field);
    match board.arch {
        Processor::Aarch64 => {
            own_kernel = folder.join(format!("{app}.Image"));
            bytes = read(&image.boot)?;
            // image_size. [Linux, Documentation/arch/arm64/booting.rst]
            run_field = 0x10..0x18;
            parts = vec![part("kernel", "kernel", &own_kernel, Some(board.load.kernel))];
        }
        Processor::Armv4 => bail!("{} boots no FIT", board.name),
        Processor::X86_64 => {
            own_kernel = folder.join(format!("{app}.bzImage"));
            let (setup, loaded) = elf::bzimage(&read(&image.elf)?)?;
            // A FIT has the two parts by themselves. [U-Boot, doc/uImage.FIT/x86-fit-boot.txt]
            let (setup_file, loaded_file) = (folder.join("setup.bin"), folder.join("kernel.bin"));
            write(&setup_file, &setup)?;
            write(&loaded_file, &loaded)?;
            bytes = [setup, loaded].concat();
            // init_size. [Linux, Documentation/arch/x86/boot.rst]
            run_field = 0x260..0x264;
            parts = vec![
                part("kernel", "kernel", &loaded_file, Some(board.load.kernel)),
                part("setup", "x86_setup", &setup_file, Some(SETUP)),
            ];
        }
    }
    write(&own_kernel, &bytes)?;
    let tree = match board.tree_source() {
        Some(source) => Some(compile_tree(&source, &folder.join(format!("{}.dtb", board.name)))?),
        None => None,
    };
    if let Some(tree) = &tree {
        parts.push(part("fdt", "flat_dt", tree, None));
    }
    let fit = folder.join(format!("{app}.itb"));
    fit::write(board, &format!("{app} for {}", board.name), &parts, key, &fit)?;
    board.check_room(run_bytes(&bytes, run_field)?, fit.metadata()?.len())?;
    let public_key = match key {
        Some(key) => Some(public_key(key, &fit, &folder.join("public-key.dtb"))?),
        None => None,
    };

    let boot = compile_script(&script::disk(board, disk, append), &folder.join("boot.scr"))?;
    let card = folder.join("sd.img");
    let mut on_card = vec![("boot.scr".to_owned(), boot.as_path())];
    on_card.extend(script::SLOTS.map(|slot| (script::slot_file(slot), fit.as_path())));
    let kernel_name = own_kernel.extension().unwrap_or_default().to_string_lossy();
    on_card.push((kernel_name.into_owned(), own_kernel.as_path()));
    if let Some(tree) = &tree {
        on_card.push(("board.dtb".to_owned(), tree.as_path()));
    }
    let loader = board.grub.as_ref().map(|grub| grub::make(grub, &own_kernel, append, folder));
    let loader = loader.transpose()?;
    for (name, file) in loader.iter().flat_map(|loader| &loader.files) {
        on_card.push((name.clone(), file.as_path()));
    }
    sd::write(&card, &on_card)?;
    if let Some(loader) = &loader {
        sd::add_loader(&card, &loader.first, &loader.core)?;
    }

    let served = format!("{app}.itb");
    fs::copy(&fit, tftp.join(&served))?;
    fs::copy(&own_kernel, tftp.join(own_kernel.file_name().unwrap_or_default()))?;
    compile_script(&script::network(board, append, &served), &tftp.join("boot.scr.uimg"))?;
    if board.arch == Processor::X86_64 {
        let file = own_kernel.file_name().unwrap_or_default().to_string_lossy();
        let ipxe = format!("#!ipxe\nkernel {file} {append}\nboot\n");
        write(&tftp.join("boot.ipxe"), ipxe.as_bytes())?;
        let grub = format!(
            "menuentry 'Trireme: {app}' {{\n\tlinux /boot/trireme {}\n}}\n",
            grub_words(append)
        );
        write(&folder.join("grub.cfg"), grub.as_bytes())?;
    }
    Ok(Package { folder: folder.to_owned(), fit, kernel: own_kernel, tree, card, tftp, public_key })
}

/// What the kernel occupies when it runs, by the little-endian field of its own header.
fn run_bytes(kernel: &[u8], field: Range<usize>) -> Result<u64> {
    let field = kernel.get(field).context("the kernel has no header")?;
    let mut number = [0; 8];
    number[..field.len()].copy_from_slice(field);
    Ok(u64::from_le_bytes(number))
}

/// Words as GRUB's shell has them: one in which a letter means something to it is quoted.
pub(super) fn grub_words(arguments: &str) -> String {
    let plain = |word: &&str| {
        !word.contains(|c: char| !(c.is_ascii_alphanumeric() || "_-=:.,/[]%@+".contains(c)))
    };
    let words = arguments.split(' ').filter(|word| !word.is_empty());
    let quoted = words.map(|word| if plain(&word) { word.to_owned() } else { format!("'{word}'") });
    quoted.collect::<Vec<_>>().join(" ")
}

pub(super) fn compile_tree(source: &Path, blob: &Path) -> Result<PathBuf> {
    let mut dtc = Command::new("dtc");
    dtc.args(["-q", "-@", "-I", "dts", "-O", "dtb", "-o"]).arg(blob).arg(source);
    output(&mut dtc)?;
    Ok(blob.to_owned())
}

/// Writes a script in the form U-Boot's `source` takes, and its text beside it.
fn compile_script(text: &str, file: &Path) -> Result<PathBuf> {
    let source = file.with_extension("cmd");
    write(&source, text.as_bytes())?;
    let mut mkimage = fit::mkimage();
    mkimage.args(["-A", "arm", "-O", "linux", "-T", "script", "-C", "none", "-n", "Trireme", "-d"]);
    output(mkimage.arg(&source).arg(file))?;
    Ok(file.to_owned())
}

/// A device tree with nothing but the key.
fn public_key(key: &Key, fit: &Path, file: &Path) -> Result<PathBuf> {
    let source = file.with_extension("dts");
    write(&source, b"/dts-v1/;\n/ { };\n")?;
    compile_tree(&source, file)?;
    key.add_public_key(fit, file)?;
    Ok(file.to_owned())
}

//! Boards: what a board's file in `targets/boards` says, and the files its boot loader takes.
//!
//! A board is data. Its loader is U-Boot or boots like Linux does, and everything it is given is made here from one
//! built image: a FIT, an SD card, a folder for TFTP, a script for U-Boot, and the commands to type.

mod fit;
mod grub;
pub mod instructions;
mod package;
mod script;
mod sd;
pub mod zimage;

use std::fs;
use std::ops::Range;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use serde::Deserialize;

pub use fit::{CONFIGURATION, Key};
pub use package::{Package, package};

use crate::arch::Arch;
use crate::qemu::Machine;
use crate::workspace;

/// The processor a board has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Processor {
    /// 64-bit PCs: an image of the Linux/x86 boot protocol.
    X86_64,
    /// 64-bit ARM: an arm64 `Image`.
    Aarch64,
    /// ARM without Thumb, as in Gemini: a zImage.
    Armv4,
}

/// Where something is loaded, as physical addresses.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Load {
    /// U-Boot's script.
    pub script: u64,
    /// The kernel, as it runs.
    pub kernel: u64,
    /// The file that U-Boot reads from disk or network and takes the kernel out of.
    pub file: u64,
}

/// RAM.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Memory {
    /// Its first byte.
    pub start: u64,
    /// How much of it in one piece every variant of the board has, in bytes.
    pub size: u64,
}

/// The disk U-Boot boots from, in its own words: `load INTERFACE DEVICE:1 …`.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Disk {
    /// `mmc`, `virtio`, `ide`, …
    pub interface: String,
    /// Its number.
    pub device: u32,
}

/// U-Boot's environment, if it keeps one: then it counts the boots of an image on trial.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Environment {
    /// Where it lies, if that is memory-mapped flash: the appliance can then write it too.
    pub flash: Option<Flash>,
}

/// A place in memory-mapped flash.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Flash {
    /// Physical address, at the beginning of a sector.
    pub start: u64,
    /// Bytes, whole sectors.
    pub size: u64,
}

/// GRUB starts a PC from the card.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Grub {
    /// `BYTE:BIT` of CMOS memory, decimal, by which an image on trial says that it is good.
    pub cmos: String,
}

/// How QEMU plays the board.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Emulation {
    /// QEMU's machine type.
    pub machine: String,
    /// RAM in MiB.
    pub memory: u32,
    /// The firmware: U-Boot, under Debian's `/usr/lib/u-boot`, or a file of QEMU's own.
    pub firmware: String,
    /// Where a boot loader enters the kernel.
    pub entries: Vec<u64>,
}

/// What a file in `targets/boards` says.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Board {
    /// The name of the file, which is the board's.
    #[serde(skip)]
    pub name: String,
    /// One line for people.
    pub description: String,
    /// The processor.
    pub arch: Processor,
    /// Where the console is and how fast.
    pub console: String,
    /// The device tree: `firmware` if U-Boot passes the board's own, else a source file beside the board's. None on PCs.
    pub tree: Option<String>,
    /// A U-Boot command that finds disk and network card, if it does not look for them itself.
    pub scan: Option<String>,
    /// RAM.
    pub memory: Memory,
    /// Addresses.
    pub load: Load,
    /// The disk, if the boot loader is U-Boot and reads one.
    pub disk: Option<Disk>,
    /// U-Boot's environment, if it keeps one.
    pub environment: Option<Environment>,
    /// GRUB on the card, for PCs.
    pub grub: Option<Grub>,
    /// How QEMU plays the board, if it can.
    pub emulation: Option<Emulation>,
    /// Boot arguments the board needs.
    #[serde(default)]
    pub arguments: String,
}

fn folder() -> PathBuf {
    workspace::root().join("targets/boards")
}

impl Board {
    /// The board of this name. An unknown one is an error that lists those there are.
    pub fn find(name: &str) -> Result<Board> {
        let known = Board::names()?;
        ensure!(
            known.iter().any(|known| known == name),
            "no board {name:?} in targets/boards; there are: {}",
            known.join(", ")
        );
        let file = folder().join(name).with_extension("toml");
        let text = fs::read_to_string(&file)?;
        Board::parse(name, &text).with_context(|| file.display().to_string())
    }

    /// Every board's name, sorted.
    pub fn names() -> Result<Vec<String>> {
        let mut names = Vec::new();
        for entry in fs::read_dir(folder()).context("targets/boards cannot be read")? {
            let path = entry?.path();
            if path.extension().is_some_and(|extension| extension == "toml") {
                names.extend(path.file_stem().map(|stem| stem.to_string_lossy().into_owned()));
            }
        }
        names.sort();
        Ok(names)
    }

    fn parse(name: &str, text: &str) -> Result<Board> {
        let mut board: Board = toml::from_str(text)?;
        name.clone_into(&mut board.name);
        let end = board.memory.start.checked_add(board.memory.size);
        let memory = board.memory.start..end.context("the memory ends beyond 2^64")?;
        for (what, at) in [
            ("script", board.load.script),
            ("kernel", board.load.kernel),
            ("file", board.load.file),
        ] {
            ensure!(memory.contains(&at), "load.{what} {at:#x} is outside of the memory");
        }
        Ok(board)
    }

    /// What the board's kernel is built for.
    pub fn architecture(&self) -> Arch {
        match self.arch {
            Processor::X86_64 => Arch::X86_64,
            Processor::Aarch64 => Arch::Aarch64,
            Processor::Armv4 => Arch::Armv4,
        }
    }

    /// The board in QEMU, with the card in it and U-Boot's firmware; `None` if QEMU lacks it.
    pub fn emulated(&self, package: &Package) -> Option<Machine> {
        let emulation = self.emulation.as_ref()?;
        let mut machine = Machine::new(self.architecture(), &package.kernel);
        machine.machine = Some(emulation.machine.clone());
        machine.memory = emulation.memory;
        let uboot = Path::new("/usr/lib/u-boot").join(&emulation.firmware);
        let firmware = if uboot.exists() { uboot } else { PathBuf::from(&emulation.firmware) };
        machine.firmware = Some(firmware);
        machine.disk = Some(package.card.clone());
        Some(machine)
    }

    /// The source of the device tree, if the board brings its own.
    fn tree_source(&self) -> Option<PathBuf> {
        let own = self.tree.as_deref().filter(|tree| *tree != "firmware")?;
        Some(folder().join(own))
    }

    /// Whether U-Boot hands its own device tree over.
    fn tree_is_firmwares(&self) -> bool {
        self.tree.as_deref() == Some("firmware")
    }

    /// Refuses an image that would not fit, or that U-Boot would overwrite while it takes it out of its file.
    ///
    /// `run_bytes` is what the kernel occupies when it runs, `file_bytes` the file it comes in.
    pub fn check_room(&self, run_bytes: u64, file_bytes: u64) -> Result<()> {
        let memory = self.memory.start..self.memory.start + self.memory.size;
        let kernel = self.load.kernel..self.load.kernel + run_bytes;
        let file = self.load.file..self.load.file + file_bytes;
        for (what, range) in [("kernel", &kernel), ("file", &file)] {
            ensure!(
                range.end <= memory.end,
                "the {what} of {} bytes at {:#x} does not fit in the memory of {}, which ends at {:#x}",
                range.end - range.start,
                range.start,
                self.name,
                memory.end
            );
        }
        ensure!(
            !overlap(&kernel, &file),
            "the kernel at {:#x} reaches into the file it is taken from at {:#x}",
            kernel.start,
            file.start
        );
        Ok(())
    }
}

fn overlap(one: &Range<u64>, other: &Range<u64>) -> bool {
    one.start < other.end && other.start < one.end
}

/// Writes a file of a package.
fn write(path: &Path, content: &[u8]) -> Result<()> {
    fs::write(path, content).with_context(|| format!("cannot write {}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_board_file_can_be_read() {
        for name in Board::names().unwrap() {
            let board = Board::find(&name).unwrap();
            assert_eq!(board.name, name);
            if let Some(source) = board.tree_source() {
                assert!(source.is_file(), "{name}: {}", source.display());
            }
            let page = workspace::root().join(format!("docs/boards/{name}.md"));
            assert!(page.is_file(), "{name} has no page");
        }
    }

    #[test]
    fn unknown_board_names_the_known_ones() {
        let error = Board::find("raspberry").unwrap_err().to_string();
        assert!(error.contains("qemu-arm64"), "{error}");
        assert!(Board::find("../boards/qemu-arm64").is_err());
    }

    #[test]
    fn addresses_outside_the_memory_are_refused() {
        let text = fs::read_to_string(folder().join("qemu-arm64.toml")).unwrap();
        let moved = text.replace("kernel = 0x4040_0000", "kernel = 0x3040_0000");
        assert!(Board::parse("x", &text).is_ok());
        let error = Board::parse("x", &moved).unwrap_err().to_string();
        assert!(error.contains("load.kernel"), "{error}");
    }

    #[test]
    fn kernel_that_reaches_its_own_file_is_refused() {
        let board = Board::find("qemu-arm64").unwrap();
        let gap = board.load.file - board.load.kernel;
        assert!(board.check_room(gap, 1 << 20).is_ok());
        assert!(board.check_room(gap + 1, 1 << 20).is_err());
        assert!(board.check_room(1 << 20, board.memory.size).is_err());
    }
}

//! The forms that loaders of 32-bit ARM boards take: a zImage with the device tree behind it, and a legacy uImage.
//!
//! \[ZI\] The zImage header is what `arch/arm/boot/compressed/head.S` of Linux begins with, and `file` knows; \[UI\] U-Boot,
//! include/image.h. No such image is compressed here.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};

use super::{Board, fit, package, write};
use crate::workspace::output;

/// `mov r0, r0`: some loaders enter a few words late. [docs/hardware/gemini.md 2, WBD-111]
const NOP: u32 = 0xe1a0_0000;
/// Words of the header; the kernel begins behind them.
const WORDS: usize = 16;

/// The files for a board of this kind.
#[derive(Clone, Debug)]
pub struct Wrapped {
    /// The zImage, the device tree behind it.
    pub zimage: PathBuf,
    /// The same for loaders that want U-Boot's header.
    pub uimage: PathBuf,
}

/// Puts a header before `kernel`, flat code that is entered at its first byte in ARM state, wherever it lies.
pub fn zimage(kernel: &[u8]) -> Result<Vec<u8>> {
    let mut header = [NOP; WORDS];
    let length = (4 * WORDS + kernel.len()).next_multiple_of(4);
    // A branch to behind the header: words from eight bytes further on.
    header[8] = 0xea00_0000 | (WORDS as u32 - 8 - 2);
    // Magic number, first address (0: anywhere), the address behind the end, byte order. [ZI]
    header[9] = 0x016f_2818;
    header[10] = 0;
    header[11] = u32::try_from(length).context("a kernel of 4 GiB")?;
    header[12] = 0x0403_0201;
    let mut image: Vec<u8> = header.iter().flat_map(|word| word.to_le_bytes()).collect();
    image.extend_from_slice(kernel);
    image.resize(length, 0);
    Ok(image)
}

/// Makes the files for `board` in `folder` of a flat kernel.
pub fn wrap(board: &Board, app: &str, kernel: &[u8], folder: &Path) -> Result<Wrapped> {
    let source = board.tree_source().context("the board has no device tree")?;
    fs::create_dir_all(folder).with_context(|| format!("cannot make {}", folder.display()))?;
    let tree = package::compile_tree(&source, &folder.join(format!("{}.dtb", board.name)))?;
    let mut image = zimage(kernel)?;
    image.extend_from_slice(&fs::read(tree)?);
    let start = board.memory.start..board.memory.start + board.memory.size;
    let end = board.load.kernel + image.len() as u64;
    ensure!(end <= start.end, "the image of {} bytes does not fit in the memory", image.len());
    let wrapped = Wrapped {
        zimage: folder.join(format!("{app}.zImage")),
        uimage: folder.join(format!("{app}.uImage")),
    };
    write(&wrapped.zimage, &image)?;
    let mut mkimage = fit::mkimage();
    let at = format!("{:#x}", board.load.kernel);
    mkimage.args(["-A", "arm", "-O", "linux", "-T", "kernel", "-C", "none", "-a", &at, "-e", &at]);
    mkimage.args(["-n", app, "-d"]).arg(&wrapped.zimage).arg(&wrapped.uimage);
    output(&mut mkimage)?;
    Ok(wrapped)
}

/// What to type at RedBoot, and at a U-Boot if the board has one.
pub fn instructions(board: &Board, wrapped: &Wrapped) -> String {
    let name = |path: &Path| {
        path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default()
    };
    let (at, zimage) = (format!("{:#x}", board.load.file), name(&wrapped.zimage));
    format!(
        "{name}: {description}\nconsole: {console}; the page: docs/boards/{name}.md\n\n\
         TFTP, by RedBoot (Ctrl-C at its start), from a server of {folder}:\n  \
         RedBoot> ip_address -l ADDRESS/24 -h SERVER\n  \
         RedBoot> load -r -b {at} {zimage}\n  RedBoot> go {at}\n\n\
         TFTP, by a U-Boot:\n  => tftpboot {at} {zimage}; go {at}\n\n\
         serial line, by RedBoot:\n  RedBoot> load -r -m ymodem -b {at}\n  \
         $ sb -k {path} < /dev/ttyUSB0 > /dev/ttyUSB0\n  RedBoot> go {at}\n",
        name = board.name,
        description = board.description,
        console = board.console,
        folder = wrapped.zimage.parent().unwrap_or(Path::new(".")).display(),
        path = wrapped.zimage.display(),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn header_is_what_file_and_loaders_look_for() {
        let image = zimage(&[0xaa; 101]).unwrap();
        let word = |at: usize| u32::from_le_bytes(image[at..at + 4].try_into().unwrap());
        assert_eq!(word(0x24), 0x016f_2818);
        assert_eq!(word(0x28), 0);
        assert_eq!(word(0x2c) as usize, image.len());
        assert_eq!(image.len() % 4, 0);
        for at in (0..0x20).step_by(4) {
            assert_eq!(word(at), 0xe1a0_0000);
        }
        // B: bits 27:24 are 1010, the offset counts words from the instruction's address plus 8. [ARM DDI 0100I A4.1.5]
        let branch = word(0x20);
        assert_eq!(branch >> 24, 0xea);
        let target = 0x20 + 8 + 4 * (branch & 0xff_ffff) as usize;
        assert!(image[target..target + 101].iter().all(|byte| *byte == 0xaa));
    }

    #[test]
    fn gemini_boards_get_the_tree_behind_the_kernel_and_a_uimage_for_its_address() {
        for name in ["dir-685", "nas4220b"] {
            let board = Board::find(name).unwrap();
            let folder =
                std::env::temp_dir().join(format!("trireme-{name}-{}", std::process::id()));
            let wrapped = wrap(&board, "payload", &[0x55; 1000], &folder).unwrap();
            let image = fs::read(&wrapped.zimage).unwrap();
            let end = u32::from_le_bytes(image[0x2c..0x30].try_into().unwrap()) as usize;
            // A flattened tree's magic and size, big-endian. [Devicetree Specification 0.4, 5.2]
            assert_eq!(image[end..end + 4], [0xd0, 0x0d, 0xfe, 0xed]);
            let size = u32::from_be_bytes(image[end + 4..end + 8].try_into().unwrap());
            assert_eq!(end + size as usize, image.len());
            // [UI]: magic, load address, entry point, big-endian; type 2 (kernel), ARM is 2.
            let header = &fs::read(&wrapped.uimage).unwrap()[..64];
            assert_eq!(header[..4], 0x2705_1956u32.to_be_bytes());
            // Where the boot loader copies its kernel partition. [docs/hardware/gemini.md 2]
            assert_eq!(header[16..20], 0x0160_0000u32.to_be_bytes());
            assert_eq!(header[20..24], 0x0160_0000u32.to_be_bytes());
            assert_eq!(header[28..32], [5, 2, 2, 0]);
            assert!(instructions(&board, &wrapped).contains("go 0x1600000"));
            fs::remove_dir_all(folder).unwrap();
        }
    }
}

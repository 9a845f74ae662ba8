//! The forms that loaders of 32-bit ARM boards take: a zImage with the device tree behind it, and a legacy uImage.
//!
//! The kernel brings the zImage header. \[UI\] U-Boot, include/image.h. No such image is compressed here.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};

use super::{Board, fit, package, write};
use crate::elf;
use crate::workspace::output;

/// The files for a board of this kind.
#[derive(Clone, Debug)]
pub struct Wrapped {
    /// The zImage, the device tree behind it.
    pub zimage: PathBuf,
    /// The same for loaders that want U-Boot's header.
    pub uimage: PathBuf,
}

/// Makes the files for `board` in `folder` of a zImage, with the boot arguments in the device tree.
pub fn wrap(
    board: &Board,
    app: &str,
    kernel: &[u8],
    append: &str,
    folder: &Path,
) -> Result<Wrapped> {
    elf::check_zimage(kernel)?;
    let source = board.tree_source().context("the board has no device tree")?;
    fs::create_dir_all(folder).with_context(|| format!("cannot make {}", folder.display()))?;
    let own = folder.join(format!("{}.dts", board.name));
    write(&own, with_arguments(&fs::read_to_string(source)?, board, append)?.as_bytes())?;
    let tree = package::compile_tree(&own, &own.with_extension("dtb"))?;
    let mut image = kernel.to_vec();
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

/// The source of a device tree with the board's boot arguments and these.
fn with_arguments(source: &str, board: &Board, append: &str) -> Result<String> {
    let arguments = format!("{} {append}", board.arguments);
    let arguments = arguments.trim();
    ensure!(
        !arguments.contains(|c: char| c.is_control() || c == '\\'),
        "boot arguments cannot hold control characters or backslashes"
    );
    let arguments = arguments.replace('"', "\\\"");
    Ok(format!("{source}\n/ {{ chosen {{ bootargs = \"{arguments}\"; }}; }};\n"))
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

    /// A zImage of nothing. [Linux, arch/arm/boot/compressed/head.S]
    fn payload() -> Vec<u8> {
        let mut image = vec![0x55; 1000];
        image[0x24..0x28].copy_from_slice(&0x016f_2818u32.to_le_bytes());
        image[0x28..0x2c].fill(0);
        image[0x2c..0x30].copy_from_slice(&1000u32.to_le_bytes());
        image
    }

    #[test]
    fn gemini_boards_get_the_tree_behind_the_kernel_and_a_uimage_for_its_address() {
        for name in ["dir-685", "nas4220b"] {
            let board = Board::find(name).unwrap();
            let folder =
                std::env::temp_dir().join(format!("trireme-{name}-{}", std::process::id()));
            let wrapped = wrap(&board, "payload", &payload(), "env.A=\"b c\"", &folder).unwrap();
            let image = fs::read(&wrapped.zimage).unwrap();
            let end = u32::from_le_bytes(image[0x2c..0x30].try_into().unwrap()) as usize;
            // A flattened tree's magic and size, big-endian. [Devicetree Specification 0.4, 5.2]
            assert_eq!(image[end..end + 4], [0xd0, 0x0d, 0xfe, 0xed]);
            let size = u32::from_be_bytes(image[end + 4..end + 8].try_into().unwrap());
            assert_eq!(end + size as usize, image.len());
            assert!(image[end..].windows(12).any(|w| w == b"env.A=\"b c\"\0"));
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

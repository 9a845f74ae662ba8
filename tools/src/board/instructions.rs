//! What to type.

use std::fmt::Write;
use std::path::Path;

use super::script::{boot_command, set_arguments};
use super::{Board, Package, Processor};

/// In front of what is typed at U-Boot's prompt.
pub const AT_UBOOT: &str = "  => ";
/// In front of what is typed in a shell of this machine.
const HERE: &str = "  $ ";

/// What is to be typed at U-Boot's prompt, of the part of [`instructions`] that begins with `way`.
pub fn commands<'a>(instructions: &'a str, way: &str) -> Vec<&'a str> {
    let part = instructions.lines().skip_while(|line| !line.starts_with(way));
    let part = part.take_while(|line| !line.is_empty());
    part.filter_map(|line| line.strip_prefix(AT_UBOOT)).collect()
}

/// The commands that boot the package, for a person to follow: a part for each way, that begins with a line that
/// names it and ends with an empty line.
pub fn instructions(board: &Board, package: &Package, append: &str) -> String {
    let name = |path: &Path| {
        path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default()
    };
    let fit = name(&package.fit);
    let (file, boot) = (format!("{:#x}", board.load.file), boot_command(board));
    let arguments = set_arguments(board, append);
    let disk = board.disk.as_ref();
    let disk = disk.map(|disk| format!("load {} {}:1", disk.interface, disk.device));
    let disk = disk.unwrap_or_default();
    let scan = board.scan.iter().map(|scan| format!("{AT_UBOOT}{scan}\n")).collect::<String>();

    let mut text = format!("{}: {}\n", board.name, board.description);
    let _ = writeln!(text, "console: {}; the page: docs/boards/{}.md\n", board.console, board.name);

    if board.grub.is_some() {
        let _ = writeln!(text, "disk or USB stick, by GRUB, which is on it:");
        let card = package.card.display();
        let _ = writeln!(text, "{HERE}dd if={card} of=/dev/DISK bs=1M conv=fsync");
        let _ =
            writeln!(text, "  It boots by itself; ESC on the console stops at GRUB's prompt.\n");
    }

    let _ = writeln!(text, "SD card:");
    let _ = writeln!(text, "{HERE}dd if={} of=/dev/CARD bs=1M conv=fsync", package.card.display());
    let script = format!("{:#x}", board.load.script);
    let _ = writeln!(text, "{scan}{AT_UBOOT}{disk} {script} boot.scr; source {script}");
    let _ = writeln!(
        text,
        "  A U-Boot with distro_bootcmd does that by itself. Others are told once, by setenv bootcmd and saveenv.\n"
    );

    let _ = writeln!(text, "TFTP, from a server of {}:", package.tftp.display());
    let _ = writeln!(text, "{scan}{AT_UBOOT}setenv autoload no; dhcp; setenv serverip SERVER");
    let _ = writeln!(text, "{AT_UBOOT}{arguments}");
    let _ = writeln!(text, "{AT_UBOOT}tftpboot {file} {fit}");
    let _ = writeln!(text, "{AT_UBOOT}{boot}\n");

    let _ = writeln!(text, "serial line (sb is in lrzsz; 100 KB take 10 s at 115200 baud):");
    let _ = writeln!(text, "{AT_UBOOT}{arguments}");
    let _ = writeln!(text, "{AT_UBOOT}loady {file}");
    let _ = writeln!(text, "{HERE}sb -k {} < /dev/ttyUSB0 > /dev/ttyUSB0", package.fit.display());
    let _ = writeln!(text, "{AT_UBOOT}{boot}\n");

    let _ = writeln!(text, "without a FIT, from the SD card:");
    let at_kernel = format!("{:#x}", board.load.kernel);
    let _ = writeln!(text, "{scan}{AT_UBOOT}{arguments}");
    match board.arch {
        Processor::Aarch64 => {
            let _ = writeln!(text, "{AT_UBOOT}{disk} {at_kernel} Image");
            let tree = match &package.tree {
                Some(_) => {
                    let _ = writeln!(text, "{AT_UBOOT}{disk} {file} board.dtb");
                    file
                }
                None => "${fdtcontroladdr}".to_owned(),
            };
            let _ = writeln!(text, "{AT_UBOOT}booti {at_kernel} - {tree}");
        }
        Processor::X86_64 | Processor::Armv4 => {
            let _ = writeln!(text, "{AT_UBOOT}{disk} {file} bzImage");
            let _ = writeln!(text, "{AT_UBOOT}zboot {file} ${{filesize}}");
        }
    }
    text
}

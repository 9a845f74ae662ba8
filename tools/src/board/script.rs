//! The script that U-Boot runs: two slots, and a counter in U-Boot's environment that leads back from a bad one.
//!
//! `bootcount`, `bootlimit` and `upgrade_available` mean what U-Boot's own boot counter means by them; where U-Boot
//! is built without it, as Debian's is, the script counts. [U-Boot, doc/README.bootcount]

use std::fmt::Write;

use super::{Board, CONFIGURATION, Disk};

/// Files of the two slots on a disk.
pub(super) const SLOTS: [&str; 2] = ["a", "b"];

/// The name of a slot's file.
pub(super) fn slot_file(slot: &str) -> String {
    format!("trireme-{slot}.itb")
}

/// The command that boots the file at the board's file address.
pub(super) fn boot_command(board: &Board) -> String {
    // A configuration has to be named: U-Boot would look for one whose tree fits its own.
    let file = format!("{:#x}#{CONFIGURATION}", board.load.file);
    match board.tree_is_firmwares() {
        true => format!("bootm {file} - ${{fdtcontroladdr}}"),
        false => format!("bootm {file}"),
    }
}

/// The boot arguments of an image in a slot of the disk.
fn arguments(board: &Board, append: &str) -> String {
    let mut words = Vec::new();
    if let Some(flash) = board.environment.as_ref().and_then(|place| place.flash.as_ref()) {
        words.push(format!("uboot.env={:#x}:{:#x}", flash.start, flash.size));
    }
    words.extend([&board.arguments, append].map(str::to_owned));
    words.retain(|word| !word.is_empty());
    words.join(" ")
}

/// The boot arguments as a `setenv` command.
pub(super) fn set_arguments(board: &Board, append: &str) -> String {
    format!("setenv bootargs '{}'", arguments(board, append))
}

/// What U-Boot runs from the disk.
pub(super) fn disk(board: &Board, disk: &Disk, append: &str) -> String {
    let mut script = String::from(
        "# Made by `./run.sh image`. Boots the slot that `slot` names, the other if that cannot be booted.\n",
    );
    let mut line = |text: &str| {
        script.push_str(text);
        script.push('\n');
    };
    line("if test -z \"${devtype}\"; then");
    line(&format!("  setenv devtype {}; setenv devnum {}", disk.interface, disk.device));
    line("fi");
    line("test -n \"${distro_bootpart}\" || setenv distro_bootpart 1");
    line("test -n \"${slot}\" || setenv slot a");
    line("setenv other 'if test ${slot} = a; then setenv slot b; else setenv slot a; fi'");
    if board.environment.is_some() {
        // `setexpr` counts in hexadecimal and `test` compares decimals: limits up to 9 are both.
        line("test -n \"${bootlimit}\" || setenv bootlimit 3");
        // A verdict from outside, for boards whose environment an appliance cannot write.
        line("if test \"${upgrade_available}\" = 1 && test -n \"${verdict}\"; then");
        line("  setenv autoload no; setenv server ${serverip}; dhcp; setenv serverip ${server}");
        line(&format!("  if tftpboot {:#x} ${{verdict}}; then", board.load.file));
        line("    echo \"slot ${slot} was found good: ${verdict}\"");
        line("    setenv upgrade_available 0; setenv bootcount 0; setenv verdict; saveenv");
        line("  fi");
        line("fi");
        line("if test \"${upgrade_available}\" = 1; then");
        line("  test -n \"${bootcount}\" || setenv bootcount 0");
        line("  setexpr bootcount ${bootcount} + 1");
        line("  if test ${bootcount} -gt ${bootlimit}; then");
        line("    echo \"slot ${slot} was not marked good in ${bootlimit} boots: to the other\"");
        line("    run other; setenv upgrade_available 0; setenv bootcount 0");
        line("  fi");
        line("  saveenv");
        line("fi");
    }
    line("for attempt in 1 2; do");
    line("  echo \"booting slot ${slot}\"");
    line(&format!("  setenv bootargs uboot.slot=${{slot}} '{}'", arguments(board, append)));
    line(&format!(
        "  if load ${{devtype}} ${{devnum}}:${{distro_bootpart}} {:#x} /trireme-${{slot}}.itb; then",
        board.load.file
    ));
    line(&format!("    {}", boot_command(board)));
    line("  fi");
    line("  echo \"slot ${slot} cannot be booted: to the other\"");
    line("  run other");
    if board.environment.is_some() {
        line("  setenv upgrade_available 0; setenv bootcount 0; saveenv");
    }
    line("done");
    script
}

/// What U-Boot runs when it got the script by TFTP: `file` is fetched from where the script came from.
pub(super) fn network(board: &Board, append: &str, file: &str) -> String {
    let mut script =
        String::from("# Made by `./run.sh image`. Fetches the image by TFTP and boots it.\n");
    let _ = writeln!(script, "{}", set_arguments(board, append));
    let _ = writeln!(script, "tftpboot {:#x} {file} && {}", board.load.file, boot_command(board));
    script
}

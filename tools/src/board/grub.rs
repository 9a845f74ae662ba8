//! GRUB on the card of a PC: two slots, and a counter in GRUB's environment that leads back from a bad one.
//!
//! GRUB writes its environment block, an appliance cannot: it has no disk driver. What it can write is the PC's CMOS memory, and
//! GRUB has commands for single bits of that. [GRUB manual 2.06, "load_env", "save_env", "sha256sum", "cmostest"; boot.img and the core
//! image's place behind it: "BIOS installation"]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};

use super::script::SLOTS;
use super::{Grub, package, write};
use crate::workspace::output;

/// GRUB's files for BIOS machines, as Debian has them.
const MODULES: &str = "/usr/lib/grub/i386-pc";
/// What the script and the disk need; nothing is loaded later.
const USED: &[&str] = &[
    "biosdisk",
    "part_msdos",
    "fat",
    "normal",
    "serial",
    "terminal",
    "echo",
    "test",
    "sleep",
    "loadenv",
    "cmostest",
    "hashsum",
    "gcry_sha256",
    "linux",
    "boot",
    "reboot",
    "ls",
    "cat",
];
/// The environment block, on the card.
const ENVIRONMENT: &str = "grubenv";
/// The most boots that are counted one by one.
const MOST: u32 = 9;

/// What makes a card boot by GRUB.
pub(super) struct Loader {
    /// Code for the first sector.
    pub first: Vec<u8>,
    /// The rest, for the sectors behind it.
    pub core: Vec<u8>,
    /// Files for the card's root folder.
    pub files: Vec<(String, PathBuf)>,
}

/// Makes GRUB in `folder`, to boot `kernel` with the boot arguments `append`.
pub(super) fn make(grub: &Grub, kernel: &Path, append: &str, folder: &Path) -> Result<Loader> {
    let core = folder.join("grub.core");
    let mut mkimage = Command::new("grub-mkimage");
    // The partition is the first one of whatever disk the BIOS booted.
    mkimage.args(["-O", "i386-pc", "-p", "(,msdos1)/", "-o"]).arg(&core).args(USED);
    output(&mut mkimage)?;
    let environment = folder.join(ENVIRONMENT);
    output(Command::new("grub-editenv").arg(&environment).arg("create"))?;
    output(Command::new("grub-editenv").arg(&environment).args(["set", "slot=a"]))?;
    let configuration = folder.join("grub-card.cfg");
    write(&configuration, script(grub, append).as_bytes())?;
    let listed = output(Command::new("sha256sum").arg(kernel))?;
    let digest = listed.split_whitespace().next().context("sha256sum said nothing")?;
    let mut files =
        vec![("grub.cfg".to_owned(), configuration), (ENVIRONMENT.to_owned(), environment)];
    for slot in SLOTS {
        let sum = folder.join(format!("trireme-{slot}.sum"));
        write(&sum, format!("{digest}  /trireme-{slot}\n").as_bytes())?;
        files.push((format!("trireme-{slot}.sum"), sum));
        files.push((format!("trireme-{slot}"), kernel.to_owned()));
    }
    let boot = Path::new(MODULES).join("boot.img");
    let first = fs::read(&boot).with_context(|| boot.display().to_string())?;
    let core = fs::read(core)?;
    ensure!(first.len() == 512, "{} is no boot sector", boot.display());
    Ok(Loader { first, core, files })
}

/// `grub.cfg` of the card.
fn script(grub: &Grub, append: &str) -> String {
    let mut script = String::from(
        "# Made by `./run.sh image`. Boots the slot that `slot` names, the other if that cannot be booted.\n",
    );
    let mut line = |text: &str| {
        script.push_str(text);
        script.push('\n');
    };
    line("serial --unit=0 --speed=115200");
    line("terminal_input serial console");
    line("terminal_output serial console");
    line("load_env");
    line("if [ -z \"$slot\" ]; then set slot=a; fi");
    line("if [ -z \"$bootlimit\" ]; then set bootlimit=3; fi");
    line("function other {");
    line("  if [ \"$slot\" = a ]; then set slot=b; else set slot=a; fi");
    line("  set upgrade_available=0; set bootcount=0");
    line("}");
    line("function boot_slots {");
    line("  if [ \"$upgrade_available\" = 1 ]; then");
    line("    if [ -z \"$bootcount\" -o \"$bootcount\" = 0 ]; then");
    // What an earlier image left there is not this one's.
    line(&format!("      cmosclean {}; set bootcount=1", grub.cmos));
    line(&format!("    elif cmostest {}; then", grub.cmos));
    line("      echo \"slot $slot was marked good\"");
    line("      set upgrade_available=0; set bootcount=0");
    line("    elif [ \"$bootcount\" -ge \"$bootlimit\" ]; then");
    line("      echo \"slot $slot was not marked good in $bootlimit boots: to the other\"");
    line("      other");
    // GRUB cannot add.
    for count in 1..MOST {
        line(&format!("    elif [ \"$bootcount\" = {count} ]; then set bootcount={}", count + 1));
    }
    line("    else other");
    line("    fi");
    line("    save_env slot upgrade_available bootcount");
    line("  fi");
    line("  for attempt in 1 2; do");
    line("    echo \"booting slot $slot\"");
    line("    if sha256sum -c /trireme-$slot.sum; then");
    let words = package::grub_words(append);
    line(&format!(
        "      if linux /trireme-$slot grub.slot=$slot grub.cmos={} {words}; then boot; fi",
        grub.cmos
    ));
    line("    fi");
    line("    echo \"slot $slot cannot be booted: to the other\"");
    line("    other; save_env slot upgrade_available bootcount");
    line("  done");
    line("}");
    line("echo \"ESC stops here\"");
    line("if [ -z \"$bootdelay\" ]; then set bootdelay=2; fi");
    line("if sleep --interruptible $bootdelay; then boot_slots; fi");
    script
}

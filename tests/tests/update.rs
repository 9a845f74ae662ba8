//! Two slots: what U-Boot refuses, when it goes back, and how an image on trial stays.

use std::fs;
use std::path::Path;
use std::process::Command;

use rstest::rstest;
use trireme_tests::board::{
    EnvironmentFlash, LIMIT, OnBoard, answers, make, make_key, put_on_card,
};
use trireme_tests::files::Scratch;
use trireme_tests::guest::Guest;
use trireme_tests::program::succeed;
use trireme_tools::arch::Arch;
use trireme_tools::board::Key;
use trireme_tools::qemu::{Machine, Network};
use trireme_tools::workspace::check;

/// QEMU's device tree with the public key in it: U-Boot takes it for its own, and boots no FIT that the key did not sign.
fn insert_key(machine: &mut Machine, key: &Key, signed: &Path, scratch: &Scratch) {
    let tree = scratch.file("control.dtb");
    let mut dump = Command::new(trireme_tools::setup::qemu::program(Arch::Aarch64).unwrap());
    let virt = format!("virt,dumpdtb={}", tree.display());
    check(dump.args(["-M", &virt, "-cpu", "max", "-m", "128", "-display", "none"])).unwrap();
    key.add_public_key(signed, &tree).unwrap();
    machine.extra.extend(["-dtb".into(), tree.into()]);
}

/// Changes a byte of the kernel in a FIT and puts the new hash where the old one was: only a signature tells.
fn tamper(fit: &Path, kernel: &Path) {
    let (mut bytes, mut content) = (fs::read(fit).unwrap(), fs::read(kernel).unwrap());
    let place = |bytes: &[u8], part: &[u8]| {
        bytes.windows(part.len()).position(|window| window == part).expect("it is in the FIT")
    };
    let kernel_at = place(&bytes, &content);
    let digest = |content: &[u8]| {
        let file = fit.with_extension("digested");
        fs::write(&file, content).unwrap();
        let shown = succeed("sha256sum", &[file.to_str().unwrap()], LIMIT);
        let hex = |at: usize| u8::from_str_radix(&shown[2 * at..2 * at + 2], 16).unwrap();
        (0..32).map(hex).collect::<Vec<u8>>()
    };
    let old = digest(&content);
    let last = content.len() - 1;
    content[last] ^= 1;
    let new = digest(&content);
    bytes[kernel_at..kernel_at + content.len()].copy_from_slice(&content);
    let digest_at = place(&bytes, &old);
    bytes[digest_at..digest_at + 32].copy_from_slice(&new);
    fs::write(fit, bytes).unwrap();
}

#[derive(Debug)]
enum Forgery {
    Tampered,
    Unsigned,
    OtherKey,
}

#[rstest]
fn uboot_with_a_key_boots_only_what_it_signed(
    #[values(Forgery::Tampered, Forgery::Unsigned, Forgery::OtherKey)] forgery: Forgery,
) {
    let keys = Scratch::new();
    let key = make_key(&keys.file(""), "test");
    let board = OnBoard::new("qemu-arm64", "httpd", "", Some(&key));
    let mut machine = board.machine();
    insert_key(&mut machine, &key, &board.package.fit, &board.scratch);
    let forged = board.scratch.file("forged");
    let other;
    let signer = match forgery {
        Forgery::Tampered => Some(&key),
        Forgery::Unsigned => None,
        Forgery::OtherKey => {
            fs::create_dir_all(keys.file("other")).unwrap();
            // The same name: U-Boot finds the key by it.
            other = make_key(&keys.file("other"), "test");
            Some(&other)
        }
    };
    let package = make(&board.board, "httpd", "", signer, &forged);
    if matches!(forgery, Forgery::Tampered) {
        tamper(&package.fit, &package.kernel);
    }
    put_on_card(&board.package.card, &package.fit, "trireme-a.itb");
    let mut guest = Guest::boot(&machine);
    guest.hurry_uboot(0, LIMIT);
    answers(&mut guest);
    let console = guest.console();
    assert!(console.contains("slot a cannot be booted"), "the forgery was booted:\n{console}");
    assert!(console.contains("Failed to verify required signature"), "{console}");
    assert!(console.contains("booting slot b"));
    assert!(console.contains("sha256,rsa2048:test+"), "slot b was not verified:\n{console}");
}

#[rstest]
fn damaged_slot_is_passed_over(#[values("qemu-arm64", "qemu-x86_64")] board: &str) {
    let board = OnBoard::new(board, "httpd", "", None);
    let half = board.scratch.file("half.itb");
    let whole = fs::read(&board.package.fit).unwrap();
    fs::write(&half, &whole[..whole.len() / 2]).unwrap();
    put_on_card(&board.package.card, &half, "trireme-a.itb");
    let mut guest = Guest::boot(&board.machine());
    guest.hurry_uboot(0, LIMIT);
    answers(&mut guest);
    assert!(guest.console().contains("booting slot b"));
}

#[test]
fn image_that_crashes_on_trial_gives_way_to_the_other() {
    let board = OnBoard::new("qemu-arm64", "httpd", "panic=-1", None);
    // A program that panics when it is told nothing.
    let bad = make(&board.board, "faults", "", None, &board.scratch.file("bad"));
    put_on_card(&board.package.card, &bad.fit, "trireme-b.itb");
    let flash = EnvironmentFlash::new(&board.scratch);
    let mut machine = board.machine();
    flash.insert(&mut machine);
    let mut guest = Guest::boot(&machine);
    guest.begin_trial(LIMIT);
    answers(&mut guest);
    let console = guest.console();
    assert_eq!(console.matches("booting slot b").count(), 2, "{console}");
    assert!(console.contains("slot b was not marked good in 2 boots"), "{console}");
    assert_eq!(flash.get("slot").as_deref(), Some("a"));
    assert_eq!(flash.get("upgrade_available").as_deref(), Some("0"));
}

/// A verdict from outside, where an appliance cannot write U-Boot's environment.
#[test]
fn trial_ends_when_a_server_has_the_verdict() {
    let board = OnBoard::new("qemu-arm64", "httpd", "ip=10.0.2.15::10.0.2.2:255.255.255.0", None);
    let flash = EnvironmentFlash::new(&board.scratch);
    let mut machine = board.machine();
    flash.insert(&mut machine);
    let tftp = board.package.tftp.display();
    machine.network = Network::Other(format!("user,hostfwd=tcp:127.0.0.1:8080-:80,tftp={tftp}"));
    let mut guest = Guest::boot(&machine);
    guest.stop_uboot(LIMIT);
    guest.at_uboot("setenv verdict board-7-good; setenv serverip 10.0.2.2; saveenv");
    guest.at_uboot("setenv bootlimit 2; setenv slot b; setenv upgrade_available 1; saveenv; boot");
    answers(&mut guest);
    assert_eq!(flash.get("upgrade_available").as_deref(), Some("1"));
    assert_eq!(flash.get("bootcount").as_deref(), Some("1"));
    fs::write(board.package.tftp.join("board-7-good"), "yes").unwrap();
    let seen = guest.console().len();
    guest.type_line("reboot");
    guest.hurry_uboot(seen, LIMIT);
    guest.wait_for_behind(seen, "slot b was found good", LIMIT);
    answers(&mut guest);
    assert_eq!(flash.get("upgrade_available").as_deref(), Some("0"));
    assert_eq!(flash.get("verdict"), None);
    assert_eq!(flash.get("slot").as_deref(), Some("b"));
}

/// The environment block of GRUB on the card.
fn grub_variable(card: &Path, name: &str, scratch: &Scratch) -> Option<String> {
    let (place, copy) = (format!("{}@@1M", card.display()), scratch.file("grubenv"));
    let copy = copy.to_str().unwrap();
    succeed("mcopy", &["-o", "-i", &place, "::grubenv", copy], LIMIT);
    let listed = succeed("grub-editenv", &[copy, "list"], LIMIT);
    listed.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix('=').map(str::to_owned))
}

/// Begins a trial of slot b from outside, as from a Linux beside it.
fn set_grub_variables(card: &Path, variables: &[&str], scratch: &Scratch) {
    let (place, copy) = (format!("{}@@1M", card.display()), scratch.file("grubenv"));
    let copy = copy.to_str().unwrap();
    succeed("mcopy", &["-o", "-i", &place, "::grubenv", copy], LIMIT);
    succeed("grub-editenv", &[&[copy, "set"], variables].concat(), LIMIT);
    succeed("mcopy", &["-o", "-i", &place, copy, "::grubenv"], LIMIT);
}

const TRIAL: [&str; 5] =
    ["slot=b", "upgrade_available=1", "bootcount=0", "bootlimit=2", "bootdelay=0"];

#[test]
fn image_that_works_on_a_pc_ends_its_trial_by_cmos() {
    let board = OnBoard::new("pc-rhine", "httpd", "grub.good=1", None);
    let card = &board.package.card;
    set_grub_variables(card, &TRIAL, &board.scratch);
    let mut guest = Guest::boot(&board.machine());
    answers(&mut guest);
    guest.wait_for("marked good", LIMIT);
    let seen = guest.console().len();
    guest.type_line("reboot");
    guest.wait_for_behind(seen, "slot b was marked good", LIMIT);
    answers(&mut guest);
    let variable = |name| grub_variable(card, name, &board.scratch);
    assert_eq!(variable("upgrade_available").as_deref(), Some("0"));
    assert_eq!(variable("slot").as_deref(), Some("b"));
}

#[test]
fn image_that_crashes_on_a_pc_and_one_cut_short_give_way_to_the_other() {
    let board = OnBoard::new("pc-rhine", "httpd", "panic=-1", None);
    let (card, scratch) = (&board.package.card, &board.scratch);
    // A program that panics when it is told nothing, with its own sum.
    let bad = make(&board.board, "faults", "", None, &scratch.file("bad"));
    let in_bad = |name: &str| bad.folder.join(name);
    put_on_card(card, &bad.kernel, "trireme-b");
    put_on_card(card, &in_bad("trireme-b.sum"), "trireme-b.sum");
    set_grub_variables(card, &[&TRIAL[..3], &["bootlimit=1", "bootdelay=0"]].concat(), scratch);
    let mut guest = Guest::boot(&board.machine());
    answers(&mut guest);
    let console = guest.console();
    assert_eq!(console.matches("booting slot b").count(), 1, "{console}");
    assert!(console.contains("slot b was not marked good in 1 boots"), "{console}");
    assert_eq!(grub_variable(card, "slot", scratch).as_deref(), Some("a"));
    drop(guest);
    // Half a file, whose sum is the whole one's.
    let half = scratch.file("half");
    let whole = fs::read(&board.package.kernel).unwrap();
    fs::write(&half, &whole[..whole.len() / 2]).unwrap();
    put_on_card(card, &half, "trireme-b");
    set_grub_variables(card, &["slot=b"], scratch);
    let mut guest = Guest::boot(&board.machine());
    answers(&mut guest);
    assert!(guest.console().contains("slot b cannot be booted"), "{}", guest.console());
}

#[test]
fn image_that_works_ends_its_trial_itself() {
    let board = OnBoard::new("qemu-arm64", "httpd", "uboot.good=1", None);
    let flash = EnvironmentFlash::new(&board.scratch);
    let mut machine = board.machine();
    flash.insert(&mut machine);
    let mut guest = Guest::boot(&machine);
    guest.begin_trial(LIMIT);
    answers(&mut guest);
    guest.wait_for("marked good", LIMIT);
    assert_eq!(flash.get("upgrade_available").as_deref(), Some("0"));
    assert_eq!(flash.get("bootcount").as_deref(), Some("0"));
    // U-Boot accepts what was written, counts no more, and stays.
    for _ in 0..3 {
        let seen = guest.console().len();
        guest.type_line("reboot");
        guest.wait_for_behind(seen, "listening on", LIMIT);
        assert!(!guest.console()[seen..].contains("bad CRC"), "{}", guest.console());
    }
    assert_eq!(guest.console().matches("booting slot b").count(), 4);
    assert_eq!(flash.get("slot").as_deref(), Some("b"));
    guest.type_line("fw_setenv owner a ship");
    guest.type_line("fw_printenv owner");
    guest.wait_for("owner=a ship", LIMIT);
    assert_eq!(flash.get("owner").as_deref(), Some("a ship"));
}

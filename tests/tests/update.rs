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
use trireme_tools::qemu::Machine;
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

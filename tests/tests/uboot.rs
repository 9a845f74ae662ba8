//! Images as a board gets them: from a card, by TFTP, as `Image` and as FIT, through Debian's U-Boot, until curl is
//! answered.

use std::process::Command;

use rstest::rstest;
use trireme_tests::board::{LIMIT, OnBoard, answers};
use trireme_tests::guest::Guest;
use trireme_tests::program::succeed;
use trireme_tools::arch::Arch;
use trireme_tools::board::instructions::AT_UBOOT;
use trireme_tools::qemu::{Machine, Network};

/// U-Boot has taken 10.0.2.15, where the forwarded port leads, from QEMU's DHCP server for itself; an appliance that
/// asks too gets the next.
const ADDRESS: &str = "ip=10.0.2.15::10.0.2.2:255.255.255.0";

#[rstest]
fn sd_card_boots_by_itself(#[values("qemu-arm64", "qemu-x86_64")] board: &str) {
    let board = OnBoard::new(board, "httpd", "hostname=card", None);
    let mut guest = Guest::boot(&board.machine());
    answers(&mut guest);
    assert!(guest.console().contains("booting slot a"));
}

#[rstest]
fn kernel_from_the_card_boots_as_the_instructions_say(
    #[values("qemu-arm64", "qemu-x86_64")] board: &str,
) {
    let board = OnBoard::new(board, "httpd", "", None);
    let mut guest = Guest::boot(&board.machine());
    guest.stop_uboot(LIMIT);
    board.follow(&mut guest, "without a FIT", "");
    answers(&mut guest);
    assert!(!guest.console().contains("FIT Image"));
}

#[rstest]
fn fit_from_tftp_boots_as_the_instructions_say(#[values("qemu-arm64", "qemu-x86_64")] board: &str) {
    let board = OnBoard::new(board, "httpd", ADDRESS, None);
    let mut machine = board.machine();
    machine.disk = None;
    let tftp = board.package.tftp.display();
    machine.network = Network::Other(format!("user,hostfwd=tcp:127.0.0.1:8080-:80,tftp={tftp}"));
    let mut guest = Guest::boot(&machine);
    guest.stop_uboot(LIMIT);
    board.follow(&mut guest, "TFTP", "10.0.2.2");
    answers(&mut guest);
    assert!(guest.console().contains("Verifying Hash Integrity ... sha256+ OK"));
}

#[test]
#[ignore = "takes a minute: U-Boot reads its emulated line byte by byte"]
fn fit_over_the_serial_line_boots_as_the_instructions_say() {
    let board = OnBoard::new("qemu-arm64", "httpd", "", None);
    let mut machine = board.machine();
    machine.disk = None;
    let mut guest = Guest::boot(&machine);
    guest.stop_uboot(LIMIT);
    let part = board.instructions.lines().skip_while(|line| !line.starts_with("serial line"));
    for line in part.skip(1).take_while(|line| !line.is_empty()) {
        if let Some(command) = line.strip_prefix(AT_UBOOT) {
            guest.at_uboot(command);
            continue;
        }
        // `sb -k FILE < PORT > PORT`: the port is the guest's.
        let words: Vec<&str> = line.trim_start_matches("  $ ").split(' ').collect();
        guest.wait_for("Ready for binary (ymodem) download", LIMIT);
        let status = guest.converse(Command::new(words[0]).args(&words[1..3]), LIMIT);
        assert!(status.success(), "{line}: {status}");
    }
    answers(&mut guest);
    assert!(guest.console().contains("Verifying Hash Integrity ... sha256+ OK"));
}

#[test]
fn machine_with_nothing_but_a_tftp_server_boots_by_itself() {
    let board = OnBoard::new("qemu-arm64", "httpd", ADDRESS, None);
    let mut machine = board.machine();
    machine.disk = None;
    let tftp = board.package.tftp.display();
    machine.network = Network::Other(format!("user,hostfwd=tcp:127.0.0.1:8080-:80,tftp={tftp}"));
    let mut guest = Guest::boot(&machine);
    answers(&mut guest);
    assert!(guest.console().contains("boot.scr.uimg"));
}

#[rstest]
fn bzimage_boots_by_qemus_real_mode_loader(#[values("pc", "q35")] kind: &str) {
    let board = OnBoard::new("qemu-x86_64", "httpd", "", None);
    let mut machine = Machine::new(Arch::X86_64, &board.package.kernel);
    machine.machine = Some(kind.to_owned());
    machine.network = Network::User(vec!["8080:80".parse().expect("two ports")]);
    machine.append = "hostname=protocol frobnicate=1".to_owned();
    let mut guest = Guest::boot(&machine);
    answers(&mut guest);
    assert!(guest.console().contains("frobnicate"), "the boot arguments did not arrive");
}

/// The PC's own BIOS boots `file` by iPXE, which is in the ROM of a second card.
fn network_boot(board: &OnBoard, file: &str) -> Guest {
    let mut machine = board.machine();
    machine.disk = None;
    machine.firmware = Some("bios-256k.bin".into());
    let tftp = board.package.tftp.display();
    let netdev = format!("user,id=boot,tftp={tftp},bootfile={file}");
    machine.extra =
        ["-netdev", &netdev, "-device", "e1000,netdev=boot,bootindex=0"].map(Into::into).into();
    Guest::boot(&machine)
}

#[test]
fn bzimage_boots_by_ipxe() {
    let board = OnBoard::new("qemu-x86_64", "httpd", "", None);
    answers(&mut network_boot(&board, "boot.ipxe"));
}

#[test]
fn bzimage_boots_by_grub() {
    let board = OnBoard::new("qemu-x86_64", "httpd", "", None);
    // What a menu entry says, as the whole of a GRUB that is itself booted from the network.
    let entry = std::fs::read_to_string(board.package.folder.join("grub.cfg")).unwrap();
    let linux = entry.lines().find(|line| line.contains("linux ")).expect("an entry");
    let (early, core) = (board.scratch.file("early.cfg"), board.package.tftp.join("grub.0"));
    std::fs::write(
        &early,
        format!("{}\nboot\n", linux.replace("/boot/trireme", "(pxe)/httpd.bzImage")),
    )
    .unwrap();
    let paths = [core.to_str().unwrap(), early.to_str().unwrap()];
    let options = ["-O", "i386-pc-pxe", "-p", "(pxe)/", "-o", paths[0], "-c", paths[1]];
    succeed("grub-mkimage", &[&options[..], &["pxe", "tftp", "linux", "boot"]].concat(), LIMIT);
    answers(&mut network_boot(&board, "grub.0"));
}

/// Behind U-Boot the way out is the firmware's, PSCI here, with no debugger to ask: by HVC for a guest, and by SMC where U-Boot
/// and the kernel are entered at EL2, as on boards.
#[rstest]
fn machine_behind_uboot_resets_and_switches_off(
    #[values("virt", "virt,virtualization=on,gic-version=3")] kind: &str,
) {
    let board = OnBoard::new("qemu-arm64", "httpd", "", None);
    let mut machine = board.machine();
    machine.machine = Some(kind.to_owned());
    machine.extra = ["-semihosting-config", "enable=off"].map(Into::into).into();
    let mut guest = Guest::boot(&machine);
    guest.hurry_uboot(0, LIMIT);
    answers(&mut guest);
    let seen = guest.console().len();
    guest.type_line("reboot");
    guest.hurry_uboot(seen, LIMIT);
    answers(&mut guest);
    guest.type_line("poweroff");
    assert_eq!(guest.exit_status(LIMIT), 0);
}

/// Memory that U-Boot reserves is neither used nor given out: it is as it was when a program has written to all the memory
/// it could get, and the machine was reset.
#[test]
fn memory_that_uboot_reserved_is_left_alone() {
    let board = OnBoard::new("qemu-arm64", "faults", "", None);
    let mut guest = Guest::boot(&board.machine());
    guest.stop_uboot(LIMIT);
    // By /memreserve/, by /reserved-memory, the same without mapping; and one that is nobody's.
    let [entry, shared, secure, free] = [0x4180_0000, 0x4280_0000, 0x4380_0000, 0x4500_0000];
    for place in [entry, shared, secure, free] {
        guest.at_uboot(&format!("mw.l {place:#x} a5c35a3c 40000"));
    }
    guest.at_uboot("fdt addr ${fdtcontroladdr}");
    guest.at_uboot("fdt move ${fdtcontroladdr} 0x44000000 0x100000");
    guest.at_uboot(&format!("fdt rsvmem add {entry:#x} 0x100000"));
    guest.at_uboot("fdt mknode / reserved-memory; setenv node /reserved-memory");
    for cells in ["address", "size"] {
        guest.at_uboot(&format!("fdt set ${{node}} '#{cells}-cells' <2>"));
    }
    guest.at_uboot("fdt set ${node} ranges");
    for (name, place) in [("shared", shared), ("secure", secure)] {
        guest.at_uboot(&format!("fdt mknode ${{node}} {name}@0"));
        guest.at_uboot(&format!("fdt set ${{node}}/{name}@0 reg <0 {place:#x} 0 0x100000>"));
    }
    guest.at_uboot("fdt set ${node}/secure@0 no-map");
    guest.at_uboot("setenv bootargs panic=-1 env.FAULT=memory");
    guest.at_uboot("virtio scan; load virtio 0:1 0x40400000 Image; booti 0x40400000 - 0x44000000");
    guest.wait_for("memory allocation of", LIMIT);
    let seen = guest.console().len();
    guest.wait_for_behind(seen, "Hit any key to stop autoboot", LIMIT);
    guest.type_line("");
    guest.wait_for_behind(seen, "=> ", LIMIT);
    guest.at_uboot(&format!("md.l {entry:#x} 1"));
    for other in [shared, secure, free] {
        guest.at_uboot(&format!("cmp.l {entry:#x} {other:#x} 40000"));
    }
    guest.at_uboot("echo");
    let console = guest.console();
    let shown: Vec<&str> = console[seen..].lines().map(str::trim).collect();
    assert!(shown.iter().any(|line| line.starts_with("41800000: a5c35a3c")), "{shown:#?}");
    let same = shown.iter().filter(|line| **line == "Total of 262144 word(s) were the same");
    assert_eq!(same.count(), 2, "what was reserved was written to: {shown:#?}");
    let differs = shown.iter().any(|line| line.starts_with("word at 0x") && line.contains("!="));
    assert!(differs, "what was free was not written to, so this shows nothing: {shown:#?}");
}

/// What can be said of a board's files without the board: each field where its loader looks for it.
#[rstest]
fn files_for_boards_qemu_lacks_are_as_their_loaders_want_them(
    #[values("salvator-x", "rzg2l-smarc")] board: &str,
) {
    let board = OnBoard::new(board, "httpd", "ip=dhcp", None);
    let image = std::fs::read(&board.package.kernel).unwrap();
    let long = |at: usize| u64::from_le_bytes(image[at..at + 8].try_into().unwrap());
    // [Linux, Documentation/arch/arm64/booting.rst; docs/hardware/ravb.md 7.1]
    assert_eq!(&image[0x38..0x3c], b"ARM\x64");
    assert_eq!(long(0x08), 0, "text_offset");
    assert!(long(0x10) >= image.len() as u64, "image_size leaves out what is in the file");
    assert!(long(0x10) < 8 << 20, "image_size {:#x}", long(0x10));
    assert_eq!(long(0x18) & 0b1001, 0b1000, "little-endian, anywhere in memory");
    // Where booti leaves it: from the beginning of memory, on a 2 MiB boundary.
    let load = board.board.load.kernel;
    assert!(load.is_multiple_of(2 << 20) && load > 0x4800_0000, "{load:#x}");
    let fit = board.package.fit.to_str().unwrap();
    let get = |arguments: &[&str]| {
        let arguments = [&["-t"], &arguments[..1], &[fit], &arguments[1..]].concat();
        succeed("fdtget", &arguments, LIMIT).trim().to_owned()
    };
    for field in ["load", "entry"] {
        assert_eq!(get(&["x", "/images/kernel", field]), format!("{load:x}"));
    }
    assert_eq!(get(&["s", "/images/kernel", "arch"]), "arm64");
    assert_eq!(get(&["s", "/images/kernel/hash-1", "algo"]), "sha256");
    assert_eq!(get(&["s", "/configurations", "default"]), "trireme");
    assert_eq!(get(&["s", "/configurations/trireme", "fdt"]), "fdt");
    // mkimage checks hashes when it has the FIT listed by the tool that U-Boot shares its code with.
    let listed = succeed("dumpimage", &["-l", fit], LIMIT);
    assert!(listed.contains("Flat Device Tree") && listed.contains("AArch64"), "{listed}");
    let shown =
        succeed("mdir", &["-b", "-i", &format!("{}@@1M", board.package.card.display())], LIMIT);
    for name in ["boot.scr", "trireme-a.itb", "trireme-b.itb", "Image", "board.dtb"] {
        assert!(shown.contains(&format!("::/{name}")), "{name} is not on the card:\n{shown}");
    }
}

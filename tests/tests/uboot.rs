//! Images as a board gets them: from a card, by TFTP, as `Image` and as FIT, through Debian's U-Boot, until curl is
//! answered.

use trireme_tests::board::{LIMIT, OnBoard, answers};
use trireme_tests::guest::Guest;
use trireme_tools::qemu::Network;

/// U-Boot has taken 10.0.2.15, where the forwarded port leads, from QEMU's DHCP server for itself; an appliance that
/// asks too gets the next.
const ADDRESS: &str = "ip=10.0.2.15::10.0.2.2:255.255.255.0";

#[test]
fn sd_card_boots_by_itself() {
    let board = OnBoard::new("qemu-arm64", "httpd", "hostname=card", None);
    let mut guest = Guest::boot(&board.machine());
    answers(&mut guest);
    assert!(guest.console().contains("booting slot a"));
}

#[test]
fn image_from_the_card_boots_as_the_instructions_say() {
    let board = OnBoard::new("qemu-arm64", "httpd", "", None);
    let mut guest = Guest::boot(&board.machine());
    guest.stop_uboot(LIMIT);
    board.follow(&mut guest, "without a FIT", "");
    answers(&mut guest);
    assert!(!guest.console().contains("FIT Image"));
}

#[test]
fn fit_from_tftp_boots_as_the_instructions_say() {
    let board = OnBoard::new("qemu-arm64", "httpd", ADDRESS, None);
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

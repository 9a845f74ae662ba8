//! What is ARMv4's alone: little memory, the board's reset, and the ways a loader may leave the image.

use std::fs;
use std::process::Command;
use std::time::Duration;

use trireme_tests::files::Scratch;
use trireme_tests::guest::Guest;
use trireme_tests::images::image;
use trireme_tests::network::isolate;
use trireme_tests::program::{curl, succeed};
use trireme_tools::arch::Arch;
use trireme_tools::qemu::{Machine, Network};
use trireme_tools::workspace;

const LIMIT: Duration = Duration::from_secs(30);

fn boot() -> Guest {
    isolate();
    let mut machine = Machine::new(Arch::Armv4, &image("httpd", Arch::Armv4).boot);
    machine.network = Network::User(vec!["8080:80".parse().expect("two ports")]);
    machine.memory = 16;
    let guest = Guest::boot(&machine);
    guest.wait_for("listening", LIMIT);
    guest
}

#[test]
fn web_server_runs_in_16_mebibytes() {
    let _guest = boot();
    let page = fs::read_to_string(workspace::root().join("apps/httpd/www/index.html")).unwrap();
    assert_eq!(curl(&["http://127.0.0.1:8080/"], LIMIT), page);
    let load = succeed("ab", &["-n", "300", "-c", "30", "http://127.0.0.1:8080/"], LIMIT);
    assert!(load.contains("Failed requests:        0"), "{load}");
}

#[test]
fn machine_is_reset_by_its_system_controller() {
    let mut guest = boot();
    guest.type_line("reboot");
    // QEMU was told to end where a machine starts over.
    assert_eq!(guest.exit_status(LIMIT), 0);
}

/// As RedBoot leaves it: at another place than it is linked at, a device tree behind it, entered at its first byte. The
/// tree in r2, which says something else, is not the one that counts.
#[test]
fn image_moves_itself_and_takes_the_tree_behind_it() {
    isolate();
    let scratch = Scratch::new();
    let source = workspace::root().join("targets/versatilepb.dts");
    let source =
        fs::read_to_string(source).unwrap() + "/ { chosen { bootargs = \"-- abort\"; }; };";
    let file = scratch.file("tree.dts");
    fs::write(&file, source).unwrap();
    let tree = Command::new("dtc").args(["-q", "-O", "dtb"]).arg(&file).output().unwrap().stdout;
    let kernel = image("faults", Arch::Armv4).boot;
    let whole = scratch.file("loaded");
    fs::write(&whole, [fs::read(&kernel).unwrap(), tree].concat()).unwrap();
    let mut machine = Machine::new(Arch::Armv4, &kernel);
    machine.append = "-- null".to_owned();
    let load = format!("loader,file={},addr=0x1600000,force-raw=on", whole.display());
    machine.extra =
        ["-device", &load, "-device", "loader,addr=0x1600000,cpu-num=0"].map(Into::into).to_vec();
    let mut guest = Guest::boot(&machine);
    assert_eq!(guest.exit_status(LIMIT), 101);
    assert!(guest.console().contains("about to do abort"), "{}", guest.console());
}

//! A program from crates.io, unmodified, that never heard of Trireme.

use std::fs;
use std::time::Duration;

use rstest::rstest;
use trireme_tests::files::{Scratch, web_archive, web_files};
use trireme_tests::guest::Guest;
use trireme_tests::images::image_from_registry;
use trireme_tests::network::{TAP, isolate_with_tap, static_address};
use trireme_tests::program::succeed;
use trireme_tools::app::THIRD_PARTY;
use trireme_tools::arch::Arch;
use trireme_tools::qemu::{Machine, Network};

#[rstest]
fn tftp_server_of_others_serves_files(#[values(Arch::X86_64, Arch::Aarch64)] arch: Arch) {
    isolate_with_tap();
    let mut machine = Machine::new(arch, &image_from_registry(THIRD_PARTY, arch).boot);
    machine.memory = 512;
    machine.network = Network::Tap(TAP.to_owned());
    machine.initrd = Some(web_archive());
    machine.append = format!("{} -- -i 0.0.0.0 -p 69 -d / -r", static_address());
    let guest = Guest::boot(&machine);
    guest.wait_for("Running TFTP Server", Duration::from_secs(30));
    let scratch = Scratch::new();
    let got = scratch.file("got");
    for name in ["one.bin", "1k.bin", "64k.bin"] {
        let url = format!("tftp://10.77.0.2/{name}");
        succeed("curl", &["-s", "-S", "-o", got.to_str().unwrap(), &url], Duration::from_secs(30));
        assert!(
            fs::read(&got).unwrap() == fs::read(web_files().join(name)).unwrap(),
            "{name} differs"
        );
    }
}

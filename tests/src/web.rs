//! The web server's image on a test network.

use std::time::{Duration, Instant};

use trireme_tools::arch::Arch;
use trireme_tools::qemu::{Machine, Network};

use crate::files::web_archive;
use crate::guest::Guest;
use crate::images::image;
use crate::network::{self, TAP, isolate, isolate_with_tap};
use crate::program;

/// Boot and first answer under emulation, on a machine that does other things too.
const BOOT: Duration = Duration::from_secs(30);

/// httpd with the test files, on user networking: its port 80 is 127.0.0.1:8080 of a fresh namespace.
pub fn machine_on_user_network(arch: Arch) -> Machine {
    isolate();
    let mut machine = machine(arch);
    machine.network = Network::User(vec!["8080:80".parse().expect("two ports")]);
    machine
}

/// httpd with the test files, at 10.77.0.2 on a TAP of a fresh namespace.
pub fn machine_on_tap(arch: Arch) -> Machine {
    isolate_with_tap();
    let mut machine = machine(arch);
    machine.network = Network::Tap(TAP.to_owned());
    machine.append = network::static_address();
    machine
}

fn machine(arch: Arch) -> Machine {
    let mut machine = Machine::new(arch, &image("httpd", arch).boot);
    // QEMU's versatilepb takes no more.
    machine.memory = if arch == Arch::Armv4 { 256 } else { 512 };
    machine.initrd = Some(web_archive());
    machine
}

/// Where the machine's server can be reached.
pub fn address(machine: &Machine) -> &'static str {
    match machine.network {
        Network::User(_) => "http://127.0.0.1:8080",
        _ => "http://10.77.0.2",
    }
}

/// Boots the machine and waits for the first answer.
pub fn serve(machine: &Machine) -> Guest {
    let mut guest = Guest::boot(machine);
    let url = format!("{}/one.bin", address(machine));
    let start = Instant::now();
    loop {
        let output = program::run("curl", &["-s", "-f", "-o", "/dev/null", "-m", "2", &url], BOOT);
        if output.status.success() {
            return guest;
        }
        assert!(guest.is_running(), "the guest ended");
        assert!(start.elapsed() < BOOT, "no answer within {BOOT:?} at {url}");
    }
}

//! Transfers over a wire that loses, doubles, reorders and delays frames.

use std::fs;
use std::time::{Duration, Instant};

use rstest::rstest;
use trireme_tests::files::{Scratch, web_files};
use trireme_tests::network::{TAP, ip};
use trireme_tests::program::curl;
use trireme_tests::relay::relay;
use trireme_tests::web::{address, machine_on_tap, serve};
use trireme_tools::arch::Arch;

/// Each frame of a transfer, either way, has one chance in a hundred of every fault.
const FAULTS: &str = "loss=1,duplication=1,reorder=1,hold=8";

#[rstest]
#[case::faults_alone(Arch::X86_64, Duration::ZERO)]
#[case::with_delay(Arch::X86_64, Duration::from_millis(10))]
#[case::faults_alone_aarch64(Arch::Aarch64, Duration::ZERO)]
fn transfers_survive_a_bad_wire(#[case] arch: Arch, #[case] delay: Duration) {
    let scratch = Scratch::new();
    let mut machine = machine_on_tap(arch);
    // What is wrong is on the wire: frames of the wire's size, checksums in them.
    ip(&format!("link set {TAP} mtu 1500"));
    machine.network = relay(TAP, &scratch.file("wire"), FAULTS.parse().unwrap(), delay, 7);
    let _guest = serve(&machine);
    let got = scratch.file("got");
    for attempt in 0..2 {
        let start = Instant::now();
        // curl gives up when less than a byte a second arrives for five seconds: the longest stall allowed.
        let url = format!("{}/big.bin", address(&machine));
        let arguments =
            ["-Y", "1", "-y", "5", "-r", "0-4999999", "-o", got.to_str().unwrap(), &url];
        curl(&arguments, Duration::from_secs(120));
        let want = fs::read(web_files().join("big.bin")).unwrap();
        assert!(fs::read(&got).unwrap() == want[..5_000_000], "attempt {attempt} differs");
        eprintln!("attempt {attempt}: 5 MB in {:?}", start.elapsed());
    }
}

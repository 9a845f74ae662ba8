//! Features are switched every second while a download runs in several connections: the bytes stay right, no connection is
//! lost, and the counters show who does the work.

use std::env;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use rstest::rstest;
use trireme_tests::console::{ask, counter};
use trireme_tests::files::web_files;
use trireme_tests::guest::Guest;
use trireme_tests::program::succeed;
use trireme_tests::web::{address, machine_on_tap, serve};
use trireme_tools::arch::Arch;

/// Downloads at the same time.
const PARALLEL: usize = 3;
const LIMIT: Duration = Duration::from_secs(120);

/// A feature of `ethtool -K`, and the counters of `ethtool -S` that are the card's work and the software's.
struct Feature {
    name: &'static str,
    card: &'static [&'static str],
    software: &'static [&'static str],
}

const FEATURES: [Feature; 3] = [
    Feature { name: "tso", card: &["tx_tso_bytes"], software: &["tx_gso_bytes"] },
    Feature {
        name: "tx",
        card: &["tx_csum_hw_bytes", "tx_tso_bytes"],
        software: &["tx_csum_sw_bytes"],
    },
    Feature {
        name: "rx",
        card: &["rx_csum_hw", "rx_csum_partial", "rx_csum_complete"],
        software: &["rx_csum_sw"],
    },
];

impl Feature {
    /// What the card has done of it, and the software.
    fn work(&self, guest: &mut Guest) -> (u64, u64) {
        let statistics = ask(guest, "ethtool -S eth0");
        let sum = |names: &[&str]| names.iter().map(|name| counter(&statistics, name)).sum();
        (sum(self.card), sum(self.software))
    }

    /// Switches it and watches for `time`: then the other side does the work.
    fn switch(&self, guest: &mut Guest, on: bool, time: Duration) {
        let end = Instant::now() + time;
        let to = if on { "on" } else { "off" };
        let answer = ask(guest, &format!("ethtool -K eth0 {} {to}", self.name));
        assert!(!answer.contains("error"), "{answer}");
        let before = self.work(guest);
        let deadline = Instant::now() + LIMIT;
        loop {
            let after = self.work(guest);
            let (card, software) = (after.0 - before.0, after.1 - before.1);
            let (busy, idle) = if on { (card, software) } else { (software, card) };
            // A frame or two of the stack's own are summed by software in any case.
            if busy > 100 && busy >= 20 * idle {
                break;
            }
            let name = self.name;
            assert!(Instant::now() < deadline, "{name} {to}: card {card}, software {software}");
            thread::sleep(Duration::from_millis(20));
        }
        thread::sleep(end.saturating_duration_since(Instant::now()));
    }
}

/// How long features are switched: a round of all, or as many seconds as the environment says, a second for each switch.
fn plan() -> (Duration, Duration) {
    match env::var("SWITCHING_SECONDS") {
        Ok(seconds) => {
            (Duration::from_secs(seconds.parse().expect("seconds")), Duration::from_secs(1))
        }
        Err(_) => (Duration::ZERO, Duration::from_millis(300)),
    }
}

#[rstest]
fn download_is_whole_while_features_are_switched(
    #[values(Arch::X86_64, Arch::Aarch64)] arch: Arch,
) {
    let machine = machine_on_tap(arch);
    let mut guest = serve(&machine);
    let file = web_files().join("big.bin");
    let hash = |command: String| {
        let shown = succeed("sh", &["-c", &format!("set -e; {command} | sha256sum")], LIMIT);
        shown.split_whitespace().next().expect("a hash").to_owned()
    };
    let wanted = hash(format!("cat {}", file.display()));
    let url = format!("{}/big.bin", address(&machine));
    let (stop, whole) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
    let downloads: Vec<_> = (0..PARALLEL)
        .map(|_| {
            let (stop, whole) = (stop.clone(), whole.clone());
            let (url, wanted) = (url.clone(), wanted.clone());
            thread::spawn(move || {
                while !stop.load(Ordering::Relaxed) {
                    // A connection that is lost is curl's error; what it has fetched then has another hash.
                    let got = hash(format!("curl -sSf --noproxy '*' {url}"));
                    assert_eq!(got, wanted, "the download differs");
                    whole.fetch_add(1, Ordering::Relaxed);
                }
            })
        })
        .collect();
    let (least, step) = plan();
    let start = Instant::now();
    let mut switched = 0;
    while switched == 0 || start.elapsed() < least {
        for feature in &FEATURES {
            feature.switch(&mut guest, false, step);
            feature.switch(&mut guest, true, step);
            // What needs the feature was switched off with it.
            ask(&mut guest, "ethtool -K eth0 tx on sg on tso on rx on lro on");
            switched += 2;
        }
        for name in ["lro", "sg"] {
            ask(&mut guest, &format!("ethtool -K eth0 {name} off"));
            thread::sleep(step);
            ask(&mut guest, "ethtool -K eth0 tx on sg on tso on rx on lro on");
            thread::sleep(step);
            switched += 2;
        }
    }
    stop.store(true, Ordering::Relaxed);
    let lost = downloads.into_iter().map(thread::JoinHandle::join).filter(Result::is_err).count();
    assert_eq!(lost, 0, "downloads that failed");
    let whole = whole.load(Ordering::Relaxed);
    eprintln!("{switched} switches in {:?}, {whole} downloads of 100 MB whole", start.elapsed());
    assert!(whole >= PARALLEL);
}

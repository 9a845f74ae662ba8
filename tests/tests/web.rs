//! The web server on both architectures, asked by curl, ab and wrk over user networking and a TAP.

use std::fs;
use std::process::Command;
use std::time::Duration;

use rstest::rstest;
use trireme_tests::files::{BIG, Scratch, web_files};
use trireme_tests::network::{TAP, ip};
use trireme_tests::program::{curl, run, succeed};
use trireme_tests::web::{address, machine_on_tap, machine_on_user_network, serve};
use trireme_tools::arch::Arch;

const LIMIT: Duration = Duration::from_secs(20);

/// How long ab and wrk load the server, in seconds.
const LOAD: u32 = 30;

#[rstest]
fn small_files_and_ranges_are_whole(
    #[values(Arch::X86_64, Arch::Aarch64, Arch::Armv4)] arch: Arch,
) {
    let machine = machine_on_user_network(arch);
    let _guest = serve(&machine);
    let scratch = Scratch::new();
    let file = scratch.file("got");
    let (url, got) = (address(&machine), file.to_str().expect("a UTF-8 path"));
    for name in ["one.bin", "1k.bin", "64k.bin"] {
        curl(&["-o", got, &format!("{url}/{name}")], LIMIT);
        assert!(
            fs::read(got).unwrap() == fs::read(web_files().join(name)).unwrap(),
            "{name} differs"
        );
    }
    let whole = fs::read(web_files().join("64k.bin")).unwrap();
    for (range, want) in [
        ("0-0", 0..1),
        ("1000-4999", 1000..5000),
        ("65000-", 65_000..65_536),
        ("-7", 65_529..65_536),
    ] {
        let status =
            curl(&["-r", range, "-o", got, "-w", "%{http_code}", &format!("{url}/64k.bin")], LIMIT);
        assert_eq!(status, "206", "{range}");
        assert!(fs::read(got).unwrap() == whole[want], "range {range} differs");
    }
    let beyond = run(
        "curl",
        &["-s", "-o", "/dev/null", "-w", "%{http_code}", "-r", "70000-", &format!("{url}/64k.bin")],
        LIMIT,
    );
    assert_eq!(String::from_utf8_lossy(&beyond.stdout), "416");
    let missing = run(
        "curl",
        &["-s", "-o", "/dev/null", "-w", "%{http_code}", &format!("{url}/nonesuch")],
        LIMIT,
    );
    assert_eq!(String::from_utf8_lossy(&missing.stdout), "404");
}

fn fetch_big(url: &str) {
    let scratch = Scratch::new();
    let file = scratch.file("big");
    curl(
        &["-o", file.to_str().expect("a UTF-8 path"), &format!("{url}/big.bin")],
        Duration::from_secs(120),
    );
    assert_eq!(file.metadata().unwrap().len(), BIG as u64);
    let same = Command::new("cmp").arg(&file).arg(web_files().join("big.bin")).status().unwrap();
    assert!(same.success(), "the 100 MB differ");
}

#[rstest]
fn hundred_megabytes_arrive_over_user_networking(
    #[values(Arch::X86_64, Arch::Aarch64)] arch: Arch,
) {
    let machine = machine_on_user_network(arch);
    let _guest = serve(&machine);
    fetch_big(address(&machine));
}

#[rstest]
fn hundred_megabytes_arrive_over_a_tap(#[values(Arch::X86_64, Arch::Aarch64)] arch: Arch) {
    let machine = machine_on_tap(arch);
    let _guest = serve(&machine);
    fetch_big(address(&machine));
}

#[rstest]
fn thousand_requests_use_one_connection(
    #[values(Arch::X86_64, Arch::Aarch64, Arch::Armv4)] arch: Arch,
) {
    let machine = machine_on_tap(arch);
    let _guest = serve(&machine);
    let url = format!("{}/1k.bin?[1-1000]", address(&machine));
    let counts = curl(
        &["-o", "/dev/null", "-w", "%{num_connects} %{size_download}\n", &url],
        Duration::from_secs(60),
    );
    assert_eq!(counts.lines().count(), 1000);
    assert_eq!(counts.lines().next(), Some("1 1024"));
    assert!(counts.lines().skip(1).all(|line| line == "0 1024"), "a second connection was made");
}

#[rstest]
fn two_hundred_connections_are_served_at_once(#[values(Arch::X86_64, Arch::Aarch64)] arch: Arch) {
    let machine = machine_on_tap(arch);
    let _guest = serve(&machine);
    let url = format!("{}/64k.bin?[1-200]", address(&machine));
    let arguments = [
        "--parallel",
        "--parallel-immediate",
        "--parallel-max",
        "200",
        "-o",
        "/dev/null",
        "-w",
        "%{http_code} %{size_download}\n",
        &url,
    ];
    let counts = curl(&arguments, Duration::from_secs(60));
    assert_eq!(counts.lines().filter(|line| *line == "200 65536").count(), 200, "{counts}");
}

#[rstest]
fn load_of_ab_and_wrk_passes_without_an_error(#[values(Arch::X86_64, Arch::Aarch64)] arch: Arch) {
    let machine = machine_on_tap(arch);
    let _guest = serve(&machine);
    let url = format!("{}/1k.bin", address(&machine));
    let limit = Duration::from_secs(u64::from(LOAD) + 30);
    let seconds = (LOAD / 2).to_string();
    let ab =
        succeed("ab", &["-q", "-k", "-c", "20", "-t", &seconds, "-n", "10000000", &url], limit);
    let field = |name: &str| {
        let line = ab.lines().find(|l| l.starts_with(name));
        line.and_then(|l| l.split_whitespace().find_map(|w| w.parse::<u64>().ok()))
    };
    assert_eq!(field("Failed requests:"), Some(0), "{ab}");
    assert!(field("Complete requests:").is_some_and(|n| n > 100), "{ab}");
    assert!(!ab.contains("Non-2xx"), "{ab}");
    let wrk = succeed("wrk", &["-t", "1", "-c", "50", "-d", &format!("{seconds}s"), &url], limit);
    assert!(wrk.contains("requests in"), "{wrk}");
    assert!(!wrk.contains("Socket errors") && !wrk.contains("Non-2xx"), "{wrk}");
}

#[rstest]
fn ipv6_serves_the_same_by_link_local_address(
    #[values(Arch::X86_64, Arch::Aarch64, Arch::Armv4)] arch: Arch,
) {
    let machine = machine_on_tap(arch);
    let _guest = serve(&machine);
    // EUI-64 of 52:54:00:12:34:56. [RFC 4291, appendix A]
    fetch_big(&format!("http://[fe80::5054:ff:fe12:3456%25{TAP}]"));
    let neighbours = ip(&format!("-6 neigh show dev {TAP}"));
    assert!(neighbours.contains("fe80::5054:ff:fe12:3456"), "{neighbours}");
}

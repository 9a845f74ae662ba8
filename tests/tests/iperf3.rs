//! iperf3 on the guest and Debian's iperf3 on the host: every mode, and both agree on what was sent and received.

use std::process::{Command, Stdio};
use std::time::Duration;

use rstest::rstest;
use serde_json::Value;
use trireme_tests::capture::Capture;
use trireme_tests::files::Scratch;
use trireme_tests::guest::Guest;
use trireme_tests::images::image;
use trireme_tests::iperf3::{Server, client, guest_report, octets, refused_client};
use trireme_tests::network::{TAP, isolate_with_tap, static_address};
use trireme_tools::arch::Arch;
use trireme_tools::net::{GUEST_V4, HOST_V4};
use trireme_tools::qemu::{Machine, Network};

const BOOT: Duration = Duration::from_secs(30);
const GUEST_V6: &str = "fd77::2";

fn machine(arch: Arch, arguments: &str) -> Machine {
    let mut machine = Machine::new(arch, &image("iperf3", arch).boot);
    machine.network = Network::Tap(TAP.to_owned());
    let v6 = format!("ip=[{GUEST_V6}]:::64::eth0:off");
    machine.append = format!("{} {v6} -- {arguments}", static_address());
    machine
}

fn serve(arch: Arch, arguments: &str) -> Guest {
    isolate_with_tap();
    Guest::boot(&machine(arch, arguments))
}

/// Waits until the guest serves: a JSON server says nothing of itself.
fn await_server() {
    let deadline = std::time::Instant::now() + BOOT;
    while std::net::TcpStream::connect((GUEST_V4, 5201)).is_err() {
        assert!(std::time::Instant::now() < deadline, "nobody listens");
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// Sums of both directions, as far as there are any.
const SUMS: [&str; 4] =
    ["sum_sent", "sum_received", "sum_sent_bidir_reverse", "sum_received_bidir_reverse"];

/// Both reports have the same octets in each sum; in a direction no more are received than sent, and no less than sent
/// less what was under way when the sender was stopped (`slack`, in octets).
fn agree(mode: &str, ours: &Value, theirs: &Value, slack: u64) {
    for sum in SUMS.iter().filter(|sum| theirs["end"].get(**sum).is_some()) {
        assert_eq!(octets(ours, sum), octets(theirs, sum), "{mode}: {sum}");
        assert!(octets(ours, sum) > 0, "{mode}: {sum}");
    }
    for [sent, received] in [[SUMS[0], SUMS[1]], [SUMS[2], SUMS[3]]] {
        if theirs["end"].get(sent).is_some() {
            let (sent, received) = (octets(theirs, sent), octets(theirs, received));
            // Both sides leave out the beginning by their own clocks.
            let more = if mode.contains("-O") { slack } else { 0 };
            assert!(received <= sent + more, "{mode}: {received} received of {sent}");
            assert!(received + slack >= sent, "{mode}: only {received} received of {sent}");
        }
    }
}

/// The rings at both ends, and what QEMU holds.
const UNDER_WAY: u64 = 16 << 20;
/// Of datagrams at the rates used here; they may be lost on a loaded machine.
const DATAGRAMS: u64 = 4 << 20;

#[rstest]
fn server_agrees_with_debians_client(#[values(Arch::X86_64, Arch::Aarch64)] arch: Arch) {
    let guest = serve(arch, "-s -J");
    await_server();
    let modes: [(&str, u64); 14] = [
        // What the client has sent, the server has received: to the octet.
        ("-n 20M", 0),
        ("-n 20M -P 3", 0),
        ("-k 50 -l 10K -N", 0),
        ("-t 1 -i 0.5", 0),
        ("-t 1 -b 10M -l 10K", 0),
        ("-n 2M -w 64K -M 1000", 0),
        // The client stops these servers when it has had enough.
        ("-n 20M -R", UNDER_WAY),
        ("-n 10M -R -P 2 -w 64K", UNDER_WAY),
        ("-t 1 --bidir", UNDER_WAY),
        ("-t 1 --bidir -P 2 -O 1", UNDER_WAY),
        ("-u -n 500K -b 20M", DATAGRAMS),
        ("-u -n 500K -b 20M -R -P 2", DATAGRAMS),
        ("-u -t 1 -b 5M --bidir -P 2 -l 1000", DATAGRAMS),
        ("-u -k 100 -b 10M --udp-counters-64bit", DATAGRAMS),
    ];
    for (number, (mode, slack)) in modes.iter().enumerate() {
        let theirs = client(GUEST_V4, mode);
        agree(mode, &guest_report(&guest, number + 1), &theirs, *slack);
    }
    for (at, mode) in ["-6 -n 20M", "-6 -n 10M -R", "-6 -u -n 500K -b 20M"].iter().enumerate() {
        let theirs = client(GUEST_V6, mode);
        agree(mode, &guest_report(&guest, modes.len() + at + 1), &theirs, UNDER_WAY);
    }
}

#[rstest]
fn client_agrees_with_debians_server(
    #[values(Arch::X86_64, Arch::Aarch64)] arch: Arch,
    #[values(
        ("-n 20M -P 2", HOST_V4),
        ("-n 10M -R -M 1000 -N", HOST_V4),
        ("-t 1 --bidir -w 64K", HOST_V4),
        ("-u -n 500K -b 20M -P 2", HOST_V4),
        ("-u -n 500K -b 20M -R -l 1000", HOST_V4),
        ("-6 -k 100", "fd77::1")
    )]
    mode: (&str, &str),
) {
    isolate_with_tap();
    let server = Server::start();
    let (mode, host) = mode;
    let mut guest = Guest::boot(&machine(arch, &format!("-c {host} -J {mode}")));
    assert_eq!(guest.exit_status(BOOT * 2), 0);
    let (ours, theirs) = (guest_report(&guest, 1), server.report());
    assert!(theirs.get("error").is_none(), "{}", theirs["error"]);
    // Debian's server knows its own side only, and calls the other nothing.
    let reverse = mode.contains("-R");
    let own = if reverse { "sum_sent" } else { "sum_received" };
    assert_eq!(octets(&ours, own), octets(&theirs, own), "{mode}");
    if mode.contains("--bidir") {
        let own = "sum_sent_bidir_reverse";
        assert_eq!(octets(&ours, own), octets(&theirs, own), "{mode}");
    }
    agree(mode, &ours, &ours, UNDER_WAY);
}

#[rstest]
fn sizes_asked_for_are_on_the_wire(#[values(Arch::X86_64, Arch::Aarch64, Arch::Armv4)] arch: Arch) {
    let _guest = serve(arch, "-s -J");
    await_server();
    let scratch = Scratch::new();
    let capture = Capture::start(&scratch.file("frames"));
    client(GUEST_V4, "-n 1M -M 1000 -w 16K");
    client(GUEST_V4, "-n 1M");
    let frames = capture.stop();
    // Of each test's control connection and stream, the answers to their SYNs.
    let answers = frames.matching("src host 10.77.0.2 and tcp[13] = 0x12");
    let answers: Vec<&str> = answers.lines().filter(|line| line.contains("Flags [S.]")).collect();
    let has = |at: usize, what: &str| {
        assert!(answers[at].contains(what), "no {what} in {}", answers[at]);
    };
    assert_eq!(answers.len(), 4, "{answers:?}");
    for plain in [0, 2, 3] {
        has(plain, "mss 1460");
    }
    has(1, "mss 1000");
    has(1, "wscale 0");
}

/// iperf3's layout, to the column.
#[rstest]
fn console_looks_as_iperf3s(#[values(Arch::X86_64)] arch: Arch) {
    let guest = serve(arch, "");
    guest.wait_for("Server listening on 5201 (test #1)", BOOT);
    client(GUEST_V4, "-k 10 -P 2");
    guest.wait_for("(test #2)", BOOT);
    let console = guest.console();
    for line in [
        "[ ID] Interval           Transfer     Bitrate",
        "[  5] local 10.77.0.2 port 5201 connected to 10.77.0.1 port ",
        "[  7] local 10.77.0.2 port 5201 connected to 10.77.0.1 port ",
        " MBytes ",
    ] {
        assert!(console.contains(line), "no {line:?}");
    }
    let sum = console.lines().find(|line| line.starts_with("[SUM]")).expect("a sum");
    assert_eq!((&sum[..10], &sum[19..25]), ("[SUM]   0.", " sec  "), "{sum}");
}

#[rstest]
fn second_client_is_told_and_a_lost_one_forgotten(
    #[values(Arch::X86_64, Arch::Aarch64)] arch: Arch,
) {
    let guest = serve(arch, "");
    guest.wait_for("(test #1)", BOOT);
    let mut first = Command::new("iperf3");
    first.args(["-c", GUEST_V4, "-t", "100", "--bidir"]).stdout(Stdio::null());
    let mut first = first.spawn().unwrap();
    guest.wait_for("0.00-1.0", BOOT);
    assert!(refused_client(GUEST_V4, "-t 1").contains("busy"));
    // Without a word to the server: the system closes its connections.
    first.kill().unwrap();
    first.wait().unwrap();
    guest.wait_for("the client has unexpectedly closed the connection", BOOT);
    guest.wait_for("(test #2)", BOOT);
    client(GUEST_V4, "-n 1M");
    client(GUEST_V4, "-u -n 100K -b 10M");
}

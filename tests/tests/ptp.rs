//! PTP with RAVB's clock and timestamps, judged by linuxptp and by when tcpdump saw the same frames: `ptp-clock` follows,
//! and leads.

use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant, SystemTime};

use rstest::rstest;
use trireme_tests::capture::Capture;
use trireme_tests::console;
use trireme_tests::files::Scratch;
use trireme_tests::guest::Guest;
use trireme_tests::images::image;
use trireme_tests::network::{TAP, isolate_with_tap, static_address};
use trireme_tests::program::succeed;
use trireme_tools::arch::Arch;
use trireme_tools::model::Model;
use trireme_tools::qemu::{Machine, Network, Nic};

const LIMIT: Duration = Duration::from_secs(30);
/// Announcements four times a second, the rest sixteen times.
const INTERVALS: &str = "--announce-interval -2 --sync-interval -4 --delay-interval -4";
const GUEST: &str = "2e090a.fffe.000001";
const GUEST_PORT: [u8; 10] = [0x2e, 0x09, 0x0a, 0xff, 0xfe, 0, 0, 1, 0, 1];
const SECOND: i128 = 1_000_000_000;
/// What a machine that does other things too may be late by as a rule, and the most that two clocks may then differ by; much
/// less than the 62 ms from one message to the next.
const LATE: i128 = 5_000_000;

/// Debian's ptp4l on the TAP, with the kernel's timestamps. It leaves the host's clock alone.
struct Ptp4l {
    child: Child,
    log: PathBuf,
}

impl Ptp4l {
    fn start(scratch: &Scratch, settings: &str) -> Ptp4l {
        let (file, log) = (scratch.file("ptp4l.conf"), scratch.file("ptp4l.log"));
        let text = format!(
            "[global]\nnetwork_transport L2\ntime_stamping software\nfree_running 1\nuse_syslog 0\nverbose 1\n\
             logAnnounceInterval -2\nlogSyncInterval -4\nlogMinDelayReqInterval -4\nlogMinPdelayReqInterval -4\n\
             summary_interval -4\ntx_timestamp_timeout 200\nfault_reset_interval -2\nuds_address {}\n{settings}\n",
            scratch.file("ptp4l.socket").display()
        );
        fs::write(&file, text).unwrap();
        let mut command = Command::new("setpriv");
        command.args(["--pdeathsig", "TERM", "--", "ptp4l", "-i", TAP, "-f"]).arg(file);
        command.stdin(Stdio::null()).stdout(fs::File::create(&log).unwrap());
        let child = command.spawn().expect("linuxptp is one of the packages of set-up");
        Ptp4l { child, log }
    }

    fn log(&self) -> String {
        fs::read_to_string(&self.log).unwrap()
    }
}

impl Drop for Ptp4l {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        if thread::panicking() {
            eprintln!("--- ptp4l said:\n{}---", self.log());
        }
    }
}

fn machine(chip: &str, options: &str) -> Machine {
    isolate_with_tap();
    let mut machine = Machine::new(Arch::Aarch64, &image("ptp-clock", Arch::Aarch64).boot);
    machine.network = Network::Tap(TAP.to_owned());
    machine.append = format!("{} -- {INTERVALS} {options}", static_address());
    machine.nic = Nic::Model(Model::ravb(chip));
    machine
}

/// A PTP message as tcpdump saw it. Times are in nanoseconds.
struct Seen {
    at: i128,
    from_guest: bool,
    kind: u8,
    sequence: u16,
    /// The timestamp in its body.
    says: i128,
    /// requestingPortIdentity, of a Delay_Resp.
    asked_by: Vec<u8>,
}

const SYNC: u8 = 0x0;
const DELAY_REQ: u8 = 0x1;
const FOLLOW_UP: u8 = 0x8;
const DELAY_RESP: u8 = 0x9;

/// PTP messages in a pcap file of this machine's byte order, with microseconds. IEEE 1588-2019, 13.3 to 13.8.
fn seen(file: &Path) -> Vec<Seen> {
    let bytes = fs::read(file).unwrap();
    assert_eq!(bytes[..4], 0xa1b2_c3d4_u32.to_ne_bytes());
    let mut rest = &bytes[24..];
    let mut all = Vec::new();
    while let Some((header, more)) = rest.split_at_checked(16) {
        let word = |at: usize| u32::from_ne_bytes(header[at..at + 4].try_into().unwrap());
        let (frame, more) = more.split_at(word(8) as usize);
        rest = more;
        if frame[12..14] != [0x88, 0xf7] {
            continue;
        }
        let message = &frame[14..];
        let number = |range: std::ops::Range<usize>| {
            message[range].iter().fold(0i128, |number, byte| number << 8 | i128::from(*byte))
        };
        all.push(Seen {
            at: i128::from(word(0)) * SECOND + i128::from(word(4)) * 1000,
            from_guest: message[20..30] == GUEST_PORT,
            kind: message[0] & 0xf,
            sequence: number(30..32) as u16,
            says: number(34..40) * SECOND + number(40..44),
            asked_by: message.get(44..54).unwrap_or_default().to_vec(),
        });
    }
    all
}

/// When the guest's card says that messages of a kind went or came, by their numbers: lines like "Sync 7 received at 12.5".
fn told(console: &str, name: &str, what: &str) -> HashMap<u16, i128> {
    let line = |line: &str| {
        let (sequence, at) =
            line.trim().strip_prefix(name)?.trim().split_once(&format!(" {what} "))?;
        let (seconds, nanoseconds) = at.split_once('.')?;
        let at = seconds.parse::<i128>().ok()? * SECOND + nanoseconds.parse::<i128>().ok()?;
        Some((sequence.parse().ok()?, at))
    };
    console.lines().filter_map(line).collect()
}

fn median(mut values: Vec<i128>) -> i128 {
    assert!(values.len() >= 20, "{} are too few", values.len());
    values.sort_unstable();
    values[values.len() / 2]
}

/// Times of the card against those of the same messages by another clock; the card's are later by this.
fn later(card: &HashMap<u16, i128>, other: &HashMap<u16, i128>) -> Vec<i128> {
    card.iter().filter_map(|(sequence, at)| Some(at - other.get(sequence)?)).collect()
}

/// Offsets the guest has reported, in nanoseconds.
fn offsets(console: &str) -> Vec<i128> {
    let offset = |line: &str| {
        line.trim()
            .strip_prefix("eth0: offset ")?
            .split_once(" ns from grandmaster")?
            .0
            .parse()
            .ok()
    };
    console.lines().filter_map(offset).collect()
}

fn wait_until(what: &str, mut done: impl FnMut() -> bool) {
    let deadline = Instant::now() + LIMIT;
    while !done() {
        assert!(Instant::now() < deadline, "{what}");
        thread::sleep(Duration::from_millis(50));
    }
}

#[rstest]
fn a_guest_follows_a_grandmaster(#[values("gen2", "gen3")] chip: &str) {
    let scratch = Scratch::new();
    let mut guest = Guest::boot(&machine(chip, "--messages"));
    guest.wait_for(&format!("eth0: PTP clock {GUEST}, domain 0"), LIMIT);
    let capture = Capture::start(&scratch.file("frames"));
    let _master = Ptp4l::start(&scratch, "");
    guest.wait_for("eth0: Listening to Slave", LIMIT);
    wait_until("no offset below a millisecond", || {
        offsets(&guest.console()).last().is_some_and(|ns| ns.abs() < 1_000_000)
    });
    let seen_before = guest.console().len();
    wait_until("few messages", || {
        told(&guest.console()[seen_before..], "Delay_Req", "left at").len() >= 40
    });
    let shown = console::ask(&mut guest, "ethtool -T eth0");
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap().as_secs();
    capture.stop();
    let console = guest.console();
    let all = seen(&scratch.file("frames"));
    let of = |kind: u8, from_guest: bool, time: fn(&Seen) -> i128| -> HashMap<u16, i128> {
        let some = all.iter().filter(|m| m.kind == kind && m.from_guest == from_guest);
        some.map(|m| (m.sequence, time(m))).collect()
    };

    // The card's clock began when it was switched on; the program set it by what the card told of the messages.
    let (before, after) = console.split_once("clock stepped by ").expect("the clock was wrong");
    assert!(told(before, "Sync", "received at").values().all(|at| *at < 100 * SECOND), "{before}");
    let arrived = told(after, "Sync", "received at");
    let left = told(after, "Delay_Req", "left at");

    // From then on the card's times are those tcpdump has of the same frames, none taken for another's.
    assert!(median(later(&arrived, &of(SYNC, false, |m| m.at))).abs() < LATE);
    let asked = of(DELAY_REQ, true, |m| m.at);
    assert!(median(later(&left, &asked)).abs() < LATE);

    // Every question was answered, to the one who asked; what the answers say gives the same offset and a delay.
    let answers = all.iter().filter(|m| m.kind == DELAY_RESP);
    assert!(answers.clone().count() >= 20);
    let answered = of(DELAY_RESP, false, |m| m.says);
    for answer in answers {
        assert_eq!(answer.asked_by, GUEST_PORT);
        assert!(asked.contains_key(&answer.sequence));
    }
    let sent = of(FOLLOW_UP, false, |m| m.says);
    let (mut there, mut offsets, mut delays) = (None, Vec::new(), Vec::new());
    for message in &all {
        let sequence = &message.sequence;
        let took = |later: &HashMap<u16, i128>, earlier: &HashMap<u16, i128>| {
            Some(later.get(sequence)? - earlier.get(sequence)?)
        };
        match message.kind {
            SYNC => there = took(&arrived, &sent).or(there),
            // With the Sync before it.
            DELAY_REQ => {
                if let (Some(there), Some(back)) = (there, took(&answered, &left)) {
                    offsets.push((there - back) / 2);
                    delays.push((there + back) / 2);
                }
            }
            _ => {}
        }
    }
    let (offset, delay) = (median(offsets), median(delays));
    assert!(offset.abs() < LATE && (0..LATE).contains(&delay), "offset {offset}, delay {delay}");

    // What an operator sees.
    let clock = shown.split_once("PTP Hardware Clock: ").expect("a clock").1;
    let seconds: u64 = clock.split('.').next().unwrap().parse().expect("seconds");
    assert!(seconds.abs_diff(now) <= 2, "{clock} is not {now}");
    assert!(console.contains(" ns, frequency "), "{console}");
}

/// Peer delay, so Sync, Pdelay_Req and Pdelay_Resp all have their times; and nonsense is heard before.
#[test]
fn a_guest_leads() {
    let scratch = Scratch::new();
    let guest = Guest::boot(&machine("gen3", "--priority1 100 --p2p"));
    guest.wait_for("eth0: PTP clock", LIMIT);
    let nonsense = "from scapy.all import *\n\
        import random\n\
        random.seed(7)\n\
        f = []\n\
        for n in range(320):\n\
        \x20   b = bytearray(random.randbytes(random.choice([0, 1, 33, 34, 44, 54, 64, 90, 500, 1500])))\n\
        \x20   if len(b) >= 34:\n\
        \x20       b[0:6] = bytes([n % 16, 0x12]) + random.choice([len(b), len(b) + 1, 34, 0]).to_bytes(2, 'big') + bytes(2)\n\
        \x20   f.append(Ether(dst='01:1b:19:00:00:00', type=0x88f7)/Raw(bytes(b)))\n\
        sendp(f, iface='tap0', verbose=0)\n";
    succeed("/usr/bin/python3", &["-c", nonsense], LIMIT);
    guest.wait_for(" malformed, 0 without a time, 0 not sent", LIMIT);
    let follower = Ptp4l::start(&scratch, "delay_mechanism P2P");
    let measured = || -> Vec<(i128, i128)> {
        let log = follower.log();
        let line = |line: &str| {
            let (_, line) = line.split_once("master offset ")?;
            let (offset, line) = line.trim().split_once(' ')?;
            let (_, delay) = line.split_once("path delay ")?;
            Some((offset.parse().ok()?, delay.trim().parse().ok()?))
        };
        // Nothing is measured yet where there is no delay.
        log.lines().filter_map(line).filter(|(_, delay)| *delay != 0).collect()
    };
    wait_until("ptp4l measures nothing", || measured().len() >= 40);
    assert!(follower.log().contains(&format!("selected best master clock {GUEST}")));
    // The guest's clock runs since it was switched on, ptp4l's since 1970: what has to be right is that they run alike.
    let usual = median(measured().into_iter().map(|(offset, _)| offset).collect());
    let spread = median(measured().into_iter().map(|(offset, _)| (offset - usual).abs()).collect());
    let delay = median(measured().into_iter().map(|(_, delay)| delay).collect());
    assert!(usual > 1_700_000_000 * SECOND, "{usual}");
    assert!(spread < LATE && (0..LATE).contains(&delay), "spread {spread}, delay {delay}");
}

#[test]
fn a_card_without_a_clock_is_named() {
    let mut guest = Guest::boot(&machine("gbeth", ""));
    guest.wait_for("ptp-clock: eth0: the card has no clock", LIMIT);
    assert_eq!(guest.exit_status(LIMIT), 1);
}

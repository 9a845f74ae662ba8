//! tcp-proxy between two cards: hundreds of connections at once over a wire that loses frames, kills on either side,
//! and nothing left behind.

use std::env;
use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use rstest::rstest;
use trireme_tests::console::{ask, used_memory};
use trireme_tests::files::{Scratch, noise};
use trireme_tests::guest::Guest;
use trireme_tests::images::image;
use trireme_tests::network::{TAP, ip, isolate_with_tap, tap};
use trireme_tests::relay::relay;
use trireme_tools::arch::Arch;
use trireme_tools::net::GUEST_V4;
use trireme_tools::qemu::{Machine, Network};

const BOOT: Duration = Duration::from_secs(30);
/// Of one connection, with what is lost sent again.
const LIMIT: Duration = Duration::from_secs(60);
const SERVER: &str = "10.78.0.1:9000";
/// Octets each way of a connection that is let live.
const SIZE: usize = 40_000;

/// A guest with a card on each of two networks. What is lost is lost between it and the servers.
fn boot(arch: Arch, faults: &str, scratch: &Scratch) -> Guest {
    isolate_with_tap();
    tap("tap1");
    ip("addr add 10.78.0.1/24 dev tap1");
    ip("link set tap1 mtu 1500");
    ip("link set tap1 up");
    let other = match faults {
        "" => "tap,ifname=tap1,script=no,downscript=no".to_owned(),
        faults => {
            let faults = faults.parse().unwrap();
            match relay("tap1", &scratch.file("wire"), faults, Duration::ZERO, 11) {
                Network::Other(other) => other,
                network => panic!("{network:?} is no back end of QEMU's"),
            }
        }
    };
    let mut machine = Machine::new(arch, &image("tcp-proxy", arch).boot);
    machine.network = Network::Tap(TAP.to_owned());
    machine.append = format!(
        "ip={GUEST_V4}:::255.255.255.0::eth0:off ip=10.78.0.2:::255.255.255.0::eth1:off \
         -- --listen {GUEST_V4}:8080 --to {SERVER} --report 1"
    );
    let card = "virtio-net-pci,romfile=,netdev=net1,mac=52:54:00:12:34:57,addr=0x10";
    let netdev = format!("{other},id=net1");
    machine.extra = ["-netdev", &netdev, "-device", card].map(Into::into).to_vec();
    let guest = Guest::boot(&machine);
    guest.wait_for("tcp-proxy: listening on 10.77.0.2:8080, to 10.78.0.1:9000", BOOT);
    guest
}

/// What becomes of a connection, by its number.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Fate {
    /// All is carried, both halves end in order.
    Lives,
    /// The client's program is killed half-way, the server's.
    ClientKilled,
    ServerKilled,
}

impl Fate {
    fn of(number: u32) -> Fate {
        match number % 5 {
            0 => Fate::ClientKilled,
            1 => Fate::ServerKilled,
            _ => Fate::Lives,
        }
    }
}

fn limited(stream: TcpStream) -> TcpStream {
    stream.set_read_timeout(Some(LIMIT)).unwrap();
    stream.set_write_timeout(Some(LIMIT)).unwrap();
    stream
}

/// Answers each connection with what it has sent, after the end of that. Returns how many it has seen.
fn start_servers() -> Arc<AtomicUsize> {
    let listener = TcpListener::bind(SERVER).unwrap();
    let seen = Arc::new(AtomicUsize::new(0));
    let count = seen.clone();
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            count.fetch_add(1, Ordering::Relaxed);
            thread::spawn(move || answer(limited(stream)));
        }
    });
    seen
}

fn answer(mut stream: TcpStream) {
    let mut number = [0; 4];
    if stream.read_exact(&mut number).is_err() {
        return;
    }
    if Fate::of(u32::from_be_bytes(number)) == Fate::ServerKilled {
        // With something unread: the system resets the connection.
        let _ = stream.read_exact(&mut [0; 100]);
        return;
    }
    let mut got = Vec::new();
    if stream.read_to_end(&mut got).is_ok() {
        // A killed client doesn't take it.
        let _ = stream.write_all(&got);
    }
}

/// One connection; panics if it isn't what its fate is.
fn connect(number: u32, size: usize) {
    let mut stream = limited(TcpStream::connect((GUEST_V4, 8080)).expect("the proxy listens"));
    stream.write_all(&number.to_be_bytes()).unwrap();
    let sent = noise(number.into(), size);
    match Fate::of(number) {
        Fate::ClientKilled => {
            stream.write_all(&sent[..size / 2]).unwrap();
            // As a system does for a killed program: what is unread makes it a reset, else the half ends.
        }
        Fate::ServerKilled => {
            let _ = stream.write_all(&sent);
            let mut got = Vec::new();
            // A reset, or an end without a word.
            let _ = stream.read_to_end(&mut got);
            assert_eq!(got.len(), 0, "an answer from a killed server");
        }
        Fate::Lives => {
            let sending = {
                let (mut stream, sent) = (stream.try_clone().unwrap(), sent.clone());
                thread::spawn(move || {
                    stream.write_all(&sent).unwrap();
                    stream.shutdown(Shutdown::Write).unwrap();
                })
            };
            let mut got = Vec::new();
            stream.read_to_end(&mut got).unwrap_or_else(|e| panic!("connection {number}: {e}"));
            sending.join().unwrap();
            assert!(got == sent, "connection {number}: {} of {size} octets", got.len());
        }
    }
}

/// `count` connections, `parallel` at a time.
fn round(count: u32, parallel: u32, size: usize) {
    let workers: Vec<_> = (0..parallel)
        .map(|worker| {
            thread::spawn(move || {
                (worker..count).step_by(parallel as usize).for_each(|n| connect(n, size));
            })
        })
        .collect();
    workers.into_iter().for_each(|worker| worker.join().expect("all connections met their fate"));
}

/// Waits until no connection is left at the guest; memory in use then, in KiB. What is remembered of the last ones
/// (TIME-WAIT) is in it.
fn settle(guest: &mut Guest) -> u64 {
    let deadline = Instant::now() + Duration::from_secs(90);
    loop {
        let sockets = ask(guest, "ss");
        // Whatever is not the listener, nor the mere memory of a connection.
        let open = sockets.lines().filter(|line| line.contains(":9000") || line.contains(":8080 "));
        let open: Vec<&str> = open
            .filter(|line| !line.contains("LISTEN"))
            .filter(|line| !line.contains("TIME-WAIT"))
            .collect();
        if open.is_empty() {
            return used_memory(guest);
        }
        assert!(Instant::now() < deadline, "left over:\n{}", open.join("\n"));
        thread::sleep(Duration::from_millis(200));
    }
}

/// Rings kept for the next connections, which are not all of one size; in KiB.
const TOLERANCE: u64 = 1024;

#[rstest]
fn connections_survive_loss_and_kills(#[values(Arch::X86_64, Arch::Aarch64)] arch: Arch) {
    let scratch = Scratch::new();
    let mut guest = boot(arch, "loss=1", &scratch);
    let seen = start_servers();
    let rounds: usize = env::var("PROXY_ROUNDS").map_or(1, |rounds| rounds.parse().unwrap());
    // The first fills the stack's tables and buffers.
    round(200, 200, SIZE);
    let before = settle(&mut guest);
    for _ in 0..rounds {
        round(200, 200, SIZE);
    }
    let after = settle(&mut guest);
    eprintln!("{} connections: {before} KiB in use before, {after} KiB after", 200 * rounds);
    assert!(after <= before + TOLERANCE, "{before} KiB in use before, {after} KiB after");
    assert!(seen.load(Ordering::Relaxed) >= 200 * (rounds + 1));
    guest.wait_for("tcp-proxy: 0 open", BOOT);
}

/// Short ones, as fast as they go.
#[rstest]
fn thousands_of_connections_leave_nothing(#[values(Arch::X86_64)] arch: Arch) {
    let scratch = Scratch::new();
    let mut guest = boot(arch, "", &scratch);
    start_servers();
    let count = env::var("PROXY_CONNECTIONS").map_or(1500, |count| count.parse().unwrap());
    // The first fill the stack's tables.
    round(count, 20, 500);
    let before = settle(&mut guest);
    let start = Instant::now();
    round(count, 20, 500);
    let time = start.elapsed();
    let after = settle(&mut guest);
    eprintln!("{count} connections in {time:?}: {before} KiB in use before, {after} KiB after");
    assert!(after <= before + TOLERANCE, "{before} KiB in use before, {after} KiB after");
}

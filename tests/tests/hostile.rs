//! Hostile traffic ends in counters, not in a panic, a hang or a full memory: the server answers before and after.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::thread;
use std::time::Duration;

use rstest::rstest;
use trireme_tests::console;
use trireme_tests::guest::Guest;
use trireme_tests::network::TAP;
use trireme_tests::program::{curl, succeed};
use trireme_tests::web::{address, machine_on_tap, serve};
use trireme_tools::arch::Arch;
use trireme_tools::net::GUEST_V4;
use trireme_tools::qemu::Machine;

const LIMIT: Duration = Duration::from_secs(60);

fn script(name: &str, arguments: &[&str]) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("hostile").join(name);
    let path = path.to_str().expect("a UTF-8 path");
    // Debian's Python, which has Debian's scapy.
    succeed("/usr/bin/python3", &[&[path], arguments].concat(), LIMIT)
}

fn still_serves(machine: &Machine, guest: &mut Guest) {
    let url = format!("{}/1k.bin", address(machine));
    for _ in 0..20 {
        let size = curl(&["-m", "10", "-o", "/dev/null", "-w", "%{size_download}", &url], LIMIT);
        assert_eq!(size, "1024");
    }
    assert!(guest.is_running());
    assert!(!guest.console().to_lowercase().contains("panic"), "{}", guest.console());
}

#[rstest]
fn malformed_frames_do_not_stop_the_server(
    #[values(
        "cut_short",
        "lying_lengths",
        "wrong_checksums",
        "fragments",
        "options",
        "addresses",
        "neighbours",
        "segments",
        "icmp_lies",
        "dhcp_lies",
        "random_frames"
    )]
    kind: &str,
    #[values(Arch::X86_64, Arch::Aarch64)] arch: Arch,
) {
    let machine = machine_on_tap(arch);
    let mut guest = serve(&machine);
    eprintln!("{kind}: {}", script("frames.py", &[TAP, kind]).trim());
    still_serves(&machine, &mut guest);
}

/// httpd with the files of its image in 32 MiB, once it answers; and the address of a small file.
fn small_server(arch: Arch) -> (Guest, String) {
    let mut machine = machine_on_tap(arch);
    machine.initrd = None;
    machine.memory = 32;
    let url = format!("{}/1k", address(&machine));
    let guest = Guest::boot(&machine);
    curl(
        &[
            "--retry",
            "60",
            "--retry-delay",
            "1",
            "--retry-connrefused",
            "--connect-timeout",
            "2",
            "-o",
            "/dev/null",
            &url,
        ],
        LIMIT,
    );
    (guest, url)
}

#[rstest]
fn syn_flood_does_not_keep_clients_out(#[values(Arch::X86_64, Arch::Aarch64)] arch: Arch) {
    let (mut guest, url) = small_server(arch);
    let flood = thread::spawn(|| script("syn_flood.py", &[TAP, "50000"]));
    for _ in 0..10 {
        let code = curl(&["-m", "20", "-o", "/dev/null", "-w", "%{http_code}", &url], LIMIT);
        assert_eq!(code, "200");
    }
    flood.join().unwrap();
    for _ in 0..10 {
        curl(&["-m", "5", "-o", "/dev/null", &url], LIMIT);
    }
    assert!(guest.is_running());
}

#[rstest]
fn burst_of_512_connections_is_taken(#[values(Arch::X86_64, Arch::Aarch64)] arch: Arch) {
    let machine = machine_on_tap(arch);
    let mut guest = serve(&machine);
    let clients: Vec<_> = (0..512)
        .map(|_| {
            thread::Builder::new().stack_size(64 << 10).spawn(|| {
                let address = SocketAddr::new(GUEST_V4.parse().unwrap(), 80);
                let mut stream = TcpStream::connect_timeout(&address, Duration::from_secs(20))?;
                stream.set_read_timeout(Some(Duration::from_secs(20)))?;
                stream
                    .write_all(b"GET /one.bin HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")?;
                let mut answer = Vec::new();
                stream.read_to_end(&mut answer)?;
                Ok::<_, std::io::Error>(answer.starts_with(b"HTTP/1.1 200"))
            })
        })
        .collect();
    let answers: Vec<_> = clients.into_iter().map(|c| c.unwrap().join().unwrap()).collect();
    let bad: Vec<_> = answers.iter().filter(|a| !matches!(a, Ok(true))).collect();
    assert!(bad.is_empty(), "{bad:?}, {}", console::ask(&mut guest, "nstat"));
    still_serves(&machine, &mut guest);
}

#[rstest]
fn idle_and_slow_clients_leave_room_for_others(#[values(Arch::X86_64, Arch::Aarch64)] arch: Arch) {
    let machine = machine_on_tap(arch);
    let mut guest = serve(&machine);
    let idle: Vec<_> = (0..300).map(|_| TcpStream::connect((GUEST_V4, 80)).unwrap()).collect();
    for (index, mut stream) in idle.iter().enumerate().step_by(2) {
        stream.write_all(&b"GET /one.bin HTTP/1.1\r\nHost: slow\r\n"[..index % 35]).unwrap();
    }
    still_serves(&machine, &mut guest);
}

/// A connection each, closed by the server: 20,000 TIME-WAITs must not fill 32 MiB.
#[rstest]
fn closed_connections_use_bounded_memory(#[values(Arch::X86_64, Arch::Aarch64)] arch: Arch) {
    let (mut guest, url) = small_server(arch);
    let ab = succeed(
        "ab",
        &["-q", "-n", "10000", "-c", "50", "-s", "20", &url],
        Duration::from_secs(150),
    );
    assert!(ab.contains("Failed requests:        0"), "{ab}");
    assert!(guest.is_running());
}

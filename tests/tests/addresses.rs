//! Addresses: from DHCP, from boot arguments, from nobody.

use std::io::Write;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::Duration;

use rstest::rstest;
use trireme_tests::files::Scratch;
use trireme_tests::guest::Guest;
use trireme_tests::images::image;
use trireme_tests::network::{TAP, isolate_with_tap, static_address};
use trireme_tests::program::{curl, succeed};
use trireme_tools::arch::Arch;
use trireme_tools::qemu::{Machine, Network};

const LIMIT: Duration = Duration::from_secs(60);

/// dnsmasq for DHCP, router advertisements and names on the test's TAP; ended when dropped.
struct Dnsmasq(Child);

impl Dnsmasq {
    fn start(scratch: &Scratch, arguments: &[&str]) -> Dnsmasq {
        let lease = scratch.file("leases");
        let mut command = Command::new("dnsmasq");
        command.args([
            "--keep-in-foreground",
            "--conf-file=/dev/null",
            "--no-resolv",
            "--no-hosts",
            "--user=root",
        ]);
        command.args(["--bind-interfaces", "--pid-file="]);
        command
            .arg(format!("--interface={TAP}"))
            .arg(format!("--dhcp-leasefile={}", lease.display()));
        let child = command.args(arguments).stderr(Stdio::null()).spawn();
        Dnsmasq(child.expect("dnsmasq is one of the packages of set-up"))
    }
}

impl Drop for Dnsmasq {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn machine(program: &str, arch: Arch, append: &str) -> Machine {
    let mut machine = Machine::new(arch, &image(program, arch).boot);
    machine.network = Network::Tap(TAP.to_owned());
    machine.append = append.to_owned();
    machine
}

fn fetch(host: &str) {
    let url = format!("http://{host}/1k");
    let arguments = [
        "--retry",
        "40",
        "--retry-delay",
        "1",
        "--retry-all-errors",
        "--connect-timeout",
        "2",
        "-o",
        "/dev/null",
        "-w",
        "%{http_code}",
        &url,
    ];
    assert_eq!(curl(&arguments, LIMIT), "200");
}

#[rstest]
fn lease_of_dhcp_is_used(#[values(Arch::X86_64, Arch::Aarch64)] arch: Arch) {
    isolate_with_tap();
    let scratch = Scratch::new();
    let _server = Dnsmasq::start(&scratch, &["--dhcp-range=10.77.0.50,10.77.0.50,2m"]);
    let _guest = Guest::boot(&machine("httpd", arch, "ip=dhcp"));
    fetch("10.77.0.50");
}

#[rstest]
fn dhcp_silence_leaves_the_link_local_address(#[values(Arch::X86_64, Arch::Aarch64)] arch: Arch) {
    isolate_with_tap();
    let mut guest = Guest::boot(&machine("httpd", arch, "ip=dhcp"));
    fetch(&format!("[fe80::5054:ff:fe12:3456%25{TAP}]"));
    assert!(guest.is_running());
}

#[rstest]
fn advertised_prefix_makes_an_address(#[values(Arch::X86_64, Arch::Aarch64)] arch: Arch) {
    isolate_with_tap();
    let scratch = Scratch::new();
    let _server = Dnsmasq::start(&scratch, &["--enable-ra", "--dhcp-range=fd77::,ra-only,64,10m"]);
    let _guest = Guest::boot(&machine("httpd", arch, &static_address()));
    fetch("[fd77::5054:ff:fe12:3456]");
}

#[rstest]
fn names_are_looked_up(#[values(Arch::X86_64, Arch::Aarch64)] arch: Arch) {
    isolate_with_tap();
    let scratch = Scratch::new();
    let records = [
        "--host-record=ship.example,192.0.2.7,2001:db8::7",
        "--address=/nowhere.example/",
        "--dhcp-range=10.77.0.50,10.77.0.50,2m",
    ];
    let _server = Dnsmasq::start(&scratch, &records);
    let append = "ip=dhcp -- ship.example nowhere.example";
    let mut guest = Guest::boot(&machine("resolve", arch, append));
    guest.wait_for("end of names", LIMIT);
    let console = guest.console();
    assert!(console.contains("ship.example: 192.0.2.7 2001:db8::7"), "{console}");
    assert!(console.contains("nowhere.example: error"), "{console}");
    assert_eq!(guest.exit_status(Duration::from_secs(10)), 0);
}

/// A name server that answers with noise, with a wrong id and from nothing: lookups fail in bounded time.
#[rstest]
fn lying_name_server_is_an_error(#[values(Arch::X86_64, Arch::Aarch64)] arch: Arch) {
    isolate_with_tap();
    let server = std::net::UdpSocket::bind("10.77.0.1:53").unwrap();
    thread::spawn(move || {
        let mut buffer = [0; 512];
        let mut turn = 0_u8;
        while let Ok((length, from)) = server.recv_from(&mut buffer) {
            let mut answer = buffer[..length].to_vec();
            match turn % 4 {
                0 => answer[0] ^= 0xff,
                1 => answer.truncate(length / 2),
                // An answer whose name points at itself.
                2 => {
                    answer[2] |= 0x80;
                    answer[7] = 1;
                    answer
                        .write_all(&[
                            0xc0,
                            answer.len() as u8,
                            0,
                            1,
                            0,
                            1,
                            0,
                            0,
                            0,
                            9,
                            0,
                            4,
                            1,
                            2,
                            3,
                            4,
                        ])
                        .unwrap();
                }
                _ => answer = trireme_tests::files::noise(u64::from(turn), 300),
            }
            turn = turn.wrapping_add(1);
            let _ = server.send_to(&answer, from);
        }
    });
    let append = "ip=10.77.0.2::10.77.0.1:255.255.255.0::eth0:off:10.77.0.1 -- ship.example";
    let guest = Guest::boot(&machine("resolve", arch, append));
    guest.wait_for("end of names", LIMIT);
    assert!(guest.console().contains("ship.example: error"), "{}", guest.console());
}

#[rstest]
fn guest_answers_ping_of_both_families(#[values(Arch::X86_64, Arch::Aarch64)] arch: Arch) {
    isolate_with_tap();
    let _guest = Guest::boot(&machine("httpd", arch, &static_address()));
    fetch("10.77.0.2");
    for (address, size) in [
        ("10.77.0.2", "56"),
        ("10.77.0.2", "1472"),
        ("10.77.0.2", "4000"),
        ("fe80::5054:ff:fe12:3456%tap0", "1000"),
    ] {
        let text =
            succeed("ping", &["-c", "5", "-i", "0.2", "-W", "2", "-s", size, address], LIMIT);
        assert!(text.contains(" 0% packet loss"), "{text}");
    }
}

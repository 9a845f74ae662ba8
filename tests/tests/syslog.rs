//! Console messages at a syslog server: Debian's rsyslog takes them apart.

use std::fs;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::Duration;

use rstest::rstest;
use trireme_tests::files::Scratch;
use trireme_tests::guest::Guest;
use trireme_tests::images::image;
use trireme_tests::network::{TAP, isolate_with_tap, static_address};
use trireme_tools::arch::Arch;
use trireme_tools::net::HOST_V4;
use trireme_tools::qemu::{Machine, Network};
use trireme_tools::workspace::find_program;

/// `rsyslogd` on UDP port 514, writing a line a message: its fields as it read them.
struct Collector {
    process: Child,
    scratch: Scratch,
}

impl Collector {
    fn start() -> Collector {
        let scratch = Scratch::new();
        let (messages, config) = (scratch.file("messages"), scratch.file("rsyslog.conf"));
        let text = format!(
            "module(load=\"imudp\")\n\
             input(type=\"imudp\" port=\"514\")\n\
             template(name=\"fields\" type=\"string\" string=\"%protocol-version%|%syslogfacility-text%|\
             %syslogseverity-text%|%hostname%|%app-name%|%timereported:::date-year%|%msg%\\n\")\n\
             action(type=\"omfile\" file=\"{}\" template=\"fields\")\n",
            messages.display()
        );
        fs::write(&config, text).unwrap();
        let program = find_program("rsyslogd").expect("rsyslogd is there: ./run.sh setup");
        let mut command = Command::new(program);
        command.args(["-n", "-iNONE", "-f"]).arg(&config);
        let process = command.stdout(Stdio::null()).spawn().unwrap();
        let collector = Collector { process, scratch };
        // Until it listens, ICMP refuses what is sent: it has to be first.
        for _ in 0..200 {
            let sockets = fs::read_to_string("/proc/thread-self/net/udp").unwrap();
            if sockets.contains(":0202 ") {
                return collector;
            }
            thread::sleep(Duration::from_millis(50));
        }
        panic!("rsyslogd does not listen on port 514");
    }

    fn wait_for(&self, wanted: &str) -> String {
        for _ in 0..300 {
            let all = fs::read_to_string(self.scratch.file("messages")).unwrap_or_default();
            if all.contains(wanted) {
                return all;
            }
            thread::sleep(Duration::from_millis(50));
        }
        let all = fs::read_to_string(self.scratch.file("messages")).unwrap_or_default();
        panic!("no {wanted:?} at the collector:\n{all}");
    }
}

impl Drop for Collector {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn boot(arch: Arch, syslog: &str) -> Guest {
    let mut machine = Machine::new(arch, &image("echo", arch).boot);
    machine.network = Network::Tap(TAP.to_owned());
    machine.append = format!("{} hostname=fleet syslog={syslog} whim=1", static_address());
    Guest::boot(&machine)
}

#[rstest]
fn messages_reach_the_server_from_the_first_on(#[values(Arch::X86_64, Arch::Aarch64)] arch: Arch) {
    isolate_with_tap();
    let collector = Collector::start();
    let _guest = boot(arch, HOST_V4);
    let all = collector.wait_for("echo on udp");
    let year = String::from_utf8(Command::new("date").arg("+%Y").output().unwrap().stdout).unwrap();
    let year = year.trim();
    // A warning from before there was a network, a message of a driver, the program's own.
    for (facility, severity, app, text) in [
        ("kern", "warning", "kernel", "boot argument not understood, ignored: whim=1"),
        ("kern", "info", "kernel", "eth0: 10.77.0.2/24"),
        ("user", "info", "appliance", "echo: listening, echo on udp [::]:7"),
    ] {
        let line = format!("1|{facility}|{severity}|fleet|{app}|{year}|{text}");
        assert!(all.contains(&line), "no {line:?} in:\n{all}");
    }
}

#[rstest]
#[case("no-such-name.example")]
#[case("10.99.0.1")]
fn a_server_out_of_reach_is_told_once_and_stops_nothing(#[case] server: &str) {
    isolate_with_tap();
    let mut machine = Machine::new(Arch::X86_64, &image("echo", Arch::X86_64).boot);
    machine.network = Network::Tap(TAP.to_owned());
    // No router, no name server.
    machine.append = format!("ip=10.77.0.2:::255.255.255.0::eth0:off syslog={server}");
    let mut guest = Guest::boot(&machine);
    guest.wait_for(&format!("syslog: {server}: "), Duration::from_secs(30));
    thread::sleep(Duration::from_secs(5));
    let said = guest.console().matches(&format!("syslog: {server}: ")).count();
    assert_eq!(said, 1, "{}", guest.console());
    guest.type_line("poweroff");
    assert_eq!(guest.exit_status(Duration::from_secs(10)), 0);
}

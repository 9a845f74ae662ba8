//! The stack gets its addresses, names and time from dnsmasq, over a TAP in a network namespace of the
//! test's own. Needs root (without it the test says so and passes), `ip`, `dnsmasq` and `/dev/net/tun`.

mod card;

use card::Card;
use nix::sched::{CloneFlags, unshare};
use std::collections::HashMap;
use std::net::{IpAddr, UdpSocket};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration as StdDuration, Instant as StdInstant, SystemTime, UNIX_EPOCH};
use trireme_netstack::{Addressing, Config, Duration, Error, Instant, Stack};
use trireme_wire::{FrameSink, FrameSource};

fn ip(arguments: &str) {
    let status = Command::new("ip").args(arguments.split(' ')).status().expect("ip(8)");
    assert!(status.success(), "ip {arguments}");
}

/// A stack on the far side of a TAP.
struct Lab {
    stack: Stack,
    began: StdInstant,
}

impl Lab {
    fn new(wire: trireme_wire::Wire, mut card: Card) -> Lab {
        let trireme_wire::Wire { mut sink, mut source } = wire;
        let peer = card.attach();
        thread::spawn(move || {
            for frame in peer.incoming {
                // A TAP that is full loses frames like any wire.
                let _ = sink.send(&frame);
            }
        });
        thread::spawn(move || {
            let mut frame = Vec::new();
            while let Ok(true) = source.receive(&mut frame) {
                if peer.outgoing.send(frame.clone()).is_err() {
                    return;
                }
            }
        });
        let config = Config { seed: [9; 32], buffer_budget: 64 << 20, hostname: "oar".into() };
        let mut stack = Stack::new(config, Instant::ZERO);
        stack.add_interface(Box::new(card), Addressing::default(), Instant::ZERO);
        Lab { stack, began: StdInstant::now() }
    }

    fn now(&self) -> Instant {
        Instant::from_micros(self.began.elapsed().as_micros() as i64)
    }

    /// Polls until the condition gives something.
    fn until<R>(
        &mut self,
        what: &str,
        mut done: impl FnMut(&mut Stack, Instant) -> Option<R>,
    ) -> R {
        let deadline = StdInstant::now() + StdDuration::from_secs(30);
        loop {
            let poll = self.stack.poll(self.now());
            let now = self.now();
            if let Some(result) = done(&mut self.stack, now) {
                return result;
            }
            assert!(StdInstant::now() < deadline, "{what}: {:?}", self.stack.statistics());
            if !poll.again {
                thread::sleep(StdDuration::from_micros(200));
            }
        }
    }

    fn resolve(&mut self, name: &str) -> Result<Vec<IpAddr>, Error> {
        let now = self.now();
        let query = self.stack.resolve(name, now).unwrap();
        self.until(name, |stack, _| stack.resolved(query))
    }

    fn counters(&self) -> HashMap<&'static str, u64> {
        let mut all = HashMap::new();
        self.stack.offload_statistics(0, &mut |name, value| _ = all.insert(name, value));
        self.stack.configuration_statistics(0, &mut |name, value| _ = all.insert(name, value));
        self.stack.service_statistics(&mut |name, value| _ = all.insert(name, value));
        all
    }
}

struct Ended(Child);

impl Drop for Ended {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn dnsmasq() -> Ended {
    let arguments = [
        "--keep-in-foreground",
        "--conf-file=/dev/null",
        "--no-resolv",
        "--no-hosts",
        "--leasefile-ro",
        "--user=root",
        "--pid-file=",
        "--interface=tap0",
        "--bind-interfaces",
        "--dhcp-range=10.77.0.50,10.77.0.99,255.255.255.0,2m",
        "--dhcp-authoritative",
        "--dhcp-option=option:router,10.77.0.1",
        "--dhcp-option=option:mtu,1400",
        "--dhcp-option=option:ntp-server,10.77.0.1",
        "--domain=test.example",
        "--enable-ra",
        "--ra-param=tap0,mtu:1380,10,1800",
        "--dhcp-range=fd77::,ra-only,64,1h",
        "--dhcp-option=option6:dns-server,[fd77::1]",
        "--host-record=www.test.example,10.77.0.1,fd77::1",
        "--cname=alias.test.example,www.test.example",
        "--local=/example/",
    ];
    let child = Command::new("dnsmasq").args(arguments).stderr(Stdio::null()).spawn();
    Ended(child.expect("dnsmasq"))
}

/// Answers SNTP with this machine's time, by the layout of RFC 4330, 4.
fn time_server() {
    let socket = UdpSocket::bind("10.77.0.1:123").unwrap();
    thread::spawn(move || {
        let mut question = [0; 100];
        while let Ok((48, from)) = socket.recv_from(&mut question) {
            let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
            let seconds = (since.as_secs() + 2_208_988_800) << 32;
            let stamp = seconds | ((u64::from(since.subsec_nanos()) << 32) / 1_000_000_000);
            let mut answer = [0; 48];
            answer[..4].copy_from_slice(&[0x24, 3, 6, 0xec]);
            answer[24..32].copy_from_slice(&question[40..48]);
            answer[32..40].copy_from_slice(&stamp.to_be_bytes());
            answer[40..48].copy_from_slice(&stamp.to_be_bytes());
            socket.send_to(&answer, from).unwrap();
        }
    });
}

#[test]
fn dnsmasq_gives_addresses_names_and_time() {
    if let Err(error) = unshare(CloneFlags::CLONE_NEWNET) {
        eprintln!("not run: no network namespace ({error}); needs root");
        return;
    }
    ip("link set lo up");
    let wire = trireme_wire::tap("tap0").unwrap();
    ip("addr add 10.77.0.1/24 dev tap0");
    ip("addr add fd77::1/64 dev tap0 nodad");
    ip("link set tap0 up");
    let _dnsmasq = dnsmasq();
    time_server();
    let mut lab = Lab::new(wire, Card::able(64));

    lab.until("lease", |stack, _| stack.lease(0).cloned());
    let lease = lab.stack.lease(0).unwrap();
    assert!((50..=99).contains(&lease.address.octets()[3]), "{lease:?}");
    assert_eq!((lease.prefix, lease.mtu), (24, Some(1400)));
    assert_eq!(lease.domain.as_deref(), Some("test.example"));
    assert_eq!(lease.duration, Some(Duration::from_secs(120)));

    lab.until("router advertisement", |stack, _| {
        let global = |text: String| text.starts_with("fd77::") && text.ends_with("/64");
        let info = &stack.interfaces()[1];
        info.addresses.iter().any(|cidr| global(cidr.to_string())).then_some(())
    });
    let info = &lab.stack.interfaces()[1];
    assert_eq!((info.mtu, info.routers.len()), (1380, 2), "{info:?}");
    let servers: Vec<IpAddr> = ["10.77.0.1", "fd77::1"].map(|s| s.parse().unwrap()).to_vec();
    assert_eq!(lab.stack.name_servers(), servers);

    let both: Vec<IpAddr> = ["fd77::1", "10.77.0.1"].map(|s| s.parse().unwrap()).to_vec();
    let mut answer = lab.resolve("www.test.example").unwrap();
    answer.sort();
    let mut sorted = both.clone();
    sorted.sort();
    assert_eq!(answer, sorted);
    assert_eq!(lab.resolve("alias.test.example").map(|a| a.len()), Ok(2));
    assert_eq!(lab.resolve("missing.test.example"), Err(Error::NameNotFound));
    assert_eq!(lab.resolve("www.test.example").map(|a| a.len()), Ok(2));
    assert_eq!(lab.counters()["dns_cached"], 1);

    let unix_ns = lab.until("time", |stack, now| stack.wall_clock(now));
    let here = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_nanos() as u64;
    assert!(unix_ns.abs_diff(here) < 500_000_000, "{unix_ns} against {here}");

    let counters = lab.counters();
    assert_eq!(counters["dhcp_invalid"], 0, "{counters:?}");
    // While the host's link-local address is tentative dnsmasq advertises from another, which no host
    // may take (RFC 4861, 6.1.2).
    assert!(counters["nd_invalid_advertisements"] <= 1, "{counters:?}");
    // A query may be repeated on a busy machine; what comes back must be understood.
    assert_eq!((counters["dns_malformed"], counters["dns_failures"]), (0, 0), "{counters:?}");
    assert!(counters["dns_timeouts"] <= 2, "{counters:?}");
}

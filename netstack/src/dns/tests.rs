use super::*;

/// A message of scapy's making.
fn scapy(name: &str) -> Vec<u8> {
    let line = include_str!("../../tests/vectors/dns.txt")
        .lines()
        .find_map(|line| line.strip_prefix(name)?.strip_prefix(' '))
        .unwrap_or_else(|| panic!("{name}"));
    let byte = |i| u8::from_str_radix(&line[i..i + 2], 16).unwrap();
    (0..line.len()).step_by(2).map(byte).collect()
}

/// Number 0x1234, port 0x8000 and upwards, spelling plain.
fn random(n: u64) -> u64 {
    0x1234 | (n << 16)
}

fn at(millis: i64) -> Instant {
    Instant::from_millis(millis)
}

fn server(last: u8) -> IpAddr {
    Ipv4Addr::new(192, 0, 2, last).into()
}

fn resolver(servers: u8) -> Resolver {
    let mut resolver = Resolver::new();
    resolver.set_servers((1..=servers).map(server), at(0));
    resolver
}

/// With a lookup of `www.example.net` whose queries are out, from ports 0x8000 and 0x8001.
fn asking(servers: u8) -> (Resolver, LookupId) {
    let mut resolver = resolver(servers);
    let id = resolver.resolve("www.example.net", at(0)).unwrap();
    assert!(resolver.poll(at(0), random(0)).is_some());
    assert!(resolver.poll(at(0), random(1)).is_some());
    assert_eq!(resolver.poll(at(0), random(2)), None);
    (resolver, id)
}

fn ips(texts: &[&str]) -> Vec<IpAddr> {
    texts.iter().map(|text| text.parse().unwrap()).collect()
}

#[test]
fn queries_as_scapy_writes_them() {
    let mut resolver = resolver(1);
    resolver.resolve("WWW.example.net.", at(0)).unwrap();
    let a = resolver.poll(at(0), random(5)).unwrap();
    assert_eq!((a.server, a.source_port), (server(1), 0x8005));
    assert_eq!(a.payload, scapy("query-a"));
    let aaaa = resolver.poll(at(0), random(0xffff)).unwrap();
    assert_eq!((aaaa.source_port, aaaa.payload), (0xffff, scapy("query-aaaa")));
    assert!(resolver.owns(0x8005) && resolver.owns(0xffff) && !resolver.owns(0x8006));
}

#[test]
fn both_kinds_in_the_order_wanted() {
    for (ipv6_first, expected) in
        [(true, ["2001:db8::80", "192.0.2.80"]), (false, ["192.0.2.80", "2001:db8::80"])]
    {
        let (mut resolver, id) = asking(1);
        resolver.receive(server(1), 0x8001, &scapy("one6"), at(10));
        assert_eq!((resolver.next_done(), resolver.take(id, true)), (None, None));
        resolver.receive(server(1), 0x8000, &scapy("one"), at(20));
        assert_eq!((resolver.next_done(), resolver.next_done()), (Some(id), None));
        assert_eq!(resolver.take(id, ipv6_first), Some(Ok(ips(&expected))));
        assert_eq!(resolver.take(id, true), None);
        assert_eq!(resolver.due(), None);
    }
}

/// What becomes of the A half for an answer, the other being empty.
fn outcome(name: &str) -> Option<Result<Vec<IpAddr>, Failure>> {
    let (mut resolver, id) = asking(1);
    resolver.receive(server(1), 0x8001, &scapy("nothing6"), at(0));
    resolver.receive(server(1), 0x8000, &scapy(name), at(0));
    resolver.take(id, true)
}

#[test]
fn answers_of_every_kind() {
    let found = |texts: &[&str]| Some(Ok(ips(texts)));
    assert_eq!(outcome("three"), found(&["192.0.2.80", "192.0.2.81"]), "0.0.0.0 is a lie");
    assert_eq!(outcome("chain"), found(&["192.0.2.82"]));
    assert_eq!(outcome("reversed"), found(&["192.0.2.82"]));
    assert_eq!(outcome("truncated-some"), found(&["192.0.2.80"]));
    for name in ["circle", "unrelated", "nothing", "nxdomain"] {
        assert_eq!(outcome(name), Some(Err(Failure::NotFound)), "{name}");
    }
    for name in ["servfail", "refused", "truncated", "formerr", "dangling"] {
        assert_eq!(outcome(name), None, "{name} goes on");
    }
}

#[test]
fn alias_without_an_address_is_asked_about() {
    let (mut resolver, id) = asking(1);
    resolver.receive(server(1), 0x8001, &scapy("nothing6"), at(5));
    resolver.receive(server(1), 0x8000, &scapy("dangling"), at(5));
    let query = resolver.poll(at(5), random(7)).unwrap();
    assert_eq!(query.payload[12..28], *b"\x02lb\x07example\x03org\0");
    // The same message over and over is not an answer to the new question.
    resolver.receive(server(1), 0x8007, &scapy("dangling"), at(6));
    assert_eq!((resolver.counters().mismatched, resolver.take(id, true)), (1, None));
}

#[test]
fn next_server_is_asked_at_once_when_one_fails() {
    for name in ["servfail", "refused", "truncated"] {
        let (mut resolver, id) = asking(2);
        resolver.receive(server(1), 0x8001, &scapy("nothing6"), at(5));
        resolver.receive(server(1), 0x8000, &scapy(name), at(5));
        assert_eq!(resolver.due(), Some(at(5)));
        let query = resolver.poll(at(5), random(9)).unwrap();
        assert_eq!(query.server, server(2));
        resolver.receive(server(2), 0x8009, &scapy("one"), at(6));
        assert_eq!(resolver.take(id, true), Some(Ok(ips(&["192.0.2.80"]))));
    }
}

#[test]
fn server_without_extensions_is_asked_plainly() {
    let (mut resolver, _) = asking(2);
    resolver.receive(server(1), 0x8000, &scapy("formerr"), at(5));
    let query = resolver.poll(at(5), random(9)).unwrap();
    assert_eq!((query.server, query.payload), (server(1), scapy("query-plain")));
}

#[test]
fn silence_ends_after_bounded_attempts() {
    for servers in 1..=6u8 {
        let mut resolver = resolver(servers);
        let id = resolver.resolve("www.example.net", at(0)).unwrap();
        let (mut sent, mut asked) = (0, Vec::new());
        let ended = loop {
            let now = resolver.due().unwrap();
            while let Some(query) = resolver.poll(now, random(sent)) {
                sent += 1;
                asked.push(query.server);
            }
            if resolver.next_done() == Some(id) {
                break now;
            }
            assert!(resolver.due().unwrap() > now);
        };
        let attempts = u64::from((2 * servers).clamp(4, 8));
        assert_eq!((sent, resolver.counters().timeouts), (2 * attempts, 2 * attempts));
        assert!(ended <= at(15_000), "{ended}");
        assert!((1..=servers).all(|n| asked.contains(&server(n))));
        assert_eq!(resolver.take(id, true), Some(Err(Failure::NoAnswer)));
    }
}

#[test]
fn without_servers_a_lookup_waits_for_some() {
    let mut resolver = Resolver::new();
    let id = resolver.resolve("www.example.net", at(0)).unwrap();
    assert_eq!((resolver.poll(at(0), 0), resolver.due()), (None, Some(at(15_000))));
    resolver.set_servers([server(3)], at(100));
    assert_eq!(resolver.due(), Some(at(100)));
    assert_eq!(resolver.poll(at(100), 0).unwrap().server, server(3));
    resolver.set_servers([], at(200));
    assert_eq!(resolver.poll(at(15_000), 0), None);
    assert_eq!(resolver.take(id, true), Some(Err(Failure::NoAnswer)));
}

#[test]
fn one_kind_does_not_wait_long_for_the_other() {
    let (mut resolver, id) = asking(1);
    resolver.receive(server(1), 0x8000, &scapy("one"), at(100));
    while let Some(now) = resolver.due() {
        let _ = resolver.poll(now, random(3));
        if resolver.next_done().is_some() {
            assert_eq!(now, at(1100));
            break;
        }
    }
    assert_eq!(resolver.take(id, true), Some(Ok(ips(&["192.0.2.80"]))));
}

#[test]
fn forgeries_are_counted_and_change_nothing() {
    let (mut resolver, id) = asking(2);
    let good = scapy("one");
    let changed = |at: usize, bits: u8| {
        let mut message = good.clone();
        message[at] ^= bits;
        message
    };
    resolver.receive(server(2), 0x8000, &good, at(1));
    resolver.receive(server(1), 0x8001, &good, at(1));
    resolver.receive(server(1), 0x9000, &good, at(1));
    resolver.receive(server(1), 0x8000, &changed(0, 1), at(1));
    resolver.receive(server(1), 0x8000, &changed(2, 0x80), at(1));
    resolver.receive(server(1), 0x8000, &changed(2, 0x08), at(1));
    resolver.receive(server(1), 0x8000, &changed(5, 3), at(1));
    resolver.receive(server(1), 0x8000, &changed(13, 0x20), at(1));
    resolver.receive(server(1), 0x8000, &changed(14, 1), at(1));
    assert_eq!(resolver.counters().mismatched, 9);
    for message in [&good[..11], &good[..20], &good[..good.len() - 1], &[]] {
        resolver.receive(server(1), 0x8000, message, at(1));
    }
    assert_eq!((resolver.counters().malformed, resolver.take(id, true)), (4, None));
    resolver.receive(server(1), 0x8000, &good, at(1));
    assert_eq!(resolver.counters().answers, 1);
}

#[test]
fn spelling_must_come_back_but_only_in_the_first_round() {
    let mut resolver = resolver(1);
    resolver.resolve("www.example.net", at(0)).unwrap();
    let query = resolver.poll(at(0), random(0) | 0x5555_5555 << 32).unwrap();
    assert_ne!(query.payload, scapy("query-a"));
    assert!(query.payload.eq_ignore_ascii_case(&scapy("query-a")));
    resolver.receive(server(1), 0x8000, &scapy("one"), at(0));
    assert_eq!(resolver.counters().mismatched, 1);
    let mut answer = scapy("one");
    answer[12..29].copy_from_slice(&query.payload[12..29]);
    resolver.receive(server(1), 0x8000, &answer, at(0));
    assert_eq!(resolver.counters().answers, 1);

    let (mut resolver, _) = asking(1);
    let second = resolver.poll(at(1000), random(2) | u64::MAX << 32).unwrap();
    assert_eq!(second.payload, scapy("query-a"));
}

#[test]
fn cache_holds_for_the_time_to_live() {
    let (mut resolver, id) = asking(1);
    resolver.receive(server(1), 0x8000, &scapy("chain"), at(0));
    resolver.receive(server(1), 0x8001, &scapy("nothing6"), at(0));
    let _ = resolver.take(id, true);
    // 60 s: the aliases', not the address's.
    let id = resolver.resolve("WWW.EXAMPLE.NET", at(59_000)).unwrap();
    assert_eq!(resolver.next_done(), Some(id));
    assert_eq!(resolver.take(id, true), Some(Ok(ips(&["192.0.2.82"]))));
    assert_eq!(resolver.counters().cached, 1);
    let id = resolver.resolve("www.example.net", at(60_000)).unwrap();
    assert_eq!(resolver.take(id, true), None);

    let (mut resolver, id) = asking(1);
    resolver.receive(server(1), 0x8000, &scapy("nxdomain"), at(0));
    resolver.receive(server(1), 0x8001, &scapy("nxdomain6"), at(0));
    let _ = resolver.take(id, true);
    let id = resolver.resolve("www.example.net", at(9_000)).unwrap();
    assert_eq!(resolver.take(id, true), Some(Err(Failure::NotFound)));
}

#[test]
fn names_that_need_no_server() {
    let mut resolver = Resolver::new();
    for (name, expected) in [
        ("localhost", ["::1", "127.0.0.1"].as_slice()),
        ("db.LocalHost.", &["::1", "127.0.0.1"]),
        ("198.51.100.7", &["198.51.100.7"]),
        ("2001:db8::7", &["2001:db8::7"]),
    ] {
        let id = resolver.resolve(name, at(0)).unwrap();
        assert_eq!(resolver.take(id, true), Some(Ok(ips(expected))), "{name}");
    }
    let long = "a".repeat(64);
    let longer = "a.".repeat(128);
    for name in ["", ".", "a..b", "-\u{e9}", "a b", "a\0b", &long, &longer, "1.2.3.4:80"] {
        assert_eq!(resolver.resolve(name, at(0)), Err(Failure::Invalid), "{name:?}");
    }
    assert!(resolver.resolve(&"a.".repeat(127), at(0)).is_ok());
}

#[test]
fn lookups_and_cache_are_bounded() {
    let mut resolver = resolver(1);
    let ids: Vec<_> =
        (0..64).map(|n| resolver.resolve(&format!("h{n}.example"), at(0)).unwrap()).collect();
    assert_eq!(resolver.resolve("one.more", at(0)), Err(Failure::Busy));
    resolver.cancel(ids[3]);
    assert!(resolver.resolve("one.more", at(0)).is_ok());
    for n in 0..300 {
        let name = Name::from_text(&format!("c{n}.example")).unwrap();
        let halves = [Half::Done(vec![server(9)], 100), Half::Done(vec![], 100)];
        resolver.lookups[0] = Lookup { id: ids[0], name, halves, give_up_at: at(0), told: false };
        resolver.remember(0, at(n));
    }
    assert_eq!(resolver.cache.len(), MAX_CACHED);
}

proptest::proptest! {
    #[test]
    fn mutated_answers_never_panic(
        name in proptest::sample::select(vec!["one", "three", "chain", "reversed", "dangling", "circle"]),
        changes in proptest::collection::vec((12..140usize, proptest::num::u8::ANY), 0..6),
        cut in 0..200usize,
    ) {
        let mut message = scapy(name);
        for (at, value) in changes {
            if let Some(byte) = message.get_mut(at) {
                *byte = value;
            }
        }
        message.truncate(cut);
        let (mut resolver, id) = asking(1);
        resolver.receive(server(1), 0x8000, &message, at(0));
        let _ = resolver.poll(at(0), random(3));
        let _ = resolver.take(id, true);
    }
}

//! The stack gets its addresses, name servers and names over a wire whose far end the test plays, with
//! messages of scapy's making.

mod card;

use card::{Card, Peer};
use etherparse::{NetSlice, PacketBuilder, SlicedPacket, TransportSlice};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use trireme_netstack::ipconfig::Plan;
use trireme_netstack::{Cidr, Config, Duration, Error, Event, Family, Instant, Kind, Stack};

const OURS: [u8; 6] = [2, 0, 0, 0, 0, 1];
const THEIRS: [u8; 6] = [2, 0, 0, 0, 0, 0x99];
const LINK_LOCAL: &str = "fe80::ff:fe00:1";

fn scapy(vectors: &str, name: &str) -> Vec<u8> {
    let line = vectors.lines().find_map(|l| l.strip_prefix(name)?.strip_prefix(' ')).unwrap();
    let byte = |i| u8::from_str_radix(&line[i..i + 2], 16).unwrap();
    (0..line.len()).step_by(2).map(byte).collect()
}

fn dhcp(name: &str) -> Vec<u8> {
    scapy(include_str!("vectors/dhcp.txt"), name)
}

struct Host {
    stack: Stack,
    peer: Peer,
    now: Instant,
}

impl Host {
    fn new(ip: &[&str]) -> Host {
        let config = Config { seed: [7; 32], buffer_budget: 1 << 20, hostname: "oar".into() };
        let now = Instant::from_secs(100);
        let mut stack = Stack::new(config, now);
        let mut card = Card::able(32);
        let peer = card.attach();
        let mut plan = Plan::new();
        ip.iter().for_each(|value| plan.add(value).unwrap());
        stack.add_interface(Box::new(card), plan.addressing("eth0"), now);
        Host { stack, peer, now }
    }

    /// Lets time pass, turn by turn, as long as there is something to do.
    fn pass(&mut self, time: Duration) {
        let end = self.now + time;
        for _ in 0..1000 {
            let poll = self.stack.poll(self.now);
            if poll.again {
                continue;
            }
            match poll.wake_at {
                Some(at) if at <= end => self.now = self.now.max(at),
                _ => {
                    self.now = end;
                    return;
                }
            }
        }
        panic!("does not come to rest");
    }

    fn sent(&mut self) -> Vec<Vec<u8>> {
        self.pass(Duration::from_millis(1));
        self.peer.incoming.try_iter().collect()
    }

    fn hears(&mut self, frame: Vec<u8>) {
        self.peer.outgoing.send(frame).unwrap();
        self.pass(Duration::from_millis(1));
    }

    fn addresses(&self) -> Vec<String> {
        self.stack.interfaces()[1].addresses.iter().map(Cidr::to_string).collect()
    }

    /// Answers ARP and DHCP requests with scapy's messages until the lease is there.
    fn lease(&mut self) {
        for (wanted, reply) in [(1, "offer"), (3, "ack")] {
            let (_, payload) = self.udp_sent(67).expect("a DHCP message");
            assert_eq!(payload[240..243], [53, 1, wanted]);
            let mut message = dhcp(reply);
            message[4..8].copy_from_slice(&payload[4..8]);
            // To the address that is being offered, as servers do.
            self.hears(udp([192, 0, 2, 1], 67, [192, 0, 2, 50], 68, &message));
        }
    }

    /// The first datagram sent to this port: its IPv4 source port and payload.
    fn udp_sent(&mut self, port: u16) -> Option<(u16, Vec<u8>)> {
        self.sent().iter().find_map(|frame| {
            let packet = SlicedPacket::from_ethernet(frame).unwrap();
            match packet.transport? {
                TransportSlice::Udp(udp) if udp.destination_port() == port => {
                    assert_eq!(card::transport_sum(frame), udp.checksum());
                    Some((udp.source_port(), udp.payload().to_vec()))
                }
                _ => None,
            }
        })
    }
}

fn udp(from: [u8; 4], port: u16, to: [u8; 4], to_port: u16, payload: &[u8]) -> Vec<u8> {
    let builder = PacketBuilder::ethernet2(THEIRS, OURS).ipv4(from, to, 64).udp(port, to_port);
    let mut frame = Vec::new();
    builder.write(&mut frame, payload).unwrap();
    frame
}

/// An ICMPv6 message of scapy's; the sum is made anew for the addresses.
fn icmpv6(from: &str, to: &str, mac: [u8; 6], message: &[u8]) -> Vec<u8> {
    let [from, to] = [from, to].map(|text| text.parse::<Ipv6Addr>().unwrap().octets());
    let fixed = message[4..8].try_into().unwrap();
    let builder = PacketBuilder::ethernet2(THEIRS, mac)
        .ipv6(from, to, 255)
        .icmpv6_raw(message[0], message[1], fixed);
    let mut frame = Vec::new();
    builder.write(&mut frame, &message[8..]).unwrap();
    frame
}

fn arp_reply(address: [u8; 4]) -> Vec<u8> {
    let mut frame = [OURS, THEIRS].concat();
    frame.extend([8, 6, 0, 1, 8, 0, 6, 4, 0, 2]);
    frame.extend(THEIRS);
    frame.extend(address);
    frame.extend(OURS);
    frame.extend([192, 0, 2, 50]);
    frame
}

#[test]
fn dhcp_gives_address_router_mtu_and_servers() {
    let mut host = Host::new(&["dhcp"]);
    host.lease();
    assert_eq!(host.addresses()[0], "192.0.2.50/24");
    let info = &host.stack.interfaces()[1];
    assert_eq!((info.mtu, info.routers.clone()), (1400, vec!["192.0.2.254".parse().unwrap()]));
    let servers: [IpAddr; 2] = ["192.0.2.53".parse().unwrap(), "192.0.2.54".parse().unwrap()];
    assert_eq!(host.stack.name_servers(), servers);
    assert_eq!(host.stack.lease(0).unwrap().hostname.as_deref(), Some("galley"));
    // The link is told whose the address is (RFC 5227, 2.3).
    let told = host.sent();
    let announcement = told.iter().find(|frame| frame[12..14] == [8, 6]).unwrap();
    assert_eq!(announcement[..6], [0xff; 6]);
    assert_eq!(
        (&announcement[28..32], &announcement[38..42]),
        (&[192, 0, 2, 50][..], &[192, 0, 2, 50][..])
    );
}

#[test]
fn renewal_is_unicast_through_the_neighbour_table() {
    let mut host = Host::new(&["dhcp"]);
    host.lease();
    host.sent();
    host.pass(Duration::from_secs(1000));
    host.hears(arp_reply([192, 0, 2, 1]));
    let frame = host.sent().into_iter().find(|frame| frame[..6] == THEIRS && frame[23] == 17);
    let frame = frame.expect("a renewal");
    assert_eq!(frame[26..34], [192, 0, 2, 50, 192, 0, 2, 1]);
    assert_eq!(frame[42 + 12..42 + 16], [192, 0, 2, 50], "ciaddr");
}

#[test]
fn connections_end_with_the_lease() {
    let mut host = Host::new(&["dhcp"]);
    host.lease();
    let id = host.stack.socket(Family::V4, Kind::Stream).unwrap();
    let peer = "192.0.2.99:80".parse().unwrap();
    assert_eq!(host.stack.connect(id, peer, host.now), Err(Error::InProgress));
    host.hears(arp_reply([192, 0, 2, 99]));
    let syn = host.sent().into_iter().find(|frame| frame[23] == 6).expect("a SYN");
    let port = u16::from_be_bytes([syn[34], syn[35]]);
    let sequence = u32::from_be_bytes(syn[38..42].try_into().unwrap());
    let builder = PacketBuilder::ethernet2(THEIRS, OURS)
        .ipv4([192, 0, 2, 99], [192, 0, 2, 50], 64)
        .tcp(80, port, 1, 1000)
        .syn()
        .ack(sequence.wrapping_add(1));
    let mut frame = Vec::new();
    builder.write(&mut frame, &[]).unwrap();
    host.hears(frame);
    assert!(host.stack.peer_address(id).is_ok());
    host.pass(Duration::from_secs(3601));
    assert!(host.addresses().iter().all(|address| !address.starts_with("192")));
    assert_eq!(host.stack.take_error(id), Some(Error::ConnectionAborted));
    assert!(host.stack.name_servers().is_empty());
}

#[test]
fn static_address_works_at_once_and_asks_nobody() {
    let mut host = Host::new(&["192.0.2.50/24::192.0.2.1::box:eth0:off:192.0.2.53"]);
    assert_eq!(host.addresses(), ["192.0.2.50/24"]);
    assert_eq!(host.stack.name_servers(), ["192.0.2.53".parse::<IpAddr>().unwrap()]);
    assert_eq!(host.udp_sent(67), None);
}

#[test]
fn names_are_looked_up() {
    let mut host = Host::new(&["dhcp"]);
    host.lease();
    host.sent();
    let query = host.stack.resolve("www.example.net", host.now).unwrap();
    host.hears(arp_reply([192, 0, 2, 53]));
    let queries: Vec<_> = host.sent().into_iter().filter(|f| f[12..14] == [8, 0]).collect();
    assert_eq!(queries.len(), 2);
    for (frame, answer) in queries.iter().zip(["one", "one6"]) {
        let packet = SlicedPacket::from_ethernet(frame).unwrap();
        let (Some(NetSlice::Ipv4(ip)), Some(TransportSlice::Udp(udp))) =
            (packet.net, packet.transport)
        else {
            panic!()
        };
        assert_eq!(ip.header().destination(), [192, 0, 2, 53]);
        let mut message = scapy(include_str!("vectors/dns.txt"), answer);
        message[..2].copy_from_slice(&udp.payload()[..2]);
        message[12..29].copy_from_slice(&udp.payload()[12..29]);
        host.hears(answer_from_server(&message, udp.source_port()));
    }
    let mut events = std::iter::from_fn(|| host.stack.next_event());
    assert!(events.any(|event| event == Event::Query(query)));
    // No global IPv6 address here: IPv4 first.
    let expected: [IpAddr; 2] = ["192.0.2.80".parse().unwrap(), "2001:db8::80".parse().unwrap()];
    assert_eq!(host.stack.resolved(query), Some(Ok(expected.to_vec())));
    assert_eq!(host.stack.resolved(query), None);
}

fn answer_from_server(message: &[u8], port: u16) -> Vec<u8> {
    udp([192, 0, 2, 53], 53, [192, 0, 2, 50], port, message)
}

#[test]
fn lookup_without_an_answer_ends() {
    let mut host = Host::new(&["192.0.2.50/24::192.0.2.1:::eth0:off:192.0.2.53"]);
    let query = host.stack.resolve("www.example.net", host.now).unwrap();
    host.pass(Duration::from_secs(20));
    assert_eq!(host.stack.next_event(), Some(Event::Query(query)));
    assert_eq!(host.stack.resolved(query), Some(Err(Error::TryAgain)));
    let query = host.stack.resolve("localhost", host.now).unwrap();
    assert_eq!(host.stack.next_event(), Some(Event::Query(query)));
    let v4 = IpAddr::V4(Ipv4Addr::LOCALHOST);
    assert_eq!(host.stack.resolved(query).unwrap().unwrap()[0], v4);
}

#[test]
fn router_advertisement_gives_addresses_after_the_duplicate_check() {
    let mut host = Host::new(&["auto6"]);
    let all_nodes = [0x33, 0x33, 0, 0, 0, 1];
    let sent = host.sent();
    assert!(sent.iter().any(|f| f[..6] == [0x33, 0x33, 0xff, 0, 0, 1] && f[54] == 135));
    assert!(sent.iter().any(|f| f[..6] == [0x33, 0x33, 0, 0, 0, 2] && f[54] == 133));
    let advertisement = scapy(include_str!("vectors/ndp.txt"), "advertisement");
    host.hears(icmpv6("fe80::99", "ff02::1", all_nodes, &advertisement));
    assert!(host.addresses().is_empty());
    host.pass(Duration::from_secs(2));
    let global = "2001:db8:1:2:0:ff:fe00:1/64";
    assert_eq!(host.addresses()[..2], [format!("{LINK_LOCAL}/64"), global.into()]);
    let info = &host.stack.interfaces()[1];
    assert_eq!((info.mtu, info.routers.clone()), (1400, vec!["fe80::99".parse().unwrap()]));
    assert_eq!(host.stack.name_servers()[0], "2001:db8::53".parse::<IpAddr>().unwrap());
    // From off the link, whatever it says: nothing.
    let mut routed = icmpv6("fe80::77", "ff02::1", all_nodes, &advertisement);
    routed[21] = 254;
    host.hears(routed);
    assert_eq!(host.stack.interfaces()[1].routers.len(), 1);
}

#[test]
fn address_somebody_else_has_is_not_used() {
    // He answers our question, or asks the same at the same time.
    let mut answer = scapy(include_str!("vectors/ndp.txt"), "duplicate?");
    answer[8..24].copy_from_slice(&LINK_LOCAL.parse::<Ipv6Addr>().unwrap().octets());
    let mut advertisement = answer.clone();
    advertisement[0] = 136;
    for (from, to, mac, message) in [
        (LINK_LOCAL, "ff02::1", [0x33, 0x33, 0, 0, 0, 1], &advertisement),
        ("::", "ff02::1:ff00:1", [0x33, 0x33, 0xff, 0, 0, 1], &answer),
    ] {
        let mut host = Host::new(&["link6"]);
        host.hears(icmpv6(from, to, mac, message));
        host.pass(Duration::from_secs(5));
        assert!(host.addresses().is_empty(), "{from}");
        let mut duplicates = 0;
        host.stack.configuration_statistics(0, &mut |name, value| {
            if name == "nd_duplicate_addresses" {
                duplicates = value;
            }
        });
        assert_eq!(duplicates, 1);
    }
}

#[test]
fn idle_network_lets_the_stack_sleep() {
    let mut host = Host::new(&["192.0.2.50/24"]);
    host.pass(Duration::from_secs(10));
    let mut turns = 0;
    let end = host.now + Duration::from_secs(3600);
    while host.now < end {
        let wake_at = host.stack.poll(host.now).wake_at.unwrap_or(end);
        assert!(wake_at > host.now);
        host.now = wake_at.min(end);
        turns += 1;
    }
    // Router solicitations, ever more rarely (RFC 7559).
    assert!(turns < 15, "{turns}");
}

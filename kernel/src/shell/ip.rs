//! `ip`: addresses, links, routes and neighbours, in iproute2's layout.
//!
//! Writing to a string cannot fail, so results of `write!` are dropped throughout.

use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::fmt::Write;
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use trireme_netstack::{Cidr, InterfaceInfo};
use trireme_nic::MacAddress;

use crate::net;

const HELP: &str = "\
Usage: ip [ -4 | -6 ] [ -s ] OBJECT [ show [ dev ethN ] ]
       OBJECT := { address | link | neighbour | route }
";

/// An address as `52:54:00:12:34:56`.
pub fn mac(address: MacAddress) -> String {
    address.map(|byte| format!("{byte:02x}")).join(":")
}

/// Which families, and whether counters.
#[derive(Default)]
struct Options {
    v4: bool,
    v6: bool,
    statistics: bool,
}

impl Options {
    fn wants(&self, address: IpAddr) -> bool {
        self.v4 == self.v6 || self.v4 == address.is_ipv4()
    }
}

/// `ip`.
pub fn run(words: &[&str], out: &mut String) -> Result<(), String> {
    let mut options = Options::default();
    let mut words = words;
    while let Some((word, rest)) = words.split_first()
        && let Some(option) = word.strip_prefix('-')
    {
        match option {
            "4" => options.v4 = true,
            "6" => options.v6 = true,
            "s" | "stats" | "statistics" => options.statistics = true,
            // Layout and colour, which there is one of.
            "d" | "details" | "c" | "color" | "N" | "n" => {}
            "h" | "help" | "-help" => {
                out.push_str(HELP);
                return Ok(());
            }
            _ => return Err(format!("Option \"-{option}\" is unknown, try \"ip -help\".\n")),
        }
        words = rest;
    }
    let Some((object, rest)) = words.split_first() else {
        out.push_str(HELP);
        return Ok(());
    };
    // iproute2 takes any beginning of a name, the first that fits.
    let names = ["address", "route", "neighbour", "neighbor", "link", "help"];
    let name = names.into_iter().find(|name| name.starts_with(object)).unwrap_or_default();
    match name {
        "address" => addresses(&options, device("address", rest)?.as_deref(), out),
        "route" => routes(&options, device("route", rest)?.as_deref(), out),
        "neighbour" | "neighbor" => {
            neighbours(&options, device("neighbour", rest)?.as_deref(), out);
        }
        "link" => links(&options, device("link", rest)?.as_deref(), out),
        "help" => out.push_str(HELP),
        _ => return Err(format!("Object \"{object}\" is unknown, try \"ip help\".\n")),
    }
    Ok(())
}

/// What `[ show | list ] [ [ dev ] NAME ]` names. Anything else is an error: configuration comes from the boot
/// arguments.
fn device(object: &str, words: &[&str]) -> Result<Option<String>, String> {
    let mut words = words;
    if let Some((command, rest)) = words.split_first() {
        let shows = ["show", "list", "lst", "ls"].iter().any(|name| name.starts_with(command));
        if !shows && *command != "dev" {
            return Err(format!("Command \"{command}\" is unknown, try \"ip {object} help\".\n"));
        }
        if shows {
            words = rest;
        }
    }
    let name = match words {
        [] => return Ok(None),
        ["dev"] => return Err("Command line is not complete. Try option \"help\"\n".to_string()),
        ["dev", name] => name,
        // Addresses and links are shown by name alone, too.
        [name] if matches!(object, "address" | "link") => name,
        [.., word] => {
            return Err(format!(
                "Error: either \"dev\" is duplicate, or \"{word}\" is a garbage.\n"
            ));
        }
    };
    if net::look(|stack| stack.interfaces()).iter().any(|interface| interface.name == *name) {
        Ok(Some((*name).to_string()))
    } else {
        Err(format!("Device \"{name}\" does not exist.\n"))
    }
}

fn interfaces(only: Option<&str>) -> Vec<(usize, InterfaceInfo)> {
    let all = net::look(|stack| stack.interfaces()).into_iter().enumerate();
    all.filter(|(_, interface)| only.is_none_or(|name| interface.name == name)).collect()
}

fn is_loopback(interface: &InterfaceInfo) -> bool {
    interface.name == "lo"
}

fn heading(index: usize, interface: &InterfaceInfo, out: &mut String) {
    let kind = if is_loopback(interface) { "LOOPBACK" } else { "BROADCAST,MULTICAST" };
    let (carrier, lower) = if interface.link.up { ("", ",LOWER_UP") } else { ("NO-CARRIER,", "") };
    let state = match interface.link.up {
        true if is_loopback(interface) => "UNKNOWN",
        true => "UP",
        false => "DOWN",
    };
    let (number, name, mtu) = (index + 1, &interface.name, interface.mtu);
    let over = interface.vlan.as_ref().map_or(String::new(), |(card, _)| format!("@{card}"));
    let flags = format!("{carrier}{kind},UP{lower}");
    let _ = writeln!(out, "{number}: {name}{over}: <{flags}> mtu {mtu} state {state}");
    let (kind, broadcast) = match is_loopback(interface) {
        true => ("loopback", [0; 6]),
        false => ("ether", [0xff; 6]),
    };
    let _ = writeln!(out, "    link/{kind} {} brd {}", mac(interface.mac), mac(broadcast));
    if let Some((_, id)) = interface.vlan {
        let _ = writeln!(out, "    vlan protocol 802.1Q id {id}");
    }
}

fn scope(address: IpAddr) -> &'static str {
    match address {
        address if address.is_loopback() => "host",
        IpAddr::V4(address) if address.is_link_local() => "link",
        IpAddr::V6(address) if address.is_unicast_link_local() => "link",
        _ => "global",
    }
}

fn addresses(options: &Options, only: Option<&str>, out: &mut String) {
    for (index, interface) in interfaces(only) {
        heading(index, &interface, out);
        for cidr in interface.addresses.iter().filter(|cidr| options.wants(cidr.address)) {
            let family = if cidr.address.is_ipv4() { "inet" } else { "inet6" };
            let _ = write!(out, "    {family} {cidr}");
            if let Some(broadcast) = cidr.broadcast().filter(|_| !is_loopback(&interface)) {
                let _ = write!(out, " brd {broadcast}");
            }
            let _ = write!(out, " scope {}", scope(cidr.address));
            let _ = match cidr.address {
                IpAddr::V4(_) => writeln!(out, " {}", interface.name),
                IpAddr::V6(_) => writeln!(out),
            };
        }
        if options.statistics {
            counters(index, out);
        }
    }
}

fn links(options: &Options, only: Option<&str>, out: &mut String) {
    for (index, interface) in interfaces(only) {
        heading(index, &interface, out);
        if options.statistics {
            counters(index, out);
        }
    }
}

/// The two tables of `-s`.
fn counters(index: usize, out: &mut String) {
    const NAMES: [&[&str]; 12] = [
        &["rx_bytes"],
        &["rx_packets"],
        &["rx_errors"],
        &["rx_dropped", "rx_drops"],
        &["rx_missed_errors", "rx_missed"],
        &["rx_multicast", "multicast"],
        &["tx_bytes"],
        &["tx_packets"],
        &["tx_errors"],
        &["tx_dropped", "tx_drops"],
        &["tx_carrier_errors"],
        &["tx_collisions", "collisions"],
    ];
    let mut values = [0; 12];
    net::look(|stack| {
        stack.card_statistics(index, &mut |name, value| {
            if let Some(at) = NAMES.iter().position(|names| names.contains(&name)) {
                values[at] += value;
            }
        });
    });
    for (title, from) in [
        ("    RX:      bytes    packets  errors dropped  missed   mcast", 0),
        ("    TX:      bytes    packets  errors dropped carrier collsns", 6),
    ] {
        let [bytes, packets, a, b, c, d] = core::array::from_fn(|n| values[from + n]);
        let _ = writeln!(out, "{title}\n    {bytes:>14} {packets:>10} {a:>7} {b:>7} {c:>7} {d:>7}");
    }
}

/// The network of an address of ours.
fn network(cidr: &Cidr) -> Cidr {
    let address = match cidr.address {
        IpAddr::V4(address) => {
            let mask = u32::MAX.checked_shl(32 - u32::from(cidr.prefix.min(32))).unwrap_or(0);
            IpAddr::V4(Ipv4Addr::from_bits(address.to_bits() & mask))
        }
        IpAddr::V6(address) => {
            let mask = u128::MAX.checked_shl(128 - u32::from(cidr.prefix.min(128))).unwrap_or(0);
            IpAddr::V6(Ipv6Addr::from_bits(address.to_bits() & mask))
        }
    };
    Cidr { address, prefix: cidr.prefix }
}

/// Default routers and the networks of our addresses: of IPv4, or of IPv6 with `-6`.
fn routes(options: &Options, only: Option<&str>, out: &mut String) {
    let v4 = !options.v6 || options.v4;
    let all: Vec<_> = interfaces(only).into_iter().map(|(_, interface)| interface).collect();
    let all = || all.iter().filter(|interface| !is_loopback(interface));
    for interface in all() {
        for router in interface.routers.iter().filter(|router| router.is_ipv4() == v4) {
            let _ = writeln!(out, "default via {router} dev {}", interface.name);
        }
    }
    for interface in all() {
        let mut seen: Vec<Cidr> = Vec::new();
        for cidr in interface.addresses.iter().filter(|cidr| cidr.address.is_ipv4() == v4) {
            let network = network(cidr);
            if seen.contains(&network) {
                continue;
            }
            seen.push(network);
            let name = &interface.name;
            let _ = match cidr.address {
                IpAddr::V4(address) => {
                    writeln!(out, "{network} dev {name} proto kernel scope link src {address}")
                }
                IpAddr::V6(_) => writeln!(out, "{network} dev {name} proto kernel"),
            };
        }
    }
}

fn neighbours(options: &Options, only: Option<&str>, out: &mut String) {
    let (names, all) = net::with_stack(|stack, now| {
        let names: Vec<String> = stack.interfaces().into_iter().map(|i| i.name).collect();
        (names, stack.neighbours(now))
    });
    for neighbour in all {
        let Some(name) = names.get(neighbour.interface) else { continue };
        if only.is_some_and(|only| only != name) || !options.wants(neighbour.address) {
            continue;
        }
        let _ = write!(out, "{} dev {name} ", neighbour.address);
        let _ = match (neighbour.mac, neighbour.reachable) {
            (None, _) => writeln!(out, "INCOMPLETE"),
            (Some(address), true) => writeln!(out, "lladdr {} REACHABLE", mac(address)),
            (Some(address), false) => writeln!(out, "lladdr {} STALE", mac(address)),
        };
    }
}

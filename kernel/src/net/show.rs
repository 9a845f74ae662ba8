//! What the console's commands show of the network, in the shapes `ip`, `ss` and `ethtool` have.
//!
//! Everything is written to a string first: the console is slow, and the stack is not to wait for it. Writing to a
//! string cannot fail, so results of `write!` are dropped throughout.

use alloc::format;
use alloc::string::{String, ToString};
use core::fmt::Write;

use trireme_netstack::{Kind, SocketState, Stack};
use trireme_nic::{Feature, FeatureError, MacAddress, Nic, Pause};

use super::with_stack;

fn mac(address: MacAddress) -> String {
    address.map(|byte| format!("{byte:02x}")).join(":")
}

fn name_of(stack: &Stack, interface: usize) -> String {
    stack.interfaces().get(interface).map_or_else(|| interface.to_string(), |i| i.name.clone())
}

/// `ip addr`.
pub fn show_addresses(out: &mut String) {
    for (index, interface) in with_stack(|stack, _| stack.interfaces()).iter().enumerate() {
        let state = if interface.link.up { "UP" } else { "DOWN" };
        let (n, name, mtu) = (index + 1, &interface.name, interface.mtu);
        let over = interface.vlan.as_ref().map_or(String::new(), |(card, _)| format!("@{card}"));
        let _ = writeln!(out, "{n}: {name}{over}: mtu {mtu} state {state}");
        let _ = writeln!(out, "    link/ether {}", mac(interface.mac));
        if let Some((_, id)) = interface.vlan {
            let _ = writeln!(out, "    vlan protocol 802.1Q id {id}");
        }
        for cidr in &interface.addresses {
            let family = if cidr.address.is_ipv4() { "inet" } else { "inet6" };
            let _ = writeln!(out, "    {family} {cidr}");
        }
    }
}

/// `ip route`: the default routers; every address implies its network's route.
pub fn show_routes(out: &mut String) {
    for interface in with_stack(|stack, _| stack.interfaces()) {
        for router in &interface.routers {
            let _ = writeln!(out, "default via {router} dev {}", interface.name);
        }
    }
}

/// `ip neigh`.
pub fn show_neighbours(out: &mut String) {
    with_stack(|stack, now| {
        for neighbour in stack.neighbours(now) {
            let card = name_of(stack, neighbour.interface);
            let state = match (neighbour.mac, neighbour.reachable) {
                (None, _) => "INCOMPLETE".to_string(),
                (Some(address), true) => format!("lladdr {} REACHABLE", mac(address)),
                (Some(address), false) => format!("lladdr {} STALE", mac(address)),
            };
            let _ = writeln!(out, "{} dev {card} {state}", neighbour.address);
        }
    });
}

/// `ss -an`, with names of states as there.
pub fn show_sockets(out: &mut String) {
    let _ = writeln!(out, "Netid State       Recv-Q Send-Q  Local               Peer");
    for socket in with_stack(|stack, _| stack.sockets()) {
        let kind = if socket.kind == Kind::Stream { "tcp" } else { "udp" };
        let state = match socket.state {
            SocketState::Closed | SocketState::Datagram => "UNCONN",
            SocketState::Listen(_) => "LISTEN",
            SocketState::SynSent => "SYN-SENT",
            SocketState::SynReceived => "SYN-RECV",
            SocketState::Established => "ESTAB",
            SocketState::FinWait1 => "FIN-WAIT-1",
            SocketState::FinWait2 => "FIN-WAIT-2",
            SocketState::CloseWait => "CLOSE-WAIT",
            SocketState::Closing => "CLOSING",
            SocketState::LastAck => "LAST-ACK",
            SocketState::TimeWait => "TIME-WAIT",
        };
        let waiting = match socket.state {
            SocketState::Listen(queued) => queued,
            _ => socket.received,
        };
        let peer = socket.peer.map_or_else(|| "*".to_string(), |peer| peer.to_string());
        let (unsent, local) = (socket.unsent, socket.local.to_string());
        let _ = writeln!(out, "{kind:5} {state:11} {waiting:6} {unsent:6}  {local:19} {peer}");
    }
}

/// `nstat`.
pub fn show_statistics(out: &mut String) {
    with_stack(|stack, _| {
        stack.statistics().visit(&mut |name, value| {
            let _ = writeln!(out, "{name:24} {value}");
        });
        let (sockets, used, budget) = stack.usage();
        let _ = writeln!(out, "sockets {sockets}, buffers {used} of {budget} bytes");
    });
}

/// Runs `show` on the card, or the VLAN over one, with this name.
fn on_card(name: &str, out: &mut String, show: impl FnOnce(&mut dyn Nic, &mut String)) {
    with_stack(|stack, _| match stack.find(name).and_then(|number| stack.nic_mut(number)) {
        Some(nic) => show(nic, out),
        None => {
            let _ = writeln!(out, "{name}: no such card");
        }
    });
}

/// `ethtool ethN`.
pub fn show_link(name: &str, out: &mut String) {
    on_card(name, out, |nic, out| {
        let link = nic.link();
        if link.speed_mbps != 0 {
            let duplex = if link.full_duplex { "Full" } else { "Half" };
            let _ = writeln!(out, "Speed: {}Mb/s\nDuplex: {duplex}", link.speed_mbps);
        }
        if let Some(on) = nic.wake_on_lan() {
            let _ = writeln!(out, "Supports Wake-on: g\nWake-on: {}", if on { "g" } else { "d" });
        }
        let detected = if link.up { "yes" } else { "no" };
        let _ = writeln!(out, "Link detected: {detected}");
    });
}

/// `ethtool -a ethN`.
pub fn show_pause(name: &str, out: &mut String) {
    on_card(name, out, |nic, out| {
        let Some(Pause { autonegotiate, rx, tx }) = nic.pause() else {
            let _ = writeln!(out, "{name}: no flow control");
            return;
        };
        for (what, on) in [("Autonegotiate", autonegotiate), ("RX", rx), ("TX", tx)] {
            let _ = writeln!(out, "{what}: {}", if on { "on" } else { "off" });
        }
    });
}

/// `ethtool -s ethN wol g|d`: a magic packet is to wake the machine, or nothing.
pub fn set_wake_on_lan(name: &str, on: bool, out: &mut String) {
    on_card(name, out, |nic, out| {
        if !nic.set_wake_on_lan(on) {
            let _ = writeln!(out, "{name}: cannot wake the machine");
        }
    });
}

/// `ethtool -i ethN`.
pub fn show_driver(name: &str, out: &mut String) {
    on_card(name, out, |nic, out| {
        let info = nic.driver_info();
        let _ = writeln!(out, "driver: {}\nchip: {}", info.driver, info.chip);
    });
}

/// `ethtool -k ethN`.
pub fn show_features(name: &str, out: &mut String) {
    on_card(name, out, |nic, out| {
        for feature in Feature::ALL {
            let state = nic.feature(feature);
            let on = if state.on { "on" } else { "off" };
            let fixed = if state.fixed { " [fixed]" } else { "" };
            let _ = writeln!(out, "{}: {on}{fixed}", feature.name());
        }
    });
}

/// `ethtool --show-priv-flags ethN`.
pub fn show_private_flags(name: &str, out: &mut String) {
    on_card(name, out, |nic, out| {
        nic.private_flags(&mut |flag, on| {
            let _ = writeln!(out, "{flag}: {}", if on { "on" } else { "off" });
        });
    });
}

/// `ethtool --set-priv-flags ethN FLAG on|off`.
pub fn set_private_flag(name: &str, flag: &str, on: bool, out: &mut String) {
    on_card(name, out, |nic, out| {
        if !nic.set_private_flag(flag, on) {
            let _ = writeln!(out, "{flag}: not a flag of this card");
        }
    });
}

/// `ethtool -S ethN`.
pub fn show_counters(name: &str, out: &mut String) {
    on_card(name, out, |nic, out| {
        nic.statistics(&mut |name, value| {
            let _ = writeln!(out, "{name}: {value}");
        });
    });
    with_stack(|stack, _| {
        if let Some(number) = stack.find(name) {
            stack.offload_statistics(number, &mut |name, value| {
                let _ = writeln!(out, "{name}: {value}");
            });
        }
    });
}

/// `ethtool -K ethN FEATURE on|off …`.
pub fn set_features(name: &str, words: &[&str], out: &mut String) {
    if words.is_empty() || !words.len().is_multiple_of(2) {
        let _ = writeln!(out, "ethtool -K ethN FEATURE on|off");
        return;
    }
    for pair in words.chunks_exact(2) {
        let (Some(feature), "on" | "off") = (Feature::by_name(pair[0]), pair[1]) else {
            let _ = writeln!(out, "{} {}: not a feature and on or off", pair[0], pair[1]);
            return;
        };
        on_card(name, out, |nic, out| {
            let _ = match nic.set_feature(feature, pair[1] == "on") {
                Ok(()) => Ok(()),
                Err(FeatureError::Fixed) => writeln!(out, "{}: fixed", feature.name()),
                Err(FeatureError::Requires(other)) => {
                    writeln!(out, "{}: requires {}", feature.name(), other.name())
                }
                Err(FeatureError::Timeout) => {
                    writeln!(out, "{}: the card did not answer and was reset", feature.name())
                }
            };
        });
    }
}

//! Host side of the guest's network: forwarded ports and TAP devices.

use std::fmt;
use std::net::{Ipv4Addr, TcpListener, UdpSocket};
use std::process::Command;
use std::str::FromStr;

use anyhow::{Context, Result, bail};

use crate::workspace::check;

/// The hardware address QEMU gives its first card; also what `ip neigh` is told.
pub const GUEST_MAC: &str = "52:54:00:12:34:56";
/// The host's address on a TAP.
pub const HOST_V4: &str = "10.77.0.1";
/// The guest's address on a TAP.
pub const GUEST_V4: &str = "10.77.0.2";
/// The host's IPv6 address on a TAP.
pub const HOST_V6: &str = "fd77::1";

/// A transport protocol that QEMU's user networking can forward.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Protocol {
    /// TCP.
    Tcp,
    /// UDP.
    Udp,
}

impl fmt::Display for Protocol {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str(match self {
            Protocol::Tcp => "tcp",
            Protocol::Udp => "udp",
        })
    }
}

/// A host port on loopback that leads to a guest port: `[tcp:|udp:]HOST:GUEST`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Forward {
    /// The transport.
    pub protocol: Protocol,
    /// Port on 127.0.0.1.
    pub host: u16,
    /// Port in the guest.
    pub guest: u16,
}

impl FromStr for Forward {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> Result<Forward> {
        let (protocol, ports) = match text.split_once(':') {
            Some(("tcp", ports)) => (Protocol::Tcp, ports),
            Some(("udp", ports)) => (Protocol::Udp, ports),
            _ => (Protocol::Tcp, text),
        };
        let port = |text: &str| text.parse::<u16>().ok().filter(|p| *p != 0);
        match ports.split_once(':').map(|(h, g)| (port(h), port(g))) {
            Some((Some(host), Some(guest))) => Ok(Forward { protocol, host, guest }),
            _ => bail!("{text:?} is not [tcp:|udp:]HOST:GUEST with ports from 1 to 65535"),
        }
    }
}

impl Forward {
    /// Whether the host's port is free now.
    pub fn is_free(&self) -> bool {
        let address = (Ipv4Addr::LOCALHOST, self.host);
        match self.protocol {
            Protocol::Tcp => TcpListener::bind(address).is_ok(),
            Protocol::Udp => UdpSocket::bind(address).is_ok(),
        }
    }

    /// The same with the next free host port, for a forward nobody asked for by number.
    pub fn moved_to_free_port(mut self) -> Result<Forward> {
        let wanted = self.host;
        while !self.is_free() {
            self.host =
                self.host.checked_add(1).filter(|p| p - wanted < 100).with_context(|| {
                    format!(
                        "no free {} port from {wanted} on; name one with --forward",
                        self.protocol
                    )
                })?;
        }
        Ok(self)
    }
}

/// A TAP device with virtio-net headers, removed when dropped.
pub struct Tap {
    name: String,
}

impl Tap {
    /// Makes and configures the device in the current network namespace. Needs root.
    pub fn create(name: &str) -> Result<Tap> {
        let ip = |arguments: &str| {
            check(Command::new("ip").args(arguments.split_whitespace()))
                .context("a TAP needs root and the package iproute2")
        };
        ip(&format!("tuntap add dev {name} mode tap vnet_hdr"))?;
        let tap = Tap { name: name.to_owned() };
        ip(&format!("addr add {HOST_V4}/24 dev {name}"))?;
        ip(&format!("addr add {HOST_V6}/64 dev {name} nodad"))?;
        ip(&format!("link set {name} up"))?;
        Ok(tap)
    }

    /// The interface's name.
    pub fn name(&self) -> &str {
        &self.name
    }
}

impl Drop for Tap {
    fn drop(&mut self) {
        // A device that is gone already is what we want.
        let _ = Command::new("ip").args(["link", "del", &self.name]).status();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn forwards_are_read() {
        let tcp = Forward { protocol: Protocol::Tcp, host: 8080, guest: 80 };
        assert_eq!("8080:80".parse::<Forward>().unwrap(), tcp);
        assert_eq!("tcp:8080:80".parse::<Forward>().unwrap(), tcp);
        let udp = Forward { protocol: Protocol::Udp, host: 7007, guest: 7 };
        assert_eq!("udp:7007:7".parse::<Forward>().unwrap(), udp);
    }

    #[test]
    fn wrong_forwards_are_refused() {
        for wrong in ["", "80", "0:80", "80:0", "70000:80", "sctp:1:2", "1:2:3", "a:b"] {
            assert!(wrong.parse::<Forward>().is_err(), "{wrong:?} passed");
        }
    }

    #[test]
    fn taken_port_is_stepped_over() {
        let taken = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let host = taken.local_addr().unwrap().port();
        let forward = Forward { protocol: Protocol::Tcp, host, guest: 80 };
        assert!(!forward.is_free());
        assert_ne!(forward.moved_to_free_port().unwrap().host, host);
    }
}

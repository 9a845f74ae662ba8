//! Reads `ip=` boot arguments, as Linux and dracut spell them, into what each card is to do.
//!
//! The boot code gives every value of an `ip=` argument, in order, to [`Plan::add`], and reports an
//! [`IpError`] on the console: a wrong argument is skipped, not fatal. When cards have been found it
//! asks [`Plan::addressing`] for each by name, and hands the answer to
//! `Stack::add_interface`. [`Plan::unused`] then names what fitted no card.
//!
//! Understood are Linux's form, `client:server:gateway:netmask:hostname:device:autoconf:dns0:dns1:ntp`
//! (Documentation/admin-guide/nfs/nfsroot.rst; trailing fields may be missing), a lone autoconf word
//! (`ip=dhcp`), and dracut's additions (dracut.cmdline(7)): `device:autoconf`, IPv6 addresses in
//! brackets, a prefix length in place of the netmask, `auto6` and `link6`, and an MTU and an Ethernet address behind
//! the autoconf word (`:1400:02:00:00:00:00:05`, either may be missing). We add that the client may
//! carry its prefix itself (`10.0.0.2/24`), in both families. An argument without a device is for
//! every card that has none of its own if it says how to find an address, and for the first such
//! card if it gives one. Without any `ip=`, each card uses DHCP and router advertisements.

use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::fmt;
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use trireme_nic::MacAddress;

/// How a card gets its IPv4 address.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Ipv4Addressing {
    /// From a DHCP server.
    #[default]
    Dhcp,
    /// Not at all.
    Off,
    /// From the argument.
    Static {
        /// Our address.
        address: Ipv4Addr,
        /// Length of the network's prefix in bits, 1 to 32.
        prefix: u8,
        /// Default router.
        gateway: Option<Ipv4Addr>,
    },
}

/// How a card gets IPv6 addresses. It has a link-local one in any case.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Ipv6Addressing {
    /// From router advertisements.
    #[default]
    Auto,
    /// The link-local address is all.
    LinkLocal,
    /// From the argument, with router advertisements ignored.
    Static {
        /// Our address.
        address: Ipv6Addr,
        /// Length of the network's prefix in bits, 1 to 128.
        prefix: u8,
        /// Default router.
        gateway: Option<Ipv6Addr>,
    },
}

/// What one card is to do about addresses.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Addressing {
    /// IPv4.
    pub ipv4: Ipv4Addressing,
    /// IPv6.
    pub ipv6: Ipv6Addressing,
    /// Name of this host, if the argument gave one.
    pub hostname: Option<String>,
    /// Name servers of the argument; those of DHCP and advertisements come after them.
    pub dns: Vec<IpAddr>,
    /// NTP server of the argument.
    pub ntp: Option<IpAddr>,
    /// MTU to use instead of the card's.
    pub mtu: Option<u16>,
    /// Ethernet address to use instead of the card's.
    pub mac: Option<MacAddress>,
}

/// A field of an `ip=` argument, for messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Field {
    /// Our address.
    Client,
    /// Boot server. Checked and ignored: there is no network root file system.
    Server,
    /// Default router.
    Gateway,
    /// Network mask or prefix length.
    Netmask,
    /// First or second name server.
    Dns,
    /// NTP server.
    Ntp,
    /// MTU.
    Mtu,
    /// Ethernet address.
    Mac,
}

impl fmt::Display for Field {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Field::Client => "client address",
            Field::Server => "server address",
            Field::Gateway => "gateway",
            Field::Netmask => "netmask",
            Field::Dns => "DNS server",
            Field::Ntp => "NTP server",
            Field::Mtu => "MTU",
            Field::Mac => "Ethernet address",
        })
    }
}

/// What is wrong with an `ip=` argument.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum IpError {
    /// A field that must be an address is not, or cannot be ours.
    Address(Field, String),
    /// Neither a contiguous netmask nor a prefix length of the family.
    Netmask(String),
    /// Not a word Linux or dracut know.
    Autoconf(String),
    /// A word they know, for something we do not have.
    Unsupported(String),
    /// An address of the other family than the client's.
    Family(Field, String),
    /// Fields after the NTP server, or an unclosed bracket.
    Fields,
    /// `device` is told twice how to get addresses of a family.
    Twice {
        /// The card, `None` for arguments without one.
        device: Option<String>,
    },
}

impl fmt::Display for IpError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            IpError::Address(field, text) => write!(f, "{field} {text:?} is not a usable address"),
            IpError::Netmask(text) => write!(f, "{text:?} is not a netmask or prefix length"),
            IpError::Autoconf(text) => {
                write!(f, "{text:?} is not one of dhcp, on, any, off, none, auto6, link6")
            }
            IpError::Unsupported(text) => write!(f, "{text:?} is not supported"),
            IpError::Family(field, text) => {
                write!(f, "{field} {text:?} is of another family than the client address")
            }
            IpError::Fields => f.write_str("too many fields, or a bracket that is not closed"),
            IpError::Twice { device: Some(device) } => {
                write!(f, "{device} is given a second address of the same family")
            }
            IpError::Twice { device: None } => {
                f.write_str("a second address of the same family, and no device named")
            }
        }
    }
}

/// One argument, or all for one card. A family it does not mention is `None`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Entry {
    device: Option<String>,
    ipv4: Option<Ipv4Addressing>,
    ipv6: Option<Ipv6Addressing>,
    hostname: Option<String>,
    dns: Vec<IpAddr>,
    ntp: Option<IpAddr>,
    mtu: Option<u16>,
    mac: Option<MacAddress>,
    used: bool,
}

impl Entry {
    fn is_static(&self) -> bool {
        matches!(self.ipv4, Some(Ipv4Addressing::Static { .. }))
            || matches!(self.ipv6, Some(Ipv6Addressing::Static { .. }))
    }
}

/// Everything the `ip=` arguments said.
#[derive(Clone, Debug, Default)]
pub struct Plan {
    /// One for each device named, and at most one without.
    entries: Vec<Entry>,
}

impl Plan {
    /// No argument yet: DHCP and router advertisements.
    pub const fn new() -> Plan {
        Plan { entries: Vec::new() }
    }

    /// Takes the value of one `ip=` argument. On an error nothing has changed.
    pub fn add(&mut self, value: &str) -> Result<(), IpError> {
        let new = parse(value)?;
        let Some(old) = self.entries.iter_mut().find(|old| old.device == new.device) else {
            self.entries.push(new);
            return Ok(());
        };
        let clash = (old.ipv4.is_some() && new.ipv4.is_some())
            || (old.ipv6.is_some() && new.ipv6.is_some());
        if clash {
            return Err(IpError::Twice { device: new.device });
        }
        old.ipv4 = old.ipv4.or(new.ipv4);
        old.ipv6 = old.ipv6.or(new.ipv6);
        old.hostname = old.hostname.take().or(new.hostname);
        old.ntp = old.ntp.or(new.ntp);
        old.mtu = old.mtu.or(new.mtu);
        old.mac = old.mac.or(new.mac);
        old.dns.extend(new.dns);
        Ok(())
    }

    /// What the card called `name` is to do. Ask once for each card, in order.
    pub fn addressing(&mut self, name: &str) -> Addressing {
        let own = self.entries.iter().position(|entry| entry.device.as_deref() == Some(name));
        let place = own.or_else(|| {
            // A given address can be one card's only.
            let fits = |entry: &Entry| entry.device.is_none() && !(entry.used && entry.is_static());
            self.entries.iter().position(fits)
        });
        let Some(entry) = place.and_then(|place| self.entries.get_mut(place)) else {
            return match self.entries.is_empty() {
                true => Addressing::default(),
                // Arguments were given, and none is for this card.
                false => Addressing {
                    ipv4: Ipv4Addressing::Off,
                    ipv6: Ipv6Addressing::LinkLocal,
                    ..Addressing::default()
                },
            };
        };
        entry.used = true;
        // A family not mentioned: IPv6 looks after itself, as on Linux; IPv4 stays away from a card
        // that was configured for IPv6.
        Addressing {
            ipv4: entry.ipv4.unwrap_or(Ipv4Addressing::Off),
            ipv6: entry.ipv6.unwrap_or_default(),
            hostname: entry.hostname.clone(),
            dns: entry.dns.clone(),
            ntp: entry.ntp,
            mtu: entry.mtu,
            mac: entry.mac,
        }
    }

    /// Devices named in arguments that no card had.
    pub fn unused(&self) -> impl Iterator<Item = &str> {
        self.entries.iter().filter(|entry| !entry.used).filter_map(|entry| entry.device.as_deref())
    }
}

/// The kernel's form up to the autoconf word, an MTU and an Ethernet address.
const MOST_FIELDS: usize = 7 + 1 + 6;

/// Cuts at colons outside brackets.
fn fields(value: &str) -> Result<Vec<&str>, IpError> {
    let (mut out, mut start, mut depth) = (Vec::new(), 0, 0u32);
    for (at, c) in value.char_indices() {
        match c {
            '[' if depth == 0 => depth = 1,
            ']' if depth == 1 => depth = 0,
            '[' | ']' => return Err(IpError::Fields),
            ':' if depth == 0 => {
                out.push(value.get(start..at).unwrap_or_default());
                start = at + 1;
            }
            _ => {}
        }
    }
    out.push(value.get(start..).unwrap_or_default());
    match depth == 0 && out.len() <= MOST_FIELDS {
        true => Ok(out),
        false => Err(IpError::Fields),
    }
}

fn parse(value: &str) -> Result<Entry, IpError> {
    let fields = fields(value)?;
    let mut entry = Entry::default();
    match fields[..] {
        [word]
            if !word.starts_with('[')
                && word.parse::<Ipv4Addr>().is_err()
                && !word.contains('/') =>
        {
            autoconf(word, &mut entry)?;
            return Ok(entry);
        }
        // dracut's `device:autoconf`; what starts with a digit is Linux's `client:server`.
        [device, word, ref link @ ..] if device.starts_with(|c: char| c.is_ascii_alphabetic()) => {
            entry.device = Some(device.to_string());
            autoconf(word, &mut entry)?;
            if !link.is_empty() {
                (entry.mtu, entry.mac) = link_fields(link)?;
            }
            return Ok(entry);
        }
        _ => {}
    }
    let field = |at: usize| fields.get(at).copied().unwrap_or_default();
    let (client, prefix) = match field(0).rsplit_once('/') {
        Some((client, prefix)) => (address(client, Field::Client)?, Some(prefix)),
        None => (address(field(0), Field::Client)?, None),
    };
    let _ = address(field(1), Field::Server)?;
    let gateway = address(field(2), Field::Gateway)?;
    let netmask = match (field(3), prefix) {
        ("", prefix) => prefix,
        (mask, _) => Some(mask),
    };
    let text = |at: usize| Some(field(at).to_string()).filter(|text| !text.is_empty());
    entry.hostname = text(4);
    entry.device = text(5);
    // dracut tells its fields from Linux's name servers by what is in them.
    let number = !field(7).is_empty() && field(7).bytes().all(|b| b.is_ascii_digit());
    if number || fields.len() > 10 {
        (entry.mtu, entry.mac) = link_fields(fields.get(7..).unwrap_or_default())?;
    } else {
        for at in [7, 8] {
            entry.dns.extend(address(field(at), Field::Dns)?);
        }
        entry.ntp = address(field(9), Field::Ntp)?;
    }

    let Some(client) = client else {
        // "If this parameter is missing …": Linux then asks for everything.
        let word = if field(6).is_empty() { "any" } else { field(6) };
        autoconf(word, &mut entry)?;
        return Ok(entry);
    };
    if !usable(client) {
        return Err(IpError::Address(Field::Client, field(0).to_string()));
    }
    let wrong = |field: Field, at: usize| IpError::Family(field, fields[at].to_string());
    match (client, gateway) {
        (IpAddr::V4(address), gateway) => {
            let prefix = match netmask {
                Some(text) => prefix_v4(text)?,
                None => classful(address),
            };
            let gateway = match gateway {
                Some(IpAddr::V4(gateway)) => Some(gateway),
                Some(IpAddr::V6(_)) => return Err(wrong(Field::Gateway, 2)),
                None => None,
            };
            entry.ipv4 = Some(Ipv4Addressing::Static { address, prefix, gateway });
        }
        (IpAddr::V6(address), gateway) => {
            let prefix = netmask.map_or(Ok(64), |text| prefix_len(text, 128))?;
            let gateway = match gateway {
                Some(IpAddr::V6(gateway)) => Some(gateway),
                Some(IpAddr::V4(_)) => return Err(wrong(Field::Gateway, 2)),
                None => None,
            };
            entry.ipv6 = Some(Ipv6Addressing::Static { address, prefix, gateway });
        }
    }
    // With an address given, Linux asks nobody; the word is only checked. An IPv4 address with
    // `auto6` or the like asks for both.
    let mut said = Entry::default();
    if !field(6).is_empty() {
        autoconf(field(6), &mut said)?;
        if matches!(field(6), "auto6" | "link6" | "link-local") {
            entry.ipv6 = entry.ipv6.or(said.ipv6);
        }
    }
    Ok(entry)
}

/// dracut's `[mtu][:macaddr]`; the address has colons of its own.
fn link_fields(fields: &[&str]) -> Result<(Option<u16>, Option<MacAddress>), IpError> {
    let wrong = |field: Field, text: &str| IpError::Address(field, text.to_string());
    let (mtu, mac) = match fields {
        [mtu] => (*mtu, None),
        [mtu, mac @ ..] if mac.len() == 6 => (*mtu, Some(mac)),
        _ => return Err(IpError::Fields),
    };
    let mtu = match mtu {
        "" => None,
        // 68: what every link must carry (RFC 791).
        text => match text.parse() {
            Ok(mtu) if mtu >= 68 => Some(mtu),
            _ => return Err(wrong(Field::Mtu, text)),
        },
    };
    let Some(digits) = mac else { return Ok((mtu, None)) };
    let mut mac = [0; 6];
    for (byte, text) in mac.iter_mut().zip(digits) {
        let two = text.len() == 2 && text.bytes().all(|b| b.is_ascii_hexdigit());
        let parsed = u8::from_str_radix(text, 16).ok().filter(|_| two);
        *byte = parsed.ok_or_else(|| wrong(Field::Mac, &digits.join(":")))?;
    }
    // A sender is one station, and not nobody.
    match mac[0] & 1 == 0 && mac != [0; 6] {
        true => Ok((mtu, Some(mac))),
        false => Err(wrong(Field::Mac, &digits.join(":"))),
    }
}

fn autoconf(word: &str, entry: &mut Entry) -> Result<(), IpError> {
    let (ipv4, ipv6) = match word {
        "dhcp" | "on" | "any" => (Some(Ipv4Addressing::Dhcp), None),
        "off" | "none" => (Some(Ipv4Addressing::Off), Some(Ipv6Addressing::LinkLocal)),
        "auto6" => (None, Some(Ipv6Addressing::Auto)),
        "link6" | "link-local" => (None, Some(Ipv6Addressing::LinkLocal)),
        "bootp" | "rarp" | "both" | "dhcp6" | "either6" | "ibft" | "single-dhcp" | "static" => {
            return Err(IpError::Unsupported(word.to_string()));
        }
        _ => return Err(IpError::Autoconf(word.to_string())),
    };
    entry.ipv4 = ipv4;
    entry.ipv6 = ipv6;
    Ok(())
}

/// An address field; empty is none. IPv6 needs brackets, since colons separate fields.
fn address(text: &str, field: Field) -> Result<Option<IpAddr>, IpError> {
    if text.is_empty() {
        return Ok(None);
    }
    let inner = text.strip_prefix('[').and_then(|text| text.strip_suffix(']'));
    let parsed = match inner {
        Some(inner) => inner.parse().ok().map(IpAddr::V6),
        None => text.parse().ok().map(IpAddr::V4),
    };
    match parsed {
        Some(address) => Ok(Some(address)),
        None => Err(IpError::Address(field, text.to_string())),
    }
}

fn usable(address: IpAddr) -> bool {
    let broadcast = matches!(address, IpAddr::V4(v4) if v4.is_broadcast() || v4.octets()[0] == 0);
    !(address.is_multicast() || address.is_unspecified() || address.is_loopback() || broadcast)
}

/// A prefix length, or a mask with all its ones in front.
fn prefix_v4(text: &str) -> Result<u8, IpError> {
    let Ok(mask) = text.parse::<Ipv4Addr>() else {
        return prefix_len(text, 32);
    };
    let ones = mask.to_bits().leading_ones();
    let contiguous = mask.to_bits().count_ones() == ones;
    match contiguous && ones > 0 {
        true => Ok(ones as u8),
        false => Err(IpError::Netmask(text.to_string())),
    }
}

fn prefix_len(text: &str, max: u8) -> Result<u8, IpError> {
    match text.parse::<u8>() {
        Ok(prefix) if (1..=max).contains(&prefix) => Ok(prefix),
        _ => Err(IpError::Netmask(text.to_string())),
    }
}

/// Prefix length by address class, Linux's choice when the netmask is missing (RFC 791, 2.3).
fn classful(address: Ipv4Addr) -> u8 {
    match address.octets()[0] {
        0..=127 => 8,
        128..=191 => 16,
        _ => 24,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn one(value: &str) -> Addressing {
        let mut plan = Plan::new();
        plan.add(value).unwrap_or_else(|e| panic!("{value}: {e}"));
        plan.addressing("eth0")
    }

    fn error(value: &str) -> IpError {
        Plan::new().add(value).unwrap_err()
    }

    fn v4(address: &str, prefix: u8, gateway: Option<&str>) -> Ipv4Addressing {
        let gateway = gateway.map(|text| text.parse().unwrap());
        Ipv4Addressing::Static { address: address.parse().unwrap(), prefix, gateway }
    }

    #[test]
    fn nothing_said_is_dhcp_and_advertisements() {
        let both = Addressing::default();
        assert_eq!((both.ipv4, both.ipv6), (Ipv4Addressing::Dhcp, Ipv6Addressing::Auto));
        assert_eq!(Plan::new().addressing("eth7"), both);
        for value in ["dhcp", "on", "any", "::::::dhcp", "eth0:dhcp", ":::::eth0:any", "::::::"] {
            assert_eq!(one(value), both, "{value}");
        }
    }

    #[test]
    fn off_means_off() {
        for value in ["off", "none", "::::::off", "eth0:none"] {
            let off = one(value);
            assert_eq!(off.ipv4, Ipv4Addressing::Off, "{value}");
            assert_eq!(off.ipv6, Ipv6Addressing::LinkLocal, "{value}");
        }
    }

    #[test]
    fn every_field_of_the_kernels_form() {
        let all = one(
            "192.0.2.9:192.0.2.1:192.0.2.254:255.255.255.128:oar:eth0:off:192.0.2.53:[2001:db8::53]:192.0.2.123",
        );
        assert_eq!(all.ipv4, v4("192.0.2.9", 25, Some("192.0.2.254")));
        assert_eq!(all.ipv6, Ipv6Addressing::Auto);
        assert_eq!(all.hostname.as_deref(), Some("oar"));
        let dns: [IpAddr; 2] = ["192.0.2.53".parse().unwrap(), "2001:db8::53".parse().unwrap()];
        assert_eq!(all.dns, dns);
        assert_eq!(all.ntp, Some("192.0.2.123".parse().unwrap()));
    }

    #[test]
    fn trailing_fields_may_be_missing() {
        assert_eq!(one("10.0.2.15").ipv4, v4("10.0.2.15", 8, None));
        assert_eq!(one("172.16.0.9::172.16.0.1").ipv4, v4("172.16.0.9", 16, Some("172.16.0.1")));
        assert_eq!(one("198.51.100.7::").ipv4, v4("198.51.100.7", 24, None));
        assert_eq!(one("10.0.2.15/24::10.0.2.2").ipv4, v4("10.0.2.15", 24, Some("10.0.2.2")));
        assert_eq!(one("10.0.2.15:::26").ipv4, v4("10.0.2.15", 26, None));
        assert_eq!(one("10.0.2.15:::255.255.255.255").ipv4, v4("10.0.2.15", 32, None));
    }

    #[test]
    fn ipv6_as_dracut_spells_it() {
        let address: Ipv6Addr = "2001:db8::5".parse().unwrap();
        let router = Some("2001:db8::1".parse().unwrap());
        for (value, prefix, gateway) in [
            ("[2001:db8::5]/48::[2001:db8::1]", 48, router),
            ("[2001:db8::5]::[2001:db8::1]:56:name:eth0:none", 56, router),
            ("[2001:db8::5]", 64, None),
            ("[2001:db8::5]/128:::::eth0:off", 128, None),
        ] {
            let one = one(value);
            assert_eq!(one.ipv6, Ipv6Addressing::Static { address, prefix, gateway }, "{value}");
            assert_eq!(one.ipv4, Ipv4Addressing::Off, "{value}");
        }
        assert_eq!(one("eth0:auto6").ipv6, Ipv6Addressing::Auto);
        assert_eq!(one("link6").ipv6, Ipv6Addressing::LinkLocal);
        assert_eq!(one("10.0.0.1:::24::eth0:link6").ipv6, Ipv6Addressing::LinkLocal);
    }

    #[test]
    fn an_mtu_and_an_ethernet_address_as_dracut_spells_them() {
        let mac = Some([0x52, 0x54, 0, 0xab, 0xcd, 0xef]);
        for (value, mtu, mac) in [
            ("eth0:dhcp:1400", Some(1400), None),
            ("eth0:dhcp::52:54:00:ab:cd:ef", None, mac),
            ("eth0:none:9000:52:54:00:AB:CD:EF", Some(9000), mac),
            ("10.0.0.2:::24::eth0:none:1400", Some(1400), None),
            ("10.0.0.2:::24::eth0:none::52:54:00:ab:cd:ef", None, mac),
            ("10.0.0.2:::24::eth0:none:1400:52:54:00:ab:cd:ef", Some(1400), mac),
            ("10.0.0.2:::24::eth0:none:10.0.0.1", None, None),
        ] {
            let one = one(value);
            assert_eq!((one.mtu, one.mac), (mtu, mac), "{value}");
        }
        let wrong = |field, text: &str| IpError::Address(field, text.to_string());
        for (value, told) in [
            ("eth0:dhcp:67", wrong(Field::Mtu, "67")),
            ("eth0:dhcp:70000", wrong(Field::Mtu, "70000")),
            ("eth0:dhcp:x", wrong(Field::Mtu, "x")),
            ("eth0:dhcp::53:54:00:ab:cd:ef", wrong(Field::Mac, "53:54:00:ab:cd:ef")),
            ("eth0:dhcp::0:0:0:0:0:0", wrong(Field::Mac, "0:0:0:0:0:0")),
            ("eth0:dhcp::00:00:00:00:00:00", wrong(Field::Mac, "00:00:00:00:00:00")),
            ("eth0:dhcp::+2:54:00:ab:cd:ef", wrong(Field::Mac, "+2:54:00:ab:cd:ef")),
            ("eth0:dhcp:1400:52:54", IpError::Fields),
        ] {
            assert_eq!(error(value), told, "{value}");
        }
    }

    #[test]
    fn several_cards_and_both_families() {
        let mut plan = Plan::new();
        plan.add("10.0.0.2::10.0.0.1:24::eth1:off").unwrap();
        plan.add("[2001:db8::2]/64::[2001:db8::1]:::eth1:none").unwrap();
        plan.add("eth2:dhcp").unwrap();
        plan.add("eth9:dhcp").unwrap();
        let eth0 = plan.addressing("eth0");
        assert_eq!((eth0.ipv4, eth0.ipv6), (Ipv4Addressing::Off, Ipv6Addressing::LinkLocal));
        let eth1 = plan.addressing("eth1");
        assert_eq!(eth1.ipv4, v4("10.0.0.2", 24, Some("10.0.0.1")));
        assert!(matches!(eth1.ipv6, Ipv6Addressing::Static { prefix: 64, .. }));
        assert_eq!(plan.addressing("eth2").ipv4, Ipv4Addressing::Dhcp);
        assert_eq!(plan.unused().collect::<Vec<_>>(), ["eth9"]);
    }

    #[test]
    fn given_address_without_a_device_is_the_first_cards() {
        let mut plan = Plan::new();
        plan.add("10.0.0.2:::24").unwrap();
        plan.add("eth0:dhcp").unwrap();
        assert_eq!(plan.addressing("eth0").ipv4, Ipv4Addressing::Dhcp);
        assert_eq!(plan.addressing("eth1").ipv4, v4("10.0.0.2", 24, None));
        assert_eq!(plan.addressing("eth2").ipv4, Ipv4Addressing::Off);

        let mut plan = Plan::new();
        plan.add("dhcp").unwrap();
        for name in ["eth0", "eth1", "eth2"] {
            assert_eq!(plan.addressing(name).ipv4, Ipv4Addressing::Dhcp);
        }
    }

    #[test]
    fn mistakes_are_named() {
        let text = |text: &str| text.to_string();
        for (value, expected) in [
            ("10.0.0.256:::", IpError::Address(Field::Client, text("10.0.0.256"))),
            ("224.0.0.1", IpError::Address(Field::Client, text("224.0.0.1"))),
            ("127.0.0.1:::8", IpError::Address(Field::Client, text("127.0.0.1"))),
            ("[ff02::1]", IpError::Address(Field::Client, text("[ff02::1]"))),
            ("[10.0.0.1]", IpError::Address(Field::Client, text("[10.0.0.1]"))),
            ("10.0.0.1:x", IpError::Address(Field::Server, text("x"))),
            ("10.0.0.1::router", IpError::Address(Field::Gateway, text("router"))),
            ("10.0.0.1::[fe80::1]", IpError::Family(Field::Gateway, text("[fe80::1]"))),
            ("[fd00::1]::10.0.0.1", IpError::Family(Field::Gateway, text("10.0.0.1"))),
            ("10.0.0.1:::255.0.255.0", IpError::Netmask(text("255.0.255.0"))),
            ("10.0.0.1/33", IpError::Netmask(text("33"))),
            ("10.0.0.1/0", IpError::Netmask(text("0"))),
            ("[fd00::1]/129", IpError::Netmask(text("129"))),
            ("dhpc", IpError::Autoconf(text("dhpc"))),
            ("", IpError::Autoconf(text(""))),
            ("eth0:dhpc", IpError::Autoconf(text("dhpc"))),
            ("10.0.0.1:::::eth0:maybe", IpError::Autoconf(text("maybe"))),
            ("bootp", IpError::Unsupported(text("bootp"))),
            ("eth0:dhcp6", IpError::Unsupported(text("dhcp6"))),
            ("::::::dhcp:dns", IpError::Address(Field::Dns, text("dns"))),
            ("::::::dhcp:::pool.ntp.org", IpError::Address(Field::Ntp, text("pool.ntp.org"))),
            ("::::::dhcp::::", IpError::Fields),
            ("[fd00::1", IpError::Fields),
            ("[[fd00::1]]", IpError::Fields),
            ("2001:db8::1", IpError::Address(Field::Client, text("2001"))),
        ] {
            let seen = error(value);
            assert_eq!(seen, expected, "{value}");
            assert!(!seen.to_string().is_empty());
        }
    }

    #[test]
    fn second_address_for_a_card_is_refused_and_changes_nothing() {
        let mut plan = Plan::new();
        plan.add("10.0.0.2:::24::eth0:off").unwrap();
        let twice = plan.add("10.0.0.3:::24::eth0:off").unwrap_err();
        assert_eq!(twice, IpError::Twice { device: Some("eth0".into()) });
        assert_eq!(plan.add("dhcp"), Ok(()));
        assert_eq!(plan.add("10.0.0.9"), Err(IpError::Twice { device: None }));
        assert_eq!(plan.addressing("eth0").ipv4, v4("10.0.0.2", 24, None));
    }

    proptest::proptest! {
        #[test]
        fn any_text_is_read_or_refused(text in "[0-9a-f:/.\\[\\]eth]{0,60}|\\PC{0,40}") {
            let mut plan = Plan::new();
            let _ = plan.add(&text);
            let _ = plan.addressing("eth0");
        }
    }
}

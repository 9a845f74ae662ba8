//! IPv6 addresses of one interface: link-local, given, and made from router advertisements
//! (RFC 4862), with duplicate detection, default routers (RFC 4861, RFC 4191) and name servers
//! (RFC 8106).
//!
//! The stack calls [`Slaac::poll`] until it gives nothing whenever [`Slaac::due`] has passed, and sends
//! each message in ICMPv6 with hop limit 255, filling in the sum. Router advertisements whose sum and
//! hop limit it has checked go to [`Slaac::advertisement`]; the target of every neighbour advertisement,
//! and of every solicitation from the unspecified address, to [`Slaac::claimed`]. It answers
//! solicitations for addresses in [`Slaac::addresses`] itself. When [`Slaac::changed`] says so it
//! copies addresses, routers, name servers and MTU to the interface. [`Slaac::link_up`] begins anew.
//!
//! smoltcp's own `proto-ipv6-slaac` is not used: its timers stop or spin (a network without a
//! router keeps it busy for ever), it panics without a link-local address, and knows neither duplicates nor
//! name servers. Interface identifiers are those of the MAC (RFC 2464, 4), so that the appliance
//! can be found from its label; there are no temporary addresses. Deviation: the first messages are
//! not delayed at random, so that an address is there one second after boot.

use crate::ipconfig::Ipv6Addressing;
use crate::order::sort_short;
use alloc::vec::Vec;
use core::net::Ipv6Addr;
use smoltcp::time::{Duration, Instant};
use trireme_nic::MacAddress;

const ALL_ROUTERS: Ipv6Addr = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 2);
/// How long a tentative address waits for objections (RFC 4861's `RETRANS_TIMER`).
const OBJECTION_TIME: Duration = Duration::from_secs(1);
/// Between solicitations: first and longest (RFC 7559).
const FIRST_SOLICITATION: Duration = Duration::from_secs(4);
const LAST_SOLICITATION: Duration = Duration::from_secs(3600);
/// An unauthenticated advertisement cannot bring an address closer to its end (RFC 4862, 5.5.3 e).
const TWO_HOURS: Duration = Duration::from_secs(7200);
/// Addresses made from advertised prefixes.
const MAX_PREFIXES: usize = 4;
const MAX_ROUTERS: usize = 4;
const MAX_DNS: usize = 3;

/// ICMPv6 types (RFC 4861, 4).
const ROUTER_SOLICITATION: u8 = 133;
const ROUTER_ADVERTISEMENT: u8 = 134;
const NEIGHBOUR_SOLICITATION: u8 = 135;

/// An ICMPv6 message with a zero sum, for hop limit 255.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outgoing {
    /// `::` while our address is tentative.
    pub source: Ipv6Addr,
    /// A multicast group.
    pub destination: Ipv6Addr,
    /// From the type on.
    pub message: Vec<u8>,
}

/// What happened so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Router solicitations sent.
    pub solicitations: u64,
    /// Router advertisements taken.
    pub advertisements: u64,
    /// Advertisements, or options in them, that cannot be.
    pub invalid: u64,
    /// Prefixes, routers or name servers beyond what is kept.
    pub overflow: u64,
    /// Addresses of ours that somebody else had.
    pub duplicates: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    /// To be asked about.
    New,
    /// Asked about; ours unless somebody objects until then.
    Tentative(Instant),
    /// Ours.
    Ours,
    /// Somebody else's.
    Duplicate,
}

#[derive(Clone, Copy, Debug)]
struct Held {
    address: Ipv6Addr,
    prefix: u8,
    stage: Stage,
    advertised: bool,
    /// `None`: for ever.
    valid_until: Option<Instant>,
    /// `None`: for ever, or over already.
    preferred_until: Option<Instant>,
    /// Not to be used for new connections if there is another.
    deprecated: bool,
}

#[derive(Clone, Copy, Debug)]
struct Router {
    address: Ipv6Addr,
    /// High 1, medium 0, low -1.
    preference: i8,
    /// `None`: given in the configuration.
    until: Option<Instant>,
}

#[derive(Clone, Copy, Debug)]
struct NameServer {
    address: Ipv6Addr,
    until: Option<Instant>,
}

/// The IPv6 configuration of one interface.
#[derive(Debug)]
pub struct Slaac {
    mac: MacAddress,
    listens: bool,
    held: Vec<Held>,
    routers: Vec<Router>,
    dns: Vec<NameServer>,
    mtu: Option<u16>,
    /// When to ask for routers, and how long to wait after that.
    solicit: Option<(Instant, Duration)>,
    changed: bool,
    counters: Counters,
}

impl Slaac {
    /// Begins with the link-local address, and a given one if there is one.
    pub fn new(mac: MacAddress, addressing: Ipv6Addressing, now: Instant) -> Slaac {
        let mut slaac = Slaac {
            mac,
            listens: addressing == Ipv6Addressing::Auto,
            held: Vec::new(),
            routers: Vec::new(),
            dns: Vec::new(),
            mtu: None,
            solicit: None,
            changed: false,
            counters: Counters::default(),
        };
        slaac.hold(with_interface_id(Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, 0), mac), 64);
        if let Ipv6Addressing::Static { address, prefix, gateway } = addressing {
            slaac.hold(address, prefix);
            let router = |address| Router { address, preference: 0, until: None };
            slaac.routers.extend(gateway.map(router));
        }
        slaac.link_up(now);
        slaac
    }

    fn hold(&mut self, address: Ipv6Addr, prefix: u8) {
        self.held.push(Held {
            address,
            prefix,
            stage: Stage::New,
            advertised: false,
            valid_until: None,
            preferred_until: None,
            deprecated: false,
        });
    }

    /// The link came up, perhaps to another network: asks for duplicates and routers again. What was
    /// advertised stays until it expires.
    pub fn link_up(&mut self, now: Instant) {
        for held in &mut self.held {
            held.stage = Stage::New;
        }
        self.changed = true;
        self.solicit = self.listens.then_some((now, FIRST_SOLICITATION));
    }

    /// True once after anything below has changed.
    pub fn changed(&mut self) -> bool {
        core::mem::take(&mut self.changed)
    }

    /// Our addresses with the lengths of their networks' prefixes (128 if the network is not on
    /// the link), preferred ones first.
    pub fn addresses(&self) -> impl Iterator<Item = (Ipv6Addr, u8)> {
        let ours = |deprecated: bool| {
            let fits =
                move |held: &&Held| held.stage == Stage::Ours && held.deprecated == deprecated;
            self.held.iter().filter(fits).map(|held| (held.address, held.prefix))
        };
        ours(false).chain(ours(true))
    }

    /// Default routers, best first.
    pub fn routers(&self) -> impl Iterator<Item = Ipv6Addr> {
        self.routers.iter().map(|router| router.address)
    }

    /// Advertised name servers.
    pub fn dns(&self) -> impl Iterator<Item = Ipv6Addr> {
        self.dns.iter().map(|server| server.address)
    }

    /// Advertised MTU, at least 1280.
    pub fn mtu(&self) -> Option<u16> {
        self.mtu
    }

    /// What happened so far.
    pub fn counters(&self) -> Counters {
        self.counters
    }

    /// When [`poll`](Self::poll) has something to do.
    pub fn due(&self) -> Option<Instant> {
        let stages = self.held.iter().filter_map(|held| match held.stage {
            Stage::New => Some(Instant::ZERO),
            Stage::Tentative(until) => Some(until),
            Stage::Ours | Stage::Duplicate => None,
        });
        let ends = self.held.iter().flat_map(|held| [held.valid_until, held.preferred_until]);
        let routers = self.routers.iter().filter_map(|router| router.until);
        let dns = self.dns.iter().filter_map(|server| server.until);
        let solicit = self.solicit.iter().map(|(at, _)| *at);
        stages.chain(ends.flatten()).chain(routers).chain(dns).chain(solicit).min()
    }

    /// Does what is due; gives the next message to send. `random` is fresh at every call.
    pub fn poll(&mut self, now: Instant, random: u32) -> Option<Outgoing> {
        self.expire(now);
        let mut ask = None;
        for held in &mut self.held {
            match held.stage {
                Stage::New if ask.is_none() => {
                    held.stage = Stage::Tentative(now + OBJECTION_TIME);
                    ask = Some(held.address);
                }
                Stage::Tentative(until) if until <= now => {
                    held.stage = Stage::Ours;
                    self.changed = true;
                }
                _ => {}
            }
        }
        if let Some(target) = ask {
            return Some(ask_for_owner(target));
        }
        let (at, pause) = self.solicit?;
        if now < at {
            return None;
        }
        // Nine to eleven tenths (RFC 7559, 2.1).
        let tenth = pause.total_micros() / 10;
        let spread = (tenth * 2 * u64::from(random >> 16)) >> 16;
        let next = now + Duration::from_micros(pause.total_micros() - tenth + spread);
        self.solicit = Some((next, (pause * 2).min(LAST_SOLICITATION)));
        self.counters.solicitations += 1;
        Some(self.solicitation())
    }

    fn solicitation(&self) -> Outgoing {
        let mut message = alloc::vec![ROUTER_SOLICITATION, 0, 0, 0, 0, 0, 0, 0];
        let link_local = self.held.first().filter(|held| held.stage == Stage::Ours);
        let source = match link_local {
            Some(held) => {
                // Our link-layer address; only with an address to go with it (RFC 4861, 4.1).
                message.extend([1, 1]);
                message.extend(self.mac);
                held.address
            }
            None => Ipv6Addr::UNSPECIFIED,
        };
        Outgoing { source, destination: ALL_ROUTERS, message }
    }

    fn expire(&mut self, now: Instant) {
        let past = |until: Option<Instant>| until.is_some_and(|until| until <= now);
        for held in self.held.iter_mut().filter(|held| past(held.preferred_until)) {
            held.preferred_until = None;
            held.deprecated = true;
            self.changed = true;
        }
        let before = (self.held.len(), self.routers.len(), self.dns.len());
        self.held.retain(|held| !past(held.valid_until));
        self.routers.retain(|router| !past(router.until));
        self.dns.retain(|server| !past(server.until));
        let after = (self.held.len(), self.routers.len(), self.dns.len());
        if before != after {
            self.changed = true;
            if self.listens && before.1 > 0 && after.1 == 0 {
                self.solicit.get_or_insert((now, FIRST_SOLICITATION));
            }
        }
    }

    /// Somebody spoke for `address`: a neighbour advertisement with this target, or a solicitation
    /// for it from the unspecified address. If it is tentative here it is not ours.
    pub fn claimed(&mut self, address: Ipv6Addr) {
        for held in &mut self.held {
            if held.address == address && matches!(held.stage, Stage::New | Stage::Tentative(_)) {
                held.stage = Stage::Duplicate;
                self.counters.duplicates += 1;
                self.changed = true;
            }
        }
    }

    /// Takes a router advertisement (an ICMPv6 message) that came from `source`.
    pub fn advertisement(&mut self, source: Ipv6Addr, message: &[u8], now: Instant) {
        if !self.listens {
            return;
        }
        if self.take(source, message, now).is_none() {
            self.counters.invalid += 1;
            return;
        }
        self.counters.advertisements += 1;
        self.expire(now);
    }

    fn take(&mut self, source: Ipv6Addr, message: &[u8], now: Instant) -> Option<()> {
        // RFC 4861, 6.1.2.
        let fixed: &[u8; 16] = message.first_chunk()?;
        if fixed[0] != ROUTER_ADVERTISEMENT || fixed[1] != 0 || !is_link_local(source) {
            return None;
        }
        let options = message.get(16..)?;
        let mut rest = options;
        while !rest.is_empty() {
            rest = split_option(rest)?.1;
        }

        let lifetime = u32::from(u16::from_be_bytes([fixed[6], fixed[7]]));
        let preference = match (fixed[5] >> 3) & 3 {
            1 => 1,
            3 => -1,
            _ => 0,
        };
        self.take_router(source, preference, lifetime, now);
        if lifetime > 0 {
            self.solicit = None;
        }
        let mut rest = options;
        while let Some((option, after)) = split_option(rest) {
            rest = after;
            let valid = match option[0] {
                3 => self.take_prefix(option, now),
                5 => self.take_mtu(option),
                25 => self.take_dns(option, now),
                _ => Some(()),
            };
            if valid.is_none() {
                self.counters.invalid += 1;
            }
        }
        Some(())
    }

    fn take_router(&mut self, address: Ipv6Addr, preference: i8, lifetime: u32, now: Instant) {
        let until = Some(now + Duration::from_secs(u64::from(lifetime)));
        let new = Router { address, preference, until };
        let full = self.routers.len() >= MAX_ROUTERS;
        match self.routers.iter_mut().find(|router| router.address == address) {
            Some(router) => {
                self.changed |= router.preference != preference;
                *router = new;
            }
            None if lifetime == 0 => return,
            None if full => {
                self.counters.overflow += 1;
                return;
            }
            None => {
                self.routers.push(new);
                self.changed = true;
            }
        }
        // Stable: of equals the one heard first.
        sort_short(&mut self.routers, |router| -router.preference);
    }

    /// RFC 4862, 5.5.3.
    fn take_prefix(&mut self, option: &[u8], now: Instant) -> Option<()> {
        let option: &[u8; 32] = option.try_into().ok()?;
        let (on_link, autonomous) = (option[3] & 0x80 != 0, option[3] & 0x40 != 0);
        let [valid, preferred] = [4, 8].map(|at| be32(option, at));
        let mut prefix = [0; 16];
        prefix[..8].copy_from_slice(&option[16..24]);
        let prefix = Ipv6Addr::from(prefix);
        if !autonomous {
            return Some(());
        }
        if is_link_local(prefix) || prefix.is_multicast() || prefix.is_unspecified() {
            return None;
        }
        if option[2] != 64 || preferred > valid {
            return None;
        }
        let address = with_interface_id(prefix, self.mac);
        if let Some(held) = self.held.iter_mut().find(|held| held.address == address) {
            let left = held
                .valid_until
                .map(|until| if until > now { until - now } else { Duration::ZERO });
            let told = Duration::from_secs(u64::from(valid));
            if valid == u32::MAX || told > TWO_HOURS || left.is_some_and(|left| told > left) {
                held.valid_until = until(valid, now);
            } else if left.is_none_or(|left| left > TWO_HOURS) {
                held.valid_until = Some(now + TWO_HOURS);
            }
            let prefix = if on_link { 64 } else { 128 };
            self.changed |= held.prefix != prefix;
            held.prefix = prefix;
            held.preferred_until = until(preferred, now);
            self.changed |= held.deprecated && preferred > 0;
            held.deprecated &= preferred == 0;
            return Some(());
        }
        if valid == 0 {
            return Some(());
        }
        if self.held.iter().filter(|held| held.advertised).count() >= MAX_PREFIXES {
            self.counters.overflow += 1;
            return Some(());
        }
        self.held.push(Held {
            address,
            prefix: if on_link { 64 } else { 128 },
            stage: Stage::New,
            advertised: true,
            valid_until: until(valid, now),
            preferred_until: until(preferred, now),
            deprecated: false,
        });
        Some(())
    }

    fn take_mtu(&mut self, option: &[u8]) -> Option<()> {
        let option: &[u8; 8] = option.try_into().ok()?;
        // Larger than the link's is for the stack to see; it knows the card.
        let mtu = u16::try_from(be32(option, 4)).ok().filter(|mtu| *mtu >= 1280)?;
        self.changed |= self.mtu != Some(mtu);
        self.mtu = Some(mtu);
        Some(())
    }

    /// RFC 8106, 5.1.
    fn take_dns(&mut self, option: &[u8], now: Instant) -> Option<()> {
        let lifetime = be32(option.first_chunk::<8>()?, 4);
        let (addresses, rest) = option.get(8..)?.as_chunks::<16>();
        if addresses.is_empty() || !rest.is_empty() {
            return None;
        }
        for address in addresses {
            let address = Ipv6Addr::from(*address);
            if address.is_multicast() || address.is_unspecified() {
                return None;
            }
            let new = NameServer { address, until: until(lifetime, now) };
            let full = self.dns.len() >= MAX_DNS;
            match self.dns.iter_mut().find(|server| server.address == address) {
                Some(server) => *server = new,
                None if lifetime == 0 => {}
                None if full => self.counters.overflow += 1,
                None => {
                    self.dns.push(new);
                    self.changed = true;
                }
            }
        }
        Some(())
    }
}

/// The end of a lifetime in seconds; all ones is for ever.
fn until(lifetime: u32, now: Instant) -> Option<Instant> {
    (lifetime != u32::MAX).then(|| now + Duration::from_secs(u64::from(lifetime)))
}

fn be32<const N: usize>(bytes: &[u8; N], at: usize) -> u32 {
    u32::from_be_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
}

/// The first option, from its type on, and the rest. `None` if it has length 0 or does not fit.
fn split_option(options: &[u8]) -> Option<(&[u8], &[u8])> {
    let len = usize::from(*options.get(1)?) * 8;
    (len > 0).then(|| options.split_at_checked(len))?
}

/// A solicitation for an address we want, from nobody (RFC 4862, 5.4.2).
fn ask_for_owner(target: Ipv6Addr) -> Outgoing {
    let mut message = alloc::vec![NEIGHBOUR_SOLICITATION, 0, 0, 0, 0, 0, 0, 0];
    message.extend(target.octets());
    let [.., high, low] = target.segments();
    // The solicited-node group (RFC 4291, 2.7.1).
    let destination = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 1, 0xff00 | (high & 0xff), low);
    Outgoing { source: Ipv6Addr::UNSPECIFIED, destination, message }
}

/// Puts the interface identifier of a MAC behind a 64-bit prefix (RFC 2464, 4).
fn with_interface_id(prefix: Ipv6Addr, mac: MacAddress) -> Ipv6Addr {
    let mut octets = prefix.octets();
    octets[8..].copy_from_slice(&[mac[0] ^ 2, mac[1], mac[2], 0xff, 0xfe, mac[3], mac[4], mac[5]]);
    Ipv6Addr::from(octets)
}

fn is_link_local(address: Ipv6Addr) -> bool {
    address.segments()[0] & 0xffc0 == 0xfe80
}

#[cfg(test)]
mod tests {
    use super::*;

    const MAC: MacAddress = [0x02, 0x34, 0x56, 0x78, 0x9a, 0xbc];
    const US: &str = "fe80::34:56ff:fe78:9abc";

    /// An ICMPv6 message of scapy's making, sum zeroed.
    fn scapy(name: &str) -> Vec<u8> {
        let line = include_str!("../tests/vectors/ndp.txt")
            .lines()
            .find_map(|line| line.strip_prefix(name)?.strip_prefix(' '))
            .unwrap();
        let byte = |i| u8::from_str_radix(&line[i..i + 2], 16).unwrap();
        let mut message: Vec<u8> = (0..line.len()).step_by(2).map(byte).collect();
        message[2..4].fill(0);
        message
    }

    fn ip(text: &str) -> Ipv6Addr {
        text.parse().unwrap()
    }

    fn at(seconds: u64) -> Instant {
        Instant::from_secs(seconds as i64)
    }

    fn router() -> Ipv6Addr {
        ip("fe80::1")
    }

    fn drain(slaac: &mut Slaac, now: Instant) -> Vec<Outgoing> {
        let mut all = Vec::new();
        while let Some(message) = slaac.poll(now, 0x8000_0000) {
            all.push(message);
            assert!(all.len() < 20, "endless");
        }
        all
    }

    fn addresses(slaac: &Slaac) -> Vec<String> {
        slaac.addresses().map(|(address, prefix)| format!("{address}/{prefix}")).collect()
    }

    /// With the second of boot over.
    fn settled() -> Slaac {
        let mut slaac = Slaac::new(MAC, Ipv6Addressing::Auto, at(0));
        drain(&mut slaac, at(0));
        slaac.advertisement(router(), &scapy("advertisement"), at(0));
        drain(&mut slaac, at(0));
        drain(&mut slaac, at(1));
        slaac
    }

    #[test]
    fn boot_as_scapy_writes_it() {
        let mut slaac = Slaac::new(MAC, Ipv6Addressing::Auto, at(0));
        let sent = drain(&mut slaac, at(0));
        assert_eq!(sent.len(), 2);
        assert_eq!(sent[0].message, scapy("duplicate?"));
        assert_eq!(sent[0].destination, ip("ff02::1:ff78:9abc"));
        assert_eq!(sent[1].message, scapy("solicitation-early"));
        assert_eq!(sent[1].destination, ip("ff02::2"));
        assert!(sent.iter().all(|message| message.source.is_unspecified()));
        assert_eq!(slaac.due(), Some(at(1)));
        assert!(addresses(&slaac).is_empty());

        assert!(drain(&mut slaac, at(1)).is_empty());
        assert!(slaac.changed() && !slaac.changed());
        assert_eq!(addresses(&slaac), [format!("{US}/64")]);
        let sent = drain(&mut slaac, at(4));
        assert_eq!(sent[0].message, scapy("solicitation"));
        assert_eq!(sent[0].source, ip(US));
    }

    #[test]
    fn advertisement_gives_all_it_has() {
        let mut slaac = settled();
        assert!(slaac.changed());
        let global = "2001:db8:1:2:34:56ff:fe78:9abc/64".to_string();
        let off_link = "2001:db8:3:0:34:56ff:fe78:9abc/128".to_string();
        assert_eq!(addresses(&slaac), [format!("{US}/64"), global, off_link]);
        assert_eq!(slaac.routers().collect::<Vec<_>>(), [router()]);
        let dns: Vec<_> = slaac.dns().collect();
        assert_eq!(dns, [ip("2001:db8::53"), ip("2001:db8::5353")]);
        assert_eq!(slaac.mtu(), Some(1400));
        assert_eq!(slaac.counters().advertisements, 1);
        // Repeated, it changes nothing but the time.
        slaac.advertisement(router(), &scapy("advertisement"), at(2));
        assert!(!slaac.changed());
        assert!(slaac.due().unwrap() > at(2));
    }

    #[test]
    fn everything_expires() {
        let mut slaac = settled();
        slaac.changed();
        assert_eq!(slaac.due(), Some(at(600)), "name servers");
        drain(&mut slaac, at(600));
        assert_eq!(slaac.dns().count(), 0);
        assert_eq!(slaac.due(), Some(at(1800)), "router");
        let sent = drain(&mut slaac, at(1800));
        assert_eq!(sent[0].message, scapy("solicitation"), "without a router we ask again");
        assert_eq!(slaac.routers().count(), 0);
        // Deprecated first, then gone.
        assert_eq!(addresses(&slaac)[1], "2001:db8:1:2:34:56ff:fe78:9abc/64");
        assert!(slaac.changed());
        drain(&mut slaac, at(14400));
        assert!(slaac.changed());
        assert_eq!(addresses(&slaac)[2], "2001:db8:1:2:34:56ff:fe78:9abc/64");
        drain(&mut slaac, at(86400));
        assert_eq!(addresses(&slaac).len(), 2);
        assert!(slaac.changed());
    }

    #[test]
    fn network_without_a_router_is_asked_ever_more_rarely() {
        let mut slaac = Slaac::new(MAC, Ipv6Addressing::Auto, at(0));
        let mut sent = Vec::new();
        while sent.len() < 16 {
            let now = slaac.due().unwrap().max(at(0));
            sent.extend(
                drain(&mut slaac, now).into_iter().filter(|m| m.message[0] == 133).map(|_| now),
            );
        }
        let pauses: Vec<u64> = sent.windows(2).map(|two| (two[1] - two[0]).secs()).collect();
        assert_eq!(pauses[..4], [4, 8, 16, 32]);
        assert_eq!(pauses[14], 3600);
    }

    #[test]
    fn duplicates_are_not_used() {
        let mut slaac = Slaac::new(MAC, Ipv6Addressing::Auto, at(0));
        drain(&mut slaac, at(0));
        slaac.claimed(ip("fe80::77"));
        slaac.claimed(ip(US));
        slaac.claimed(ip(US));
        drain(&mut slaac, at(9));
        assert!(addresses(&slaac).is_empty());
        assert_eq!(slaac.counters().duplicates, 1);
        // Once it is ours, talk of others does not take it away.
        let mut slaac = settled();
        slaac.claimed(ip(US));
        assert_eq!(addresses(&slaac).len(), 3);
        // A new link asks anew.
        slaac.link_up(at(50));
        assert!(addresses(&slaac).is_empty());
        assert_eq!(drain(&mut slaac, at(50)).len(), 4);
        drain(&mut slaac, at(51));
        assert_eq!(addresses(&slaac).len(), 3);
    }

    #[test]
    fn given_address_and_link_local_only_ignore_routers() {
        let address = ip("2001:db8::5");
        let gateway = Some(ip("2001:db8::1"));
        let given = Ipv6Addressing::Static { address, prefix: 48, gateway };
        for (addressing, count) in [(given, 2), (Ipv6Addressing::LinkLocal, 1)] {
            let mut slaac = Slaac::new(MAC, addressing, at(0));
            assert_eq!(drain(&mut slaac, at(0)).len(), count);
            slaac.advertisement(router(), &scapy("advertisement"), at(0));
            drain(&mut slaac, at(1));
            assert_eq!(addresses(&slaac).len(), count);
            assert_eq!(
                slaac.routers().collect::<Vec<_>>(),
                gateway.map_or(vec![], |g| match count {
                    2 => vec![g],
                    _ => vec![],
                })
            );
            assert_eq!((slaac.due(), slaac.dns().count()), (None, 0));
        }
    }

    /// Changes bytes of the advertisement.
    fn changed(patches: &[(usize, &[u8])]) -> Vec<u8> {
        let mut message = scapy("advertisement");
        for (at, bytes) in patches {
            message[*at..*at + bytes.len()].copy_from_slice(bytes);
        }
        message
    }

    /// Offset of the `nth` option of a kind.
    fn option(kind: u8, nth: usize) -> usize {
        let message = scapy("advertisement");
        let (mut at, mut seen) = (16, 0);
        loop {
            if message[at] == kind {
                if seen == nth {
                    return at;
                }
                seen += 1;
            }
            at += usize::from(message[at + 1]) * 8;
        }
    }

    #[test]
    fn advertisements_that_cannot_be_are_refused_whole() {
        let mut slaac = Slaac::new(MAC, Ipv6Addressing::Auto, at(0));
        let good = scapy("advertisement");
        slaac.advertisement(ip("2001:db8::1"), &good, at(0));
        slaac.advertisement(router(), &good[..15], at(0));
        slaac.advertisement(router(), &good[..good.len() - 1], at(0));
        slaac.advertisement(router(), &changed(&[(1, &[1])]), at(0));
        slaac.advertisement(router(), &changed(&[(option(5, 0) + 1, &[0])]), at(0));
        assert_eq!(slaac.counters().invalid, 5);
        assert_eq!((slaac.routers().count(), slaac.mtu()), (0, None));
    }

    #[test]
    fn options_that_cannot_be_are_skipped() {
        let prefix = option(3, 0);
        for (patch, what) in [
            ((prefix + 2, &[63u8][..]), "length"),
            ((prefix + 8, &[0xff; 4][..]), "preferred beyond valid"),
            ((prefix + 16, &[0xfe, 0x80][..]), "link-local"),
            ((prefix + 16, &[0xff, 0x02][..]), "multicast"),
        ] {
            let mut slaac = Slaac::new(MAC, Ipv6Addressing::Auto, at(0));
            slaac.advertisement(router(), &changed(&[patch]), at(0));
            assert_eq!(slaac.counters().invalid, 1, "{what}");
            drain(&mut slaac, at(0));
            drain(&mut slaac, at(1));
            assert_eq!(addresses(&slaac).len(), 2, "{what}");
        }
        let mut slaac = Slaac::new(MAC, Ipv6Addressing::Auto, at(0));
        for mtu in [[0u8, 0, 4, 255], [0, 1, 0, 0]] {
            slaac.advertisement(router(), &changed(&[(option(5, 0) + 4, &mtu)]), at(0));
        }
        slaac.advertisement(router(), &changed(&[(option(25, 0) + 8, &[0xff])]), at(0));
        assert_eq!((slaac.counters().invalid, slaac.counters().advertisements), (3, 3));
    }

    #[test]
    fn lifetime_cannot_be_cut_short() {
        let prefix = option(3, 0);
        let valid = |seconds: u32| {
            let bytes = seconds.to_be_bytes();
            changed(&[(prefix + 4, &bytes), (prefix + 8, &bytes)])
        };
        let ends = |slaac: &Slaac| slaac.held[1].valid_until.unwrap();
        let mut slaac = settled();
        assert_eq!(ends(&slaac), at(86400));
        slaac.advertisement(router(), &valid(10), at(100));
        assert_eq!(ends(&slaac), at(7300), "two hours are left");
        slaac.advertisement(router(), &valid(10), at(200));
        assert_eq!(ends(&slaac), at(7300));
        slaac.advertisement(router(), &valid(7200), at(300));
        assert_eq!(ends(&slaac), at(7500), "more than is left");
        slaac.advertisement(router(), &valid(u32::MAX), at(300));
        assert_eq!(slaac.held[1].valid_until, None);
        slaac.advertisement(router(), &valid(0), at(400));
        assert_eq!(ends(&slaac), at(7600));
    }

    #[test]
    fn floods_of_routers_and_prefixes_are_bounded() {
        let mut slaac = Slaac::new(MAC, Ipv6Addressing::Auto, at(0));
        let prefix = option(3, 0);
        for i in 0..200u8 {
            let source = Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 1, u16::from(i) + 1);
            let message = changed(&[(prefix + 20, &[i]), (option(25, 0) + 20, &[i])]);
            slaac.advertisement(source, &message, at(0));
        }
        assert_eq!((slaac.routers().count(), slaac.dns().count()), (4, 3));
        assert_eq!(slaac.held.len(), 1 + MAX_PREFIXES);
        assert!(slaac.counters().overflow > 500);
    }

    #[test]
    fn better_router_comes_first_and_retired_one_goes() {
        let mut slaac = settled();
        let high = changed(&[(5, &[0x08])]);
        slaac.advertisement(ip("fe80::2"), &high, at(2));
        assert_eq!(slaac.routers().collect::<Vec<_>>(), [ip("fe80::2"), router()]);
        let low = changed(&[(5, &[0x18])]);
        slaac.advertisement(ip("fe80::2"), &low, at(2));
        assert_eq!(slaac.routers().collect::<Vec<_>>(), [router(), ip("fe80::2")]);
        slaac.advertisement(router(), &changed(&[(6, &[0, 0])]), at(3));
        assert_eq!(slaac.routers().collect::<Vec<_>>(), [ip("fe80::2")]);
    }

    proptest::proptest! {
        #[test]
        fn mutated_advertisements_never_panic_or_spin(
            changes in proptest::collection::vec((0..200usize, proptest::num::u8::ANY), 0..8),
            cut in 0..260usize,
        ) {
            let mut message = scapy("advertisement");
            for (at, value) in changes {
                if let Some(byte) = message.get_mut(at) {
                    *byte = value;
                }
            }
            message.truncate(cut);
            let mut slaac = Slaac::new(MAC, Ipv6Addressing::Auto, at(0));
            slaac.advertisement(router(), &message, at(0));
            for _ in 0..50 {
                let Some(due) = slaac.due() else { break };
                drain(&mut slaac, due);
                assert!(slaac.due().is_none_or(|next| next > due), "no progress");
            }
        }
    }
}

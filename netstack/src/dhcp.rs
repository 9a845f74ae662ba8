//! A DHCPv4 client (RFC 2131, RFC 2132) as a state machine: messages in, messages and events out.
//!
//! The stack calls [`Client::poll`] when [`Client::due`] has passed and sends each message it gives in
//! UDP from port 68 to 67: to the all-ones address as a link broadcast, or to a server through the
//! routing table. Every datagram from port 67 to 68, whatever its destination address (offers may be
//! sent to the address offered), goes to [`Client::receive`]. After either, [`Client::event`] says
//! whether the interface's address changed. When the link comes back, [`Client::link_up`] asks again
//! at once instead of waiting for a timer.
//!
//! smoltcp's own client is not used: it needs an Ethernet-medium interface, knows no default router if the
//! server names two, waits ten seconds before it repeats a lost first message, and ignores MTU and
//! NTP options. Its wire format is. Addresses a host cannot have, networks without a mask, leases
//! without a length and answers of servers that were not asked are ignored and counted. Deviation:
//! messages are repeated after 1 s at first, not 4 s, because links are often slow to pass
//! frames after they come up.

use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::net::Ipv4Addr;
use smoltcp::time::{Duration, Instant};
use smoltcp::wire::{DhcpMessageType, DhcpOption, DhcpPacket, DhcpRepr, EthernetAddress};
use trireme_nic::MacAddress;

/// Option numbers of RFC 2132.
mod option {
    pub(super) const SUBNET_MASK: u8 = 1;
    pub(super) const ROUTER: u8 = 3;
    pub(super) const DNS: u8 = 6;
    pub(super) const HOST_NAME: u8 = 12;
    pub(super) const DOMAIN_NAME: u8 = 15;
    pub(super) const MTU: u8 = 26;
    pub(super) const NTP: u8 = 42;
    pub(super) const LEASE_TIME: u8 = 51;
    pub(super) const MESSAGE_TYPE: u8 = 53;
    pub(super) const SERVER: u8 = 54;
    pub(super) const RENEWAL_TIME: u8 = 58;
    pub(super) const REBINDING_TIME: u8 = 59;
}

const WANTED: &[u8] = &[
    option::SUBNET_MASK,
    option::ROUTER,
    option::DNS,
    option::HOST_NAME,
    option::DOMAIN_NAME,
    option::MTU,
    option::NTP,
    option::RENEWAL_TIME,
    option::REBINDING_TIME,
];

/// Name or time servers kept.
const MAX_SERVERS: usize = 3;
/// Shortest message: old servers and relays drop what is shorter than BOOTP (RFC 1542, 2.1).
const MIN_LEN: usize = 300;
/// Longest message taken (option 57): what one Ethernet frame carries.
const MAX_LEN: u16 = 1472;
/// Before the first repetition.
const FIRST_RETRY: Duration = Duration::from_secs(1);
/// Between later ones (RFC 2131, 4.1).
const LAST_RETRY: Duration = Duration::from_secs(64);
/// Repetitions of a request before the client starts over.
const REQUESTS: u32 = 4;
/// Shortest time between renewals (RFC 2131, 4.4.5).
const RENEW_RETRY: Duration = Duration::from_secs(60);
/// Leases are at least this long, whatever the server says, or it could make us ask for ever.
const MIN_LEASE: Duration = Duration::from_secs(30);
/// Pause after a NAK.
const NAK_PAUSE: Duration = Duration::from_secs(1);

/// An address, and what came with it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lease {
    /// Our address.
    pub address: Ipv4Addr,
    /// Length of the network's prefix in bits.
    pub prefix: u8,
    /// Default router.
    pub router: Option<Ipv4Addr>,
    /// Name servers.
    pub dns: Vec<Ipv4Addr>,
    /// Time servers.
    pub ntp: Vec<Ipv4Addr>,
    /// MTU of the link, at least 576.
    pub mtu: Option<u16>,
    /// Our name.
    pub hostname: Option<String>,
    /// Our domain.
    pub domain: Option<String>,
    /// The server's identifier.
    pub server: Ipv4Addr,
    /// Length of the lease; `None` is for ever.
    pub duration: Option<Duration>,
}

/// The interface's address changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// It has this lease now, new or with new terms.
    Configured(Lease),
    /// The lease ran out or was taken back.
    Deconfigured,
}

/// A message for UDP, port 68 to 67.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outgoing {
    /// `0.0.0.0` before there is an address.
    pub source: Ipv4Addr,
    /// All ones: a broadcast on the link.
    pub destination: Ipv4Addr,
    /// UDP payload.
    pub payload: Vec<u8>,
}

/// What happened so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Messages sent.
    pub sent: u64,
    /// Answers taken.
    pub taken: u64,
    /// Refusals by the server.
    pub naks: u64,
    /// Messages that cannot be read, or say what cannot be.
    pub invalid: u64,
    /// Messages not for us, not asked for, or from another server.
    pub unexpected: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// Looking for servers.
    Selecting,
    /// Asking for what a server offered.
    Requesting { server: Ipv4Addr, address: Ipv4Addr },
    /// Asking whether the lease still holds after the link was away.
    Rebooting,
    /// Nothing to do until T1.
    Bound,
    /// Asking the server for more time.
    Renewing,
    /// Asking any server for more time.
    Rebinding,
}

/// A lease with its deadlines; without, it is for ever.
#[derive(Clone, Debug)]
struct Held {
    lease: Lease,
    times: Option<Times>,
}

#[derive(Clone, Copy, Debug)]
struct Times {
    renew_at: Instant,
    rebind_at: Instant,
    expires_at: Instant,
}

/// The client of one interface.
#[derive(Debug)]
pub struct Client {
    mac: MacAddress,
    hostname: String,
    state: State,
    held: Option<Held>,
    /// Of the present exchange; `None`: to be chosen.
    transaction: Option<u32>,
    /// When the present exchange began, for the `secs` field.
    began: Instant,
    /// Messages sent in the present state.
    tries: u32,
    /// When to act next; `None` only with a lease for ever.
    at: Option<Instant>,
    event: Option<Event>,
    counters: Counters,
}

impl Client {
    /// A client that begins at once. `hostname` is offered to the server; it may be empty.
    pub fn new(mac: MacAddress, hostname: &str, now: Instant) -> Client {
        // A DNS label's length: longer ones are nobody's name.
        let hostname = hostname.chars().take(63).filter(char::is_ascii).collect();
        Client {
            mac,
            hostname,
            state: State::Selecting,
            held: None,
            transaction: None,
            began: now,
            tries: 0,
            at: Some(now),
            event: None,
            counters: Counters::default(),
        }
    }

    /// When [`poll`](Self::poll) has something to do.
    pub fn due(&self) -> Option<Instant> {
        let expires_at = self.times().map(|times| times.expires_at);
        match (self.at, expires_at) {
            (Some(at), Some(expires_at)) => Some(at.min(expires_at)),
            (at, expires_at) => at.or(expires_at),
        }
    }

    /// The change since the last call, if any.
    pub fn event(&mut self) -> Option<Event> {
        self.event.take()
    }

    /// The lease in use.
    pub fn lease(&self) -> Option<&Lease> {
        self.held.as_ref().map(|held| &held.lease)
    }

    /// What happened so far.
    pub fn counters(&self) -> Counters {
        self.counters
    }

    /// The link came up: ask at once, for the address we had if there is one (RFC 2131, 4.4.2).
    pub fn link_up(&mut self, now: Instant) {
        let state = if self.held.is_some() { State::Rebooting } else { State::Selecting };
        self.enter(state, now, Some(now));
        self.transaction = None;
    }

    fn times(&self) -> Option<Times> {
        self.held.as_ref().and_then(|held| held.times)
    }

    fn enter(&mut self, state: State, now: Instant, at: Option<Instant>) {
        if !matches!(state, State::Requesting { .. }) {
            self.began = now;
        }
        self.state = state;
        self.tries = 0;
        self.at = at;
    }

    /// Starts over without a lease.
    fn restart(&mut self, now: Instant, at: Instant) {
        if self.held.take().is_some() {
            self.event = Some(Event::Deconfigured);
        }
        self.transaction = None;
        self.enter(State::Selecting, now, Some(at));
    }

    /// Does what is due; gives the message to send, at most one. `random` is fresh at every call.
    pub fn poll(&mut self, now: Instant, random: u32) -> Option<Outgoing> {
        if self.times().is_some_and(|times| times.expires_at <= now) {
            self.restart(now, now);
        }
        if self.at.is_none_or(|at| now < at) {
            return None;
        }
        match self.state {
            State::Requesting { .. } if self.tries >= REQUESTS => self.restart(now, now),
            // Nobody minds: the old lease is used on (RFC 2131, 3.2, step 4).
            State::Rebooting if self.tries >= REQUESTS => self.bind(now),
            State::Bound => self.enter(State::Renewing, now, Some(now)),
            _ => {}
        }
        if let (State::Renewing, Some(times)) = (self.state, self.times())
            && times.rebind_at <= now
        {
            self.enter(State::Rebinding, now, Some(now));
        }
        if self.state == State::Bound {
            return None;
        }
        // One number for an exchange: an answer to the first message counts when the second is out.
        let transaction = *self.transaction.get_or_insert(random);
        let message = self.message(transaction, now);
        self.at = Some(now + self.patience(now, random));
        self.tries += 1;
        self.counters.sent += 1;
        Some(message)
    }

    /// How long to wait for an answer to the message about to be sent.
    fn patience(&self, now: Instant, random: u32) -> Duration {
        if let (State::Renewing | State::Rebinding, Some(times)) = (self.state, self.times()) {
            let end = match self.state {
                State::Renewing => times.rebind_at,
                _ => times.expires_at,
            };
            let left = if end > now { end - now } else { Duration::ZERO };
            return (left / 2).max(RENEW_RETRY).min(left);
        }
        let base = (FIRST_RETRY * (1 << self.tries.min(6))).min(LAST_RETRY);
        // Three to five quarters of it, so that machines that start together spread out.
        let spread = (base.total_micros() / 2 * u64::from(random >> 16)) >> 16;
        base * 3 / 4 + Duration::from_micros(spread)
    }

    fn message(&self, transaction: u32, now: Instant) -> Outgoing {
        let ours = self.lease().map_or(Ipv4Addr::UNSPECIFIED, |lease| lease.address);
        let server = self.lease().map_or(Ipv4Addr::BROADCAST, |lease| lease.server);
        let mac = EthernetAddress(self.mac);
        let name = [DhcpOption { kind: option::HOST_NAME, data: self.hostname.as_bytes() }];
        let mut repr = DhcpRepr {
            message_type: DhcpMessageType::Request,
            transaction_id: transaction,
            secs: (now - self.began).secs().min(0xffff) as u16,
            client_hardware_address: mac,
            client_ip: Ipv4Addr::UNSPECIFIED,
            your_ip: Ipv4Addr::UNSPECIFIED,
            server_ip: Ipv4Addr::UNSPECIFIED,
            router: None,
            subnet_mask: None,
            relay_agent_ip: Ipv4Addr::UNSPECIFIED,
            broadcast: false,
            requested_ip: None,
            client_identifier: Some(mac),
            server_identifier: None,
            parameter_request_list: Some(WANTED),
            dns_servers: None,
            max_size: Some(MAX_LEN),
            lease_duration: None,
            renew_duration: None,
            rebind_duration: None,
            additional_options: if self.hostname.is_empty() { &[] } else { &name },
        };
        let (mut source, mut destination) = (Ipv4Addr::UNSPECIFIED, Ipv4Addr::BROADCAST);
        // Which fields go with which state: RFC 2131, table 5.
        match self.state {
            State::Selecting | State::Bound => repr.message_type = DhcpMessageType::Discover,
            State::Requesting { server, address } => {
                repr.requested_ip = Some(address);
                repr.server_identifier = Some(server);
            }
            State::Rebooting => repr.requested_ip = Some(ours),
            State::Renewing => {
                (source, destination) = (ours, server);
                repr.client_ip = ours;
            }
            State::Rebinding => {
                source = ours;
                repr.client_ip = ours;
            }
        }
        let mut payload = alloc::vec![0; repr.buffer_len().max(MIN_LEN)];
        // It fits: the length is the representation's own.
        let written = repr.emit(&mut DhcpPacket::new_unchecked(&mut payload[..]));
        debug_assert!(written.is_ok());
        Outgoing { source, destination, payload }
    }

    /// Takes a UDP payload that came from port 67 to 68.
    pub fn receive(&mut self, payload: &[u8], now: Instant) {
        let Some(answer) = Answer::parse(payload) else {
            self.counters.invalid += 1;
            return;
        };
        if answer.mac != self.mac || self.transaction != Some(answer.transaction) {
            self.counters.unexpected += 1;
            return;
        }
        use DhcpMessageType::{Ack, Nak, Offer};
        let taken = match (self.state, answer.kind) {
            (State::Selecting, Offer) => self.offered(&answer, now),
            (State::Requesting { server, address }, Ack) if answer.server == Some(server) => {
                self.acknowledged(&answer, Some(address), now)
            }
            (State::Renewing, Ack) if answer.server == self.lease().map(|lease| lease.server) => {
                self.acknowledged(&answer, self.lease().map(|lease| lease.address), now)
            }
            (State::Rebinding | State::Rebooting, Ack) => {
                self.acknowledged(&answer, self.lease().map(|lease| lease.address), now)
            }
            (State::Requesting { server, .. }, Nak) if answer.server == Some(server) => {
                self.refused(now)
            }
            (State::Renewing | State::Rebinding | State::Rebooting, Nak) => self.refused(now),
            _ => {
                self.counters.unexpected += 1;
                return;
            }
        };
        match taken {
            Some(()) => self.counters.taken += 1,
            None => self.counters.invalid += 1,
        }
    }

    fn offered(&mut self, answer: &Answer<'_>, now: Instant) -> Option<()> {
        let server = answer.server?;
        usable(answer.address).then_some(())?;
        self.enter(State::Requesting { server, address: answer.address }, now, Some(now));
        Some(())
    }

    fn refused(&mut self, now: Instant) -> Option<()> {
        self.counters.naks += 1;
        self.restart(now, now + NAK_PAUSE);
        Some(())
    }

    fn acknowledged(
        &mut self,
        answer: &Answer<'_>,
        expected: Option<Ipv4Addr>,
        now: Instant,
    ) -> Option<()> {
        if Some(answer.address) != expected {
            return None;
        }
        let lease = answer.lease()?;
        let times = lease.duration.map(|duration| answer.times(duration, now));
        if self.held.as_ref().is_none_or(|held| held.lease != lease) {
            self.event = Some(Event::Configured(lease.clone()));
        }
        self.held = Some(Held { lease, times });
        self.bind(now);
        Some(())
    }

    fn bind(&mut self, now: Instant) {
        self.transaction = None;
        let renew_at = self.times().map(|times| times.renew_at);
        self.enter(State::Bound, now, renew_at);
    }
}

/// A server's message.
struct Answer<'a> {
    packet: DhcpPacket<&'a [u8]>,
    kind: DhcpMessageType,
    mac: MacAddress,
    transaction: u32,
    address: Ipv4Addr,
    server: Option<Ipv4Addr>,
}

impl<'a> Answer<'a> {
    fn parse(payload: &'a [u8]) -> Option<Answer<'a>> {
        use smoltcp::wire::ArpHardware;
        const BOOT_REPLY: u8 = 2;
        const MAGIC: u32 = 0x6382_5363;
        let packet = DhcpPacket::new_checked(payload).ok()?;
        if u8::from(packet.opcode()) != BOOT_REPLY
            || packet.hardware_type() != ArpHardware::Ethernet
            || packet.hardware_len() != 6
            || packet.magic_number() != MAGIC
        {
            return None;
        }
        let EthernetAddress(mac) = packet.client_hardware_address();
        let mut answer = Answer {
            kind: DhcpMessageType::Unknown(0),
            mac,
            transaction: packet.transaction_id(),
            address: packet.your_ip(),
            server: None,
            packet,
        };
        let [kind] = answer.option(option::MESSAGE_TYPE)?;
        answer.kind = DhcpMessageType::from(kind);
        answer.server = answer.option(option::SERVER).map(Ipv4Addr::from).filter(|a| usable(*a));
        Some(answer)
    }

    /// An option of exactly `N` bytes.
    fn option<const N: usize>(&self, kind: u8) -> Option<[u8; N]> {
        self.packet.options().find(|option| option.kind == kind)?.data.try_into().ok()
    }

    fn addresses(&self, kind: u8) -> Vec<Ipv4Addr> {
        let data = self.packet.options().find(|option| option.kind == kind);
        let (addresses, _) = data.map_or(&[][..], |option| option.data).as_chunks::<4>();
        let addresses = addresses.iter().map(|bytes| Ipv4Addr::from(*bytes));
        addresses.filter(|address| usable(*address)).take(MAX_SERVERS).collect()
    }

    fn text(&self, kind: u8) -> Option<String> {
        let data = self.packet.options().find(|option| option.kind == kind)?.data;
        let text = core::str::from_utf8(data).ok()?.trim_end_matches('\0');
        let name = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
        (!text.is_empty() && text.chars().all(name)).then(|| text.to_string())
    }

    fn seconds(&self, kind: u8) -> Option<u32> {
        self.option(kind).map(u32::from_be_bytes)
    }

    fn lease(&self) -> Option<Lease> {
        let server = self.server?;
        usable(self.address).then_some(())?;
        let mask = Ipv4Addr::from(self.option::<4>(option::SUBNET_MASK)?).to_bits();
        let prefix = mask.leading_ones();
        if mask.count_ones() != prefix || prefix == 0 {
            return None;
        }
        // In RFC 2131, 3.3, all ones is for ever.
        let duration = match self.seconds(option::LEASE_TIME)? {
            u32::MAX => None,
            seconds => Some(Duration::from_secs(u64::from(seconds)).max(MIN_LEASE)),
        };
        let router = self.addresses(option::ROUTER).into_iter().find(|a| *a != self.address);
        let mtu = self.option(option::MTU).map(u16::from_be_bytes).filter(|mtu| *mtu >= 576);
        Some(Lease {
            address: self.address,
            prefix: prefix as u8,
            router,
            dns: self.addresses(option::DNS),
            ntp: self.addresses(option::NTP),
            mtu,
            hostname: self.text(option::HOST_NAME),
            domain: self.text(option::DOMAIN_NAME),
            server,
            duration,
        })
    }

    /// T1, T2 and the end; the server's T1 and T2 only if they are in order (RFC 2131, 4.4.5).
    fn times(&self, duration: Duration, now: Instant) -> Times {
        let told = |kind| self.seconds(kind).map(|s| Duration::from_secs(u64::from(s)));
        let mut rebind = told(option::REBINDING_TIME).unwrap_or(duration * 7 / 8);
        let mut renew = told(option::RENEWAL_TIME).unwrap_or(duration / 2);
        if !(Duration::ZERO < renew && renew < rebind && rebind < duration) {
            (renew, rebind) = (duration / 2, duration * 7 / 8);
        }
        Times { renew_at: now + renew, rebind_at: now + rebind, expires_at: now + duration }
    }
}

/// Can a host have this address?
fn usable(address: Ipv4Addr) -> bool {
    let first = address.octets()[0];
    first != 0 && first != 127 && first < 224
}

#[cfg(test)]
mod tests {
    use super::*;

    const MAC: MacAddress = [2, 0, 0, 0, 0, 1];
    const XID: u32 = 0x1122_3344;

    /// A message of scapy's making.
    fn scapy(name: &str) -> Vec<u8> {
        let line = include_str!("../tests/vectors/dhcp.txt")
            .lines()
            .find_map(|line| line.strip_prefix(name)?.strip_prefix(' '))
            .unwrap();
        let byte = |i| u8::from_str_radix(&line[i..i + 2], 16).unwrap();
        (0..line.len()).step_by(2).map(byte).collect()
    }

    /// With another transaction number.
    fn answer(name: &str, transaction: u32) -> Vec<u8> {
        let mut message = scapy(name);
        message[4..8].copy_from_slice(&transaction.to_be_bytes());
        message
    }

    /// With an option's data replaced.
    fn with(name: &str, kind: u8, data: &[u8]) -> Vec<u8> {
        let mut message = scapy(name);
        let mut at = 240;
        while message[at] != kind {
            assert_ne!(message[at], 255, "no option {kind}");
            at += 2 + usize::from(message[at + 1]);
        }
        assert_eq!(usize::from(message[at + 1]), data.len());
        message[at + 2..at + 2 + data.len()].copy_from_slice(data);
        message
    }

    /// Without an option: its number becomes one nobody knows.
    fn without(name: &str, kind: u8) -> Vec<u8> {
        let mut message = scapy(name);
        let mut at = 240;
        while message[at] != kind {
            at += 2 + usize::from(message[at + 1]);
        }
        message[at] = 224;
        message
    }

    fn at(seconds: u64) -> Instant {
        Instant::from_secs(seconds as i64)
    }

    fn address(last: u8) -> Ipv4Addr {
        Ipv4Addr::new(192, 0, 2, last)
    }

    fn client() -> Client {
        Client::new(MAC, "oar", at(0))
    }

    /// A client that has the lease of scapy's server since second 1.
    fn bound_with(ack: &[u8]) -> Client {
        let mut client = client();
        client.poll(at(0), XID).unwrap();
        client.receive(&scapy("offer"), at(1));
        client.poll(at(1), 7).unwrap();
        client.receive(ack, at(1));
        client
    }

    fn bound() -> Client {
        let mut client = bound_with(&scapy("ack"));
        assert!(matches!(client.event(), Some(Event::Configured(_))));
        client
    }

    fn same(message: &Outgoing, name: &str, secs: u16) {
        let mut expected = scapy(name);
        expected[8..10].copy_from_slice(&secs.to_be_bytes());
        expected.resize(300, 0);
        assert_eq!(message.payload, expected, "{name}");
    }

    #[test]
    fn conversation_as_scapy_writes_it() {
        let mut client = client();
        assert_eq!(client.due(), Some(at(0)));
        let discover = client.poll(at(0), XID).unwrap();
        assert_eq!(
            (discover.source, discover.destination),
            (Ipv4Addr::UNSPECIFIED, Ipv4Addr::BROADCAST)
        );
        same(&discover, "discover", 0);
        assert_eq!(client.poll(at(0), 1), None);

        client.receive(&scapy("offer"), at(1));
        assert_eq!(client.due(), Some(at(1)));
        let request = client.poll(at(1), 2).unwrap();
        assert_eq!(request.destination, Ipv4Addr::BROADCAST);
        same(&request, "request", 1);

        client.receive(&scapy("ack"), at(2));
        let lease = Lease {
            address: address(50),
            prefix: 24,
            router: Some(address(254)),
            dns: alloc::vec![address(53), address(54)],
            ntp: alloc::vec![address(123)],
            mtu: Some(1400),
            hostname: Some("galley".into()),
            domain: Some("example.net".into()),
            server: address(1),
            duration: Some(Duration::from_secs(3600)),
        };
        assert_eq!(client.event(), Some(Event::Configured(lease)));
        assert_eq!(client.event(), None);
        assert_eq!(client.due(), Some(at(1002)), "T1");
    }

    #[test]
    fn silence_is_met_with_patience() {
        let mut client = client();
        let mut sent = Vec::new();
        for _ in 0..40 {
            let now = client.due().unwrap();
            let message = client.poll(now, XID ^ sent.len() as u32).unwrap();
            assert_eq!(message.payload[4..8], XID.to_be_bytes(), "one exchange, one number");
            sent.push(now);
        }
        let pauses: Vec<f64> =
            sent.windows(2).map(|two| (two[1] - two[0]).total_micros() as f64 / 1e6).collect();
        for (index, pause) in pauses.iter().enumerate() {
            let base = 2f64.powi(index.min(6) as i32);
            assert!((0.75 * base..=1.25 * base).contains(pause), "{index}: {pause}");
        }
        // A late answer to the first message still counts.
        client.receive(&scapy("offer"), *sent.last().unwrap());
        assert_eq!(client.counters().taken, 1);
    }

    #[test]
    fn server_that_offers_and_falls_silent_is_given_up() {
        let mut client = client();
        client.poll(at(0), XID).unwrap();
        client.receive(&scapy("offer"), at(0));
        let mut requests = 0;
        loop {
            let now = client.due().unwrap();
            assert!(now < at(60));
            let message = client.poll(now, 99).unwrap();
            if message.payload[242] == 1 {
                break;
            }
            requests += 1;
        }
        assert_eq!(requests, 4);
        assert_eq!(client.event(), None);
    }

    #[test]
    fn refusal_starts_over_after_a_pause() {
        let mut client = client();
        client.poll(at(0), XID).unwrap();
        client.receive(&scapy("offer"), at(0));
        client.poll(at(0), 0).unwrap();
        client.receive(&scapy("nak"), at(5));
        assert_eq!((client.counters().naks, client.event()), (1, None));
        assert_eq!(client.due(), Some(at(6)));
        let discover = client.poll(at(6), 0x55).unwrap();
        assert_eq!((discover.payload[242], &discover.payload[4..8]), (1, &[0, 0, 0, 0x55][..]));
    }

    #[test]
    fn renewal_asks_the_server_and_new_terms_are_told() {
        let mut client = bound();
        let renew = client.poll(at(1001), XID).unwrap();
        same(&renew, "renew", 0);
        assert_eq!((renew.source, renew.destination), (address(50), address(1)));
        client.receive(&scapy("ack"), at(1002));
        assert_eq!(client.event(), None, "same terms");
        assert_eq!(client.due(), Some(at(2002)));

        client.poll(at(2002), XID).unwrap();
        client.receive(&with("ack", option::MTU, &[5, 0]), at(2002));
        let Some(Event::Configured(lease)) = client.event() else { panic!() };
        assert_eq!(lease.mtu, Some(1280));
    }

    #[test]
    fn silent_server_is_replaced_by_any_and_then_the_lease_ends() {
        let mut client = bound();
        let (mut renewals, mut rebindings) = (0, 0);
        loop {
            let now = client.due().unwrap();
            match client.poll(now, 5) {
                Some(message) if message.destination == address(1) => {
                    renewals += 1;
                    assert!(now < at(3001));
                }
                Some(message) if message.source == address(50) => {
                    rebindings += 1;
                    assert_eq!(message.destination, Ipv4Addr::BROADCAST);
                    assert!((at(3001)..at(3601)).contains(&now));
                }
                other => {
                    assert_eq!(now, at(3601));
                    assert_eq!(other.unwrap().payload[242], 1, "DISCOVER");
                    break;
                }
            }
        }
        assert_eq!(client.event(), Some(Event::Deconfigured));
        assert!((2..=7).contains(&renewals) && (2..=5).contains(&rebindings));
    }

    #[test]
    fn any_server_may_answer_a_rebinding() {
        let mut client = bound();
        client.poll(at(3001), XID).unwrap();
        client.receive(&with("ack", option::SERVER, &[192, 0, 2, 2]), at(3001));
        let Some(Event::Configured(lease)) = client.event() else { panic!() };
        assert_eq!((lease.server, client.due()), (address(2), Some(at(4001))));
    }

    #[test]
    fn lies_are_ignored_and_counted() {
        let mut base = scapy("ack");
        base[16..20].copy_from_slice(&[192, 0, 2, 51]);
        let invalid = [
            base,
            without("ack", option::SUBNET_MASK),
            without("ack", option::LEASE_TIME),
            without("ack", option::MESSAGE_TYPE),
            with("ack", option::SUBNET_MASK, &[255, 0, 255, 0]),
            with("ack", option::SUBNET_MASK, &[0, 0, 0, 0]),
            scapy("request"),
            scapy("ack")[..239].to_vec(),
            Vec::new(),
        ];
        let unexpected = [
            answer("ack", 1),
            with("ack", option::SERVER, &[192, 0, 2, 2]),
            with("ack", option::SERVER, &[0, 0, 0, 0]),
            without("ack", option::SERVER),
            with("ack", option::MESSAGE_TYPE, &[77]),
            scapy("offer"),
            with("nak", option::SERVER, &[192, 0, 2, 2]),
            {
                let mut other = scapy("ack");
                other[33] ^= 1;
                other
            },
        ];
        let mut client = bound_with(&[]);
        let before = client.counters().invalid;
        for message in &invalid {
            client.receive(message, at(1));
        }
        assert_eq!(client.counters().invalid - before, invalid.len() as u64);
        for message in &unexpected {
            client.receive(message, at(1));
        }
        assert_eq!(client.counters().unexpected, unexpected.len() as u64);
        assert_eq!(client.event(), None);
        client.receive(&scapy("ack"), at(1));
        assert!(matches!(client.event(), Some(Event::Configured(_))));
    }

    #[test]
    fn addresses_no_host_can_have_are_not_taken() {
        for bad in [[0, 0, 0, 0], [127, 0, 0, 1], [224, 0, 0, 1], [255, 255, 255, 255]] {
            let mut client = client();
            client.poll(at(0), XID).unwrap();
            let mut offer = scapy("offer");
            offer[16..20].copy_from_slice(&bad);
            client.receive(&offer, at(0));
            assert_eq!(client.counters().invalid, 1);
        }
    }

    #[test]
    fn odd_terms() {
        let mut client = bound_with(&with("ack", option::LEASE_TIME, &[255; 4]));
        assert_eq!(client.due(), None, "for ever");
        assert_eq!(client.poll(at(1 << 40), 0), None);

        let client_short = bound_with(&with("ack", option::LEASE_TIME, &[0; 4]));
        assert_eq!(client_short.due(), Some(at(16)), "30 s at least");

        // T1 after T2: both by default.
        let swapped = with("ack", option::RENEWAL_TIME, &[0, 0, 0x0b, 0xb9]);
        assert_eq!(bound_with(&swapped).due(), Some(at(1801)));

        for (mtu, seen) in [([0, 68], None), ([2, 64], Some(576)), ([255, 255], Some(65535))] {
            let client = bound_with(&with("ack", option::MTU, &mtu));
            assert_eq!(client.lease().unwrap().mtu, seen);
        }
        client.link_up(at(5));
        assert_eq!(client.due(), Some(at(5)));
    }

    #[test]
    fn link_that_returns_is_asked_about_at_once() {
        let mut client = bound();
        client.link_up(at(100));
        let reboot = client.poll(at(100), XID).unwrap();
        same(&reboot, "reboot", 0);
        client.receive(&scapy("ack"), at(100));
        assert_eq!((client.event(), client.due()), (None, Some(at(1100))));

        client.link_up(at(200));
        client.poll(at(200), XID).unwrap();
        client.receive(&scapy("nak"), at(200));
        assert_eq!(client.event(), Some(Event::Deconfigured));

        let mut client = bound();
        client.link_up(at(100));
        for _ in 0..4 {
            let now = client.due().unwrap();
            client.poll(now, 1).unwrap();
        }
        let now = client.due().unwrap();
        assert_eq!(client.poll(now, 1), None);
        assert_eq!((client.event(), client.due()), (None, Some(at(1001))), "old lease kept");
    }

    proptest::proptest! {
        #[test]
        fn mutated_answers_never_panic_and_leases_are_sane(
            name in proptest::sample::select(alloc::vec!["offer", "ack", "nak"]),
            changes in proptest::collection::vec((0..340usize, proptest::num::u8::ANY), 0..6),
            cut in 0..340usize,
            seconds in 0..5000u64,
        ) {
            let mut message = scapy(name);
            for (at, value) in changes {
                if let Some(byte) = message.get_mut(at) {
                    *byte = value;
                }
            }
            if cut < 300 {
                message.truncate(cut);
            }
            let mut client = bound();
            let _ = client.poll(at(1001), XID);
            client.receive(&message, at(1001));
            let _ = client.poll(at(1001 + seconds), 3);
            if let Some(lease) = client.lease() {
                assert!(usable(lease.address) && (1..=32).contains(&lease.prefix));
                assert!(lease.duration.is_none_or(|d| d >= MIN_LEASE));
            }
        }
    }
}

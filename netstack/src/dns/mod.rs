//! A stub resolver: names to IPv4 and IPv6 addresses, by asking recursive servers over UDP.
//!
//! The stack gives it the servers ([`Resolver::set_servers`]) whenever DHCP, an advertisement or
//! `ip=` brings new ones. [`Resolver::resolve`] begins a lookup; the stack calls [`Resolver::poll`]
//! until it gives nothing whenever [`Resolver::due`] has passed, sends each message from the port
//! it names to port 53, and hands every datagram from port 53 to a port [`Resolver::owns`] to
//! [`Resolver::receive`]. [`Resolver::next_done`] names lookups that ended, and [`Resolver::take`]
//! gives their outcome, once.
//!
//! Both kinds of address are asked for at the same time, each in a query of its own with a random port,
//! number and spelling, so that a forger has some 40 bits to guess. A server that fails, refuses,
//! or lets a query run out is followed by the next. Answers are cached by their time to live. Everything
//! is bounded: lookups, attempts, aliases, answers, cache. Not done: TCP (truncated answers
//! without an address go to the next server; 1232 bytes are asked for), DNSSEC, search domains.

mod wire;

use alloc::vec::Vec;
use core::fmt;
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use smoltcp::time::{Duration, Instant};
use wire::{Answer, Kind, Mismatch, Name};

/// Lookups at a time.
const MAX_LOOKUPS: usize = 64;
const MAX_SERVERS: usize = 6;
const MAX_CACHED: usize = 64;
/// Addresses kept of a kind.
const MAX_ADDRESSES: usize = 16;
/// Aliases that need a query of their own.
const MAX_ALIASES: u8 = 8;
/// Attempts for one query: each server twice, within these bounds.
const ATTEMPTS: core::ops::RangeInclusive<u32> = 4..=8;
/// How long a lookup waits in all.
const PATIENCE: Duration = Duration::from_secs(15);
/// How much longer it waits for the other kind of address when it has one.
const GRACE: Duration = Duration::from_secs(1);
/// Bounds of what is believed of times to live, in seconds.
const TTL: core::ops::RangeInclusive<u32> = 5..=3600;
/// How long a missing name is remembered.
const NEGATIVE_TTL: u32 = 10;

/// Why a lookup failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Failure {
    /// Not a host name.
    Invalid,
    /// The name does not exist or has no address.
    NotFound,
    /// No server is known, none answered, or none could tell.
    NoAnswer,
    /// Too many lookups at a time.
    Busy,
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Failure::Invalid => "not a host name",
            Failure::NotFound => "name not found",
            Failure::NoAnswer => "no name server could tell",
            Failure::Busy => "too many lookups",
        })
    }
}

/// Names a lookup.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct LookupId(pub u32);

/// A query for UDP, to port 53.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outgoing {
    /// Whom to ask.
    pub server: IpAddr,
    /// Port to ask from.
    pub source_port: u16,
    /// UDP payload.
    pub payload: Vec<u8>,
}

/// What happened so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Queries sent.
    pub sent: u64,
    /// Answers taken.
    pub answers: u64,
    /// Lookups answered from the cache.
    pub cached: u64,
    /// Queries nobody answered in time.
    pub timeouts: u64,
    /// Answers of servers that could not tell.
    pub failures: u64,
    /// Answers cut short with nothing in them.
    pub truncated: u64,
    /// Messages that answer no query of ours: late, or forged.
    pub mismatched: u64,
    /// Messages that cannot be read.
    pub malformed: u64,
}

/// A query under way.
#[derive(Debug)]
struct Ask {
    /// The name, or what it is an alias for.
    target: Name,
    aliases: u8,
    attempt: u32,
    /// Use EDNS: off once a server did not understand it.
    extended: bool,
    sent: Option<Sent>,
    /// When to try the next attempt.
    at: Instant,
}

#[derive(Debug)]
struct Sent {
    server: IpAddr,
    port: u16,
    transaction: u16,
    spelt: Vec<u8>,
}

#[derive(Debug)]
enum Half {
    Asking(Ask),
    /// Addresses and how long they hold; none is an answer too.
    Done(Vec<IpAddr>, u32),
    Failed,
}

#[derive(Debug)]
struct Lookup {
    id: LookupId,
    name: Name,
    /// A and AAAA.
    halves: [Half; 2],
    give_up_at: Instant,
    /// Announced by `next_done`.
    told: bool,
}

#[derive(Debug)]
struct Cached {
    name: Name,
    addresses: Vec<IpAddr>,
    until: Instant,
}

/// The resolver.
#[derive(Debug, Default)]
pub struct Resolver {
    servers: Vec<IpAddr>,
    lookups: Vec<Lookup>,
    cache: Vec<Cached>,
    next_id: u32,
    counters: Counters,
}

impl Half {
    fn sent(&self) -> Option<&Sent> {
        match self {
            Half::Asking(ask) => ask.sent.as_ref(),
            _ => None,
        }
    }
}

impl Lookup {
    fn is_done(&self) -> bool {
        !self.halves.iter().any(|half| matches!(half, Half::Asking(_)))
    }
}

impl Ask {
    /// The query of the next attempt; `None` if there have been enough.
    fn next(
        &mut self,
        servers: &[IpAddr],
        kind: Kind,
        now: Instant,
        random: u64,
    ) -> Option<Outgoing> {
        let count = servers.len() as u32;
        let attempts = (2 * count).clamp(*ATTEMPTS.start(), *ATTEMPTS.end());
        if self.attempt >= attempts {
            return None;
        }
        let server = *servers.get((self.attempt % count) as usize)?;
        let round = self.attempt / count;
        let mask = match round {
            0 => (random >> 32) as u32,
            // Servers that do not give the spelling back exist: later rounds do without.
            _ => 0,
        };
        let spelt = self.target.mixed(mask);
        let transaction = random as u16;
        // Above the ports of well-known services; the stack's own sockets come first.
        let port = 0x8000 | (random >> 16) as u16;
        let payload = wire::query(transaction, &spelt, kind, self.extended);
        self.sent = Some(Sent { server, port, transaction, spelt });
        self.attempt += 1;
        self.at = now + Duration::from_secs(1 << round.min(2));
        Some(Outgoing { server, source_port: port, payload })
    }
}

const KINDS: [Kind; 2] = [Kind::A, Kind::Aaaa];

impl Resolver {
    /// Knows no server yet.
    pub fn new() -> Resolver {
        Resolver::default()
    }

    /// Replaces the servers, best first. Lookups under way go on with the new ones.
    pub fn set_servers(&mut self, servers: impl IntoIterator<Item = IpAddr>, now: Instant) {
        let mut new = Vec::new();
        for server in servers {
            if !new.contains(&server) && new.len() < MAX_SERVERS {
                new.push(server);
            }
        }
        if new == self.servers {
            return;
        }
        self.servers = new;
        for half in self.lookups.iter_mut().flat_map(|lookup| &mut lookup.halves) {
            if let Half::Asking(ask) = half {
                ask.attempt = 0;
                ask.at = now;
            }
        }
    }

    /// The servers in use.
    pub fn servers(&self) -> &[IpAddr] {
        &self.servers
    }

    /// What happened so far.
    pub fn counters(&self) -> Counters {
        self.counters
    }

    /// Begins a lookup. What needs no server is done at once: addresses, `localhost`, the cache.
    pub fn resolve(&mut self, name: &str, now: Instant) -> Result<LookupId, Failure> {
        if self.lookups.len() >= MAX_LOOKUPS {
            return Err(Failure::Busy);
        }
        let known = |addresses: Vec<IpAddr>| {
            let (v4, v6) = addresses.into_iter().partition(IpAddr::is_ipv4);
            [Half::Done(v4, NEGATIVE_TTL), Half::Done(v6, NEGATIVE_TTL)]
        };
        let literal = name.parse::<IpAddr>().ok();
        let name = match literal {
            Some(_) => Name::from_text("localhost"),
            None => Name::from_text(name),
        };
        let name = name.ok_or(Failure::Invalid)?;
        self.cache.retain(|cached| now < cached.until);
        let halves = if let Some(address) = literal {
            known(alloc::vec![address])
        } else if name.is_localhost() {
            // RFC 6761, 6.3.
            known(alloc::vec![Ipv6Addr::LOCALHOST.into(), Ipv4Addr::LOCALHOST.into()])
        } else if let Some(cached) = self.cache.iter().find(|cached| cached.name == name) {
            self.counters.cached += 1;
            known(cached.addresses.clone())
        } else {
            KINDS.map(|_| {
                Half::Asking(Ask {
                    target: name.clone(),
                    aliases: 0,
                    attempt: 0,
                    extended: true,
                    sent: None,
                    at: now,
                })
            })
        };
        self.next_id = self.next_id.wrapping_add(1);
        let id = LookupId(self.next_id);
        let give_up_at = now + PATIENCE;
        self.lookups.push(Lookup { id, name, halves, give_up_at, told: false });
        Ok(id)
    }

    /// Forgets a lookup.
    pub fn cancel(&mut self, id: LookupId) {
        self.lookups.retain(|lookup| lookup.id != id);
    }

    /// A lookup that ended since the last call.
    pub fn next_done(&mut self) -> Option<LookupId> {
        let lookup = self.lookups.iter_mut().find(|lookup| !lookup.told && lookup.is_done())?;
        lookup.told = true;
        Some(lookup.id)
    }

    /// The outcome of a lookup that ended; it is forgotten. IPv6 addresses come first if `ipv6_first`
    /// (we have a global one ourselves). `None`: still under way, or unknown.
    pub fn take(&mut self, id: LookupId, ipv6_first: bool) -> Option<Result<Vec<IpAddr>, Failure>> {
        let place = self.lookups.iter().position(|l| l.id == id && l.is_done())?;
        let Lookup { halves: [v4, v6], .. } = self.lookups.swap_remove(place);
        let failed = matches!(v4, Half::Failed) || matches!(v6, Half::Failed);
        let [v4, v6] = [v4, v6].map(|half| match half {
            Half::Done(addresses, _) => addresses,
            _ => Vec::new(),
        });
        let (mut first, second) = if ipv6_first { (v6, v4) } else { (v4, v6) };
        first.extend(second);
        Some(match (first.is_empty(), failed) {
            (false, _) => Ok(first),
            (true, true) => Err(Failure::NoAnswer),
            (true, false) => Err(Failure::NotFound),
        })
    }

    /// When [`poll`](Self::poll) has something to do.
    pub fn due(&self) -> Option<Instant> {
        let of = |lookup: &Lookup| {
            let asks = lookup.halves.iter().filter_map(|half| match half {
                // Without servers only time can end it.
                Half::Asking(ask) if !self.servers.is_empty() => Some(ask.at),
                Half::Asking(_) => Some(lookup.give_up_at),
                _ => None,
            });
            asks.min().map(|at| at.min(lookup.give_up_at))
        };
        self.lookups.iter().filter_map(of).min()
    }

    /// Does what is due; gives the next query to send. `random` is fresh at every call.
    pub fn poll(&mut self, now: Instant, random: u64) -> Option<Outgoing> {
        let servers = &self.servers;
        for lookup in &mut self.lookups {
            let overdue = lookup.give_up_at <= now;
            for (half, kind) in lookup.halves.iter_mut().zip(KINDS) {
                let Half::Asking(ask) = half else { continue };
                if overdue {
                    *half = Half::Failed;
                    continue;
                }
                if now < ask.at || servers.is_empty() {
                    continue;
                }
                self.counters.timeouts += u64::from(ask.sent.take().is_some());
                match ask.next(servers, kind, now, random) {
                    Some(query) => {
                        self.counters.sent += 1;
                        return Some(query);
                    }
                    None => *half = Half::Failed,
                }
            }
        }
        None
    }

    /// Is a query under way from this local port?
    pub fn owns(&self, port: u16) -> bool {
        let asks = self.lookups.iter().flat_map(|lookup| &lookup.halves);
        asks.filter_map(Half::sent).any(|sent| sent.port == port)
    }

    /// Takes a datagram that came from port 53 of `server` to `port`.
    pub fn receive(&mut self, server: IpAddr, port: u16, message: &[u8], now: Instant) {
        let mut seen = Mismatch::Question;
        for place in 0..self.lookups.len() {
            for (half, kind) in [0, 1].into_iter().zip(KINDS) {
                let Half::Asking(ask) = &self.lookups[place].halves[half] else { continue };
                let Some(sent) = &ask.sent else { continue };
                if sent.server != server || sent.port != port {
                    continue;
                }
                match wire::answer(message, sent.transaction, &ask.target, &sent.spelt, kind) {
                    Ok(answer) => return self.answered(place, half, answer, now),
                    Err(mismatch) => seen = mismatch,
                }
            }
        }
        match seen {
            Mismatch::Question => self.counters.mismatched += 1,
            Mismatch::Malformed => self.counters.malformed += 1,
        }
    }

    fn answered(&mut self, place: usize, half: usize, answer: Answer, now: Instant) {
        self.counters.answers += 1;
        let lookup = &mut self.lookups[place];
        let Half::Asking(ask) = &mut lookup.halves[half] else { return };
        ask.sent = None;
        // Whatever it is that goes on, it goes on at once.
        ask.at = now;
        match answer {
            Answer::Addresses(mut addresses, ttl) => {
                addresses.truncate(MAX_ADDRESSES);
                lookup.halves[half] = Half::Done(addresses, ttl.clamp(*TTL.start(), *TTL.end()));
                lookup.give_up_at = lookup.give_up_at.min(now + GRACE);
            }
            Answer::Nothing => lookup.halves[half] = Half::Done(Vec::new(), NEGATIVE_TTL),
            Answer::Alias(target) if ask.aliases < MAX_ALIASES => {
                ask.target = target;
                ask.aliases += 1;
                ask.attempt = 0;
            }
            Answer::Alias(_) => lookup.halves[half] = Half::Failed,
            Answer::NoExtensions if ask.extended => {
                ask.extended = false;
                ask.attempt = ask.attempt.saturating_sub(1);
            }
            Answer::Failed | Answer::NoExtensions => self.counters.failures += 1,
            Answer::Truncated => self.counters.truncated += 1,
        }
        self.remember(place, now);
    }

    /// Caches a lookup whose both halves were answered.
    fn remember(&mut self, place: usize, now: Instant) {
        let lookup = &self.lookups[place];
        let [Half::Done(v4, v4_ttl), Half::Done(v6, v6_ttl)] = &lookup.halves else { return };
        let ttl = match (v4.is_empty(), v6.is_empty()) {
            (false, true) => *v4_ttl,
            (true, false) => *v6_ttl,
            _ => (*v4_ttl).min(*v6_ttl),
        };
        let cached = Cached {
            name: lookup.name.clone(),
            addresses: v4.iter().chain(v6).copied().collect(),
            until: now + Duration::from_secs(u64::from(ttl)),
        };
        self.cache.retain(|old| old.name != cached.name && now < old.until);
        if self.cache.len() >= MAX_CACHED {
            let soonest = self.cache.iter().enumerate().min_by_key(|(_, old)| old.until);
            if let Some((place, _)) = soonest {
                self.cache.swap_remove(place);
            }
        }
        self.cache.push(cached);
    }
}

#[cfg(test)]
mod tests;

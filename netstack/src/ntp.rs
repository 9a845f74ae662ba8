//! An SNTP client (RFC 4330, with RFC 5905's checks): the time of day from a server on the network.
//!
//! The stack gives it servers ([`Client::set_servers`]) from the `ntp=` argument, `ip=` or DHCP; calls
//! [`Client::poll`] when [`Client::due`] has passed, and sends the message it gives from the port it
//! names to port 123; every datagram from port 123 to a port [`Client::owns`] goes to
//! [`Client::receive`]. [`Client::unix_ns`] then tells the time of day for an instant of the monotonic
//! clock.
//!
//! One server is asked at a time; silence and bad answers make it ask the next, and ever more rarely.
//! Good answers lengthen the pause from 64 to 1024 s. The clock is set, not slewed: an application
//! that needs time without steps has the monotonic clock. A change of more than 1000 s after the first
//! setting needs two answers that agree. What is sent tells nothing of us: the transmit timestamp is a
//! random number that the answer must bring back (draft-ietf-ntp-data-minimization), the port is
//! random (RFC 9109).

use alloc::vec::Vec;
use core::net::IpAddr;
use smoltcp::time::{Duration, Instant};

const MAX_SERVERS: usize = 4;
/// Bytes of a message without extensions.
const LEN: usize = 48;
/// How long an answer may take. A slower one would be worth little: the error is half of it.
const PATIENCE: Duration = Duration::from_secs(2);
/// Pause after the first bad attempt, doubling up to the longest.
const FIRST_RETRY: Duration = Duration::from_secs(2);
/// Pause after the first good answer, doubling likewise.
const SHORTEST: Duration = Duration::from_secs(64);
const LONGEST: Duration = Duration::from_secs(1024);
/// Seconds from 1900 to 1970.
const UNIX_EPOCH: u64 = 2_208_988_800;
/// 2026-01-01, when this was written: nobody runs it earlier.
const EARLIEST_NS: u64 = 1_767_225_600 * 1_000_000_000;
/// Larger changes need a second opinion (RFC 5905's `PANICT`).
const PANIC_NS: u64 = 1000 * 1_000_000_000;
/// How well two opinions must agree.
const AGREE_NS: u64 = 1_000_000_000;
/// RFC 5905's `MAXDISP`, in its units of 2^-16 s.
const MAX_DISPERSION: u32 = 16 << 16;

/// A message for UDP, to port 123.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outgoing {
    /// Whom to ask.
    pub server: IpAddr,
    /// Port to ask from.
    pub source_port: u16,
    /// UDP payload.
    pub payload: [u8; LEN],
}

/// What happened so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Questions sent.
    pub sent: u64,
    /// Answers the clock was set by.
    pub good: u64,
    /// Questions without an answer in time.
    pub timeouts: u64,
    /// Answers that cannot be right: unsynchronised or implausible.
    pub bad: u64,
    /// Messages that answer no question of ours.
    pub mismatched: u64,
    /// Answers by which servers turn us away (kiss-o'-death).
    pub refused: u64,
    /// Answers too far from the clock to be believed alone.
    pub steps: u64,
}

#[derive(Clone, Copy, Debug)]
struct Question {
    server: IpAddr,
    port: u16,
    cookie: u64,
    sent_at: Instant,
}

/// The time of day at one instant.
#[derive(Clone, Copy, Debug)]
struct Clock {
    at: Instant,
    unix_ns: u64,
}

impl Clock {
    fn unix_ns(&self, now: Instant) -> u64 {
        let elapsed_us = now.total_micros().saturating_sub(self.at.total_micros());
        self.unix_ns.saturating_add_signed(elapsed_us.saturating_mul(1000))
    }
}

/// The client.
#[derive(Debug)]
pub struct Client {
    servers: Vec<IpAddr>,
    /// Next to be asked, modulo their number.
    turn: usize,
    question: Option<Question>,
    /// When to ask, or to stop waiting for the answer.
    at: Instant,
    /// Before the next question, if this one goes well or badly.
    pause: Duration,
    retry: Duration,
    clock: Option<Clock>,
    /// An answer far off the clock, waiting for another that agrees.
    opinion: Option<Clock>,
    /// The clock was set since [`Client::set_lately`] was asked.
    set_lately: bool,
    counters: Counters,
}

impl Client {
    /// Knows no server yet.
    pub fn new(now: Instant) -> Client {
        Client {
            servers: Vec::new(),
            turn: 0,
            question: None,
            at: now,
            pause: SHORTEST,
            retry: FIRST_RETRY,
            clock: None,
            opinion: None,
            set_lately: false,
            counters: Counters::default(),
        }
    }

    /// Replaces the servers, best first. If they differ the first is asked at once.
    pub fn set_servers(&mut self, servers: impl IntoIterator<Item = IpAddr>, now: Instant) {
        let mut new = Vec::new();
        for server in servers {
            if !new.contains(&server) && new.len() < MAX_SERVERS {
                new.push(server);
            }
        }
        if new != self.servers {
            self.servers = new;
            self.turn = 0;
            self.question = None;
            self.retry = FIRST_RETRY;
            self.at = now;
        }
    }

    /// There is a way to the servers that was not there before. If the time is not known, asks at
    /// once.
    pub fn way_opened(&mut self, now: Instant) {
        if self.clock.is_none() {
            self.question = None;
            self.retry = FIRST_RETRY;
            self.at = now;
        }
    }

    /// The servers in use.
    pub fn servers(&self) -> &[IpAddr] {
        &self.servers
    }

    /// The time of day at `now`, in nanoseconds since 1970, once it is known.
    pub fn unix_ns(&self, now: Instant) -> Option<u64> {
        self.clock.map(|clock| clock.unix_ns(now))
    }

    /// True once after each good answer.
    pub fn set_lately(&mut self) -> bool {
        core::mem::take(&mut self.set_lately)
    }

    /// What happened so far.
    pub fn counters(&self) -> Counters {
        self.counters
    }

    /// When [`poll`](Self::poll) has something to do.
    pub fn due(&self) -> Option<Instant> {
        (!self.servers.is_empty()).then_some(self.at)
    }

    /// Does what is due; gives the message to send. `random` is fresh at every call.
    pub fn poll(&mut self, now: Instant, random: [u64; 2]) -> Option<Outgoing> {
        if now < self.at {
            return None;
        }
        if self.question.take().is_some() {
            self.counters.timeouts += 1;
            self.go_wrong(now);
            return None;
        }
        let server = *self.servers.get(self.turn.checked_rem(self.servers.len())?)?;
        let [cookie, other] = random;
        let port = 0x8000 | other as u16;
        self.question = Some(Question { server, port, cookie, sent_at: now });
        self.at = now + PATIENCE;
        self.counters.sent += 1;
        let mut payload = [0; LEN];
        // No leap warning, version 4, client.
        payload[0] = 4 << 3 | 3;
        payload[40..48].copy_from_slice(&cookie.to_be_bytes());
        Some(Outgoing { server, source_port: port, payload })
    }

    /// Is a question under way from this local port?
    pub fn owns(&self, port: u16) -> bool {
        self.question.is_some_and(|question| question.port == port)
    }

    /// Takes a datagram that came from port 123 of `server` to `port`.
    pub fn receive(&mut self, server: IpAddr, port: u16, message: &[u8], now: Instant) {
        let asked = self.question.filter(|question| {
            question.server == server
                && question.port == port
                && message.get(24..32) == Some(&question.cookie.to_be_bytes()[..])
        });
        let (Some(question), Some(answer)) = (asked, message.first_chunk::<LEN>()) else {
            self.counters.mismatched += 1;
            return;
        };
        self.question = None;
        match judge(answer, question.sent_at, now) {
            Ok(clock) => self.set(clock, now),
            Err(Refusal::Kiss { stop }) => {
                self.counters.refused += 1;
                if stop {
                    // RFC 4330, 8: ask no more.
                    self.servers.retain(|known| *known != server);
                }
                self.retry = LONGEST;
                self.go_wrong(now);
            }
            Err(Refusal::Bad) => {
                self.counters.bad += 1;
                self.go_wrong(now);
            }
        }
    }

    fn go_wrong(&mut self, now: Instant) {
        self.turn = self.turn.wrapping_add(1);
        self.at = now + self.retry;
        self.retry = (self.retry * 2).min(LONGEST);
        self.pause = SHORTEST;
    }

    fn set(&mut self, new: Clock, now: Instant) {
        let differ = |clock: Clock| clock.unix_ns(now).abs_diff(new.unix_ns);
        let far = self.clock.is_some_and(|clock| differ(clock) > PANIC_NS);
        let seconded = self.opinion.is_some_and(|opinion| differ(opinion) < AGREE_NS);
        if far && !seconded {
            self.counters.steps += 1;
            self.opinion = Some(new);
            self.go_wrong(now);
            return;
        }
        self.counters.good += 1;
        self.set_lately = true;
        self.clock = Some(new);
        self.opinion = None;
        self.retry = FIRST_RETRY;
        self.at = now + self.pause;
        self.pause = (self.pause * 2).min(LONGEST);
    }
}

enum Refusal {
    /// The server turns us away, for good or for a while.
    Kiss { stop: bool },
    /// It cannot know the time, or tells nonsense.
    Bad,
}

/// The time of day at `now` by an answer to a question sent at `sent_at`.
fn judge(answer: &[u8; LEN], sent_at: Instant, now: Instant) -> Result<Clock, Refusal> {
    let (leap, version, mode) = (answer[0] >> 6, (answer[0] >> 3) & 7, answer[0] & 7);
    if mode != 4 || !(3..=4).contains(&version) {
        return Err(Refusal::Bad);
    }
    if answer[1] == 0 {
        return Err(Refusal::Kiss { stop: matches!(&answer[12..16], b"DENY" | b"RSTR") });
    }
    let (delay, dispersion) = (be32(answer, 4), be32(answer, 8));
    // RFC 5905, A.5.1.1: synchronised, and not too far from the source of time.
    if leap == 3 || answer[1] > 15 || (delay / 2).saturating_add(dispersion) >= MAX_DISPERSION {
        return Err(Refusal::Bad);
    }
    let received = unix_ns(answer, 32).ok_or(Refusal::Bad)?;
    let transmitted = unix_ns(answer, 40).ok_or(Refusal::Bad)?;
    let away_ns = (now - sent_at).total_micros() * 1000;
    let held_ns = transmitted.checked_sub(received).ok_or(Refusal::Bad)?;
    // To the clocks' resolution, 1 ms for some, the server cannot have had it longer than it was away.
    let wire_ns = (away_ns + 1_000_000).checked_sub(held_ns).ok_or(Refusal::Bad)?;
    let wire_ns = wire_ns.saturating_sub(1_000_000);
    if transmitted < EARLIEST_NS {
        return Err(Refusal::Bad);
    }
    Ok(Clock { at: now, unix_ns: transmitted + wire_ns / 2 })
}

/// A timestamp in nanoseconds since 1970; zero is "unknown".
fn unix_ns(answer: &[u8; LEN], at: usize) -> Option<u64> {
    let (seconds, fraction) = (be32(answer, at), be32(answer, at + 4));
    if seconds == 0 && fraction == 0 {
        return None;
    }
    // RFC 4330, 3: with the top bit clear it counts from 2036, not 1900.
    let era = if seconds & 0x8000_0000 == 0 { 1 << 32 } else { 0 };
    let unix = (era + u64::from(seconds)).checked_sub(UNIX_EPOCH)?;
    Some(unix * 1_000_000_000 + ((u64::from(fraction) * 1_000_000_000) >> 32))
}

fn be32(bytes: &[u8; LEN], at: usize) -> u32 {
    u32::from_be_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
}

#[cfg(test)]
mod tests {
    use super::*;
    use core::net::Ipv4Addr;

    /// 2026-11-30 21:00:00 UTC.
    const EVENING: u64 = 1_796_072_400;
    const COOKIE: u64 = 0x0102_0304_0506_0708;
    const PORT: u16 = 0x9abc;

    fn at(millis: i64) -> Instant {
        Instant::from_millis(millis)
    }

    fn server(last: u8) -> IpAddr {
        Ipv4Addr::new(192, 0, 2, last).into()
    }

    /// A message of scapy's making: an answer to `COOKIE` of a stratum-2 server that got it at
    /// `EVENING` and sent it 0.25 s later.
    fn scapy(name: &str) -> Vec<u8> {
        let line = include_str!("../tests/vectors/ntp.txt")
            .lines()
            .find_map(|line| line.strip_prefix(name)?.strip_prefix(' '))
            .unwrap();
        let byte = |i| u8::from_str_radix(&line[i..i + 2], 16).unwrap();
        (0..line.len()).step_by(2).map(byte).collect()
    }

    fn client(servers: u8) -> Client {
        let mut client = Client::new(at(0));
        assert_eq!((client.due(), client.poll(at(0), [0; 2])), (None, None));
        client.set_servers((1..=servers).map(server), at(0));
        client
    }

    fn ask(client: &mut Client, now: Instant) -> Outgoing {
        client.poll(now, [COOKIE, u64::from(PORT)]).unwrap()
    }

    #[test]
    fn question_as_scapy_writes_it() {
        let mut client = client(1);
        let question = ask(&mut client, at(0));
        assert_eq!((question.server, question.source_port), (server(1), PORT));
        assert_eq!(question.payload[..], scapy("question")[..]);
        assert!(client.owns(PORT) && !client.owns(PORT - 1));
    }

    #[test]
    fn clock_is_the_servers_plus_half_the_way() {
        let mut client = client(1);
        ask(&mut client, at(1000));
        assert_eq!(client.unix_ns(at(1000)), None);
        // Away for 450 ms, of which the server held it for 250: 100 each way.
        client.receive(server(1), PORT, &scapy("answer"), at(1450));
        let expected = EVENING * 1_000_000_000 + 350_000_000;
        assert_eq!(client.unix_ns(at(1450)), Some(expected));
        assert_eq!(client.unix_ns(at(2450)), Some(expected + 1_000_000_000));
        assert_eq!(client.unix_ns(at(450)), Some(expected - 1_000_000_000));
        assert_eq!((client.counters().good, client.due()), (1, Some(at(65_450))));
    }

    #[test]
    fn answers_become_rarer_with_trust() {
        let mut client = client(1);
        let mut pauses = Vec::new();
        for _ in 0..7 {
            let now = client.due().unwrap();
            ask(&mut client, now);
            let mut answer = scapy("answer");
            let seconds = u32::from_be_bytes(answer[32..36].try_into().unwrap());
            let seconds = (u64::from(seconds) + now.secs() as u64) as u32;
            answer[32..36].copy_from_slice(&seconds.to_be_bytes());
            answer[40..44].copy_from_slice(&seconds.to_be_bytes());
            let now = now + Duration::from_millis(300);
            client.receive(server(1), PORT, &answer, now);
            pauses.push((client.due().unwrap() - now).secs());
        }
        assert_eq!(pauses, [64, 128, 256, 512, 1024, 1024, 1024]);
        assert_eq!(client.counters().good, 7);
    }

    #[test]
    fn silence_makes_it_ask_others_and_more_rarely() {
        let mut client = client(3);
        let (mut asked, mut times) = (Vec::new(), Vec::new());
        while asked.len() < 13 {
            let now = client.due().unwrap();
            if let Some(question) = client.poll(now, [1, 2]) {
                asked.push(question.server);
                times.push(now);
            }
        }
        assert_eq!(asked[..4], [server(1), server(2), server(3), server(1)]);
        let pauses: Vec<u64> = times.windows(2).map(|two| (two[1] - two[0]).secs()).collect();
        assert_eq!(pauses, [4, 6, 10, 18, 34, 66, 130, 258, 514, 1026, 1026, 1026]);
        assert_eq!(client.counters().timeouts, 12);
    }

    #[test]
    fn way_that_opens_is_used_at_once_if_the_time_is_not_known() {
        let mut client = client(1);
        ask(&mut client, at(0));
        client.way_opened(at(500));
        assert_eq!(client.due(), Some(at(500)));
        ask(&mut client, at(500));
        client.receive(server(1), PORT, &scapy("answer"), at(900));
        let due = client.due();
        client.way_opened(at(1000));
        assert_eq!((client.counters().timeouts, client.due()), (0, due));
    }

    #[test]
    fn answers_to_other_questions_are_counted() {
        let mut client = client(2);
        ask(&mut client, at(0));
        let good = scapy("answer");
        let mut forged = good.clone();
        forged[31] ^= 1;
        client.receive(server(2), PORT, &good, at(300));
        client.receive(server(1), PORT + 1, &good, at(300));
        client.receive(server(1), PORT, &forged, at(300));
        client.receive(server(1), PORT, &good[..47], at(300));
        client.receive(server(1), PORT, &[], at(300));
        assert_eq!((client.counters().mismatched, client.unix_ns(at(0))), (5, None));
        client.receive(server(1), PORT, &good, at(300));
        client.receive(server(1), PORT, &good, at(300));
        assert_eq!((client.counters().mismatched, client.counters().good), (6, 1), "replayed");
    }

    #[test]
    fn answers_that_cannot_be_right_are_refused() {
        let changes: [(&str, usize, &[u8]); 11] = [
            ("unsynchronised", 0, &[0xe4]),
            ("a client", 0, &[0x23]),
            ("broadcast", 0, &[0x25]),
            ("version 2", 0, &[0x14]),
            ("stratum 16", 1, &[16]),
            ("root delay", 4, &[0, 32, 0, 0]),
            ("root dispersion", 8, &[0xff; 4]),
            ("no receive time", 32, &[0; 8]),
            ("no transmit time", 40, &[0; 8]),
            ("sent before it came", 43, &[0x4f]),
            ("held longer than away", 43, &[0xff]),
        ];
        for (what, offset, bytes) in changes {
            let mut client = client(2);
            ask(&mut client, at(0));
            let mut answer = scapy("answer");
            answer[offset..offset + bytes.len()].copy_from_slice(bytes);
            client.receive(server(1), PORT, &answer, at(300));
            assert_eq!((client.counters().bad, client.unix_ns(at(0))), (1, None), "{what}");
            assert_eq!(client.due(), Some(at(2300)), "{what}");
            assert_eq!(ask(&mut client, at(2300)).server, server(2));
        }
        // 2025 by the clock of a server is wrong; after 2036 the seconds count from zero again.
        for (seconds, good) in [(0xeb00_0000u32, 0), (0x0000_0001, 1), (0x7fff_ffff, 1)] {
            let mut client = client(1);
            ask(&mut client, at(0));
            let mut answer = scapy("answer");
            for offset in [32, 40] {
                answer[offset..offset + 4].copy_from_slice(&seconds.to_be_bytes());
            }
            client.receive(server(1), PORT, &answer, at(300));
            assert_eq!(client.counters().good, good, "{seconds:#x}");
        }
    }

    #[test]
    fn second_of_2036() {
        let mut client = client(1);
        ask(&mut client, at(0));
        let mut answer = scapy("answer");
        for offset in [32, 40] {
            answer[offset..offset + 8].copy_from_slice(&[0, 0, 0, 1, 0, 0, 0, 0]);
        }
        client.receive(server(1), PORT, &answer, at(0));
        // 2036-02-07 06:28:16 UTC is second 0 of era 1 (RFC 4330, 3).
        assert_eq!(client.unix_ns(at(0)), Some(2_085_978_497 * 1_000_000_000));
    }

    #[test]
    fn servers_that_turn_us_away() {
        let mut client = client(2);
        ask(&mut client, at(0));
        client.receive(server(1), PORT, &scapy("rate"), at(300));
        assert_eq!((client.counters().refused, client.servers().len()), (1, 2));
        assert_eq!(client.due(), Some(at(1_024_300)));
        assert_eq!(ask(&mut client, at(1_024_300)).server, server(2));
        client.receive(server(2), PORT, &scapy("deny"), at(1_024_300));
        assert_eq!(client.servers(), [server(1)]);
    }

    #[test]
    fn great_change_needs_a_second_opinion() {
        let mut client = client(2);
        ask(&mut client, at(0));
        client.receive(server(1), PORT, &scapy("answer"), at(300));
        let before = client.unix_ns(at(300)).unwrap();
        let later = |hours: u32| {
            let mut answer = scapy("answer");
            let seconds = u32::from_be_bytes(answer[32..36].try_into().unwrap()) + hours * 3600;
            answer[32..36].copy_from_slice(&seconds.to_be_bytes());
            answer[40..44].copy_from_slice(&seconds.to_be_bytes());
            answer
        };
        for (hours, good) in [(5, 1), (7, 1), (7, 2)] {
            let now = client.due().unwrap();
            let question = ask(&mut client, now);
            let mut answer = later(hours);
            let seconds = u32::from_be_bytes(answer[32..36].try_into().unwrap());
            let seconds = seconds + (now.secs() as u32);
            answer[32..36].copy_from_slice(&seconds.to_be_bytes());
            answer[40..44].copy_from_slice(&seconds.to_be_bytes());
            client.receive(question.server, PORT, &answer, now + Duration::from_millis(300));
            assert_eq!(client.counters().good, good, "{hours}");
        }
        let after = client.unix_ns(at(300)).unwrap();
        assert!((after - before).abs_diff(7 * 3600 * 1_000_000_000) < 1_000_000_000);
    }

    proptest::proptest! {
        #[test]
        fn mutated_answers_never_panic(
            changes in proptest::collection::vec((0..48usize, proptest::num::u8::ANY), 0..8),
            cut in 0..60usize, millis in 0..5000i64,
        ) {
            let mut answer = scapy("answer");
            for (at, value) in changes {
                answer[at] = value;
            }
            answer.truncate(cut);
            let mut client = client(1);
            ask(&mut client, at(0));
            client.receive(server(1), PORT, &answer, at(millis));
            let _ = client.unix_ns(Instant::from_micros(i64::MAX));
            let _ = client.unix_ns(Instant::from_micros(i64::MIN));
        }
    }
}

//! `ping`, in iputils' layout.

use alloc::format;
use alloc::string::{String, ToString};
use core::net::IpAddr;

use trireme_netstack::{Answer, AnswerKind, Error, MAX_PING_PAYLOAD};

use super::duration::{ms, parse_seconds, short_ms};
use super::session::print;
use super::words::{Item, getopt};
use crate::net::ping::{Heard, Pinger};
use crate::{console, net, preempt, time};

const USAGE: &str = "\
Usage: ping [-4|-6] [-nq] [-c COUNT] [-i SECONDS] [-s BYTES] [-t TTL] [-W SECONDS] [-w SECONDS] [-I ethN] HOST
";

/// Times of requests remembered.
const REMEMBERED: usize = 128;
/// How long the last answers are waited for while none has come, in nanoseconds: iputils' default.
const LINGER_NS: u64 = 10_000_000_000;
/// Shortest interval, in nanoseconds: iputils' for root.
const LEAST_INTERVAL_NS: u64 = 2_000_000;

struct Request<'a> {
    host: &'a str,
    v4: bool,
    v6: bool,
    quiet: bool,
    /// Requests to send; `u64::MAX` if there is no end.
    count: u64,
    interval_ns: u64,
    linger_ns: Option<u64>,
    deadline_ns: Option<u64>,
    bytes: usize,
    hops: u8,
    card: Option<&'a str>,
}

/// What was sent and came back.
struct Tally {
    /// When each of the last requests left, in microseconds, and whether it was answered, by sequence number.
    sent_at: [(u64, bool); REMEMBERED],
    sent: u64,
    received: u64,
    errors: u64,
    duplicates: u64,
    damaged: u64,
    least_us: u64,
    most_us: u64,
    sum_us: u64,
    squares: u128,
    timed: u64,
}

/// A number within bounds, or what iputils says of it.
fn number(text: &str, least: u64, most: u64) -> Result<u64, String> {
    let value = text.parse().map_err(|_| format!("ping: invalid argument: '{text}'\n"))?;
    if (least..=most).contains(&value) {
        Ok(value)
    } else {
        Err(format!("ping: invalid argument: '{text}': out of range: {least} <= value <= {most}\n"))
    }
}

fn seconds(text: &str) -> Result<u64, String> {
    parse_seconds(text).ok_or_else(|| format!("ping: invalid argument: '{text}'\n"))
}

fn parse<'a>(words: &[&'a str]) -> Result<Request<'a>, String> {
    let mut request = Request {
        host: "",
        v4: false,
        v6: false,
        quiet: false,
        count: u64::MAX,
        interval_ns: 1_000_000_000,
        linger_ns: None,
        deadline_ns: None,
        bytes: 56,
        hops: 64,
        card: None,
    };
    for item in getopt("ping", words, "cisWwtI", "46nqh", &[]).map_err(|error| error + USAGE)? {
        match item {
            Item::Option('c', value) => request.count = number(value, 1, i64::MAX as u64)?,
            Item::Option('i', value) => request.interval_ns = seconds(value)?,
            Item::Option('s', value) => {
                request.bytes = number(value, 0, MAX_PING_PAYLOAD as u64)? as usize;
            }
            Item::Option('W', value) => request.linger_ns = Some(seconds(value)?),
            Item::Option('w', value) => request.deadline_ns = Some(seconds(value)?),
            Item::Option('t', value) => request.hops = number(value, 1, 255)? as u8,
            Item::Option('I', value) => request.card = Some(value),
            Item::Option('4', _) => request.v4 = true,
            Item::Option('6', _) => request.v6 = true,
            Item::Option('q', _) => request.quiet = true,
            Item::Option('h', _) => return Err(USAGE.to_string()),
            // Names are never looked up backwards.
            Item::Option(..) => {}
            Item::Operand(host) => request.host = host,
        }
    }
    if request.host.is_empty() {
        return Err("ping: usage error: Destination address required\n".to_string());
    }
    if request.v4 && request.v6 {
        return Err("ping: only one -4 or -6 option may be specified\n".to_string());
    }
    if request.interval_ns < LEAST_INTERVAL_NS {
        return Err("ping: cannot flood, minimal interval should be >= 0.002 s\n".to_string());
    }
    if let Some((host, card)) = request.host.split_once('%') {
        (request.host, request.card) = (host, Some(card));
    }
    Ok(request)
}

/// What an error of a call is called after `ping: connect: `.
fn reason(error: Error) -> &'static str {
    match error {
        Error::NetworkUnreachable => "Network is unreachable",
        Error::HostUnreachable => "No route to host",
        Error::NoBufferSpace => "No buffer space available",
        Error::MessageTooLong => "Message too long",
        Error::PermissionDenied => "Permission denied (broadcast)",
        _ => "Invalid argument",
    }
}

fn destination(request: &Request<'_>) -> Result<IpAddr, String> {
    let addresses = {
        // As the calls of the program do.
        let _guard = preempt::disable();
        net::resolve(request.host)
    };
    let host = request.host;
    let any = !request.v4 && !request.v6;
    match addresses {
        Ok(addresses) => addresses
            .into_iter()
            .find(|address| any || address.is_ipv4() == request.v4)
            .ok_or_else(|| format!("ping: {host}: Address family for hostname not supported\n")),
        Err(Error::TryAgain | Error::TimedOut | Error::NetworkUnreachable) => {
            Err(format!("ping: {host}: Temporary failure in name resolution\n"))
        }
        Err(_) => Err(format!("ping: {host}: Name or service not known\n")),
    }
}

/// `ping`.
pub fn run(words: &[&str]) -> Result<(), String> {
    let request = parse(words)?;
    let card = match request.card {
        None => None,
        Some(name) => {
            let number = name.strip_prefix("eth").and_then(|number| number.parse().ok());
            Some(number.ok_or_else(|| format!("ping: unknown iface: {name}\n"))?)
        }
    };
    let to = destination(&request)?;
    let connect = |error| format!("ping: connect: {}\n", reason(error));
    let pinger = Pinger::new(to, card).map_err(connect)?;
    let source = pinger.source().map_err(connect)?;
    let (host, bytes) = (request.host, request.bytes);
    let named = host.parse::<IpAddr>().is_err();
    print(&match to {
        IpAddr::V4(_) => format!("PING {host} ({to}) {bytes}({}) bytes of data.\n", bytes + 28),
        IpAddr::V6(_) if named => format!("PING {host}({host} ({to})) {bytes} data bytes\n"),
        IpAddr::V6(_) => format!("PING {host}({to}) {bytes} data bytes\n"),
    });
    let shown = |from: IpAddr| {
        if named && from == to { format!("{host} ({from})") } else { from.to_string() }
    };
    let mut tally = Tally::new();
    let begun = time::monotonic_ns();
    let ended = send_and_hear(&request, &pinger, source, &shown, &mut tally);
    if ended {
        print("^C");
    }
    print(&tally.summary(host, (time::monotonic_ns() - begun) / 1_000_000));
    Ok(())
}

/// True if Ctrl-C ended it.
fn send_and_hear(
    request: &Request<'_>,
    pinger: &Pinger,
    source: IpAddr,
    shown: &dyn Fn(IpAddr) -> String,
    tally: &mut Tally,
) -> bool {
    let begun = time::monotonic_ns();
    let end = request.deadline_ns.map_or(u64::MAX, |after| begun.saturating_add(after));
    let (mut next, mut last) = (begun, begun);
    loop {
        let now = time::monotonic_ns();
        if now >= end || console::is_claimed() {
            return false;
        }
        let wake = if tally.sent < request.count {
            if now >= next {
                tally.send(pinger, request, now);
                last = now;
                next = (next + request.interval_ns).max(now);
                continue;
            }
            next
        } else {
            let all = tally.received + tally.errors >= tally.sent;
            let usual = if tally.received > 0 { 2 * tally.most_us * 1000 } else { LINGER_NS };
            // As iputils: `-W` counts while nothing has come, then twice the longest time.
            let linger = match request.linger_ns {
                Some(asked) if tally.received == 0 => asked,
                Some(asked) => usual.max(asked),
                None => usual.max(1_000_000_000),
            };
            let until = last.saturating_add(linger);
            if all || now >= until {
                return false;
            }
            until
        };
        match pinger.wait(wake.min(end)) {
            Heard::Interrupt => return true,
            Heard::Nothing => {}
            Heard::Answer(answer) => {
                let line = tally.take(&answer, source, shown);
                if !request.quiet {
                    print(&line);
                }
            }
        }
    }
}

impl Tally {
    fn new() -> Tally {
        Tally {
            sent_at: [(0, true); REMEMBERED],
            sent: 0,
            received: 0,
            errors: 0,
            duplicates: 0,
            damaged: 0,
            least_us: u64::MAX,
            most_us: 0,
            sum_us: 0,
            squares: 0,
            timed: 0,
        }
    }

    fn send(&mut self, pinger: &Pinger, request: &Request<'_>, now_ns: u64) {
        self.sent += 1;
        let sequence = self.sent as u16;
        self.sent_at[usize::from(sequence) % REMEMBERED] = (now_ns / 1000, false);
        if let Err(error) = pinger.send(sequence, request.bytes, request.hops) {
            self.errors += 1;
            self.sent_at[usize::from(sequence) % REMEMBERED].1 = true;
            print(&format!("ping: sendmsg: {}\n", reason(error)));
        }
    }

    /// Counts an answer; the line about it.
    fn take(
        &mut self,
        answer: &Answer,
        source: IpAddr,
        shown: &dyn Fn(IpAddr) -> String,
    ) -> String {
        let sequence = answer.sequence;
        // What was sent longer ago than is remembered has no time.
        let behind = (self.sent as u16).wrapping_sub(sequence);
        let known = usize::from(behind) < REMEMBERED;
        let (left_us, answered) = self.sent_at[usize::from(sequence) % REMEMBERED];
        let first = !known || !answered;
        if known {
            self.sent_at[usize::from(sequence) % REMEMBERED].1 = true;
        }
        let AnswerKind::Reply { bytes, hops, damaged } = answer.kind else {
            self.errors += u64::from(first);
            return format!("From {} icmp_seq={sequence} {}\n", answer.from, what(answer, source));
        };
        let mut line =
            format!("{bytes} bytes from {}: icmp_seq={sequence} ttl={hops}", shown(answer.from));
        if known {
            let us = (answer.at.total_micros().max(0) as u64).saturating_sub(left_us);
            line += &format!(" time={} ms", short_ms(us));
            if first {
                self.least_us = self.least_us.min(us);
                self.most_us = self.most_us.max(us);
                self.sum_us += us;
                self.squares += u128::from(us) * u128::from(us);
                self.timed += 1;
            }
        }
        if first {
            self.received += 1;
        } else {
            self.duplicates += 1;
            line += " (DUP!)";
        }
        if damaged {
            self.damaged += 1;
            line += " (DAMAGED!)";
        }
        line + "\n"
    }

    fn summary(&self, host: &str, time_ms: u64) -> String {
        let Tally { sent, received, .. } = *self;
        let mut text = format!("\n--- {host} ping statistics ---\n");
        text += &format!("{sent} packets transmitted, {received} received, ");
        for (count, name) in
            [(self.duplicates, "duplicates"), (self.damaged, "corrupted"), (self.errors, "errors")]
        {
            if count > 0 {
                text += &format!("+{count} {name}, ");
            }
        }
        let lost = sent.saturating_sub(received) * 100 / sent.max(1);
        text += &format!("{lost}% packet loss, time {time_ms}ms\n");
        if let Some(average) = self.sum_us.checked_div(self.timed) {
            let square = u128::from(average) * u128::from(average);
            let variance = (self.squares / u128::from(self.timed)).saturating_sub(square);
            let deviation = variance.isqrt() as u64;
            let [least, average, most, deviation] =
                [self.least_us, average, self.most_us, deviation].map(ms);
            text += &format!("rtt min/avg/max/mdev = {least}/{average}/{most}/{deviation} ms\n");
        }
        text
    }
}

/// What an error says, in iputils' words.
fn what(answer: &Answer, source: IpAddr) -> &'static str {
    let (kind, code) = match answer.kind {
        AnswerKind::Error { kind, code } => (kind, code),
        // As the errors a router would send if the neighbour behind it were silent.
        _ if source.is_ipv4() => (3, 1),
        _ => (1, 3),
    };
    if source.is_ipv4() {
        match (kind, code) {
            (3, 0 | 6 | 11) => "Destination Net Unreachable",
            (3, 2) => "Destination Protocol Unreachable",
            (3, 3) => "Destination Port Unreachable",
            (3, 4) => "Frag needed and DF set",
            (3, 9) => "Destination Net Prohibited",
            (3, 10) => "Destination Host Prohibited",
            (3, 13) => "Packet filtered",
            (3, _) => "Destination Host Unreachable",
            (11, 1) => "Frag reassembly time exceeded",
            (11, _) => "Time to live exceeded",
            _ => "Parameter problem",
        }
    } else {
        match (kind, code) {
            (1, 0) => "Destination unreachable: No route",
            (1, 1) => "Destination unreachable: Administratively prohibited",
            (1, 2) => "Destination unreachable: Beyond scope of source address",
            (1, 4) => "Destination unreachable: Port unreachable",
            (1, _) => "Destination unreachable: Address unreachable",
            (2, _) => "Packet too big",
            (3, 1) => "Time exceeded: Defragmentation failure",
            (3, _) => "Time exceeded: Hop limit",
            _ => "Parameter problem",
        }
    }
}

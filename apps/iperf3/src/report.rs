//! What is told about a test: lines in iperf3's layout, or JSON with its names.

mod json;
mod text;

use std::net::SocketAddr;
use std::time::SystemTime;

use serde_json::{Map, Value, json};

use crate::control::Cookie;
use crate::error::{Error, Peer};
use crate::parameters::{Parameters, VERSION};
use crate::results::{Results, StreamResults};
use crate::stream::Stream;
use crate::test::{Interval, Test};
use crate::units::Unit;

/// Most that is kept of a test's intervals for its JSON, and of its lines for the client, in octets.
const KEPT: usize = 4 << 20;

/// How to tell.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Format {
    pub(crate) json: bool,
    pub(crate) unit: Unit,
}

/// Tells about one test.
pub(crate) struct Report {
    format: Format,
    /// Before each line.
    title: String,
    /// The lines so far, for a client that wants them.
    kept: Option<String>,
    start: Map<String, Value>,
    connected: Vec<Value>,
    /// Each interval as JSON, with commas between.
    intervals: String,
    dropped: usize,
    lines: usize,
}

/// One side's figures of a stream, or of several.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Figures {
    pub(crate) octets: u64,
    pub(crate) seconds: f64,
    pub(crate) packets: u64,
    pub(crate) lost: u64,
    pub(crate) out_of_order: u64,
    /// In seconds.
    pub(crate) jitter: f64,
    pub(crate) retransmits: Option<u64>,
}

/// Figures of both sides, as far as they are known.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Sides {
    pub(crate) sender: Option<Figures>,
    pub(crate) receiver: Option<Figures>,
}

impl Report {
    pub(crate) fn new(format: Format) -> Report {
        let mut start = Map::new();
        start.insert("version".to_owned(), json!(format!("iperf {VERSION}")));
        let system = format!("{} {}", std::env::consts::OS, std::env::consts::ARCH);
        start.insert("system_info".to_owned(), json!(system));
        Report {
            format,
            title: String::new(),
            kept: None,
            start,
            connected: Vec::new(),
            intervals: String::new(),
            dropped: 0,
            lines: 0,
        }
    }

    /// A line for the console.
    pub(crate) fn line(&mut self, line: &str) {
        if !self.format.json {
            println!("{}{line}", self.title);
        }
        if let Some(kept) = self.kept.as_mut().filter(|kept| kept.len() + line.len() < KEPT) {
            kept.push_str(line);
            kept.push('\n');
        }
    }

    /// Keeps the lines from now on.
    pub(crate) fn keep(&mut self) {
        self.kept.get_or_insert_default();
    }

    /// The lines that were kept.
    pub(crate) fn take_kept(&mut self) -> Option<String> {
        self.kept.take()
    }

    /// A test is about to be, with `peer`; a client knows it as `name`.
    pub(crate) fn begin(
        &mut self,
        parameters: &Parameters,
        peer: SocketAddr,
        name: Option<&str>,
        cookie: &Cookie,
    ) {
        let now = SystemTime::now();
        let seconds = now.duration_since(SystemTime::UNIX_EPOCH).map_or(0, |time| time.as_secs());
        let host =
            json!({ "host": name.map_or_else(|| shown(peer), str::to_owned), "port": peer.port() });
        let cookie = String::from_utf8_lossy(&cookie[..cookie.len() - 1]).into_owned();
        for (key, value) in [
            ("timestamp", json!({ "time": httpdate::fmt_http_date(now), "timesecs": seconds })),
            (if name.is_some() { "connecting_to" } else { "accepted_connection" }, host),
            ("cookie", json!(cookie)),
            ("target_bitrate", json!(parameters.rate)),
            ("sock_bufsize", json!(parameters.window.unwrap_or(0))),
        ] {
            self.start.insert(key.to_owned(), value);
        }
        if let Some(text) = &parameters.extra_data {
            self.start.insert("extra_data".to_owned(), json!(text));
        }
        if let Some(title) = &parameters.title {
            self.start.insert("title".to_owned(), json!(title));
            self.title = format!("{title}:  ");
        }
    }

    /// A stream has been connected.
    pub(crate) fn connected(&mut self, stream: &Stream) {
        let number = stream.number();
        let (local, remote) = (stream.local, stream.remote);
        self.line(&format!(
            "[{number:3}] local {} port {} connected to {} port {}",
            shown(local),
            local.port(),
            shown(remote),
            remote.port()
        ));
        self.connected.push(json!({
            "socket": number,
            "local_host": shown(local),
            "local_port": local.port(),
            "remote_host": shown(remote),
            "remote_port": remote.port(),
        }));
    }

    /// The test runs.
    pub(crate) fn start(&mut self, test: &Test) {
        self.start.insert("test_start".to_owned(), json::test_start(&test.parameters));
        let header = text::interval_header(test);
        self.line(&header);
    }

    /// An interval has passed.
    pub(crate) fn interval(&mut self, test: &Test, interval: &Interval) {
        if self.format.json {
            let value = json::interval(test, interval).to_string();
            if self.intervals.len() + value.len() > KEPT {
                self.dropped += 1;
            } else {
                let comma = if self.intervals.is_empty() { "" } else { "," };
                self.intervals.push_str(comma);
                self.intervals.push_str(&value);
            }
        }
        if self.lines > 0 && test.parameters.parallel > 1 {
            self.line(text::RULE);
        }
        self.lines += 1;
        for line in text::interval(test, interval, self.format.unit) {
            self.line(&line);
        }
    }

    /// The test is over. `peer`: what the other side told.
    pub(crate) fn end(&mut self, test: &Test, peer: Option<&Results>) {
        let sides = sides(test, peer);
        for line in text::summary(test, &sides, self.format.unit) {
            self.line(&line);
        }
    }

    /// The JSON of a test that is over.
    pub(crate) fn print_json(&self, test: &Test, peer: Option<&Results>) {
        if self.format.json {
            let end = json::end(test, &sides(test, peer), peer);
            self.print(&end, None);
        }
    }

    /// Tells an error, in the way chosen.
    pub(crate) fn error(&mut self, error: &Error) {
        if self.format.json {
            self.print(&json!({}), Some(error));
        } else {
            eprintln!("{}iperf3: error - {error}", self.title);
        }
    }

    fn print(&self, end: &Value, error: Option<&Error>) {
        let mut start = Map::new();
        start.insert("connected".to_owned(), Value::Array(self.connected.clone()));
        start.extend(self.start.clone());
        let error = error.map_or(String::new(), |error| {
            format!(",\"error\":{}", Value::String(error.to_string()))
        });
        let dropped = match self.dropped {
            0 => String::new(),
            count => format!(",\"intervals_dropped\":{count}"),
        };
        println!(
            "{{\"start\":{},\"intervals\":[{}]{dropped},\"end\":{end}{error}}}",
            Value::Object(start),
            self.intervals
        );
    }
}

/// An address without the port; IPv4 as such on an IPv6 socket, too.
pub(crate) fn shown(address: SocketAddr) -> String {
    address.ip().to_canonical().to_string()
}

/// Of each stream.
fn sides(test: &Test, peer: Option<&Results>) -> Vec<Sides> {
    let of = |(at, stream): (usize, &Stream)| {
        let ours = Figures::ours(test, stream);
        let theirs = peer.map(|peer| Figures::theirs(&peer.streams[at], &stream_base(stream)));
        if stream.is_sender {
            Sides { sender: Some(ours), receiver: theirs }
        } else {
            // Each datagram that left has a number; how many came, we know best.
            Sides { sender: theirs, receiver: Some(ours) }
        }
    };
    test.streams.iter().enumerate().map(of).collect()
}

/// Losses and packets before counting began, for peers that don't tell theirs.
fn stream_base(stream: &Stream) -> (u64, u64) {
    let packets = if stream.is_sender { stream.base.sent } else { stream.base.receipt.packets };
    (stream.base.receipt.lost, packets)
}

impl Figures {
    fn ours(test: &Test, stream: &Stream) -> Figures {
        let count = stream.count().since(&stream.base);
        Figures {
            octets: count.octets,
            seconds: test.seconds(stream),
            packets: if stream.is_sender { count.sent } else { count.receipt.packets },
            lost: count.receipt.lost,
            out_of_order: count.receipt.out_of_order,
            jitter: count.receipt.jitter,
            retransmits: None,
        }
    }

    fn theirs(results: &StreamResults, base: &(u64, u64)) -> Figures {
        let (lost, packets) = results.omitted.unwrap_or(*base);
        Figures {
            octets: results.octets,
            seconds: results.seconds,
            packets: results.packets.saturating_sub(packets),
            lost: results.lost.saturating_sub(lost),
            out_of_order: 0,
            jitter: results.jitter,
            retransmits: results.retransmits,
        }
    }

    /// Of several streams.
    fn sum(figures: impl Iterator<Item = Figures>) -> Option<Figures> {
        let mut count = 0;
        let mut sum = Figures::default();
        for one in figures {
            count += 1;
            sum.octets = sum.octets.saturating_add(one.octets);
            sum.seconds = sum.seconds.max(one.seconds);
            sum.packets = sum.packets.saturating_add(one.packets);
            sum.lost = sum.lost.saturating_add(one.lost);
            sum.out_of_order += one.out_of_order;
            sum.jitter += one.jitter;
            if let Some(more) = one.retransmits {
                sum.retransmits = Some(sum.retransmits.unwrap_or(0).saturating_add(more));
            }
        }
        sum.jitter /= f64::from(count.max(1));
        (count > 0).then_some(sum)
    }

    fn rate(&self) -> f64 {
        if self.seconds > 0.0 { self.octets as f64 / self.seconds } else { 0.0 }
    }

    fn lost_percent(&self) -> f64 {
        if self.packets > 0 { 100.0 * self.lost as f64 / self.packets as f64 } else { 0.0 }
    }
}

/// The streams of each direction, the client's first: their places, and whether we send.
fn directions(test: &Test) -> impl Iterator<Item = (Vec<usize>, bool)> + '_ {
    let forward = test.role == Peer::Client;
    [forward, !forward].into_iter().filter_map(|sends| {
        let places: Vec<usize> =
            (0..test.streams.len()).filter(|&at| test.streams[at].is_sender == sends).collect();
        (!places.is_empty()).then_some((places, sends))
    })
}

/// An interval's figures of each stream.
fn interval_figures(test: &Test, interval: &Interval) -> Vec<Figures> {
    let figures = |(stream, count): (&Stream, &crate::stream::Count)| Figures {
        octets: count.octets,
        seconds: interval.end - interval.start,
        packets: if stream.is_sender { count.sent } else { count.receipt.packets },
        lost: count.receipt.lost,
        out_of_order: count.receipt.out_of_order,
        jitter: count.receipt.jitter,
        retransmits: None,
    };
    test.streams.iter().zip(&interval.counts).map(figures).collect()
}

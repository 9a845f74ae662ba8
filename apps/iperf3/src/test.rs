//! A test while it runs: the same on both sides.

use std::io;
use std::net::UdpSocket;
use std::time::{Duration, Instant};

use crate::cpu::Cpu;
use crate::datagram::{ANSWER, HELLO};
use crate::error::Peer;
use crate::parameters::{Parameters, TCP_BLOCK};
use crate::results::{Results, StreamResults};
use crate::stream::{Count, Next, Shared, Stream};

/// Datagrams read before others get their turn.
const DATAGRAMS: usize = 64;

/// A test.
pub(crate) struct Test {
    pub(crate) parameters: Parameters,
    /// What we are in it.
    pub(crate) role: Peer,
    pub(crate) streams: Vec<Stream>,
    /// The streams' socket, of a server's UDP test.
    pub(crate) socket: Option<UdpSocket>,
    /// It may have something to read.
    pub(crate) socket_ready: bool,
    block: Vec<u8>,
    input: Vec<u8>,
    octets_left: u64,
    blocks_left: u64,
    epoch: Instant,
    /// What comes now counts: nothing is left out any more.
    is_counting: bool,
    /// When counting began, or leaving out if it hasn't.
    since: Instant,
    ended: Option<Instant>,
    interval: Option<Duration>,
    interval_start: Instant,
    interval_base: Vec<Count>,
    cpu: Cpu,
}

/// What happened between two reports.
pub(crate) struct Interval {
    /// Seconds since the test, or the part of it that doesn't count, began.
    pub(crate) start: f64,
    pub(crate) end: f64,
    pub(crate) omitted: bool,
    /// One of each stream, in their order.
    pub(crate) counts: Vec<Count>,
}

impl Test {
    pub(crate) fn new(
        parameters: Parameters,
        role: Peer,
        interval: Option<Duration>,
        now: Instant,
    ) -> Test {
        let length = parameters.length as usize;
        // Datagrams may be longer than agreed; TCP is read in pieces of a block.
        let input = if parameters.udp { 65_536 } else { length.max(TCP_BLOCK as usize) };
        Test {
            role,
            streams: Vec::new(),
            socket: None,
            socket_ready: true,
            block: noise(length),
            input: vec![0; input],
            octets_left: u64::MAX,
            blocks_left: u64::MAX,
            epoch: now,
            is_counting: false,
            since: now,
            ended: None,
            interval,
            interval_start: now,
            interval_base: Vec::new(),
            cpu: Cpu::start(now),
            parameters,
        }
    }

    /// The id of the next stream.
    pub(crate) fn next_id(&self) -> u64 {
        match self.streams.len() as u64 {
            0 => 1,
            count => count + 2,
        }
    }

    /// Whether the next stream's data is sent by us. The client's streams come first.
    pub(crate) fn next_sends(&self) -> bool {
        let is_forward = if self.parameters.bidirectional {
            self.streams.len() < self.parameters.parallel as usize
        } else {
            !self.parameters.reverse
        };
        is_forward == (self.role == Peer::Client)
    }

    pub(crate) fn has_all_streams(&self) -> bool {
        self.streams.len() >= self.parameters.streams() as usize
    }

    /// The test begins.
    pub(crate) fn start(&mut self, now: Instant) {
        self.cpu = Cpu::start(now);
        (self.epoch, self.since, self.interval_start) = (now, now, now);
        for stream in &mut self.streams {
            stream.pace.restart(now);
            (stream.ready, stream.active) = (true, now);
        }
        self.interval_base = self.streams.iter().map(|stream| stream.total).collect();
        if self.parameters.omit == 0 {
            self.count(now);
        }
    }

    fn count(&mut self, now: Instant) {
        (self.is_counting, self.since, self.interval_start) = (true, now, now);
        for stream in &mut self.streams {
            stream.begin_counting(now);
            stream.ready = true;
        }
        self.interval_base = self.streams.iter().map(|stream| stream.total).collect();
        // The client ends the test.
        if self.role == Peer::Client {
            self.octets_left = self.parameters.bytes.unwrap_or(u64::MAX);
            self.blocks_left = self.parameters.blocks.unwrap_or(u64::MAX);
        }
    }

    /// The streams do what they can. When to come back.
    pub(crate) fn turn(&mut self, now: Instant) -> io::Result<Next> {
        let mut again = self.receive()?;
        let mut wake: Option<Instant> = None;
        let mut shared = Shared {
            parameters: &self.parameters,
            socket: self.socket.as_ref(),
            block: &mut self.block,
            input: &mut self.input,
            octets_left: self.octets_left,
            blocks_left: self.blocks_left,
            epoch: self.epoch,
        };
        for stream in &mut self.streams {
            if stream.closed || (stream.is_sender && self.ended.is_some()) {
                continue;
            }
            if stream.ready || stream.wake.is_some_and(|wake| wake <= now) {
                let next = stream.turn(&mut shared, now)?;
                (stream.ready, stream.wake) = match next {
                    Next::Event => (false, None),
                    Next::Again => (true, None),
                    Next::At(then) => (false, Some(then)),
                };
            }
            again |= stream.ready;
            wake = wake.into_iter().chain(stream.wake).min();
        }
        (self.octets_left, self.blocks_left) = (shared.octets_left, shared.blocks_left);
        Ok(match wake {
            _ if again => Next::Again,
            Some(then) => Next::At(then),
            None => Next::Event,
        })
    }

    /// Reads the shared socket. True if there may be more.
    fn receive(&mut self) -> io::Result<bool> {
        let Some(socket) = self.socket.as_ref().filter(|_| self.socket_ready) else {
            return Ok(false);
        };
        for _ in 0..DATAGRAMS {
            match socket.recv_from(&mut self.input) {
                Ok((length, peer)) => {
                    // Streams are few, and most often there is one.
                    let stream = self.streams.iter_mut().find(|stream| stream.remote == peer);
                    let Some(stream) = stream else { continue };
                    if length == HELLO.len() {
                        // Again: our answer was lost.
                        let _ = socket.send_to(&ANSWER, peer);
                    } else if !stream.is_sender {
                        let wide = self.parameters.wide_counters;
                        stream.note(&self.input[..length], wide, self.epoch);
                    }
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    self.socket_ready = false;
                    return Ok(false);
                }
                // An earlier datagram's error.
                Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => {}
                Err(error) => return Err(error),
            }
        }
        Ok(true)
    }

    /// When [`Test::tick`] is to be called at the latest.
    pub(crate) fn deadline(&self) -> Option<Instant> {
        if self.ended.is_some() {
            return None;
        }
        let report = self.interval.map(|interval| self.interval_start + interval);
        report.into_iter().chain(self.end_of_part()).min()
    }

    fn end_of_part(&self) -> Option<Instant> {
        let seconds = match (self.is_counting, self.parameters.time, self.role) {
            (false, ..) => self.parameters.omit,
            (true, 1.., Peer::Client) => self.parameters.time,
            (true, ..) => return None,
        };
        Some(self.since + Duration::from_secs(seconds.into()))
    }

    /// What is due by time: a report, the end of what doesn't count.
    pub(crate) fn tick(&mut self, now: Instant) -> Option<Interval> {
        if self.ended.is_some() {
            return None;
        }
        if !self.is_counting && self.end_of_part().is_some_and(|end| end <= now) {
            let report = self.cut(now);
            self.count(now);
            return report;
        }
        let interval = self.interval?;
        if now < self.interval_start + interval {
            return None;
        }
        self.cut(now)
    }

    /// Ends the interval.
    fn cut(&mut self, now: Instant) -> Option<Interval> {
        let interval = self.interval?;
        let counts: Vec<Count> = (self.streams.iter().zip(&self.interval_base))
            .map(|(stream, base)| stream.total.since(base))
            .collect();
        // A sliver in which nothing came isn't worth a line.
        let is_worth = now - self.interval_start >= interval / 10
            || counts.iter().any(|count| count.octets > 0);
        let report = is_worth.then(|| Interval {
            start: (self.interval_start - self.since).as_secs_f64(),
            end: (now - self.since).as_secs_f64(),
            omitted: !self.is_counting,
            counts,
        });
        // On the beat, unless there was none for long.
        let due = self.interval_start + interval;
        self.interval_start = if now < due + interval && now >= due { due } else { now };
        self.interval_base = self.streams.iter().map(|stream| stream.total).collect();
        report
    }

    /// Whether a client's test has had what it was to have.
    pub(crate) fn is_over(&self, now: Instant) -> bool {
        if !self.is_counting {
            return false;
        }
        let Parameters { time, bytes, blocks, .. } = self.parameters;
        let sums = |count: fn(&Stream) -> u64| {
            let sum = |sends| {
                self.streams.iter().filter(|s| s.is_sender == sends).map(count).sum::<u64>()
            };
            sum(true).max(sum(false))
        };
        (time > 0 && now >= self.since + Duration::from_secs(time.into()))
            || bytes.is_some_and(|bytes| sums(Stream::octets) >= bytes)
            || blocks.is_some_and(|blocks| sums(|s| s.total.blocks - s.base.blocks) >= blocks)
            || (!self.streams.is_empty() && self.streams.iter().all(|stream| stream.closed))
    }

    /// Ends the test: nothing is sent any more, and what still arrives is what was under way. A server goes on counting
    /// that, until [`Test::settle`]: what the client has sent and the network delivers has been received. A client, who
    /// says when the other side has to stop, doesn't.
    pub(crate) fn end(&mut self, now: Instant) -> Option<Interval> {
        let report = self.cut(now);
        self.ended = Some(now);
        self.cpu.stop(now);
        for stream in &mut self.streams {
            if self.role == Peer::Client {
                stream.last = Some(stream.total);
            } else {
                // iperf 3.12 reads on to the end of what we have sent, and doesn't care for results before.
                stream.finish();
            }
        }
        report
    }

    /// When something arrived last.
    pub(crate) fn active(&self) -> Instant {
        self.streams.iter().map(|stream| stream.active).max().unwrap_or(self.since)
    }

    /// When the test moved last. A server that sends datagrams may send them to nobody: its test has an end all the same.
    pub(crate) fn progress(&self, now: Instant) -> Instant {
        let seconds = u64::from(self.parameters.omit) + u64::from(self.parameters.time);
        let end = self.epoch + Duration::from_secs(seconds);
        if self.parameters.time > 0 && now > end { self.active().min(end) } else { self.active() }
    }

    /// Whether everything that the peer says to have sent has arrived.
    pub(crate) fn has_all(&self, sent: &Results) -> bool {
        let receivers = self.streams.iter().zip(&sent.streams).filter(|(s, _)| !s.is_sender);
        receivers.into_iter().all(|(s, sent)| s.closed || s.octets() >= sent.octets)
    }

    /// Nothing more is counted.
    pub(crate) fn settle(&mut self) {
        for stream in &mut self.streams {
            stream.last.get_or_insert(stream.total);
        }
    }

    /// Seconds that were counted of a stream, until its last datum.
    pub(crate) fn seconds(&self, stream: &Stream) -> f64 {
        let mut end = self.ended.unwrap_or_else(Instant::now);
        if !stream.is_sender && self.role == Peer::Server {
            end = end.max(stream.active);
        }
        end.saturating_duration_since(self.since).as_secs_f64()
    }

    /// Use of the CPU in percent.
    pub(crate) fn cpu(&self) -> [f64; 3] {
        self.cpu.percent()
    }

    /// What the other side is told.
    pub(crate) fn results(&self) -> Results {
        let stream = |stream: &Stream| {
            let (count, base) = (stream.count(), stream.base);
            let packets = |count: &Count| {
                if stream.is_sender { count.sent } else { count.receipt.packets }
            };
            StreamResults {
                id: stream.id,
                octets: stream.octets(),
                retransmits: None,
                jitter: count.receipt.jitter,
                lost: count.receipt.lost,
                packets: packets(&count),
                omitted: Some((base.receipt.lost, packets(&base))),
                seconds: self.seconds(stream),
            }
        };
        Results {
            cpu: self.cpu(),
            has_retransmits: false,
            congestion: None,
            output: None,
            streams: self.streams.iter().map(stream).collect(),
        }
    }
}

impl Count {
    /// What was added since; of the jitter, what it is now.
    pub(crate) fn since(&self, base: &Count) -> Count {
        Count {
            octets: self.octets - base.octets,
            blocks: self.blocks - base.blocks,
            sent: self.sent - base.sent,
            receipt: self.receipt.since(&base.receipt),
        }
    }
}

/// A block to send: the same each time, compressible by nobody.
fn noise(length: usize) -> Vec<u8> {
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let mut bytes = Vec::with_capacity(length + 8);
    while bytes.len() < length {
        // xorshift64* [Vigna 2014]
        state ^= state >> 12;
        state ^= state << 25;
        state ^= state >> 27;
        bytes.extend_from_slice(&state.wrapping_mul(0x2545_f491_4f6c_dd1d).to_le_bytes());
    }
    bytes.truncate(length);
    bytes
}

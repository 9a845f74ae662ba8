//! One test of a server, from the client's cookie to its farewell.

use std::io;
use std::net::{SocketAddr, TcpStream, UdpSocket};
use std::time::{Duration, Instant};

use reactor::{Event, Poller};

use super::{CONTROL, FIRST_STREAM, SHARED, Settings};
use crate::control::{Control, Cookie, State};
use crate::datagram::ANSWER;
use crate::error::{Error, Peer};
use crate::parameters::Parameters;
use crate::report::Report;
use crate::results::Results;
use crate::stream::{Link, Next, Stream};
use crate::test::Test;
use crate::tuning::Tuning;

/// How long the client may take for each step before and after the test.
const STEP_TIME: Duration = Duration::from_secs(30);
/// What was under way when the test ended is waited for until nothing has come for so long ...
const QUIET: Duration = Duration::from_millis(250);
/// ... but no longer than this.
const SETTLE_TIME: Duration = Duration::from_secs(5);

/// A test on a server.
pub(super) struct Session {
    control: Control,
    cookie: Cookie,
    peer: SocketAddr,
    report: Report,
    settings: Settings,
    phase: Phase,
    /// The phase ends then at the latest.
    limit: Option<Instant>,
    /// The streams want a turn then.
    wake: Option<Instant>,
}

enum Phase {
    Parameters,
    /// Everything is there to take the streams.
    Ready(Test),
    Streams(Test),
    Running(Test),
    /// The test is over; the client's results come, and what was under way.
    Results(Test, Option<Results>),
    Farewell,
}

/// What a session wants next.
pub(super) enum Step {
    /// Events, or its deadline.
    Wait,
    /// A turn at once.
    Again,
    /// Listeners with this set, and a turn.
    Listen(Tuning),
    /// Nothing: it is over.
    Over,
}

impl Session {
    pub(super) fn new(
        mut control: Control,
        cookie: Cookie,
        peer: SocketAddr,
        report: Report,
        settings: Settings,
        now: Instant,
    ) -> Session {
        // If that fails, the next look at the connection says so.
        let _ = control.send(State::ExchangeParameters);
        Session {
            control,
            cookie,
            peer,
            report,
            settings,
            phase: Phase::Parameters,
            limit: Some(now + STEP_TIME),
            wake: None,
        }
    }

    /// When it wants a turn at the latest.
    pub(super) fn deadline(&self) -> Option<Instant> {
        let beat = match &self.phase {
            Phase::Running(test) => test.deadline(),
            Phase::Results(test, Some(_)) => Some(test.active() + QUIET),
            _ => None,
        };
        self.limit.into_iter().chain(self.wake).chain(beat).min()
    }

    /// Something has happened on one of its sources.
    pub(super) fn notice(&mut self, event: &Event) {
        let (Phase::Streams(test) | Phase::Running(test) | Phase::Results(test, _)) =
            &mut self.phase
        else {
            return;
        };
        match event.key {
            SHARED => {
                test.socket_ready |= event.readable;
                if event.writable {
                    for stream in test.streams.iter_mut().filter(|stream| stream.is_sender) {
                        stream.ready = true;
                    }
                }
            }
            key if key >= FIRST_STREAM => {
                if let Some(stream) = test.streams.get_mut(key - FIRST_STREAM) {
                    stream.ready |= if stream.is_sender { event.writable } else { event.readable };
                }
            }
            _ => {}
        }
    }

    /// A connection that has told a cookie: one of our streams, or given back.
    pub(super) fn take_stream(
        &mut self,
        stream: TcpStream,
        peer: SocketAddr,
        cookie: &Cookie,
        poller: &Poller,
        now: Instant,
    ) -> Option<TcpStream> {
        let Phase::Streams(test) = &mut self.phase else { return Some(stream) };
        if test.parameters.udp || test.has_all_streams() || *cookie != self.cookie {
            return Some(stream);
        }
        let Ok(local) = stream.local_addr() else { return Some(stream) };
        if poller.add(&stream, FIRST_STREAM + test.streams.len()).is_err()
            || stream.set_nodelay(test.parameters.no_delay).is_err()
        {
            return Some(stream);
        }
        self.add(Link::Tcp(stream), (local, peer), now);
        None
    }

    fn add(&mut self, link: Link, addresses: (SocketAddr, SocketAddr), now: Instant) {
        let Phase::Streams(test) = &mut self.phase else { return };
        let stream =
            Stream::new(test.next_id(), test.next_sends(), link, addresses, &test.parameters, now);
        self.report.connected(&stream);
        test.streams.push(stream);
    }

    /// Goes on as far as it can.
    pub(super) fn step(&mut self, poller: &Poller, now: Instant) -> Result<Step, Error> {
        self.control.fill()?;
        self.control.flush()?;
        let step = match self.phase {
            Phase::Parameters => self.negotiate(poller, now),
            Phase::Ready(_) => self.invite(),
            Phase::Streams(_) => self.gather(now),
            Phase::Running(_) => self.run(now),
            Phase::Results(..) => self.conclude(now),
            Phase::Farewell => match self.control.state() {
                Ok(None) => Ok(Step::Wait),
                // Done, or gone without a word: as good.
                _ => Ok(Step::Over),
            },
        }?;
        if matches!(step, Step::Wait) && self.limit.is_some_and(|limit| limit <= now) {
            return match self.phase {
                Phase::Farewell => Ok(Step::Over),
                Phase::Running(_) => Err(Error::TimedOut("nothing has come from the client")),
                _ => Err(Error::TimedOut("the client is silent")),
            };
        }
        Ok(step)
    }

    fn negotiate(&mut self, poller: &Poller, now: Instant) -> Result<Step, Error> {
        let refuse = |what| Error::Parameters(crate::error::code::PARAMETERS, what);
        let Some(value) = self.control.message().map_err(refuse)? else { return Ok(Step::Wait) };
        let parameters = Parameters::from_json(&value)?;
        self.report.begin(&parameters, self.peer, None, &self.cookie);
        if parameters.server_output {
            self.report.keep();
        }
        for name in &parameters.ignored {
            self.report
                .line(&format!("the client asks for {name}, which is not supported here: ignored"));
        }
        let (is_udp, tuning) = (parameters.udp, parameters.tuning());
        let mut test = Test::new(parameters, Peer::Server, self.settings.interval, now);
        if is_udp {
            let socket = self.datagram_socket(poller, tuning);
            test.socket =
                Some(socket.map_err(|error| Error::Io("unable to listen for UDP", error))?);
        }
        self.phase = Phase::Ready(test);
        self.limit = Some(now + STEP_TIME);
        Ok(if is_udp || tuning.is_plain() { Step::Again } else { Step::Listen(tuning) })
    }

    fn invite(&mut self) -> Result<Step, Error> {
        if let Phase::Ready(test) = std::mem::replace(&mut self.phase, Phase::Farewell) {
            self.phase = Phase::Streams(test);
        }
        self.control.send(State::CreateStreams)?;
        Ok(Step::Again)
    }

    /// One socket for all UDP streams, at the address the client has called.
    fn datagram_socket(&self, poller: &Poller, tuning: Tuning) -> io::Result<UdpSocket> {
        let local = self.control.stream().local_addr()?;
        let address = match local.ip().to_canonical() {
            // It may need its scope.
            address if address == local.ip() => {
                let mut local = local;
                local.set_port(self.settings.port);
                local
            }
            mapped => SocketAddr::new(mapped, self.settings.port),
        };
        let socket = UdpSocket::bind(address)?;
        tuning.apply(&socket)?;
        socket.set_nonblocking(true)?;
        poller.add(&socket, SHARED)?;
        Ok(socket)
    }

    fn gather(&mut self, now: Instant) -> Result<Step, Error> {
        self.greet_datagrams(now)?;
        if let Some(state) = self.control.state()? {
            return Err(unexpected(state));
        }
        let Phase::Streams(test) = &mut self.phase else { return Ok(Step::Again) };
        if !test.has_all_streams() {
            return Ok(Step::Wait);
        }
        test.start(now);
        self.report.start(test);
        self.control.send(State::TestStart)?;
        self.control.send(State::TestRunning)?;
        let Phase::Streams(test) = std::mem::replace(&mut self.phase, Phase::Farewell) else {
            return Ok(Step::Again);
        };
        let is_tuned = !test.parameters.udp && !test.parameters.tuning().is_plain();
        self.phase = Phase::Running(test);
        // Now, while everybody else is told that the server is busy: at the end, the next client may be waiting already.
        Ok(if is_tuned { Step::Listen(Tuning::default()) } else { Step::Again })
    }

    /// Whoever sends a datagram now is a stream.
    fn greet_datagrams(&mut self, now: Instant) -> Result<(), Error> {
        let mut datagram = [0; 64];
        loop {
            let Phase::Streams(test) = &mut self.phase else { return Ok(()) };
            let Some(socket) = &test.socket else { return Ok(()) };
            let (peer, local) = match socket.recv_from(&mut datagram) {
                Ok((_, peer)) => (peer, socket.local_addr()),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                // An earlier answer's.
                Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => continue,
                Err(error) => return Err(Error::Io("unable to receive from a stream", error)),
            };
            // Only the client's: whoever else knows the port could take a stream's place.
            if peer.ip().to_canonical() != self.peer.ip().to_canonical() {
                continue;
            }
            let is_known = test.streams.iter().any(|stream| stream.remote == peer);
            if is_known || !test.has_all_streams() {
                // Again, if the first answer was lost. A full card loses this one.
                let _ = socket.send_to(&ANSWER, peer);
            }
            if !is_known && !test.has_all_streams() {
                let local = local.map_err(|error| Error::Io("unable to accept a stream", error))?;
                self.add(Link::Shared(peer), (local, peer), now);
            }
        }
    }

    fn run(&mut self, now: Instant) -> Result<Step, Error> {
        let Phase::Running(test) = &mut self.phase else { return Ok(Step::Again) };
        let next = test.turn(now).map_err(stream_error)?;
        if let Some(interval) = test.tick(now) {
            self.report.interval(test, &interval);
        }
        match self.control.state()? {
            None => {}
            Some(State::TestEnd) => {
                if let Some(interval) = test.end(now) {
                    self.report.interval(test, &interval);
                }
                self.control.send(State::ExchangeResults)?;
                let Phase::Running(test) = std::mem::replace(&mut self.phase, Phase::Farewell)
                else {
                    return Ok(Step::Again);
                };
                self.phase = Phase::Results(test, None);
                self.limit = Some(now + STEP_TIME);
                return Ok(Step::Again);
            }
            Some(state) => return Err(unexpected(state)),
        }
        // Somebody who is gone without a word sends nothing and takes nothing.
        self.limit = Some(test.progress(now) + self.settings.receive_timeout);
        Ok(self.next(next))
    }

    fn next(&mut self, next: Next) -> Step {
        self.wake = match next {
            Next::Again => return Step::Again,
            Next::At(then) => Some(then),
            Next::Event => None,
        };
        Step::Wait
    }

    fn conclude(&mut self, now: Instant) -> Result<Step, Error> {
        let Phase::Results(test, results) = &mut self.phase else { return Ok(Step::Again) };
        let next = test.turn(now).map_err(stream_error)?;
        let Some(sent) = results else {
            if let Some(value) = self.control.message().map_err(Error::Results)? {
                *results = Some(Results::from_json(&value, test.streams.iter().map(|s| s.id))?);
                self.limit = Some(now + SETTLE_TIME);
                return Ok(Step::Again);
            }
            return Ok(self.next(next));
        };
        let is_quiet = now >= test.active() + QUIET || self.limit.is_some_and(|limit| limit <= now);
        if !test.has_all(sent) && !is_quiet {
            return Ok(self.next(next));
        }
        test.settle();
        self.report.end(test, Some(sent));
        let mut ours = test.results();
        ours.output = self.report.take_kept();
        self.report.print_json(test, Some(sent));
        self.control.send_message(&ours.to_json())?;
        self.control.send(State::DisplayResults)?;
        self.phase = Phase::Farewell;
        self.limit = Some(now + STEP_TIME);
        Ok(Step::Again)
    }

    /// The test ends here. The client is told, if it is there.
    pub(super) fn fail(&mut self, error: Error) {
        if !matches!(error, Error::Closed(_) | Error::Terminated(_)) {
            let _ = self.control.send_error(&error);
        }
        self.report.error(&error);
    }
}

/// What a state means that isn't the one waited for.
fn unexpected(state: State) -> Error {
    match state {
        State::ClientTerminate => Error::Terminated(Peer::Client),
        state => Error::Message(state as i8),
    }
}

fn stream_error(error: io::Error) -> Error {
    Error::Io("unable to use a stream", error)
}

const _: () = assert!(CONTROL < FIRST_STREAM);

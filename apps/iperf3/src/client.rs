//! The client: one test with one server.

use std::io::{self, ErrorKind, Write};
use std::net::{IpAddr, SocketAddr, TcpStream, ToSocketAddrs, UdpSocket};
use std::time::{Duration, Instant};

use reactor::Poller;
use sockets::Socket;

use crate::control::{Control, Cookie, State, new_cookie};
use crate::datagram::{ANSWER, HELLO, OLD_ANSWER};
use crate::error::{Error, Peer};
use crate::options::{Family, Options};
use crate::parameters::{DATAGRAM, UDP_BLOCK};
use crate::report::Report;
use crate::results::Results;
use crate::stream::{Link, Next, Stream};
use crate::test::Test;
use crate::tuning::Tuning;

/// Events fetched at a time.
const EVENT_LIMIT: usize = 64;
/// How long the server may take for a step before and after the test.
const STEP_TIME: Duration = Duration::from_secs(30);
/// How long a UDP stream's first datagram may take to be answered. It isn't repeated: older servers take a second one for
/// data.
const ANSWER_TIME: Duration = Duration::from_secs(10);

/// There is no way to the server. On an appliance `std` has no name for it.
const ENETUNREACH: i32 = 101;
/// Between two attempts to reach a server for which there is no way yet.
const RETRY: Duration = Duration::from_millis(100);

const CONTROL: usize = 0;
const FIRST_STREAM: usize = 1;

/// Runs the test that the options ask for and reports it.
pub fn run(options: &Options, host: &str) -> Result<(), Error> {
    let mut report = Report::new(options.format);
    let result = attempt(options, host, &mut report);
    if let Err(error) = &result {
        report.error(error);
    }
    result
}

fn attempt(options: &Options, host: &str, report: &mut Report) -> Result<(), Error> {
    report.line(&format!("Connecting to host {host}, port {}", options.port));
    let (stream, server) =
        connect(options, host).map_err(|error| Error::Io("unable to connect to server", error))?;
    let mut parameters = options.parameters.clone();
    if parameters.udp && !options.has_length {
        // What fits one frame, as far as the control connection knows.
        let segment = sockets::tcp_mss(&stream).unwrap_or(UDP_BLOCK);
        parameters.length = segment.clamp(*DATAGRAM.start() as u32, *DATAGRAM.end() as u32);
    }
    if parameters.reverse {
        report.line(&format!("Reverse mode, remote host {host} is sending"));
    }
    let cookie = new_cookie();
    report.begin(&parameters, server, Some(host), &cookie);
    let setup = |error| Error::Io("unable to set up the control connection", error);
    stream.set_nonblocking(true).map_err(setup)?;
    stream.set_nodelay(true).map_err(setup)?;
    let mut poller = Poller::new(EVENT_LIMIT).map_err(setup)?;
    poller.add(&stream, CONTROL).map_err(setup)?;
    let mut control = Control::new(stream, Peer::Server);
    control.send_octets(&cookie)?;
    let now = Instant::now();
    let mut client = Client {
        options,
        server,
        cookie,
        control,
        report,
        test: Test::new(parameters, Peer::Client, options.interval, now),
        phase: Phase::Before,
        limit: now + STEP_TIME,
    };
    let mut events = Vec::with_capacity(EVENT_LIMIT);
    let mut next = Next::Again;
    loop {
        let timeout = match next {
            Next::Again => Duration::ZERO,
            Next::At(then) => then.saturating_duration_since(Instant::now()),
            Next::Event => STEP_TIME,
        };
        poller
            .wait(Some(timeout), &mut events)
            .map_err(|error| Error::Io("unable to wait for events", error))?;
        for event in &events {
            let stream = event.key.checked_sub(FIRST_STREAM);
            if let Some(stream) = stream.and_then(|at| client.test.streams.get_mut(at)) {
                stream.ready |= if stream.is_sender { event.writable } else { event.readable };
            }
        }
        match client.step(&poller)? {
            Some(then) => next = then,
            None => return Ok(()),
        }
    }
}

enum Phase {
    Before,
    Running,
    /// The test is over; the server's results come.
    Ended,
    Results,
    /// They are here.
    After(Results),
}

struct Client<'a> {
    options: &'a Options,
    server: SocketAddr,
    cookie: Cookie,
    control: Control,
    report: &'a mut Report,
    test: Test,
    phase: Phase,
    limit: Instant,
}

impl Client<'_> {
    /// Goes on as far as it can; `None`: done.
    fn step(&mut self, poller: &Poller) -> Result<Option<Next>, Error> {
        self.control.flush()?;
        self.control.fill()?;
        loop {
            if let Phase::Results = self.phase {
                let Some(value) = self.control.message().map_err(Error::Results)? else { break };
                let ids = self.test.streams.iter().map(|stream| stream.id);
                self.phase = Phase::After(Results::from_json(&value, ids)?);
            }
            let Some(state) = self.control.state()? else { break };
            self.limit = Instant::now() + STEP_TIME;
            if self.proceed(state, poller)? {
                return Ok(None);
            }
        }
        let now = Instant::now();
        let mut next = Next::Event;
        if !matches!(self.phase, Phase::Before) {
            next =
                self.test.turn(now).map_err(|error| Error::Io("unable to use a stream", error))?;
        }
        if let Phase::Running = self.phase {
            if self.test.is_over(now) {
                if let Some(interval) = self.test.end(now) {
                    self.report.interval(&self.test, &interval);
                }
                self.control.send(State::TestEnd)?;
                self.phase = Phase::Ended;
                self.limit = now + STEP_TIME;
                return Ok(Some(Next::Again));
            }
            if let Some(interval) = self.test.tick(now) {
                self.report.interval(&self.test, &interval);
            }
            self.limit = self.test.active() + self.options.receive_timeout;
        }
        if now >= self.limit {
            return Err(Error::TimedOut("nothing has come from the server"));
        }
        Ok(Some(match next {
            Next::Again => Next::Again,
            Next::At(then) => Next::At(self.wake().min(then)),
            Next::Event => Next::At(self.wake()),
        }))
    }

    fn wake(&self) -> Instant {
        match self.phase {
            Phase::Running => self.test.deadline().map_or(self.limit, |due| due.min(self.limit)),
            _ => self.limit,
        }
    }

    /// The server says what comes next. True: nothing does.
    fn proceed(&mut self, state: State, poller: &Poller) -> Result<bool, Error> {
        match (state, &self.phase) {
            (State::AccessDenied, _) => return Err(Error::Busy),
            (State::ServerTerminate, _) => return Err(Error::Terminated(Peer::Server)),
            (State::ServerError, _) => {
                // The numbers left together with the state, but may come after it.
                let error = self.control.server_error()?;
                return Err(error.unwrap_or(Error::Server(0, 0)));
            }
            (State::ExchangeParameters, Phase::Before) => {
                self.control.send_message(&self.test.parameters.to_json())?;
            }
            (State::CreateStreams, Phase::Before) if self.test.streams.is_empty() => {
                let connected = self.create_streams(poller);
                connected.map_err(|error| Error::Io("unable to connect a stream", error))?;
            }
            (State::TestStart, Phase::Before) if self.test.has_all_streams() => {}
            (State::TestRunning, Phase::Before) if self.test.has_all_streams() => {
                self.test.start(Instant::now());
                self.report.start(&self.test);
                self.phase = Phase::Running;
            }
            (State::ExchangeResults, Phase::Ended) => {
                self.control.send_message(&self.test.results().to_json())?;
                self.phase = Phase::Results;
            }
            (State::DisplayResults, Phase::After(results)) => {
                self.report.end(&self.test, Some(results));
                if let Some(output) = &results.output {
                    self.report.line(&format!("\nServer output:\n{output}"));
                }
                self.report.print_json(&self.test, Some(results));
                self.report.line("\niperf Done.");
                self.control.send(State::Done)?;
                return Ok(true);
            }
            (state, _) => return Err(Error::Message(state as i8)),
        }
        Ok(false)
    }

    fn create_streams(&mut self, poller: &Poller) -> io::Result<()> {
        while !self.test.has_all_streams() {
            let at = FIRST_STREAM + self.test.streams.len();
            let (link, local) = if self.test.parameters.udp {
                let socket = self.greet()?;
                socket.set_nonblocking(true)?;
                poller.add(&socket, at)?;
                let local = socket.local_addr()?;
                (Link::Udp(socket), local)
            } else {
                let tuning = self.test.parameters.tuning();
                let stream = open(self.options, self.server, tuning)?;
                stream.set_nodelay(self.test.parameters.no_delay)?;
                // A new socket's buffer has room for it.
                (&stream).write_all(&self.cookie)?;
                stream.set_nonblocking(true)?;
                poller.add(&stream, at)?;
                let local = stream.local_addr()?;
                (Link::Tcp(stream), local)
            };
            let (id, sends) = (self.test.next_id(), self.test.next_sends());
            let addresses = (local, self.server);
            let parameters = &self.test.parameters;
            let stream = Stream::new(id, sends, link, addresses, parameters, Instant::now());
            self.report.connected(&stream);
            self.test.streams.push(stream);
        }
        Ok(())
    }

    /// Makes a UDP stream known to the server.
    fn greet(&self) -> io::Result<UdpSocket> {
        let any: IpAddr = if self.server.is_ipv4() { [0; 4].into() } else { [0; 16].into() };
        let socket = UdpSocket::bind((self.options.bind.unwrap_or(any), 0))?;
        self.test.parameters.tuning().apply(&socket)?;
        socket.connect(self.server)?;
        socket.send(&HELLO)?;
        let end = Instant::now() + ANSWER_TIME;
        let mut answer = [0; 64];
        loop {
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err(ErrorKind::TimedOut.into());
            }
            socket.set_read_timeout(Some(left))?;
            match socket.recv(&mut answer) {
                // A server that sends may have begun already, and datagrams overtake each other.
                Ok(length) if [ANSWER, OLD_ANSWER].iter().any(|a| answer[..length] == *a) => {
                    return Ok(socket);
                }
                Ok(_) => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                Err(error) => return Err(error),
            }
        }
    }
}

/// Connects to the server. An appliance's program starts before the machine has all its addresses, and is patient.
fn connect(options: &Options, host: &str) -> io::Result<(TcpStream, SocketAddr)> {
    let end = Instant::now() + options.connect_timeout;
    loop {
        match connect_once(options, host) {
            Err(error)
                if cfg!(target_os = "hermit")
                    && (error.raw_os_error() == Some(ENETUNREACH)
                        || error.kind() == ErrorKind::AddrNotAvailable)
                    && Instant::now() < end =>
            {
                std::thread::sleep(RETRY);
            }
            result => return result,
        }
    }
}

/// Connects to the first address of the host that answers.
fn connect_once(options: &Options, host: &str) -> io::Result<(TcpStream, SocketAddr)> {
    let mut failure = io::Error::new(ErrorKind::NotFound, format!("{host} has no such address"));
    for address in (host, options.port).to_socket_addrs()? {
        match options.family {
            Some(Family::V4) if !address.is_ipv4() => continue,
            Some(Family::V6) if !address.is_ipv6() => continue,
            _ => {}
        }
        match open(options, address, Tuning::default()) {
            Ok(stream) => return Ok((stream, address)),
            Err(error) => failure = error,
        }
    }
    Err(failure)
}

/// Connects to a server, from the address wanted.
fn open(options: &Options, server: SocketAddr, tuning: Tuning) -> io::Result<TcpStream> {
    let socket = Socket::stream(&server)?;
    tuning.apply(&socket)?;
    if let Some(address) = options.bind {
        socket.bind(SocketAddr::new(address, 0))?;
    }
    socket.connect_timeout(server, options.connect_timeout)?;
    Ok(socket.into())
}

//! The server: one loop, one test at a time, everybody else is told that it is busy.

mod session;

use std::collections::VecDeque;
use std::io::{self, ErrorKind, Read, Write};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream};
use std::time::{Duration, Instant};

use reactor::{Event, Poller};
use sockets::Socket;

use crate::control::{COOKIE, Control, Cookie, State};
use crate::error::{Error, Peer};
use crate::options::Options;
use crate::report::{Format, Report, shown};
use crate::tuning::Tuning;
use session::{Session, Step};

/// Events fetched at a time.
const EVENT_LIMIT: usize = 64;
/// Connections that haven't said yet what they are; all streams of the largest test fit.
const WAITING_LIMIT: usize = 512;
/// Connections that may wait to be accepted.
const BACKLOG: usize = 128;
/// How long a connection may take to say what it is.
const COOKIE_TIME: Duration = Duration::from_secs(5);
/// How long to wait before trying again to accept what there was no room for.
const RETRY: Duration = Duration::from_millis(100);

/// Keys of the sources: listeners, the test's own, its streams, and connections that haven't said what they are.
const FIRST_LISTENER: usize = 0;
const SHARED: usize = 100;
const CONTROL: usize = 101;
const FIRST_STREAM: usize = 1000;
const FIRST_WAITING: usize = 10_000;

/// A server that has its sockets and waits to be [run](Server::run).
pub struct Server {
    settings: Settings,
    one_off: bool,
    poller: Poller,
    addresses: Vec<IpAddr>,
    /// The listeners are made for one test.
    tuned: bool,
    listeners: Vec<Listener>,
    /// In the order in which they were accepted.
    waiting: VecDeque<Waiting>,
    next_key: usize,
    session: Option<Session>,
    /// Whether the last test went well.
    outcome: Option<bool>,
    tests: u64,
}

/// What each test needs to know of the options.
#[derive(Clone, Copy)]
struct Settings {
    port: u16,
    format: Format,
    interval: Option<Duration>,
    receive_timeout: Duration,
}

struct Listener {
    socket: TcpListener,
    /// There may be connections to accept.
    ready: bool,
}

/// A connection that hasn't said what it is.
struct Waiting {
    stream: TcpStream,
    peer: SocketAddr,
    cookie: Cookie,
    got: usize,
    deadline: Instant,
}

impl Server {
    /// Binds the sockets.
    pub fn bind(options: &Options) -> io::Result<Server> {
        let mut server = Server {
            addresses: options.listen_on(),
            settings: Settings {
                port: options.port,
                format: options.format,
                interval: options.interval,
                receive_timeout: options.receive_timeout,
            },
            one_off: options.one_off,
            poller: Poller::new(EVENT_LIMIT)?,
            listeners: Vec::new(),
            tuned: false,
            waiting: VecDeque::new(),
            next_key: FIRST_WAITING,
            session: None,
            outcome: None,
            tests: 0,
        };
        server.listen(Tuning::default())?;
        Ok(server)
    }

    /// Listens anew. A listener's connections have what was set on it, some of it only if that was before it listened.
    fn listen(&mut self, tuning: Tuning) -> io::Result<()> {
        for listener in self.listeners.drain(..) {
            // It is closed next.
            let _ = self.poller.remove(&listener.socket);
        }
        self.tuned = !tuning.is_plain();
        let mut failure = None;
        for &address in &self.addresses {
            match listen(SocketAddr::new(address, self.settings.port), tuning) {
                Ok(socket) => {
                    // Port 0 has become another, and the streams come to the same.
                    self.settings.port = socket.local_addr()?.port();
                    self.poller.add(&socket, FIRST_LISTENER + self.listeners.len())?;
                    self.listeners.push(Listener { socket, ready: true });
                }
                // `::` takes IPv4 along on most systems, and then `0.0.0.0` is in use.
                Err(error) => failure = Some(error),
            }
        }
        match failure {
            Some(error) if self.listeners.is_empty() => Err(error),
            _ => Ok(()),
        }
    }

    /// Where it listens.
    pub fn addresses(&self) -> impl Iterator<Item = SocketAddr> + '_ {
        self.listeners.iter().filter_map(|listener| listener.socket.local_addr().ok())
    }

    /// Serves until waiting for events fails, which it doesn't, or after one test if that is all there is to be. True:
    /// that test went well.
    pub fn run(mut self) -> io::Result<bool> {
        let mut events = Vec::with_capacity(EVENT_LIMIT);
        self.announce();
        let mut busy = false;
        loop {
            let timeout = if busy { Some(Duration::ZERO) } else { self.timeout() };
            self.poller.wait(timeout, &mut events)?;
            let now = Instant::now();
            for event in &events {
                self.dispatch(event);
            }
            for index in 0..self.listeners.len() {
                self.accept(index, now);
            }
            // First, as its end makes room for those who come.
            busy = self.advance(now)?;
            self.greet(now);
            if let Some(good) = self.outcome.filter(|_| self.one_off) {
                return Ok(good);
            }
        }
    }

    /// The test goes on. True: it wants to at once.
    fn advance(&mut self, now: Instant) -> io::Result<bool> {
        let Some(session) = &mut self.session else { return Ok(false) };
        match session.step(&self.poller, now) {
            Ok(Step::Wait) => return Ok(false),
            Ok(Step::Again) => return Ok(true),
            Ok(Step::Listen(tuning)) => match self.listen(tuning) {
                Ok(()) => return Ok(true),
                Err(error) => {
                    if let Some(session) = &mut self.session {
                        session.fail(Error::Io("unable to listen for streams", error));
                    }
                    self.outcome = Some(false);
                }
            },
            Ok(Step::Over) => self.outcome = Some(true),
            Err(error) => {
                session.fail(error);
                self.outcome = Some(false);
            }
        }
        self.session = None;
        if self.tuned || self.listeners.is_empty() {
            self.listen(Tuning::default())?;
        }
        self.announce();
        Ok(false)
    }

    fn announce(&mut self) {
        self.tests += 1;
        if !self.settings.format.json {
            const RULE: &str = "-----------------------------------------------------------";
            let port = self.settings.port;
            println!("{RULE}\nServer listening on {port} (test #{})\n{RULE}", self.tests);
        }
    }

    fn timeout(&self) -> Option<Duration> {
        let waiting = self.waiting.iter().map(|waiting| waiting.deadline).min();
        let session = self.session.as_ref().and_then(Session::deadline);
        let now = Instant::now();
        let retry = self.listeners.iter().any(|listener| listener.ready).then_some(now + RETRY);
        let wake = waiting.into_iter().chain(session).chain(retry).min()?;
        Some(wake.saturating_duration_since(now))
    }

    fn dispatch(&mut self, event: &Event) {
        if event.key < SHARED {
            if let Some(listener) = self.listeners.get_mut(event.key) {
                listener.ready = true;
            }
        } else if event.key < FIRST_WAITING
            && let Some(session) = &mut self.session
        {
            session.notice(event);
        }
        // Those that wait are looked at in any case.
    }

    fn accept(&mut self, index: usize, now: Instant) {
        while self.listeners[index].ready {
            match self.listeners[index].socket.accept() {
                Ok((stream, peer)) => {
                    if self.waiting.len() >= WAITING_LIMIT {
                        deny(&stream);
                        continue;
                    }
                    let key = self.next_key;
                    self.next_key = FIRST_WAITING + (key + 1 - FIRST_WAITING) % (1 << 20);
                    // If that fails, the peer is gone already.
                    if stream.set_nonblocking(true).is_err()
                        || self.poller.add(&stream, key).is_err()
                    {
                        continue;
                    }
                    self.waiting.push_back(Waiting {
                        stream,
                        peer,
                        cookie: [0; COOKIE],
                        got: 0,
                        deadline: now + COOKIE_TIME,
                    });
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    self.listeners[index].ready = false;
                }
                Err(error)
                    if matches!(
                        error.kind(),
                        ErrorKind::Interrupted | ErrorKind::ConnectionAborted
                    ) => {}
                // Out of descriptors or memory: later.
                Err(_) => return,
            }
        }
    }

    /// Looks at what new connections say they are. In the order in which they came: a test's streams are told apart by
    /// it.
    fn greet(&mut self, now: Instant) {
        let mut held: Option<IpAddr> = None;
        let mut at = 0;
        while at < self.waiting.len() {
            let waiting = &mut self.waiting[at];
            let said = waiting.read();
            if matches!(said, Said::Nothing) && now < waiting.deadline {
                held.get_or_insert(waiting.peer.ip());
                at += 1;
                continue;
            }
            let is_behind = self.session.is_some() && held == Some(waiting.peer.ip());
            if matches!(said, Said::Cookie) && is_behind {
                at += 1;
                continue;
            }
            let Some(waiting) = self.waiting.remove(at) else { return };
            // It gets another key or is closed.
            let _ = self.poller.remove(&waiting.stream);
            if matches!(said, Said::Cookie) {
                self.admit(waiting, now);
            }
        }
    }

    fn admit(&mut self, new: Waiting, now: Instant) {
        let Some(session) = &mut self.session else {
            // If that fails, the peer is gone already.
            // States are single octets, and the other side waits for each.
            if new.stream.set_nodelay(true).is_ok() && self.poller.add(&new.stream, CONTROL).is_ok()
            {
                let mut report = Report::new(self.settings.format);
                let (peer, port) = (shown(new.peer), new.peer.port());
                report.line(&format!("Accepted connection from {peer}, port {port}"));
                let control = Control::new(new.stream, Peer::Client);
                let (cookie, peer) = (new.cookie, new.peer);
                self.session =
                    Some(Session::new(control, cookie, peer, report, self.settings, now));
            }
            return;
        };
        if let Some(stream) =
            session.take_stream(new.stream, new.peer, &new.cookie, &self.poller, now)
        {
            deny(&stream);
        }
    }
}

/// What a new connection has said so far.
enum Said {
    Nothing,
    Cookie,
    Goodbye,
}

impl Waiting {
    fn read(&mut self) -> Said {
        while self.got < COOKIE {
            match self.stream.read(&mut self.cookie[self.got..]) {
                Ok(0) => return Said::Goodbye,
                Ok(length) => self.got += length,
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Said::Nothing,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(_) => return Said::Goodbye,
            }
        }
        Said::Cookie
    }
}

/// Tells somebody that the server is busy.
fn deny(mut stream: &TcpStream) {
    // A new socket's buffer has room for it.
    let _ = stream.write(&[State::AccessDenied as i8 as u8]);
}

fn listen(address: SocketAddr, tuning: Tuning) -> io::Result<TcpListener> {
    let socket = Socket::stream(&address)?;
    // As `std` does: connections of earlier tests may still be closing.
    socket.set_reuse_address(true)?;
    tuning.apply(&socket)?;
    socket.bind(address)?;
    socket.listen(BACKLOG)?;
    let socket = TcpListener::from(socket);
    socket.set_nonblocking(true)?;
    Ok(socket)
}

//! Listeners, connections, and the one loop that serves them.

use std::io::{self, ErrorKind};
use std::net::{SocketAddr, TcpListener, TcpStream, ToSocketAddrs};
use std::time::{Duration, Instant};

use reactor::{Event, Poller};
use sockets::Socket;

use crate::options::Options;
use crate::pair::{After, CLIENT, PIECE, Pair, SERVER};

/// Events fetched at a time.
const EVENT_LIMIT: usize = 256;
/// Connections accepted before those already here get their turn.
const ACCEPT_LIMIT: usize = 64;
/// Keys from here on are listeners'. Below, two for each connection: its client's and its server's.
const FIRST_LISTENER: usize = 1 << 24;
/// How long to wait before trying again to accept what there was no room for.
const RETRY: Duration = Duration::from_millis(100);
/// Between two looks for connections that are out of time.
const SWEEP: Duration = Duration::from_secs(1);
/// How long names may take to be found when an appliance starts, which has its addresses a moment later.
const LOOKUP_TIME: Duration = Duration::from_secs(30);

/// A proxy that has its listeners and waits to be [run](Server::run).
pub struct Server {
    poller: Poller,
    listeners: Vec<Listener>,
    targets: Vec<SocketAddr>,
    options: Options,
    slots: Vec<Option<Slot>>,
    vacant: Vec<usize>,
    /// Connections whose turn was cut short.
    again: Vec<usize>,
    now: Instant,
    sweep_at: Instant,
    report_at: Option<Instant>,
    piece: Vec<u8>,
    count: Count,
}

struct Listener {
    socket: TcpListener,
    /// There may be connections to accept.
    ready: bool,
}

enum Slot {
    /// The server hasn't answered yet: a client, our attempt, which target it is, and when to give up.
    Connecting(TcpStream, TcpStream, usize, Instant),
    Open(Pair),
}

/// What there has been.
#[derive(Default)]
struct Count {
    accepted: u64,
    /// No target took them.
    refused: u64,
    /// Ended by an error of either side.
    broken: u64,
    /// Ended for silence.
    idle: u64,
    /// Octets of connections that are over, from clients and from servers.
    octets: [u64; 2],
}

impl Server {
    /// Finds the targets and binds the listeners.
    pub fn bind(options: &Options) -> io::Result<Server> {
        let now = Instant::now();
        let poller = Poller::new(EVENT_LIMIT)?;
        let mut targets = Vec::new();
        for name in &options.targets {
            targets.extend(look_up(name)?);
        }
        if let Some(source) = options.source {
            targets.retain(|target| target.is_ipv4() == source.is_ipv4());
        }
        if targets.is_empty() {
            return Err(io::Error::new(
                ErrorKind::InvalidInput,
                "no target can be reached from --source",
            ));
        }
        let mut listeners: Vec<Listener> = Vec::new();
        let mut failure = None;
        for &address in &options.listen {
            let bound = TcpListener::bind(address).and_then(|socket| {
                socket.set_nonblocking(true)?;
                poller.add(&socket, FIRST_LISTENER + listeners.len())?;
                Ok(socket)
            });
            match bound {
                Ok(socket) => listeners.push(Listener { socket, ready: true }),
                // `::` takes IPv4 along on most systems, and then `0.0.0.0` is in use.
                Err(error) if options.listen_is_default => failure = Some(error),
                Err(error) => {
                    return Err(io::Error::new(error.kind(), format!("{address}: {error}")));
                }
            }
        }
        if let Some(error) = failure.filter(|_| listeners.is_empty()) {
            return Err(error);
        }
        Ok(Server {
            poller,
            listeners,
            targets,
            options: options.clone(),
            slots: Vec::new(),
            vacant: Vec::new(),
            again: Vec::new(),
            now,
            sweep_at: now + SWEEP,
            report_at: options.report.map(|report| now + report),
            piece: vec![0; PIECE],
            count: Count::default(),
        })
    }

    /// The addresses that are listened on.
    pub fn addresses(&self) -> impl Iterator<Item = SocketAddr> + '_ {
        self.listeners.iter().filter_map(|listener| listener.socket.local_addr().ok())
    }

    /// Where connections go, as people would name it.
    pub fn targets(&self) -> String {
        let targets: Vec<String> = self.targets.iter().map(SocketAddr::to_string).collect();
        targets.join(" or ")
    }

    /// Serves until waiting for events fails, which it doesn't.
    pub fn run(mut self) -> io::Error {
        let mut events = Vec::with_capacity(EVENT_LIMIT);
        loop {
            if let Err(error) = self.poller.wait(self.timeout(), &mut events) {
                return error;
            }
            self.now = Instant::now();
            let again = std::mem::take(&mut self.again);
            for event in &events {
                self.dispatch(event);
            }
            for slot in again {
                self.turn(slot);
            }
            for index in 0..self.listeners.len() {
                self.accept(index);
            }
            if self.now >= self.sweep_at {
                self.sweep();
            }
            if self.report_at.is_some_and(|at| at <= self.now) {
                self.report();
            }
        }
    }

    fn open(&self) -> usize {
        self.slots.len() - self.vacant.len()
    }

    fn timeout(&self) -> Option<Duration> {
        if !self.again.is_empty() {
            return Some(Duration::ZERO);
        }
        let sweep = (self.open() > 0).then_some(self.sweep_at);
        // Nobody tells when there is memory again for somebody who waits outside; a slot of ours we know of.
        let waits = self.listeners.iter().any(|listener| listener.ready);
        let retry = (waits && self.open() < self.options.connections).then(|| self.now + RETRY);
        let wake = sweep.into_iter().chain(retry).chain(self.report_at).min()?;
        Some(wake.saturating_duration_since(self.now))
    }

    fn dispatch(&mut self, event: &Event) {
        if event.key >= FIRST_LISTENER {
            if let Some(listener) = self.listeners.get_mut(event.key - FIRST_LISTENER) {
                listener.ready = true;
            }
            return;
        }
        let (index, side) = (event.key / 2, event.key % 2);
        match self.slots.get_mut(index) {
            Some(Some(Slot::Open(pair))) => {
                pair.notice(side, event.readable, event.writable);
                self.turn(index);
            }
            // A client that has gone meanwhile is noticed when the server has answered.
            Some(Some(Slot::Connecting(..))) if side == SERVER && event.writable => {
                self.answered(index);
            }
            _ => {}
        }
    }

    fn accept(&mut self, index: usize) {
        for _ in 0..ACCEPT_LIMIT {
            if !self.listeners[index].ready || self.open() >= self.options.connections {
                return;
            }
            match self.listeners[index].socket.accept() {
                Ok((client, _)) => {
                    self.count.accepted += 1;
                    let slot = self.vacant.pop().unwrap_or(self.slots.len());
                    if slot == self.slots.len() {
                        self.slots.push(None);
                    }
                    if client.set_nonblocking(true).is_err() {
                        self.vacant.push(slot);
                        continue;
                    }
                    self.connect(slot, client, 0);
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

    /// Tries the target number `first` and those behind it for a client.
    fn connect(&mut self, slot: usize, client: TcpStream, first: usize) {
        for at in first..self.targets.len() {
            if let Ok(server) = self.start(self.targets[at], 2 * slot + SERVER) {
                let deadline = self.now + self.options.connect_timeout;
                self.slots[slot] = Some(Slot::Connecting(client, server, at, deadline));
                return;
            }
        }
        self.count.refused += 1;
        reset(&client);
        self.vacant.push(slot);
        self.slots[slot] = None;
    }

    /// Begins to connect.
    fn start(&self, target: SocketAddr, key: usize) -> io::Result<TcpStream> {
        let socket = Socket::stream(&target)?;
        if let Some(source) = self.options.source {
            socket.bind(SocketAddr::new(source, 0))?;
        }
        socket.start_connect(target)?;
        let stream = TcpStream::from(socket);
        self.poller.add(&stream, key)?;
        Ok(stream)
    }

    /// An attempt to connect has come to an end.
    fn answered(&mut self, slot: usize) {
        let Some(Slot::Connecting(client, server, at, deadline)) = self.slots[slot].take() else {
            return;
        };
        let failed = !matches!(server.take_error(), Ok(None));
        if failed {
            // It is closed next, whether or not it could be taken out.
            let _ = self.poller.remove(&server);
            drop(server);
            return self.connect(slot, client, at + 1);
        }
        if server.peer_addr().is_err() {
            // A false alarm: it goes on.
            self.slots[slot] = Some(Slot::Connecting(client, server, at, deadline));
            return;
        }
        // Both sides' pieces are passed on as they come: there is nothing to gain by waiting for more.
        let ready = client
            .set_nodelay(true)
            .and_then(|()| server.set_nodelay(true))
            .and_then(|()| self.poller.add(&client, 2 * slot + CLIENT));
        self.slots[slot] = Some(Slot::Open(Pair::new(client, server, self.now)));
        match ready {
            Ok(()) => self.turn(slot),
            Err(_) => self.end(slot, true),
        }
    }

    fn turn(&mut self, slot: usize) {
        let Some(Some(Slot::Open(pair))) = self.slots.get_mut(slot) else { return };
        match pair.turn(&mut self.piece, self.now) {
            Ok(After::Keep) => {}
            Ok(After::Again) => self.again.push(slot),
            Ok(After::Close) => self.end(slot, false),
            Err(_) => {
                self.count.broken += 1;
                self.end(slot, true);
            }
        }
    }

    /// Closes a connection's sockets, by resets if it didn't come to its end.
    fn end(&mut self, slot: usize, by_reset: bool) {
        let Some(Slot::Open(pair)) = self.slots[slot].take() else { return };
        for side in [CLIENT, SERVER] {
            let _ = self.poller.remove(pair.stream(side));
            if by_reset {
                reset(pair.stream(side));
            }
            self.count.octets[side] += pair.octets()[side];
        }
        self.vacant.push(slot);
    }

    /// Ends those that are out of time.
    fn sweep(&mut self) {
        self.sweep_at = self.now + SWEEP;
        for slot in 0..self.slots.len() {
            match &self.slots[slot] {
                Some(Slot::Connecting(.., deadline)) if *deadline <= self.now => {
                    let Some(Slot::Connecting(client, server, at, _)) = self.slots[slot].take()
                    else {
                        continue;
                    };
                    let _ = self.poller.remove(&server);
                    drop(server);
                    self.connect(slot, client, at + 1);
                }
                Some(Slot::Open(pair)) if pair.active + self.options.idle_timeout <= self.now => {
                    self.count.idle += 1;
                    self.end(slot, true);
                }
                _ => {}
            }
        }
    }

    fn report(&mut self) {
        self.report_at = self.options.report.map(|report| self.now + report);
        let mut octets = self.count.octets;
        for slot in self.slots.iter().flatten() {
            if let Slot::Open(pair) = slot {
                octets[CLIENT] += pair.octets()[CLIENT];
                octets[SERVER] += pair.octets()[SERVER];
            }
        }
        let Count { accepted, refused, broken, idle, .. } = self.count;
        println!(
            "tcp-proxy: {} open, {accepted} accepted, {refused} refused, {broken} broken, {idle} idle, \
             {} octets from clients, {} from servers",
            self.open(),
            octets[CLIENT],
            octets[SERVER]
        );
    }
}

/// Has a socket's peer see that the connection didn't come to its end.
fn reset(stream: &TcpStream) {
    // If that fails, the connection is gone already.
    let _ = sockets::reset_on_close(stream);
}

/// The addresses of a target.
fn look_up(name: &str) -> io::Result<Vec<SocketAddr>> {
    let end = Instant::now() + LOOKUP_TIME;
    loop {
        match name.to_socket_addrs() {
            Ok(addresses) => return Ok(addresses.collect()),
            Err(error) if error.kind() == ErrorKind::InvalidInput || Instant::now() >= end => {
                return Err(io::Error::new(error.kind(), format!("{name}: {error}")));
            }
            Err(error) if !cfg!(target_os = "hermit") => {
                return Err(io::Error::new(error.kind(), format!("{name}: {error}")));
            }
            Err(_) => std::thread::sleep(RETRY),
        }
    }
}

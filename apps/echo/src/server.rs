//! Listeners, connections, and the one loop that serves them.

use std::io;
use std::net::{SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::time::{Duration, Instant};

use reactor::{Event, Poller};

use crate::datagrams;
use crate::options::Options;
use crate::service::{Buffers, Kind, Next, Service};

/// Events fetched at a time.
const EVENT_LIMIT: usize = 256;
/// Connections accepted before those already here get their turn.
const ACCEPT_LIMIT: usize = 64;
/// Keys from here on are listeners', and from [`FIRST_DATAGRAMS`] on UDP sockets'.
const FIRST_LISTENER: usize = 1 << 24;
const FIRST_DATAGRAMS: usize = FIRST_LISTENER + (1 << 16);
/// How long to wait before trying again to accept what there was no room for.
const RETRY: Duration = Duration::from_millis(100);

/// An echo server that has its sockets and waits to be [run](Server::run).
pub struct Server {
    poller: Poller,
    listeners: Vec<Listener>,
    datagrams: Vec<UdpSocket>,
    connections: Vec<Option<Connection>>,
    vacant: Vec<usize>,
    limit: usize,
    idle_timeout: Duration,
    /// When to look for idle connections next; only if there are connections.
    sweep_at: Instant,
    /// Keys whose turn was cut short.
    again: Vec<usize>,
    now: Instant,
    buffers: Buffers,
}

struct Listener {
    socket: TcpListener,
    kind: Kind,
    /// There may be connections to accept.
    ready: bool,
}

struct Connection {
    stream: TcpStream,
    service: Service,
    read_closed: bool,
    active: Instant,
}

impl Server {
    /// Binds the sockets.
    pub fn bind(options: &Options) -> io::Result<Self> {
        let now = Instant::now();
        let mut server = Self {
            poller: Poller::new(EVENT_LIMIT)?,
            listeners: Vec::new(),
            datagrams: Vec::new(),
            connections: Vec::new(),
            vacant: Vec::new(),
            limit: options.connections.clamp(1, FIRST_LISTENER),
            idle_timeout: options.idle_timeout,
            sweep_at: now + options.idle_timeout,
            again: Vec::new(),
            now,
            buffers: Buffers::new(),
        };
        let mut failure = None;
        for &address in &options.addresses {
            match server.bind_one(SocketAddr::new(address, options.port), options) {
                Ok(()) => {}
                // `::` takes IPv4 along on most systems, and then `0.0.0.0` is in use.
                Err(error) if options.addresses_are_default => failure = Some(error),
                Err(error) => return Err(error),
            }
        }
        match failure {
            Some(error) if server.listeners.is_empty() => Err(error),
            _ => Ok(server),
        }
    }

    fn bind_one(&mut self, address: SocketAddr, options: &Options) -> io::Result<()> {
        let named = |address| {
            move |error: io::Error| io::Error::new(error.kind(), format!("{address}: {error}"))
        };
        let services = [
            (Some(options.port), Kind::Echo),
            (options.sink, Kind::Sink),
            (options.source, Kind::Source),
        ];
        for (port, kind) in services {
            let Some(port) = port else { continue };
            let address = SocketAddr::new(address.ip(), port);
            let socket = TcpListener::bind(address).map_err(named(address))?;
            socket.set_nonblocking(true)?;
            self.poller.add(&socket, FIRST_LISTENER + self.listeners.len())?;
            self.listeners.push(Listener { socket, kind, ready: true });
        }
        let socket = UdpSocket::bind(address).map_err(named(address))?;
        socket.set_nonblocking(true)?;
        self.poller.add(&socket, FIRST_DATAGRAMS + self.datagrams.len())?;
        self.datagrams.push(socket);
        Ok(())
    }

    /// The sockets that are listened on, as people would name them.
    pub fn describe(&self) -> impl Iterator<Item = String> + '_ {
        let tcp = self.listeners.iter().filter_map(|listener| {
            let service = match listener.kind {
                Kind::Echo => "echo",
                Kind::Sink => "sink",
                Kind::Source => "source",
            };
            Some(format!("{service} on tcp {}", listener.socket.local_addr().ok()?))
        });
        let udp = self
            .datagrams
            .iter()
            .filter_map(|socket| Some(format!("echo on udp {}", socket.local_addr().ok()?)));
        tcp.chain(udp)
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
            for key in again {
                self.turn(key);
            }
            for index in 0..self.listeners.len() {
                self.accept(index);
            }
            if self.now >= self.sweep_at {
                self.sweep();
            }
        }
    }

    fn timeout(&self) -> Option<Duration> {
        if !self.again.is_empty() {
            return Some(Duration::ZERO);
        }
        let idle = self.connections.len() == self.vacant.len();
        let sweep = (!idle).then(|| self.sweep_at.saturating_duration_since(self.now));
        let retry = self.listeners.iter().any(|listener| listener.ready).then_some(RETRY);
        sweep.into_iter().chain(retry).min()
    }

    fn dispatch(&mut self, event: &Event) {
        if (FIRST_LISTENER..FIRST_DATAGRAMS).contains(&event.key) {
            if let Some(listener) = self.listeners.get_mut(event.key - FIRST_LISTENER) {
                listener.ready = true;
            }
            return;
        }
        if let Some(Some(connection)) = self.connections.get_mut(event.key) {
            connection.read_closed |= event.read_closed;
        }
        self.turn(event.key);
    }

    fn turn(&mut self, key: usize) {
        if key >= FIRST_DATAGRAMS {
            if let Some(socket) = self.datagrams.get(key - FIRST_DATAGRAMS)
                && datagrams::turn(socket, &mut self.buffers.input)
            {
                self.again.push(key);
            }
            return;
        }
        let Some(Some(connection)) = self.connections.get_mut(key) else { return };
        connection.active = self.now;
        match connection.service.turn(&connection.stream, connection.read_closed, &mut self.buffers)
        {
            Ok(Next::Read | Next::Write) => {}
            Ok(Next::Again) => self.again.push(key),
            Ok(Next::Close) | Err(_) => self.close(key),
        }
    }

    fn accept(&mut self, index: usize) {
        for _ in 0..ACCEPT_LIMIT {
            if !self.listeners[index].ready {
                return;
            }
            match self.listeners[index].socket.accept() {
                // A peer too many is told so by a reset; one that fails here is gone already.
                Ok((stream, _)) if self.connections.len() - self.vacant.len() < self.limit => {
                    let _ = self.admit(stream, self.listeners[index].kind);
                }
                Ok(_) => {}
                Err(error) => match error.kind() {
                    io::ErrorKind::WouldBlock => self.listeners[index].ready = false,
                    io::ErrorKind::Interrupted | io::ErrorKind::ConnectionAborted => {}
                    // Out of descriptors or memory: later, perhaps.
                    _ => return,
                },
            }
        }
    }

    fn admit(&mut self, stream: TcpStream, kind: Kind) -> io::Result<()> {
        stream.set_nonblocking(true)?;
        stream.set_nodelay(true)?;
        let key = self.vacant.last().copied().unwrap_or(self.connections.len());
        self.poller.add(&stream, key)?;
        if self.vacant.pop().is_none() {
            self.connections.push(None);
        }
        if self.connections.len() == self.vacant.len() + 1 {
            self.sweep_at = self.now + self.idle_timeout;
        }
        let service = Service::new(kind);
        self.connections[key] =
            Some(Connection { stream, service, read_closed: false, active: self.now });
        Ok(())
    }

    fn close(&mut self, key: usize) {
        if let Some(connection) = self.connections[key].take() {
            // It is closed next, whether or not it could be taken out.
            let _ = self.poller.remove(&connection.stream);
            self.vacant.push(key);
        }
    }

    /// Closes what has been idle for too long, and finds out when that can next be the case.
    fn sweep(&mut self) {
        let mut earliest = self.now + self.idle_timeout;
        for key in 0..self.connections.len() {
            let Some(connection) = &self.connections[key] else { continue };
            let end = connection.active + self.idle_timeout;
            if end <= self.now {
                self.close(key);
            } else {
                earliest = earliest.min(end);
            }
        }
        // Not for each of them singly.
        self.sweep_at = earliest.max(self.now + self.idle_timeout / 8);
    }
}

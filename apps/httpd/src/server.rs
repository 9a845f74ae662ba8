//! Listeners, connections, and the one loop that serves them.

use std::io::{self, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::time::{Duration, Instant};

use reactor::{Event, Poller};

use crate::access_log::AccessLog;
use crate::clock::Clock;
use crate::connection::{After, Connection, Patience, READ_SIZE, Shared};
use crate::content::Site;
use crate::options::Options;
use crate::output::Output;
use crate::request::Recent;
use crate::respond::{Boundary, Responder};
use crate::wheel::Wheel;

/// Events fetched at a time.
const EVENT_LIMIT: usize = 256;
/// Connections accepted before those already here get their turn.
const ACCEPT_LIMIT: usize = 64;
/// Connections closed at a time when the stack has no memory for another.
const CROWD: usize = 4;
/// Keys from here on are listeners'.
const FIRST_LISTENER: usize = usize::MAX / 2;
/// Seconds that a peer has to close after the last answer.
const LINGER: Duration = Duration::from_secs(2);

/// Sent to whom there is no room for.
const NO_ROOM: &[u8] =
    b"HTTP/1.1 503 Service Unavailable\r\nConnection: close\r\nRetry-After: 1\r\nContent-Length: 0\r\n\r\n";

/// A web server that has its listeners and waits to be [run](Server::run).
pub struct Server {
    poller: Poller,
    listeners: Vec<Listener>,
    slots: Vec<Slot>,
    /// Slots without a connection.
    vacant: Vec<u32>,
    limit: usize,
    wheel: Wheel,
    time: Ticks,
    /// The tick at which the wheel wants to be looked at next, and when that is.
    wake: (u64, Instant),
    /// Connections whose turn was cut short.
    again: Vec<u32>,
    shared: Shared,
}

struct Listener {
    socket: TcpListener,
    /// There may be connections to accept.
    ready: bool,
}

struct Slot {
    connection: Option<Connection>,
    /// The tick at which the wheel names this slot; entries for other ticks are out of date.
    scheduled: u64,
}

/// What became of an attempt to accept.
enum Accepted {
    Taken,
    /// No connection waits.
    None,
    /// One waits, and there is no room for it now.
    NoRoom,
}

/// Time in ticks.
struct Ticks {
    start: Instant,
    length: Duration,
    /// When the current tick ends.
    end: Instant,
}

impl Ticks {
    fn new(start: Instant, shortest: Duration) -> Self {
        // A sixteenth of the shortest limit is exact enough for all of them, a second is for people.
        let length = (shortest / 16).clamp(Duration::from_millis(10), Duration::from_secs(1));
        Self { start, length, end: start + length }
    }

    /// A duration in ticks, rounded up, and one more for the tick that is running.
    fn count(&self, duration: Duration) -> u64 {
        duration
            .as_millis()
            .div_ceil(self.length.as_millis())
            .try_into()
            .unwrap_or(u64::MAX / 2)
            .min(u64::MAX / 2)
            + 1
    }

    /// True if a tick has ended.
    fn advance(&mut self, now: Instant, tick: &mut u64) -> bool {
        let ticked = now >= self.end;
        if ticked {
            *tick = ((now - self.start).as_millis() / self.length.as_millis()) as u64;
            self.end = self.begin(*tick + 1);
        }
        ticked
    }

    fn begin(&self, tick: u64) -> Instant {
        self.start + self.length.saturating_mul(u32::try_from(tick).unwrap_or(u32::MAX))
    }
}

impl Server {
    /// Binds the listeners.
    pub fn bind(options: &Options) -> io::Result<Self> {
        let now = Instant::now();
        let poller = Poller::new(EVENT_LIMIT)?;
        let mut listeners = Vec::new();
        let mut failure = None;
        for &address in &options.listen {
            match listen(&poller, address, FIRST_LISTENER + listeners.len()) {
                Ok(socket) => listeners.push(Listener { socket, ready: true }),
                // `[::]` takes IPv4 along on most systems, and then `0.0.0.0` is in use.
                Err(error) if options.listen_is_default => failure = Some(error),
                Err(error) => {
                    return Err(io::Error::new(error.kind(), format!("{address}: {error}")));
                }
            }
        }
        if let (true, Some(error)) = (listeners.is_empty(), failure) {
            return Err(error);
        }
        let shortest = options.request_timeout.min(options.idle_timeout).min(options.write_timeout);
        let time = Ticks::new(now, shortest);
        let shared = Shared {
            responder: Responder {
                site: Site::new(options.root.clone(), options.cache, options.bytes),
                clock: Clock::new(now),
                boundary: Boundary::random(),
                #[cfg(feature = "status")]
                status: options.status.then(trireme_status::Status::from_environment),
            },
            log: options.access_log.then(AccessLog::to_console),
            now,
            tick: 0,
            patience: Patience {
                request: time.count(options.request_timeout),
                idle: time.count(options.idle_timeout),
                write: time.count(options.write_timeout),
                linger: time.count(LINGER),
            },
            held: 0,
            held_limit: options.cache / 2,
            input: vec![0; READ_SIZE],
            file: vec![0; READ_SIZE],
            recent: Recent::default(),
            output: Output::default(),
            spare: Vec::new(),
        };
        Ok(Self {
            poller,
            listeners,
            slots: Vec::new(),
            vacant: Vec::new(),
            limit: options.connections.clamp(1, u32::MAX as usize),
            wheel: Wheel::new(),
            time,
            wake: (0, now),
            again: Vec::new(),
            shared,
        })
    }

    /// The addresses that are listened on.
    pub fn addresses(&self) -> impl Iterator<Item = io::Result<SocketAddr>> + '_ {
        self.listeners.iter().map(|listener| listener.socket.local_addr())
    }

    /// Serves until waiting for events fails, which it doesn't.
    pub fn run(mut self) -> io::Error {
        let mut events = Vec::with_capacity(EVENT_LIMIT);
        let mut due = Vec::new();
        loop {
            let timeout = self.timeout();
            if let Err(error) = self.poller.wait(timeout, &mut events) {
                return error;
            }
            let now = Instant::now();
            self.shared.now = now;
            self.shared.responder.clock.advance(now);
            let ticked = self.time.advance(now, &mut self.shared.tick);
            let again = std::mem::take(&mut self.again);
            for event in &events {
                self.dispatch(event);
            }
            for slot in again {
                self.turn(slot);
            }
            if ticked {
                self.wheel.advance(self.shared.tick, &mut due);
                for (slot, tick) in due.drain(..) {
                    self.expire(slot, tick);
                }
            }
            for index in 0..self.listeners.len() {
                self.accept(index);
            }
            if let Some(log) = &mut self.shared.log {
                log.flush();
            }
        }
    }

    /// How long nothing needs to be done unless something happens; `None` is for ever.
    fn timeout(&mut self) -> Option<Duration> {
        if !self.again.is_empty() {
            return Some(Duration::ZERO);
        }
        let deadline = self.wheel.next().map(|tick| {
            if self.wake.0 != tick {
                self.wake = (tick, self.time.begin(tick));
            }
            self.wake.1
        });
        // Nobody tells when there is room again for somebody who waits outside.
        let retry = self
            .listeners
            .iter()
            .any(|listener| listener.ready)
            .then(|| self.shared.now + self.time.length);
        let wake = deadline.into_iter().chain(retry).min()?;
        // What this turn took comes on top; it is little beside a tick.
        Some(wake.saturating_duration_since(self.shared.now))
    }

    fn dispatch(&mut self, event: &Event) {
        if event.key >= FIRST_LISTENER {
            if let Some(listener) = self.listeners.get_mut(event.key - FIRST_LISTENER) {
                listener.ready = true;
            }
            // The peer outside tries again in a moment, and so do those behind it.
            for _ in 0..CROWD {
                if !event.crowded || !self.make_room() {
                    break;
                }
            }
            return;
        }
        let connection = self.slots.get_mut(event.key).and_then(|slot| slot.connection.as_mut());
        if let Some(connection) = connection {
            connection.notice(event);
            self.turn(event.key as u32);
        }
    }

    fn turn(&mut self, slot: u32) {
        let Some(connection) = &mut self.slots[slot as usize].connection else { return };
        let after = connection.turn(&mut self.shared);
        self.conclude(slot, after);
    }

    fn expire(&mut self, slot: u32, tick: u64) {
        let entry = &mut self.slots[slot as usize];
        if entry.scheduled != tick {
            return;
        }
        entry.scheduled = u64::MAX;
        let Some(connection) = &mut entry.connection else { return };
        let after = if connection.deadline <= self.shared.tick {
            connection.expire(&mut self.shared)
        } else {
            After::Keep
        };
        self.conclude(slot, after);
    }

    fn conclude(&mut self, slot: u32, after: After) {
        match after {
            After::Close => return self.close(slot),
            After::Again => self.again.push(slot),
            After::Keep => {}
        }
        let entry = &mut self.slots[slot as usize];
        if let Some(connection) = &entry.connection
            && connection.deadline < entry.scheduled
        {
            entry.scheduled = self.wheel.schedule(slot, connection.deadline);
        }
    }

    fn close(&mut self, slot: u32) {
        if let Some(mut connection) = self.slots[slot as usize].connection.take() {
            connection.release(&mut self.shared);
            // It is closed next, whether or not it could be taken out.
            let _ = self.poller.remove(&connection.stream);
            self.vacant.push(slot);
        }
    }

    fn accept(&mut self, index: usize) {
        for _ in 0..ACCEPT_LIMIT {
            if !self.listeners[index].ready {
                return;
            }
            match self.accept_one(index) {
                Accepted::Taken => {}
                Accepted::None => self.listeners[index].ready = false,
                Accepted::NoRoom => return,
            }
        }
    }

    fn accept_one(&mut self, index: usize) -> Accepted {
        let (stream, peer) = match self.listeners[index].socket.accept() {
            Ok(accepted) => accepted,
            Err(error) => {
                return match error.kind() {
                    io::ErrorKind::WouldBlock => Accepted::None,
                    io::ErrorKind::Interrupted | io::ErrorKind::ConnectionAborted => {
                        Accepted::Taken
                    }
                    // Out of descriptors or memory: somebody idle may have some.
                    _ if self.make_room() => Accepted::Taken,
                    _ => Accepted::NoRoom,
                };
            }
        };
        if self.slots.len() - self.vacant.len() >= self.limit && !self.make_room() {
            // A new socket's buffer has room for this.
            let _ = (&stream).write(NO_ROOM);
            return Accepted::Taken;
        }
        // If it fails here, the peer is gone already.
        let _ = self.admit(stream, peer);
        Accepted::Taken
    }

    fn admit(&mut self, stream: TcpStream, peer: SocketAddr) -> io::Result<()> {
        stream.set_nonblocking(true)?;
        // Answers are written whole: there is nothing to gain by waiting for more.
        stream.set_nodelay(true)?;
        let slot = self.vacant.last().copied().unwrap_or(self.slots.len() as u32);
        self.poller.add(&stream, slot as usize)?;
        let connection = Connection::new(stream, peer.ip(), &self.shared);
        if self.vacant.pop().is_none() {
            self.slots.push(Slot { connection: None, scheduled: u64::MAX });
        }
        self.slots[slot as usize].connection = Some(connection);
        self.conclude(slot, After::Keep);
        Ok(())
    }

    /// Closes a connection between requests, one of those that have been so for longest.
    fn make_room(&mut self) -> bool {
        let slots = &self.slots;
        let idle = self.wheel.upcoming().find(|&slot| {
            slots[slot as usize].connection.as_ref().is_some_and(Connection::is_idle)
        });
        idle.inspect(|&slot| self.close(slot)).is_some()
    }
}

fn listen(poller: &Poller, address: SocketAddr, key: usize) -> io::Result<TcpListener> {
    let socket = TcpListener::bind(address)?;
    socket.set_nonblocking(true)?;
    poller.add(&socket, key)?;
    Ok(socket)
}

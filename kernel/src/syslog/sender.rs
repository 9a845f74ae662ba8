//! The queue of this machine and the thread that empties it.

use alloc::boxed::Box;
use alloc::string::{String, ToString};
use core::net::{IpAddr, SocketAddr};
use core::sync::atomic::{AtomicBool, Ordering};

use log::Level;
use trireme_netstack::{Error, Family, Kind};

use super::message::{Facility, Lines, Message, Queue, Severity};
use crate::cell::Kernel;
use crate::net::{self, with_stack};
use crate::thread::wait::WaitList;
use crate::{console, preempt, thread, time};

/// The registered port. (RFC 5426, 3.3)
const PORT: u16 = 514;
/// How long to wait for a network, a route or a name, in nanoseconds.
const PATIENCE: u64 = 2_000_000_000;
/// Messages sent before others have a turn.
const BURST: usize = 16;

struct State {
    queue: Queue,
    /// What the program has written of a line.
    lines: Lines,
}

static STATE: Kernel<State> = Kernel::new(State { queue: Queue::new(), lines: Lines::new() });

/// Until the boot arguments have been read, messages are kept in case a server is named.
static WANTED: AtomicBool = AtomicBool::new(true);

struct Waiter(WaitList);
// SAFETY: only reached with preemption off, on the one CPU, never from an interrupt.
unsafe impl Sync for Waiter {}
static WAITER: Waiter = Waiter(WaitList::new());

struct Server {
    name: String,
    port: u16,
    host: String,
}

/// Splits `HOST`, `HOST:PORT`, `[V6]` and `[V6]:PORT`.
fn parse(value: &str) -> Option<(&str, u16)> {
    if let Some(rest) = value.strip_prefix('[') {
        let (host, port) = rest.split_once(']')?;
        let port = match port {
            "" => PORT,
            port => port.strip_prefix(':')?.parse().ok()?,
        };
        return host.parse::<core::net::Ipv6Addr>().is_ok().then_some((host, port));
    }
    match value.split_once(':') {
        None if !value.is_empty() => Some((value, PORT)),
        Some((host, port)) if !host.is_empty() && !port.contains(':') => {
            Some((host, port.parse().ok()?))
        }
        // Two colons without brackets: an IPv6 address alone.
        Some(_) => value.parse::<core::net::Ipv6Addr>().is_ok().then_some((value, PORT)),
        None => None,
    }
}

/// Starts sending to the server of the boot arguments, or stops keeping messages.
pub fn initialize(server: Option<&str>, hostname: &str) {
    let Some(value) = server else {
        WANTED.store(false, Ordering::Relaxed);
        STATE.with(|state| state.queue = Queue::new());
        return;
    };
    let Some((name, port)) = parse(value) else {
        log::warn!("boot argument not understood: syslog={value}");
        return initialize(None, hostname);
    };
    let server = Server { name: name.to_string(), port, host: hostname.to_string() };
    let server = Box::into_raw(Box::new(server)) as usize;
    if thread::spawn(run, server, thread::NORMAL, 0).is_none() {
        log::warn!("syslog: no memory for its thread");
        initialize(None, hostname);
    }
}

/// Messages that were lost because the queue was full.
pub fn dropped() -> u64 {
    STATE.with(|state| state.queue.dropped())
}

fn push(state: &mut State, facility: Facility, severity: Severity, text: &str) {
    state.queue.push(Message::new(facility, severity, time::monotonic_ns(), text));
}

fn wake() {
    let _guard = preempt::disable();
    WAITER.0.wake();
}

/// A record of the kernel's log, as the console shows it.
pub fn record(level: Level, text: core::fmt::Arguments<'_>) {
    if !WANTED.load(Ordering::Relaxed) {
        return;
    }
    let severity = match level {
        Level::Error => Severity::Error,
        Level::Warn => Severity::Warning,
        Level::Info => Severity::Informational,
        Level::Debug | Level::Trace => Severity::Debug,
    };
    // Of records made while the queue is at work none matters.
    let text = alloc::format!("{text}");
    if STATE.try_with(|state| push(state, Facility::Kernel, severity, &text)).is_some() {
        wake();
    }
}

/// Bytes the program wrote to standard output or standard error.
pub fn printed(bytes: &[u8]) {
    if !WANTED.load(Ordering::Relaxed) {
        return;
    }
    STATE.try_with(|state| {
        let mut lines = core::mem::take(&mut state.lines);
        lines.feed(bytes, |line| push(state, Facility::User, Severity::Informational, line));
        state.lines = lines;
    });
    wake();
}

extern "C" fn run(server: usize) {
    thread::set_name("syslog");
    // SAFETY: `initialize` leaked it for this thread alone.
    let server = unsafe { Box::from_raw(server as *mut Server) };
    let mut told = None;
    loop {
        let failed = match address(&server.name) {
            Ok(address) => serve(&server, SocketAddr::new(address, server.port)),
            Err(error) => error,
        };
        // Said once for each reason.
        if told.replace(failed) != Some(failed) {
            console::print(format_args!("syslog: {}: {failed:?}; waiting\n", server.name));
        }
        let _guard = preempt::disable();
        thread::block(Some(time::deadline_after(PATIENCE)));
    }
}

fn address(name: &str) -> Result<IpAddr, Error> {
    let _guard = preempt::disable();
    net::resolve(name)?.first().copied().ok_or(Error::NameNotFound)
}

/// Sends until it fails.
fn serve(server: &Server, to: SocketAddr) -> Error {
    let family = if to.is_ipv4() { Family::V4 } else { Family::V6 };
    let socket = match with_stack(|stack, _| stack.socket(family, Kind::Datagram)) {
        Ok(socket) => socket,
        Err(error) => return error,
    };
    let failed = loop {
        let mut sent = Ok(());
        for _ in 0..BURST {
            let next = STATE.with(|state| state.queue.pop(time::monotonic_ns()));
            let Some(message) = next else { break };
            let datagram = message.datagram(time::wall_at(message.at_ns), &server.host);
            sent = with_stack(|stack, now| stack.send_to(socket, datagram.as_bytes(), to, now))
                .map(drop);
            match sent {
                // Refused by ICMP: of an earlier one, or nobody is there. UDP promises nothing.
                Ok(()) | Err(Error::ConnectionRefused) => sent = Ok(()),
                Err(_) => {
                    STATE.with(|state| state.queue.put_back(message));
                    break;
                }
            }
        }
        let _guard = preempt::disable();
        match sent {
            Ok(()) if STATE.with(|state| state.queue.is_empty()) => {
                if WAITER.0.wait(false, None).is_none() {
                    thread::block(Some(time::deadline_after(PATIENCE)));
                }
            }
            Ok(()) => thread::yield_now(),
            // The card's ring is full: a moment.
            Err(Error::WouldBlock) => {
                thread::block(Some(time::deadline_after(PATIENCE / 100)));
            }
            Err(error) => break error,
        }
    };
    // Only fails for a socket that is not there.
    let _ = with_stack(|stack, now| stack.close(socket, now));
    failed
}

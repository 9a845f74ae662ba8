//! The network between system calls and the stack.
//!
//! The stack never waits; this does. A call that would block puts its thread on the socket's wait list and is
//! tried again when the stack reports an event of that socket. A turn of the stack ([`turn`]) is deferred work of
//! the cards' interrupts and of the network's timer; it runs on whatever stack the CPU is on.

use alloc::boxed::Box;
use alloc::format;
use alloc::rc::{Rc, Weak};
use alloc::string::ToString;
use alloc::vec::Vec;
use core::sync::atomic::{AtomicBool, Ordering};

use trireme_netstack::ipconfig::Plan;
use trireme_netstack::{
    Config, Error, Event, Instant, Kind, QueryId, SocketId, SocketInfo, SocketState, Stack,
    VlanError, VlanSpec,
};
use trireme_nic::{Nic, Stop};

use crate::arguments::Arguments;
use crate::cell::Kernel;
use crate::descriptor::{Description, Errno};
use crate::interrupt::{self, Source};
use crate::thread::wait::WaitList;
use crate::{entropy, memory, thread, time};

mod features;
mod options;
pub mod ping;
pub mod ptp;
pub mod report;
mod resolve;
mod socket;

pub use crate::address::{from_c, to_c};
use features::Settings;
pub use features::{SettingError, on, set_feature};
pub use options::{TCP_MAXSEG, get_option, set_option};
pub use resolve::resolve;
pub use socket::{
    Socket, accept, available, bind, connect, connect_within, listen, local_address, open,
    peer_address, poll_bits, receive, receive_from, send, send_to, send_vectored, shutdown,
};

/// While frames are left over after a turn, the next comes after this long at the latest, in nanoseconds: the
/// program is to have the CPU in between, or a flood could keep it away for ever.
const BREATH_NS: u64 = 100_000;

/// How long a program that ends may keep its machine for the sake of its connections, in nanoseconds.
const FAREWELL_NS: u64 = 2_000_000_000;

const NEVER: u64 = u64::MAX;

/// A call may have moved the stack's next deadline, and the timer does not show it yet. Seen to when the CPU has
/// nothing better to do ([`settle`]), as calls come in rows.
static STALE: AtomicBool = AtomicBool::new(false);

struct Network {
    stack: Stack,
    plan: Plan,
    settings: Settings,
    cards: usize,
    /// Who is behind each socket, by its index in the stack's table.
    sockets: Vec<Option<(SocketId, Weak<Description>)>>,
    /// Who waits for PTP messages of which card.
    ptp: Vec<(usize, Rc<WaitList>)>,
    /// Name lookups under way.
    queries: Vec<(QueryId, Rc<WaitList>)>,
    /// What the network's timer is set to, in nanoseconds; [`NEVER`]: not set.
    armed: u64,
}

// SAFETY: the reference-counted parts are touched by kernel code only, on the one CPU, with preemption off.
unsafe impl Send for Network {}

static NETWORK: Kernel<Option<Network>> = Kernel::new(None);

fn now() -> Instant {
    Instant::from_micros((time::monotonic_ns() / 1000) as i64)
}

/// Makes the stack. The socket buffers' share of memory is a quarter.
pub fn initialize(arguments: &Arguments<'_>) {
    let mut seed = [0; 32];
    entropy::fill(&mut seed);
    let mut plan = Plan::new();
    for value in &arguments.ip {
        if let Err(error) = plan.add(value) {
            log::error!("ip={value}: {error}; ignored");
        }
    }
    let config = Config {
        seed,
        buffer_budget: memory::total() / 4,
        hostname: arguments.hostname.unwrap_or("trireme").to_string(),
    };
    let mut stack = Stack::new(config, now());
    if let Some(servers) = arguments.ntp {
        let servers = servers.split(',').filter(|server| !server.is_empty());
        stack.set_time_servers(servers, now());
    }
    let network = Network {
        stack,
        plan,
        settings: Settings::new(&arguments.settings),
        cards: 0,
        sockets: Vec::new(),
        ptp: Vec::new(),
        queries: Vec::new(),
        armed: NEVER,
    };
    NETWORK.with(|slot| *slot = Some(network));
}

/// Takes a card into service as the next interface, `eth0`, `eth1`, …
pub fn add_card(mut nic: Box<dyn Nic>) {
    NETWORK.with(|slot| {
        let Some(network) = slot else { return };
        let name = format!("eth{}", network.cards);
        let addressing = network.plan.addressing(&name);
        let info = nic.driver_info();
        let mac = nic.mac_address();
        log::info!(
            "{name}: {} ({}), {}",
            info.driver,
            info.chip,
            format!("{mac:02x?}").replace(", ", ":")
        );
        network.settings.apply(&name, &mut *nic);
        network.stack.add_interface(nic, addressing, now());
        network.cards += 1;
    });
    // Its first turn: it may want to send, and it arms the card's interrupt.
    interrupt::raise_source(Source::Network);
}

/// All cards are there: makes the VLANs over them, then says what of the arguments concerned none.
pub fn configured(arguments: &Arguments<'_>) {
    NETWORK.with(|slot| {
        let Some(network) = slot else { return };
        for value in &arguments.vlan {
            if let Err(error) = network.add_vlan(value) {
                log::error!("vlan={value}: {error}; ignored");
            }
        }
        if network.cards == 0 {
            log::warn!("no network card found");
        }
        for unused in network.plan.unused() {
            log::warn!("ip={unused}: no such card");
        }
        for (card, name, value) in network.settings.unused() {
            log::warn!("{card}.{name}={value}: no such card");
        }
    });
    // The first turn of VLANs.
    interrupt::raise_source(Source::Network);
}

/// A turn of the stack.
pub fn turn() {
    NETWORK.with(|slot| {
        let Some(network) = slot else { return };
        let poll = network.stack.poll(now());
        network.deliver();
        if let Some(wall_ns) = network.stack.new_wall_clock(now()) {
            time::set_wall_ns(wall_ns);
        }
        if poll.again {
            interrupt::set_pending(Source::Network);
            network.armed = time::deadline_after(BREATH_NS);
            thread::set_network_timer(Some(network.armed));
        } else {
            STALE.store(false, Ordering::Relaxed);
            network.arm(poll.wake_at);
            interrupt::unmask(Source::Network);
        }
    });
}

/// Waits until peers have acknowledged what was sent to them and the connections closed, but no longer than
/// [`FAREWELL_NS`]: elsewhere a system outlives its programs and does this in the background.
pub fn drain() {
    let busy = |socket: &SocketInfo| {
        let closing = matches!(
            socket.state,
            SocketState::FinWait1 | SocketState::Closing | SocketState::LastAck
        );
        socket.kind == Kind::Stream && (closing || socket.unsent > 0)
    };
    let _guard = crate::preempt::disable();
    let end = time::deadline_after(FAREWELL_NS);
    while time::monotonic_ns() < end && look(|stack| stack.sockets().iter().any(busy)) {
        thread::block(Some(time::deadline_after(FAREWELL_NS / 200)));
    }
}

/// Stops all cards for good.
pub fn stop(why: Stop) {
    NETWORK.with(|slot| {
        if let Some(network) = slot {
            network.stack.stop(why);
        }
    });
}

/// The network's timer has fired, so it is not set any more.
pub fn timer_fired() {
    NETWORK.with(|slot| {
        if let Some(network) = slot {
            network.armed = NEVER;
        }
    });
}

/// Sets the network's timer if calls may have moved the stack's deadlines.
#[inline]
pub fn settle() {
    if STALE.load(Ordering::Relaxed) {
        NETWORK.with(|slot| {
            STALE.store(false, Ordering::Relaxed);
            // While frames are left over, the timer is set to the next turn already.
            if let Some(network) = slot
                && !interrupt::is_source_pending(Source::Network)
            {
                let wake_at = network.stack.wake_at();
                network.arm(wake_at);
            }
        });
    }
}

impl Network {
    fn add_vlan(&mut self, value: &str) -> Result<(), VlanError> {
        let spec: VlanSpec = value.parse()?;
        let addressing = self.plan.addressing(&spec.name);
        self.stack.add_vlan(&spec, addressing, now())?;
        log::info!("{}: VLAN {} over {}", spec.name, spec.id, spec.card);
        Ok(())
    }

    /// Wakes those whose sockets or lookups changed.
    fn deliver(&mut self) {
        while let Some(event) = self.stack.next_event() {
            match event {
                Event::Socket(id) => {
                    let behind = self.sockets.get(id.index() as usize).and_then(Option::as_ref);
                    if let Some((_, description)) = behind.filter(|(of, _)| *of == id)
                        && let Some(description) = description.upgrade()
                    {
                        description.waiters.wake();
                    }
                }
                Event::Ping(_) => ping::WAITERS.wake(),
                Event::Ptp(n) => {
                    self.ptp.iter().filter(|(of, _)| *of == n).for_each(|(_, w)| w.wake());
                }
                Event::Query(id) => {
                    if let Some((_, waiters)) = self.queries.iter().find(|(of, _)| *of == id) {
                        waiters.wake();
                    }
                }
            }
        }
    }

    /// Sets the network's timer if it changed; asks for a turn at once if that is due.
    fn arm(&mut self, at: Option<Instant>) {
        let at = at.map_or(NEVER, |at| (at.total_micros().max(0) as u64).saturating_mul(1000));
        if at == self.armed {
            return;
        }
        if at <= time::monotonic_ns() {
            interrupt::raise_source(Source::Network);
        } else {
            self.armed = at;
            thread::set_network_timer((at != NEVER).then_some(at));
        }
    }
}

/// Runs a call of the stack that may do network work, then does what that may have made necessary.
#[inline]
pub fn with_stack<R>(call: impl FnOnce(&mut Stack, Instant) -> R) -> R {
    NETWORK.with(|slot| {
        let network = slot.as_mut().expect("the network is initialised before any program runs");
        let result = call(&mut network.stack, now());
        network.deliver();
        if !STALE.load(Ordering::Relaxed) {
            STALE.store(true, Ordering::Relaxed);
            thread::look_soon();
        }
        result
    })
}

/// Runs a call of the stack that only looks.
#[inline]
pub fn look<R>(call: impl FnOnce(&mut Stack) -> R) -> R {
    NETWORK.with(|slot| {
        call(&mut slot.as_mut().expect("the network is initialised before any program runs").stack)
    })
}

/// Notes who is behind a socket.
fn enter(id: SocketId, description: &Rc<Description>) -> Result<(), Errno> {
    NETWORK.with(|slot| {
        let network = slot.as_mut().ok_or(hermit_abi::errno::ENODEV)?;
        let at = id.index() as usize;
        if at >= network.sockets.len() {
            let more = at + 1 - network.sockets.len();
            network.sockets.try_reserve(more).map_err(|_| hermit_abi::errno::ENOMEM)?;
            network.sockets.resize(at + 1, None);
        }
        network.sockets[at] = Some((id, Rc::downgrade(description)));
        Ok(())
    })
}

/// Forgets who was behind a socket.
fn leave(id: SocketId) {
    NETWORK.with(|slot| {
        if let Some(network) = slot
            && let Some(entry) = network.sockets.get_mut(id.index() as usize)
            && entry.as_ref().is_some_and(|(of, _)| *of == id)
        {
            *entry = None;
        }
    });
}

/// The `errno` of a stack's error.
fn errno(error: Error) -> Errno {
    use hermit_abi::errno as e;
    match error {
        Error::WouldBlock => e::EAGAIN,
        Error::InProgress => e::EINPROGRESS,
        Error::ConnectionRefused => e::ECONNREFUSED,
        Error::ConnectionReset => e::ECONNRESET,
        Error::ConnectionAborted => e::ECONNABORTED,
        Error::NotConnected => e::ENOTCONN,
        Error::DestinationRequired => e::EDESTADDRREQ,
        Error::AlreadyConnected => e::EISCONN,
        Error::AddressInUse => e::EADDRINUSE,
        Error::AddressNotAvailable => e::EADDRNOTAVAIL,
        Error::NetworkUnreachable => e::ENETUNREACH,
        Error::HostUnreachable => e::EHOSTUNREACH,
        Error::TimedOut => e::ETIMEDOUT,
        Error::BrokenPipe => e::EPIPE,
        Error::MessageTooLong => e::EMSGSIZE,
        Error::NoBufferSpace => e::ENOBUFS,
        Error::InvalidArgument => e::EINVAL,
        Error::NotSupported => e::EOPNOTSUPP,
        Error::BadDescriptor => e::EBADF,
        Error::PermissionDenied => e::EACCES,
        Error::NameNotFound => e::ENOENT,
        Error::TryAgain => e::EAGAIN,
    }
}

//! The vfio-user server: socket and threads around a [`Function`].
//!
//! Register accesses, mappings and interrupt set-up arrive one at a time on the socket's thread;
//! frames arrive on a thread for each wire; another calls [`Device::advance`] when the core asked for it.
//! One lock makes them take turns. A core has nothing to wait for inside, so nobody holds it long.
//!
//! INTx is automasked: once signalled, the client masks it until the guest is through, and then
//! unmasks; the level must be looked at again at that moment (VFIO, `VFIO_IRQ_INFO_AUTOMASKED`).

use crate::{Device, DmaTable, Function};
use std::fs::File;
use std::io::{self, Write};
use std::mem::size_of;
use std::os::fd::AsRawFd;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use std::{fmt, thread};
use trireme_wire::{FrameSink, FrameSource, Wire};
use vfio_bindings::bindings::vfio::{
    VFIO_IRQ_INFO_AUTOMASKED, VFIO_IRQ_INFO_EVENTFD, VFIO_IRQ_INFO_MASKABLE,
    VFIO_IRQ_SET_ACTION_MASK, VFIO_IRQ_SET_ACTION_TRIGGER, VFIO_IRQ_SET_ACTION_UNMASK,
    VFIO_IRQ_SET_DATA_NONE, VFIO_PCI_CONFIG_REGION_INDEX, VFIO_PCI_INTX_IRQ_INDEX,
    VFIO_PCI_NUM_IRQS, VFIO_PCI_NUM_REGIONS, VFIO_REGION_INFO_FLAG_READ,
    VFIO_REGION_INFO_FLAG_WRITE, vfio_region_info,
};
use vfio_user::{DmaMapFlags, DmaUnmapFlags, IrqInfo, Server, ServerBackend, ServerRegion};

/// Longest the timer thread sleeps, so that it notices the end of serving.
const TICK: Duration = Duration::from_millis(200);

/// How to serve.
#[derive(Clone, Debug)]
pub struct Options {
    /// Path of the Unix socket; must not exist yet.
    pub socket: PathBuf,
    /// End after the first client is gone instead of waiting for the next.
    pub once: bool,
}

/// The wires of a card's ports, in their order. A port beyond them has its cable unplugged.
pub struct Wires(Vec<Wire>);

impl From<Wire> for Wires {
    fn from(wire: Wire) -> Wires {
        Wires(vec![wire])
    }
}

impl From<Vec<Wire>> for Wires {
    fn from(wires: Vec<Wire>) -> Wires {
        Wires(wires)
    }
}

/// Why serving ended.
#[derive(Debug)]
pub enum ServeError {
    /// The socket could not be made or accepted on.
    Socket(vfio_user::Error),
    /// A thread could not be started.
    Thread(io::Error),
    /// The device core panicked: a bug of the model, whatever the guest did.
    Core,
}

impl fmt::Display for ServeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ServeError::Socket(error) => write!(f, "{error}"),
            ServeError::Thread(error) => write!(f, "cannot start a thread: {error}"),
            ServeError::Core => write!(f, "the device model panicked"),
        }
    }
}

impl std::error::Error for ServeError {}

/// INTA as VFIO knows it.
#[derive(Default)]
struct Line {
    eventfd: Option<File>,
    masked: bool,
}

impl Line {
    fn update(&mut self, level: bool) {
        if !level || self.masked {
            return;
        }
        if let Some(eventfd) = &mut self.eventfd {
            // Failing means the client went away or stopped counting; it asks again on unmask.
            let _ = eventfd.write(&1u64.to_ne_bytes());
            self.masked = true;
        }
    }
}

struct State<D> {
    function: Function<D>,
    memory: DmaTable,
    line: Line,
    /// One for each wire.
    sinks: Vec<Box<dyn FrameSink>>,
    start: Instant,
    deadline: Option<Duration>,
    stopped: bool,
    frames_lost: u64,
}

impl<D: Device> State<D> {
    /// After anything that may have moved the core: sends what it wants sent, asks when it wants to
    /// be called again, and looks at its interrupt.
    fn settle(&mut self) {
        self.deadline = self.function.advance(&self.memory, self.start.elapsed());
        while let Some((wire, frame)) = self.function.take_frame() {
            // Nothing is plugged in there: not lost, as nobody was to have it.
            let Some(sink) = self.sinks.get_mut(wire) else { continue };
            if let Err(error) = sink.send(&frame) {
                self.frames_lost += 1;
                log::debug!("frame of {} bytes not sent: {error}", frame.len());
            }
        }
        self.line.update(self.function.interrupt());
    }

    fn disconnected(&mut self) {
        self.memory.clear();
        self.line = Line::default();
        self.function.reset();
    }
}

struct Shared<D> {
    state: Mutex<State<D>>,
    timer: Condvar,
}

impl<D: Device> Shared<D> {
    fn lock(&self) -> MutexGuard<'_, State<D>> {
        // A poisoned lock is a panicked core; `serve` sees to that, everyone else keeps quiet.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn with<R>(&self, call: impl FnOnce(&mut State<D>) -> R) -> R {
        let mut state = self.lock();
        let before = state.deadline;
        let result = call(&mut state);
        state.settle();
        if state.deadline != before {
            self.timer.notify_one();
        }
        result
    }

    fn run_timer(&self) {
        let mut state = self.lock();
        while !state.stopped {
            let now = state.start.elapsed();
            let wait = state.deadline.map_or(TICK, |at| at.saturating_sub(now).min(TICK));
            if wait.is_zero() {
                state.settle();
                // A core that is always due must not keep the others out.
                drop(state);
                thread::yield_now();
                state = self.lock();
                continue;
            }
            state = match self.timer.wait_timeout(state, wait) {
                Ok((guard, _)) => guard,
                Err(_) => return,
            };
        }
    }

    fn run_receiver(&self, wire: usize, source: &mut dyn FrameSource) {
        let mut frame = Vec::new();
        loop {
            match source.receive(&mut frame) {
                Ok(true) => self.with(|state| {
                    let now = state.start.elapsed();
                    state.function.receive(wire, &frame, &state.memory, now);
                }),
                Ok(false) => return log::info!("wire closed"),
                Err(error) => return log::error!("wire: {error}"),
            }
            if self.state.is_poisoned() {
                return;
            }
        }
    }
}

struct Backend<D>(Arc<Shared<D>>);

fn invalid() -> io::Error {
    io::Error::from_raw_os_error(libc::EINVAL)
}

impl<D: Device> ServerBackend for Backend<D> {
    fn region_read(&mut self, region: u32, offset: u64, data: &mut [u8]) -> io::Result<()> {
        self.0.with(|state| {
            if region == VFIO_PCI_CONFIG_REGION_INDEX {
                if data.len() > 256 {
                    return Err(invalid());
                }
                state.function.read_config(offset, data);
                return Ok(());
            }
            let now = state.start.elapsed();
            let result = state.function.read_bar(region as usize, offset, data, &state.memory, now);
            result.map_err(|_| invalid())
        })
    }

    fn region_write(&mut self, region: u32, offset: u64, data: &[u8]) -> io::Result<()> {
        self.0.with(|state| {
            if region == VFIO_PCI_CONFIG_REGION_INDEX {
                if data.len() > 256 {
                    return Err(invalid());
                }
                state.function.write_config(offset, data);
                return Ok(());
            }
            let now = state.start.elapsed();
            let result =
                state.function.write_bar(region as usize, offset, data, &state.memory, now);
            result.map_err(|_| invalid())
        })
    }

    fn dma_map(
        &mut self,
        flags: DmaMapFlags,
        offset: u64,
        address: u64,
        size: u64,
        file: Option<File>,
    ) -> io::Result<()> {
        // Without a descriptor the memory is not shared (ROM, for instance): out of reach.
        let Some(file) = file else { return Ok(()) };
        let writable = flags.contains(DmaMapFlags::WRITE);
        let result = self.0.with(|state| state.memory.map(&file, offset, address, size, writable));
        // The crate answers every backend error with errno 0, so say it here too.
        result.map_err(|error| {
            log::error!("mapping {address:#x}+{size:#x} refused: {error}");
            error.into()
        })
    }

    fn dma_unmap(&mut self, flags: DmaUnmapFlags, address: u64, size: u64) -> io::Result<()> {
        self.0.with(|state| {
            if flags.contains(DmaUnmapFlags::UNMAP_ALL) {
                state.memory.clear();
            } else if let Err(error) = state.memory.unmap(address, size) {
                // Also what comes back for ranges that came without a descriptor.
                log::debug!("unmapping {address:#x}+{size:#x}: {error}");
            }
        });
        Ok(())
    }

    fn reset(&mut self) -> io::Result<()> {
        self.0.with(|state| state.function.reset());
        Ok(())
    }

    fn set_irqs(
        &mut self,
        index: u32,
        flags: u32,
        start: u32,
        count: u32,
        files: Vec<File>,
    ) -> io::Result<()> {
        if index != VFIO_PCI_INTX_IRQ_INDEX || start != 0 || count > 1 {
            return if count == 0 { Ok(()) } else { Err(invalid()) };
        }
        let file = files.into_iter().next();
        if let Some(file) = &file {
            // SAFETY: F_SETFL takes an integer; the descriptor is open. Non-blocking, so that a
            // full counter cannot hold the model up.
            unsafe { libc::fcntl(file.as_raw_fd(), libc::F_SETFL, libc::O_NONBLOCK) };
        }
        self.0.with(|state| {
            let line = &mut state.line;
            if flags & VFIO_IRQ_SET_ACTION_TRIGGER != 0 {
                match file {
                    Some(file) => *line = Line { eventfd: Some(file), masked: false },
                    None if count == 0 => *line = Line::default(),
                    None if flags & VFIO_IRQ_SET_DATA_NONE != 0 => line.update(true),
                    None => return Err(invalid()),
                }
            } else if flags & VFIO_IRQ_SET_ACTION_UNMASK != 0 {
                line.masked = false;
            } else if flags & VFIO_IRQ_SET_ACTION_MASK != 0 {
                line.masked = true;
            } else {
                return Err(invalid());
            }
            Ok(())
        })
    }
}

fn regions<D: Device>(function: &Function<D>) -> Vec<ServerRegion> {
    (0..VFIO_PCI_NUM_REGIONS)
        .map(|index| {
            let bar = function.bars().get(index as usize).copied().flatten();
            let size = match index {
                VFIO_PCI_CONFIG_REGION_INDEX => 256,
                _ => bar.map_or(0, |bar| u64::from(bar.size())),
            };
            let flags = match size {
                0 => 0,
                _ => VFIO_REGION_INFO_FLAG_READ | VFIO_REGION_INFO_FLAG_WRITE,
            };
            let argsz = size_of::<vfio_region_info>() as u32;
            let region_info = vfio_region_info { argsz, index, size, flags, ..Default::default() };
            ServerRegion { region_info, sparse_areas: Vec::new(), mmap_fd: None }
        })
        .collect()
}

fn interrupts() -> Vec<IrqInfo> {
    (0..VFIO_PCI_NUM_IRQS)
        .map(|index| match index {
            VFIO_PCI_INTX_IRQ_INDEX => IrqInfo {
                index,
                count: 1,
                flags: VFIO_IRQ_INFO_EVENTFD | VFIO_IRQ_INFO_MASKABLE | VFIO_IRQ_INFO_AUTOMASKED,
            },
            _ => IrqInfo { index, count: 0, flags: 0 },
        })
        .collect()
}

/// Serves `device` until the first client is gone (`once`) or for ever.
///
/// `wires` are those of the card's ports, in their order. Between clients the device is reset and
/// sees no memory. `end` sees the core last, for its counters.
pub fn serve<D: Device + 'static>(
    options: &Options,
    device: D,
    wires: impl Into<Wires>,
    end: impl FnOnce(&D),
) -> Result<(), ServeError> {
    let function = Function::new(device);
    let server = Server::new(&options.socket, true, interrupts(), regions(&function))
        .map_err(ServeError::Socket)?;
    let (sinks, sources): (Vec<_>, Vec<_>) =
        wires.into().0.into_iter().map(|wire| (wire.sink, wire.source)).unzip();
    let state = State {
        function,
        memory: DmaTable::default(),
        line: Line::default(),
        sinks,
        start: Instant::now(),
        deadline: None,
        stopped: false,
        frames_lost: 0,
    };
    let shared = Arc::new(Shared { state: Mutex::new(state), timer: Condvar::new() });
    let spawn = |name: &str, run: Box<dyn FnOnce() + Send>| {
        thread::Builder::new().name(name.to_string()).spawn(run).map_err(ServeError::Thread)
    };
    let timer = {
        let shared = shared.clone();
        spawn("timer", Box::new(move || shared.run_timer()))?
    };
    for (wire, mut source) in sources.into_iter().enumerate() {
        let receiver = shared.clone();
        // Blocks on the wire for as long as that lasts, so nobody joins it.
        spawn("receiver", Box::new(move || receiver.run_receiver(wire, &mut *source)))?;
    }

    let result = loop {
        let mut backend = Backend(shared.clone());
        // The crate panics on some malformed messages (a version without its terminating zero, for
        // one). That ends the connection, not the model.
        let run = catch_unwind(AssertUnwindSafe(|| server.run(&mut backend)));
        if shared.state.is_poisoned() {
            break Err(ServeError::Core);
        }
        match run {
            Ok(Ok(())) => log::info!("client left"),
            Ok(Err(error @ vfio_user::Error::SocketAccept(_))) => {
                break Err(ServeError::Socket(error));
            }
            Ok(Err(error)) => log::warn!("connection ended: {error}"),
            Err(_) => log::warn!("connection ended: malformed message"),
        }
        shared.lock().disconnected();
        if options.once {
            break Ok(());
        }
    };
    let mut state = shared.lock();
    state.stopped = true;
    if state.frames_lost > 0 {
        log::warn!("{} frames not taken by the wire", state.frames_lost);
    }
    end(state.function.device());
    drop(state);
    shared.timer.notify_one();
    let _ = timer.join();
    result
}

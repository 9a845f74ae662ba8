//! The kernel's log: the `log` crate's backend. Every record goes to a ring (`dmesg`), those at or
//! above `loglevel=` to the console too.

use core::fmt::{self, Write};
use core::sync::atomic::{AtomicUsize, Ordering};

use log::{LevelFilter, Log, Metadata, Record};

use crate::cell::Kernel;
use crate::{console, syslog, time};

const RING: usize = 16 * 1024;

struct Ring {
    bytes: [u8; RING],
    /// Bytes ever written; the next goes to this modulo `RING`.
    written: usize,
}

static RING_BUFFER: Kernel<Ring> = Kernel::new(Ring { bytes: [0; RING], written: 0 });
static CONSOLE_LEVEL: AtomicUsize = AtomicUsize::new(LevelFilter::Info as usize);

struct Logger;

impl Write for Ring {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        for byte in text.bytes() {
            self.bytes[self.written % RING] = byte;
            self.written = self.written.wrapping_add(1);
        }
        Ok(())
    }
}

impl Log for Logger {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        let most = log::max_level();
        // The program's libraries log too, some with every packet, and would push out what the kernel has to say: what is
        // less than a warning has to be asked for, by `loglevel=8`.
        let own = metadata.target().starts_with("trireme");
        let most = if own || most > LevelFilter::Info { most } else { LevelFilter::Warn };
        metadata.level() <= most
    }

    fn log(&self, record: &Record<'_>) {
        if !self.enabled(record.metadata()) {
            return;
        }
        let now = time::monotonic_ns() / 1000;
        let (seconds, micros) = (now / 1_000_000, now % 1_000_000);
        let line = format_args!("[{seconds:5}.{micros:06}] {}\n", record.args());
        // A record made while another is being formatted into the ring goes to the console only.
        RING_BUFFER.try_with(|ring| ring.write_fmt(line));
        if record.level() as usize <= CONSOLE_LEVEL.load(Ordering::Relaxed) {
            console::print(line);
            syslog::record(record.level(), *record.args());
        }
    }

    fn flush(&self) {}
}

/// Starts logging. Nothing is formatted above `level`, so quiet levels cost nothing.
pub fn initialize() {
    // Fails only if done before.
    let _ = log::set_logger(&Logger);
    log::set_max_level(LevelFilter::Info);
}

/// Sets what reaches the console, by the numbers of Linux's `loglevel=`: messages more urgent than
/// the number are shown (3 is KERN_ERR, 4 warning, 6 informational, 7 debug).
pub fn set_console_level(linux: u8) {
    let level = match linux {
        0..=3 => LevelFilter::Off,
        4 => LevelFilter::Error,
        5 | 6 => LevelFilter::Warn,
        7 => LevelFilter::Info,
        8 => LevelFilter::Debug,
        _ => LevelFilter::Trace,
    };
    CONSOLE_LEVEL.store(level as usize, Ordering::Relaxed);
    log::set_max_level(level.max(LevelFilter::Info));
}

/// Visits what the ring still holds, oldest first, in two pieces at most.
pub fn dmesg(visit: &mut dyn FnMut(&[u8])) {
    RING_BUFFER.with(|ring| {
        if ring.written <= RING {
            visit(&ring.bytes[..ring.written]);
        } else {
            let at = ring.written % RING;
            visit(&ring.bytes[at..]);
            visit(&ring.bytes[..at]);
        }
    });
}

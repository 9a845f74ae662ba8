//! The console: the serial port, out and in.
//!
//! Output goes straight to the port, from anywhere, interrupt handlers and panics included. While the shell edits a
//! line at the end of what is shown, that line is wiped before anything else is printed, and drawn anew after. Input
//! comes by interrupt into a small ring; a full ring loses the newest characters, as a serial line
//! does.

use core::fmt::{self, Write};
use core::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use crate::arch;
use crate::cell::Kernel;
use crate::interrupt::{self, Source};
use crate::thread::wait::WaitList;

/// Characters typed ahead at most.
const TYPED: usize = 1024;

struct Input {
    ring: [u8; TYPED],
    /// Free-running; the slot is the value modulo `TYPED`. Invariant: `tail - head <= TYPED`.
    head: usize,
    tail: usize,
}

static INPUT: Kernel<Input> = Kernel::new(Input { ring: [0; TYPED], head: 0, tail: 0 });
static LOST: AtomicUsize = AtomicUsize::new(0);
static CLAIMED: AtomicBool = AtomicBool::new(false);

/// The shell has the last line.
static EDITED: AtomicBool = AtomicBool::new(false);
/// It was wiped for somebody's output and is to be drawn anew.
static WIPED: AtomicBool = AtomicBool::new(false);
/// What was printed last ended a line.
static LINE_ENDED: AtomicBool = AtomicBool::new(true);

/// Back to the first column, and wipe to the end of the line. [ECMA-48 8.3.41]
const WIPE: &[u8] = b"\r\x1b[K";

struct Readers(WaitList);
// SAFETY: only reached with preemption off, on the one CPU, never from an interrupt: every caller below
// holds a guard.
unsafe impl Sync for Readers {}
static READERS: Readers = Readers(WaitList::new());

struct Port;

impl Write for Port {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        write(text.as_bytes());
        Ok(())
    }
}

/// Writes bytes, `\n` becoming `\r\n`.
pub fn write(bytes: &[u8]) {
    if EDITED.load(Ordering::Relaxed) {
        EDITED.store(false, Ordering::Relaxed);
        WIPED.store(true, Ordering::Relaxed);
        arch::console_write(WIPE);
        // Deferred, as this may be anywhere: wakes the shell.
        interrupt::raise_source(Source::Console);
    }
    if let Some(last) = bytes.last() {
        LINE_ENDED.store(*last == b'\n', Ordering::Relaxed);
    }
    for (index, line) in bytes.split(|byte| *byte == b'\n').enumerate() {
        if index > 0 {
            arch::console_write(b"\r\n");
        }
        arch::console_write(line);
    }
}

/// Writes what the shell shows of the line it edits, as it is. Call with preemption off.
pub fn write_edited(bytes: &[u8]) {
    if !EDITED.swap(true, Ordering::Relaxed) && !LINE_ENDED.load(Ordering::Relaxed) {
        arch::console_write(b"\r\n");
    }
    WIPED.store(false, Ordering::Relaxed);
    arch::console_write(bytes);
}

/// The shell has ended the line it edited.
pub fn end_edited() {
    if EDITED.swap(false, Ordering::Relaxed) {
        arch::console_write(b"\r\n");
        LINE_ENDED.store(true, Ordering::Relaxed);
    }
}

/// Whether the shell's line was wiped and may be drawn anew.
pub fn is_wiped() -> bool {
    WIPED.load(Ordering::Relaxed) && LINE_ENDED.load(Ordering::Relaxed)
}

/// Whether the shell's line is as it drew it.
pub fn is_edited() -> bool {
    EDITED.load(Ordering::Relaxed)
}

/// Prints formatted text.
pub fn print(text: fmt::Arguments<'_>) {
    // Port never fails.
    let _ = Port.write_fmt(text);
}

/// Lets input arrive by interrupt.
pub fn initialize() {
    if let Some((line, trigger)) = arch::console_interrupt() {
        interrupt::attach(line, trigger, Source::Console);
    }
}

/// Deferred work of the console's interrupt: takes what has arrived.
pub fn serve() {
    let _guard = crate::preempt::disable();
    let mut any = false;
    while let Some(byte) = arch::console_read() {
        any = true;
        let kept = INPUT.with(|input| {
            let room = input.tail.wrapping_sub(input.head) < TYPED;
            if room {
                input.ring[input.tail % TYPED] = byte;
                input.tail = input.tail.wrapping_add(1);
            }
            room
        });
        if !kept {
            LOST.fetch_add(1, Ordering::Relaxed);
        }
    }
    if any || is_wiped() {
        READERS.0.wake();
    }
}

impl Input {
    fn take(&mut self) -> Option<u8> {
        let byte = (self.head != self.tail).then_some(self.ring[self.head % TYPED])?;
        self.head = self.head.wrapping_add(1);
        Some(byte)
    }
}

/// Takes what has been typed, up to the buffer's length; 0 if nothing was. Carriage return becomes
/// newline, as terminals have it.
pub fn take_input(buffer: &mut [u8]) -> usize {
    INPUT.with(|input| {
        let mut taken = 0;
        while taken < buffer.len()
            && let Some(byte) = input.take()
        {
            buffer[taken] = if byte == b'\r' { b'\n' } else { byte };
            taken += 1;
        }
        taken
    })
}

/// Takes one byte as it was typed.
pub fn take_byte() -> Option<u8> {
    INPUT.with(Input::take)
}

/// Whether Ctrl-C was typed; takes it, and what was typed before it.
pub fn take_interrupt() -> bool {
    const CTRL_C: u8 = 3;
    INPUT.with(|input| {
        let waiting = input.tail.wrapping_sub(input.head);
        let at = |n: usize| input.ring[input.head.wrapping_add(n) % TYPED];
        let found = (0..waiting).find(|n| at(*n) == CTRL_C);
        if let Some(n) = found {
            input.head = input.head.wrapping_add(n + 1);
        }
        found.is_some()
    })
}

/// The program reads standard input: what is typed is for it from now on.
pub fn claim() {
    if !CLAIMED.swap(true, Ordering::Relaxed) {
        // The shell is to find out.
        let _guard = crate::preempt::disable();
        READERS.0.wake();
    }
}

/// Whether the program has claimed the keyboard.
pub fn is_claimed() -> bool {
    CLAIMED.load(Ordering::Relaxed)
}

/// Whether something has been typed.
pub fn has_input() -> bool {
    INPUT.with(|input| input.head != input.tail)
}

/// Those who wait for input. Preemption must be off.
pub fn readers() -> &'static WaitList {
    debug_assert!(crate::preempt::is_disabled());
    &READERS.0
}

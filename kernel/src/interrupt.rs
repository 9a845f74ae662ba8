//! From an interrupt line to the code that cares, by way of a mark.
//!
//! An interrupt handler here may do three things: set the bit of its [`Source`], mask its line if that
//! is level-triggered, and ask for the deferred work to be looked at. The work itself is
//! [`crate::thread::deferred`], outside interrupts, where all of the kernel may be used.

use core::sync::atomic::{AtomicU8, AtomicU32, Ordering};

use crate::arch::{self, Trigger};
use crate::preempt;

/// Who is to look when an interrupt came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Source {
    /// A network card.
    Network = 1,
    /// Serial input.
    Console = 2,
    /// The one-shot timer.
    Timer = 4,
}

/// `Source` bits of each line; 0 is a line nobody attached.
static LINES: [AtomicU8; arch::LINES] = [const { AtomicU8::new(0) }; arch::LINES];
const LEVEL: u8 = 0x80;
/// How often each line fired, wrapping: a driver tells by it whether its own did.
static COUNTS: [AtomicU32; arch::LINES] = [const { AtomicU32::new(0) }; arch::LINES];

/// Sources with an interrupt not yet looked at.
static PENDING: AtomicU32 = AtomicU32::new(0);
/// Level-triggered lines masked until their source's work is done, a bit each.
static MASKED: [AtomicU32; arch::LINES.div_ceil(32)] =
    [const { AtomicU32::new(0) }; arch::LINES.div_ceil(32)];
/// Interrupts on lines nobody attached.
static STRAY: AtomicU32 = AtomicU32::new(0);

/// Routes a line to a source, and enables it. A line may be shared by devices of one source.
///
/// # Panics
/// If there is no such line: the number comes from [`arch::msi_allocate`] or has been checked by
/// whoever read it from a table.
pub fn attach(line: u32, trigger: Trigger, source: Source) {
    let level = match trigger {
        Trigger::Edge | Trigger::FallingEdge => 0,
        Trigger::Level | Trigger::LevelLow => LEVEL,
    };
    LINES[line as usize].store(source as u8 | level, Ordering::Relaxed);
    arch::irq_enable(line, trigger);
}

/// Whether there is such a line.
pub fn is_valid(line: u32) -> bool {
    (line as usize) < arch::LINES
}

/// How often a line fired, wrapping; 0 if there is no such line.
#[inline]
pub fn count(line: u32) -> u32 {
    COUNTS.get(line as usize).map_or(0, |count| count.load(Ordering::Relaxed))
}

/// Called by `arch`, interrupts masked, when a line fired.
pub fn dispatch(line: u32) {
    let Some(entry) = LINES.get(line as usize) else {
        STRAY.fetch_add(1, Ordering::Relaxed);
        return;
    };
    let entry = entry.load(Ordering::Relaxed);
    COUNTS[line as usize].fetch_add(1, Ordering::Relaxed);
    if entry == 0 {
        // Nobody would ever satisfy it: keep it from storming.
        STRAY.fetch_add(1, Ordering::Relaxed);
        arch::irq_mask(line);
        return;
    }
    if entry & LEVEL != 0 {
        arch::irq_mask(line);
        MASKED[line as usize / 32].fetch_or(1 << (line % 32), Ordering::Relaxed);
    }
    raise(entry & !LEVEL);
}

/// Called by `arch`, interrupts masked, when the one-shot timer fired.
pub fn timer_fired() {
    raise(Source::Timer as u8);
}

/// Leaves a source's work for the next time deferred work is looked at, without asking for that.
pub fn set_pending(source: Source) {
    PENDING.fetch_or(source as u32, Ordering::Relaxed);
}

/// Marks a source's work as due, from anywhere.
pub fn raise_source(source: Source) {
    raise(source as u8);
}

fn raise(bits: u8) {
    PENDING.fetch_or(u32::from(bits), Ordering::Relaxed);
    preempt::mark();
}

/// Takes the pending bits.
pub fn take_pending() -> u32 {
    if PENDING.load(Ordering::Relaxed) == 0 { 0 } else { PENDING.swap(0, Ordering::Relaxed) }
}

/// Whether anything is pending.
pub fn is_pending() -> bool {
    PENDING.load(Ordering::Relaxed) != 0
}

/// Whether a source's work is pending.
pub fn is_source_pending(source: Source) -> bool {
    PENDING.load(Ordering::Relaxed) & source as u32 != 0
}

/// Unmasks the level-triggered lines of a source again: its devices have been served.
pub fn unmask(source: Source) {
    for (index, word) in MASKED.iter().enumerate() {
        let mut lines = word.load(Ordering::Relaxed);
        while lines != 0 {
            let bit = lines.trailing_zeros();
            lines &= lines - 1;
            let line = index as u32 * 32 + bit;
            if LINES[line as usize].load(Ordering::Relaxed) & !LEVEL == source as u8 {
                word.fetch_and(!(1 << bit), Ordering::Relaxed);
                arch::irq_unmask(line);
            }
        }
    }
}

/// Interrupts so far on lines nobody attached.
pub fn stray() -> u32 {
    STRAY.load(Ordering::Relaxed)
}

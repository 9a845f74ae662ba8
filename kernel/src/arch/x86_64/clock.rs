//! Time: the TSC, its rate, and the battery clock.
//!
//! The rate comes from the hypervisor or the CPU if they tell, else it is measured against the 8254, twice. The
//! 8254 is set going first thing; what the boot takes anyway is the time it is measured over at first, so nothing
//! waits unless the boot was quicker than [`WINDOW`]. That is good to 0.2 %. Some seconds later, when the timer is
//! set anyway, the same start and a new end make it good to a millionth.

use core::arch::x86_64::{__cpuid, _rdtsc};
use core::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use x86_64::instructions::port::Port;

use super::apic;

unsafe extern "C" {
    /// TSC at the entry point, stored by `boot.s`.
    static boot_tsc: u64;
}

/// The 8254's input clock, in Hz.
const PIT_HZ: u64 = 1_193_182;
/// The 8254 counts this far and begins again.
const PIT_PERIOD: u64 = 65_536;
/// Counts of it to measure over at least at first: 1 ms.
const WINDOW: u64 = 1193;
/// Reads of the 8254 without a change after which there is none.
const PATIENCE: u32 = 10_000;
/// Measurements begun before a result is taken as it is.
const TRIES: u32 = 20;
/// When to measure again, in nanoseconds: late enough to be exact, early enough that the first result tells how often
/// the 8254 has begun again (0.2 % of 8 s is far less than half its period of 55 ms).
const AGAIN: core::ops::Range<u64> = 4_000_000_000..8_000_000_000;
/// Assumed if nothing can be measured.
const FALLBACK_HZ: u64 = 1_000_000_000;

/// Nanoseconds per TSC tick, times 2^32.
static MULTIPLIER: AtomicU64 = AtomicU64::new(1 << 32);
/// The clock showed `BASE_NS` when the TSC was `BASE_TSC`. Changed with interrupts masked.
static BASE_TSC: AtomicU64 = AtomicU64::new(0);
static BASE_NS: AtomicU64 = AtomicU64::new(0);
/// Start of the measurement: what the 8254 had counted, and the TSC.
static BEGAN_PIT: AtomicU64 = AtomicU64::new(0);
static BEGAN_TSC: AtomicU64 = AtomicU64::new(0);
/// The second measurement is still to be made.
static ROUGH: AtomicBool = AtomicBool::new(false);
/// Timer ticks per nanosecond, times 2^32.
static TIMER_RATE: AtomicU64 = AtomicU64::new(1 << 28);

fn tsc() -> u64 {
    // SAFETY: every x86_64 CPU has the instruction.
    unsafe { _rdtsc() }
}

/// Nanoseconds since the entry point.
#[inline]
pub fn monotonic_ns() -> u64 {
    let ticks = tsc().wrapping_sub(BASE_TSC.load(Ordering::Relaxed));
    let ns = (u128::from(ticks) * u128::from(MULTIPLIER.load(Ordering::Relaxed))) >> 32;
    BASE_NS.load(Ordering::Relaxed) + ns as u64
}

/// Starts the clock, and the measurement.
pub fn begin() {
    // SAFETY: written once, by `boot.s`.
    BASE_TSC.store(unsafe { boot_tsc }, Ordering::Relaxed);
    begin_measuring();
}

/// Starts the 8254's channel 0, counting down from 65535; after zero it goes on at 65535, but its output has changed.
/// Its interrupt goes nowhere.
fn begin_measuring() {
    // SAFETY: programs the timer chip (mode 0, both bytes); no memory is involved.
    unsafe {
        Port::<u8>::new(0x43).write(0x30);
        Port::<u8>::new(0x40).write(0xff);
        Port::<u8>::new(0x40).write(0xff);
    }
    let now = sample();
    BEGAN_PIT.store(now.pit, Ordering::Relaxed);
    BEGAN_TSC.store(now.tsc, Ordering::Relaxed);
}

/// A moment on both clocks.
struct Sample {
    /// What the 8254 has counted, modulo its period.
    pit: u64,
    tsc: u64,
    /// It has passed zero.
    over: bool,
}

/// Reads both clocks: the best of a few readings, because an emulator's CPU may be kept waiting between any two
/// instructions.
fn sample() -> Sample {
    let mut best = Sample { pit: 0, tsc: 0, over: false };
    let mut least = u64::MAX;
    for _ in 0..4 {
        let before = tsc();
        // SAFETY: the read-back command latches status and count of channel 0, which are then read.
        let (status, count) = unsafe {
            Port::<u8>::new(0x43).write(0xc2);
            let status = Port::<u8>::new(0x40).read();
            let low = Port::<u8>::new(0x40).read();
            let high = Port::<u8>::new(0x40).read();
            (status, u16::from_le_bytes([low, high]))
        };
        let took = tsc().wrapping_sub(before);
        if took < least {
            least = took;
            best = Sample {
                pit: u64::from(u16::MAX - count),
                tsc: before.wrapping_add(took / 2),
                over: status & 0x80 != 0,
            };
        }
    }
    best
}

/// Counts of the 8254 and TSC ticks since the measurement began, the former modulo the period; and whether it has
/// passed zero.
fn elapsed() -> (u64, u64, bool) {
    let now = sample();
    let counted = (now.pit + PIT_PERIOD - BEGAN_PIT.load(Ordering::Relaxed)) % PIT_PERIOD;
    (counted, now.tsc.wrapping_sub(BEGAN_TSC.load(Ordering::Relaxed)), now.over)
}

fn multiplier(rate: u64) -> u64 {
    ((1_000_000_000u128 << 32) / u128::from(rate)) as u64
}

/// The TSC's rate in Hz, if someone tells.
fn told_rate() -> Option<u64> {
    // The hypervisors' timing leaf, first defined by VMware: EAX of 4000_0010h is the TSC's rate in kHz.
    let hypervisor = __cpuid(1).ecx & 1 << 31 != 0;
    if hypervisor && (0x4000_0010..0x4001_0000).contains(&__cpuid(0x4000_0000).eax) {
        let khz = __cpuid(0x4000_0010).eax;
        if khz != 0 {
            return Some(u64::from(khz) * 1000);
        }
    }
    // CPUID 15h: EBX/EAX times the crystal's rate in ECX.
    if __cpuid(0).eax >= 0x15 {
        let leaf = __cpuid(0x15);
        if leaf.eax != 0 && leaf.ebx != 0 && leaf.ecx != 0 {
            return Some(u64::from(leaf.ecx) * u64::from(leaf.ebx) / u64::from(leaf.eax));
        }
    }
    None
}

/// Sets the rates of TSC and timer. The APIC is up.
pub fn calibrate() {
    apic::start_counting();
    let timer_began = tsc();
    let told = told_rate();
    let rate = told.or_else(measured_rate).filter(|rate| *rate != 0).unwrap_or(FALLBACK_HZ);
    MULTIPLIER.store(multiplier(rate), Ordering::Relaxed);

    // The timer over the same ground as the TSC: from `timer_began` to now, at least 100 µs.
    let span = rate / 10_000;
    while tsc().wrapping_sub(timer_began) < span {
        core::hint::spin_loop();
    }
    let counted = u128::from(apic::counted());
    let elapsed = u128::from(tsc().wrapping_sub(timer_began));
    let elapsed_ns = elapsed * 1_000_000_000 / u128::from(rate);
    apic::set_timer(None);
    if counted != 0 && elapsed_ns != 0 {
        TIMER_RATE.store(((counted << 32) / elapsed_ns) as u64, Ordering::Relaxed);
    }
    ROUGH.store(told.is_none(), Ordering::Relaxed);
}

/// The TSC's rate in Hz, measured since `begin`; `None` if there is no 8254.
fn measured_rate() -> Option<u64> {
    let (mut last, mut same, mut tries) = (0, 0, 0);
    loop {
        let (pit, ticks, over) = elapsed();
        // Kept waiting for longer than it counts: once more.
        if over && tries < TRIES {
            tries += 1;
            begin_measuring();
            continue;
        }
        if pit >= WINDOW {
            return Some(ticks * PIT_HZ / pit);
        }
        same = if pit == last { same + 1 } else { 0 };
        last = pit;
        if same > PATIENCE {
            return None;
        }
    }
}

/// Makes the rate exact, once, if it is time. Interrupts are masked or the timer is being set: nothing else reads
/// the clock meanwhile.
pub fn refine() {
    if !ROUGH.load(Ordering::Relaxed) || monotonic_ns() < AGAIN.start {
        return;
    }
    ROUGH.store(false, Ordering::Relaxed);
    let enabled = super::interrupts_disable();
    let now = monotonic_ns();
    let (pit, ticks, _) = elapsed();
    let old = MULTIPLIER.load(Ordering::Relaxed);
    let guess_ns = (u128::from(ticks) * u128::from(old)) >> 32;
    // How often the 8254 has begun again, by the first measurement.
    let guess = (guess_ns * u128::from(PIT_HZ) / 1_000_000_000) as u64;
    let periods = (guess + PIT_PERIOD / 2).saturating_sub(pit) / PIT_PERIOD;
    let counted = periods * PIT_PERIOD + pit;
    let rate = u128::from(ticks) * u128::from(PIT_HZ) / u128::from(counted.max(1));
    let new = multiplier(rate.max(1) as u64);
    // Later than planned (the machine slept), or a difference that no first measurement can have: then there was no
    // telling how often it has begun again.
    if now < AGAIN.end && new.abs_diff(old) < old / 100 {
        BASE_NS.store(now, Ordering::Relaxed);
        BASE_TSC.store(tsc(), Ordering::Relaxed);
        MULTIPLIER.store(new, Ordering::Relaxed);
        let timer = u128::from(TIMER_RATE.load(Ordering::Relaxed)) * u128::from(old);
        TIMER_RATE.store((timer / u128::from(new)) as u64, Ordering::Relaxed);
    }
    super::interrupts_restore(enabled);
}

/// Timer ticks for a duration, at least one, at most what the counter holds.
pub fn timer_ticks(duration_ns: u64) -> u32 {
    let ticks = (u128::from(duration_ns) * u128::from(TIMER_RATE.load(Ordering::Relaxed))) >> 32;
    (ticks + 1).min(u128::from(u32::MAX)) as u32
}

/// The battery clock (Motorola MC146818 and descendants), UNIX time in nanoseconds. Taken to run in UTC, as
/// QEMU's does.
pub fn wall_clock_ns() -> Option<u64> {
    fn register(index: u8) -> u8 {
        // SAFETY: selects and reads a register of the clock chip; bit 7 of the index keeps NMIs off, as reset has it.
        unsafe {
            Port::<u8>::new(0x70).write(index | 0x80);
            Port::<u8>::new(0x71).read()
        }
    }
    let read = || [0, 2, 4, 7, 8, 9].map(register);
    // Register A, bit 7: an update is under way. It takes 2 ms at most; two equal readings are enough else.
    let mut before = read();
    let mut settled = false;
    for _ in 0..1000 {
        let now = read();
        if now == before && register(0x0a) & 0x80 == 0 {
            settled = true;
            break;
        }
        before = now;
    }
    if !settled {
        return None;
    }
    let format = register(0x0b);
    let pm = before[2] & 0x80 != 0;
    before[2] &= 0x7f;
    // Register B, bit 2: binary; bit 1: 24 hours.
    let value =
        |raw: u8| u64::from(if format & 4 != 0 { raw } else { (raw >> 4) * 10 + (raw & 0x0f) });
    let [second, minute, mut hour, day, month, year] = before.map(value);
    if format & 2 == 0 {
        hour = hour % 12 + if pm { 12 } else { 0 };
    }
    if !(1..=12).contains(&month) || !(1..=31).contains(&day) || hour > 23 || minute > 59 {
        return None;
    }
    let days = days_since_1970(2000 + year, month, day);
    Some((((days * 24 + hour) * 60 + minute) * 60 + second) * 1_000_000_000)
}

/// Days from 1970-01-01 to a date of the Gregorian calendar from 2000 on. Years begin in March, so that the
/// leap day comes last.
fn days_since_1970(year: u64, month: u64, day: u64) -> u64 {
    let (year, month) = if month > 2 { (year, month - 3) } else { (year - 1, month + 9) };
    let days = year * 365 + year / 4 - year / 100 + year / 400 + (153 * month + 2) / 5 + day - 1;
    days - 719_468
}

//! Time: the TSC, its rate, and the battery clock.
//!
//! The rate comes from the hypervisor or the CPU if they tell, else it is measured against the 8254. The
//! 8254 is set going first thing; what the boot takes anyway is the time it is measured over, so nothing
//! waits unless the boot was quicker than [`WINDOW`].

use core::arch::x86_64::{__cpuid, _rdtsc};
use core::sync::atomic::{AtomicU64, Ordering};

use x86_64::instructions::port::Port;

use super::apic;

unsafe extern "C" {
    /// TSC at the entry point, stored by `boot.s`.
    static boot_tsc: u64;
}

/// The 8254's input clock, in Hz.
const PIT_HZ: u64 = 1_193_182;
/// Counts of it to measure over at least: 1 ms, for an error of 0.2 % at most.
const WINDOW: u64 = 1193;
/// Reads of the 8254 without a change after which there is none.
const PATIENCE: u32 = 10_000;
/// Assumed if nothing can be measured.
const FALLBACK_HZ: u64 = 1_000_000_000;

/// Nanoseconds per TSC tick, times 2^32.
static MULTIPLIER: AtomicU64 = AtomicU64::new(1 << 32);
/// TSC at the start of the measurement.
static BEGAN: AtomicU64 = AtomicU64::new(0);
/// Timer ticks per nanosecond, times 2^32.
static TIMER_RATE: AtomicU64 = AtomicU64::new(1 << 28);

fn tsc() -> u64 {
    // SAFETY: every x86_64 CPU has the instruction.
    unsafe { _rdtsc() }
}

/// Nanoseconds since the entry point.
#[inline]
pub fn monotonic_ns() -> u64 {
    // SAFETY: written once, by `boot.s`.
    let ticks = tsc().wrapping_sub(unsafe { boot_tsc });
    ((u128::from(ticks) * u128::from(MULTIPLIER.load(Ordering::Relaxed))) >> 32) as u64
}

/// Starts the 8254's channel 0: one shot from 65536, so 55 ms until it wraps. Its interrupt goes nowhere.
pub fn begin() {
    // SAFETY: programs the timer chip; no memory is involved.
    unsafe {
        Port::<u8>::new(0x43).write(0x30);
        Port::<u8>::new(0x40).write(0xff);
        Port::<u8>::new(0x40).write(0xff);
    }
    BEGAN.store(tsc(), Ordering::Relaxed);
}

/// Counts of the 8254 since `begin`.
fn pit_elapsed() -> u64 {
    // SAFETY: latches and reads channel 0.
    unsafe {
        Port::<u8>::new(0x43).write(0);
        let low = Port::<u8>::new(0x40).read();
        let high = Port::<u8>::new(0x40).read();
        u64::from(u16::MAX - u16::from_le_bytes([low, high]))
    }
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
    let (mut pit, mut last, mut same) = (pit_elapsed(), 0, 0);
    while pit < WINDOW && same < PATIENCE {
        same = if pit == last { same + 1 } else { 0 };
        last = pit;
        pit = pit_elapsed();
    }
    let ticks = tsc().wrapping_sub(BEGAN.load(Ordering::Relaxed));
    let measured = (same < PATIENCE && pit != 0).then(|| ticks * PIT_HZ / pit);
    let rate = told_rate().or(measured).filter(|rate| *rate != 0).unwrap_or(FALLBACK_HZ);
    MULTIPLIER.store(((1_000_000_000u128 << 32) / u128::from(rate)) as u64, Ordering::Relaxed);

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
}

/// Timer ticks for a duration, at least one, at most what the counter holds.
pub fn timer_ticks(duration_ns: u64) -> u32 {
    let ticks = u128::from(duration_ns) * u128::from(TIMER_RATE.load(Ordering::Relaxed)) >> 32;
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

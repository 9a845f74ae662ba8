//! The end of the machine: semihosting, or the system controller's reset.

use core::sync::atomic::{AtomicU8, AtomicUsize, Ordering};

use super::mmio::write32;
use super::{mmu, semihosting};
use crate::fdt::armv4::{System, SystemKind};

static KIND: AtomicU8 = AtomicU8::new(NONE);
static BASE: AtomicUsize = AtomicUsize::new(0);

const NONE: u8 = 0;
const VERSATILE: u8 = 1;
const GEMINI: u8 = 2;

/// Versatile system registers. [Arm DUI 0225D 4.1: SYS_LOCK, SYS_RESETCTL]
mod versatile {
    pub(super) const LOCK: usize = 0x20;
    pub(super) const RESETCTL: usize = 0x40;
    pub(super) const UNLOCK: u32 = 0xa05f;
    /// Reset now, as far as the processor and its buses.
    pub(super) const RESET: u32 = 1 << 8 | 0b101;
}

/// Gemini's global block: SOFT_RESET, the whole chip and its second processor. [docs/hardware/gemini.md 1.6]
mod gemini {
    pub(super) const SOFT_RESET: usize = 0x0c;
    pub(super) const EVERYTHING: u32 = 0xc000_0000;
}

/// Remembers the system controller, which is mapped for good.
pub(super) fn init(system: &System) {
    let len = (system.registers.end - system.registers.start) as usize;
    if mmu::map_device(system.registers.start, len).is_err() {
        return;
    }
    BASE.store(system.registers.start as usize, Ordering::Relaxed);
    let kind = match system.kind {
        SystemKind::Versatile => VERSATILE,
        SystemKind::Gemini => GEMINI,
    };
    KIND.store(kind, Ordering::Relaxed);
}

/// Ends the machine. The status reaches a debugger or QEMU that offers semihosting; boards stop.
pub fn shutdown(status: i32) -> ! {
    super::interrupts_disable();
    semihosting::exit(status);
    stop()
}

/// Resets the machine.
pub fn reboot() -> ! {
    super::interrupts_disable();
    let base = BASE.load(Ordering::Relaxed);
    match KIND.load(Ordering::Relaxed) {
        VERSATILE => {
            write32(base, versatile::LOCK, versatile::UNLOCK);
            write32(base, versatile::RESETCTL, versatile::RESET);
        }
        GEMINI => write32(base, gemini::SOFT_RESET, gemini::EVERYTHING),
        _ => {}
    }
    stop()
}

/// There is nothing to tell where the console is: say it to a debugger, and stop.
pub(super) fn no_device_tree() -> ! {
    semihosting::write(c"trireme: no device tree, or a broken one\n");
    shutdown(1)
}

fn stop() -> ! {
    loop {
        super::halt();
    }
}

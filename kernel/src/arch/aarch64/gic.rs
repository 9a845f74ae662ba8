//! The interrupt controller: version 2 (GIC-400 and its like) and version 3.
//!
//! Our own, though there is the crate `arm-gic`: its version 2 part takes a controller with security
//! extensions to be used from the secure side (it enables group 1 by the bit that does so there, and
//! acknowledges by the aliased registers), while a boot loader leaves us on the non-secure side, where
//! group 1 has the place of group 0. Both views are the same registers here.
//!
//! Only what has been asked for is touched: a line is configured when it is enabled.
//!
//! Sources: [V2] IHI 0048B.b; [V3] IHI 0069H.

use core::fmt;
use core::sync::atomic::{AtomicU8, AtomicU32, AtomicU64, AtomicUsize, Ordering};

use super::mmio::{read32, write32};
use super::mmu;
use crate::arch::{MapError, Msi, Trigger};
use crate::fdt::machine::Gic;

#[cfg(target_os = "hermit")]
mod system;
#[cfg(not(target_os = "hermit"))]
#[path = "host/gic_system.rs"]
mod system;
#[cfg(test)]
mod tests;
mod v3;

/// INTIDs below this are lines; from 1020 on they have special meanings. [V2 2.2.1]
pub const LINES: usize = 1020;

/// Distributor registers. [V2 4.3] The same in version 3.
mod distributor {
    pub(super) const CTLR: usize = 0x000;
    pub(super) const TYPER: usize = 0x004;
    pub(super) const IGROUPR: usize = 0x080;
    pub(super) const ISENABLER: usize = 0x100;
    pub(super) const ICENABLER: usize = 0x180;
    pub(super) const ICPENDR: usize = 0x280;
    pub(super) const IPRIORITYR: usize = 0x400;
    pub(super) const ITARGETSR: usize = 0x800;
    pub(super) const ICFGR: usize = 0xc00;
    pub(super) const IROUTER: usize = 0x6000;
}

/// CPU interface registers, version 2. [V2 4.4]
mod cpu {
    pub(super) const CTLR: usize = 0x00;
    pub(super) const PMR: usize = 0x04;
    pub(super) const IAR: usize = 0x0c;
    pub(super) const EOIR: usize = 0x10;
}

/// GICv2m registers. [SBSA, DEN0029, appendix on GICv2m]
mod messages {
    pub(super) const TYPER: usize = 0x008;
    pub(super) const SETSPI: usize = 0x040;
}

/// All lines have the one priority that is in the middle of the non-secure half.
const PRIORITY: u32 = 0xa0;

static VERSION: AtomicU8 = AtomicU8::new(0);
static DISTRIBUTOR: AtomicUsize = AtomicUsize::new(0);
/// Version 2: the CPU interface. Version 3: the SGI frame of our redistributor.
static OURS: AtomicUsize = AtomicUsize::new(0);
/// Lines there are, at most [`LINES`].
static COUNT: AtomicU32 = AtomicU32::new(0);
/// Version 2: the bit of this CPU in ITARGETSR. Version 3: its affinity for IROUTER.
static TARGET: AtomicU64 = AtomicU64::new(0);
/// The next free message-signalled line, the one after the last, and where to write.
static MESSAGE_NEXT: AtomicU32 = AtomicU32::new(0);
static MESSAGE_END: AtomicU32 = AtomicU32::new(0);
static MESSAGE_ADDRESS: AtomicU64 = AtomicU64::new(0);

/// Why the controller cannot be used.
#[derive(Clone, Copy, Debug)]
pub(super) enum GicError {
    /// The tree gives too few register blocks.
    Registers,
    /// They cannot be mapped.
    Map(MapError),
    /// No redistributor is this CPU's.
    NoRedistributor,
    /// The redistributor does not wake up.
    Asleep,
    /// The system registers are not enabled by the firmware.
    NoSystemRegisters,
}

impl fmt::Display for GicError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            GicError::Registers => f.write_str("register blocks missing in the device tree"),
            GicError::Map(why) => write!(f, "registers cannot be mapped: {why}"),
            GicError::NoRedistributor => f.write_str("no redistributor for this CPU"),
            GicError::Asleep => f.write_str("redistributor does not wake up"),
            GicError::NoSystemRegisters => f.write_str("system registers not enabled by firmware"),
        }
    }
}

impl From<MapError> for GicError {
    fn from(why: MapError) -> GicError {
        GicError::Map(why)
    }
}

/// Brings the controller up with all lines disabled.
pub(super) fn init(gic: &Gic) -> Result<(), GicError> {
    let blocks = core::iter::once(&gic.distributor).chain(&gic.others).chain(&gic.messages);
    for block in blocks {
        mmu::map_device(block.start, (block.end - block.start) as usize)?;
    }
    let base = gic.distributor.start as usize;
    let other = gic.others.first().ok_or(GicError::Registers)?;
    DISTRIBUTOR.store(base, Ordering::Relaxed);
    VERSION.store(gic.version, Ordering::Relaxed);
    let count = (32 * ((read32(base, distributor::TYPER) & 0x1f) + 1)).min(LINES as u32);
    COUNT.store(count, Ordering::Relaxed);

    write32(base, distributor::CTLR, 0);
    for word in 1..count.div_ceil(32) as usize {
        write32(base, distributor::ICENABLER + 4 * word, !0);
    }
    if gic.version == 3 {
        v3::init(base, &gic.others)?;
    } else {
        let ours = other.start as usize;
        OURS.store(ours, Ordering::Relaxed);
        // The first eight target fields are read-only and say who is reading. [V2 4.3.12]; a
        // controller for one CPU reads as zero.
        let target = read32(base, distributor::ITARGETSR) & 0xff;
        TARGET.store(u64::from(target), Ordering::Relaxed);
        write32(base, distributor::ICENABLER, !0);
        write32(ours, cpu::PMR, 0xff);
        write32(ours, cpu::CTLR, 1);
        write32(base, distributor::CTLR, 1);
    }
    if let Some(frame) = &gic.messages {
        let typer = read32(frame.start as usize, messages::TYPER);
        let (first, count) = (typer >> 16 & 0x3ff, typer & 0x3ff);
        MESSAGE_NEXT.store(first, Ordering::Relaxed);
        MESSAGE_END.store((first + count).min(COUNT.load(Ordering::Relaxed)), Ordering::Relaxed);
        MESSAGE_ADDRESS.store(frame.start + messages::SETSPI as u64, Ordering::Relaxed);
    }
    Ok(())
}

/// The block with the enable, priority and configuration registers of a line.
fn block_of(line: u32) -> usize {
    if line < 32 && VERSION.load(Ordering::Relaxed) == 3 {
        OURS.load(Ordering::Relaxed)
    } else {
        DISTRIBUTOR.load(Ordering::Relaxed)
    }
}

fn exists(line: u32) -> bool {
    line < COUNT.load(Ordering::Relaxed)
}

/// Configures and enables a line. A line that the controller does not have stays silent.
pub fn irq_enable(line: u32, trigger: Trigger) {
    if !exists(line) {
        return;
    }
    let base = block_of(line);
    let index = line as usize;
    let word = 4 * (index / 32);
    let bit = 1 << (line % 32);
    write32(base, distributor::ICENABLER + word, bit);
    // Two bits a line, the upper one: edge. Those of SGIs are fixed, of PPIs may be. [V2 4.3.13]
    let config = distributor::ICFGR + 4 * (index / 16);
    let edge = 2 << (2 * (line % 16));
    let old = read32(base, config);
    write32(base, config, if trigger == Trigger::Edge { old | edge } else { old & !edge });
    set_byte(base, distributor::IPRIORITYR, index, PRIORITY);
    let target = TARGET.load(Ordering::Relaxed);
    if VERSION.load(Ordering::Relaxed) == 3 {
        let group = distributor::IGROUPR + word;
        write32(base, group, read32(base, group) | bit);
        if line >= 32 {
            v3::write_router(base + distributor::IROUTER + 8 * index, target);
        }
    } else if line >= 32 && target != 0 {
        set_byte(base, distributor::ITARGETSR, index, target as u32);
    }
    write32(base, distributor::ICPENDR + word, bit);
    write32(base, distributor::ISENABLER + word, bit);
}

fn set_byte(base: usize, offset: usize, index: usize, value: u32) {
    let (at, shift) = (offset + index / 4 * 4, 8 * (index % 4));
    write32(base, at, read32(base, at) & !(0xff << shift) | value << shift);
}

/// Stops a line from interrupting.
pub fn irq_mask(line: u32) {
    if exists(line) {
        write32(
            block_of(line),
            distributor::ICENABLER + 4 * (line as usize / 32),
            1 << (line % 32),
        );
    }
}

/// Lets a line interrupt again.
pub fn irq_unmask(line: u32) {
    if exists(line) {
        write32(
            block_of(line),
            distributor::ISENABLER + 4 * (line as usize / 32),
            1 << (line % 32),
        );
    }
}

/// A line that a device raises by a write; `None` if the controller has no such lines (left).
pub fn msi_allocate() -> Option<Msi> {
    let line = MESSAGE_NEXT.load(Ordering::Relaxed);
    if line >= MESSAGE_END.load(Ordering::Relaxed) {
        return None;
    }
    MESSAGE_NEXT.store(line + 1, Ordering::Relaxed);
    Some(Msi { line, address: MESSAGE_ADDRESS.load(Ordering::Relaxed), data: line })
}

/// Takes the pending interrupt, if there (still) is one.
pub(super) fn acknowledge() -> Option<u32> {
    let line = if VERSION.load(Ordering::Relaxed) == 3 {
        system::acknowledge()
    } else {
        read32(OURS.load(Ordering::Relaxed), cpu::IAR)
    };
    (line < LINES as u32).then_some(line)
}

/// Ends the interrupt that [`acknowledge`] gave.
pub(super) fn end(line: u32) {
    if VERSION.load(Ordering::Relaxed) == 3 {
        system::end(line);
    } else {
        write32(OURS.load(Ordering::Relaxed), cpu::EOIR, line);
    }
}

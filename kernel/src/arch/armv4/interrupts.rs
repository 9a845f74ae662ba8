//! The interrupt controllers: 32 lines, no priorities, no vectors.
//!
//! A line's number is the input of the one controller there is. Unlike a GIC's, these do not remember who is being served:
//! the first pending line is served, until there is none.
//!
//! Sources: [VIC] Arm DDI 0181E, PrimeCell VIC (PL190); [SIC] Arm DUI 0225D 4.10, and QEMU's `hw/arm/versatilepb.c`;
//! [FTINTC010] docs/hardware/gemini.md 1.7. FTINTC010 on a host model only, unverified on silicon.

use core::fmt;
use core::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use super::mmio::{read32, write32};
use super::mmu;
use crate::arch::{MapError, Trigger};
use crate::fdt::armv4::{Controller, ControllerKind};

/// Lines there are.
pub const LINES: usize = 32;

/// PL190. [VIC 3.3]
mod vic {
    pub(super) const IRQ_STATUS: usize = 0x00;
    pub(super) const INT_SELECT: usize = 0x0c;
    pub(super) const INT_ENABLE: usize = 0x10;
    pub(super) const INT_ENABLE_CLEAR: usize = 0x14;
    pub(super) const SOFT_INT_CLEAR: usize = 0x1c;
}

/// Versatile's second controller. [SIC]
mod sic {
    pub(super) const ENABLE_CLEAR: usize = 0x0c;
    pub(super) const PASS_THROUGH: usize = 0x20;
    /// Lines 21 to 30 can go past it, to the same inputs of the first controller.
    pub(super) const PASSED: u32 = 0x7fe0_0000;
}

/// [FTINTC010]
mod ftintc010 {
    pub(super) const MASK: usize = 0x04;
    pub(super) const CLEAR: usize = 0x08;
    pub(super) const MODE: usize = 0x0c;
    pub(super) const POLARITY: usize = 0x10;
    pub(super) const STATUS: usize = 0x14;
    pub(super) const FIQ_MASK: usize = 0x24;
}

static BASE: AtomicUsize = AtomicUsize::new(0);
/// An FTINTC010, not a PL190.
static FARADAY: AtomicBool = AtomicBool::new(false);

/// Why the controller cannot be used.
#[derive(Clone, Copy, Debug)]
pub(super) enum ControllerError {
    /// Its registers cannot be mapped.
    Map(MapError),
}

impl fmt::Display for ControllerError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ControllerError::Map(why) = self;
        write!(f, "registers cannot be mapped: {why}")
    }
}

impl From<MapError> for ControllerError {
    fn from(why: MapError) -> ControllerError {
        ControllerError::Map(why)
    }
}

/// Brings the controller up with all lines disabled.
pub(super) fn init(controller: &Controller) -> Result<(), ControllerError> {
    for block in core::iter::once(&controller.registers).chain(&controller.second) {
        mmu::map_device(block.start, (block.end - block.start) as usize)?;
    }
    let base = controller.registers.start as usize;
    match controller.kind {
        ControllerKind::Vic => {
            write32(base, vic::INT_ENABLE_CLEAR, !0);
            write32(base, vic::SOFT_INT_CLEAR, !0);
            write32(base, vic::INT_SELECT, 0);
        }
        ControllerKind::Ftintc010 => {
            write32(base, ftintc010::MASK, 0);
            write32(base, ftintc010::FIQ_MASK, 0);
        }
    }
    if let Some(second) = &controller.second {
        let second = second.start as usize;
        write32(second, sic::ENABLE_CLEAR, !0);
        write32(second, sic::PASS_THROUGH, sic::PASSED);
    }
    BASE.store(base, Ordering::Relaxed);
    FARADAY.store(controller.kind == ControllerKind::Ftintc010, Ordering::Relaxed);
    Ok(())
}

fn base() -> usize {
    BASE.load(Ordering::Relaxed)
}

fn is_faraday() -> bool {
    FARADAY.load(Ordering::Relaxed)
}

fn change(register: usize, bit: u32, set: bool) {
    let old = read32(base(), register);
    write32(base(), register, if set { old | bit } else { old & !bit });
}

/// Configures and enables a line. A line that the controller does not have stays silent.
pub fn irq_enable(line: u32, trigger: Trigger) {
    if line as usize >= LINES {
        return;
    }
    if is_faraday() {
        let bit = 1 << line;
        let edge = matches!(trigger, Trigger::Edge | Trigger::FallingEdge);
        let low = matches!(trigger, Trigger::LevelLow | Trigger::FallingEdge);
        change(ftintc010::MODE, bit, edge);
        change(ftintc010::POLARITY, bit, low);
        // An edge that was seen before anybody wanted it.
        write32(base(), ftintc010::CLEAR, bit);
    }
    irq_unmask(line);
}

/// Stops a line from interrupting.
pub fn irq_mask(line: u32) {
    if line as usize >= LINES {
        return;
    }
    if is_faraday() {
        change(ftintc010::MASK, 1 << line, false);
    } else {
        write32(base(), vic::INT_ENABLE_CLEAR, 1 << line);
    }
}

/// Lets a line interrupt again.
pub fn irq_unmask(line: u32) {
    if line as usize >= LINES {
        return;
    }
    if is_faraday() {
        // The mask is read, changed and written: an interrupt in between must not change it.
        let enabled = super::interrupts_disable();
        change(ftintc010::MASK, 1 << line, true);
        super::interrupts_restore(enabled);
    } else {
        write32(base(), vic::INT_ENABLE, 1 << line);
    }
}

/// The lowest line that is pending and enabled.
pub(super) fn pending() -> Option<u32> {
    let status = if is_faraday() { ftintc010::STATUS } else { vic::IRQ_STATUS };
    let lines = read32(base(), status);
    (lines != 0).then(|| lines.trailing_zeros())
}

/// Forgets the edge that made a line pending; a level line is pending until its device is satisfied.
pub(super) fn acknowledge(line: u32) {
    if is_faraday() && read32(base(), ftintc010::MODE) & 1 << line != 0 {
        write32(base(), ftintc010::CLEAR, 1 << line);
    }
}

#[cfg(test)]
mod tests;

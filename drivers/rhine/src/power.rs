//! The card at the end: stopped, and asleep with an eye open if it is to wake the machine. [RH 8]

use crate::chip::Chip;
use crate::init;
use crate::regs;
use trireme_nic::Registers;

/// WOLCR: a magic packet.
const MAGIC: u8 = 1 << 5;
/// WOLCG: the pattern page of chips with six patterns.
const PATTERN_PAGE: u8 = 1 << 2;
/// PWCFG: wake-up at all.
const WOLEN: u8 = 1 << 0;
/// STICKHW: wake-up the old way, and asleep.
const LEGACY_WAKE: u8 = 1 << 2;
const ASLEEP: u8 = 3;

/// Puts a stopped card to sleep so that a magic packet wakes the machine, as Linux does at power-off. The next
/// driver finds neither address nor PHY until it clears STICKHW [RH E13]; every driver of today does.
pub(crate) fn sleep<R: Registers>(bar: &R, chip: Chip) {
    init::awaken(bar, chip);
    if chip.has_six_patterns() {
        regs::WOLCG_CLEAR.act(bar, PATTERN_PAGE);
    }
    regs::WOLCR_SET.act(bar, MAGIC);
    regs::CFGA.modify(bar, |bits| bits | 3);
    regs::PWCFG_SET.act(bar, WOLEN);
    regs::STICKHW.modify(bar, |bits| bits | LEGACY_WAKE | ASLEEP);
}

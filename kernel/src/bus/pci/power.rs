//! Power states of a function: [PCI-PM] is the "PCI Bus Power Management Interface Specification", 1.2.

use super::{BARS, COMMAND, COMMAND_IO, COMMAND_MEMORY, Configuration, Function, INTERRUPT};

/// Capability of power management. [PCI-PM 3.2.1]
const POWER_MANAGEMENT: u8 = 0x01;
/// PMCSR, from the capability on. [PCI-PM 3.2.4]
const PMCSR: u8 = 4;
const STATE: u32 = 3;
const D3_HOT: u32 = 3;
const PME_ENABLE: u32 = 1 << 8;
/// A one clears it.
const PME_STATUS: u32 = 1 << 15;

/// Configuration that may be lost on the way from D3hot to D0, besides the command word: BARs and interrupt
/// line. [PCI-PM 5.4.1]
const LOST: [u8; 7] = [BARS, BARS + 4, BARS + 8, BARS + 12, BARS + 16, BARS + 20, INTERRUPT];
/// Before a function is spoken to after D3hot, in microseconds. [PCI-PM 5.6.1]
const RECOVERY_US: u32 = 10_000;

impl Function {
    /// Offset of its control and status word; `None` if it has but one state.
    fn pmcsr(&self, space: &dyn Configuration) -> Option<u8> {
        let list = self.capabilities(space)?;
        let (_, offset) = list.into_iter().find(|(id, _)| *id == POWER_MANAGEMENT)?;
        offset.checked_add(PMCSR)
    }

    /// Brings it to D0, however it was left, with nothing left to signal.
    pub fn wake(&self, space: &mut dyn Configuration, delay: &dyn Fn(u32)) {
        let Some(at) = self.pmcsr(space) else { return };
        let before = space.read(self.address, at);
        // The upper half is status, where ones clear.
        let command = space.read(self.address, COMMAND) & 0xffff;
        let kept = LOST.map(|offset| space.read(self.address, offset));
        space.write(self.address, at, before & !(STATE | PME_ENABLE) | PME_STATUS);
        if before & STATE == 0 {
            return;
        }
        delay(RECOVERY_US);
        space.write(self.address, COMMAND, command & !(COMMAND_IO | COMMAND_MEMORY));
        for (offset, word) in LOST.into_iter().zip(kept) {
            space.write(self.address, offset, word);
        }
        space.write(self.address, COMMAND, command);
    }

    /// Puts it into D3hot, from where it may signal a power management event. The last thing done to it.
    pub fn sleep(&self, space: &mut dyn Configuration) {
        if let Some(at) = self.pmcsr(space) {
            let word = space.read(self.address, at) & !STATE;
            space.write(self.address, at, word | D3_HOT | PME_ENABLE | PME_STATUS);
        }
    }
}

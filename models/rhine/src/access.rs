//! Register accesses, byte by byte.
//!
//! Registers are bytes; a wider access is its bytes in order, and what the bytes start (a demand, a
//! reset) happens once all of them are in place. That way every combination of widths the drivers
//! use comes out alike.

use crate::device::Rhine;
use crate::regs::{self, Cause, Cause2, Cr0, Cr1, Eecsr};
use trireme_vfio::Context;

/// What a write starts, once all its bytes are stored.
#[derive(Clone, Copy, Debug, Default)]
struct Started {
    reset: bool,
    transmit: bool,
    link_changed: bool,
}

impl Rhine {
    fn read_cr1(&mut self) -> u8 {
        let mut value = self.cr1;
        if let Some(reads) = self.reset_reads {
            value.insert(Cr1::SFRST);
            match reads {
                0 => {
                    self.soft_reset();
                    return self.cr1.bits();
                }
                u32::MAX => {}
                reads => self.reset_reads = Some(reads - 1),
            }
        }
        value.bits()
    }

    fn read_eecsr(&mut self) -> u8 {
        let mut value = Eecsr::EEPR;
        if self.eeprom_reads > 0 {
            self.eeprom_reads -= 1;
            value.insert(Eecsr::AUTOLD);
            if self.eeprom_reads == 0 {
                self.load_eeprom();
            }
        }
        value.bits()
    }

    pub(crate) fn load(&mut self, offset: u8) -> u8 {
        let stored = self.file[usize::from(offset)];
        let upper = offset >= 0x80;
        match offset {
            0x00..=0x05 if self.asleep() => 0,
            regs::CR0 => self.cr0.bits(),
            regs::CR1 => self.read_cr1(),
            0x0a => 0,
            0x0c | 0x0d => {
                self.spurious = false;
                self.isr.bits().to_le_bytes()[usize::from(offset - 0x0c)]
            }
            0x0e | 0x0f => self.imr.bits().to_le_bytes()[usize::from(offset - 0x0e)],
            0x10..=0x17 if self.cam.enabled() => self.cam.data[usize::from(offset - 0x10)],
            0x18..=0x1b => self.rx_pointer.to_le_bytes()[usize::from(offset - 0x18)],
            0x1c..=0x1f => self.tx_pointer.to_le_bytes()[usize::from(offset - 0x1c)],
            regs::MPHY if self.asleep() => 0,
            regs::MPHY => self.mii.phy_address,
            regs::MIISR => self.mii.status(self.chip, &self.faults),
            regs::MIICR => self.mii.read_control(),
            regs::MIIAD => self.mii.read_address(&self.faults),
            0x72 | 0x73 if self.asleep() => 0xff,
            0x72 | 0x73 => self.mii.data.to_le_bytes()[usize::from(offset - 0x72)],
            regs::EECSR => self.read_eecsr(),
            0x77 if (0x40..0x80).contains(&self.chip.revision) => 0x08,
            0x7c..=0x7f => {
                let clears = self.faults.tally_read_clears;
                self.statistics.read_tally(usize::from(offset - regs::TALLY), clears)
            }
            _ if upper && self.chip.is_rhine_i() => {
                self.counters.unknown_accesses += 1;
                0xff
            }
            0x82 => 0x01,
            regs::STICKHW => self.wake.sticky,
            regs::MISR => self.misr.bits(),
            regs::MIMR => self.mimr.bits(),
            0x88..=0x8b if self.chip.has_management() => {
                self.cam.mask().to_le_bytes()[usize::from(offset - regs::CAMMSK)]
            }
            regs::BPCMD => 0x80, // boot PROM access done
            regs::CAMC if self.chip.has_management() => self.cam.control.bits(),
            regs::CAMADD if self.chip.has_management() => self.cam.address,
            regs::CAMADD => 0x06, // EEPROM checksum
            regs::MIBCR if self.chip.has_management() => self.statistics.mib_control(),
            0x96 | 0x97 if self.chip.has_management() => {
                self.statistics.read_port(usize::from(offset - regs::MIBPORT))
            }
            0x96 if !self.chip.has_internal_phy() => self.mii.phy_address,
            regs::FLOWCR0 if self.chip.has_flow_control() => self.flow.residue(),
            regs::FLOWCR1 if self.chip.has_flow_control() => self.flow.control,
            0x9a | 0x9b if self.chip.has_flow_control() => {
                self.flow.timer.to_le_bytes()[usize::from(offset - regs::PAUSE_TIMER)]
            }
            0xa0..=0xa7 => self.wake.control(usize::from(offset & 3)),
            0xa8..=0xaf => self.wake.status(usize::from(offset & 3), self.chip),
            _ => stored,
        }
    }

    fn write_cr0(&mut self, value: u8, started: &mut Started) {
        let value = Cr0::from_bits_truncate(value);
        let kept = Cr0::INIT | Cr0::STRT | Cr0::STOP | Cr0::RXON | Cr0::TXON;
        self.cr0 = value.intersection(kept);
        if value.contains(Cr0::STOP) {
            self.cr0.remove(Cr0::STRT | Cr0::RXON | Cr0::TXON);
            self.tx_again = None;
        } else if value.contains(Cr0::RDMD) && !self.chip.has_internal_phy() {
            // Seen still set long after in working Rhine-I and Rhine-II.
            self.cr0.insert(Cr0::RDMD);
        }
        started.transmit |= value.contains(Cr0::TDMD);
    }

    fn write_cr1(&mut self, value: u8, started: &mut Started) {
        let value = Cr1::from_bits_retain(value);
        self.cr1 = value.difference(Cr1::TDMD1 | Cr1::RDMD1 | Cr1::SFRST);
        started.transmit |= value.contains(Cr1::TDMD1);
        started.reset |= value.contains(Cr1::SFRST);
    }

    fn store(&mut self, offset: u8, value: u8, started: &mut Started) {
        let chip = self.chip;
        let upper = offset >= 0x80;
        let set_byte = |word: u16, byte: u8| {
            let mut bytes = word.to_le_bytes();
            bytes[usize::from(byte)] = value;
            u16::from_le_bytes(bytes)
        };
        match offset {
            0x00..=0x05 if self.asleep() => {}
            regs::CR0 => self.write_cr0(value, started),
            regs::CR1 => self.write_cr1(value, started),
            regs::TQWK => started.transmit |= chip.has_management() && value & 0x80 != 0,
            0x0c | 0x0d => {
                let clear = u16::from(value) << (8 * (offset - regs::ISR));
                self.isr.remove(Cause::from_bits_retain(clear));
            }
            0x0e | 0x0f => {
                self.imr = Cause::from_bits_retain(set_byte(self.imr.bits(), offset - regs::IMR));
            }
            0x10..=0x17 if self.cam.enabled() => self.cam.data[usize::from(offset - 0x10)] = value,
            0x18..=0x1b => set_lane(&mut self.rx_pointer, offset & 3, value),
            0x1c..=0x1f => {
                set_lane(&mut self.tx_pointer, offset & 3, value);
            }
            0x20..=0x5f if !chip.has_management() => {} // copies of descriptors, read only
            regs::MPHY => self.mii.phy_address = value,
            regs::MIISR | 0x77 => {}
            regs::MIICR if self.asleep() => {}
            regs::MIICR => started.link_changed |= self.mii.write_control(value, &self.faults),
            regs::MIIAD => self.mii.write_address(value),
            0x72 | 0x73 => self.mii.data = set_byte(self.mii.data, offset - regs::MIIDATA),
            regs::EECSR => {
                if Eecsr::from_bits_retain(value).contains(Eecsr::AUTOLD) {
                    self.eeprom_reads = self.faults.slow_eeprom;
                    if self.eeprom_reads == 0 {
                        self.load_eeprom();
                    }
                }
            }
            0x7c..=0x7f => {
                let clears = self.faults.tally_read_clears;
                self.statistics.write_tally(usize::from(offset - regs::TALLY), clears);
            }
            _ if upper && chip.is_rhine_i() => self.counters.unknown_accesses += 1,
            regs::MISC_CR1 => {
                self.file[usize::from(offset)] = value & !regs::FORSRST | 0x20;
                if value & regs::FORSRST != 0 {
                    self.start_reset(true);
                }
            }
            0x82 => {}
            regs::STICKHW => self.wake.sticky = value,
            regs::MISR => self.misr.remove(Cause2::from_bits_retain(value)),
            regs::MIMR => self.mimr = Cause2::from_bits_retain(value),
            0x88..=0x8b if chip.has_management() => set_lane(self.cam.mask(), offset & 3, value),
            regs::CAMC if chip.has_management() => self.cam.write_control(value),
            regs::CAMADD if chip.has_management() => self.cam.address = value & 31,
            regs::MIBCR if chip.has_management() => self.statistics.write_mib_control(value),
            0x96 | 0x97 => {}
            regs::FLOWCR0 if chip.has_flow_control() => self.flow.write_residue(value),
            regs::FLOWCR1 if chip.has_flow_control() => self.flow.control = value,
            0x9a | 0x9b if chip.has_flow_control() => {
                self.flow.timer = set_byte(self.flow.timer, offset - regs::PAUSE_TIMER);
            }
            0xa0..=0xa3 => self.wake.set_control(usize::from(offset & 3), value),
            0xa4..=0xa7 => self.wake.clear_control(usize::from(offset & 3), value),
            0xa8..=0xab => self.wake.set_status(usize::from(offset & 3), value),
            0xac..=0xaf => self.wake.clear_status(usize::from(offset & 3), value),
            _ => self.file[usize::from(offset)] = value,
        }
    }

    pub(crate) fn apply(&mut self, offset: u8, data: &[u8], context: Context<'_>) {
        let mut started = Started::default();
        for (i, &value) in data.iter().enumerate() {
            self.store(offset.wrapping_add(i as u8), value, &mut started);
        }
        if started.link_changed {
            self.link_changed(true);
        }
        if started.reset {
            self.start_reset(false);
        } else if started.transmit || (self.transmits() && !self.cr1.contains(Cr1::DPOLL)) {
            self.transmit(context);
        }
        if let Some(pause) = self.flow.pause_to_send(&self.station()) {
            self.statistics.count(crate::stats::Mib::TxPause);
            self.send(pause);
        }
    }
}

/// Replaces one byte of a word.
fn set_lane(word: &mut u32, lane: u8, value: u8) {
    let shift = 8 * u32::from(lane);
    *word = *word & !(0xff << shift) | u32::from(value) << shift;
}

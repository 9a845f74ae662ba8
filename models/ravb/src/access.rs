//! Register accesses: 32 bits wide, at multiples of four, nothing else. (sheet, number conventions)

use crate::device::{Interface, Ravb};
use crate::mode::Mode;
use crate::phy::Written;
use crate::queue::QUEUES;
use crate::regs::{self, Write, ecmr, tccr};
use trireme_vfio::Context;

/// Configuration that belongs to CONFIG mode. (sheet 3.1)
const CONFIGURATION: [u16; 7] =
    [regs::DBAT, regs::RCR, regs::RQC, regs::RTC, regs::TGC, regs::CIE, regs::DIL];
/// CXR35 for RGMII and for MII: the other fields have one right value. (sheet 2.7, 6.4)
const CXR35_RGMII: u32 = 0x03e8_0000;
const CXR35_MII: u32 = 0x03e8_0002;

impl Ravb {
    pub(crate) fn load(&mut self, offset: u16, context: Context<'_>) -> u32 {
        let Some(place) = self.place_at(offset) else {
            self.counters.unknown_accesses += 1;
            log::debug!("read of {offset:#05x}, where nothing is");
            return 0;
        };
        let index = usize::from((offset - place.row) / 4);
        let stored = self.get(offset);
        match place.row {
            regs::DLR => self.loading,
            regs::CSR => self.status(),
            regs::CDAR => self.current(index),
            regs::UFCV => self.unread_word(index),
            regs::SFL => 0x1f,
            regs::TCCR => stored | self.requests,
            regs::TSR => self.stamps.level() << 8,
            regs::TFA => self.stamps.oldest()[index],
            regs::EIS => self.error_status(),
            regs::ISS => self.summary(),
            regs::GCCR => self.load_gccr(context),
            regs::PIR => self.mdio.read(),
            regs::PSR => u32::from(self.phy.link()),
            regs::CSR0 => self.load_csr0(),
            _ if place.write == Write::ClearsCounter && self.get(regs::ECMR) & ecmr::TRCCM != 0 => {
                self.set(offset, 0);
                stored
            }
            _ => stored,
        }
    }

    /// UFCV's word: four queues, a byte each.
    fn unread_word(&self, index: usize) -> u32 {
        let counts = self.unread.iter().skip(4 * index).take(4);
        counts.enumerate().fold(0, |word, (i, &count)| word | u32::from(count) << (8 * i))
    }

    pub(crate) fn store(&mut self, offset: u16, value: u32, context: Context<'_>) {
        let Some(place) = self.place_at(offset) else {
            self.counters.unknown_accesses += 1;
            log::debug!("write of {value:#x} to {offset:#05x}, where nothing is");
            return;
        };
        if place.write != Write::ClearsCounter {
            self.watch_emac(offset, value);
        }
        let stored = self.get(offset);
        match place.write {
            Write::Ignored => {}
            Write::Stores => {
                if CONFIGURATION.contains(&place.row) && self.mode_is_operation() {
                    self.violation(format_args!("{offset:#05x} is for CONFIG mode"));
                }
                self.set(offset, stored & !place.mask | value & place.mask);
                if offset == regs::GECMR || offset == regs::RFLR {
                    self.transmit(context);
                }
            }
            Write::ZeroClears => self.set(offset, stored & value),
            Write::OneClears => self.set(offset, stored & !value),
            Write::ClearsCounter => {
                if self.get(regs::ECMR) & ecmr::TRCCM == 0 {
                    self.set(offset, 0);
                }
            }
            Write::Sets(other) => self.raise(other, value),
            Write::Resets(other) => self.set(other, self.get(other) & !value),
            Write::Acts => self.act(place.row, offset, value & place.mask, context),
        }
    }

    fn act(&mut self, row: u16, offset: u16, value: u32, context: Context<'_>) {
        match row {
            regs::CCC => self.store_ccc(value, context),
            regs::DLR => {
                self.loading |= value;
                self.load_entries(context);
            }
            regs::UFCD => {
                let first = usize::from((offset - row) / 4) * 4;
                for (count, by) in self.unread.iter_mut().skip(first).zip(value.to_le_bytes()) {
                    *count = count.saturating_sub(by & 0x3f);
                }
            }
            regs::SFL => {
                // A filter's index; codes for SFO and SFM are not known.
                for i in 0..2 {
                    if value < 16 {
                        let pattern = regs::SFP + 8 * value as u16 + 4 * i;
                        self.set(pattern, self.get(regs::SFV + 4 * i));
                    }
                }
            }
            regs::TCCR => self.store_tccr(value, context),
            regs::GCCR => self.store_gccr(value, context),
            regs::GTI => {
                if self.timer_loads_increment() {
                    self.violation(format_args!("GTI before its last value is loaded"));
                }
                self.set(regs::GTI, value);
            }
            regs::ECMR => self.store_ecmr(value, context),
            regs::PIR => self.store_pir(value, context),
            regs::CXR35 => self.set(offset, value),
            regs::MPR => self.store_mpr(value),
            regs::CSR0 => self.store_csr0(value, context),
            regs::CSR1 => self.store_sums(offset, value, regs::TPE),
            regs::CSR2 => self.store_sums(offset, value, regs::RPE),
            _ => {}
        }
    }

    /// CXR35 must be the first register of the E-MAC to be written, MDIO apart (sheet 3.2). Nor can
    /// counters matter: Linux clears them before it has opened the interface for the first time.
    fn watch_emac(&mut self, offset: u16, value: u32) {
        let emac = (regs::EMAC..regs::CSR0).contains(&offset) && offset != regs::PIR;
        if self.variant.is_avb() || !emac || self.interface == Interface::Lost {
            return;
        }
        match (offset, value) {
            (regs::CXR35, CXR35_RGMII) => self.interface = Interface::Rgmii,
            (regs::CXR35, CXR35_MII) => self.interface = Interface::Mii,
            (regs::CXR35, _) => self.violation(format_args!("CXR35 cannot be {value:#x}")),
            _ if self.interface == Interface::Untold => {
                self.violation(format_args!("{offset:#05x} before CXR35: no interface"));
                self.interface = Interface::Lost;
            }
            _ => {}
        }
    }

    fn store_tccr(&mut self, value: u32, context: Context<'_>) {
        self.set(regs::TCCR, value & !(tccr::TSRQ | tccr::TFR));
        if value & tccr::TFR != 0 {
            self.stamps.release();
        }
        if self.mode_is_operation() {
            let queues = (0..4).filter(|&queue| self.has_queue(queue));
            self.requests |= queues.fold(0, |bits, queue| bits | value & 1 << queue);
            self.transmit(context);
        }
    }

    fn store_ecmr(&mut self, value: u32, context: Context<'_>) {
        let changed = self.get(regs::ECMR) ^ value;
        let running = self.get(regs::ECMR) & (ecmr::TE | ecmr::RE) != 0;
        if changed & ecmr::RCSC != 0 && running {
            self.violation(format_args!("RCSC is for TE = RE = 0"));
        }
        self.set(regs::ECMR, value);
        self.transmit(context);
    }

    /// MDIO is usable in CONFIG and OPERATION. (sheet 3.1)
    fn store_pir(&mut self, value: u32, context: Context<'_>) {
        let usable = self.mode != Mode::Reset && !self.faults.absent_phy;
        match self.mdio.write(value, usable.then_some(&mut self.phy)) {
            Written::Nothing => {}
            Written::Stored => {
                let changed = self.phy.settle();
                self.link_changed(changed);
            }
            Written::Restarts => self.negotiate(context.now),
        }
    }

    /// A PAUSE frame by hand.
    fn store_mpr(&mut self, value: u32) {
        self.set(regs::MPR, value);
        let wanted = ecmr::TE | ecmr::TXF;
        if self.get(regs::ECMR) & wanted != wanted || !self.hears() {
            return;
        }
        let mut frame = vec![0x01, 0x80, 0xc2, 0, 0, 1];
        frame.extend(self.station());
        frame.extend([0x88, 0x08, 0, 1]);
        frame.extend((value as u16).to_be_bytes());
        frame.resize(60, 0);
        self.count(regs::PFTCR);
        self.send(frame);
    }

    fn load_csr0(&mut self) -> u32 {
        let stored = self.get(regs::CSR0);
        let (bits, reads) = self.toe_closing;
        self.toe_closing = (if reads > 1 { bits } else { 0 }, reads.saturating_sub(1));
        if reads > 0 { stored | bits } else { stored }
    }

    fn store_csr0(&mut self, value: u32, context: Context<'_>) {
        let cleared = self.get(regs::CSR0) & !value & (regs::TPE | regs::RPE);
        self.toe_closing = (cleared, if cleared != 0 { self.faults.slow_toe } else { 0 });
        self.set(regs::CSR0, value);
        self.transmit(context);
    }

    /// CSR1 and CSR2 want their path closed. (sheet 2.9)
    fn store_sums(&mut self, offset: u16, value: u32, path: u32) {
        let (closing, reads) = self.toe_closing;
        let closing = if reads > 0 { closing } else { 0 };
        if (self.get(regs::CSR0) | closing) & path != 0 {
            self.violation(format_args!("{offset:#05x} is not written while its path is open"));
            return;
        }
        self.set(offset, value);
    }

    pub(crate) fn load_entries(&mut self, context: Context<'_>) {
        if !self.operates() {
            return;
        }
        for queue in 0..QUEUES {
            if self.loading >> queue & 1 != 0 {
                self.load_entry(queue, context);
            }
        }
    }
}

//! Accesses of any width to the three windows (docs/hardware/gemini.md 4.7).

use crate::device::{Gemini, dma_offset};
use crate::interrupts::Cause;
use crate::regs::{self, Kind, Offset, PORT_STRIDE, PORTS, dma, gmac};
use crate::syscon;

/// Everything within a word that an access of `len` bytes at `lane` covers.
fn lanes(lane: usize, len: usize) -> u32 {
    let ones = if len >= 4 { u32::MAX } else { (1 << (8 * len)) - 1 };
    ones << (8 * lane)
}

impl Gemini {
    /// Reads up to 8 bytes, word by word.
    pub(crate) fn load_bytes(&mut self, bar: usize, offset: u16, data: &mut [u8]) {
        for (i, part) in data.chunks_mut(4).enumerate() {
            let at = offset + 4 * i as u16;
            let lane = usize::from(at % 4);
            let word = self.load(bar, at & !3, lanes(lane, part.len()));
            part.copy_from_slice(&word.to_le_bytes()[lane..lane + part.len()]);
        }
    }

    /// Writes up to 8 bytes, word by word.
    pub(crate) fn store_bytes(&mut self, bar: usize, offset: u16, data: &[u8]) {
        for (i, part) in data.chunks(4).enumerate() {
            let at = offset + 4 * i as u16;
            let lane = usize::from(at % 4);
            let mut word = [0; 4];
            word[lane..lane + part.len()].copy_from_slice(part);
            self.store(bar, at & !3, u32::from_le_bytes(word), lanes(lane, part.len()));
        }
    }

    fn load(&mut self, bar: usize, offset: Offset, mask: u32) -> u32 {
        let value = match bar {
            0 => self.load_register(offset, mask),
            1 => self.syscon.read(offset),
            2 => self.gpio.read(offset, &self.board),
            _ => None,
        };
        value.unwrap_or_else(|| {
            self.counters.unknown_accesses += 1;
            0
        })
    }

    fn load_register(&mut self, offset: Offset, mask: u32) -> Option<u32> {
        let kind = regs::kind(offset)?;
        if !matches!(kind, Kind::Pointers | Kind::HeaderPointers) && mask != u32::MAX {
            self.counters.odd_accesses += 1;
        }
        if let Some((port, offset)) = port_offset(offset)
            && let Some(value) = self.load_port(port, offset)
        {
            return Some(value);
        }
        Some(match offset {
            regs::TOE_VERSION => regs::VERSION,
            regs::INTERRUPTS..regs::HASH_TABLE_BASE => {
                self.interrupts.read(offset - regs::INTERRUPTS)
            }
            _ => self.word(offset),
        })
    }

    /// Registers of a port that are no storage.
    fn load_port(&mut self, port: usize, offset: Offset) -> Option<u32> {
        const MIB: Offset = gmac::WINDOW + gmac::MIB;
        const MIB_END: Offset = gmac::WINDOW + gmac::MIB_END;
        const TX_STATE: Offset = gmac::WINDOW + gmac::TX_STATE;
        const RX_STATE: Offset = gmac::WINDOW + gmac::RX_STATE;
        let hung = |hung: bool, signature: u32| if hung { signature } else { 0 };
        let port = &mut self.ports[port];
        Some(match offset {
            dma::TX_FIRST_DESC..dma::SW_TXQ_BASE => {
                port.tx_progress[usize::from((offset - dma::TX_FIRST_DESC) / 4)]
            }
            dma::RX_FIRST_DESC..dma::HASH_ENGINE => {
                port.rx_progress[usize::from((offset - dma::RX_FIRST_DESC) / 4)]
            }
            MIB..MIB_END => {
                let value = port.mib.take(usize::from((offset - MIB) / 4));
                if self.faults.mib_nonsense { self.random.u32(..) } else { value }
            }
            // What else they read is not known; E7 knows the hangs.
            TX_STATE => hung(port.tx_hung, 0x0003_4012),
            RX_STATE => hung(port.rx_hung, 0x004b_2000),
            _ => return None,
        })
    }

    fn store(&mut self, bar: usize, offset: Offset, value: u32, mask: u32) {
        match bar {
            0 => self.store_register(offset, value, mask),
            1 if offset < syscon::SIZE => {
                let resets = self.syscon.write(offset, value, mask);
                for port in (0..2).filter(|&port| resets[port]) {
                    self.reset_port(port);
                }
            }
            2 if self.gpio.write(offset, value, mask, &mut self.board) => {}
            _ => self.counters.unknown_accesses += 1,
        }
    }

    fn store_register(&mut self, offset: Offset, value: u32, mask: u32) {
        let Some(kind) = regs::kind(offset) else {
            self.counters.unknown_accesses += 1;
            return;
        };
        let (low, high) = (0x0000_ffff, 0xffff_0000);
        let takes = match kind {
            Kind::Storage | Kind::Clears => true,
            Kind::ReadOnly | Kind::Counter => return,
            Kind::Pointers => mask == u32::MAX || mask == high,
            Kind::HeaderPointers => mask == u32::MAX || mask == high || mask == low,
        };
        let narrow = matches!(kind, Kind::Storage | Kind::Clears) && mask != u32::MAX;
        self.counters.odd_accesses += u64::from(narrow || !takes);
        if !takes {
            return;
        }
        match offset {
            regs::INTERRUPTS..regs::HASH_TABLE_BASE => {
                self.interrupts.write(offset - regs::INTERRUPTS, value, mask);
            }
            _ => {
                let merged = self.word(offset) & !mask | value & mask;
                self.set_word(offset, merged);
            }
        }
        match offset {
            // Level-like: a queue that is still empty interrupts again. [9, 7]
            regs::SW_FREEQ_BASE_SIZE | regs::SWFQ_RWPTR | regs::QUEUE_THRESHOLD => {
                self.check_free_queue();
            }
            _ if offset == regs::INTERRUPTS + 0x40 => self.check_free_queue(),
            _ => {}
        }
        if let Some((port, dma::DMA_CTRL | dma::SW_TXQ_BASE)) = port_offset(offset) {
            self.ports[port].tx_halted = false;
        }
    }

    /// The free queue's interrupt and flow control, after anything that may have changed its level.
    pub(crate) fn check_free_queue(&mut self) {
        if let Some(free) = self.free_buffers() {
            if free <= self.word(regs::QUEUE_THRESHOLD) & 0xff {
                self.raise(Cause::FreeQueueEmpty);
            }
            for port in 0..2 {
                self.control_flow(port, free);
            }
        }
    }

    pub(crate) fn pointers(&self, offset: Offset) -> (u16, u16) {
        let word = self.word(offset);
        (word as u16, (word >> 16) as u16)
    }

    pub(crate) fn set_read_pointer(&mut self, offset: Offset, value: u16) {
        let word = self.word(offset) & 0xffff_0000 | u32::from(value);
        self.set_word(offset, word);
    }

    pub(crate) fn set_write_pointer(&mut self, offset: Offset, value: u16) {
        let word = self.word(offset) & 0xffff | u32::from(value) << 16;
        self.set_word(offset, word);
    }

    pub(crate) fn tx_pointer(port: usize, queue: usize) -> Offset {
        dma_offset(port, dma::SW_TXQ_PTR + 4 * queue as Offset)
    }
}

/// Port, and offset in its DMA window.
fn port_offset(offset: Offset) -> Option<(usize, Offset)> {
    let offset = offset.checked_sub(PORTS)?;
    Some((usize::from(offset / PORT_STRIDE), offset % PORT_STRIDE))
}

/// A ring as a base register describes it; `None`: there is none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Ring {
    pub(crate) base: u64,
    /// Slots less one.
    pub(crate) mask: u16,
}

impl Ring {
    pub(crate) fn new(base_order: u32) -> Option<Ring> {
        let base = base_order & !0xf;
        let order = base_order & 0xf;
        (base != 0).then_some(Ring { base: base.into(), mask: ((1u32 << order) - 1) as u16 })
    }

    /// Address of a slot.
    pub(crate) fn slot(&self, index: u16) -> u64 {
        self.base + 16 * u64::from(index & self.mask)
    }

    /// Entries between two pointers.
    pub(crate) fn used(&self, read: u16, write: u16) -> u16 {
        write.wrapping_sub(read) & self.mask
    }
}

//! Causes in, recovery out. [RH 4.6, 4.7, 4.12]

use crate::desc::Tdes0;
use crate::init::{self, Setting};
use crate::nic::Rhine;
use crate::phy::Bus;
use crate::regs::{self, Cause, Cause2, Cr0, Cr1, Tcr};
use crate::{Error, Timeout};
use trireme_nic::{Dma, Registers};
use trireme_registers::wait_until;

/// Longest time the transmitter takes to stop after an error. Linux waits as long. [RH 4.6]
const TRANSMITTER_STOP_US: u32 = 10_000;
/// Errors handled in one go; the next interrupt brings the rest.
const MAX_ROUNDS: usize = 4;
/// Times one frame is sent before it is given up; the threshold has five steps.
const MAX_TRIES: u32 = 8;
/// Statuses after which the card has stopped its transmitter.
const FATAL: Tdes0 = Tdes0::ABT.union(Tdes0::UDF).union(Tdes0::TBUFF).union(Tdes0::SERR);

impl<R: Registers, D: Dma> Rhine<R, D> {
    /// Reads and acknowledges what is pending, and does what it asks for. `Err`: only a reset helps.
    pub(crate) fn handle_causes(&mut self) -> Result<(), Trouble> {
        let causes = regs::ISR.read(&self.bar);
        if causes.bits() == 0xffff {
            return Err(Trouble::Gone);
        }
        let more = self.take_more();
        if causes.is_empty() && more.is_empty() {
            return Ok(());
        }
        regs::ISR.ack(&self.bar, causes);
        self.reclaim();
        if causes.contains(Cause::BE) {
            self.counters.bus_errors += 1;
            return Err(Trouble::BusError);
        }
        if causes.intersects(Cause::RECEIVE_STOPS) {
            self.counters.rx_stops += 1;
            // Put right once frames were taken and buffers given back.
            self.receiver_stopped = true;
        }
        if causes.contains(Cause::CNT) {
            self.read_tally();
        }
        if causes.contains(Cause::SRCI) {
            self.look_at_link();
        }
        if causes.intersects(Cause::TRANSMIT_ERRORS) || more.contains(Cause2::TDWBRAI) {
            self.restart_transmitter(causes, more)?;
        }
        Ok(())
    }

    /// Second cause register, read and acknowledged, on chips that use it. [RH E4]
    fn take_more(&mut self) -> Cause2 {
        if !self.chip.has_writeback_race() {
            return Cause2::empty();
        }
        let more = regs::MISR.read(&self.bar);
        if !more.is_empty() {
            regs::MISR.ack(&self.bar, more);
        }
        more & Cause2::TDWBRAI
    }

    /// Takes sent buffers home, up to a frame the card failed on.
    pub(crate) fn reclaim(&mut self) {
        while let Some(status) = self.tx.done() {
            if status.intersects(FATAL) {
                break;
            }
            self.take_sent(status);
        }
    }

    fn take_sent(&mut self, status: Tdes0) {
        let Some(buffer) = self.tx.returned(&self.dma) else { return };
        self.tx_progress_us = self.now_us;
        self.tries = 0;
        if status.contains(Tdes0::TERR) {
            self.counters.tx_errors += 1;
            self.counters.tx_carrier_errors += u64::from(status.contains(Tdes0::CRS));
            self.counters.tx_window_errors += u64::from(status.contains(Tdes0::OWC));
            self.counters.tx_aborted_errors += u64::from(status.contains(Tdes0::ABT));
        } else {
            self.counters.tx_packets += 1;
            self.counters.tx_bytes += buffer.len() as u64;
        }
        self.free.push(buffer);
    }

    /// The transmitter stopped by itself: settles the frame it failed on and starts it again there.
    fn restart_transmitter(&mut self, causes: Cause, more: Cause2) -> Result<(), Trouble> {
        let (mut causes, mut more) = (causes, more);
        for _ in 0..MAX_ROUNDS {
            // Looking at the ring before the engine is off races with it. [RH E5]
            let off = || !regs::CR0.read(&self.bar).contains(Cr0::TXON);
            wait_until(&*self.delay, "transmitter off", TRANSMITTER_STOP_US, off)?;
            self.settle_failed(causes, more)?;
            // With an error pending a restart kills the transmitter. [RH E6]
            causes = regs::ISR.read(&self.bar) & Cause::TRANSMIT_ERRORS;
            more = self.take_more();
            if causes.is_empty() && more.is_empty() {
                break;
            }
            regs::ISR.ack(&self.bar, causes);
        }
        self.counters.tx_restarts += 1;
        // The card's own pointer is not to be trusted. [RH 4.6]
        regs::CURR_TX_DESC.write(&self.bar, self.tx.position());
        regs::CR0.write(&self.bar, Cr0::STRT | Cr0::RXON | Cr0::TXON);
        self.demand();
        Ok(())
    }

    /// What becomes of the oldest frame after an error.
    fn settle_failed(&mut self, causes: Cause, more: Cause2) -> Result<(), Trouble> {
        self.reclaim();
        let Some(status) = self.tx.done() else {
            // Not written back: the race, which explains itself, or an error with no detail, for
            // which Linux blames the threshold. [RH E4, E7]
            if more.contains(Cause2::TDWBRAI) {
                self.counters.tx_writeback_races += 1;
            } else if causes.contains(Cause::TXE) {
                self.raise_threshold();
            }
            return Ok(());
        };
        if status.contains(Tdes0::SERR) {
            self.counters.bus_errors += 1;
            return Err(Trouble::BusError);
        }
        if status.contains(Tdes0::ABT) {
            self.take_sent(status | Tdes0::TERR);
        } else if status.intersects(Tdes0::UDF | Tdes0::TBUFF) {
            self.counters.tx_fifo_errors += 1;
            self.raise_threshold();
            self.tries += 1;
            if self.tries < MAX_TRIES {
                self.tx.retry();
            } else {
                self.counters.tx_dropped += 1;
                self.take_sent(status | Tdes0::TERR);
            }
        }
        Ok(())
    }

    /// One step towards store-and-forward, which cannot underrun. [RH E2, E3]
    fn raise_threshold(&mut self) {
        if !self.threshold.contains(Tcr::RTSF) {
            self.threshold = Tcr::from_bits_retain(self.threshold.bits() + 0x20);
            self.write_transmitter();
        }
    }

    /// After frames were taken and buffers given back: has a receiver go on that ran out of them.
    /// [RH E20]
    pub(crate) fn resume_receiver(&mut self) {
        if !self.receiver_stopped {
            return;
        }
        self.receiver_stopped = false;
        let state = regs::CR0.read(&self.bar);
        if !state.contains(Cr0::RXON) {
            regs::CURR_RX_DESC.write(&self.bar, self.rx.position());
        }
        let transmitter = state & Cr0::TXON;
        regs::CR0.write(&self.bar, Cr0::STRT | Cr0::RXON | Cr0::RDMD | transmitter);
        regs::CR0.read(&self.bar);
    }

    /// Tells the card to look at the transmit ring. The read pushes the write out. [RH E1]
    pub(crate) fn demand(&mut self) {
        if self.vlans.are_in_use() {
            // For tagged frames Linux and VIA wake the ring besides; OpenBSD does not. [RH 2.3]
            regs::TQWK.write(&self.bar, 1 << 7);
        }
        regs::CR1.write(&self.bar, init::command1(self.link.link.full_duplex) | Cr1::TDMD1);
        regs::CR0.read(&self.bar);
    }

    pub(crate) fn read_tally(&mut self) {
        let tally = regs::TALLY.read(&self.bar);
        self.counters.rx_missed_errors += u64::from(tally & 0xffff);
        self.counters.rx_crc_errors += u64::from(tally >> 16);
        // Some chips clear when written; others when read, and count one after a write. [RH 4.8]
        regs::TALLY.write(&self.bar, 0);
        regs::TALLY.read(&self.bar);
    }

    /// Asks the PHY and makes the MAC follow: nothing does that by itself. [RH 3.6]
    pub(crate) fn look_at_link(&mut self) {
        let before = self.link;
        self.link = self.phy.look(&Bus { bar: &self.bar, delay: &*self.delay });
        if before == self.link {
            return;
        }
        self.counters.link_changes += 1;
        self.follow_link();
    }

    fn follow_link(&mut self) {
        let full_duplex = self.link.link.full_duplex;
        init::queueing(&self.bar, self.chip, full_duplex);
        regs::CR1.write(&self.bar, init::command1(full_duplex));
        self.follow_pause();
    }

    /// Resets all of the card and sets it up as it was; frames not sent yet are sent then.
    pub(crate) fn recover(&mut self) -> Result<(), Error> {
        self.counters.resets += 1;
        if regs::ISR.read(&self.bar).bits() == 0xffff {
            return Err(Error::Absent);
        }
        init::awaken(&self.bar, self.chip);
        // Until the reset is confirmed the card may still use its buffers: they stay with it.
        init::reset(&self.bar, self.chip, &*self.delay)?;
        while let Some(status) = self.tx.done() {
            self.take_sent(status);
        }
        self.rx.rewind();
        self.tx.rewind();
        self.start();
        Ok(())
    }

    /// From reset to running.
    pub(crate) fn start(&mut self) {
        self.armed = false;
        self.receiver_stopped = false;
        (self.odd_frames, self.odd_since_us) = (0, None);
        self.tx_progress_us = self.now_us;
        self.link = self.phy.look(&Bus { bar: &self.bar, delay: &*self.delay });
        let setting = Setting {
            address: self.mac,
            filter: self.filter,
            transmitter: self.transmitter(),
            vlans: &self.vlans,
            full_duplex: self.link.link.full_duplex,
            receive: self.rx.position(),
            transmit: self.tx.position(),
        };
        init::start(&self.bar, self.chip, &setting, &*self.delay);
        // Duplex was lost with the reset. [RH E17]
        self.follow_link();
        if self.tx.len() > 0 {
            self.demand();
        }
    }
}

/// Why only a reset helps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Trouble {
    /// Reads are all ones.
    Gone,
    /// The card reported a PCI error.
    BusError,
    /// It did not do something in time.
    Timeout(Timeout),
    /// The receiver writes nonsense. [RH E19]
    Wedged,
}

impl From<Timeout> for Trouble {
    fn from(timeout: Timeout) -> Trouble {
        Trouble::Timeout(timeout)
    }
}

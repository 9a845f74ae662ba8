//! Events in, recovery out. [RV 3.7, 3.9]

use crate::init;
use crate::mdio;
use crate::mode;
use crate::nic::{Ravb, write_table};

use crate::regs::{self, Ecsr, Errors, Iss};
use crate::{Error, Timeout};
use trireme_nic::{Dma, Registers};
use trireme_phy::LinkState;

/// Longest time without a frame sent, though there are some to send.
pub(crate) const WATCHDOG_US: u64 = 2_000_000;
/// After this long a start request may have been lost. [RV 3.6]
pub(crate) const KICK_US: u64 = 100_000;
/// Restarts in a row for want of sending, until a frame is taken for the cause.
const MAX_FAILED_SENDS: u32 = 2;
/// Between looks at the PHY, where nothing tells of changes or there is no link.
const LOOK_US: u64 = 1_000_000;
/// The same while a link is awaited.
const EAGER_US: u64 = 100_000;
/// How long a link is awaited that eagerly: negotiation takes two to four seconds.
pub(crate) const EAGER_FOR_US: u64 = 6_000_000;

/// Why only a restart helps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Trouble {
    /// Reads are all ones.
    Gone,
    /// Descriptors made no sense to the card.
    Queue,
    /// It did not do something in time.
    Timeout(Timeout),
}

impl<R: Registers, D: Dma> Ravb<R, D> {
    /// Reads and acknowledges what is pending besides frames, and does what it asks for. `Err`: only a
    /// restart helps.
    pub(crate) fn handle_events(&mut self) -> Result<(), Trouble> {
        let summary = regs::ISS.read(&self.bar);
        if summary.bits() == u32::MAX {
            return Err(Trouble::Gone);
        }
        if summary.contains(Iss::TFUS) {
            self.take_timestamps();
        }
        if summary.contains(Iss::MS) {
            self.handle_emac();
        }
        if summary.contains(Iss::ES) { self.handle_errors() } else { Ok(()) }
    }

    fn handle_emac(&mut self) {
        let events = regs::ECSR.read(&self.bar);
        regs::ECSR.ack(&self.bar, events);
        self.counters.carrier_events += u64::from(events.contains(Ecsr::ICD));
        if events.contains(Ecsr::LCHNG) {
            self.look_at_link();
        }
    }

    fn handle_errors(&mut self) -> Result<(), Trouble> {
        let errors = Errors::from_bits_truncate(regs::EIS.status.read(&self.bar));
        // Every summary is looked into, and nothing that is set is left standing. [RV E13]
        let full = regs::RIS2.status.read(&self.bar);
        regs::RIS2.ack(&self.bar, full);
        regs::EIS.ack(&self.bar, errors.bits());
        self.counters.rx_over_errors += u64::from(full & init::queue_mask(self.variant) != 0);
        self.counters.rx_fifo_errors += u64::from(full & regs::RIC2_FIFO != 0);
        self.counters.mac_errors +=
            u64::from(errors.intersects(Errors::MRE | Errors::MTE | Errors::TBF));
        if errors.contains(Errors::QE) {
            self.counters.queue_errors += 1;
            log::debug!("ravb: error status {:#x}", regs::ESR.read(&self.bar));
            return Err(Trouble::Queue);
        }
        Ok(())
    }

    /// Takes sent buffers home; whatever the flags say. [RV E15]
    pub(crate) fn reclaim(&mut self) {
        for queue in &mut self.tx {
            while let Some(buffer) = queue.take(&self.dma) {
                self.tx_progress_us = self.now_us;
                self.kicked = false;
                self.failed_sends = 0;
                self.counters.tx_packets += 1;
                self.counters.tx_bytes += buffer.len() as u64;
                self.free.push(buffer);
            }
        }
    }

    /// Frames the card has to send.
    pub(crate) fn sending(&self) -> usize {
        self.tx.iter().map(|queue| queue.len()).sum()
    }

    /// Frames are waiting and none was sent for long: first a start request is repeated, then the card is
    /// restarted.
    pub(crate) fn watch_transmitter(&mut self) -> Result<(), Trouble> {
        let link = self.setting.link.link.up;
        if self.sending() == 0 || !link {
            self.tx_progress_us = self.now_us;
            self.kicked = false;
            return Ok(());
        }
        let idle = self.now_us.saturating_sub(self.tx_progress_us);
        if idle >= WATCHDOG_US {
            self.counters.tx_timeouts += 1;
            return Err(Trouble::Timeout(Timeout {
                what: "frame sent",
                waited_us: WATCHDOG_US as u32,
            }));
        }
        if idle >= KICK_US && !self.kicked {
            self.kicked = true;
            self.counters.tx_restarts += 1;
            self.demand_all();
        }
        Ok(())
    }

    /// Has the card look at every transmit queue with something in it.
    pub(crate) fn demand_all(&mut self) {
        for (n, queue) in self.tx.iter().enumerate() {
            if queue.len() > 0 {
                self.demand |= 1 << n;
            }
        }
        self.ring_doorbell();
    }

    /// Asks the PHY and makes the MAC follow.
    pub(crate) fn look_at_link(&mut self) {
        let bus = mdio::bus(&self.bar, &*self.delay);
        if !self.phy.is_found() {
            // One that came out of its reset late, or went back into it.
            self.phy.find(&bus, None);
        }
        let state = self.phy.look(&bus);
        if state != self.setting.link {
            self.counters.link_changes += 1;
            if self.setting.link.link.up && !state.link.up {
                self.eager_until_us = self.now_us + EAGER_FOR_US;
            }
            self.change_link(state);
        }
        let eager = !state.link.up && self.now_us < self.eager_until_us;
        self.look_at_us = match (state.link.up, self.link_pin) {
            (true, true) => None,
            _ => Some(self.now_us + if eager { EAGER_US } else { LOOK_US }),
        };
    }

    fn change_link(&mut self, state: LinkState) {
        self.setting.link = state;
        init::follow_link(&self.bar, self.variant, &self.setting);
        self.tx_progress_us = self.now_us;
        if state.link.up {
            self.demand_all();
        }
    }

    /// Reads the E-MAC's counters and clears them. [RV E52]
    pub(crate) fn read_counters(&mut self) {
        let bar = &self.bar;
        let take = |register: &trireme_registers::Reg<u32, trireme_registers::Rw>| {
            let value = register.read(bar);
            // All ones: nobody answers.
            if value == 0 || value == u32::MAX {
                return 0;
            }
            register.write(bar, 0);
            u64::from(value)
        };
        let counters = &mut self.counters;
        if !self.variant.is_avb() || self.variant.is_gen3() {
            counters.tx_aborted_errors += take(&regs::TROCR);
        }
        if !self.variant.is_avb() {
            counters.collisions += take(&regs::CDCR);
            counters.tx_carrier_errors += take(&regs::LCCR);
            // Frames with these are not stored there.
            let frame = take(&regs::FRECR) + take(&regs::CERCR) + take(&regs::CEECR);
            let length = take(&regs::TSFRCR) + take(&regs::TLFRCR);
            let (crc, bits) = (take(&regs::CEFCR), take(&regs::RFCR));
            counters.rx_crc_errors += crc;
            counters.rx_frame_errors += frame + bits;
            counters.rx_length_errors += length;
            counters.rx_errors += crc + frame + bits + length;
        }
    }

    /// Stops the card and starts it as it was; frames not sent yet are sent then, and frames received are kept.
    pub(crate) fn recover(&mut self, force: bool) -> Result<(), Error> {
        self.counters.resets += 1;
        if regs::ISS.read(&self.bar).bits() == u32::MAX {
            return Err(Error::Absent);
        }
        self.armed = false;
        // Until the card is known to have stopped it may still use its buffers: they stay with it, and
        // what ran before runs on. [RV E3]
        mode::reset(&self.bar, self.variant, force, &*self.delay)?;
        while let Some(frame) = self.take_received() {
            self.kept.push_back(frame);
        }
        self.reclaim();
        self.drop_stuck();
        for queue in &mut self.tx {
            queue.rewind();
        }
        for queue in &mut self.rx {
            queue.rewind(&self.dma);
        }
        self.start()
    }

    /// A frame the card has failed at twice would be failed at for ever, and those behind it never sent.
    /// [RV E31]
    fn drop_stuck(&mut self) {
        if self.failed_sends < MAX_FAILED_SENDS {
            return;
        }
        self.failed_sends = 0;
        for queue in &mut self.tx {
            if let Some(buffer) = queue.drop_oldest(&self.dma) {
                self.counters.tx_dropped += 1;
                self.free.push(buffer);
            }
        }
    }

    /// From reset to running.
    pub(crate) fn start(&mut self) -> Result<(), Error> {
        init::open(&self.bar, self.variant, &self.delays, &*self.delay)?;
        self.setting.link = self.phy.look(&mdio::bus(&self.bar, &*self.delay));
        self.begin()
    }

    /// From configuration mode to running.
    pub(crate) fn begin(&mut self) -> Result<(), Error> {
        self.armed = false;
        write_table(&mut self.table, &self.rx, &self.tx);
        init::dmac(&self.bar, self.variant, self.table.bus_address() as u32);
        mode::operate(&self.bar, self.variant, &*self.delay)?;
        init::emac(&self.bar, self.variant, &self.setting, &*self.delay)?;
        if self.variant.is_avb() {
            init::gptp(&self.bar, self.gptp_increment);
        }
        let trailer = self.trailer();
        for queue in &mut self.rx {
            queue.set_trailer(trailer);
        }
        self.tx_progress_us = self.now_us;
        self.kicked = false;
        self.eager_until_us = self.now_us + EAGER_FOR_US;
        self.look_at_us = Some(self.now_us);
        self.demand_all();
        Ok(())
    }
}

impl From<Timeout> for Trouble {
    fn from(timeout: Timeout) -> Trouble {
        Trouble::Timeout(timeout)
    }
}

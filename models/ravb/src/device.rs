//! The block behind its carrier.

use crate::mdio::Mdio;
use crate::mode::Mode;
use crate::phy::Phy;
use crate::ptp::{Stamps, Timer};
use crate::queue::{QUEUES, Queue};
use crate::regs::{self, Place, ecsr};
use crate::rx::Arrival;
use crate::tx::Late;
use crate::{CARRIER_VENDOR, Counters, Faults, Variant};
use std::collections::VecDeque;
use std::fmt::Arguments;
use std::ops::RangeTo;
use std::time::Duration;
use trireme_vfio::{Bar, ConfigSpace, Context, Device};

/// Bytes of the register block: the TOE ends at 0x80c, a page is what a BAR needs to be mapped.
const BLOCK: u32 = 0x1000;
/// Frames waiting to be taken at most; more are lost, as nobody listens.
const MAX_QUEUED: usize = 4096;

/// What GbEth's E-MAC takes itself to be wired to; the board has RGMII.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Interface {
    /// CXR35 was not written yet.
    Untold,
    Rgmii,
    Mii,
    /// Another register was written first.
    Lost,
}

/// One block.
pub struct Ravb {
    pub(crate) variant: Variant,
    pub(crate) faults: Faults,
    pub(crate) random: fastrand::Rng,
    pub(crate) counters: Counters,
    mac: [u8; 6],
    phy_address: u8,
    places: Vec<Option<Place>>,
    /// What registers keep, by word; those that answer for themselves keep nothing here.
    file: Vec<u32>,
    pub(crate) mode: Mode,
    /// Earliest end of the change of mode under way.
    pub(crate) mode_due: Duration,
    pub(crate) queues: [Queue; QUEUES],
    /// DLR: entries still to be loaded.
    pub(crate) loading: u32,
    /// TCCR.TSRQ.
    pub(crate) requests: u32,
    /// UFCV.
    pub(crate) unread: [u8; 18],
    pub(crate) fifo: VecDeque<Arrival>,
    pub(crate) late: VecDeque<Late>,
    pub(crate) stamps: Stamps,
    pub(crate) timer: Timer,
    /// What GCCR asks of the timer.
    pub(crate) timer_requests: u32,
    /// Reads of GCCR until it answers.
    pub(crate) timer_delay: u32,
    pub(crate) phy: Phy,
    pub(crate) mdio: Mdio,
    pub(crate) interface: Interface,
    /// CSR0's enables that still show, and for how many reads.
    pub(crate) toe_closing: (u32, u32),
    /// The block does nothing more. (sheet 6.3, 31)
    pub(crate) hung: bool,
    pub(crate) paused_until: Option<Duration>,
    /// The transmit engine looks at its rings again by itself at this time.
    pub(crate) tx_again: Option<Duration>,
    negotiated_at: Option<Duration>,
    phy_interrupt: bool,
    spurious: bool,
    next_spurious: Duration,
    next_flap: Duration,
    out: VecDeque<Vec<u8>>,
}

impl Ravb {
    /// The block after power-up, with `mac` in MAHR and MALR as a boot loader leaves it, and its PHY
    /// at address 0.
    pub fn new(variant: Variant, mac: [u8; 6], faults: Faults, seed: u64) -> Ravb {
        Ravb::with_phy(variant, mac, 0, faults, seed)
    }

    /// The same with the PHY at another address: 7 on RZ/G2L SMARC.
    pub fn with_phy(
        variant: Variant,
        mac: [u8; 6],
        phy_address: u8,
        faults: Faults,
        seed: u64,
    ) -> Ravb {
        let mut ravb = Ravb {
            variant,
            faults,
            random: fastrand::Rng::with_seed(seed),
            counters: Counters::default(),
            mac,
            phy_address,
            places: regs::places(variant),
            file: vec![0; regs::WORDS],
            mode: Mode::Reset,
            mode_due: Duration::ZERO,
            queues: [Queue::default(); QUEUES],
            loading: 0x3f_ffff,
            requests: 0,
            unread: [0; 18],
            fifo: VecDeque::new(),
            late: VecDeque::new(),
            stamps: Stamps::default(),
            timer: Timer::new(),
            timer_requests: 0x2c,
            timer_delay: 0,
            phy: Phy::new(variant, phy_address & 31),
            mdio: Mdio::default(),
            interface: Interface::Untold,
            toe_closing: (0, 0),
            hung: false,
            paused_until: None,
            tx_again: None,
            negotiated_at: None,
            phy_interrupt: false,
            spurious: false,
            next_spurious: faults.spurious,
            next_flap: faults.link_flap,
            out: VecDeque::new(),
        };
        ravb.reset_registers(..regs::WORDS as u16 * 4);
        let [a, b, c, d, e, f] = mac;
        ravb.set(regs::MAHR, u32::from_be_bytes([a, b, c, d]));
        ravb.set(regs::MALR, u32::from_be_bytes([0, 0, e, f]));
        if !faults.slow_link.is_zero() {
            ravb.negotiate(Duration::ZERO);
        }
        ravb
    }

    /// The variant this is.
    pub fn variant(&self) -> Variant {
        self.variant
    }

    /// What the model saw.
    pub fn counters(&self) -> Counters {
        self.counters
    }

    /// The fault switches, to turn them at run time.
    pub fn faults_mut(&mut self) -> &mut Faults {
        &mut self.faults
    }

    /// Plugs or pulls the network cable.
    pub fn set_cable(&mut self, plugged: bool) {
        let changed = self.phy.set_cable(plugged);
        self.link_changed(changed);
    }

    /// What the link partner offers: its register 4, and bits 11 (1000 Mbit/s full duplex) and 10
    /// (half) as they show in register 10. The speed follows the next negotiation or at once.
    pub fn set_partner(&mut self, advertisement: u16, gigabit: u16) {
        let changed = self.phy.set_partner(advertisement, gigabit);
        self.link_changed(changed);
    }

    pub(crate) fn get(&self, offset: u16) -> u32 {
        self.file[usize::from(offset / 4) % regs::WORDS]
    }

    pub(crate) fn set(&mut self, offset: u16, value: u32) {
        self.file[usize::from(offset / 4) % regs::WORDS] = value;
    }

    /// Sets flags, those that exist.
    pub(crate) fn raise(&mut self, offset: u16, bits: u32) {
        let mask = self.place_at(offset).map_or(0, |place| place.mask);
        self.set(offset, self.get(offset) | bits & mask);
    }

    /// Counts in a counter of the E-MAC.
    pub(crate) fn count(&mut self, offset: u16) {
        let mask = self.place_at(offset).map_or(0, |place| place.mask);
        self.set(offset, self.get(offset).saturating_add(1).min(mask));
    }

    pub(crate) fn place_at(&self, offset: u16) -> Option<Place> {
        self.places.get(usize::from(offset / 4)).copied().flatten()
    }

    pub(crate) fn reset_registers(&mut self, range: RangeTo<u16>) {
        for (word, place) in (0..range.end / 4).zip(&self.places) {
            if let Some(place) = place {
                self.file[usize::from(word)] = place.reset;
            }
        }
    }

    /// A rule of the manual is broken.
    pub(crate) fn violation(&mut self, what: Arguments<'_>) {
        self.counters.violations += 1;
        log::warn!("{what}");
    }

    /// GbEth: the path enabled by this bit of CSR0 is open, and the interface known.
    pub(crate) fn toe_passes(&self, path: u32) -> bool {
        let open = self.interface == Interface::Rgmii && self.get(regs::CSR0) & path != 0;
        self.variant.is_avb() || open
    }

    /// What GECMR sets, in Mbit/s.
    pub(crate) fn speed(&self) -> u16 {
        match (self.variant.is_avb(), self.get(regs::GECMR)) {
            (true, 0) | (false, 0x10) => 100,
            (true, _) | (false, 0x20) => 1000,
            (false, _) => 10,
        }
    }

    /// The cable and the E-MAC understand each other.
    pub(crate) fn hears(&self) -> bool {
        let speed = self.phy.mode().map(|mode| mode.speed);
        self.phy.passes() && speed == Some(self.speed())
    }

    pub(crate) fn send(&mut self, frame: Vec<u8>) {
        if self.out.len() < MAX_QUEUED {
            self.out.push_back(frame);
        }
    }

    /// The PHY negotiates: the link goes, and comes at once or later.
    pub(crate) fn negotiate(&mut self, now: Duration) {
        let gone = self.phy.negotiate(true);
        self.link_changed(gone);
        match self.faults.slow_link {
            Duration::ZERO => self.negotiated(),
            delay => self.negotiated_at = Some(now + delay),
        }
    }

    fn negotiated(&mut self) {
        self.negotiated_at = None;
        let changed = self.phy.negotiate(false);
        self.link_changed(changed);
    }

    pub(crate) fn link_changed(&mut self, changed: bool) {
        if changed {
            self.raise(regs::ECSR, ecsr::LCHNG);
        }
        let interrupt = self.phy.interrupt();
        // The pin is low while asserted; PIPR says which level the E-MAC takes for an interrupt.
        let active_high = self.get(regs::PIPR) != 0;
        if interrupt != self.phy_interrupt && interrupt != active_high {
            self.raise(regs::ECSR, ecsr::PHYI);
        }
        self.phy_interrupt = interrupt;
    }

    /// The register at a word and its bytes, or `None` if the access is not one.
    fn words(&mut self, offset: u64, len: usize) -> Option<usize> {
        // QEMU may merge two words into one access of eight bytes.
        let words = (len.is_multiple_of(4) && offset.is_multiple_of(4)).then_some(len / 4);
        self.counters.unknown_accesses += u64::from(words.is_none());
        words
    }
}

impl Device for Ravb {
    fn config_space(&self) -> ConfigSpace {
        ConfigSpace::new(CARRIER_VENDOR, self.variant.carrier_device(), 0x02_0000, 0)
            .with_bar(0, Bar::Memory { size: BLOCK })
    }

    fn read(&mut self, _bar: usize, offset: u64, data: &mut [u8], context: Context<'_>) {
        self.spurious = false;
        data.fill(if self.faults.gone { 0xff } else { 0 });
        if self.faults.gone || self.words(offset, data.len()).is_none() {
            return;
        }
        for (i, bytes) in (0..).zip(data.chunks_exact_mut(4)) {
            let value = self.load((offset as u16).wrapping_add(4 * i), context);
            bytes.copy_from_slice(&value.to_le_bytes());
        }
    }

    fn write(&mut self, _bar: usize, offset: u64, data: &[u8], context: Context<'_>) {
        if self.faults.gone || self.words(offset, data.len()).is_none() {
            return;
        }
        for (i, bytes) in (0..).zip(data.chunks_exact(4)) {
            let value = bytes.iter().rev().fold(0, |value, &byte| value << 8 | u32::from(byte));
            self.store((offset as u16).wrapping_add(4 * i), value, context);
        }
        self.settle_mode(context);
    }

    fn receive(&mut self, frame: &[u8], context: Context<'_>) {
        if self.faults.gone || self.is_looped() {
            return;
        }
        if self.hears() {
            self.arrive(frame, context);
        } else {
            self.counters.unheard += 1;
        }
    }

    fn advance(&mut self, context: Context<'_>) -> Option<Duration> {
        let now = context.now;
        if !self.faults.spurious.is_zero() && now >= self.next_spurious {
            self.next_spurious = now + self.faults.spurious;
            self.spurious = true;
        }
        if !self.faults.link_flap.is_zero() && now >= self.next_flap {
            self.next_flap = now + self.faults.link_flap;
            self.set_cable(!self.phy.link());
        }
        if self.negotiated_at.is_some_and(|at| at <= now) {
            self.negotiated();
        }
        self.complete_late(context);
        self.drain(context);
        if self.tx_again.is_some_and(|at| at <= now) {
            self.transmit(context);
        }
        self.settle_mode(context);
        self.load_entries(context);
        self.watch_compare(now);
        let spurious = (!self.faults.spurious.is_zero()).then_some(self.next_spurious);
        let flap = (!self.faults.link_flap.is_zero()).then_some(self.next_flap);
        let late = self.late.front().map(|late| late.at);
        let fifo = self.fifo.front().map(|first| first.at);
        // What is due already waits for an access, not for time.
        let waiting = [late, fifo, self.mode_deadline(), self.timer.next_match()];
        let waiting = waiting.into_iter().flatten().filter(|&at| at > now).min();
        [self.tx_again, spurious, flap, self.negotiated_at, waiting].into_iter().flatten().min()
    }

    fn take_frame(&mut self) -> Option<Vec<u8>> {
        self.out.pop_front()
    }

    fn interrupt(&self) -> bool {
        !self.faults.gone && (self.lines() != 0 || self.spurious)
    }

    fn reset(&mut self) {
        let seed = self.random.u64(..);
        let counters = self.counters;
        *self = Ravb::with_phy(self.variant, self.mac, self.phy_address, self.faults, seed);
        self.counters = counters;
    }
}

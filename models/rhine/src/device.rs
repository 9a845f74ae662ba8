//! The chip: registers, reset, interrupt line.

use crate::chip::Chip;
use crate::faults::{Faults, ResetFault};
use crate::filter::Cam;
use crate::flow::Flow;
use crate::mii::Mii;
use crate::regs::{self, Cause, Cause2, Cr0, Cr1, Rcr, Tcr};
use crate::stats::{Counters, Statistics};
use crate::timing::Timing;
use crate::wake::Wake;
use std::collections::VecDeque;
use std::time::Duration;
use trireme_vfio::{Bar, ConfigSpace, Context, Device, PowerState};

/// Frames waiting to be taken at most; more are lost, as nobody listens.
const MAX_QUEUED: usize = 4096;
/// How often an engine that was left with work looks again: the automatic transmit poll, a stalled
/// or interrupted run. The unit of BCR1.POT is not known.
const POLL: Duration = Duration::from_millis(1);

/// One Rhine.
pub struct Rhine {
    pub(crate) chip: Chip,
    pub(crate) faults: Faults,
    pub(crate) random: fastrand::Rng,
    /// What the EEPROM holds: MAC, and the bytes for BCR0, BCR1 and CFGA to CFGD.
    eeprom: ([u8; 6], [u8; 6]),
    /// Plain storage for every register without behaviour.
    pub(crate) file: [u8; 256],
    pub(crate) cr0: Cr0,
    pub(crate) cr1: Cr1,
    pub(crate) isr: Cause,
    pub(crate) imr: Cause,
    pub(crate) misr: Cause2,
    pub(crate) mimr: Cause2,
    pub(crate) rx_pointer: u32,
    pub(crate) tx_pointer: u32,
    pub(crate) mii: Mii,
    pub(crate) cam: Cam,
    pub(crate) flow: Flow,
    pub(crate) wake: Wake,
    pub(crate) statistics: Statistics,
    pub(crate) timing: Timing,
    pub(crate) counters: Counters,
    /// MODE2.PCEROPT of configuration space.
    pub(crate) reports_bus_errors: bool,
    /// A bus error is being retried for ever: only a reset ends it.
    pub(crate) hung: bool,
    /// E19: receives nothing until reset.
    pub(crate) rx_wedged: bool,
    /// Reads of CR1 until a started reset ends; `None`: no reset under way.
    pub(crate) reset_reads: Option<u32>,
    pub(crate) eeprom_reads: u32,
    /// Transmit engine has to look at its ring again by itself at this time.
    pub(crate) tx_again: Option<Duration>,
    /// Paced: when the last frame has left.
    pub(crate) tx_busy_until: Duration,
    /// When the line was free after the last frame, in picoseconds of the timing model.
    pub(crate) line_free: u64,
    pub(crate) spurious: bool,
    next_spurious: Duration,
    next_flap: Duration,
    posted: VecDeque<(u8, Vec<u8>)>,
    out: VecDeque<Vec<u8>>,
    asleep_by_pmcsr: bool,
}

impl Rhine {
    /// The chip after power-up, with its EEPROM loaded.
    pub fn new(chip: Chip, mac: [u8; 6], faults: Faults, seed: u64) -> Rhine {
        // BCR0, BCR1, CFGA to CFGD as on D-Link cards with a VT6102 and a VT86C100A.
        let settings = match chip.is_rhine_i() {
            true => [0x00, 0x00, 0x00, 0x00, 0x07, 0x00],
            false => [0x09, 0x0e, 0x00, 0x00, 0x47, 0x02],
        };
        let mut rhine = Rhine {
            chip,
            random: fastrand::Rng::with_seed(seed),
            eeprom: (mac, settings),
            file: [0; 256],
            cr0: Cr0::STOP,
            cr1: Cr1::DPOLL,
            isr: Cause::empty(),
            imr: Cause::empty(),
            misr: Cause2::empty(),
            mimr: Cause2::empty(),
            rx_pointer: 0,
            tx_pointer: 0,
            mii: Mii::new(chip, &faults),
            cam: Cam::new(),
            flow: Flow::default(),
            wake: Wake::new(faults.asleep && chip.has_power_management()),
            statistics: Statistics::default(),
            timing: Timing::default(),
            counters: Counters::default(),
            reports_bus_errors: false,
            hung: false,
            rx_wedged: false,
            reset_reads: None,
            eeprom_reads: 0,
            tx_again: None,
            tx_busy_until: Duration::ZERO,
            line_free: 0,
            spurious: false,
            next_spurious: faults.spurious,
            next_flap: faults.link_flap,
            posted: VecDeque::new(),
            out: VecDeque::new(),
            asleep_by_pmcsr: false,
            faults,
        };
        rhine.file[usize::from(regs::PATTERN_CRC)..][..16].fill(0xff);
        rhine.load_eeprom();
        rhine.soft_reset();
        if faults.reset_clears_par {
            rhine.load_eeprom();
        }
        rhine
    }

    /// The chip this is.
    pub fn chip(&self) -> Chip {
        self.chip
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
        let changed = self.mii.phy.set_cable(plugged);
        self.link_changed(changed);
    }

    /// What the link partner advertises, as its register 4: changes speed and duplex.
    pub fn set_partner(&mut self, advertisement: u16) {
        self.mii.phy.set_partner(advertisement);
    }

    /// The engines are fetching: STRT without STOP, awake, not hung.
    fn runs(&self) -> bool {
        self.cr0.contains(Cr0::STRT)
            && !self.cr0.contains(Cr0::STOP)
            && !self.hung
            && !self.asleep()
            && self.reset_reads.is_none()
    }

    pub(crate) fn asleep(&self) -> bool {
        self.wake.asleep() || self.asleep_by_pmcsr
    }

    pub(crate) fn receives(&self) -> bool {
        self.runs() && self.cr0.contains(Cr0::RXON)
    }

    pub(crate) fn transmits(&self) -> bool {
        self.runs() && self.cr0.contains(Cr0::TXON)
    }

    pub(crate) fn stop_transmitter(&mut self) {
        self.cr0.remove(Cr0::TXON);
        self.tx_again = None;
    }

    pub(crate) fn rcr(&self) -> Rcr {
        Rcr::from_bits_retain(self.file[usize::from(regs::RCR)])
    }

    pub(crate) fn tcr(&self) -> Tcr {
        Tcr::from_bits_retain(self.file[usize::from(regs::TCR)])
    }

    pub(crate) fn cr1(&self) -> Cr1 {
        self.cr1
    }

    pub(crate) fn station(&self) -> [u8; 6] {
        let mut address = [0; 6];
        address.copy_from_slice(&self.file[..6]);
        address
    }

    pub(crate) fn raise(&mut self, cause: Cause) {
        self.isr |= cause;
    }

    pub(crate) fn raise2(&mut self, cause: Cause2) {
        self.misr |= cause;
    }

    pub(crate) fn send(&mut self, frame: Vec<u8>) {
        if self.out.len() < MAX_QUEUED {
            self.out.push_back(frame);
        }
    }

    pub(crate) fn link_changed(&mut self, changed: bool) {
        if changed && self.mii.reports_changes() {
            self.raise(Cause::SRCI);
        }
        if changed && self.asleep() {
            self.wake.link(self.mii.phy.link());
        }
    }

    pub(crate) fn load_eeprom(&mut self) {
        let (mac, settings) = self.eeprom;
        self.file[..6].copy_from_slice(&mac);
        self.file[usize::from(regs::BCR0)] = settings[0];
        self.file[usize::from(regs::BCR1)] = settings[1];
        self.file[usize::from(regs::CFGA)..][..4].copy_from_slice(&settings[2..]);
        if self.faults.eeprom_arms_wake && self.chip.has_power_management() {
            self.file[usize::from(regs::CFGA)] |= 3;
        }
        if self.faults.eeprom_enables_memory {
            let (register, bit) = self.chip.memory_enable();
            self.file[usize::from(register)] |= bit;
        }
        if !self.chip.has_internal_phy() {
            self.mii.phy_address = Mii::new(self.chip, &self.faults).phy_address;
        }
    }

    /// What CR1.SFRST does. Wake block, sticky bits, CFGA to CFGD and the PHY survive.
    pub(crate) fn soft_reset(&mut self) {
        self.cr0 = Cr0::STOP;
        self.cr1 = Cr1::DPOLL;
        (self.isr, self.imr) = (Cause::empty(), Cause::empty());
        (self.misr, self.mimr) = (Cause2::empty(), Cause2::empty());
        (self.rx_pointer, self.tx_pointer) = (0, 0);
        self.file[usize::from(regs::RCR)..=usize::from(regs::TCR)].fill(0);
        self.file[usize::from(regs::MAR)..][..8].fill(0);
        self.file[usize::from(regs::RDES)..0x60].fill(0);
        self.file[usize::from(regs::RDES) + 1] = 0x04;
        self.file[usize::from(regs::BCR1)] &= !regs::BCR1_VIDFR;
        self.file[usize::from(regs::MISC_CR1)] = 0x20; // VAUXJMP, as a D-Link VT6102 reads
        self.mii.reset();
        self.cam.reset();
        self.flow = Flow::default();
        self.statistics.reset();
        self.timing = Timing::default();
        self.line_free = 0;
        (self.hung, self.rx_wedged) = (false, false);
        self.reset_reads = None;
        self.tx_again = None;
        if self.faults.reset_clears_par {
            self.file[..6].fill(0);
        }
    }

    pub(crate) fn start_reset(&mut self, forced: bool) {
        match self.faults.reset {
            ResetFault::Prompt => self.soft_reset(),
            ResetFault::UntilForced if forced => self.soft_reset(),
            ResetFault::Slow(reads) => self.reset_reads = Some(reads),
            ResetFault::UntilForced | ResetFault::Never => self.reset_reads = Some(u32::MAX),
        }
    }

    fn decodes_memory(&self) -> bool {
        let (register, bit) = self.chip.memory_enable();
        self.file[usize::from(register)] & bit != 0
    }
}

impl Device for Rhine {
    fn config_space(&self) -> ConfigSpace {
        let size = self.chip.bar_size();
        let space = ConfigSpace::new(0x1106, self.chip.device, 0x02_0000, self.chip.revision)
            .with_bar(0, Bar::Io { size })
            .with_bar(1, Bar::Memory { size })
            .with_storage(0x48..0x58);
        if self.chip.has_power_management() {
            // PMC as on a VT6102: version 2, D1 and D2, PME from every state.
            space
                .with_latency(3, 8)
                .with_subsystem(0x1106, if self.chip.has_internal_phy() { 0x0105 } else { 0x0102 })
                .with_power_management(0x40, 0xfe02)
        } else {
            space.with_latency(0x76, 0x98).with_subsystem(0x1186, 0x1400)
        }
    }

    fn read(&mut self, bar: usize, offset: u64, data: &mut [u8], context: Context<'_>) {
        while let Some((offset, data)) = self.posted.pop_front() {
            self.apply(offset, &data, context);
        }
        if self.faults.gone || (bar == 1 && !self.decodes_memory()) {
            data.fill(0xff);
            return;
        }
        for (i, byte) in data.iter_mut().enumerate() {
            *byte = self.load((offset as u8).wrapping_add(i as u8));
        }
    }

    fn write(&mut self, bar: usize, offset: u64, data: &[u8], context: Context<'_>) {
        if self.faults.gone {
            return;
        }
        // A full posting buffer lets the oldest go.
        while self.posted.len() > 8 || !self.faults.posted_writes && !self.posted.is_empty() {
            if let Some((offset, data)) = self.posted.pop_front() {
                self.apply(offset, &data, context);
            }
        }
        if bar == 1 && !self.decodes_memory() {
            return;
        }
        if self.faults.posted_writes {
            self.posted.push_back((offset as u8, data.to_vec()));
        } else {
            self.apply(offset as u8, data, context);
        }
    }

    fn receive(&mut self, frame: &[u8], context: Context<'_>) {
        if self.faults.gone {
            return;
        }
        if self.asleep() {
            let station = self.station();
            self.wake.frame(frame, &station);
            return;
        }
        if self.mii.phy.passes() {
            self.receive_frame(frame, context);
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
            self.set_cable(!self.mii.phy.link());
        }
        let polls = self.transmits() && !self.cr1.contains(Cr1::DPOLL);
        if self.transmits() && self.tx_again.is_some_and(|at| at <= now) {
            self.tx_again = None;
            self.transmit(context);
        }
        if polls && self.tx_again.is_none() {
            self.tx_again = Some(now + POLL);
        }
        let spurious = (!self.faults.spurious.is_zero()).then_some(self.next_spurious);
        let flap = (!self.faults.link_flap.is_zero()).then_some(self.next_flap);
        [self.tx_again, spurious, flap].into_iter().flatten().min()
    }

    fn take_frame(&mut self) -> Option<Vec<u8>> {
        self.out.pop_front()
    }

    fn interrupt(&self) -> bool {
        if self.faults.gone || self.asleep() {
            return false;
        }
        self.isr.intersects(self.imr) || self.misr.intersects(self.mimr) || self.spurious
    }

    fn reset(&mut self) {
        let (mac, _) = self.eeprom;
        let seed = self.random.u64(..);
        let counters = self.counters;
        *self = Rhine::new(self.chip, mac, self.faults, seed);
        self.counters = counters;
    }

    fn power(&mut self, state: PowerState) {
        self.asleep_by_pmcsr = state != PowerState::D0;
        if state == PowerState::D0 {
            self.soft_reset();
        }
    }

    fn config_written(&mut self, offset: u8, value: u8) {
        if offset == regs::MODE2 {
            self.reports_bus_errors = value & regs::MODE2_PCEROPT != 0;
        }
    }
}

impl Rhine {
    /// A DMA access failed: reported and over, or retried until a reset. `true`: reported.
    pub(crate) fn bus_error(&mut self) -> bool {
        self.counters.dma_errors += 1;
        if self.reports_bus_errors || !self.chip.has_power_management() {
            self.raise(Cause::BE);
            true
        } else {
            self.hung = true;
            false
        }
    }

    /// VLAN filter: tagged frames need an entry, untagged ones pass.
    pub(crate) fn vlan_filter_on(&self) -> bool {
        self.chip.has_management() && self.file[usize::from(regs::BCR1)] & regs::BCR1_VIDFR != 0
    }

    pub(crate) fn hash(&self) -> u64 {
        let mut bytes = [0; 8];
        bytes.copy_from_slice(&self.file[usize::from(regs::MAR)..][..8]);
        u64::from_le_bytes(bytes)
    }
}

//! The card as the stack sees it.

use crate::ability::{Trailer, transmit_ability};
use crate::counters::Counters;
use crate::desc::{self, kind};
use crate::gptp::{self, MAX_SENT, MAX_TIMED};
use crate::init::{self, Setting};
use crate::irq::{KICK_US, Trouble, WATCHDOG_US};
use crate::mdio;
use crate::mode;
use crate::phy::{Delays, Phy};
use crate::receive::{self, Home, Receiver};
use crate::regs::{self, Csr, Csr0, Ecmr, Ecsr, Tccr};
use crate::ring::TxRing;
use crate::variant::Variant;
use crate::{Config, Delay, Error, Timeout};
use alloc::collections::VecDeque;
use alloc::vec::Vec;
use trireme_nic::checksum::{add, pseudo_header, sum};
use trireme_nic::{
    Buffer, Coherent, Dma, DriverInfo, Feature, FeatureError, FeatureState, FrameShape, Link,
    MacAddress, Network, Nic, Pause, Ptp, PtpTime, ReceiveFilter, ReceivedFrame, Registers, Stop,
    TransmitAbility, TransmitRequest, Transport, buffers_in_a_row, within_32_bits,
};
use trireme_phy::LinkState;
use trireme_registers::wait_until;

/// Receive buffers of the queue for network control.
const NC_BUFFERS: usize = 32;
/// Frames that can be on their way out.
const TX_FRAMES: usize = 128;
/// Bytes of a transmit buffer.
const TX_BUFFER: usize = 2048;
/// Shortest frame; the rest is zeroes.
const MIN_FRAME: usize = 60;
const MIN_MTU: u16 = 68;
const DEFAULT_MTU: u16 = 1500;
/// Between attempts to bring a broken card back.
const RECOVERY_INTERVAL_US: u64 = 1_000_000;
/// Longest time frames under way take to be stored, or sent at 1000 Mbit/s.
const DRAIN_US: u32 = 25_000;
/// When a card that was stopped on request is tried again.
const FOR_GOOD: u64 = u64::MAX;
/// Marks the slot number of a frame of the network control queue.
const NC_SLOT: u32 = 1 << 31;

/// The transmit queues.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TransmitQueue {
    BestEffort = 0,
    NetworkControl = 1,
}

/// A RAVB card.
///
/// `R` reaches its registers, `D` gives memory for rings and frames. Dropping it stops the card.
pub struct Ravb<R: Registers, D: Dma> {
    pub(crate) bar: R,
    pub(crate) dma: D,
    pub(crate) delay: Delay,
    pub(crate) variant: Variant,
    pub(crate) delays: Delays,
    pub(crate) phy: Phy,
    pub(crate) link_pin: bool,
    pub(crate) setting: Setting,
    /// Descriptor base address table.
    pub(crate) table: Coherent,
    /// Best effort, and network control where there is that.
    pub(crate) rx: Vec<Receiver>,
    pub(crate) tx: Vec<TxRing>,
    /// Transmit buffers nobody has.
    pub(crate) free: Vec<Buffer>,
    pub(crate) counters: Counters,
    pub(crate) now_us: u64,
    pub(crate) tx_progress_us: u64,
    /// A start request was repeated since.
    pub(crate) kicked: bool,
    /// Queues with frames since the last doorbell, a bit each.
    pub(crate) demand: u32,
    pub(crate) armed: bool,
    /// When to ask the PHY; `None`: when the pin says so.
    pub(crate) look_at_us: Option<u64>,
    /// Until when a link is awaited eagerly.
    pub(crate) eager_until_us: u64,
    pub(crate) gptp_clock_hz: u32,
    pub(crate) gptp_increment: u32,
    pub(crate) next_tag: u16,
    /// Tags of frames whose time of leaving is wanted and not known yet, oldest first.
    pub(crate) timed: VecDeque<u16>,
    /// Times frames left, with their tags.
    pub(crate) sent: VecDeque<(u32, PtpTime)>,
    /// Frames received before a restart and not taken yet.
    pub(crate) kept: VecDeque<ReceivedFrame>,
    /// Restarts for want of sending, since a frame was sent.
    pub(crate) failed_sends: u32,
    mtu: u16,
    /// Cannot be used before a restart, which is due at this time.
    broken_until_us: Option<u64>,
}

impl<R: Registers, D: Dma> Ravb<R, D> {
    /// Brings a card up. Its clocks must run and its reset be released ([`crate::cpg`]).
    pub fn new(bar: R, dma: D, config: Config) -> Result<Ravb<R, D>, Error> {
        let Config { variant, delays, delay, .. } = config;
        if regs::CSR.read(&bar).bits() == u32::MAX {
            return Err(Error::Absent);
        }
        log::debug!("ravb: found in mode {}", init::left_in(&bar));
        // Who had it before may have left it hanging.
        mode::reset(&bar, variant, true, &*delay)?;
        init::open(&bar, variant, &delays, &*delay)?;
        let address =
            config.mac.or_else(|| init::read_address(&bar)).unwrap_or(config.fallback_mac);
        let bus = mdio::bus(&bar, &*delay);
        let mut phy = Phy::new(variant, delays);
        if !phy.find(&bus, config.phy) {
            log::warn!("ravb: no PHY answers");
        }
        let link = phy.look(&bus);

        let (rx, tx) = queues(&dma, variant, config.receive_buffers.clamp(16, 2048))?;
        let table = Coherent::new(&dma, init::TABLE * desc::SIZE, 64)?;
        within_32_bits(table.bus_address(), table.len())?;
        // Each frame kept has buffers of a ring, or a spare one.
        let kept = rx.iter().map(|queue| queue.ring.len() + receive::SPARES).sum();
        let free = buffers_in_a_row(&dma, TX_FRAMES, TX_BUFFER)?;
        let mut card = Ravb {
            bar,
            dma,
            delay,
            variant,
            delays,
            phy,
            link_pin: config.link_pin && variant.is_avb(),
            setting: Setting {
                address,
                promiscuous: false,
                receive_checksums: true,
                transmit_checksums: variant == Variant::Gbeth,
                link,
            },
            table,
            rx,
            tx,
            free,
            counters: Counters::default(),
            now_us: 0,
            tx_progress_us: 0,
            kicked: false,
            demand: 0,
            armed: false,
            look_at_us: None,
            eager_until_us: 0,
            gptp_clock_hz: config.gptp_clock_hz,
            gptp_increment: gptp::increment(config.gptp_clock_hz, 0).unwrap_or(1 << 20),
            next_tag: 0,
            timed: VecDeque::with_capacity(MAX_TIMED),
            sent: VecDeque::with_capacity(MAX_SENT),
            kept: VecDeque::with_capacity(kept),
            failed_sends: 0,
            mtu: DEFAULT_MTU,
            broken_until_us: None,
        };
        card.begin()?;
        Ok(card)
    }

    /// The block.
    pub fn variant(&self) -> Variant {
        self.variant
    }

    /// Which receive queue a slot number belongs to.
    pub(crate) fn queue_of(slot: u32) -> usize {
        usize::from(slot & NC_SLOT != 0)
    }

    /// What the card stores behind a frame as it is set now.
    pub(crate) fn trailer(&self) -> Trailer {
        match (self.setting.receive_checksums, self.variant.is_avb()) {
            (false, _) => Trailer::None,
            (true, true) => Trailer::Sum,
            (true, false) => Trailer::Verdict,
        }
    }

    /// Restarts the card; if that fails, again in a while.
    fn restart(&mut self, trouble: Trouble) {
        log::warn!("ravb: {trouble:?}, restarting");
        // At the second attempt it has had its time to come to rest.
        let force = self.broken_until_us.take().is_some();
        if let Err(error) = self.recover(force) {
            self.counters.reset_failures += 1;
            log::warn!("ravb: {error}");
            self.give_up_for_now();
        }
    }

    /// Has nothing to do with the card for a while, and the card nothing to say: what it may still do would
    /// interrupt, and nobody look. [RV E12]
    fn give_up_for_now(&mut self) {
        init::silence(&self.bar);
        self.armed = false;
        self.broken_until_us = Some(self.now_us + RECOVERY_INTERVAL_US);
    }

    /// The next frame in the rings.
    pub(crate) fn take_received(&mut self) -> Option<ReceivedFrame> {
        // Network control first.
        for n in (0..self.rx.len()).rev() {
            if let Some(frame) = self.rx[n].next(&self.dma, &mut self.counters) {
                let queue = if n == 0 { 0 } else { NC_SLOT };
                return Some(ReceivedFrame {
                    buffer: frame.buffer,
                    checksum: frame.checksum,
                    segment: None,
                    tag: None,
                    slot: frame.home.pack() | queue,
                });
            }
        }
        None
    }

    /// Waits until queued frames have left: a path that is stopped in the middle of one may lose it.
    fn drain_transmitter(&self) -> Result<(), Timeout> {
        if !self.setting.link.link.up {
            return Ok(());
        }
        // Or twice what a full ring takes: 420 ms at 10 Mbit/s.
        let bits = 2 * 8 * (TX_FRAMES * TX_BUFFER) as u32;
        let bound_us = (bits / self.setting.link.link.speed_mbps.max(10)).max(DRAIN_US);
        wait_until(&*self.delay, "queued frames sent", bound_us, || {
            !regs::TCCR.read(&self.bar).intersects(Tccr::TSRQ)
                && !regs::CSR.read(&self.bar).intersects(Csr::TPO)
        })
    }

    fn drain_receiver(&self) -> Result<(), Timeout> {
        wait_until(&*self.delay, "received frames stored", DRAIN_US, || {
            !regs::CSR.read(&self.bar).contains(Csr::RPO)
        })
    }

    /// Switches the sums of received frames: stop, change, restart. What was received before is stored
    /// first, so that what lies behind each frame is known. [RV 5.1, 5.4, E47]
    fn switch_receive_checksums(&mut self, on: bool) -> Result<(), Timeout> {
        if self.variant.is_avb() {
            self.drain_transmitter()?;
            let mode = self.setting.ecmr(self.variant) - (Ecmr::TE | Ecmr::RE);
            regs::ECMR.write(&self.bar, mode);
            self.drain_receiver()?;
            self.setting.receive_checksums = on;
            let mode = self.setting.ecmr(self.variant);
            regs::ECMR.write(&self.bar, mode - (Ecmr::TE | Ecmr::RE));
            self.change_trailer();
            regs::ECMR.write(&self.bar, mode);
        } else {
            init::shut(&self.bar, Csr0::RPE, &*self.delay)?;
            self.drain_receiver()?;
            self.setting.receive_checksums = on;
            init::write_receive_sums(&self.bar, self.variant, &self.setting);
            self.change_trailer();
            regs::CSR0.write(&self.bar, Csr0::TPE | Csr0::RPE);
        }
        Ok(())
    }

    fn change_trailer(&mut self) {
        let trailer = self.trailer();
        for queue in &mut self.rx {
            queue.set_trailer(trailer);
        }
    }

    /// Switches the sums of frames to send. Those queued were given to the engine and leave by it first.
    fn switch_transmit_checksums(&mut self, on: bool) -> Result<(), Timeout> {
        self.drain_transmitter()?;
        init::shut(&self.bar, Csr0::TPE, &*self.delay)?;
        self.setting.transmit_checksums = on;
        init::write_transmit_sums(&self.bar, self.variant, &self.setting);
        regs::CSR0.write(&self.bar, Csr0::TPE | Csr0::RPE);
        Ok(())
    }

    /// Stops the card for good.
    fn halt(&mut self) {
        if self.broken_until_us == Some(FOR_GOOD) {
            return;
        }
        self.mask();
        self.setting.link = LinkState::default();
        regs::ECMR.write(&self.bar, self.setting.ecmr(self.variant));
        regs::ECSIPR.write(&self.bar, Ecsr::empty());
        // Memory may be another's soon, so no DMA may go on.
        if let Err(timeout) = mode::reset(&self.bar, self.variant, true, &*self.delay) {
            log::warn!("ravb: {timeout:?}");
        }
        self.broken_until_us = Some(FOR_GOOD);
    }

    /// Queues a frame.
    pub(crate) fn queue(
        &mut self,
        mut buffer: Buffer,
        request: &TransmitRequest,
        queue: TransmitQueue,
        flags: u32,
    ) {
        if request.transport_checksum {
            self.seed(&mut buffer, &request.shape);
        }
        pad(&mut buffer);
        let misplaced = !buffer.bus_address().is_multiple_of(4);
        self.counters.tx_misaligned +=
            u64::from(misplaced && self.variant.needs_aligned_transmit());
        if self.sending() == 0 {
            self.tx_progress_us = self.now_us;
        }
        let queue = (queue as usize).min(self.tx.len() - 1);
        self.tx[queue].provide(&self.dma, buffer, flags);
        self.demand |= 1 << queue;
    }

    /// Writes what the engine wants in the checksum field: the sum of the pseudo-header, which is never
    /// zero, so that the engine does not take a UDP datagram for one without a sum. [RV 5.3]
    fn seed(&mut self, frame: &mut Buffer, shape: &FrameShape) {
        let network = usize::from(shape.link_len);
        let length = |at: usize| {
            let bytes = frame.get(network + at..network + at + 2)?;
            Some(usize::from(u16::from_be_bytes([bytes[0], bytes[1]])))
        };
        let end = match shape.network {
            Network::Ipv4 { .. } => length(2).map(|total| network + total),
            Network::Ipv6 { .. } => length(4).map(|payload| network + 40 + payload),
            Network::Other => None,
        };
        let (Some(end), Some(start), Some(field)) =
            (end, shape.transport_offset(), shape.checksum_offset())
        else {
            return;
        };
        let len = end.saturating_sub(start);
        let Some(mut value) = pseudo_header(frame, shape, len) else { return };
        if network == 18 && frame.get(12..14) != Some(&[0x81, 0x00]) {
            // The engine knows the usual tag only and leaves the frame as it is.
            self.counters.tx_csum_foreign_tag += 1;
            value = !add(value, frame.get(start..end).map_or(0, sum));
            if value == 0 && shape.transport == Transport::Udp {
                value = 0xffff;
            }
        }
        if let Some(bytes) = frame.get_mut(field..field + 2) {
            bytes.copy_from_slice(&value.to_be_bytes());
        }
    }

    /// Tells the card to look at the queues in `demand`.
    pub(crate) fn ring_doorbell(&mut self) {
        let demand = core::mem::take(&mut self.demand);
        if demand == 0 || self.broken_until_us.is_some() {
            return;
        }
        for (n, queue) in self.tx.iter().enumerate() {
            if demand >> n & 1 != 0 {
                queue.settle();
            }
        }
        // Zeroes leave the other queues' requests alone. [RV 2.4]
        let request = Tccr::from_bits_retain(demand);
        regs::TCCR.write(&self.bar, init::tccr(self.variant) | request);
    }

    /// Room in the ring is short, so the stack may be waiting for it.
    fn is_tight(&self) -> bool {
        self.free.len() < TX_FRAMES / 2
    }

    /// Holds interrupts of frames back. Those of errors, the E-MAC and timestamps stay enabled: the summary, by
    /// which they are found, is of what is enabled. [RV 2.5]
    fn mask(&mut self) {
        self.armed = false;
        let queues = init::queue_mask(self.variant);
        if self.variant.is_gen3() {
            regs::RID0.act(&self.bar, queues);
            regs::TID.act(&self.bar, queues);
        } else {
            regs::RIC0.write(&self.bar, 0);
            regs::TIC.write(&self.bar, self.timestamps());
        }
    }

    /// The bit of TIC for timestamps, where there are any.
    fn timestamps(&self) -> u32 {
        if self.variant.is_avb() { regs::TIS_TFU } else { 0 }
    }

    fn unmask(&mut self, transmit: u32) {
        self.armed = true;
        let queues = init::queue_mask(self.variant);
        if self.variant.is_gen3() {
            regs::RIE0.act(&self.bar, queues);
            regs::TIE.act(&self.bar, transmit);
        } else {
            regs::RIC0.write(&self.bar, queues);
            regs::TIC.write(&self.bar, transmit);
        }
    }
}

/// The rings.
fn queues<D: Dma>(
    dma: &D,
    variant: Variant,
    receive: usize,
) -> Result<(Vec<Receiver>, Vec<TxRing>), Error> {
    // Without the FCS, but with the longest trailer.
    let longest = variant.max_receive() as usize;
    let mut rx = alloc::vec![Receiver::new(dma, receive, variant.is_avb(), longest)?];
    if variant.queues() > 1 {
        rx.push(Receiver::new(dma, NC_BUFFERS, true, longest)?);
    }
    let mut tx = Vec::new();
    for _ in 0..variant.queues() {
        // Each has room for every buffer there is: which queue a frame goes to is not known when its
        // buffer is lent.
        tx.push(TxRing::new(dma, TX_FRAMES, variant.needs_aligned_transmit())?);
    }
    Ok((rx, tx))
}

/// Writes the table the card finds the rings by. [RV 3.4]
pub(crate) fn write_table(table: &mut Coherent, rx: &[Receiver], tx: &[TxRing]) {
    for entry in 0..init::TABLE {
        table.write32(entry * desc::SIZE, desc::control(kind::EOS, 0));
    }
    let transmit = tx.iter().map(TxRing::bus_address).enumerate();
    let receive = rx.iter().map(|queue| queue.ring.bus_address()).enumerate();
    let receive = receive.map(|(n, address)| (init::TABLE_RECEIVE + n, address));
    for (entry, address) in transmit.chain(receive) {
        table.write32(entry * desc::SIZE + 4, address);
        table.write32(entry * desc::SIZE, desc::control(kind::LINKFIX, 0));
    }
    table.barrier();
}

/// Brings a short frame to its least length, with zeroes.
fn pad(buffer: &mut Buffer) {
    let len = buffer.len();
    if len >= MIN_FRAME {
        return;
    }
    if buffer.window().start + MIN_FRAME > buffer.capacity() {
        let window = buffer.window();
        buffer.whole_mut().copy_within(window, 0);
        buffer.set_window(0..len);
    }
    let start = buffer.window().start;
    buffer.set_window(start..start + MIN_FRAME);
    buffer[len..].fill(0);
}

impl<R: Registers, D: Dma + Send> Nic for Ravb<R, D> {
    fn driver_info(&self) -> DriverInfo {
        DriverInfo { driver: "ravb", chip: self.variant.name() }
    }

    fn mac_address(&self) -> MacAddress {
        self.setting.address
    }

    fn link(&self) -> Link {
        match self.broken_until_us {
            None => self.setting.link.link,
            Some(_) => Link::default(),
        }
    }

    fn mtu(&self) -> u16 {
        self.mtu
    }

    fn max_mtu(&self) -> u16 {
        self.variant.max_mtu()
    }

    fn set_mtu(&mut self, mtu: u16) -> bool {
        let possible = (MIN_MTU..=self.max_mtu()).contains(&mtu);
        if possible {
            self.mtu = mtu;
        }
        possible
    }

    fn set_receive_filter(&mut self, filter: ReceiveFilter<'_>) {
        // There is no filter for groups: all of them come. [RV 2.8]
        self.setting.promiscuous = filter == ReceiveFilter::Promiscuous;
        if self.broken_until_us.is_none() {
            regs::ECMR.write(&self.bar, self.setting.ecmr(self.variant));
        }
    }

    fn pause(&self) -> Option<Pause> {
        // R-Car does not offer it to the peer. [RV 1.2]
        let agreed = self.setting.link.pause;
        (self.variant == Variant::Gbeth).then_some(Pause {
            autonegotiate: true,
            rx: agreed,
            tx: agreed,
        })
    }

    fn stop(&mut self, _why: Stop) {
        self.halt();
    }

    fn service(&mut self, now_us: u64) {
        self.now_us = now_us;
        if let Some(until) = self.broken_until_us {
            if now_us >= until {
                self.restart(Trouble::Gone);
            }
            return;
        }
        if self.armed {
            self.mask();
        }
        let outcome = self.handle_events().and_then(|()| {
            self.reclaim();
            if self.look_at_us.is_some_and(|at| now_us >= at) {
                self.look_at_link();
                self.read_counters();
            }
            self.watch_transmitter()
        });
        match outcome {
            Ok(()) => {}
            Err(Trouble::Gone) => {
                log::warn!("ravb: the card is gone");
                self.give_up_for_now();
            }
            Err(trouble) => {
                self.failed_sends += u32::from(self.sending() > 0);
                self.restart(trouble);
            }
        }
    }

    fn arm(&mut self) -> bool {
        if self.broken_until_us.is_some() {
            return false;
        }
        let queues = init::queue_mask(self.variant);
        let sent = if self.is_tight() { queues } else { 0 };
        // First the flags, then the enables, then the rings: what comes in between is seen by one of
        // them. The flags stay set through the masked time, so nothing is processed by them. [RV E14]
        regs::RIS0.ack(&self.bar, queues);
        regs::TIS.ack(&self.bar, queues);
        self.unmask(sent | self.timestamps());
        // Also pushes the writes out.
        regs::RIS0.status.read(&self.bar);
        self.table.barrier();
        let pending = self.rx.iter().any(|queue| queue.ring.is_ready());
        let before = self.free.len();
        if sent != 0 {
            self.reclaim();
        }
        let pending = pending || self.free.len() > before;
        if pending {
            self.mask();
        }
        pending
    }

    fn service_at(&self) -> Option<u64> {
        if self.broken_until_us.is_some() {
            return self.broken_until_us.filter(|at| *at != FOR_GOOD);
        }
        let patience = if self.kicked { WATCHDOG_US } else { KICK_US };
        let watched = self.sending() > 0 && self.setting.link.link.up;
        let watchdog = watched.then_some(self.tx_progress_us + patience);
        [watchdog, self.look_at_us].into_iter().flatten().min()
    }

    fn receive(&mut self) -> Option<ReceivedFrame> {
        if self.broken_until_us.is_some() {
            return None;
        }
        self.kept.pop_front().or_else(|| self.take_received())
    }

    fn recycle(&mut self, frame: ReceivedFrame) {
        let queue = Self::queue_of(frame.slot).min(self.rx.len() - 1);
        self.rx[queue].recycle(&self.dma, frame.buffer, Home::unpack(frame.slot));
    }

    fn transmit_buffer(&mut self, len: usize) -> Option<Buffer> {
        // A longer one would hang a GbEth. [RV E31]
        if len > self.variant.max_frame() {
            return None;
        }
        if self.free.is_empty() {
            self.reclaim();
        }
        let mut buffer = self.free.pop()?;
        buffer.set_window(0..len);
        Some(buffer)
    }

    fn transmit(&mut self, buffer: Buffer, request: &TransmitRequest) {
        self.queue(buffer, request, TransmitQueue::BestEffort, 0);
    }

    fn transmit_cancel(&mut self, buffer: Buffer) {
        self.free.push(buffer);
    }

    fn flush(&mut self) {
        self.ring_doorbell();
    }

    fn transmit_room(&self) -> usize {
        self.free.len()
    }

    fn transmit_ability(&self, shape: &FrameShape) -> TransmitAbility {
        transmit_ability(self.variant, self.setting.transmit_checksums, shape)
    }

    fn max_segmented_frame(&self) -> Option<usize> {
        None
    }

    fn feature(&self, feature: Feature) -> FeatureState {
        match feature {
            Feature::RxChecksumming => {
                FeatureState { on: self.setting.receive_checksums, fixed: false }
            }
            Feature::TxChecksumming if self.variant == Variant::Gbeth => {
                FeatureState { on: self.setting.transmit_checksums, fixed: false }
            }
            _ => FeatureState::ABSENT,
        }
    }

    fn set_feature(&mut self, feature: Feature, on: bool) -> Result<(), FeatureError> {
        let state = self.feature(feature);
        if state.on == on {
            return Ok(());
        }
        if state.fixed {
            return Err(FeatureError::Fixed);
        }
        if self.broken_until_us.is_some() {
            // Not a register is touched; the restart will see to it. [RV E48]
            match feature {
                Feature::RxChecksumming => self.setting.receive_checksums = on,
                _ => self.setting.transmit_checksums = on,
            }
            return Ok(());
        }
        // Frames not handed over yet are the card's before it is stopped.
        self.ring_doorbell();
        let switched = match feature {
            Feature::RxChecksumming => self.switch_receive_checksums(on),
            _ => self.switch_transmit_checksums(on),
        };
        self.counters.checksum_switches += 1;
        switched.map_err(|timeout| {
            self.restart(Trouble::Timeout(timeout));
            FeatureError::Timeout
        })
    }

    fn ptp(&mut self) -> Option<&mut dyn Ptp> {
        if self.variant.is_avb() && self.broken_until_us.is_none() { Some(self) } else { None }
    }

    fn statistics(&self, visit: &mut dyn FnMut(&'static str, u64)) {
        self.counters.visit(visit);
    }
}

impl<R: Registers, D: Dma> Drop for Ravb<R, D> {
    fn drop(&mut self) {
        // DMA memory is never freed, so a card that does not stop does no harm.
        self.halt();
    }
}

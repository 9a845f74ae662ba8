//! The card as the stack sees it.

use crate::ability::{TransmitChecksums, transmit_ability};
use crate::chip::Chip;
use crate::counters::Counters;
use crate::desc::{self, Rdes0, Rdes1, Tdes1};
use crate::filter::Filter;
use crate::init;
use crate::irq::Trouble;
use crate::phy::{Bus, LinkState, Phy};
use crate::regs::{self, Cause, Rcr, Tcr};
use crate::ring::{Received, RxRing, TxRing};
use crate::vlan::{self, Vlans, descriptor_tag, tag_behind};
use crate::{Config, Delay, Error, power};
use alloc::boxed::Box;
use alloc::vec::Vec;
use trireme_nic::checksum::pseudo_header;
use trireme_nic::{
    Buffer, Direction, Dma, DriverInfo, Feature, FeatureError, FeatureState, FrameShape, Link,
    MacAddress, Nic, Pause, ReceiveChecksum, ReceiveFilter, ReceivedFrame, Registers, Stop, Tci,
    TransmitAbility, TransmitRequest, Transport, buffers_in_a_row,
};

/// Receive descriptors, each with its buffer.
const RX_CAPACITY: usize = 64;
/// Transmit descriptors; there is one buffer fewer, so that one descriptor is always ours.
const TX_CAPACITY: usize = 64;
/// Bytes of a buffer: a frame of 1518 with tag, its FCS, and room to a cache line.
const BUFFER: usize = 1536;
/// Shortest frame; the card does not pad. [RH E18]
const MIN_FRAME: usize = 60;
/// Longest frame sent: MTU 1500, header, one tag.
const MAX_FRAME: usize = 1518;
const MAX_MTU: u16 = 1500;
const MIN_MTU: u16 = 68;
/// Sent frames between two that interrupt, while the ring is less than half full.
const QUIET_FRAMES: u32 = 16;
/// Longest time without a frame sent, though there are some to send.
const WATCHDOG_US: u64 = 2_000_000;
/// Between attempts to bring a broken card back.
const RECOVERY_INTERVAL_US: u64 = 1_000_000;
/// Empty frames in a row that mean the receiver is wedged. [RH E19]
const ODD_FRAMES: u32 = 8;
/// Fewer mean it too, if nothing good follows for so long: a card that had few buffers left returns few.
const ODD_SILENCE_US: u64 = 100_000;

/// Private flag: transmit checksums by the card for frames it costs no throughput.
const AUTO_FLAG: &str = "tx-checksumming-auto";

/// A VIA Rhine card.
///
/// `R` reaches its registers (I/O or memory BAR), `D` gives memory for rings and frames. Dropping it
/// stops the card.
pub struct Rhine<R: Registers, D: Dma> {
    pub(crate) bar: R,
    pub(crate) dma: D,
    pub(crate) delay: Delay,
    pub(crate) chip: Chip,
    pub(crate) mac: MacAddress,
    pub(crate) phy: Phy,
    pub(crate) link: LinkState,
    pub(crate) filter: Filter,
    pub(crate) threshold: Tcr,
    pub(crate) rx: RxRing,
    pub(crate) tx: TxRing,
    /// Transmit buffers nobody has.
    pub(crate) free: Vec<Buffer>,
    pub(crate) counters: Counters,
    pub(crate) now_us: u64,
    pub(crate) tx_progress_us: u64,
    /// The receiver ran out of descriptors or FIFO.
    pub(crate) receiver_stopped: bool,
    /// Empty frames in a row.
    pub(crate) odd_frames: u32,
    /// When the first of them came.
    pub(crate) odd_since_us: Option<u64>,
    pub(crate) armed: bool,
    pub(crate) vlans: Vlans,
    /// The card counts its free receive buffers and sends PAUSE by that.
    pub(crate) sends_pause: bool,
    /// Receive buffers it was given and not told of.
    pub(crate) given_back: u8,
    /// It is to wake the machine.
    wake: bool,
    sleep: Box<dyn FnMut() + Send>,
    /// Times the oldest frame failed.
    pub(crate) tries: u32,
    mtu: u16,
    receive_checksums: bool,
    transmit_checksums: TransmitChecksums,
    /// Frames since one asked for an interrupt.
    quiet: u32,
    /// Queued since the last doorbell.
    queued: bool,
    /// Cannot be used before a reset, which is due at this time.
    broken_until_us: Option<u64>,
}

impl<R: Registers, D: Dma> Rhine<R, D> {
    /// Brings a card up. It must be in D0 with I/O (or memory) decoding and bus mastering on, and
    /// [`Chip::configuration_bits`] set.
    pub fn new(bar: R, dma: D, config: Config) -> Result<Rhine<R, D>, Error> {
        let Config { chip, fallback_mac, transmit_checksums, sleep, delay } = config;
        init::wake(&bar, chip, &*delay)?;
        let mac = init::read_address(&bar).unwrap_or(fallback_mac);
        let phy = Phy::find(&Bus { bar: &bar, delay: &*delay }, chip);
        let mut rx = RxRing::new(&dma, RX_CAPACITY, BUFFER as u32)?;
        let tx = TxRing::new(&dma, TX_CAPACITY)?;
        for buffer in buffers(&dma, RX_CAPACITY)? {
            rx.provide(buffer.to_device(&dma, Direction::FromDevice));
        }
        let free = buffers(&dma, TX_CAPACITY - 1)?;
        let mut card = Rhine {
            bar,
            dma,
            delay,
            chip,
            mac,
            phy,
            link: LinkState::default(),
            filter: Filter::OWN,
            threshold: threshold(chip, transmit_checksums),
            rx,
            tx,
            free,
            counters: Counters::default(),
            now_us: 0,
            tx_progress_us: 0,
            receiver_stopped: false,
            odd_frames: 0,
            odd_since_us: None,
            armed: false,
            vlans: Vlans::new(chip),
            sends_pause: false,
            given_back: 0,
            wake: false,
            sleep,
            tries: 0,
            mtu: MAX_MTU,
            receive_checksums: chip.has_checksums(),
            transmit_checksums,
            quiet: 0,
            queued: false,
            broken_until_us: None,
        };
        card.start();
        Ok(card)
    }

    /// The chip.
    pub fn chip(&self) -> Chip {
        self.chip
    }

    /// Who makes transmit checksums.
    pub fn transmit_checksums(&self) -> TransmitChecksums {
        self.transmit_checksums
    }

    /// Changes who makes transmit checksums. No effect on chips that cannot.
    pub fn set_transmit_checksums(&mut self, checksums: TransmitChecksums) {
        self.transmit_checksums = checksums;
        if checksums != TransmitChecksums::Off {
            // The card must hold the whole frame before it can put the sum in. [RH 5.1]
            self.threshold |= threshold(self.chip, checksums);
            self.write_transmitter();
        }
    }

    /// What belongs into TCR.
    pub(crate) fn transmitter(&self) -> Tcr {
        if self.vlans.active { self.threshold | Tcr::PQEN } else { self.threshold }
    }

    pub(crate) fn write_transmitter(&self) {
        regs::TCR.write(&self.bar, self.transmitter());
    }

    /// Frames in the ring may have their tags in descriptors: the card goes on inserting until they are gone.
    fn settle_tags(&mut self) {
        if self.vlans.active && !self.vlans.offload && self.tx.len() == 0 {
            self.vlans.active = false;
            self.write_transmitter();
        }
    }

    fn filter_vlans(&self) {
        let everything = self.filter.mode.contains(Rcr::PROM);
        vlan::filter(&self.bar, self.chip, &self.vlans, everything, &*self.delay);
        // What passes a CAM command by is put right by whoever writes last.
        init::filter(&self.bar, self.filter);
    }

    /// Resets the card; if that fails, again in a while.
    fn reset(&mut self, trouble: Trouble) {
        log::warn!("rhine: {trouble:?}, resetting");
        match self.recover() {
            Ok(()) => self.broken_until_us = None,
            Err(error) => {
                self.counters.reset_failures += 1;
                log::warn!("rhine: {error}");
                self.broken_until_us = Some(self.now_us + RECOVERY_INTERVAL_US);
            }
        }
    }

    /// Frames are waiting and none was sent for long: interrupts may be lost, so the ring was looked
    /// at first. [RH E28, E34]
    fn watch_transmitter(&mut self) {
        if self.tx.len() == 0 {
            self.tx_progress_us = self.now_us;
        } else if self.now_us >= self.tx_progress_us + WATCHDOG_US {
            self.counters.tx_timeouts += 1;
            self.reset(Trouble::Timeout(crate::Timeout {
                what: "frame sent",
                waited_us: WATCHDOG_US as u32,
            }));
        }
    }

    fn provide(&mut self, mut buffer: Buffer) {
        buffer.set_window(0..BUFFER);
        self.given_back = self.given_back.saturating_add(1);
        self.rx.provide(buffer.to_device(&self.dma, Direction::FromDevice));
    }

    /// Length of a good frame without FCS, and the tag the card took out. `None`: counted as an error.
    fn accept(&mut self, received: &Received) -> Option<(usize, Option<Tci>)> {
        let status = Rdes0::from_bits_truncate(received.status);
        let len = desc::receive_len(received.status);
        let whole = Rdes0::RXOK | Rdes0::STP | Rdes0::EDP;
        let mut errors = Rdes0::CRC | Rdes0::FAE | Rdes0::FOV | Rdes0::LONG | Rdes0::RUNT;
        if !self.chip.has_checksums() {
            errors |= Rdes0::FRAG; // a bus error there
        }
        let stripped =
            self.chip.has_vlans() && Rdes1::from_bits_truncate(received.found).contains(Rdes1::TAG);
        let tag = if stripped { tag_behind(&received.buffer, len) } else { None };
        let least = if stripped { MIN_FRAME - vlan::TAG } else { MIN_FRAME } + 4;
        let fits = (least..=BUFFER).contains(&len) && stripped == tag.is_some();
        if status.contains(whole) && !status.intersects(errors) && fits {
            (self.odd_frames, self.odd_since_us) = (0, None);
            return Some((len - 4, tag));
        }
        self.counters.rx_errors += 1;
        self.counters.rx_frame_errors += u64::from(status.contains(Rdes0::FAE));
        self.counters.rx_fifo_errors += u64::from(status.contains(Rdes0::FOV));
        let spans = !status.contains(Rdes0::STP | Rdes0::EDP);
        self.counters.rx_length_errors +=
            u64::from(spans || !fits || status.intersects(Rdes0::LONG | Rdes0::RUNT));
        self.odd_frames = if len == 0 { self.odd_frames + 1 } else { 0 };
        self.odd_since_us = (len == 0).then_some(self.odd_since_us.unwrap_or(self.now_us));
        None
    }

    /// Whether empty frames say that the receiver is wedged. [RH E19]
    fn is_wedged(&self) -> bool {
        let silence = self.odd_since_us.map(|since| since + ODD_SILENCE_US);
        self.odd_frames >= ODD_FRAMES || silence.is_some_and(|end| end <= self.now_us)
    }

    /// What the VT6105M says of a frame. [RH 5.3]
    fn judge(&self, received: &Received) -> ReceiveChecksum {
        let found = Rdes1::from_bits_truncate(received.found);
        if !self.receive_checksums || !found.contains(Rdes1::IPKT) {
            return ReceiveChecksum::Unverified;
        }
        if !found.contains(Rdes1::IPOK) {
            return ReceiveChecksum::Bad;
        }
        let fragment = Rdes0::from_bits_truncate(received.status).contains(Rdes0::FRAG);
        let transport = found.intersects(Rdes1::TCPKT | Rdes1::UDPKT) && !fragment;
        match found.contains(Rdes1::TUOK) {
            sums if !transport || sums => {
                ReceiveChecksum::Verified { ip: true, transport: transport && sums }
            }
            // What it says of a datagram without a sum is not known.
            _ if found.contains(Rdes1::UDPKT) => {
                ReceiveChecksum::Verified { ip: true, transport: false }
            }
            _ => ReceiveChecksum::Bad,
        }
    }
}

/// `count` buffers from one allocation.
fn buffers<D: Dma>(dma: &D, count: usize) -> Result<Vec<Buffer>, Error> {
    let mut buffers = buffers_in_a_row(dma, count, BUFFER)?;
    for buffer in &mut buffers {
        buffer.set_window(0..BUFFER);
    }
    Ok(buffers)
}

/// Threshold to begin with: old chips underrun below store-and-forward [RH E3], and checksums need it.
fn threshold(chip: Chip, checksums: TransmitChecksums) -> Tcr {
    let sums = chip.has_checksums() && checksums != TransmitChecksums::Off;
    if !chip.is_rhine_iii() || sums { Tcr::RTSF | Tcr::RTFT } else { Tcr::from_bits_retain(0x20) }
}

impl<R: Registers, D: Dma + Send> Nic for Rhine<R, D> {
    fn driver_info(&self) -> DriverInfo {
        DriverInfo { driver: "via-rhine", chip: self.chip.name() }
    }

    fn mac_address(&self) -> MacAddress {
        self.mac
    }

    fn link(&self) -> Link {
        match self.broken_until_us {
            None => self.link.link,
            Some(_) => Link::default(),
        }
    }

    fn mtu(&self) -> u16 {
        self.mtu
    }

    fn max_mtu(&self) -> u16 {
        MAX_MTU
    }

    fn set_mtu(&mut self, mtu: u16) -> bool {
        let possible = (MIN_MTU..=MAX_MTU).contains(&mtu);
        if possible {
            self.mtu = mtu;
        }
        possible
    }

    fn set_receive_filter(&mut self, filter: ReceiveFilter<'_>) {
        let promiscuous = self.filter.mode.contains(Rcr::PROM);
        self.filter = Filter::new(filter);
        if self.filter.mode.contains(Rcr::PROM) != promiscuous {
            return self.filter_vlans();
        }
        init::filter(&self.bar, self.filter);
    }

    fn set_vlans(&mut self, ids: &[u16]) {
        self.vlans.set_ids(ids);
        self.filter_vlans();
    }

    fn pause(&self) -> Option<Pause> {
        self.pause_in_use()
    }

    fn wake_on_lan(&self) -> Option<bool> {
        self.chip.has_power_management().then_some(self.wake)
    }

    fn set_wake_on_lan(&mut self, on: bool) -> bool {
        let can = self.chip.has_power_management();
        self.wake = on && can;
        can
    }

    fn stop(&mut self, why: Stop) {
        if let Err(timeout) = init::stop(&self.bar, &*self.delay) {
            log::warn!("rhine: {timeout:?}");
        }
        if self.wake && why == Stop::PowerOff {
            power::sleep(&self.bar, self.chip);
            (self.sleep)();
        }
        // For good: no reset is ever due.
        self.broken_until_us = Some(i64::MAX as u64);
    }

    fn service(&mut self, now_us: u64) {
        self.now_us = now_us;
        if let Some(until) = self.broken_until_us {
            if now_us >= until {
                self.reset(Trouble::Gone);
            }
            return;
        }
        if self.armed {
            regs::IMR.write(&self.bar, Cause::empty());
            self.armed = false;
        }
        match self.handle_causes() {
            Ok(()) if self.is_wedged() => {
                self.counters.rx_wedged += 1;
                self.reset(Trouble::Wedged);
            }
            Ok(()) => {
                self.reclaim();
                self.settle_tags();
                self.report_given_back();
                self.watch_transmitter();
            }
            Err(Trouble::Gone) => {
                log::warn!("rhine: the card is gone");
                self.broken_until_us = Some(now_us + RECOVERY_INTERVAL_US);
            }
            Err(trouble) => self.reset(trouble),
        }
    }

    fn arm(&mut self) -> bool {
        if self.broken_until_us.is_some() {
            return false;
        }
        if self.is_wedged() {
            return true;
        }
        self.report_given_back();
        self.resume_receiver();
        regs::IMR.write(&self.bar, Cause::WANTED);
        self.armed = true;
        // Also pushes the write out. What is pending would interrupt, but sooner is better.
        let pending = regs::ISR.read(&self.bar).intersects(Cause::WANTED);
        if pending {
            regs::IMR.write(&self.bar, Cause::empty());
            self.armed = false;
        }
        pending
    }

    fn service_at(&self) -> Option<u64> {
        let watchdog = (self.tx.len() > 0).then_some(self.tx_progress_us + WATCHDOG_US);
        let silence = self.odd_since_us.map(|since| since + ODD_SILENCE_US);
        self.broken_until_us.or(match (watchdog, silence) {
            (Some(a), Some(b)) => Some(a.min(b)),
            (a, b) => a.or(b),
        })
    }

    fn receive(&mut self) -> Option<ReceivedFrame> {
        if self.broken_until_us.is_some() {
            return None;
        }
        for _ in 0..RX_CAPACITY {
            let mut received = self.rx.returned(&self.dma)?;
            let Some((len, tag)) = self.accept(&received) else {
                self.provide(received.buffer);
                if self.is_wedged() {
                    return None;
                }
                continue;
            };
            self.counters.rx_packets += 1;
            self.counters.rx_bytes += len as u64;
            let checksum = self.judge(&received);
            received.buffer.set_window(0..len);
            return Some(ReceivedFrame {
                buffer: received.buffer,
                checksum,
                segment: None,
                tag,
                slot: 0,
            });
        }
        None
    }

    fn recycle(&mut self, frame: ReceivedFrame) {
        self.provide(frame.buffer);
    }

    fn transmit_buffer(&mut self, len: usize) -> Option<Buffer> {
        if len > MAX_FRAME {
            return None;
        }
        if self.free.is_empty() {
            self.reclaim();
        }
        let mut buffer = self.free.pop()?;
        buffer.set_window(0..len);
        Some(buffer)
    }

    fn transmit(&mut self, mut buffer: Buffer, request: &TransmitRequest) {
        let mut control = Tdes1::empty();
        if request.network_checksum {
            control |= Tdes1::IPCK;
        }
        if request.transport_checksum {
            let offset = request.shape.transport_offset().unwrap_or(0);
            let network = usize::from(request.shape.link_len);
            let total = buffer.get(network + 2..network + 4);
            let total = total.map_or(0, |b| usize::from(u16::from_be_bytes([b[0], b[1]])));
            let len = (network + total).saturating_sub(offset);
            // Right whether the card replaces the field or adds to it. [RH 5.1]
            if let (Some(seed), Some(field)) =
                (pseudo_header(&buffer, &request.shape, len), request.shape.checksum_offset())
                && let Some(bytes) = buffer.get_mut(field..field + 2)
            {
                bytes.copy_from_slice(&seed.to_be_bytes());
                control |= match request.shape.transport {
                    Transport::Udp => Tdes1::UDPCK,
                    _ => Tdes1::TCPCK,
                };
            }
        }
        let (start, len) = (buffer.window().start, buffer.len());
        if self.chip.needs_aligned_transmit() && !buffer.bus_address().is_multiple_of(4) {
            buffer.whole_mut().copy_within(start..start + len, 0);
            buffer.set_window(0..len);
            self.counters.tx_bounced += 1;
        }
        if len < MIN_FRAME {
            let start = buffer.window().start;
            if start + MIN_FRAME > buffer.capacity() {
                buffer.whole_mut().copy_within(start..start + len, 0);
                buffer.set_window(0..len);
            }
            let start = buffer.window().start;
            buffer.set_window(start..start + MIN_FRAME);
            buffer[len..].fill(0);
        }
        self.quiet += 1;
        let interrupt = self.quiet >= QUIET_FRAMES || self.free.len() < TX_CAPACITY / 2;
        if interrupt {
            control |= Tdes1::IC;
            self.quiet = 0;
        }
        let tag = match request.tag {
            Some(tag) => {
                control |= Tdes1::TAG;
                descriptor_tag(tag)
            }
            None => 0,
        };
        let suppress = !interrupt && self.chip.has_interrupt_suppression();
        if self.tx.len() == 0 {
            self.tx_progress_us = self.now_us;
        }
        let lent = buffer.to_device(&self.dma, Direction::ToDevice);
        self.tx.provide(lent, tag, control, suppress);
        self.queued = true;
    }

    fn transmit_cancel(&mut self, buffer: Buffer) {
        self.free.push(buffer);
    }

    fn flush(&mut self) {
        if core::mem::take(&mut self.queued) && self.broken_until_us.is_none() {
            self.demand();
        }
    }

    fn transmit_room(&self) -> usize {
        self.free.len()
    }

    fn transmit_ability(&self, shape: &FrameShape) -> TransmitAbility {
        transmit_ability(self.chip, self.transmit_checksums, self.vlans.offload, shape)
    }

    fn max_segmented_frame(&self) -> Option<usize> {
        None
    }

    fn feature(&self, feature: Feature) -> FeatureState {
        let fixed = !self.chip.has_checksums();
        match feature {
            Feature::RxChecksumming => FeatureState { on: self.receive_checksums, fixed },
            Feature::TxChecksumming => FeatureState {
                on: !fixed && self.transmit_checksums != TransmitChecksums::Off,
                fixed,
            },
            Feature::RxVlanOffload | Feature::TxVlanOffload => {
                FeatureState { on: self.vlans.offload, fixed }
            }
            Feature::RxVlanFilter => FeatureState { on: self.vlans.filter, fixed },
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
        match (feature, on) {
            (Feature::RxChecksumming, _) => self.receive_checksums = on,
            (Feature::RxVlanOffload | Feature::TxVlanOffload, _) => {
                self.vlans.offload = on;
                if on && !self.vlans.active {
                    self.vlans.active = true;
                    self.write_transmitter();
                }
                self.settle_tags();
            }
            (Feature::RxVlanFilter, _) => {
                self.vlans.filter = on;
                self.filter_vlans();
            }
            (_, true) => self.set_transmit_checksums(TransmitChecksums::On),
            (_, false) => self.set_transmit_checksums(TransmitChecksums::Off),
        }
        Ok(())
    }

    fn private_flags(&self, visit: &mut dyn FnMut(&'static str, bool)) {
        if self.chip.has_checksums() {
            let auto = matches!(self.transmit_checksums, TransmitChecksums::Auto { .. });
            visit(AUTO_FLAG, auto);
        }
    }

    fn set_private_flag(&mut self, name: &str, on: bool) -> bool {
        let known = name == AUTO_FLAG && self.chip.has_checksums();
        let auto = matches!(self.transmit_checksums, TransmitChecksums::Auto { .. });
        if known && on != auto {
            let checksums = if on { TransmitChecksums::AUTO } else { TransmitChecksums::On };
            self.set_transmit_checksums(checksums);
        }
        known
    }

    fn statistics(&self, visit: &mut dyn FnMut(&'static str, u64)) {
        self.counters.visit(visit);
    }
}

impl<R: Registers, D: Dma> Drop for Rhine<R, D> {
    fn drop(&mut self) {
        // DMA memory is never freed, so a card that does not stop does no harm.
        if let Err(timeout) = init::stop(&self.bar, &*self.delay) {
            log::warn!("rhine: {timeout:?}");
        }
    }
}

//! The card as the stack sees it.

use crate::ability::{MAX_SEGMENTED_FRAME, TransmitOffloads, transmit_ability};
use crate::control::Control;
use crate::counters::Counters;
use crate::features::Features;
use crate::header;
use crate::init::{MIN_MTU, Rings, SetUp, link_up, negotiate, new_queues, reset, running, set_up};
use crate::queue::RingMemory;
use crate::{Config, Error};
use core::mem::ManuallyDrop;
use trireme_nic::{
    Buffer, Dma, DriverInfo, Feature, FeatureError, FeatureState, FrameShape, Link, MacAddress,
    Nic, ReceiveFilter, ReceivedFrame, Stop, TransmitAbility, TransmitRequest,
};
use virtio_drivers::transport::{DeviceStatus, InterruptStatus, Transport};

/// Between attempts to bring a broken device back, in µs.
const RECOVERY_INTERVAL_US: u64 = 1_000_000;
/// Between looks at the control queue while it is at work, in µs.
const CONTROL_INTERVAL_US: u64 = 1_000;

/// A virtio network device.
///
/// `H` gives ring memory, `T` reaches the registers, `D` gives frame memory. Dropping it resets the
/// device before the rings go.
pub struct VirtioNet<H: RingMemory, T: Transport, D: Dma> {
    transport: T,
    dma: D,
    /// Leaked in `drop` if the device cannot be stopped.
    rings: ManuallyDrop<Rings<H>>,
    features: Features,
    mac: MacAddress,
    mtu: u16,
    max_mtu: u16,
    link_up: bool,
    offloads: TransmitOffloads,
    receive_checksums: bool,
    receive_merging: bool,
    counters: Counters,
    /// The device must be reset before it can be used again.
    broken: bool,
    recover_at_us: u64,
    now_us: u64,
}

impl<H: RingMemory, T: Transport, D: Dma> VirtioNet<H, T, D> {
    /// Brings a device up. [VIRTIO 3.1.1]
    pub fn new(mut transport: T, dma: D, config: &Config) -> Result<Self, Error> {
        reset(&mut transport)?;
        let SetUp { features, rings, mac, mtu, max_mtu } = set_up(&mut transport, &dma, config)
            .inspect_err(|_| transport.set_status(DeviceStatus::FAILED))?;
        let merging = features.intersects(Features::GUEST_TSO4 | Features::GUEST_TSO6);
        let mut card = VirtioNet {
            transport,
            dma,
            rings: ManuallyDrop::new(rings),
            features,
            mac,
            mtu,
            max_mtu,
            link_up: true,
            offloads: TransmitOffloads::negotiated(features),
            receive_checksums: features.contains(Features::GUEST_CSUM),
            receive_merging: merging,
            counters: Counters::default(),
            broken: false,
            recover_at_us: 0,
            now_us: 0,
        };
        card.go();
        Ok(card)
    }

    /// The features in use.
    pub fn features(&self) -> Features {
        self.features
    }

    /// The last step of bring-up: the device runs, and gets its first buffers.
    fn go(&mut self) {
        self.transport.set_status(running());
        let Rings { receive, transmit, control } = &mut *self.rings;
        receive.refill(&self.dma);
        receive.hold();
        transmit.hold();
        receive.kick(&mut self.transport, &mut self.counters);
        if let Some(control) = control {
            control.step(&self.dma, &mut self.transport, &mut self.counters);
        }
        self.look_at_link();
    }

    fn look_at_link(&mut self) {
        self.link_up = link_up(&self.transport, self.features).unwrap_or(self.link_up);
    }

    /// The device did what it must not: nothing it returns can be used before a reset.
    fn mark_broken(&mut self) {
        self.counters.bad_ids += 1;
        self.broken = true;
    }

    /// Resets the device and sets it up as it was. Frames it had are lost, buffers are not.
    fn recover(&mut self) -> Result<(), Error> {
        // Until the device confirms the reset, it may still write to its buffers: they stay away.
        reset(&mut self.transport)?;
        let features = self.features;
        negotiate(&mut self.transport, |offered| offered & features).and_then(|got| {
            match got == features {
                true => Ok(()),
                false => Err(Error::FeaturesRefused { asked: features.bits() }),
            }
        })?;
        let (receive_queue, transmit_queue) = new_queues(&mut self.transport, features)?;
        let Rings { receive, transmit, control } = &mut *self.rings;
        receive.restart(receive_queue, &self.dma);
        self.counters.tx_dropped += transmit.restart(transmit_queue, &self.dma);
        if let Some(control) = control {
            control.restart(&self.dma, &mut self.transport)?;
        }
        self.broken = false;
        self.go();
        if !self.receive_merging || !self.receive_checksums {
            self.set_receive_offloads(self.receive_checksums, self.receive_merging);
        }
        Ok(())
    }

    /// Tells the device which receive offloads to use. False if it did not agree.
    fn set_receive_offloads(&mut self, checksums: bool, merging: bool) -> bool {
        let mut wanted = Features::empty();
        if checksums {
            wanted |= Features::GUEST_CSUM;
            if merging {
                wanted |= Features::GUEST_TSO4 | Features::GUEST_TSO6 | Features::GUEST_ECN;
            }
        }
        let wanted = wanted & self.features;
        self.rings.control.as_mut().is_some_and(|control| {
            control.set_offloads(&self.dma, &mut self.transport, &mut self.counters, wanted)
        })
    }
}

impl<H: RingMemory, T: Transport + Send, D: Dma + Send> Nic for VirtioNet<H, T, D> {
    fn driver_info(&self) -> DriverInfo {
        DriverInfo { driver: "virtio_net", chip: "virtio 1.x" }
    }

    fn mac_address(&self) -> MacAddress {
        self.mac
    }

    fn link(&self) -> Link {
        Link { up: self.link_up && !self.broken, speed_mbps: 0, full_duplex: true }
    }

    fn mtu(&self) -> u16 {
        self.mtu
    }

    fn max_mtu(&self) -> u16 {
        self.max_mtu
    }

    fn set_mtu(&mut self, mtu: u16) -> bool {
        let possible = (MIN_MTU..=self.max_mtu).contains(&mtu);
        if possible {
            self.mtu = mtu;
        }
        possible
    }

    fn set_receive_filter(&mut self, filter: ReceiveFilter<'_>) {
        if let Some(control) = &mut self.rings.control {
            control.set_filter(filter);
            control.step(&self.dma, &mut self.transport, &mut self.counters);
        }
    }

    fn stop(&mut self, _: Stop) {
        if let Err(error) = reset(&mut self.transport) {
            log::warn!("virtio-net: {error}");
        }
        // For good: no reset is ever due.
        self.broken = true;
        self.recover_at_us = i64::MAX as u64;
    }

    fn service(&mut self, now_us: u64) {
        self.now_us = now_us;
        if self.transport.ack_interrupt().contains(InterruptStatus::DEVICE_CONFIGURATION_INTERRUPT)
        {
            self.look_at_link();
            self.broken |= self.transport.get_status().contains(DeviceStatus::DEVICE_NEEDS_RESET);
        }
        if self.broken {
            if now_us < self.recover_at_us {
                return;
            }
            self.recover_at_us = now_us + RECOVERY_INTERVAL_US;
            self.counters.resets += 1;
            if let Err(error) = self.recover() {
                self.counters.reset_failures += 1;
                log::warn!("virtio-net: reset failed: {error}");
                return;
            }
        }
        let Rings { receive, transmit, control } = &mut *self.rings;
        receive.hold();
        transmit.hold();
        receive.kick(&mut self.transport, &mut self.counters);
        if let Some(control) = control
            && control.is_active()
        {
            control.step(&self.dma, &mut self.transport, &mut self.counters);
        }
        if transmit.reclaim(&self.dma).is_err() {
            self.mark_broken();
        }
    }

    fn arm(&mut self) -> bool {
        if self.broken {
            return false;
        }
        let Rings { receive, transmit, .. } = &mut *self.rings;
        receive.kick(&mut self.transport, &mut self.counters);
        let received = receive.arm();
        transmit.arm() || received
    }

    fn service_at(&self) -> Option<u64> {
        if self.broken {
            return Some(self.recover_at_us);
        }
        let active = self.rings.control.as_ref().is_some_and(Control::is_active);
        active.then_some(self.now_us + CONTROL_INTERVAL_US)
    }

    fn receive(&mut self) -> Option<ReceivedFrame> {
        if self.broken {
            return None;
        }
        match self.rings.receive.receive(&self.dma, &mut self.counters) {
            Ok(frame) => {
                if frame.is_none() {
                    // What bad frames gave back.
                    self.rings.receive.refill(&self.dma);
                }
                frame
            }
            Err(_) => {
                self.mark_broken();
                None
            }
        }
    }

    fn recycle(&mut self, frame: ReceivedFrame) {
        self.rings.receive.recycle(&self.dma, frame, !self.broken);
    }

    fn transmit_buffer(&mut self, len: usize) -> Option<Buffer> {
        let transmit = &mut self.rings.transmit;
        let mut buffer = transmit.buffers.lend(len);
        if buffer.is_none() && !self.broken {
            if transmit.reclaim(&self.dma).is_err() {
                self.mark_broken();
                return None;
            }
            buffer = transmit.buffers.lend(len);
        }
        self.counters.tx_busy += u64::from(buffer.is_none());
        buffer
    }

    fn transmit(&mut self, mut buffer: Buffer, request: &TransmitRequest) {
        let transmit = &mut self.rings.transmit;
        if self.broken {
            self.counters.tx_dropped += 1;
            return transmit.buffers.put_back(buffer);
        }
        let Ok(header) = header::emit(&mut buffer, request, self.features) else {
            self.counters.tx_errors += 1;
            return transmit.buffers.put_back(buffer);
        };
        let len = buffer.len() as u64;
        if !transmit.send(&self.dma, buffer, &header) {
            self.counters.tx_errors += 1;
            return;
        }
        self.counters.tx_packets += 1;
        self.counters.tx_bytes += len;
        self.counters.tx_csum += u64::from(header[0] != 0);
        self.counters.tx_tso += u64::from(header[1] != 0);
    }

    fn transmit_cancel(&mut self, buffer: Buffer) {
        self.rings.transmit.buffers.put_back(buffer);
    }

    fn flush(&mut self) {
        if !self.broken {
            self.rings.transmit.kick(&mut self.transport, &mut self.counters);
        }
    }

    fn transmit_room(&self) -> usize {
        self.rings.transmit.buffers.room(usize::from(self.mtu) + 14)
    }

    fn transmit_ability(&self, shape: &FrameShape) -> TransmitAbility {
        transmit_ability(self.offloads, shape)
    }

    fn max_segmented_frame(&self) -> Option<usize> {
        self.features
            .intersects(Features::HOST_TSO4 | Features::HOST_TSO6)
            .then_some(MAX_SEGMENTED_FRAME)
    }

    fn feature(&self, feature: Feature) -> FeatureState {
        let has = |features| self.features.intersects(features);
        let switchable = has(Features::CTRL_GUEST_OFFLOADS);
        let merging = Features::GUEST_TSO4 | Features::GUEST_TSO6;
        match feature {
            Feature::TxChecksumming => {
                FeatureState { on: self.offloads.checksum, fixed: !has(Features::CSUM) }
            }
            Feature::TcpSegmentationOffload => FeatureState {
                on: self.offloads.checksum && self.offloads.tso4,
                fixed: !has(Features::HOST_TSO4),
            },
            Feature::Tcp6Segmentation => FeatureState {
                on: self.offloads.checksum && self.offloads.tso6,
                fixed: !has(Features::HOST_TSO6),
            },
            Feature::RxChecksumming => FeatureState {
                on: self.receive_checksums,
                fixed: !(switchable && has(Features::GUEST_CSUM)),
            },
            Feature::LargeReceiveOffload => FeatureState {
                on: self.receive_checksums && self.receive_merging,
                fixed: !(switchable && has(merging)),
            },
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
        match feature {
            Feature::TxChecksumming => self.offloads.checksum = on,
            Feature::TcpSegmentationOffload | Feature::Tcp6Segmentation
                if on && !self.offloads.checksum =>
            {
                return Err(FeatureError::Requires(Feature::TxChecksumming));
            }
            Feature::TcpSegmentationOffload => self.offloads.tso4 = on,
            Feature::Tcp6Segmentation => self.offloads.tso6 = on,
            Feature::RxChecksumming => {
                if !self.set_receive_offloads(on, self.receive_merging) {
                    return Err(FeatureError::Timeout);
                }
                self.receive_checksums = on;
            }
            Feature::LargeReceiveOffload => {
                if !self.receive_checksums {
                    return Err(FeatureError::Requires(Feature::RxChecksumming));
                }
                if !self.set_receive_offloads(true, on) {
                    return Err(FeatureError::Timeout);
                }
                self.receive_merging = on;
            }
            _ => return Err(FeatureError::Fixed),
        }
        Ok(())
    }

    fn statistics(&self, visit: &mut dyn FnMut(&'static str, u64)) {
        self.counters.visit(visit);
    }
}

impl<H: RingMemory, T: Transport, D: Dma> Drop for VirtioNet<H, T, D> {
    #[allow(unsafe_code)]
    fn drop(&mut self) {
        // A device that does not stop keeps its rings: freed, they would be somebody else's memory.
        if reset(&mut self.transport).is_ok() {
            // SAFETY: nothing uses `rings` after this; `drop` runs once.
            unsafe { ManuallyDrop::drop(&mut self.rings) };
        }
    }
}

//! A port as the stack sees it.

use crate::ability::{MAX_FRAME, MAX_SEGMENTED_FRAME, transmit_ability};
use crate::block::{Block, Windows};
use crate::init::{self, Filter};
use crate::switch::Switch;
use crate::{Config, Error};
use alloc::sync::Arc;
use alloc::vec::Vec;
use spin::Mutex;
use trireme_nic::{
    Buffer, Dma, DriverInfo, Feature, FeatureError, FeatureState, FrameShape, Link, MacAddress,
    Nic, Pause, ReceiveFilter, ReceivedFrame, Registers, Stop, TransmitAbility, TransmitRequest,
};

const MIN_MTU: u16 = 68;
/// A frame sent in one piece has 2047 bytes at most; an Ethernet header and a tag are among them. [GM 8.7]
pub const MAX_MTU: u16 = (MAX_FRAME - 18) as u16;

/// A port of the card.
///
/// Both ports share registers, the free queue and resets; whoever calls has the card to himself meanwhile.
/// Dropping a port stops it.
pub struct Gemini<R: Registers, D: Dma> {
    block: Arc<Mutex<Block<R, D>>>,
    /// Its place among the ports in use.
    n: usize,
}

impl<R: Registers, D: Dma> Gemini<R, D> {
    /// Brings the card up: its ports in use, in order.
    pub fn bring_up(
        windows: Windows<R>,
        dma: D,
        config: Config,
    ) -> Result<Vec<Gemini<R, D>>, Error> {
        let block = Block::new(windows, dma, config)?;
        let count = block.ports.len();
        let block = Arc::new(Mutex::new(block));
        Ok((0..count).map(|n| Gemini { block: block.clone(), n }).collect())
    }

    /// Which of the card's ports it is.
    pub fn number(&self) -> usize {
        self.block.lock().ports[self.n].number
    }
}

impl<R: Registers, D: Dma + Send> Nic for Gemini<R, D> {
    fn driver_info(&self) -> DriverInfo {
        DriverInfo { driver: "gemini", chip: "Cortina Gemini" }
    }

    fn mac_address(&self) -> MacAddress {
        self.block.lock().ports[self.n].setting.address
    }

    fn link(&self) -> Link {
        let block = self.block.lock();
        match block.broken_until_us {
            None => block.ports[self.n].setting.link.link,
            Some(_) => Link::default(),
        }
    }

    fn mtu(&self) -> u16 {
        self.block.lock().ports[self.n].setting.mtu
    }

    fn max_mtu(&self) -> u16 {
        MAX_MTU - self.block.lock().ports[self.n].setting.tag as u16
    }

    fn set_mtu(&mut self, mtu: u16) -> bool {
        if !(MIN_MTU..=self.max_mtu()).contains(&mtu) {
            return false;
        }
        let mut block = self.block.lock();
        block.ports[self.n].setting.mtu = mtu;
        block.apply(self.n, true);
        true
    }

    fn set_receive_filter(&mut self, filter: ReceiveFilter<'_>) {
        let mut block = self.block.lock();
        let filter = Filter::new(filter);
        block.ports[self.n].setting.filter = filter;
        if block.is_running(self.n) {
            init::write_filter(&block.bar, block.ports[self.n].number, filter);
        }
    }

    fn pause(&self) -> Option<Pause> {
        let pause = self.block.lock().ports[self.n].setting.link.pause;
        Some(Pause { autonegotiate: true, rx: pause, tx: pause })
    }

    fn stop(&mut self, _why: Stop) {
        self.block.lock().halt(self.n);
    }

    fn service(&mut self, now_us: u64) {
        let mut block = self.block.lock();
        block.now_us = now_us;
        if block.ports[self.n].halted {
            return;
        }
        if let Some(until) = block.broken_until_us {
            if now_us >= until {
                block.try_again();
            }
            return;
        }
        if let Err(trouble) = block.look(self.n) {
            block.restart(self.n, trouble);
        }
    }

    fn arm(&mut self) -> bool {
        let mut block = self.block.lock();
        block.is_running(self.n) && block.arm(self.n)
    }

    fn service_at(&self) -> Option<u64> {
        self.block.lock().service_at(self.n)
    }

    fn receive(&mut self) -> Option<ReceivedFrame> {
        let mut block = self.block.lock();
        if !block.is_running(self.n) {
            return None;
        }
        let frame = block.receive(self.n)?;
        Some(ReceivedFrame {
            buffer: frame.buffer,
            checksum: frame.checksum,
            segment: None,
            tag: None,
            slot: frame.number,
        })
    }

    fn recycle(&mut self, frame: ReceivedFrame) {
        self.block.lock().recycle(frame.slot, frame.buffer);
    }

    fn transmit_buffer(&mut self, len: usize) -> Option<Buffer> {
        let mut block = self.block.lock();
        if len + block.ports[self.n].setting.tag > MAX_SEGMENTED_FRAME {
            return None;
        }
        if let Some(buffer) = block.ports[self.n].pool.lend(len) {
            return Some(buffer);
        }
        if !block.is_running(self.n) || !block.reclaim(self.n) {
            return None;
        }
        block.ports[self.n].pool.lend(len)
    }

    fn transmit(&mut self, buffer: Buffer, request: &TransmitRequest) {
        self.block.lock().queue(self.n, buffer, request);
    }

    fn transmit_cancel(&mut self, buffer: Buffer) {
        self.block.lock().ports[self.n].pool.put_back(buffer);
    }

    fn flush(&mut self) {
        self.block.lock().ring_doorbell(self.n, false);
    }

    fn transmit_room(&self) -> usize {
        self.block.lock().ports[self.n].pool.room(MAX_FRAME)
    }

    fn transmit_ability(&self, shape: &FrameShape) -> TransmitAbility {
        let block = self.block.lock();
        let port = &block.ports[self.n];
        match port.switch {
            Some(_) => transmit_ability(port.offloads, &Switch::tagged(shape)),
            None => transmit_ability(port.offloads, shape),
        }
    }

    fn max_segmented_frame(&self) -> Option<usize> {
        Some(MAX_SEGMENTED_FRAME - self.block.lock().ports[self.n].setting.tag)
    }

    fn feature(&self, feature: Feature) -> FeatureState {
        let block = self.block.lock();
        let port = &block.ports[self.n];
        let offloads = port.offloads;
        let on = match feature {
            Feature::RxChecksumming => port.setting.receive_checksums,
            Feature::TxChecksumming => offloads.checksums,
            Feature::TcpSegmentationOffload => offloads.checksums && offloads.tso,
            Feature::Tcp6Segmentation => offloads.checksums && offloads.tso6,
            // Frames to be cut always have more than one descriptor.
            Feature::ScatterGather => return FeatureState { on: true, fixed: true },
            _ => return FeatureState::ABSENT,
        };
        FeatureState { on, fixed: false }
    }

    fn set_feature(&mut self, feature: Feature, on: bool) -> Result<(), FeatureError> {
        let state = self.feature(feature);
        if state.on == on {
            return Ok(());
        }
        if state.fixed {
            return Err(FeatureError::Fixed);
        }
        let mut block = self.block.lock();
        let offloads = &mut block.ports[self.n].offloads;
        match feature {
            // What is asked of the card stands in each frame's descriptors: nothing has to stop.
            Feature::TxChecksumming => offloads.checksums = on,
            _ if feature != Feature::RxChecksumming && on && !offloads.checksums => {
                return Err(FeatureError::Requires(Feature::TxChecksumming));
            }
            Feature::TcpSegmentationOffload => offloads.tso = on,
            Feature::Tcp6Segmentation => offloads.tso6 = on,
            _ => {
                // And so does what it has verified.
                block.ports[self.n].setting.receive_checksums = on;
                block.apply(self.n, false);
            }
        }
        Ok(())
    }

    fn statistics(&self, visit: &mut dyn FnMut(&'static str, u64)) {
        self.block.lock().statistics(self.n, visit);
    }
}

impl<R: Registers, D: Dma> Block<R, D> {
    fn is_running(&self, n: usize) -> bool {
        self.broken_until_us.is_none() && !self.ports[n].halted
    }

    /// Has the MAC be as the port's setting says; `stopped`: it must not run meanwhile.
    fn apply(&mut self, n: usize, stopped: bool) {
        if !self.is_running(n) {
            // A restart sees to it.
            return;
        }
        let Block { bar, delay, ports, .. } = self;
        let port = &ports[n];
        match stopped {
            true => init::change(bar, port.number, &port.setting, &**delay),
            false => init::write_config(bar, port.number, &port.setting),
        }
    }
}

impl<R: Registers, D: Dma> Drop for Gemini<R, D> {
    fn drop(&mut self) {
        // DMA memory is never freed, so a card that does not stop does no harm.
        self.block.lock().halt(self.n);
    }
}

//! A port: events in, frames through, hangs noticed. [GM 5.7, E7, E8]

use crate::ability::{MAX_FRAME, MAX_SEGMENTED_FRAME, Offloads, transmit_words};
use crate::block::Block;
use crate::counters::Counters;
use crate::init::{self, Setting};
use crate::link::Attached;
use crate::receive::{Frame, Receiver};
use crate::regs::{self, cause};
use crate::ring::{MAX_DESCRIPTORS, TxRing};
use crate::switch::Switch;
use trireme_nic::{Buffer, Dma, DmaError, PoolSize, Registers, TransmitBuffers, TransmitRequest};
use trireme_phy::{Advertisement, Phy};

/// Buffers for single frames, and for frames to be cut: at most. The rings have up to 256 descriptors, as
/// Linux' have.
const MAX_SMALL: usize = 128;
const MAX_LARGE: usize = 24;
/// Longest time without a frame sent, though there are some to send.
const WATCHDOG_US: u64 = 2_000_000;
/// Between looks at link, receiver and, if it has something to do, transmitter.
const LOOK_US: u64 = 1_000_000;
const BUSY_LOOK_US: u64 = 100_000;
/// A hang's signature must be seen so many times in a row, and this far apart. VD counts as many; how far
/// apart they are is not known. [GM E7]
const HANG_LOOKS: u32 = 200;
const HANG_LOOK_US: u64 = 1_000;
/// The status of a frame is awaited so long after the read pointer has moved past it.
const STATUS_US: u64 = 1_000;
/// Buffers given back that are shown to the card at once.
const PUBLISH: u16 = 16;

/// Why only a reset helps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Trouble {
    /// Reads are all ones, or a reset has failed before.
    Gone,
    /// The card reported a bus or protocol error of its receiver.
    ReceiveFault,
    /// The same of its transmitter.
    TransmitFault,
    /// Nothing was sent for too long.
    TransmitTimeout,
    /// The transmitter's state says it hangs.
    TransmitHang,
    /// The receiver's does.
    ReceiveHang,
    /// The receiver delivers nonsense, or has lost buffers.
    Confused,
}

impl Trouble {
    /// A frame being sent may be the reason.
    pub(crate) fn is_of_a_frame(self) -> bool {
        matches!(self, Trouble::TransmitFault | Trouble::TransmitTimeout | Trouble::TransmitHang)
    }
}

/// Looks at a state machine: how often in a row it had the signature of a hang.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct HangWatch {
    seen: u32,
    /// When to look next.
    at_us: u64,
}

impl HangWatch {
    /// Notes what was seen. True: it hangs.
    fn note(&mut self, signature: bool, now_us: u64, calm_us: u64) -> bool {
        self.seen = if signature { self.seen + 1 } else { 0 };
        self.at_us = now_us + if signature { HANG_LOOK_US } else { calm_us };
        self.seen >= HANG_LOOKS
    }
}

/// What is a port's own.
pub(crate) struct PortState {
    /// 0 or 1, in the card.
    pub(crate) number: usize,
    pub(crate) attached: Attached,
    pub(crate) phy: Phy,
    pub(crate) switch: Option<Switch>,
    pub(crate) setting: Setting,
    pub(crate) offloads: Offloads,
    pub(crate) rx: Receiver,
    pub(crate) tx: TxRing,
    /// Transmit buffers nobody has.
    pub(crate) pool: TransmitBuffers,
    /// Small ones there are.
    small: usize,
    pub(crate) counters: Counters,
    /// A received frame interrupts.
    pub(crate) armed: bool,
    /// A sent one does.
    pub(crate) asks_sent: bool,
    /// Stopped for good.
    pub(crate) halted: bool,
    /// Frames were queued since the last doorbell.
    queued: bool,
    /// When the transmitter last sent something, or had nothing to send.
    progress_us: u64,
    /// Since when the status of the oldest frame is awaited.
    status_since_us: Option<u64>,
    tx_watch: HangWatch,
    rx_watch: HangWatch,
    /// Frames received when the receiver was last restarted for a hang: without one since, it may just be idle.
    rx_hang_at: Option<u64>,
}

impl PortState {
    /// A port with about `bytes` of memory to send from.
    pub(crate) fn new<D: Dma>(
        dma: &D,
        number: usize,
        attached: Attached,
        setting: Setting,
        offloads: Offloads,
        bytes: usize,
        rx_order: u32,
    ) -> Result<PortState, DmaError> {
        let capacity = |frame| TransmitBuffers::capacity(dma, frame);
        let small = (bytes / 4 / capacity(MAX_FRAME)).clamp(16, MAX_SMALL);
        let large = (bytes / 4 * 3 / capacity(MAX_SEGMENTED_FRAME)).clamp(2, MAX_LARGE);
        let pool = TransmitBuffers::new(
            dma,
            PoolSize { count: small, frame: MAX_FRAME },
            PoolSize { count: large, frame: MAX_SEGMENTED_FRAME },
        )?;
        Ok(PortState {
            number,
            attached,
            phy: Phy::new(Advertisement::EVERYTHING),
            switch: matches!(attached, Attached::Switch { .. }).then(Switch::new),
            setting,
            offloads,
            rx: Receiver::new(dma, rx_order)?,
            tx: TxRing::new(dma, small + large, large * (MAX_DESCRIPTORS - 1))?,
            pool,
            small,
            counters: Counters::default(),
            armed: false,
            asks_sent: false,
            halted: false,
            queued: false,
            progress_us: 0,
            status_since_us: None,
            tx_watch: HangWatch::default(),
            rx_watch: HangWatch::default(),
            rx_hang_at: None,
        })
    }

    /// Nothing is to be complained of yet.
    pub(crate) fn rest(&mut self, now_us: u64) {
        self.progress_us = now_us;
        self.status_since_us = None;
        self.tx_watch = HangWatch { seen: 0, at_us: now_us + BUSY_LOOK_US };
        self.rx_watch = HangWatch { seen: 0, at_us: now_us + LOOK_US };
    }

    /// When it wants to be looked at.
    pub(crate) fn due_us(&self) -> u64 {
        let status = self.status_since_us.map(|since| since + STATUS_US);
        let sending = self.is_sending().then_some(self.tx_watch.at_us);
        [status, sending].into_iter().flatten().fold(self.rx_watch.at_us, u64::min)
    }

    fn is_sending(&self) -> bool {
        self.tx.len() > 0 && self.setting.link.link.up
    }

    /// Room is short, so the stack may be waiting for it.
    fn is_tight(&self) -> bool {
        self.pool.is_dry() || self.pool.room(MAX_FRAME) < self.small / 4
    }
}

impl<R: Registers, D: Dma> Block<R, D> {
    /// Looks at a port. `Err`: only a reset helps.
    pub(crate) fn look(&mut self, n: usize) -> Result<(), Trouble> {
        self.handle_causes(n)?;
        let number = self.ports[n].number;
        let written = regs::default_queue_pointers(number).write.read(&self.bar);
        self.ports[n].rx.set_written(written);
        if self.ports[n].rx.is_ready() && self.ports[n].armed {
            self.ports[n].armed = false;
            self.enable(1, cause::received(number), false);
        }
        if self.reclaim(n) {
            self.stop_asking(n);
        }
        self.publish();
        self.watch(n)
    }

    /// Reads and acknowledges what is pending besides frames.
    fn handle_causes(&mut self, n: usize) -> Result<(), Trouble> {
        let port = &mut self.ports[n];
        let number = port.number;
        let (faults, events) = (regs::int_status(0), regs::int_status(4));
        let pending = faults.read(&self.bar);
        if pending == u32::MAX && !init::is_there(&self.bar) {
            return Err(Trouble::Gone);
        }
        let lost = events.read(&self.bar) & cause::rx_overrun(number);
        if lost != 0 {
            events.ack(&self.bar, lost);
            port.counters.rx_over_errors += 1;
        }
        let sent = pending & cause::sent(number);
        let (rx, tx) = (pending & cause::rx_fault(number), pending & cause::tx_fault(number));
        if port.asks_sent && sent != 0 || rx | tx != 0 {
            faults.ack(&self.bar, sent | rx | tx);
        }
        if rx | tx == 0 {
            return Ok(());
        }
        self.counters.dma_faults += 1;
        Err(if tx != 0 { Trouble::TransmitFault } else { Trouble::ReceiveFault })
    }

    /// Takes sent buffers home. True: there were some.
    pub(crate) fn reclaim(&mut self, n: usize) -> bool {
        let Block { bar, dma, ports, now_us, .. } = self;
        let port = &mut ports[n];
        if port.tx.len() == 0 {
            return false;
        }
        let read = regs::sw_txq(port.number, 0).read.read(bar);
        let mut some = false;
        loop {
            match port.tx.is_past(read) {
                Ok(true) => {}
                Ok(false) => break,
                Err(()) => {
                    port.counters.tx_pointer_errors += 1;
                    break;
                }
            }
            if !port.tx.is_written_back() {
                let since = *port.status_since_us.get_or_insert(*now_us);
                if now_us.saturating_sub(since) < STATUS_US {
                    return some;
                }
                port.counters.tx_no_status += 1;
            }
            port.status_since_us = None;
            let Some(sent) = port.tx.take(dma) else { break };
            if sent.ok {
                port.counters.tx_packets += 1;
                port.counters.tx_bytes += sent.buffer.len() as u64;
            } else {
                port.counters.tx_errors += 1;
            }
            port.pool.put_back(sent.buffer);
            some = true;
        }
        if some {
            port.progress_us = *now_us;
            port.tx_watch = HangWatch { seen: 0, at_us: *now_us + BUSY_LOOK_US };
        }
        some
    }

    /// After a reset: what was being sent is given up.
    pub(crate) fn drop_oldest(&mut self, n: usize) {
        let Block { dma, ports, .. } = self;
        let port = &mut ports[n];
        if let Some(sent) = port.tx.take(dma) {
            port.counters.tx_errors += 1;
            port.counters.tx_dropped += 1;
            port.pool.put_back(sent.buffer);
        }
    }

    /// Looks for hangs, and at the link.
    fn watch(&mut self, n: usize) -> Result<(), Trouble> {
        let now = self.now_us;
        let Block { bar, ports, free, .. } = self;
        let port = &mut ports[n];
        if port.rx.is_confused(free.count()) {
            port.counters.rx_confused += 1;
            return Err(Trouble::Confused);
        }
        if !port.is_sending() {
            port.progress_us = now;
        } else if now.saturating_sub(port.progress_us) >= WATCHDOG_US {
            port.counters.tx_timeouts += 1;
            return Err(Trouble::TransmitTimeout);
        } else if now >= port.tx_watch.at_us {
            let signature = regs::tx_state(port.number).read(bar) & 0x000f_ffff == 0x0003_4012;
            if port.tx_watch.note(signature, now, BUSY_LOOK_US) {
                port.counters.tx_hangs += 1;
                return Err(Trouble::TransmitHang);
            }
        }
        if now >= port.rx_watch.at_us {
            let signature = regs::rx_state(port.number).read(bar) & 0x00df_f000 == 0x004b_2000;
            let received = port.counters.rx_packets + port.counters.rx_errors;
            let hangs = signature && port.rx_hang_at != Some(received);
            if port.rx_watch.note(hangs, now, LOOK_US) {
                port.counters.rx_hangs += 1;
                port.rx_hang_at = Some(received);
                return Err(Trouble::ReceiveHang);
            }
            if !hangs {
                self.look_at_link(n);
            }
        }
        Ok(())
    }

    /// Shows the card which descriptors were read, and then which buffers are free again: in this order the
    /// queue has room for each of them.
    fn publish(&mut self) {
        let Block { bar, ports, free, .. } = self;
        for port in ports.iter_mut() {
            // Of both: the buffers of one may come back among the other's.
            if let Some(read) = port.rx.take_unpublished() {
                regs::default_queue_pointers(port.number).read.write(bar, read);
            }
        }
        init::publish_free(bar, free);
    }

    /// The next received frame.
    pub(crate) fn receive(&mut self, n: usize) -> Option<Frame> {
        let Block { dma, free, ports, .. } = self;
        let port = &mut ports[n];
        let mut frame = port.rx.next(dma, free, &mut port.counters)?;
        if let Some(switch) = &mut port.switch {
            port.counters.rx_untagged += u64::from(!switch.untag(&mut frame.buffer));
        }
        Some(frame)
    }

    /// Gives a buffer back.
    pub(crate) fn recycle(&mut self, number: u32, buffer: Buffer) {
        self.free.give(&self.dma, number, buffer);
        if self.free.unpublished() >= PUBLISH && self.broken_until_us.is_none() {
            self.publish();
        }
    }

    /// Queues a frame for the next doorbell.
    pub(crate) fn queue(&mut self, n: usize, mut buffer: Buffer, request: &TransmitRequest) {
        let Block { dma, ports, now_us, .. } = self;
        let port = &mut ports[n];
        let mut request = *request;
        if let Some(switch) = &port.switch {
            switch.tag(&mut buffer);
            request.shape = Switch::tagged(&request.shape);
        }
        let cut = request.shape.segment.is_some();
        let headers = if cut { request.shape.tcp_payload_offset().unwrap_or(0) } else { 0 };
        let pieces = if cut { 2 } else { 1 };
        let Some(words) = transmit_words(&request, pieces) else {
            port.counters.tx_errors += 1;
            port.counters.tx_dropped += 1;
            return port.pool.put_back(buffer);
        };
        if port.tx.len() == 0 {
            port.progress_us = *now_us;
            port.tx_watch = HangWatch { seen: 0, at_us: *now_us + BUSY_LOOK_US };
        }
        port.counters.tx_tso += u64::from(cut);
        port.counters.tx_csum += u64::from(request.transport_checksum);
        port.counters.tx_bypass += u64::from(words.is_bypass());
        port.counters.tx_descriptors += u64::from(port.tx.provide(dma, buffer, words, headers));
        port.queued = true;
    }

    /// Tells the card of queued frames; `anew`: of all there are.
    pub(crate) fn ring_doorbell(&mut self, n: usize, anew: bool) {
        let Block { bar, ports, broken_until_us, .. } = self;
        let port = &mut ports[n];
        let queued = core::mem::take(&mut port.queued) || anew && port.tx.len() > 0;
        if queued && broken_until_us.is_none() && !port.halted {
            regs::sw_txq(port.number, 0).write.write(bar, port.tx.settled_tail());
        }
    }

    /// No frame interrupts.
    pub(crate) fn mask(&mut self, n: usize) {
        let number = self.ports[n].number;
        self.ports[n].armed = false;
        self.enable(1, cause::received(number), false);
        self.stop_asking(n);
    }

    fn stop_asking(&mut self, n: usize) {
        let number = self.ports[n].number;
        if core::mem::take(&mut self.ports[n].asks_sent) {
            self.enable(0, cause::sent(number), false);
        }
    }

    /// Lets frames interrupt. True: there is something already.
    pub(crate) fn arm(&mut self, n: usize) -> bool {
        self.publish();
        let number = self.ports[n].number;
        let mut pending = self.ports[n].rx.is_ready();
        if !pending && !self.ports[n].armed {
            // First the acknowledgement, then the pointer: what comes in between is seen by one of them.
            // [GM 5.7]
            regs::int_status(1).ack(&self.bar, cause::received(number));
            self.enable(1, cause::received(number), true);
            self.ports[n].armed = true;
            let written = regs::default_queue_pointers(number).write.read(&self.bar);
            self.ports[n].rx.set_written(written);
            pending = self.ports[n].rx.is_ready();
        }
        if !pending && self.ports[n].is_tight() && !self.ports[n].asks_sent {
            regs::int_status(0).ack(&self.bar, cause::sent(number));
            self.enable(0, cause::sent(number), true);
            self.ports[n].asks_sent = true;
            pending = self.reclaim(n);
        }
        if pending {
            self.mask(n);
        }
        pending
    }
}

//! The block: registers, resets, interrupt lines, and the carrier it sits on.

use crate::board::Board;
use crate::faults::Faults;
use crate::gpio::Gpio;
use crate::interrupts::{Cause, Interrupts};
use crate::mib::Mib;
use crate::port::Port;
use crate::regs::{self, Config0, DmaCtrl, Offset, dma, gmac};
use crate::stats::{Counters, PortCounters};
use crate::syscon::Syscon;
use crate::{CARRIER_DEVICE, CARRIER_VENDOR};
use std::collections::VecDeque;
use std::time::Duration;
use trireme_vfio::{Bar, ConfigSpace, Context, Device};

/// Frames waiting to be taken at most; more are lost, as nobody listens.
const MAX_QUEUED: usize = 4096;
/// Bytes of BAR 0.
const WINDOW: u32 = 0x1_0000;

/// The Ethernet block of a Gemini, its pads and PHYs.
pub struct Gemini {
    pub(crate) faults: Faults,
    pub(crate) random: fastrand::Rng,
    pub(crate) mac: [u8; 6],
    /// Every register and RAM of BAR 0 that keeps what is written.
    pub(crate) file: Box<[u32]>,
    pub(crate) interrupts: Interrupts,
    pub(crate) ports: [Port; 2],
    pub(crate) syscon: Syscon,
    pub(crate) gpio: Gpio,
    pub(crate) board: Board,
    pub(crate) counters: Counters,
    next_flap: Duration,
    out: VecDeque<(usize, Vec<u8>)>,
}

impl Gemini {
    /// The block after power-up. `mac` is what the boot loader leaves in port 0's station address, and
    /// with its last bit turned, in port 1's.
    pub fn new(board: Board, mac: [u8; 6], faults: Faults, seed: u64) -> Gemini {
        let mut gemini = Gemini {
            faults,
            random: fastrand::Rng::with_seed(seed),
            mac,
            file: vec![0; WINDOW as usize / 4].into(),
            interrupts: Interrupts::default(),
            ports: Default::default(),
            syscon: Syscon::default(),
            gpio: Gpio::default(),
            board,
            counters: Counters::default(),
            next_flap: faults.link_flap,
            out: VecDeque::new(),
        };
        if faults.absent_phy {
            gemini.board.silence();
        }
        for port in 0..2 {
            gemini.reset_port(port);
        }
        gemini
    }

    /// What the model saw.
    pub fn counters(&self) -> Counters {
        self.counters
    }

    /// The fault switches, to turn them at run time.
    pub fn faults_mut(&mut self) -> &mut Faults {
        &mut self.faults
    }

    /// The board around it, to pull and plug cables.
    pub fn board_mut(&mut self) -> &mut Board {
        &mut self.board
    }

    /// Levels of INT0 and INT1, which the SoC has on lines 1 and 2.
    pub fn lines(&self) -> [bool; 2] {
        self.interrupts.lines()
    }

    pub(crate) fn word(&self, offset: Offset) -> u32 {
        self.file[usize::from(offset / 4)]
    }

    pub(crate) fn set_word(&mut self, offset: Offset, value: u32) {
        self.file[usize::from(offset / 4)] = value;
    }

    /// A register of a port's DMA window.
    pub(crate) fn dma(&self, port: usize, offset: Offset) -> u32 {
        self.word(dma_offset(port, offset))
    }

    /// A register of a port's GMAC window.
    pub(crate) fn gmac(&self, port: usize, offset: Offset) -> u32 {
        self.word(dma_offset(port, gmac::WINDOW + offset))
    }

    pub(crate) fn config0(&self, port: usize) -> Config0 {
        Config0::from_bits_retain(self.gmac(port, gmac::CONFIG0))
    }

    pub(crate) fn dma_ctrl(&self, port: usize) -> DmaCtrl {
        DmaCtrl::from_bits_retain(self.dma(port, dma::DMA_CTRL))
    }

    pub(crate) fn count(&mut self, port: usize) -> &mut PortCounters {
        &mut self.counters.port[port]
    }

    pub(crate) fn count_mib(&mut self, port: usize, which: Mib) {
        if self.ports[port].mib.count(which, self.faults.narrow_mib) {
            self.interrupts.raise(Cause::MibHalfFull(port));
        }
    }

    /// Megabits per second the port is set to. \[4.4\]
    pub(crate) fn speed(&self, port: usize) -> u32 {
        match self.gmac(port, gmac::STATUS) >> 1 & 3 {
            0 => 10,
            1 => 100,
            _ => 1000,
        }
    }

    /// The MAC talks to its PHY, or to the wire if the link is fixed: clocked, and at its speed.
    pub(crate) fn connected(&self, port: usize) -> bool {
        self.syscon.clocked(port) && self.board.carries(port, self.speed(port))
    }

    pub(crate) fn raise(&mut self, cause: Cause) {
        self.interrupts.raise(cause);
    }

    /// A frame leaves the MAC of `port`.
    pub(crate) fn send(&mut self, port: usize, mut frame: Vec<u8>) {
        // The MAC pads and appends the FCS (section 12, 15).
        if frame.len() < 60 {
            frame.resize(60, 0);
        }
        let count = self.count(port);
        count.tx_frames += 1;
        count.tx_bytes += frame.len() as u64;
        if !self.connected(port) {
            return;
        }
        for (wire, frame) in self.board.transmit(port, frame) {
            self.queue(wire, frame);
        }
    }

    fn queue(&mut self, wire: usize, frame: Vec<u8>) {
        if self.out.len() < MAX_QUEUED {
            self.out.push_back((wire, frame));
        }
    }

    /// What a port's SOFT_RESET bit does, by the reading a driver has to live with: everything of the
    /// port and everything shared is lost. \[6.4\]
    pub(crate) fn reset_port(&mut self, port: usize) {
        let start = usize::from(dma_offset(port, 0) / 4);
        self.file[start..start + usize::from(regs::PORT_STRIDE / 4)].fill(0);
        self.ports[port] = Port::default();
        let disabled = Config0::DIS_TX | Config0::DIS_RX;
        self.set_word(dma_offset(port, gmac::WINDOW + gmac::CONFIG0), disabled.bits());
        let mut mac = self.mac;
        mac[5] ^= port as u8;
        let [a, b, c, d, e, f] = mac;
        let station = dma_offset(port, gmac::WINDOW + gmac::STA_ADD);
        self.set_word(station, u32::from_le_bytes([a, b, c, d]));
        self.set_word(station + 4, u32::from_le_bytes([e, f, 0, 0]));
        if !self.faults.reset_keeps_toe {
            self.file[..usize::from(regs::PORTS / 4)].fill(0);
            self.interrupts = Interrupts::default();
        }
    }

    fn flap(&mut self, now: Duration) {
        if !self.faults.link_flap.is_zero() && now >= self.next_flap {
            self.next_flap = now + self.faults.link_flap;
            self.board.flap();
        }
        for port in 0..2 {
            self.follow_link(port);
        }
    }

    /// RGMII in-band status: STATUS follows the PHY. \[7\]
    fn follow_link(&mut self, port: usize) {
        if !self.config0(port).contains(Config0::IN_BAND) {
            return;
        }
        let Some((up, speed, full)) = self.board.in_band(port) else { return };
        let offset = dma_offset(port, gmac::WINDOW + gmac::STATUS);
        let old = self.word(offset);
        let speed = [10, 100, 1000].iter().position(|&s| s == speed).unwrap_or(0) as u32;
        let new = old & !0xf | u32::from(up) | speed << 1 | u32::from(full) << 3;
        if new != old {
            self.set_word(offset, new);
            self.raise(Cause::StatusChange(port));
        }
    }
}

/// Offset in BAR 0 of an offset in a port's DMA window.
pub(crate) const fn dma_offset(port: usize, offset: Offset) -> Offset {
    regs::PORTS + regs::PORT_STRIDE * port as Offset + offset
}

impl Device for Gemini {
    fn config_space(&self) -> ConfigSpace {
        ConfigSpace::new(CARRIER_VENDOR, CARRIER_DEVICE, 0x02_0000, 0)
            .with_subsystem(CARRIER_VENDOR, self.board.kind() as u16)
            .with_bar(0, Bar::Memory { size: WINDOW })
            .with_bar(1, Bar::Memory { size: 0x1000 })
            .with_bar(2, Bar::Memory { size: 0x1000 })
    }

    fn read(&mut self, bar: usize, offset: u64, data: &mut [u8], _: Context<'_>) {
        self.load_bytes(bar, offset as u16, data);
    }

    fn write(&mut self, bar: usize, offset: u64, data: &[u8], context: Context<'_>) {
        self.flush_late(context);
        self.store_bytes(bar, offset as u16, data);
        for port in 0..2 {
            self.transmit(port, context);
        }
    }

    fn receive(&mut self, frame: &[u8], context: Context<'_>) {
        self.receive_on(0, frame, context);
    }

    fn receive_on(&mut self, wire: usize, frame: &[u8], context: Context<'_>) {
        let mine = self.board.receive(wire, frame);
        for (wire, frame) in self.board.take_between() {
            self.queue(wire, frame);
        }
        if let Some((port, frame)) = mine {
            self.receive_frame(port, frame, context);
        }
    }

    fn advance(&mut self, context: Context<'_>) -> Option<Duration> {
        self.flush_late(context);
        self.flap(context.now);
        for port in 0..2 {
            self.transmit(port, context);
        }
        let flap = (!self.faults.link_flap.is_zero()).then_some(self.next_flap);
        let late = self.ports.iter().any(|port| port.late.is_some()).then_some(context.now);
        [flap, late, self.ports[0].again, self.ports[1].again].into_iter().flatten().min()
    }

    fn take_frame(&mut self) -> Option<Vec<u8>> {
        self.take_frame_for().map(|(_, frame)| frame)
    }

    fn take_frame_for(&mut self) -> Option<(usize, Vec<u8>)> {
        self.out.pop_front()
    }

    fn interrupt(&self) -> bool {
        self.lines() != [false; 2]
    }

    fn reset(&mut self) {
        let seed = self.random.u64(..);
        let counters = self.counters;
        *self = Gemini::new(self.board.reset(), self.mac, self.faults, seed);
        self.counters = counters;
    }
}

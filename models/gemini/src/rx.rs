//! Receive DMA (docs/hardware/gemini.md 5.3 to 5.7, 9): filter, checksums, buffers from the shared free
//! queue, descriptors to the port's default queue.

use crate::access::Ring;
use crate::device::Gemini;
use crate::faults::strikes;
use crate::filter::{self, Class};
use crate::interrupts::Cause;
use crate::mib::Mib;
use crate::packet::{self, Found, TCP, UDP};
use crate::regs::{self, Config0, DmaCtrl, RxFilter, descriptor, gmac};
use trireme_vfio::Context;

/// Status codes. \[5.5\]
const GOOD: u32 = 0;
const TOO_LONG: u32 = 1;
const RUNT: u32 = 2;
const CRC: u32 = 4;
/// Shortest frame, in bytes without FCS.
const MIN: usize = 60;
/// E8: so many runts in a row are too many.
const STORM: u32 = 10;

/// The verdict of the checksum engine: code, and word 3's offsets and flags. \[5.3, 5.6\]
fn verdict(frame: &[u8], config: Config0) -> (u32, u32) {
    let packet = match packet::find(frame) {
        Found::Other => return (2, 0),
        // 4 is "IP error, type unknown".
        Found::Malformed if config.intersects(Config0::IPV4_CHECKSUM | Config0::IPV6_CHECKSUM) => {
            return (4, 0);
        }
        Found::Malformed => return (2, 0),
        Found::Ip(packet) => packet,
    };
    let l7 = match packet.protocol {
        TCP => frame.get(packet.l4 + 12).map_or(0, |&at| packet.l4 + usize::from(at >> 4) * 4),
        UDP => packet.l4 + 8,
        _ => 0,
    };
    let l7 = if packet.later_fragment { 0 } else { l7 };
    let byte = |at: usize| u32::from(u8::try_from(at).unwrap_or(0));
    let mut word3 = byte(packet.l3) | byte(packet.l4) << 8 | byte(l7) << 16;
    if packet.options {
        word3 |= descriptor::IP_OPTION;
    }
    let checked = match packet.version {
        4 => config.contains(Config0::IPV4_CHECKSUM),
        _ => config.contains(Config0::IPV6_CHECKSUM),
    };
    let code = if !checked {
        2
    } else if !packet.header_ok(frame) {
        5
    } else if packet.end.is_none() {
        4
    } else if packet.fragment {
        1
    } else {
        // Other protocols have code 1; so, here, has UDP without a checksum (section 12, 21).
        packet.transport_ok(frame).map_or(1, |ok| if ok { 0 } else { 6 })
    };
    (code, word3)
}

/// Where a frame is put, found before anything is written.
struct Places {
    /// The free queue's and the default queue's rings, and where they stand.
    free: Ring,
    free_read: u16,
    queue: Ring,
    queue_write: u16,
    /// Bytes in a buffer, and buffers.
    size: usize,
    count: usize,
}

impl Gemini {
    /// Entries in the software free queue; `None`: there is no queue.
    pub(crate) fn free_buffers(&self) -> Option<u32> {
        let ring = Ring::new(self.word(regs::SW_FREEQ_BASE_SIZE))?;
        let (read, write) = self.pointers(regs::SWFQ_RWPTR);
        Some(ring.used(read, write).into())
    }

    /// Bytes put before a frame.
    fn insert(&self, port: usize) -> usize {
        (self.dma_ctrl(port).bits() >> 16 & 3) as usize
    }

    fn find_places(&self, port: usize, len: usize) -> Option<Places> {
        let free = Ring::new(self.word(regs::SW_FREEQ_BASE_SIZE))?;
        let header = regs::default_queue(port);
        let queue = Ring::new(self.word(header))?;
        let size = (self.word(regs::DMA_SKB_SIZE) & 0xffff) as usize;
        if size <= self.insert(port) {
            return None;
        }
        let count = (len + self.insert(port)).div_ceil(size).max(1);
        let (free_read, free_write) = self.pointers(regs::SWFQ_RWPTR);
        let (queue_read, queue_write) = self.pointers(header + 4);
        // One slot of the queue always stays unused. [5.1]
        let room = queue.mask - queue.used(queue_read, queue_write);
        let fits = count <= descriptor::MAX_COUNT
            && count <= usize::from(free.used(free_read, free_write))
            && count <= usize::from(room);
        fits.then_some(Places { free, free_read, queue, queue_write, size, count })
    }

    /// A frame from the wire, or from the own transmitter in loopback.
    pub(crate) fn receive_frame(&mut self, port: usize, mut frame: Vec<u8>, context: Context<'_>) {
        let config = self.config0(port);
        let looped = config.contains(Config0::LOOP_BACK);
        let hears = self.dma_ctrl(port).contains(DmaCtrl::RX_ENABLE)
            && !config.contains(Config0::DIS_RX)
            && self.syscon.clocked(port)
            && (looped || self.connected(port))
            && !self.ports[port].rx_hung;
        if !hears {
            self.count(port).rx_deaf += 1;
            return;
        }
        if strikes(&mut self.random, self.faults.rx_hang) {
            return self.deafen(port);
        }
        // The peer's MAC padded it.
        if frame.len() < MIN {
            frame.resize(MIN, 0);
        }
        let status = self.status(&mut frame, config);
        if status == RUNT {
            self.ports[port].runts += 1;
            if self.faults.runt_storm && self.ports[port].runts >= STORM {
                return self.deafen(port);
            }
        } else {
            self.ports[port].runts = 0;
        }
        if status == GOOD && self.take_pause(port, &frame, context) {
            return;
        }
        let Some(&to) = frame.first_chunk::<6>() else { return };
        let filter = RxFilter::from_bits_retain(self.gmac(port, gmac::RX_FLTR));
        let hash = [0, 4].map(|at| self.gmac(port, gmac::MCAST_FIL + at));
        let class = filter::classify(&to, &self.stations(port));
        if !filter::passes(filter, hash, &to, class) {
            self.count(port).rx_filtered += 1;
            return;
        }
        if status != GOOD {
            self.count(port).rx_errors += 1;
            self.count_mib(port, Mib::Errors);
            if !filter.contains(RxFilter::ERROR) {
                return;
            }
        } else {
            match class {
                Class::Station1 => self.count_mib(port, Mib::Station1),
                Class::Station2 => self.count_mib(port, Mib::Station2),
                Class::Broadcast => self.count_mib(port, Mib::Broadcast),
                Class::Multicast => self.count_mib(port, Mib::Multicast),
                Class::Other => {}
            }
        }
        if config.contains(Config0::STRIP_VLAN) && frame.get(12..14) == Some(&[0x81, 0]) {
            frame.drain(12..16.min(frame.len()));
        }
        let places = self.find_places(port, frame.len());
        match places {
            Some(places) if !strikes(&mut self.random, self.faults.rx_overrun) => {
                self.deliver(port, &frame, status, places, context);
            }
            // No partial frames, and no retry: good frames are lost. [9, 8 and 9]
            _ => {
                self.count(port).rx_discards += 1;
                self.count_mib(port, Mib::Discards);
                self.raise(Cause::RxOverrun(port));
            }
        }
        self.check_free_queue();
    }

    fn deafen(&mut self, port: usize) {
        self.ports[port].rx_hung = true;
        self.count(port).rx_hangs += 1;
    }

    /// What the MAC thinks of a frame, and what the wire did to it.
    fn status(&mut self, frame: &mut Vec<u8>, config: Config0) -> u32 {
        if strikes(&mut self.random, self.faults.rx_runt) {
            frame.truncate(self.random.usize(14..MIN));
            return RUNT;
        }
        let crc = strikes(&mut self.random, self.faults.rx_crc);
        if crc && let Some(at) = frame.len().checked_sub(1) {
            frame[self.random.usize(14..=at)] ^= 1 << self.random.u32(0..8);
        }
        let long = frame.len() + 4 > config.max_len();
        if long {
            frame.truncate(config.max_len() - 4);
        }
        match (long, crc) {
            (false, false) => GOOD,
            (false, true) => CRC,
            (true, false) => TOO_LONG,
            (true, true) => TOO_LONG + CRC,
        }
    }

    /// Writes data, then descriptors, then moves the free queue's pointer, then the queue's. \[9, 6\]
    fn deliver(
        &mut self,
        port: usize,
        frame: &[u8],
        status: u32,
        places: Places,
        context: Context<'_>,
    ) {
        let (code, offsets) = verdict(frame, self.config0(port));
        let memory = context.memory;
        let insert = self.insert(port);
        // Junk before the frame, so that nobody relies on it. [9]
        let mut bytes = vec![0; insert];
        bytes.iter_mut().for_each(|byte| *byte = self.random.u8(..));
        bytes.extend_from_slice(frame);

        let mut free = Vec::with_capacity(places.count);
        for i in 0..places.count {
            let at = places.free.slot(places.free_read.wrapping_add(i as u16));
            let mut words = [0; 16];
            if memory.read(at, &mut words).is_err() {
                self.count(port).dma_errors += 1;
                return self.raise(Cause::RxDerr(port));
            }
            let word = |i: usize| u32::from_le_bytes([0, 1, 2, 3].map(|b| words[4 * i + b]));
            free.push((word(2), word(1) & 0xffff_0000));
        }
        let mut word0 = places.size as u32
            | (places.count as u32) << descriptor::COUNT_SHIFT
            | status << descriptor::STATUS_SHIFT
            | code << descriptor::CHECKSUM_SHIFT;
        let written = bytes.chunks(places.size).zip(&free);
        let failed = written.fold(false, |failed, (part, (address, _))| {
            memory.write((*address).into(), part).is_err() || failed
        });
        if failed || strikes(&mut self.random, self.faults.rx_derr) {
            self.count(port).dma_errors += 1;
            self.raise(Cause::RxDerr(port));
            word0 |= descriptor::DERR;
        }
        if strikes(&mut self.random, self.faults.rx_perr) {
            self.raise(Cause::RxPerr(port));
            word0 |= descriptor::PERR;
        }
        let null = strikes(&mut self.random, self.faults.rx_null);
        for (i, &(address, software_id)) in free.iter().enumerate() {
            let last = i + 1 == places.count;
            let mut word3 = offsets;
            word3 |= if i == 0 { descriptor::SOF } else { 0 };
            word3 |= if last { descriptor::EOF } else { 0 };
            let address = if null { 0 } else { address };
            let words = [word0, frame.len() as u32 | software_id, address, word3];
            let at = places.queue.slot(places.queue_write.wrapping_add(i as u16));
            let progress = [at as u32, at as u32, words[0], words[1], words[2], words[3]];
            self.ports[port].rx_progress = progress;
            let mut image = [0; 16];
            for (to, word) in image.chunks_exact_mut(4).zip(words) {
                to.copy_from_slice(&word.to_le_bytes());
            }
            if memory.write(at, &image).is_err() {
                self.count(port).dma_errors += 1;
                self.raise(Cause::RxDerr(port));
            }
        }
        let count = self.count(port);
        count.rx_frames += 1;
        count.rx_bytes += frame.len() as u64;
        count.rx_checksum_good += u64::from(code == 0);
        count.rx_checksum_bad += u64::from(code & 4 != 0);
        let moved =
            |pointer: u16, ring: Ring| pointer.wrapping_add(places.count as u16) & ring.mask;
        self.set_read_pointer(regs::SWFQ_RWPTR, moved(places.free_read, places.free));
        let header = regs::default_queue(port) + 4;
        self.set_write_pointer(header, moved(places.queue_write, places.queue));
        self.raise(Cause::Received(port));
    }
}

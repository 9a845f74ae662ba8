//! The receive engine: from the wire through filter and checksum engine into the ring.

use crate::checksum::{self, Ipv4, TCP, UDP};
use crate::device::Rhine;
use crate::faults::strikes;
use crate::filter::address_match;
use crate::regs::{self, Cause, Cr1, Rcr, Rdes0, Rdes1, Tcr};
use crate::stats::Mib;
use trireme_vfio::{Context, DmaError};

/// Shortest frame on an Ethernet, without FCS.
const MIN_FRAME: usize = 60;
/// Longest frame with FCS that is not LONG. VIA's own driver suggests it is 2 KiB; not established.
const MAX_FRAME: usize = 2048;
/// Descriptors a frame may span.
const MAX_PIECES: usize = 64;
/// Descriptors E19 fills at most.
const MAX_WEDGED: usize = 256;

/// A receive descriptor the engine is about to use.
struct Piece {
    at: u32,
    control: u32,
    buffer: u32,
    size: usize,
    next: u32,
}

/// A frame on its way into the ring.
struct Arrival {
    /// Frame with FCS, as it lands in the buffer.
    bytes: Vec<u8>,
    /// Length the descriptor tells.
    len: usize,
    status: Rdes0,
    found: Rdes1,
}

impl Rhine {
    /// A frame without FCS arrives from the PHY, or from the transmitter in loopback.
    pub(crate) fn receive_frame(&mut self, frame: &[u8], context: Context<'_>) {
        if !self.receives() || self.rx_wedged {
            return;
        }
        let mut frame = frame.to_vec();
        // The sender's MAC padded it, or it would not be on the wire.
        frame.resize(frame.len().max(MIN_FRAME), 0);
        if self.pauses(&frame, context) {
            return;
        }
        let Some(mut status) = self.filter(&frame) else {
            self.counters.rx_filtered += 1;
            return;
        };
        // The signature is descriptors written: without one there is nothing to strike with. (sheet E19)
        if strikes(&mut self.random, self.faults.rx_wedge)
            && matches!(self.descriptor(self.rx_pointer & !15, context), Ok(Some(_)))
        {
            return self.wedge(context);
        }
        if strikes(&mut self.random, self.faults.rx_overflow) {
            self.missed(Cause::OVFI | Cause::PKTRA | Cause::RU);
            return;
        }
        status |= self.damage(&mut frame);
        let rcr = self.rcr();
        if status.contains(Rdes0::RERR) {
            self.count_error(status);
            let wanted = rcr.contains(Rcr::SEP)
                || rcr.contains(Rcr::AR)
                    && status.contains(Rdes0::RUNT)
                    && !status.contains(Rdes0::CRC);
            if !wanted {
                return;
            }
        } else {
            status |= Rdes0::RXOK;
        }
        let arrival = self.examine(frame, status);
        match self.deliver(&arrival, context) {
            Ok(true) => {
                self.counters.rx_frames += 1;
                self.flow.buffer_used();
                let failed = arrival.status.contains(Rdes0::RERR);
                self.raise(if failed { Cause::RXE } else { Cause::PRX });
                if let Some(pause) = self.flow.pause_to_send(&self.station()) {
                    self.statistics.count(Mib::TxPause);
                    self.send(pause);
                }
            }
            Ok(false) => {
                self.statistics.count(Mib::RxNoBuffer);
                self.missed(Cause::RU | Cause::NORBF);
            }
            Err(_) => {
                self.bus_error();
            }
        }
    }

    fn missed(&mut self, cause: Cause) {
        self.counters.rx_missed += 1;
        if self.statistics.missed() {
            self.raise(Cause::CNT);
        }
        self.raise(cause);
    }

    /// MAC control frames that are obeyed end here.
    fn pauses(&mut self, frame: &[u8], context: Context<'_>) -> bool {
        let full_duplex = self.cr1().contains(Cr1::FDX);
        let enabled = match self.chip.has_flow_control() {
            true => self.flow.obeys(),
            false => {
                let misc = self.file[usize::from(regs::MISC_CR0)];
                self.chip.has_power_management() && misc & regs::FDXRFEN != 0
            }
        };
        let (fast, _) = self.mii.phy.mode();
        let obeys = enabled && full_duplex;
        let pause = self.flow.receive(frame, obeys, context.now, fast);
        if pause {
            self.statistics.count(Mib::RxPause);
        }
        pause && obeys
    }

    fn filter(&self, frame: &[u8]) -> Option<Rdes0> {
        let disabled = self.chip.can_disable_unicast() && self.cr1().contains(Cr1::ETEN);
        let destination = frame.first_chunk()?;
        let (rcr, hash) = (self.rcr(), self.hash());
        let station = self.station();
        let mut status = address_match(destination, &station, rcr, hash, &self.cam, disabled)?;
        if let (true, Some(id)) = (self.chip.has_management(), vlan_id(frame)) {
            let hit = self.cam.has_vlan(id);
            if self.vlan_filter_on() && !hit {
                return None;
            }
            status.set(Rdes0::VIDHIT, hit);
        }
        Some(status)
    }

    /// What the wire did to the frame: injected, or its length.
    fn damage(&mut self, frame: &mut Vec<u8>) -> Rdes0 {
        let mut status = Rdes0::empty();
        if strikes(&mut self.random, self.faults.rx_crc) {
            status |= Rdes0::CRC | Rdes0::RERR;
        }
        if strikes(&mut self.random, self.faults.rx_runt) {
            frame.truncate(self.random.usize(14..MIN_FRAME));
            status |= Rdes0::RUNT | Rdes0::RERR;
        }
        if frame.len() + 4 > MAX_FRAME {
            frame.truncate(MAX_FRAME - 4);
            status |= Rdes0::LONG | Rdes0::RERR;
        }
        status
    }

    fn count_error(&mut self, status: Rdes0) {
        self.counters.rx_errors += 1;
        self.statistics.count(Mib::RxErrors);
        if status.contains(Rdes0::CRC) && self.statistics.crc() {
            self.raise(Cause::CNT);
        }
        if status.contains(Rdes0::FAE) {
            self.statistics.count(Mib::RxAlignment);
        }
        if status.contains(Rdes0::LONG) {
            self.statistics.count(Mib::RxTooLong);
        }
    }

    /// VLAN stripping and the receive checksum engine, both the VT6105M's.
    fn examine(&mut self, mut frame: Vec<u8>, mut status: Rdes0) -> Arrival {
        let mut fcs = checksum::fcs(&frame);
        if status.contains(Rdes0::CRC) {
            fcs[0] ^= 0xff;
        }
        let mut found = Rdes1::empty();
        let mut tag = None;
        if self.chip.has_management() {
            if self.tcr().contains(Tcr::PQEN) && vlan_id(&frame).is_some() {
                tag = Some(frame.drain(12..16).collect::<Vec<u8>>());
                found |= Rdes1::TAG;
            }
            if let Some(ip) = Ipv4::find(&frame) {
                found |= self.verify(&frame, &ip);
                status.set(Rdes0::FRAG, ip.fragment);
            }
        }
        frame.extend(fcs);
        let mut len = frame.len();
        if let Some(tag) = tag {
            // Stored behind the FCS on the next multiple of four; the length does not count it.
            frame.resize(len.next_multiple_of(4), 0);
            frame.extend(tag);
        }
        if strikes(&mut self.random, self.faults.rx_bad_length) {
            len = self.random.usize(0..2048);
        }
        Arrival { bytes: frame, len, status, found }
    }

    fn verify(&self, frame: &[u8], ip: &Ipv4) -> Rdes1 {
        let (lies, bad) = (self.faults.rx_checksum_lies, self.faults.rx_checksum_bad);
        let mut found = Rdes1::IPKT;
        found.set(Rdes1::IPOK, (ip.header_ok(frame) || lies) && !bad);
        if ip.fragment {
            return found;
        }
        found.set(Rdes1::TCPKT, ip.protocol == TCP);
        found.set(Rdes1::UDPKT, ip.protocol == UDP);
        let Some(field) = ip.checksum_field() else { return found };
        // A UDP checksum of zero says there is none; what the bit is then is not established.
        let absent = ip.protocol == UDP && frame[field..field + 2] == [0, 0];
        let good = ip.transport_ok(frame) && !absent || lies;
        found.set(Rdes1::TUOK, good && !bad);
        found
    }

    fn descriptor(&mut self, at: u32, context: Context<'_>) -> Result<Option<Piece>, DmaError> {
        let memory = context.memory;
        let word = |n: u64| memory.read32(u64::from(at) + 4 * n);
        let owner = word(0)?;
        if owner & Rdes0::OWN.bits() == 0 {
            return Ok(None);
        }
        let (control, buffer, next) = (word(1)?, word(2)?, word(3)?);
        if !self.chip.has_management() {
            // Copies of what is in work; the engine holds it with CHN set already.
            let image = [Rdes0::CHN.bits() | owner, control, buffer, next];
            for (i, word) in image.into_iter().enumerate() {
                let offset = usize::from(regs::RDES) + 4 * i;
                self.file[offset..offset + 4].copy_from_slice(&word.to_le_bytes());
            }
        }
        let size = (control & 0x7ff) as usize;
        Ok(Some(Piece { at, control, buffer: buffer & !3, size, next: next & !15 }))
    }

    /// Puts the frame into the ring. `Ok(false)`: no descriptors for it.
    fn deliver(&mut self, arrival: &Arrival, context: Context<'_>) -> Result<bool, DmaError> {
        let mut pieces: Vec<Piece> = Vec::new();
        let mut room = 0;
        let mut at = self.rx_pointer & !15;
        while room < arrival.bytes.len() {
            // A ring shorter than the frame would come round to a descriptor already used.
            if pieces.len() == MAX_PIECES || pieces.iter().any(|piece| piece.at == at) {
                return Ok(false);
            }
            let Some(piece) = self.descriptor(at, context)? else { return Ok(false) };
            if piece.size == 0 {
                return Ok(false);
            }
            room += piece.size;
            at = piece.next;
            pieces.push(piece);
            // The tag behind the FCS never makes a frame span buffers.
            if room >= arrival.len.min(arrival.bytes.len()) && arrival.found.contains(Rdes1::TAG) {
                break;
            }
        }
        let last = pieces.len() - 1;
        let mut rest = &arrival.bytes[..];
        for (i, piece) in pieces.iter().enumerate() {
            let (here, after) = rest.split_at(rest.len().min(piece.size));
            rest = after;
            context.memory.write(u64::from(piece.buffer), here)?;
            if self.chip.has_management() {
                let control = piece.control & 0xffff | arrival.found.bits();
                context.memory.write32(u64::from(piece.at) + 4, control)?;
            }
            let mut status = arrival.status | Rdes0::CHN;
            status.set(Rdes0::STP, i == 0);
            status.set(Rdes0::EDP, i == last);
            // Ownership goes back with the length, in one word, last.
            let word = status.bits() | (arrival.len as u32 & 0x7ff) << 16;
            context.memory.write32(u64::from(piece.at), word)?;
            self.rx_pointer = piece.next;
        }
        Ok(true)
    }

    /// E19: the whole ring comes back as empty oversized frames, and that was that.
    fn wedge(&mut self, context: Context<'_>) {
        self.rx_wedged = true;
        let statuses = [0x0400u32, 0x0600, 0x0581];
        let mut at = self.rx_pointer & !15;
        for i in 0..MAX_WEDGED {
            let Ok(Some(piece)) = self.descriptor(at, context) else { break };
            if context.memory.write32(u64::from(at), statuses[i % 3]).is_err() {
                break;
            }
            at = piece.next;
        }
        self.raise(Cause::PRX | Cause::RXE);
    }
}

/// VLAN id of a frame with an 802.1Q tag.
fn vlan_id(frame: &[u8]) -> Option<u16> {
    let tag = frame.get(12..16)?;
    (tag[..2] == [0x81, 0x00]).then(|| u16::from_be_bytes([tag[2], tag[3]]) & 0xfff)
}

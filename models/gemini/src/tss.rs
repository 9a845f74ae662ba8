//! The transmit offload unit (docs/hardware/gemini.md 8): bypass, plain mode, MTU mode, with their traps.
//! Frames in, frames out; it knows no descriptors.

use crate::faults::Faults;
use crate::packet::{self, Found, Packet, TCP, UDP};
use crate::regs::{TxControl, descriptor};
use crate::stats::PortCounters;

/// Longest frame plain mode sends whole, in bytes without FCS. \[8.1\]
const PLAIN_MAX: usize = 1514;
/// Longest frame bypass is known to send. \[8.7\]
const BYPASS_MAX: usize = 2047;
/// Frames up to here have their IP length rewritten if IP_FIXED_LEN is not set. \[8.2\]
const SHORT: usize = 60;

/// What the descriptors said about a frame.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Request {
    /// Word 1.
    pub(crate) control: TxControl,
    /// Word 3.
    pub(crate) word3: u32,
    /// Descriptors.
    pub(crate) buffers: usize,
}

/// What became of it.
#[derive(Debug, Default)]
pub(crate) struct Output {
    /// For the MAC, in order.
    pub(crate) frames: Vec<Vec<u8>>,
    /// A plain-mode frame was longer than 1514 bytes.
    pub(crate) overlong: bool,
    /// TCP went through plain mode.
    pub(crate) tcp_plain: bool,
    /// The request makes no sense to the unit: nothing is sent.
    pub(crate) refused: bool,
}

/// Sends one frame or super-frame through the unit.
pub(crate) fn process(
    mut frame: Vec<u8>,
    request: Request,
    faults: &Faults,
    counters: &mut PortCounters,
) -> Output {
    let control = request.control;
    let mut output = Output::default();
    if control.contains(TxControl::BYPASS_TSS) {
        counters.tx_bypassed += 1;
        cut(&mut frame, BYPASS_MAX, counters);
        output.frames.push(frame);
        return output;
    }
    let found = match packet::find(&frame) {
        Found::Ip(packet) => Some(packet),
        Found::Other | Found::Malformed => None,
    };
    let tcp = found.is_some_and(|p| p.protocol == TCP && !p.fragment);
    if control.contains(TxControl::MTU_ENABLE) {
        let size = (request.word3 & descriptor::MTU_SIZE) as usize;
        // Older drivers thought the field wider; the bits are not there. [5.2]
        if request.word3 & 0x1800 != 0 {
            counters.tx_bad_mtu += 1;
        }
        if frame.len() > size {
            if let (Some(packet), true) = (found, tcp) {
                return segment(&frame, packet, size, request, counters);
            }
            // What the unit does here is not established (19).
            cut(&mut frame, size, counters);
        }
    } else {
        output.overlong = frame.len() > PLAIN_MAX;
        output.tcp_plain = tcp;
        counters.tx_tcp_plain += u64::from(tcp);
    }
    if let Some(mut packet) = found.filter(|packet| packet.l4 <= frame.len()) {
        let fixed = control.contains(TxControl::IP_FIXED_LEN);
        if frame.len() <= SHORT && !fixed {
            counters.tx_short_ip += 1;
            if faults.short_ip_length {
                let padded = SHORT.max(frame.len());
                frame.resize(padded, 0);
                packet.set_end(&mut frame, padded);
            }
        }
        fill(&mut frame, &packet, control, counters);
        if fixed && request.buffers > 1 {
            counters.tx_fixed_len += 1;
            spoil(&mut frame, &packet, control);
        }
    } else if control.intersects(CHECKSUMS) {
        counters.tx_unrecognised += 1;
    }
    if output.overlong {
        cut(&mut frame, PLAIN_MAX, counters);
    }
    output.frames.push(frame);
    output
}

const CHECKSUMS: TxControl =
    TxControl::IP_CHKSUM.union(TxControl::TCP_CHKSUM).union(TxControl::UDP_CHKSUM);

fn cut(frame: &mut Vec<u8>, to: usize, counters: &mut PortCounters) {
    if frame.len() > to {
        counters.tx_truncated += 1;
        frame.truncate(to);
    }
}

/// Fills in the checksums asked for.
fn fill(frame: &mut [u8], packet: &Packet, control: TxControl, counters: &mut PortCounters) {
    if control.contains(TxControl::IP_CHKSUM) {
        packet.fill_header(frame);
    }
    let wanted = match packet.protocol {
        TCP => control.contains(TxControl::TCP_CHKSUM),
        UDP => control.contains(TxControl::UDP_CHKSUM),
        // Checksum bits do no harm to other protocols. [8.1]
        _ => return,
    };
    if !wanted {
        return;
    }
    if packet.version == 6 && !control.contains(TxControl::IPV6_ENABLE) {
        counters.tx_unrecognised += 1;
        return;
    }
    // E6: into a fragment the unit writes all the same, over payload or from a part of the data (INF).
    counters.tx_udp_fragments += u64::from(packet.fragment);
    match packet.fill_transport(frame) {
        true => counters.tx_checksums += 1,
        false => counters.tx_unrecognised += 1,
    }
}

/// E4: the sum comes out wrong.
fn spoil(frame: &mut [u8], packet: &Packet, control: TxControl) {
    if let Some(field) = packet.checksum_field()
        && control.intersects(TxControl::TCP_CHKSUM)
        && packet.protocol == TCP
    {
        frame[field] ^= 0x40;
    }
}

/// Cuts a TCP super-frame into frames of `size` bytes, all headers counted. \[8.2, 8.4\]
fn segment(
    frame: &[u8],
    packet: Packet,
    size: usize,
    request: Request,
    counters: &mut PortCounters,
) -> Output {
    let refuse = |counters: &mut PortCounters| {
        counters.tx_bad_mtu += 1;
        Output { refused: true, ..Output::default() }
    };
    let Some(tcp) = frame.get(packet.l4..packet.l4 + 20) else { return refuse(counters) };
    let tcp_len = usize::from(tcp[12] >> 4) * 4;
    let headers = packet.l4 + tcp_len;
    if tcp_len < 20 || headers >= size || headers >= frame.len() {
        return refuse(counters);
    }
    let fixed = request.control.contains(TxControl::IP_FIXED_LEN);
    counters.tx_fixed_len += u64::from(fixed);
    counters.tx_super_frames += 1;
    let sequence = u32::from_be_bytes([tcp[4], tcp[5], tcp[6], tcp[7]]);
    let id = u16::from_be_bytes([frame[packet.l3 + 4], frame[packet.l3 + 5]]);
    let (header, payload) = frame.split_at(headers);
    let step = size - headers;
    let count = payload.len().div_ceil(step);
    let mut output = Output::default();
    for (i, part) in payload.chunks(step).enumerate() {
        let mut segment = [header, part].concat();
        let end = segment.len();
        let mut packet = Packet { end: Some(end), ..packet };
        if !fixed {
            packet.set_end(&mut segment, end);
        }
        if packet.version == 4 {
            // Counting up by one is assumed (17): the capture shows one id.
            let id = id.wrapping_add(i as u16);
            segment[packet.l3 + 4..packet.l3 + 6].copy_from_slice(&id.to_be_bytes());
        }
        let sequence = sequence.wrapping_add((i * step) as u32);
        segment[packet.l4 + 4..packet.l4 + 8].copy_from_slice(&sequence.to_be_bytes());
        // Not established (17); done as TCP needs it: FIN and PSH belong to the last byte, CWR to the
        // first segment (RFC 3168, 6.1.2).
        let flags = &mut segment[packet.l4 + 13];
        if i + 1 < count {
            *flags &= !0x09;
        }
        if i > 0 {
            *flags &= !0x80;
        }
        fill(&mut segment, &packet, request.control, counters);
        if fixed {
            spoil(&mut segment, &packet, request.control);
        }
        output.frames.push(segment);
    }
    counters.tx_segments += count as u64;
    output
}

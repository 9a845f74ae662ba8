//! Bring-up, in the order of [GM 6.1], and the settings of MAC and filter.

use crate::free::{FreeQueue, INSERT};
use crate::link;
use crate::regs::{self, Config0, DmaCtrl, GROUPS, RxFilter, cause};
use crc::{CRC_32_ISO_HDLC, Crc, NoTable};
use trireme_nic::{MacAddress, ReceiveFilter, Registers};
use trireme_phy::LinkState;
use trireme_registers::{Timeout, wait_until};

/// Bits of SOFT_RESET: both ports, and the second core, which must stay in reset. [GM 1.6]
const RESET: u32 = 0x60;
const RESET_CPU1: u32 = 1 << 30;
/// Bits of CLOCK_CONTROL that stop the ports' clocks.
const GATES: u32 = 0xc;
/// Linux waits up to so long after a reset. [GM 6.1 P4]
const RESET_US: u32 = 500;
/// Longest time until the bits of a reset have cleared themselves, and until the block says its version.
const READY_US: u32 = 10_000;
/// A frame under way is done by then. [GM 6.3]
pub(crate) const FINISH_US: u32 = 10_000;
/// Which causes come by INT1: those of port 1, and those of the free queues. [GM 6.1 P5]
const SELECT: [u32; GROUPS] = [0xccfc_0fc0, 0x00f0_0002, 0xffff_ffff, 0xffff_ffff, 0xff00_0003];
/// CONFIG1: of 32 steps of the FIFO, PAUSE above 16, none below 24. [GM 6.1 N1]
const CONFIG1: u32 = 0x0000_1810;
/// CONFIG2: PAUSE below 16 buffers, none above 32.
const CONFIG2: u32 = 0x0020_0010;
const AHB_WEIGHT: u32 = 0x000f_8421;
const TX_WEIGHT_HW: u32 = 0x0004_1041;
const TX_WEIGHT_SW: u32 = 0x0210_8421;

/// What a port is to be like.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Setting {
    pub(crate) address: MacAddress,
    pub(crate) filter: Filter,
    pub(crate) receive_checksums: bool,
    pub(crate) mtu: u16,
    /// Bytes of a switch's tag in each frame.
    pub(crate) tag: usize,
    pub(crate) link: LinkState,
}

/// What is received.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Filter {
    mode: RxFilter,
    hash: u64,
}

impl Filter {
    pub(crate) fn new(filter: ReceiveFilter<'_>) -> Filter {
        let own = RxFilter::UNICAST | RxFilter::MULTICAST | RxFilter::BROADCAST;
        match filter {
            ReceiveFilter::Multicast(groups) => Filter {
                mode: own,
                hash: groups.iter().fold(0, |hash, group| hash | 1 << hash_bit(group)),
            },
            ReceiveFilter::AllMulticast => Filter { mode: own, hash: !0 },
            ReceiveFilter::Promiscuous => Filter { mode: own | RxFilter::PROMISCUOUS, hash: !0 },
        }
    }
}

/// Low six bits of the Ethernet CRC over the address. [GM 7]
fn hash_bit(group: &MacAddress) -> u32 {
    const CRC: Crc<u32, NoTable> = Crc::<u32, NoTable>::new(&CRC_32_ISO_HDLC);
    CRC.checksum(group) & 0x3f
}

/// Code of the shortest limit that lets a packet of this MTU through, with Ethernet header, FCS and a tag.
/// [GM 4.5]
fn max_len(mtu: u16) -> u32 {
    match u32::from(mtu) + 14 + 4 + 4 {
        ..=1518 => 1,
        1519..=1522 => 2,
        1523..=1536 => 0,
        1537..=1548 => 3,
        _ => 4,
    }
}

impl Setting {
    /// CONFIG0 of a port at work; `kept` are its reserved bits. Without a link nothing is sent or received.
    fn config0(&self, kept: Config0) -> Config0 {
        let mut config = Config0::CHECK_QUEUES | Config0::RX_ERROR_DETECT | Config0::RGMII_EDGE;
        config |= Config0::from_bits_retain(max_len(self.mtu + self.tag as u16) << 8);
        config.set(Config0::IPV4_CHECKSUM | Config0::IPV6_CHECKSUM, self.receive_checksums);
        let pause = self.link.pause && self.link.link.full_duplex;
        config.set(Config0::RX_FLOW | Config0::TX_FLOW, pause);
        config.set(Config0::DIS_TX | Config0::DIS_RX, !self.link.link.up);
        config | kept & Config0::RESERVED
    }
}

/// Nothing in the block runs after this, and what it was told is lost: assume the worst. [GM 6.4, 6.5]
pub(crate) fn reset<R: Registers>(bar: &R, global: &R, delay: &dyn Fn(u32)) -> Result<(), Timeout> {
    regs::CLOCK_CONTROL.modify(global, |gates| gates & !GATES);
    for group in 0..GROUPS {
        regs::int_enable(group).write(bar, 0);
    }
    // A boot loader may have left it running.
    for port in 0..2 {
        silence(bar, port);
    }
    delay(FINISH_US);
    for port in 0..2 {
        stop_dma(bar, port);
    }
    regs::SOFT_RESET.write(global, RESET_CPU1 | RESET);
    delay(RESET_US);
    wait_until(delay, "reset of the ports", READY_US, || {
        regs::SOFT_RESET.read(global) & RESET == 0
    })?;
    wait_until(delay, "version of the block", READY_US, || regs::TOE_VERSION.read(bar) != 0)
}

/// Whether anybody answers at these addresses.
pub(crate) fn is_there<R: Registers>(bar: &R) -> bool {
    regs::TOE_VERSION.read(bar) != u32::MAX
}

/// The address a boot loader has left in a port, unless it is none.
pub(crate) fn read_address<R: Registers>(bar: &R, port: usize) -> Option<MacAddress> {
    let [a, b, c, d] = regs::sta_add(port, 0).read(bar).to_le_bytes();
    let [e, f, _, _] = regs::sta_add(port, 1).read(bar).to_le_bytes();
    let address = [a, b, c, d, e, f];
    (address != [0; 6] && a & 1 == 0).then_some(address)
}

/// What both ports share. With `both` in use causes are routed as the sheet has it, otherwise all come by
/// INT0. [GM 6.1 P5, O2; 6.5]
pub(crate) fn shared<R: Registers>(bar: &R, free: &mut FreeQueue, both: bool) {
    for (group, select) in SELECT.into_iter().enumerate() {
        regs::int_enable(group).write(bar, 0);
        regs::int_select(group).write(bar, if both { select } else { 0 });
        regs::int_status(group).ack(bar, u32::MAX);
    }
    regs::SW_FREEQ_BASE_SIZE.write(bar, 0);
    regs::HW_FREEQ_BASE_SIZE.write(bar, 0);
    regs::SWFQ.both.write(bar, 0);
    regs::HWFQ.both.write(bar, 0);
    for port in 0..2 {
        regs::default_queue(port).write(bar, 0);
        regs::default_queue_pointers(port).both.write(bar, 0);
    }
    // Should writing not move the card's half, the queue begins where that stands. [GM 5.1]
    free.rewind(regs::SWFQ.read.read(bar));
    publish_free(bar, free);
    regs::QUEUE_THRESHOLD.write(bar, 0);
    regs::DMA_SKB_SIZE.write(bar, free.buffer_size() as u32);
    regs::SW_FREEQ_BASE_SIZE.write(bar, free.base_and_order());
}

/// Shows the card every buffer it was given.
pub(crate) fn publish_free<R: Registers>(bar: &R, free: &mut FreeQueue) {
    if let Some(write) = free.take_unpublished() {
        regs::SWFQ.write.write(bar, write);
    }
}

/// A port, up to where DMA begins. Its rings' indices are returned: where the card reads transmit
/// descriptors, and writes receive descriptors. [GM 6.1 P6 to O4]
pub(crate) fn port<R: Registers>(
    bar: &R,
    port: usize,
    setting: &Setting,
    tx_base: u32,
    rx_base: u32,
) -> (u16, u16) {
    for counter in 0..6 {
        regs::mib(port, counter).read(bar);
    }
    write_address(bar, port, &setting.address);
    regs::status(port).write(bar, link::status(&setting.link));
    regs::config0(port).modify(bar, |old| setting.config0(old) | Config0::DIS_TX | Config0::DIS_RX);
    regs::config1(port).write(bar, CONFIG1);
    regs::config2(port).write(bar, CONFIG2);
    regs::config3(port).write(bar, 0);
    regs::ahb_weight(port).write(bar, AHB_WEIGHT);
    regs::tx_weight_hw(port).write(bar, TX_WEIGHT_HW);
    regs::tx_weight_sw(port).write(bar, TX_WEIGHT_SW);
    write_filter(bar, port, setting.filter);
    let received = regs::default_queue_pointers(port);
    regs::default_queue(port).write(bar, rx_base);
    received.both.write(bar, 0);
    received.read.write(bar, received.write.read(bar));
    regs::hw_txq_base(port).write(bar, 0);
    for queue in 0..6 {
        let pointers = regs::sw_txq(port, queue);
        pointers.both.write(bar, 0);
        pointers.write.write(bar, pointers.read.read(bar));
    }
    regs::sw_txq_base(port).write(bar, tx_base);
    (regs::sw_txq(port, 0).read.read(bar), received.write.read(bar))
}

/// Lets a port go. [GM 6.1 O5 to O7]
pub(crate) fn go<R: Registers>(bar: &R, port: usize, setting: &Setting) {
    const { assert!(INSERT == 2) }
    let control = DmaCtrl::RX_ENABLE | DmaCtrl::TX_ENABLE | DmaCtrl::INSERT_2 | DmaCtrl::BUS;
    regs::dma_ctrl(port).write(bar, control);
    regs::config0(port).modify(bar, |old| setting.config0(old));
}

/// Causes of a port that interrupt as long as it runs, by group. [GM 6.1 O6]
pub(crate) fn standing_causes(port: usize) -> [u32; GROUPS] {
    [cause::rx_fault(port) | cause::tx_fault(port), 0, 0, 0, cause::rx_overrun(port)]
}

/// The MAC sends and receives nothing more; a frame under way is finished.
pub(crate) fn silence<R: Registers>(bar: &R, port: usize) {
    regs::config0(port).modify(bar, |old| old | Config0::DIS_TX | Config0::DIS_RX);
}

/// No DMA any more.
pub(crate) fn stop_dma<R: Registers>(bar: &R, port: usize) {
    regs::dma_ctrl(port).modify(bar, |old| old - (DmaCtrl::RX_ENABLE | DmaCtrl::TX_ENABLE));
}

/// Has the MAC follow link and MTU: stopped, set, started. [GM 7]
pub(crate) fn change<R: Registers>(bar: &R, port: usize, setting: &Setting, delay: &dyn Fn(u32)) {
    silence(bar, port);
    delay(FINISH_US);
    regs::status(port).write(bar, link::status(&setting.link));
    write_config(bar, port, setting);
}

/// Writes what can change while frames pass.
pub(crate) fn write_config<R: Registers>(bar: &R, port: usize, setting: &Setting) {
    regs::config0(port).modify(bar, |old| setting.config0(old));
}

fn write_address<R: Registers>(bar: &R, port: usize, address: &MacAddress) {
    let [a, b, c, d, e, f] = *address;
    regs::sta_add(port, 0).write(bar, u32::from_le_bytes([a, b, c, d]));
    regs::sta_add(port, 1).write(bar, u32::from_le_bytes([e, f, 0, 0]));
    regs::sta_add(port, 2).write(bar, 0);
}

pub(crate) fn write_filter<R: Registers>(bar: &R, port: usize, filter: Filter) {
    for word in 0..2 {
        regs::mcast_fil(port, word).write(bar, (filter.hash >> (32 * word)) as u32);
    }
    regs::rx_fltr(port).write(bar, filter.mode);
}

#[cfg(test)]
mod tests {
    use super::*;
    use trireme_nic::Link;

    #[test]
    fn config0_is_linuxs_but_for_the_room_for_a_tag() {
        let link = Link { up: true, speed_mbps: 1000, full_duplex: true };
        let mut setting = Setting {
            address: [0; 6],
            filter: Filter::new(ReceiveFilter::Multicast(&[])),
            receive_checksums: true,
            mtu: 1500,
            tag: 0,
            link: LinkState { link, pause: false },
        };
        // [GM 6.1 N1, O7]: 3f960100 with code 1, which has none.
        let value = |setting: &Setting| setting.config0(Config0::empty()).bits();
        assert_eq!(value(&setting), 0x3f96_0200);
        setting.receive_checksums = false;
        assert_eq!(value(&setting), 0x3f90_0200);
        setting.link.pause = true;
        assert_eq!(value(&setting), 0x3f90_c200);
        setting.link.link.full_duplex = false;
        assert_eq!(value(&setting), 0x3f90_0200, "half duplex has no PAUSE");
        setting.link = LinkState::default();
        assert_eq!(value(&setting), 0x3f90_0203);
        assert_eq!(setting.config0(Config0::all()).bits(), 0xff90_0203, "reserved bits stay");
    }

    #[test]
    fn limits_are_those_of_the_sheet() {
        // [GM 4.5], for frames four bytes longer.
        for (mtu, code) in
            [(68, 1), (1496, 1), (1497, 2), (1500, 2), (1501, 0), (1514, 0), (1515, 3), (1526, 3)]
        {
            assert_eq!(max_len(mtu), code, "{mtu}");
        }
        assert_eq!(max_len(2029), 4);
    }

    #[test]
    fn groups_hash_as_the_frame_check_sequence_does() {
        // By Python's zlib.crc32, low six bits.
        assert_eq!(hash_bit(&[0x01, 0x00, 0x5e, 0x00, 0x00, 0x01]), 1);
        assert_eq!(hash_bit(&[0x33, 0x33, 0x00, 0x00, 0x00, 0x01]), 32);
        assert_eq!(hash_bit(&[0x01, 0x80, 0xc2, 0x00, 0x00, 0x00]), 25);
    }
}

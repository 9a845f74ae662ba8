//! The Ethernet block's 64 KiB (docs/hardware/gemini.md 3.1, 4): offsets, fields, and what an access does.
//!
//! Reset values are not known (section 12, 1): zero but for the version, and both directions disabled.

use bitflags::bitflags;

/// Offset of a 32-bit register in BAR 0.
pub type Offset = u16;

/// 3:0 revision, 15:4 device id. Drivers only want it not to be zero; the value is ours. \[4.1\]
pub const TOE_VERSION: Offset = 0x00;
/// What [`TOE_VERSION`] reads.
pub const VERSION: u32 = 0x0000_3516;
/// Ring of empty receive buffers, shared by both ports: 31:4 base, 3:0 order. \[4.1\]
pub const SW_FREEQ_BASE_SIZE: Offset = 0x04;
/// The same for hardware forwarding.
pub const HW_FREEQ_BASE_SIZE: Offset = 0x08;
/// 15:0 bytes in a buffer of the software free queue. \[4.1\]
pub const DMA_SKB_SIZE: Offset = 0x10;
/// 15:0 read (hardware), 31:16 write (software). \[5.1\]
pub const SWFQ_RWPTR: Offset = 0x14;
/// The same for the hardware free queue.
pub const HWFQ_RWPTR: Offset = 0x18;
/// First of five groups of status, enable and select, 16 bytes apart. \[4.1\]
pub const INTERRUPTS: Offset = 0x20;
/// Base of the hash table.
pub const HASH_TABLE_BASE: Offset = 0x6c;
/// 7:0 entries at or below which the software free queue counts as empty. \[4.1\]
pub const QUEUE_THRESHOLD: Offset = 0x70;
/// Headers of queues without TOE, 8 bytes each; the two default queues are the first. \[4.6\]
pub const QUEUE_HEADERS: Offset = 0x2000;
/// End of these.
pub const QUEUE_HEADERS_END: Offset = 0x20a0;
/// Headers of the TOE queues.
pub const TOE_HEADERS: Offset = 0x3000;
/// End of these.
pub const TOE_HEADERS_END: Offset = 0x3800;
/// V-bit and A-bit RAM.
pub const BIT_RAM: Offset = 0x4000;
/// Port 0's DMA window; everything from here on belongs to a port.
pub const PORTS: Offset = 0x8000;
/// Between the windows of port 0 and port 1.
pub const PORT_STRIDE: Offset = 0x4000;

/// Header of the default queue of a port: base and order.
pub const fn default_queue(port: usize) -> Offset {
    QUEUE_HEADERS + 8 * port as Offset
}

/// Offsets within a port's DMA window. \[4.3\]
pub mod dma {
    use super::Offset;
    /// Enables, bus parameters, insert bytes: [`super::DmaCtrl`].
    pub const DMA_CTRL: Offset = 0x00;
    /// Five bits for each of six software queues.
    pub const TX_WEIGHT_SW: Offset = 0x08;
    /// First of six software queue pointers.
    pub const SW_TXQ_PTR: Offset = 0x0c;
    /// First of four hardware queue pointers.
    pub const HW_TXQ_PTR: Offset = 0x24;
    /// Address of the first descriptor in progress; five more words on the transmitter follow.
    pub const TX_FIRST_DESC: Offset = 0x38;
    /// 31:4 base, 3:0 order of all six software rings.
    pub const SW_TXQ_BASE: Offset = 0x50;
    /// The same for the hardware queues.
    pub const HW_TXQ_BASE: Offset = 0x54;
    /// As [`TX_FIRST_DESC`], for the receiver.
    pub const RX_FIRST_DESC: Offset = 0x58;
    /// First of the hash and matching registers, which are storage here.
    pub const HASH_ENGINE: Offset = 0x70;
    /// Last register of the window.
    pub const AHB_WEIGHT: Offset = 0xc8;
}

/// Offsets within a port's GMAC window, which lies this far behind its DMA window. \[4.4\]
pub mod gmac {
    use super::Offset;
    /// From the DMA window to this one.
    pub const WINDOW: Offset = 0x2000;
    /// Station addresses: three words for two addresses.
    pub const STA_ADD: Offset = 0x00;
    /// [`super::RxFilter`].
    pub const RX_FLTR: Offset = 0x0c;
    /// Two words of multicast hash.
    pub const MCAST_FIL: Offset = 0x10;
    /// [`super::Config0`].
    pub const CONFIG0: Offset = 0x18;
    /// Flow control on the free queue: 15:0 set, 31:16 release, in free descriptors.
    pub const CONFIG2: Offset = 0x20;
    /// Flow control on the hardware free queue.
    pub const CONFIG3: Offset = 0x24;
    /// [`super::Status`].
    pub const STATUS: Offset = 0x2c;
    /// Six counters that a read clears.
    pub const MIB: Offset = 0x30;
    /// End of these.
    pub const MIB_END: Offset = 0x48;
    /// What the vendor's hang detector reads.
    pub const TX_STATE: Offset = 0x60;
    /// The same for the receiver.
    pub const RX_STATE: Offset = 0x64;
}

bitflags! {
    /// DMA_CTRL. \[4.3\]
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct DmaCtrl: u32 {
        /// Receive DMA.
        const RX_ENABLE = 1 << 31;
        /// Transmit DMA.
        const TX_ENABLE = 1 << 30;
        const _ = !0;
    }

    /// CONFIG0. \[4.5\]
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct Config0: u32 {
        /// Transmitter off.
        const DIS_TX = 1 << 0;
        /// Receiver off.
        const DIS_RX = 1 << 1;
        /// Frames sent are received.
        const LOOP_BACK = 1 << 2;
        /// Received PAUSE is obeyed.
        const RX_FLOW = 1 << 14;
        /// PAUSE is sent.
        const TX_FLOW = 1 << 15;
        /// STATUS follows the PHY.
        const IN_BAND = 1 << 16;
        /// Received IPv4 is checked.
        const IPV4_CHECKSUM = 1 << 17;
        /// Received IPv6 is checked.
        const IPV6_CHECKSUM = 1 << 18;
        /// 802.1Q tags are taken out.
        const STRIP_VLAN = 1 << 19;
        const _ = !0;
    }

    /// RX_FLTR. \[4.4\]
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct RxFilter: u32 {
        /// To a station address.
        const UNICAST = 1 << 0;
        /// Multicast that the hash passes.
        const MULTICAST = 1 << 1;
        /// Broadcast.
        const BROADCAST = 1 << 2;
        /// Everything.
        const PROMISCUOUS = 1 << 3;
        /// Frames with errors as well.
        const ERROR = 1 << 4;
        const _ = !0;
    }

    /// Word 1 of a transmit descriptor. \[5.2\]
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct TxControl: u32 {
        /// Cut to word 3's frame size.
        const MTU_ENABLE = 1 << 16;
        /// Fill in the IPv4 header checksum.
        const IP_CHKSUM = 1 << 17;
        /// Treat IPv6 as such.
        const IPV6_ENABLE = 1 << 18;
        /// Fill in TCP checksums.
        const TCP_CHKSUM = 1 << 19;
        /// Fill in UDP checksums.
        const UDP_CHKSUM = 1 << 20;
        /// Past the offload unit.
        const BYPASS_TSS = 1 << 21;
        /// Leave the IP length alone.
        const IP_FIXED_LEN = 1 << 22;
        const _ = !0;
    }
}

impl Config0 {
    /// Longest frame received, in bytes with the FCS (that it counts is not established). \[4.5\]
    pub fn max_len(self) -> usize {
        match self.bits() >> 8 & 7 {
            0 => 1536,
            2 => 1522,
            3 => 1548,
            4 => 9212,
            5 => 10236,
            _ => 1518,
        }
    }
}

/// Fields of descriptor words, transmit and receive. \[5.2, 5.3\]
pub mod descriptor {
    /// Word 0: desc_count, 21:16.
    pub const COUNT_SHIFT: u32 = 16;
    /// Most descriptors the count can say.
    pub const MAX_COUNT: usize = 63;
    /// Word 0 of a transmit descriptor: sent.
    pub const TX_OK: u32 = 1 << 22;
    /// Word 0 of a receive descriptor: frame status, 25:22.
    pub const STATUS_SHIFT: u32 = 22;
    /// Word 0 of a receive descriptor: checksum status, 28:26.
    pub const CHECKSUM_SHIFT: u32 = 26;
    /// Word 0: protocol error.
    pub const PERR: u32 = 1 << 29;
    /// Word 0: data error.
    pub const DERR: u32 = 1 << 30;
    /// Word 3: segmentation frame size, 11 bits.
    pub const MTU_SIZE: u32 = 0x7ff;
    /// Word 3 of a receive descriptor: IP option or extension header.
    pub const IP_OPTION: u32 = 1 << 26;
    /// Word 3: interrupt when the frame is done.
    pub const EOFIE: u32 = 1 << 29;
    /// Word 3: last of its frame.
    pub const EOF: u32 = 1 << 30;
    /// Word 3: first of its frame.
    pub const SOF: u32 = 1 << 31;
}

/// How a register takes accesses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Keeps what is written.
    Storage,
    /// Ignores writes.
    ReadOnly,
    /// Ones clear.
    Clears,
    /// Reading clears, writing is ignored.
    Counter,
    /// Two pointers: hardware moves the low one, software the high one by 16-bit writes. \[4.7\]
    Pointers,
    /// Two pointers that 16-bit writes reach either way. \[4.7\]
    HeaderPointers,
}

/// What lies at a word's offset; `None`: nothing that has a name.
pub(crate) fn kind(offset: Offset) -> Option<Kind> {
    if offset >= PORTS {
        return port_kind((offset - PORTS) % PORT_STRIDE);
    }
    Some(match offset {
        TOE_VERSION => Kind::ReadOnly,
        SW_FREEQ_BASE_SIZE | HW_FREEQ_BASE_SIZE | DMA_SKB_SIZE => Kind::Storage,
        SWFQ_RWPTR | HWFQ_RWPTR => Kind::Pointers,
        INTERRUPTS..0x6c => match offset & 0xc {
            0 => Kind::Clears,
            4 | 8 => Kind::Storage,
            _ => return None,
        },
        HASH_TABLE_BASE | QUEUE_THRESHOLD => Kind::Storage,
        QUEUE_HEADERS..QUEUE_HEADERS_END if offset & 4 != 0 => Kind::HeaderPointers,
        QUEUE_HEADERS..QUEUE_HEADERS_END => Kind::Storage,
        TOE_HEADERS..TOE_HEADERS_END | BIT_RAM..PORTS => Kind::Storage,
        _ => return None,
    })
}

fn port_kind(offset: Offset) -> Option<Kind> {
    Some(match offset {
        dma::DMA_CTRL | 0x04 | dma::TX_WEIGHT_SW => Kind::Storage,
        dma::SW_TXQ_PTR..0x34 => Kind::Pointers,
        dma::TX_FIRST_DESC..dma::SW_TXQ_BASE => Kind::ReadOnly,
        dma::SW_TXQ_BASE | dma::HW_TXQ_BASE => Kind::Storage,
        dma::RX_FIRST_DESC..dma::HASH_ENGINE => Kind::ReadOnly,
        dma::HASH_ENGINE..=dma::AHB_WEIGHT => Kind::Storage,
        gmac::WINDOW.. => match offset - gmac::WINDOW {
            gmac::STA_ADD..0x28 | gmac::STATUS => Kind::Storage,
            gmac::MIB..gmac::MIB_END => Kind::Counter,
            gmac::TX_STATE | gmac::RX_STATE => Kind::ReadOnly,
            _ => return None,
        },
        _ => return None,
    })
}

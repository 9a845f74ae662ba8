//! Registers, as far as this driver touches them. Offsets are those within the Ethernet block's 64 KiB
//! [GM 3.1, 4] and the global block [GM 1.6]. All are words; pointers are also reached by
//! halves, since the card moves one half while software moves the other. [GM 4.7]

use bitflags::bitflags;
use trireme_registers::{Reg, Ro, Rw, W1c, value};

/// 3:0 revision, 15:4 device id; not zero once the block is up.
pub(crate) const TOE_VERSION: Reg<u32, Ro> = Reg::at(0x00);
/// Ring of empty receive buffers, for both ports: 31:4 base, 3:0 order.
pub(crate) const SW_FREEQ_BASE_SIZE: Reg<u32, Rw> = Reg::at(0x04);
/// The same for hardware forwarding; unused.
pub(crate) const HW_FREEQ_BASE_SIZE: Reg<u32, Rw> = Reg::at(0x08);
/// Bytes in a buffer of the software free queue.
pub(crate) const DMA_SKB_SIZE: Reg<u32, Rw> = Reg::at(0x10);
pub(crate) const SWFQ: Pointers = Pointers::at(0x14);
pub(crate) const HWFQ: Pointers = Pointers::at(0x18);
/// 7:0 entries at or below which the free queue counts as empty.
pub(crate) const QUEUE_THRESHOLD: Reg<u32, Rw> = Reg::at(0x70);

/// Groups of interrupt causes.
pub(crate) const GROUPS: usize = 5;

/// Causes of a group that are pending, enabled or not.
pub(crate) const fn int_status(group: usize) -> Reg<u32, W1c> {
    Reg::at(0x20 + 16 * group)
}

/// Causes of a group that interrupt.
pub(crate) const fn int_enable(group: usize) -> Reg<u32, Rw> {
    Reg::at(0x24 + 16 * group)
}

/// Causes of a group that interrupt by INT1 instead of INT0.
pub(crate) const fn int_select(group: usize) -> Reg<u32, Rw> {
    Reg::at(0x28 + 16 * group)
}

/// Two indices into a ring in one register: 15:0 read, 31:16 write.
pub(crate) struct Pointers {
    /// Both.
    pub(crate) both: Reg<u32, Rw>,
    /// What the reader has taken.
    pub(crate) read: Reg<u16, Rw>,
    /// What the writer has put.
    pub(crate) write: Reg<u16, Rw>,
}

impl Pointers {
    const fn at(offset: usize) -> Pointers {
        Pointers { both: Reg::at(offset), read: Reg::at(offset), write: Reg::at(offset + 2) }
    }
}

/// Header of a port's default receive queue: base and order.
pub(crate) const fn default_queue(port: usize) -> Reg<u32, Rw> {
    Reg::at(0x2000 + 8 * port)
}

/// Its indices: the card writes, software reads.
pub(crate) const fn default_queue_pointers(port: usize) -> Pointers {
    Pointers::at(0x2004 + 8 * port)
}

const fn dma(port: usize, offset: usize) -> usize {
    0x8000 + 0x4000 * port + offset
}

pub(crate) const fn dma_ctrl(port: usize) -> Reg<DmaCtrl, Rw> {
    Reg::at(dma(port, 0x00))
}

/// Weights of the four hardware transmit queues.
pub(crate) const fn tx_weight_hw(port: usize) -> Reg<u32, Rw> {
    Reg::at(dma(port, 0x04))
}

/// Weights of the six software transmit queues.
pub(crate) const fn tx_weight_sw(port: usize) -> Reg<u32, Rw> {
    Reg::at(dma(port, 0x08))
}

/// Indices of a software transmit queue: software writes, the card reads.
pub(crate) const fn sw_txq(port: usize, queue: usize) -> Pointers {
    Pointers::at(dma(port, 0x0c + 4 * queue))
}

/// 31:4 base, 3:0 order of the six software rings, which follow each other.
pub(crate) const fn sw_txq_base(port: usize) -> Reg<u32, Rw> {
    Reg::at(dma(port, 0x50))
}

/// The same for hardware forwarding; unused.
pub(crate) const fn hw_txq_base(port: usize) -> Reg<u32, Rw> {
    Reg::at(dma(port, 0x54))
}

/// Shares of the bus.
pub(crate) const fn ahb_weight(port: usize) -> Reg<u32, Rw> {
    Reg::at(dma(port, 0xc8))
}

const fn gmac(port: usize, offset: usize) -> usize {
    dma(port, 0x2000 + offset)
}

/// Two station addresses in three words.
pub(crate) const fn sta_add(port: usize, word: usize) -> Reg<u32, Rw> {
    Reg::at(gmac(port, 4 * word))
}

pub(crate) const fn rx_fltr(port: usize) -> Reg<RxFilter, Rw> {
    Reg::at(gmac(port, 0x0c))
}

/// Hash of groups, 32 bits a word.
pub(crate) const fn mcast_fil(port: usize, word: usize) -> Reg<u32, Rw> {
    Reg::at(gmac(port, 0x10 + 4 * word))
}

pub(crate) const fn config0(port: usize) -> Reg<Config0, Rw> {
    Reg::at(gmac(port, 0x18))
}

/// Flow control by the receive FIFO: 7:0 set, 15:8 release.
pub(crate) const fn config1(port: usize) -> Reg<u32, Rw> {
    Reg::at(gmac(port, 0x1c))
}

/// Flow control by the free queue: 15:0 set, 31:16 release, in buffers.
pub(crate) const fn config2(port: usize) -> Reg<u32, Rw> {
    Reg::at(gmac(port, 0x20))
}

/// The same by the hardware free queue.
pub(crate) const fn config3(port: usize) -> Reg<u32, Rw> {
    Reg::at(gmac(port, 0x24))
}

/// What link and pins are like.
pub(crate) const fn status(port: usize) -> Reg<u32, Rw> {
    Reg::at(gmac(port, 0x2c))
}

/// Six counters that a read clears.
pub(crate) const fn mib(port: usize, counter: usize) -> Reg<u32, Ro> {
    Reg::at(gmac(port, 0x30 + 4 * counter))
}

/// State of the transmitter, known for its hang only. [GM E7]
pub(crate) const fn tx_state(port: usize) -> Reg<u32, Ro> {
    Reg::at(gmac(port, 0x60))
}

/// State of the receiver.
pub(crate) const fn rx_state(port: usize) -> Reg<u32, Ro> {
    Reg::at(gmac(port, 0x64))
}

/// Global block: a one resets what the bit stands for. [GM 1.6]
pub(crate) const SOFT_RESET: Reg<u32, Rw> = Reg::at(0x0c);
/// Global block: a one stops the clock of what the bit stands for.
pub(crate) const CLOCK_CONTROL: Reg<u32, Rw> = Reg::at(0x34);

bitflags! {
    /// DMA_CTRL. [GM 4.3]
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub(crate) struct DmaCtrl: u32 {
        const RX_ENABLE = 1 << 31;
        const TX_ENABLE = 1 << 30;
        /// Two bytes before each frame, so that what follows the Ethernet header is aligned.
        const INSERT_2 = 2 << 16;
        /// As Linux has them: receiving privileged and data, eight beats a burst both ways, transmitting data.
        const BUS = 0x3c1c;
    }

    /// CONFIG0. [GM 4.5]
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub(crate) struct Config0: u32 {
        const DIS_TX = 1 << 0;
        const DIS_RX = 1 << 1;
        /// Code of the longest frame received.
        const MAX_LEN = 7 << 8;
        /// Received PAUSE is obeyed.
        const RX_FLOW = 1 << 14;
        /// PAUSE is sent.
        const TX_FLOW = 1 << 15;
        const IPV4_CHECKSUM = 1 << 17;
        const IPV6_CHECKSUM = 1 << 18;
        const RGMII_EDGE = 1 << 20;
        /// Off by one, say VD's comments.
        const RX_ERROR_DETECT = 1 << 23;
        /// Queues of both ports are looked at for room.
        const CHECK_QUEUES = 0x3f << 24;
        /// To be kept.
        const RESERVED = 3 << 30;
    }

    /// RX_FLTR. Bit 4 would let frames with errors through; nobody wants them. [GM 4.4]
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub(crate) struct RxFilter: u32 {
        const UNICAST = 1 << 0;
        const MULTICAST = 1 << 1;
        const BROADCAST = 1 << 2;
        const PROMISCUOUS = 1 << 3;
    }
}

value!(DmaCtrl, Config0, RxFilter);

/// Interrupt causes of a port. [GM 4.2]
pub(crate) mod cause {
    /// Group 0: a frame of software queue 0 that asked for it has left, or the queue is empty.
    pub(crate) const fn sent(port: usize) -> u32 {
        1 << (6 * port) | 1 << (12 + 6 * port)
    }

    /// Group 0: a receive descriptor breaks the protocol, or receive DMA met a bus error.
    pub(crate) const fn rx_fault(port: usize) -> u32 {
        3 << (24 + 2 * port)
    }

    /// Group 0: the same for the transmitter.
    pub(crate) const fn tx_fault(port: usize) -> u32 {
        3 << (28 + 2 * port)
    }

    /// Group 1: a frame has come to the default queue.
    pub(crate) const fn received(port: usize) -> u32 {
        1 << port
    }

    /// Group 4: a frame was lost for want of buffers. [GM 11.2: not to be confused with RX DERR]
    pub(crate) const fn rx_overrun(port: usize) -> u32 {
        1 << (17 + 8 * port)
    }
}

//! The contract between a network card's driver and the network stack.
//!
//! A driver implements [`Nic`]; the stack knows nothing else of it. A driver reaches the outside
//! through two traits only, [`Registers`] and [`Dma`]: the kernel implements them on mapped memory,
//! tests implement them on a device model. This crate is not a driver framework: it holds the few
//! types both sides must agree on, and the arithmetic they share ([`checksum`]).
//!
//! The principles:
//! - **A buffer has one owner**, the CPU or the device, and changing hands is a call
//!   ([`Buffer::to_device`], [`DeviceBuffer::to_cpu`]) that does the cache maintenance. There is no
//!   way to read a buffer the device owns.
//! - **No allocation and no copy per packet.** The driver lends its own DMA buffers; a frame is
//!   written or read where the card reads or writes it.
//! - **What the card cannot do is known ahead of time**, by a pure function of the frame's shape
//!   ([`Nic::transmit_ability`]), which is where a card's errata live.
//! - **Lengths and indices from a device are hostile** until checked: an error and a counter.

#![cfg_attr(not(any(test, feature = "double")), no_std)]

extern crate alloc;

pub mod checksum;
mod counters;
mod dma;
#[cfg(any(test, feature = "double"))]
pub mod double;
mod feature;
mod frame;
mod pool;
mod ptp;
mod registers;

pub use dma::{Allocation, Buffer, Coherent, DeviceBuffer, Direction, Dma, DmaError};
pub use dma::{buffers_in_a_row, within_32_bits};
pub use feature::{Feature, FeatureError, FeatureState};
pub use frame::{FrameShape, Network, ReceiveChecksum, ReceivedFrame, Tci, Transport};
pub use frame::{TransmitAbility, TransmitRequest};
pub use pool::{PoolSize, TransmitBuffers};
pub use ptp::{Ptp, PtpError, PtpTime};
pub use registers::Registers;

/// A 48-bit IEEE 802 address, in wire order.
pub type MacAddress = [u8; 6];

/// What `ethtool ethN` shows of the link.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Link {
    /// Carrier present.
    pub up: bool,
    /// Mbit/s; 0 when unknown (a paravirtual card has no rate).
    pub speed_mbps: u32,
    /// Both directions at once.
    pub full_duplex: bool,
}

/// IEEE 802.3 flow control in use, as `ethtool -a ethN` shows it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Pause {
    /// Agreed upon with the peer by auto-negotiation.
    pub autonegotiate: bool,
    /// PAUSE frames received are obeyed.
    pub rx: bool,
    /// PAUSE frames are sent when the receive ring fills.
    pub tx: bool,
}

/// Why a card is stopped for good.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stop {
    /// The machine starts anew: the next driver is to find the card awake.
    Reboot,
    /// The machine is switched off: the card may sleep, and wake it if asked to.
    PowerOff,
}

/// What `ethtool -i ethN` shows, less the bus address, which only the kernel knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DriverInfo {
    /// Short name of the driver, as `ethtool` spells it (`virtio_net`, `via-rhine`, `ravb`, …).
    pub driver: &'static str,
    /// Chip variant or revision found, for people.
    pub chip: &'static str,
}

/// Which frames the card is to receive besides its own address and broadcast.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReceiveFilter<'a> {
    /// These multicast groups. A card may let more through (hash filters do); the stack checks.
    Multicast(&'a [MacAddress]),
    /// Every multicast frame.
    AllMulticast,
    /// Every frame on the wire.
    Promiscuous,
}

/// A network card, as the stack sees it.
///
/// The stack calls from one thread at a time, never from an interrupt. An interrupt only marks the
/// card; the stack then calls [`service`](Nic::service), [`receive`](Nic::receive) until `None`,
/// and [`arm`](Nic::arm) when it has nothing left to do.
pub trait Nic: Send {
    /// Name and variant.
    fn driver_info(&self) -> DriverInfo;

    /// The address frames are sent from.
    fn mac_address(&self) -> MacAddress;

    /// Link state as last seen by [`service`](Nic::service).
    fn link(&self) -> Link;

    /// Largest L2 payload in use, in bytes, as Linux counts an MTU (no Ethernet header, no FCS).
    fn mtu(&self) -> u16;

    /// Largest value [`set_mtu`](Nic::set_mtu) takes.
    fn max_mtu(&self) -> u16;

    /// Changes the MTU. The card may stop and restart its rings inside; frames may be lost, buffers
    /// not. Returns false, and changes nothing, if the card cannot.
    fn set_mtu(&mut self, mtu: u16) -> bool;

    /// Sets what is received besides unicast to us and broadcast.
    fn set_receive_filter(&mut self, filter: ReceiveFilter<'_>);

    /// Says of which VLANs frames are wanted, besides untagged ones and those tagged with id 0. A card
    /// may let more through; the stack checks.
    fn set_vlans(&mut self, _ids: &[u16]) {}

    /// Flow control in use. `None`: the card has none, or does not say.
    fn pause(&self) -> Option<Pause> {
        None
    }

    /// Is the card to switch the machine on for a magic packet? `None`: it cannot.
    fn wake_on_lan(&self) -> Option<bool> {
        None
    }

    /// Has the card wake the machine for a magic packet, or not, once it is off. False: it cannot.
    fn set_wake_on_lan(&mut self, _on: bool) -> bool {
        false
    }

    /// Stops the card for good: no DMA and no interrupt comes from it afterwards, and nothing but
    /// dropping it may follow.
    fn stop(&mut self, _why: Stop) {}

    /// Reads and acknowledges the card's interrupt causes, holds further interrupts back, takes sent
    /// buffers home, watches the link and does whatever recovery the card needs. `now_us` is a
    /// monotonic clock in microseconds: no driver reads time itself. Bounded work.
    fn service(&mut self, now_us: u64);

    /// Allows interrupts again. Returns true if work arrived in between: then nothing will interrupt
    /// for it, and the caller must look again before it sleeps.
    fn arm(&mut self) -> bool;

    /// When [`service`](Nic::service) wants to be called even without an interrupt (link poll,
    /// watchdog), in microseconds of the same clock; `None`: only on interrupts.
    fn service_at(&self) -> Option<u64> {
        None
    }

    /// The next received frame, in its own buffer, or `None`. The frame must come back through
    /// [`recycle`](Nic::recycle); frames are best recycled in the order they came.
    fn receive(&mut self) -> Option<ReceivedFrame>;

    /// Gives a received frame's buffer back to the card.
    fn recycle(&mut self, frame: ReceivedFrame);

    /// Lends a buffer with `len` bytes of room for a frame (Ethernet header included, FCS not), its
    /// window exactly `len` long, contents unspecified. `None`: the ring is full, try again after
    /// the next [`service`](Nic::service). A lent buffer is always transmittable: the driver
    /// keeps the descriptors for it. Up to [`max_segmented_frame`](Nic::max_segmented_frame) bytes
    /// may be asked for if that is larger than one frame, and always [`mtu`](Nic::mtu), an Ethernet header and
    /// four more, for a VLAN tag.
    fn transmit_buffer(&mut self, len: usize) -> Option<Buffer>;

    /// Queues a frame: the window of a buffer lent by [`transmit_buffer`](Nic::transmit_buffer), which
    /// may have been shortened. `request` must be one [`transmit_ability`](Nic::transmit_ability)
    /// agreed to. Checksum fields the card is to fill hold zero when the driver gets them; the driver
    /// writes whatever seed its card wants. The card may not see the frame before
    /// [`flush`](Nic::flush).
    fn transmit(&mut self, buffer: Buffer, request: &TransmitRequest);

    /// Takes a lent buffer back unsent.
    fn transmit_cancel(&mut self, buffer: Buffer);

    /// Rings the doorbell for everything queued since the last call. No-op if there is nothing.
    fn flush(&mut self);

    /// How many maximum-size single frames could be queued now; 0 is a full ring.
    fn transmit_room(&self) -> usize;

    /// What the card will do for a frame of this shape under the present feature settings: a pure
    /// function, no register access. Holds the card's errata.
    fn transmit_ability(&self, shape: &FrameShape) -> TransmitAbility;

    /// Longest frame (Ethernet header included) [`transmit`](Nic::transmit) takes when segmenting;
    /// `None` if the card never segments.
    fn max_segmented_frame(&self) -> Option<usize>;

    /// State of one feature.
    fn feature(&self, feature: Feature) -> FeatureState;

    /// Switches a feature at run time. A driver that must stop its rings for it does so inside and
    /// loses no queued frame.
    fn set_feature(&mut self, feature: Feature, on: bool) -> Result<(), FeatureError>;

    /// Visits the card's private flags, as `ethtool --show-priv-flags` lists them.
    fn private_flags(&self, _visit: &mut dyn FnMut(&'static str, bool)) {}

    /// Switches a private flag. False: there is none of that name, or it cannot be switched.
    fn set_private_flag(&mut self, _name: &str, _on: bool) -> bool {
        false
    }

    /// The card's clock and its timestamps of frames, if it has any.
    fn ptp(&mut self) -> Option<&mut dyn Ptp> {
        None
    }

    /// Visits the card's and driver's counters, names as `ethtool -S` users expect them
    /// (`rx_packets`, `tx_errors`, `rx_csum_bad`, …).
    fn statistics(&self, visit: &mut dyn FnMut(&'static str, u64));
}

//! Bring-up, in the order of [VIRTIO 3.1.1].

use crate::control::Control;
use crate::features::{Features, choose};
use crate::queue::{Queue, RingMemory};
use crate::receive::{Layout, Receive};
use crate::transmit::Transmit;
use crate::{Config, Error, QUEUE_RECEIVE, QUEUE_TRANSMIT, RECEIVE_SIZE, TRANSMIT_SIZE};
use trireme_nic::{Dma, MacAddress};
use virtio_drivers::transport::{DeviceStatus, Transport};

/// Looks at the status register before a reset is given up.
const RESET_PATIENCE: usize = 20_000;
/// Smallest MTU to be taken from a device. [VIRTIO 5.1.4.1]
pub(crate) const MIN_MTU: u16 = 68;

// Device configuration. [VIRTIO 5.1.4]
const CONFIG_MAC: usize = 0;
const CONFIG_STATUS: usize = 6;
const CONFIG_MTU: usize = 10;
const STATUS_LINK_UP: u16 = 1;

/// Memory the device may reach as long as it runs.
pub(crate) struct Rings<H: RingMemory> {
    pub(crate) receive: Receive<H>,
    pub(crate) transmit: Transmit<H>,
    pub(crate) control: Option<Control<H>>,
}

/// A device between FEATURES_OK and DRIVER_OK.
pub(crate) struct SetUp<H: RingMemory> {
    pub(crate) features: Features,
    pub(crate) rings: Rings<H>,
    pub(crate) mac: MacAddress,
    pub(crate) mtu: u16,
    pub(crate) max_mtu: u16,
}

/// From the negotiation to the rings. The device has been reset.
pub(crate) fn set_up<H: RingMemory, T: Transport, D: Dma>(
    transport: &mut T,
    dma: &D,
    config: &Config,
) -> Result<SetUp<H>, Error> {
    // Sixteen buffers are the least to receive into without merging them.
    let big_buffers = config.receive_bytes >= 16 * 65536;
    let features = negotiate(transport, |offered| choose(offered, big_buffers))?;
    let word = |offset| transport.read_config_space::<u16>(offset).ok();
    let told_mtu =
        word(CONFIG_MTU).filter(|mtu| features.contains(Features::MTU) && *mtu >= MIN_MTU);
    let holds_long_frames =
        features.intersects(Features::MRG_RXBUF | Features::GUEST_TSO4 | Features::GUEST_TSO6);
    let max_mtu = told_mtu.unwrap_or(if holds_long_frames { u16::MAX } else { 1500 });
    let segments = features.intersects(Features::HOST_TSO4 | Features::HOST_TSO6);
    let layout = Layout::new(features, config.receive_bytes, max_mtu, dma.cache_line());
    let (receive_queue, transmit_queue) = new_queues(transport, features)?;
    let mut rings = Rings {
        receive: Receive::new(receive_queue, dma, layout, features)?,
        transmit: Transmit::new(
            transmit_queue,
            dma,
            config.transmit_bytes,
            segments || max_mtu > 1500,
        )?,
        control: None,
    };
    if features.contains(Features::CTRL_VQ) {
        rings.control = Some(Control::new(dma, transport, features)?);
    }
    log::debug!("virtio-net: {features:?}, {layout:?}");
    let mac = if features.contains(Features::MAC) { read_mac(transport) } else { None };
    Ok(SetUp {
        features,
        rings,
        mac: mac.unwrap_or(config.fallback_mac),
        mtu: told_mtu.unwrap_or(1500),
        max_mtu,
    })
}

/// Everything up to DRIVER_OK.
fn features_ok() -> DeviceStatus {
    DeviceStatus::ACKNOWLEDGE | DeviceStatus::DRIVER | DeviceStatus::FEATURES_OK
}

pub(crate) fn running() -> DeviceStatus {
    features_ok() | DeviceStatus::DRIVER_OK
}

/// Resets the device and waits until it says it has. [VIRTIO 4.1.4.3.2]
pub(crate) fn reset<T: Transport>(transport: &mut T) -> Result<(), Error> {
    transport.set_status(DeviceStatus::empty());
    for _ in 0..RESET_PATIENCE {
        if transport.get_status() == DeviceStatus::empty() {
            return Ok(());
        }
        core::hint::spin_loop();
    }
    Err(Error::ResetTimeout)
}

pub(crate) fn negotiate<T: Transport>(
    transport: &mut T,
    choose: impl FnOnce(Features) -> Features,
) -> Result<Features, Error> {
    transport.set_status(DeviceStatus::ACKNOWLEDGE);
    transport.set_status(DeviceStatus::ACKNOWLEDGE | DeviceStatus::DRIVER);
    let offered = Features::from_bits_truncate(transport.read_device_features());
    if transport.requires_legacy_layout() || !offered.contains(Features::VERSION_1) {
        return Err(Error::Legacy);
    }
    let features = choose(offered);
    transport.write_driver_features(features.bits());
    transport.set_status(features_ok());
    match transport.get_status().contains(DeviceStatus::FEATURES_OK) {
        true => Ok(features),
        false => Err(Error::FeaturesRefused { asked: features.bits() }),
    }
}

pub(crate) type Queues<H> = (Queue<H, RECEIVE_SIZE, true>, Queue<H, TRANSMIT_SIZE, false>);

pub(crate) fn new_queues<H: RingMemory, T: Transport>(
    transport: &mut T,
    features: Features,
) -> Result<Queues<H>, Error> {
    let event_index = features.contains(Features::EVENT_IDX);
    let receive = Queue::new(transport, QUEUE_RECEIVE, event_index)?;
    let transmit = Queue::new(transport, QUEUE_TRANSMIT, event_index)?;
    Ok((receive, transmit))
}

fn read_mac<T: Transport>(transport: &T) -> Option<MacAddress> {
    let mut mac = [0; 6];
    for (i, byte) in mac.iter_mut().enumerate() {
        *byte = transport.read_config_space(CONFIG_MAC + i).ok()?;
    }
    // A group address cannot be a sender.
    (mac[0] & 1 == 0 && mac != [0; 6]).then_some(mac)
}

/// Whether the link is up; `None`: the device does not say.
pub(crate) fn link_up<T: Transport>(transport: &T, features: Features) -> Option<bool> {
    if !features.contains(Features::STATUS) {
        return None;
    }
    let status = transport.read_config_space::<u16>(CONFIG_STATUS).ok()?;
    Some(status & STATUS_LINK_UP != 0)
}

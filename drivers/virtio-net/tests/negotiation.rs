//! Bring-up: every combination of features, refusals, configuration, run-time switching, reset.

mod common;
use common::*;
use std::num::NonZeroU16;
use trireme_nic::{
    Feature, FeatureError, FrameShape, Network, Nic, ReceiveChecksum, ReceiveFilter,
    TransmitRequest, Transport,
};
use trireme_virtio_net::Error;
use virtio_drivers::Error as VirtioError;

fn tcp_shape(len: usize, segment: Option<u16>) -> FrameShape {
    FrameShape {
        len,
        link_len: 14,
        tagged: false,
        network: Network::Ipv4 { header_len: 20, fragment: false },
        transport: Transport::Tcp { header_len: 20 },
        segment: segment.and_then(NonZeroU16::new),
    }
}

/// Traffic both ways with every set of offers; the device checks that nothing beyond it is asked.
#[test]
fn works_with_every_combination_of_offers() {
    let switches = [
        CSUM,
        HOST_TSO4 | HOST_TSO6,
        GUEST_CSUM,
        GUEST_TSO4 | GUEST_TSO6,
        MRG_RXBUF,
        CTRL_VQ | CTRL_RX | CTRL_GUEST_OFFLOADS,
        EVENT_IDX,
        MAC | STATUS | MTU,
    ];
    for set in 0u32..1 << switches.len() {
        let offered = switches
            .iter()
            .enumerate()
            .filter(|(i, _)| set & 1 << i != 0)
            .fold(VERSION_1, |all, (_, bits)| all | bits);
        let device = Device::new(offered);
        let mut driver = device.driver();
        let features = device.state().features;
        assert_eq!(features & !offered, 0);
        assert_eq!(driver.mac_address()[0], if offered & MAC != 0 { 0x52 } else { 2 });
        assert_eq!(driver.mtu(), if offered & MTU != 0 { 1400 } else { 1500 });

        let ability = driver.transmit_ability(&tcp_shape(4000, Some(1000)));
        assert_eq!(ability.transport_checksum, offered & CSUM != 0);
        assert_eq!(ability.segment, offered & CSUM != 0 && offered & HOST_TSO4 != 0);
        for round in 0..300u32 {
            let len = 64 + round as usize;
            let shape = tcp_shape(len, None);
            let mut buffer = driver.transmit_buffer(len).unwrap();
            buffer.fill(round as u8);
            let transport_checksum = driver.transmit_ability(&shape).transport_checksum;
            let request =
                TransmitRequest { shape, network_checksum: false, transport_checksum, tag: None };
            driver.transmit(buffer, &request);
            driver.flush();
            let sent = device.state().transmitted().remove(0);
            assert_eq!(sent[0], u8::from(offered & CSUM != 0));
            assert_eq!(sent.len(), 12 + len);

            // NEEDS_CSUM may come only if negotiated, merged frames likewise.
            let partial = u8::from(features & GUEST_CSUM != 0);
            let long = features & GUEST_TSO4 != 0 && round % 8 == 0;
            let frame = pattern(round as usize, if long { 20_000 } else { 60 + len % 1400 });
            let header = [partial, u8::from(long), 54, 0, 0xb4, 5, 34, 0, 16, 0, 0, 0];
            assert!(device.state().deliver(header, &frame), "set {set:#b}, round {round}");
            driver.service(0);
            let got = driver.receive().unwrap();
            assert!(*got.buffer == *frame);
            let said = match partial {
                1 => ReceiveChecksum::Partial,
                _ => ReceiveChecksum::Unverified,
            };
            assert_eq!(got.checksum, said);
            driver.recycle(got);
            driver.arm();
        }
        drop(driver);
        assert_eq!(device.state().status, 0, "drop resets");
    }
}

#[test]
fn what_cannot_be_used_is_refused_with_a_reason() {
    let error = |device: &Device| device.driver_with(&CONFIG).err().unwrap();
    let device = Device::new(EVERYTHING & !VERSION_1);
    assert_eq!(error(&device), Error::Legacy);
    assert_eq!(device.state().status & 128, 128, "told that we gave up");
    let device = Device::new(EVERYTHING);
    device.state().legacy = true;
    assert_eq!(error(&device), Error::Legacy);
    let device = Device::new(EVERYTHING);
    device.state().ignores_reset = true;
    device.state().status = 4;
    assert_eq!(error(&device), Error::ResetTimeout);
    let device = Device::new(VERSION_1 | CSUM);
    device.state().refuses_features = true;
    assert_eq!(error(&device), Error::FeaturesRefused { asked: VERSION_1 | CSUM });
    let device = Device::new(EVERYTHING);
    device.state().max_queue = 128;
    assert_eq!(error(&device), Error::Queue(VirtioError::InvalidParam));
    for bytes in [0, 4096, 9000, 20_000, 150_000, 300_000, 400_000] {
        let device = Device::new(EVERYTHING);
        device.memory().limit(bytes);
        match error(&device) {
            Error::Memory(_) | Error::Queue(VirtioError::DmaError) => {}
            other => panic!("{other} with {bytes} bytes"),
        }
    }
}

#[test]
fn odd_configuration_is_not_believed() {
    let device = Device::new(EVERYTHING);
    device.state().config[0] = 0x53;
    device.state().config[10..12].copy_from_slice(&20u16.to_le_bytes());
    let driver = device.driver();
    assert_eq!(driver.mac_address(), CONFIG.fallback_mac, "a group address is no sender");
    assert_eq!((driver.mtu(), driver.max_mtu()), (1500, 65535));
    let device = Device::new(EVERYTHING);
    device.state().config.clear();
    let driver = device.driver();
    assert_eq!(driver.mac_address(), CONFIG.fallback_mac);
    assert!(driver.link().up);
}

#[test]
fn mtu_stays_in_bounds() {
    let device = Device::new(EVERYTHING);
    let mut driver = device.driver();
    assert_eq!((driver.mtu(), driver.max_mtu()), (1400, 1400));
    assert!(driver.set_mtu(1280) && !driver.set_mtu(1401) && !driver.set_mtu(67));
    assert_eq!(driver.mtu(), 1280);
    let device = Device::new(VERSION_1);
    assert_eq!(device.driver().max_mtu(), 1500, "buffers were posted for that");
}

#[test]
fn link_follows_the_configuration_interrupt() {
    let device = Device::new(EVERYTHING);
    let mut driver = device.driver();
    assert!(driver.link().up);
    device.state().config[6] = 0;
    driver.service(0);
    assert!(driver.link().up, "no interrupt, no look");
    device.state().isr = 2;
    driver.service(1);
    assert!(!driver.link().up);
}

fn settle(driver: &mut Driver) {
    for now in 0..10 {
        driver.service(now);
    }
}

#[test]
fn filters_reach_the_device_by_the_standards_commands() {
    let device = Device::new(EVERYTHING);
    let mut driver = device.driver();
    settle(&mut driver);
    // [VIRTIO 5.1.6.5.1, 5.1.6.5.2]: two empty tables, all-multicast off, promiscuous off: what is let
    // through is narrowed last.
    let table = [&[1u8, 0][..], &[0; 8]].concat();
    assert_eq!(device.state().commands, [table, vec![0, 1, 0], vec![0, 0, 0]]);
    device.state().commands.clear();
    let group = [1, 0, 0x5e, 0, 0, 0xfb];
    driver.set_receive_filter(ReceiveFilter::Multicast(&[group]));
    assert!(driver.service_at().is_some());
    settle(&mut driver);
    assert_eq!(driver.service_at(), None);
    let table = [&[1u8, 0, 0, 0, 0, 0, 1, 0, 0, 0][..], &group].concat();
    assert_eq!(device.state().commands, [table], "only what changed");
    driver.set_receive_filter(ReceiveFilter::Multicast(&[group]));
    settle(&mut driver);
    assert_eq!(device.state().commands.len(), 1, "nothing changed");
    driver.set_receive_filter(ReceiveFilter::Promiscuous);
    settle(&mut driver);
    assert!(device.state().commands.contains(&vec![0, 0, 1]));
    device.state().commands.clear();
    driver.set_receive_filter(ReceiveFilter::Multicast(&[group; 65]));
    settle(&mut driver);
    assert!(device.state().commands.contains(&vec![0, 1, 1]), "too many groups: all of them");
}

#[test]
fn silent_control_queue_costs_nothing_but_the_filter() {
    let device = Device::new(EVERYTHING);
    device.state().answer = None;
    let mut driver = device.driver();
    settle(&mut driver);
    assert_eq!(counter(&driver, "ctrl_commands"), 1);
    assert_eq!(driver.set_feature(Feature::LargeReceiveOffload, false), Err(FeatureError::Timeout));
    assert!(driver.feature(Feature::LargeReceiveOffload).on);
    assert_eq!(counter(&driver, "ctrl_timeouts"), 1);
    assert!(device.state().deliver([0; 12], &[1; 64]));
    assert!(driver.receive().is_some());
}

#[test]
fn receive_offloads_are_switched_by_command() {
    let device = Device::new(EVERYTHING);
    let mut driver = device.driver();
    settle(&mut driver);
    let last = |device: &Device| device.state().commands.last().unwrap().clone();
    let command = |bits: u64| [&[5u8, 0][..], &bits.to_le_bytes()].concat();
    let ecn = 1 << 9;
    driver.set_feature(Feature::LargeReceiveOffload, false).unwrap();
    assert_eq!(last(&device), command(GUEST_CSUM));
    driver.set_feature(Feature::RxChecksumming, false).unwrap();
    assert_eq!(last(&device), command(0));
    assert_eq!(
        driver.set_feature(Feature::LargeReceiveOffload, true),
        Err(FeatureError::Requires(Feature::RxChecksumming))
    );
    driver.set_feature(Feature::RxChecksumming, true).unwrap();
    assert_eq!(last(&device), command(GUEST_CSUM));
    driver.set_feature(Feature::LargeReceiveOffload, true).unwrap();
    assert_eq!(last(&device), command(GUEST_CSUM | GUEST_TSO4 | GUEST_TSO6 | ecn));
    // Merging follows the checksums off and on again.
    driver.set_feature(Feature::RxChecksumming, false).unwrap();
    assert!(!driver.feature(Feature::LargeReceiveOffload).on);
    driver.set_feature(Feature::RxChecksumming, true).unwrap();
    assert!(driver.feature(Feature::LargeReceiveOffload).on);
    device.state().answer = Some(1);
    assert_eq!(driver.set_feature(Feature::RxChecksumming, false), Err(FeatureError::Timeout));
    assert!(driver.feature(Feature::RxChecksumming).on, "refused by the device");
}

#[test]
fn transmit_offloads_are_switched_in_the_driver() {
    let device = Device::new(EVERYTHING);
    let mut driver = device.driver();
    let shape = tcp_shape(4000, Some(1000));
    driver.set_feature(Feature::TcpSegmentationOffload, false).unwrap();
    let ability = driver.transmit_ability(&shape);
    assert!(ability.transport_checksum && !ability.segment);
    assert!(driver.feature(Feature::Tcp6Segmentation).on);
    driver.set_feature(Feature::TxChecksumming, false).unwrap();
    assert_eq!(driver.transmit_ability(&shape), Default::default());
    assert!(!driver.feature(Feature::Tcp6Segmentation).on);
    assert_eq!(
        driver.set_feature(Feature::TcpSegmentationOffload, true),
        Err(FeatureError::Requires(Feature::TxChecksumming))
    );
    driver.set_feature(Feature::TxChecksumming, true).unwrap();
    driver.set_feature(Feature::TcpSegmentationOffload, true).unwrap();
    assert!(driver.transmit_ability(&shape).segment);
    assert_eq!(driver.set_feature(Feature::ScatterGather, true), Err(FeatureError::Fixed));

    let device = Device::new(VERSION_1);
    let mut driver = device.driver();
    for feature in Feature::ALL {
        let state = driver.feature(feature);
        assert!(state.fixed && !state.on, "{feature:?}");
        assert_eq!(driver.set_feature(feature, true), Err(FeatureError::Fixed));
    }
}

#[test]
fn a_device_that_cannot_be_stopped_keeps_its_rings() {
    let device = Device::new(EVERYTHING);
    let driver = device.driver();
    device.state().ignores_reset = true;
    // `TestHal` would panic if ring memory was freed.
    drop(driver);
    assert_ne!(device.state().status, 0);
}

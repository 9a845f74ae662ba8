//! The receive ring against the device double.

mod common;
use common::*;
use std::num::NonZeroU16;
use trireme_nic::{Nic, ReceiveChecksum};

const PLAIN: [u8; 12] = [0; 12];

#[test]
fn frame_arrives_as_the_device_wrote_it() {
    let device = Device::new(EVERYTHING);
    let mut driver = device.driver();
    let sent = pattern(1, 60);
    assert!(device.state().deliver(PLAIN, &sent));
    driver.service(0);
    let frame = driver.receive().unwrap();
    assert_eq!(*frame.buffer, *sent);
    assert_eq!(frame.checksum, ReceiveChecksum::Unverified);
    assert!(driver.receive().is_none());
    driver.recycle(frame);
}

#[test]
fn checksum_and_segment_are_passed_on() {
    let device = Device::new(EVERYTHING);
    let mut driver = device.driver();
    let merged = [1, 1, 54, 0, 0xb4, 5, 34, 0, 16, 0, 0, 0];
    assert!(device.state().deliver(merged, &pattern(2, 9000)));
    assert!(device.state().deliver([2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0], &pattern(3, 100)));
    let first = driver.receive().unwrap();
    assert_eq!(first.checksum, ReceiveChecksum::Partial);
    assert_eq!(first.segment, NonZeroU16::new(1460));
    let second = driver.receive().unwrap();
    assert_eq!(second.checksum, ReceiveChecksum::Verified { ip: false, transport: true });
    driver.recycle(first);
    driver.recycle(second);
}

/// A merged frame must be the joined slots themselves. The arena of 64 slots of 2048 bytes wraps many
/// times; only frames over the wrap may be copied.
#[test]
fn merged_frames_are_joined_and_copied_only_at_the_wrap() {
    let device = Device::new(EVERYTHING);
    let mut driver = device.driver();
    for round in 0..400 {
        let sent = pattern(round, 14 + (round * 997) % 65535);
        assert!(device.state().deliver(PLAIN, &sent));
        let frame = driver.receive().unwrap();
        assert!(*frame.buffer == *sent, "round {round}");
        driver.recycle(frame);
        driver.arm();
    }
    let merged = counter(&driver, "rx_merged_buffers");
    let copied = counter(&driver, "rx_linearised");
    // 32 slots on average of 64: about every second frame of that size meets the wrap.
    assert!(merged > 350 && copied > 0 && copied < merged * 6 / 10, "{copied} of {merged}");
    assert_eq!(counter(&driver, "rx_merge_errors") + counter(&driver, "rx_dropped"), 0);
}

#[test]
fn ring_wraps_past_every_index_with_and_without_the_event_index() {
    for refused in [0, EVENT_IDX] {
        let device = Device::new(EVERYTHING & !refused);
        let mut driver = device.driver();
        let mut interrupts = 0;
        for round in 0..70_000u32 {
            if round % 7 == 0 {
                assert!(!driver.arm(), "nothing can have arrived");
                interrupts = device.state().interrupts;
            }
            assert!(device.state().deliver(PLAIN, &round.to_le_bytes().repeat(5)));
            if round % 7 == 0 {
                assert_eq!(device.state().interrupts, interrupts + 1, "armed: round {round}");
                driver.service(0);
            } else {
                assert_eq!(device.state().interrupts, interrupts + 1, "held: round {round}");
            }
            let frame = driver.receive().unwrap();
            assert_eq!(frame.buffer[..4], round.to_le_bytes());
            driver.recycle(frame);
        }
    }
}

#[test]
fn arm_reports_what_arrived_before_it() {
    for refused in [0, EVENT_IDX] {
        let device = Device::new(EVERYTHING & !refused);
        let mut driver = device.driver();
        driver.service(0);
        assert!(!driver.arm());
        driver.service(0);
        assert!(device.state().deliver(PLAIN, &[1; 60]));
        assert!(driver.arm(), "a frame is waiting");
        let frame = driver.receive().unwrap();
        driver.recycle(frame);
        assert!(!driver.arm());
    }
}

#[test]
fn device_out_of_buffers_goes_on_when_they_come_back() {
    let device = Device::new(EVERYTHING);
    let mut driver = device.driver();
    let mut held = Vec::new();
    for i in 0..64 {
        assert!(device.state().deliver(PLAIN, &[i; 64]));
        held.push(driver.receive().unwrap());
    }
    assert!(!device.state().deliver(PLAIN, &[0; 64]), "all slots are out");
    for (i, frame) in held.into_iter().enumerate() {
        assert_eq!(*frame.buffer, [i as u8; 64]);
        driver.recycle(frame);
    }
    assert_eq!(device.state().available(RX), 64);
}

#[test]
fn out_of_order_device_and_late_recycling_lose_nothing() {
    let device = Device::new(EVERYTHING);
    let mut driver = device.driver();
    for round in 0..50 {
        let sent = pattern(round, 2048 * 3 - 12);
        {
            let mut state = device.state();
            let mut chains: Vec<_> = (0..3).map(|_| state.take(RX).unwrap()).collect();
            chains.rotate_left(round % 3);
            let mut header = PLAIN;
            header[10] = 3;
            state.fill(&chains, &[&header[..], &sent].concat());
            state.show(RX);
            assert!(state.deliver(PLAIN, &[round as u8; 99]));
        }
        let merged = driver.receive().unwrap();
        assert!(*merged.buffer == *sent, "round {round}");
        let small = driver.receive().unwrap();
        assert_eq!(*small.buffer, [round as u8; 99]);
        driver.recycle(small);
        driver.recycle(merged);
    }
    assert_eq!(counter(&driver, "rx_merge_errors") + counter(&driver, "rx_dropped"), 0);
    assert!(counter(&driver, "rx_linearised") >= 33, "rotated slots are no neighbours");
    assert_eq!(device.state().available(RX), 64);
}

/// The standard wants full buffers; a device that leaves gaps must not shift bytes.
#[test]
fn gaps_between_merged_buffers_are_closed() {
    let device = Device::new(EVERYTHING);
    let mut driver = device.driver();
    let sent = pattern(5, 300);
    {
        let mut state = device.state();
        let chains: Vec<_> = (0..3).map(|_| state.take(RX).unwrap()).collect();
        let mut header = PLAIN;
        header[10] = 3;
        let bytes = [&header[..], &sent].concat();
        for (chain, piece) in chains.iter().zip(bytes.chunks(104)) {
            state.fill(std::slice::from_ref(chain), piece);
        }
        state.show(RX);
    }
    let frame = driver.receive().unwrap();
    assert_eq!(*frame.buffer, *sent);
    driver.recycle(frame);
    assert_eq!(device.state().available(RX), 64);
}

#[test]
fn single_large_buffers_without_mrg_rxbuf() {
    let device = Device::new(EVERYTHING & !MRG_RXBUF);
    let config = trireme_virtio_net::Config { receive_bytes: 1 << 20, ..CONFIG };
    let mut driver = device.driver_with(&config).unwrap();
    assert_ne!(device.state().features & GUEST_TSO4, 0);
    for round in 0..40 {
        let sent = pattern(round, 65535 + 14);
        assert!(device.state().deliver(PLAIN, &sent));
        let frame = driver.receive().unwrap();
        assert!(*frame.buffer == *sent);
        driver.recycle(frame);
    }
    assert_eq!(counter(&driver, "rx_linearised"), 0);
}

#[test]
fn merging_is_not_negotiated_without_memory_for_it() {
    let device = Device::new(EVERYTHING & !MRG_RXBUF);
    let driver = device.driver();
    assert_eq!(device.state().features & (GUEST_TSO4 | GUEST_TSO6), 0);
    drop(driver);
}

//! The transmit ring against the device double, which completes sums by the definition of RFC 1071.

mod common;
use common::*;
use std::num::NonZeroU16;
use trireme_nic::{FrameShape, Network, Nic, TransmitRequest, Transport};

fn shape(len: usize, v6: bool, segment: Option<u16>) -> FrameShape {
    let network = if v6 {
        Network::Ipv6 { header_len: 40, extension_headers: false, fragment: false }
    } else {
        Network::Ipv4 { header_len: 20, fragment: false }
    };
    let transport = Transport::Tcp { header_len: 20 };
    let segment = segment.and_then(NonZeroU16::new);
    FrameShape { len, link_len: 14, tagged: false, network, transport, segment }
}

/// A TCP frame whose checksum field is zero.
fn tcp(seed: usize, len: usize, v6: bool) -> Vec<u8> {
    let mut frame = pattern(seed, len);
    let transport = if v6 { 54 } else { 34 };
    frame[transport + 13] = 0x10;
    frame[transport + 16..transport + 18].fill(0);
    frame
}

/// TCP checksum over pseudo-header and segment, word by word. RFC 9293 3.1, RFC 8200 8.1.
fn tcp_checksum(frame: &[u8], v6: bool) -> u16 {
    let (addresses, start) = if v6 { (22..54, 54) } else { (26..34, 34) };
    let mut sum = 6 + (frame.len() - start) as u64;
    for part in [&frame[addresses], &frame[start..]] {
        for pair in part.chunks(2) {
            sum += u64::from(pair[0]) << 8 | u64::from(*pair.get(1).unwrap_or(&0));
        }
    }
    while sum >> 16 != 0 {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    !(sum as u16)
}

/// What a device does for NEEDS_CSUM: sums from csum_start to the end, over what the field holds.
/// [VIRTIO 5.1.6.2]
fn complete(packet: &[u8]) -> Vec<u8> {
    let word = |at: usize| usize::from(u16::from_le_bytes([packet[at], packet[at + 1]]));
    let mut frame = packet[12..].to_vec();
    if packet[0] & 1 != 0 {
        let (start, field) = (word(6), word(6) + word(8));
        let mut sum = 0u64;
        for pair in frame[start..].chunks(2) {
            sum += u64::from(pair[0]) << 8 | u64::from(*pair.get(1).unwrap_or(&0));
        }
        while sum >> 16 != 0 {
            sum = (sum & 0xffff) + (sum >> 16);
        }
        frame[field..field + 2].copy_from_slice(&(!(sum as u16)).to_be_bytes());
    }
    frame
}

fn send(driver: &mut Driver, frame: &[u8], request: &TransmitRequest) {
    let mut buffer = driver.transmit_buffer(frame.len()).expect("a free buffer");
    assert_eq!(buffer.len(), frame.len());
    buffer.copy_from_slice(frame);
    driver.transmit(buffer, request);
    driver.flush();
}

#[test]
fn plain_frame_leaves_behind_an_empty_header() {
    let device = Device::new(EVERYTHING);
    let mut driver = device.driver();
    let frame = tcp(1, 600, false);
    send(&mut driver, &frame, &TransmitRequest::plain(shape(600, false, None)));
    let sent = device.state().transmitted();
    assert_eq!(sent, [[&[0; 12][..], &frame].concat()]);
}

#[test]
fn completed_checksums_are_right() {
    let device = Device::new(EVERYTHING);
    let mut driver = device.driver();
    for v6 in [false, true] {
        for len in [74, 75, 1514, 9001, 65549] {
            let frame = tcp(len, len, v6);
            let request = TransmitRequest {
                shape: shape(len, v6, None),
                network_checksum: false,
                transport_checksum: true,
                tag: None,
            };
            send(&mut driver, &frame, &request);
            let sent = device.state().transmitted().remove(0);
            let field = if v6 { 70 } else { 50 };
            let mut expected = frame.clone();
            expected[field..field + 2].copy_from_slice(&tcp_checksum(&frame, v6).to_be_bytes());
            assert!(complete(&sent) == expected, "{len} bytes, v6 {v6}");
        }
    }
}

#[test]
fn segmentation_is_asked_for_as_negotiated() {
    let device = Device::new(EVERYTHING);
    let mut driver = device.driver();
    assert_eq!(driver.max_segmented_frame(), Some(65549));
    for v6 in [false, true] {
        let shape = shape(40_000, v6, Some(1460));
        assert!(driver.transmit_ability(&shape).segment);
        let request =
            TransmitRequest { shape, network_checksum: true, transport_checksum: true, tag: None };
        send(&mut driver, &tcp(7, 40_000, v6), &request);
        let sent = device.state().transmitted().remove(0);
        let start = if v6 { 54 } else { 34 };
        let gso = if v6 { 4 } else { 1 };
        assert_eq!(sent[..12], [1, gso, start + 20, 0, 0xb4, 5, start, 0, 16, 0, 0, 0]);
    }
    assert_eq!(counter(&driver, "tx_tso"), 2);
}

#[test]
fn ring_wraps_past_every_index_with_one_doorbell_per_flush() {
    for refused in [0, EVENT_IDX] {
        let device = Device::new(EVERYTHING & !refused);
        let mut driver = device.driver();
        let request = TransmitRequest::plain(shape(64, false, None));
        for round in 0..70_000u32 {
            let frame = round.to_le_bytes().repeat(16);
            send(&mut driver, &frame, &request);
            assert_eq!(device.state().doorbells[TX], u64::from(round) + 1, "refused {refused:#x}");
            let sent = device.state().transmitted();
            assert_eq!(sent.len(), 1);
            assert_eq!(sent[0][12..], *frame);
        }
        assert_eq!(counter(&driver, "tx_kicks"), 70_000);
    }
}

#[test]
fn device_at_work_is_not_rung() {
    let device = Device::new(EVERYTHING);
    let mut driver = device.driver();
    let request = TransmitRequest::plain(shape(64, false, None));
    send(&mut driver, &[1; 64], &request);
    device.state().busy = true;
    device.state().transmitted();
    for _ in 0..10 {
        send(&mut driver, &[2; 64], &request);
    }
    assert_eq!(device.state().doorbells[TX], 1, "avail_event was left behind");
    device.state().busy = false;
    assert_eq!(device.state().transmitted().len(), 10);
    send(&mut driver, &[3; 64], &request);
    assert_eq!(device.state().doorbells[TX], 2);

    let device = Device::new(EVERYTHING & !EVENT_IDX);
    let mut driver = device.driver();
    device.state().set_no_notify(TX, true);
    send(&mut driver, &[4; 64], &request);
    assert_eq!(device.state().doorbells[TX], 0);
    device.state().set_no_notify(TX, false);
    send(&mut driver, &[5; 64], &request);
    assert_eq!(device.state().doorbells[TX], 1);
}

#[test]
fn full_pool_refuses_and_recovers_and_asks_for_an_interrupt() {
    for refused in [0, EVENT_IDX] {
        let device = Device::new(EVERYTHING & !refused);
        let mut driver = device.driver();
        let request = TransmitRequest::plain(shape(100, false, None));
        driver.service(0);
        assert!(!driver.arm());
        let room = driver.transmit_room();
        assert!(room >= 32);
        // Lent buffers always have a descriptor.
        let lent: Vec<_> = (0..room).map(|_| driver.transmit_buffer(100).unwrap()).collect();
        assert_eq!(driver.transmit_room(), 0);
        assert!(driver.transmit_buffer(100).is_none());
        assert_eq!(counter(&driver, "tx_busy"), 1);
        for buffer in lent {
            driver.transmit(buffer, &request);
        }
        driver.flush();
        assert!(driver.transmit_buffer(100).is_none());
        assert!(!driver.arm(), "nothing came back yet");
        let before = device.state().interrupts;
        assert_eq!(device.state().transmitted().len(), room);
        assert_eq!(device.state().interrupts, before + 1);
        driver.service(0);
        assert_eq!(driver.transmit_room(), room);
        // With room there is no interrupt for what was sent.
        assert!(!driver.arm());
        send(&mut driver, &[0; 100], &request);
        device.state().transmitted();
        assert_eq!(device.state().interrupts, before + 1);
    }
}

#[test]
fn completions_out_of_order_free_the_right_buffers() {
    let device = Device::new(EVERYTHING);
    let mut driver = device.driver();
    let room = driver.transmit_room();
    for round in 0..30 {
        for i in 0..room {
            let request = TransmitRequest::plain(shape(64, false, None));
            send(&mut driver, &[(i + round) as u8; 64], &request);
        }
        let mut state = device.state();
        let mut chains = Vec::new();
        while let Some(chain) = state.take(TX) {
            assert_eq!(state.content(&chain)[12..], [(chains.len() + round) as u8; 64]);
            chains.push(chain);
        }
        chains.reverse();
        chains.rotate_left(round % room);
        for chain in chains {
            state.put_used(TX, u32::from(chain.id), 0);
        }
        state.show(TX);
        drop(state);
        driver.service(0);
        assert_eq!(driver.transmit_room(), room);
    }
}

#[test]
fn cancelled_and_shortened_buffers() {
    let device = Device::new(EVERYTHING);
    let mut driver = device.driver();
    let room = driver.transmit_room();
    let buffer = driver.transmit_buffer(500).unwrap();
    driver.transmit_cancel(buffer);
    let buffer = driver.transmit_buffer(60_000).unwrap();
    driver.transmit_cancel(buffer);
    assert_eq!(driver.transmit_room(), room);
    assert!(driver.transmit_buffer(70_000).is_none(), "longer than any frame");
    let mut buffer = driver.transmit_buffer(500).unwrap();
    buffer.fill(9);
    let window = buffer.window();
    buffer.set_window(window.start..window.start + 70);
    driver.transmit(buffer, &TransmitRequest::plain(shape(70, false, None)));
    driver.flush();
    assert_eq!(device.state().transmitted(), [[&[0; 12][..], &[9; 70]].concat()]);
}

#[test]
fn request_beside_the_frame_is_an_error_not_a_send() {
    let device = Device::new(EVERYTHING);
    let mut driver = device.driver();
    let request = TransmitRequest {
        shape: shape(40, false, None),
        network_checksum: false,
        transport_checksum: true,
        tag: None,
    };
    send(&mut driver, &[0; 40], &request);
    assert_eq!(counter(&driver, "tx_errors"), 1);
    assert!(device.state().transmitted().is_empty());
}

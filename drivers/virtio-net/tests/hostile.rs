//! Devices that lie: single lies by name, then anything at all.

mod common;
use common::*;
use proptest::prelude::*;
use trireme_nic::{
    Feature, FeatureError, FrameShape, Network, Nic, ReceivedFrame, TransmitRequest, Transport,
};

const PLAIN: [u8; 12] = [0; 12];

fn plain(len: usize) -> TransmitRequest {
    TransmitRequest::plain(FrameShape {
        len,
        link_len: 14,
        tagged: false,
        network: Network::Other,
        transport: Transport::Other,
        segment: None,
    })
}

/// An honest exchange both ways, past a full turn of the rings: the card is in order, and no buffer
/// was lost on the way here.
fn works(device: &Device, driver: &mut Driver) {
    device.state().busy = false;
    driver.service(1 << 40);
    while let Some(frame) = driver.receive() {
        driver.recycle(frame);
    }
    device.state().transmitted();
    driver.service((1 << 40) + 1);
    assert_eq!(device.state().available(RX), 64, "every slot is with the device");
    assert_eq!(driver.transmit_room(), 40, "every buffer came home");
    for round in 0..300 {
        let sent = pattern(round, 60 + round * 7);
        assert!(device.state().deliver(PLAIN, &sent));
        let frame = driver.receive().unwrap();
        assert!(*frame.buffer == *sent);
        driver.recycle(frame);
        let mut buffer = driver.transmit_buffer(80).unwrap();
        buffer.fill(round as u8);
        driver.transmit(buffer, &plain(80));
        driver.flush();
        assert_eq!(device.state().transmitted().remove(0)[12..], [round as u8; 80]);
    }
}

#[test]
fn wrong_lengths_cost_a_frame_each() {
    let device = Device::new(EVERYTHING);
    let mut driver = device.driver();
    for len in [0, 1, 11, 12, 25, 2049, 65536, u32::MAX] {
        let mut state = device.state();
        let chain = state.take(RX).unwrap();
        state.put_used(RX, u32::from(chain.id), len);
        state.show(RX);
        assert!(state.deliver(PLAIN, &[7; 60]));
        drop(state);
        let frame = driver.receive().unwrap();
        assert_eq!(*frame.buffer, [7; 60], "the frame behind it, length {len}");
        driver.recycle(frame);
    }
    assert_eq!(counter(&driver, "rx_length_errors"), 8);
    works(&device, &mut driver);
    assert_eq!(counter(&driver, "resets"), 0);
}

#[test]
fn wrong_ids_cost_a_reset() {
    for queue in [RX, TX] {
        for id in [300, 65535, 0x1_0000 + 300, u32::MAX, 200] {
            let device = Device::new(EVERYTHING);
            let mut driver = device.driver();
            let mut buffer = driver.transmit_buffer(64).unwrap();
            buffer.fill(1);
            driver.transmit(buffer, &plain(64));
            driver.flush();
            device.state().put_used(queue, id, 100);
            device.state().show(queue);
            driver.service(10);
            assert!(driver.receive().is_none());
            assert!(!driver.link().up && driver.service_at().is_some());
            assert_eq!(counter(&driver, "bad_ids"), 1, "queue {queue}, id {id:#x}");
            driver.service(20);
            assert!(driver.link().up);
            assert_eq!(counter(&driver, "resets"), 1);
            assert_eq!(counter(&driver, "tx_dropped"), 1, "the frame under way");
            works(&device, &mut driver);
        }
    }
}

#[test]
fn the_same_buffer_twice_costs_a_reset() {
    let device = Device::new(EVERYTHING);
    let mut driver = device.driver();
    let mut state = device.state();
    let chain = state.take(RX).unwrap();
    state.put_used(RX, u32::from(chain.id), 100);
    state.put_used(RX, u32::from(chain.id), 100);
    state.show(RX);
    drop(state);
    let frame = driver.receive().unwrap();
    assert!(driver.receive().is_none());
    assert_eq!(counter(&driver, "bad_ids"), 1);
    // Held by the stack over the reset.
    driver.service(0);
    driver.recycle(frame);
    works(&device, &mut driver);
}

#[test]
fn resets_are_limited_to_one_a_second() {
    let device = Device::new(EVERYTHING);
    let mut driver = device.driver();
    for now in 0..3_000_000 / 500 {
        driver.service(now * 500);
        device.state().put_used(RX, 999, 64);
        device.state().show(RX);
        assert!(driver.receive().is_none());
    }
    assert_eq!(counter(&driver, "resets"), 3);
}

#[test]
fn used_index_far_ahead_is_survived() {
    for ahead in [1, 64, 255, 256, 1000, 32768, 65535] {
        for queue in [RX, TX] {
            let device = Device::new(EVERYTHING);
            let mut driver = device.driver();
            device.state().lie_about_index(queue, ahead);
            driver.service(0);
            for _ in 0..1000 {
                match driver.receive() {
                    Some(frame) => driver.recycle(frame),
                    None => break,
                }
            }
            // Shown buffers it never took, the double is out of step as well.
            device.state().need_reset();
            driver.service(2_000_000);
            works(&device, &mut driver);
        }
    }
}

#[test]
fn merge_counts_that_cannot_be_are_counted() {
    let device = Device::new(EVERYTHING);
    let mut driver = device.driver();
    for count in [2, 3, 64, 65, 256, 65535] {
        let mut state = device.state();
        let chain = state.take(RX).unwrap();
        let mut header = PLAIN;
        header[10..].copy_from_slice(&u16::to_le_bytes(count));
        state.fill(&[chain], &[&header[..], &[5; 60]].concat());
        state.show(RX);
        drop(state);
        assert!(driver.receive().is_none(), "{count} buffers, one returned");
    }
    assert_eq!(counter(&driver, "rx_merge_errors"), 6);
    works(&device, &mut driver);
}

#[test]
fn merged_frame_longer_than_a_frame_is_dropped_whole() {
    let device = Device::new(EVERYTHING);
    let mut driver = device.driver();
    let mut state = device.state();
    let chains: Vec<_> = (0..40).map(|_| state.take(RX).unwrap()).collect();
    let mut header = PLAIN;
    header[10] = 40;
    state.fill(&chains, &[&header[..], &vec![9; 40 * 2048 - 12]].concat());
    state.show(RX);
    assert!(state.deliver(PLAIN, &[7; 60]));
    drop(state);
    let frame = driver.receive().unwrap();
    assert_eq!(*frame.buffer, [7; 60], "its tail did not pass for a frame");
    driver.recycle(frame);
    assert_eq!(counter(&driver, "rx_merge_errors"), 1);
    works(&device, &mut driver);
}

#[test]
fn no_spare_buffer_is_a_drop() {
    let device = Device::new(EVERYTHING);
    let mut driver = device.driver();
    let mut held: Vec<ReceivedFrame> = Vec::new();
    for _ in 0..3 {
        let mut state = device.state();
        let mut chains = [state.take(RX).unwrap(), state.take(RX).unwrap()];
        chains.reverse();
        let mut header = PLAIN;
        header[10] = 2;
        state.fill(&chains, &[&header[..], &[3; 3000]].concat());
        state.show(RX);
        drop(state);
        held.extend(driver.receive());
    }
    assert_eq!(held.len(), 2, "there are two spares");
    assert_eq!(counter(&driver, "rx_no_spare"), 1);
    for frame in held {
        driver.recycle(frame);
    }
    works(&device, &mut driver);
}

#[test]
fn a_device_that_dies_in_the_reset_is_left_alone_and_tried_again() {
    let device = Device::new(EVERYTHING);
    let mut driver = device.driver();
    device.state().need_reset();
    device.state().ignores_reset = true;
    driver.service(0);
    assert_eq!((counter(&driver, "resets"), counter(&driver, "reset_failures")), (1, 1));
    assert!(!driver.link().up && driver.receive().is_none() && !driver.arm());
    let buffer = driver.transmit_buffer(64).unwrap();
    driver.transmit(buffer, &plain(64));
    driver.flush();
    assert_eq!(counter(&driver, "tx_dropped"), 1);
    device.state().ignores_reset = false;
    driver.service(2_000_000);
    works(&device, &mut driver);
}

#[test]
fn wrong_id_on_the_control_queue_stops_only_that() {
    let device = Device::new(EVERYTHING);
    device.state().answer = None;
    let mut driver = device.driver();
    device.state().put_used(CTRL, 9, 1);
    device.state().show(CTRL);
    driver.service(0);
    driver.service(1);
    assert_eq!(counter(&driver, "bad_ids"), 1);
    assert!(driver.service_at().is_none() && driver.link().up);
    let refused = driver.set_feature(Feature::RxChecksumming, false);
    assert_eq!(refused, Err(FeatureError::Timeout));
    works(&device, &mut driver);
    device.state().answer = Some(0);
    device.state().need_reset();
    driver.service(1 << 41);
    assert_eq!(driver.set_feature(Feature::RxChecksumming, false), Ok(()));
}

#[test]
fn device_that_offers_less_after_a_reset_is_refused() {
    let device = Device::new(EVERYTHING);
    let mut driver = device.driver();
    device.state().need_reset();
    device.state().offered &= !MRG_RXBUF;
    driver.service(0);
    assert_eq!(counter(&driver, "reset_failures"), 1);
    assert!(!driver.link().up);
    device.state().offered = EVERYTHING;
    driver.service(1_000_000);
    works(&device, &mut driver);
}

#[derive(Clone, Debug)]
enum Step {
    Deliver {
        header: [u8; 12],
        len: usize,
    },
    /// Takes so many buffers and returns them with a header and lengths of its choice.
    Return {
        take: usize,
        header: [u8; 12],
        lens: Vec<u32>,
    },
    Used {
        queue: usize,
        id: u32,
        len: u32,
    },
    Ahead {
        queue: usize,
        ahead: u16,
    },
    Show {
        queue: usize,
    },
    Transmitted,
    Send {
        len: usize,
    },
    Receive {
        hold: bool,
    },
    Recycle {
        newest: bool,
    },
    Service {
        after: u64,
    },
    Arm,
    Interrupt {
        isr: u32,
    },
}

fn steps() -> impl Strategy<Value = Step> {
    let len = prop_oneof![0..80u32, 2000..2100u32, any::<u32>(), Just(2048)];
    let lens = prop::collection::vec(len.clone(), 1..40);
    prop_oneof![
        4 => (any::<[u8; 12]>(), 14..20_000usize)
            .prop_map(|(header, len)| Step::Deliver { header, len }),
        2 => (1..40usize, any::<[u8; 12]>(), 0..45u8, lens).prop_map(
            |(take, mut header, count, lens)| {
                header[10..].copy_from_slice(&[count, 0]);
                Step::Return { take, header, lens }
            }
        ),
        1 => (0..2usize, prop_oneof![0..64u32, any::<u32>()], len)
            .prop_map(|(queue, id, len)| Step::Used { queue, id, len }),
        1 => (0..2usize, any::<u16>()).prop_map(|(queue, ahead)| Step::Ahead { queue, ahead }),
        3 => (0..3usize).prop_map(|queue| Step::Show { queue }),
        3 => Just(Step::Transmitted),
        4 => (14..3000usize).prop_map(|len| Step::Send { len }),
        6 => any::<bool>().prop_map(|hold| Step::Receive { hold }),
        3 => any::<bool>().prop_map(|newest| Step::Recycle { newest }),
        3 => (0..2_000_000u64).prop_map(|after| Step::Service { after }),
        2 => Just(Step::Arm),
        1 => any::<u32>().prop_map(|isr| Step::Interrupt { isr }),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..ProptestConfig::default() })]

    /// Whatever the device does, nothing panics or hangs, no frame is longer than what was written,
    /// and once it behaves again every buffer is where it belongs.
    #[test]
    fn a_lying_device_is_survived(
        refused in prop_oneof![Just(0), Just(EVENT_IDX), Just(MRG_RXBUF), Just(CTRL_VQ)],
        steps in prop::collection::vec(steps(), 1..120),
    ) {
        let device = Device::new(EVERYTHING & !refused);
        let mut driver = device.driver();
        let (slots, room) = (device.state().available(RX), driver.transmit_room());
        let mut held: Vec<ReceivedFrame> = Vec::new();
        let mut now = 0;
        for step in steps {
            match step {
                Step::Deliver { header, len } => {
                    let mut state = device.state();
                    let fits = state.features & MRG_RXBUF != 0 || len <= 1400;
                    if fits {
                        state.deliver(header, &vec![1; len]);
                    }
                }
                Step::Return { take, header, lens } => {
                    let mut state = device.state();
                    for i in 0..take {
                        let Some(chain) = state.take(RX) else { break };
                        if i == 0 {
                            let len = header.len().min(chain.parts[0].1 as usize);
let _ = state.memory().device_write(chain.parts[0].0, &header[..len]);
                        }
                        state.put_used(RX, u32::from(chain.id), lens[i % lens.len()]);
                    }
                    state.show(RX);
                }
                Step::Used { queue, id, len } => device.state().put_used(queue, id, len),
                Step::Ahead { queue, ahead } => device.state().lie_about_index(queue, ahead),
                Step::Show { queue } => device.state().show(queue),
                Step::Transmitted => drop(device.state().transmitted()),
                Step::Send { len } => {
                    if let Some(mut buffer) = driver.transmit_buffer(len) {
                        buffer.fill(2);
                        driver.transmit(buffer, &plain(len));
                        driver.flush();
                    }
                }
                Step::Receive { hold } => {
                    if let Some(frame) = driver.receive() {
                        prop_assert!((14..=65553).contains(&frame.buffer.len()));
                        if hold { held.push(frame) } else { driver.recycle(frame) }
                    }
                }
                Step::Recycle { newest } => {
                    let frame = match newest {
                        true => held.pop(),
                        false => (!held.is_empty()).then(|| held.remove(0)),
                    };
                    if let Some(frame) = frame {
                        driver.recycle(frame);
                    }
                }
                Step::Service { after } => {
                    now += after;
                    driver.service(now);
                }
                Step::Arm => {
                    driver.arm();
                }
                Step::Interrupt { isr } => device.state().isr |= isr,
            }
        }
        for frame in held {
            driver.recycle(frame);
        }
        // The device is reset, and honest from here on.
        device.state().need_reset();
        driver.service(now + 2_000_000);
        prop_assert_eq!(device.state().available(RX), slots, "every slot is with the device");
        prop_assert_eq!(driver.transmit_room(), room, "every buffer came home");
        let sent = pattern(3, 1400);
        prop_assert!(device.state().deliver(PLAIN, &sent));
        let frame = driver.receive().unwrap();
        prop_assert!(*frame.buffer == *sent);
    }
}

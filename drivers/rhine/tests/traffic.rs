//! Frames both ways, on each chip.

mod rig;

use rig::{M, MAC, PEER, Rig, chips, frame, packet, request};
use std::time::Duration;
use trireme_nic::{Feature, FeatureError, Link, Nic, ReceiveChecksum, ReceiveFilter};
use trireme_rhine::TransmitChecksums;
use trireme_rhine_model::{Chip as ModelChip, Faults};

#[test]
fn each_chip_comes_up_with_address_and_link() {
    for chip in chips() {
        let rig = Rig::new(chip);
        assert_eq!(rig.driver.mac_address(), MAC);
        let link = Link { up: true, speed_mbps: 100, full_duplex: true };
        assert_eq!(rig.driver.link(), link, "{chip:?}");
        assert!(!rig.interrupt());
    }
}

#[test]
fn frames_of_every_length_go_out_unchanged_and_padded() {
    for chip in chips() {
        let mut rig = Rig::new(chip);
        for len in (14..=70).chain([100, 1000, 1513, 1514, 1518]) {
            let data = frame(PEER, len);
            rig.send(&data);
            let mut wanted = data;
            wanted.resize(len.max(60), 0);
            assert_eq!(rig.sent(), [wanted], "{chip:?} {len}");
            rig.serve();
        }
        assert_eq!(rig.card.lock().unwrap().model.counters().tx_runts, 0);
        assert_eq!(rig.counter("tx_errors"), 0);
    }
}

#[test]
fn frames_of_every_length_come_in_unchanged() {
    for chip in chips() {
        let mut rig = Rig::new(chip);
        for len in (60..=70).chain([100, 1000, 1513, 1514, 1518]) {
            let data = frame(MAC, len);
            rig.wire(&data);
            assert!(rig.interrupt());
            let received = rig.serve();
            assert_eq!(received, [(data, ReceiveChecksum::Unverified)], "{chip:?} {len}");
            assert!(!rig.interrupt());
        }
        assert_eq!(rig.counter("rx_packets"), 16);
        assert_eq!(rig.counter("rx_errors"), 0);
    }
}

#[test]
fn rings_go_round_many_times_in_batches() {
    for chip in chips() {
        let mut rig = Rig::new(chip);
        for round in 0..40u8 {
            let batch: Vec<Vec<u8>> = (0u8..50)
                .map(|i| {
                    let mut data = frame(PEER, 60 + usize::from(i) * 20);
                    data[14] = round;
                    data
                })
                .collect();
            for data in &batch {
                assert!(rig.queue(data, &request(&rig.driver, data)));
            }
            assert!(rig.sent().is_empty(), "before the doorbell");
            rig.driver.flush();
            assert_eq!(rig.sent(), batch);
            let mut echoed = batch.clone();
            for data in &mut echoed {
                data[..6].copy_from_slice(&MAC);
                rig.wire(data);
            }
            let got: Vec<Vec<u8>> = rig.serve().into_iter().map(|(data, _)| data).collect();
            assert_eq!(got, echoed);
        }
        assert_eq!(rig.driver.transmit_room(), 63);
    }
}

#[test]
fn a_full_transmit_ring_says_so_and_interrupts_when_there_is_room() {
    let mut rig = Rig::new(M);
    // Nobody listens: hold the engine with a stall.
    rig.faults(|f| f.tx_stall = 1);
    let data = frame(PEER, 60);
    let mut queued = 0;
    while rig.queue(&data, &request(&rig.driver, &data)) {
        queued += 1;
    }
    assert_eq!((queued, rig.driver.transmit_room()), (63, 0));
    rig.driver.flush();
    rig.serve();
    assert!(!rig.interrupt());
    rig.faults(|f| f.tx_stall = 0);
    rig.later(Duration::from_millis(30));
    assert!(rig.interrupt());
    rig.serve();
    assert_eq!(rig.driver.transmit_room(), 63);
    assert_eq!(rig.sent().len(), 63);
}

#[test]
fn a_lent_buffer_can_be_shortened_or_given_back() {
    let mut rig = Rig::new(ModelChip::VT86C100A);
    for _ in 0..200 {
        let buffer = rig.driver.transmit_buffer(1514).unwrap();
        rig.driver.transmit_cancel(buffer);
    }
    let data = frame(PEER, 100);
    for start in 0..8 {
        let mut buffer = rig.driver.transmit_buffer(1514).unwrap();
        buffer.set_window(start..start + 100);
        buffer.copy_from_slice(&data);
        let request = request(&rig.driver, &data);
        rig.driver.transmit(buffer, &request);
        rig.driver.flush();
        assert_eq!(
            rig.sent(),
            std::slice::from_ref(&data),
            "old chips send from aligned addresses"
        );
    }
    assert_eq!(rig.counter("tx_bounced"), 6);
    assert!(rig.driver.transmit_buffer(1519).is_none());
}

#[test]
fn checksums_are_right_off_on_and_auto_under_both_readings_of_the_sheet() {
    for seeded_checksum in [false, true] {
        for checksums in [TransmitChecksums::Off, TransmitChecksums::On, TransmitChecksums::AUTO] {
            let faults = Faults { seeded_checksum, ..Faults::default() };
            let mut rig = Rig::full(M, faults, checksums);
            for protocol in [6, 17] {
                for len in [60, 61, 500, 1013, 1014, 1015, 1514] {
                    let right = packet(protocol, len);
                    rig.send(&right);
                    assert_eq!(rig.sent(), [right], "{checksums:?} {protocol} {len}");
                }
            }
            let by_card = rig.card.lock().unwrap().model.counters().tx_checksums;
            let wanted = match checksums {
                TransmitChecksums::Off => 0,
                TransmitChecksums::On => 14,
                TransmitChecksums::Auto { .. } => 10,
            };
            assert_eq!(by_card, wanted);
        }
    }
}

#[test]
fn received_checksums_are_judged_by_the_management_chip() {
    let mut rig = Rig::new(M);
    let both = ReceiveChecksum::Verified { ip: true, transport: true };
    let only_ip = ReceiveChecksum::Verified { ip: true, transport: false };
    let mut judge = |data: &[u8]| {
        rig.wire(data);
        rig.serve().remove(0).1
    };
    assert_eq!(judge(&packet(6, 500)), both);
    assert_eq!(judge(&packet(17, 501)), both);
    assert_eq!(judge(&frame(MAC, 60)), ReceiveChecksum::Unverified);
    let mut bad = packet(6, 500);
    bad[400] ^= 1;
    assert_eq!(judge(&bad), ReceiveChecksum::Bad);
    let mut bad = packet(6, 500);
    bad[25] ^= 1;
    assert_eq!(judge(&bad), ReceiveChecksum::Bad);
    let mut none = packet(17, 100);
    none[40..42].fill(0);
    assert_eq!(judge(&none), only_ip, "a datagram without a sum is for software");
    rig.driver.set_feature(Feature::RxChecksumming, false).unwrap();
    rig.wire(&packet(6, 500));
    assert_eq!(rig.serve()[0].1, ReceiveChecksum::Unverified);
}

#[test]
fn features_are_the_chips() {
    for chip in chips() {
        let mut rig = Rig::new(chip);
        let management = chip == M;
        let rx = rig.driver.feature(Feature::RxChecksumming);
        assert_eq!((rx.on, rx.fixed), (management, !management));
        let tx = rig.driver.feature(Feature::TxChecksumming);
        assert_eq!((tx.on, tx.fixed), (false, !management), "off by default");
        let result = rig.driver.set_feature(Feature::TxChecksumming, true);
        assert_eq!(result, if management { Ok(()) } else { Err(FeatureError::Fixed) });
        let tso = rig.driver.set_feature(Feature::TcpSegmentationOffload, true);
        assert_eq!(tso, Err(FeatureError::Fixed));
    }
}

#[test]
fn auto_is_a_private_flag_of_the_management_chip() {
    let flags = |rig: &Rig| {
        let mut flags = Vec::new();
        rig.driver.private_flags(&mut |name, on| flags.push((name, on)));
        flags
    };
    let mut rig = Rig::new(M);
    assert_eq!(flags(&rig), [("tx-checksumming-auto", false)]);
    assert!(rig.driver.set_private_flag("tx-checksumming-auto", true));
    assert_eq!(rig.driver.transmit_checksums(), TransmitChecksums::AUTO);
    assert!(rig.driver.feature(Feature::TxChecksumming).on);
    rig.driver.set_feature(Feature::TxChecksumming, true).unwrap();
    assert_eq!(flags(&rig), [("tx-checksumming-auto", true)]);
    assert!(rig.driver.set_private_flag("tx-checksumming-auto", false));
    assert_eq!(rig.driver.transmit_checksums(), TransmitChecksums::On);
    assert!(!rig.driver.set_private_flag("turbo", true));
    let mut rig = Rig::new(ModelChip::VT6105);
    assert!(!rig.driver.set_private_flag("tx-checksumming-auto", true));
    assert_eq!(flags(&rig), []);
}

#[test]
fn switching_checksums_at_run_time_loses_no_queued_frame() {
    let mut rig = Rig::new(M);
    let data = packet(6, 1514);
    for on in [true, false, true, false] {
        assert!(rig.queue(&data, &request(&rig.driver, &data)));
        rig.driver.set_feature(Feature::TxChecksumming, on).unwrap();
        rig.send(&data);
        assert_eq!(rig.sent(), [data.clone(), data.clone()]);
    }
}

#[test]
fn filters_pass_what_they_should() {
    for chip in chips() {
        let mut rig = Rig::new(chip);
        let group = [0x01, 0x00, 0x5e, 0x00, 0x00, 0xfb];
        let other = [0x33, 0x33, 0x00, 0x00, 0x00, 0x01];
        let stranger = [0x02, 9, 9, 9, 9, 9];
        let mut passes = |filter: ReceiveFilter<'_>| {
            rig.driver.set_receive_filter(filter);
            [MAC, [0xff; 6], group, other, stranger].map(|to| {
                rig.wire(&frame(to, 60));
                rig.serve().len() == 1
            })
        };
        assert_eq!(passes(ReceiveFilter::Multicast(&[])), [true, true, false, false, false]);
        assert_eq!(passes(ReceiveFilter::Promiscuous), [true; 5]);
        assert_eq!(passes(ReceiveFilter::Multicast(&[group])), [true, true, true, false, false]);
        assert_eq!(passes(ReceiveFilter::AllMulticast), [true, true, true, true, false]);
        assert_eq!(passes(ReceiveFilter::Multicast(&[])), [true, true, false, false, false]);
    }
}

#[test]
fn link_changes_are_seen_and_duplex_follows() {
    for chip in chips() {
        let mut rig = Rig::new(chip);
        rig.card.lock().unwrap().model.set_cable(false);
        assert!(rig.interrupt(), "{chip:?}");
        rig.serve();
        assert!(!rig.driver.link().up);
        {
            let model = &mut rig.card.lock().unwrap().model;
            model.set_partner(0x0021);
            model.set_cable(true);
        }
        rig.serve();
        let half = Link { up: true, speed_mbps: 10, full_duplex: false };
        assert_eq!(rig.driver.link(), half, "{chip:?}");
        let last = |rig: &Rig, at| {
            let writes = &rig.card.lock().unwrap().writes;
            writes.iter().rev().find(|w| w.0 == at).unwrap().2
        };
        assert_eq!(last(&rig, 0x09) & 4, 0, "half duplex");
        assert_eq!(last(&rig, 0x79) & 0x80, 0x80, "and no queueing");
        rig.send(&frame(PEER, 60));
        assert_eq!(rig.sent().len(), 1);
    }
}

#[test]
fn an_idle_card_asks_for_nothing() {
    let mut rig = Rig::new(M);
    rig.serve();
    assert_eq!(rig.driver.service_at(), None);
    let before = rig.card.lock().unwrap().accesses;
    rig.later(Duration::from_secs(10));
    assert!(!rig.interrupt());
    assert_eq!(rig.card.lock().unwrap().accesses, before);
}

#[test]
fn sending_costs_two_register_accesses_per_batch_and_receiving_none_per_frame() {
    let mut rig = Rig::new(M);
    rig.serve();
    let count = |rig: &Rig| rig.card.lock().unwrap().accesses;
    let data = frame(PEER, 60);
    let before = count(&rig);
    for _ in 0..10 {
        assert!(rig.queue(&data, &request(&rig.driver, &data)));
    }
    rig.driver.flush();
    assert_eq!(count(&rig) - before, 2);
    (0..30).for_each(|_| rig.wire(&frame(MAC, 60)));
    let before = count(&rig);
    let mut frames = 0;
    while let Some(frame) = rig.driver.receive() {
        frames += 1;
        rig.driver.recycle(frame);
    }
    assert_eq!((frames, count(&rig) - before), (30, 0));
}

#[test]
fn dropping_the_driver_stops_the_card() {
    let rig = Rig::new(ModelChip::VT6105);
    let card = rig.card.clone();
    drop(rig.driver);
    let card = card.lock().unwrap();
    let stop = card.writes.iter().rposition(|w| *w == (0x08, 8, 0x04));
    assert!(stop.is_some());
}

//! VLAN tags and the VLAN filter of the VT6105M.

mod rig;

use rig::{M, MAC, PEER, Rig, chips, frame, packet};
use std::time::Duration;
use trireme_nic::{
    Feature, FeatureError, FrameShape, Nic, ReceiveChecksum, ReceiveFilter, Registers, Tci,
};
use trireme_rhine::TransmitChecksums;
use trireme_rhine_model::{Chip as ModelChip, Faults};

/// A frame as it is on the wire with a tag.
fn tagged(frame: &[u8], tci: u16) -> Vec<u8> {
    let mut frame = frame.to_vec();
    let [high, low] = tci.to_be_bytes();
    frame.splice(12..12, [0x81, 0x00, high, low]);
    frame
}

#[test]
fn a_tag_goes_out_with_its_frame_and_no_other() {
    let mut rig = Rig::new(M);
    // More than the ring holds, every other one tagged, with priorities.
    for n in 0..500u16 {
        let data = frame(PEER, 60 + usize::from(n) % 1455);
        if n % 2 == 0 {
            rig.send(&data);
            assert_eq!(rig.sent(), [data], "{n}");
        } else {
            let tci = ((n % 8) << 13) | (n * 8);
            rig.queue_tagged(&data, Tci(tci));
            rig.driver.flush();
            assert_eq!(rig.sent(), [tagged(&data, tci)], "{n}");
        }
        rig.serve();
    }
    // There is no place for drop-eligible in a descriptor.
    rig.queue_tagged(&frame(PEER, 60), Tci(0xb005));
    rig.driver.flush();
    assert_eq!(rig.sent(), [tagged(&frame(PEER, 60), 0xa005)]);
}

#[test]
fn a_tagged_frame_that_failed_is_sent_again_with_its_tag() {
    let mut rig = Rig::new(M);
    for fault in ["tx-underrun=1", "tx-unexplained=1", "pci-error=1"] {
        let data = frame(PEER, 100);
        rig.faults(|f| *f = fault.parse().unwrap());
        rig.queue_tagged(&data, Tci(0x2005));
        rig.driver.flush();
        rig.faults(|f| *f = Faults::default());
        assert!(rig.sent().is_empty());
        rig.serve();
        rig.later(Duration::from_secs(3));
        rig.serve();
        if fault == "pci-error=1" {
            // The one failed on is lost, as without a tag.
            rig.sent();
        } else {
            assert_eq!(rig.sent(), [tagged(&data, 0x2005)], "{fault}");
        }
    }
    assert!(rig.counter("resets") > 0, "the last");
    rig.queue_tagged(&frame(PEER, 60), Tci(5));
    rig.driver.flush();
    assert_eq!(rig.sent(), [tagged(&frame(PEER, 60), 5)], "after a reset");
}

#[test]
fn switched_off_at_run_time_no_frame_leaves_without_its_tag() {
    let mut rig = Rig::new(M);
    rig.faults(|f| f.tx_stall = 1);
    rig.queue_tagged(&frame(PEER, 60), Tci(5));
    rig.driver.flush();
    for feature in [Feature::RxVlanOffload, Feature::TxVlanOffload] {
        rig.driver.set_feature(feature, false).unwrap();
        assert!(!rig.driver.feature(Feature::RxVlanOffload).on, "one bit for both");
        assert!(!rig.driver.feature(Feature::TxVlanOffload).on);
    }
    let shape = FrameShape { tagged: true, ..rig::shape(&frame(PEER, 60), None) };
    assert!(!rig.driver.transmit_ability(&shape).tag);
    // As the stack sends from now on.
    let data = tagged(&frame(PEER, 60), 5);
    assert!(rig.queue(&data, &rig::request(&rig.driver, &data)));
    rig.driver.flush();
    rig.faults(|f| f.tx_stall = 0);
    rig.later(Duration::from_millis(30));
    assert_eq!(rig.sent(), [data.clone(), data.clone()]);
    rig.serve();
    // Now that the ring is empty the card leaves tags where they are.
    let incoming = tagged(&frame(MAC, 60), 0);
    rig.wire(&incoming);
    assert_eq!(rig.serve_tagged(), [(incoming.clone(), None, ReceiveChecksum::Unverified)]);
    rig.driver.set_feature(Feature::RxVlanOffload, true).unwrap();
    rig.wire(&incoming);
    let stripped = (frame(MAC, 60), Some(Tci(0)), ReceiveChecksum::Unverified);
    assert_eq!(rig.serve_tagged(), [stripped]);
    rig.queue_tagged(&frame(PEER, 60), Tci(5));
    rig.driver.flush();
    assert_eq!(rig.sent(), [data]);
}

#[test]
fn the_filter_passes_what_is_wanted_and_priorities() {
    let mut rig = Rig::new(M);
    let passes = |rig: &mut Rig| -> Vec<u16> {
        let passes = |id: &u16| {
            rig.wire(&tagged(&frame(MAC, 60), 0xe000 | id));
            let frames = rig.serve_tagged();
            assert!(frames.iter().all(|(_, tag, _)| *tag == Some(Tci(0xe000 | id))));
            frames.len() == 1
        };
        let ids = [0, 1, 5, 6, 7, 100, 4094].iter().copied().filter(passes).collect();
        rig.wire(&frame(MAC, 60));
        assert_eq!(rig.serve().len(), 1, "without a tag, always");
        ids
    };
    assert_eq!(passes(&mut rig), [0]);
    rig.driver.set_vlans(&[5, 4094]);
    assert_eq!(passes(&mut rig), [0, 5, 4094]);
    // Replaced, not added to.
    rig.driver.set_vlans(&[6]);
    assert_eq!(passes(&mut rig), [0, 6]);
    // The CAM has 32 entries, one of them for priorities; with more it is of no use.
    let many: Vec<u16> = (100..131).collect();
    rig.driver.set_vlans(&many);
    assert_eq!(passes(&mut rig), [0, 100]);
    let many: Vec<u16> = (100..132).collect();
    rig.driver.set_vlans(&many);
    assert_eq!(passes(&mut rig), [0, 1, 5, 6, 7, 100, 4094]);
    rig.driver.set_vlans(&[7]);
    assert_eq!(passes(&mut rig), [0, 7]);
    rig.driver.set_receive_filter(ReceiveFilter::Promiscuous);
    assert_eq!(passes(&mut rig), [0, 1, 5, 6, 7, 100, 4094]);
    rig.driver.set_receive_filter(ReceiveFilter::Multicast(&[]));
    assert_eq!(passes(&mut rig), [0, 7]);
    rig.driver.set_feature(Feature::RxVlanFilter, false).unwrap();
    assert_eq!(passes(&mut rig), [0, 1, 5, 6, 7, 100, 4094]);
    rig.driver.set_feature(Feature::RxVlanFilter, true).unwrap();
    assert_eq!(passes(&mut rig), [0, 7]);
    // A reset takes the masks with it.
    rig.faults(|f| f.pci_error = 1);
    rig.send(&frame(PEER, 60));
    rig.faults(|f| f.pci_error = 0);
    rig.serve();
    assert_eq!(rig.counter("resets"), 1);
    assert_eq!(passes(&mut rig), [0, 7]);
}

#[test]
fn the_registers_are_those_of_the_sheet() {
    // Section 4.11, with Linux's commit: entry 0 is id 0, entry 1 id 0x123.
    let mut rig = Rig::new(M);
    rig.card.lock().unwrap().writes.clear();
    rig.driver.set_vlans(&[0x123]);
    let wanted = [
        (0x92, 8, 0x01),
        (0x88, 32, 0),
        (0x92, 8, 0),
        (0x92, 8, 0x03),
        (0x93, 8, 0),
        (0x16, 16, 0),
        (0x92, 8, 0x05),
        (0x92, 8, 0),
        (0x92, 8, 0x03),
        (0x93, 8, 1),
        (0x16, 16, 0x123),
        (0x92, 8, 0x05),
        (0x92, 8, 0),
        (0x92, 8, 0x03),
        (0x88, 32, 3),
        (0x92, 8, 0),
        (0x6f, 8, 0x80),
    ];
    assert_eq!(rig.card.lock().unwrap().writes[..wanted.len()], wanted);
    // A tagged frame wakes its ring.
    rig.card.lock().unwrap().writes.clear();
    rig.queue_tagged(&frame(PEER, 60), Tci(0x123));
    rig.driver.flush();
    assert_eq!(rig.card.lock().unwrap().writes, [(0x0a, 8, 0x80), (0x09, 8, 0x2c)]);
    assert_eq!(rig::Bar(rig.card.clone()).read8(0x07) & 1, 1, "PQEN");
}

#[test]
fn sums_and_tags_go_together() {
    for reading in ["", "seeded-checksum"] {
        for checksums in [TransmitChecksums::Off, TransmitChecksums::On, TransmitChecksums::AUTO] {
            let mut rig = Rig::full(M, reading.parse().unwrap(), checksums);
            for protocol in [6, 17] {
                for len in [60, 999, 1514] {
                    let data = packet(protocol, len);
                    rig.queue_tagged(&data, Tci(5));
                    rig.driver.flush();
                    assert_eq!(rig.sent(), [tagged(&data, 5)], "{checksums:?} {protocol} {len}");
                }
                // Verified by the card although there was a tag.
                rig.wire(&tagged(&packet(protocol, 500), 0));
                let verified = ReceiveChecksum::Verified { ip: true, transport: true };
                let wanted = (packet(protocol, 500), Some(Tci(0)), verified);
                assert_eq!(rig.serve_tagged(), [wanted]);
            }
        }
    }
}

#[test]
fn other_chips_leave_tags_alone() {
    let features = [Feature::RxVlanOffload, Feature::TxVlanOffload, Feature::RxVlanFilter];
    for chip in chips() {
        let mut rig = Rig::new(chip);
        for feature in features {
            let state = rig.driver.feature(feature);
            assert_eq!((state.on, state.fixed), (chip == M, chip != M), "{chip:?}");
        }
        if chip == M {
            continue;
        }
        for feature in features {
            assert_eq!(rig.driver.set_feature(feature, true), Err(FeatureError::Fixed));
        }
        rig.driver.set_vlans(&[5]);
        for id in [0, 5, 6] {
            let data = tagged(&frame(MAC, 1514), id);
            rig.wire(&data);
            assert_eq!(rig.serve_tagged(), [(data, None, ReceiveChecksum::Unverified)]);
        }
        let data = tagged(&frame(PEER, 1514), 5);
        rig.send(&data);
        assert_eq!(rig.sent(), [data]);
        let outside = rig.card.lock().unwrap().writes.iter().any(|w| w.0 >= 0x80);
        assert!(!(outside && chip == ModelChip::VT86C100A), "its registers end at 0x80");
    }
}

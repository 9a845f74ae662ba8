//! Frames both ways, on each variant.

mod rig;

use rig::{AVB, BUFFERS, FALLBACK, MAC, PEER, ROOM, Recipe, Rig, VARIANTS};
use rig::{card, config, frame, packet, proves, request};
use std::time::Duration;
use trireme_nic::double::TwoMemories;
use trireme_nic::{
    Feature, FeatureError, FeatureState, Link, Nic, ReceiveChecksum, ReceiveFilter, checksum,
};
use trireme_ravb::{Config, Ravb, Variant};
use trireme_ravb_model::Faults;

#[test]
fn each_variant_comes_up_with_address_and_link() {
    for variant in VARIANTS {
        let rig = Rig::new(variant);
        assert_eq!(rig.driver.mac_address(), MAC, "the boot loader's");
        let link = Link { up: true, speed_mbps: 1000, full_duplex: true };
        assert_eq!(rig.driver.link(), link, "{variant:?}");
        assert!(!rig.interrupt());
        assert_eq!(rig.card.lock().unwrap().model.counters().violations, 0, "{variant:?}");
        assert_eq!(rig.card.lock().unwrap().model.counters().unknown_accesses, 0, "{variant:?}");
    }
}

#[test]
fn the_machines_word_on_the_address_counts_more_than_the_cards() {
    let told = [0x2e, 0x09, 0x0a, 9, 9, 9];
    let dma = TwoMemories::new(64);
    let card = card(&dma, Variant::Gen3, Faults::default());
    let config = Config { mac: Some(told), ..config(&card, Variant::Gen3) };
    let driver = Ravb::new(rig::Bar(card.clone()), dma, config).unwrap();
    assert_eq!(driver.mac_address(), told);
    assert_ne!(told, FALLBACK);
    let mut rig = Rig { card, driver };
    rig.settle();
    rig.wire(&frame(told, 60));
    rig.wire(&frame(MAC, 61));
    assert_eq!(rig.serve().len(), 1, "the card knows it too");
}

#[test]
fn frames_of_every_length_go_out_unchanged_and_padded() {
    for variant in VARIANTS {
        let mut rig = Rig::new(variant);
        let longest = usize::from(rig.driver.max_mtu()) + 18;
        for len in (14..=70).chain([100, 1000, 1513, 1514, 1518, longest]) {
            let data = frame(PEER, len);
            rig.send(&data);
            let mut wanted = data;
            wanted.resize(len.max(60), 0);
            assert_eq!(rig.sent(), [wanted], "{variant:?} {len}");
            rig.serve();
        }
        assert_eq!(rig.driver.transmit_room(), ROOM);
        let counters = rig.card.lock().unwrap().model.counters();
        assert_eq!((counters.tx_runts, counters.tx_errors, counters.unheard), (0, 0, 0));
    }
}

#[test]
fn frames_of_every_length_come_in_unchanged() {
    for variant in VARIANTS {
        for on in [true, false] {
            let mut rig = Rig::new(variant);
            rig.driver.set_feature(Feature::RxChecksumming, on).unwrap();
            let lengths: Vec<usize> = (60..=70).chain([100, 1000, 1513, 1514, 1518]).collect();
            for &len in &lengths {
                let data = frame(MAC, len);
                rig.wire(&data);
                assert!(rig.interrupt(), "{variant:?} {len}");
                let got = rig.serve();
                let (received, said) = &got[0];
                // With its engine off GbEth may still append four bytes: they are behind the frame. [RV 5.2]
                let more = if on { 0 } else { 4 };
                assert_eq!(received[..len], data, "{variant:?} {len}");
                assert!(received.len() <= len + more);
                match (variant, on) {
                    (_, false) | (Variant::Gbeth, _) => {
                        assert_eq!(*said, ReceiveChecksum::Unverified);
                    }
                    _ => assert!(proves(&data, *said)),
                }
                assert!(!rig.interrupt());
            }
            assert_eq!(rig.counter("rx_packets"), lengths.len() as u64);
            assert_eq!(rig.counter("rx_errors"), 0);
        }
    }
}

#[test]
fn rings_go_round_many_times_in_batches() {
    for variant in VARIANTS {
        let mut rig = Rig::new(variant);
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
        assert_eq!(rig.driver.transmit_room(), ROOM);
    }
}

#[test]
fn a_full_transmit_ring_says_so_and_interrupts_when_there_is_room() {
    // An interpreter is minutes at each: the one with pieces to align.
    let variants = if cfg!(miri) { &VARIANTS[2..] } else { &VARIANTS[..] };
    for &variant in variants {
        let mut rig = Rig::new(variant);
        rig.faults(|f| f.tx_stall = 1);
        let data = frame(PEER, 60);
        let mut queued = 0;
        while rig.queue(&data, &request(&rig.driver, &data)) {
            queued += 1;
        }
        assert_eq!((queued, rig.driver.transmit_room()), (ROOM, 0));
        rig.driver.flush();
        rig.serve();
        assert!(!rig.interrupt());
        rig.faults(|f| f.tx_stall = 0);
        rig.later(Duration::from_millis(30));
        assert!(rig.interrupt(), "{variant:?}");
        rig.serve();
        assert_eq!(rig.driver.transmit_room(), ROOM);
        assert_eq!(rig.sent().len(), ROOM);
    }
}

#[test]
fn a_lent_buffer_can_be_moved_shortened_or_given_back() {
    for variant in VARIANTS {
        let mut rig = Rig::new(variant);
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
            assert_eq!(rig.sent(), std::slice::from_ref(&data), "{variant:?} {start}");
        }
        let expected = if variant == Variant::Gen3 { 0 } else { 6 };
        assert_eq!(rig.counter("tx_misaligned"), expected, "two descriptors each");
        assert_eq!(rig.card.lock().unwrap().model.counters().tx_misaligned, 0);
    }
}

/// The wire carries right sums whoever makes them, whatever the packet is and however the sheet's open
/// questions about the engine are answered. [RV 5.3, 10 items 14 and 15]
#[test]
fn sent_sums_are_right_for_every_kind_of_packet_on_and_off() {
    let readings = ["", "seeded-checksum", "takes-options", "udp-zero-sent", "padding-unsupported"];
    for (variant, reading) in
        VARIANTS.into_iter().flat_map(|v| readings.iter().map(move |reading| (v, *reading)))
    {
        for on in [true, false] {
            let mut rig = Rig::with(variant, reading.parse().unwrap());
            let switched = rig.driver.set_feature(Feature::TxChecksumming, on);
            assert_eq!(switched.is_ok(), variant == Variant::Gbeth || !on);
            for recipe in recipes() {
                let right = recipe.make();
                // As the engine is believed to be, it takes a whole sum for what it is [RV 5.3, D]; one that
                // adds to the field spoils the frames software has summed.
                let plain = !recipe.options && recipe.tag != Some(0x88a8);
                if reading == "seeded-checksum" && !plain {
                    continue;
                }
                rig.send(&right);
                let mut wanted = right.clone();
                wanted.resize(right.len().max(60), 0);
                assert_eq!(rig.sent(), [wanted], "{variant:?} {reading:?} {on} {recipe:?}");
                rig.serve();
            }
            let by_card = rig.card.lock().unwrap().model.counters().tx_checksums;
            assert_eq!(by_card > 0, variant == Variant::Gbeth && on, "{variant:?} {reading} {on}");
            assert_eq!(rig.card.lock().unwrap().model.counters().tx_odd_seeds, 0);
        }
    }
}

fn recipes() -> Vec<Recipe> {
    let mut all = Vec::new();
    for protocol in [6, 17, 1, 47] {
        for v6 in [false, true] {
            for options in [false, true] {
                for tag in [None, Some(0x8100), Some(0x88a8)] {
                    for len in [100, 101, 1000, 1514] {
                        let base = Recipe::plain(protocol, len);
                        all.push(Recipe { v6, options, tag, ..base });
                    }
                }
            }
        }
        for len in 54..62 {
            all.push(Recipe::plain(protocol, len));
        }
        all.push(Recipe { fragment: true, ..Recipe::plain(protocol, 200) });
    }
    all
}

/// Fragments leave as they are: no field in them is the engine's.
#[test]
fn fragments_are_not_touched() {
    for variant in VARIANTS {
        let mut rig = Rig::new(variant);
        for protocol in [6, 17] {
            let fragment = Recipe { fragment: true, ..Recipe::plain(protocol, 300) }.make();
            assert!(!request(&rig.driver, &fragment).transport_checksum);
            rig.send(&fragment);
            assert_eq!(rig.sent(), [fragment]);
        }
    }
}

/// [RV E39, S3]: without the seed the engine would take the datagram for one without a sum.
#[test]
fn a_datagram_never_leaves_without_its_sum() {
    let mut rig = Rig::new(Variant::Gbeth);
    for len in 43..100 {
        let right = packet(17, len);
        rig.send(&right);
        let sent = rig.sent().remove(0);
        assert_ne!(sent[40..42], [0, 0]);
        assert_eq!(sent[40..42], right[40..42]);
    }
}

#[test]
fn received_sums_settle_every_kind_the_engine_knows_and_claim_nothing_else() {
    for variant in VARIANTS {
        let mut rig = Rig::new(variant);
        for recipe in recipes().into_iter().filter(|recipe| recipe.len >= 60) {
            let right = recipe.make();
            rig.wire(&right);
            let (data, said) = rig.serve().remove(0);
            assert_eq!(data, right, "{variant:?} {recipe:?}");
            if variant != Variant::Gbeth {
                let sum = checksum::sum(&right[14..]);
                assert_eq!(said, ReceiveChecksum::Complete(sum), "{recipe:?}");
                continue;
            }
            let known = matches!(recipe.protocol, 6 | 17)
                && !recipe.options
                && !recipe.fragment
                && recipe.tag != Some(0x88a8);
            let verified = ReceiveChecksum::Verified { ip: false, transport: true };
            if known {
                assert_eq!(said, verified, "{recipe:?}");
            } else if recipe.protocol == 47 || recipe.fragment || recipe.tag == Some(0x88a8) {
                assert_eq!(said, ReceiveChecksum::Unverified, "{recipe:?}");
            }
            // A byte of payload changes on the wire.
            let mut wrong = right.clone();
            *wrong.last_mut().unwrap() ^= 0x10;
            rig.wire(&wrong);
            let (_, said) = rig.serve().remove(0);
            assert_ne!(said, verified, "{recipe:?}");
            if known {
                assert_eq!(said, ReceiveChecksum::Bad, "{recipe:?}");
            }
        }
    }
}

/// [RV 5.1]: padding is part of R-Car's sum, and is not always zero.
#[test]
fn short_frames_are_summed_with_their_padding() {
    for variant in AVB {
        let mut rig = Rig::new(variant);
        for len in 42..60 {
            let mut padded = packet(17, len);
            padded.extend((len..60).map(|i| 0xa0 + i as u8));
            rig.wire(&padded);
            let (data, said) = rig.serve().remove(0);
            assert_eq!(data, padded);
            assert_eq!(said, ReceiveChecksum::Complete(checksum::sum(&padded[14..])));
        }
    }
}

/// 7 kB and more arrive whole; Linux's driver trimmed such frames wrongly. [RV E17 to E19]
#[test]
fn gbeth_takes_frames_over_several_descriptors() {
    let mut rig = Rig::new(Variant::Gbeth);
    for round in 0..30 {
        for len in [2043, 2044, 2045, 2046, 2047, 2048, 2049, 4090, 4093, 4096, 7000, 8188] {
            let data = packet(6, len);
            rig.wire(&data);
            let got = rig.serve();
            assert_eq!(got.len(), 1, "{round} {len}");
            assert_eq!(got[0].0, data, "{round} {len}");
            assert_eq!(got[0].1, ReceiveChecksum::Verified { ip: false, transport: true });
        }
    }
    assert!(rig.counter("rx_linearised") > 0, "the ring ended in some");
    assert!(rig.counter("rx_linearised") * 5 < rig.counter("rx_chained"));
}

/// Frames at the edge of the buffer and of RFLR. [RV 1.2, notes]
#[test]
fn rcar_takes_frames_up_to_its_limit() {
    for variant in AVB {
        let mut rig = Rig::new(variant);
        for len in 2040..=2048 {
            let data = frame(MAC, len);
            rig.wire(&data);
            let got = rig.serve();
            assert_eq!(got.len(), 1, "{len}");
            assert_eq!(got[0].0, data);
            assert!(proves(&data, got[0].1));
        }
        rig.wire(&frame(MAC, 2049));
        assert!(rig.serve().is_empty());
        assert_eq!(rig.counter("rx_errors"), 1);
        rig.works();
    }
}

#[test]
fn filters_let_through_what_they_say() {
    for variant in VARIANTS {
        let mut rig = Rig::new(variant);
        let group = [0x01, 0x00, 0x5e, 0, 0, 1];
        let other = [0x02, 7, 7, 7, 7, 7];
        let heard = |rig: &mut Rig| {
            for to in [MAC, [0xff; 6], group, other] {
                rig.wire(&frame(to, 60));
            }
            let got: Vec<[u8; 6]> =
                rig.serve().iter().map(|(data, _)| data[..6].try_into().unwrap()).collect();
            got
        };
        // There is no filter for groups: all of them come.
        assert_eq!(heard(&mut rig), [MAC, [0xff; 6], group]);
        rig.driver.set_receive_filter(ReceiveFilter::Promiscuous);
        assert_eq!(heard(&mut rig), [MAC, [0xff; 6], group, other]);
        rig.driver.set_receive_filter(ReceiveFilter::Multicast(&[group]));
        assert_eq!(heard(&mut rig), [MAC, [0xff; 6], group]);
    }
}

#[test]
fn features_are_what_each_variant_has() {
    let on = FeatureState { on: true, fixed: false };
    for variant in VARIANTS {
        let mut rig = Rig::new(variant);
        for feature in Feature::ALL {
            let expected = match feature {
                Feature::RxChecksumming => on,
                Feature::TxChecksumming if variant == Variant::Gbeth => on,
                _ => FeatureState::ABSENT,
            };
            assert_eq!(rig.driver.feature(feature), expected);
        }
        let refused = rig.driver.set_feature(Feature::TcpSegmentationOffload, true);
        assert_eq!(refused, Err(FeatureError::Fixed));
        assert_eq!(rig.driver.max_mtu(), if variant == Variant::Gbeth { 1500 } else { 2025 });
        assert!(rig.driver.set_mtu(rig.driver.max_mtu()));
        assert!(!rig.driver.set_mtu(rig.driver.max_mtu() + 1));
        assert!(!rig.driver.set_mtu(67));
    }
}

/// The acceptance: a thousand switches with frames queued and under way both ways. Every frame of ours leaves
/// with right sums, none twice; what comes in is whole and its sum is believed only where it is there.
/// [RV 5.1, 5.4, E47]
#[test]
fn switching_under_traffic_a_thousand_times_loses_no_queued_frame() {
    for variant in VARIANTS {
        for late in ["", "rx-late=1,tx-late=1,slow-toe=3"] {
            let mut rig = Rig::with(variant, late.parse().unwrap());
            let mut number = 0u32;
            let mut next_received = 0u32;
            let mut leaving = Vec::new();
            let marked = |number: u32, len: usize| {
                let mut data = packet(17, len);
                data[50..54].copy_from_slice(&number.to_be_bytes());
                // Sums again, with the number in: that is what the recipe does last.
                let field = 40..42;
                data[field.clone()].fill(0);
                let pseudo = checksum::sum(&data[26..34]) as u64 + 17 + (len - 34) as u64;
                let sum = !checksum::add(checksum::fold(pseudo), checksum::sum(&data[34..]));
                data[field].copy_from_slice(&(if sum == 0 { 0xffff } else { sum }).to_be_bytes());
                data
            };
            let mut switches = 0;
            while switches < 1000 {
                for feature in [Feature::RxChecksumming, Feature::TxChecksumming] {
                    for _ in 0..3 {
                        let data = marked(number, 60 + (number as usize * 37) % 1400);
                        rig.wire(&data);
                        // Queued, the doorbell not rung yet.
                        let request = request(&rig.driver, &data);
                        let mut out = data.clone();
                        if request.transport_checksum {
                            out[40..42].fill(0);
                        }
                        assert!(rig.queue(&out, &request), "{variant:?}");
                        leaving.push(data);
                        number += 1;
                    }
                    let state = rig.driver.feature(feature);
                    if !state.fixed {
                        rig.driver.set_feature(feature, !state.on).unwrap();
                        switches += 1;
                    }
                    rig.driver.flush();
                    for (data, said) in rig.serve() {
                        check_arrival(&data, said, &mut next_received, &marked);
                    }
                }
                rig.later(Duration::from_millis(3));
                for (data, said) in rig.serve() {
                    check_arrival(&data, said, &mut next_received, &marked);
                }
                assert_eq!(rig.sent(), leaving, "{variant:?} {late} {switches}");
                leaving.clear();
            }
            assert_eq!(next_received, number, "{variant:?} {late}: frames received");
            assert_eq!(rig.counter("checksum_switches"), switches);
            assert_eq!(rig.counter("resets"), 0);
            assert_eq!(rig.card.lock().unwrap().model.counters().violations, 0);
            rig.works();
        }
    }
}

fn check_arrival(
    data: &[u8],
    said: ReceiveChecksum,
    next: &mut u32,
    marked: &dyn Fn(u32, usize) -> Vec<u8>,
) {
    let number = u32::from_be_bytes(data[50..54].try_into().unwrap());
    assert_eq!(number, *next, "in order, none lost");
    *next += 1;
    let wanted = marked(number, 60 + (number as usize * 37) % 1400);
    assert_eq!(data[..wanted.len()], wanted, "{said:?}");
    match said {
        // An engine switched off may leave its four bytes. [RV 5.2]
        ReceiveChecksum::Unverified => assert!(data.len() <= wanted.len() + 4),
        said => {
            assert_eq!(data.len(), wanted.len());
            assert!(proves(&wanted, said), "{said:?}");
        }
    }
}

#[test]
fn the_ring_of_received_frames_is_as_long_as_it_says() {
    for variant in VARIANTS {
        let mut rig = Rig::new(variant);
        for i in 0..BUFFERS + 10 {
            rig.wire(&frame(MAC, 60 + i));
        }
        assert_eq!(rig.serve().len(), BUFFERS, "{variant:?}");
        assert!(rig.counter("rx_over_errors") > 0);
        rig.works();
    }
}

/// What an interrupt and a frame cost in register accesses, each a trip over the bus.
#[test]
fn register_accesses_per_turn_are_few() {
    for variant in VARIANTS {
        let mut rig = Rig::new(variant);
        rig.wire(&frame(MAC, 60));
        rig.serve();
        let before = rig.card.lock().unwrap().accesses;
        for _ in 0..20 {
            rig.wire(&frame(MAC, 60));
        }
        assert_eq!(rig.serve().len(), 20);
        let turn = rig.card.lock().unwrap().accesses - before;
        // Masked twice, summary; flags twice, enables twice, one read.
        assert!(turn <= 8, "{variant:?}: {turn}");
        let before = rig.card.lock().unwrap().accesses;
        for _ in 0..20 {
            let data = frame(PEER, 60);
            rig.queue(&data, &request(&rig.driver, &data));
        }
        rig.driver.flush();
        assert_eq!(rig.card.lock().unwrap().accesses - before, 1, "the doorbell");
    }
}

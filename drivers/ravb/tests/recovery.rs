//! What goes wrong, and that the card is back afterwards: links that come and go, rings that overflow, queues that
//! stop, waits that do not end.

mod rig;

use rig::{
    AVB, BUFFERS, MAC, PEER, ROOM, Rig, VARIANTS, frame, packet, proves, ptp_frame, request,
    try_rig,
};
use std::time::Duration;
use trireme_nic::{Feature, FeatureError, Link, Nic};
use trireme_ravb::{Error, Timeout, Variant};

const ECMR: usize = 0x500;
const GECMR: usize = 0x5b0;

fn milliseconds(n: u64) -> Duration {
    Duration::from_millis(n)
}

/// All receive buffers are the card's, and all for sending are home.
fn nothing_is_lost(rig: &mut Rig) {
    rig.works();
    (0..BUFFERS).for_each(|_| rig.wire(&frame(MAC, 70)));
    assert_eq!(rig.serve().len(), BUFFERS);
    assert_eq!(rig.driver.transmit_room(), ROOM);
}

fn up(speed_mbps: u32, full_duplex: bool) -> Link {
    Link { up: true, speed_mbps, full_duplex }
}

/// IEEE 802.3, 28B.3: the best both offer; R-Car offers full duplex at 100 and 1000 Mbit/s only. [RV 1.2]
#[test]
fn the_mac_follows_every_speed_and_duplex() {
    let offers = [
        (0x45e1, 0x0c00, Some((1000, true)), true),
        (0x45e1, 0x0400, Some((1000, false)), false),
        (0x45e1, 0, Some((100, true)), true),
        (0x44e1, 0, Some((100, false)), false),
        (0x4461, 0, Some((10, true)), false),
        (0x4421, 0, Some((10, false)), false),
        (0x4401, 0, None, false),
    ];
    for variant in VARIANTS {
        let mut rig = Rig::new(variant);
        for round in 0..3 {
            for (offer, gigabit, best, on_avb) in offers {
                rig.cable(false);
                rig.until("down", |rig| !rig.driver.link().up);
                assert_eq!(rig.register(ECMR) & 0x60, 0);
                rig.partner(offer, gigabit);
                rig.cable(true);
                // 1000 Mbit/s half duplex leaves R-Car with 100 full.
                let expected = match (variant, best) {
                    (Variant::Gbeth, best) => best,
                    (_, Some((1000, false))) => Some((100, true)),
                    (_, best) => best.filter(|_| on_avb),
                };
                let Some((speed, full_duplex)) = expected else {
                    (0..15).for_each(|_| {
                        rig.later(milliseconds(100));
                        rig.serve();
                    });
                    assert!(!rig.driver.link().up, "{variant:?} {offer:#x}");
                    continue;
                };
                rig.until("up", |rig| rig.driver.link().up);
                assert_eq!(rig.driver.link(), up(speed, full_duplex), "{variant:?} {offer:#x}");
                let code = match (variant, speed) {
                    (Variant::Gbeth, 10) => 0,
                    (Variant::Gbeth, 100) => 0x10,
                    (Variant::Gbeth, _) => 0x20,
                    (_, speed) => u32::from(speed == 1000),
                };
                assert_eq!(rig.register(GECMR), code);
                assert_eq!(rig.register(ECMR) & 0x62, if full_duplex { 0x62 } else { 0x60 });
                rig.works();
            }
            assert_eq!(rig.counter("resets"), 0, "{variant:?} {round}");
        }
        assert_eq!(rig.seen().violations, 0);
    }
}

/// Between two looks the link goes and comes back at another speed.
#[test]
fn a_flap_too_short_to_be_seen_is_noticed_by_its_speed() {
    for variant in VARIANTS {
        let mut rig = Rig::new(variant);
        for (offer, gigabit, speed) in [(0x45e1, 0, 100), (0x45e1, 0x0c00, 1000)] {
            rig.cable(false);
            rig.partner(offer, gigabit);
            rig.cable(true);
            rig.until("the new speed", |rig| rig.driver.link() == up(speed, true));
            rig.works();
        }
    }
}

#[test]
fn a_link_that_flaps_under_traffic_costs_frames_on_the_wire_and_nothing_else() {
    for variant in VARIANTS {
        let mut rig = Rig::new(variant);
        rig.faults(|f| (f.link_flap, f.slow_link) = (milliseconds(130), milliseconds(50)));
        let mut sent = 0;
        for n in 0..400 {
            rig.later(milliseconds(23));
            let data = frame(PEER, 60 + n);
            // The ring fills while the link is down.
            if rig.queue(&data, &request(&rig.driver, &data)) {
                rig.driver.flush();
                sent += 1;
            }
            rig.wire(&frame(MAC, 60 + n));
            for (data, _) in rig.serve() {
                assert_eq!(data, frame(MAC, data.len()));
            }
            rig.sent();
        }
        rig.heal();
        rig.cable(true);
        rig.until("link", |rig| rig.driver.link().up);
        nothing_is_lost(&mut rig);
        // One of each in `works`.
        assert_eq!(rig.counter("tx_packets"), sent + 1, "{variant:?}");
        assert!(rig.counter("link_changes") > 10);
        assert_eq!([rig.counter("resets"), rig.counter("tx_timeouts")], [0, 0], "{variant:?}");
    }
}

#[test]
fn frames_queued_without_a_link_leave_when_there_is_one() {
    for variant in VARIANTS {
        let mut rig = Rig::new(variant);
        rig.cable(false);
        rig.until("down", |rig| !rig.driver.link().up);
        let data: Vec<_> = (0..ROOM).map(|n| frame(PEER, 60 + n)).collect();
        for data in &data {
            assert!(rig.queue(data, &request(&rig.driver, data)));
        }
        rig.driver.flush();
        // However long that takes: nothing is wrong with the card.
        for _ in 0..100 {
            rig.later(milliseconds(300));
            rig.serve();
        }
        assert_eq!([rig.counter("resets"), rig.counter("tx_restarts")], [0, 0]);
        assert!(rig.sent().is_empty());
        rig.cable(true);
        rig.until("up", |rig| rig.driver.link().up);
        assert_eq!(rig.sent(), data, "{variant:?}");
        nothing_is_lost(&mut rig);
    }
}

#[test]
fn overload_costs_the_frames_there_is_no_room_for() {
    for variant in VARIANTS {
        let mut rig = Rig::new(variant);
        for fault in ["", "rx-overflow=2", "rx-queue-full=2", "rx-overflow=3,rx-no-interrupt=2"] {
            rig.faults(|f| *f = fault.parse().unwrap());
            for _ in 0..5 {
                // Nobody looks meanwhile; both queues.
                for n in 0..3 * BUFFERS {
                    rig.wire(&frame(MAC, 60 + n));
                    rig.wire(&ptp_frame(MAC, 60 + n));
                }
                let got = rig.serve();
                let queues = if variant == Variant::Gbeth { 1 } else { 2 };
                assert!(got.len() >= BUFFERS / 2 && got.len() <= queues * BUFFERS, "{}", got.len());
                assert!(got.iter().all(|(data, said)| data[..6] == MAC && proves(data, *said)
                    || variant == Variant::Gbeth));
            }
            rig.heal();
            nothing_is_lost(&mut rig);
        }
        assert!(rig.counter("rx_over_errors") > 0 && rig.counter("rx_fifo_errors") > 0);
        assert_eq!(rig.counter("resets"), 0, "{variant:?}");
    }
}

/// [RV 9], last paragraph, as it stands there: traffic, switches and a restart under each.
#[test]
fn each_fault_the_sheet_suggests_is_survived() {
    let sheet = include_str!("../../../docs/hardware/ravb.md");
    let list = sheet.split("Suggested fault injections: ").nth(1).unwrap();
    let list: Vec<&str> = list.split(".\n").next().unwrap().split(", ").collect();
    assert_eq!(list.len(), 11);
    for name in list {
        // What the model calls it, and the counter that tells of it.
        let (fault, counter) = match name {
            "queue full" => ("rx-queue-full=3", "rx_over_errors"),
            "FSTART without FEND" => ("rx-cut-chain=2", "rx_missing_pieces"),
            "zero DS" => ("rx-zero-length=3", "rx_length_errors"),
            "truncated frames (TR)" => ("rx-truncated=3", "rx_length_errors"),
            "CRC error" => ("rx-crc=3", "rx_crc_errors"),
            "link flap during traffic" => ("link-flap=100", "link_changes"),
            "FIFO full (RFFF)" => ("rx-overflow=3", "rx_fifo_errors"),
            "timestamp FIFO full" => ("timestamp-overflow=2", "tx_timestamps_lost"),
            "delayed write-back" => ("tx-late=5", "tx_packets"),
            "delayed OPS change" => ("slow-mode=50", "resets"),
            "DTS never set" => ("dts-never", "resets"),
            unknown => panic!("no fault for {unknown}"),
        };
        let mut told = 0;
        for variant in VARIANTS {
            let mut rig = Rig::with(variant, fault.parse().unwrap());
            for n in 0..80 {
                let data = frame(PEER, 60 + n);
                if rig.queue(&data, &request(&rig.driver, &data)) {
                    rig.driver.flush();
                }
                if variant != Variant::Gbeth && rig.driver.transmit_room() > 0 {
                    rig.send_timed(&ptp_frame(PEER, 64));
                }
                // GbEth's longest is three descriptors.
                rig.wire(&packet(6, if variant == Variant::Gbeth { 60 + 60 * n } else { 60 + n }));
                if n % 40 == 20 {
                    let on = rig.driver.feature(Feature::RxChecksumming).on;
                    let switched = rig.driver.set_feature(Feature::RxChecksumming, !on);
                    assert!(matches!(switched, Ok(()) | Err(FeatureError::Timeout)));
                }
                for (data, said) in rig.serve() {
                    assert_eq!(data[..12], [&MAC[..], &PEER].concat());
                    assert!(
                        !matches!(said, trireme_nic::ReceiveChecksum::Bad),
                        "{variant:?} {name}"
                    );
                }
                rig.later(milliseconds(7));
                rig.sent();
            }
            rig.faults(|f| f.tx_queue_error = 1);
            let data = frame(PEER, 60);
            assert!(rig.queue(&data, &request(&rig.driver, &data)));
            rig.driver.flush();
            rig.faults(|f| f.tx_queue_error = 0);
            rig.serve();
            rig.heal();
            rig.cable(true);
            rig.until("link", |rig| rig.driver.link().up);
            rig.until("frames home", |rig| rig.driver.transmit_room() == ROOM);
            rig.driver.set_feature(Feature::RxChecksumming, true).unwrap();
            nothing_is_lost(&mut rig);
            told += rig.counter(counter);
        }
        assert!(told > 0, "{name}: {counter}");
    }
}

/// A queue stops with an error while frames wait in it, and some have been received.
#[test]
fn a_queue_that_stops_loses_no_frame_either_way() {
    for variant in VARIANTS {
        let timed: &[bool] = if variant == Variant::Gbeth { &[false] } else { &[false, true] };
        for &timed in timed {
            let mut rig = Rig::new(variant);
            for round in 1..=5 {
                let data: Vec<_> = (0..40).map(|n| ptp_frame(PEER, 60 + n)).collect();
                (0..30).for_each(|n| rig.wire(&packet(17, 100 + n)));
                rig.faults(|f| f.tx_queue_error = 7);
                for data in &data {
                    if timed {
                        rig.send_timed(data);
                    } else {
                        rig.send(data);
                    }
                }
                rig.heal();
                rig.wire(&packet(17, 500));
                let got = rig.serve();
                assert_eq!(got.len(), 31, "{variant:?} {timed}");
                for ((data, said), len) in got.iter().zip((100..130).chain([500])) {
                    assert_eq!(*data, packet(17, len));
                    assert!(proves(data, *said));
                }
                assert_eq!(rig.sent(), data, "{variant:?} {timed}: once each, in order");
                assert_eq!(rig.counter("resets"), round);
            }
            assert_eq!(rig.counter("queue_errors"), 5);
            assert_eq!(rig.counter("tx_dropped"), 0);
            nothing_is_lost(&mut rig);
        }
    }
}

/// A frame the card cannot send does not stand in the way of others for ever.
#[test]
fn a_frame_that_stops_its_queue_each_time_is_given_up() {
    for variant in VARIANTS {
        let mut rig = Rig::new(variant);
        rig.faults(|f| f.tx_queue_error = 1);
        for n in 0..20 {
            let data = frame(PEER, 60 + n);
            assert!(rig.queue(&data, &request(&rig.driver, &data)));
        }
        rig.driver.flush();
        rig.until("all given up", |rig| rig.counter("tx_dropped") == 20);
        assert!(rig.sent().is_empty());
        assert_eq!(rig.counter("resets"), 40, "two attempts each");
        rig.heal();
        nothing_is_lost(&mut rig);
    }
}

/// The ring itself is damaged: descriptors, links and table are made anew.
#[test]
fn descriptors_that_lead_nowhere_are_got_over() {
    for variant in VARIANTS {
        let stride = if variant == Variant::Gbeth { 8 } else { 20 };
        let nowhere = [0x9000_0000u32.to_le_bytes(), 0xdead_0000u32.to_le_bytes()].concat();
        let mut rig = Rig::new(variant);
        for round in 1..=3 {
            // The receive ring's link back.
            let ring = rig.entry(4).1;
            rig.poke(ring + stride * BUFFERS as u32, &nowhere);
            let mut got = 0;
            for n in 0..2 * BUFFERS {
                rig.wire(&frame(MAC, 60 + n));
                got += rig.serve().len();
            }
            assert_eq!(rig.counter("queue_errors"), 3 * round - 2);
            assert_eq!(got, 2 * BUFFERS - 1, "{variant:?}: the one it stumbled at");
            // The transmit ring's next descriptor, written over between queueing and doorbell.
            let data = frame(PEER, 100);
            assert!(rig.queue(&data, &request(&rig.driver, &data)));
            let ring = rig.entry(0).1;
            let slots = if variant == Variant::Gen3 { ROOM + 1 } else { 2 * ROOM + 1 };
            let next = (0..slots as u32).find(|n| rig.word(ring + 8 * n) >> 28 == 7).unwrap();
            rig.poke(ring + 8 * next, &nowhere);
            rig.driver.flush();
            rig.until("sent", |rig| rig.driver.transmit_room() == ROOM);
            assert_eq!(rig.sent(), [data]);
            assert_eq!(rig.counter("queue_errors"), 3 * round - 1);
            // A start without an end.
            let data = frame(PEER, 200);
            assert!(rig.queue(&data, &request(&rig.driver, &data)));
            let ring = rig.entry(0).1;
            let next = (0..slots as u32).find(|n| rig.word(ring + 8 * n) >> 28 == 7).unwrap();
            rig.poke(ring + 8 * next + 3, &[0x50]);
            rig.driver.flush();
            rig.until("sent", |rig| rig.driver.transmit_room() == ROOM);
            assert_eq!(rig.sent(), [data]);
            assert_eq!(rig.counter("queue_errors"), 3 * round);
        }
        nothing_is_lost(&mut rig);
    }
}

/// The queue for network control: its ring damaged alike.
#[test]
fn the_other_queue_is_got_over_too() {
    for variant in AVB {
        let mut rig = Rig::new(variant);
        let ring = rig.entry(5).1;
        rig.poke(ring + 20 * 32, &[0, 0, 0, 0x50]);
        let mut got = 0;
        for n in 0..100 {
            rig.wire(&ptp_frame(MAC, 60 + n));
            got += rig.serve().len();
        }
        // An end that is no buffer is a full queue, and stays one until somebody restarts the card.
        assert_eq!(got, 32, "{variant:?}");
        assert!(rig.counter("rx_over_errors") >= 68);
        rig.faults(|f| f.tx_queue_error = 1);
        rig.send_timed(&ptp_frame(PEER, 60));
        rig.heal();
        for n in 0..100 {
            rig.wire(&ptp_frame(MAC, 60 + n));
            got += rig.serve().len();
        }
        assert!(got >= 131, "{variant:?}: {got}");
        nothing_is_lost(&mut rig);
    }
}

/// Every wait for a stop, each stuck for good: it ends in time and by name, and when the card comes to its
/// senses so does the driver.
#[test]
fn waits_for_a_stop_are_bounded() {
    for variant in VARIANTS {
        // An hour, in milliseconds: for ever.
        for what in [
            "tx-late=3600000",
            "tx-late=3600000,dts-never",
            "tx-stall=1",
            "rx-late=3600000",
            "slow-toe=4294967295,slow-mode=3600000",
        ] {
            let mut rig = Rig::new(variant);
            rig.faults(|f| *f = what.parse().unwrap());
            let data = frame(PEER, 100);
            rig.send(&data);
            rig.wire(&frame(MAC, 100));
            let sent = rig.sent().len();
            for feature in [Feature::RxChecksumming, Feature::TxChecksumming] {
                let state = rig.driver.feature(feature);
                if state.fixed {
                    continue;
                }
                let before = rig.now_us();
                let switched = rig.driver.set_feature(feature, !state.on);
                let took = rig.now_us() - before;
                // Draining, suspension, configuration, reset mode: what the named waits add up to.
                assert!(took < 600_000, "{variant:?}, {what}: {took} us");
                let before = rig.now_us();
                rig.serve();
                assert!(rig.now_us() - before < 600_000);
                if switched.is_err() {
                    assert_eq!(switched, Err(FeatureError::Timeout), "{variant:?}, {what}");
                    assert_eq!(rig.driver.feature(feature).on, state.on);
                }
            }
            rig.heal();
            rig.later(Duration::from_secs(3600));
            rig.until("link", |rig| rig.driver.link().up);
            rig.until("frames home", |rig| rig.driver.transmit_room() == ROOM);
            rig.driver.set_feature(Feature::RxChecksumming, true).unwrap();
            // Sent before or after; after a restart perhaps twice, as nobody knew.
            let sent = rig.sent().len() + sent;
            assert!((1..=2).contains(&sent), "{variant:?}, {what}: {sent}");
            nothing_is_lost(&mut rig);
            let before = rig.now_us();
            rig.faults(|f| *f = "tx-late=3600000,dts-never".parse().unwrap());
            rig.send(&data);
            rig.driver.stop(trireme_nic::Stop::Reboot);
            assert!(rig.now_us() - before < 600_000, "{variant:?}: stopped for good");
            assert_eq!(rig.driver.service_at(), None, "nothing is due any more");
            assert_eq!(rig.register(0x00c) & 0xf, 1, "reset mode, whatever it takes");
        }
    }
}

#[test]
fn bring_up_fails_by_name() {
    let refused = |variant, faults: &str| {
        let (error, card) = try_rig(variant, faults.parse().unwrap()).err().unwrap();
        let waited = card.lock().unwrap().now;
        assert!(waited < milliseconds(600), "{waited:?}");
        error
    };
    for variant in VARIANTS {
        assert_eq!(refused(variant, "gone"), Error::Absent);
        let mode = Timeout { what: "configuration mode", waited_us: 100_000 };
        assert_eq!(refused(variant, "slow-mode=150"), Error::Timeout(mode));
        // No PHY is no reason not to come up: the link stays down, and is looked for.
        let mut rig = try_rig(variant, "absent-phy".parse().unwrap()).ok().unwrap();
        rig.serve();
        assert!(!rig.driver.link().up);
        assert!(rig.driver.service_at().is_some());
        rig.heal();
        rig.until("link", |rig| rig.driver.link().up);
        rig.works();
    }
}

#[test]
fn a_phy_that_goes_away_is_found_again() {
    for variant in VARIANTS {
        let mut rig = Rig::new(variant);
        rig.faults(|f| f.absent_phy = true);
        rig.cable(false);
        rig.cable(true);
        rig.until("no link", |rig| !rig.driver.link().up);
        rig.later(Duration::from_secs(3));
        rig.serve();
        rig.heal();
        rig.until("link", |rig| rig.driver.link().up);
        nothing_is_lost(&mut rig);
        assert_eq!(rig.counter("resets"), 0, "{variant:?}");
    }
}

/// At 10 Mbit/s a full ring takes 160 ms to leave, and a switch waits for it.
#[test]
fn a_switch_waits_for_as_long_as_the_ring_takes_at_the_link_s_speed() {
    let mut rig = Rig::new(Variant::Gbeth);
    rig.cable(false);
    rig.partner(0x4461, 0);
    rig.until("down", |rig| !rig.driver.link().up);
    rig.cable(true);
    rig.until("10 Mbit/s", |rig| rig.driver.link() == up(10, true));
    rig.faults(|f| f.tx_late = milliseconds(160));
    for on in [false, true] {
        rig.send(&packet(6, 1514));
        rig.driver.set_feature(Feature::TxChecksumming, on).unwrap();
    }
    assert_eq!(rig.counter("resets"), 0);
    assert_eq!(rig.sent(), [packet(6, 1514), packet(6, 1514)]);
}

/// The last owner left everything that can interrupt enabled, and filters and limits on; and nothing takes its
/// settings back but who writes them. [RV 10 item 11]
#[test]
fn what_another_left_in_the_registers_does_no_harm() {
    let avb = [
        (0x094, 0x0202_0202),
        (0x098, 0x3f3f_3f3f),
        (0x0bc, 0x0101_0101),
        (0x0c0, 0x0101_0101),
        (0x3ac, 7),
        (0x000, 0x0100_0001),
    ];
    let all = [
        (0x350, 0xfffe),
        (0x358, 0x7ff),
        (0x360, 0x3_ffff),
        (0x368, 0x8003_ffff),
        (0x370, 0x8003_ffff),
        (0x378, 0xf_0f0f),
        (0x388, 0x3_ffff),
    ];
    for variant in VARIANTS {
        let dma = trireme_nic::double::TwoMemories::new(64);
        let card = rig::card(&dma, variant, "reset-keeps".parse().unwrap());
        let bar = rig::Bar(card.clone());
        use trireme_nic::Registers;
        bar.write32(0x000, 1);
        for (offset, value) in avb.into_iter().filter(|_| variant != Variant::Gbeth).chain(all) {
            bar.write32(offset, value);
        }
        let config = rig::config(&card, variant);
        let driver = trireme_ravb::Ravb::new(bar, dma, config).unwrap();
        let mut rig = Rig { card, driver };
        rig.settle();
        nothing_is_lost(&mut rig);
        rig.wire(&frame(MAC, 60));
        assert!(rig.interrupt());
        rig.serve();
        assert!(!rig.interrupt(), "{variant:?}");
    }
}

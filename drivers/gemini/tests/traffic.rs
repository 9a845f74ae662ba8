//! Frames both ways, on both ports.

mod rig;

use rig::frames::Spec;
use rig::{BUFFERS, FALLBACK, MAC, PEER, ROOM, Rig, VERIFIED};
use rig::{card, config, frame, incoming, mac, try_rig_with, windows};
use std::time::Duration;
use trireme_gemini::{Gemini, MAX_MTU};
use trireme_gemini_model::BoardKind;
use trireme_nic::double::TwoMemories;
use trireme_nic::{Feature, FeatureError, FeatureState, Link, Nic, ReceiveChecksum, ReceiveFilter};

#[test]
fn both_ports_come_up_with_address_and_link() {
    let rig = Rig::default();
    for (n, port) in rig.ports.iter().enumerate() {
        assert_eq!(port.mac_address(), mac(n), "the boot loader's");
        assert_eq!(port.link(), Link { up: true, speed_mbps: 1000, full_duplex: true });
        assert_eq!(port.number(), n);
    }
    assert_eq!(rig.lines(), [false, false]);
    rig.is_clean();
}

#[test]
fn the_machines_word_on_the_address_counts_more_than_the_cards() {
    let told = [0x2e, 0x09, 0x0a, 9, 9, 9];
    let rig = try_rig_with(BoardKind::Fixed, "", |config| {
        config.ports[0].as_mut().unwrap().mac = Some(told);
    });
    let Ok(mut rig) = rig else { panic!() };
    assert_eq!(rig.ports[0].mac_address(), told);
    assert_ne!(told, FALLBACK);
    rig.serve(0);
    rig.wire(0, &frame(told, 60));
    rig.wire(0, &frame(MAC, 61));
    assert_eq!(rig.serve(0).len(), 1, "the card knows it too");
}

#[test]
fn one_port_alone_has_its_interrupts_on_its_line() {
    // [GM 6.5]: with one port in use, line 1 suffices.
    let rig = try_rig_with(BoardKind::Dns313, "", |config| config.ports[1] = None);
    let Ok(mut rig) = rig else { panic!() };
    assert_eq!(rig.ports.len(), 1);
    rig.serve(0);
    rig.is_clean();
}

#[test]
fn each_ports_interrupts_come_by_its_line() {
    let mut rig = Rig::default();
    for n in 0..2 {
        rig.serve(n);
    }
    rig.wire(0, &frame(mac(0), 60));
    assert_eq!(rig.lines(), [true, false]);
    rig.wire(1, &frame(mac(1), 60));
    assert_eq!(rig.lines(), [true, true]);
    assert_eq!(rig.serve(0).len(), 1);
    assert_eq!(rig.lines(), [false, true]);
    assert_eq!(rig.serve(1).len(), 1);
    assert_eq!(rig.lines(), [false, false]);
}

#[test]
fn frames_of_every_length_go_out_unchanged_and_padded() {
    let mut rig = Rig::default();
    for n in 0..2 {
        for len in (14..=70).chain([100, 1000]).chain(1510..=1520).chain(2040..=2047) {
            let data = frame(PEER, len);
            rig.send_on(n, &data, None);
            let mut wanted = data;
            wanted.resize(len.max(60), 0);
            assert_eq!(rig.sent_on(), [(n, wanted)], "{len}");
            rig.serve(n);
        }
        assert_eq!(rig.ports[n].transmit_room(), ROOM);
        assert!(rig.ports[n].transmit_buffer(65536).is_none());
    }
    rig.is_clean();
}

#[test]
fn frames_of_every_length_come_in_unchanged() {
    let mut rig = Rig::default();
    for n in 0..2 {
        assert!(rig.ports[n].set_mtu(MAX_MTU));
        rig.serve(n);
        let lengths: Vec<usize> = (60..=70).chain([100, 1514, 1518]).chain(2040..=2047).collect();
        for &len in &lengths {
            let data = frame(mac(n), len);
            rig.wire(n, &data);
            assert!(rig.lines()[n], "{len}");
            assert_eq!(rig.serve(n), [(data, ReceiveChecksum::Unverified)], "{len}");
            assert!(!rig.lines()[n]);
        }
        assert_eq!(rig.counter_of(n, "rx_packets"), lengths.len() as u64);
        assert_eq!(rig.counter_of(n, "rx_errors"), 0);
    }
    rig.is_clean();
}

#[test]
fn rings_go_round_many_times_in_batches() {
    let mut rig = Rig::default();
    for round in 0..40u8 {
        for n in 0..2 {
            let batch: Vec<Vec<u8>> = (0u8..30)
                .map(|i| {
                    let mut data = frame(PEER, 60 + usize::from(i) * 20);
                    data[14] = round;
                    data
                })
                .collect();
            for data in &batch {
                let (data, request) = rig.ask(n, data, None);
                assert!(rig.queue(n, &data, &request));
            }
            assert!(rig.sent().is_empty(), "before the doorbell");
            rig.ports[n].flush();
            assert_eq!(rig.sent(), batch);
            let echoed: Vec<Vec<u8>> = batch.iter().map(|data| incoming(n, data)).collect();
            echoed.iter().for_each(|data| rig.wire(n, data));
            let got: Vec<Vec<u8>> = rig.serve(n).into_iter().map(|(data, _)| data).collect();
            assert_eq!(got, echoed);
        }
    }
    assert_eq!([0, 1].map(|n| rig.ports[n].transmit_room()), [ROOM; 2]);
    rig.is_clean();
}

/// The buffers of both ports come from one queue: one may use all of them, and gets on when they are back.
#[test]
fn the_free_queue_is_shared_and_refilled() {
    let mut rig = Rig::default();
    for round in 0..20 {
        for i in 0..BUFFERS + 10 {
            rig.wire(i % 2, &frame(mac(i % 2), 60 + i));
        }
        let got = [rig.serve(0).len(), rig.serve(1).len()];
        assert_eq!(got, [BUFFERS / 2; 2], "{round}");
        for n in 0..2 {
            assert_eq!(rig.counter_of(n, "rx_over_errors"), round + 1);
        }
    }
    for n in [1, 0, 1] {
        for i in 0..BUFFERS {
            rig.wire(n, &frame(mac(n), 60 + i));
        }
        assert_eq!(rig.serve(n).len(), BUFFERS);
    }
    assert_eq!(rig.counter("resets"), 0);
    rig.is_clean();
}

#[test]
fn a_full_transmit_ring_says_so_and_interrupts_when_there_is_room() {
    let mut rig = Rig::with("paced");
    let data = frame(PEER, 1514);
    for n in 0..2 {
        rig.serve(n);
        let mut queued = 0;
        loop {
            let (data, request) = rig.ask(n, &data, None);
            if !rig.queue(n, &data, &request) {
                break;
            }
            queued += 1;
        }
        assert_eq!((queued, rig.ports[n].transmit_room()), (ROOM, 0));
        rig.ports[n].flush();
        rig.serve(n);
        assert!(!rig.lines()[n]);
        // Sixteen frames at 12 µs each.
        for _ in 0..20 {
            rig.later(Duration::from_micros(13));
        }
        assert!(rig.lines()[n], "the sixteenth asked for it");
        rig.serve(n);
        assert!((1..ROOM).contains(&rig.ports[n].transmit_room()));
        for _ in 0..ROOM {
            rig.later(Duration::from_micros(13));
        }
        rig.serve(n);
        assert_eq!(rig.ports[n].transmit_room(), ROOM);
        assert_eq!(rig.sent().len(), ROOM);
        assert!(!rig.lines()[n]);
    }
}

#[test]
fn a_lent_buffer_can_be_moved_shortened_or_given_back() {
    let mut rig = Rig::default();
    for _ in 0..200 {
        let buffer = rig.ports[0].transmit_buffer(1514).unwrap();
        rig.ports[0].transmit_cancel(buffer);
        let buffer = rig.ports[0].transmit_buffer(60_000).unwrap();
        rig.ports[0].transmit_cancel(buffer);
    }
    let data = frame(PEER, 100);
    for start in 0..8 {
        let mut buffer = rig.ports[0].transmit_buffer(1514).unwrap();
        buffer.set_window(start..start + 100);
        buffer.copy_from_slice(&data);
        let (_, request) = rig.ask(0, &data, None);
        rig.ports[0].transmit(buffer, &request);
        rig.ports[0].flush();
        assert_eq!(rig.sent(), std::slice::from_ref(&data), "{start}");
    }
}

/// [GM 8.4]: the frame captured on a DIR-685, which the card cut from a longer one. The posting shows its
/// headers; the payload is ours, so the sum over it is made by the test's own arithmetic.
#[test]
fn a_large_write_leaves_as_the_captured_frames_do() {
    let mut rig = Rig::default();
    // byte_count, payloads of the segments.
    for (len, segments) in [
        (0x1c8a, vec![1448; 5]),
        (0x27da, vec![1448; 7]),
        (0x0b92, vec![1448; 2]),
        (0x2bda, [vec![1448; 7], vec![1024]].concat()),
    ] {
        let spec = Spec::tcp(len - 66);
        let before = rig.counters().port[0];
        rig.send_on(0, &spec.build(), Some(1448));
        let sent = rig.sent();
        assert_eq!(sent.iter().map(|f| f.len() - 66).collect::<Vec<_>>(), segments);
        assert_eq!(sent, spec.segments(0x5ea));
        let first = &sent[0];
        assert_eq!(first[..12], [PEER, MAC].concat()[..]);
        // Total length, id, DF, TTL and protocol, and the header checksum of the capture.
        assert_eq!(
            first[14..26],
            [0x45, 0, 0x05, 0xdc, 0x16, 0xa0, 0x40, 0, 0x40, 0x06, 0x9a, 0xa1]
        );
        assert_eq!(
            first[34..50],
            [
                0xe7, 0x20, 0x14, 0x51, 0xff, 0x25, 0x98, 0x22, 0x4c, 0x52, 0x29, 0xcf, 0x80, 0x10,
                0x04, 0x2a
            ]
        );
        let after = rig.counters().port[0];
        assert_eq!(after.tx_requests - before.tx_requests, 1, "one chain");
        assert_eq!(after.tx_descriptors - before.tx_descriptors, 2, "headers and payload");
        rig.serve(0);
    }
    assert_eq!(rig.counter("tx_tso"), 4);
    rig.is_clean();
}

#[test]
fn received_sums_are_the_cards_word() {
    let mut rig = Rig::default();
    let checked = |spec: &Spec| incoming(0, &spec.build());
    let one = ReceiveChecksum::Verified { ip: true, transport: false };
    let bad = |spec: &Spec, at: usize| {
        let mut data = checked(spec);
        data[at] ^= 0x10;
        data
    };
    let (tcp, udp) = (Spec::tcp(100), Spec { udp: true, ..Spec::tcp(100) });
    let v6 = Spec { v6: true, ..Spec::tcp(100) };
    let mut fragment = checked(&tcp);
    fragment[20] = 0x20;
    let sum = rig::frames::sum(&[&fragment[14..24], &fragment[26..34]]);
    fragment[24..26].copy_from_slice(&sum.to_be_bytes());
    for (data, wanted) in [
        (checked(&tcp), VERIFIED),
        (checked(&udp), VERIFIED),
        (checked(&v6), VERIFIED),
        (fragment, one),
        (frame(MAC, 100), ReceiveChecksum::Unverified),
        (bad(&tcp, 100), ReceiveChecksum::Bad),
        (bad(&udp, 100), ReceiveChecksum::Bad),
        (bad(&v6, 120), ReceiveChecksum::Bad),
        (bad(&tcp, 22), ReceiveChecksum::Bad),
    ] {
        rig.wire(0, &data);
        assert_eq!(rig.serve(0), [(data, wanted)]);
    }
    rig.ports[0].set_feature(Feature::RxChecksumming, false).unwrap();
    for data in [checked(&tcp), bad(&tcp, 100)] {
        rig.wire(0, &data);
        assert_eq!(rig.serve(0), [(data, ReceiveChecksum::Unverified)]);
    }
    rig.ports[0].set_feature(Feature::RxChecksumming, true).unwrap();
    rig.wire(0, &checked(&tcp));
    assert_eq!(rig.serve(0)[0].1, VERIFIED);
}

#[test]
fn filters_let_through_what_they_say() {
    let mut rig = Rig::default();
    let groups = [[0x01, 0x00, 0x5e, 0, 0, 1], [0x33, 0x33, 0, 0, 0, 1]];
    let other = [0x02, 7, 7, 7, 7, 7];
    let mut heard = |filter: ReceiveFilter<'_>| {
        rig.ports[1].set_receive_filter(filter);
        for to in [mac(1), mac(0), [0xff; 6], groups[0], groups[1], other] {
            rig.wire(1, &frame(to, 60));
        }
        let got = rig.serve(1);
        got.iter().map(|(data, _)| data[..6].try_into().unwrap()).collect::<Vec<[u8; 6]>>()
    };
    assert_eq!(heard(ReceiveFilter::Multicast(&[])), [mac(1), [0xff; 6]]);
    assert_eq!(heard(ReceiveFilter::Multicast(&groups[..1])), [mac(1), [0xff; 6], groups[0]]);
    let all = [mac(1), [0xff; 6], groups[0], groups[1]];
    assert_eq!(heard(ReceiveFilter::AllMulticast), all);
    assert_eq!(heard(ReceiveFilter::Promiscuous).len(), 6);
    assert_eq!(heard(ReceiveFilter::Multicast(&[])), [mac(1), [0xff; 6]]);
}

#[test]
fn features_are_the_cards_and_depend_on_each_other() {
    let mut rig = Rig::default();
    let port = &mut rig.ports[0];
    let on = FeatureState { on: true, fixed: false };
    for feature in Feature::ALL {
        let wanted = match feature {
            Feature::RxChecksumming
            | Feature::TxChecksumming
            | Feature::TcpSegmentationOffload
            | Feature::Tcp6Segmentation => on,
            Feature::ScatterGather => FeatureState { on: true, fixed: true },
            _ => FeatureState::ABSENT,
        };
        assert_eq!(port.feature(feature), wanted, "{feature:?}");
    }
    let tso = Feature::TcpSegmentationOffload;
    port.set_feature(Feature::TxChecksumming, false).unwrap();
    assert!(!port.feature(tso).on);
    let refused = port.set_feature(tso, true);
    assert_eq!(refused, Err(FeatureError::Requires(Feature::TxChecksumming)));
    port.set_feature(Feature::TxChecksumming, true).unwrap();
    assert!(port.feature(tso).on);
    assert_eq!(port.set_feature(Feature::LargeReceiveOffload, true), Err(FeatureError::Fixed));
    assert_eq!(port.set_feature(Feature::ScatterGather, false), Err(FeatureError::Fixed));
    assert_eq!((port.set_mtu(67), port.set_mtu(2030), port.mtu()), (false, false, 1500));
    assert_eq!(rig.ports[1].feature(tso), on, "each port has its own");
}

/// Whoever makes the sums, they are right; frames software has to see to are left alone.
#[test]
fn sums_on_the_wire_are_right_on_and_off() {
    let mut rig = Rig::default();
    for on in [true, false, true] {
        rig.ports[0].set_feature(Feature::TxChecksumming, on).unwrap();
        let before = rig.counters().port[0].tx_checksums;
        for payload in [0, 1, 5, 6, 7, 100, 1400, 1448, 1900] {
            for (v6, udp) in [(false, false), (false, true), (true, false), (true, true)] {
                let spec = Spec { v6, udp, ..Spec::tcp(payload) };
                rig.send(&spec.build());
                let mut wanted = spec.build();
                wanted.resize(wanted.len().max(60), 0);
                assert_eq!(rig.sent(), [wanted], "{on} {payload} {v6} {udp}");
                rig.serve(0);
            }
        }
        assert_eq!(rig.counters().port[0].tx_checksums > before, on);
    }
    rig.is_clean();
}

#[test]
fn an_idle_port_costs_two_registers_a_second() {
    let mut rig = Rig::default();
    rig.live(Duration::from_secs(3));
    let before = rig.card.lock().unwrap().accesses;
    rig.live(Duration::from_secs(10));
    let each = (rig.card.lock().unwrap().accesses - before) / 20;
    assert!(each <= 6, "{each} accesses");
}

#[test]
fn frames_cost_few_register_accesses() {
    let mut rig = Rig::default();
    rig.serve(0);
    let accesses = |rig: &Rig| rig.card.lock().unwrap().accesses;
    let before = accesses(&rig);
    for _ in 0..32 {
        rig.wire(0, &frame(MAC, 1000));
    }
    assert_eq!(rig.serve(0).len(), 32);
    assert!(accesses(&rig) - before <= 16, "{}", accesses(&rig) - before);
    let before = accesses(&rig);
    rig.send_on(0, &Spec::tcp(60_000).build(), Some(1448));
    assert_eq!(accesses(&rig) - before, 1, "the doorbell");
}

#[test]
fn without_memory_it_says_so() {
    for bytes in [0, 1000, 100_000, 300_000] {
        let dma = TwoMemories::new(16);
        let card = card(&dma, BoardKind::Fixed, "");
        dma.limit(bytes);
        let result = Gemini::bring_up(windows(&card), dma, config(&card));
        assert!(matches!(result, Err(trireme_gemini::Error::Memory(_))), "{bytes}");
    }
}

#[test]
fn a_stopped_port_is_silent_and_the_other_goes_on() {
    let mut rig = Rig::default();
    (0..2).for_each(|n| drop(rig.serve(n)));
    rig.ports[0].stop(trireme_nic::Stop::Reboot);
    rig.wire(0, &frame(mac(0), 60));
    assert_eq!(rig.lines(), [false, false]);
    assert!(rig.serve(0).is_empty());
    assert!(!rig.ports[0].link().up);
    rig.works_on(1);
    rig.ports.clear();
    rig.wire(1, &frame(mac(1), 60));
    assert_eq!(rig.lines(), [false, false]);
}

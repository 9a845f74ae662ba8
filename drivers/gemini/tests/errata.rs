//! The errata tables, row by row: `docs/hardware/gemini.md`, section 11. A row that has no test here says why at
//! the end of the file.

mod rig;

use rig::frames::Spec;
use rig::{BUFFERS, MAC, PEER, ROOM, Rig, VERIFIED, frame, incoming, mac, try_rig_with};
use std::time::Duration;
use trireme_gemini::{Attached, Error, MAX_MTU};
use trireme_gemini_model::BoardKind;
use trireme_nic::{Feature, Nic, ReceiveChecksum, ReceiveFilter};

const SOF: u32 = 1 << 31;
const EOF: u32 = 1 << 30;

/// The first word of a receive descriptor: buffer size, so many descriptors, status, checksum code.
fn word0(count: u32, status: u32, checksum: u32) -> u32 {
    0x810 | count << 16 | status << 22 | checksum << 26
}

#[test]
fn e1_no_fragment_but_the_first_is_tiny() {
    let mut rig = Rig::with("tiny-fragments");
    // Payloads around the length of a piece, at every alignment, and of one or two bytes.
    for payload in [1, 2, 3, 1449, 1450].into_iter().chain(32760..32780).chain([65400, 65401]) {
        for options in 0..2 {
            let mut spec = Spec::tcp(payload);
            spec.tcp_options.truncate(12 * options);
            let segment = if payload < 1000 { 1 } else { 1448 };
            rig.send_on(0, &spec.build(), Some(segment));
            assert_eq!(
                rig.sent(),
                spec.segments(spec.headers() + usize::from(segment)),
                "{payload}"
            );
            rig.serve(0);
        }
    }
    assert_eq!(rig.counters().port[0].tx_tiny_fragments, 0);
}

/// Also the rows of 2023, "Handle large frames", and of foreign EtherTypes, which the engine passes.
#[test]
fn e2_long_frames_go_past_the_engine_unless_it_can_cut_them() {
    let mut rig = Rig::with("plain-hang");
    assert!(rig.ports[0].set_mtu(MAX_MTU));
    let switch_tag = vec![0x88, 0x99, 0xa0, 0x01];
    for len in (1513..=1520).chain([2043, 2047]) {
        let udp = Spec { udp: true, ..Spec::tcp(len - 42) }.build();
        let mut icmp = udp.clone();
        icmp[23] = 1;
        let sum = rig::frames::sum(&[&icmp[14..24], &icmp[26..34]]);
        icmp[24..26].copy_from_slice(&sum.to_be_bytes());
        let tagged = Spec { tag: switch_tag.clone(), ..Spec::tcp(len - 70) }.build();
        for (data, bypassed) in [
            (udp, len > 1514),
            (icmp, len > 1514),
            (frame(PEER, len), len > 1514),
            (Spec::tcp(len - 66).build(), false),
            (tagged, false),
        ] {
            assert_eq!(data.len(), len);
            let before = rig.counters().port[0].tx_bypassed;
            rig.send(&data);
            assert_eq!(rig.sent(), [data], "{len}");
            assert_eq!(rig.counters().port[0].tx_bypassed - before, u64::from(bypassed));
            rig.serve(0);
        }
    }
    rig.is_clean();
    assert_eq!(rig.counters().port[0].tx_hangs, 0);
}

/// The row of 2025: all TCP in MTU mode.
#[test]
fn e3_tcp_never_goes_through_plain_mode() {
    let mut rig = Rig::with("tcp-hang=1");
    for on in [true, false] {
        rig.ports[0].set_feature(Feature::TxChecksumming, on).unwrap();
        for payload in [0, 1, 100, 1448] {
            for (v6, tag) in [(false, vec![]), (true, vec![]), (false, vec![0x81, 0, 0, 5])] {
                let spec = Spec { v6, tag, ..Spec::tcp(payload) };
                rig.send(&spec.build());
                assert_eq!(rig.sent().len(), 1);
                rig.serve(0);
            }
        }
    }
    assert_eq!(rig.counters().port[0].tx_tcp_plain, 0);
    rig.works();
}

#[test]
fn e4_e5_short_packets_keep_their_length_and_cut_ones_their_sum() {
    let mut rig = Rig::with("short-ip-length");
    for len in 41..=60usize {
        // TCP without options has 54 bytes of headers, UDP 42.
        let mut specs = vec![];
        if len >= 54 {
            specs.push(Spec { tcp_options: vec![], ..Spec::tcp(len - 54) });
        }
        if len >= 42 {
            specs.push(Spec { udp: true, ..Spec::tcp(len - 42) });
        }
        for spec in specs {
            let mut wanted = spec.build();
            rig.send(&wanted);
            wanted.resize(60, 0);
            assert_eq!(rig.sent(), [wanted], "{len}");
            rig.serve(0);
        }
    }
    // Short, and cut nevertheless.
    let spec = Spec { tcp_options: vec![], ..Spec::tcp(6) };
    rig.send_on(0, &spec.build(), Some(3));
    rig.sent();
    assert_eq!(rig.counters().port[0].tx_fixed_len, 0);
}

#[test]
fn e6_fragments_get_no_sum() {
    let mut rig = Rig::default();
    for (flags, offset) in [(0x20u8, 0u8), (0x20, 10), (0, 20)] {
        let mut data = Spec { udp: true, ..Spec::tcp(400) }.build();
        (data[20], data[21]) = (flags, offset);
        data[24..26].fill(0);
        let sum = rig::frames::sum(&[&data[14..34]]);
        data[24..26].copy_from_slice(&sum.to_be_bytes());
        rig.send(&data);
        assert_eq!(rig.sent(), [data]);
        rig.serve(0);
    }
    assert_eq!(rig.counters().port[0].tx_udp_fragments, 0);
    rig.is_clean();
}

#[test]
fn e7_a_transmitter_that_hangs_is_noticed_by_its_signature_and_the_rest_is_sent() {
    for n in 0..2 {
        let mut rig = Rig::default();
        rig.faults("tx-hang=1");
        let frames: Vec<Vec<u8>> = (0u8..5).map(|i| frame(PEER, 100 + usize::from(i))).collect();
        for data in &frames {
            let (data, request) = rig.ask(n, data, None);
            assert!(rig.queue(n, &data, &request));
        }
        rig.ports[n].flush();
        assert!(rig.sent().is_empty());
        rig.faults("");
        rig.live(Duration::from_millis(200));
        assert!(rig.sent().is_empty(), "not after a few looks");
        rig.live(Duration::from_millis(300));
        // The one that was under way might be what did it.
        assert_eq!(rig.sent(), frames[1..]);
        assert_eq!(rig.counter_of(n, "tx_hangs"), 1);
        assert_eq!(rig.counter_of(n, "tx_dropped"), 1);
        assert_eq!(rig.counter("resets"), 1);
        assert_eq!(rig.ports[n].transmit_room(), ROOM);
        rig.works();
        rig.is_clean();
    }
}

#[test]
fn e7_a_receiver_that_hangs_is_noticed_by_its_signature() {
    for n in 0..2 {
        let mut rig = Rig::default();
        rig.faults("rx-hang=1");
        rig.wire(n, &frame(mac(n), 100));
        rig.faults("");
        rig.wire(n, &frame(mac(n), 100));
        assert!(rig.serve(n).is_empty());
        rig.live(Duration::from_millis(1500));
        assert_eq!((rig.counter_of(n, "rx_hangs"), rig.counter("resets")), (1, 1));
        rig.works();
        // Once is enough while nothing is received in between: idle may look alike.
        rig.faults("rx-hang=1");
        rig.wire(n, &frame(mac(n), 100));
        rig.faults("");
        rig.live(Duration::from_secs(20));
        assert_eq!(rig.counter("resets"), 2);
        rig.works();
    }
}

/// Without a signature the watchdog is left: the second core, say, has stopped the transmitter's DMA.
#[test]
fn e7_a_transmitter_that_stops_without_a_sign_is_reset_after_two_seconds() {
    let mut rig = Rig::default();
    let writes = rig::Bar(rig.card.clone(), 0);
    trireme_nic::Registers::write32(&writes, 0x8000, 0x8002_3c1c);
    let data = frame(PEER, 100);
    rig.send(&data);
    rig.live(Duration::from_millis(1900));
    assert_eq!(rig.counter("tx_timeouts"), 0);
    rig.live(Duration::from_millis(300));
    assert_eq!((rig.counter("tx_timeouts"), rig.counter("resets")), (1, 1));
    rig.works();
}

#[test]
fn e8_ten_short_frames_in_a_row_are_a_confused_receiver() {
    let mut rig = Rig::default();
    let short = |rig: &Rig| {
        let address = rig.steal();
        rig.forge(0, [word0(1, 0, 2), 40, address, SOF | EOF]);
    };
    for _ in 0..20 {
        (0..9).for_each(|_| short(&rig));
        rig.serve(0);
        rig.wire(0, &frame(MAC, 100));
        assert_eq!(rig.serve(0).len(), 1);
    }
    assert_eq!((rig.counter("resets"), rig.counter("rx_length_errors")), (0, 180));
    (0..10).for_each(|_| short(&rig));
    rig.serve(0);
    rig.live(Duration::from_millis(50));
    assert_eq!((rig.counter("rx_confused"), rig.counter("resets")), (1, 1));
    rig.works();
}

/// The storm itself, on the wire: the receiver goes deaf, and shows the signature of E7.
#[test]
fn e8_a_storm_of_runts_is_survived() {
    let mut rig = Rig::with("runt-storm,rx-runt=1");
    (0..12).for_each(|_| rig.wire(0, &frame(MAC, 100)));
    rig.faults("");
    assert!(rig.serve(0).is_empty());
    rig.live(Duration::from_millis(1500));
    rig.works();
}

#[test]
fn e10_a_descriptor_without_its_buffer_costs_a_frame_and_no_buffer_for_good() {
    let mut rig = Rig::with("rx-null=3");
    let mut got = 0;
    for _ in 0..10 {
        (0..20).for_each(|_| rig.wire(0, &frame(MAC, 100)));
        got += rig.serve(0).len();
        rig.live(Duration::from_millis(30));
    }
    assert!((50..190).contains(&got), "{got}");
    let unknown = rig.counter("rx_unknown_buffers");
    assert_eq!(rig.counter("rx_errors"), unknown);
    // An eighth of the buffers may be missing before the rest is worth a reset.
    assert!(rig.counter("resets") >= unknown / (BUFFERS as u64 / 8 + 20));
    assert!(rig.counter("resets") > 0);
    rig.faults("");
    rig.live(Duration::from_millis(100));
    (0..BUFFERS - BUFFERS / 8).for_each(|_| rig.wire(0, &frame(MAC, 100)));
    assert_eq!(rig.serve(0).len(), BUFFERS - BUFFERS / 8);
    rig.works();
}

/// And the rework of 2026: buffers are claimed by their exact address.
#[test]
fn e11_buffers_are_known_by_exact_addresses() {
    for wrong in [1, 2, 4, 16, 2048, 4096, 4097] {
        let mut rig = Rig::default();
        let address = rig.steal();
        for (count, at) in [(1, address + wrong), (2, address - wrong)] {
            rig.forge(0, [word0(1, 0, 2), 60, at, SOF | EOF]);
            assert!(rig.serve(0).is_empty(), "{at:#x}");
            assert_eq!(rig.counter("rx_unknown_buffers"), count);
        }
        rig.works();
    }
    let mut rig = Rig::default();
    // Every buffer there is, wherever pages end: each holds what was received into it.
    for round in 0..3u8 {
        let frames: Vec<Vec<u8>> = (0..BUFFERS - 8)
            .map(|i| {
                let mut data = frame(MAC, 1514);
                (data[14], data[15]) = (i as u8, round);
                data
            })
            .collect();
        frames.iter().for_each(|data| rig.wire(0, data));
        let got: Vec<Vec<u8>> = rig.serve(0).into_iter().map(|(data, _)| data).collect();
        assert_eq!(got, frames);
    }
}

/// The same buffer twice, though the card was given it once.
#[test]
fn e11_a_buffer_is_taken_once() {
    let mut rig = Rig::default();
    let address = rig.steal();
    rig.forge(0, [word0(1, 0, 2), 60, address, SOF | EOF]);
    rig.forge(0, [word0(1, 0, 2), 60, address, SOF | EOF]);
    let now = rig.now_us();
    rig.ports[0].service(now);
    let first = rig.ports[0].receive().unwrap();
    assert!(rig.ports[0].receive().is_none());
    rig.ports[0].recycle(first);
    rig.works();
}

#[test]
fn e12_nonsense_in_the_cards_counters_reaches_nobody() {
    let mut rig = Rig::with("mib-nonsense,narrow-mib");
    for _ in 0..100 {
        rig.wire(0, &frame(MAC, 100));
        rig.serve(0);
    }
    rig.live(Duration::from_secs(3));
    assert_eq!((rig.counter("rx_packets"), rig.counter("rx_bytes")), (100, 10_000));
    assert_eq!((rig.counter("rx_errors"), rig.counter("rx_over_errors")), (0, 0));
    assert_eq!(rig.lines(), [false, false]);
}

/// 2023, "Fix max RX frame define" and "Fix MTU max setting": code 3 is 1548, the size has 11 bits.
#[test]
fn row_limits_every_mtu_lets_its_frames_and_their_tags_through() {
    let mut rig = Rig::default();
    for mtu in (1490..1540).chain([68, 576, 2000, 2028, 2029]) {
        assert!(rig.ports[0].set_mtu(mtu), "{mtu}");
        let longest = usize::from(mtu) + 18;
        for len in [60, longest.max(60)] {
            let data = frame(MAC, len);
            rig.wire(0, &data);
            assert_eq!(rig.serve(0).first().map(|got| got.0.len()), Some(len), "{mtu}");
            let data = frame(PEER, len);
            rig.send(&data);
            assert_eq!(rig.sent(), [data]);
            rig.serve(0);
        }
    }
    assert!(!rig.ports[0].set_mtu(2030));
    assert_eq!(rig.counter("rx_errors"), 0);
    rig.is_clean();
}

/// 2024, "Drop TSO support" and TSO restored: the size is the whole frame's, and none is longer.
#[test]
fn row_tso_no_segment_is_longer_than_asked_for() {
    let mut rig = Rig::default();
    for (segment, v6) in [(536, false), (1220, true), (1448, false), (1428, true), (1963, false)] {
        let spec = Spec { v6, ..Spec::tcp(20_000) };
        rig.send_on(0, &spec.build(), Some(segment));
        let size = spec.headers() + usize::from(segment);
        assert_eq!(rig.sent(), spec.segments(size));
        rig.serve(0);
    }
    rig.is_clean();
}

/// 2024, "Locking fixes": enables of one port are not lost by changes of the other's.
#[test]
fn row_locking_one_ports_masking_leaves_the_other_armed() {
    let mut rig = Rig::default();
    (0..2).for_each(|n| drop(rig.serve(n)));
    for _ in 0..3 {
        for (n, other) in [(0, 1), (1, 0)] {
            rig.wire(n, &frame(mac(n), 60));
            rig.ports[n].service(0);
            assert!(!rig.lines()[n], "held back");
            rig.wire(other, &frame(mac(other), 60));
            assert!(rig.lines()[other], "armed as before");
            assert_eq!(rig.serve(other).len(), 1);
            assert_eq!(rig.serve(n).len(), 1);
            assert_eq!(rig.lines(), [false, false]);
        }
    }
}

/// 2024: pause as both sides take it.
#[test]
fn row_pause_is_obeyed_and_sent_if_the_other_side_takes_it() {
    for pause in [false, true] {
        let rig = try_rig_with(BoardKind::Fixed, "paced", |config| {
            config.ports[0].as_mut().unwrap().attached = Attached::Fixed { pause };
        });
        let Ok(mut rig) = rig else { panic!() };
        assert_eq!(rig.ports[0].pause().map(|p| (p.rx, p.tx)), Some((pause, pause)));
        // Until the free queue is short.
        (0..BUFFERS - 10).for_each(|_| rig.wire(0, &frame(MAC, 60)));
        assert_eq!(rig.counters().port[0].tx_pause, u64::from(pause));
        rig.serve(0);
        rig.sent();
        // IEEE 802.3 annex 31B: ffff quanta of 512 bits, 33 ms.
        let mut stop = frame([0x01, 0x80, 0xc2, 0, 0, 1], 60);
        stop[12..18].copy_from_slice(&[0x88, 0x08, 0, 1, 0xff, 0xff]);
        rig.wire(0, &stop);
        rig.send(&frame(PEER, 100));
        rig.later(Duration::from_millis(1));
        assert_eq!(rig.sent().is_empty(), pause);
        rig.live(Duration::from_millis(100));
        assert_eq!(rig.sent().len(), usize::from(pause));
        assert_eq!(rig.counter("resets"), 0);
    }
}

/// 2026: a frame that begins in another ends that, which is counted once.
#[test]
fn row_sof_a_new_frame_ends_a_half_assembled_one() {
    let mut rig = Rig::default();
    let piece = |rig: &Rig, marks: u32| {
        let address = rig.steal();
        rig.forge(0, [word0(2, 0, 2), 4000, address, marks]);
    };
    piece(&rig, SOF);
    piece(&rig, SOF);
    piece(&rig, EOF);
    assert!(rig.serve(0).is_empty());
    assert_eq!((rig.counter("rx_errors"), rig.counter("rx_length_errors")), (2, 2));
    // And one that is whole.
    piece(&rig, SOF);
    rig.wire(0, &frame(MAC, 100));
    assert_eq!(rig.serve(0).len(), 1);
    assert_eq!(rig.counter("rx_errors"), 3);
    // An end without a beginning, in three pieces: one drop.
    piece(&rig, 0);
    piece(&rig, 0);
    piece(&rig, EOF);
    rig.serve(0);
    assert_eq!((rig.counter("rx_errors"), rig.counter("rx_missing_pieces")), (4, 1));
    rig.works();
}

/// 2026: state per port; the fragment counter over poll calls; drops counted once per frame.
#[test]
fn row_fragments_interleave_on_both_ports_and_over_calls() {
    let mut rig = Rig::default();
    let piece = |rig: &mut Rig, n: usize, marks: u32| {
        let address = rig.steal();
        rig.forge(n, [word0(3, 0, 2), 6000, address, marks]);
        assert!(rig.serve(n).is_empty());
    };
    for marks in [SOF, 0, EOF] {
        piece(&mut rig, 0, marks);
        piece(&mut rig, 1, marks);
    }
    for n in 0..2 {
        assert_eq!(rig.counter_of(n, "rx_errors"), 1, "three descriptors, one drop");
        assert_eq!(rig.counter_of(n, "rx_missing_pieces"), 0);
    }
    rig.works();
}

/// 2026: descriptors are what the free queue loses, not frames.
#[test]
fn row_refill_frames_over_several_buffers_do_not_drain_the_queue() {
    let mut rig = Rig::default();
    assert!(rig.ports[0].set_mtu(MAX_MTU));
    for i in 0..200 {
        rig.wire(0, &frame(MAC, 2063 + 30 * i));
        assert!(rig.serve(0).is_empty());
    }
    assert_eq!((rig.counter("rx_length_errors"), rig.counter("rx_over_errors")), (200, 0));
    rig.works();
}

/// 2026: bad frames are work too, and an endless chain ends.
#[test]
fn row_budget_only_bad_frames_and_chains_without_end() {
    let mut rig = Rig::default();
    rig.ports[0].set_receive_filter(ReceiveFilter::Promiscuous);
    for round in 0..50 {
        for i in 0..BUFFERS as u32 {
            let address = rig.steal();
            let marks = if round % 2 == 0 { SOF | EOF } else { 0 };
            rig.forge(0, [word0(1, 1 + i % 10, 2), 100, address, marks]);
        }
        let now = rig.now_us();
        rig.ports[0].service(now);
        assert!(rig.ports[0].receive().is_none());
        rig.serve(0);
        rig.live(Duration::from_millis(30));
    }
    rig.works();
}

/// 2026: overrun is acknowledged by its own bit; and its interrupt stays on. (11.3)
#[test]
fn row_overrun_a_storm_is_no_storm_of_interrupts() {
    let mut rig = Rig::default();
    (0..2).for_each(|n| drop(rig.serve(n)));
    for round in 1..=5 {
        for n in 0..2 {
            rig.faults("rx-overrun=1");
            (0..20).for_each(|_| rig.wire(n, &frame(mac(n), 60)));
            assert!(rig.lines()[n]);
            rig.serve(n);
            assert_eq!(rig.lines(), [false, false]);
            assert_eq!(rig.counter_of(n, "rx_over_errors"), round);
        }
    }
    rig.faults("");
    rig.works();
}

/// 5.7 and 11.3: first acknowledged, then read. A frame may come between any two accesses.
#[test]
fn row_race_no_frame_is_forgotten_whenever_it_comes() {
    for at in 0..30 {
        let mut rig = Rig::default();
        rig.serve(0);
        rig.wire(0, &frame(MAC, 61));
        rig.card.lock().unwrap().ambush = Some((at, 0, frame(MAC, 62)));
        let mut got = rig.serve(0).len();
        if rig.card.lock().unwrap().ambush.is_some() {
            break;
        }
        if rig.lines()[0] {
            got += rig.serve(0).len();
        }
        assert_eq!(got, 2, "after {at} accesses");
    }
}

/// 4.2 and 11.3: faults are recovered from, both ports with them.
#[test]
fn row_faults_bus_and_protocol_errors_end_in_a_reset() {
    for fault in ["tx-derr=1", "rx-derr=1", "rx-perr=1"] {
        let mut rig = Rig::default();
        (0..2).for_each(|n| drop(rig.serve(n)));
        rig.faults(fault);
        match fault {
            "tx-derr=1" => rig.send(&frame(PEER, 100)),
            _ => rig.wire(0, &frame(MAC, 100)),
        }
        assert!(rig.lines()[0], "{fault}");
        rig.faults("");
        assert!(rig.serve(0).is_empty());
        assert_eq!((rig.counter("dma_faults"), rig.counter("resets")), (1, 1), "{fault}");
        assert_eq!(rig.lines(), [false, false]);
        rig.works();
    }
}

/// Errors without end: the machine is not kept busy by resets, and what is queued survives.
#[test]
fn row_faults_a_card_that_errs_on_everything_is_reset_now_and_then() {
    let mut rig = Rig::with("tx-derr=1,rx-derr=1");
    for _ in 0..1000 {
        if let Some(buffer) = rig.ports[0].transmit_buffer(100) {
            rig.ports[0].transmit_cancel(buffer);
            let (data, request) = rig.ask(0, &frame(PEER, 100), None);
            rig.queue(0, &data, &request);
            rig.ports[0].flush();
        }
        rig.wire(1, &frame(mac(1), 100));
        (0..2).for_each(|n| drop(rig.serve(n)));
        assert_eq!(rig.lines(), [false, false], "the stack would be called for nothing");
        rig.later(Duration::from_micros(100));
    }
    // 100 ms passed, besides what the resets take themselves.
    assert!((3..60).contains(&rig.counter("resets")), "{}", rig.counter("resets"));
    rig.faults("");
    rig.live(Duration::from_millis(100));
    rig.works();
    assert_eq!(rig.ports[0].transmit_room(), ROOM);
}

/// 11.3: buffers come home without another frame being sent.
#[test]
fn row_reclaim_sent_buffers_come_home_by_themselves() {
    let mut rig = Rig::default();
    (0..20).for_each(|_| rig.send(&frame(PEER, 100)));
    assert!(rig.ports[0].transmit_room() < ROOM);
    rig.live(Duration::from_millis(150));
    assert_eq!(rig.ports[0].transmit_room(), ROOM);
}

/// 5.2: the read pointer may be ahead of the status, and a status may say that a frame was not sent.
#[test]
fn row_status_late_or_bad_ones_are_waited_for_and_counted() {
    let mut rig = Rig::with("late-status");
    for i in 0..50 {
        rig.send(&frame(PEER, 100 + i));
        rig.serve(0);
    }
    rig.live(Duration::from_millis(200));
    assert_eq!((rig.counter("tx_packets"), rig.counter("tx_errors")), (50, 0));
    assert_eq!(rig.counter("tx_no_status"), 0);
    rig.faults("tx-error=1");
    (0..5).for_each(|_| rig.send(&frame(PEER, 100)));
    rig.live(Duration::from_millis(200));
    assert_eq!((rig.counter("tx_packets"), rig.counter("tx_errors")), (50, 5));
    assert_eq!(rig.ports[0].transmit_room(), ROOM);
    assert_eq!(rig.counter("resets"), 0);
}

/// 6.4: whichever reading of the reset is right.
#[test]
fn row_reset_may_keep_or_lose_what_ports_share() {
    for reading in ["", "reset-keeps-toe"] {
        let mut rig = Rig::with(reading);
        (0..2).for_each(|n| drop(rig.serve(n)));
        for _ in 0..3 {
            (0..7).for_each(|_| rig.wire(0, &frame(MAC, 60)));
            rig.wire(1, &frame(mac(1), 60));
            rig.send(&frame(PEER, 60));
            rig.serve(0);
            rig.faults(format!("{reading},rx-derr=1").trim_start_matches(','));
            rig.wire(1, &frame(mac(1), 60));
            rig.faults(reading);
            rig.serve(1);
            rig.live(Duration::from_millis(50));
            rig.works();
        }
        assert_eq!(rig.counter("resets"), 3);
        (0..BUFFERS).for_each(|_| rig.wire(1, &frame(mac(1), 60)));
        assert_eq!(rig.serve(1).len(), BUFFERS, "{reading}");
    }
}

/// 6.3: a frame the stack still has when the card is reset comes back like any other.
#[test]
fn row_reset_frames_in_use_meanwhile_come_home() {
    let mut rig = Rig::default();
    for _ in 0..3 {
        (0..10).for_each(|_| rig.wire(0, &frame(MAC, 60)));
        let now = rig.now_us();
        rig.ports[0].service(now);
        let held: Vec<_> = std::iter::from_fn(|| rig.ports[0].receive()).take(5).collect();
        rig.faults("rx-derr=1");
        rig.wire(1, &frame(mac(1), 60));
        rig.faults("");
        rig.serve(1);
        held.into_iter().for_each(|frame| rig.ports[0].recycle(frame));
        rig.live(Duration::from_millis(50));
    }
    (0..BUFFERS).for_each(|_| rig.wire(0, &frame(MAC, 60)));
    assert_eq!(rig.serve(0).len(), BUFFERS);
    rig.works();
}

/// Status codes of the wire never reach the stack, and cost nothing else.
#[test]
fn errors_on_the_wire_are_dropped_and_counted() {
    let mut rig = Rig::default();
    for (fault, status) in [("rx-crc=1", 4), ("rx-runt=1", 2)] {
        rig.faults(fault);
        (0..3).for_each(|_| rig.wire(0, &frame(MAC, 100)));
        // The filter has errors stay out.
        assert!(rig.serve(0).is_empty());
        rig.faults("");
        // Should one come nevertheless.
        let address = rig.steal();
        rig.forge(0, [word0(1, status, 0), 100, address, SOF | EOF]);
        assert!(rig.serve(0).is_empty());
        rig.works();
    }
    assert_eq!((rig.counter("rx_crc_errors"), rig.counter("rx_length_errors")), (1, 1));
    assert_eq!(rig.counter("rx_errors"), 2);
}

/// What it has been read from once is not believed again, though the card says it wrote there.
#[test]
fn a_write_pointer_that_runs_wild_brings_no_old_frames() {
    let mut rig = Rig::default();
    (0..BUFFERS).for_each(|_| rig.wire(0, &frame(MAC, 60)));
    assert_eq!(rig.serve(0).len(), BUFFERS);
    // All the way round the ring of 128, but for one.
    let wild = BUFFERS as u16 - 1;
    trireme_nic::Registers::write16(&rig::Bar(rig.card.clone(), 0), 0x2006, wild);
    assert!(rig.serve(0).is_empty());
    rig.live(Duration::from_millis(50));
    assert_eq!((rig.counter("rx_confused"), rig.counter("resets")), (1, 1));
    rig.works();
}

/// Lengths the card may claim: nothing beyond the buffer is read.
#[test]
fn lengths_of_received_frames_are_checked() {
    let mut rig = Rig::default();
    for (len, good) in [(59, false), (60, true), (2062, true), (2063, false), (0xffff, false)] {
        let address = rig.steal();
        rig.forge(0, [word0(1, 0, 2), len, address, SOF | EOF]);
        let got = rig.serve(0);
        assert_eq!(got.first().map(|f| f.0.len()), good.then_some(len as usize), "{len}");
    }
    rig.works();
}

#[test]
fn a_card_that_goes_away_is_awaited() {
    let mut rig = Rig::default();
    rig.card.lock().unwrap().gone = true;
    rig.serve(0);
    assert!(!rig.ports[1].link().up);
    rig.live(Duration::from_secs(3));
    assert!(rig.counter("reset_failures") >= 2);
    rig.card.lock().unwrap().gone = false;
    rig.live(Duration::from_secs(2));
    rig.works();
    let rig = try_rig_with(BoardKind::Fixed, "", |_| ());
    assert!(rig.is_ok());
}

#[test]
fn a_card_that_is_not_there_is_reported() {
    let dma = trireme_nic::double::TwoMemories::new(16);
    let card = rig::card(&dma, BoardKind::Fixed, "");
    card.lock().unwrap().gone = true;
    let result = trireme_gemini::Gemini::bring_up(rig::windows(&card), dma, rig::config(&card));
    assert!(matches!(result, Err(Error::Absent)));
}

/// A good frame's verdict survives everything before it.
#[test]
fn verified_frames_follow_bad_ones() {
    let mut rig = Rig::default();
    let address = rig.steal();
    rig.forge(0, [word0(1, 0, 6), 100, address, SOF | EOF]);
    let data = incoming(0, &Spec::tcp(100).build());
    rig.wire(0, &data);
    let got: Vec<ReceiveChecksum> = rig.serve(0).into_iter().map(|(_, said)| said).collect();
    assert_eq!(got, [ReceiveChecksum::Bad, VERIFIED]);
}

// Rows without a test here:
//
// E9 (the processor's idle instruction): the kernel's.
// E13 (hash workaround at 0x4080): hashing is not used, and nothing is written there, which `is_clean` asserts.
//
// 2018 driver added, 2018-2022 leaks in probe, `skb_linearize` after a failed mapping: DMA memory is allocated once
// and never mapped per frame; what fails is bring-up (`without_memory_it_says_so` in traffic.rs).
// 2024 `set_pauseparam` refused without negotiation: there is no such call.
// 2026 resize refused while the other port runs: rings have the size they have. Port 1 opened while port 0 runs:
// both start together, after every reset; port 1 without a PHY but kept for the shared interrupt: with one port in use all
// causes are routed to its line (`one_port_alone_has_its_interrupts_on_its_line`). rgmii-id and its kin: the kernel's
// tree code. The address of the machine has priority: `the_machines_word_on_the_address_counts_more_than_the_cards`.
//
// 11.3 EOFIE beyond the clean index, statistics cleared by reading, linearising that leaks, a failed software sum: ways of
// Linux's driver with no counterpart here. Address and group changes that are not atomic: there is no call for the first; the
// second is what [GM 7] prescribes, and a frame filtered meanwhile is one nobody had asked for before.

//! Receive: descriptors, buffers, filters, checksum codes, and each fault of the receiver (sheet 5.3 to 5.7, 7, 9).

mod bench;

use bench::frames::{Spec, raw, sum};
use bench::{BUFFERS, Bench, FREE_RING, MAC, RX_BUFFERS};
use std::time::Duration;
use trireme_gemini_model::{BoardKind, PortCounters};
use trireme_vfio::Device;

const OVERRUN: u32 = 1 << 17;
const EMPTY: u32 = 1 << 0;

fn started() -> Bench {
    faulty("")
}

fn faulty(faults: &str) -> Bench {
    let mut bench = Bench::with(BoardKind::Fixed, faults);
    bench.start();
    bench
}

fn counters(bench: &Bench) -> PortCounters {
    bench.gemini.counters().port[0]
}

/// To us, as a peer would send it.
fn to_us(spec: &Spec) -> Vec<u8> {
    let mut frame = spec.build();
    frame[..6].copy_from_slice(&MAC);
    frame
}

fn codes(bench: &mut Bench, frame: &[u8]) -> (u32, u32) {
    bench.wire(0, frame);
    let all = bench.received(0);
    assert_eq!(all.len(), 1, "one descriptor");
    (all[0][0] >> 26 & 7, all[0][3] & 0x1fff_ffff)
}

#[test]
fn worked_examples_of_the_sheet() {
    // 5.8, with buffers of 2048 and the sheet's offsets for TCP with timestamps.
    let mut bad = to_us(&Spec::tcp(500));
    bad[560] ^= 1;
    let cases = [
        (to_us(&Spec::tcp(1448)), [0x0001_0800, 0x0000_05ea, 0xc042_220e]),
        (raw([0xff; 6], 60), [0x0801_0800, 0x0000_003c, 0xc000_0000]),
        (bad, [0x1801_0800, 566, 0xc042_220e]),
    ];
    let mut bench = started();
    for (i, (frame, [word0, word1, word3])) in cases.iter().enumerate() {
        bench.wire(0, frame);
        let buffer = RX_BUFFERS as u32 + 2048 * i as u32;
        assert_eq!(bench.received(0), [[*word0, *word1, buffer, *word3]]);
        assert_eq!(bench.ram.get(u64::from(buffer) + 2, frame.len()), frame[..]);
        assert_eq!(bench.r32(0x30), 1);
        bench.w32(0x30, 1);
    }
    assert_eq!(bench.r32(0x14), (BUFFERS as u32) << 16 | 3);
}

#[test]
fn a_long_frame_takes_buffers_and_says_so_in_each_descriptor() {
    let mut bench = started();
    bench.w32(0xa018, 0x3f96_0400);
    let frame = to_us(&Spec::tcp(4000 - 66));
    bench.wire(0, &frame);
    let (a, b) = (RX_BUFFERS as u32, RX_BUFFERS as u32 + 2048);
    assert_eq!(
        bench.received(0),
        [[0x0002_0800, 0xfa0, a, 0x8042_220e], [0x0002_0800, 0xfa0, b, 0x4042_220e]]
    );
    // 2046 in the first, 1954 in the second, which has no insert bytes.
    assert_eq!(bench.ram.get(u64::from(a) + 2, 2046), frame[..2046]);
    assert_eq!(bench.ram.get(b.into(), 1954), frame[2046..]);
    assert_eq!(bench.ram.get(u64::from(b) + 1954, 94), [0xa5; 94]);
}

#[test]
fn inserted_bytes_are_junk_and_the_rest_of_the_buffer_is_untouched() {
    let mut bench = started();
    for _ in 0..16 {
        bench.wire(0, &raw(MAC, 60));
    }
    let junk: Vec<_> = (0..16).map(|i| bench.ram.get(RX_BUFFERS + 2048 * i, 2)).collect();
    assert!(junk.iter().any(|bytes| *bytes != junk[0]));
    assert_eq!(bench.ram.get(RX_BUFFERS + 62, 1986), [0xa5; 1986]);
}

#[test]
fn software_id_comes_back() {
    let mut bench = started();
    bench.ram.descriptor(FREE_RING, [0, 0xbeef_0000, RX_BUFFERS as u32, 0]);
    bench.wire(0, &raw(MAC, 60));
    assert_eq!(bench.received(0)[0][1], 0xbeef_003c);
}

#[test]
fn filters_take_what_they_are_told() {
    let multicast = [0x01, 0x00, 0x5e, 0x00, 0x00, 0x01]; // hash bit 1, by zlib's CRC-32
    let other = [0x00, 0x11, 0x22, 0x33, 0x44, 0x55];
    let second = [0x02, 0xaa, 0xbb, 0xcc, 0xdd, 0xee];
    let mut bench = started();
    let mut takes = |filter: u32, hash: u32, second_station: bool| {
        bench.w32(0xa00c, filter);
        bench.w32(0xa010, hash);
        let (high, low) = if second_station { (0xaa02, 0xeedd_ccbb) } else { (0, 0) };
        bench.w32(0xa004, u32::from(MAC[4]) | u32::from(MAC[5]) << 8 | high << 16);
        bench.w32(0xa008, low);
        [MAC, second, [0xff; 6], multicast, other].map(|to| {
            bench.wire(0, &raw(to, 60));
            !bench.received(0).is_empty()
        })
    };
    assert_eq!(takes(0, u32::MAX, true), [false; 5]);
    assert_eq!(takes(1, u32::MAX, false), [true, false, false, false, false]);
    assert_eq!(takes(1, u32::MAX, true), [true, true, false, false, false]);
    assert_eq!(takes(2, 1 << 1, false), [false, false, false, true, false]);
    assert_eq!(takes(2, !(1 << 1), false), [false; 5]);
    assert_eq!(takes(4, 0, false), [false, false, true, false, false]);
    assert_eq!(takes(8, 0, false), [true; 5]);
}

#[test]
fn checksum_codes() {
    let mut bench = started();
    let tcp = Spec::tcp(300);
    let v6 = Spec { v6: true, ..tcp.clone() };
    let udp = Spec { udp: true, ..tcp.clone() };
    for spec in [&tcp, &v6, &udp, &Spec { v6: true, ..udp.clone() }] {
        let frame = to_us(spec);
        assert_eq!(codes(&mut bench, &frame).0, 0, "{spec:?}");
        let mut bad = frame.clone();
        *bad.last_mut().unwrap() ^= 0x10;
        assert_eq!(codes(&mut bench, &bad).0, 6);
    }
    let mut bad = to_us(&tcp);
    bad[25] ^= 1;
    assert_eq!(codes(&mut bench, &bad).0, 5, "IP header");
    let mut lying = to_us(&tcp);
    lying[16..18].copy_from_slice(&2000u16.to_be_bytes());
    lying[24..26].fill(0);
    let check = sum(&[&lying[14..34]]);
    lying[24..26].copy_from_slice(&check.to_be_bytes());
    assert_eq!(codes(&mut bench, &lying).0, 4, "longer than the frame");

    let mut fragment = to_us(&udp);
    fragment[20] = 0x20;
    fragment[24..26].fill(0);
    let check = sum(&[&fragment[14..34]]);
    fragment[24..26].copy_from_slice(&check.to_be_bytes());
    assert_eq!(codes(&mut bench, &fragment).0, 1);
    let mut unsummed = to_us(&udp);
    unsummed[40..42].fill(0);
    assert_eq!(codes(&mut bench, &unsummed).0, 1, "UDP without checksum");
    assert_eq!(codes(&mut bench, &raw(MAC, 200)).0, 2);

    // Off: CONFIG0 17 and 18.
    bench.w32(0xa018, 0x3f90_0100);
    assert_eq!(codes(&mut bench, &to_us(&tcp)).0, 2);
    assert_eq!(codes(&mut bench, &to_us(&v6)).0, 2);
    bench.w32(0xa018, 0x3f92_0100);
    assert_eq!(codes(&mut bench, &to_us(&tcp)).0, 0);
    assert_eq!(codes(&mut bench, &to_us(&v6)).0, 2);
}

#[test]
fn offsets_count_tags_and_options() {
    let mut bench = started();
    let plain = Spec { tcp_options: vec![], ..Spec::tcp(100) };
    assert_eq!(codes(&mut bench, &to_us(&plain)).1, 0x0036_220e);
    let tagged = Spec { tag: vec![0x81, 0, 0, 5], ..plain.clone() };
    assert_eq!(codes(&mut bench, &to_us(&tagged)).1, 0x003a_2612);
    let options = Spec { ip_options: vec![1; 8], ..plain.clone() };
    assert_eq!(codes(&mut bench, &to_us(&options)).1, 0x043e_2a0e, "bit 26: IP option");
    let v6 = Spec { v6: true, ..plain };
    assert_eq!(codes(&mut bench, &to_us(&v6)).1, 0x004a_360e);
}

#[test]
fn length_codes_of_the_sheet() {
    // 4.5: longest frame with FCS.
    for (code, max) in
        [(0, 1536), (1, 1518), (2, 1522), (3, 1548), (4, 9212), (5, 10236), (6, 1518), (7, 1518)]
    {
        let mut bench = started();
        bench.w32(0xa018, 0x3f96_0000 | code << 8);
        bench.w32(0xa00c, 0x1f);
        bench.wire(0, &raw(MAC, max - 4));
        bench.wire(0, &raw(MAC, max - 3));
        let all = bench.received(0);
        assert_eq!(all.first().unwrap()[0] >> 22 & 15, 0, "{max}");
        assert_eq!(all.last().unwrap()[0] >> 22 & 15, 1, "too long");
    }
}

#[test]
fn errors_are_delivered_only_when_asked_for() {
    for (faults, status) in [("rx-crc=1", 4), ("rx-runt=1", 2)] {
        let mut bench = faulty(faults);
        bench.wire(0, &raw(MAC, 200));
        assert!(bench.received(0).is_empty());
        bench.w32(0xa00c, 0x1f);
        bench.wire(0, &raw(MAC, 200));
        let all = bench.received(0);
        assert_eq!(all[0][0] >> 22 & 15, status);
        assert!(status != 2 || all[0][1] & 0xffff < 60);
        assert_eq!((bench.r32(0xa034), bench.r32(0xa034)), (2, 0), "IN_ERRORS");
    }
}

#[test]
fn counters_clear_by_reading() {
    let mut bench = started();
    bench.w32(0xa010, u32::MAX);
    for (to, times) in [(MAC, 5), ([0xff; 6], 3), ([1, 0, 0x5e, 0, 0, 1], 2)] {
        for _ in 0..times {
            bench.wire(0, &raw(to, 60));
        }
    }
    let read =
        |bench: &mut Bench| [0x30, 0x34, 0x38, 0x3c, 0x40, 0x44].map(|at| bench.r32(0xa000 + at));
    assert_eq!(read(&mut bench), [0, 0, 2, 3, 5, 0]);
    assert_eq!(read(&mut bench), [0; 6]);
}

#[test]
fn a_half_full_counter_interrupts() {
    let mut bench = faulty("narrow-mib");
    bench.w32(0x2000, 0);
    for i in 0..0x8000u32 {
        assert_eq!(bench.r32(0x60) & 1 << 22, 0, "{i}");
        bench.wire(0, &raw(MAC, 60));
    }
    assert_eq!(bench.r32(0x60) & 1 << 22, 1 << 22);
    assert_eq!(bench.r32(0xa030), 0x8000, "all discarded");
}

#[test]
fn free_queue_empty_latches_at_the_threshold_and_again_after_the_acknowledge() {
    let mut bench = Bench::new();
    bench.start_with(40, 2048);
    bench.w32(0x70, 32);
    for _ in 0..7 {
        bench.wire(0, &raw(MAC, 60));
        bench.received(0);
    }
    assert_eq!(bench.r32(0x60) & EMPTY, 0, "33 left");
    bench.wire(1, &raw([0xff; 6], 60));
    assert_eq!(bench.r32(0x60) & EMPTY, EMPTY, "32 left: the ports share the queue");
    bench.w32(0x60, EMPTY);
    assert_eq!(bench.r32(0x60) & EMPTY, EMPTY, "still empty");
    bench.w16(0x16, 80);
    bench.w32(0x60, EMPTY);
    assert_eq!(bench.r32(0x60) & EMPTY, 0, "refilled");
    bench.w32(0x04, 0);
    bench.w32(0x70, 255);
    assert_eq!(bench.r32(0x60) & EMPTY, 0, "no queue, no interrupt");
}

#[test]
fn frames_without_buffers_are_lost_whole() {
    let mut bench = Bench::new();
    bench.start_with(1, 2048);
    bench.w32(0xa018, 0x3f96_0400);
    bench.wire(0, &raw(MAC, 3000));
    assert_eq!(bench.r32(0x60) & OVERRUN, OVERRUN);
    assert!(bench.received(0).is_empty());
    assert_eq!(bench.ram.get(RX_BUFFERS, 2048), [0xa5; 2048], "no partial frame");
    bench.wire(0, &raw(MAC, 1000));
    assert_eq!(bench.received(0).len(), 1, "the buffer is still there");
    assert_eq!(bench.r32(0xa030), 1, "IN_DISCARDS");
}

#[test]
fn a_full_queue_keeps_one_slot() {
    let mut bench = started();
    bench.w32(0x2000, bench::RX_RINGS as u32 | 3);
    for _ in 0..9 {
        bench.wire(0, &raw(MAC, 60));
    }
    assert_eq!(bench.r32(0x2004), 7 << 16);
    assert_eq!((bench.r32(0xa030), bench.r32(0x60) & OVERRUN), (2, OVERRUN));
    bench.w16(0x2004, 3);
    for _ in 0..3 {
        bench.wire(0, &raw(MAC, 60));
    }
    assert_eq!(bench.r32(0x2004), 2 << 16 | 3, "and it wraps");
}

#[test]
fn nothing_is_taken_while_gates_are_closed() {
    for (offset, closed) in
        [(0x8000, 0x4002_3c1c), (0xa018, 0x3f96_0102), (0x04, 0), (0x2000, 0), (0x10, 0)]
    {
        let mut bench = started();
        bench.w32(offset, closed);
        bench.wire(0, &raw(MAC, 60));
        bench.w32(0x2000, bench::RX_RINGS as u32 | 9);
        assert!(bench.received(0).is_empty(), "{offset:#x}");
        assert_eq!(bench.r32(0x14) & 0xffff, 0, "{offset:#x}");
    }
}

#[test]
fn buffers_outside_memory_are_bus_errors() {
    let mut bench = started();
    bench.ram.descriptor(FREE_RING, [0, 0, 0x7000_0000, 0]);
    bench.wire(0, &raw(MAC, 60));
    assert_eq!(bench.received(0)[0][0] >> 30 & 1, 1, "derr");
    assert_eq!(bench.r32(0x20) >> 25 & 1, 1);
    bench.w32(0x04, 0x7000_0000 | 10);
    bench.wire(0, &raw(MAC, 60));
    assert!(bench.received(0).is_empty(), "no descriptor to be had");
}

#[test]
fn e7_a_hung_receiver_shows_its_signature_until_reset() {
    let mut bench = faulty("rx-hang=1");
    bench.wire(0, &raw(MAC, 60));
    assert!(bench.received(0).is_empty());
    assert_eq!(bench.r32(0xa064) & 0x0df_f000, 0x4b_2000);
    bench.write(1, 0x0c, 4, 0x4000_0020);
    assert_eq!(bench.r32(0xa064), 0);
}

#[test]
fn e8_ten_runts_in_a_row_confuse_the_receiver() {
    let mut bench = faulty("runt-storm,rx-runt=1");
    bench.w32(0xa00c, 0x1f);
    for _ in 0..12 {
        bench.wire(0, &raw(MAC, 60));
    }
    assert_eq!(bench.received(0).len(), 9);
    assert_eq!(counters(&bench).rx_hangs, 1);
}

#[test]
fn e10_a_descriptor_can_come_without_its_address() {
    let mut bench = faulty("rx-null=1");
    bench.wire(0, &raw(MAC, 60));
    assert_eq!(bench.received(0)[0][2], 0);
}

#[test]
fn injected_descriptor_errors_come_with_their_causes() {
    let mut bench = faulty("rx-derr=1,rx-perr=1");
    bench.wire(0, &raw(MAC, 60));
    assert_eq!(bench.received(0)[0][0] >> 29 & 3, 3);
    assert_eq!(bench.r32(0x20) >> 24 & 3, 3);
}

#[test]
fn vlan_tags_are_stripped_on_request() {
    let mut bench = started();
    let tagged = to_us(&Spec { tag: vec![0x81, 0, 0, 7], ..Spec::tcp(200) });
    bench.w32(0xa018, 0x3f9e_0100);
    bench.wire(0, &tagged);
    assert_eq!(bench.received(0)[0][1] as usize, tagged.len() - 4);
    assert_eq!(bench.ram.get(RX_BUFFERS + 2, tagged.len() - 4), to_us(&Spec::tcp(200)));
}

#[test]
fn loopback_receives_what_is_sent() {
    let mut bench = started();
    bench.w32(0xa018, 0x3f96_0104);
    assert!(bench.send(&[&raw(MAC, 100)], 0, 0).is_empty());
    assert_eq!(bench.received(0)[0][1], 100);
}

#[test]
fn a_received_pause_holds_the_transmitter() {
    let mut pause = vec![0x01, 0x80, 0xc2, 0, 0, 1, 2, 0, 0, 0, 0, 9, 0x88, 0x08, 0, 1, 0, 100];
    pause.resize(60, 0);
    let mut bench = started();
    bench.wire(0, &pause);
    assert_eq!(bench.send(&[&raw(MAC, 60)], 0, 0).len(), 1, "not enabled");
    bench.w32(0xa018, 0x3f96_4100);
    bench.wire(0, &pause);
    assert_eq!(bench.r32(0x60) >> 21 & 1, 1);
    assert!(bench.send(&[&raw(MAC, 60)], 0, 0).is_empty());
    // 100 quanta of 512 bits at 1000 Mbit/s.
    assert_eq!(bench.later(Duration::from_nanos(51_199)), Some(Duration::from_nanos(51_200)));
    assert!(bench.sent().is_empty());
    bench.later(Duration::from_nanos(1));
    assert_eq!(bench.sent().len(), 1);
    assert!(bench.received(0).is_empty(), "PAUSE goes no further");
}

#[test]
fn few_free_buffers_send_pause_and_enough_end_it() {
    let mut bench = Bench::new();
    bench.start_with(18, 2048);
    // CONFIG2: set below 16, release above 32.
    bench.w32(0xa018, 0x3f96_8100);
    for expected in [0, 0, 1, 0] {
        bench.wire(0, &raw(MAC, 60));
        let sent = bench.sent();
        assert_eq!(sent.len(), expected);
        if let Some(frame) = sent.first() {
            assert_eq!(frame[..6], [0x01, 0x80, 0xc2, 0, 0, 1]);
            assert_eq!(frame[6..12], MAC);
            assert_eq!(frame[12..18], [0x88, 0x08, 0, 1, 0xff, 0xff]);
        }
    }
    bench.w16(0x16, 60);
    assert_eq!(bench.sent()[0][12..18], [0x88, 0x08, 0, 1, 0, 0]);
}

#[test]
fn a_pulled_cable_and_a_wrong_speed_are_deaf() {
    let mut bench = started();
    bench.gemini.board_mut().set_cable(0, false);
    bench.wire(0, &raw(MAC, 60));
    bench.gemini.board_mut().set_cable(0, true);
    bench.w32(0xa02c, 0x4b);
    bench.wire(0, &raw(MAC, 60));
    assert!(bench.received(0).is_empty());
    bench.w32(0xa02c, 0x6d);
    bench.wire(0, &raw(MAC, 60));
    assert_eq!(bench.received(0).len(), 1);
    assert!(!bench.gemini.interrupt(), "nothing is enabled");
}

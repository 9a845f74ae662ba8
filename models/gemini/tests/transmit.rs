//! Transmit: descriptors, pointers, interrupts, and each trap of the offload unit by name (sheet 5.2, 8, 11.1).

mod bench;

use bench::frames::{Spec, raw, sum};
use bench::{BASE, Bench, PEER, TX_BUFFERS};
use std::time::Duration;
use trireme_gemini_model::{BoardKind, PortCounters};

const MTU: u32 = 1 << 16;
const IP: u32 = 1 << 17;
const V6: u32 = 1 << 18;
const TCP: u32 = 1 << 19;
const UDP: u32 = 1 << 20;
const BYPASS: u32 = 1 << 21;
const FIXED_LEN: u32 = 1 << 22;
const EOFIE: u32 = 1 << 29;

/// Register 0 of the interrupts, port 0 queue 0.
const EOF: u32 = 1 << 0;
const FIN: u32 = 1 << 12;
const PERR: u32 = 1 << 28;
const DERR: u32 = 1 << 29;

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

fn udp(payload: usize) -> Spec {
    Spec { udp: true, ..Spec::tcp(payload) }
}

/// ICMP echo in an IPv4 packet that makes a frame of `len` bytes.
fn icmp(len: usize) -> Vec<u8> {
    let mut frame = udp(len - 42).build();
    frame[23] = 1;
    frame[24..26].fill(0);
    let check = sum(&[&frame[14..34]]);
    frame[24..26].copy_from_slice(&check.to_be_bytes());
    frame
}

#[test]
fn worked_examples_of_the_sheet() {
    // 5.8: frame, word 1's flags, word 3 without SOF and EOF, then words 0, 1 and 3 as they must be.
    let tagged = Spec { tag: vec![0x88, 0x99, 0xa0, 1], ..Spec::tcp(1448) };
    let cases: [(Vec<u8>, u32, u32, [u32; 3]); 4] = [
        (raw([0xff; 6], 60), 0, 0, [0x0000_003c, 0x0000_003c, 0xc000_0000]),
        (icmp(1842), BYPASS, 0, [0x0000_0732, 0x0020_0732, 0xc000_0000]),
        (udp(958).unsummed(), IP | UDP, 0, [0x0000_03e8, 0x0012_03e8, 0xc000_0000]),
        (tagged.build(), MTU, 0x5ee, [0x0000_05ee, 0x0001_05ee, 0xc000_05ee]),
    ];
    for (frame, control, mtu, [word0, word1, word3]) in cases {
        let mut bench = started();
        bench.put(0, &[&frame], control, mtu);
        let slot = Bench::tx_slot(0, 0);
        assert_eq!(bench.ram.words(slot), [word0, word1, TX_BUFFERS as u32, word3], "posted");
        bench.ring(0);
        // One descriptor used, and sent; everything else as it was.
        let done = [word0 | 0x0041_0000, word1, TX_BUFFERS as u32, word3];
        assert_eq!(bench.ram.words(slot), done, "done");
        let out = bench.sent();
        assert_eq!(out.len(), 1);
        assert_eq!(out[0].len(), frame.len());
        assert_eq!(bench.gemini.counters().traps(), 0);
    }
}

#[test]
fn a_super_frame_of_two_buffers_leaves_its_descriptors_as_the_sheet_says() {
    let mut bench = started();
    let frame = Spec::tcp(7240).unsummed();
    let out = bench.send(&[&frame[..66], &frame[66..]], MTU | IP | TCP, 0x5ea);
    assert_eq!(out.len(), 5);
    let header = TX_BUFFERS as u32;
    let payload = header + 80;
    assert_eq!(
        bench.ram.words(Bench::tx_slot(0, 0)),
        [0x0042_0042, 0x000b_1c8a, header, 0x8000_05ea]
    );
    assert_eq!(
        bench.ram.words(Bench::tx_slot(0, 1)),
        [0x0000_1c48, 0x000b_1c8a, payload, 0x4000_05ea],
        "only the first is written back"
    );
    assert_eq!(bench.r32(0x800c), 0x0002_0002);
}

#[test]
fn e2_plain_mode_truncates_above_1514_whatever_the_frame() {
    let tagged =
        |len: usize| Spec { tag: vec![0x88, 0x99, 0xa0, 1], ..Spec::tcp(len - 70) }.build();
    let plain: [fn(usize) -> Vec<u8>; 4] =
        [|len| udp(len - 42).build(), icmp, |len| raw(PEER, len), tagged];
    for make in plain {
        for len in [1513, 1514, 1515, 1516, 1518, 1520, 2043, 2047] {
            let mut bench = started();
            let frame = make(len);
            let out = bench.send(&[&frame], 0, 0);
            assert_eq!(out, [&frame[..len.min(1514)]], "{len}");
            assert_eq!(counters(&bench).tx_truncated, u64::from(len > 1514));
            let out = bench.send(&[&frame], BYPASS, 0);
            assert_eq!(out, [frame], "bypass, {len}");
        }
    }
}

#[test]
fn e2_plain_mode_may_stop_the_engine_until_a_reset() {
    let mut bench = faulty("plain-hang");
    assert_eq!(bench.send(&[&raw(PEER, 1514)], 0, 0).len(), 1);
    assert_eq!(bench.send(&[&raw(PEER, 1515)], 0, 0).len(), 1);
    assert!(bench.send(&[&raw(PEER, 60)], 0, 0).is_empty());
    assert_ne!(bench.r16(0x800c), bench.r16(0x800e), "the queue stands");
    // The other port goes on.
    bench.put(1, &[&raw(PEER, 60)], 0, 0);
    bench.ring(1);
    assert_eq!(bench.sent_on().len(), 1);
    bench.write(1, 0x0c, 4, 0x4000_0060);
    bench.start();
    assert_eq!(bench.send(&[&raw(PEER, 60)], 0, 0).len(), 1);
}

#[test]
fn e3_tcp_outside_mtu_mode_is_seen_and_can_lock_up() {
    let mut bench = faulty("tcp-hang=1");
    let tcp = Spec::tcp(100);
    assert_eq!(bench.send(&[&tcp.unsummed()], MTU | IP | TCP, 1514), [tcp.build()]);
    assert_eq!(bench.send(&[&tcp.build()], BYPASS, 0).len(), 1);
    assert_eq!(bench.send(&[&udp(100).build()], 0, 0).len(), 1);
    assert_eq!(counters(&bench).tx_tcp_plain, 0);
    assert_eq!(bench.send(&[&tcp.build()], 0, 0).len(), 1, "the frame itself goes");
    assert!(bench.send(&[&tcp.unsummed()], MTU | IP | TCP, 1514).is_empty());
    assert_eq!((counters(&bench).tx_tcp_plain, counters(&bench).tx_hangs), (1, 1));
}

#[test]
fn e4_fixed_length_with_several_buffers_spoils_the_tcp_checksum() {
    let spec = Spec::tcp(3000);
    let frame = spec.unsummed();
    let mut bench = started();
    let out = bench.send(&[&frame[..66], &frame[66..]], MTU | IP | TCP | FIXED_LEN, 1514);
    assert_ne!(out, spec.segments(1514));
    assert_eq!(counters(&bench).tx_fixed_len, 1);
    let spec = Spec::tcp(700);
    let frame = spec.unsummed();
    let out = bench.send(&[&frame[..66], &frame[66..]], MTU | IP | TCP | FIXED_LEN, 1514);
    assert_ne!(out, [spec.build()]);
    let out = bench.send(&[&frame], MTU | IP | TCP | FIXED_LEN, 1514);
    assert_eq!(out, [spec.build()], "one buffer is what it is for");
}

#[test]
fn e5_short_frames_keep_their_ip_length_only_when_fixed() {
    for payload in [0, 1, 17, 18] {
        let spec = udp(payload);
        let mut wanted = spec.build();
        let length = wanted[16..18].to_vec();
        wanted.resize(60, 0);
        let mut bench = faulty("short-ip-length");
        assert_eq!(bench.send(&[&spec.unsummed()], IP | UDP | FIXED_LEN, 0), [wanted]);
        let out = bench.send(&[&spec.unsummed()], IP | UDP, 0);
        assert_eq!(out[0][16..18], [0, 46], "padding became payload");
        assert_eq!(out[0][16..18] == length, payload == 18);
        assert_eq!(counters(&bench).tx_short_ip, 1);
    }
    // Without the erratum they are padded and no more.
    let mut wanted = udp(3).build();
    wanted.resize(60, 0);
    assert_eq!(started().send(&[&udp(3).unsummed()], IP | UDP, 0), [wanted]);
}

#[test]
fn e6_udp_checksum_on_a_fragment_damages_it() {
    let mut bench = started();
    for fragment in [0x2000u16, 0x0010, 0x2010] {
        // Half of a datagram, whose sum is over both.
        let mut frame = udp(1600).build();
        frame.truncate(842);
        frame[16..18].copy_from_slice(&828u16.to_be_bytes());
        frame[20..22].copy_from_slice(&fragment.to_be_bytes());
        let out = bench.send(&[&frame], IP | UDP, 0);
        assert_ne!(out[0][34..], frame[34..], "{fragment:#x}");
        let out = bench.send(&[&frame], IP, 0);
        assert_eq!(out[0][34..], frame[34..]);
    }
    assert_eq!(counters(&bench).tx_udp_fragments, 3);
}

#[test]
fn e1_tiny_later_fragments_at_odd_addresses_are_seen_and_can_be_damaged() {
    for (faults, damages) in [("", false), ("tiny-fragments", true)] {
        for (len, offset) in [(1, 1), (1, 2), (1, 3), (2, 2), (1, 0), (3, 1)] {
            let mut bench = faulty(faults);
            let frame = raw(PEER, 100);
            bench.put(0, &[&frame[..60], &frame[60..60 + len], &frame[60 + len..]], 0, 0);
            // Move the second piece to such an address.
            let slot = Bench::tx_slot(0, 1);
            let [word0, word1, _, word3] = bench.ram.words(slot);
            let address = TX_BUFFERS + 0x1000 + offset;
            bench.ram.set(address, &frame[60..60 + len]);
            bench.ram.descriptor(slot, [word0, word1, address as u32, word3]);
            bench.ring(0);
            let hit = len < 3 && offset != 0;
            assert_eq!(counters(&bench).tx_tiny_fragments, u64::from(hit), "{len} at {offset}");
            assert_eq!(bench.sent() == [frame], !(hit && damages));
        }
    }
}

#[test]
fn e7_a_hung_transmitter_shows_its_signature_until_reset() {
    let mut bench = faulty("tx-hang=1");
    assert_ne!(bench.r32(0xa060) & 0xf_ffff, 0x34012);
    assert!(bench.send(&[&raw(PEER, 60)], 0, 0).is_empty());
    assert_eq!(bench.r32(0xa060) & 0xf_ffff, 0x34012);
    assert_eq!(bench.r32(0x8038), BASE as u32, "first descriptor in progress");
    bench.write(1, 0x0c, 4, 0x4000_0020);
    assert_ne!(bench.r32(0xa060) & 0xf_ffff, 0x34012);
}

#[test]
fn size_in_word_3_has_eleven_bits() {
    let spec = Spec::tcp(3000);
    let frame = spec.unsummed();
    let mut bench = started();
    assert_eq!(bench.send(&[&frame], MTU | IP | TCP, 0x1000 | 1514), spec.segments(1514));
    assert_eq!(counters(&bench).tx_bad_mtu, 1, "older drivers' 13 bits");
}

#[test]
fn a_size_without_room_for_payload_is_refused() {
    for mtu in [0, 65, 66] {
        let mut bench = started();
        let frame = Spec::tcp(3000).unsummed();
        assert!(bench.send(&[&frame], MTU | IP | TCP, mtu).is_empty());
        assert_eq!(bench.r32(0x20) & PERR, PERR);
        assert_eq!(bench.ram.words(Bench::tx_slot(0, 0))[0] >> 16, 0x2001, "perr, not sent");
        assert_eq!(bench.send(&[&raw(PEER, 60)], 0, 0).len(), 1, "and it goes on");
    }
    assert_eq!(started().send(&[&Spec::tcp(3).unsummed()], MTU | IP | TCP, 67).len(), 3);
}

#[test]
fn checksum_bits_do_no_harm_to_other_protocols() {
    for frame in [icmp(200), raw(PEER, 200)] {
        let mut bench = started();
        assert_eq!(bench.send(&[&frame], IP | TCP | UDP, 0), [&frame[..]]);
        assert_eq!(bench.send(&[&frame], MTU | IP | V6 | TCP | UDP, 1514), [frame]);
    }
}

#[test]
fn bypass_touches_nothing() {
    let frame = Spec::tcp(1000).unsummed();
    let mut bench = started();
    assert_eq!(bench.send(&[&frame], BYPASS | MTU | IP | TCP, 500), [frame]);
}

#[test]
fn short_frames_are_padded_to_60() {
    let mut wanted = raw(PEER, 42);
    wanted.resize(60, 0);
    assert_eq!(started().send(&[&raw(PEER, 42)], 0, 0), [wanted]);
}

#[test]
fn eof_needs_eofie_and_fin_an_empty_queue() {
    let mut bench = started();
    bench.put(0, &[&raw(PEER, 60)], 0, 0);
    bench.put(0, &[&raw(PEER, 61)], 0, EOFIE);
    bench.w16(0x800e, 1);
    assert_eq!(bench.r32(0x20), FIN);
    bench.w32(0x20, FIN);
    bench.w16(0x800e, 2);
    assert_eq!(bench.r32(0x20), FIN | EOF);
}

#[test]
fn eofie_counts_even_when_written_while_the_frame_waits() {
    // What Linux does when its queue is full. [5.2]
    let mut bench = faulty("paced");
    for _ in 0..3 {
        bench.put(0, &[&raw(PEER, 1000)], 0, 0);
    }
    bench.ring(0);
    assert_eq!(bench.r16(0x800c), 0, "the first is on its way");
    let slot = Bench::tx_slot(0, 1);
    let [a, b, c, d] = bench.ram.words(slot);
    bench.ram.descriptor(slot, [a, b, c, d | EOFIE]);
    // 1000 bytes, FCS, preamble and gap at 1000 Mbit/s: 8192 ns each.
    bench.later(Duration::from_nanos(8191));
    assert_eq!(bench.r16(0x800c), 0);
    bench.later(Duration::from_nanos(1));
    assert_eq!((bench.r16(0x800c), bench.r32(0x20)), (1, 0));
    bench.later(Duration::from_nanos(8192));
    assert_eq!((bench.r16(0x800c), bench.r32(0x20)), (2, EOF));
    assert_eq!(bench.later(Duration::from_nanos(8192)), None);
    assert_eq!((bench.r16(0x800c), bench.r32(0x20)), (3, EOF | FIN));
}

#[test]
fn eofie_in_a_middle_descriptor_gives_fin_alone() {
    let mut bench = started();
    let frame = raw(PEER, 100);
    bench.put(0, &[&frame[..50], &frame[50..]], 0, 0);
    let [a, b, c, d] = bench.ram.words(Bench::tx_slot(0, 0));
    bench.ram.descriptor(Bench::tx_slot(0, 0), [a, b, c, d | EOFIE]);
    bench.ring(0);
    assert_eq!(bench.r32(0x20), FIN);
}

#[test]
fn a_read_pointer_can_run_ahead_of_the_status() {
    let mut bench = faulty("late-status");
    bench.send(&[&raw(PEER, 60)], 0, 0);
    assert_eq!(bench.r16(0x800c), 1);
    assert_eq!(bench.ram.words(Bench::tx_slot(0, 0))[0], 60, "not finished yet");
    assert!(bench.later(Duration::ZERO).is_none());
    assert_eq!(bench.ram.words(Bench::tx_slot(0, 0))[0], 0x0041_003c);
}

#[test]
fn broken_chains_are_protocol_errors_and_skipped() {
    let frame = raw(PEER, 120);
    // SOF and EOF of three descriptors; how many the error takes.
    for (marks, skipped) in
        [([0u32, 0, 1], 1), ([2, 2, 1], 1), ([2, 0, 0], 3), ([2, 0, 2], 2), ([1, 3, 3], 1)]
    {
        let mut bench = started();
        bench.put(0, &[&frame[..40], &frame[40..80], &frame[80..]], 0, 0);
        for (i, mark) in marks.iter().enumerate() {
            let slot = Bench::tx_slot(0, i as u16);
            let [a, b, c, _] = bench.ram.words(slot);
            bench.ram.descriptor(slot, [a, b, c, mark << 30]);
        }
        bench.ring(0);
        assert_eq!(bench.r32(0x20) & PERR, PERR, "{marks:?}");
        assert_eq!(bench.ram.words(Bench::tx_slot(0, 0))[0] >> 16, 0x2000 | skipped, "{marks:?}");
        assert_eq!(bench.r16(0x800c), 3, "nothing stands");
    }
}

#[test]
fn byte_count_must_be_the_sum_of_the_buffers() {
    let mut bench = started();
    bench.put(0, &[&raw(PEER, 100)], 0, 0);
    let [a, b, c, d] = bench.ram.words(Bench::tx_slot(0, 0));
    bench.ram.descriptor(Bench::tx_slot(0, 0), [a, b + 1, c, d]);
    bench.ring(0);
    assert!(bench.sent().is_empty());
    assert_eq!(bench.r32(0x20) & PERR, PERR);
}

#[test]
fn addresses_outside_memory_are_bus_errors() {
    let mut bench = started();
    bench.put(0, &[&raw(PEER, 100)], 0, 0);
    let [a, b, _, d] = bench.ram.words(Bench::tx_slot(0, 0));
    bench.ram.descriptor(Bench::tx_slot(0, 0), [a, b, 0x4000_0000, d]);
    bench.ring(0);
    assert_eq!((bench.r32(0x20) & DERR, bench.sent().len()), (DERR, 0));
    assert_eq!(bench.ram.words(Bench::tx_slot(0, 0))[0] >> 16, 0x4001, "derr");
    assert_eq!(bench.send(&[&raw(PEER, 60)], 0, 0).len(), 1);
    // A ring outside: nothing can be skipped, so the engine waits for another one.
    bench.w32(0x20, DERR);
    bench.w32(0x8050, 0x4000_0008);
    bench.put(0, &[&raw(PEER, 60)], 0, 0);
    bench.ring(0);
    assert_eq!(bench.r32(0x20) & DERR, DERR);
    bench.w32(0x8050, BASE as u32 | 8);
    assert_eq!(bench.sent().len(), 1);
}

#[test]
fn nothing_moves_without_enable_base_or_with_the_transmitter_off() {
    for (offset, off, on) in
        [(0x8000, 0x8002_3c1c, 0xc002_3c1c), (0x8050, 0, BASE as u32 | 8), (0xa018, 1, 0)]
    {
        let mut bench = started();
        bench.w32(offset, off);
        assert!(bench.send(&[&raw(PEER, 60)], 0, 0).is_empty(), "{offset:#x}");
        bench.w32(offset, on);
        assert_eq!(bench.sent().len(), 1, "{offset:#x}");
    }
}

#[test]
fn pointers_wrap_and_survive_a_new_ring() {
    let mut bench = started();
    for i in 0..600 {
        let frame = raw(PEER, 60 + i % 100);
        assert_eq!(bench.send(&[&frame[..30], &frame[30..]], 0, 0), [frame], "{i}");
    }
    let pointer = bench.r16(0x800c);
    assert_eq!(usize::from(pointer), 1200 % 256);
    bench.w32(0x8050, 0);
    bench.w32(0x8050, BASE as u32 | 8);
    assert_eq!(bench.r16(0x800c), pointer, "ifdown and ifup [5.1]");
}

#[test]
fn six_queues_share_by_weight() {
    let mut bench = started();
    bench.w32(0x8000, 0x8002_3c1c);
    // Twelve frames in queue 0 (weight 3), twelve in queue 5 (weight 1).
    bench.w32(0x8008, 3 | 1 << 25);
    for queue in [0u64, 5] {
        for i in 0..12 {
            bench.ram.set(TX_BUFFERS + 0x100 * queue, &raw([0x10 + queue as u8; 6], 60));
            let at = BASE + queue * 0x1000 + 16 * i;
            let buffer = TX_BUFFERS as u32 + 0x100 * queue as u32;
            bench.ram.descriptor(at, [60, 60, buffer, 0xc000_0000]);
        }
        bench.w16(0x800e + 4 * queue, 12);
    }
    bench.w32(0x8000, 0xc002_3c1c);
    let order: Vec<u8> = bench.sent().iter().map(|frame| frame[0] - 0x10).collect();
    assert_eq!(order.len(), 24);
    let first = order.iter().position(|&queue| queue == 5).unwrap();
    assert_eq!(order[first..first + 8], [5, 0, 0, 0, 5, 0, 0, 0]);
    // FIN of queue 0 and of queue 5.
    assert_eq!(bench.r32(0x20), 1 << 12 | 1 << 17);
}

#[test]
fn a_port_sends_on_its_own_wire() {
    let mut bench = started();
    bench.put(1, &[&raw(PEER, 60)], 0, EOFIE);
    bench.ring(1);
    assert_eq!(bench.sent_on(), [(1, raw(PEER, 60))]);
    assert_eq!(bench.r32(0x20), 1 << 6 | 1 << 18);
}

#[test]
fn an_injected_error_leaves_the_status_without_ok() {
    let mut bench = faulty("tx-error=1");
    assert!(bench.send(&[&raw(PEER, 60)], 0, 0).is_empty());
    assert_eq!(bench.ram.words(Bench::tx_slot(0, 0))[0], 0x0001_003c);
    assert_eq!(bench.r16(0x800c), 1);
}

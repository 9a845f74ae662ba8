//! Both rings: what leaves, what arrives, what is written back.

mod bench;

use bench::{Bench, MAC, PEER, RX_BUFFERS, RX_RING, TX_RING, frame, udp_frame};
use std::time::Duration;
use trireme_rhine_model::{Chip, Faults};

/// CRC-32 of IEEE 802.3, bit by bit, as it lies in memory.
fn fcs(bytes: &[u8]) -> [u8; 4] {
    let mut crc = u32::MAX;
    for byte in bytes {
        crc ^= u32::from(*byte);
        for _ in 0..8 {
            crc = if crc & 1 != 0 { crc >> 1 ^ 0xedb8_8320 } else { crc >> 1 };
        }
    }
    (!crc).to_le_bytes()
}

fn demand(bench: &mut Bench) {
    bench.w8(0x09, 0x2c);
}

#[test]
fn a_frame_leaves_and_its_descriptor_comes_back_clean() {
    for chip in [Chip::VT86C100A, Chip::VT6102, Chip::VT6105, Chip::VT6105M] {
        // All three demand bits work on every chip.
        for (register, value) in [(0x09, 0x2c), (0x08, 0x3a)] {
            let mut bench = Bench::new(chip);
            let data = frame(PEER, 60);
            bench.tx_frame(&[&data], 0, 0);
            bench.start();
            assert!(bench.sent().is_empty(), "not before a demand");
            bench.w8(register, value);
            assert_eq!(bench.sent(), [data]);
            assert_eq!(bench.ram.word(TX_RING), 0);
            assert_eq!(bench.r16(0x0c), 0x0002);
            assert_eq!(bench.r32(0x1c), TX_RING as u32 + 16, "points at what it found not owned");
        }
    }
}

#[test]
fn wake_queue_register_demands_on_the_management_chip_only() {
    for (chip, frames) in [(Chip::VT6105M, 1), (Chip::VT6105, 0)] {
        let mut bench = Bench::new(chip);
        bench.tx_frame(&[&frame(PEER, 60)], 0, 0);
        bench.start();
        bench.w8(0x0a, 0x80);
        assert_eq!(bench.sent().len(), frames);
    }
}

#[test]
fn a_frame_of_several_buffers_needs_ownership_on_the_first_only() {
    let mut bench = Bench::new(Chip::VT6105);
    let data = frame(PEER, 1514);
    bench.tx_frame(&[&data[..14], &data[14..15], &data[15..1000], &data[1000..]], 0, 0);
    let before = bench.ram.get(TX_RING + 16, 48);
    bench.start();
    demand(&mut bench);
    assert_eq!(bench.sent(), [data]);
    assert_eq!(bench.ram.word(TX_RING), 0);
    assert_eq!(bench.ram.get(TX_RING + 16, 48), before, "status goes into the first only");
    assert_eq!(bench.r32(0x1c), TX_RING as u32 + 64);
}

#[test]
fn old_revisions_send_from_the_aligned_address() {
    for (chip, shift) in [(Chip::VT86C100A, 3), (Chip::VT6102, 0)] {
        let mut bench = Bench::new(chip);
        let data = frame(PEER, 80);
        bench.tx_frame(&[&data], 0, 0);
        let address = bench.ram.word(TX_RING + 8) + 3;
        bench.ram.set(TX_RING + 8, &address.to_le_bytes());
        bench.ram.set(TX_RING + 4, &0x00e0_803cu32.to_le_bytes());
        bench.start();
        demand(&mut bench);
        assert_eq!(bench.sent()[0][..], data[3 - shift..][..60]);
    }
}

#[test]
fn nothing_pads_a_short_frame_and_nobody_receives_it() {
    let mut bench = Bench::new(Chip::VT6102);
    bench.tx_frame(&[&frame(PEER, 42)], 0, 0);
    bench.start();
    demand(&mut bench);
    assert!(bench.sent().is_empty());
    assert_eq!(bench.rhine.counters().tx_runts, 1);
    assert_eq!(bench.r16(0x0c), 0x0002, "the chip does not know");
}

#[test]
fn interrupts_come_only_when_asked_for_and_not_suppressed() {
    let run = |chip, clear: u32, suppress: u32| {
        let mut bench = Bench::new(chip);
        bench.tx_frame(&[&frame(PEER, 60)], 0, 0);
        let (control, next) = (bench.ram.word(TX_RING + 4), bench.ram.word(TX_RING + 12));
        bench.ram.set(TX_RING + 4, &(control & !clear).to_le_bytes());
        bench.ram.set(TX_RING + 12, &(next | suppress).to_le_bytes());
        bench.start();
        demand(&mut bench);
        assert_eq!(bench.sent().len(), 1);
        assert_eq!(bench.r32(0x1c), TX_RING as u32 + 16, "bit 0 is no address");
        bench.r16(0x0c)
    };
    assert_eq!(run(Chip::VT6105M, 0, 0), 2);
    assert_eq!(run(Chip::VT6105M, 0x80_0000, 0), 0);
    assert_eq!(run(Chip::VT6105M, 0, 1), 0);
    assert_eq!(run(Chip::VT6105, 0, 1), 2, "not in its data sheet");
}

#[test]
fn without_polling_disabled_the_ring_is_looked_at_by_itself() {
    let mut bench = Bench::new(Chip::VT6102);
    bench.ram.descriptor(TX_RING, [0; 4]);
    bench.start();
    bench.w8(0x09, 0x04);
    bench.later(Duration::ZERO);
    bench.tx_frame(&[&frame(PEER, 60)], 0, 0);
    bench.later(Duration::from_millis(5));
    assert_eq!(bench.sent().len(), 1);
}

#[test]
fn each_transmit_error_stops_the_engine_with_its_status() {
    let zero = Faults::default();
    for (chip, faults, isr, status) in [
        (Chip::VT6105M, Faults { tx_underrun: 1, ..zero }, 0x0208, 0x8800),
        (Chip::VT6105M, Faults { tx_abort: 1, ..zero }, 0x2008, 0x8100),
        (Chip::VT6105M, Faults { tx_bad_link: 1, ..zero }, 0x0018, 0x9000),
        (Chip::VT6105M, Faults { pci_error: 1, ..zero }, 0x0048, 0xa000),
        (Chip::VT6105M, Faults { tx_unexplained: 1, ..zero }, 0x0008, 0x8000_0000),
        (Chip::VT6102, Faults { tx_race: 1, ..zero }, 0x0008, 0x8000_0000),
    ] {
        let mut bench = Bench::with(chip, faults);
        bench.tx_frame(&[&frame(PEER, 60)], 0, 0);
        bench.start();
        demand(&mut bench);
        assert!(bench.sent().is_empty());
        assert_eq!(bench.r16(0x0c), isr);
        assert_eq!(bench.ram.word(TX_RING), status);
        assert_eq!(bench.r8(0x08) & 0x10, 0, "transmitter off by itself");
        assert_eq!(bench.r8(0x84), if faults.tx_race == 1 { 0x08 } else { 0 });
        // Recovery as every driver does it.
        *bench.rhine.faults_mut() = zero;
        bench.ram.set(TX_RING, &0x8000_0000u32.to_le_bytes());
        bench.w32(0x1c, TX_RING as u32);
        bench.w8(0x08, 0x1a);
        demand(&mut bench);
        assert_eq!(bench.sent().len(), 1);
    }
}

#[test]
fn underruns_end_with_store_and_forward() {
    let mut bench = Bench::with(Chip::VT6102, Faults { tx_underrun: 1, ..Faults::default() });
    bench.tx_frame(&[&frame(PEER, 60)], 0, 0);
    bench.start();
    bench.w8(0x07, 0x80);
    demand(&mut bench);
    assert_eq!(bench.sent().len(), 1);
}

#[test]
fn checksum_bits_fill_fields_on_the_management_chip_only() {
    let right = udp_frame();
    let mut blank = right.clone();
    blank[24..26].copy_from_slice(&[0xaa, 0xaa]);
    blank[40..42].copy_from_slice(&[0x12, 0x34]);
    let send = |chip, control, faults, data: &[u8]| {
        let mut bench = Bench::with(chip, faults);
        bench.tx_frame(&[data], control, 0);
        bench.start();
        demand(&mut bench);
        bench.sent().remove(0)
    };
    let none = Faults::default();
    assert_eq!(send(Chip::VT6105M, 0x0c_0000, none, &blank), right, "IP and UDP");
    assert_eq!(send(Chip::VT6105, 0x0c_0000, none, &blank), blank);
    let mut ip_only = blank.clone();
    ip_only[24..26].copy_from_slice(&right[24..26]);
    assert_eq!(send(Chip::VT6105M, 0x04_0000, none, &blank), ip_only);
    assert_eq!(send(Chip::VT6105M, 0x14_0000, none, &blank), ip_only, "TCP bit on UDP");
    let seeded = Faults { seeded_checksum: true, ..none };
    let mut seed = blank;
    seed[40..42].copy_from_slice(&0x141fu16.to_be_bytes());
    assert_eq!(send(Chip::VT6105M, 0x0c_0000, seeded, &seed), right);
    assert_eq!(send(Chip::VT6105M, 0x0c_0000, none, &seed), right, "a seed suits both readings");
}

#[test]
fn vlan_tags_are_inserted_with_queueing_enabled() {
    let mut bench = Bench::new(Chip::VT6105M);
    bench.tx_frame(&[&frame(PEER, 60)], 1 << 17, 5 << 12 | 0x123);
    bench.start();
    bench.w8(0x07, 0x21);
    demand(&mut bench);
    let sent = bench.sent().remove(0);
    assert_eq!(sent.len(), 64);
    assert_eq!(sent[12..18], [0x81, 0x00, 0xa1, 0x23, 0x88, 0xb5]);
}

#[test]
fn a_received_frame_lands_with_fcs_and_status() {
    for (chip, to, kind) in [
        (Chip::VT86C100A, [0xff; 6], 0x1000),
        (Chip::VT6102, MAC, 0x0800),
        (Chip::VT6105M, [1, 0, 0x5e, 0, 0, 1], 0x2000),
    ] {
        let mut bench = Bench::new(chip);
        bench.rx_ring(&[1536, 1536]);
        bench.start();
        let data = frame(to, 100);
        bench.wire(&data);
        assert_eq!(bench.ram.word(RX_RING), 104 << 16 | 0x8700 | kind);
        assert_eq!(bench.ram.word(RX_RING + 4), 1536, "the buffer size survives");
        assert_eq!(bench.ram.get(RX_BUFFERS, 104), [&data[..], &fcs(&data)].concat());
        assert_eq!(bench.ram.get(RX_BUFFERS + 104, 4), [0xa5; 4]);
        assert_eq!(bench.r16(0x0c), 0x0001);
        assert_eq!(bench.r32(0x18), RX_RING as u32 + 16);
    }
}

#[test]
fn samples_of_status_words_from_real_chips() {
    // 0x00409700: 64-byte broadcast; 0x05ee8f00: 1518-byte unicast; 0x00468f00: 70-byte unicast.
    let mut bench = Bench::new(Chip::VT86C100A);
    bench.rx_ring(&[1536, 1536, 1536]);
    bench.start();
    bench.wire(&frame([0xff; 6], 42));
    bench.wire(&frame(MAC, 1514));
    bench.wire(&frame(MAC, 66));
    let status: Vec<u32> = (0..3).map(|i| bench.ram.word(RX_RING + 16 * i)).collect();
    assert_eq!(status, [0x0040_9700, 0x05ee_8f00, 0x0046_8f00]);
}

#[test]
fn a_frame_too_long_for_a_buffer_spans_descriptors() {
    let mut bench = Bench::new(Chip::VT6105);
    bench.rx_ring(&[100, 100, 100, 100]);
    bench.start();
    let data = frame(MAC, 250);
    bench.wire(&data);
    let status: Vec<u32> = (0..4).map(|i| bench.ram.word(RX_RING + 16 * i)).collect();
    let base = 254 << 16 | 0x8c00;
    assert_eq!(status, [base | 0x200, base, base | 0x100, 1 << 31]);
    let landed = [
        bench.ram.get(RX_BUFFERS, 100),
        bench.ram.get(RX_BUFFERS + 2048, 100),
        bench.ram.get(RX_BUFFERS + 4096, 54),
    ]
    .concat();
    assert_eq!(landed, [&data[..], &fcs(&data)].concat());
    // Three are left in the ring's first half... one: not enough, so nothing is touched.
    bench.wire(&data);
    assert_eq!(bench.ram.word(RX_RING + 48), 1 << 31);
    assert_eq!(bench.r16(0x0c) & 0x1020, 0x1020);
}

#[test]
fn an_empty_ring_counts_and_goes_on_by_itself() {
    let mut bench = Bench::new(Chip::VT6102);
    bench.rx_ring(&[1536]);
    bench.start();
    (0..3).for_each(|_| bench.wire(&frame(MAC, 60)));
    assert_eq!(bench.r16(0x7c), 2);
    assert_eq!(bench.r8(0x08) & 0x08, 0x08, "receiver stays on");
    bench.ram.set(RX_RING, &(1u32 << 31).to_le_bytes());
    bench.wire(&frame(MAC, 60));
    assert_eq!(bench.rhine.counters().rx_frames, 2, "without a demand");
}

#[test]
fn wrong_frames_are_counted_and_delivered_only_on_request() {
    let mut bench = Bench::with(Chip::VT6105M, Faults { rx_crc: 1, ..Faults::default() });
    bench.rx_ring(&[1536, 1536]);
    bench.start();
    bench.w8(0x94, 0x90);
    bench.wire(&frame(MAC, 60));
    assert_eq!(bench.ram.word(RX_RING), 1 << 31);
    assert_eq!(bench.r16(0x7e), 1);
    bench.w8(0x06, 0x1f);
    bench.wire(&frame(MAC, 60));
    assert_eq!(bench.ram.word(RX_RING), 64 << 16 | 0x0f03);
    assert_eq!(bench.r16(0x0c), 0x0004);
    let mib: Vec<u16> = (0..12).map(|_| bench.r16(0x96)).collect();
    assert_eq!(mib[..4], [0, 2, 2, 0], "errors and FCS errors");
}

#[test]
fn checksums_are_reported_by_the_management_chip() {
    let run = |change: &dyn Fn(&mut Vec<u8>)| {
        let mut bench = Bench::new(Chip::VT6105M);
        bench.rx_ring(&[1536]);
        bench.start();
        let mut data = udp_frame();
        change(&mut data);
        bench.wire(&data);
        assert_eq!(bench.ram.word(RX_RING + 4) & 0xffff, 1536);
        (bench.ram.word(RX_RING + 4) >> 16, bench.ram.word(RX_RING) & 0x40)
    };
    // TAG 1, UDPKT 2, TCPKT 4, IPKT 8, TUOK 16, IPOK 32.
    assert_eq!(run(&|_| ()), (0x3a, 0));
    assert_eq!(run(&|f| f[44] ^= 1), (0x2a, 0), "payload damaged");
    assert_eq!(run(&|f| f[24] ^= 1), (0x1a, 0), "IP header damaged");
    assert_eq!(run(&|f| f[40..42].fill(0)), (0x2a, 0), "no UDP checksum: left to software");
    assert_eq!(run(&|f| f[50] = 9), (0x3a, 0), "padding does not count");
    assert_eq!(run(&|f| f[12] = 0x86), (0, 0), "not IPv4");
    let fragment = run(&|f| {
        f[20] = 0x20;
        f[24] = 0x46;
    });
    assert_eq!(fragment, (0x28, 0x40), "a fragment: header only");
}

#[test]
fn vlan_tags_are_stripped_and_stored_behind_the_fcs() {
    let mut bench = Bench::new(Chip::VT6105M);
    bench.rx_ring(&[1536]);
    bench.start();
    bench.w8(0x07, 0x21);
    let mut tagged = frame(MAC, 101);
    tagged.splice(12..12, [0x81, 0x00, 0xa1, 0x23]);
    bench.wire(&tagged);
    let status = bench.ram.word(RX_RING);
    assert_eq!(status >> 16, 105, "FCS counted, tag not");
    assert_eq!(bench.ram.word(RX_RING + 4), 0x0001_0000 | 1536);
    assert_eq!(bench.ram.get(RX_BUFFERS, 101), frame(MAC, 101));
    assert_eq!(bench.ram.get(RX_BUFFERS + 108, 4), [0x81, 0x00, 0xa1, 0x23]);
}

#[test]
fn the_vlan_filter_passes_untagged_frames_and_known_ids() {
    let mut bench = Bench::new(Chip::VT6105M);
    bench.rx_ring(&[1536; 8]);
    bench.start();
    // Entry 2 is VLAN 0x123, written as Linux does.
    bench.w8(0x92, 3);
    bench.w8(0x93, 2);
    bench.w16(0x16, 0x123);
    bench.w8(0x92, 5);
    bench.w8(0x92, 0);
    bench.w8(0x92, 3);
    bench.w32(0x88, 1 << 2);
    bench.w8(0x92, 0);
    bench.w8(0x6f, 0x80);
    assert_eq!(bench.r32(0x10), 0xffff_ffff, "the hash kept its value");
    for id in [0x123u16, 0x124] {
        let mut tagged = frame(MAC, 80);
        let [high, low] = id.to_be_bytes();
        tagged.splice(12..12, [0x81, 0x00, high, low]);
        bench.wire(&tagged);
    }
    bench.wire(&frame(MAC, 80));
    assert_eq!(bench.rhine.counters().rx_frames, 2);
    assert_eq!(bench.ram.word(RX_RING) & 0x4000, 0x4000, "VIDHIT");
}

#[test]
fn a_wedged_receiver_fills_the_ring_with_nonsense_and_stays_dead_until_reset() {
    let mut bench = Bench::with(Chip::VT8235, Faults { rx_wedge: 1, ..Faults::default() });
    bench.rx_ring(&[1536; 4]);
    bench.start();
    bench.wire(&frame(MAC, 60));
    let status: Vec<u32> = (0..4).map(|i| bench.ram.word(RX_RING + 16 * i)).collect();
    assert_eq!(status, [0x0400, 0x0600, 0x0581, 0x0400]);
    bench.rhine.faults_mut().rx_wedge = 0;
    bench.rx_ring(&[1536; 4]);
    bench.wire(&frame(MAC, 60));
    assert_eq!(bench.rhine.counters().rx_frames, 0);
    bench.w8(0x09, 0x80);
    bench.start();
    bench.wire(&frame(MAC, 60));
    assert_eq!(bench.rhine.counters().rx_frames, 1);
}

#[test]
fn internal_loopback_keeps_frames_off_the_wire() {
    let mut bench = Bench::new(Chip::VT6102);
    bench.rx_ring(&[1536]);
    bench.tx_frame(&[&frame(MAC, 60)], 0, 0);
    bench.start();
    bench.w8(0x07, 0x22);
    demand(&mut bench);
    assert!(bench.sent().is_empty());
    assert_eq!(bench.rhine.counters().rx_frames, 1);
}

#[test]
fn an_isolated_phy_passes_nothing() {
    let mut bench = Bench::with(Chip::VT6105, Faults { isolated_phy: true, ..Faults::default() });
    bench.rx_ring(&[1536]);
    bench.start();
    bench.wire(&frame(MAC, 60));
    assert_eq!(bench.rhine.counters().rx_frames, 0);
    let control = bench.mii(0);
    assert_eq!(control & 0x0400, 0x0400);
    bench.mii_write(0, control & !0x0400);
    bench.wire(&frame(MAC, 60));
    assert_eq!(bench.rhine.counters().rx_frames, 1);
}

#[test]
fn a_bus_error_hangs_the_chip_unless_it_may_report_it() {
    use trireme_vfio::Device;
    for report in [false, true] {
        let mut bench = Bench::new(Chip::VT6105M);
        if report {
            bench.rhine.config_written(0x52, 0x80);
        }
        bench.start();
        bench.w32(0x1c, 0xdead_0000);
        demand(&mut bench);
        assert_eq!(bench.r16(0x0c) & 0x0048, if report { 0x0048 } else { 0 });
        bench.tx_frame(&[&frame(PEER, 60)], 0, 0);
        bench.w32(0x1c, TX_RING as u32);
        bench.w8(0x08, 0x1a);
        demand(&mut bench);
        assert_eq!(bench.sent().len(), usize::from(report));
    }
}

#[test]
fn a_pause_frame_holds_the_transmitter_until_it_is_over() {
    let mut bench = Bench::new(Chip::VT6105);
    bench.start();
    bench.w8(0x99, 0x02);
    let mut pause = vec![0x01, 0x80, 0xc2, 0, 0, 1, 2, 0, 0, 0, 0, 9, 0x88, 0x08, 0, 1, 0, 200];
    pause.resize(60, 0);
    bench.wire(&pause);
    bench.tx_frame(&[&frame(PEER, 60)], 0, 0);
    demand(&mut bench);
    assert!(bench.sent().is_empty());
    bench.later(Duration::from_micros(1023));
    assert!(bench.sent().is_empty());
    bench.later(Duration::from_micros(2));
    assert_eq!(bench.sent().len(), 1);
}

#[test]
fn published_rates_come_out_of_the_registers_too() {
    // 50 frames back to back, MTU 1500 with and without a checksum bit, 1000 with.
    let rate = |len: usize, control: u32| {
        let mut bench = Bench::new(Chip::VT6105M);
        bench.start();
        for _ in 0..50 {
            bench.tx_frame(&[&frame(PEER, len)], control, 0);
            bench.w32(0x1c, TX_RING as u32);
            demand(&mut bench);
        }
        let counters = bench.rhine.counters();
        assert_eq!(counters.tx_frames, 50);
        50.0 * (len + 4) as f64 * 8000.0 / counters.line_ns as f64
    };
    assert!((rate(1514, 0) - 99.0).abs() < 0.7, "{}", rate(1514, 0));
    assert!((rate(1514, 0x04_0000) - 91.0).abs() < 0.7, "{}", rate(1514, 0x04_0000));
    assert!((rate(1014, 0x04_0000) - 98.0).abs() < 0.7, "{}", rate(1014, 0x04_0000));
}

//! Rings, operating modes and what descriptors become: `docs/hardware/ravb.md`, section 3.

mod bench;

use bench::*;

#[test]
fn a_frame_goes_out_whole_and_its_descriptors_come_back() {
    for variant in ALL {
        let mut bench = Bench::new(variant);
        bench.start();
        let data = frame(PEER, 301);
        let first = bench.tx(&[&data[..4], &data[4..200], &data[200..]]);
        bench.demand(0);
        assert_eq!(bench.sent(), [data]);
        // FEMPTY with DS kept: Linux accounts by it. (3.6)
        let words = [0, 8, 16].map(|i| bench.ram.word(first + i));
        assert_eq!(words, [0xc000_0004, 0xc000_00c4, 0xc000_0065]);
        assert_eq!(bench.r(0x304) & 0xf, 0, "TSRQ is over");
        assert_eq!(bench.r(0x37c) & 0xf, 1, "TIS.FTF0");
        assert_eq!(bench.r(0x00c), 4, "idle");
    }
}

#[test]
fn a_frame_is_stored_and_told() {
    for variant in ALL {
        let mut bench = Bench::new(variant);
        bench.start();
        bench.rx_ring(&[2046; 4]);
        bench.w(0x360, 1);
        let data = frame(MAC, 100);
        bench.wire(&data);
        let trailer = if variant == GbEth { 4 } else { 0 };
        assert_eq!(bench.rx_word(0), 0x7000_0064 + trailer, "FSINGLE, {variant:?}");
        assert_eq!(bench.rx_data(0)[..100], data);
        assert_eq!(bench.r(0x364), 1);
        assert_eq!(bench.r(0x380), 1, "ISS.FRS");
        assert!(bench.ravb.lines() != 0);
        bench.w(0x364, 0x0003_fffe);
        assert_eq!((bench.r(0x364), bench.r(0x380), bench.ravb.lines()), (0, 0, 0));
    }
}

fn kind(word: u32) -> u32 {
    word >> 28
}

#[test]
fn modes_are_answered_one_hot_and_in_order() {
    for variant in ALL {
        let mut bench = Bench::new(variant);
        bench.w(0x000, 2);
        assert_eq!(bench.r(0x00c), 1, "no way from RESET to OPERATION");
        bench.w(0x000, 0);
        bench.table();
        let mut modes = Vec::new();
        for opc in [1, 2, 1, 0] {
            bench.w(0x000, opc);
            modes.push(bench.r(0x00c));
        }
        assert_eq!(modes, [2, 4, 2, 1], "{variant:?}");
    }
    let mut bench = Bench::with(Gen3, "slow-mode=20");
    bench.w(0x000, 1);
    assert_eq!(bench.r(0x00c), 1);
    assert_eq!(bench.later(19), Some(std::time::Duration::from_millis(20)));
    bench.later(1);
    assert_eq!(bench.r(0x00c), 2);
}

/// (6.1, 4 and 5)
#[test]
fn operation_is_left_only_when_idle_or_suspended() {
    let mut bench = Bench::with(Gen3, "tx-late=5");
    bench.start();
    let first = bench.tx(&[&frame(PEER, 60)]);
    bench.demand(0);
    assert_eq!(bench.r(0x00c) >> 16, 1, "TPO0");
    assert_eq!(kind(bench.ram.word(first)), 7);
    bench.w(0x000, 0x0001_0081);
    bench.later(1);
    assert_eq!(bench.r(0x00c) & 0xf, 4);
    bench.later(5);
    assert_eq!((bench.r(0x00c), kind(bench.ram.word(first))), (2, 0xc));

    let mut bench = Bench::new(Gen3);
    bench.start();
    let ccc = bench.r(0x000);
    bench.w(0x000, ccc | 0x100);
    assert_eq!(bench.r(0x00c), 0x104, "DTS");
    assert!(bench.send(&frame(PEER, 60)).is_empty());
    bench.w(0x000, ccc);
    assert_eq!((bench.r(0x00c), bench.sent().len()), (4, 1));
    bench.w(0x000, ccc & !3);
    assert_eq!((bench.r(0x00c), bench.ravb.counters().violations), (1, 1), "RESET wants DTS");

    let mut bench = Bench::with(Gen3, "dts-never");
    bench.start();
    let ccc = bench.r(0x000);
    bench.w(0x000, ccc | 0x100);
    assert_eq!(bench.r(0x00c), 4);
}

/// (2.2), (6.1, 2)
#[test]
fn gac_changes_with_the_mode_or_not_at_all() {
    let mut bench = Bench::new(Gen3);
    bench.w(0x000, 1);
    bench.w(0x000, 0x81);
    assert_eq!(bench.r(0x000), 1);
    bench.w(0x000, 0);
    bench.w(0x000, 0x0001_0081);
    assert_eq!(bench.r(0x000), 0x0001_0081);
}

#[test]
fn the_table_is_loaded_on_operation_and_by_dlr() {
    for variant in ALL {
        let mut bench = Bench::new(variant);
        bench.start();
        assert_eq!(bench.r(0x008), 0, "all loaded");
        // CDAR is the entry's address until the queue starts; GbEth's receive entry is the fifth.
        assert_eq!([bench.r(0x010), bench.r(0x020)], [TABLE, TABLE + 32]);
        bench.rx_ring(&[2046; 2]);
        bench.wire(&frame(MAC, 60));
        let stride = bench.stride();
        assert_eq!(bench.r(0x020), RX_RING + stride);
        bench.w(0x008, 1 << 4);
        assert_eq!(bench.r(0x020), TABLE + 32);
        // EOS: the queue is off.
        bench.ram.put(TABLE + 32, &[0xa000_0000, 0]);
        bench.w(0x008, 1 << 4);
        bench.wire(&frame(MAC, 60));
        assert_eq!((bench.r(0x374), bench.ravb.counters().rx_missed), (1, 1));
    }
}

#[test]
fn links_are_followed_and_link_is_used_up() {
    let mut bench = Bench::new(Gen3);
    bench.start();
    let data = frame(PEER, 60);
    bench.ram.set(TX_BUFFERS, &data);
    bench.ram.put(TX_RING, &[0x8000_0000, TX_RING + 0x100]);
    bench.ram.put(TX_RING + 0x100, &[0x9000_0000, TX_RING + 0x200]);
    bench.ram.put(TX_RING + 0x200, &[0x7000_003c, TX_BUFFERS, 0xa000_0000, 0]);
    bench.demand(0);
    assert_eq!(bench.sent(), [data]);
    assert_eq!(bench.ram.word(TX_RING), 0x2000_0000, "LEMPTY");
    assert_eq!(bench.ram.word(TX_RING + 0x100), 0x9000_0000);
}

/// (6.1, 6 and 8)
#[test]
fn a_start_without_an_end_stops_the_queue_with_an_error() {
    for variant in ALL {
        let mut bench = Bench::new(variant);
        bench.start();
        bench.ram.put(TX_RING, &[0x5000_0004, TX_BUFFERS, 0x3000_0000, 0]);
        bench.demand(0);
        assert!(bench.sent().is_empty());
        assert_eq!(bench.r(0x35c), 1 << 2, "EIS.QEF");
        assert_eq!(bench.r(0x088), 2 << 8, "queue 0, interpretation");
        assert_eq!(bench.r(0x380), 0, "nobody enables it: ISS is empty");
        assert!(bench.send(&frame(PEER, 60)).is_empty(), "stalled");
        bench.ram.put(TX_RING, &[0x3000_0000, 0]);
        bench.w(0x008, 1);
        bench.ram.put(TX_RING, &[0x7000_003c, TX_BUFFERS, 0xa000_0000, 0]);
        bench.demand(0);
        assert_eq!(bench.sent().len(), 1, "loaded again");
    }
    let mut bench = Bench::new(Gen3);
    bench.start();
    bench.ram.put(TX_RING, &[0x7000_0000, TX_BUFFERS, 0x7000_003c, TX_BUFFERS, 0xa000_0000, 0]);
    bench.demand(0);
    assert!(bench.sent().is_empty(), "an empty descriptor ends DMA");
    assert_eq!((bench.r(0x304) & 1, bench.r(0x35c)), (0, 0));
}

/// (3.6)
#[test]
fn gen2_and_gbeth_drop_the_low_address_bits() {
    for (variant, aligned) in [(Gen2, true), (Gen3, false), (GbEth, true)] {
        let mut bench = Bench::new(variant);
        bench.start();
        let data = frame(PEER, 64);
        bench.ram.set(TX_BUFFERS, &[1, 2, 3]);
        bench.ram.set(TX_BUFFERS + 3, &data);
        bench.ram.put(TX_RING, &[0x7000_003c, TX_BUFFERS + 3, 0x3000_0000, 0]);
        bench.demand(0);
        let sent = bench.sent().remove(0);
        assert_eq!(sent == data[..60], !aligned);
        assert_eq!(bench.ravb.counters().tx_misaligned, u64::from(aligned));
    }
}

/// (6.3, 31 and 33)
#[test]
fn too_long_frames_hang_gbeth_and_are_an_error_on_rcar() {
    let mut bench = Bench::new(GbEth);
    bench.start();
    bench.rx_ring(&[2046; 4]);
    assert_eq!(bench.send(&frame(PEER, 1518)).len(), 1);
    let first = bench.tx(&[&frame(PEER, 1519)]);
    bench.demand(0);
    assert!(bench.sent().is_empty());
    bench.wire(&frame(MAC, 60));
    assert_eq!(kind(bench.rx_word(0)), 0xc, "nothing is received either");
    assert_eq!(kind(bench.ram.word(first)), 7);
    assert_eq!([bench.r(0x35c), bench.r(0x380)], [0, 0], "and no flag tells");
    assert_eq!(bench.r(0x304) & 1, 1);
    bench.w(0x000, 1);
    bench.later(100);
    assert_eq!(bench.r(0x00c) & 0xf, 4, "CONFIG is out of reach");
    bench.w(0x000, 0);
    assert_eq!(bench.r(0x00c), 1);
    let mut bench = Bench::with(GbEth, "tx-limit=2000");
    bench.start();
    assert_eq!(bench.send(&frame(PEER, 1800)).len(), 1);

    let mut bench = Bench::new(Gen3);
    bench.start();
    assert_eq!(bench.send(&frame(PEER, 2043)).len(), 1);
    assert!(bench.send(&frame(PEER, 2044)).is_empty());
    assert_eq!((bench.r(0x35c), bench.r(0x088) >> 8), (2, 9));
    assert_eq!(bench.send(&frame(PEER, 60)).len(), 1);
}

#[test]
fn short_frames_are_padded_unless_dpad_says_no() {
    let mut bench = Bench::new(Gen3);
    bench.start();
    let sent = bench.send(&frame(PEER, 20)).remove(0);
    assert_eq!((sent.len(), &sent[20..]), (60, &[0; 40][..]));
    let ecmr = bench.r(0x500);
    bench.w(0x500, ecmr | 1 << 21);
    assert!(bench.send(&frame(PEER, 20)).is_empty());
    assert_eq!(bench.ravb.counters().tx_runts, 1);
}

/// (3.6): 4000 bytes and the trailer of 4 over buffers of 1726.
#[test]
fn gbeth_chains_descriptors_and_the_trailer_may_straddle_two() {
    let mut bench = Bench::new(GbEth);
    bench.start();
    bench.rx_ring(&[1726; 8]);
    let data = frame(MAC, 4000);
    bench.wire(&data);
    let words = [0, 1, 2].map(|i| bench.rx_word(i));
    assert_eq!(words, [0x5000_06be, 0x4000_06be, 0x6000_0228]);
    let stored = [0, 1, 2].map(|i| bench.rx_data(i)).concat();
    assert_eq!(stored[..4000], data);
    bench.wire(&frame(MAC, 1724));
    assert_eq!([bench.rx_word(3), bench.rx_word(4)], [0x5000_06be, 0x6000_0002]);
    assert_eq!(bench.r(0x364), 1);
    // A chain that finds no room is lost whole.
    bench.wire(&frame(MAC, 8000));
    assert_eq!((bench.ravb.counters().rx_missed, kind(bench.rx_word(5))), (1, 0xc));
    bench.wire(&frame(MAC, 60));
    assert_eq!(bench.rx_word(5), 0x7000_0040, "and the next is stored where it was to begin");
}

/// (3.6): DS = 0 holds nothing, so the frame starts there and goes on behind. (6.2, 24)
#[test]
fn an_empty_buffer_is_passed_over_unwritten() {
    let mut bench = Bench::new(GbEth);
    bench.start();
    bench.rx_ring(&[0, 1726]);
    bench.wire(&frame(MAC, 60));
    assert_eq!([bench.rx_word(0), bench.rx_word(1)], [0x5000_0000, 0x6000_0040]);
    assert_eq!(bench.ram.get(RX_BUFFERS, 8), [0xa5; 8]);
}

#[test]
fn a_full_ring_is_looked_at_again_for_each_frame() {
    for variant in ALL {
        let mut bench = Bench::new(variant);
        bench.start();
        bench.rx_ring(&[2046; 2]);
        for _ in 0..3 {
            bench.wire(&frame(MAC, 60));
        }
        assert_eq!((bench.r(0x374), bench.ravb.counters().rx_missed), (1, 1));
        let word = bench.rx_word(0);
        bench.ram.put(RX_RING, &[word & 0x00ff_f000 | 0xc000_07fe]);
        bench.wire(&frame(MAC, 100));
        assert_eq!(
            bench.rx_word(0) & 0xf000_0fff,
            0x7000_0064 + if variant == GbEth { 4 } else { 0 }
        );
    }
}

/// (3.5): received error frames, and EFFS.
#[test]
fn bad_frames_are_stored_with_effs_and_dropped_without() {
    let mut bench = Bench::with(Gen3, "rx-crc=1");
    bench.start();
    bench.rx_ring(&[2046; 4]);
    bench.wire(&frame([0xff; 6], 60));
    assert_eq!(bench.rx_word(0), 0x7081_203c, "CRC, multicast, EI");
    let mut bench = Bench::with(GbEth, "rx-crc=1");
    bench.start();
    bench.rx_ring(&[2046; 4]);
    bench.wire(&frame(MAC, 60));
    assert_eq!((kind(bench.rx_word(0)), bench.r(0x740)), (0xc, 1));
}

/// (6.3, 29): RFLR counts the FCS.
#[test]
fn frames_above_rflr_are_too_long() {
    let mut bench = Bench::new(Gen3);
    bench.start();
    bench.rx_ring(&[2046; 4]);
    bench.w(0x508, 0x5f2);
    bench.wire(&frame(MAC, 1518));
    bench.wire(&frame(MAC, 1519));
    assert_eq!(bench.rx_word(0), 0x7000_05ee);
    assert_eq!(bench.rx_word(1), 0x7008_25ef, "RTLF, EI");
    assert_eq!(bench.r(0x758), 1);
}

#[test]
fn filters_take_what_prm_and_sbfs_say() {
    let mut bench = Bench::new(Gen3);
    bench.start();
    bench.rx_ring(&[2046; 8]);
    let other = [0x02, 1, 1, 1, 1, 1];
    let multicast = [0x01, 0, 0x5e, 0, 0, 9];
    for to in [MAC, other, multicast, [0xff; 6]] {
        bench.wire(&frame(to, 60));
    }
    assert_eq!((bench.ravb.counters().rx_frames, bench.r(0x778)), (3, 2));
    let ecmr = bench.r(0x500);
    bench.w(0x500, ecmr | 1);
    bench.wire(&frame(other, 60));
    assert_eq!(bench.ravb.counters().rx_frames, 4);
    let mut pause = frame([0x01, 0x80, 0xc2, 0, 0, 1], 60);
    pause[12..18].copy_from_slice(&[0x88, 0x08, 0, 1, 0, 9]);
    bench.wire(&pause);
    assert_eq!((bench.ravb.counters().rx_frames, bench.r(0x560)), (4, 1), "never PAUSE");
}

/// (3.5): queue 1 is always extended, and its own.
#[test]
fn network_control_has_a_queue_and_timestamps() {
    for variant in AVB {
        let mut bench = Bench::new(variant);
        bench.start();
        bench.rx_ring(&[2046; 4]);
        bench.ring(NC_RX_RING, 20, NC_BUFFERS, &[2046; 4]);
        let mut sync = frame([0x01, 0x1b, 0x19, 0, 0, 0], 60);
        sync[12..14].copy_from_slice(&[0x88, 0xf7]);
        bench.wire(&sync);
        assert_eq!(bench.ram.word(NC_RX_RING), 0x7080_003c);
        assert_eq!(bench.r(0x364), 2);
        assert_eq!(
            bench.ram.get(NC_RX_RING + 18, 2),
            [0xa5; 2],
            "behind the timestamp nothing is written"
        );
    }
}

/// (3.5): U-Boot leaves ETS0 off and has 8 bytes; its descriptors start as EEMPTY.
#[test]
fn without_ets0_the_first_queue_has_short_descriptors() {
    let mut bench = Bench::new(Gen3);
    bench.start_with(0x1800_0001);
    bench.ring(RX_RING, 8, RX_BUFFERS, &[1536; 2]);
    bench.ram.put(RX_RING, &[0x3000_0600]);
    bench.wire(&frame(MAC, 60));
    assert_eq!(bench.r(0x374), 1);
    bench.ram.put(RX_RING, &[0xc000_0600]);
    bench.wire(&frame(MAC, 60));
    bench.wire(&frame(MAC, 61));
    assert_eq!([bench.ram.word(RX_RING), bench.ram.word(RX_RING + 8)], [0x7000_003c, 0x7000_003d]);
}

#[test]
fn descriptor_interrupts_and_modes_without_write_back() {
    let mut bench = Bench::new(Gen3);
    bench.start();
    bench.ram.set(TX_BUFFERS, &frame(PEER, 60));
    bench.ram.put(TX_RING, &[0x7200_003c, TX_BUFFERS, 0xa000_0000, 0]);
    bench.demand(0);
    assert_eq!((bench.r(0x354), bench.r(0x37c)), (1 << 2, 1 << 16 | 1), "DPF2, TDPF0, FTF0");
    assert_eq!(bench.ram.word(TX_RING), 0xc200_003c, "DIE stays");
    bench.w(0x350, 1 << 2);
    assert_eq!(bench.r(0x380), 1 << 18, "DPS2");
    for (rsm, word) in [(1, 0xc000_003c), (2, 0xc000_07fe)] {
        let mut bench = Bench::new(Gen3);
        bench.w(0x000, 1);
        bench.w(0x094, rsm);
        bench.start();
        bench.rx_ring(&[2046; 2]);
        bench.wire(&frame(MAC, 60));
        assert_eq!(bench.rx_word(0), word, "RSM {rsm}");
    }
}

#[test]
fn unread_frames_are_counted_and_stop_a_queue() {
    let mut bench = Bench::new(Gen3);
    bench.w(0x000, 1);
    bench.w(0x0bc, 1);
    bench.w(0x0c0, 2);
    bench.start();
    bench.rx_ring(&[2046; 8]);
    for wanted in [[1, 1, 0], [2, 1, 0], [2, 1, 1]] {
        bench.wire(&frame(MAC, 60));
        assert_eq!([bench.r(0x0c4), bench.r(0x36c), bench.r(0x374)], wanted);
    }
    bench.w(0x0e0, 2);
    assert_eq!(bench.r(0x0c4), 0);
    bench.wire(&frame(MAC, 60));
    assert_eq!(bench.ravb.counters().rx_frames, 3);
}

#[test]
fn pause_holds_frames_back_for_its_quanta() {
    let mut bench = Bench::new(Gen3);
    bench.start();
    let ecmr = bench.r(0x500);
    bench.w(0x500, ecmr | 1 << 17);
    let mut pause = frame([0x01, 0x80, 0xc2, 0, 0, 1], 60);
    // 0xffff of 512 bit times at 1 Gbit/s: 33.55 ms.
    pause[12..18].copy_from_slice(&[0x88, 0x08, 0, 1, 0xff, 0xff]);
    bench.wire(&pause);
    assert!(bench.send(&frame(PEER, 60)).is_empty());
    bench.later(33);
    assert!(bench.sent().is_empty());
    bench.later(1);
    assert_eq!(bench.sent().len(), 1);
}

#[test]
fn loopback_returns_frames_and_closes_the_cable_off() {
    let mut bench = Bench::new(Gen3);
    bench.start();
    bench.rx_ring(&[2046; 4]);
    let ccc = bench.r(0x000);
    bench.w(0x000, ccc | 1 << 24);
    assert!(bench.send(&frame(MAC, 70)).is_empty());
    bench.wire(&frame(MAC, 80));
    assert_eq!(bench.rx_word(0), 0x7000_0046);
    assert_eq!(bench.ravb.counters().rx_frames, 1);
}

/// (3.6): faults of section 9's list, as descriptors show them.
#[test]
fn injected_faults_look_as_they_should() {
    let word = |fault: &str, len: usize, sizes: &[u32]| {
        let mut bench = Bench::with(GbEth, fault);
        bench.start();
        bench.rx_ring(sizes);
        bench.wire(&frame(MAC, len));
        bench.rx_word(0)
    };
    assert_eq!(word("rx-cut-chain=1", 2000, &[1000; 4]), 0x5000_03e8);
    assert_eq!(word("rx-truncated=1", 2000, &[2046; 4]), 0x7000_1044);
    assert_eq!(word("rx-zero-length=1", 60, &[2046; 4]), 0x7000_0000);
    assert!(word("rx-bad-length=1", 60, &[100; 4]) & 0xfff > 100);
    assert_eq!(word("rx-queue-full=1", 60, &[2046; 4]), 0xc000_07fe);
    assert_eq!(word("rx-overflow=1", 60, &[2046; 4]), 0xc000_07fe);
    let mut bench = Bench::with(GbEth, "rx-no-interrupt=1,tx-no-interrupt=1");
    bench.start();
    bench.rx_ring(&[2046; 4]);
    bench.wire(&frame(MAC, 60));
    bench.send(&frame(PEER, 60));
    assert_eq!((kind(bench.rx_word(0)), bench.r(0x364), bench.r(0x37c)), (7, 0, 0));
}

#[test]
fn a_bus_that_does_not_answer_is_a_queue_error() {
    let mut bench = Bench::new(Gen3);
    bench.start();
    bench.ram.put(TX_RING, &[0x7000_003c, 0x1000, 0x3000_0000, 0]);
    bench.demand(0);
    assert_eq!((bench.r(0x35c), bench.r(0x088)), (4, 4 << 8), "reading data");
    bench.ring(RX_RING, 20, 0x1000, &[2046; 2]);
    bench.wire(&frame(MAC, 60));
    assert_eq!(bench.r(0x088), 4 << 8 | 1 << 12, "the second is lost");
    assert_eq!(bench.ravb.counters().dma_errors, 2);
}

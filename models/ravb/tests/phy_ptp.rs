//! MDIO, the PHY and the gPTP timer: `docs/hardware/ravb.md`, 2.6, 3.8 and 4.

mod bench;

use bench::*;
use std::time::Duration;

/// Clocks one bit out as Linux does, or in if `None`, looking after the falling edge.
fn linux_bit(bench: &mut Bench, bit: Option<bool>) -> bool {
    let pins = bit.map_or(0, |bit| 2 | if bit { 4 } else { 0 });
    for mdc in [0, 1, 0] {
        bench.w(0x520, pins | mdc);
    }
    bench.r(0x520) & 8 != 0
}

/// The same as U-Boot does: looking while MDC is high.
fn uboot_bit(bench: &mut Bench, bit: Option<bool>) -> bool {
    let pins = bit.map_or(0, |bit| 2 | if bit { 4 } else { 0 });
    bench.w(0x520, pins);
    bench.w(0x520, pins | 1);
    let seen = bench.r(0x520) & 8 != 0;
    bench.w(0x520, pins);
    seen
}

type Clock = fn(&mut Bench, Option<bool>) -> bool;

/// Clocks bits out, the highest first.
fn out(bench: &mut Bench, clock: Clock, bits: u32, count: u32) {
    for i in (0..count).rev() {
        clock(bench, Some(bits >> i & 1 != 0));
    }
}

fn mdio(bench: &mut Bench, clock: Clock, phy: u32, register: u32, value: Option<u16>) -> u16 {
    let operation = if value.is_some() { 0b01 } else { 0b10 };
    out(bench, clock, u32::MAX, 32);
    out(bench, clock, 0b01 << 12 | operation << 10 | phy << 5 | register, 14);
    if let Some(value) = value {
        out(bench, clock, 0b10, 2);
        out(bench, clock, value.into(), 16);
        clock(bench, None);
        return 0;
    }
    if clock(bench, None) {
        for _ in 0..32 {
            clock(bench, None);
        }
        return 0xffff;
    }
    let value = (0..16).fold(0, |value, _| value << 1 | u16::from(clock(bench, None)));
    clock(bench, None);
    value
}

#[test]
fn both_ways_of_moving_bits_reach_the_phy() {
    for (variant, id) in [(Gen2, 0x1622), (Gen3, 0x1622), (GbEth, 0x1640)] {
        for clock in [linux_bit as Clock, uboot_bit] {
            let mut bench = Bench::new(variant);
            bench.w(0x000, 1);
            let read = |bench: &mut Bench, register| mdio(bench, clock, 0, register, None);
            assert_eq!([read(&mut bench, 2), read(&mut bench, 3)], [0x0022, id]);
            assert_eq!(mdio(&mut bench, clock, 1, 2, None), 0xffff, "nobody there");
            assert_eq!(read(&mut bench, 1), 0x796d);
            mdio(&mut bench, clock, 0, 4, Some(0x0de1));
            assert_eq!(read(&mut bench, 4), 0x0de1);
            // MMD 2, register 8: the clock pads.
            for (register, value) in [(13, 2), (14, 8), (13, 0x4002), (14, 0x3ff)] {
                mdio(&mut bench, clock, 0, register, Some(value));
            }
            assert_eq!(read(&mut bench, 14), 0x3ff);
            mdio(&mut bench, clock, 0, 0, Some(0x9340));
            assert_eq!(read(&mut bench, 0) >> 15, 0, "reset is over");
        }
    }
}

#[test]
fn mdio_sleeps_in_reset_mode() {
    let mut bench = Bench::new(Gen3);
    assert_eq!(mdio(&mut bench, linux_bit, 0, 2, None), 0xffff);
}

#[test]
fn a_lost_link_is_latched_and_negotiation_picks_the_best_common() {
    let mut bench = Bench::new(Gen3);
    bench.w(0x000, 1);
    let read = |bench: &mut Bench, register| mdio(bench, linux_bit, 0, register, None);
    bench.ravb.set_cable(false);
    assert_eq!(read(&mut bench, 1), 0x7949);
    bench.ravb.set_cable(true);
    assert_eq!([read(&mut bench, 1), read(&mut bench, 10)], [0x796d, 0x7c00]);
    // No 1000 Mbit/s offered: GECMR = 1000 no longer fits.
    mdio(&mut bench, linux_bit, 0, 9, Some(0));
    mdio(&mut bench, linux_bit, 0, 0, Some(0x1340));
    assert_eq!([read(&mut bench, 1), read(&mut bench, 1)], [0x7969, 0x796d]);
    bench.start();
    assert!(bench.send(&frame(PEER, 60)).is_empty());
    bench.w(0x5b0, 0);
    assert_eq!(bench.send(&frame(PEER, 60)).len(), 1);
}

fn load(bench: &mut Bench, bits: u32) {
    let value = bench.r(0x390);
    bench.w(0x390, value | bits);
    assert_eq!(bench.r(0x390) & bits, 0);
}

/// Seconds and nanoseconds by a capture of corrected time.
fn time(bench: &mut Bench) -> (u32, u32) {
    bench.w(0x390, 0x103);
    assert_eq!(bench.r(0x390) & 3, 0);
    (bench.r(0x3bc), bench.r(0x3b8))
}

/// 2^20 times the nanoseconds of a clock of 133.33 MHz. (3.2)
const TIV: u32 = 0x78_0000;

#[test]
fn the_timer_counts_is_set_and_trimmed() {
    for variant in AVB {
        let mut bench = Bench::new(variant);
        assert_eq!(bench.r(0x390), 0x2c, "loads wait for the clock");
        bench.start();
        assert_eq!(bench.r(0x390), 0);
        bench.w(0x39c, TIV);
        load(&mut bench, 1 << 3);
        load(&mut bench, 1);
        bench.w(0x3a0, 500);
        bench.w(0x3a4, 1000);
        load(&mut bench, 1 << 2);
        bench.now += Duration::from_secs(2);
        // 1000 s and 500 ns, and 266,666,666 clocks of 7.5 ns.
        assert_eq!(time(&mut bench), (1002, 495));
        bench.w(0x39c, 2 * TIV);
        load(&mut bench, 1 << 3);
        bench.now += Duration::from_secs(1);
        // 133,333,333 of 15 ns more.
        assert_eq!(time(&mut bench), (1004, 490));
    }
}

#[test]
fn gccr_is_slow_if_told_to_be() {
    let mut bench = Bench::with(Gen3, "slow-ptp=2");
    bench.start();
    bench.w(0x39c, TIV);
    bench.w(0x390, 1 << 3);
    bench.w(0x39c, TIV + 1);
    assert_eq!(bench.ravb.counters().violations, 1, "GTI before LTI is 0 (6.6, 50)");
    let reads = [0; 4].map(|_| bench.r(0x390));
    assert_eq!(reads, [8, 8, 0, 0]);
}

#[test]
fn sent_frames_leave_their_time_in_a_fifo_of_seven() {
    let mut bench = Bench::new(Gen3);
    bench.start();
    bench.w(0x39c, TIV);
    load(&mut bench, 1 << 3);
    bench.now += Duration::from_secs(1);
    bench.ram.set(TX_BUFFERS, &frame(PEER, 60));
    for tag in 0..8u32 {
        // TSR, and the tag's bits 3:0 and 9:4.
        let word = 0x7040_003c | (tag & 15) << 12 | (tag + 0x3f0) << 12 & 0x003f_0000;
        bench.ram.put(NC_TX_RING + 8 * tag, &[word, TX_BUFFERS, 0xa000_0000, 0]);
    }
    bench.demand(1);
    assert_eq!(bench.sent().len(), 8);
    assert_eq!(bench.r(0x37c), 1 << 8 | 1 << 1, "TFUF, FTF1");
    assert_eq!(bench.r(0x35c), 1 << 8, "TFFF: the oldest is lost");
    assert_eq!(bench.r(0x308) >> 8, 7);
    for tag in 1..8 {
        let [nanoseconds, seconds, last] = [0x310, 0x314, 0x318].map(|at| bench.r(at));
        assert_eq!((seconds, nanoseconds / 1000, last), (0, 999_999, (0x3f0 + tag) << 16));
        let tccr = bench.r(0x304);
        bench.w(0x304, tccr | 1 << 9);
    }
    assert_eq!((bench.r(0x308), bench.r(0x318)), (0, 0));
}

#[test]
fn compare_and_capture_raise_their_flags() {
    let mut bench = Bench::new(Gen3);
    bench.start();
    bench.w(0x39c, TIV);
    load(&mut bench, 1 << 3);
    load(&mut bench, 1);
    bench.w(0x398, 3_000_000);
    load(&mut bench, 1 << 4);
    let at = bench.later(0).unwrap();
    assert!(at > Duration::from_millis(3) && at < Duration::from_micros(3010), "{at:?}");
    bench.later(2);
    assert_eq!(bench.r(0x3b0), 0);
    bench.later(2);
    assert_eq!(bench.r(0x3b0), 1 << 2, "PTMF");
    bench.w(0x3cc, 1 << 2);
    assert_eq!(bench.r(0x380), 1 << 13, "CGIS");
    bench.w(0x3b0, 0);
    assert_eq!(bench.r(0x380), 0);
    bench.ravb.capture(bench.now);
    bench.ravb.capture(bench.now);
    assert_eq!(bench.r(0x3b0), 3, "PTCF, PTOF");
    let captured = bench.r(0x3b4);
    assert!((3_999_000..4_000_000).contains(&captured), "{captured}");
}

//! The card's clock, and the times of frames: `docs/hardware/ravb.md`, 2.6, 3.6 to 3.8.

mod rig;

use rig::{AVB, MAC, PEER, Rig, frame, ptp_frame, request};
use std::time::Duration;
use trireme_nic::{Nic, PtpError, PtpTime, TransmitRequest};
use trireme_ravb::Variant;

/// A clock of 7.5 ns at 133,333,333 Hz loses 2.5 ns a second. [RV 3.2 A 20]
const TICK_NS: u32 = 8;

fn now(rig: &mut Rig) -> PtpTime {
    rig.driver.ptp().unwrap().now().unwrap()
}

fn set(rig: &mut Rig, seconds: u64, nanoseconds: u32) {
    rig.driver.ptp().unwrap().set(PtpTime { seconds, nanoseconds }).unwrap();
}

fn total_ns(time: PtpTime) -> i128 {
    i128::from(time.seconds) * 1_000_000_000 + i128::from(time.nanoseconds)
}

/// Times of leaving, as the stack asks for them.
fn left(rig: &mut Rig) -> Vec<(u32, PtpTime)> {
    std::iter::from_fn(|| rig.driver.ptp()?.sent_at()).collect()
}

#[test]
fn only_cards_with_a_clock_have_one() {
    let mut rig = Rig::new(Variant::Gbeth);
    assert!(rig.driver.ptp().is_none());
    for variant in AVB {
        assert!(Rig::new(variant).driver.ptp().is_some());
    }
}

#[test]
fn the_clock_is_set_and_carries_into_seconds() {
    for variant in AVB {
        let mut rig = Rig::new(variant);
        for seconds in [0, 1, 1999, 0xffff_fffe, 0xffff_ffff, 0x1_0000_0000, (1 << 48) - 2] {
            set(&mut rig, seconds, 999_999_000);
            let at = now(&mut rig);
            assert_eq!(at.seconds, seconds, "{variant:?}");
            assert!((999_999_000..999_999_100).contains(&at.nanoseconds), "{at:?}");
            rig.later(Duration::from_micros(2));
            let at = now(&mut rig);
            assert_eq!(at.seconds, seconds + 1, "{variant:?} carried");
            assert!((990..1100).contains(&at.nanoseconds), "{at:?}");
        }
        // 48 bits of seconds, and then from the beginning.
        set(&mut rig, (1 << 48) - 1, 999_999_999);
        rig.later(Duration::from_micros(1));
        assert_eq!(now(&mut rig).seconds, 0, "{variant:?}");
    }
}

#[test]
fn the_clock_runs_as_fast_as_it_is_told() {
    for variant in AVB {
        let mut rig = Rig::new(variant);
        for ppb in [0, 1_000, -1_000, 100_000, -100_000, 50_000_000, -50_000_000, 0] {
            rig.driver.ptp().unwrap().adjust(ppb).unwrap();
            let before = now(&mut rig);
            rig.later(Duration::from_secs(10));
            let took = total_ns(now(&mut rig)) - total_ns(before);
            let wanted = 10_000_000_000 + i128::from(ppb) * 10;
            // A step of GTI is 1 / 0x780000: 127 parts in a thousand million.
            assert!((wanted - took).abs() <= 1_300 + 50, "{variant:?} {ppb}: {took}");
        }
    }
}

#[test]
fn times_and_rates_out_of_range_are_refused_and_change_nothing() {
    for variant in AVB {
        let mut rig = Rig::new(variant);
        set(&mut rig, 1000, 0);
        rig.driver.ptp().unwrap().adjust(1_000_000).unwrap();
        rig.take_writes();
        let ptp = rig.driver.ptp().unwrap();
        let refused = Err(PtpError::OutOfRange);
        assert_eq!(ptp.set(PtpTime { seconds: 1 << 48, nanoseconds: 0 }), refused);
        assert_eq!(ptp.set(PtpTime { seconds: 0, nanoseconds: 1_000_000_000 }), refused);
        for ppb in [50_000_001, -50_000_001, i32::MAX, i32::MIN] {
            assert_eq!(ptp.adjust(ppb), refused);
        }
        assert!(rig.take_writes().is_empty());
        assert_eq!(now(&mut rig).seconds, 1000);
    }
}

#[test]
fn a_clock_that_is_slow_to_answer_is_waited_for_and_a_dead_one_given_up() {
    for variant in AVB {
        let mut rig = Rig::with(variant, "slow-ptp=50".parse().unwrap());
        set(&mut rig, 77, 5);
        let at = now(&mut rig);
        assert_eq!(at.seconds, 77, "{variant:?}");
        assert_eq!(rig.seen().violations, 0);
        rig.faults(|f| f.slow_ptp = u32::MAX);
        let before = rig.now_us();
        let ptp = rig.driver.ptp().unwrap();
        assert_eq!(ptp.now(), Err(PtpError::Timeout));
        assert_eq!(ptp.set(PtpTime::default()), Err(PtpError::Timeout));
        assert!(rig.now_us() - before <= 30_000);
    }
}

/// Every number comes back with the time its frame left, over several rounds of the ten bits of the tag.
#[test]
fn times_of_leaving_are_those_of_their_frames() {
    for variant in AVB {
        let mut rig = Rig::new(variant);
        let mut numbers = std::collections::BTreeSet::new();
        for round in 0..2500u32 {
            rig.later(Duration::from_micros(u64::from(round % 37) + 1));
            let number = rig.send_timed(&ptp_frame(PEER, 60 + round as usize % 100));
            let at = now(&mut rig);
            // Others without a time in between.
            rig.send(&frame(PEER, 80));
            if round % 3 == 0 {
                rig.serve();
            }
            let got = left(&mut rig);
            assert_eq!(got, [(number, at)], "{variant:?} {round}");
            numbers.insert(number);
            if round % 16 == 0 {
                rig.serve();
                rig.sent();
            }
        }
        assert_eq!(numbers.len(), 1024);
        assert_eq!(rig.counter("tx_timestamps"), 2500);
        assert_eq!([rig.counter("tx_timestamps_lost"), rig.counter("tx_timestamps_odd")], [0, 0]);
    }
}

/// More frames than the FIFO has entries, seven, and nobody looks: the oldest times are lost, and the others are
/// still those of their frames. [RV 3.6]
#[test]
fn a_fifo_that_overflows_loses_the_oldest_and_mixes_nothing_up() {
    for variant in AVB {
        let mut rig = Rig::new(variant);
        for round in 1..=10 {
            let sent: Vec<(u32, PtpTime)> = (0..12)
                .map(|n| {
                    rig.later(Duration::from_micros(100));
                    let number = rig.send_timed(&ptp_frame(PEER, 60 + n));
                    (number, now(&mut rig))
                })
                .collect();
            rig.serve();
            assert_eq!(left(&mut rig), sent[5..], "{variant:?}");
            assert_eq!(rig.counter("tx_timestamps_lost"), 5 * round);
            assert!(!rig.interrupt());
        }
        rig.works();
    }
}

#[test]
fn times_the_card_drops_are_counted_and_the_others_right() {
    for variant in AVB {
        let mut rig = Rig::with(variant, "timestamp-overflow=3".parse().unwrap());
        let mut got = 0;
        for n in 0..300 {
            rig.later(Duration::from_micros(50));
            let number = rig.send_timed(&ptp_frame(PEER, 60 + n % 50));
            let at = now(&mut rig);
            rig.serve();
            let times = left(&mut rig);
            assert!(times.is_empty() || times == [(number, at)], "{variant:?} {n}");
            got += times.len() as u64;
        }
        rig.heal();
        rig.send_timed(&ptp_frame(PEER, 60));
        rig.serve();
        got += left(&mut rig).len() as u64;
        assert!((150..250).contains(&got), "{got}");
        assert_eq!(rig.counter("tx_timestamps"), got);
        assert_eq!(rig.counter("tx_timestamps_lost"), 301 - got);
        assert_eq!(rig.counter("resets"), 0);
    }
}

/// Nobody fetches times for long: the newest are kept, memory is bounded.
#[test]
fn times_nobody_asks_for_make_room_for_newer_ones() {
    for variant in AVB {
        let mut rig = Rig::new(variant);
        let mut numbers = Vec::new();
        for _ in 0..500 {
            numbers.push(rig.send_timed(&ptp_frame(PEER, 60)));
            rig.serve();
        }
        let got: Vec<u32> = left(&mut rig).into_iter().map(|(number, _)| number).collect();
        assert_eq!(got, numbers[numbers.len() - 32..], "{variant:?}");
        assert_eq!(rig.counter("tx_timestamps_lost"), 500 - 32);
    }
}

/// A restart resets the clock, and frames that had not left get their times from it all the same.
#[test]
fn frames_sent_after_a_restart_have_their_times() {
    for variant in AVB {
        let mut rig = Rig::new(variant);
        rig.driver.ptp().unwrap().adjust(40_000_000).unwrap();
        rig.faults(|f| f.tx_queue_error = 1);
        let numbers: Vec<u32> = (0..5).map(|n| rig.send_timed(&ptp_frame(PEER, 60 + n))).collect();
        rig.heal();
        rig.serve();
        assert_eq!(rig.counter("resets"), 1);
        let got = left(&mut rig);
        assert_eq!(got.iter().map(|(number, _)| *number).collect::<Vec<_>>(), numbers);
        let at = now(&mut rig);
        assert!(got.iter().all(|(_, time)| *time <= at), "{variant:?}");
        // The rate is kept.
        rig.later(Duration::from_secs(1));
        let took = total_ns(now(&mut rig)) - total_ns(at);
        assert!((1_039_999_000..1_040_001_000).contains(&took), "{took}");
        rig.works();
    }
}

/// A frame of the queue for network control that came over no descriptor of its own has a time too, and one of
/// a ring that went round.
#[test]
fn times_of_arrival_go_with_the_frames_through_both_rings() {
    for variant in AVB {
        let mut rig = Rig::new(variant);
        for n in 0..300u64 {
            rig.later(Duration::from_micros(n % 7 + 1));
            let data = if n % 2 == 0 { ptp_frame(MAC, 64) } else { frame(MAC, 64) };
            rig.wire(&data);
            let arrived = now(&mut rig);
            rig.later(Duration::from_millis(1));
            rig.driver.service(rig.now_us());
            let received = rig.driver.receive().unwrap();
            let time = rig.driver.ptp().unwrap().received_at(&received).unwrap();
            let apart = total_ns(arrived) - total_ns(time);
            assert!((0..i128::from(TICK_NS)).contains(&apart), "{variant:?} {n}: {apart}");
            rig.driver.recycle(received);
        }
    }
}

/// The card invents times: of frames it was not asked about, more than there are frames, and times that are none.
#[test]
fn invented_times_are_not_believed() {
    for variant in AVB {
        let mut rig = Rig::new(variant);
        // A frame in the other queue that asks for a time by itself, tag 0x155, put there behind the driver's back.
        let data = frame(PEER, 60);
        assert!(rig.queue(&data, &TransmitRequest { ..request(&rig.driver, &data) }));
        let descriptor = rig.entry(0).1;
        let word = rig.word(descriptor) | 1 << 22 | 0x155 << 12;
        rig.poke(descriptor, &word.to_le_bytes());
        rig.driver.flush();
        rig.serve();
        assert!(left(&mut rig).is_empty(), "{variant:?}");
        assert_eq!(rig.counter("tx_timestamps_odd"), 1);
        // No nanoseconds of a second.
        rig.driver.service(rig.now_us());
        rig.wire(&ptp_frame(MAC, 64));
        let at = rig.entry(5).1;
        rig.poke(at + 8, &1_000_000_000u32.to_le_bytes());
        rig.driver.service(rig.now_us());
        let received = rig.driver.receive().unwrap();
        assert_eq!(rig.driver.ptp().unwrap().received_at(&received), None);
        rig.driver.recycle(received);
    }
}

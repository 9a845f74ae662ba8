//! The end of a card, and the start of one that was left in some state.

mod rig;

use rig::{M, MAC, PEER, Rig, chips, frame, try_rig_on};
use trireme_nic::{Nic, Registers, Stop};
use trireme_rhine_model::Chip as ModelChip;

/// The next driver on the same card.
fn next(rig: Rig) -> Rig {
    let card = rig.card.clone();
    // It is not dropped: a machine that starts anew drops nothing.
    std::mem::forget(rig.driver);
    let mut rig = try_rig_on(card).unwrap_or_else(|error| panic!("{error}"));
    rig.serve();
    rig.sent();
    rig
}

fn works(rig: &mut Rig) {
    let data = frame(PEER, 100);
    rig.send(&data);
    assert_eq!(rig.sent(), [data]);
    rig.wire(&frame(MAC, 100));
    assert_eq!(rig.serve().len(), 1);
}

fn magic() -> Vec<u8> {
    let mut frame = frame(MAC, 14);
    frame.extend([0xff; 6]);
    (0..16).for_each(|_| frame.extend(MAC));
    frame
}

#[test]
fn after_a_stop_nothing_comes_from_the_card_and_the_next_driver_finds_it_well() {
    for chip in chips() {
        for why in [Stop::Reboot, Stop::PowerOff] {
            let mut rig = Rig::new(chip);
            works(&mut rig);
            rig.wire(&frame(MAC, 60));
            rig.driver.stop(why);
            assert!(!rig.interrupt(), "{chip:?}");
            rig.wire(&frame(MAC, 60));
            assert!(!rig.interrupt());
            // Called all the same, it lets the card lie.
            let before = rig.card.lock().unwrap().accesses;
            rig.driver.service(10_000_000);
            assert!(rig.driver.receive().is_none() && !rig.driver.arm());
            assert!(rig.driver.service_at().is_some_and(|at| at > u64::MAX / 4));
            assert_eq!(rig.card.lock().unwrap().accesses, before);
            let mut rig = next(rig);
            assert_eq!(rig.driver.mac_address(), MAC);
            works(&mut rig);
        }
    }
}

#[test]
fn a_card_that_is_to_wake_its_machine_sleeps_with_an_eye_open() {
    for chip in chips() {
        let mut rig = Rig::new(chip);
        let can = chip != ModelChip::VT86C100A;
        assert_eq!(rig.driver.wake_on_lan(), can.then_some(false), "off unless asked for");
        assert_eq!(rig.driver.set_wake_on_lan(true), can);
        assert_eq!(rig.driver.wake_on_lan(), can.then_some(true));
        if !can {
            continue;
        }
        rig.driver.stop(Stop::PowerOff);
        let bar = rig::Bar(rig.card.clone());
        // STICKHW: asleep and armed; WOLCR: magic; PWCFG: on; CFGA: magic while the power is off.
        assert_eq!(bar.read8(0x83) & 0x07, 0x07, "{chip:?}");
        assert_eq!((bar.read8(0xa0), bar.read8(0xa1) & 1), (0x20, 0x01));
        assert_eq!(bar.read8(0x78) & 3, 3);
        assert!(std::mem::take(&mut rig.card.lock().unwrap().in_d3));
        rig.wire(&frame(MAC, 200));
        assert_eq!(bar.read8(0xa8), 0, "an ordinary frame lets it sleep");
        rig.wire(&magic());
        assert_eq!(bar.read8(0xa8), 0x20, "{chip:?}");
        let mut rig = next(rig);
        let bar = rig::Bar(rig.card.clone());
        assert_eq!((bar.read8(0x83) & 3, bar.read8(0xa0), bar.read8(0xa8)), (0, 0, 0));
        assert_eq!(bar.read8(0x78) & 3, 0);
        assert_eq!(rig.driver.mac_address(), MAC);
        works(&mut rig);
    }
}

#[test]
fn a_reboot_and_a_change_of_mind_leave_the_card_awake() {
    let mut rig = Rig::new(M);
    rig.driver.set_wake_on_lan(true);
    rig.driver.stop(Stop::Reboot);
    assert_eq!(rig::Bar(rig.card.clone()).read8(0x83) & 3, 0);
    let mut rig = next(rig);
    rig.driver.set_wake_on_lan(true);
    rig.driver.set_wake_on_lan(false);
    rig.driver.stop(Stop::PowerOff);
    let bar = rig::Bar(rig.card.clone());
    assert_eq!((bar.read8(0x83) & 3, bar.read8(0xa0)), (0, 0));
    assert!(!rig.card.lock().unwrap().in_d3);
}

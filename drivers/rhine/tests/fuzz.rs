//! The driver against a card that misbehaves in every way at once: nothing panics or hangs, every
//! buffer comes home, and frames that get through are right or are said to be unverified.

mod rig;

use proptest::prelude::*;
use rig::{MAC, PEER, Rig, chips, frame, request};
use std::time::Duration;
use trireme_nic::{Feature, Nic, ReceiveFilter, Registers, Tci};
use trireme_rhine_model::Faults;

#[derive(Clone, Debug)]
enum Action {
    Send(usize),
    SendTagged(usize, u16),
    WireTagged(usize, u16),
    Vlans(Vec<u16>),
    Switch(u8, bool),
    Wire(usize, bool),
    Serve,
    Later(u32),
    Cable(bool),
    Filter(u8),
    /// The card's registers change under the driver: a write nobody made.
    Register(u8, u8),
    Healthy(bool),
}

fn action() -> impl Strategy<Value = Action> {
    prop_oneof![
        5 => (14usize..1519).prop_map(Action::Send),
        3 => (14usize..1515, any::<u16>()).prop_map(|(len, tag)| Action::SendTagged(len, tag)),
        3 => (60usize..1600, any::<u16>()).prop_map(|(len, tag)| Action::WireTagged(len, tag)),
        1 => proptest::collection::vec(0u16..8, 0..40).prop_map(Action::Vlans),
        1 => (any::<u8>(), any::<bool>()).prop_map(|(which, on)| Action::Switch(which, on)),
        5 => (60usize..1600, any::<bool>()).prop_map(|(len, ours)| Action::Wire(len, ours)),
        4 => Just(Action::Serve),
        2 => (0u32..3_000_000).prop_map(Action::Later),
        1 => any::<bool>().prop_map(Action::Cable),
        1 => any::<u8>().prop_map(Action::Filter),
        1 => (any::<u8>(), any::<u8>()).prop_map(|(at, value)| Action::Register(at, value)),
        1 => any::<bool>().prop_map(Action::Healthy),
    ]
}

fn misbehaving() -> Faults {
    "tx-underrun=4,tx-abort=9,tx-race=7,tx-bad-link=9,tx-unexplained=9,pci-error=30,\
     tx-no-interrupt=3,tx-stall=9,rx-crc=9,rx-runt=9,rx-overflow=9,rx-wedge=40,\
     rx-bad-length=3,posted-writes,slow-eeprom=2,reset=3,link-flap=700,spurious=50"
        .parse()
        .unwrap()
}

/// A bounded turn of the stack. The card may stay noisy.
fn serve(rig: &mut Rig) {
    for _ in 0..20 {
        let now = rig.card.lock().unwrap().now.as_micros() as u64;
        rig.driver.service(now);
        let mut frames = 0;
        while let Some(frame) = rig.driver.receive() {
            let least = if frame.tag.is_some() { 56 } else { 60 };
            assert!((least..=1532).contains(&frame.buffer.len()));
            rig.driver.recycle(frame);
            frames += 1;
            assert!(frames <= 1000, "receive never ends");
        }
        if !rig.driver.arm() {
            return;
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 150, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn the_driver_survives_any_card(
        chip in 0usize..5,
        registers in any::<bool>(),
        actions in proptest::collection::vec(action(), 1..150),
    ) {
        let mut rig = Rig::new(chips()[chip]);
        rig.faults(|faults| *faults = misbehaving());
        for action in actions {
            match action {
                Action::Send(len) => {
                    let data = frame(PEER, len);
                    if rig.queue(&data, &request(&rig.driver, &data)) {
                        rig.driver.flush();
                    }
                }
                Action::SendTagged(len, tag) => {
                    let data = frame(PEER, len);
                    let tagged = rig.driver.feature(Feature::TxVlanOffload).on;
                    if tagged && rig.driver.transmit_room() > 0 {
                        rig.queue_tagged(&data, Tci(tag));
                    }
                }
                Action::WireTagged(len, tag) => {
                    let mut data = frame(MAC, len);
                    data[12..14].copy_from_slice(&[0x81, 0]);
                    data[14..16].copy_from_slice(&(tag & 0xf007).to_be_bytes());
                    rig.wire(&data);
                }
                Action::Vlans(ids) => rig.driver.set_vlans(&ids),
                Action::Switch(which, on) => {
                    let feature = Feature::ALL[usize::from(which) % Feature::ALL.len()];
                    let _ = rig.driver.set_feature(feature, on);
                }
                Action::Wire(len, ours) => rig.wire(&frame(if ours { MAC } else { [0xff; 6] }, len)),
                Action::Serve => serve(&mut rig),
                Action::Later(us) => rig.later(Duration::from_micros(us.into())),
                Action::Cable(plugged) => rig.card.lock().unwrap().model.set_cable(plugged),
                Action::Filter(0..100) => rig.driver.set_receive_filter(ReceiveFilter::Promiscuous),
                Action::Filter(_) => rig.driver.set_receive_filter(ReceiveFilter::Multicast(&[])),
                Action::Register(at, value) if registers => {
                    rig::Bar(rig.card.clone()).write8(at.into(), value);
                }
                Action::Register(..) => {}
                Action::Healthy(yes) => {
                    let faults = if yes { Faults::default() } else { misbehaving() };
                    rig.faults(|f| *f = faults);
                }
            }
            rig.sent();
        }
        // Well again, and left alone for a while, it gets over everything.
        rig.faults(|faults| *faults = Faults::default());
        rig.card.lock().unwrap().model.set_cable(true);
        for _ in 0..10 {
            rig.later(Duration::from_millis(2500));
            serve(&mut rig);
        }
        prop_assert_eq!(rig.driver.transmit_room(), 63, "a buffer is missing");
        if !registers {
            rig.sent();
            let data = frame(PEER, 777);
            rig.send(&data);
            prop_assert_eq!(rig.sent(), vec![data]);
            rig.wire(&frame(MAC, 778));
            prop_assert_eq!(rig.serve().len(), 1);
        }
    }
}

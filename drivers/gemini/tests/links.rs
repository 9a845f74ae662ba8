//! Links: PHYs on the bit-banged management bus of the boards that have them. [GM 1.10, 2, 7]

mod rig;

use rig::{MAC, PEER, Rig, frame, mac, try_rig_with};
use std::time::Duration;
use trireme_gemini::Attached;
use trireme_gemini_model::BoardKind;
use trireme_nic::{Link, Nic};

/// A WBD-222: PHYs at addresses 1 and 3.
fn two_phys(faults: &str) -> Rig {
    let rig = try_rig_with(BoardKind::Wbd222, faults, |config| {
        for (port, address) in config.ports.iter_mut().zip([1, 3]) {
            port.as_mut().unwrap().attached = Attached::Phy { address };
        }
    });
    match rig {
        Ok(rig) => rig,
        Err((error, _)) => panic!("{error}"),
    }
}

fn cable(rig: &Rig, port: usize, plugged: bool) {
    rig.card.lock().unwrap().model.board_mut().set_cable(port, plugged);
}

const GIGABIT: Link = Link { up: true, speed_mbps: 1000, full_duplex: true };

#[test]
fn phys_are_found_and_negotiate() {
    let mut rig = two_phys("");
    rig.live(Duration::from_secs(2));
    for n in 0..2 {
        assert_eq!(rig.ports[n].link(), GIGABIT);
        // The model's partner takes PAUSE.
        assert_eq!(rig.ports[n].pause().map(|p| (p.rx, p.tx)), Some((true, true)));
    }
    rig.works();
    rig.is_clean();
}

#[test]
fn a_dns_313_has_one_port() {
    let rig = try_rig_with(BoardKind::Dns313, "", |config| {
        config.ports[0].as_mut().unwrap().attached = Attached::Phy { address: 1 };
        config.ports[1] = None;
    });
    let Ok(mut rig) = rig else { panic!() };
    rig.live(Duration::from_secs(2));
    assert_eq!(rig.ports[0].link(), GIGABIT);
    rig.works();
}

#[test]
fn a_cable_pulled_and_put_back_is_noticed_on_its_port_alone() {
    let mut rig = two_phys("");
    rig.live(Duration::from_secs(2));
    for n in 0..2 {
        cable(&rig, n, false);
        rig.live(Duration::from_millis(1500));
        assert_eq!(rig.ports[n].link(), Link::default());
        assert_eq!(rig.ports[1 - n].link(), GIGABIT);
        rig.wire(n, &frame(mac(n), 60));
        assert!(rig.serve(n).is_empty());
        cable(&rig, n, true);
        rig.live(Duration::from_millis(2500));
        assert_eq!(rig.ports[n].link(), GIGABIT);
        assert_eq!(rig.counter_of(n, "link_changes"), 2);
    }
    rig.works();
    assert_eq!(rig.counter("resets"), 0);
}

/// What was queued meanwhile leaves when the link is back, and no watchdog barks.
#[test]
fn frames_queued_without_a_link_wait() {
    let mut rig = two_phys("");
    rig.live(Duration::from_secs(2));
    cable(&rig, 0, false);
    rig.live(Duration::from_secs(2));
    let data = frame(PEER, 100);
    rig.send(&data);
    rig.live(Duration::from_secs(5));
    assert!(rig.sent().is_empty());
    cable(&rig, 0, true);
    rig.live(Duration::from_secs(3));
    assert_eq!(rig.sent(), [data]);
    assert_eq!((rig.counter("resets"), rig.counter("tx_timeouts")), (0, 0));
}

/// A link that flaps too fast to be seen down was down: the PHY's bit latches.
#[test]
fn flapping_links_end_up_as_they_are() {
    let mut rig = two_phys("link-flap=700");
    rig.live(Duration::from_secs(20));
    rig.faults("");
    for n in 0..2 {
        cable(&rig, n, true);
    }
    rig.live(Duration::from_secs(3));
    rig.works();
}

#[test]
fn a_silent_phy_is_asked_again() {
    let mut rig = two_phys("absent-phy");
    rig.live(Duration::from_secs(3));
    assert_eq!(rig.ports[0].link(), Link::default());
    rig.wire(0, &frame(MAC, 60));
    assert!(rig.serve(0).is_empty());
    rig.is_clean();
}

/// A reset loses the MAC's settings, not the PHY's link.
#[test]
fn a_reset_keeps_the_link() {
    let mut rig = two_phys("");
    rig.live(Duration::from_secs(2));
    rig.faults("rx-derr=1");
    rig.wire(1, &frame(mac(1), 60));
    rig.faults("");
    rig.serve(1);
    assert_eq!(rig.counter("resets"), 1);
    assert_eq!(rig.ports[0].link(), GIGABIT);
    rig.works();
}

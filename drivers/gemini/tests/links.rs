//! Links: PHYs on the bit-banged management bus of the boards that have them, and a DIR-685's switch.
//! [GM 1.10, 2, 2.1, 7]

mod rig;

use rig::frames::Spec;
use rig::{MAC, PEER, Rig, VERIFIED, frame, incoming, mac, try_rig_with};
use std::time::Duration;
use trireme_gemini::{Attached, Lines, MAX_MTU};
use trireme_gemini_model::BoardKind;
use trireme_nic::{Feature, Link, Nic, ReceiveChecksum};

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

/// A DIR-685: the MAC is port 5 of a switch with five sockets.
fn switched(faults: &str) -> Rig {
    let rig = try_rig_with(BoardKind::Dir685, faults, |config| {
        config.ports[0].as_mut().unwrap().attached = Attached::Switch { pause: true };
        config.ports[1] = None;
        config.lines = Lines::REALTEK;
    });
    match rig {
        Ok(rig) => rig,
        Err((error, _)) => panic!("{error}"),
    }
}

/// Sockets a frame left by.
fn sockets(rig: &Rig) -> Vec<usize> {
    rig.sent_on().into_iter().map(|(socket, _)| socket).collect()
}

#[test]
fn a_frame_goes_to_the_socket_its_address_was_heard_from() {
    let mut rig = switched("");
    assert_eq!(rig.ports[0].link(), GIGABIT);
    let from_peer = incoming(0, &Spec::tcp(100).build());
    let to_peer = Spec::tcp(100).build();
    rig.send(&to_peer);
    assert_eq!(sockets(&rig), [0, 1, 2, 3, 4], "nobody knows where the peer is");
    for socket in [3, 0, 4] {
        rig.wire(socket, &from_peer);
        assert_eq!(
            rig.serve(0),
            [(from_peer.clone(), VERIFIED)],
            "as it was before the switch tagged it"
        );
        rig.sent();
        rig.send(&to_peer);
        assert_eq!(rig.sent_on(), [(socket, to_peer.clone())]);
        rig.serve(0);
    }
    // Its cable is pulled: it may be anywhere.
    cable(&rig, 4, false);
    rig.live(Duration::from_millis(1500));
    rig.sent();
    rig.send(&to_peer);
    assert_eq!(sockets(&rig), [0, 1, 2, 3]);
    cable(&rig, 4, true);
    // A group is everybody's.
    rig.send(&frame([0xff; 6], 60));
    assert_eq!(sockets(&rig).len(), 5);
    assert_eq!(rig.counter("rx_untagged"), 0);
    rig.is_clean();
}

/// [GM 2.1, 8]: a tag makes a full frame too long for plain mode; the engine finds TCP behind it and cuts it.
#[test]
fn tags_are_no_trap_for_the_engine() {
    let mut rig = switched("plain-hang,tcp-hang=1,short-ip-length");
    rig.wire(2, &incoming(0, &Spec::tcp(10).build()));
    rig.serve(0);
    rig.sent();
    for on in [true, false] {
        rig.ports[0].set_feature(Feature::TxChecksumming, on).unwrap();
        for payload in [0, 1, 20, 100, 1440, 1448] {
            for udp in [false, true] {
                let spec = Spec { udp, ..Spec::tcp(payload) };
                let mut wanted = spec.build();
                rig.send(&wanted);
                wanted.resize(wanted.len().max(60), 0);
                assert_eq!(rig.sent_on(), [(2, wanted)], "{payload} {udp}");
                rig.serve(0);
            }
        }
        // Also where the frame stands at the start of its buffer.
        for start in 0..8 {
            let data = frame(PEER, 1514);
            let mut buffer = rig.ports[0].transmit_buffer(1514).unwrap();
            buffer.set_window(start..start + 1514);
            buffer.copy_from_slice(&data);
            let (_, request) = rig.ask(0, &data, None);
            rig.ports[0].transmit(buffer, &request);
            rig.ports[0].flush();
            assert_eq!(rig.sent(), [data]);
            rig.serve(0);
        }
    }
    rig.ports[0].set_feature(Feature::TxChecksumming, true).unwrap();
    for v6 in [false, true] {
        let spec = Spec { v6, ..Spec::tcp(40_000) };
        rig.send_on(0, &spec.build(), Some(1400));
        assert_eq!(rig.sent(), spec.segments(spec.headers() + 1400));
        rig.serve(0);
    }
    rig.is_clean();
}

#[test]
fn a_switchs_longest_frames_pass() {
    let mut rig = switched("");
    assert_eq!(rig.ports[0].max_mtu(), MAX_MTU - 4, "the tag is in the frame");
    assert!(!rig.ports[0].set_mtu(MAX_MTU));
    for mtu in [1500, 1514, 1522, MAX_MTU - 4] {
        assert!(rig.ports[0].set_mtu(mtu));
        let len = usize::from(mtu) + 18;
        rig.wire(1, &frame(MAC, len));
        assert_eq!(rig.serve(0), [(frame(MAC, len), ReceiveChecksum::Unverified)], "{mtu}");
        rig.sent();
        rig.send(&frame(PEER, len));
        assert_eq!(rig.sent()[0], frame(PEER, len));
        rig.serve(0);
    }
    rig.is_clean();
}

#[test]
fn the_link_is_that_of_any_socket() {
    let mut rig = switched("");
    for socket in 0..5 {
        assert_eq!(rig.ports[0].link(), GIGABIT);
        cable(&rig, socket, false);
        rig.live(Duration::from_millis(1500));
    }
    assert_eq!(rig.ports[0].link(), Link::default());
    cable(&rig, 4, true);
    rig.live(Duration::from_millis(2500));
    assert_eq!(rig.ports[0].link(), GIGABIT);
    rig.send(&frame(PEER, 60));
    assert_eq!(sockets(&rig), [4]);
}

/// Without a switch on the lines there is no link, and it is asked again.
#[test]
fn a_switch_that_is_not_there_is_no_link() {
    let rig = try_rig_with(BoardKind::Dns313, "", |config| {
        config.ports[0].as_mut().unwrap().attached = Attached::Switch { pause: true };
    });
    let Ok(mut rig) = rig else { panic!() };
    rig.live(Duration::from_secs(3));
    assert_eq!(rig.ports[0].link(), Link::default());
    rig.is_clean();
}

//! PAUSE: what is agreed on, obeyed and sent.

mod rig;

use rig::{M, MAC, PEER, Rig, chips, frame};
use std::time::Duration;
use trireme_nic::{Nic, Pause};
use trireme_rhine_model::Chip as ModelChip;

// Advertisements, IEEE 802.3 annex 28B: selector, 100BASE-TX full and half, PAUSE.
const FULL: u16 = 0x0181;
const HALF: u16 = 0x0081;
const PAUSE: u16 = 0x0400;

fn renegotiate(rig: &mut Rig, partner: u16) {
    for plugged in [false, true] {
        let mut card = rig.card.lock().unwrap();
        card.model.set_partner(partner);
        card.model.set_cable(plugged);
        drop(card);
        rig.serve();
    }
    rig.sent();
}

/// PAUSE frames sent while the ring fills up and is emptied.
fn pauses(rig: &mut Rig) -> usize {
    (0..64).for_each(|_| rig.wire(&frame(MAC, 60)));
    rig.serve();
    rig.wire(&frame(MAC, 60));
    rig.serve();
    rig.sent().iter().filter(|f| f[12..16] == [0x88, 0x08, 0, 1]).count()
}

#[test]
fn pause_is_used_as_far_as_chip_and_peer_agree() {
    for chip in chips() {
        let mut rig = Rig::new(chip);
        let (obeys, sends) = (chip.revision >= 0x40, chip.revision >= 0x80);
        for (partner, agreed) in
            [(FULL | PAUSE, true), (FULL, false), (HALF | PAUSE, false), (FULL | PAUSE, true)]
        {
            renegotiate(&mut rig, partner);
            let (rx, tx) = (agreed && obeys, agreed && sends);
            let wanted = obeys.then_some(Pause { autonegotiate: true, rx, tx });
            assert_eq!(rig.driver.pause(), wanted, "{chip:?} {partner:#x}");
            assert_eq!(pauses(&mut rig), if tx { 2 } else { 0 }, "{chip:?} {partner:#x}");
        }
    }
}

#[test]
fn a_peer_that_asks_for_silence_gets_it() {
    for chip in [ModelChip::VT6102, ModelChip::VT6105, M] {
        let mut rig = Rig::new(chip);
        renegotiate(&mut rig, FULL | PAUSE);
        let mut pause = frame([0x01, 0x80, 0xc2, 0, 0, 0x01], 60);
        pause[12..18].copy_from_slice(&[0x88, 0x08, 0x00, 0x01, 0x10, 0x00]);
        rig.wire(&pause);
        rig.send(&frame(PEER, 60));
        assert!(rig.sent().is_empty(), "{chip:?}");
        // 4096 times 512 bits at 100 Mbit/s: 21 ms.
        rig.later(Duration::from_millis(22));
        assert_eq!(rig.sent().len(), 1, "{chip:?}");
        assert!(rig.serve().is_empty(), "nothing for the stack");
    }
}

#[test]
fn the_count_survives_a_link_change_with_frames_waiting_and_a_reset() {
    let mut rig = Rig::new(M);
    (0..40).for_each(|_| rig.wire(&frame(MAC, 60)));
    // 24 are free when the link comes back; as many fit, and XOFF is for the 17th.
    for plugged in [false, true] {
        rig.card.lock().unwrap().model.set_cable(plugged);
        rig.driver.service(1);
    }
    rig.sent();
    (0..16).for_each(|_| rig.wire(&frame(MAC, 60)));
    assert_eq!(rig.sent().len(), 0);
    rig.wire(&frame(MAC, 60));
    assert_eq!(rig.sent().len(), 1);
    assert_eq!(rig.serve().len(), 57);
    rig.wire(&frame(MAC, 60));
    rig.serve();
    assert_eq!(rig.sent().len(), 1);
    rig.faults(|f| f.pci_error = 1);
    rig.send(&frame(PEER, 60));
    rig.faults(|f| f.pci_error = 0);
    rig.serve();
    rig.sent();
    assert_eq!(rig.counter("resets"), 1);
    assert_eq!(pauses(&mut rig), 2);
}

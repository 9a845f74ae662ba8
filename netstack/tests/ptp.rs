//! PTP messages in and out, with the card's times.

mod card;

use card::Card;
use trireme_netstack::{Addressing, Config, Error, Event, Instant, PtpMessage, Stack};
use trireme_nic::{MacAddress, PtpTime};

const NOW: Instant = Instant::from_micros_const(1_000_000);
const OURS: MacAddress = [2, 0, 0, 0, 0, 1];
const THEIRS: MacAddress = [2, 0, 0, 0, 0, 9];
/// 802.1AS-2020, 10.5.3: nearest-bridge group.
const GROUP: MacAddress = [0x01, 0x80, 0xc2, 0, 0, 0x0e];

fn stack(clock: Option<PtpTime>) -> (Stack, card::Peer) {
    let mut card = Card::plain(8);
    card.clock = clock;
    let peer = card.attach();
    let config = Config { seed: [7; 32], buffer_budget: 1 << 20, hostname: "ptp".to_owned() };
    let mut stack = Stack::new(config, NOW);
    stack.add_interface(Box::new(card), Addressing::default(), NOW);
    (stack, peer)
}

fn frame(to: MacAddress, message: &[u8]) -> Vec<u8> {
    [&to[..], &THEIRS, &[0x88, 0xf7], message].concat()
}

#[test]
fn messages_arrive_with_their_times_once_somebody_asks() {
    let (mut stack, peer) = stack(Some(PtpTime { seconds: 5, nanoseconds: 0 }));
    peer.outgoing.send(frame(GROUP, b"nobody listens")).unwrap();
    stack.poll(NOW);
    assert_eq!(stack.statistics().unknown_protocol, 1);
    stack.ptp_open(0).unwrap();
    assert_eq!(stack.ptp_open(0), Err(Error::AddressInUse), "one at a time");
    for message in [&b"first"[..], b"second!"] {
        peer.outgoing.send(frame(GROUP, message)).unwrap();
    }
    stack.poll(NOW);
    assert_eq!(stack.next_event(), Some(Event::Ptp(0)));
    for (message, nanoseconds) in [(&b"first"[..], 19), (b"second!", 21)] {
        let expected = PtpMessage {
            source: THEIRS,
            destination: GROUP,
            message: message.to_vec(),
            received_at: Some(PtpTime { seconds: 5, nanoseconds }),
        };
        assert_eq!(stack.ptp_receive(0), Some(expected));
    }
    assert_eq!(stack.ptp_receive(0), None);
    stack.ptp_close(0);
    stack.ptp_open(0).unwrap();
}

#[test]
fn a_program_that_does_not_take_them_costs_bounded_memory() {
    let (mut stack, peer) = stack(Some(PtpTime::default()));
    stack.ptp_open(0).unwrap();
    for _ in 0..50 {
        peer.outgoing.send(frame(OURS, b"x")).unwrap();
        stack.poll(NOW);
    }
    assert_eq!(std::iter::from_fn(|| stack.ptp_receive(0)).count(), 32);
    assert_eq!(stack.statistics().ptp_overflows, 18);
}

#[test]
fn messages_leave_as_they_are_and_say_when() {
    let (mut stack, peer) = stack(Some(PtpTime::default()));
    while peer.incoming.try_recv().is_ok() {}
    let number = stack.ptp_send(0, GROUP, b"a message").unwrap();
    let sent = peer.incoming.try_recv().unwrap();
    assert_eq!(sent, [&GROUP[..], &OURS, &[0x88, 0xf7], b"a message"].concat());
    let clock = stack.ptp_clock(0).unwrap();
    assert_eq!(clock.sent_at(), Some((number, PtpTime { seconds: 1, nanoseconds: 0 })));
    assert_eq!(clock.sent_at(), None);
    assert_eq!(stack.ptp_send(0, GROUP, &[0; 1501]), Err(Error::MessageTooLong));
    assert_eq!(stack.ptp_send(1, GROUP, b""), Err(Error::AddressNotAvailable));
}

#[test]
fn a_card_without_a_clock_says_so() {
    let (mut stack, _peer) = stack(None);
    assert_eq!(stack.ptp_open(0), Err(Error::NotSupported));
    assert_eq!(stack.ptp_send(0, GROUP, b""), Err(Error::NotSupported));
    assert_eq!(stack.ptp_open(7), Err(Error::AddressNotAvailable));
    assert!(stack.ptp_clock(0).is_none());
}

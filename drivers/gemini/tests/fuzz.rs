//! Random work: large writes of every shape against a segmenter of the test's own, and the driver against a card
//! that misbehaves in every way at once. Nothing panics or hangs, every buffer comes home, and frames that get
//! through are right or are said to be unverified.

mod rig;

use proptest::collection::vec;
use proptest::prelude::*;
use rig::frames::Spec;
use rig::{Bar, PEER, ROOM, Rig, VERIFIED, frame, incoming, mac, shape};
use std::num::NonZeroU16;
use std::time::Duration;
use trireme_gemini::MAX_FRAME;
use trireme_nic::{Feature, Nic, ReceiveChecksum, ReceiveFilter, Registers};

fn specs() -> impl Strategy<Value = Spec> {
    let tag = prop_oneof![
        3 => Just(vec![]),
        1 => any::<[u8; 2]>().prop_map(|t| [&[0x81, 0x00][..], &t].concat()),
        1 => any::<u8>().prop_map(|t| vec![0x88, 0x99, 0xa0, t]),
    ];
    let options = (0usize..=10).prop_flat_map(|words| vec(any::<u8>(), 4 * words));
    let bytes = prop_oneof![1usize..3000, 1usize..66_000];
    (tag, any::<bool>(), options, any::<u32>(), any::<u16>(), any::<u8>(), bytes).prop_map(
        |(tag, v6, tcp_options, sequence, id, flags, len)| {
            let payload = (0..len).map(|i| (i * 13 + i / 255) as u8).collect();
            Spec { tag, v6, tcp_options, sequence, id, flags, payload, ..Spec::tcp(0) }
        },
    )
}

/// What software does with a large frame the card will not take: cuts it, and sums each piece.
fn cut_by_software(spec: &Spec, segment: u16) -> Vec<Vec<u8>> {
    let mut pieces = spec.segments(spec.headers() + usize::from(segment));
    // The test's segmenter pads as the MAC does.
    let last = spec.payload.len() - (pieces.len() - 1) * usize::from(segment);
    if let Some(piece) = pieces.last_mut() {
        piece.truncate(spec.headers() + last);
    }
    pieces
}

/// Gives a write to a port, cut by whoever does it now.
fn write(rig: &mut Rig, n: usize, spec: &Spec, segment: u16) {
    let data = spec.build();
    let ability = rig.ports[n].transmit_ability(&shape(&data, NonZeroU16::new(segment)));
    if ability.segment {
        let (data, request) = rig.ask(n, &data, Some(segment));
        assert!(rig.queue(n, &data, &request), "ring full");
    } else {
        for piece in cut_by_software(spec, segment) {
            let (data, request) = rig.ask(n, &piece, None);
            while !rig.queue(n, &data, &request) {
                rig.ports[n].flush();
                rig.serve(n);
            }
        }
    }
    rig.ports[n].flush();
    rig.serve(n);
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 80, failure_persistence: None, ..ProptestConfig::default()
    })]

    #[test]
    fn large_writes_are_cut_as_an_independent_segmenter_does(
        spec in specs(), segment in 200u16..1960, port in 0usize..2,
    ) {
        prop_assume!(spec.headers() + spec.payload.len() <= 65_535);
        prop_assume!(spec.v6 || spec.headers() - 14 - spec.tag.len() + spec.payload.len() <= 65_535);
        let size = spec.headers() + usize::from(segment);
        prop_assume!(size <= MAX_FRAME);
        let mut rig = Rig::with("plain-hang,tcp-hang=1,tiny-fragments,short-ip-length");
        rig.send_on(port, &spec.build(), Some(segment));
        prop_assert_eq!(rig.sent(), spec.segments(size));
        let counters = rig.counters();
        prop_assert_eq!(counters.traps(), 0);
        prop_assert_eq!(counters.port[port].tx_requests, 1, "one chain");
        prop_assert_eq!(rig.counter_of(port, "tx_tso"), 1);
        rig.serve(port);
        prop_assert_eq!(rig.ports[port].transmit_room(), ROOM);
    }

    /// The wire carries the same whatever is switched when.
    #[test]
    fn switching_under_traffic_changes_nothing_on_the_wire(
        steps in vec((any::<u8>(), any::<bool>(), 1usize..20_000, any::<bool>()), 1..40),
    ) {
        let mut rig = Rig::with("plain-hang,tcp-hang=1,short-ip-length");
        let switched = [
            Feature::TcpSegmentationOffload,
            Feature::Tcp6Segmentation,
            Feature::TxChecksumming,
            Feature::RxChecksumming,
        ];
        for (which, on, len, v6) in steps {
            let _ = rig.ports[0].set_feature(switched[usize::from(which) % 4], on);
            let spec = Spec { v6, ..Spec::tcp(len) };
            write(&mut rig, 0, &spec, 1400);
            prop_assert_eq!(rig.sent(), spec.segments(spec.headers() + 1400));
            let data = incoming(0, &Spec { v6, ..Spec::tcp(len % 1400) }.build());
            rig.wire(0, &data);
            let said = match rig.ports[0].feature(Feature::RxChecksumming).on {
                true => VERIFIED,
                false => ReceiveChecksum::Unverified,
            };
            let got = rig.serve(0);
            prop_assert_eq!(&got[0].0[..data.len()], &data[..]);
            prop_assert_eq!(got[0].1, said);
        }
        prop_assert_eq!(rig.counters().traps(), 0);
        prop_assert_eq!(rig.counter("resets"), 0);
    }
}

#[derive(Clone, Debug)]
enum Action {
    Send(usize, usize),
    Write(usize, usize),
    Wire(usize, usize, bool),
    Serve(usize),
    Later(u32),
    Filter(usize, u8),
    Mtu(usize, u16),
    Switch(usize, u8, bool),
    /// The card's registers change under the driver: a write nobody made.
    Register(u16, u32),
    /// A descriptor nothing brought about.
    Descriptor(usize, [u32; 4]),
    Hold(usize),
    Healthy(bool),
}

fn action() -> impl Strategy<Value = Action> {
    let port = 0usize..2;
    prop_oneof![
        5 => (port.clone(), 14usize..2048).prop_map(|(n, len)| Action::Send(n, len)),
        3 => (port.clone(), 1usize..60_000).prop_map(|(n, len)| Action::Write(n, len)),
        5 => (port.clone(), 60usize..5000, any::<bool>())
            .prop_map(|(n, len, ours)| Action::Wire(n, len, ours)),
        4 => port.clone().prop_map(Action::Serve),
        2 => (0u32..3_000_000).prop_map(Action::Later),
        1 => (port.clone(), any::<u8>()).prop_map(|(n, which)| Action::Filter(n, which)),
        1 => (port.clone(), 0u16..2100).prop_map(|(n, mtu)| Action::Mtu(n, mtu)),
        1 => (port.clone(), any::<u8>(), any::<bool>())
            .prop_map(|(n, which, on)| Action::Switch(n, which, on)),
        2 => (any::<u16>(), any::<u32>()).prop_map(|(at, value)| Action::Register(at, value)),
        2 => (port.clone(), any::<[u32; 4]>()).prop_map(|(n, words)| Action::Descriptor(n, words)),
        1 => port.prop_map(Action::Hold),
        1 => any::<bool>().prop_map(Action::Healthy),
    ]
}

const MISBEHAVING: &str = "tx-hang=40,rx-hang=60,tx-error=9,tx-derr=30,rx-derr=40,rx-perr=40,rx-crc=9,\
     rx-runt=9,rx-null=9,rx-overrun=9,late-status,mib-nonsense,narrow-mib,plain-hang,tcp-hang=3,\
     runt-storm,tiny-fragments,short-ip-length,paced";

/// A bounded turn of the stack. The card may stay noisy.
fn serve(rig: &mut Rig, n: usize) {
    for _ in 0..20 {
        let now = rig.now_us();
        let port = &mut rig.ports[n];
        port.service(now);
        let mut frames = 0;
        while let Some(frame) = port.receive() {
            assert!((60..=2062).contains(&frame.buffer.len()));
            port.recycle(frame);
            frames += 1;
            assert!(frames <= 1000, "receive never ends");
        }
        if !port.arm() {
            return;
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 100, failure_persistence: None, ..ProptestConfig::default()
    })]

    #[test]
    fn the_driver_survives_any_card(
        hostile in any::<bool>(),
        actions in vec(action(), 1..120),
    ) {
        let mut rig = Rig::default();
        rig.faults(MISBEHAVING);
        let mut held = Vec::new();
        for action in actions {
            match action {
                Action::Send(n, len) => {
                    let data = frame(PEER, len);
                    let (data, request) = rig.ask(n, &data, None);
                    if rig.queue(n, &data, &request) {
                        rig.ports[n].flush();
                    }
                }
                Action::Write(n, len) => {
                    let data = Spec::tcp(len).build();
                    let shape = shape(&data, NonZeroU16::new(1448));
                    if rig.ports[n].transmit_ability(&shape).segment {
                        let (data, request) = rig.ask(n, &data, Some(1448));
                        if rig.queue(n, &data, &request) {
                            rig.ports[n].flush();
                        }
                    }
                }
                Action::Wire(n, len, ours) => {
                    rig.wire(n, &frame(if ours { mac(n) } else { [0xff; 6] }, len));
                }
                Action::Serve(n) => serve(&mut rig, n),
                Action::Later(us) => rig.later(Duration::from_micros(us.into())),
                Action::Filter(n, 0..100) => {
                    rig.ports[n].set_receive_filter(ReceiveFilter::Promiscuous);
                }
                Action::Filter(n, _) => {
                    rig.ports[n].set_receive_filter(ReceiveFilter::Multicast(&[]));
                }
                Action::Mtu(n, mtu) => drop(rig.ports[n].set_mtu(mtu)),
                Action::Switch(n, which, on) => {
                    let feature = Feature::ALL[usize::from(which) % Feature::ALL.len()];
                    let _ = rig.ports[n].set_feature(feature, on);
                }
                Action::Register(at, value) if hostile && at % 4 == 0 => {
                    Bar(rig.card.clone(), 0).write32(at.into(), value);
                }
                Action::Descriptor(n, words) if hostile => drop(rig.try_forge(n, words)),
                Action::Register(..) | Action::Descriptor(..) => {}
                Action::Hold(n) => {
                    if held.len() < 20 {
                        held.extend(rig.ports[n].receive().map(|frame| (n, frame)));
                    }
                }
                Action::Healthy(yes) => rig.faults(if yes { "" } else { MISBEHAVING }),
            }
            rig.sent();
        }
        for (n, frame) in held {
            rig.ports[n].recycle(frame);
        }
        // Well again, and left alone for a while, it gets over everything.
        rig.faults("");
        for _ in 0..10 {
            rig.later(Duration::from_millis(2500));
            (0..2).for_each(|n| serve(&mut rig, n));
        }
        for n in 0..2 {
            prop_assert_eq!(rig.ports[n].transmit_room(), ROOM, "a buffer is missing");
        }
        if !hostile {
            for n in 0..2 {
                rig.ports[n].set_mtu(1500);
                rig.ports[n].set_receive_filter(ReceiveFilter::Multicast(&[]));
                for feature in [Feature::RxChecksumming, Feature::TxChecksumming] {
                    rig.ports[n].set_feature(feature, true).unwrap();
                }
            }
            rig.live(Duration::from_secs(3));
            rig.works();
        }
    }
}

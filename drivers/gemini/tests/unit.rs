//! Frames of every shape through the model's offload unit as this crate asks for it: what leaves is what an
//! independent segmenter makes, and none of the unit's traps is sprung.

#[path = "../../../models/gemini/tests/bench/mod.rs"]
mod bench;

use bench::Bench;
use bench::frames::Spec;
use proptest::prelude::*;
use std::num::NonZeroU16;
use trireme_gemini::{FrameError, MAX_FRAME, Offloads, Verdict, transmit_ability, transmit_words};
use trireme_nic::{FrameShape, Network, ReceiveChecksum, TransmitRequest, Transport};

const ALL: Offloads = Offloads { checksums: true, tso: true, tso6: true };

fn shape(spec: &Spec, segment: Option<u16>) -> FrameShape {
    let options = spec.ip_options.len();
    let network = match spec.v6 {
        true => Network::Ipv6 {
            header_len: 40 + options as u16,
            extension_headers: options > 0,
            fragment: false,
        },
        false => Network::Ipv4 { header_len: 20 + options as u8, fragment: false },
    };
    let transport = match spec.udp {
        true => Transport::Udp,
        false => Transport::Tcp { header_len: 20 + spec.tcp_options.len() as u8 },
    };
    FrameShape {
        len: spec.headers() + spec.payload.len(),
        link_len: 14 + spec.tag.len() as u8,
        tagged: false,
        network,
        transport,
        segment: segment.and_then(NonZeroU16::new),
    }
}

/// The frame as a stack gives it to the driver: sums the card is to make are zero, the others right.
fn given(spec: &Spec, request: &TransmitRequest) -> Vec<u8> {
    let mut frame = spec.build();
    if request.network_checksum {
        let at = usize::from(request.shape.link_len) + 10;
        frame[at..at + 2].fill(0);
    }
    if request.transport_checksum {
        let at = request.shape.checksum_offset().unwrap();
        frame[at..at + 2].fill(0);
    }
    frame
}

fn specs() -> impl Strategy<Value = Spec> {
    let tag = prop_oneof![
        3 => Just(vec![]),
        1 => any::<[u8; 2]>().prop_map(|t| [&[0x81, 0x00][..], &t].concat()),
        1 => any::<u8>().prop_map(|t| vec![0x88, 0x99, 0xa0, t]),
        1 => any::<[u8; 4]>().prop_map(|t| [&[0x88, 0x99], &t[..2], &[0x81, 0x00], &t[2..]].concat()),
    ];
    let words = |max: usize| {
        (0..=max).prop_flat_map(|words| proptest::collection::vec(any::<u8>(), 4 * words))
    };
    (tag, any::<[bool; 3]>(), words(3), words(10), any::<u32>(), any::<u8>()).prop_map(
        |(tag, [v6, udp, options], ip_options, tcp_options, sequence, flags)| {
            let (extension, ip_options) = match (v6, options) {
                (false, true) => (None, ip_options),
                // Eight bytes of destination options.
                (true, true) => (Some(60), vec![if udp { 17 } else { 6 }, 0, 1, 4, 0, 0, 0, 0]),
                (_, false) => (None, vec![]),
            };
            let base = Spec::tcp(0);
            Spec { tag, v6, ip_options, extension, udp, sequence, flags, tcp_options, ..base }
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(500))]

    #[test]
    fn single_frames_leave_right(spec in specs(), len in 0usize..2000, buffers in 1usize..4) {
        let payload = (0..len).map(|i| (i * 13) as u8).collect();
        let spec = Spec { payload, ..spec };
        let shape = shape(&spec, None);
        prop_assume!(shape.len <= MAX_FRAME);
        let ability = transmit_ability(ALL, &shape);
        prop_assert!(!ability.segment);
        let request = TransmitRequest {
            shape,
            network_checksum: ability.network_checksum,
            transport_checksum: ability.transport_checksum,
            tag: None,
        };
        let frame = given(&spec, &request);
        let pieces: Vec<&[u8]> = frame.chunks(frame.len().div_ceil(buffers).max(16)).collect();
        let words = transmit_words(&request, pieces.len()).unwrap();
        let mut bench = Bench::with(trireme_gemini_model::BoardKind::Fixed, "plain-hang,tcp-hang=1,short-ip-length");
        bench.start();
        let out = bench.send(&pieces, words.control, words.size);
        // The erratum of short frames can be kept away from one-buffer frames only (E4 against E5).
        if shape.len > 60 || pieces.len() == 1 {
            let mut wanted = spec.build();
            wanted.resize(wanted.len().max(60), 0);
            prop_assert_eq!(out, vec![wanted]);
        }
        let counters = bench.gemini.counters();
        prop_assert_eq!(counters.traps(), 0);
        prop_assert_eq!(counters.port[0].tx_checksums, u64::from(ability.transport_checksum));
        prop_assert_eq!(counters.port[0].tx_hangs, 0);
    }

    #[test]
    fn super_frames_are_cut_right_or_refused(
        spec in specs(), len in 1usize..12_000, segment in 200u16..2100,
    ) {
        let payload = (0..len).map(|i| (i * 13) as u8).collect();
        let spec = Spec { payload, udp: false, ..spec };
        let spec = Spec {
            ip_options: if spec.extension.is_some() {
                [&[6], &spec.ip_options[1..]].concat()
            } else {
                spec.ip_options.clone()
            },
            ..spec
        };
        let shape = shape(&spec, Some(segment));
        let ability = transmit_ability(ALL, &shape);
        let known = spec.ip_options.is_empty() && spec.tag.len() <= 4;
        let size = spec.headers() + usize::from(segment);
        prop_assert_eq!(ability.segment, known && size <= MAX_FRAME);
        if !ability.segment {
            return Ok(());
        }
        let request = TransmitRequest {
            shape,
            network_checksum: ability.network_checksum,
            transport_checksum: ability.transport_checksum,
            tag: None,
        };
        let frame = given(&spec, &request);
        let words = transmit_words(&request, 2).unwrap();
        let mut bench = Bench::new();
        bench.start();
        let (headers, payload) = frame.split_at(spec.headers());
        let out = bench.send(&[headers, payload], words.control, words.size);
        prop_assert_eq!(out, spec.segments(size));
        prop_assert_eq!(bench.gemini.counters().traps(), 0);
    }

    #[test]
    fn what_the_card_finds_wrong_is_never_called_verified(spec in specs(), len in 0usize..1300, at in any::<u16>(), flip in any::<u8>()) {
        let payload = (0..len).map(|i| (i * 13) as u8).collect();
        let spec = Spec { payload, tag: vec![], ..spec };
        let mut frame = spec.build();
        frame[..6].copy_from_slice(&bench::MAC);
        let transport = spec.headers() - if spec.udp { 8 } else { 20 + spec.tcp_options.len() };
        let at = transport + usize::from(at) % (frame.len() - transport);
        // A flipped length or offset field may leave nothing to sum; ports and payload do not.
        let inside = at < transport + 4 || at >= spec.headers();
        frame[at] ^= flip;
        prop_assume!(frame.len() <= 1514);
        let mut bench = Bench::new();
        bench.start();
        bench.wire(0, &frame);
        let [word0, word1, ..] = bench.received(0)[0];
        let verdict = Verdict::read(word0, word1).unwrap();
        prop_assert_eq!(usize::from(verdict.len), frame.len().max(60));
        let good = ReceiveChecksum::Verified { ip: true, transport: true };
        if inside {
            prop_assert_eq!(verdict.checksum == good, flip == 0);
        }
    }
}

#[test]
fn every_error_of_the_wire_is_told() {
    for (fault, error) in [
        ("rx-crc=1", FrameError::Crc),
        ("rx-runt=1", FrameError::Short),
        ("rx-derr=1", FrameError::Descriptor),
        ("rx-perr=1", FrameError::Descriptor),
    ] {
        let mut bench = Bench::with(trireme_gemini_model::BoardKind::Fixed, fault);
        bench.start();
        bench.w32(0xa00c, 0x1f);
        bench.wire(0, &bench::frames::raw(bench::MAC, 200));
        let [word0, word1, ..] = bench.received(0)[0];
        assert_eq!(Verdict::read(word0, word1), Err(error), "{fault}");
    }
}

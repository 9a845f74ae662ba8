//! The transmit offload unit against an independent segmenter (`bench/frames.rs`) and the sheet's capture.

mod bench;

use bench::Bench;
use bench::frames::Spec;
use proptest::prelude::*;

// Word 1 (sheet 5.2).
const MTU: u32 = 1 << 16;
const IP: u32 = 1 << 17;
const V6: u32 = 1 << 18;
const TCP: u32 = 1 << 19;
const UDP: u32 = 1 << 20;

fn words(spec: &Spec) -> u32 {
    (if spec.v6 { V6 } else { IP }) | if spec.udp { UDP } else { TCP }
}

/// Sends as a super-frame: headers in one buffer, payload in another.
fn cut(bench: &mut Bench, spec: &Spec, size: usize) -> Vec<Vec<u8>> {
    let frame = spec.unsummed();
    let (headers, payload) = frame.split_at(spec.headers());
    bench.send(&[headers, payload], MTU | words(spec), size as u32)
}

#[test]
fn captured_segment_comes_out_byte_for_byte() {
    // Sheet 8.4: header of the segment captured behind a DIR-685, IPv4 checksum 9AA1. The payload was not
    // printed, so the TCP checksum is the independent segmenter's.
    let spec = Spec::tcp(7240);
    let mut bench = Bench::new();
    bench.start();
    let out = cut(&mut bench, &spec, 0x05ea);
    assert_eq!(out.len(), 5, "0x1c8a bytes are 66 and five times 1448");
    assert!(out.iter().all(|frame| frame.len() == 1514));
    let ip = [
        0x45, 0x00, 0x05, 0xdc, 0x16, 0xa0, 0x40, 0x00, 0x40, 0x06, 0x9a, 0xa1, 192, 168, 1, 136,
        192, 168, 1, 2,
    ];
    assert_eq!(out[0][12..14], [0x08, 0x00]);
    assert_eq!(out[0][14..34], ip);
    let tcp = [
        0xe7, 0x20, 0x14, 0x51, 0xff, 0x25, 0x98, 0x22, 0x4c, 0x52, 0x29, 0xcf, 0x80, 0x10, 0x04,
        0x2a,
    ];
    assert_eq!(out[0][34..50], tcp);
    assert_eq!(out, spec.segments(1514));
}

#[test]
fn sizes_of_the_posting_give_its_segments() {
    // Sheet 8.4: byte_count, and segments with their last payload.
    for (bytes, segments, last) in
        [(0x1c8a, 5, 1448), (0x27da, 7, 1448), (0x0b92, 2, 1448), (0x2bda, 8, 1024)]
    {
        let mut bench = Bench::new();
        bench.start();
        let out = cut(&mut bench, &Spec::tcp(bytes - 66), 0x05ea);
        assert_eq!(out.len(), segments);
        assert_eq!(out.last().unwrap().len(), 66 + last);
    }
}

#[test]
fn the_ipv6_vector_is_cut_by_its_own_size() {
    // Sheet 5.8: header 86, gso 1428, 8654 bytes in all: six of 1428.
    let spec = Spec { v6: true, ..Spec::tcp(8654 - 86) };
    let mut bench = Bench::new();
    bench.start();
    let out = cut(&mut bench, &spec, 86 + 1428);
    assert_eq!(out.iter().map(Vec::len).collect::<Vec<_>>(), [1514; 6]);
    assert_eq!(out, spec.segments(1514));
}

fn specs() -> impl Strategy<Value = Spec> {
    let tag = prop_oneof![
        4 => Just(vec![]),
        1 => any::<[u8; 2]>().prop_map(|t| [&[0x81, 0x00][..], &t].concat()),
        1 => any::<u8>().prop_map(|t| vec![0x88, 0x99, 0xa0, t]),
        1 => any::<[u8; 4]>().prop_map(|t| [&[0x88, 0x99], &t[..2], &[0x81, 0x00], &t[2..]].concat()),
    ];
    let options = |max: usize| {
        (0..=max).prop_flat_map(|words| proptest::collection::vec(any::<u8>(), 4 * words))
    };
    let headers = (tag, any::<bool>(), options(10), 0u8..4, any::<u16>());
    let tcp = (any::<u32>(), any::<u8>(), options(10));
    let payload = (0usize..12_000, any::<u8>());
    (headers, tcp, payload).prop_map(
        |((tag, v6, ip_options, extension, id), (sequence, flags, tcp_options), (len, seed))| {
            // On IPv6, options of 8 bytes behind hop-by-hop, routing or destination options.
            let extension = Some(match extension {
                0 => 0,
                1 => 43,
                2 => 60,
                _ => u8::MAX,
            })
            .filter(|&number| v6 && number != u8::MAX);
            let ip_options = match (v6, extension) {
                (false, _) => ip_options,
                (true, None) => vec![],
                (true, Some(_)) => vec![6, 0, 1, 4, 0, 0, 0, 0],
            };
            let payload = (0..len).map(|i| (i * 31 + i / 257) as u8 ^ seed).collect();
            let base = Spec::tcp(0);
            Spec {
                tag,
                v6,
                ip_options,
                extension,
                id,
                sequence,
                flags,
                tcp_options,
                payload,
                ..base
            }
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(600))]

    #[test]
    fn cuts_as_an_independent_segmenter_does(spec in specs(), room in 1usize..1800) {
        let mut bench = Bench::new();
        bench.start();
        let size = (spec.headers() + room).min(2047);
        prop_assume!(spec.payload.len() / (size - spec.headers()) < 300);
        let out = cut(&mut bench, &spec, size);
        prop_assert_eq!(&out, &if spec.payload.is_empty() {
            // Nothing to cut: one frame, its flags untouched.
            let mut whole = spec.build();
            whole.resize(whole.len().max(60), 0);
            vec![whole]
        } else {
            spec.segments(size)
        });
        prop_assert_eq!(bench.gemini.counters().traps(), 0);
    }

    #[test]
    fn sums_single_frames_in_every_mode_that_sums(
        spec in specs(), udp in any::<bool>(), mtu_mode in any::<bool>(), len in 0usize..1300,
    ) {
        let mut spec = Spec { udp, ..spec };
        spec.payload.truncate(len);
        if let Some(next) = spec.ip_options.first_mut().filter(|_| spec.v6 && udp) {
            *next = 17;
        }
        let frame = spec.unsummed();
        prop_assume!(frame.len() <= 1514);
        let mut bench = Bench::new();
        bench.start();
        let mode = if mtu_mode { MTU } else { 0 };
        let out = bench.send(&[&frame], mode | words(&spec), frame.len() as u32);
        let mut wanted = spec.build();
        wanted.resize(wanted.len().max(60), 0);
        prop_assert_eq!(out, vec![wanted]);
        let counters = bench.gemini.counters().port[0];
        prop_assert_eq!(counters.tx_checksums, 1);
        // TCP outside MTU mode is the trap E3, though it is summed.
        prop_assert_eq!(counters.tx_tcp_plain, u64::from(!udp && !mtu_mode));
    }
}

#[test]
fn vendor_setting_of_all_four_bits_serves_both_versions() {
    // Sheet 8.1: VD sets IP, IPv6, TCP and UDP together in MTU mode.
    for (v6, udp) in [(false, false), (false, true), (true, false), (true, true)] {
        let spec = Spec { v6, udp, ..Spec::tcp(500) };
        let mut bench = Bench::new();
        bench.start();
        let out = bench.send(&[&spec.unsummed()], MTU | IP | V6 | TCP | UDP, 1514);
        assert_eq!(out, [spec.build()]);
    }
}

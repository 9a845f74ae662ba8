//! The checksum engines: the sheet's vectors (5.1, 5.3), and the TOE against a sum made here.

mod bench;

use bench::*;
use proptest::prelude::*;

/// RFC 1071, byte by byte, not inverted: not the model's way.
fn sum(bytes: &[u8]) -> u16 {
    let mut sum = 0u32;
    for (i, &byte) in bytes.iter().enumerate() {
        sum += u32::from(byte) << if i % 2 == 0 { 8 } else { 0 };
        sum = (sum & 0xffff) + (sum >> 16);
    }
    sum as u16
}

fn receive(bench: &mut Bench, frame: &[u8]) -> Vec<u8> {
    bench.rx_ring(&[2046; 4]);
    bench.w(0x008, 1 << 4);
    bench.wire(frame);
    assert_eq!(bench.rx_word(0) >> 28, 7);
    bench.rx_data(0)
}

fn rcar(variant: trireme_ravb_model::Variant) -> Bench {
    let mut bench = Bench::new(variant);
    bench.start();
    bench.w(0x500, 0);
    bench.w(0x500, 0x0088_0062);
    bench
}

#[test]
fn rcar_appends_the_sheet_s_vectors() {
    let ip = "45000023000100004011F775C0A80101C0A8010203E807D0000F0BD168656C6C6F2121";
    for variant in AVB {
        for (data, trailer) in
            [("0001F203F4F5F6F7", "DDF2"), ("0001F203F4F5F6", "DCFB"), (ip, "7C8B")]
        {
            let mut bench = rcar(variant);
            let mut sent = frame(MAC, 14);
            sent.extend(hex(data));
            // Padding is summed too, and being zero changes nothing.
            let stored = receive(&mut bench, &sent);
            assert_eq!(stored.len(), 62);
            assert_eq!(stored[60..], hex(trailer), "{data}");
        }
    }
}

#[test]
fn rcar_appends_to_every_frame_while_on_and_to_none_while_off() {
    let mut bench = rcar(Gen3);
    let odd = frame(MAC, 301);
    let stored = receive(&mut bench, &odd);
    assert_eq!(stored[..301], odd);
    assert_eq!(stored[301..], sum(&odd[14..]).to_be_bytes(), "at an odd address");
    for ecmr in [0x0088_0000, 0x0008_0000, 0x0008_0062] {
        bench.w(0x500, ecmr);
    }
    assert_eq!(receive(&mut bench, &odd), odd);
    assert_eq!(bench.ravb.counters().violations, 0);
    bench.w(0x500, 0x0088_0062);
    assert_eq!(bench.ravb.counters().violations, 1, "not with TE and RE set (5.1)");
}

#[test]
fn frames_in_the_fifo_keep_the_format_they_were_received_with() {
    let mut bench = rcar(Gen3);
    bench.faults(|f| f.rx_late = std::time::Duration::from_millis(5));
    bench.rx_ring(&[2046; 4]);
    bench.wire(&frame(MAC, 100));
    assert_eq!(bench.r(0x00c) >> 20 & 1, 1, "RPO");
    bench.w(0x500, 0);
    bench.w(0x500, 0x0008_0062);
    bench.later(6);
    assert_eq!(bench.r(0x00c) >> 20 & 1, 0);
    assert_eq!(bench.rx_word(0), 0x7000_0066, "100 and 2");
}

fn toe(faults: &str) -> Bench {
    let mut bench = Bench::with(GbEth, faults);
    bench.start();
    bench.w(0x800, 0);
    bench.w(0x804, 0x0f70_0071);
    bench.w(0x808, 0x0f70_0071);
    bench.w(0x800, 0x30);
    bench
}

/// The four bytes behind a received frame: header result, transport result.
fn results(bench: &mut Bench, frame: &[u8]) -> [u16; 2] {
    let stored = receive(bench, frame);
    let at = stored.len() - 4;
    [0, 2].map(|i| u16::from_le_bytes([stored[at + i], stored[at + i + 1]]))
}

fn udp_with(change: impl FnOnce(&mut Vec<u8>)) -> Vec<u8> {
    let mut frame = udp();
    change(&mut frame);
    frame
}

/// Corrects the IPv4 header's sum.
fn ip_sum(frame: &mut [u8]) {
    let header = 14..14 + usize::from(frame[14] & 15) * 4;
    frame[24..26].fill(0);
    let value = !sum(&frame[header]);
    frame[24..26].copy_from_slice(&value.to_be_bytes());
}

#[test]
fn gbeth_tells_right_from_wrong_and_from_unsupported() {
    let mut bench = toe("");
    assert_eq!(results(&mut bench, &udp()), [0, 0]);
    let tagged = udp_with(|f| drop(f.splice(12..12, [0x81, 0, 0, 5])));
    assert_eq!(results(&mut bench, &tagged), [0, 0], "one tag is passed");
    let twice = udp_with(|f| drop(f.splice(12..12, [0x81, 0, 0, 5, 0x81, 0, 0, 6])));
    assert_eq!(results(&mut bench, &twice), [0xffff; 2], "two are not");
    let [header, transport] = results(&mut bench, &udp_with(|f| f[45] ^= 1));
    assert!(header == 0 && transport != 0 && transport != 0xffff);
    let [header, _] = results(&mut bench, &udp_with(|f| f[22] = 9));
    assert!(header != 0 && header != 0xffff);
    assert_eq!(results(&mut bench, &frame(MAC, 60)), [0xffff; 2], "no IP");
    let fragment = udp_with(|f| {
        f[20] = 0x20;
        ip_sum(f);
    });
    assert_eq!(results(&mut bench, &fragment), [0, 0xffff]);
    let none = udp_with(|f| f[40..42].fill(0));
    assert_eq!(results(&mut bench, &none), [0, 0xffff], "no checksum to check");
    bench.faults(|f| f.zero_udp_is_right = true);
    assert_eq!(results(&mut bench, &none), [0, 0]);
    let other = udp_with(|f| {
        f[23] = 99;
        ip_sum(f);
    });
    assert_eq!(results(&mut bench, &other), [0, 0xffff]);
    // Classes switched off say "unsupported"; the bytes are there all the same. (5.2)
    bench.w(0x800, 0x10);
    bench.w(0x808, 0);
    bench.w(0x800, 0x30);
    assert_eq!(results(&mut bench, &udp()), [0xffff; 2]);
    bench.faults(|f| f.no_idle_trailer = true);
    assert_eq!(receive(&mut bench, &udp()).len(), 60);
}

/// An IPv6 frame with extension headers, and a right checksum.
fn ipv6(headers: &[u8], transport: u8, payload: &[u8]) -> Vec<u8> {
    let mut extensions = Vec::new();
    for (i, _) in headers.iter().enumerate() {
        let next = headers.get(i + 1).copied().unwrap_or(transport);
        extensions.extend([next, if headers[i] == 51 { 1 } else { 0 }, 0, 0, 0, 0, 0, 0]);
        extensions.extend(if headers[i] == 51 { vec![0; 4] } else { vec![] });
    }
    let mut frame = [&MAC[..], &PEER, &[0x86, 0xdd, 0x60, 0, 0, 0]].concat();
    frame.extend(((extensions.len() + payload.len()) as u16).to_be_bytes());
    frame.extend([headers.first().copied().unwrap_or(transport), 64]);
    frame.extend((0..32).map(|i| i * 7 + 1));
    frame.extend(extensions);
    let at = frame.len();
    frame.extend(payload);
    let field = at + field(transport);
    frame[field..field + 2].fill(0);
    let value = right(&frame, at, transport, 22..54);
    frame[field..field + 2].copy_from_slice(&value.to_be_bytes());
    frame
}

fn field(transport: u8) -> usize {
    match transport {
        6 => 16,
        17 => 6,
        _ => 2,
    }
}

/// The right checksum of the transport at `at`, whose field holds zero.
fn right(frame: &[u8], at: usize, transport: u8, addresses: std::ops::Range<usize>) -> u16 {
    let mut covered = frame[addresses].to_vec();
    covered.extend([0, transport]);
    covered.extend(((frame.len() - at) as u16).to_be_bytes());
    if transport == 1 {
        covered.clear();
    }
    covered.extend(&frame[at..]);
    match !sum(&covered) {
        0 if transport == 17 => 0xffff,
        value => value,
    }
}

#[test]
fn extension_headers_need_their_bits() {
    let segment = [0x12; 40];
    for headers in [&[][..], &[0], &[43], &[60], &[51], &[0, 43, 51, 60]] {
        let frame = ipv6(headers, 6, &segment);
        let mut bench = toe("");
        assert_eq!(results(&mut bench, &frame), [0xffff, 0], "{headers:?}");
        bench.w(0x800, 0x10);
        bench.w(0x808, 0x0070_0070);
        bench.w(0x800, 0x30);
        let wanted = if headers.is_empty() { 0 } else { 0xffff };
        assert_eq!(results(&mut bench, &frame), [0xffff, wanted], "{headers:?}");
    }
}

#[test]
fn transmit_replaces_the_field_by_the_sheet_s_example() {
    for seed in [0x8374u16, 0x0bd1] {
        let mut bench = toe("");
        let seeded = udp_with(|f| f[40..42].copy_from_slice(&seed.to_be_bytes()));
        let sent = bench.send(&seeded);
        assert_eq!(sent[0][..49], udp());
        assert_eq!(bench.ravb.counters().tx_odd_seeds, 0);
    }
    let mut bench = toe("");
    let zero = udp_with(|f| f[40..42].fill(0));
    assert_eq!(bench.send(&zero)[0][40..42], [0, 0], "zero stays (5.3)");
    bench.send(&udp_with(|f| f[40] = 0x77));
    assert_eq!(bench.ravb.counters().tx_odd_seeds, 1);
    let mut bench = toe("seeded-checksum");
    let seeded = udp_with(|f| f[40..42].copy_from_slice(&[0x83, 0x74]));
    assert_eq!(bench.send(&seeded)[0][40..42], [0x0b, 0xd1]);
}

#[test]
fn what_the_engine_does_not_know_leaves_unchanged() {
    let mut bench = toe("");
    bench.w(0x800, 0x20);
    bench.w(0x804, 0x0030_0030);
    bench.w(0x800, 0x30);
    for change in [
        |f: &mut Vec<u8>| f[20] = 0x20,
        |f: &mut Vec<u8>| f[23] = 99,
        |f: &mut Vec<u8>| f[14] = 0x46,
        |f: &mut Vec<u8>| drop(f.splice(12..12, [0x88, 0xa8, 0, 5])),
    ] {
        let mut frame = udp_with(change);
        frame[40] ^= 0xff;
        let sent = bench.send(&frame);
        assert_eq!(sent[0][..frame.len()], frame);
    }
    assert_eq!(bench.ravb.counters().tx_checksums, 0);
}

proptest! {
    #[test]
    fn both_engines_agree_with_a_sum_made_here(
        v6 in any::<bool>(),
        kind in 0usize..3,
        payload in proptest::collection::vec(any::<u8>(), 20..1400),
        seed in any::<u16>(),
        flip in any::<(prop::sample::Index, u8)>(),
    ) {
        let transport = if v6 { [6, 17, 58][kind] } else { [6, 17, 1][kind] };
        let mut frame = if v6 { ipv6(&[], transport, &payload) } else {
            let mut frame = udp();
            frame.truncate(34);
            frame.extend(&payload);
            let total = (frame.len() - 14) as u16;
            frame[16..18].copy_from_slice(&total.to_be_bytes());
            frame[23] = transport;
            ip_sum(&mut frame);
            frame
        };
        let at = if v6 { 54 } else { 34 };
        let place = at + field(transport);
        frame[place..place + 2].fill(0);
        let wanted = right(&frame, at, transport, if v6 { 22..54 } else { 26..34 });
        let seed = seed.max(1);
        frame[place..place + 2].copy_from_slice(&seed.to_be_bytes());
        let mut bench = toe("");
        let sent = bench.send(&frame).remove(0);
        frame[place..place + 2].copy_from_slice(&wanted.to_be_bytes());
        prop_assert_eq!(&sent[..frame.len()], &frame[..]);
        prop_assert_eq!(results(&mut bench, &frame)[1], 0);
        // Any byte of the transport changed, but not to the other zero.
        let (index, mask) = flip;
        let byte = at + index.index(payload.len());
        frame[byte] ^= mask.max(1);
        let covered = byte != place && byte != place + 1;
        if covered {
            let result = results(&mut bench, &frame)[1];
            prop_assert!(result != 0 && result != 0xffff, "{result:#x}");
        }
    }
}

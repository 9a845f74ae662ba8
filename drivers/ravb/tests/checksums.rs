//! The sheet's checksum vectors, all of them, through the card and as the card leaves them in memory.
//! `docs/hardware/ravb.md`, section 5.

mod rig;

use rig::{AVB, MAC, PEER, Recipe, Rig, proves, request};
use trireme_nic::{ReceiveChecksum, checksum};
use trireme_ravb::Variant;

const VERIFIED: ReceiveChecksum = ReceiveChecksum::Verified { ip: false, transport: true };

fn hex(text: &str) -> Vec<u8> {
    let digits: Vec<u8> = text.chars().filter_map(|c| c.to_digit(16)).map(|d| d as u8).collect();
    digits.chunks(2).map(|pair| pair[0] << 4 | pair[1]).collect()
}

/// The table of [RV 5.1]: bytes after the header, and the trailer in memory.
fn vectors() -> Vec<(Vec<u8>, [u8; 2])> {
    let sheet = include_str!("../../../docs/hardware/ravb.md");
    let table = sheet.split("Test vectors (bytes after the 14-byte header").nth(1).unwrap();
    let table = table.split("\n\nRuntime toggle").next().unwrap();
    let rows: Vec<_> = table
        .lines()
        .filter(|line| line.starts_with("| ") && !line.starts_with("| Data"))
        .map(|line| {
            let cells: Vec<&str> = line.split('|').map(str::trim).collect();
            // Behind the bytes of the third stands what they are.
            let bytes = hex(cells[1].split(" (").next().unwrap());
            (bytes, hex(cells[2]).try_into().unwrap())
        })
        .collect();
    assert_eq!(rows.iter().map(|(bytes, _)| bytes.len()).collect::<Vec<_>>(), [8, 7, 35]);
    rows
}

fn header(kind: u16) -> Vec<u8> {
    [&MAC[..], &PEER, &kind.to_be_bytes()].concat()
}

/// As the card makes them: on the wire every frame has 60 bytes, and zeroes behind a packet change nothing.
#[test]
fn r_car_s_vectors_come_through_the_card() {
    for variant in AVB {
        for (data, trailer) in vectors() {
            let mut rig = Rig::new(variant);
            let sent = [header(0x0800), data.clone()].concat();
            rig.wire(&sent);
            let (received, said) = rig.serve().remove(0);
            assert_eq!(received.len(), 60);
            assert_eq!(received[..sent.len()], sent);
            assert!(received[sent.len()..].iter().all(|&byte| byte == 0));
            let sum = u16::from_be_bytes(trailer);
            assert_eq!(said, ReceiveChecksum::Complete(sum), "{variant:?} {data:02x?}");
            if data.len() == 35 {
                // A right datagram: the sum of what the UDP checksum covers, by what is known of the headers.
                let pseudo = u32::from(checksum::sum(&data[12..20])) + 17 + 15;
                let payload = checksum::add(sum, !checksum::sum(&data[..20]));
                assert_eq!(checksum::fold(u64::from(pseudo) + u64::from(payload)), 0xffff);
            }
        }
    }
}

/// As they lie in memory, the odd ones' trailer at an odd address.
#[test]
fn r_car_s_vectors_are_read_where_they_lie() {
    for variant in AVB {
        let mut rig = Rig::new(variant);
        let mut slot = 0;
        for (data, trailer) in vectors() {
            // "With or without 11 zero pad bytes"; all may have them.
            for padding in [0, 11] {
                let frame = [header(0x0800), data.clone(), vec![0; padding]].concat();
                rig.store(slot, 7, 0, &[&frame[..], &trailer].concat());
                slot += 1;
                let said = ReceiveChecksum::Complete(u16::from_be_bytes(trailer));
                assert_eq!(rig.serve(), [(frame, said)], "{variant:?}");
            }
        }
    }
}

/// 192.168.1.1:1000 to 192.168.1.2:2000, "hello!!": seed 8374, checksum 0bd1. [RV 5.3]
#[test]
fn gbeth_s_datagram_is_seeded_and_leaves_with_its_sum() {
    let data = vectors().remove(2).0;
    let right = [header(0x0800), data].concat();
    assert_eq!(right[40..42], [0x0b, 0xd1]);
    let mut rig = Rig::new(Variant::Gbeth);
    assert!(request(&rig.driver, &right).transport_checksum);
    rig.send(&right);
    // What the card was given.
    let descriptor = rig.entry(0).1;
    assert_eq!(rig.word(descriptor) & 0xfff, 60);
    let field = rig.word(rig.word(descriptor + 4) + 40);
    assert_eq!(field.to_le_bytes()[..2], [0x83, 0x74]);
    // What left.
    let mut padded = right.clone();
    padded.resize(60, 0);
    assert_eq!(rig.sent(), [padded.clone()]);
    assert_eq!(rig.seen().tx_odd_seeds, 0);
    // And what comes back of it.
    rig.serve();
    rig.wire(&right);
    assert_eq!(rig.serve(), [(padded, VERIFIED)]);
}

/// The table of [RV 5.2]: what the engine's two results mean, by who is asked.
#[test]
fn gbeth_s_verdicts_are_those_of_the_table() {
    let plain = |protocol| Recipe::plain(protocol, 200);
    let six = |protocol| Recipe { v6: true, ..plain(protocol) };
    let tagged = |recipe: Recipe, tag| Recipe { tag: Some(tag), ..recipe };
    for (recipe, settled) in [
        (plain(6), true),
        (plain(17), true),
        (six(6), true),
        (six(17), true),
        (tagged(plain(6), 0x8100), true),
        (tagged(six(17), 0x8100), true),
        // Not supported: another tag, a fragment, another protocol.
        (tagged(plain(6), 0x88a8), false),
        (Recipe { fragment: true, ..plain(17) }, false),
        (plain(132), false),
        (six(132), false),
    ] {
        let mut rig = Rig::new(Variant::Gbeth);
        let right = recipe.make();
        rig.wire(&right);
        let expected = if settled { VERIFIED } else { ReceiveChecksum::Unverified };
        assert_eq!(rig.serve(), [(right.clone(), expected)], "{recipe:?}");
        let mut wrong = right.clone();
        wrong[199] ^= 1;
        rig.wire(&wrong);
        let expected = if settled { ReceiveChecksum::Bad } else { ReceiveChecksum::Unverified };
        assert_eq!(rig.serve(), [(wrong, expected)], "{recipe:?}");
    }
    // An IP header that is none: both results say so.
    let mut rig = Rig::new(Variant::Gbeth);
    let mut broken = plain(6).make();
    broken[14] = 0x35;
    rig.wire(&broken);
    assert_eq!(rig.serve(), [(broken, ReceiveChecksum::Unverified)]);
}

/// Zero is stored one way or the other, and both mean the same. [RV 5.1, 10 item 13]
#[test]
fn both_zeroes_of_r_car_s_sum_prove_the_same() {
    for reading in ["", "sum-as-ones"] {
        for variant in AVB {
            let mut rig = Rig::with(variant, reading.parse().unwrap());
            let mut empty = header(0x88b5);
            empty.resize(60, 0);
            rig.wire(&empty);
            let (_, said) = rig.serve().remove(0);
            assert!(proves(&empty, said), "{variant:?} {reading} {said:?}");
        }
    }
}

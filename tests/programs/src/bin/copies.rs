//! Compares the memory functions with byte loops, at every length to 600 and many overlaps.

use std::hint::black_box;

use trireme_test_programs as _;

const LONGEST: usize = 600;
const MARGIN: usize = 80;

fn pattern(seed: usize) -> Vec<u8> {
    (0..LONGEST + 2 * MARGIN).map(|i| (i * 31 + seed * 7 + (i >> 5)) as u8).collect()
}

fn main() {
    for len in 0..LONGEST {
        copy(len);
        fill(len);
        compare(len);
        for shift in [1, 2, 7, 8, 15, 16, 17, 31, 63, 64, 65, 79] {
            overlap(len, MARGIN, MARGIN - shift);
            overlap(len, MARGIN - shift, MARGIN);
        }
    }
    println!("all copies right");
}

fn copy(len: usize) {
    let source = pattern(1);
    let mut target = pattern(2);
    let before = target.clone();
    target[MARGIN..MARGIN + len].copy_from_slice(black_box(&source[3..3 + len]));
    for at in 0..target.len() {
        let inside = (MARGIN..MARGIN + len).contains(&at);
        let want = if inside { source[at - MARGIN + 3] } else { before[at] };
        assert_eq!(target[at], want, "copy of {len}, byte {at}");
    }
}

fn overlap(len: usize, from: usize, to: usize) {
    let mut bytes = pattern(3);
    let before = bytes.clone();
    black_box(&mut bytes).copy_within(from..from + len, to);
    for at in 0..bytes.len() {
        let inside = (to..to + len).contains(&at);
        let want = if inside { before[at - to + from] } else { before[at] };
        assert_eq!(bytes[at], want, "move of {len} from {from} to {to}, byte {at}");
    }
}

fn fill(len: usize) {
    // Zero has a way of its own on some architectures.
    for value in [0xc3, 0] {
        let mut bytes = pattern(4);
        let before = bytes.clone();
        black_box(&mut bytes)[5..5 + len].fill(black_box(value));
        for at in 0..bytes.len() {
            let want = if (5..5 + len).contains(&at) { value } else { before[at] };
            assert_eq!(bytes[at], want, "fill of {len} with {value}, byte {at}");
        }
    }
}

fn compare(len: usize) {
    let one = pattern(5);
    let mut other = one.clone();
    assert!(one[..len] == black_box(&other)[..len]);
    for at in [0, len / 2, len.saturating_sub(1)] {
        if at < len {
            other[at] = other[at].wrapping_add(1);
            let want = one[at].cmp(&other[at]);
            assert_eq!(one[..len].cmp(&black_box(&other)[..len]), want, "{len}, {at}");
            other[at] = one[at];
        }
    }
}

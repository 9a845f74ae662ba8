//! Nothing a guest or a wire does may panic the model, keep it busy, or make it touch memory it was not
//! given.

mod bench;

use bench::frames::{Spec, raw};
use bench::{BASE, Bench, FREE_RING, MAC, RX_BUFFERS};
use proptest::prelude::*;
use std::time::Duration;
use trireme_gemini_model::BoardKind;
use trireme_vfio::Device;

/// What guest, wire and time can do.
#[derive(Clone, Debug)]
enum Action {
    Read(u8, u16, u8),
    Write(u8, u16, u8, u32),
    /// A register that steers the engines, by index, with a value that mostly leads into memory.
    Steer(u8, u32),
    /// Four words of a transmit descriptor, with an address mostly in memory, and the doorbell.
    Transmit(bool, u8, [u32; 3], u16),
    Doorbell(bool, u16),
    Start,
    Frame(u8, u8, u16),
    Tcp(u8, u16),
    Cable(u8, bool),
    Later(u16),
}

fn action() -> impl Strategy<Value = Action> {
    let any_words = (any::<u32>(), any::<u32>(), any::<u32>()).prop_map(|(a, b, c)| [a, b, c]);
    prop_oneof![
        2 => (0u8..3, any::<u16>(), 0u8..4).prop_map(|(b, o, w)| Action::Read(b, o, w)),
        3 => (0u8..3, any::<u16>(), 0u8..4, any::<u32>()).prop_map(|(b, o, w, v)| Action::Write(b, o, w, v)),
        2 => (any::<u8>(), any::<u32>()).prop_map(|(which, v)| Action::Steer(which, v)),
        4 => (any::<bool>(), any::<u8>(), any_words, any::<u16>())
            .prop_map(|(port, slot, words, at)| Action::Transmit(port, slot, words, at)),
        2 => (any::<bool>(), any::<u16>()).prop_map(|(port, to)| Action::Doorbell(port, to)),
        2 => Just(Action::Start),
        3 => (any::<u8>(), any::<u8>(), 0u16..12_000).prop_map(|(wire, to, len)| Action::Frame(wire, to, len)),
        2 => (any::<u8>(), 0u16..3000).prop_map(|(kind, len)| Action::Tcp(kind, len)),
        1 => (any::<u8>(), any::<bool>()).prop_map(|(wire, plugged)| Action::Cable(wire, plugged)),
        1 => any::<u16>().prop_map(Action::Later),
    ]
}

fn act(bench: &mut Bench, action: &Action) {
    let width = |offset: u16, width: u8, bar: u8| {
        let limit = if bar == 0 { 0xffff } else { 0xfff };
        let len = 1usize << (width % 3);
        ((u64::from(offset) & limit) & !(len as u64 - 1), len)
    };
    match *action {
        Action::Read(bar, offset, w) => {
            let (offset, len) = width(offset, w, bar);
            bench.read(bar.into(), offset, len);
        }
        Action::Write(bar, offset, w, value) => {
            let (offset, len) = width(offset, w, bar);
            bench.write(bar.into(), offset, len, value);
        }
        Action::Steer(which, value) => {
            const REGISTERS: [u64; 16] = [
                0x04, 0x10, 0x14, 0x70, 0x2000, 0x2004, 0x8000, 0x8050, 0x8008, 0xa00c, 0xa018,
                0xa020, 0xc050, 0xe018, 0x2008, 0xa02c,
            ];
            let value = if value & 0x100 == 0 { BASE as u32 + (value & 0x7_ffff) } else { value };
            bench.w32(REGISTERS[usize::from(which) % 16], value);
        }
        Action::Transmit(port, slot, [word0, word1, word3], at) => {
            // Mostly one-buffer frames whose sizes agree, so that the unit sees many.
            let size = if word0 & 3 == 0 { word0 } else { word1 & 0xffff };
            let marks = if word3 & 7 == 0 { word3 } else { word3 | 0xc000_0000 };
            let address = BASE as u32 + u32::from(at);
            let port = usize::from(port);
            let words = [size, word1, address, marks];
            bench.ram.descriptor(Bench::tx_slot(port, slot.into()), words);
            bench.w16(0x800e + 0x4000 * port as u64, u16::from(slot) + 1);
        }
        Action::Doorbell(port, to) => bench.w16(0x800e + 0x4000 * u64::from(port), to),
        Action::Start => bench.start(),
        Action::Frame(wire, to, len) => {
            let to = if to & 1 == 0 { MAC } else { [0xff; 6] };
            let mut frame = raw(to, len.into());
            frame.truncate(len.into());
            bench.wire(usize::from(wire % 7), &frame);
        }
        Action::Tcp(kind, len) => {
            let spec = Spec { v6: kind & 1 != 0, udp: kind & 2 != 0, ..Spec::tcp(len.into()) };
            let mut frame = spec.build();
            frame[..6].copy_from_slice(&MAC);
            let at = usize::from(kind) * 7 % frame.len();
            frame[at] ^= kind;
            bench.wire(0, &frame);
        }
        Action::Cable(wire, plugged) => {
            bench.gemini.board_mut().set_cable((wire % 8).into(), plugged)
        }
        Action::Later(us) => drop(bench.later(Duration::from_micros(us.into()))),
    }
}

const BOARDS: [BoardKind; 4] =
    [BoardKind::Fixed, BoardKind::Dns313, BoardKind::Wbd222, BoardKind::Dir685];

const FAULTS: &str = "tiny-fragments,short-ip-length,runt-storm,mib-nonsense,narrow-mib,late-status,paced,\
    tcp-hang=50,tx-hang=50,rx-hang=50,tx-error=5,tx-derr=5,rx-derr=5,rx-perr=5,rx-crc=5,rx-runt=5,rx-null=5,\
    rx-overrun=5,link-flap=3";

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn any_guest_is_survived(
        board in 0usize..4,
        faulty in any::<bool>(),
        actions in proptest::collection::vec(action(), 1..120),
    ) {
        let mut bench = Bench::with(BOARDS[board], if faulty { FAULTS } else { "" });
        bench.start();
        for action in &actions {
            act(&mut bench, action);
            // Bounded work: a portion of 256 requests per port, none cut to less than a byte a frame.
            prop_assert!(bench.sent().len() <= 4096);
        }
        bench.gemini.reset();
        prop_assert_eq!(bench.r32(0xa018), 3);
    }

    #[test]
    fn received_bytes_stay_within_the_buffers(
        size in 3u32..3000,
        frames in proptest::collection::vec((any::<u8>(), 0u16..9000), 1..40),
    ) {
        let buffers = 60;
        let mut bench = Bench::new();
        bench.start_with(buffers, size);
        // Every second buffer is given, the others must stay as they were.
        for i in 0..buffers {
            let address = RX_BUFFERS + 2 * u64::from(size) * i;
            bench.ram.descriptor(FREE_RING + 16 * i, [0, 0, address as u32, 0]);
        }
        bench.w32(0xa018, 0x3f96_0500);
        for (to, len) in frames {
            act(&mut bench, &Action::Frame(0, to, len));
        }
        let end = RX_BUFFERS + 2 * u64::from(size) * buffers;
        if end <= BASE + 0x8_0000 {
            prop_assert!(bench.ram.outside.borrow().is_empty());
            for i in 0..buffers {
                let gap = RX_BUFFERS + u64::from(size) * (2 * i + 1);
                prop_assert!(bench.ram.get(gap, size as usize).iter().all(|&byte| byte == 0xa5));
            }
        }
        let written = bench.r32(0x14) & 0xffff;
        prop_assert_eq!(bench.r32(0x2004) >> 16, written, "one descriptor for each buffer");
    }
}

#[test]
fn a_ring_that_is_never_empty_is_served_in_portions() {
    let mut bench = Bench::new();
    bench.start();
    bench.w32(0x8000, 0x8002_3c1c);
    bench.w32(0x8050, BASE as u32 | 12);
    for i in 0..1000 {
        bench.ram.descriptor(BASE + 16 * i, [60, 60, RX_BUFFERS as u32, 0xc000_0000]);
    }
    bench.w16(0x800e, 1000);
    bench.w32(0x8000, 0xc002_3c1c);
    assert_eq!(bench.sent().len(), 256);
    assert!(bench.later(Duration::ZERO).is_some());
    for _ in 0..2 {
        bench.later(Duration::ZERO);
    }
    assert_eq!(bench.sent().len(), 744);
    assert_eq!(bench.later(Duration::ZERO), None);
}

#[test]
fn a_chain_without_an_end_is_an_error_not_a_loop() {
    let mut bench = Bench::new();
    bench.start();
    for i in 0..256 {
        let first = if i == 0 { 1 << 31 } else { 0 };
        bench.ram.descriptor(BASE + 16 * i, [1, 1, RX_BUFFERS as u32, first]);
    }
    bench.w16(0x800e, 255);
    assert!(bench.sent().is_empty());
    // 63 at once, as many as the count can say, then one by one for want of a beginning.
    assert_eq!(bench.ram.words(BASE)[0], 63 << 16 | 1 | 1 << 29);
    assert_eq!(bench.r16(0x800c), 255);
}

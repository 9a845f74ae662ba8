//! Nothing a guest or a wire does may panic the model, keep it busy, or make it touch memory it was
//! not given.

mod bench;

use bench::{BASE, Bench, MAC, RX_BUFFERS, RX_RING, frame};
use proptest::prelude::*;
use std::time::Duration;
use trireme_rhine_model::{Chip, Faults};
use trireme_vfio::Device;

/// What guest, wire and time can do.
#[derive(Clone, Debug)]
enum Action {
    Read(u8, u8),
    Write(u8, u8, u32),
    /// A ring pointer into our memory, so that descriptors are found there.
    Point(bool, u16),
    /// Four words of a descriptor somewhere in memory, with addresses mostly inside it.
    Descriptor(u16, u32, u32, u16, u16),
    Start,
    Frame(u8, u16),
    Cable(bool),
    Later(u16),
    Config(u8, u8),
}

fn action() -> impl Strategy<Value = Action> {
    let width = 0u8..3;
    prop_oneof![
        2 => (any::<u8>(), width.clone()).prop_map(|(o, w)| Action::Read(o, w)),
        4 => (any::<u8>(), width, any::<u32>()).prop_map(|(o, w, v)| Action::Write(o, w, v)),
        1 => (any::<bool>(), any::<u16>()).prop_map(|(rx, at)| Action::Point(rx, at)),
        4 => (any::<u16>(), any::<u32>(), any::<u32>(), any::<u16>(), any::<u16>())
            .prop_map(|(at, a, b, buffer, next)| Action::Descriptor(at, a, b, buffer, next)),
        3 => Just(Action::Start),
        3 => (any::<u8>(), 0u16..3000).prop_map(|(kind, len)| Action::Frame(kind, len)),
        1 => any::<bool>().prop_map(Action::Cable),
        1 => any::<u16>().prop_map(Action::Later),
        1 => (0x40u8.., any::<u8>()).prop_map(|(o, v)| Action::Config(o, v)),
    ]
}

fn act(bench: &mut Bench, action: &Action) {
    match *action {
        Action::Read(offset, width) => match width {
            0 => drop(bench.r8(offset.into()).to_string()),
            1 => drop(bench.r16((offset & !1).into()).to_string()),
            _ => drop(bench.r32((offset & !3).into()).to_string()),
        },
        Action::Write(offset, width, value) => match width {
            0 => bench.w8(offset.into(), value as u8),
            1 => bench.w16((offset & !1).into(), value as u16),
            _ => bench.w32((offset & !3).into(), value),
        },
        Action::Point(rx, at) => {
            bench.w32(if rx { 0x18 } else { 0x1c }, BASE as u32 + u32::from(at & !15));
        }
        Action::Descriptor(at, owner, control, buffer, next) => {
            let address = |at: u16| BASE as u32 + u32::from(at);
            let words = [owner | 1 << 31, control, address(buffer), address(next & 0x1ff0)];
            bench.ram.descriptor(BASE + u64::from(at & 0x1ff0), words);
        }
        Action::Start => {
            bench.w16(0x08, 0x0c1a);
            bench.w8(0x06, 0x1f);
            bench.w8(0x09, 0x6c);
        }
        Action::Frame(kind, len) => {
            let to = if kind & 1 == 0 { MAC } else { [0xff; 6] };
            let mut data = frame(to, len.into());
            if kind & 2 != 0 && data.len() > 40 {
                data[12..15].copy_from_slice(&[8, 0, 0x45 + (kind >> 4)]);
                data[23] = if kind & 4 == 0 { 6 } else { 17 };
            }
            if kind & 8 != 0 && data.len() > 16 {
                data[12..14].copy_from_slice(&[0x81, 0]);
            }
            data.truncate(len.into());
            bench.wire(&data);
        }
        Action::Cable(plugged) => bench.rhine.set_cable(plugged),
        Action::Later(us) => bench.later(Duration::from_micros(us.into())),
        Action::Config(offset, value) => bench.rhine.config_written(offset, value),
    }
}

const CHIPS: [Chip; 5] = [Chip::VT86C100A, Chip::VT6102, Chip::VT8235, Chip::VT6105, Chip::VT6105M];

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn any_guest_is_survived(
        chip in 0usize..5,
        faulty in any::<bool>(),
        actions in proptest::collection::vec(action(), 1..150),
    ) {
        let faults = match faulty {
            false => Faults::default(),
            true => "tx-underrun=5,tx-abort=5,tx-race=5,tx-bad-link=5,tx-unexplained=5,pci-error=5,\
                     tx-stall=5,rx-crc=5,rx-runt=5,rx-overflow=5,rx-wedge=20,rx-bad-length=5,\
                     posted-writes,slow-eeprom=2,reset=3,link-flap=3,spurious=2,paced"
                .parse().unwrap(),
        };
        let mut bench = Bench::with(CHIPS[chip], faults);
        bench.start();
        for action in &actions {
            act(&mut bench, action);
            // Bounded work: what one action may send is bounded by the engine's portion.
            prop_assert!(bench.sent().len() <= 300);
        }
        bench.rhine.reset();
        prop_assert_eq!(bench.r16(0x08), 0x0804);
    }

    #[test]
    fn received_bytes_stay_within_the_buffers(
        chip in 0usize..5,
        sizes in proptest::collection::vec(1u32..2047, 1..16),
        frames in proptest::collection::vec((any::<u8>(), 0u16..2100), 1..40),
        tagging in any::<bool>(),
    ) {
        let mut bench = Bench::new(CHIPS[chip]);
        bench.rx_ring(&sizes);
        bench.start();
        bench.w8(0x07, if tagging { 0x21 } else { 0x20 });
        for (kind, len) in frames {
            act(&mut bench, &Action::Frame(kind, len));
        }
        prop_assert!(bench.ram.outside.borrow().is_empty());
        for (i, size) in (0u64..).zip(&sizes) {
            let gap = bench.ram.get(RX_BUFFERS + 2048 * i + u64::from(*size), 2048 - *size as usize);
            prop_assert!(gap.iter().all(|&byte| byte == 0xa5), "buffer {} of {}", i, size);
            let words = [bench.ram.word(RX_RING + 16 * i + 4), bench.ram.word(RX_RING + 16 * i + 8)];
            prop_assert_eq!(words[0] & 0xffff, *size);
            prop_assert_eq!(u64::from(words[1]), RX_BUFFERS + 2048 * i);
        }
    }
}

#[test]
fn a_ring_that_is_never_empty_is_served_in_portions() {
    // One descriptor pointing at itself, whose buffer is the descriptor: sending restores nothing,
    // so hand it back over and over from "another CPU": here, a frame of 60 bytes read from it.
    let mut bench = Bench::new(Chip::VT6105M);
    for i in 0..0x100u64 {
        let at = BASE + 16 * i;
        let next = BASE + 16 * ((i + 1) % 0x100);
        bench.ram.descriptor(at, [1 << 31, 0x00e0_803c, BASE as u32 + 0x1_0000, next as u32]);
    }
    bench.start();
    bench.w8(0x09, 0x2c);
    assert_eq!(bench.sent().len(), 256);
    bench.later(Duration::ZERO);
    assert!(bench.sent().is_empty());
}

#[test]
fn fragments_without_an_end_are_an_error_not_a_loop() {
    let mut bench = Bench::new(Chip::VT6105M);
    // First buffer, then an endless chain of one-byte middles.
    bench.ram.descriptor(BASE, [1 << 31, 0x0020_8001, BASE as u32 + 0x1_0000, BASE as u32 + 16]);
    bench.ram.descriptor(BASE + 16, [0, 0x0000_8001, BASE as u32 + 0x1_0000, BASE as u32 + 16]);
    bench.start();
    bench.w8(0x09, 0x2c);
    assert!(bench.sent().is_empty());
    assert_eq!(bench.ram.word(BASE), 0x9000);
    assert_eq!(bench.r16(0x0c), 0x0018);
}

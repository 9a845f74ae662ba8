//! Nothing a guest or a wire does may panic the model, keep it busy, or make it touch memory it was
//! not given.

mod bench;

use bench::*;
use proptest::prelude::*;
use trireme_vfio::{Context, Device};

/// What guest, wire and time can do.
#[derive(Clone, Debug)]
enum Action {
    Read(u16),
    Write(u16, u32),
    /// An access of any width anywhere, also beyond the block.
    Odd(u64, Vec<u8>, bool),
    /// A descriptor somewhere in memory, pointing mostly into it.
    Descriptor(u16, u32, u32),
    /// An entry of the table, and its load.
    Entry(u8, u8, u16),
    Mode(u8),
    Demand(u8),
    Frame(u8, u16),
    Cable(bool),
    Later(u8),
    Capture,
}

fn action() -> impl Strategy<Value = Action> {
    prop_oneof![
        2 => (0u16..0x400).prop_map(Action::Read),
        4 => (0u16..0x204, any::<u32>()).prop_map(|(at, value)| Action::Write(at, value)),
        1 => (odd_place(), proptest::collection::vec(any::<u8>(), 0..17), any::<bool>())
            .prop_map(|(at, bytes, write)| Action::Odd(at, bytes, write)),
        6 => (0u16..0x400, any::<u32>(), 0u32..0x4_0100)
            .prop_map(|(at, word, to)| Action::Descriptor(at, word, to)),
        2 => (0u8..22, any::<u8>(), 0u16..0x400).prop_map(|(q, kind, at)| Action::Entry(q, kind, at)),
        1 => (0u8..4).prop_map(Action::Mode),
        3 => (0u8..4).prop_map(Action::Demand),
        3 => (any::<u8>(), 0u16..9000).prop_map(|(kind, len)| Action::Frame(kind, len)),
        1 => any::<bool>().prop_map(Action::Cable),
        1 => any::<u8>().prop_map(Action::Later),
        1 => Just(Action::Capture),
    ]
}

fn odd_place() -> impl Strategy<Value = u64> {
    prop_oneof![4 => 0u64..0x1010, 1 => any::<u64>()]
}

fn act(bench: &mut Bench, action: &Action) {
    match *action {
        Action::Odd(at, ref bytes, write) => {
            let context = Context { memory: &bench.ram, now: bench.now };
            if write {
                bench.ravb.write(0, at, bytes, context);
            } else {
                bench.ravb.read(0, at, &mut bytes.clone(), context);
            }
        }
        Action::Read(at) => drop(bench.r(u64::from(at) * 4).to_string()),
        Action::Write(at, value) => bench.w(u64::from(at) * 4, value),
        Action::Descriptor(at, word, to) => {
            bench.ram.put(BASE + 0x1000 + u32::from(at) * 4, &[word, BASE + to]);
        }
        Action::Entry(queue, kind, at) => {
            let word = u32::from(kind) << 24;
            let to = BASE + 0x1000 + u32::from(at) * 4;
            bench.ram.put(TABLE + 8 * u32::from(queue), &[word, to]);
            bench.w(0x004, TABLE);
            bench.w(0x008, 1 << queue);
        }
        Action::Mode(opc) => {
            let ccc = bench.r(0x000) & 0x0001_0080;
            bench.w(0x000, ccc | u32::from(opc));
        }
        Action::Demand(queue) => bench.demand(queue.into()),
        Action::Frame(kind, len) => {
            let to = if kind & 1 == 0 { MAC } else { [0xff; 6] };
            let mut data = frame(to, len.into());
            if kind & 2 != 0 && data.len() > 60 {
                data[12..15].copy_from_slice(&[8, 0, 0x45 + (kind >> 4)]);
                data[23] = if kind & 4 == 0 { 6 } else { 17 };
            } else if kind & 4 != 0 && data.len() > 60 {
                data[12..15].copy_from_slice(&[0x86, 0xdd, 0x60]);
                data[20] = [0, 43, 51, 60, 6, 17, 58, 59][usize::from(kind >> 5)];
            }
            if kind & 8 != 0 && data.len() > 16 {
                data[12..14].copy_from_slice(&[0x81, 0]);
            }
            data.truncate(len.into());
            bench.wire(&data);
        }
        Action::Cable(plugged) => bench.ravb.set_cable(plugged),
        Action::Later(ms) => drop(bench.later(ms.into())),
        Action::Capture => bench.ravb.capture(bench.now),
    }
}

const FAULTS: &str = "slow-mode=3,slow-toe=2,slow-ptp=2,slow-link=5,link-flap=7,spurious=3,tx-stall=5,\
    tx-late=3,tx-queue-error=20,timestamp-overflow=3,rx-late=2,rx-crc=5,rx-phy-error=5,rx-runt=5,\
    rx-residual=5,rx-extension=5,illegal-carrier=5,rx-overflow=9,rx-queue-full=9,rx-cut-chain=5,\
    rx-truncated=5,rx-zero-length=9,rx-bad-length=9,rx-no-interrupt=5,status-everywhere,rx-wrong-sum=5,\
    takes-options,padding-unsupported,seeded-checksum";

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn any_guest_is_survived(
        which in 0usize..3,
        faulty in any::<bool>(),
        actions in proptest::collection::vec(action(), 1..150),
    ) {
        let variant = ALL[which];
        let mut bench = Bench::with(variant, if faulty { FAULTS } else { "" });
        if !faulty {
            bench.start();
            bench.rx_ring(&[500; 16]);
        }
        for action in &actions {
            act(&mut bench, action);
            // Bounded work: what one action may send is bounded by the engine's portion.
            prop_assert!(bench.sent().len() <= 300);
        }
        bench.ravb.reset();
        prop_assert_eq!(bench.r(0x00c), 1);
    }

    #[test]
    fn received_bytes_stay_within_the_buffers(
        which in 0usize..3,
        sizes in proptest::collection::vec(0u32..2047, 1..16),
        frames in proptest::collection::vec((any::<u8>(), 0u16..4100), 1..40),
        sums in any::<bool>(),
    ) {
        let variant = ALL[which];
        let mut bench = Bench::new(variant);
        bench.start();
        bench.rx_ring(&sizes);
        if sums && variant != GbEth {
            bench.w(0x500, 0x0088_0062);
        }
        for (kind, len) in frames {
            act(&mut bench, &Action::Frame(kind, len));
        }
        prop_assert!(bench.ram.outside.borrow().is_empty());
        for (i, size) in (0u32..).zip(&sizes) {
            let rest = bench.ram.get(RX_BUFFERS + 2048 * i + size, 2048 - *size as usize);
            prop_assert!(rest.iter().all(|&byte| byte == 0xa5), "buffer {} of {}", i, size);
            let word = bench.rx_word(i);
            prop_assert!(word & 0xfff <= *size);
            prop_assert_eq!(bench.ram.word(RX_RING + bench.stride() * i + 4), RX_BUFFERS + 2048 * i);
        }
    }
}

#[test]
fn a_ring_that_is_never_empty_is_served_in_portions() {
    let mut bench = Bench::new(Gen3);
    bench.w(0x000, 1);
    bench.start();
    // TSM0: no write-back, so the ring stays full.
    bench.w(0x300, 0x0011_2211);
    bench.ram.put(TX_RING, &[0x7000_003c, TX_BUFFERS, 0x9000_0000, TX_RING]);
    bench.demand(0);
    assert_eq!(bench.sent().len(), 256);
    bench.later(0);
    assert_eq!(bench.sent().len(), 256);
}

#[test]
fn links_without_an_end_are_an_error_not_a_loop() {
    for variant in ALL {
        let mut bench = Bench::new(variant);
        bench.start();
        bench.ram.put(TX_RING, &[0x9000_0000, TX_RING]);
        bench.ram.put(RX_RING, &[0x9000_0000, RX_RING]);
        bench.demand(0);
        bench.wire(&frame(MAC, 60));
        assert_eq!(bench.r(0x35c), 4);
        bench.ram.put(
            TX_RING,
            &[0x5000_0001, TX_BUFFERS, 0x4000_0001, TX_BUFFERS, 0x9000_0000, TX_RING + 8],
        );
        bench.w(0x008, 1);
        bench.demand(0);
        assert!(bench.sent().is_empty());
        assert_eq!(bench.r(0x304) & 1, 0);
    }
}

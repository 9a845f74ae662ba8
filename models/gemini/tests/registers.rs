//! Registers: what they read, how they take accesses, interrupt routing, resets. Offsets are the sheet's.

mod bench;

use bench::{Bench, MAC};
use trireme_gemini_model::BoardKind;
use trireme_vfio::{Device, PowerState};

#[test]
fn identification_is_there_at_once() {
    let mut bench = Bench::new();
    assert_ne!(bench.r32(0), 0, "TOE_VERSION");
    assert_eq!(bench.read(1, 0, 4) >> 8, 0x3516, "WORD_ID");
    let straps = bench.read(1, 4, 4);
    assert_eq!((straps >> 15 & 7, straps >> 18 & 3), (2, 3), "AHB 150 MHz, CPU twice that");
}

#[test]
fn boot_loader_left_the_station_addresses() {
    let mut bench = Bench::new();
    assert_eq!(bench.r32(0xa000), u32::from_le_bytes([MAC[0], MAC[1], MAC[2], MAC[3]]));
    assert_eq!(bench.r32(0xa004), u32::from_le_bytes([MAC[4], MAC[5], 0, 0]));
    assert_eq!(bench.r32(0xe004), u32::from_le_bytes([MAC[4], MAC[5] ^ 1, 0, 0]));
    // The vendor's test for a port. [4.4]
    for add2 in [0xa008, 0xe008] {
        bench.w32(add2, 0x55aa_55aa);
        assert_eq!(bench.r32(add2), 0x55aa_55aa);
    }
}

#[test]
fn pointer_halves_are_independent() {
    let mut bench = Bench::new();
    // SW TXQ and free queue: software has the upper half; the lower is hardware's. [4.7]
    for pointer in [0x0014, 0x800c, 0x8020, 0xc00c] {
        bench.w16(pointer + 2, 0x0123);
        assert_eq!(bench.r32(pointer), 0x0123_0000);
        bench.w16(pointer, 0x0456);
        assert_eq!(bench.r32(pointer), 0x0123_0000, "{pointer:#x} is hardware's");
        bench.w32(pointer, 0);
        assert_eq!(bench.r32(pointer), 0);
    }
    // Queue headers: both halves.
    bench.w16(0x2004, 7);
    bench.w16(0x2006, 9);
    assert_eq!((bench.r16(0x2004), bench.r16(0x2006), bench.r32(0x2004)), (7, 9, 0x0009_0007));
}

#[test]
fn status_latches_without_enable_and_ones_clear() {
    let mut bench = Bench::new();
    bench.start();
    bench.w32(0x24, 0);
    bench.send(&[&[0xee; 60]], 0, 0);
    // FIN of port 0, queue 0: bit 12.
    assert_eq!(bench.r32(0x20), 1 << 12);
    assert_eq!(bench.gemini.lines(), [false; 2]);
    bench.w32(0x24, 1 << 12);
    assert_eq!(bench.gemini.lines(), [true, false]);
    bench.w32(0x20, !(1 << 12));
    assert_eq!(bench.r32(0x20), 1 << 12, "zeros leave it");
    bench.w32(0x20, 1 << 12);
    assert_eq!(bench.r32(0x20), 0);
    assert!(!bench.gemini.interrupt());
}

#[test]
fn select_routes_each_bit() {
    let mut bench = Bench::new();
    bench.start();
    // Linux routes port 1 to INT1 and the free-queue bits as well. [6.1]
    bench.w32(0x34, 3);
    bench.w32(0x64, 1);
    bench.wire(1, &bench::frames::raw([0xff; 6], 60));
    assert_eq!(bench.r32(0x30), 2);
    assert_eq!(bench.gemini.lines(), [false, true]);
    bench.w32(0x38, 0);
    assert_eq!(bench.gemini.lines(), [true, false]);
    bench.w32(0x30, 2);
    bench.w32(0x70, 255);
    assert_eq!(bench.r32(0x60) & 1, 1, "160 buffers are below 255");
    assert_eq!(bench.gemini.lines(), [false, true]);
    bench.w32(0x68, 0);
    assert_eq!(bench.gemini.lines(), [true, false]);
}

#[test]
fn every_register_of_the_sheet_is_known_and_the_gaps_are_not() {
    let mut bench = Bench::new();
    let port: &[std::ops::RangeInclusive<u64>] =
        &[0x00..=0x30, 0x38..=0xc8, 0x2000..=0x2024, 0x202c..=0x2044, 0x2060..=0x2064];
    let mut named: Vec<u64> = [0x00, 0x04, 0x08, 0x10, 0x14, 0x18, 0x6c, 0x70].to_vec();
    for group in 0..5 {
        named.extend([0x20, 0x24, 0x28].map(|at| at + 16 * group));
    }
    named.extend((0x2000..0x20a0).step_by(4));
    named.extend((0x3000..0x3800).step_by(4));
    named.extend((0x4000..0x8000).step_by(4));
    for base in [0x8000, 0xc000] {
        named.extend(port.iter().cloned().flat_map(|range| range.step_by(4)).map(|at| base + at));
    }
    let mut unknown = 0;
    for offset in (0..0x1_0000).step_by(4) {
        bench.r32(offset);
        let now = bench.gemini.counters().unknown_accesses;
        assert_eq!(now == unknown, named.contains(&offset), "{offset:#x}");
        unknown = now;
    }
}

#[test]
fn narrow_accesses_elsewhere_are_counted() {
    let mut bench = Bench::new();
    bench.read(0, 0xa00c, 2);
    bench.write(0, 0xa00c, 1, 7);
    assert_eq!(bench.gemini.counters().odd_accesses, 2);
    bench.r16(0x800c);
    bench.w16(0x800e, 0);
    assert_eq!(bench.gemini.counters().odd_accesses, 2);
}

#[test]
fn resets_clear_themselves_and_lose_everything() {
    let mut bench = Bench::new();
    bench.start();
    bench.w32(0x24, 0xffff_ffff);
    bench.write(1, 0x0c, 4, 0x4000_0020);
    assert_eq!(bench.read(1, 0x0c, 4), 0);
    assert_eq!(bench.r32(0x8000), 0, "DMA_CTRL of port 0");
    assert_eq!(bench.r32(0xa018) & 3, 3, "disabled");
    assert_eq!(bench.r32(0x24), 0, "shared registers as well");
    assert_eq!(bench.r32(0xc000), 0xc002_3c1c, "port 1's own are untouched");

    let mut bench = Bench::with(BoardKind::Fixed, "reset-keeps-toe");
    bench.start();
    bench.w32(0x24, 0xffff_ffff);
    bench.write(1, 0x0c, 4, 0x4000_0040);
    assert_eq!((bench.r32(0x24), bench.r32(0xc000)), (0xffff_ffff, 0));
}

#[test]
fn a_gated_clock_stops_its_port() {
    let mut bench = Bench::new();
    bench.start();
    bench.write(1, 0x34, 4, 1 << 2);
    assert!(bench.send(&[&[0xee; 60]], 0, 0).is_empty());
    bench.wire(0, &bench::frames::raw([0xff; 6], 60));
    assert!(bench.received(0).is_empty());
    bench.write(1, 0x34, 4, 0);
    assert_eq!(bench.sent().len(), 1, "what waited goes on");
}

#[test]
fn the_carrier_is_what_the_project_agreed_on() {
    for (board, subsystem) in [
        (BoardKind::Fixed, 0u32),
        (BoardKind::Dns313, 1),
        (BoardKind::Wbd222, 2),
        (BoardKind::Dir685, 3),
    ] {
        let bench = Bench::with(board, "");
        let function = trireme_vfio::Function::new(bench.gemini);
        let word = |offset| {
            let mut data = [0; 4];
            function.read_config(offset, &mut data);
            u32::from_le_bytes(data)
        };
        assert_eq!((word(0x00), word(0x2c)), (0x10f3_1af4, subsystem << 16 | 0x1af4));
        assert_eq!(
            function.bars().map(|bar| bar.map_or(0, |b| b.size()))[..3],
            [0x1_0000, 0x1000, 0x1000]
        );
    }
}

#[test]
fn a_pci_reset_restores_power_up() {
    let mut bench = Bench::new();
    bench.start();
    bench.gemini.power(PowerState::D0);
    bench.gemini.reset();
    assert_eq!((bench.r32(0x8000), bench.r32(0x04), bench.r32(0xa018)), (0, 0, 3));
}

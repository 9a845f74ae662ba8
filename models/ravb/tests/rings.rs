//! Rings, operating modes and what descriptors become: `docs/hardware/ravb.md`, section 3.

mod bench;

use bench::*;

#[test]
fn a_frame_goes_out_whole_and_its_descriptors_come_back() {
    for variant in ALL {
        let mut bench = Bench::new(variant);
        bench.start();
        let data = frame(PEER, 301);
        let first = bench.tx(&[&data[..4], &data[4..200], &data[200..]]);
        bench.demand(0);
        assert_eq!(bench.sent(), [data]);
        // FEMPTY with DS kept: Linux accounts by it. (3.6)
        let words = [0, 8, 16].map(|i| bench.ram.word(first + i));
        assert_eq!(words, [0xc000_0004, 0xc000_00c4, 0xc000_0065]);
        assert_eq!(bench.r(0x304) & 0xf, 0, "TSRQ is over");
        assert_eq!(bench.r(0x37c) & 0xf, 1, "TIS.FTF0");
        assert_eq!(bench.r(0x00c), 4, "idle");
    }
}

#[test]
fn a_frame_is_stored_and_told() {
    for variant in ALL {
        let mut bench = Bench::new(variant);
        bench.start();
        bench.rx_ring(&[2046; 4]);
        bench.w(0x360, 1);
        let data = frame(MAC, 100);
        bench.wire(&data);
        let trailer = if variant == GbEth { 4 } else { 0 };
        assert_eq!(bench.rx_word(0), 0x7000_0064 + trailer, "FSINGLE, {variant:?}");
        assert_eq!(bench.rx_data(0)[..100], data);
        assert_eq!(bench.r(0x364), 1);
        assert_eq!(bench.r(0x380), 1, "ISS.FRS");
        assert!(bench.ravb.lines() != 0);
        bench.w(0x364, 0x0003_fffe);
        assert_eq!((bench.r(0x364), bench.r(0x380), bench.ravb.lines()), (0, 0, 0));
    }
}

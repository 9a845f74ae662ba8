//! Registers: access rules, reset values, flags and lines. `docs/hardware/ravb.md`, section 2.

mod bench;

use bench::*;
use trireme_vfio::{Bar, Device};

#[test]
fn the_carrier_is_one_page_with_an_id_of_its_own() {
    for (variant, id) in [(Gen2, 0x10f0), (Gen3, 0x10f1), (GbEth, 0x10f2)] {
        let bench = Bench::new(variant);
        let space = bench.ravb.config_space();
        let mut ids = [0; 4];
        space.read(0, &mut ids, false);
        assert_eq!(u32::from_le_bytes(ids), id << 16 | 0x1af4);
        assert_eq!(space.bars()[0], Some(Bar::Memory { size: 0x1000 }));
    }
}

#[test]
fn reset_values_are_the_sheet_s() {
    let mut bench = Bench::new(Gen3);
    for (offset, value) in [
        (0x000, 0),
        (0x008, 0x003f_ffff),
        (0x00c, 1),
        (0x090, 0x1800_0000),
        (0x0b0, 0x100),
        (0x0b4, 0x0ffc_0ffc),
        (0x1c8, 0x1f),
        (0x300, 0x0022_2200),
        (0x31c, 0xe300),
        (0x320, 1),
        (0x324, 1),
        (0x328, 0xffff_ffff),
        (0x330, 0x7fff_ffff),
        (0x33c, 0x8000_0001),
        (0x390, 0x2c),
        (0x39c, 1),
    ] {
        assert_eq!(bench.r(offset), value, "{offset:#x}");
    }
    assert_eq!(bench.ravb.counters().unknown_accesses, 0);
}

#[test]
fn only_words_are_registers_and_unknown_ones_read_zero() {
    let mut bench = Bench::new(Gen3);
    bench.w(0x508, 0x1234);
    let context = trireme_vfio::Context { memory: &bench.ram, now: bench.now };
    let mut bytes = [0xee; 2];
    bench.ravb.read(0, 0x508, &mut bytes, context);
    assert_eq!(bytes, [0, 0]);
    bench.ravb.write(0, 0x508, &[1, 1], context);
    assert_eq!(bench.r(0x508), 0x1234);
    bench.w(0xffc, 5);
    assert_eq!(bench.r(0xffc), 0);
    assert_eq!(bench.ravb.counters().unknown_accesses, 4);
}

/// Which variant has which register: column V of 2.1, 2.7 and 2.9.
#[test]
fn variants_have_the_registers_of_theirs() {
    for (offset, gen2, gen3, gbeth) in [
        (0x08c, false, true, false), // APSR
        (0x094, true, true, false),  // RQC0
        (0x0b4, false, true, true),  // RTC
        (0x384, false, true, false), // CIE
        (0x388, false, true, true),  // RIC3
        (0x390, true, true, false),  // GCCR
        (0x460, false, true, false), // RIE0
        (0x530, false, false, true), // CXR31
        (0x700, false, true, true),  // TROCR
        (0x708, false, false, true), // CXR41
        (0x740, true, true, true),   // CEFCR
        (0x804, false, false, true), // CSR1
    ] {
        for (variant, exists) in [(Gen2, gen2), (Gen3, gen3), (GbEth, gbeth)] {
            let mut bench = Bench::new(variant);
            bench.r(offset);
            let unknown = bench.ravb.counters().unknown_accesses;
            assert_eq!(unknown == 0, exists, "{offset:#x} {variant:?}");
        }
    }
}

#[test]
fn status_flags_clear_by_zero_and_the_emac_s_by_one() {
    let mut bench = Bench::with(Gen3, "rx-overflow=1,illegal-carrier=1");
    bench.start();
    bench.rx_ring(&[2046; 4]);
    bench.wire(&frame(MAC, 60));
    assert_eq!(bench.r(0x374), 0x8000_0000, "RIS2.RFFF");
    bench.w(0x374, 0xffff_ffff);
    assert_eq!(bench.r(0x374), 0x8000_0000, "a one does nothing");
    bench.w(0x374, 0x0003_fffc);
    assert_eq!(bench.r(0x374), 0);
    assert_eq!(bench.r(0x510) & 1, 1, "ECSR.ICD");
    bench.w(0x510, 0);
    assert_eq!(bench.r(0x510) & 1, 1, "a zero does nothing");
    bench.w(0x510, 1);
    assert_eq!(bench.r(0x510) & 1, 0);
}

#[test]
fn flags_latch_while_masked_and_raise_the_line_when_enabled() {
    for variant in ALL {
        let mut bench = Bench::new(variant);
        bench.start();
        bench.rx_ring(&[2046; 4]);
        bench.wire(&frame(MAC, 60));
        assert_eq!((bench.r(0x364), bench.r(0x380), bench.ravb.lines()), (1, 0, 0));
        bench.w(0x360, 1);
        assert!(bench.ravb.interrupt());
        // Event-latched, not level: unread descriptors do not set it again. (2.10)
        bench.w(0x364, 0);
        assert_eq!(bench.r(0x364), 0);
        assert!(!bench.ravb.interrupt());
    }
}

#[test]
fn set_and_clear_registers_change_the_enables() {
    let mut bench = Bench::new(Gen3);
    for (set, clear, enables, bits) in [
        (0x460, 0x464, 0x360, 0x0003_ffff),
        (0x468, 0x46c, 0x368, 0x8003_ffff),
        (0x470, 0x474, 0x370, 0x8003_ffff),
        (0x478, 0x47c, 0x378, 0x000f_0f0f),
        (0x450, 0x454, 0x350, 0x0000_fffe),
        (0x458, 0x45c, 0x358, 0x0000_07ff),
        (0x488, 0x48c, 0x388, 0x0003_ffff),
    ] {
        bench.w(set, 0xffff_ffff);
        assert_eq!(bench.r(enables), bits, "{set:#x}");
        bench.w(clear, 1 << 1);
        assert_eq!(bench.r(enables), bits & !2, "{clear:#x}");
        bench.w(set, 0);
        assert_eq!(bench.r(enables), bits & !2);
    }
}

#[test]
fn queue_full_shows_in_the_summary_without_an_enable_of_its_own() {
    for variant in ALL {
        let mut bench = Bench::new(variant);
        bench.start();
        bench.w(0x370, 0x8000_0001);
        bench.wire(&frame(MAC, 60));
        assert_eq!(bench.r(0x374), 1, "QFF0");
        assert_eq!(bench.r(0x35c), 1 << 16, "EIS.QFS");
        assert_eq!(bench.r(0x380), 1 << 6, "ISS.ES");
        // Linux writes 7ff and then clears RIS2.
        bench.w(0x35c, 0x7ff);
        assert_eq!(bench.r(0x380), 1 << 6);
        bench.w(0x374, 0x0003_fffc);
        assert_eq!(bench.r(0x380), 0);
    }
}

#[test]
fn gen3_lines_follow_cie() {
    let mut bench = Bench::new(Gen3);
    bench.start();
    bench.rx_ring(&[2046; 4]);
    bench.w(0x360, 1);
    bench.w(0x378, 1);
    bench.w(0x518, 4);
    bench.wire(&frame(MAC, 60));
    assert_eq!(bench.ravb.lines(), 1 << 0, "ch0");
    bench.send(&frame(PEER, 60));
    assert_eq!(bench.ravb.lines(), 1 << 0 | 1 << 18, "ch18");
    bench.w(0x384, 0x101);
    assert_eq!(bench.ravb.lines(), 1 << 22, "common");
    bench.w(0x384, 0);
    assert_eq!(bench.ravb.lines(), 0);
    bench.ravb.set_cable(false);
    assert_eq!(bench.ravb.lines(), 1 << 24, "E-MAC");
}

#[test]
fn mac_address_is_what_a_boot_loader_left_and_survives_reset_mode() {
    for variant in ALL {
        let mut bench = Bench::new(variant);
        assert_eq!((bench.r(0x5c0), bench.r(0x5c8)), (0x2e09_0a12, 0x3456));
        bench.start();
        bench.w(0x5c0, 0x0102_0304);
        bench.w(0x000, 1);
        bench.w(0x000, 0);
        assert_eq!((bench.r(0x5c0), bench.r(0x00c)), (0x0102_0304, 1));
    }
}

#[test]
fn counters_clear_as_trccm_says() {
    let mut bench = Bench::with(Gen3, "rx-crc=1");
    bench.start();
    for _ in 0..3 {
        bench.wire(&frame(MAC, 60));
    }
    assert_eq!([bench.r(0x740), bench.r(0x740)], [3, 3]);
    bench.w(0x740, 7);
    assert_eq!(bench.r(0x740), 0);
    bench.wire(&frame(MAC, 60));
    let ecmr = bench.r(0x500);
    bench.w(0x500, ecmr | 1 << 26);
    bench.w(0x740, 0);
    assert_eq!([bench.r(0x740), bench.r(0x740)], [1, 0]);
}

/// (6.4, 35) and (2.9).
#[test]
fn gbeth_wants_cxr35_first_and_its_paths_open() {
    let mut bench = Bench::new(GbEth);
    bench.start();
    bench.rx_ring(&[2046; 4]);
    assert_eq!(bench.ravb.counters().violations, 0);
    // CSR1 while TPE is set: not written.
    bench.w(0x804, 0x0030_0030);
    assert_eq!((bench.r(0x804), bench.ravb.counters().violations), (0, 1));
    bench.w(0x800, 0);
    assert_eq!(bench.r(0x800), 0);
    bench.w(0x804, 0x0030_0030);
    assert_eq!(bench.r(0x804), 0x0030_0030);
    assert!(bench.send(&frame(PEER, 60)).is_empty(), "TPE gates the path");
    bench.wire(&frame(MAC, 60));
    assert_eq!(bench.rx_word(0) >> 28, 0xc, "so does RPE");
    bench.w(0x800, 0x30);
    assert_eq!(bench.sent().len(), 1);

    let mut bench = Bench::new(GbEth);
    bench.w(0x508, 0x2004);
    bench.start();
    assert_eq!(bench.ravb.counters().violations, 1);
    assert!(bench.send(&frame(PEER, 60)).is_empty());

    let mut bench = Bench::with(GbEth, "slow-toe=3");
    bench.w(0x800, 0x30);
    bench.w(0x800, 0);
    assert_eq!(
        [bench.r(0x800), bench.r(0x800), bench.r(0x800), bench.r(0x800)],
        [0x30, 0x30, 0x30, 0]
    );
}

#[test]
fn link_and_speed_have_to_agree() {
    for variant in ALL {
        let mut bench = Bench::new(variant);
        bench.start();
        bench.w(0x510, 0x1f);
        assert_eq!(bench.r(0x528), 1, "PSR.LMON");
        bench.ravb.set_cable(false);
        assert_eq!((bench.r(0x528), bench.r(0x510)), (0, 4));
        assert!(bench.send(&frame(PEER, 60)).is_empty());
        bench.ravb.set_cable(true);
        assert_eq!(bench.send(&frame(PEER, 60)).len(), 1);
        // 100 Mbit/s against the PHY's 1000.
        bench.w(0x5b0, if variant == GbEth { 0x10 } else { 0 });
        assert!(bench.send(&frame(PEER, 60)).is_empty());
        assert_eq!(bench.ravb.counters().unheard, 2);
    }
}

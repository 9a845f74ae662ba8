//! Registers: reset values, widths, side effects, as gathered from real chips and other drivers.

mod bench;

use bench::{Bench, MAC};
use std::time::Duration;
use trireme_rhine_model::{Chip, Faults, ResetFault};
use trireme_vfio::{Device, PowerState};

const ALL: [Chip; 5] = [Chip::VT86C100A, Chip::VT6102, Chip::VT8235, Chip::VT6105, Chip::VT6105M];

#[test]
fn a_vt6102_at_rest_reads_as_a_real_one() {
    // Image of a card with revision 0x42 after probing, MAC and PHY left out.
    let mut bench = Bench::new(Chip::VT6102);
    assert_eq!(bench.r32(0x08), 0x0000_0804);
    assert_eq!(bench.r32(0x0c), 0);
    assert_eq!(bench.r32(0x20), 0x0000_0400);
    assert_eq!([bench.r8(0x6c), bench.r8(0x6e), bench.r8(0x6f)], [8, 0x09, 0x0e]);
    assert_eq!(bench.r8(0x71), 0x80);
    assert_eq!(bench.r32(0x74), 0x0800_0080);
    assert_eq!(bench.r32(0x78), 0x0247_0000);
    assert_eq!(bench.r32(0x80) & 0x00ff_ff00, 0x0001_2000);
    assert_eq!(bench.r32(0x90), 0x0600_0080);
    assert_eq!(bench.r32(0x94), 0x0008_0000);
    assert_eq!([bench.r32(0xa0), bench.r32(0xa4)], [0x0101_0000; 2]);
    assert_eq!(bench.r32(0xb0), 0xffff_ffff);
    assert_eq!(bench.r32(0xc0), 0);
}

#[test]
fn station_address_is_in_wire_order_on_every_chip() {
    for chip in ALL {
        let mut bench = Bench::new(chip);
        let read: Vec<u8> = (0..6).map(|i| bench.r8(i)).collect();
        assert_eq!(read, MAC);
        bench.w32(0, 0x4433_2211);
        bench.w16(4, 0x6655);
        assert_eq!([bench.r32(0), bench.r32(4) & 0xffff], [0x4433_2211, 0x6655]);
    }
}

#[test]
fn every_width_reaches_the_same_bytes() {
    let mut bench = Bench::new(Chip::VT6105M);
    bench.w32(0x10, 0x0403_0201);
    assert_eq!((0x10..0x14).map(|o| bench.r8(o)).collect::<Vec<_>>(), [1, 2, 3, 4]);
    assert_eq!([bench.r16(0x10), bench.r16(0x12)], [0x0201, 0x0403]);
    bench.w8(0x12, 0xaa);
    assert_eq!(bench.r32(0x10), 0x04aa_0201);
    bench.w16(0x6e, 0x0006);
    assert_eq!([bench.r8(0x6e), bench.r8(0x6f)], [6, 0]);
}

#[test]
fn soft_reset_takes_back_what_it_should_and_leaves_the_rest() {
    let mut bench = Bench::new(Chip::VT6105M);
    bench.w8(0x78, 0x40);
    bench.w8(0x83, 0x04);
    bench.w8(0xa0, 0x20);
    bench.start();
    bench.w8(0x98, 9);
    bench.w8(0x09, 0x80);
    assert_eq!(bench.r16(0x08), 0x0804);
    assert_eq!(bench.r32(0x04) >> 16, 0, "RCR, TCR");
    assert_eq!([bench.r32(0x0c), bench.r32(0x10), bench.r32(0x18), bench.r32(0x1c)], [0; 4]);
    assert_eq!(bench.r8(0x98), 0);
    assert_eq!(bench.r8(0x6c), 1, "FreeBSD reads the PHY address afterwards");
    assert_eq!([bench.r8(0x78), bench.r8(0x83), bench.r8(0xa0)], [0x40, 0x04, 0x20]);
    assert_eq!(bench.r8(0x00), MAC[0]);
}

#[test]
fn reset_can_be_slow_or_need_force_or_never_end() {
    let with = |reset| Bench::with(Chip::VT6102, Faults { reset, ..Faults::default() });
    let mut bench = with(ResetFault::Slow(3));
    bench.w8(0x09, 0x80);
    let reads: Vec<u8> = (0..5).map(|_| bench.r8(0x09) & 0x80).collect();
    assert_eq!(reads, [0x80, 0x80, 0x80, 0, 0]);

    let mut bench = with(ResetFault::UntilForced);
    bench.w8(0x06, 0x0c);
    bench.w8(0x09, 0x80);
    assert!((0..2000).all(|_| bench.r8(0x09) & 0x80 != 0));
    bench.w8(0x81, 0x40);
    assert_eq!([bench.r8(0x09), bench.r8(0x06)], [0x08, 0]);

    let mut bench = with(ResetFault::Never);
    bench.w8(0x09, 0x80);
    bench.w8(0x81, 0x40);
    assert!((0..2000).all(|_| bench.r8(0x09) & 0x80 != 0));
}

#[test]
fn eeprom_reload_restores_address_and_switches_memory_decoding_off() {
    for (chip, register, bit) in [(Chip::VT86C100A, 0x78, 0x20), (Chip::VT6105M, 0x7b, 0x80)] {
        let mut bench = Bench::new(chip);
        assert_eq!(bench.memory_r8(0x06), 0xff, "off after power-up");
        bench.w8(register, bit);
        assert_eq!(bench.memory_r8(0x00), MAC[0]);
        bench.memory_w8(0x00, 0x55);
        bench.memory_w8(0x09, 0x80);
        assert_eq!(bench.memory_r8(0x00), 0x55, "a soft reset leaves it on");
        bench.w8(0x74, 0x20);
        assert_eq!(bench.r8(0x74) & 0x20, 0);
        assert_eq!(bench.memory_r8(0x00), 0xff);
        assert_eq!(bench.r8(0x00), MAC[0]);
    }
    let on = Faults { eeprom_enables_memory: true, ..Faults::default() };
    assert_eq!(Bench::with(Chip::VT6105M, on).memory_r8(0x00), MAC[0]);
    let mut bench = Bench::with(Chip::VT6102, Faults { slow_eeprom: 3, ..Faults::default() });
    bench.w8(0x00, 0x55);
    bench.w8(0x74, 0x20);
    assert_eq!(bench.r8(0x00), 0x55, "not yet");
    assert_eq!((0..4).map(|_| bench.r8(0x74) & 0x20).collect::<Vec<_>>(), [0x20, 0x20, 0x20, 0]);
    assert_eq!(bench.r8(0x00), MAC[0]);
}

#[test]
fn interrupt_causes_clear_by_writing_ones_per_byte_and_the_mask_gates_the_pin() {
    let mut bench = Bench::new(Chip::VT6105M);
    bench.rx_ring(&[1536]);
    bench.start();
    bench.w16(0x0e, 0);
    bench.wire(&bench::frame(MAC, 60));
    bench.wire(&bench::frame(MAC, 60));
    assert_eq!(bench.r16(0x0c), 0x1021, "received, then ring empty");
    assert!(!bench.rhine.interrupt());
    bench.w16(0x0e, 0x0001);
    assert!(bench.rhine.interrupt());
    bench.w8(0x0c, 0x01);
    assert!(!bench.rhine.interrupt());
    assert_eq!(bench.r16(0x0c), 0x1020);
    bench.w8(0x0d, 0x10);
    assert_eq!(bench.r16(0x0c), 0x0020);
    bench.w16(0x0c, 0xffff);
    assert_eq!(bench.r16(0x0c), 0);
}

#[test]
fn stop_halts_both_engines() {
    let mut bench = Bench::new(Chip::VT6102);
    bench.start();
    assert_eq!(bench.r8(0x08) & 0x1e, 0x1a);
    bench.w8(0x08, 0x1e);
    assert_eq!(bench.r8(0x08) & 0x1e, 0x04);
    bench.w16(0x08, 0x0004);
    assert_eq!(bench.r16(0x08), 0x0004);
}

#[test]
fn link_changes_interrupt_while_polling_with_the_source_enabled() {
    let mut bench = Bench::new(Chip::VT6105);
    bench.start();
    bench.rhine.set_cable(false);
    bench.rhine.set_cable(true);
    assert_eq!(bench.r16(0x0c), 0, "not polling");
    bench.w8(0x70, 0);
    bench.w8(0x71, 0x01);
    bench.w8(0x70, 0x80);
    assert_eq!(bench.r8(0x71) & 0x20, 0);
    assert_eq!(bench.r8(0x71) & 0x20, 0x20);
    bench.w8(0x71, 0x41);
    bench.rhine.set_cable(false);
    assert_eq!(bench.r16(0x0c), 0x4000);
    assert!(bench.rhine.interrupt());
    assert_eq!(bench.r8(0x6d) & 2, 2);
    assert_eq!(bench.mii(1), 0x7849);
}

#[test]
fn phy_answers_at_its_own_address_only() {
    for (chip, address) in
        [(Chip::VT86C100A, 8), (Chip::VT6102, 8), (Chip::VT8235, 1), (Chip::VT6105M, 1)]
    {
        let mut bench = Bench::new(chip);
        let answers: Vec<u8> = (0..32)
            .filter(|&a| {
                bench.w8(0x6c, a);
                bench.mii(1) != 0xffff
            })
            .collect();
        assert_eq!(answers, [address]);
    }
}

#[test]
fn asleep_there_is_no_address_and_no_phy_until_the_sticky_bits_clear() {
    let mut bench = Bench::with(Chip::VT8235, Faults { asleep: true, ..Faults::default() });
    assert_eq!(bench.r8(0x83) & 3, 3);
    assert_eq!([bench.r32(0), bench.r32(4) & 0xffff], [0, 0]);
    assert_eq!(bench.mii(1), 0xffff);
    bench.w8(0x83, 0xfc & 0x03);
    bench.w8(0x74, 0x20);
    assert_eq!(bench.r8(0), MAC[0]);
    bench.w8(0x6c, 1);
    assert_ne!(bench.mii(1), 0xffff);
}

#[test]
fn posted_writes_wait_for_a_read() {
    let mut bench = Bench::with(Chip::VT6105M, Faults { posted_writes: true, ..Faults::default() });
    bench.rx_ring(&[1536]);
    bench.start();
    bench.wire(&bench::frame(MAC, 60));
    assert_eq!(bench.rhine.counters().rx_frames, 0, "the start has not arrived");
    bench.r8(0x00);
    bench.wire(&bench::frame(MAC, 60));
    assert_eq!(bench.rhine.counters().rx_frames, 1);
}

#[test]
fn pulled_out_everything_reads_ones() {
    let mut bench = Bench::with(Chip::VT6105, Faults { gone: true, ..Faults::default() });
    assert_eq!(bench.r16(0x0c), 0xffff);
    assert_eq!(bench.r32(0x00), 0xffff_ffff);
}

#[test]
fn rhine_i_has_nothing_above_0x80() {
    let mut bench = Bench::new(Chip::VT86C100A);
    assert_eq!(bench.rhine.config_space().bars()[0].unwrap().size(), 128);
    bench.w8(0x83, 3);
    assert_eq!(bench.r8(0x83), 0xff);
    assert_eq!(bench.rhine.counters().unknown_accesses, 2);
    assert_eq!(bench.r8(0x00), MAC[0]);
}

#[test]
fn flow_control_count_adds_and_zero_clears() {
    let mut bench = Bench::new(Chip::VT6105);
    bench.w8(0x98, 63);
    bench.w8(0x98, 10);
    assert_eq!(bench.r8(0x98), 73);
    bench.w8(0x98, 0);
    assert_eq!(bench.r8(0x98), 0);
}

#[test]
fn d3_puts_it_to_sleep_and_d0_resets_it() {
    let mut bench = Bench::new(Chip::VT6105M);
    bench.start();
    bench.rhine.power(PowerState::D3Hot);
    bench.rhine.power(PowerState::D0);
    assert_eq!(bench.r16(0x08), 0x0804);
}

#[test]
fn a_flapping_link_flaps_in_its_own_time() {
    let link_flap = Duration::from_millis(100);
    let mut bench = Bench::with(Chip::VT6105, Faults { link_flap, ..Faults::default() });
    let mut seen = Vec::new();
    for _ in 0..4 {
        seen.push(bench.r8(0x6d) & 2 == 0);
        bench.later(link_flap);
    }
    assert_eq!(seen, [true, false, true, false]);
}

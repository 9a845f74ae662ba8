//! What other systems' drivers do to the card, in their order: `docs/hardware/rhine.md`, 9.2. Linux
//! runs for real (`./run.sh judge rhine`); these are replayed from the facts, in this order of accesses.

mod bench;

use bench::{Bench, MAC, PEER, RX_RING, TX_RING, frame};
use trireme_rhine_model::Chip;
use trireme_vfio::Device;

const ALL: [Chip; 5] = [Chip::VT86C100A, Chip::VT6102, Chip::VT8235, Chip::VT6105, Chip::VT6105M];

fn poll(bench: &mut Bench, what: &str, mut done: impl FnMut(&mut Bench) -> bool) {
    assert!((0..1000).any(|_| done(bench)), "{what} never happens");
}

/// A frame each way, demanded and acknowledged as the driver does it.
fn passes_traffic(bench: &mut Bench, demand: (u64, u8)) {
    let data = frame(PEER, 60);
    bench.tx_frame(&[&data], 0, 0);
    bench.w8(demand.0, demand.1);
    assert_eq!(bench.sent(), [data]);
    bench.wire(&frame(MAC, 100));
    assert_eq!(bench.ram.word(RX_RING), 104 << 16 | 0x8f00);
    assert_eq!(bench.r16(0x0c) & 0x0003, 0x0003);
    bench.w16(0x0c, 0xffff);
    assert_eq!(bench.r16(0x0c), 0);
}

#[test]
fn freebsd_attaches_initialises_and_passes_traffic() {
    for chip in ALL {
        let mut bench = Bench::new(chip);
        bench.rx_ring(&[2040; 8]);
        // Attach: sticky bits, EEPROM, address, reset.
        if chip.revision >= 0x40 {
            let sticky = bench.r8(0x83);
            bench.w8(0x83, sticky & !3);
        }
        let eeprom = bench.r8(0x74);
        bench.w8(0x74, eeprom | 0x20);
        poll(&mut bench, "EEPROM reload", |b| b.r8(0x74) & 0x20 == 0);
        assert_eq!((0..6).map(|i| bench.r8(i)).collect::<Vec<_>>(), MAC);
        bench.w8(0x09, 0x80);
        poll(&mut bench, "reset", |b| b.r8(0x09) & 0x80 == 0);
        bench.w16(0x0c, 0xffff);
        bench.w16(0x0e, 0);
        let phy = if chip.revision < 0x80 { bench.r8(0x6c) & 0x1f } else { 1 };
        bench.w8(0x6c, phy);
        bench.w8(0x70, 0x00);
        assert_ne!(bench.mii(1), 0xffff);
        // Init: stop, wait, reset, address, thresholds, filter, rings.
        bench.w8(0x08, 0x04);
        poll(&mut bench, "engines off", |b| b.r8(0x08) & 0x18 == 0);
        bench.w32(0x1c, 0);
        bench.w32(0x18, 0);
        bench.w8(0x09, 0x80);
        poll(&mut bench, "reset", |b| b.r8(0x09) & 0x80 == 0);
        (0..6).for_each(|i| bench.w8(i, MAC[i as usize]));
        bench.w8(0x6e, 0x07 | 0x10);
        bench.w8(0x06, 0x40 | 0x08);
        bench.w8(0x07, 0xe0);
        bench.w32(0x18, RX_RING as u32);
        bench.w32(0x1c, TX_RING as u32);
        bench.ram.descriptor(TX_RING, [0; 4]);
        bench.w8(0x09, 0x0c);
        bench.w8(0x08, 0x5a);
        bench.w16(0x0c, 0xffff);
        bench.w16(0x0e, 0x087f);
        assert_eq!(bench.r8(0x08) & 0x1a, 0x1a, "running");
        passes_traffic(&mut bench, (0x08, 0x3a | 0x40));
        // Link loss: both engines off, duplex flipped, on again.
        bench.w8(0x08, 0x02);
        assert_eq!(bench.r8(0x08) & 0x18, 0);
        bench.w8(0x09, 0x08);
        bench.w8(0x08, 0x1a);
        bench.tx_frame(&[&frame(PEER, 60)], 0, 0);
        bench.w32(0x1c, TX_RING as u32);
        bench.w8(0x08, 0x3a);
        assert_eq!(bench.sent().len(), 1);
        // Every cause it has to see is in its mask.
        assert!(!bench.rhine.interrupt() || bench.r16(0x0c) & 0x087f != 0);
    }
}

#[test]
fn openbsd_writes_the_transmit_ring_pointer_after_starting() {
    for chip in ALL {
        let mut bench = Bench::new(chip);
        bench.rx_ring(&[1524; 8]);
        bench.ram.descriptor(TX_RING, [0; 4]);
        // Command as 16 bits throughout.
        let command = bench.r16(0x08);
        bench.w16(0x08, command | 0x0004);
        bench.w16(0x08, (command | 0x0004) & !0x0018);
        assert_eq!(bench.r16(0x08) & 0x0018, 0);
        bench.w16(0x0e, 0);
        bench.w32(0x1c, 0);
        bench.w32(0x18, 0);
        let command = bench.r16(0x08);
        bench.w16(0x08, command | 0x8000);
        poll(&mut bench, "reset", |b| b.r16(0x08) & 0x8000 == 0);
        (0..6).for_each(|i| bench.w8(i, MAC[i as usize]));
        bench.w8(0x07, 0xe0);
        bench.w8(0x06, 0x40 | 0x08);
        bench.w32(0x18, RX_RING as u32);
        bench.w16(0x08, 0x085a);
        assert_eq!(bench.ram.outside.borrow().len(), 0, "no fetch before the pointer is there");
        bench.w32(0x1c, TX_RING as u32);
        bench.w16(0x0c, 0xffff);
        bench.w16(0x0e, 0x087f);
        passes_traffic(&mut bench, (0x08, 0x7a));
    }
}

#[test]
fn ipxe_runs_with_automatic_polling_and_arms_the_ring_after_starting() {
    for chip in ALL {
        let mut bench = Bench::new(chip);
        // I/O for reset and reload, then memory.
        bench.w8(0x09, 0x80);
        poll(&mut bench, "reset", |b| b.r8(0x09) & 0x80 == 0);
        let eeprom = bench.r8(0x74);
        bench.w8(0x74, eeprom | 0x20);
        poll(&mut bench, "EEPROM reload", |b| b.r8(0x74) & 0x20 == 0);
        let (register, bit) = if chip.revision < 0x20 { (0x78, 0x20) } else { (0x7b, 0x80) };
        let config = bench.r8(register);
        bench.w8(register, config | bit);
        assert_eq!((0..6).map(|i| bench.memory_r8(i)).collect::<Vec<_>>(), MAC);
        bench.w32(0x1c, TX_RING as u32);
        bench.w32(0x18, RX_RING as u32);
        bench.ram.descriptor(TX_RING, [0; 4]);
        bench.ram.descriptor(RX_RING, [0; 4]);
        bench.w8(0x06, 0x1a);
        // Link by polling: MDONE must go to 0 and then to 1.
        bench.w8(0x71, 0x01);
        bench.w8(0x70, 0x80);
        poll(&mut bench, "MDONE low", |b| b.r8(0x71) & 0x20 == 0);
        bench.w8(0x71, 0x41);
        poll(&mut bench, "MDONE", |b| b.r8(0x71) & 0x20 != 0);
        bench.w8(0x08, 0x1a);
        bench.w8(0x09, 0x04);
        bench.rx_ring(&[1535; 4]);
        passes_traffic(&mut bench, (0x09, 0x24));
    }
}

#[test]
fn linux_checks_that_both_bars_agree_and_clears_what_it_does_not_use() {
    let mut bench = Bench::new(Chip::VT6105M);
    bench.w8(0x7b, 0x80);
    for offset in [0x06, 0x07, 0x0e, 0x78, 0x79, 0x7a, 0x7b] {
        assert_eq!(bench.memory_r8(offset), bench.r8(offset), "{offset:#x}");
    }
    // Power init, then the CAM and VLAN set-up of open.
    bench.w8(0xa7, 0x80);
    bench.w8(0xa4, 0xff);
    bench.w8(0xa6, 0x03);
    bench.w8(0xac, 0xff);
    bench.w8(0xad, 0x03);
    assert_eq!([bench.r8(0xa0), bench.r8(0xa8), bench.r8(0xa9)], [0, 0, 0]);
    for select in [1, 3] {
        bench.w8(0x92, select);
        bench.w32(0x88, 0);
        bench.w8(0x92, 0);
    }
    assert_eq!(bench.r8(0x92), 0);
    // The tally sequence ends at zero.
    bench.w32(0x7c, 0);
    assert_eq!(bench.r32(0x7c), 0);
    // Close: loopback, mask, stop; buffer addresses are poisoned afterwards.
    bench.start();
    bench.w8(0x07, 0x22);
    bench.w16(0x0e, 0);
    bench.w16(0x08, 0x0004);
    bench.ram.descriptor(RX_RING, [1 << 31, 1536, 0xbadf_00d0, RX_RING as u32]);
    bench.wire(&frame(MAC, 60));
    assert!(bench.ram.outside.borrow().is_empty(), "no DMA after the stop");
}

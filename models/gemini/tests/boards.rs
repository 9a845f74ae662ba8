//! Boards: management over GPIO pins, links, and the switch of a DIR-685 (sheet 1.9, 1.10, 2).

mod bench;

use bench::Bench;
use bench::frames::raw;
use trireme_gemini_model::BoardKind;
use trireme_vfio::Device;

/// GPIO registers: direction, set, clear, in.
const DIRECTION: u64 = 0x08;
const SET: u64 = 0x10;
const CLEAR: u64 = 0x14;
const IN: u64 = 0x04;

/// A host that bangs bits on two GPIO lines.
struct Pins {
    bench: Bench,
    clock: u32,
    data: u32,
}

impl Pins {
    fn new(board: BoardKind, faults: &str, clock: u32, data: u32) -> Pins {
        let mut pins = Pins { bench: Bench::with(board, faults), clock, data };
        pins.bench.write(2, DIRECTION, 4, 1 << clock | 1 << data);
        pins
    }
    fn level(&mut self, line: u32, high: bool) {
        self.bench.write(2, if high { SET } else { CLEAR }, 4, 1 << line);
    }
    fn put(&mut self, bit: bool) {
        self.level(self.data, bit);
        self.level(self.clock, true);
        self.level(self.clock, false);
    }
    fn listen(&mut self, on: bool) {
        let data = if on { 0 } else { 1 << self.data };
        self.bench.write(2, DIRECTION, 4, 1 << self.clock | data);
    }
    fn sample(&mut self) -> u16 {
        (self.bench.read(2, IN, 4) >> self.data & 1) as u16
    }

    /// Clause 22 as the vendor has it: 1.10.
    fn mdio_read(&mut self, phy: u32, register: u32) -> u16 {
        (0..32).for_each(|_| self.put(true));
        let header = 0b0110 << 10 | phy << 5 | register;
        (0..14).rev().for_each(|i| self.put(header >> i & 1 != 0));
        self.listen(true);
        let mut get = || {
            self.level(self.clock, true);
            self.level(self.clock, false);
            self.sample()
        };
        get();
        let value = (0..16).fold(0, |value, _| value << 1 | get());
        self.listen(false);
        value
    }

    fn mdio_write(&mut self, phy: u32, register: u32, value: u32) {
        (0..32).for_each(|_| self.put(true));
        let frame = 0b0101 << 28 | phy << 23 | register << 18 | 0b10 << 16 | value;
        (0..32).rev().for_each(|i| self.put(frame >> i & 1 != 0));
        (0..2).for_each(|_| self.put(false));
    }

    fn smi_start(&mut self) {
        self.level(self.data, true);
        self.level(self.clock, true);
        self.level(self.data, false);
        self.level(self.clock, false);
    }
    fn smi_stop(&mut self) {
        self.level(self.data, false);
        self.level(self.clock, true);
        self.level(self.data, true);
    }
    fn smi_bit(&mut self) -> u16 {
        self.level(self.clock, true);
        let bit = self.sample();
        self.level(self.clock, false);
        bit
    }
    fn smi_byte(&mut self, byte: u8) {
        (0..8).rev().for_each(|i| self.put(byte >> i & 1 != 0));
        self.listen(true);
        assert_eq!(self.smi_bit(), 0, "acknowledged");
        self.listen(false);
    }
    fn smi_read(&mut self, address: u16) -> u16 {
        self.smi_start();
        self.smi_byte(0xa9);
        address.to_le_bytes().into_iter().for_each(|byte| self.smi_byte(byte));
        let mut bytes = [0; 2];
        for (i, byte) in bytes.iter_mut().enumerate() {
            self.listen(true);
            *byte = (0..8).fold(0, |value, _| value << 1 | self.smi_bit() as u8);
            self.listen(false);
            self.put(i == 1);
        }
        self.smi_stop();
        u16::from_le_bytes(bytes)
    }
    fn smi_write(&mut self, address: u16, value: u16) {
        self.smi_start();
        self.smi_byte(0xa8);
        let bytes = [address.to_le_bytes(), value.to_le_bytes()].concat();
        bytes.into_iter().for_each(|byte| self.smi_byte(byte));
        self.smi_stop();
    }
}

#[test]
fn phys_answer_at_the_addresses_of_their_boards() {
    for (board, addresses) in
        [(BoardKind::Dns313, vec![1]), (BoardKind::Wbd222, vec![1, 3]), (BoardKind::Fixed, vec![])]
    {
        let mut pins = Pins::new(board, "", 22, 21);
        let found: Vec<u32> = (0..32).filter(|&phy| pins.mdio_read(phy, 2) != 0xffff).collect();
        assert_eq!(found, addresses);
    }
    let mut pins = Pins::new(BoardKind::Dns313, "absent-phy", 22, 21);
    assert!((0..32).all(|phy| pins.mdio_read(phy, 2) == 0xffff));
}

#[test]
fn the_mac_must_run_at_the_speed_of_its_phy() {
    let mut pins = Pins::new(BoardKind::Wbd222, "", 22, 21);
    pins.bench.start();
    pins.bench.wire(1, &raw([0xff; 6], 60));
    assert_eq!(pins.bench.received(1).len(), 1);
    // No gigabit from PHY 3: 100 Mbit/s, which STATUS has to follow.
    pins.mdio_write(3, 9, 0);
    pins.mdio_write(3, 0, 0x1200);
    assert_eq!(pins.mdio_read(3, 9), 0);
    pins.bench.wire(1, &raw([0xff; 6], 60));
    assert!(pins.bench.received(1).is_empty());
    pins.bench.w32(0xe02c, 0x4b);
    pins.bench.wire(1, &raw([0xff; 6], 60));
    assert_eq!(pins.bench.received(1).len(), 1);
    pins.bench.wire(0, &raw([0xff; 6], 60));
    assert_eq!(pins.bench.received(0).len(), 1, "PHY 1 is as it was");
}

#[test]
fn in_band_status_follows_the_link() {
    let mut pins = Pins::new(BoardKind::Dns313, "", 22, 21);
    pins.bench.start();
    pins.bench.w32(0xa02c, 0x60);
    pins.bench.w32(0xa018, 0x3f97_0100);
    pins.bench.later(std::time::Duration::ZERO);
    assert_eq!(pins.bench.r32(0xa02c), 0x6d);
    assert_eq!(pins.bench.r32(0x60) >> 16 & 1, 1, "status change");
    pins.bench.gemini.board_mut().set_cable(0, false);
    pins.bench.later(std::time::Duration::ZERO);
    assert_eq!(pins.bench.r32(0xa02c) & 1, 0);
    assert_eq!(pins.mdio_read(1, 1) & 4, 0);
}

#[test]
fn the_switch_answers_by_smi_and_tags_its_cpu_port() {
    let mut pins = Pins::new(BoardKind::Dir685, "", 21, 22);
    assert_eq!(pins.smi_read(0x005c), 0x5937);
    assert_eq!(pins.smi_read(0x0509), 0x5937);
    pins.smi_write(0x0061, 0x0020);
    assert_eq!(pins.smi_read(0x0061), 0x0020);
    pins.bench.start();

    // From socket 3 to the CPU: the tag carries the number.
    let frame = raw([0xff; 6], 60);
    pins.bench.wire(3, &frame);
    assert_eq!(pins.bench.received(0)[0][1], 64);
    let tagged = pins.bench.ram.get(bench::RX_BUFFERS + 2, 64);
    assert_eq!(tagged, [&frame[..12], &[0x88, 0x99, 0xa0, 3], &frame[12..]].concat());
    // The other sockets hear a broadcast as well.
    let heard: Vec<usize> = pins.bench.sent_on().into_iter().map(|(wire, _)| wire).collect();
    assert_eq!(heard, [0, 1, 2, 4]);

    // From the CPU to sockets 0 and 4: a mask.
    let frame = raw([2, 0, 0, 0, 0, 0x77], 100);
    let tagged = [&frame[..12], &[0x88, 0x99, 0xa0, 0x11], &frame[12..]].concat();
    pins.bench.put(0, &[&tagged], 0, 0);
    pins.bench.ring(0);
    assert_eq!(pins.bench.sent_on(), [(0, frame.clone()), (4, frame)]);
}

#[test]
fn a_full_frame_behind_a_tag_meets_the_limit_of_plain_mode() {
    // Sheet 2.1 and 8.1: 1514 and the tag are 1518.
    let mut pins = Pins::new(BoardKind::Dir685, "", 21, 22);
    pins.smi_write(0x0061, 0x0020);
    pins.smi_write(0x0000, 0x0010);
    pins.bench.start();
    let frame = raw([2, 0, 0, 0, 0, 0x77], 1514);
    let tagged = [&frame[..12], &[0x88, 0x99, 0xa0, 0x01], &frame[12..]].concat();
    for (bypass, len) in [(0, 1510), (1 << 21, 1514)] {
        pins.bench.put(0, &[&tagged], bypass, 0);
        pins.bench.ring(0);
        let sent = pins.bench.sent_on();
        assert_eq!(sent.len(), 1);
        assert_eq!((sent[0].0, sent[0].1.len()), (0, len));
    }
}

#[test]
fn a_board_keeps_its_cables_through_a_reset() {
    let mut bench = Bench::with(BoardKind::Fixed, "");
    bench.gemini.board_mut().set_cable(1, false);
    bench.gemini.reset();
    assert!(bench.gemini.board_mut().link(0));
    assert!(!bench.gemini.board_mut().link(1));
}

/// A reset by whoever attached the card is none of the cables' affair.
#[test]
fn cables_stay_pulled_over_a_reset() {
    for kind in [BoardKind::Wbd222, BoardKind::Dir685] {
        let mut bench = Bench::with(kind, "");
        bench.gemini.board_mut().set_cable(1, false);
        trireme_vfio::Device::reset(&mut bench.gemini);
        assert!(!bench.gemini.board_mut().link(1), "{kind:?}");
        assert!(bench.gemini.board_mut().link(0));
    }
}

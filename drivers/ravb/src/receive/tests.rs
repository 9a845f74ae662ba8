use super::*;
use crate::ring::tests::{Numbers, ROUNDS};
use trireme_nic::double::TwoMemories;

/// A queue and the card's side of it.
struct Bench {
    dma: TwoMemories,
    queue: Receiver,
    counters: Counters,
    /// Where the card is in the ring.
    at: u32,
    count: u32,
    stride: u32,
}

impl Bench {
    fn new(count: usize, extended: bool, longest: usize) -> Bench {
        let dma = TwoMemories::new(64);
        let queue = Receiver::new(&dma, count, extended, longest).unwrap();
        let stride = if extended { 20 } else { 8 };
        Bench { dma, queue, counters: Counters::default(), at: 0, count: count as u32, stride }
    }

    fn word(&self, bus: u32) -> u32 {
        let mut word = [0; 4];
        self.dma.device_read(bus.into(), &mut word).unwrap();
        u32::from_le_bytes(word)
    }

    /// The card stores bytes and writes this type, with flags.
    fn put(&mut self, kind: u32, flags: u32, bytes: &[u8]) {
        let descriptor = self.queue.ring.bus_address() + self.at * self.stride;
        assert_eq!(self.word(descriptor) >> 28, 0xc, "a buffer is there");
        self.dma.device_write(self.word(descriptor + 4).into(), bytes).unwrap();
        let word = kind << 28 | flags | bytes.len() as u32;
        self.dma.device_write(descriptor.into(), &word.to_le_bytes()).unwrap();
        self.at = (self.at + 1) % self.count;
    }

    /// A frame as a GbEth stores it: over as many descriptors as it takes.
    fn store(&mut self, stored: &[u8]) {
        let pieces: Vec<&[u8]> = stored.chunks(SLOT).collect();
        for (n, piece) in pieces.iter().enumerate() {
            let kind = match (n, pieces.len() - 1) {
                (0, 0) => 7,
                (0, _) => 5,
                (n, last) if n == last => 6,
                _ => 4,
            };
            self.put(kind, 0, piece);
        }
    }

    fn next(&mut self) -> Option<(Vec<u8>, ReceiveChecksum)> {
        let frame = self.queue.next(&self.dma, &mut self.counters)?;
        let seen = (frame.buffer.to_vec(), frame.checksum);
        // Through the number the stack holds.
        let home = Home::unpack(frame.home.pack());
        assert_eq!(home, frame.home);
        self.queue.recycle(&self.dma, frame.buffer, home);
        Some(seen)
    }

    /// All buffers are the card's.
    fn is_whole(&self) -> bool {
        (0..self.count).all(|slot| {
            self.word(self.queue.ring.bus_address() + slot * self.stride) == 0xc000_0800
        }) && self.queue.spares.len() == if self.queue.max_pieces > 1 { SPARES } else { 0 }
    }
}

fn noise(len: usize) -> Vec<u8> {
    (0..len as u32).map(|i| (i.wrapping_mul(2_654_435_761) >> 11) as u8).collect()
}

/// [RV 3.6, hazard]: whatever number of the trailer's bytes lies in the last descriptor, and wherever in
/// the ring the frame begins.
#[test]
fn frames_over_several_descriptors_are_whole_wherever_their_trailer_lies() {
    for start in 0..6 {
        let mut bench = Bench::new(6, false, 0x2004);
        bench.queue.set_trailer(Trailer::Verdict);
        for _ in 0..start {
            bench.store(&noise(64));
            bench.next().unwrap();
        }
        for pieces in 1..=4usize {
            for over in [0, 1, 2, 3, 4, 5, 100] {
                let len = pieces * SLOT - 4 + over;
                if len > 8192 {
                    continue;
                }
                let frame = noise(len);
                bench.store(&[&frame[..], &[0xff, 0xff, 0, 0]].concat());
                let right = ReceiveChecksum::Verified { ip: false, transport: true };
                assert_eq!(bench.next(), Some((frame, right)), "{start} {pieces} {over}");
                assert!(bench.is_whole());
            }
        }
        assert!(bench.counters.rx_linearised < bench.counters.rx_chained);
    }
}

#[test]
fn only_the_end_of_the_ring_costs_a_copy() {
    let mut bench = Bench::new(4, false, 0x2004);
    // Two slots each: the first of each pair at 0 and 2.
    for _ in 0..10 {
        bench.store(&noise(3000));
        assert_eq!(bench.next().unwrap().0, noise(3000));
    }
    assert_eq!((bench.counters.rx_chained, bench.counters.rx_linearised), (10, 0));
    bench.store(&noise(100));
    bench.next().unwrap();
    bench.store(&noise(8000 - 4));
    assert_eq!(bench.next().unwrap().0, noise(7996));
    assert_eq!(bench.counters.rx_linearised, 1);
    assert!(bench.is_whole());
}

/// Frames are counted and trimmed as a whole. [RV E17, E18, E19]
#[test]
fn counters_are_of_frames_not_of_descriptors() {
    let mut bench = Bench::new(8, false, 0x2004);
    bench.queue.set_trailer(Trailer::Verdict);
    bench.store(&noise(7000 + 4));
    bench.next().unwrap();
    assert_eq!((bench.counters.rx_packets, bench.counters.rx_bytes), (1, 7000));
}

/// [RV E24]
#[test]
fn pieces_without_a_beginning_are_dropped_up_to_the_next_beginning() {
    let mut bench = Bench::new(8, false, 0x2004);
    bench.put(4, 0, &noise(SLOT));
    bench.put(6, 0, &noise(50));
    bench.put(7, 0, &noise(60));
    assert_eq!(bench.next().unwrap().0, noise(60));
    bench.put(6, 0, &noise(50));
    bench.put(5, 0, &noise(SLOT));
    bench.put(6, 0, &noise(10));
    assert_eq!(bench.next().unwrap().0.len(), SLOT + 10);
    assert_eq!((bench.counters.rx_missing_pieces, bench.counters.rx_errors), (2, 2));
    assert!(bench.is_whole());
}

#[test]
fn a_beginning_without_an_end_does_not_cost_the_next_frame() {
    for kind in [5, 7] {
        let mut bench = Bench::new(8, false, 0x2004);
        bench.put(5, 0, &noise(SLOT));
        assert_eq!(bench.next(), None, "the rest may yet come");
        bench.put(kind, 0, &noise(SLOT));
        if kind == 5 {
            bench.put(6, 0, &noise(4));
        }
        assert!(bench.next().is_some());
        assert_eq!(bench.counters.rx_missing_pieces, 1);
        assert!(bench.is_whole());
    }
}

#[test]
fn a_frame_without_end_is_given_up_and_the_ring_goes_on() {
    let mut bench = Bench::new(16, false, 0x2004);
    bench.put(5, 0, &noise(SLOT));
    (0..10).for_each(|_| bench.put(4, 0, &noise(SLOT)));
    assert_eq!(bench.next(), None);
    assert!(bench.is_whole());
    bench.put(6, 0, &noise(20));
    bench.put(7, 0, &noise(99));
    assert_eq!(bench.next().unwrap().0, noise(99));
    assert_eq!(bench.counters.rx_length_errors, 1);
}

/// [RV 3.5]: CRC, RFE, RTSF, RTLF, CEEF cost the frame; FRE, CRL and MC do not. Truncation does.
#[test]
fn errors_drop_and_remarks_do_not() {
    for bit in 12..24 {
        let drops = matches!(bit, 12 | 16..=19 | 22);
        for chained in [false, true] {
            let mut bench = Bench::new(4, true, 0x804);
            if chained {
                bench.put(5, 1 << bit, &noise(SLOT));
                bench.put(6, 0, &noise(3));
            } else {
                bench.put(7, 1 << bit, &noise(60));
            }
            assert_eq!(bench.next().is_none(), drops, "bit {bit}");
            assert_eq!(bench.counters.rx_errors, u64::from(drops));
            assert_eq!(bench.counters.rx_multicast, u64::from(bit == 23));
            assert!(bench.is_whole());
            bench.put(7, 0, &noise(61));
            assert_eq!(bench.next().unwrap().0, noise(61));
        }
    }
}

/// [RV E21, E22, E25, E46]
#[test]
fn nonsense_costs_its_slot_for_one_turn_and_no_more() {
    let mut bench = Bench::new(3, false, 0x2004);
    bench.queue.set_trailer(Trailer::Verdict);
    for kind in [0, 1, 2, 3, 8, 9, 0xa, 0xb] {
        bench.put(kind, 0, &noise(100));
        bench.store(&noise(70));
        assert!(bench.next().is_some(), "{kind:x}");
        assert!(bench.is_whole());
    }
    for len in 0..18 {
        bench.put(7, 0, &noise(len));
        assert_eq!(bench.next(), None, "{len} bytes are no frame and its trailer");
        assert!(bench.is_whole());
    }
    // More than the buffer holds.
    bench.put(7, SLOT as u32 + 1, &[]);
    assert_eq!(bench.next(), None);
    bench.put(5, 0xfff, &[]);
    bench.put(6, 0xfff, &[]);
    assert_eq!(bench.next(), None);
    assert!(bench.is_whole());
}

/// [RV 5.1, runtime toggle]
#[test]
fn what_was_stored_before_a_switch_is_read_as_it_was_stored() {
    let mut bench = Bench::new(8, true, 0x804);
    let frame = noise(60);
    let summed = [&frame[..], &[0x12, 0x34]].concat();
    let plain = (frame.clone(), ReceiveChecksum::Unverified);
    let complete = (frame.clone(), ReceiveChecksum::Complete(0x1234));
    for _ in 0..5 {
        bench.store(&frame);
        bench.queue.set_trailer(Trailer::Sum);
        bench.store(&summed);
        bench.store(&summed);
        bench.queue.set_trailer(Trailer::None);
        bench.store(&frame);
        bench.queue.set_trailer(Trailer::Sum);
        bench.store(&summed);
        for expected in [&plain, &complete, &complete, &plain, &complete] {
            assert_eq!(bench.next().as_ref(), Some(expected));
        }
        assert!(bench.next().is_none());
        bench.queue.set_trailer(Trailer::None);
    }
}

#[test]
fn after_a_restart_the_ring_begins_anew_and_buffers_that_are_out_come_home() {
    let mut bench = Bench::new(4, false, 0x2004);
    bench.store(&noise(60));
    let out = bench.queue.next(&bench.dma, &mut bench.counters).unwrap();
    bench.put(5, 0, &noise(SLOT));
    assert!(bench.queue.next(&bench.dma, &mut bench.counters).is_none());
    bench.put(7, 0, &noise(70));
    bench.queue.rewind(&bench.dma);
    bench.at = 0;
    bench.queue.recycle(&bench.dma, out.buffer, out.home);
    assert!(bench.is_whole());
    for len in 60..70 {
        bench.store(&noise(len));
        assert_eq!(bench.next().unwrap().0, noise(len));
    }
}

/// The card writes any word anywhere in the ring, and frames are kept for any time and given back in any order:
/// every buffer comes home to its place, nothing is read beyond one, and `next` ends.
#[test]
fn a_receive_ring_scribbled_over_loses_no_buffer() {
    for (extended, longest, count) in [(true, 0x804, 6), (false, 0x2004, 9)] {
        let mut bench = Bench::new(count, extended, longest);
        let mut numbers = Numbers(u32::from(extended) + 1);
        let ring = bench.queue.ring.bus_address();
        let end = bench.count * bench.stride / 4 + 2;
        let mut kept: Vec<Frame> = Vec::new();
        for round in 0..ROUNDS / 10 {
            for _ in 0..numbers.next() % 4 {
                let slot = numbers.next() % bench.count;
                let kind = [7, 5, 4, 6, 0xc, numbers.next() % 16][numbers.next() as usize % 6];
                let len = [60, SLOT as u32, numbers.next() % 4096][numbers.next() as usize % 3];
                let flags = numbers.next() & if round % 5 == 0 { 0x0fff_f000 } else { 0 };
                let mut word = kind << 28 | flags | len;
                let mut at = ring + slot * bench.stride;
                if numbers.next().is_multiple_of(16) {
                    (at, word) = (ring + 4 * (numbers.next() % end), numbers.next());
                }
                bench.dma.device_write(at.into(), &word.to_le_bytes()).unwrap();
            }
            while let Some(frame) = bench.queue.next(&bench.dma, &mut bench.counters) {
                assert!((MIN_FRAME..=bench.queue.max_pieces * SLOT).contains(&frame.buffer.len()));
                // All of the window is memory that can be read.
                assert!(!frame.buffer.to_vec().is_empty());
                bench.queue.ring.timestamp(numbers.next() as usize % (count + 1));
                kept.push(frame);
                assert!(kept.len() <= count + SPARES);
            }
            for _ in 0..numbers.next() % 3 {
                if !kept.is_empty() {
                    let frame = kept.swap_remove(numbers.next() as usize % kept.len());
                    let home = Home::unpack(frame.home.pack());
                    bench.queue.recycle(&bench.dma, frame.buffer, home);
                }
            }
            match numbers.next() % 64 {
                0 => bench.queue.set_trailer(Trailer::Verdict),
                1 => bench.queue.set_trailer(Trailer::Sum),
                2 => bench.queue.set_trailer(Trailer::None),
                3 => bench.queue.rewind(&bench.dma),
                _ => {}
            }
        }
        for frame in kept {
            bench.queue.recycle(&bench.dma, frame.buffer, frame.home);
        }
        bench.queue.rewind(&bench.dma);
        assert!(bench.is_whole());
        assert_eq!(bench.word(ring + bench.count * bench.stride), 0x9000_0000);
        bench.queue.set_trailer(Trailer::None);
        bench.at = 0;
        for len in 60..90 {
            bench.store(&noise(len));
            assert_eq!(bench.next().unwrap().0, noise(len));
        }
    }
}

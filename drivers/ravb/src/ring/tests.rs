use super::*;
use trireme_nic::double::TwoMemories;

fn device_word(dma: &TwoMemories, bus: u32) -> u32 {
    let mut word = [0; 4];
    dma.device_read(bus.into(), &mut word).unwrap();
    u32::from_le_bytes(word)
}

fn device_set(dma: &TwoMemories, bus: u32, word: u32) {
    dma.device_write(bus.into(), &word.to_le_bytes()).unwrap();
}

fn frame(dma: &TwoMemories, from: usize, len: usize) -> Buffer {
    let mut buffer = Buffer::new(dma.allocate(256, 64).unwrap());
    buffer.set_window(from..from + len);
    buffer.iter_mut().enumerate().for_each(|(n, byte)| *byte = n as u8);
    buffer
}

#[test]
fn receive_descriptors_are_the_documented_ones() {
    for (extended, stride) in [(false, 8), (true, 20)] {
        let dma = TwoMemories::new(64);
        let ring = RxRing::new(&dma, 4, extended).unwrap();
        let at = ring.bus_address();
        for slot in 0..4 {
            // Type FEMPTY in byte 3, length in the low twelve bits; buffers side by side. [RV 3.5]
            assert_eq!(device_word(&dma, at + slot * stride), 0xc000_0800);
            let first = device_word(&dma, at + 4);
            assert_eq!(device_word(&dma, at + slot * stride + 4), first + slot * 2048);
        }
        // The link back has the stride of the others. [RV 3.5]
        assert_eq!(device_word(&dma, at + 4 * stride), 0x9000_0000);
        assert_eq!(device_word(&dma, at + 4 * stride + 4), at);
    }
}

#[test]
fn buffers_come_in_order_and_go_back_in_any() {
    let dma = TwoMemories::new(64);
    let mut ring = RxRing::new(&dma, 4, false).unwrap();
    let at = ring.bus_address();
    assert!(ring.take(&dma).is_none(), "nothing there");
    for round in 0..3 {
        for slot in 0..4 {
            device_set(&dma, at + slot * 8, 0x7000_0000 + 100 + slot + round);
        }
        let mut pieces: Vec<Piece> = std::iter::from_fn(|| ring.take(&dma)).collect();
        let words: Vec<u32> = pieces.iter().map(|piece| piece.word & 0xfff).collect();
        assert_eq!(words, [100, 101, 102, 103].map(|len| len + round));
        // All are out: what their descriptors say is old.
        assert!(!ring.is_ready());
        pieces.swap(0, 2);
        for piece in pieces {
            ring.provide(&dma, piece.slot, piece.buffer);
            assert_eq!(
                device_word(&dma, at + piece.slot as u32 * 8),
                0xc000_0800,
                "length restored"
            );
        }
        assert!(!ring.is_ready());
    }
}

#[test]
fn each_kind_of_empty_is_waited_for_and_everything_else_taken() {
    let dma = TwoMemories::new(64);
    for kind in 0..16u32 {
        let mut ring = RxRing::new(&dma, 2, true).unwrap();
        device_set(&dma, ring.bus_address(), kind << 28 | 60);
        assert_eq!(ring.take(&dma).is_some(), kind < 0xc, "{kind:x}");
    }
}

#[test]
fn timestamps_are_read_as_laid_out() {
    let dma = TwoMemories::new(64);
    let mut ring = RxRing::new(&dma, 2, true).unwrap();
    let at = ring.bus_address();
    assert_eq!(ring.timestamp(0), None, "still the card's");
    device_set(&dma, at + 8, 999_999_999);
    device_set(&dma, at + 12, 0x8765_4321);
    device_set(&dma, at + 16, 0xffff_0012);
    device_set(&dma, at, 0x7000_003c);
    ring.take(&dma).unwrap();
    assert_eq!(ring.timestamp(0), Some((999_999_999, 0x12_8765_4321)));
    assert_eq!(ring.timestamp(7), None);
}

#[test]
fn an_aligned_frame_is_one_descriptor() {
    for aligned in [false, true] {
        let dma = TwoMemories::new(64);
        let mut ring = TxRing::new(&dma, 2, aligned).unwrap();
        let buffer = frame(&dma, 0, 60);
        let bus = buffer.bus_address() as u32;
        ring.provide(&dma, buffer, 0);
        assert_eq!(device_word(&dma, ring.bus_address()), 0x7000_003c);
        assert_eq!(device_word(&dma, ring.bus_address() + 4), bus);
        assert_eq!(
            device_word(&dma, ring.bus_address() + 8) >> 28,
            3,
            "what follows stops the card"
        );
    }
}

#[test]
fn timestamp_request_and_tag_are_where_the_sheet_has_them() {
    // Byte 1 bits 4-7: tag bits 0-3; byte 2: tag bits 4-9, then TSR. [RV 3.5]
    let dma = TwoMemories::new(64);
    let mut ring = TxRing::new(&dma, 2, false).unwrap();
    ring.provide(&dma, frame(&dma, 0, 60), desc::stamped(0x2a5));
    let mut bytes = [0; 4];
    dma.device_read(ring.bus_address().into(), &mut bytes).unwrap();
    assert_eq!(bytes, [60, 0x5 << 4, 1 << 6 | 0x2a, 0x70]);
}

#[test]
fn a_misplaced_frame_is_two_descriptors_and_no_byte_is_lost() {
    let dma = TwoMemories::new(64);
    for from in 0..8 {
        let mut ring = TxRing::new(&dma, 3, true).unwrap();
        let buffer = frame(&dma, from, 61);
        ring.provide(&dma, buffer, 0);
        let at = ring.bus_address();
        let mut sent = Vec::new();
        let mut kinds = Vec::new();
        for slot in 0.. {
            let word = device_word(&dma, at + slot * 8);
            if word >> 28 == 3 {
                break;
            }
            let pointer = device_word(&dma, at + slot * 8 + 4);
            assert_eq!(pointer % 4, 0, "{from}");
            let mut bytes = vec![0; (word & 0xfff) as usize];
            assert!(!bytes.is_empty());
            dma.device_read(pointer.into(), &mut bytes).unwrap();
            sent.extend(bytes);
            kinds.push(word >> 28);
        }
        assert_eq!(sent, (0..61).collect::<Vec<u8>>());
        assert_eq!(kinds, if from % 4 == 0 { vec![7] } else { vec![5, 6] });
        // Not done until both are.
        device_set(&dma, at, 0xc000_0003);
        assert_eq!(ring.take(&dma).is_some(), from % 4 == 0);
        device_set(&dma, at + 8, 0xc000_003a);
        assert_eq!(ring.take(&dma).is_some(), from % 4 != 0);
    }
}

#[test]
fn rewinding_keeps_order_and_bytes() {
    let dma = TwoMemories::new(64);
    let mut ring = TxRing::new(&dma, 3, true).unwrap();
    let at = ring.bus_address();
    // Seven descriptors: the third round's frames wrap.
    for round in 0..3u32 {
        for _ in 0..3 {
            ring.provide(&dma, frame(&dma, 1, 60), 0);
        }
        if round == 2 {
            break;
        }
        (0..7).for_each(|slot| device_set(&dma, at + slot * 8, 0xc000_0000));
        (0..3).for_each(|_| assert!(ring.take(&dma).is_some()));
    }
    ring.rewind();
    let kinds: Vec<u32> = (0..7).map(|slot| device_word(&dma, at + slot * 8) >> 28).collect();
    assert_eq!(kinds, [5, 6, 5, 6, 5, 6, 3]);
    for slot in [0, 2, 4] {
        let mut head = [0; 3];
        dma.device_read(device_word(&dma, at + slot * 8 + 4).into(), &mut head).unwrap();
        assert_eq!(head, [0, 1, 2]);
    }
}

/// Numbers without a pattern, the same each time. [Marsaglia, xorshift32]
pub(crate) struct Numbers(pub(crate) u32);

impl Numbers {
    pub(crate) fn next(&mut self) -> u32 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 17;
        self.0 ^= self.0 << 5;
        self.0
    }
}

/// Rounds, fewer where an interpreter runs them.
pub(crate) const ROUNDS: u32 = if cfg!(miri) { 400 } else { 50_000 };

/// The card writes any word anywhere in the ring, its link included, at any moment: no frame is lost or comes home
/// twice, and a ring begun anew is the one it was.
#[test]
fn a_transmit_ring_scribbled_over_gives_back_every_buffer() {
    for aligned in [false, true] {
        let dma = TwoMemories::new(64);
        let mut numbers = Numbers(7);
        let mut ring = TxRing::new(&dma, 8, aligned).unwrap();
        let at = ring.bus_address();
        let words = ring.memory.len() as u32 / 4;
        let mut free: Vec<Buffer> = (0..8).map(|_| frame(&dma, 0, 200)).collect();
        let all: Vec<u64> = free.iter().map(Buffer::bus_address).collect();
        for _ in 0..ROUNDS {
            match numbers.next() % 8 {
                0..3 => {
                    if let Some(mut buffer) = free.pop() {
                        let from = (numbers.next() % 5) as usize;
                        buffer.set_window(from..from + 1 + (numbers.next() % 190) as usize);
                        ring.provide(&dma, buffer, desc::stamped(numbers.next() as u16));
                        ring.settle();
                    }
                }
                3 => {
                    let word = numbers.next();
                    device_set(&dma, at + 4 * (numbers.next() % words), word);
                }
                4 | 5 => {
                    // As a card does that sends: from the front.
                    if let Some(first) = ring.frames.front().map(|frame| frame.first) {
                        device_set(&dma, at + 8 * first as u32, 0xc000_0000);
                    }
                }
                6 => free.extend(ring.take(&dma)),
                _ if numbers.next().is_multiple_of(8) => {
                    ring.rewind();
                    let link = ring.capacity as u32 * 8;
                    assert_eq!(device_word(&dma, at + link), 0x9000_0000);
                    assert_eq!(device_word(&dma, at + link + 4), at);
                    let kind = |slot: u32| device_word(&dma, at + 8 * slot) >> 28;
                    let used =
                        (0..ring.capacity as u32).take_while(|&slot| kind(slot) != 3).count();
                    let wanted: usize = ring.frames.iter().map(|frame| frame.count).sum();
                    assert_eq!(used, wanted);
                }
                _ => {}
            }
            assert_eq!(free.len() + ring.len(), 8);
        }
        free.extend(std::iter::from_fn(|| ring.drop_oldest(&dma)));
        let mut home: Vec<u64> = free
            .iter_mut()
            .map(|buffer| {
                buffer.set_window(0..1);
                buffer.bus_address()
            })
            .collect();
        home.sort_unstable();
        assert_eq!(home, all);
    }
}

//! The code against the block as docs/hardware/ravb.md 7.4 describes it.

use std::cell::RefCell;
use std::collections::VecDeque;

use super::{Block, Scif};

/// Offsets as the sheet's two columns have them, on purpose not derived from one another.
struct Offsets {
    scscr: usize,
    scftdr: usize,
    scfsr: usize,
    scfrdr: usize,
    scfdr: usize,
    sclsr: usize,
}

const RCAR: Offsets =
    Offsets { scscr: 0x08, scftdr: 0x0c, scfsr: 0x10, scfrdr: 0x14, scfdr: 0x1c, sclsr: 0x24 };
const RZG2L: Offsets =
    Offsets { scscr: 0x04, scftdr: 0x06, scfsr: 0x08, scfrdr: 0x0a, scfdr: 0x0e, sclsr: 0x12 };

const FIFO: usize = 16;

/// The block. Status bits are cleared only by reading them as one and then writing zero; while one of reception's error
/// bits or the overrun stands, nothing more is received.
struct Model {
    offsets: &'static Offsets,
    state: RefCell<State>,
}

#[derive(Default)]
struct State {
    control: u16,
    status: u16,
    /// Status bits that were read as one.
    read: u16,
    overrun: bool,
    transmit: VecDeque<u8>,
    receive: VecDeque<u8>,
    line: Vec<u8>,
    /// Written with the FIFO full.
    lost: u32,
}

impl Model {
    fn new(offsets: &'static Offsets) -> Model {
        let state = State { control: 0x30, status: 0x60, ..State::default() };
        Model { offsets, state: RefCell::new(state) }
    }

    /// A character leaves on the line.
    fn send_one(&self) {
        let mut state = self.state.borrow_mut();
        if let Some(byte) = state.transmit.pop_front() {
            state.line.push(byte);
        }
        if state.transmit.len() < FIFO {
            state.status |= 1 << 5;
        }
        if state.transmit.is_empty() {
            state.status |= 1 << 6;
        }
    }

    /// A character arrives; `error` is a bit of the status besides.
    fn arrive(&self, byte: u8, error: u16) {
        let mut state = self.state.borrow_mut();
        if state.status & (1 << 7 | 1 << 4) != 0 || state.overrun {
            return;
        }
        if state.receive.len() == FIFO {
            state.overrun = true;
            return;
        }
        state.receive.push_back(byte);
        state.status |= error | 1 << 1;
    }
}

impl Block for &Model {
    fn read8(&self, offset: usize) -> u8 {
        assert_eq!(offset, self.offsets.scfrdr, "no register of 8 bits to read");
        self.state.borrow_mut().receive.pop_front().expect("the FIFO is empty")
    }

    fn read16(&self, offset: usize) -> u16 {
        let mut state = self.state.borrow_mut();
        match offset {
            at if at == self.offsets.scscr => state.control,
            at if at == self.offsets.scfsr => {
                state.read |= state.status;
                state.status
            }
            at if at == self.offsets.scfdr => {
                (state.transmit.len() << 8 | state.receive.len()) as u16
            }
            at if at == self.offsets.sclsr => state.overrun.into(),
            other => panic!("no register of 16 bits at {other:#x}"),
        }
    }

    fn write8(&self, offset: usize, value: u8) {
        assert_eq!(offset, self.offsets.scftdr, "no register of 8 bits to write");
        let mut state = self.state.borrow_mut();
        if state.transmit.len() == FIFO {
            state.lost += 1;
            return;
        }
        state.transmit.push_back(value);
    }

    fn write16(&self, offset: usize, value: u16) {
        let mut state = self.state.borrow_mut();
        match offset {
            at if at == self.offsets.scscr => state.control = value,
            at if at == self.offsets.scfsr => {
                let cleared = state.read & !value;
                state.status &= !cleared;
                state.read &= !cleared;
                // What still holds comes back at once.
                if state.transmit.len() < FIFO {
                    state.status |= 1 << 5;
                }
            }
            at if at == self.offsets.sclsr => state.overrun &= value & 1 != 0,
            other => panic!("no register of 16 bits at {other:#x}"),
        }
    }
}

fn each(test: impl Fn(&Model, Scif<&Model>)) {
    for (offsets, shift) in [(&RCAR, 1), (&RZG2L, 0)] {
        let model = Model::new(offsets);
        test(&model, Scif { block: &model, shift });
    }
}

#[test]
fn text_longer_than_the_fifo_leaves_in_order_and_whole() {
    each(|model, scif| {
        let text: Vec<u8> = (0..200).collect();
        for &byte in &text {
            while !scif.has_room() {
                model.send_one();
            }
            scif.put(byte);
        }
        for _ in 0..FIFO {
            model.send_one();
        }
        assert_eq!(model.state.borrow().lost, 0);
        assert_eq!(model.state.borrow().line, text);
    });
}

#[test]
fn input_arrives_and_nothing_is_invented() {
    each(|model, scif| {
        assert_eq!(scif.take(), None);
        for byte in *b"ip addr\r" {
            model.arrive(byte, 0);
        }
        let taken: Vec<u8> = std::iter::from_fn(|| scif.take()).collect();
        assert_eq!(taken, b"ip addr\r");
        assert_eq!(model.state.borrow().status & 3, 0, "data is still announced");
    });
}

#[test]
fn reception_goes_on_after_break_error_and_overrun() {
    each(|model, scif| {
        for error in [1 << 4, 1 << 7, 1 << 7 | 1 << 3, 1 << 7 | 1 << 2] {
            model.arrive(0, error);
            scif.take();
            model.arrive(b'a', 0);
            assert_eq!(scif.take(), Some(b'a'), "stopped by {error:#x}");
            assert_eq!(model.state.borrow().status & error, 0);
        }
        for byte in 0..20 {
            model.arrive(byte, 0);
        }
        assert!(model.state.borrow().overrun);
        assert_eq!(std::iter::from_fn(|| scif.take()).count(), FIFO);
        model.arrive(b'b', 0);
        assert_eq!(scif.take(), Some(b'b'), "stopped by the overrun");
    });
}

#[test]
fn listening_adds_the_receive_interrupt_and_nothing_else() {
    each(|model, scif| {
        scif.listen();
        assert_eq!(model.state.borrow().control, 0x30 | 1 << 6);
    });
}

//! A 16550, as far as a console needs it: set up by the boot loader, polled here.
//!
//! Source: [16550] National PC16550D, 8. Host model only, unverified on silicon.

/// The block's registers, by number.
pub(super) trait Block {
    fn read(&self, register: usize) -> u8;
    fn write(&self, register: usize, value: u8);
}

/// Receiver and transmitter buffer; interrupt enable; line status. [16550 8.0]
const DATA: usize = 0;
const IER: usize = 1;
const LSR: usize = 5;
/// IER: received data available.
const ERBFI: u8 = 1 << 0;
/// LSR: data ready, transmitter holding register empty.
const DR: u8 = 1 << 0;
const THRE: u8 = 1 << 5;

/// One of them.
pub(super) struct Ns16550<B>(pub(super) B);

impl<B: Block> Ns16550<B> {
    /// Whether a byte can be written.
    pub(super) fn has_room(&self) -> bool {
        self.0.read(LSR) & THRE != 0
    }

    /// Writes a byte, for which there is room.
    pub(super) fn put(&self, byte: u8) {
        self.0.write(DATA, byte);
    }

    /// A received byte, if there is one.
    pub(super) fn take(&self) -> Option<u8> {
        (self.0.read(LSR) & DR != 0).then(|| self.0.read(DATA))
    }

    /// Lets it interrupt when something was received.
    pub(super) fn listen(&self) {
        self.0.write(IER, ERBFI);
    }
}

#[cfg(test)]
mod tests {
    use std::cell::{Cell, RefCell};
    use std::collections::VecDeque;

    use super::*;

    /// By [16550 8]: sixteen bytes each way; DLAB is clear, as a boot loader leaves it.
    #[derive(Default)]
    struct Model {
        received: RefCell<VecDeque<u8>>,
        sent: RefCell<Vec<u8>>,
        sending: Cell<bool>,
        enabled: Cell<u8>,
    }

    impl Model {
        /// The interrupt: received data, where that is enabled.
        fn interrupts(&self) -> bool {
            self.enabled.get() & 1 != 0 && !self.received.borrow().is_empty()
        }
    }

    impl Block for &Model {
        fn read(&self, register: usize) -> u8 {
            match register {
                0 => self.received.borrow_mut().pop_front().expect("read of an empty receiver"),
                5 => {
                    u8::from(!self.received.borrow().is_empty())
                        | u8::from(!self.sending.get()) << 5
                }
                other => panic!("read of register {other}"),
            }
        }

        fn write(&self, register: usize, value: u8) {
            match register {
                0 => {
                    assert!(!self.sending.replace(true), "the byte before is lost");
                    self.sent.borrow_mut().push(value);
                }
                1 => self.enabled.set(value),
                other => panic!("write of register {other}"),
            }
        }
    }

    #[test]
    fn bytes_are_sent_when_there_is_room() {
        let model = Model::default();
        let uart = Ns16550(&model);
        for byte in *b"ahoy" {
            assert!(uart.has_room());
            uart.put(byte);
            assert!(!uart.has_room());
            model.sending.set(false);
        }
        assert_eq!(*model.sent.borrow(), b"ahoy");
    }

    #[test]
    fn received_bytes_interrupt_and_are_taken_in_order() {
        let model = Model::default();
        let uart = Ns16550(&model);
        assert_eq!(uart.take(), None);
        model.received.borrow_mut().extend(*b"ls");
        assert!(!model.interrupts());
        uart.listen();
        assert!(model.interrupts());
        assert_eq!([uart.take(), uart.take(), uart.take()], [Some(b'l'), Some(b's'), None]);
        assert!(!model.interrupts());
    }
}

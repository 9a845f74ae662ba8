//! Device registers that a test answers for.

use std::cell::RefCell;

/// What is behind the addresses.
pub(in crate::arch) trait Registers {
    fn read32(&mut self, address: usize) -> u32;
    fn write32(&mut self, address: usize, value: u32);
}

thread_local! {
    static BEHIND: RefCell<Option<Box<dyn Registers>>> = const { RefCell::new(None) };
}

/// Puts a model behind all addresses, for this thread.
pub(in crate::arch) fn install(model: Box<dyn Registers>) {
    BEHIND.with(|behind| *behind.borrow_mut() = Some(model));
}

pub(in crate::arch) fn read32(base: usize, offset: usize) -> u32 {
    BEHIND.with(|behind| behind.borrow_mut().as_mut().expect("a model").read32(base + offset))
}

pub(in crate::arch) fn write32(base: usize, offset: usize, value: u32) {
    BEHIND.with(|behind| {
        behind.borrow_mut().as_mut().expect("a model").write32(base + offset, value);
    });
}
